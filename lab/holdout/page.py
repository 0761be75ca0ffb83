"""The page of the study of holdouts and its figures as files: what their templates show."""

from collections.abc import Sequence

from expril.report.chart import Figure, Key
from expril.report.page import page
from expril.report.templates import page_template
from lab.holdout import plots, tables, words
from lab.holdout.model import Found

PACKAGE, DRAWING = "lab.holdout", "lab.holdout.drawing"
ACROSS, WIDTH, GAP, HEAD, LEGEND, LEGEND_WIDTH = 3, 380, 36, 26, 30, 270
"""Of the panels of a figure that stands alone: how many are side by side; their width, the space between them, that
above each for its name, and height and width of an entry of the legend, in pixels."""
CURVE_KEYS = (plots.TRAIN_KEY, plots.TEST_KEY, plots.BELIEVED_KEY, plots.FRESH_KEY)


def build_page(found: Found) -> str:
    """Return the page as one HTML document that loads nothing; the same study gives the same text."""
    return page(
        PACKAGE,
        kind="ExPriL: the reusable holdout",
        subject="a blog's experiment, on many data sets and with a holdout that keeps its promise",
        headline=words.headline(found),
        summary=words.summary(found),
        sources=[("Study of holdouts", found.provenance)],
        settings=None,
        words=words,
        claims=tables.claims(found),
        curves=plots.curves(found),
        keys=CURVE_KEYS,
        signals=plots.signal_figure(found),
        signal_keys=plots.signal_keys(found),
        reported=tables.reported(found),
        paid=tables.paid(found),
        cost=tables.cost(found),
        others=tables.settings(found),
    )


def build_curves(found: Found) -> str:
    """The curves as an SVG file, for readers of a repository."""
    return _drawing("Accuracy against the number of variables", plots.curves(found), CURVE_KEYS, "%")


def build_signals(found: Found) -> str:
    """The signals found, likewise."""
    figure = plots.signal_figure(found)
    shown = () if figure is None else (figure,)
    return _drawing("Signal variables found against variables chosen", shown, plots.signal_keys(found), "of 10")


def _drawing(title: str, figures: Sequence[Figure], keys: Sequence[Key], unit: str) -> str:
    across = min(ACROSS, max(1, len(figures)))
    width = WIDTH if len(figures) > 1 else 2 * WIDTH
    down = max((figure.height for figure in figures), default=0) + HEAD + GAP
    per_row = max(1, (across * (width + GAP)) // LEGEND_WIDTH)
    legend = -(-len(keys) // per_row) * LEGEND
    return page_template(DRAWING).render(
        title=title,
        unit=unit,
        width=across * (width + GAP),
        height=-(-len(figures) // across) * down + legend,
        keys=[(key, (n % per_row) * LEGEND_WIDTH, (n // per_row) * LEGEND) for n, key in enumerate(keys)],
        panels=[
            (figure, (n % across) * (width + GAP), legend + (n // across) * down, width)
            for n, figure in enumerate(figures)
        ],
        head=HEAD,
    )
