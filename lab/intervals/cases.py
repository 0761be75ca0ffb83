"""All cases of the study, by name. Each module of cases has those of one sort of analysis.

It is a module of its own so that the study, which counts, knows none of the analyses.
"""

from lab.intervals import of_effects, of_regression, of_tables
from lab.intervals.case import Case

CASES: dict[str, Case] = {**of_effects.CASES, **of_regression.CASES, **of_tables.CASES}
