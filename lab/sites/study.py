"""The study of sites: how good a model is, and what a round costs, where records lie at few or many sites."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from scipy.stats import chi2

from expril.report.chart import Figure, Key, Level, Place, Series
from expril.report.document import PAGE, Charts, Document, Facts, Fold, Section, Text
from expril.report.numbers import count, decimal, signed
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes, numbers
from lab.averages import Interval, log_chart, mean_columns, mean_text
from lab.cells import by_seed, differences, epsilon_order, grouped
from lab.problems import check_problems
from lab.sites.rounds import (
    LOCAL,
    QUESTIONS,
    SECURE,
    Ask,
    Round,
    Studied,
    compute,
    compute_round,
    one_noise,
    poolings_of,
    task_of,
)
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.study.pooling import PoolingName
from protocol.secure_sum.aggregator import STEPS
from simulations.campaign.store import Task

NOISE_COVERAGE = 0.999  # of the interval of a variance, which is held against a bound at every number of sites


class Point(msgspec.Struct, frozen=True):
    """A problem's accuracy in percent, at one epsilon and number of sites."""

    problem: str  # key of `QUESTIONS`
    epsilon: str  # exact text
    sites: int  # n
    local: Interval | None  # each site adds noise of its own; None where it was not run
    secure: Interval | None  # summed securely; None where it was not run, as with one site
    gain: Interval | None  # the second less the first, over the runs that both have; None where they share none
    auc_gain: Interval | None  # the same of the area under the ROC curve


class Opened(msgspec.Struct, frozen=True):
    """The noise of what was opened over so many sites, nobody silent."""

    sites: int  # n, t, u and h
    colluders: int
    dropouts: int
    shares: int
    bound: float  # n / h, the most that the variance may be, in variances of one noise
    measured: float  # mean square of opened numbers less exact ones, in the same unit
    low: float  # ends of its interval, of normal approximation: the noise's own kurtosis is known
    high: float
    numbers: int  # that were opened
    local: float  # the same where each site adds noise of its own; 0 where it was not measured

    @property
    def broken(self) -> bool | None:
        """Whether the variance is above its bound; None where the bound is within the interval, as it should be."""
        return True if self.low > self.bound else None if self.high > self.bound else False


class Traffic(msgspec.Struct, frozen=True):
    """Bytes that one site sends and receives for one question of so many numbers."""

    sites: int  # n
    numbers: int  # of the question
    local: float  # where each site adds noise of its own
    secure: float  # summed securely, all turns together
    turns: tuple[tuple[float, float], ...]  # (to the site, from the site) of each turn of it


class Fate(msgspec.Struct, frozen=True):
    """The outcome of a secure sum in which some sites fall silent at a step."""

    sites: int  # n
    dropouts: int  # u, tolerated by the plan
    silent: int  # how many were
    step: str  # from which of `STEPS` on
    rounds: int  # how often it was tried
    opened: int  # how often it was opened
    failed_at: str  # the step at which it failed, of `STEPS`; "" where it was opened
    summed: int  # sites in the sum
    charged: int  # sites whose ledger was charged
    noise: float  # sites in the sum over h: the variance of an opened number, in variances of one noise


class Findings(msgspec.Struct, frozen=True):
    """Everything that a report shows."""

    points: tuple[Point, ...]  # in the order of `QUESTIONS`, by epsilon downwards, by sites
    opened: tuple[Opened, ...]  # by sites
    traffic: tuple[Traffic, ...]
    fates: tuple[Fate, ...]  # by dropouts that the plan tolerates, step and how many are silent
    provenance: Provenance | None = None  # None before anything was computed


def findings(cells: Mapping[str, Sequence[Any]], provenance: Provenance | None = None) -> Findings:
    """Findings of the cells that there are."""
    rounds: Sequence[Round] = cells["rounds"]
    return Findings(_points(cells["studies"]), _opened(rounds), _traffic(rounds), _fates(rounds), provenance)


def _points(studies: Sequence[Studied]) -> tuple[Point, ...]:
    groups = grouped(
        by_seed(studies), lambda study: (study.problem, study.epsilon, study.sites), list(QUESTIONS), epsilon_order, int
    )
    return tuple(_point(key, grouped(group, lambda study: study.pooling)) for key, group in groups.items())


def _point(key: tuple[str, str, int], ways: Mapping[PoolingName, Sequence[Studied]]) -> Point:
    local, secure = (ways.get(way, ()) for way in (LOCAL, SECURE))
    accuracy, auc = attrgetter("accuracy"), attrgetter("auc")
    return Point(
        *key,
        local=Interval.of_any(map(accuracy, local)),
        secure=Interval.of_any(map(accuracy, secure)),
        gain=Interval.of_any(differences(secure, local, accuracy)),
        auc_gain=Interval.of_any(differences(secure, local, auc)),
    )


def _usual(rounds: Sequence[Round], pooling: PoolingName) -> dict[int, list[Round]]:
    """Rounds of the usual plan in which nobody was silent, by sites."""
    ordered = sorted(rounds, key=lambda run: (run.ask.sites, run.seed))
    usual = (run for run in ordered if not run.ask.silent and run.ask.dropouts is None and run.opened)
    return grouped((run for run in usual if run.ask.pooling == pooling), lambda run: run.ask.sites)


def _opened(rounds: Sequence[Round]) -> tuple[Opened, ...]:
    local = _usual(rounds, LOCAL)
    return tuple(_noise(sites, group, local.get(sites, [])) for sites, group in _usual(rounds, SECURE).items())


def _noise(sites: int, rounds: Sequence[Round], local: Sequence[Round]) -> Opened:
    shares, colluders = rounds[0].shares, rounds[0].colluders
    numbers = sum(run.ask.numbers for run in rounds)
    measured = _square(rounds)
    # A sum of n shares of shape 1 / h has the excess kurtosis of one noise, 3 at these scales, times h / n.
    error = math.sqrt((2 + 3 * shares / sites) / numbers)
    deviations = math.sqrt(float(chi2.ppf(NOISE_COVERAGE, 1)))
    return Opened(
        sites=sites,
        colluders=colluders,
        dropouts=sites - colluders - shares,
        shares=shares,
        bound=sites / shares,
        measured=measured,
        low=measured * max(0.0, 1 - deviations * error),
        high=measured * (1 + deviations * error),
        numbers=numbers,
        local=_square(local) if local else 0.0,
    )


def _square(rounds: Sequence[Round]) -> float:
    """Mean square of the noise in their numbers, in variances of one noise."""
    numbers = [run.ask.numbers for run in rounds]
    return float(np.average([run.noise for run in rounds], weights=numbers)) / one_noise()


def _traffic(rounds: Sequence[Round]) -> tuple[Traffic, ...]:
    local = _usual(rounds, LOCAL)
    rows = []
    for sites, group in _usual(rounds, SECURE).items():
        turns = tuple(
            (float(np.mean([run.sent[turn] for run in group])), float(np.mean([run.received[turn] for run in group])))
            for turn in range(len(STEPS))
        )
        plain = [sum(run.sent) + sum(run.received) for run in local.get(sites, [])]
        rows.append(
            Traffic(
                sites=sites,
                numbers=group[0].ask.numbers,
                local=float(np.mean(plain)) if plain else 0.0,
                secure=sum(sum(turn) for turn in turns),
                turns=turns,
            )
        )
    return tuple(rows)


def _fates(rounds: Sequence[Round]) -> tuple[Fate, ...]:
    lossy = (run for run in rounds if run.ask.pooling == SECURE and run.ask.dropouts is not None)
    fates = [_fate(ask, group) for ask, group in grouped(lossy, lambda run: run.ask).items()]
    return tuple(sorted(fates, key=lambda fate: (fate.sites, fate.dropouts, STEPS.index(fate.step), fate.silent)))


def _fate(ask: Ask, rounds: Sequence[Round]) -> Fate:
    last = max(rounds, key=lambda run: run.seed)
    return Fate(
        sites=ask.sites,
        dropouts=ask.dropouts or 0,
        silent=ask.silent,
        step=ask.step,
        rounds=len(rounds),
        opened=sum(run.opened for run in rounds),
        failed_at="" if last.opened else STEPS[last.last],
        summed=last.summed,
        charged=last.charged,
        noise=last.summed / last.shares,
    )


NUMBERS = 1000  # in a question whose noise and bytes are measured
LOSING, FEW_NUMBERS = 20, 50  # sites among which some fall silent, and numbers of the question then
SILENT = (2, 6)  # a tenth of them, and three tenths
TOLERATED = (4, 6)  # what a learner tolerates of so many where it is told nothing, and three tenths
MOST_ROUNDS = 3  # of each question, however many repeats of the studies there are
TITLES = {"CTG-A": "CTG"}  # of problems, where it is not their name
STEP_WORDS = {
    "keys": "keys: before it answers anything",
    "shares": "shares: after its key card",
    "masked": "masked: after it dealt shares",
    "agreed": "agreed: after its masked counts",
    "opened": "opened: after it signed the survivors",
}
"""Step from which on a site is silent, in words."""
LOCAL_KEY, SECURE_KEY = Key(0, False, "noise at each site"), Key(1, False, "summed securely")
MEASURED_KEY, BOUND_KEY = Key(1, False, "measured, with its 99.9 % interval"), Key(2, True, "bound n/h")
READING = (
    "Accuracy on the test records in percent, mean and half the width of its 95 % interval over the repeats. The same "
    "records are dealt at random to so many equal sites; a repeat has its own split, which both ways share. Every "
    "number is of a whole study with real curators, noise, signatures and ledgers, and each site is charged all of "
    "epsilon either way. The gain is the difference within a repeat."
)
NOISE = (
    "With n sites, t of which may collude and u drop out, each adds a share of noise of shape 1/h, h = n - t - u. A "
    "number that is opened over all n then has n/h times the variance of one noise, and fewer survivors leave less. "
    "Measured is the mean square of opened numbers less the exact counts, which only this study looks at; its interval "
    "holds in 999 of 1,000 cases. The bound is broken where all of it lies above, kept where none does; with nobody "
    "silent the variance is the bound itself, and so the bound lies within. Where each site adds noise of its "
    "own, the variance is n times that of one."
)
TRAFFIC = (
    "Bytes of envelopes to and from one site for one question of 1,000 numbers, mean over the sites, without the card "
    "and the plan. Up to 100 sites each exchanges keys and shares with every other, so it grows with their number."
)
LOSSES = (
    "Sites fall silent from a step on: nothing reaches them, and nothing comes back. Whoever sent its masked counts "
    "was charged, and stays charged where the sum fails."
)


def document(results: Findings) -> Document:
    """Accuracies by epsilon, noise, traffic, and what becomes of a sum from which sites are missing."""
    epsilons = dict.fromkeys(point.epsilon for point in results.points)
    problems = dict.fromkeys(point.problem for point in results.points)
    noises, traffic, fates = _noises(results.opened), _kilobytes(results.traffic), _losses_table(results.fates)
    questions = [(_title(problem), QUESTIONS[problem].title) for problem in problems]
    of_each_number = [
        *attributes("sites colluders dropouts shares"),
        *attributes("bound measured low high local", "{:.4f}".format),
    ]
    of_each_loss = attributes("sites dropouts silent step rounds opened failed_at summed charged")
    return document_of(
        "sites",
        [
            *(
                _accuracies(epsilon, [point for point in results.points if point.epsilon == epsilon], first=number == 0)
                for number, epsilon in enumerate(epsilons)
            ),
            Section(
                "The noise of what is opened", [Text(NOISE), _noise_chart(results.opened), noises] if noises else []
            ),
            Section("Traffic", [Text(TRAFFIC), _traffic_chart(results.traffic), traffic] if traffic else []),
            Section("Sites that fall silent", [Text(LOSSES), fates] if fates else []),
            Section("What was asked", [Facts(questions, "glossary") if questions else None], PAGE),
        ],
        results.provenance,
        {
            "accuracy.csv": Table.of(
                "accuracy",
                [*attributes("problem epsilon sites"), *mean_columns("local secure gain auc_gain")],
                results.points,
            ),
            "noise.csv": Table.of("noise", of_each_number, results.opened),
            "dropouts.csv": Table.of("dropouts", [*of_each_loss, *attributes("noise", "{:.4f}".format)], results.fates),
        },
    )


def _title(problem: str) -> str:
    return TITLES.get(problem, problem)


def _accuracies(epsilon: str, points: Sequence[Point], *, first: bool) -> Section:
    """A chart and a group of rows for each problem."""
    problems = grouped(points, lambda point: _title(point.problem))
    columns: list[Column[Point]] = [
        Column("sites", lambda point: point.sites, names=True),
        *numbers("noise at each site = local; summed securely = secure", mean_text),
        *numbers("gain = gain; gain in AUC = auc_gain", _gain),
        Column("repeats", _runs, number=True),
    ]
    title = f"Accuracy at epsilon {epsilon}"
    table = Table(title, columns, [Group(rows, name) for name, rows in problems.items()])
    charts = [_accuracy_chart(name, rows) for name, rows in problems.items()]
    rules = [("dashes", "all records at one site")]
    return Section(
        title,
        [
            Text(READING) if first else None,
            Charts(charts, (LOCAL_KEY, SECURE_KEY), rules),
            Fold("The numbers", [table]),
        ],
    )


def _gain(gain: Interval) -> Cell:
    return Cell(mean_text(gain, signed), tone=gain.tone)


def _runs(point: Point) -> int:
    return max((mean.runs for mean in (point.local, point.secure) if mean is not None), default=0)


def _accuracy_chart(name: str, points: Sequence[Point]) -> Figure:
    def series(key: Key, way: Callable[[Point], Interval | None]) -> Series:
        means = [(point.sites, mean) for point in points if (mean := way(point)) is not None]
        return Series(key, [_place(sites, mean.value, f"{mean_text(mean)} %", mean.ends) for sites, mean in means])

    references = [point.local.value for point in points if point.sites == 1 and point.local is not None]
    lines = [series(LOCAL_KEY, lambda point: point.local), series(SECURE_KEY, lambda point: point.secure)]
    levels = [Level("dashes", value, f"all records at one site: {decimal(value)}") for value in references]
    return log_chart(name, lines, (0.5, 1.0, 2.0, 5.0, 10.0, 20.0), "sites", levels=levels, most=100.0, unit="%")


def _place(sites: int, value: float, text: str, ends: tuple[float, float] | None = None) -> Place:
    return Place(sites, value, ends or (value, value), f"{text} at {count(sites, 'site')}")


def _noise_chart(opened: Sequence[Opened]) -> Charts:
    bound = Series(BOUND_KEY, [_place(row.sites, row.bound, f"at most {row.bound:.3f}") for row in opened])
    measured = [_place(row.sites, row.measured, f"{row.measured:.3f}", (row.low, row.high)) for row in opened]
    chart = log_chart(
        "variance of an opened number",
        [bound, Series(MEASURED_KEY, measured)],
        (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0),
        "sites",
        levels=[Level("solid", 1.0, "one noise")],
        unit="variances of one noise",
    )
    return Charts([chart], (MEASURED_KEY, BOUND_KEY), [("solid", "one noise")], columns=1)


def _noises(opened: Sequence[Opened]) -> Table[Opened]:
    return Table.of(
        "Variance of an opened number, in variances of one noise",
        [
            Column("sites n", lambda row: row.sites, names=True),
            *numbers("colluders t = colluders; dropouts u = dropouts; shares h = shares"),
            *numbers("bound n/h = bound; measured = measured", "{:.3f}".format),
            Column("99.9 % interval", lambda row: f"{row.low:.3f} to {row.high:.3f}", number=True),
            Column("bound", _bound_cell, number=True),
            Column("noise at each site", lambda row: decimal(row.local) if row.local else "–", number=True),
        ],
        opened,
    )


def _bound_cell(row: Opened) -> Cell:
    if row.broken is None:
        return Cell("in the interval")
    return Cell("broken", tone="below") if row.broken else Cell("kept", tone="within")


def _traffic_chart(traffic: Sequence[Traffic]) -> Charts:
    def series(key: Key, bytes_of: Callable[[Traffic], float]) -> Series:
        values = [(row.sites, bytes_of(row) / 1000) for row in traffic if bytes_of(row)]
        return Series(key, [_place(sites, value, f"{decimal(value)} kB") for sites, value in values])

    lines = [series(LOCAL_KEY, lambda row: row.local), series(SECURE_KEY, lambda row: row.secure)]
    steps = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    chart = log_chart("kilobytes of one site", lines, steps, "sites", least=0.0, unit="kB")
    return Charts([chart], (LOCAL_KEY, SECURE_KEY), columns=1)


def _kilobytes(traffic: Sequence[Traffic]) -> Table[Traffic]:
    """Kilobytes of one site, by turn."""

    def turn(number: int, row: Traffic) -> str:
        return decimal(sum(row.turns[number]) / 1000)

    return Table.of(
        "Kilobytes that one site receives and sends for one question",
        [
            Column("sites", lambda row: row.sites, names=True),
            Column("noise at each site", lambda row: decimal(row.local / 1000) if row.local else "–", number=True),
            Column("summed securely", lambda row: decimal(row.secure / 1000), number=True),
            *(Column(step, partial(turn, number), number=True) for number, step in enumerate(STEPS)),
        ],
        traffic,
    )


def _losses_table(fates: Sequence[Fate]) -> Table[Fate]:
    """What is opened, charged and lost where some are silent, a group for each plan."""

    def plan(fate: Fate) -> str:
        share = f"{100 * fate.dropouts / fate.sites:.0f} %"
        return f"{fate.sites} sites, of which {fate.dropouts} may drop out ({share})"

    def silent(fate: Fate) -> str:
        share = f"({100 * fate.silent / fate.sites:.0f} %)"
        return f"{fate.silent} {share}".replace(" ", "\N{NO-BREAK SPACE}") if fate.silent else "nobody"

    def result(fate: Fate) -> Cell:
        if fate.opened == fate.rounds:
            return Cell("opened", tone="within")
        if fate.opened:
            return Cell(f"opened {fate.opened} of {fate.rounds} times", tone="apart")
        return Cell(f"failed at {fate.failed_at}", tone="below")

    def loss(fate: Fate) -> str:
        if not fate.opened:
            return "the answer, and what was charged" if fate.charged else "the answer; nothing was charged"
        missing = fate.sites - fate.summed
        return f"the records of {missing} sites" if missing else "nothing"

    columns: list[Column[Fate]] = [
        Column("silent", silent, names=True),
        Column("from the step", lambda fate: STEP_WORDS[fate.step] if fate.silent else "–"),
        Column("the sum", result),
        *numbers("sites in it = summed; sites charged = charged"),
        Column("variance", lambda fate: f"{fate.noise:.2f}" if fate.opened else "–", number=True),
        Column("lost", loss),
    ]
    groups = [Group(rows, title) for title, rows in grouped(fates, plan).items()]
    return Table("What becomes of a secure sum where sites fall silent", columns, groups)


def study_tasks(order: Order) -> list[Task]:
    """All studies, the first seed of everything before the second of anything."""
    return [
        task_of(problem, pooling, int(number), epsilon, seed)
        for seed in order.seeds
        for problem in order.size.axes["problems"]
        for number in order.size.axes["sites"]
        for pooling in poolings_of(int(number))
        for epsilon in order.size.epsilons
    ]


def round_tasks(order: Order) -> list[Task]:
    """All single questions: those in which nobody is silent at every number of sites, then the others."""
    several = [number for number in map(int, order.size.axes["sites"]) if number > 1]
    complete = [Ask(pooling, number, NUMBERS) for number in several for pooling in poolings_of(number)]
    return [ask.task(seed) for seed in order.seeds[:MOST_ROUNDS] for ask in [*complete, *losses()]]


def losses() -> list[Ask]:
    """Nobody, a tenth and three tenths of the sites silent from each step on, under two plans."""
    asks = []
    for tolerated in TOLERATED:
        asks.append(Ask(SECURE, LOSING, FEW_NUMBERS, dropouts=tolerated))
        asks += [Ask(SECURE, LOSING, FEW_NUMBERS, tolerated, silent, step) for step in STEPS for silent in SILENT]
    return asks


def _questions(order: Order) -> dict[str, object]:
    return {
        "seed": order.seed,
        **{problem: [question.strategy, question.options] for problem, question in QUESTIONS.items()},
    }


SITES = ("1", "2", "3", "5", "10", "20", "50", "100")
STUDY = Study(
    name="sites",
    parts=[
        Part("rounds", Round, round_tasks, compute_round, lambda order: {"seed": order.seed}),
        Part("studies", Studied, study_tasks, compute, _questions),
    ],
    findings=findings,
    document=document,
    choices={"problems": tuple(QUESTIONS), "sites": SITES},
    short=Size(1, ("1", "0.1"), {"problems": tuple(QUESTIONS), "sites": ("1", "3", "10", "50")}, "two minutes"),
    full=Size(3, ("1", "0.1"), {"problems": tuple(QUESTIONS), "sites": SITES}, "seven minutes"),
    seed=1000,
    width=150,
    check=check_problems,
)
