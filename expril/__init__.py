"""The names that Python programs take from the package; nothing is loaded before it is asked for.

* `load`: the model of a study, from a file or the folder of a run
"""

from pkgutil import resolve_name
from typing import Any

__all__ = ["load"]

NAMES = {"load": "learner_node.models.files:load"}
"""Name -> "module:attribute"."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(NAMES[name])


def __dir__() -> list[str]:
    return [*globals(), *NAMES]
