"""How answers of several curators become models: added up to one ("sum"), or one for each curator ("site")."""

from collections.abc import Callable, Iterable
from typing import Literal

Pooling = Literal["sum", "site"]
POOLED = ""
"""Key of the model of all curators together."""
POOLINGS: dict[Pooling, Callable[[Iterable[str]], dict[str, list[str]]]] = {
    "sum": lambda names: {POOLED: list(names)},
    "site": lambda names: {name: [name] for name in names},
}
"""Names of curators -> for each model, under its key, those whose answers are added up for it."""
