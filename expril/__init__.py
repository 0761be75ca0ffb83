"""The public Python interface of ExPriL; docs/researcher/python.md describes each name.

A name is loaded when it is first asked for, so `import expril` loads nothing. Names listed here, with their documented
arguments and attributes, keep their meaning until the next minor version, whose CHANGELOG says what changes. Everything
else in these packages may change with any version.
"""

from pkgutil import resolve_name
from typing import Any

NAMES = {
    "ExPriLClassifier": "learner_node.estimator:ExPriLClassifier",
    "ExPriLRegressor": "learner_node.estimator:ExPriLRegressor",
    "SimulatedExPriLClassifier": "simulations.local:SimulatedExPriLClassifier",
    "Federation": "learner_node.study.federation:Federation",
    "direct_federation": "simulations.carriers.direct:direct_federation",
    "FolderCarrier": "learner_node.carriers.folder:FolderCarrier",
    "SuperLinkCarrier": "learner_node.carriers.superlink:SuperLinkCarrier",
    "SuperLinkAddress": "learner_node.carriers.superlink_run:SuperLinkAddress",
    "SigningKey": "protocol.envelopes:SigningKey",
    "Budget": "learner_node.study.budget:Budget",
    "Pooling": "learner_node.study.pooling:Pooling",
    "quote": "simulations.quote_source:quote",
    "validate": "learner_node.questions.validation:validate",
    "analyse": "learner_node.analyses.asking:analyse",
    "select": "learner_node.questions.selection:select",
    "load": "learner_node.models.files:load",
    "create_site": "curator_node.site:create_site",
    "open_site": "curator_node.site:open_site",
    "read_records": "curator_node.records.files:read_records",
    "simulate": "simulations.run:simulate",
    "recompute": "expril.audit.recompute.audit:recompute",
    "Game": "expril.audit.attack.game:Game",
    "ExprilError": "protocol.errors:ExprilError",
}
"""Public name -> "module:attribute"."""
__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(NAMES[name])


def __dir__() -> list[str]:
    return [*globals(), *NAMES]
