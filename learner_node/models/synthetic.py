"""The weighted synthetic data set: source records with estimated weights and labels.

All of it is computed from differentially private answers and the learner's own records. Its rows are the learner's
source: it holds no private record that the learner did not already have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from learner_node.strategies.base import (
    AnyEstimate,
    AnyModel,
    ClassesEstimate,
    NumberEstimate,
    SourceEstimate,
    class_probabilities,
)
from protocol.errors import ConfigurationError
from protocol.record_frames import numbers_of, texts_of, times_of
from protocol.records import Records
from protocol.schema import Attribute, CategoricalAttribute, Schema
from protocol.strict_toml import suggest

Floats = NDArray[np.float64]
WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".parquet": lambda frame, path: frame.write_parquet(path),
}
"""Writer of a data set, by the file name's ending."""


def mixed(masses: Sequence[Floats | float], probabilities: Sequence[Floats]) -> Floats:
    """Probabilities of several sites mixed by the mass each has, per record: sum_s m_s p_s / sum_s m_s.

    Args:
        masses: per site, one number or (n,), non-negative.
        probabilities: per site, (n,) or (n, C).

    Returns:
        (n,) or (n, C) in [0, 1]; the plain mean where no site has any mass.
    """
    return np.clip(mixed_numbers(masses, probabilities), 0.0, 1.0)


def mixed_numbers(masses: Sequence[Floats | float], numbers: Sequence[Floats]) -> Floats:
    """Numbers of several sites, mixed as in `mixed`."""
    stacked = np.asarray(numbers, np.float64)
    weights = np.stack([np.broadcast_to(np.asarray(mass, np.float64), stacked.shape[1:2]) for mass in masses])
    weights = np.where(weights.sum(axis=0) > 0, weights, 1.0).reshape(*weights.shape, *[1] * (stacked.ndim - 2))
    mixture: Floats = (weights * stacked).sum(axis=0) / weights.sum(axis=0)
    return mixture


@dataclass(frozen=True)
class MixedModel:
    """Several sites' classifiers as one: probabilities mixed by the records that each answered for."""

    models: tuple[AnyModel, ...]  # at least one
    masses: tuple[float, ...]  # of each, non-negative

    def probabilities(self, records: Records) -> Floats:
        """Class probabilities: (n, C), rows adding up to 1."""
        return mixed(self.masses, [class_probabilities(model, records) for model in self.models])


def pooled_estimate(estimates: Sequence[AnyEstimate]) -> AnyEstimate:
    """Combine several sites' estimates of one source: weights add up, the rest is averaged by weight."""
    masses = [estimate.weights for estimate in estimates]
    weights: Floats = np.sum(masses, axis=0)
    if isinstance(estimates[0], ClassesEstimate):
        rows = [estimate.probabilities for estimate in estimates if isinstance(estimate, ClassesEstimate)]
        return ClassesEstimate(weights, mixed(masses, rows))
    if isinstance(estimates[0], NumberEstimate):
        numbers = [estimate.value for estimate in estimates if isinstance(estimate, NumberEstimate)]
        return NumberEstimate(weights, mixed_numbers(masses, numbers))
    shares = [estimate.probability for estimate in estimates if isinstance(estimate, SourceEstimate)]
    return SourceEstimate(weights, mixed(masses, shares))


def held_columns(source: pl.DataFrame, schema: Schema, keep: Sequence[str] = ()) -> pl.DataFrame:
    """The attributes of a schema as the learner holds them, and the further columns that it names.

    Args:
        source: n rows that `encode_frame` takes.
        schema: whose attributes are taken, in order: numeric ones as Float64, or as Datetime if they are dates, not
            moved to their bounds; categorical ones as String, undeclared levels among them. Missing values, sentinels
            among them, are null.
        keep: further columns of the source, kept as they are; attributes may be named again.

    Raises:
        ConfigurationError: a name in `keep` is no column of the source, or is the label's.
    """
    if isinstance(keep, str):
        raise ConfigurationError(f"keep={keep!r} must be a list of column names, such as [{keep!r}]")
    for name in keep:
        if name == schema.label:
            raise ConfigurationError(f"labels of the source are never used, so {name!r} cannot be kept")
        if name not in source.columns:
            raise ConfigurationError(f"the source has no column {name!r} to keep{suggest(name, source.columns)}")
    columns = [_typed(source[attribute.name], attribute) for attribute in schema.attributes]
    further = [name for name in dict.fromkeys(keep) if schema.find(name) is None]
    return pl.DataFrame([*columns, *(source[name] for name in further)])


def synthetic_frame(
    source: pl.DataFrame, estimate: AnyEstimate, *, label: str, classes: NDArray[np.generic], weight: str = "weight"
) -> pl.DataFrame:
    """The columns of `source`, then `weight`, `<label>` and, where the label is a class, `<label>_probability`.

    The probability is of the positive class where there are two, and of the class given where there are more.

    Args:
        source: n rows without a label, such as `held_columns` gives.
        estimate: estimate for the same n rows.
        label: name of the label column.
        classes: (C,) class values; of two, the second is the positive one. Unused where the label is a number.
        weight: name of the column that says how many private records a row stands for.

    Raises:
        ConfigurationError: the source has a column of its own under a name that is needed.
    """
    chance = f"{label}_probability"
    if len({weight, chance, label}) < 3:
        raise ConfigurationError(f"weight={weight!r} is the name of a label column; choose another")
    if weight in source.columns:
        raise ConfigurationError(f"the source has a column {weight!r} of its own; name the weights otherwise: weight=")
    if chance in source.columns:
        raise ConfigurationError(f"the source has a column {chance!r} of its own; rename it before fitting")
    weighted = source.with_columns(pl.Series(weight, estimate.weights))
    if isinstance(estimate, NumberEstimate):
        return weighted.with_columns(pl.Series(label, estimate.value))
    if isinstance(estimate, ClassesEstimate):
        likely = classes[estimate.probabilities.argmax(axis=1)]
        probability = estimate.probabilities.max(axis=1)
    else:
        likely = classes[(estimate.probability > 0.5).astype(np.intp)]
        probability = estimate.probability
    return weighted.with_columns(pl.Series(label, likely.tolist()), pl.Series(chance, probability))


def _typed(column: pl.Series, attribute: Attribute) -> pl.Series:
    """Numbers as Float64, dates as Datetime or texts as String, null where missing."""
    if isinstance(attribute, CategoricalAttribute):
        return texts_of(column, attribute)
    numbers = numbers_of(column, attribute)
    return times_of(numbers, attribute) if attribute.days_since else pl.Series(column.name, numbers).fill_nan(None)


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a data frame as CSV or Parquet, by the file's ending. Raises ConfigurationError: it is another one."""
    writer = WRITERS.get(Path(path).suffix.lower())
    if writer is None:
        raise ConfigurationError(f"{Path(path).name!r} must end in one of {', '.join(WRITERS)}")
    writer(frame, Path(path))
