"""The weighted synthetic data set: source records, what each stands for, and the label it was given.

Everything here is post-processing of differentially private answers and of the learner's own records. The rows are
the learner's source: no private record is among them unless the learner already held it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from learner_node.strategies import SourceEstimate
from protocol.errors import ConfigurationError
from protocol.records import column_texts
from protocol.schema import NumericAttribute, Schema
from protocol.strict_toml import suggest

Floats = NDArray[np.float64]
WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".parquet": lambda frame, path: frame.write_parquet(path),
}
"""How a synthetic data set is written, by the ending of its file's name."""


def mixed(masses: Sequence[Floats | float], probabilities: Sequence[Floats]) -> Floats:
    """Probabilities of several sites mixed by the mass each has, per record: sum_s m_s p_s / sum_s m_s.

    Args:
        masses: per site, one number or (n,), non-negative.
        probabilities: per site, (n,).

    Returns:
        (n,) in [0, 1]; the plain mean where no site has any mass.
    """
    stacked = np.asarray(probabilities, np.float64)
    weights = np.stack([np.broadcast_to(np.asarray(mass, np.float64), stacked.shape[1:]) for mass in masses])
    total = weights.sum(axis=0)
    weights = np.where(total > 0, weights, 1.0)
    mixture: Floats = (weights * stacked).sum(axis=0) / weights.sum(axis=0)
    return np.clip(mixture, 0.0, 1.0)


def pooled_estimate(estimates: Sequence[SourceEstimate]) -> SourceEstimate:
    """Several sites' estimates of one source as one: weights add up, probabilities mix by weight."""
    weights: Floats = np.sum([estimate.weights for estimate in estimates], axis=0)
    probability = mixed([estimate.weights for estimate in estimates], [estimate.probability for estimate in estimates])
    return SourceEstimate(weights, probability)


def held_columns(source: pl.DataFrame, schema: Schema, keep: Sequence[str] = ()) -> pl.DataFrame:
    """The attributes of a schema as the learner holds them, and the further columns that it names.

    Args:
        source: n rows that `encode_frame` takes.
        schema: whose attributes are taken, in order: numeric ones as Float64, not moved to their bounds; categorical
            ones as String, undeclared levels among them. What means missing is null.
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
    held = [_typed(source[item.name], numeric=isinstance(item, NumericAttribute)) for item in schema.attributes]
    further = [name for name in dict.fromkeys(keep) if schema.find(name) is None]
    return pl.DataFrame([*held, *(source[name] for name in further)])


def synthetic_frame(
    source: pl.DataFrame, estimate: SourceEstimate, *, label: str, classes: NDArray[np.generic], weight: str = "weight"
) -> pl.DataFrame:
    """The columns of `source`, then `weight`, `<label>` and `<label>_probability`.

    Args:
        source: n rows without a label, such as `held_columns` gives.
        estimate: of the same n rows.
        label: name of the label column.
        classes: (2,) class values; the second is the positive one.
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
    likely = classes[(estimate.probability > 0.5).astype(np.intp)]
    return source.with_columns(
        pl.Series(weight, estimate.weights),
        pl.Series(label, likely.tolist()),
        pl.Series(chance, estimate.probability),
    )


def _typed(column: pl.Series, *, numeric: bool) -> pl.Series:
    """Numbers as Float64 or texts as String, null where missing."""
    if not numeric:
        return column_texts(column)
    return (column_texts(column) if column.dtype == pl.String else column).cast(pl.Float64).fill_nan(None)


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a data frame as CSV or Parquet, by the file's ending.

    Raises:
        ConfigurationError: another ending.
    """
    writer = WRITERS.get(Path(path).suffix.lower())
    if writer is None:
        raise ConfigurationError(f"{Path(path).name!r} must end in one of {', '.join(WRITERS)}")
    writer(frame, Path(path))
