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
    "sites": ("lab.sites.study:STUDY", "Accuracy, noise and bytes with 1 to 100 sites (docs/sites.md)."),
    "statistic": (
        "lab.statistic.study:STUDY",
        "Private quantiles by every method, against the number of records (docs/statistics.md).",
    ),
    "synthetic": (
        "lab.synthetic.study:STUDY",
        "Synthetic data sets side by side: ours, AIM's, MST's and the real records (docs/synthetic.md).",
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
