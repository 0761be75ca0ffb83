"""Reads `counts` releases into arrays, one curator's or the sum over several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.noise import DiscreteLaplace
from protocol.plans import PlannedQuery
from protocol.queries.counts import CountsBody, read_release
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema


@dataclass(frozen=True)
class CountsAnswer:
    """Noisy numbers of one query.

    Attributes:
        values: (sum of cell counts, columns) float64: whole numbers, or ratios for `paper_ratio`.
        sizes: cell count of each partition.
        release: the release kind.
        scale: of the discrete Laplace noise of one curator.
        sites: number of independent noises summed in each value.
        steps: whole numbers that a record adds to a cell; 1 but for release kinds of a numeric label.
    """

    values: NDArray[np.float64]
    sizes: tuple[int, ...]
    release: str
    scale: Fraction
    sites: int = 1
    steps: int = 1

    @property
    def blocks(self) -> list[NDArray[np.float64]]:
        """`values` per partition."""
        return np.split(self.values, np.cumsum(self.sizes)[:-1])

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in one value."""
        return DiscreteLaplace(self.scale).variance(self.sites)


def read(data: bytes, body: CountsBody, planned: PlannedQuery, schema: Schema) -> CountsAnswer:
    """Decode a release body.

    Raises:
        RemoteProtocolError: not a CountsRelease, or not of the asked shape.
    """
    payload = read_release(data, body, planned, schema)
    sizes = tuple(partition.cell_count(schema) for partition in body.partitions)
    kind = RELEASE_KINDS[planned.release]
    columns = kind.columns(schema)
    values = np.frombuffer(payload, "<i8" if kind.counted else "<f8").astype(np.float64).reshape(-1, columns)
    return CountsAnswer(values, sizes, planned.release, planned.scale.fraction, steps=planned.steps)


def add(answers: Sequence[CountsAnswer]) -> CountsAnswer:
    """The sum of several curators' answers to the same query (their mean, for ratios)."""
    first = answers[0]
    values = np.sum([answer.values for answer in answers], axis=0)
    if not RELEASE_KINDS[first.release].counted:
        values = values / len(answers)
    return replace(first, values=values, sites=sum(answer.sites for answer in answers))
