"""The studies by name. Nothing of them is loaded here."""

import pkgutil
from typing import TYPE_CHECKING

from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

if TYPE_CHECKING:
    from simulations.campaign.study import Study

STUDIES = {
    "additive": ("lab.additive:STUDY", "An additive question beside cells (docs/strategies.md)."),
    "estimates": (
        "lab.estimates:STUDY",
        "How often the learners' intervals of accuracy and AUC hold (docs/uncertainty.md).",
    ),
    "importance": (
        "lab.importance:STUDY",
        "Importance weights beside the least squares of Eq. 2 (docs/importance-weights.md).",
    ),
    "perspectives": (
        "lab.perspectives:STUDY",
        "The strategies of the paper's perspectives against cells (docs/strategies.md).",
    ),
    "quotes": ("lab.quotes:STUDY", "What a quote foretells of cells, and what came true (docs/quote.md)."),
    "recalibrations": (
        "lab.recalibrations:STUDY",
        "What recalibration gains where risks are wrong, and loses where they are right (docs/validation.md).",
    ),
    "risks": (
        "lab.risks.study:STUDY",
        "How right the stated risks are, of populations that are known (docs/risks.md).",
    ),
    "sites": ("lab.sites.study:STUDY", "Accuracy, noise and bytes with 1 to 100 sites (docs/sites.md)."),
    "statistic": (
        "lab.statistic.study:STUDY",
        "Private quantiles by every method, against the number of records (docs/statistics.md).",
    ),
    "validations": ("lab.validations:STUDY", "How often the intervals of a validation hold (docs/validation.md)."),
    "wide": ("lab.wide:STUDY", "Many attributes of which ten carry the signal (docs/strategies.md)."),
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
