"""The page of the study of sites: what its template shows."""

from expril.report.page import page
from lab.sites import plots, tables, words
from lab.sites.model import Found
from lab.sites.studies import QUESTIONS

PACKAGE = "lab.sites"


def build_page(found: Found) -> str:
    """Return the page as one HTML document that loads nothing; the same study gives the same text."""
    return page(
        PACKAGE,
        kind="ExPriL: secure sums",
        subject="noise and traffic against the number of sites",
        headline=words.headline(found),
        summary=words.summary(found),
        sources=[("Study of sites", found.provenance)],
        settings=None,
        words=words,
        accuracies=tables.accuracies(found),
        figures=plots.accuracy_figures(found),
        ways=(plots.LOCAL_KEY, plots.SECURE_KEY),
        noise=plots.noise_figure(found),
        noise_keys=(plots.MEASURED_KEY, plots.BOUND_KEY),
        noises=tables.noises(found),
        traffic=plots.traffic_figure(found),
        bytes=tables.traffic(found),
        fates=tables.fates(found),
        asked=[(tables.title_of(problem), QUESTIONS[problem].title) for problem in found.problems],
    )
