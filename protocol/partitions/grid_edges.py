"""Bins of sums of products of grid numbers. Sums and edges are whole steps of 2^-24, so the bins are exact."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import STEPS
from protocol.limits import CALL_ONCE
from protocol.refusals import RefusalCode

PRODUCT_STEPS = STEPS * STEPS
"""Steps per unit of a product of two grid numbers: 2^24."""
MOST_EDGE = 2.0**27
"""Largest edge in units. Every logit (below 2^26 + 2^6) and projection (at most 2^25) is smaller."""
COLUMN_COST = 200
"""Work (see `protocol.limits`) per record of reading a value and writing its bin."""
COMPARISON_COST = 200
"""Work per record and comparison of a binary search among many edges, whose branches are unpredictable."""
FEW_EDGES = 16
EDGES_ONCE = 20 * CALL_ONCE
EDGE_ONCE = 3_000
"""Work of reading and checking, per tuple of edges and per edge, which is a Python float."""

GridEdges = Annotated[tuple[float, ...], msgspec.Meta(max_length=100_000)]
"""Edges e_1 < ... < e_b in units, rounded to steps of 2^-24. Of the b + 1 bins, bin j holds e_j <= v < e_{j+1}."""


def check_edges(edges: Sequence[float], field: str) -> None:
    """Raise RemoteProtocolError(BAD_QUERY) unless the edges are within +-2^27 and rise by at least 2^-24 each."""
    if not edges:
        return
    values = np.asarray(edges, np.float64)
    # A NaN fails the comparison as well.
    if not (np.abs(values) <= MOST_EDGE).all() or not (np.diff(_steps(edges)) > 0).all():
        limit = f"strictly increasing in steps of 1/{PRODUCT_STEPS}, within +-{MOST_EDGE:g}"
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, limit)


def bins(values: NDArray[np.float64], edges: Sequence[float]) -> NDArray[np.intp]:
    """The bin of each value, (n,) in 0 .. len(edges). `values` are in steps of 2^-24, checked `edges` in units."""
    return at_or_below(_steps(edges), values)


def at_or_below(edges: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.intp]:
    """How many of the increasing edges are at or below each value, (n,) in 0 .. b; any number for a NaN.

    Few edges are compared one after the other, which takes a fifth of a search's time.
    """
    if not 0 < len(edges) <= FEW_EDGES:
        return np.searchsorted(edges, values, side="right")
    values = np.ascontiguousarray(values)
    below: NDArray[np.uint8] = np.greater_equal(values, edges[0]).view(np.uint8)
    for edge in edges[1:]:
        below += (values >= edge).view(np.uint8)
    return below.astype(np.intp)


def search_cost(edges: Sequence[float]) -> int:
    """Work of a binary search among the edges for one value."""
    return COLUMN_COST + COMPARISON_COST * max(1, len(edges).bit_length())


def search_once(edges: Sequence[float]) -> int:
    """Work of reading, checking and preparing the edges."""
    return EDGES_ONCE + EDGE_ONCE * len(edges)


def _steps(edges: Sequence[float]) -> NDArray[np.float64]:
    return np.rint(np.asarray(edges, np.float64) * PRODUCT_STEPS)
