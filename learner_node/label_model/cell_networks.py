"""An ensemble of small networks trained on the likelihood of the cells' answers, not on labels.

A network says f at every source record; what the answers judge is its mean over a cell, by the same site tables as
the Gaussian process. Each network is trained without a quarter of the cells (bagging, Breiman 1996): they differ more,
and their mean is steadier. What else they are averaged with is decided elsewhere.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from learner_node.label_model.cell_posterior import CellPosterior
from learner_node.label_model.likelihood import SIGNAL_NODES
from learner_node.label_model.random_features import blocks
from learner_node.networks import plain_arithmetic

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_NETWORKS = 8
_PARTS = 4
_HIDDEN = (64, 64)
_STEPS = 200
_RATE = 2e-2
_WARM_UP = 0.1
_DECAY = 1e-3
_RECORDS = 1024
_RECORDS_PER_CELL = (2, 8)


@dataclass(frozen=True)
class CellNetworks:
    """A trained ensemble.

    Attributes:
        layers: (W, b) from input to output, float32, (networks, inputs, outputs) and (networks, 1, outputs); ReLU
            between them, tanh after the last.
        cells: number of cells that they were trained on.
    """

    layers: tuple[tuple[Singles, Singles], ...]
    cells: int

    def signal(self, features: Floats) -> Floats:
        """The ensemble's mean label signal at instances on the scale of the fit, float64 (n,), in [-1, 1].

        Args:
            features: float64 (n, d), finite.
        """
        result = np.empty(len(features))
        for block in blocks(len(features)):
            values = features[block].astype(np.float32)[None]
            for index, (weight, bias) in enumerate(self.layers):
                values = values @ weight + bias
                values = np.maximum(values, 0.0) if index < len(self.layers) - 1 else np.tanh(values)
            result[block] = values[..., 0].mean(axis=0)
        return result


def train_cell_networks(features: Floats, posterior: CellPosterior, *, seed: int) -> CellNetworks:
    """Train eight networks of two hidden layers, each on three quarters of the cells.

    The loss is the mean over cells of -log t_c(mean of tanh(network) over 2 to 8 of the cell's source records, drawn
    anew each step, with replacement); 200 steps of AdamW.

    Args:
        features: source records as the label model was fitted to, float64 (n_s, d).
        posterior: of the same fit.
        seed: of initial weights, parts and draws, non-negative.
    """
    rng = np.random.default_rng([seed, 71])
    with plain_arithmetic():
        parameters = _trained(features, posterior, rng)
    layers = [tensor.detach().numpy() for tensor in parameters]
    return CellNetworks(tuple(zip(layers[::2], layers[1::2], strict=True)), len(posterior.mass))


def _trained(features: Floats, posterior: CellPosterior, rng: np.random.Generator) -> list[torch.Tensor]:
    table = torch.from_numpy(posterior.table.log_likelihood.astype(np.float32))
    trained_on = torch.from_numpy(np.arange(_NETWORKS)[:, None] % _PARTS != rng.permutation(len(table)) % _PARTS)
    parameters = _initial(features.shape[1], rng)
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


def _initial(dimensions: int, rng: np.random.Generator) -> list[torch.Tensor]:
    """Weights (networks, in, out) and biases (networks, 1, out) by He et al. 2015; first biases spread the kinks."""
    parameters = []
    sizes = (dimensions, *_HIDDEN, 1)
    for index, (before, after) in enumerate(pairwise(sizes)):
        weight = rng.standard_normal((_NETWORKS, before, after)) * np.sqrt(2.0 / before)
        bias = rng.standard_normal((_NETWORKS, 1, after)) * (0.3 if index == 0 else 0.1)
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
