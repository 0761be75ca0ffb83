"""Answers `counts`: exact integer counts plus exact discrete Laplace noise."""

import numpy as np
from numpy.typing import NDArray

from curator_node.dataset import PrivateDataset
from curator_node.mechanisms import NoiseSource, Stamp
from protocol.codec import encode
from protocol.noise import DiscreteLaplace
from protocol.plans import PlannedQuery
from protocol.queries.counts import CountsBody, CountsRelease
from protocol.release_kinds import RELEASE_KINDS


def answer(body: CountsBody, planned: PlannedQuery, dataset: PrivateDataset, noise: NoiseSource, stamp: Stamp) -> bytes:
    """The encoded CountsRelease. Total over all datasets: no record can make it fail or differ in kind."""
    if not RELEASE_KINDS[planned.release].counted:
        errors, correct = dataset.count(body.partitions, body.hypothesis)
        ratios = _paper_ratio(body, planned, errors, correct, noise, stamp)
        return encode(CountsRelease(counts=b"", ratios=ratios.astype("<f8").tobytes()))
    exact = dataset.exact(body, planned)
    l1 = dataset.steward.most_records_per_unit * planned.partitions * planned.steps
    noisy = noise.discrete_laplace(exact.ravel(), l1, DiscreteLaplace(planned.scale.fraction), stamp)
    return encode(CountsRelease(counts=noisy.astype("<i8").tobytes(), ratios=b""))


def _paper_ratio(
    body: CountsBody,
    planned: PlannedQuery,
    errors: NDArray[np.int64],
    correct: NDArray[np.int64],
    noise: NoiseSource,
    stamp: Stamp,
) -> NDArray[np.float64]:
    """Eq. 7 as printed, clip((U + Laplace) / n, 0, 1); with no hypothesis, masses clip((n_k + Laplace) / N, 0, 1).

    The exact n in the denominator is why this is not private as claimed: simulations only. An empty bin gives
    0 or 1 by the sign of its noise.
    """
    drawn = noise.laplace(len(errors), planned.scale.fraction, stamp)
    sizes = errors + correct
    if body.hypothesis is None:
        total = sizes.sum() / planned.partitions
        ratios = (sizes + drawn) / max(total, 1)
    else:
        ratios = np.where(sizes > 0, (errors + drawn) / np.maximum(sizes, 1), drawn > 0)
    clipped: NDArray[np.float64] = np.clip(ratios, 0, 1)
    return clipped
