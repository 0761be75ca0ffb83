"""Meta's Opacus, run in the peers' environment: a logistic regression and a small network by DP-SGD, and DPGAN.

Every step of the first two takes all records, which was best on the development seeds and lets `gaussian` account
exactly. Opacus's own accountants bound the same noise from above, so exact accounting favours the peer. Settings were
chosen on seeds >= 5000; docs/results/peers.md has the table.

DPGAN (Xie et al. 2018) is a Wasserstein GAN whose critic sees records through Opacus alone. Each record is paired with
a generated point: the gradient of the critic's difference between the two is clipped, summed over the batch, and gets
Gaussian noise. Everything else, the generator included, is computed from the critic alone. The MBDE paper trains for
10,000 epochs, which are 780,000 steps of the critic at 10,000 records. Here it is trained for `STEPS` steps.
"""

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from torch import nn

from lab.peers.preparation import clipped, noise_multiplier
from lab.peers.task import Labels, Matrix, PeerTask, Vector

STEPS = 2000  # of the critic
BATCH = 128
PER_GENERATOR = 5  # steps of the critic for one of the generator
WEIGHTS = 0.3  # largest absolute value of a weight of the critic: what makes it Lipschitz
RATE = 1e-3
WIDTH, LATENT = 64, 4


def dpgan(task: PeerTask) -> Matrix:
    """As many points as `test` has rows, of a generator trained on `train`, which is scaled by its public bounds.

    The guarantee is (epsilon, delta) for all steps under adding or removing a record; each step takes each record with
    probability 128 / n (Poisson), and Opacus's RDP accountant finds the noise.
    """
    torch.set_num_threads(1)
    torch.manual_seed(task.entropy())
    middle, half = (task.upper + task.lower) / 2, (task.upper - task.lower) / 2
    records = torch.tensor((task.train - middle) / half, dtype=torch.float32)
    dimensions = records.shape[1]
    generator, critic = _layers(LATENT, dimensions), _layers(dimensions, 1)
    share = min(1.0, BATCH / len(records))
    module = GradSampleModule(critic)
    private = DPOptimizer(
        torch.optim.RMSprop(critic.parameters(), lr=RATE),
        noise_multiplier=get_noise_multiplier(
            target_epsilon=task.private_epsilon(),
            target_delta=task.delta,
            sample_rate=share,
            steps=STEPS,
            accountant="rdp",
        ),
        max_grad_norm=CLIP,
        expected_batch_size=BATCH,
        generator=torch.Generator().manual_seed(task.entropy()),
    )
    public = torch.optim.RMSprop(generator.parameters(), lr=RATE)
    for step in range(STEPS):
        batch = records[torch.rand(len(records)) < share]
        fakes = generator(torch.randn(len(batch), LATENT)).detach()
        private.zero_grad()
        # Two places of one sample: Opacus clips the gradient of the pair.
        judged = module(torch.stack([batch, fakes], dim=1))
        torch.autograd.backward((judged[:, 1] - judged[:, 0]).sum() / BATCH)
        private.step()
        with torch.no_grad():
            for parameter in critic.parameters():
                parameter.clamp_(-WEIGHTS, WEIGHTS)
        if step % PER_GENERATOR == PER_GENERATOR - 1:
            module.disable_hooks()
            public.zero_grad()
            torch.autograd.backward(-critic(generator(torch.randn(BATCH, LATENT))).mean())
            public.step()
            module.enable_hooks()
    with torch.inference_mode():
        points = generator(torch.randn(len(task.test), LATENT)).double().numpy()
    return np.asarray(np.asarray(middle + half * points))


GANS = {"dpgan": dpgan}


def _layers(first: int, last: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(first, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, last)
    )


LIBRARIES = ("opacus", "torch", "numpy", "scipy")

CLIP = 1.0  # L2 norm to which each record's gradient is clipped: the sensitivity, in that unit
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
