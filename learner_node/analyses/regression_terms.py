"""What a regression is asked for: its covariates and outcome, how their cells enter the model, and what is wrong."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.noisy_table import MISSING, Axis
from learner_node.analyses.regression_fit import Link, Rows
from learner_node.analyses.variables import variable_of
from protocol.errors import ConfigurationError
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import suggest

Floats = NDArray[np.float64]
Model = Literal["linear", "logistic", "poisson", "hazards"]
LINKS: dict[Model, Link] = {"linear": "identity", "logistic": "logit", "poisson": "log", "hazards": "log"}
_CENSORED_MISS = 0.5
"""Part of its interval that a record is counted for that leaves in it."""


class Covariate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A covariate: levels of a category, or a number in stated bins, as indicators or as one trend."""

    variable: str
    edges: tuple[float, ...] = ()  # of a number: bin j holds edges[j-1] <= x < edges[j]
    bins: Annotated[int, msgspec.Meta(ge=2, le=1000)] | None = None  # instead: bins of equal width in its bounds
    coding: Literal["levels", "trend"] = "levels"  # trend: one coefficient for a unit of `scores`
    scores: tuple[float, ...] = ()  # of its cells for a trend; () numbers them 0, 1, 2 ...
    reference: str | None = None  # cell that the others are compared with, as the table writes it; None: the first
    missing: Literal["exclude", "level"] = "exclude"  # records without a value are left out, or a cell of their own

    def factor(self, schema: Schema) -> FeatureBins:
        """Its bins. Raises ConfigurationError: the schema has no such variable, or the bins do not fit it."""
        variable = variable_of(schema, self.variable, "a covariate")
        if isinstance(variable, CategoricalAttribute):
            if self.edges or self.bins:
                raise ConfigurationError(f"covariate {self.variable!r} has levels; take its edges and bins out")
            if len(variable.levels) + (self.missing == "level") < 2:
                raise ConfigurationError(f"covariate {self.variable!r} has a single level, so it has no coefficient")
            return FeatureBins(self.variable, ())
        return FeatureBins(self.variable, number_edges(variable, self.edges, self.bins, f"covariate {self.variable!r}"))

    def cells(self, axis: Axis) -> tuple[int, ...]:
        """Cells of the axis that the model reads."""
        return (*range(axis.proper), len(axis) - 1) if self.missing == "level" else tuple(range(axis.proper))

    def check(self, axis: Axis) -> None:
        """Raise ConfigurationError: scores or reference do not fit the axis."""
        labels = axis.proper_labels
        where = f"covariate {self.variable!r}"
        if self.scores and (self.coding != "trend" or len(self.scores) != len(labels)):
            raise ConfigurationError(f"{where}: scores are for coding = 'trend', one for each of {len(labels)} cells")
        if self.scores and len(set(self.scores)) == 1:
            raise ConfigurationError(f"{where}: all scores are the same, so it has no coefficient")
        if self.reference is not None and self.coding == "trend":
            raise ConfigurationError(f"{where}: a trend has no reference; take one of the two out")
        if self.reference is not None and self.reference not in labels:
            hint = suggest(self.reference, list(labels))
            raise ConfigurationError(f"{where}: reference must be one of {', '.join(labels)}{hint}")

    def columns(self, axis: Axis) -> tuple[Floats, tuple[str, ...], str]:
        """Design columns (cells, columns), a text for each, and the text of the reference."""
        cells = self.cells(axis)
        labels = [axis.labels[cell] for cell in cells]
        missing = self.missing == "level"
        if self.coding == "trend":
            scores = list(self.scores) or [float(number) for number in range(axis.proper)]
            unit = "a unit of the score" if self.scores else "a bin" if axis.edges else "a level"
            columns = [np.array([*scores, *([float(np.mean(scores))] if missing else [])])]
            if missing:
                columns.append(np.eye(len(cells))[-1])
            return np.column_stack(columns), (f"per {unit}", *([MISSING] if missing else [])), ""
        first = 0 if self.reference is None else labels.index(self.reference)
        others = [place for place in range(len(cells)) if place != first]
        return np.eye(len(cells))[:, others], tuple(labels[place] for place in others), labels[first]


def number_edges(variable: NumericAttribute, edges: Sequence[float], bins: int | None, where: str) -> tuple[float, ...]:
    """Inner edges of a number. Raises ConfigurationError: they are missing, not rising, or stated twice."""
    if bool(edges) == (bins is not None):
        raise ConfigurationError(f"{where} is a number: state either its edges or a number of bins")
    if bins is not None:
        return tuple(float(edge) for edge in np.linspace(variable.lower, variable.upper, bins + 1)[1:-1])
    if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ConfigurationError(f"{where}: edges must be finite and strictly increasing")
    if edges[0] <= variable.lower or edges[-1] > variable.upper:
        bounds = f"above {variable.lower:g} and up to {variable.upper:g}"
        raise ConfigurationError(f"{where}: edges must lie {bounds}, the bounds of the schema; a bin would be empty")
    return tuple(map(float, edges))


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a model: its axes, the cells that count, and what each adds to the equations."""

    factors: tuple[FeatureBins, ...]
    cells: tuple[tuple[int, ...], ...]  # of each axis
    response: tuple[tuple[float, ...], ...]  # (rows, cells), those of all axes in order
    exposure: tuple[tuple[float, ...], ...]
    words: str  # "death = yes"
    binary: bool = False

    def rows(self, model: Model) -> Rows:
        """The rows of the model's equations."""
        periods = len(self.response) if model == "hazards" else 1
        return Rows(LINKS[model], np.array(self.response, float), np.array(self.exposure, float), periods)

    @property
    def count(self) -> int:
        """Number of outcome cells that a table has, with those that do not count."""
        return len(self.response[0])


def event_outcome(schema: Schema, name: str, events: Sequence[str]) -> Outcome:
    """Whether a category is one of some levels. Raises ConfigurationError: a level is not declared, or all are."""
    variable = variable_of(schema, name, "the outcome")
    if not isinstance(variable, CategoricalAttribute):
        raise ConfigurationError(f"outcome {name!r} is a number; state outcome_edges, or take an outcome with levels")
    levels = variable.levels
    if not events:
        if len(levels) != 2:
            raise ConfigurationError(f"outcome {name!r} has {len(levels)} levels; event must say which count")
        events = levels[1:]
    for level in events:
        if level not in levels:
            raise ConfigurationError(f"event {level!r} is no level of {name!r}{suggest(level, list(levels))}")
    if set(events) == set(levels):
        raise ConfigurationError(f"all levels of {name!r} are events; leave one out")
    marks = tuple(float(level in events) for level in levels)
    ones = tuple(1.0 for _ in levels)
    words = f"{name} = {' or '.join(events)}"
    return Outcome((FeatureBins(name, ()),), (tuple(range(len(levels))),), (marks,), (ones,), words, binary=True)


def number_outcome(schema: Schema, name: str, edges: Sequence[float], scores: Sequence[float], model: Model) -> Outcome:
    """A number in bins: their scores, or for a logistic model whether it reaches the one edge.

    Without scores a bin has its middle, where the end bins reach to the bounds of the schema.
    """
    variable = variable_of(schema, name, "the outcome")
    if isinstance(variable, CategoricalAttribute):
        raise ConfigurationError(
            f"outcome {name!r} has levels and no edges; take a number for this model, or its event"
        )
    inner = number_edges(variable, edges, None, f"outcome {name!r}")
    bins = FeatureBins(name, inner)
    cells = (tuple(range(len(inner) + 1)),)
    ones = tuple(1.0 for _ in cells[0])
    if model == "logistic":
        if len(inner) != 1:
            raise ConfigurationError(f"outcome {name!r} of a logistic model needs one edge: at or above is an event")
        words = f"{name} at or above {inner[0]:g}"
        return Outcome((bins,), cells, ((0.0, 1.0),), (ones,), words, binary=True)
    ends = np.array([variable.lower, *inner, variable.upper])
    values = tuple(map(float, scores)) or tuple(map(float, (ends[1:] + ends[:-1]) / 2))
    if len(values) != len(cells[0]) or len(set(values)) == 1:
        raise ConfigurationError(f"outcome {name!r}: outcome_scores must be {len(cells[0])} numbers, not all the same")
    if model == "poisson" and min(values) < 0:
        raise ConfigurationError(f"outcome {name!r}: a rate is of scores of 0 and more")
    return Outcome((bins,), cells, (values,), (ones,), f"{name} in {len(values)} bins")


def time_outcome(schema: Schema, cause: str | None) -> Outcome:
    """Exits by interval of time and event, of the schema's `time_to_event`.

    A record counts for the whole of each interval before the one in which it leaves, and for half of that one.
    """
    spec = schema.time_to_event
    if spec is None:
        raise ConfigurationError("proportional hazards need time_to_event in the schema: the time and its event")
    event = variable_of(schema, spec.event, "the event")
    if not isinstance(event, CategoricalAttribute):
        raise ConfigurationError(f"the event {spec.event!r} of time_to_event must have levels")
    causes = schema.causes
    if cause is not None and cause not in causes:
        raise ConfigurationError(f"cause {cause!r} is none of {', '.join(causes)}{suggest(cause, list(causes))}")
    ends = np.asarray(spec.ends, float)
    widths = np.diff([0.0, *ends])
    # A time at the end of an interval lies in it: the next larger float begins the next one.
    edges = tuple(float(np.nextafter(end, np.inf)) for end in ends)
    intervals, levels = len(ends), event.levels
    chosen = np.array([level in ({cause} if cause else set(causes)) for level in levels], float)
    response = np.zeros((intervals, intervals + 1, len(levels)))
    exposure = np.zeros((intervals, intervals + 1, len(levels)))
    for index in range(intervals):
        response[index, index] = chosen
        exposure[index, index + 1 :] = widths[index]
        exposure[index, index] = widths[index] * _CENSORED_MISS
    cells = (tuple(range(intervals + 1)), tuple(range(len(levels))))
    return Outcome(
        (FeatureBins(spec.time, edges), FeatureBins(spec.event, ())),
        cells,
        tuple(map(tuple, response.reshape(intervals, -1).tolist())),
        tuple(map(tuple, exposure.reshape(intervals, -1).tolist())),
        f"{spec.event} = {cause or ' or '.join(causes)} by {spec.time}",
    )
