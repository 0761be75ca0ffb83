"""The page of the study of in-site models: what its template shows."""

from experiments.insite import plots, tables, words
from experiments.insite.model import Found
from experiments.publish.page import page

PACKAGE = "experiments.insite"


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
