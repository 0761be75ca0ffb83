"""Meta's Opacus, run in the peers' environment: a logistic regression and a small network by DP-SGD.

Every step takes all records, so there is no sampling to amplify and nothing lost to a bound on it: T steps with noise
multiplier z are one Gaussian mechanism with multiplier z / sqrt(T), whose (epsilon, delta) is known exactly (Balle and
Wang, 2018, Theorem 8). Opacus's own accountants give larger epsilons for the same noise, so this favours the peer.
Settings were chosen on seeds >= 5000; docs/peers.md has the table.
"""

import math
from functools import lru_cache
from importlib.metadata import version

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from scipy.special import log_ndtr, ndtr
from torch import nn

from simulations.peers.preparation import clipped
from simulations.peers.task import Labels, Matrix, PeerTask, Vector

LIBRARIES = {name: version(name) for name in ("opacus", "torch", "numpy", "scipy")}

CLIP = 1.0
"""L2 norm to which each record's gradient is clipped: the sensitivity, in that unit."""
HIDDEN = 32


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """The delta of a Gaussian mechanism whose noise is `multiplier` times the L2 sensitivity, at epsilon; Theorem 8."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return float(ndtr(half - shift) - math.exp(epsilon + log_ndtr(-half - shift)))


@lru_cache
def noise_multiplier(epsilon: float, delta: float, steps: int) -> float:
    """Least noise per step, rounded up by at most 1e-9 of it, of that many steps with all records."""
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(epsilon, middle) <= delta else (middle, high)
    return high * math.sqrt(steps)


def logistic(task: PeerTask) -> Vector:
    """Logistic regression from zero weights: (m,) probabilities of class 1."""
    layer = nn.Linear(task.train.shape[1], 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    rate = 2.0 * math.sqrt(task.private_epsilon())
    return _train(task, layer, torch.optim.SGD(layer.parameters(), lr=rate), steps=20)


def network(task: PeerTask) -> Vector:
    """One hidden layer of 32 tanh units: (m,) probabilities of class 1."""
    torch.manual_seed(task.entropy())
    layers = nn.Sequential(nn.Linear(task.train.shape[1], HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    return _train(task, layers, torch.optim.Adam(layers.parameters(), lr=0.02), steps=100)


MODELS = {"opacus-logistic": logistic, "opacus-mlp": network}


def _train(task: PeerTask, layers: nn.Module, plain: torch.optim.Optimizer, *, steps: int) -> Vector:
    torch.set_num_threads(1)
    records, labels = _tensor(clipped(task.source, task.train)), _tensor(task.labels)
    module = GradSampleModule(layers)
    optimizer = DPOptimizer(
        plain,
        noise_multiplier=noise_multiplier(task.private_epsilon(), task.delta, steps),
        max_grad_norm=CLIP,
        expected_batch_size=len(records),
        generator=torch.Generator().manual_seed(task.entropy()),
    )
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(module(records)[:, 0], labels)
        torch.autograd.backward(loss)
        optimizer.step()
    with torch.inference_mode():
        probability: Vector = torch.sigmoid(layers(_tensor(clipped(task.source, task.test)))[:, 0]).double().numpy()
    return probability


def _tensor(array: Matrix | Labels) -> torch.Tensor:
    return torch.tensor(np.asarray(array), dtype=torch.float32)
