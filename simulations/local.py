"""A scikit-learn classifier over curators simulated in this process, to try a study on one's own records.

Curators, signatures, ledgers and noise are real; envelopes are passed in memory, without Flower.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import Site, temporary_site
from expril.packages import offering
from learner_node.estimator import ExPriLClassifier
from learner_node.models.source import as_frame
from learner_node.strategies import ANY_LABEL, DEFAULT_STRATEGY, STRATEGIES
from learner_node.study.doubts import StudyWarning
from learner_node.study.federation import Federation
from learner_node.study.pooling import SECURE, SUM, PoolingName
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS
from protocol.limits import Limits
from protocol.plug_ins import Group
from protocol.rationals import parse_rational
from protocol.records import Records
from protocol.schema import MOST_CLASSES, Attribute, CategoricalAttribute, NumericAttribute, Schema
from simulations.carriers.direct import direct_federation
from simulations.carriers.sites import with_members
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.paper_ratio import PrintedCountsLimits
from simulations.seeded_noise import SeededNoise

LEARNER = "learner"
NO_BOUNDS = (-1e6, 1e6)
"""Bounds of numeric attributes if none are stated."""
UNBOUNDED = (
    f"bounds is left out, so each number is taken to lie between {NO_BOUNDS[0]:g} and {NO_BOUNDS[1]:g}, and any beyond "
    "is moved to the nearer of these. A curator's card states bounds of its own; state what is known of the field, to "
    "learn what a study with them would give: bounds=(0, 120), or bounds={'age': (0, 120), ...}"
)
CACHE_BYTES = 64 * 1024 * 1024

Bounds = tuple[float, float]


class SimulatedExPriLClassifier(ExPriLClassifier):
    """ExPriL on records of one's own, to learn what a study would give.

    **This is a simulation.** `fit(X, y)` plays both sides: the labelled records become the private records of
    `n_curators` simulated curators (split at random), and the same records without labels become the learner's
    source. The source thus overlaps the private records, so the result shows *accuracy*; it is no privacy guarantee
    for `X`. The labels alone pass through the private mechanism.

    Args:
        strategy, options, epsilon, pooling, colluders, dropouts, large_epsilon, random_state: as in `ExPriLClassifier`;
            `random_state` also splits the records.
        n_curators: number of simulated curators.
        bounds: (lower, upper) of every number, or a mapping from each numeric column (x0, x1, ... of an array) to its
            own. They would be on a curator's card, hence public: state them from knowledge of the field, not from these
            records. Values outside move to the nearer bound. None takes -1e6 to 1e6 for every number, and warns.
        levels: column -> its levels, for columns that hold categories; as public as bounds.
        source_fraction: share of the records that the learner holds, without labels.
        noise_seed: None takes exact noise from the operating system. A number makes fits repeatable and
            **not private**: it is for tests, and the curators' signatures say so.

    Attributes:
        classes_: (C,) the labels of `y`, sorted; the others as in `ExPriLClassifier`.
    """

    def __init__(  # noqa: PLR0913 - each is stated alone
        self,
        *,
        strategy: str = DEFAULT_STRATEGY,
        options: Mapping[str, Any] | None = None,
        epsilon: float | str | Fraction = 1,
        pooling: PoolingName = SUM,
        colluders: int | None = None,
        dropouts: int | None = None,
        large_epsilon: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_curators: int = 1,
        bounds: Bounds | Mapping[str, Bounds] | None = None,
        levels: Mapping[str, Sequence[str]] | None = None,
        source_fraction: float = 1.0,
        noise_seed: int | None = None,
    ) -> None:
        super().__init__(
            None,
            strategy=strategy,
            options=options,
            epsilon=epsilon,
            pooling=pooling,
            colluders=colluders,
            dropouts=dropouts,
            large_epsilon=large_epsilon,
            random_state=random_state,
        )
        self.n_curators = n_curators
        self.bounds = bounds
        self.levels = levels
        self.source_fraction = source_fraction
        self.noise_seed = noise_seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Simulate one study.

        Args:
            X: records: a 2-d array of numbers (NaN is missing), or a table with column names.
            y: (n,) labels of two classes, or of up to 256 with strategy "cells".

        Raises:
            ValueError: scikit-learn rejects `X` or `y`.
            ConfigurationError: a parameter is wrong, or the columns do not fit `bounds` and `levels`.
            NoCuratorError: no simulated curator answered.

        Warns:
            StudyWarning: numbers have no `bounds`, or `StudyEstimator.fit` warns.
        """
        named = hasattr(X, "columns")
        values = self._validated(X, reset=True)
        labels, classes = self._checked_labels(values, y)
        columns = list(map(str, values.columns)) if named else [f"x{i}" for i in range(values.shape[1])]
        schema = self._schema(columns, len(classes))
        if self.bounds is None and any(isinstance(attribute, NumericAttribute) for attribute in schema.attributes):
            warnings.warn(UNBOUNDED, StudyWarning, stacklevel=2)
        frame = as_frame(values, schema)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        rows = self._source_rows(frame.height, rng)
        source = frame if len(rows) == frame.height else frame[rows]
        self._fit(self._federate(frame, labels, schema, rng, len(rows)), source)
        self.classes_ = classes
        if not named or not all(isinstance(name, str) for name in values.columns):  # as scikit-learn's own
            del self.feature_names_in_
        return self

    def _checked_labels(self, X: Any, y: Any) -> tuple[NDArray[np.intp], NDArray[np.generic]]:
        if y is None:
            raise ValueError("This classifier requires y to be passed, but the target y is None.")
        target = column_or_1d(y, warn=True)
        assert_all_finite(target, input_name="y")
        check_classification_targets(target)
        kind = type_of_target(target, input_name="y", raise_unknown=True)
        if kind != "binary" and self.strategy not in ANY_LABEL:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        check_consistent_length(X, target)
        classes, labels = np.unique(target, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"two classes are needed; y holds only one class: {classes[0]!r}")
        if len(classes) > MOST_CLASSES:
            raise ValueError(f"at most {MOST_CLASSES} classes are possible; y holds {len(classes)}")
        return labels, classes

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """Apply scikit-learn's checks to numbers of a 2-d array, or to a table's column names."""
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        return validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1
        )

    def _records(self, X: Any) -> Records:
        return super()._records(self._validated(X, reset=False))

    def _schema(self, names: list[str], classes: int) -> Schema:
        levels = self._checked_levels()
        strangers = [name for name in levels if name not in names]
        if strangers:
            raise ConfigurationError(f"levels are given for unknown column(s) {', '.join(map(repr, strangers))}")
        attributes: list[Attribute] = []
        for name in names:
            if name in levels:
                attributes.append(CategoricalAttribute(name, levels[name]))
                continue
            attributes.append(NumericAttribute(name, *self._bounds_of(name)))
        label = "label"
        while label in names:
            label += "_"
        # Names on the simulated cards; `classes_` holds the user's own.
        return Schema(attributes=tuple(attributes), label=label, classes=tuple(map(str, range(classes))))

    def _checked_levels(self) -> dict[str, tuple[str, ...]]:
        if not isinstance(self.levels, Mapping | None):
            raise ConfigurationError(f"levels are a mapping, such as {{'sex': ['f', 'm']}}, not {self.levels!r:.60}")
        levels = {}
        for name, value in (self.levels or {}).items():
            if isinstance(value, str) or not isinstance(value, Iterable) or not (texts := tuple(map(str, value))):
                raise ConfigurationError(f"levels of {name!r} must be a list, such as ['f', 'm'], not {value!r:.60}")
            levels[name] = texts
        return levels

    def _bounds_of(self, name: str) -> Bounds:
        if self.bounds is None:
            return NO_BOUNDS
        bounds = self.bounds.get(name) if isinstance(self.bounds, Mapping) else self.bounds
        if bounds is None:
            raise ConfigurationError(
                f"column {name!r} has neither bounds nor levels; say bounds={{{name!r}: (0, 120)}}"
            )
        try:
            lower, upper = map(float, bounds)
            NumericAttribute(name, lower, upper)
        except (TypeError, ValueError, OverflowError):
            raise ConfigurationError(
                f"bounds of {name!r} must be two numbers, the lower one first, such as (0, 120), not {bounds!r:.60}; "
                f"of columns that differ, bounds are a mapping: {{{name!r}: (0, 120), ...}}"
            ) from None
        return lower, upper

    def _source_rows(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
        if not isinstance(self.source_fraction, int | float) or not 0 < self.source_fraction <= 1:
            raise ConfigurationError(f"source_fraction must be above 0 and at most 1, not {self.source_fraction!r:.60}")
        size = min(n, max(2, round(n * self.source_fraction)))
        return np.sort(rng.permutation(n)[:size])

    def _federate(
        self,
        frame: pl.DataFrame,
        labels: NDArray[np.intp],
        schema: Schema,
        rng: np.random.Generator,
        source_size: int,
    ) -> Federation:
        """Curators over a random split, each with a key, an empty ledger and room for exactly this study."""
        if not isinstance(self.n_curators, int | np.integer) or not 1 <= self.n_curators <= frame.height:
            raise ConfigurationError(
                f"n_curators must be a whole number from 1 to the number of records, not {self.n_curators!r:.60}"
            )
        names = np.array(schema.classes)
        learner = SigningKey.generate()
        epsilon = parse_rational(self.epsilon)
        sites: dict[str, Site] = {}
        # What the learner can say of each site, from the size of its own source and the fraction that its user stated.
        share = max(1, round(source_size / self.source_fraction / self.n_curators))
        keys = [SigningKey.generate() for _ in range(self.n_curators)]
        members = tuple(key.public.hex() for key in keys) if self.pooling == SECURE else ()
        allowed: dict[str, dict[str, Any]] = {
            name: {} for name, kind in QUERY_KINDS.items() if kind.private(kind.limits())
        }
        limits = Limits(
            kinds={COUNTS.name: {"release_kinds": list(PrintedCountsLimits.installed)}} if self._printed else allowed
        )
        for key, lot in zip(keys, np.array_split(rng.permutation(frame.height), self.n_curators), strict=True):
            rows = np.sort(lot)
            name = f"curator {len(sites) + 1}"
            policy = Policy(
                name=name,
                cap=str(epsilon),
                learners=(LearnerPolicy(name=LEARNER, key=learner.public.hex(), cap=str(epsilon)),),
                limits=with_members(limits, members),
                least_cost=str(min(epsilon, Fraction(1, 1000))),
                cache_bytes=CACHE_BYTES,
                plug_ins=() if self.strategy in STRATEGIES else offering([self.strategy], Group.STRATEGIES),
                simulation=True,
            )
            steward = SchemaFile(
                label=schema.label, classes=schema.classes, attributes=schema.attributes, round_size=share
            )
            noise = None if self.noise_seed is None else SeededNoise(self.noise_seed, name)
            private = frame[rows].with_columns(pl.Series(schema.label, names[labels[rows]].tolist()))
            sites[name] = temporary_site(private, steward, policy, key=key, noise=noise, answerers=SIMULATED_ANSWERERS)
        return direct_federation(sites, learner)

    @property
    def _printed(self) -> bool:
        """Whether the strategy uses the paper's mechanism, whose privacy claim is wrong."""
        return isinstance(self.options, Mapping) and bool(self.options.get("printed"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = False
        tags.input_tags.string = False
        tags.non_deterministic = self.noise_seed is None
        return tags
