"""The contestants, one line each: our strategies, the peers, and models trained in site; and one cell.

A strategy of ours asks real curators. Models trained in site and peers see the private records themselves. A cell holds
a contestant's result on one run of one problem at one epsilon.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from lab.cells import INFINITE, TaskCell, shortest
from lab.learning import (
    SILENT_EPSILON,
    Answer,
    Claims,
    accuracy_claims,
    claims_nothing,
    delta_of,
    network,
    run_study,
    train_peer,
)
from lab.measures import Measures, measure
from lab.peers import PEERS, PeerKind
from lab.problems import PROBLEMS, load_split
from lab.reproduction.experiments import MOST_BINS
from lab.splits import Options, Split
from lab.study import Order
from learner_node.models.source import paper_bin_count
from learner_node.strategies import DEFAULT_STRATEGY
from learner_node.study.pooling import SECURE, PoolingName
from protocol.kinds.model import MODEL
from protocol.kinds.statistic import STATISTIC
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

Group = Literal["ours", "peer", "open"]
LACE_OR_HOSPITAL = (
    "number_inpatient",
    "number_emergency",
    "time_in_hospital",
    "admission_type",
    "number_diagnoses",
    "num_procedures",
    "discharge",
    "age",
)
"""Attributes that published scores of readmission use: van Walraven et al. 2010, Donze et al. 2013. Not chosen by what
is best on these records."""
READMISSIONS = frozenset({"readmission", "readmission-30"})
SEVERAL_SITES = frozenset({"heart", "heart-cleveland", "wdbc", "readmission", "readmission-30"})
"""Problems whose private records lie at three sites or four; the paper's have one."""
GROUP_TITLES: dict[Group, str] = {
    "ours": "asks curators",
    "peer": "private, sees the records",
    "open": "not private, sees the records",
}
DEFAULT = DEFAULT_STRATEGY  # the contestant to which all others are compared run by run
SECURE_DEFAULT = f"{DEFAULT}-secure"  # the same, where curators sum its answers securely


@dataclass(frozen=True)
class Contestant:
    """One row of the comparison."""

    name: str  # as in the results; letters, digits, "-" and "*"
    title: str
    group: Group  # who sees what
    # (split, epsilon) -> predictions; epsilon is None where nothing is private
    solve: Callable[[Split, Fraction | None], Answer]
    silent: bool = False  # it is also run with next to no noise, under epsilon "inf"
    lowest_epsilon: float = 0.0  # below it there is no run
    most_runs: int | None = None  # a cap for what is slow; None follows the command
    # a cap on each problem that has one of its own, because it is big; 0 leaves it out there
    big_runs: int | None = None
    problems: frozenset[str] | None = None  # of which it speaks; None is all
    # what its numbers depend on beside problem, epsilon and seed; a file of cells that was begun with others is refused
    settings: dict[str, str] = field(default_factory=dict)

    def speaks_of(self, problem: str) -> bool:
        """Whether the contestant is run on a problem."""
        return self.problems is None or problem in self.problems


def no_options(_split: Split, _epsilon: Fraction) -> Options:
    """No options: a strategy with its defaults."""
    return {}


def no_networks(_split: Split, _epsilon: Fraction) -> Options:
    """The Gaussian process alone."""
    return {"networks": False}


def one_population(_split: Split, _epsilon: Fraction) -> Options:
    """The learner knows that source and private records come from one population, and asks signed counts alone."""
    return {"same_population": True}


def eight_named(_split: Split, _epsilon: Fraction) -> Options:
    """Eight attributes that a first look at these data named, most of them in published scores of readmission."""
    return {"attributes": list(OF_READMISSION)}


def published_attributes(_split: Split, _epsilon: Fraction) -> Options:
    """The attributes of the LACE index and the HOSPITAL score that these records have."""
    return {"attributes": LACE_OR_HOSPITAL}


def paper_options(split: Split, epsilon: Fraction) -> Options:
    """Networks, questions and bins of the paper; the strategy's defaults for a problem that is not the paper's."""
    network = PROBLEMS[split.problem].network
    if split.paper is None:
        return network
    scale = split.paper.dimensions * split.paper.queries / epsilon
    bins = paper_bin_count(split.paper.target_size, scale, most=MOST_BINS)
    return {**network, "rounds": split.paper.rounds, "reweight": split.paper.reweight, "bins": bins}


def ours(  # noqa: PLR0913 - each is stated alone
    name: str,
    title: str,
    *,
    strategy: str = "",
    options: Callable[[Split, Fraction], Options] = no_options,
    claims: Claims = claims_nothing,
    pooling: PoolingName = "sum",
    kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    silent: bool = False,
    most_runs: int | None = None,
    big_runs: int | None = None,
    problems: frozenset[str] | None = None,
) -> Contestant:
    """A strategy of ours; `strategy` is its key where that is not the contestant's name."""

    def solve(split: Split, epsilon: Fraction | None) -> Answer:
        exact = SILENT_EPSILON if epsilon is None else epsilon
        return run_study(split, strategy or name, options(split, exact), exact, claims, pooling=pooling, kinds=kinds)

    settings = {"strategy": strategy or name, "options": options.__name__, "claims": claims.__name__}
    if pooling != "sum":  # the files of the others were begun before there was a choice
        settings["pooling"] = pooling
    return Contestant(
        name,
        title,
        "ours",
        solve,
        silent=silent,
        most_runs=most_runs,
        big_runs=big_runs,
        problems=problems,
        settings=settings,
    )


def trained(name: str, kind: PeerKind) -> Contestant:
    """A peer, or a model trained in site without privacy."""
    delta = delta_of(kind)
    return Contestant(
        name,
        f"{kind.title}, delta {delta:g}" if kind.private and delta else kind.title,
        "peer" if kind.private else "open",
        lambda split, epsilon: train_peer(split, epsilon, name, delta),
        lowest_epsilon=kind.lowest_epsilon,
        most_runs=MOST_RUNS.get(name),
        big_runs=BIG_RUNS.get(name),
        settings={"peer": kind.description, "delta": str(delta)},
    )


MOST_RUNS: dict[str, int] = {"aim": 2, "mst": 3}  # peers that are too slow for every run
BIG_RUNS: dict[str, int] = {"aim": 0, "mst": 0, "opacus-mlp": 1}
"""Of peers on a big problem, by the processor time of a training there: more than half a minute gives one run
(`opacus-mlp`, 48 s), about a minute or more none (MST, 55 s, and AIM, which takes longer on every other problem)."""
ONE_RUN = 1  # of our other strategies there: enough to see that none is far ahead
ONE_POPULATION = frozenset({"A", "B", "CTG-A", "heart", "wdbc"})
"""Where the split says so: the paper asks no masses of the first three either, and unlabelled records of the
hospitals are a random part of each one's."""
OF_READMISSION = (
    "number_inpatient",
    "number_emergency",
    "number_outpatient",
    "number_diagnoses",
    "discharge",
    "time_in_hospital",
    "age",
    "diabetesMed",
)
"""The eight that ranked best in a first look at these data, so not chosen without them. Five are in the scores HOSPITAL
(Donze et al. 2013) or LACE (van Walraven et al. 2010); discharge and age are covariates of Strack et al. (2014)."""
OTHER_RUNS = 10  # runs of each perspective that was not chosen; enough to see that none is far ahead
IN_SITE: Mapping[str, Mapping[str, Any]] = MappingProxyType({MODEL.name: {}})
"""The query kinds that curators answer beside counts if a model is fitted in site."""
SELECTING: Mapping[str, Mapping[str, Any]] = MappingProxyType({STATISTIC.name: {}})
"""The same where attributes are chosen before cells."""
CONTESTANTS: dict[str, Contestant] = {
    contestant.name: contestant
    for contestant in (
        ours("cells", "one question over k-means cells, Gaussian process and networks", claims=accuracy_claims),
        ours(
            SECURE_DEFAULT,
            "cells whose answers curators sum securely: of all sites together, the noise of about one",
            strategy="cells",
            claims=accuracy_claims,
            pooling=SECURE,
            big_runs=ONE_RUN,
            problems=SEVERAL_SITES,
        ),
        ours(
            "cells-signed",
            "signed counts, where source and private records are known to come from one population",
            strategy="cells",
            options=one_population,
            claims=accuracy_claims,
            problems=ONE_POPULATION,
        ),
        ours(
            "cells-smooth",
            "cells without networks",
            strategy="cells",
            options=no_networks,
            claims=accuracy_claims,
            silent=True,
        ),
        ours("additive", "one question over the bins of all attributes, a model whose parts can be read"),
        ours(
            "additive-named",
            "additive over the eight attributes that a first look at these data named",
            strategy="additive",
            options=eight_named,
            problems=READMISSIONS,
        ),
        ours(
            "additive-published",
            "additive over eight attributes that published scores of readmission use",
            strategy="additive",
            options=published_attributes,
            problems=READMISSIONS,
        ),
        *(
            ours(name, f"the paper's {which} learner, valid mechanism", options=paper_options, big_runs=ONE_RUN)
            for name, which in (("paper-c", "cumulative"), ("paper-i", "instantaneous"))
        ),
        *(
            ours(name, title, most_runs=OTHER_RUNS, big_runs=ONE_RUN)
            for name, title in (
                ("adaptive-cells", "two rounds of cells, the second finer where labels are mixed"),
                ("varying-bins", "bins of every attribute, other edges each round"),
                ("random-subsets", "bins of some attributes, others each round"),
                ("informative", "bins, then products of the most informative attributes"),
                ("new-features", "cells, then bins of projections along which the label changes"),
            )
        ),
        ours(
            "selected-cells",
            "five attributes chosen with a tenth of epsilon, then cells on those",
            kinds=SELECTING,
            most_runs=OTHER_RUNS,
            big_runs=ONE_RUN,
        ),
        *(
            ours(name, f"{title}, fitted in site", kinds=IN_SITE, most_runs=OTHER_RUNS, big_runs=0)
            for name, title in (
                ("site-naive-bayes", "naive Bayes"),
                ("site-logistic", "logistic regression"),
                ("site-svm", "linear support vectors"),
                ("site-kernel-svm", "support vectors on random features"),
                ("site-forest", "a random forest"),
            )
        ),
        *(trained(name, kind) for name, kind in PEERS.items() if kind.private),
        Contestant("h*", "the paper's network, no privacy", "open", lambda split, _epsilon: network(split)),
        *(trained(name, kind) for name, kind in PEERS.items() if not kind.private),
    )
}
"""By name, in the order of the tables."""


class Outcome(TaskCell, frozen=True):
    """One cell: the problem is a key of `PROBLEMS`, the maker one of `CONTESTANTS`."""

    maker: str = msgspec.field(name="strategy")
    measures: Measures  # on the test records
    seconds: float  # from the records to the predictions
    # exact epsilon by the ledger of the costliest curator, "" for a peer, whose library accounts for it, and for what
    # is not private
    spent: str = ""
    # further numbers by name. `estimated_accuracy`, `interval_low` and `interval_high` are what the learner itself
    # claims, in percent.
    extras: dict[str, float] = msgspec.field(default_factory=dict)


def tasks(order: Order) -> list[Task]:
    """All cells, the first run of everything before the second of anything."""
    epsilons = shortest(order.size.epsilons)
    return [
        task
        for task in order.tasks("datasets", "strategies", lambda name: asked_epsilons(CONTESTANTS[name], epsilons))
        if task.seed - order.seed < runs_of(CONTESTANTS[task.maker], task.problem, order.size.repeats)
    ]


def runs_of(contestant: Contestant, problem: str, runs: int) -> int:
    """How many of `runs` a contestant gets on a problem: the least of its cap, the problem's and the pair's."""
    if not contestant.speaks_of(problem):
        return 0
    big = PROBLEMS[problem].most_runs
    caps = (contestant.most_runs, big, None if big is None else contestant.big_runs)
    return min([runs, *(cap for cap in caps if cap is not None)])


def asked_epsilons(contestant: Contestant, epsilons: Sequence[str]) -> tuple[str, ...]:
    """The epsilons at which a contestant is run."""
    if contestant.group == "open":
        return (INFINITE,)
    private = tuple(epsilon for epsilon in epsilons if parse_rational(epsilon) >= contestant.lowest_epsilon)
    return (*private, INFINITE) if contestant.silent else private


def cells_file(task: Task) -> str:
    """The file of a strategy's cells, so that new strategies are added without touching the others."""
    return f"cells/{task.maker.replace('*', '_star')}.jsonl"


def file_settings(name: str, seed: int) -> dict[str, object]:
    """The header of a strategy's file."""
    return {"strategy": name, "seed": seed, "settings": CONTESTANTS[name].settings}


def compute(task: Task) -> Outcome:
    """One cell."""
    split = load_split(task.problem, task.seed)
    start = time.monotonic()
    answer = CONTESTANTS[task.maker].solve(split, None if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start if answer.seconds is None else answer.seconds
    charged = answer.spent is not None and task.epsilon != INFINITE
    spent = str(answer.spent) if charged else ""
    return Outcome(*task, measure(answer.probability, split.test_labels), round(seconds, 3), spent, dict(answer.extras))
