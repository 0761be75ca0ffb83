"""DPGAN (Xie et al. 2018) in the peers' environment: a Wasserstein GAN whose critic sees records through Opacus alone.

Each record is paired with a generated point: the gradient of the critic's difference between the two is clipped, summed
over the batch, and gets Gaussian noise. All else, the generator too, is computed of the critic.
The MBDE paper trains it for 10,000 epochs, which are 780,000 steps of the critic at 10,000 records. Here it is `STEPS`.
"""

from importlib.metadata import version

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from torch import nn

from lab.peers.task import Matrix, PeerTask

LIBRARIES = {name: version(name) for name in ("opacus", "torch", "numpy")}

STEPS = 2000
"""Of the critic."""
BATCH = 128
PER_GENERATOR = 5
"""Steps of the critic for one of the generator."""
CLIP = 1.0
"""L2 norm to which each record's gradient is clipped."""
WEIGHTS = 0.3
"""Largest absolute value of a weight of the critic: what makes it Lipschitz."""
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
        made = generator(torch.randn(len(batch), LATENT)).detach()
        private.zero_grad()
        # Two places of one sample: Opacus clips the gradient of the pair.
        told = module(torch.stack([batch, made], dim=1))
        torch.autograd.backward((told[:, 1] - told[:, 0]).sum() / BATCH)
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
    found: Matrix = np.asarray(middle + half * points)
    return found


MODELS = {"dpgan": dpgan}


def _layers(first: int, last: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(first, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, last)
    )
