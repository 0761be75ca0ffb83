"""An ensemble of small networks trained on the likelihood of the cells' answers, not on labels.

A network predicts f at every source record; the answers judge its cell means, by the site tables that the Gaussian
process uses. Each network is trained without a quarter of the cells (bagging, Breiman 1996), which makes their average
more stable. Their predictions for held-out cells determine their weight in an average with the Gaussian process
(stacking, Wolpert 1992).

A training step is written out in numpy, forward and backward: importing a library that differentiates by itself takes
longer than all 120 steps. The tests hold it to torch.autograd and torch.optim.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.expectation_propagation import CellPosterior
from learner_node.models.label_model.likelihood import SIGNAL_NODES
from learner_node.models.label_model.random_features import blocks

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Layers = tuple[tuple[Singles, Singles], ...]

_NETWORKS = 4
_HIDDEN = (64, 64)
_STEPS = 120
_RATE, _FIRST_RATE, _LAST_RATE = 2e-2, 8e-4, 8e-8
_WARM_UP = 0.1
_DECAY = 1e-3
_MOMENTUM, _FAST_MOMENTUM = 0.95, 0.85
_SQUARES = 0.999
_LEAST_DEVIATION = 1e-8
_RECORDS = 512
_RECORDS_PER_CELL = (2, 8)
_START = 0.3
_SUREST_START = 0.98
_WEIGHTS: Floats = np.linspace(0.0, 1.0, 41)
_DOUBT, _HELPFUL = 9.0, 0.05
_STEADIER = 2.0


@dataclass(frozen=True)
class CellNetworks:
    """A trained ensemble."""

    # (W, b) from input to output, float32, (networks, inputs, outputs) and (networks, 1, outputs); ReLU between them,
    # tanh after the last
    layers: Layers
    weight: float  # their share of an average with the Gaussian process, in [0, 1]

    def signal(self, features: Floats) -> Floats:
        """The ensemble's mean label signal at instances on the scale of the fit, float64 (n,), in [-1, 1].

        Args:
            features: float64 (n, d), finite.
        """
        result = np.empty(len(features))
        for block in blocks(len(features)):
            result[block] = _signals(self.layers, features[block]).mean(axis=0)
        return result


def train_cell_networks(features: Floats, posterior: CellPosterior, *, seed: int) -> CellNetworks:
    """Train four networks of two hidden layers, each on another three quarters of the cells, and weight them.

    The loss is the mean over cells of -log t_c(mean of tanh(network) over 2 to 8 of the cell's source records, redrawn
    each step with replacement); 120 steps of AdamW. A network starts at the constant share of greatest likelihood in
    its cells, with a small last layer, so that no tanh is saturated in the first steps.

    The weight is twice the posterior mean of w, and at most 1. Each held-out cell's share is modelled as (1 - w) g + w
    h. Here g is the Gaussian process's prediction from the other cells, and h that of the network trained without the
    cell. A priori w is 0 with probability 19/20, and otherwise has a density that falls as (1 - w)^9. So cells that say
    little leave the weight near 0. The factor two allows for the average of four networks being more stable than the
    one that predicts a cell.

    Args:
        features: source records as the label model was fitted to, float64 (n_s, d).
        posterior: posterior of the same fit.
        seed: seed of initial weights, parts and draws, non-negative.
    """
    rng = np.random.default_rng([seed, 71])
    left_out = rng.permutation(len(posterior.mass)) % _NETWORKS
    layers = _trained(features, posterior, left_out, rng)
    return CellNetworks(layers, _weight(layers, features, posterior, left_out))


def _weight(layers: Layers, features: Floats, posterior: CellPosterior, left_out: NDArray[np.int64]) -> float:
    """The weight of the networks, as `train_cell_networks` says."""
    sizes = np.bincount(posterior.cells)
    signal = np.empty(len(features))
    group = left_out[posterior.cells]
    for block in blocks(len(features)):
        signals = _signals(layers, features[block])
        signal[block] = signals[group[block], np.arange(signals.shape[1])]
    networks = 0.5 * (1.0 + np.bincount(posterior.cells, signal) / sizes)
    process = posterior.held_out_share()
    log_likelihood = np.array([posterior.log_likelihood((1.0 - w) * process + w * networks) for w in _WEIGHTS])
    prior = (1.0 - _WEIGHTS) ** _DOUBT
    prior *= _HELPFUL / prior.sum()
    prior[0] += 1.0 - _HELPFUL
    likely = np.exp(log_likelihood - log_likelihood.max()) * prior
    return float(min(_STEADIER * (likely @ _WEIGHTS) / likely.sum(), 1.0))


def _signals(layers: Layers, features: Floats) -> Singles:
    """Outputs of each network, float32 (networks, n)."""
    values: Singles = features.astype(np.float32)[None]
    for index, (weight, bias) in enumerate(layers):
        values = values @ weight + bias
        values = np.maximum(values, 0.0) if index < len(layers) - 1 else np.tanh(values)
    return values[..., 0]


def _trained(
    features: Floats, posterior: CellPosterior, left_out: NDArray[np.int64], rng: np.random.Generator
) -> Layers:
    training = np.arange(_NETWORKS)[:, None] != left_out
    likeliest = SIGNAL_NODES[(training @ posterior.table.log_likelihood).argmax(axis=1)]
    initial = _initial(features.shape[1], likeliest, rng)
    parameters = np.concatenate([values.ravel() for values in initial])
    gradients = np.empty_like(parameters)
    shapes = [values.shape for values in initial]
    layers, layer_gradients = _views(parameters, shapes), _views(gradients, shapes)
    optimiser = _AdamW(parameters)
    table, inputs = posterior.table.log_likelihood.astype(np.float32), features.astype(np.float32)
    draw = _CellDraws(posterior.cells, rng)
    for _ in range(_STEPS):
        _backward(layers, inputs[draw.rows()], table, training, layer_gradients)
        optimiser.step(gradients)
    return layers


class _CellDraws:
    """Draws source records of every cell, with replacement."""

    def __init__(self, cells: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._order = np.argsort(cells, kind="stable")
        self._sizes = np.bincount(cells)[:, None]
        self._starts = np.cumsum(self._sizes)[:, None] - self._sizes
        self._rng = rng
        self._each = int(np.clip(_RECORDS // len(self._sizes), *_RECORDS_PER_CELL))

    def rows(self) -> NDArray[np.int64]:
        """(K, records per cell) row numbers."""
        chance = self._rng.random((len(self._sizes), self._each))
        rows: NDArray[np.int64] = self._order[self._starts + (chance * self._sizes).astype(np.int64)]
        return rows


def _initial(dimensions: int, signals: Floats, rng: np.random.Generator) -> list[Singles]:
    """Weights (networks, in, out) and biases (networks, 1, out) by He et al. 2015; first biases spread the kinks.

    The last layer's weights are a third as large, and its biases give each network its signal, (networks,).
    """
    parameters = []
    sizes = (dimensions, *_HIDDEN, 1)
    for index, (before, after) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((_NETWORKS, before, after)) * np.sqrt(2.0 / before)
        bias = rng.standard_normal((_NETWORKS, 1, after)) * (0.3 if index == 0 else 0.1)
        if index == len(_HIDDEN):
            weight *= _START
            bias[:] = np.arctanh(np.clip(signals, -_SUREST_START, _SUREST_START))[:, None, None]
        parameters += [values.astype(np.float32) for values in (weight, bias)]
    return parameters


def _views(flat: Singles, shapes: Sequence[tuple[int, ...]]) -> Layers:
    """Weights and biases of each layer, as parts of one vector."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True)]
    return tuple(zip(parts[::2], parts[1::2], strict=True))


def _backward(layers: Layers, inputs: Singles, table: Singles, training: NDArray[np.bool_], gradients: Layers) -> float:
    """Write the gradient of the loss into `gradients`.

    Network after network, so that what one of them computes stays in the cache, and of its cells alone.

    Args:
        layers: as of `CellNetworks`.
        inputs: the same number of records of each cell, (K, records, d).
        table: log likelihood of each cell's signal at `SIGNAL_NODES`, (K, nodes).
        training: whether a network is trained on a cell, (networks, K).
        gradients: of the shapes of `layers`.

    Returns:
        The loss, over all networks.
    """
    cells, records, _ = inputs.shape
    per_signal = 0.5 * (len(SIGNAL_NODES) - 1)
    loss = 0.0
    for network, trained in enumerate(training):
        parameters = [(weight[network], bias[network]) for weight, bias in layers]
        outputs, positive = [inputs[trained].reshape(-1, inputs.shape[-1])], []
        for weight, bias in parameters[:-1]:
            values = outputs[-1] @ weight
            values += bias
            positive.append(values > 0.0)
            values *= positive[-1]
            outputs.append(values)
        signal = np.tanh(outputs[-1] @ parameters[-1][0] + parameters[-1][1])
        position = (signal.reshape(-1, records).mean(axis=1) + np.float32(1)) * np.float32(per_signal)
        node = np.clip(position.astype(np.int64), 0, len(SIGNAL_NODES) - 2)
        rows = np.flatnonzero(trained)
        lower = table[rows, node]
        slope = table[rows, node + 1] - lower
        loss -= float((lower + slope * (position - node)).sum()) / cells
        slope *= np.float32(-per_signal / (cells * records))
        delta = (1.0 - signal * signal) * np.repeat(slope, records)[:, None]
        ones = np.ones((1, len(delta)), np.float32)
        for index in range(len(parameters) - 1, -1, -1):
            weight_gradient, bias_gradient = gradients[index]
            np.matmul(outputs[index].T, delta, out=weight_gradient[network])
            np.matmul(ones, delta, out=bias_gradient[network])
            if index:
                weight = parameters[index][0]
                # of one output a product of matrices takes three times as long
                delta = delta * weight.T if index == len(parameters) - 1 else delta @ weight.T
                delta *= positive[index - 1]
    return loss


class _AdamW:
    """AdamW (Loshchilov and Hutter 2019) in one cycle of rates and momentum (Smith and Topin 2019).

    In a tenth of the steps the rate rises as a cosine, and the momentum falls; in the others both go back.
    """

    def __init__(self, parameters: Singles) -> None:
        self._parameters = parameters
        self._first, self._second = np.zeros_like(parameters), np.zeros_like(parameters)
        self._steps = 0

    def step(self, gradients: Singles) -> None:
        """Change the parameters; the gradients are (parameters,)."""
        rate, momentum = _of_cycle(self._steps)
        self._steps += 1
        self._parameters *= 1.0 - rate * _DECAY
        self._first += (1.0 - momentum) * (gradients - self._first)
        self._second *= _SQUARES
        self._second += (1.0 - _SQUARES) * gradients * gradients
        deviation = np.sqrt(self._second)
        deviation *= (1.0 - _SQUARES**self._steps) ** -0.5
        deviation += _LEAST_DEVIATION
        self._parameters -= rate / (1.0 - momentum**self._steps) * (self._first / deviation)


def _of_cycle(step: int) -> tuple[float, float]:
    """Rate and momentum of a step, counted from 0."""
    peak = _WARM_UP * _STEPS - 1.0
    if step <= peak:
        part, rates, momenta = step / peak, (_FIRST_RATE, _RATE), (_MOMENTUM, _FAST_MOMENTUM)
    else:
        part = (step - peak) / (_STEPS - 1.0 - peak)
        rates, momenta = (_RATE, _LAST_RATE), (_FAST_MOMENTUM, _MOMENTUM)
    share = 0.5 * (1.0 + math.cos(math.pi * part))
    rate, momentum = (end + (start - end) * share for start, end in (rates, momenta))
    return rate, momentum
