"""DPGAN as the study asks for it; it is trained in the peers' environment (`lab/peers/gan_models.py`)."""

import numpy as np
from numpy.typing import NDArray

from lab.peers.environment import points_in_environment
from lab.peers.task import PeerTask
from lab.sample.domains import Box

Floats = NDArray[np.float64]
DELTA = 0.1
"""As in the paper: far too large for a guarantee."""
POINTS = 10_000
SETTINGS = "2,000 steps of the critic, batches of 128, delta 0.1"


def train(box: Box, records: Floats, epsilon: float, seed: int) -> Floats:
    """(POINTS, d) points of a generator trained on (n, d) records, which are in the box.

    Raises:
        PeerUnavailableError: there is no peers' environment, or it lacks Opacus.
        PeerFailedError: training failed.
    """
    low, high = np.array(box.low), np.array(box.high)
    task = PeerTask(
        peer="dpgan",
        epsilon=epsilon,
        delta=DELTA,
        seed=seed,
        train=records,
        labels=np.zeros(len(records), np.int64),
        test=np.tile(low, (POINTS, 1)),
        lower=low,
        upper=high,
        source=low[None, :],
        columns=tuple(f"x{place}" for place in range(box.dimensions)),
    )
    return points_in_environment(task)
