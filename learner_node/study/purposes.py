"""What the stewards read of a study: the learner's words, and what it announces."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from protocol.announcements import LONGEST, announcing, validating
from protocol.errors import ConfigurationError

MOST_PURPOSE = 1000
"""Longest purpose that fits a proposal, in characters."""
MOST_WORDS = MOST_PURPOSE - LONGEST
"""Longest one of the learner's own, where something is announced."""
Purpose = str | Callable[[str], str]
"""What the stewards read; or, by the name of a curator, what its own does."""


def told(purpose: Purpose, name: str) -> str:
    """What one curator's steward reads."""
    return purpose if isinstance(purpose, str) else purpose(name)


def announced(purpose: str, validation: Fraction | None) -> str:
    """A purpose that says what a validation will cost that is to follow, at most; None: that says nothing of one.

    Raises:
        ConfigurationError: it is too long.
    """
    _check(purpose, MOST_PURPOSE if validation is None else MOST_WORDS)
    return purpose if validation is None else announcing(purpose, validation)


def following(purpose: str, studies: Mapping[str, bytes] | None) -> Purpose:
    """A purpose that says to each curator which of its studies the model is of that is validated.

    Args:
        purpose: in the learner's words.
        studies: curator's name -> the identity there of the study that the model is of; None where it is not known.

    Raises:
        ConfigurationError: it is too long.
    """
    _check(purpose, MOST_PURPOSE if studies is None else MOST_WORDS)
    if studies is None:
        return purpose
    return lambda name: validating(purpose, studies[name]) if name in studies else purpose


def validation_purpose(purpose: str) -> str:
    """For a validation that follows by itself: the study's own, as far as it fits."""
    return f"Validation. {purpose}".strip()[:MOST_WORDS]


def _check(purpose: str, most: int) -> None:
    if len(purpose) > most:
        more = "" if most == MOST_PURPOSE else ", beside what is said there of the validation"
        raise ConfigurationError(f"the purpose has {len(purpose)} characters; at most {most} fit{more}")
