"""Nouns for what a report's privacy unit and records are, and lists of names in a sentence.

They are apart from `words`, whose texts are for those who know learners and curators: here the readers are people of a
hospital. A column such as "patient_id" is read as patients, and a unit that is not named as records.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from simulations.report.model import RunReport
from simulations.report.words import NAMED

_PERSON = re.compile(r"(?i)patient|person|subject|participant|(?:^|[_ .-])(?:id|mrn|pid|nbr)$")
_WORD = re.compile(r"[a-z]{3,20}")


@dataclass(frozen=True)
class Noun:
    """What is protected, or scored."""

    single: str
    plural: str
    person: bool = False
    protected: str = ""  # a sentence on what the protection covers

    @property
    def person_or_record(self) -> str:
        """What somebody may look for."""
        return self.single if self.person else f"patient’s {self.single}"

    def of(self, many: int) -> str:
        """The form for so many."""
        return self.single if many == 1 else self.plural

    def counted(self, many: int) -> str:
        """So many of it."""
        return f"{many:,} {self.of(many)}"


RECORD = Noun(
    "record", "records", protected="It covers one record: a patient with two records gives away twice as much."
)


def noun_of(report: RunReport) -> Noun:
    """The noun of the privacy unit."""
    units = {curator.private_unit for curator in report.curators}
    unit = next(iter(units)) if len(units) == 1 else "record"
    if unit == "record":
        return RECORD
    single, person = ("patient", True) if _PERSON.search(unit) else (unit, False)
    if not person and not _WORD.fullmatch(unit):
        single = "unit"
    same = "" if single == unit else f", those with the same {quoted(unit)}"
    return Noun(single, f"{single}s", person, f"It covers all records of one {single}{same}.")


def scored_noun(report: RunReport) -> Noun:
    """The noun of what a model is tried on: patients, or else records."""
    noun = noun_of(report)
    return noun if noun.person else RECORD


def quoted(name: str) -> str:
    """A name in quotation marks; "" for none."""
    return f"“{name}”" if name else ""


def series(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c", or the first few and how many more."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
