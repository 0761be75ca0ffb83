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


def synthetic_frame(
    source: pl.DataFrame, estimate: SourceEstimate, *, label: str, classes: NDArray[np.generic], weight: str = "weight"
) -> pl.DataFrame:
    """The source's own columns, then `weight`, `<label>` and `<label>_probability`.

    Args:
        source: n rows.
        estimate: of the same n rows.
        label: name of the label column; a column of that name in the source is replaced, since labels of the
            source are never used.
        classes: (2,) class values; the second is the positive one.
        weight: name of the column that says how many private records a row stands for.

    Raises:
        ConfigurationError: the source has a column of its own under a name that is needed.
    """
    chance = f"{label}_probability"
    kept = source.drop(label, strict=False)
    if len({weight, chance, label}) < 3:
        raise ConfigurationError(f"weight={weight!r} is the name of a label column; choose another")
    if weight in kept.columns:
        raise ConfigurationError(f"the source has a column {weight!r} of its own; name the weights otherwise: weight=")
    if chance in kept.columns:
        raise ConfigurationError(f"the source has a column {chance!r} of its own; rename it before fitting")
    likely = classes[(estimate.probability > 0.5).astype(np.intp)]
    return kept.with_columns(
        pl.Series(weight, estimate.weights),
        pl.Series(label, likely.tolist()),
        pl.Series(chance, estimate.probability),
    )


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a data frame as CSV or Parquet, by the file's ending.

    Raises:
        ConfigurationError: another ending.
    """
    writer = WRITERS.get(Path(path).suffix.lower())
    if writer is None:
        raise ConfigurationError(f"{Path(path).name!r} must end in one of {', '.join(WRITERS)}")
    writer(frame, Path(path))
