"""Whole studies at a number of sites, and single questions to curators, some of which fall silent at a step.

Curators, noise, ledgers and learner are real, and messages are handed over by direct calls. A curator that falls silent
gets no request from that step on, and nothing comes back from it. Measured are how good a model is, and what of a
question is opened, charged and carried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.schema_file import SchemaFile
from curator_node.site import Site as CuratorSite
from curator_node.site import temporary_site
from lab.curators import roomy_policy, spent
from lab.learning import run_study
from lab.measures import measure
from lab.problems import load_split
from lab.splits import Options, Site, Split
from learner_node.study.federation import Federation
from learner_node.study.pooling import PoolingName, SecurePool
from learner_node.study.study import NoCuratorError, Study
from protocol.envelopes import SigningKey, open_envelope
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.secure_counts import TURNS, PlannedSecureCounts
from protocol.messages import Query
from protocol.noise import DiscreteLaplace
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational, parse_rational
from protocol.schema import NumericAttribute
from protocol.secure_sum.aggregator import STEPS
from simulations.campaign.store import Task
from simulations.carriers.direct import DirectCarrier

LOCAL: PoolingName = "sum"  # every site adds noise of its own
SECURE: PoolingName = "secure"  # all sites together add about one noise


@dataclass(frozen=True)
class Question:
    """What is asked of a problem's sites."""

    strategy: str  # key of `STRATEGIES`
    options: Options = field(default_factory=dict)
    title: str = ""  # in words


_CELLS = Question("cells", {"networks": False}, "cells, without networks")
QUESTIONS: dict[str, Question] = {"CTG-A": _CELLS, "C": _CELLS, "readmission": Question("additive", {}, "additive")}
"""By problem. Readmission has 17,500 source records, for which `cells` takes a minute and `additive` a second."""


class Studied(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One study."""

    problem: str  # key of `QUESTIONS`
    pooling: PoolingName  # "sum" or "secure"
    sites: int  # at how many the records are
    epsilon: str  # as asked for, an exact text; it is what the costliest curator's ledger charged
    seed: int  # of the split, of how it is dealt and of the learner's own choices, never of noise
    accuracy: float  # on the test records, in percent
    auc: float
    seconds: float = 0.0  # that it took

    @property
    def key(self) -> Task:
        """The task of the study."""
        return task_of(self.problem, self.pooling, self.sites, self.epsilon, self.seed)


def task_of(problem: str, pooling: PoolingName, sites: int, epsilon: str, seed: int) -> Task:
    """The task of a study; its maker names pooling and sites."""
    return Task(problem, f"{pooling} {sites}", epsilon, seed)


def compute(task: Task) -> Studied:
    """One study."""
    name, sites = task.maker.split()
    pooling = SECURE if name == SECURE else LOCAL
    question = QUESTIONS[task.problem]
    split = spread_over(load_split(task.problem, task.seed), int(sites))
    answer = run_study(split, question.strategy, question.options, parse_rational(task.epsilon), pooling=pooling)
    measures = measure(answer.probability, split.test_labels)
    return Studied(task.problem, pooling, int(sites), task.epsilon, task.seed, measures.accuracy, measures.auc)


def poolings_of(sites: int) -> tuple[PoolingName, ...]:
    """How answers of so many sites can become one model; one alone has nobody to sum with."""
    return (LOCAL, SECURE) if sites > 1 else (LOCAL,)


def spread_over(split: Split, sites: int) -> Split:
    """The problem with its private records at so many sites, all of the same size but for one record.

    Each site declares its share of what the problem's own sites declare. A split of the same seed is always dealt
    alike, so studies of it differ in their noise alone.

    `split`: of a problem where each record is a unit of its own; `sites`: 1 or more.

    Raises ValueError: there are fewer records than sites, or a unit has several records.
    """
    if split.units is not None:
        raise ValueError(f"units of {split.problem} have several records; these would go to different sites")
    frame = pl.concat(site.frame for site in split.sites)
    if not 1 <= sites <= frame.height:
        raise ValueError(f"{frame.height} records cannot be dealt to {sites} sites")
    declared = _declared([site.steward.round_size for site in split.sites])
    size = None if declared is None else max(1, round(declared / sites))
    steward = msgspec.structs.replace(split.sites[0].steward, round_size=size)
    rows = np.random.default_rng([split.seed, sites]).permutation(frame.height)
    return replace(
        split,
        sites=tuple(
            Site.of(f"site {number + 1}", frame[np.sort(part)], steward)
            for number, part in enumerate(np.array_split(rows, sites))
        ),
    )


def _declared(sizes: Sequence[int | None]) -> int | None:
    declared = [size for size in sizes if size is not None]
    return sum(declared) if len(declared) == len(sizes) else None


RELEASE = "mass"
OLDEST = 1000.0
STEWARD = SchemaFile(label="sick", classes=("no", "yes"), attributes=(NumericAttribute("age", 0.0, OLDEST),))
EPSILON = Fraction(1, 10)
SCALE = Rational.of(1 / EPSILON)
RECORDS = 2  # at each site: what is measured here does not depend on them


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question."""

    ask: "Ask"  # what was asked of whom
    seed: int  # of the records and of who falls silent, never of noise
    shares: int  # h noise shares that add up to one whole noise; 1 with "sum"
    colluders: int  # t that the plan assumes; 0 with "sum"
    opened: bool  # whether the learner has an answer
    last: int  # number of the last turn that was asked; where nothing was opened, the one that failed
    summed: int  # how many curators' counts are in the answer
    charged: int  # how many ledgers were charged
    noise: float  # mean square of the answer less the exact counts of the curators in it; 0 where nothing was opened
    sent: tuple[float, ...]  # bytes of the requests of each turn, mean over those that were asked
    received: tuple[float, ...]  # bytes of the replies of each turn, mean over those that answered
    seconds: float = 0.0  # of the question, all curators and the learner in one thread

    @property
    def key(self) -> Task:
        """The task of the question."""
        return self.ask.task(self.seed)


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, the curators asked, and those that fall silent."""

    pooling: PoolingName  # "sum" or "secure"
    sites: int  # n
    numbers: int  # in the answer
    dropouts: int | None = None  # u, tolerated by the plan; None: as many as a learner tolerates that is told nothing
    silent: int = 0  # how many fall silent
    step: str = STEPS[0]  # from which of `STEPS` on

    def task(self, seed: int) -> Task:
        """The task of the question; its maker is what is asked, as JSON."""
        return Task(f"{self.sites} sites", msgspec.json.encode(self).decode(), str(EPSILON), seed)


class CountingCarrier(DirectCarrier):
    """Calls the curators directly, weighs what it carries, and loses what a silent curator would get."""

    def __init__(self, sites: Mapping[bytes, CuratorSite], silent: frozenset[bytes], first: int) -> None:
        super().__init__({key: site.handle for key, site in sites.items()})
        self._silent, self._first = silent, first
        # turn -> bytes to each curator that was asked, and from each that answered
        self.sent: dict[int, list[int]] = {}
        self.received: dict[int, list[int]] = {}

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """See `learner_node.study.federation.Carrier`."""
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
class Curators:
    """Curators that may be asked one question."""

    learner: SigningKey  # who may ask
    sites: Mapping[str, CuratorSite]
    ages: Mapping[str, NDArray[np.float64]]  # of each one's records


def open_curators(sites: int, seed: int) -> Curators:
    """Open `sites` curators with a few records each."""
    learner = SigningKey.generate()
    keys = {f"site {number + 1}": SigningKey.generate() for number in range(sites)}
    members = [key.public for key in keys.values()] if sites > 1 else []
    rng = np.random.default_rng([sites, seed])
    ages = {name: rng.uniform(0.0, OLDEST, RECORDS) for name in keys}
    sites_of = {
        name: temporary_site(
            pl.DataFrame({"age": ages[name], "sick": [STEWARD.classes[0]] * RECORDS}),
            STEWARD,
            roomy_policy(learner, name=name, members=members),
            key=key,
        )
        for name, key in keys.items()
    }
    return Curators(learner, sites_of, ages)


def bins_of(numbers: int) -> FeatureBins:
    """A partition of `numbers` cells, one of them for missing ages."""
    return FeatureBins("age", tuple(np.linspace(0.0, OLDEST, numbers)[1:-1]))


def exact_counts(curators: Curators, names: Iterable[str], numbers: int) -> NDArray[np.float64]:
    """The sum of these curators' exact counts, without noise, (numbers,)."""
    ages = np.concatenate([curators.ages[name] for name in names])
    counts = np.zeros(numbers)
    np.add.at(counts, np.searchsorted(bins_of(numbers).edges, ages, side="right"), 1.0)
    return counts


def planned(ask: Ask, participants: Iterable[bytes]) -> PlannedCounts:
    """The planned query that asks the question."""
    if ask.pooling != SECURE:
        return PlannedCounts(release=RELEASE, partitions=1, scale=SCALE)
    pool = SecurePool.of(participants, dropouts=ask.dropouts)
    return PlannedSecureCounts(
        release=RELEASE,
        partitions=1,
        scale=SCALE,
        turns=TURNS,
        participants=pool.participants,
        colluders=pool.colluders,
        dropouts=pool.dropouts,
    )


def take_round(ask: Ask, seed: int) -> Round:
    """Put the question to the curators."""
    curators = open_curators(ask.sites, seed)
    names = list(curators.sites)
    silent = np.random.default_rng([ask.sites, ask.silent, seed]).permutation(ask.sites)[: ask.silent]
    carrier = CountingCarrier(
        {site.identity: site for site in curators.sites.values()},
        frozenset(curators.sites[names[number]].identity for number in silent),
        STEPS.index(ask.step),
    )
    federation = Federation(
        curators={name: site.identity for name, site in curators.sites.items()},
        key=curators.learner,
        carrier=carrier,
        attempts=1,
    )
    query = planned(ask, federation.curators.values())
    study = Study(federation)
    study.read_cards()
    body = CountsBody((bins_of(ask.numbers),), None)
    summed: tuple[str, ...] = ()
    noise = 0.0
    with study.closing():
        study.propose(Plan.of([query]), "a study of sites", names)
        try:
            answered = study.ask(dict.fromkeys(names, body))
        except NoCuratorError:
            pass
        else:
            summed = answered.took_part or tuple(study.survivors)
            (answer,) = study.pooled(study.survivors)
            noise = float(np.mean((answer.values.ravel() - exact_counts(curators, summed, ask.numbers)) ** 2))
    secure = query if isinstance(query, PlannedSecureCounts) else None
    return Round(
        ask=ask,
        seed=seed,
        shares=1 if secure is None else secure.shares,
        colluders=0 if secure is None else secure.colluders,
        opened=bool(summed),
        last=max(carrier.sent),
        summed=len(summed),
        charged=sum(spent(site, curators.learner) > 0 for site in curators.sites.values()),
        noise=round(noise, 3),
        sent=_means(carrier.sent),
        received=_means(carrier.received),
    )


def compute_round(task: Task) -> Round:
    """The question of a task."""
    return take_round(msgspec.json.decode(task.maker, type=Ask), task.seed)


def one_noise() -> float:
    """Variance of the noise of one curator."""
    return DiscreteLaplace(SCALE.fraction).variance()


def _means(weighed: Mapping[int, list[int]]) -> tuple[float, ...]:
    """Mean bytes by turn."""
    return tuple(round(sum(weighed[turn]) / max(1, len(weighed[turn])), 1) for turn in sorted(weighed))
