"""The studies by name. Nothing of them is loaded here."""

from importlib import import_module
from typing import TYPE_CHECKING

from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

if TYPE_CHECKING:
    from simulations.campaign.study import Study

STUDIES = {
    "additive": ("lab.additive", "An additive question beside cells (docs/strategies.md)."),
    "bounds": (
        "lab.bounds.study",
        "What bounds the accuracy of `cells`: one thing at a time made ideal (docs/bounds.md).",
    ),
    "comparison": (
        "lab.comparison.study",
        "Every strategy and every peer on the same records at the same epsilon (docs/strategies.md).",
    ),
    "estimates": ("lab.estimates", "How often the learners' intervals of accuracy and AUC hold (docs/uncertainty.md)."),
    "holdout": (
        "lab.holdout.study",
        "A blog's experiment on Thresholdout, beside a holdout that is valid (docs/holdout.md).",
    ),
    "importance": (
        "lab.importance",
        "Importance weights beside the least squares of Eq. 2 (docs/importance-weights.md).",
    ),
    "model": ("lab.model.study", "Every model that curators fit in site, beside cells (docs/in-site-learning.md)."),
    "perspectives": (
        "lab.perspectives",
        "The strategies of the paper's perspectives against cells (docs/strategies.md).",
    ),
    "quotes": ("lab.quotes", "What a quote foretells of cells, and what came true (docs/quote.md)."),
    "recalibrations": (
        "lab.recalibrations",
        "What recalibration gains where risks are wrong, or right (docs/validation.md).",
    ),
    "reproduction": ("lab.paper.study", "The paper's Table 2 and Figure 1, made again (docs/reproduction.md)."),
    "risks": ("lab.risks.study", "How right the stated risks are, of populations that are known (docs/risks.md)."),
    "sample": (
        "lab.sample.study",
        "Figures of the MBDE paper: sampling under integral privacy (docs/integral-privacy.md).",
    ),
    "sites": ("lab.sites.study", "Accuracy, noise and bytes with 1 to 100 sites (docs/sites.md)."),
    "statistic": (
        "lab.statistic.study",
        "Private quantiles by every method, against the number of records (docs/statistics.md).",
    ),
    "synthetic": (
        "lab.synthetic.study",
        "Our synthetic data beside AIM's and MST's, on the same records (docs/synthetic.md).",
    ),
    "validations": ("lab.validations", "How often the intervals of a validation hold (docs/validation.md)."),
    "wide": ("lab.wide", "Many attributes of which ten carry the signal (docs/strategies.md)."),
}
"""Name -> the module of its `STUDY`, and what it shows."""


def load_study(name: str) -> "Study":
    """The study of a name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in STUDIES:
        raise ConfigurationError(f"no study {name!r}{suggest(name, list(STUDIES))}; there are {', '.join(STUDIES)}")
    study: Study = import_module(STUDIES[name][0]).STUDY
    return study
