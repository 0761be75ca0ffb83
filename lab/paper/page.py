"""The page of a reproduction: what its template shows."""

from expril.report.page import page
from expril.report.table import Cell as Text
from lab.paper import plots, tables, words
from lab.paper.findings import in_order
from lab.paper.model import Reproduction

PACKAGE = "lab.paper"


def build_page(found: Reproduction) -> str:
    """Return the page as one HTML document that loads nothing.

    The same reproduction gives the same text. Every string of it is treated as untrusted and is shown as text.
    """
    table2 = tables.table2(found)
    curves = [curve for curve in found.curves if curve.points]
    curve_sets = in_order(curve.dataset for curve in curves)
    return page(
        PACKAGE,
        kind="ExPriL reproduced",
        subject="Lacombe, Jetley and Sebag: Table 2 and Figure 1 of the full paper",
        headline=words.headline(found),
        summary=words.verdict(found),
        sources=(("Table 2", found.table_provenance), ("Figure 1", found.curves_provenance)),
        settings=tables.settings(found),
        standings={
            side: Text("within two standard errors" if side == "within" else side, tone=side)
            for side in words.STANDING_TITLES
        },
        table2=table2,
        dots=plots.dot_plots(found.table, [group.title for group in table2.groups]),
        epsilons=tables.epsilons(found),
        epsilon_texts=(words.EPSILON_MEANING, words.WHY_NOT_PRIVATE, words.VALID_INSTEAD),
        epsilon_note=words.EPSILON_NOTE,
        tests=tables.tests(found),
        gaps=tables.gaps(found),
        closing=words.CLOSING,
        changes=tables.changes(found),
        one_setting=words.ONE_SETTING,
        figures=plots.curve_figures(curves, curve_sets),
        numbers={dataset: tables.curve_numbers(found, dataset) for dataset in curve_sets},
        keys=plots.curve_keys(curves),
    )
