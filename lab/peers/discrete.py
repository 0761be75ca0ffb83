"""Records as codes: a few even bins of a number, the levels of a category; and back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.peers.preparation import attribute_columns
from lab.peers.task import Matrix, Vector

Codes = NDArray[np.int64]
Clique = tuple[int, ...]
"""Places of attributes that are counted together."""

BINS = 8
"""Even bins of a numeric attribute over its public range."""


@dataclass(frozen=True)
class Attribute:
    """A discrete attribute and the matrix columns that it stands for."""

    columns: tuple[int, ...]  # one column of numbers, or one 0/1 column a level
    edges: tuple[float, ...] = ()  # (k + 1,) ascending bounds of a numeric attribute's bins; empty for levels

    @property
    def size(self) -> int:
        """Number of codes; levels have one more, for records with none of them."""
        return len(self.edges) - 1 if self.edges else len(self.columns) + 1


def attributes_of(columns: Sequence[str], lower: Vector, upper: Vector, bins: int = BINS) -> list[Attribute]:
    """Even bins for numbers; columns named "attribute=level" become one attribute again.

    `columns` (p,) names; `lower` (p,) public lower bounds; `upper` (p,) public upper bounds, above `lower`; `bins`:
    per numeric attribute, at least 2.

    Raises ValueError: bounds that are not in order.
    """
    if not np.all(lower < upper):
        raise ValueError("every lower bound must be below its upper bound")

    def edges(place: int) -> tuple[float, ...]:
        return () if "=" in columns[place] else tuple(np.linspace(lower[place], upper[place], bins + 1).tolist())

    return [Attribute(places, edges(places[0])) for places in attribute_columns(columns)]


def discretise(matrix: Matrix, attributes: Sequence[Attribute]) -> Codes:
    """(n, p) numbers as (n, a) codes; values outside the bounds go to the end bins."""
    codes = []
    for attribute in attributes:
        held = matrix[:, attribute.columns]
        if attribute.edges:
            codes.append(np.searchsorted(np.array(attribute.edges[1:-1]), held[:, 0], side="right"))
        else:
            codes.append(np.where(held.any(axis=1), held.argmax(axis=1), len(attribute.columns)))
    return np.stack(codes, axis=1).astype(np.int64)


def restore(codes: Codes, attributes: Sequence[Attribute], rng: np.random.Generator) -> Matrix:
    """(n, a) codes as (n, p) numbers: uniform within a bin; 0/1 columns for levels."""
    matrix = np.zeros((len(codes), sum(len(attribute.columns) for attribute in attributes)))
    for code, attribute in zip(codes.T, attributes, strict=True):
        if attribute.edges:
            edges = np.array(attribute.edges)
            matrix[:, attribute.columns[0]] = edges[code] + rng.random(len(code)) * (edges[code + 1] - edges[code])
        else:
            known = code < len(attribute.columns)
            matrix[np.flatnonzero(known), np.array(attribute.columns)[code[known]]] = 1.0
    return matrix


def marginal(codes: Codes, sizes: Sequence[int], clique: Clique) -> NDArray[np.int64]:
    """Counts of a marginal, row-major over the clique's attributes."""
    shape = tuple(sizes[place] for place in clique)
    cells = np.ravel_multi_index(tuple(codes[:, place] for place in clique), shape)
    return np.bincount(cells, minlength=math.prod(shape))
