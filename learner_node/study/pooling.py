"""How answers of several curators become models: added up ("sum"), one for each curator ("site"), or opened as a sum.

In a secure sum ("secure") nobody sees a summand, and all curators together add about as much noise as one would.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from protocol.errors import ConfigurationError
from protocol.secure_sum.group import complaint_about

PoolingName = Literal["sum", "site", "secure"]
POOLED = ""
"""Key of the model of all curators together."""
SUM: Final = "sum"
SITE: Final = "site"
SECURE: Final = "secure"
POOLINGS = (SUM, SITE, SECURE)
SITES_PER_COLLUDER, SITES_PER_DROPOUT = 10, 5


@dataclass(frozen=True)
class Pooling:
    """How answers become models.

    Args:
        method: "sum": one model from summed answers; "site": one model per curator; "secure": one model from sums that
            curators open together, each with about the noise of one curator.
        colluders: with "secure", largest number of curators that are assumed to tell the learner all they know.
        dropouts: with "secure", number of curators that may fall silent within a query. Where either is None, it
            follows from the number of curators (`SecurePool.of`).

    Raises:
        ConfigurationError: there is no such method, or colluders or dropouts are given for answers that are not summed
            securely.
    """

    method: PoolingName = SUM
    colluders: int | None = None
    dropouts: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in POOLINGS:
            raise ConfigurationError(f"pooling must be one of {', '.join(POOLINGS)}, not {self.method!r}")
        for name, value, least in (("colluders", self.colluders, 1), ("dropouts", self.dropouts, 0)):
            if value is None:
                continue
            if not self.secure:
                raise ConfigurationError(f'{name} = {value} needs pooling = "{SECURE}"; pooling is "{self.method}"')
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"{name} must be a whole number from {least} on, not {value!r}")

    def changed(self, method: str, colluders: int | None, dropouts: int | None) -> Self:
        """A copy with the given values; "" and None keep the present ones if the method stays the same."""
        same = method in ("", self.method)
        return replace(
            self,
            method=method or self.method,  # type: ignore[arg-type]
            colluders=self.colluders if same and colluders is None else colluders,
            dropouts=self.dropouts if same and dropouts is None else dropouts,
        )

    @property
    def secure(self) -> bool:
        """Whether curators open only their sum."""
        return self.method == SECURE

    def groups(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Key of each model -> names of the curators whose answers are added up for it."""
        return {name: [name] for name in names} if self.method == SITE else {POOLED: list(names)}


SUMMED = Pooling()


@dataclass(frozen=True)
class SecurePool:
    """The participants of a secure sum, and how many colluders and dropouts it tolerates.

    Raises ConfigurationError if these break a rule; the text names the rule.
    """

    participants: tuple[bytes, ...]
    colluders: int
    dropouts: int

    def __post_init__(self) -> None:
        if complaint := complaint_about(self.participants, self.colluders, self.dropouts):
            raise ConfigurationError(
                f"{len(self.participants)} curators cannot sum securely with colluders = {self.colluders} and "
                f'dropouts = {self.dropouts}: a secure sum needs {complaint}; change these numbers, or pool by "sum"'
            )

    @property
    def shares(self) -> int:
        """Number h of noise shares that add up to one full noise; each curator adds one share."""
        return len(self.participants) - self.colluders - self.dropouts

    @classmethod
    def of(
        cls,
        participants: Iterable[bytes],
        *,
        colluders: int | None = None,
        dropouts: int | None = None,
        least_colluders: int = 1,
    ) -> "SecurePool":
        """Make a pool; `usual_pool` chooses t and u where they are None.

        Args:
            participants: identity keys.
            colluders: t.
            dropouts: u.
            least_colluders: the largest minimum of t among the curators' policies.

        Raises:
            ConfigurationError: the pool would break a rule, which the text names.
        """
        keys = tuple(sorted(participants))
        return cls(keys, *usual_pool(len(keys), colluders, dropouts, least_colluders))


def usual_pool(
    sites: int, colluders: int | None = None, dropouts: int | None = None, least_colluders: int = 1
) -> tuple[int, int]:
    """Choose the defaults for t colluders and u dropouts among so many curators; values that are given stay.

    t is 1 for up to 9 curators and one more for every ten: a tenth may collude with the learner. u is a fifth of them.
    With n curators and h = n - t - u, the noise variance is n / h times that of one curator, so it is then at most
    doubled. With up to 4 curators u is 0, since tolerating one dropout would cost as much noise as having one curator
    less.
    """
    t = max(1 + sites // SITES_PER_COLLUDER, least_colluders) if colluders is None else colluders
    return t, max(0, min(sites // SITES_PER_DROPOUT, (sites - t - 1) // 2)) if dropouts is None else dropouts
