"""The studies by name. Nothing of them is loaded here."""

import pkgutil
from typing import TYPE_CHECKING

from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

if TYPE_CHECKING:
    from simulations.campaign.study import Study

STUDIES = {
    "bounds": (
        "lab.bounds.study:STUDY",
        "What bounds the accuracy of `cells`: one thing at a time made ideal (docs/bounds.md).",
    ),
    "comparison": (
        "lab.comparison.study:STUDY",
        "Every strategy and every peer on the same records at the same epsilon (docs/strategies.md).",
    ),
    "holdout": (
        "lab.holdout.study:STUDY",
        "A blog's experiment on Thresholdout, on many data sets, and with a valid holdout (docs/holdout.md).",
    ),
    "model": (
        "lab.model.study:STUDY",
        "Every model that curators fit in site, beside cells (docs/in-site-learning.md).",
    ),
    "reproduction": (
        "lab.paper.study:STUDY",
        "The paper's Table 2 and Figure 1, made again (docs/reproduction.md).",
    ),
    "sample": (
        "lab.sample.study:STUDY",
        "Figures of the MBDE paper: sampling under integral privacy (docs/integral-privacy.md).",
    ),
    "sites": ("lab.sites.study:STUDY", "Accuracy, noise and bytes with 1 to 100 sites (docs/sites.md)."),
    "statistic": (
        "lab.statistic.study:STUDY",
        "Private quantiles by every method, against the number of records (docs/statistics.md).",
    ),
    "synthetic": (
        "lab.synthetic.study:STUDY",
        "Our synthetic data beside AIM's and MST's, on the same records at the same epsilon (docs/synthetic.md).",
    ),
}
"""Name -> its `Study`, as "module:attribute", and what it is."""


def load_study(name: str) -> "Study":
    """The study of a name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in STUDIES:
        raise ConfigurationError(f"no study {name!r}{suggest(name, list(STUDIES))}; there are {', '.join(STUDIES)}")
    study: Study = pkgutil.resolve_name(STUDIES[name][0])
    return study
