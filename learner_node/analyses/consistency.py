"""Noisy counts made fit to be shown: whole numbers, none negative, whose margins add up. Nothing is inferred from them.

To clamp each cell at zero would add .43 records to an empty cell at epsilon 1, and 425 to a thousand of them. So totals
come first, then margins, then cells:

1. A total is its raw value, or 0.
2. Counts that add up to a total are settled: each negative count becomes 0, and its debt is paid by the smallest
   positive counts, which are the likeliest to be noise; counts above twice the noise's deviation pay only what is left,
   in equal parts. So what is large is shown as it was answered.
3. Cells are the nearest ones in squared distance that are not negative and have the margins of each axis, rounded to
   whole numbers that keep the margins of a table of two axes. Of three axes, the margin of the first two and that of
   the third are kept, and other margins are sums of what is shown.

docs/learner/tables.md has the bias that this leaves: totals and margins of many sparse cells have none that matters,
and a margin that is itself within twice its noise of zero is shown too large by up to .4 deviations, as by any rule
that shows nothing negative.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from learner_node.analyses.noise_law import NoiseLaw

Floats = NDArray[np.float64]
_ROUNDS = 300
_CLOSE = 1e-7
SIGNIFICANT = 2.0
"""Deviations of its noise that a count must have before it pays as the large ones do."""


def settled(counts: Floats, total: float, deviation: float) -> Floats:
    """Whole numbers of at least 0 that add up to a whole total of at least 0, near to noisy counts.

    Args:
        counts: (k,), raw.
        total: what they have to add up to.
        deviation: of the noise in each.
    """
    display = np.rint(np.maximum(counts, 0.0))
    debt = float(display.sum() - np.rint(total))
    if debt < 0:
        # the total says more than the counts: each has an equal part of it
        return display + _even(-debt, np.argsort(-display, kind="stable"), len(display))
    small = np.argsort(display, kind="stable")
    for index in small:
        if debt <= 0 or display[index] > SIGNIFICANT * deviation:
            break
        part = min(debt, display[index])
        display[index] -= part
        debt -= part
    while debt > 0:
        payers = np.flatnonzero(display > 0)
        order = payers[np.argsort(-display[payers], kind="stable")]
        part = np.minimum(_even(debt, order, len(display)), display)
        display -= part
        debt -= float(part.sum())
    return display


def _even(amount: float, order: NDArray[np.intp], size: int) -> Floats:
    """A whole amount in whole parts that differ by one at most; the first in the order have more."""
    parts = np.zeros(size)
    quotient, rest = divmod(int(amount), len(order))
    parts[order] = quotient
    parts[order[:rest]] += 1
    return parts


def consistent(values: Floats, noise: NoiseLaw, columns: Floats | None = None) -> Floats:
    """What is shown of a noisy table, of its shape: whole numbers of at least 0.

    Args:
        values: raw counts, of one to three axes; further axes are flattened into the third.
        noise: in each cell.
        columns: (s,), whole numbers that the columns of a table of two axes add up to, from elsewhere; None takes its
            own.
    """
    deviation = float(np.sqrt(noise.variance))
    if columns is not None:
        rows = settled(values.sum(1), float(columns.sum()), deviation * values.shape[1] ** 0.5)
        return _cells(values, rows, columns)
    total = max(0.0, float(np.rint(values.sum())))
    if values.ndim == 1:
        return settled(values, total, deviation)
    if values.ndim == 2:
        rows = settled(values.sum(1), total, deviation * values.shape[1] ** 0.5)
        columns = settled(values.sum(0), total, deviation * values.shape[0] ** 0.5)
        return _cells(values, rows, columns)
    pairs = consistent(values.sum(tuple(range(2, values.ndim))), noise.of_cells(float(np.prod(values.shape[2:]))))
    flat = values.reshape(values.shape[0] * values.shape[1], -1)
    columns = settled(flat.sum(0), total, deviation * len(flat) ** 0.5)
    return _cells(flat, pairs.ravel(), columns).reshape(values.shape)


def _cells(values: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest cells with these margins, (r, s), as whole numbers."""
    near = nearest(values, rows, columns)
    floor = np.floor(near + _CLOSE)
    rest = near - floor
    open_cells = np.argwhere(rest > _CLOSE)
    if not len(open_cells):
        return floor
    # whole solutions of a transport problem are its corners, so a linear programme finds one
    count = len(open_cells)
    place = np.arange(count)
    entries = np.concatenate([open_cells[:, 0], len(rows) + open_cells[:, 1]])
    matrix = csr_matrix((np.ones(2 * count), (entries, np.tile(place, 2))), shape=(len(rows) + len(columns), count))
    target = np.concatenate([rows - floor.sum(1), columns - floor.sum(0)])
    cost = 1.0 - 2.0 * rest[tuple(open_cells.T)]
    solution = linprog(cost, A_eq=matrix, b_eq=np.rint(target), bounds=(0, 1), method="highs-ds")
    if solution.success:
        floor[tuple(open_cells.T)] += np.rint(solution.x)
        return floor
    return _corner(rows, columns, near)


def nearest(values: Floats, rows: Floats, columns: Floats) -> Floats:
    """The table nearest to `values` in squared distance that is not negative and has these margins.

    By Dykstra's alternating projections onto tables of the rows' sums and of the columns' sums, each without negative
    cells. What they leave open is closed by scaling, so that margins hold to 1e-9.
    """
    table, first, second = values.copy(), np.zeros_like(values), np.zeros_like(values)
    for _ in range(_ROUNDS):
        before = table
        by_rows = _simplex(table + first, rows)
        first = table + first - by_rows
        table = _simplex((by_rows + second).T, columns).T
        second = by_rows + second - table
        if np.abs(table - before).max() < _CLOSE and np.abs(table.sum(1) - rows).max() < _CLOSE:
            break
    return _scaled(table, rows, columns)


def _simplex(values: Floats, sums: Floats) -> Floats:
    """Project each row onto non-negative numbers of a sum (Held, Wolfe and Crowder 1974)."""
    ordered = -np.sort(-values, axis=1)
    excess = (np.cumsum(ordered, axis=1) - sums[:, None]) / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > excess).sum(1) - 1, 0)
    projected: Floats = np.maximum(values - excess[np.arange(len(values)), last][:, None], 0.0)
    return projected


def _scaled(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Make the margins exact: shrink what is too large, and add what is missing as a product of the gaps."""
    with np.errstate(divide="ignore", invalid="ignore"):
        table = table * np.where(table.sum(1) > rows, rows / table.sum(1), 1.0)[:, None]
        table = table * np.where(table.sum(0) > columns, columns / table.sum(0), 1.0)
    row_gap, column_gap = np.maximum(rows - table.sum(1), 0.0), np.maximum(columns - table.sum(0), 0.0)
    gap = min(row_gap.sum(), column_gap.sum())
    return table if gap <= 0 else table + np.outer(row_gap, column_gap) / gap


def _corner(rows: Floats, columns: Floats, near: Floats) -> Floats:
    """Whole cells with these margins, the largest first: used where the programme found none, which rounding may do."""
    rows, columns, table = rows.copy(), columns.copy(), np.zeros_like(near)
    for flat in np.argsort(-near, axis=None):
        row, column = np.unravel_index(flat, near.shape)
        part = min(np.ceil(near[row, column]), rows[row], columns[column])
        table[row, column] += part
        rows[row] -= part
        columns[column] -= part
    for row in np.flatnonzero(rows):
        for column in np.flatnonzero(columns):
            part = min(rows[row], columns[column])
            table[row, column] += part
            rows[row] -= part
            columns[column] -= part
    return table
