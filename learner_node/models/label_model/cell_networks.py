"""An ensemble of small networks trained on the likelihood of the cells' answers, not on labels.

A network predicts f at every source record; the answers judge its cell means, by the site tables that the Gaussian
process uses. Each network is trained without a quarter of the cells (bagging, Breiman 1996), which makes their average
more stable. Their predictions for held-out cells determine their weight in an average with the Gaussian process
(stacking, Wolpert 1992).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from learner_node.models.label_model.expectation_propagation import CellPosterior
from learner_node.models.label_model.likelihood import SIGNAL_NODES
from learner_node.models.label_model.random_features import blocks
from learner_node.models.networks import plain_arithmetic

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_NETWORKS = 4
_HIDDEN = (64, 64)
_STEPS = 120
_RATE = 2e-2
_WARM_UP = 0.1
_DECAY = 1e-3
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
    layers: tuple[tuple[Singles, Singles], ...]
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
    with plain_arithmetic():
        parameters = _trained(features, posterior, left_out, rng)
    tensors = [tensor.detach().numpy() for tensor in parameters]
    layers = tuple(zip(tensors[::2], tensors[1::2], strict=True))
    return CellNetworks(layers, _weight(layers, features, posterior, left_out))


def _weight(
    layers: tuple[tuple[Singles, Singles], ...], features: Floats, posterior: CellPosterior, left_out: NDArray[np.int64]
) -> float:
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


def _signals(layers: tuple[tuple[Singles, Singles], ...], features: Floats) -> Singles:
    """Outputs of each network, float32 (networks, n)."""
    values: Singles = features.astype(np.float32)[None]
    for index, (weight, bias) in enumerate(layers):
        values = values @ weight + bias
        values = np.maximum(values, 0.0) if index < len(layers) - 1 else np.tanh(values)
    return values[..., 0]


def _trained(
    features: Floats, posterior: CellPosterior, left_out: NDArray[np.int64], rng: np.random.Generator
) -> list[torch.Tensor]:
    training = np.arange(_NETWORKS)[:, None] != left_out
    likeliest = SIGNAL_NODES[(training @ posterior.table.log_likelihood).argmax(axis=1)]
    table, trained_on = torch.from_numpy(posterior.table.log_likelihood.astype(np.float32)), torch.from_numpy(training)
    parameters = _initial(features.shape[1], likeliest, rng)
    optimiser = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=_STEPS, pct_start=_WARM_UP)
    inputs = torch.from_numpy(features.astype(np.float32))
    draw = _CellDraws(posterior.cells, rng)
    for _ in range(_STEPS):
        optimiser.zero_grad()
        signal = _forward(parameters, inputs[draw.rows().ravel()])
        means = signal.view(_NETWORKS, len(table), -1).mean(dim=2)
        loss = -(_interpolated(table, means) * trained_on).sum() / len(table)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return parameters


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


def _initial(dimensions: int, signals: Floats, rng: np.random.Generator) -> list[torch.Tensor]:
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
        parameters += [torch.from_numpy(values.astype(np.float32)).requires_grad_() for values in (weight, bias)]
    return parameters


def _forward(parameters: list[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Signals (networks, n)."""
    values = inputs.expand(_NETWORKS, *inputs.shape)
    for index in range(0, len(parameters), 2):
        values = torch.baddbmm(parameters[index + 1], values, parameters[index])
        values = torch.relu(values) if index < len(parameters) - 2 else torch.tanh(values)
    return values[..., 0]


def _interpolated(table: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
    """Log likelihoods (networks, K) at cell means (networks, K), linear between the nodes."""
    position = (means + 1.0) * (0.5 * (len(SIGNAL_NODES) - 1))
    index = position.detach().long().clamp(0, len(SIGNAL_NODES) - 2)
    rows = torch.arange(len(table))
    fraction = position - index
    return table[rows, index] * (1.0 - fraction) + table[rows, index + 1] * fraction
