"""One question to so many curators, with whoever falls silent at a step of it: what is opened, charged and carried.

Real curators and a real learner; what is missing is the distance. A curator that falls silent gets no request from
that step on, and nothing comes back from it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.site import Site, now, temporary_site
from curator_node.steward import StewardFile
from experiments.campaign.curators import roomy_policy, spent
from experiments.campaign.store import Task
from experiments.sites.spread import LOCAL
from learner_node.pooling import SECURE, Pooling, SecurePool
from learner_node.study import Federation, NoCuratorError, Study
from protocol.envelopes import SigningKey, open_envelope
from protocol.messages import Query
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.queries.counts import CountsBody, PlannedCounts
from protocol.queries.secure_counts import TURNS, PlannedSecureCounts
from protocol.rationals import Rational
from protocol.schema import NumericAttribute
from protocol.secure_sum.aggregator import STEPS
from simulations.carriers.direct import DirectCarrier

RELEASE = "error_correct"
"""Two numbers a cell, as `cells` asks them."""
STEWARD = StewardFile(label="sick", classes=("no", "yes"), attributes=(NumericAttribute("age", 0.0, 1000.0),))
EPSILON = Fraction(1, 10)
SCALE = Rational.of(1 / EPSILON)
RECORDS = 2
"""At each site: what is measured here does not depend on them."""
NOBODY = "nobody"


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question.

    Attributes:
        pooling: "sum" or "secure".
        sites: n.
        dropouts: u, tolerated by the plan; 0 with "sum".
        silent: how many fall silent.
        step: from which of `STEPS` on; "nobody" where none does.
        seed: of who falls silent, never of noise.
        shares: h noise shares that add up to one whole noise; 1 with "sum".
        opened: whether the learner has an answer.
        summed: how many curators' counts are in it.
        charged: how many ledgers were charged.
        numbers: in the answer.
        noise: mean square of the answer less the exact counts of the curators in it; 0 where nothing was opened.
        sent: bytes of the requests of each turn, mean over those that were asked.
        received: bytes of the replies of each turn, mean over those that answered.
        seconds: of the question, all curators and the learner in one thread.
    """

    pooling: Pooling
    sites: int
    dropouts: int
    silent: int
    step: str
    seed: int
    shares: int
    opened: bool
    summed: int
    charged: int
    numbers: int
    noise: float
    sent: tuple[float, ...]
    received: tuple[float, ...]
    seconds: float

    @property
    def key(self) -> Task:
        """Which question it is."""
        return round_task(self.pooling, self.sites, self.dropouts, self.silent, self.step, self.numbers, self.seed)


def round_task(  # noqa: PLR0913, PLR0917 - what tells one question from another
    pooling: Pooling, sites: int, dropouts: int, silent: int, step: str, numbers: int, seed: int
) -> Task:
    """The task of a question."""
    return Task(f"{numbers} numbers", f"{pooling} {sites} {dropouts} {silent} {step}", str(EPSILON), seed)


def usual_dropouts(sites: int) -> int:
    """How many dropouts a learner tolerates where it is told nothing."""
    return usual_pool(sites).dropouts


def usual_pool(sites: int) -> SecurePool:
    """Whom a learner trusts where it is told nothing: `SecurePool.of` for so many curators, whoever they are."""
    return SecurePool.of([number.to_bytes(32, "big") for number in range(sites)])


class CountingCarrier(DirectCarrier):
    """Calls the curators directly, weighs what it carries, and loses what a silent curator would get.

    Attributes:
        sent, received: turn -> bytes to, and from, each curator that was asked, or that answered.
    """

    def __init__(self, held: Mapping[bytes, Site], silent: frozenset[bytes], first: int) -> None:
        super().__init__({key: site.handle for key, site in held.items()})
        self._silent, self._first = silent, first
        self.sent: dict[int, list[int]] = {}
        self.received: dict[int, list[int]] = {}

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """See `learner_node.study.Carrier`."""
        carried = {}
        for key, data in requests.items():
            turn = _turn(data)
            if turn is None or key not in self._silent or turn < self._first:
                carried[key] = data
        replies = super().exchange(carried)
        for key, data in carried.items():
            turn = _turn(data)
            if turn is not None:
                self.sent.setdefault(turn, []).append(len(data))
                self.received.setdefault(turn, []).extend([len(replies[key])] if key in replies else [])
        return replies


def _turn(data: bytes) -> int | None:
    """The turn of a question's request, from 0; None for any other."""
    _, message = open_envelope(data)
    return message.sequence - 1 if isinstance(message, Query) else None


@dataclass(frozen=True)
class Pool:
    """Curators that may be asked one question.

    Attributes:
        learner: who may ask.
        held: the curators by name.
        counts: (cells, 2) exact counts of each curator, by name.
    """

    learner: SigningKey
    held: Mapping[str, Site]
    counts: Mapping[str, NDArray[np.int64]]


def open_pool(sites: int, cells: int, seed: int) -> Pool:
    """Curators with a few records each, and what they would answer without noise."""
    learner = SigningKey.generate()
    rng = np.random.default_rng([sites, seed])
    keys = {f"site {number + 1}": SigningKey.generate() for number in range(sites)}
    members = [key.public for key in keys.values()]
    held, counts = {}, {}
    for name, key in keys.items():
        ages, sick = rng.uniform(0.0, 1000.0, RECORDS), rng.integers(0, 2, RECORDS)
        frame = pl.DataFrame({"age": ages, "sick": [STEWARD.classes[label] for label in sick]})
        pooled = roomy_policy(learner, name=name, members=members if sites > 1 else ())
        held[name] = temporary_site(frame, STEWARD, pooled, key=key)
        exact = np.zeros((cells + 1, 2), np.int64)
        np.add.at(exact, (np.searchsorted(question(cells).edges, ages, side="right"), 1 - sick), 1)
        counts[name] = exact
    return Pool(learner, held, counts)
