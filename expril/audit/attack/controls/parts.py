"""Parts of a curator that are broken on purpose: noise, records, and how often a question is answered.

Noise is drawn by numpy here, from the operating system's entropy: what is shown are faults of the parts around it, and
exact noise would take minutes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.mechanisms import OpenDPNoise, Stamp
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import StewardFile
from expril.audit.kinds.answer_path import AnswerPath, Numbers
from expril.audit.kinds.invented import Unit
from protocol.feature_map import STEPS
from protocol.hypotheses import Hypothesis, Mlp
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.partitions import Partition
from protocol.records import LABEL_STEPS, Records
from protocol.release_kinds import MOST_SQUARED_ERROR, RELEASE_KINDS


@dataclass
class QuickNoise:
    """Noise of the stated laws, times a factor that is 1 in a correct curator.

    Attributes:
        factor: of every scale.
    """

    factor: Fraction = Fraction(1)
    seeded = False
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def discrete_laplace(
        self,
        exact: NDArray[np.int64],
        l1: int,  # noqa: ARG002
        law: DiscreteLaplace,
        stamp: Stamp,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return exact + DiscreteLaplace(law.scale * self.factor).simulate(self.generator, exact.shape)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:  # noqa: ARG002
        """See `NoiseSource`."""
        return LaplaceShares(law.scale * self.factor, Fraction(1, parts)).simulate(self.generator, (size,))

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:  # noqa: ARG002
        """See `NoiseSource`."""
        return self.generator.laplace(0.0, float(scale * self.factor), size)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:  # noqa: ARG002
        """See `NoiseSource`."""
        return NoisyMax(law.scale * self.factor).simulate(self.generator, scores)

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:  # noqa: ARG002
        """See `NoiseSource`."""
        return self.generator.bytes


class HalfNoise:
    """A curator's own noise, of half the scale that was charged for: the control of `canaries`."""

    seeded = False

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return OpenDPNoise().discrete_laplace(exact, l1, DiscreteLaplace(law.scale / 2), stamp)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        return OpenDPNoise().laplace_shares(size, DiscreteLaplace(law.scale / 2), parts, stamp)

    def laplace(self, size: int, scale: Fraction, stamp: Stamp) -> NDArray[np.float64]:
        """See `NoiseSource`."""
        return OpenDPNoise().laplace(size, scale / 2, stamp)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:
        """See `NoiseSource`."""
        return OpenDPNoise().choose(scores, moved, replace(law, scale=law.scale / 2), stamp)

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:
        """See `NoiseSource`."""
        return OpenDPNoise().randomness(stamp)


@dataclass
class RepeatedNoise(QuickNoise):
    """Draws once for each stamp, and gives the same draw again: to another question, too."""

    kept: dict[Stamp, NDArray[np.int64]] = field(default_factory=dict)

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        if stamp not in self.kept:
            self.kept[stamp] = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        return exact + self.kept[stamp]


def asked_again(path: AnswerPath, other: AnswerPath, units: tuple[Unit, ...], number: int) -> Numbers:
    """Both questions' numbers side by side, (number, columns), where the source of noise lives for one pair of them."""
    dataset = path.hold(units, path.example)
    rows = []
    for _ in range(-(-number // path.copies)):
        noise = path.noise()
        rows.append(np.hstack([path.answer(dataset, noise), other.answer(dataset, noise)]))
    return np.concatenate(rows)[:number]


class UnstableDataset(PrivateDataset):
    """Evaluates a network as a matrix library might: in float32, in an order that hangs on the number of rows."""

    def count(
        self, partitions: tuple[Partition, ...], hypothesis: Hypothesis | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `PrivateDataset`."""
        if not isinstance(hypothesis, Mlp):
            return super().count(partitions, hypothesis)
        errors = unstable_logits(hypothesis, self._records) > 0
        return self._cache.get(partitions).count(errors != self._labels.astype(np.bool_))


def unstable_logits(network: Mlp, records: Records) -> NDArray[np.float32]:
    """Logits of a network of one layer, (n,): its terms added up one after the other, starting at term n modulo k."""
    ((weight, bias),) = network._layers("weights")  # noqa: SLF001 - the fault is in how they are added up
    terms = (network.features.points(records) / STEPS * weight[0]).astype(np.float32)
    order = np.roll(np.arange(terms.shape[1]), len(records))
    found = np.zeros(len(records), np.float32)
    for column in order:
        found += terms[:, column]
    return found + np.float32(bias[0])


class UnclippedDataset(PrivateDataset):
    """Counts numeric labels as they are, those outside of the declared bounds too."""

    def __init__(self, frame: pl.DataFrame, steward: StewardFile, **more: Any) -> None:
        super().__init__(frame, steward, **more)
        lower, upper = steward.label_bounds or (0.0, 1.0)
        shares = (frame[steward.label].to_numpy() - lower) / (upper - lower)
        self._raw = np.rint(shares * LABEL_STEPS).astype(np.int64)

    def exact(self, body: CountsBody, planned: PlannedCounts) -> NDArray[np.int64]:
        """See `PrivateDataset`."""
        of_steps = RELEASE_KINDS[planned.release].of_steps
        if of_steps is None:
            return super().exact(body, planned)
        return self._cache.get(body.partitions).totals(of_steps(self._raw, None, planned.steps, MOST_SQUARED_ERROR))


def rows_that_blas_changed(
    multiply: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]] = np.matmul,
    *,
    most_rows: int = 40,
    width: int = 63,
) -> tuple[int, int]:
    """How many products of rows change when one row is removed, and of how many, with this machine's own library.

    Which rows do, if any, hangs on the processor and the library's version.
    """
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((width, 1)).astype(np.float32)
    changed = compared = 0
    for rows in range(2, most_rows):
        points = rng.standard_normal((rows, width)).astype(np.float32)
        whole, fewer = multiply(points, weight)[1:], multiply(points[1:], weight)
        changed += int((whole != fewer).sum())
        compared += rows - 1
    return changed, compared
