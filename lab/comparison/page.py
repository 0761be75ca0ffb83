"""The page of a comparison: what its template shows."""

from expril.report.page import page
from lab.comparison import plots, tables
from lab.comparison.model import Comparison
from lab.comparison.outcome import INFINITE
from lab.comparison.words import averaged_sentence, headline, verdict

PACKAGE = "lab.comparison"


def build_page(found: Comparison) -> str:
    """Return the page as one HTML document that loads nothing.

    The same comparison gives the same text. Every string of it is treated as untrusted and is shown as text.
    """
    return page(
        PACKAGE,
        kind="ExPriL compared",
        subject="strategies and peers on the same records",
        headline=headline(found),
        summary=verdict(found),
        sources=[("Comparison", found.provenance)],
        settings=None,
        found=found,
        bars=tables.bars(found),
        accuracies=tables.measure_tables(found, tables.accuracy(found)),
        areas=tables.measure_tables(found, tables.auc(found)),
        averaged=averaged_sentence(found),
        differences=tables.difference_tables(found),
        keys=plots.strategy_keys(found),
        figures=plots.epsilon_figures(found),
        epsilon_keys=plots.epsilon_keys(found),
        diagrams=plots.reliability_figures(found),
        claims=plots.claim_figures(found),
        others=tables.other_measures(found),
        infinite=INFINITE,
    )
