"""The page of the study of sites: what its template shows."""

from experiments.publish.page import page
from experiments.sites import plots, tables, words
from experiments.sites.model import Found
from experiments.sites.studies import QUESTIONS

PACKAGE = "experiments.sites"


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
