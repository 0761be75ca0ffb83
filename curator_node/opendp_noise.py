"""Noise of OpenDP: what a steward may choose instead of ours, and what ours is tested against.

This is the curator's only file that imports OpenDP, which takes seconds. Scales arrive as exact rationals. OpenDP takes
floats, and gets the smallest float64 not below the rational, so the true loss never exceeds the claim. The nearest
float may lie below, as for 1000/3.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace, make_noisy_max
from opendp.measures import max_divergence
from opendp.metrics import l1_distance, linf_distance
from opendp.mod import enable_features

from curator_node.mechanisms import ExactNoise, Stamp
from protocol.noise import DiscreteLaplace, NoisyMax

enable_features("contrib")


class OpenDPNoise(ExactNoise):
    """OpenDP's exact noise and choices. It has no noise shares and no bytes for others' samplers: those are ours."""

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,
        law: DiscreteLaplace,
        stamp: Stamp,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """See `NoiseSource`. Raises ArithmeticError where OpenDP's own map disagrees with our cost."""
        return np.array(checked_mechanism(l1, law)([int(value) for value in exact]), np.int64)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:  # noqa: ARG002
        """See `NoiseSource`."""
        domain = vector_domain(atom_domain(T=float, nan=False))
        mechanism = make_laplace(domain, l1_distance(T=float), scale=float_not_below(scale))
        return np.array(mechanism([0.0] * size))

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:  # noqa: ARG002
        """See `NoiseSource`. Raises ArithmeticError where OpenDP's own map disagrees with our cost."""
        return int(checked_choice(moved, law)([int(score) for score in scores]))


@lru_cache(maxsize=256)
def discrete_laplace_mechanism(law: DiscreteLaplace) -> Any:
    """OpenDP's measurement on int64 vectors in L1 distance."""
    domain = vector_domain(atom_domain(T="i64"))
    return make_laplace(domain, l1_distance(T="i64"), scale=float_not_below(law.scale))


@lru_cache(maxsize=256)
def checked_mechanism(l1: int, law: DiscreteLaplace) -> Any:
    """`discrete_laplace_mechanism`, after its loss was compared with ours; raises as `check_map` does."""
    mechanism = discrete_laplace_mechanism(law)
    check_map(mechanism.map(d_in=l1), l1, law)
    return mechanism


@lru_cache(maxsize=256)
def noisy_max_mechanism(law: NoisyMax) -> Any:
    """OpenDP's measurement on int64 scores, which a unit moves up or down, or all of them one way ("monotonic")."""
    domain, metric = vector_domain(atom_domain(T="i64")), linf_distance(T="i64", monotonic=law.one_way)
    return make_noisy_max(domain, metric, max_divergence(), scale=float_not_below(law.scale))


@lru_cache(maxsize=256)
def checked_choice(moved: int, law: NoisyMax) -> Any:
    """`noisy_max_mechanism`, after its loss was compared with ours; raises as `check_map` does."""
    mechanism = noisy_max_mechanism(law)
    check_map(mechanism.map(d_in=moved), moved, law)
    return mechanism


def float_not_below(value: Fraction) -> float:
    """The smallest float64 that is not below a positive rational."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def check_map(mapped: float, moved: int, law: DiscreteLaplace | NoisyMax) -> None:
    """Cross-check OpenDP's privacy map against the law's exact loss.

    The map is an upper bound for the float scale in use, so it must not be below the true loss at that scale, and may
    exceed our claim only by rounding.

    Raises:
        ArithmeticError: the map is below the true loss, or exceeds the claim by more; nothing may be released.
    """
    claim = law.loss(moved)
    true_loss = replace(law, scale=Fraction(float_not_below(law.scale))).loss(moved)
    bound = Fraction(mapped)
    if not true_loss <= claim or not true_loss <= bound <= claim * (1 + Fraction(1, 2**40)):
        raise ArithmeticError("the noise library's privacy map disagrees with the exact cost")
