"""Strategies by name: one line each. `cells` is the default."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from learner_node.strategies.base import (
    AnyEstimate,
    AnyModel,
    ClassesEstimate,
    ClassesModel,
    ErrorEstimate,
    Model,
    NumberEstimate,
    NumberModel,
    Problem,
    SourceEstimate,
    Strategy,
    class_probabilities,
)
from learner_node.strategies.bins import InformativeStrategy, RandomSubsetsStrategy, VaryingBinsStrategy
from learner_node.strategies.cells_by_label import BY_LABEL, CellsByLabel
from learner_node.strategies.options import names_of
from learner_node.strategies.paper import PaperOptions, PaperStrategy
from learner_node.strategies.refined import AdaptiveCellsStrategy, NewFeaturesStrategy
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "adaptive-cells": AdaptiveCellsStrategy,
    "cells": CellsByLabel,
    "informative": InformativeStrategy,
    "new-features": NewFeaturesStrategy,
    "paper-c": lambda **options: PaperStrategy(PaperOptions(**options), cumulative=True),
    "paper-i": lambda **options: PaperStrategy(PaperOptions(**options), cumulative=False),
    "random-subsets": RandomSubsetsStrategy,
    "varying-bins": VaryingBinsStrategy,
}
OPTIONS: dict[str, Sequence[Callable[..., object]]] = {
    "cells": tuple(BY_LABEL.values()),
    "paper-c": (PaperOptions,),
    "paper-i": (PaperOptions,),
}
"""What names the options of a strategy where it does not do so itself."""
DEFAULT_STRATEGY = "cells"
ANY_LABEL = frozenset({"cells"})
"""Those that take any label; the others take two classes."""


def make_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """A fresh strategy.

    Raises:
        ConfigurationError: no such strategy (with a suggestion), or an option that it does not take.
    """
    if name not in STRATEGIES:
        raise ConfigurationError(f"unknown strategy {name!r}{suggest(name, list(STRATEGIES))}")
    if not isinstance(options, Mapping):
        raise ConfigurationError(f"options are a mapping, such as {{'cells': 40}}, not {type(options).__name__}")
    known = [option for maker in OPTIONS.get(name, (STRATEGIES[name],)) for option in names_of(maker)]
    for option in map(str, options):
        if option not in known and "**" not in known:
            raise ConfigurationError(f"strategy {name!r} takes no option {option!r}{suggest(option, known)}")
    try:
        return STRATEGIES[name](**options)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"strategy {name!r}: {error}") from None


__all__ = [
    "ANY_LABEL",
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "AnyEstimate",
    "AnyModel",
    "ClassesEstimate",
    "ClassesModel",
    "ErrorEstimate",
    "Model",
    "NumberEstimate",
    "NumberModel",
    "Problem",
    "SourceEstimate",
    "Strategy",
    "class_probabilities",
    "make_strategy",
]
