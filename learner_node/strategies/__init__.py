"""Strategies by name: one line each. `cells` is the default."""

from collections.abc import Callable, Mapping
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
from learner_node.strategies.cells_by_label import CellsByLabel
from learner_node.strategies.paper import PaperOptions, PaperStrategy
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "cells": CellsByLabel,
    "paper-c": lambda **options: PaperStrategy(PaperOptions(**options), cumulative=True),
    "paper-i": lambda **options: PaperStrategy(PaperOptions(**options), cumulative=False),
}
DEFAULT_STRATEGY = "cells"
ANY_LABEL = frozenset({"cells"})
"""Those that take any label; the others take two classes."""


def make_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """A fresh strategy.

    Raises:
        ConfigurationError: no such strategy (with a suggestion), or an option that it does not take.
    """
    make = STRATEGIES.get(name)
    if make is None:
        raise ConfigurationError(f"unknown strategy {name!r}{suggest(name, list(STRATEGIES))}")
    try:
        return make(**options)
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
