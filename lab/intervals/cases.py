"""All cases of the study, by name. Each module of cases has those of one sort of analysis."""

from lab.intervals import of_tables
from lab.intervals.case import Case

CASES: dict[str, Case] = {**of_tables.CASES}
