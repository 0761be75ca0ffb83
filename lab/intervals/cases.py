"""All cases of the study, by name. Each module of cases has those of one sort of analysis.

It is a module of its own so that the study, which counts, knows none of the analyses.
"""

from lab.intervals import of_counts, of_effects, of_regression, of_table_one, of_tables, of_times
from lab.intervals.case import Case

CASES: dict[str, Case] = {
    **of_counts.CASES,
    **of_effects.CASES,
    **of_times.CASES,
    **of_regression.CASES,
    **of_table_one.CASES,
    **of_tables.CASES,
}
