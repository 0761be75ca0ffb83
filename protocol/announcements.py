"""Announcements in a proposal's purpose: that a validation will follow, or which earlier study this one validates.

An announcement is the last sentence of the purpose. A steward can read it and a program can find it, and no message
needs a field for it, so a curator of an older version shows it as text. It binds nobody.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from protocol.messages import MOST_PURPOSE, NO_STUDY
from protocol.rationals import MOST, amount

_RATIO = r"[1-9][0-9]{0,9}(?:/[1-9][0-9]{0,9})?"
_NOTICE = re.compile(
    rf"(?:\A|.* )\[expril: (?:a validation follows, of at most epsilon (?P<most>{_RATIO})"
    r"|it validates the model of study (?P<study>[0-9a-f]{32}))\]\Z",
    re.DOTALL,
)
LONGEST = 80
"""Length of the longest announcement in characters, with the space before it; a test checks this."""
MOST_WORDS = MOST_PURPOSE - LONGEST
"""Longest purpose in the learner's own words, in characters, if an announcement is appended to it."""


@dataclass(frozen=True)
class Notice:
    """The announcement in a purpose."""

    most: Fraction | None = None  # the largest epsilon of the validation that will follow; None if none is announced
    study: bytes = NO_STUDY  # this curator's study whose model is validated; `NO_STUDY` if none is named


def announcing(purpose: str, most: Fraction) -> str:
    """The purpose with the announcement that a validation of at most epsilon `most` will follow."""
    return _ended(purpose, f"a validation follows, of at most epsilon {amount(most)}")


def validating(purpose: str, study: bytes) -> str:
    """The purpose with the announcement that the model of `study` is validated."""
    return _ended(purpose, f"it validates the model of study {study.hex()}")


def read_notice(purpose: str) -> Notice:
    """The announcement at the end of a purpose; an empty `Notice` if there is none."""
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
