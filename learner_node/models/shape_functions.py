"""What an additive model adds up: for each attribute, the log-odds that each of its bins contributes, with a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.additive import AdditiveFit
from protocol.partitions import FeatureBins
from protocol.records import Records
from protocol.schema import CategoricalAttribute, NumericAttribute

BAND = 1.959964
"""Posterior deviations on either side that hold 95 %."""
OTHER, MISSING = "other", "missing"


@dataclass(frozen=True)
class ShapeBin:
    """One bin of an attribute.

    Attributes:
        label: in words: a level, "other", "missing", or a range whose lower end is inside; its upper end is not, but
            for whole numbers, "2 to 4".
        low, high: edges of a bin of numbers; None where it has none on that side, and for levels.
        share: of the private records, as the answers have it, in [0, 1].
        log_odds: contribution to the log-odds of class 1, less its mean over the records.
        lower, upper: ends of its 95 % band (posterior, Laplace's approximation), the model being right.
    """

    label: str
    low: float | None
    high: float | None
    share: float
    log_odds: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ShapeFunction:
    """What one attribute contributes.

    Attributes:
        attribute: its name.
        numeric: whether its bins are ranges of a number, in their order (missing last), or levels.
        bins: those that hold source records; of the others only the prior speaks.
    """

    attribute: str
    numeric: bool
    bins: tuple[ShapeBin, ...]

    @property
    def strength(self) -> float:
        """Standard deviation of the contribution over the records, in log-odds."""
        shares = np.array([one.share for one in self.bins])
        values = np.array([one.log_odds for one in self.bins])
        shares = shares / max(float(shares.sum()), 1e-12)
        return float(np.sqrt(max(shares @ values**2 - (shares @ values) ** 2, 0.0)))


def shape_functions(
    source: Records,
    partitions: Sequence[FeatureBins],
    fit: AdditiveFit,
    cells: Sequence[NDArray[np.int64]],
) -> tuple[ShapeFunction, ...]:
    """Of a fit, the strongest first.

    Args:
        source: n_s records.
        partitions: the bins that were asked, one of each attribute.
        fit: of the answers, in the same order.
        cells: per partition, the bin of each source record, (n_s,).
    """
    found, schema = [], source.schema
    for number, (partition, places) in enumerate(zip(partitions, cells, strict=True)):
        size = partition.cell_count(schema)
        mass = np.bincount(places, fit.source_mass, minlength=size).astype(np.float64)
        value, deviation = fit.centred(number, mass)
        described = _described(partition, source)
        shown = np.flatnonzero(np.bincount(places, minlength=size))
        bins = tuple(
            ShapeBin(
                *described[place],
                share=float(mass[place] / mass.sum()),
                log_odds=float(value[place]),
                lower=float(value[place] - BAND * deviation[place]),
                upper=float(value[place] + BAND * deviation[place]),
            )
            for place in shown
        )
        levels = isinstance(schema.find(partition.attribute), CategoricalAttribute)
        found.append(ShapeFunction(partition.attribute, not levels, bins))
    return tuple(sorted(found, key=lambda shape: -shape.strength))


def _described(partition: FeatureBins, source: Records) -> list[tuple[str, float | None, float | None]]:
    """Label and edges of each bin."""
    attribute = source.schema.find(partition.attribute)
    if isinstance(attribute, CategoricalAttribute):
        return [(label, None, None) for label in (*attribute.levels, OTHER, MISSING)]
    edges = partition.edges
    if not edges:
        return [("any value", None, None), (MISSING, None, None)]
    column = source.column(partition.attribute)
    whole = bool((column[~np.isnan(column)] % 1 == 0).all()) and all(edge % 1 == 0 for edge in edges)
    middle = [(_range(low, high, whole=whole), low, high) for low, high in pairwise(edges)]
    least = attribute.lower if isinstance(attribute, NumericAttribute) else -np.inf
    lowest = _range(least, edges[0], whole=True) if whole and least == edges[0] - 1 else f"below {edges[0]:g}"
    return [(lowest, None, edges[0]), *middle, (f"{edges[-1]:g} or more", edges[-1], None), (MISSING, None, None)]


def _range(low: float, high: float, *, whole: bool) -> str:
    """A bin that holds its lower edge and not its upper; whole numbers by the least and the greatest."""
    if not whole:
        return f"{low:g} to {high:g}"
    return f"{low:g}" if low == high - 1 else f"{low:g} to {high - 1:g}"
