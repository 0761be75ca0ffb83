"""The learner's own unlabelled records: as users hold them, encoded, under a feature map, and partitioned.

Everything here is computed from the source alone, so it costs no privacy.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from learner_node.models.label_model.random_features import sample_of_cells
from protocol.errors import ConfigurationError
from protocol.feature_map import MOST_COORDINATE, STEPS, CategoricalFeature, Feature, FeatureMap, NumericFeature
from protocol.partitions import FeatureBins, NearestCentre
from protocol.partitions.nearest_centre import MOST_TILE
from protocol.record_frames import times_of
from protocol.records import MISSING_CODE, Records
from protocol.schema import Attribute, CategoricalAttribute, NumericAttribute, Schema


def as_frame(X: Any, schema: Schema) -> pl.DataFrame:
    """Convert a table, or a 2-d array whose columns are the schema's attributes in order, to a polars data frame.

    Where the schema says that a column holds dates, an array may hold numbers: days since its `days_since`.

    Raises ConfigurationError: an array has another shape, of which the text speaks as scikit-learn's does ("features");
    or it holds infinity among days.
    """
    if isinstance(X, pl.DataFrame):
        return X
    if isinstance(X, pl.LazyFrame):
        return X.collect()
    if hasattr(X, "columns"):
        return pl.DataFrame([_series(str(name), np.asarray(X[name]), schema) for name in X.columns])
    array = np.asarray(X)
    names = [attribute.name for attribute in schema.attributes]
    if array.ndim != 2:
        raise ConfigurationError(
            f"expected a 2-d array (records x attributes), got {array.ndim} dimension(s); reshape your data"
        )
    if array.shape[1] != len(names):
        raise ConfigurationError(f"X has {array.shape[1]} features, but the curators' card has {len(names)} attributes")
    columns = (_series(name, array[:, index], schema) for index, name in enumerate(names))
    return pl.DataFrame(
        [_dated(column, attribute) for column, attribute in zip(columns, schema.attributes, strict=True)]
    )


def _dated(column: pl.Series, attribute: Attribute) -> pl.Series:
    """Times instead of numbers of days, if the attribute is one of dates."""
    if not isinstance(attribute, NumericAttribute) or not attribute.days_since or not column.dtype.is_numeric():
        return column
    days = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if np.isinf(days).any():
        raise ConfigurationError(
            f"column {column.name!r} holds infinity in row {int(np.isinf(days).argmax()) + 1}; correct it or write NaN"
        )
    return times_of(days, attribute)


def _series(name: str, values: NDArray[Any], schema: Schema) -> pl.Series:
    """A column; Python objects become numbers if numbers are declared and they all are numbers, else texts."""
    if values.dtype.kind in "biuf":
        return pl.Series(name, values)
    if values.dtype.kind == "M":
        return pl.Series(name, values.astype("datetime64[us]"))
    items = [None if value is None or value != value else value for value in values.tolist()]  # noqa: PLR0124
    numbers = all(value is None or isinstance(value, int | float) for value in items)
    if numbers and isinstance(schema.find(name), NumericAttribute):
        return pl.Series(name, items, pl.Float64, strict=False)
    return pl.Series(name, [None if value is None else _text(value) for value in items], pl.String)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def height_of(X: Any) -> int:
    """Number of records in any input of `as_frame`."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


LEAST_SPREAD = 1e-9
"""Smallest standard deviation, relative to its largest magnitude, of an attribute treated as varying."""
LEAST_SCALE = 1e-11
"""Smallest absolute standard deviation, which keeps a feature's factor below the protocol's 1e15."""

MOST_CLUSTERED, CLUSTERED_PER_CELL = 6_000, 10
MOST_JUDGED, LEAST_JUDGED_OF_CELL = 50_000, 24
"""About how many source records a model is evaluated at, and how many at least of each cell that has so many."""
MANY_CELLS = 500
"""Number of cells above which k-means takes few iterations, since first centres are then nearly as good."""
ITERATIONS, FEW_ITERATIONS = 50, 10
WORK_ROOM = 0.95
"""Share of a curator's work per record for finding cells; the rest is for counting and reading the question."""


def standardising_map(source: Records) -> FeatureMap:
    """Zero mean and unit variance on the source, per attribute.

    Missing numbers become the source's median, missing levels its most frequent one. One-hot coordinates of an
    attribute share one factor, which gives the attribute as a whole unit variance. An attribute that is constant
    or wholly missing in the source is left out; at least one is kept.
    """
    features: list[Feature] = []
    for attribute in source.schema.attributes:
        column = source.column(attribute.name)
        if isinstance(attribute, NumericAttribute):
            present = column[~np.isnan(column)]
            spread = float(present.std()) if len(present) else 0.0
            if len(present) and spread > max(LEAST_SCALE, LEAST_SPREAD * float(np.abs(present).max())):
                median = float(np.median(present))
                filled = np.where(np.isnan(column), median, column)
                scale = max(float(filled.std()), spread * 1e-3)
                features.append(NumericFeature(attribute.name, float(filled.mean()), 1.0 / scale, median))
        else:
            present = column[column != MISSING_CODE]
            counted = np.bincount(present, minlength=len(attribute.levels) + 1)
            mode = int(np.argmax(counted))
            counted[mode] += len(column) - len(present)
            shares = counted / max(len(column), 1)
            variance = float(np.sum(shares * (1 - shares)))
            if len(present) and variance > LEAST_SPREAD:
                level = attribute.levels[mode] if mode < len(attribute.levels) else ""
                features.append(CategoricalFeature(attribute.name, attribute.levels, float(variance**-0.5), level))
    if not features:
        features.append(_fallback(source))
    return FeatureMap(features=tuple(features))


def coordinates(
    features: FeatureMap, records: Records, rows: NDArray[np.int64] | slice = slice(None)
) -> NDArray[np.float64]:
    """Points of the records at `rows`, float64 (n, width) in units on the 2^-12 grid, as a curator sees them."""
    points = features.points(records.take(rows))
    points /= STEPS
    return points


def even_bins(
    source: Records, bins: int, weights: NDArray[np.float64] | None = None, *, shift: float = 0.0
) -> list[FeatureBins]:
    """The paper's bins (section 4.2): per attribute about `bins` bins of even mass of the source.

    Ties in the source may leave fewer; a categorical attribute has one bin per level.

    Args:
        source: n records.
        bins: per numeric attribute, at least 1.
        weights: (n,) of the records, >= 0 and not all 0; None is 1.
        shift: moves all edges up by this part of a bin's mass, in [0, 1); above 0 there is one bin more.
    """
    return [attribute_bins(source, attribute, bins, weights, shift=shift) for attribute in source.schema.attributes]


def attribute_bins(
    source: Records,
    attribute: Attribute,
    bins: int,
    weights: NDArray[np.float64] | None = None,
    *,
    shift: float = 0.0,
) -> FeatureBins:
    """Bins of one attribute, as in `even_bins`."""
    shares = (np.arange(bins) + shift) / bins
    edges: tuple[float, ...] = ()
    if isinstance(attribute, NumericAttribute):
        column = source.column(attribute.name)
        there = ~np.isnan(column)
        present = np.asarray(column[there], dtype=np.float64)
        if len(present):
            cuts = quantiles(present, shares[shares > 0], None if weights is None else weights[there])
            edges = tuple(float(cut) for cut in np.unique(cuts) if cut > present.min())
    return FeatureBins(attribute=attribute.name, edges=edges)


def quantiles(
    values: NDArray[np.float64], shares: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Quantiles of at least one value, (shares,); with weights, the least value with that share at or below it."""
    if weights is None or not weights.any():
        return np.asarray(np.quantile(values, shares), dtype=np.float64)
    return np.asarray(np.quantile(values, shares, weights=weights, method="inverted_cdf"), dtype=np.float64)


def paper_bin_count(records: float, scale: Fraction, *, ratio: float = 4.0, most: int = 50) -> int:
    """Number of bins that hold about `ratio` standard deviations of noise, sqrt(2) `scale`, each (section 4.2)."""
    return int(np.clip(round(records / (ratio * np.sqrt(2) * float(scale))), 2, most))


def kmeans_cells(
    source: Records, features: FeatureMap, cells: int, seed: int, weights: NDArray[np.float64] | None = None
) -> NearestCentre:
    """Partition the whole instance space by k-means on the source's points; some centres may be empty.

    A source of more than 6,000 records and more than 10 a cell is clustered by a random sample of the larger of these
    sizes: more records move the centres less than another seed does.

    Args:
        source: n records.
        features: the coordinates in which distances are measured.
        cells: number of centres, at least 1; at most the number of distinct points is used.
        seed: seed of the first centres.
        weights: (n,) of the records, positive; centres are denser where they are greater. None is 1.
    """
    most = max(MOST_CLUSTERED, CLUSTERED_PER_CELL * cells)
    if len(source) > most:
        sample = np.sort(np.random.default_rng(seed).choice(len(source), most, replace=False))
        source, weights = source.take(sample), None if weights is None else weights[sample]
    points = coordinates(features, source)
    distinct = len(np.unique(points, axis=0))
    iterations = ITERATIONS if cells <= MANY_CELLS else FEW_ITERATIONS
    means = KMeans(min(cells, distinct), n_init=1, max_iter=iterations, random_state=seed % 2**32)
    centres = means.fit(points, sample_weight=weights).cluster_centers_
    return NearestCentre.of(features, np.clip(centres, -MOST_COORDINATE, MOST_COORDINATE))


def held_apart(points: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Move points as far from the means of their cells as they lie from the cell's other points, float64 (n, d).

    Cells are drawn around the source's records, so other records of the population lie farther out, where a model is
    more certain. A point alone in its cell stays. `points` (n, d) are the source's, `cells` (n,) are their cells'
    numbers.
    """
    _, cell, size = np.unique(cells, return_inverse=True, return_counts=True)
    sums = np.zeros((len(size), points.shape[1]))
    np.add.at(sums, cell, points)
    means = sums / size[:, None]
    farther = size / np.maximum(size - 1, 1)
    moved: NDArray[np.float64] = means[cell] + farther[cell, None] * (points - means[cell])
    return moved


def judged(cells: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64] | slice, NDArray[np.float64] | float]:
    """Source records at which a model is evaluated, and how many records of its cell each stands for.

    These are all of up to `MOST_JUDGED` source records: a slice, and 1. Of more they are row numbers (m,) and (m,)
    numbers of records, whose sum over a cell is its size: a random sample of each cell, of a size in proportion to its
    own, but of at least 24 records. So a weighted mean over the sample is unbiased for that over the source. Of a
    number in [0, 1] its standard error is at most .5 sqrt(r / 50,000) = .0022 sqrt(r), where r is the target's mean
    ratio of target to source, 1 if both are of one population (Cochran 1977, section 5.3).

    Args:
        cells: cell of each source record, int64 (n,), in [0, K).
        seed: seed of the sample.
    """
    if len(cells) <= MOST_JUDGED:
        return slice(None), 1.0
    size = np.bincount(cells)
    most = np.maximum(-(-size * MOST_JUDGED // len(cells)), LEAST_JUDGED_OF_CELL)
    rows = np.flatnonzero(sample_of_cells(cells, most[cells.min() :], seed))
    return rows, (size / np.maximum(np.minimum(size, most), 1))[cells[rows]]


def affordable_cells(features: FeatureMap, work: float) -> int:
    """Most k-means cells, 1 to 1024, for which finding a record's nearest stays within `work`."""
    single, many = (
        NearestCentre(features, bytes(4 * features.width * cells)).multiply_adds() for cells in (1, MOST_TILE)
    )
    allowed = (WORK_ROOM * work - single) / ((many - single) / (MOST_TILE - 1))
    return max(1, 1 + int(min(allowed, MOST_TILE - 1)))


def _fallback(source: Records) -> Feature:
    attribute = source.schema.attributes[0]
    if isinstance(attribute, CategoricalAttribute):
        return CategoricalFeature(attribute.name, attribute.levels, 1.0, attribute.levels[0])
    return NumericFeature(attribute.name, attribute.lower, 1.0 / (attribute.upper - attribute.lower), attribute.lower)
