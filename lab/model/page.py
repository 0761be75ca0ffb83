"""The page of the study of in-site models: what its template shows."""

from expril.report.page import page
from lab.model import plots, tables, words
from lab.model.model import Found

PACKAGE = "lab.model"


def build_page(found: Found) -> str:
    """Return the page as one HTML document that loads nothing; the same study gives the same text."""
    return page(
        PACKAGE,
        kind="ExPriL: in-site models",
        subject="accuracy over epsilon, beside cells",
        headline=words.headline(found),
        summary=words.summary(found),
        sources=[("Study of in-site models", found.provenance)],
        settings=None,
        words=words,
        figures=plots.figures(found),
        ways=plots.keys(),
        classified=tables.classified(found),
        others=tables.others(found),
    )
