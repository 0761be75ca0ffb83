"""The list of studies by name. `study.py` defines a study. This module loads none of them."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from posixpath import relpath
from typing import TYPE_CHECKING, Any, NamedTuple

from expril.report.document import Document, Section
from expril.report.provenance import Provenance
from expril.report.table import Table, Written
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

if TYPE_CHECKING:
    from lab.study import Study


class Entry(NamedTuple):
    """A study's line in the list."""

    module: str  # of its `STUDY`
    headline: str  # what it shows
    explained: str  # the place in docs: "results/sites.md#figures"
    within: str = "results"  # folder of docs that holds the folder of its published results

    @property
    def page(self) -> str:
        """The page as a path: "docs/results/sites.md"."""
        return f"docs/{self.explained.partition('#')[0]}"

    @property
    def link(self) -> str:
        """The place from the folder of the published results: "../sites.md#figures"."""
        return relpath(self.explained, f"{self.within}/study")


STUDIES = {
    "additive": Entry("lab.additive", "An additive question beside cells", "learner/strategies.md"),
    "bounds": Entry("lab.bounds", "What bounds the accuracy of cells", "results/bounds.md", "results/learning"),
    "broken": Entry("lab.broken.study", "Which broken mechanisms the game catches", "results/broken.md"),
    "comparison": Entry(
        "lab.comparison.study", "Strategies and peers on the same records", "learner/strategies.md#what-was-measured"
    ),
    "estimates": Entry("lab.estimates", "How often the learners' intervals hold", "learner/uncertainty.md"),
    "holdout": Entry(
        "lab.holdout.study",
        "The blog's holdout, on many data sets",
        "explanation/holdout.md#a-blogs-experiment-run-again",
        "results/reproduction",
    ),
    "importance": Entry(
        "lab.importance", "Importance weights: a second way to weigh the source", "explanation/importance-weights.md"
    ),
    "intervals": Entry(
        "lab.intervals.study", "How often the intervals of published analyses hold", "results/intervals.md"
    ),
    "model": Entry(
        "lab.model",
        "Models that curators fit in site, beside counts of cells",
        "results/in-site-learning.md",
        "results/in-site",
    ),
    "perspectives": Entry(
        "lab.perspectives", "The strategies of the paper's perspectives against cells", "learner/strategies.md"
    ),
    "quotes": Entry("lab.quotes", "Quotes against what came true", "learner/quote.md"),
    "recalibrations": Entry("lab.recalibrations", "What recalibration gains and loses", "learner/validation.md"),
    "regressions": Entry(
        "lab.regressions", "Which z keeps its star, and what bins leave", "learner/regression-tables.md"
    ),
    "reproduction": Entry(
        "lab.reproduction.study", "Table 2 and Figure 1 of the paper, made again", "results/reproduction.md"
    ),
    "risks": Entry("lab.risks", "Are the risks right?", "results/risks.md"),
    "sample": Entry(
        "lab.sample.study",
        "Sampling from mollifier densities, run again",
        "explanation/integral-privacy.md#the-papers-figures-run-again",
        "results/reproduction",
    ),
    "sites": Entry(
        "lab.sites.study",
        "Noise at each site, or one sum over all: accuracy, noise and traffic against the number of sites",
        "results/sites.md",
    ),
    "statistic": Entry("lab.statistic", "Private quantiles, method by method", "explanation/statistics.md"),
    "synthetic": Entry(
        "lab.synthetic", "Synthetic data sets: what they are worth", "learner/synthetic.md", "results/learning"
    ),
    "validations": Entry("lab.validations", "How often the intervals of a validation hold", "learner/validation.md"),
    "wide": Entry("lab.wide", "Many attributes of which few carry the signal", "learner/strategies.md"),
}
"""By name."""


def load_study(name: str) -> "Study":
    """The study of a name. Raises ConfigurationError: there is none."""
    if name not in STUDIES:
        raise ConfigurationError(f"no study {name!r}{suggest(name, list(STUDIES))}; there are {', '.join(STUDIES)}")
    study: Study = import_module(STUDIES[name].module).STUDY
    return study


def document_of(
    study: str,
    sections: Sequence[Section],
    sources: Mapping[str, Provenance | None] | Provenance | None,
    files: Mapping[str, Table[Any]] | None = None,
    *,
    summary: Sequence[str] = (),
    settings: Written | None = None,
) -> Document:
    """The document of a study.

    `sources` say where its numbers come from, by title where there are several.
    """
    entry = STUDIES[study]
    return Document(
        kind=f"ExPriL: study {study}",
        subject=entry.page,
        headline=entry.headline,
        summary=summary,
        sections=sections,
        note=f"[{entry.page}]({entry.link}) says what they show; report.html has charts.",
        sources=list(sources.items()) if isinstance(sources, Mapping) else [(f"Study {study}", sources)],
        settings=settings,
        files=files or {},
    )
