"""The list of studies by name. `study.py` defines a study. This module loads none of them."""

from collections.abc import Mapping, Sequence
from importlib import import_module
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
    link: str  # to the page of docs that explains it, from the folder of its published results

    @property
    def page(self) -> str:
        """The page as a path: "docs/sites.md"."""
        return f"docs/{self.link.rpartition('/')[2].partition('#')[0]}"


STUDIES = {
    "additive": Entry("lab.additive", "An additive question beside cells", "../strategies.md"),
    "bounds": Entry("lab.bounds", "What bounds the accuracy of cells", "../../bounds.md"),
    "broken": Entry("lab.broken.study", "Which broken mechanisms the game catches", "../broken.md"),
    "comparison": Entry(
        "lab.comparison.study", "Strategies and peers on the same records", "../strategies.md#what-was-measured"
    ),
    "estimates": Entry("lab.estimates", "How often the learners' intervals hold", "../uncertainty.md"),
    "holdout": Entry(
        "lab.holdout.study", "The blog's holdout, on many data sets", "../../holdout.md#a-blogs-experiment-run-again"
    ),
    "importance": Entry(
        "lab.importance", "Importance weights: a second way to weigh the source", "../importance-weights.md"
    ),
    "intervals": Entry("lab.intervals.study", "How often the intervals of published analyses hold", "../intervals.md"),
    "model": Entry(
        "lab.model", "Models that curators fit in site, beside counts of cells", "../../in-site-learning.md"
    ),
    "perspectives": Entry(
        "lab.perspectives", "The strategies of the paper's perspectives against cells", "../strategies.md"
    ),
    "quotes": Entry("lab.quotes", "Quotes against what came true", "../quote.md"),
    "recalibrations": Entry("lab.recalibrations", "What recalibration gains and loses", "../validation.md"),
    "regressions": Entry("lab.regressions", "Which z keeps its star, and what bins leave", "../regression-tables.md"),
    "reproduction": Entry(
        "lab.reproduction.study", "Table 2 and Figure 1 of the paper, made again", "../reproduction.md"
    ),
    "risks": Entry("lab.risks", "Are the risks right?", "../risks.md"),
    "sample": Entry(
        "lab.sample.study",
        "Sampling from mollifier densities, run again",
        "../../integral-privacy.md#the-papers-figures-run-again",
    ),
    "sites": Entry(
        "lab.sites.study",
        "Noise at each site, or one sum over all: accuracy, noise and traffic against the number of sites",
        "../sites.md",
    ),
    "statistic": Entry("lab.statistic", "Private quantiles, method by method", "../statistics.md"),
    "synthetic": Entry("lab.synthetic", "Synthetic data sets: what they are worth", "../../synthetic.md"),
    "validations": Entry("lab.validations", "How often the intervals of a validation hold", "../validation.md"),
    "wide": Entry("lab.wide", "Many attributes of which few carry the signal", "../strategies.md"),
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
