"""What a proposal says of another one: that a validation follows it, or that it is the validation of a study before.

It is the end of the purpose, in words that any steward can read and any program can find. So the messages are what they
were, and a curator of an older version shows them as they stand. An announcement binds nobody.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from protocol.messages import NO_STUDY
from protocol.rationals import MOST, amount

_RATIO = r"[1-9][0-9]{0,9}(?:/[1-9][0-9]{0,9})?"
_NOTICE = re.compile(
    rf"(?:\A|.* )\[expril: (?:a validation follows, of at most epsilon (?P<most>{_RATIO})"
    r"|it validates the model of study (?P<study>[0-9a-f]{32}))\]\Z",
    re.DOTALL,
)
LONGEST = 80
"""Characters of the longest notice, with the space before it; a test holds it."""


@dataclass(frozen=True)
class Notice:
    """What is said.

    Attributes:
        most: epsilon of the validation that follows, at most; None where none is announced.
        study: at this curator, whose model is validated; zero where none is.
    """

    most: Fraction | None = None
    study: bytes = NO_STUDY


def announcing(purpose: str, most: Fraction) -> str:
    """A purpose that says that a validation follows."""
    return _ended(purpose, f"a validation follows, of at most epsilon {amount(most)}")


def validating(purpose: str, study: bytes) -> str:
    """A purpose that says whose model is validated."""
    return _ended(purpose, f"it validates the model of study {study.hex()}")


def read_notice(purpose: str) -> Notice:
    """What a purpose says so; nothing where its end is written in any other way."""
    match = _NOTICE.fullmatch(purpose)
    if match is None:
        return Notice()
    if match["study"]:
        return Notice(study=bytes.fromhex(match["study"]))
    most = Fraction(match["most"])
    lawful = amount(most) == match["most"] and max(most.numerator, most.denominator) <= MOST
    return Notice(most) if lawful else Notice()


def _ended(purpose: str, notice: str) -> str:
    return f"{purpose}{' ' if purpose else ''}[expril: {notice}]"
