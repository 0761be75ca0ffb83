"""The paper's weak learner: X -> 25 tanh -> 25 tanh -> 25 tanh -> sigmoid, trained to tell records from draws.

It is trained in float32. What is kept are its weights on a grid of 2^-12, and it is evaluated on that grid: all sums
are of whole numbers below 2^53, so a cell's score is the same to the last bit whatever else is scored with it.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from curator_node.random_words import RandomWords, Words
from protocol.grids import BaseLaw, Cells, LevelAxis, NumberAxis

HIDDEN = (25, 25, 25)
STEP_SIZE = 0.01
MOMENTUM = 0.9
"""Of Nesterov's method; the paper names none, and this is what libraries take."""
GRID = 4096
"""Steps of 2^-12, of inputs, weights and activations."""
MOST_INPUT = 16
MOST_WEIGHT = 64
MOST_SUM = 8
"""tanh is 1 to the grid from here on."""
MOST_LOGIT = 2.0

Float32s = NDArray[np.float32]
Layers = Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]


class Network:
    """A trained network, as it is evaluated.

    Args:
        base: whose cells it scores.
        layers: (weights (out, in), biases (out,)) of each, in any floats: what is no number becomes 0, and all are
            rounded to the grid of 2^-12 within +-64.
    """

    def __init__(self, base: BaseLaw, layers: Layers) -> None:
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
    """Of each axis: (points, width) inputs of each point, multiples of 2^-12 within +-16.

    A number is standardised by the base law, uniform or Gaussian; a level is one input that is 1 among others of 0.
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


def train(base: BaseLaw, real: Cells, drawn: Cells, *, epochs: int, batch: int | None, source: RandomWords) -> Network:
    """Nesterov's accelerated gradient on the cross-entropy, real records and draws weighing as much as each other.

    Args:
        base: whose cells they are.
        real: (n, d), at least one.
        drawn: (m, d), at least one.
        epochs: passes.
        batch: records of a step; None takes all of them.
        source: of first weights and of the order of batches.
    """
    inputs = inputs_of(base)
    n, m = len(real), len(drawn)
    # Equal cells have equal slopes: a pass over all of them takes each once, with its number.
    (real, often), (drawn, drawn_often) = (_counted(cells, each=batch is not None) for cells in (real, drawn))
    records = np.vstack([features(inputs, real), features(inputs, drawn)]).astype(np.float32)
    labels = np.repeat(np.array([1, 0], np.float32), [len(real), len(drawn)])
    shares = (np.concatenate([often / n, drawn_often / m]) * (len(records) / 2)).astype(np.float32)
    layers = _first_layers(records.shape[1], source)
    speeds = [(np.zeros_like(weights), np.zeros_like(biases)) for weights, biases in layers]
    size = len(records) if batch is None else batch
    # What overflows becomes 0 when the weights are put on the grid: nothing is raised, whatever the records.
    with np.errstate(all="ignore"):
        for _ in range(epochs):
            order = None if batch is None else np.argsort(source.words(len(records)), kind="stable")
            for start in range(0, len(records), size):
                rows = slice(start, start + size) if order is None else order[start : start + size]
                slopes = _slopes(layers, records[rows], labels[rows], shares[rows])
                _step(layers, speeds, slopes)
    return Network(base, [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers])


def _counted(cells: Cells, *, each: bool) -> tuple[Cells, NDArray[np.int64]]:
    """Distinct cells and how often each is there; or `each` one by itself."""
    if each:
        return cells, np.ones(len(cells), np.int64)
    distinct, often = np.unique(cells, axis=0, return_counts=True)
    return distinct, often.astype(np.int64)


def _standard(axis: NumberAxis) -> tuple[float, float]:
    """Mean and standard deviation of the base law on this axis, as if it were not cut off."""
    if axis.centre is not None and axis.deviation is not None:
        return axis.centre, axis.deviation
    return (axis.lower + axis.upper) / 2, (axis.upper - axis.lower) / float(np.sqrt(12))


def _first_layers(width: int, source: RandomWords) -> list[tuple[Float32s, Float32s]]:
    """Uniform weights within +-sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010), and biases of 0."""
    layers = []
    widths = (width, *HIDDEN, 1)
    for fan_in, fan_out in zip(widths[:-1], widths[1:], strict=True):
        uniform = _uniform(source.words(fan_in * fan_out)).reshape(fan_out, fan_in)
        weights = ((2 * uniform - 1) * np.sqrt(6 / (fan_in + fan_out))).astype(np.float32)
        layers.append((weights, np.zeros(fan_out, np.float32)))
    return layers


def _uniform(words: Words) -> NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _slopes(
    layers: Sequence[tuple[Float32s, Float32s]], records: Float32s, labels: Float32s, shares: Float32s
) -> list[tuple[Float32s, Float32s]]:
    """Gradient of the mean weighted cross-entropy in each layer's weights and biases."""
    hidden = [records]
    for weights, biases in layers[:-1]:
        sums = hidden[-1] @ weights.T
        sums += biases
        hidden.append(np.tanh(sums, out=sums))
    last, bias = layers[-1]
    scores = (hidden[-1] @ last.T)[:, 0] + bias
    error = ((0.5 * (1 + np.tanh(scores / 2)) - labels) * shares / np.float32(len(records)))[:, None]
    slopes = []
    for (weights, _), inputs in zip(reversed(layers), reversed(hidden), strict=True):
        slopes.append((error.T @ inputs, error.sum(axis=0)))
        if inputs is not records:
            error = error @ weights
            error *= 1 - inputs * inputs
    return slopes[::-1]


def _step(
    layers: Sequence[tuple[Float32s, Float32s]],
    speeds: Sequence[tuple[Float32s, Float32s]],
    slopes: Sequence[tuple[Float32s, Float32s]],
) -> None:
    """One step of Nesterov's method in place, looking ahead by the momentum (Sutskever et al. 2013, Eq. 3 and 4,
    rewritten in the point that is looked at, as libraries have it)."""
    for parameters, moving, downhill in zip(layers, speeds, slopes, strict=True):
        for parameter, speed, slope in zip(parameters, moving, downhill, strict=True):
            speed *= MOMENTUM
            speed -= STEP_SIZE * slope
            parameter += MOMENTUM * speed - STEP_SIZE * slope


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return np.rint(np.clip(whole, -MOST_WEIGHT, MOST_WEIGHT) * GRID) / GRID


@lru_cache(maxsize=1)
def _tanh_table() -> NDArray[np.float64]:
    """tanh on the grid of 2^-12 from -8 to 8, rounded to it: looked up, it cannot hang on a place in an array."""
    sums = np.arange(-MOST_SUM * GRID, MOST_SUM * GRID + 1) / GRID
    return np.rint(np.tanh(sums) * GRID) / GRID
