"""Opacus' sampler, optimizer and accountant, run in the peers' environment.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

Records are the gradients themselves, one number each: the model is a single weight, and each record's gradient is put
where Opacus' hooks put it. Outcomes are rounded to `RESOLUTION` of the noise's deviation, so that a game looks at the
law of the noise and not at how floating point holds it.
"""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lab.peers.task import Matrix, Setting, Vector

LIBRARIES = ("opacus", "torch")
RESOLUTION = 1e-3


class _Epochs:
    """An engine's loader and optimizer, over batches of one record."""

    def __init__(self, records: Matrix, setting: Setting) -> None:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        data = TensorDataset(torch.tensor(records[:, :1], dtype=torch.float32))
        layer = nn.Linear(1, 1, bias=False)
        self.engine = PrivacyEngine()
        self.module, self.optimizer, self.loader = self.engine.make_private(
            module=layer,
            optimizer=torch.optim.SGD(layer.parameters(), lr=0.0),
            data_loader=DataLoader(data, batch_size=1, shuffle=False),
            noise_multiplier=float(setting["noise_multiplier"]),
            max_grad_norm=1.0,
            poisson_sampling=setting["sampling"] == "poisson",
            loss_reduction="sum",
        )
        self.weight = layer.weight
        self.step = float(setting["noise_multiplier"]) * RESOLUTION

    def sums(self) -> Vector:
        """The noisy sum of clipped gradients of each step."""
        noisy_sums = []
        for (batch,) in self.loader:
            self.optimizer.zero_grad()
            setattr(self.weight, "grad_sample", batch.reshape(-1, 1, 1))  # noqa: B010 - an attribute that Opacus adds
            self.optimizer.step()
            noisy = self.weight.grad
            noisy_sums.append(float("nan") if noisy is None else float(noisy[0, 0]))
        return np.asarray(np.round(np.array(noisy_sums) / self.step) * self.step)


def epoch(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """The noisy sums of one epoch, (draws, steps)."""
    epochs = _Epochs(records, setting)
    return np.array([epochs.sums() for _ in range(draws)])


def accountant(records: Matrix, setting: Setting, _draws: int) -> Matrix:
    """The epsilon that the engine gives after one epoch, (1, 1)."""
    epochs = _Epochs(records, setting)
    epochs.sums()
    return np.array([[epochs.engine.get_epsilon(float(setting["delta"]))]])


RELEASES = {"epoch": epoch, "accountant": accountant}
