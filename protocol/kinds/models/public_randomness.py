"""Randomness that everybody may know: numbers from a planned seed, the same for curator and learner."""

import hashlib
from statistics import NormalDist
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_BYTES = 8
_NORMAL = NormalDist()


def words(seed: int, purpose: str, count: int) -> NDArray[np.uint64]:
    """`count` words of 64 bits, by SHAKE-256 of the seed and of what they are for: (count,) uint64."""
    head = b"expril/1 public randomness " + purpose.encode() + seed.to_bytes(4, "big")
    return np.frombuffer(hashlib.shake_256(head).digest(_BYTES * count), "<u8")


def normals(seed: int, purpose: str, count: int) -> NDArray[np.float64]:
    """`count` standard normal numbers, (count,) float64, by the quantile function of 53 bits each."""
    shares = ((words(seed, purpose, count) >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    return np.array([_NORMAL.inv_cdf(share) for share in shares.tolist()])
