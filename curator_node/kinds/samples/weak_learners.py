"""Weak learners that tell records from draws: naive Bayes for tables, and the paper's network.

The network is X -> 25 tanh -> 25 tanh -> 25 tanh -> sigmoid, trained in float32. Its weights are rounded to a grid of
2^-12, and it is evaluated on that grid. All sums are of whole numbers below 2^53, so a cell's score is the same to the
last bit whatever other cells are scored with it.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from curator_node.exact_draws import RandomWords, Words
from protocol.grids import BaseLaw, Cells, LevelAxis, NumberAxis

LOG_STEPS = 2**20
"""Steps of a logarithm in one unit: sums of whole steps are the same in any order."""


class NaiveBayes:
    """Scores log P(x) / Q(x) as a sum over binned axes, for each class if the base law has classes.

    Counts are smoothed by one record, spread evenly over an axis' bins. The score is a function of the cell alone.

    Args:
        base: the base law, whose cells are scored.
        real: (n, d) cells of records, from P.
        draws: (m, d) cells of draws, from Q.
        bins: most bins of an axis.
    """

    def __init__(self, base: BaseLaw, real: Cells, draws: Cells, *, bins: int) -> None:
        names = [axis.name for axis in base.axes]
        self._label = names.index(base.label) if base.label in base.levels else None
        classes = 1 if self._label is None else base.sizes[self._label]
        self._bins = [np.arange(size) * min(bins, size) // size for size in base.sizes]
        if self._label is not None:
            self._bins[self._label] = np.arange(classes)
        self._tables: list[NDArray[np.int64]] = []
        for column, binned in enumerate(self._bins):
            width = int(binned[-1]) + 1
            of_label = column == self._label
            shares = []
            for cells in (real, draws):
                classes_of_cells = np.zeros(len(cells), np.int64) if of_label else self._classes_of(cells)
                rows = 1 if of_label else classes
                counts = (
                    np.bincount(classes_of_cells * width + binned[cells[:, column]], minlength=rows * width) + 1 / width
                )
                by_class = counts.reshape(rows, width)
                shares.append(by_class / by_class.sum(axis=1, keepdims=True))
            self._tables.append(np.rint(np.log(shares[0] / shares[1]) * LOG_STEPS).astype(np.int64))

    def log_odds(self, cells: Cells) -> NDArray[np.float64]:
        """(n,) log-odds that a record is real, multiples of 2^-20."""
        classes_of_cells = self._classes_of(cells)
        total = np.zeros(len(cells), np.int64)
        for column, (binned, table) in enumerate(zip(self._bins, self._tables, strict=True)):
            rows = 0 if column == self._label else classes_of_cells
            total += table[rows, binned[cells[:, column]]]
        return total / LOG_STEPS

    def _classes_of(self, cells: Cells) -> NDArray[np.int64]:
        """The label's class; 0 where there is none."""
        return np.zeros(len(cells), np.int64) if self._label is None else cells[:, self._label]


HIDDEN = (25, 25, 25)
STEP_SIZE = 0.01
MOMENTUM = 0.9
"""Momentum of Nesterov's method. The paper names none, and this is the usual value in libraries."""
GRID = 4096
"""Steps of 2^-12, of inputs, weights and activations."""
MOST_INPUT = 16
MOST_WEIGHT = 64
MOST_SUM = 8
"""From here on tanh rounds to 1 on the grid."""
MOST_LOGIT = 2.0
BLOCK = 1000
"""Records whose activations are worked on at once, in training: 100 kB a layer."""

Float32s = NDArray[np.float32]
Layer = tuple[Float32s, Float32s]
"""Weights (out, in) and biases (out,)."""
Block = tuple[Float32s, Float32s, Float32s]
"""Some records: inputs (w, n), labels (n,), and their shares (n,) in the mean."""


class Network:
    """A trained network, as it is evaluated.

    Args:
        base: the base law, whose cells are scored.
        layers: weights (out, in) and biases (out,) of each layer. NaN becomes 0, and all are rounded to the grid of
            2^-12 within +-64.
    """

    def __init__(self, base: BaseLaw, layers: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
        self._inputs = inputs_of(base)
        self._layers = [(_on_grid(weights), _on_grid(biases)) for weights, biases in layers]

    def log_odds(self, cells: Cells) -> NDArray[np.float64]:
        """(n,) log-odds that a record is real, multiples of 2^-24 within +-2; a function of each cell alone."""
        hidden = features(self._inputs, cells)
        table = _tanh_table()
        *inner, (last, bias) = self._layers
        for weights, biases in inner:
            sums = np.rint((hidden @ weights.T + biases) * GRID)
            hidden = table[(np.clip(sums, -MOST_SUM * GRID, MOST_SUM * GRID) + MOST_SUM * GRID).astype(np.int64)]
        scores: NDArray[np.float64] = np.clip((hidden @ last.T + bias)[:, 0], -MOST_LOGIT, MOST_LOGIT)
        return scores


def inputs_of(base: BaseLaw) -> list[NDArray[np.float64]]:
    """For each axis, the (points, width) inputs of its points, multiples of 2^-12 within +-16.

    Numbers are standardised by the base law, uniform or Gaussian. Levels are encoded one-hot.
    """
    inputs = []
    for axis, size, values in zip(base.axes, base.sizes, base.values, strict=True):
        if isinstance(axis, LevelAxis):
            inputs.append(np.eye(size))
        else:
            centre, deviation = _standard(axis)
            scaled = np.clip((values - centre) / deviation, -MOST_INPUT, MOST_INPUT)
            inputs.append((np.rint(scaled * GRID) / GRID)[:, None])
    return inputs


def features(inputs: Sequence[NDArray[np.float64]], cells: Cells) -> NDArray[np.float64]:
    """(n, w) inputs of these cells, all axes side by side."""
    return np.hstack([table[cells[:, column]] for column, table in enumerate(inputs)])


def train(base: BaseLaw, real: Cells, draws: Cells, *, epochs: int, batch: int | None, source: RandomWords) -> Network:
    """Train a network by Nesterov's method on the cross-entropy; real records and draws have equal total weight.

    Args:
        base: the base law, whose cells are given.
        real: (n, d) cells of records, n at least 1.
        draws: (m, d) cells of draws, m at least 1.
        epochs: number of passes.
        batch: records of a step; None takes all of them.
        source: random numbers for first weights and for the order of batches.
    """
    inputs = inputs_of(base)
    n, m = len(real), len(draws)
    # Equal cells have equal slopes: a pass over all of them takes each once, with its number.
    (real, often), (draws, draws_often) = (_counted(cells, singly=batch is not None) for cells in (real, draws))
    records = np.vstack([features(inputs, real), features(inputs, draws)]).astype(np.float32).T
    labels = np.repeat(np.array([1, 0], np.float32), [len(real), len(draws)])
    shares = (np.concatenate([often / n, draws_often / m]) * (len(labels) / 2)).astype(np.float32)
    layers = _first_layers(len(records), source)
    moving = [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
    # What overflows becomes 0 when the weights are put on the grid: nothing is raised, whatever the records.
    with np.errstate(all="ignore"):
        every = [_blocks(records, labels, shares)] if batch is None else []
        for _ in range(epochs):
            for blocks in every or _batches(records, labels, shares, batch or n, source):
                _step(layers, moving, _slopes(layers, blocks))
    return Network(base, [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers])


def _counted(cells: Cells, *, singly: bool) -> tuple[Cells, NDArray[np.int64]]:
    """Distinct cells and how often each occurs; with `singly` all cells, each with the count 1."""
    if singly:
        return cells, np.ones(len(cells), np.int64)
    distinct, often = np.unique(cells, axis=0, return_counts=True)
    return distinct, often.astype(np.int64)


def _blocks(records: Float32s, labels: Float32s, shares: Float32s) -> list[Block]:
    """The records in blocks, each small enough to stay in a core's cache from layer to layer."""
    edges = range(0, len(labels), BLOCK)
    cuts = [slice(start, start + BLOCK) for start in edges]
    return [(np.ascontiguousarray(records[:, cut]), labels[cut], shares[cut] / np.float32(len(labels))) for cut in cuts]


def _batches(
    records: Float32s, labels: Float32s, shares: Float32s, size: int, source: RandomWords
) -> Iterator[list[Block]]:
    """All records in a random order, in batches of that size."""
    order = np.argsort(source.words(len(labels)), kind="stable")
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        yield _blocks(records[:, rows], labels[rows], shares[rows])


def _standard(axis: NumberAxis) -> tuple[float, float]:
    """Mean and standard deviation of the base law on this axis, without its truncation."""
    if axis.centre is not None and axis.deviation is not None:
        return axis.centre, axis.deviation
    return (axis.lower + axis.upper) / 2, (axis.upper - axis.lower) / float(np.sqrt(12))


def _first_layers(width: int, source: RandomWords) -> list[Layer]:
    """Uniform weights within +-sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010), and biases of 0."""
    layers = []
    for fan_in, fan_out in itertools.pairwise((width, *HIDDEN, 1)):
        uniform = _uniform(source.words(fan_in * fan_out)).reshape(fan_out, fan_in)
        weights = ((2 * uniform - 1) * np.sqrt(6 / (fan_in + fan_out))).astype(np.float32)
        layers.append((weights, np.zeros(fan_out, np.float32)))
    return layers


def _uniform(words: Words) -> NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _slopes(layers: Sequence[Layer], blocks: Sequence[Block]) -> list[Layer]:
    """Gradient of the mean weighted cross-entropy in each layer's weights and biases."""
    slopes = [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
    for records, labels, shares in blocks:
        hidden = [records]
        for weights, biases in layers[:-1]:
            sums = weights @ hidden[-1]
            sums += biases[:, None]
            hidden.append(np.tanh(sums, out=sums))
        last, bias = layers[-1]
        scores = (last @ hidden[-1] + bias[:, None])[0]
        error = ((0.5 * (1 + np.tanh(scores / 2)) - labels) * shares)[None, :]
        for (weights, _), values, (slope, slope_of_biases) in zip(
            reversed(layers), reversed(hidden), reversed(slopes), strict=True
        ):
            np.add(slope, error @ values.T, out=slope)
            np.add(slope_of_biases, error.sum(axis=1), out=slope_of_biases)
            if values is not records:
                # The slope of tanh, 1 - tanh^2, in the place of its values, which are read no more.
                np.multiply(values, values, out=values)
                np.subtract(1, values, out=values)
                error = np.multiply(weights.T @ error, values)
    return slopes


def _step(layers: Sequence[Layer], moving: Sequence[Layer], slopes: Sequence[Layer]) -> None:
    """One step of Nesterov's method, in place (Sutskever et al. 2013, Eq. 3 and 4, at the look-ahead point)."""
    for layer, speeds, downhill in zip(layers, moving, slopes, strict=True):
        for parameter, speed, slope in zip(layer, speeds, downhill, strict=True):
            np.subtract(MOMENTUM * speed, STEP_SIZE * slope, out=speed)
            np.add(parameter, MOMENTUM * speed - STEP_SIZE * slope, out=parameter)


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return np.rint(np.clip(finite, -MOST_WEIGHT, MOST_WEIGHT) * GRID) / GRID


@lru_cache(maxsize=1)
def _tanh_table() -> NDArray[np.float64]:
    """Hyperbolic tangent on the grid of 2^-12 from -8 to 8, rounded to it. Equal inputs get equal values."""
    sums = np.arange(-MOST_SUM * GRID, MOST_SUM * GRID + 1) / GRID
    table: NDArray[np.float64] = np.rint(np.tanh(sums) * GRID) / GRID
    return table
