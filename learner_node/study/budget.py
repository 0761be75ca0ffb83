"""What a study may spend at each curator, and what the stewards read of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from protocol.announcements import MOST_WORDS, announcing, validating
from protocol.errors import ConfigurationError
from protocol.messages import MOST_PURPOSE
from protocol.rationals import parse_rational

Purpose = str | Callable[[str], str]
"""The text for all stewards, or a mapping from a curator's name to the text for its steward."""
Amount = Fraction | str | float
"""An epsilon: 1, "1/3", 0.7 (the decimal that it prints as) or a Fraction."""


@dataclass(frozen=True, init=False)
class Budget:
    """What a study may spend at each curator, and what the stewards read of it.

    Args:
        epsilon: to spend at the costliest curator.
        purpose: what the stewards read, in the learner's words.
        validation: largest epsilon of a later validation; the stewards read of both at once.
        validates: in a validation, curator -> identity, at that curator, of the study that gave the model. The stewards
            read whether the validation costs more than that study announced.

    Raises:
        ConfigurationError: an epsilon is no positive rational of at most 32 bits, or the purpose is too long.
    """

    epsilon: Fraction
    purpose: str
    validation: Fraction | None
    validates: Mapping[str, bytes] | None

    def __init__(
        self,
        epsilon: Amount,
        purpose: str = "",
        *,
        validation: Amount | None = None,
        validates: Mapping[str, bytes] | None = None,
    ) -> None:
        announces = validation is not None or validates is not None
        if len(purpose) > (most := MOST_WORDS if announces else MOST_PURPOSE):
            more = ", beside what is said there of the validation" if announces else ""
            raise ConfigurationError(f"the purpose has {len(purpose)} characters; at most {most} fit{more}")
        exact = None if validation is None else parse_rational(validation)
        vars(self).update(epsilon=parse_rational(epsilon), purpose=purpose, validation=exact, validates=validates)

    @property
    def words(self) -> Purpose:
        """The purpose with its announcement of a validation appended."""
        if self.validates is not None:
            return self._validating
        return self.purpose if self.validation is None else announcing(self.purpose, self.validation)

    def following(self, studies: Mapping[str, bytes]) -> "Budget":
        """The budget of the announced validation. `studies` maps each curator to the study's identity there."""
        if self.validation is None:
            raise TypeError("no validation was announced")
        return Budget(self.validation, f"Validation. {self.purpose}".strip()[:MOST_WORDS], validates=studies)

    def _validating(self, name: str) -> str:
        studies = self.validates or {}
        return validating(self.purpose, studies[name]) if name in studies else self.purpose


def words_for(purpose: Purpose, name: str) -> str:
    """The purpose that one curator's steward reads."""
    return purpose if isinstance(purpose, str) else purpose(name)
