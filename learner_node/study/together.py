"""How the counts of a study are pooled, and which curators can be pooled so, by their cards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from learner_node.kinds.counts import allowed_by, limits_of
from learner_node.study.pooling import POOLINGS, SECURE, SecurePool, check_pooling
from protocol.kinds.counts import COUNTS, CountsLimits
from protocol.kinds.secure_counts import SECURE_COUNTS, SecureCountsLimits
from protocol.messages import Card


@dataclass(frozen=True)
class Together:
    """How counts are pooled.

    Attributes:
        pooling, colluders, dropouts: as in `learner_node.study.learn.learn`.

    Raises:
        ConfigurationError: there is no such pooling, or colluders or dropouts of answers that are not summed securely.
    """

    pooling: str
    colluders: int | None = None
    dropouts: int | None = None

    def __post_init__(self) -> None:
        check_pooling(self.pooling, self.colluders, self.dropouts)

    def changed(self, pooling: str, colluders: int | None, dropouts: int | None) -> Self:
        """With what is given instead; "" and None stand for what is there, of the same pooling."""
        same = pooling in ("", self.pooling)
        return replace(
            self,
            pooling=self.pooling if same else pooling,
            colluders=self.colluders if same and colluders is None else colluders,
            dropouts=self.dropouts if same and dropouts is None else dropouts,
        )

    @property
    def secure(self) -> bool:
        """Whether only a sum is opened."""
        return self.pooling == SECURE

    def groups(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Names of curators -> for each model, under its key, those whose answers are added up for it."""
        return POOLINGS[self.pooling](names)

    @property
    def kind(self) -> str:
        """The query kind by which counts are asked."""
        return SECURE_COUNTS.name if self.secure else COUNTS.name

    def limits(self, card: Card) -> CountsLimits:
        """What a curator limits of the counts that are asked; the defaults where it allows none."""
        return limits_of(card, self.kind)

    def pool(self, cards: Mapping[str, Card]) -> SecurePool | None:
        """The curators with these cards, where they sum securely; each policy's fewest colluders are kept to.

        Raises:
            ConfigurationError: they are too few.
        """
        if not self.secure:
            return None
        allowed = [limits for card in cards.values() if (limits := secure_limits(card)) is not None]
        return SecurePool.of(
            (card.sender for card in cards.values()),
            colluders=self.colluders,
            dropouts=self.dropouts,
            least_colluders=max((limits.least_colluders for limits in allowed), default=1),
        )

    def strangers(self, cards: Mapping[str, Card]) -> dict[str, str]:
        """Curators that cannot be pooled with the others -> why not."""
        return strangers(cards, self.dropouts or 0) if self.secure else {}


def secure_limits(card: Card) -> SecureCountsLimits | None:
    """What a curator limits of secure sums; None where it allows none."""
    limits = allowed_by(card, SECURE_COUNTS.name)
    return limits if isinstance(limits, SecureCountsLimits) else None


def strangers(cards: Mapping[str, Card], dropouts: int = 0) -> dict[str, str]:
    """Which curators do not all sum with each other, by their cards -> why not; the others do.

    Every curator's policy lists the members it sums with. As long as there is a pair of whom one does not list the
    other, the curator in most such pairs is left out; of equals the last. Then whoever asks for more colluders than so
    many curators can assume is left out: its card must not keep the others from summing.

    Args:
        cards: by name.
        dropouts: that are to be tolerated.
    """
    reasons = {}
    keys, listed, least = {}, {}, {}
    for name, card in cards.items():
        limits = secure_limits(card)
        if limits is None:
            reasons[name] = "its policy allows no secure sums"
        else:
            keys[name], listed[name] = card.sender.hex(), set(limits.members)
            least[name] = limits.least_colluders
    while True:
        broken = {
            name: [
                other
                for other in listed
                if other != name and (keys[other] not in listed[name] or keys[name] not in listed[other])
            ]
            for name in listed
        }
        most = max(map(len, broken.values()), default=0)
        if not most:
            break
        worst = [name for name, others in broken.items() if len(others) == most][-1]
        others = ", ".join(broken[worst][:5])
        reasons[worst] = f"it and {others} do not list each other as members of a secure sum"
        del listed[worst]
    while wary := [name for name in listed if least[name] > max(len(listed) - 1 - 2 * dropouts, 1)]:
        worst = max(wary, key=least.__getitem__)
        reasons[worst] = f"its policy asks to assume {least[worst]} colluders, too many among {len(listed)} curators"
        del listed[worst]
    return reasons
