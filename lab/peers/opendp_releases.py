"""OpenDP's own mechanisms, run in the peers' environment.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

Records are one number, which is the exact sum; each draw has noise of its own.
"""

import numpy as np
import opendp.prelude as dp

from lab.peers.task import Matrix, Setting

LIBRARIES = ("opendp",)
dp.enable_features("contrib")
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False))


def laplace(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Laplace noise on a float, (draws, 1)."""
    noise = dp.m.make_laplace(FLOATS, dp.l1_distance(T=float), scale=float(setting["scale"]))
    return np.array(noise([float(records[0, 0])] * draws))[:, None]


def integer_laplace(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Discrete Laplace noise on a whole number, (draws, 1)."""
    integers = dp.vector_domain(dp.atom_domain(T=int))
    noise = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=float(setting["scale"]))
    return np.array(noise([int(records[0, 0])] * draws))[:, None]


def gaussian(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Gaussian noise on a float, (draws, 1)."""
    noise = dp.m.make_gaussian(FLOATS, dp.l2_distance(T=float), scale=float(setting["scale"]))
    return np.array(noise([float(records[0, 0])] * draws))[:, None]


def gaussian_claim(_records: Matrix, setting: Setting, _draws: int) -> Matrix:
    """The epsilon that the library states at `delta` for sums that differ by 1, (1, 1)."""
    noise = dp.m.make_gaussian(FLOATS, dp.l2_distance(T=float), scale=float(setting["scale"]))
    profile = dp.c.make_zCDP_to_approxDP(noise).map(1.0)
    return np.array([[profile.epsilon(float(setting["delta"]))]])


RELEASES = {
    "laplace": laplace,
    "integer-laplace": integer_laplace,
    "gaussian": gaussian,
    "gaussian-claim": gaussian_claim,
}
