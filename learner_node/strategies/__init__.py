"""Strategies by name. `cells` is the default.

The table holds module paths and loads nothing, so that reading names does not load torch.
"""

import pkgutil
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from learner_node.strategies import options
from learner_node.strategies.options import names_of
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

if TYPE_CHECKING:
    from learner_node.strategies.base import Strategy

HERE = "learner_node.strategies"
STRATEGIES: "dict[str, str | Callable[..., Strategy]]" = {
    "adaptive-cells": f"{HERE}.perspectives:AdaptiveCellsStrategy",
    "additive": f"{HERE}.additive:AdditiveStrategy",
    "cells": f"{HERE}.cells:CellsByLabel",
    "importance": f"{HERE}.importance:ImportanceStrategy",
    "informative": f"{HERE}.perspectives:InformativeStrategy",
    "new-features": f"{HERE}.perspectives:NewFeaturesStrategy",
    "paper-c": f"{HERE}.paper:cumulative",
    "paper-i": f"{HERE}.paper:independent",
    "random-subsets": f"{HERE}.perspectives:RandomSubsetsStrategy",
    "selected-cells": f"{HERE}.cells:SelectedCellsStrategy",
    "site-forest": f"{HERE}.models:ForestStrategy",
    "site-kernel-svm": f"{HERE}.models:KernelSvmStrategy",
    "site-linear": f"{HERE}.models:LinearRegressionStrategy",
    "site-logistic": f"{HERE}.models:LogisticStrategy",
    "site-naive-bayes": f"{HERE}.models:NaiveBayesStrategy",
    "site-svm": f"{HERE}.models:SvmStrategy",
    "varying-bins": f"{HERE}.perspectives:VaryingBinsStrategy",
}
"""Name -> factory of the strategy, as "module:name" or the object itself."""
CHECKS: dict[str, Callable[..., object]] = {
    "adaptive-cells": options.adaptive_cells,
    "additive": options.additive,
    "cells": options.cells,
    "importance": options.importance,
    "informative": options.informative,
    "new-features": options.new_features,
    "paper-c": options.PaperOptions,
    "paper-i": options.PaperOptions,
    "random-subsets": options.random_subsets,
    "selected-cells": options.selected_cells,
    "site-forest": options.site_forest,
    "site-kernel-svm": options.site_kernel_svm,
    "site-linear": options.site_linear,
    "site-logistic": options.site_linear_model,
    "site-naive-bayes": options.site_naive_bayes,
    "site-svm": options.site_linear_model,
    "varying-bins": options.varying_bins,
}
"""Name -> function that checks the options without loading the strategy. Tests compare both. A strategy without an
entry is loaded for the check."""
DEFAULT_STRATEGY = "cells"
ANY_LABEL = frozenset({"cells"})
"""Names of strategies that take any label; the others take two classes."""


def check_name(name: str) -> None:
    """Raise ConfigurationError, with a suggestion, if no strategy has that name."""
    if not isinstance(name, str):
        raise ConfigurationError(f"strategy is a name, such as {DEFAULT_STRATEGY!r}, not {name!r:.60}")
    if name not in STRATEGIES:
        _plug_in(name)


def option_names(name: str) -> list[str]:
    """The options that a strategy takes; "**" if it takes any. Raises ConfigurationError: it does not exist."""
    check_name(name)
    maker = _maker(name)
    return names_of(CHECKS[name] if name in CHECKS and isinstance(maker, str) else _load(maker))


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Check a strategy's options without loading it.

    Raises ConfigurationError: the strategy or an option does not exist, or a value is not allowed.
    """
    _check_names(name, options)
    if name in CHECKS and isinstance(_maker(name), str):
        _called(name, CHECKS[name], options)
    else:
        make_strategy(name, options)


def _check_names(name: str, options: Mapping[str, Any]) -> None:
    names = option_names(name)
    for option in map(str, options):
        if option not in names and "**" not in names:
            raise ConfigurationError(f"strategy {name!r} takes no option {option!r}{suggest(option, names)}")


def make_strategy(name: str, options: Mapping[str, Any]) -> "Strategy":
    """A fresh strategy.

    Raises ConfigurationError: the strategy does not exist, or does not take an option.
    """
    if not isinstance(options, Mapping):
        raise ConfigurationError(f"options are a mapping, such as {{'cells': 40}}, not {type(options).__name__}")
    _check_names(name, options)
    strategy: Strategy = _called(name, _load(_maker(name)), options)
    return strategy


def _maker(name: str) -> "str | Callable[..., Strategy]":
    return STRATEGIES[name] if name in STRATEGIES else _plug_in(name)


@lru_cache(maxsize=64)  # once imported, it stays as it is
def _plug_in(name: str) -> "Callable[..., Strategy]":
    """The strategy of this name that an installed package offers. Raises ConfigurationError: none does."""
    from expril.packages import package_of  # noqa: PLC0415 - most names are in the table, and installed ones are slow
    from protocol.plug_ins import Group  # noqa: PLC0415

    package = package_of(name, Group.STRATEGIES)
    if package is None:
        raise ConfigurationError(f"unknown strategy {name!r}{suggest(name, list(STRATEGIES))}")
    if not package.editable:
        package.secure(fresh=False)
    maker: Callable[..., Strategy] = package.load(Group.STRATEGIES, STRATEGIES)[name]
    if not callable(maker):
        raise ConfigurationError(f"{package.title}: strategy {name!r} must be a class or a function of its options")
    return maker


def _called(name: str, maker: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    try:
        return maker(**options)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"strategy {name!r}: {error}") from None


def _load(maker: str | Callable[..., Any]) -> Callable[..., Any]:
    loaded: Callable[..., Any] = pkgutil.resolve_name(maker) if isinstance(maker, str) else maker
    return loaded
