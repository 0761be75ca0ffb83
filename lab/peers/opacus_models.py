"""Meta's Opacus, run in the peers' environment: a logistic regression and a small network by DP-SGD.

Every step takes all records, which was best on the development seeds and lets `gaussian` account exactly. Opacus's own
accountants bound the same noise from above, so exact accounting favours the peer.
Settings were chosen on seeds >= 5000; docs/peers.md has the table.
"""

from importlib.metadata import version

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn

from lab.peers.preparation import clipped, noise_multiplier
from lab.peers.task import Labels, Matrix, PeerTask, Vector

LIBRARIES = {name: version(name) for name in ("opacus", "torch", "numpy", "scipy")}

CLIP = 1.0
"""L2 norm to which each record's gradient is clipped: the sensitivity, in that unit."""
HIDDEN = 32


def logistic(task: PeerTask) -> Vector:
    """Logistic regression from zero weights: (m,) probabilities of class 1."""
    layer = nn.Linear(task.train.shape[1], 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return _train(task, layer, torch.optim.Adam(layer.parameters(), lr=0.05), steps=50)


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
