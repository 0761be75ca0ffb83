"""The study of bounds: accuracies of `cells` with one thing at a time made ideal, what each costs, bars in reach.

No curator is involved: exact counts get seeded noise of the curators' law, in the form of their answers. The learner is
`cells` without its networks, but for two settings; `tests/lab/test_bounds.py` holds it against the strategy itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from expril.report.chart import Axis, Strip, make_axis
from expril.report.document import PAGE, Block, Document, Facts, Legend, Section, Text
from expril.report.numbers import decimal, signed, with_error
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, Written, attributes, text_table
from lab.averages import Mean
from lab.cells import INFINITE, differences, grouped, shortest
from lab.comparison.findings import least
from lab.learning import network
from lab.problems import PAPER_DATASETS, draw, load_split
from lab.reproduction.datasets import Draw, draw_a, draw_b, draw_c, draw_d, draw_e
from lab.splits import split_of
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.models.label_model import Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.models.label_model.cell_networks import train_cell_networks
from learner_node.models.label_model.random_features import draw_frequencies, stationary_features
from learner_node.models.source import MOST_JUDGED, coordinates, held_apart, kmeans_cells, standardising_map
from learner_node.scores.prevalence import estimate_prevalences
from learner_node.strategies.cells import CellsModel
from protocol.noise import DiscreteLaplace
from protocol.partitions import NearestCentre
from protocol.records import Records
from simulations.campaign.store import Task

DATASETS = ("B", "D", "E", "CTG-A", "CTG-B")
TIMES = 10
MANY_CELLS = 1000
GENERATORS = {"A": draw_a, "B": draw_b, "C": draw_c, "D": draw_d, "E": draw_e}
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """One row of the tables: `cells` with the named changes."""

    name: str  # in the cells
    title: str  # in the tables
    short: str  # the same as a heading
    epsilon: str  # text; "inf" adds no noise
    # "cells"; "exact labels" for the kernel machine on the records; "h*" for the network trained in site
    kind: str = "cells"
    # up to 1000 cells, where the source has three records for each; else as many as the rule says
    many_cells: bool = False
    source_times: int = 1  # how often the problem's records
    private_times: int = 1
    # whose records a cell's features are averaged over: the source's; the private ones themselves; or as many others of
    # the private population
    averaged_over: Literal["source", "private", "others"] = "source"
    networks: bool = False  # they are averaged with the Gaussian process, as the strategy does by default

    @property
    def generated(self) -> bool:
        """Whether the setting needs a problem from which more records can be drawn."""
        return self.source_times > 1 or self.private_drawn > 1

    @property
    def private_drawn(self) -> int:
        """How many times the problem's number of private records is drawn."""
        return self.private_times + (self.averaged_over == "others")


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("cells-1", "cells without networks", "without networks", "1"),
        Setting("networks-1", "cells with networks (as it comes)", "with networks", "1", networks=True),
        Setting("cells-0.1", "cells without networks", "without networks", "0.1"),
        Setting("networks-0.1", "cells with networks (as it comes)", "with networks", "0.1", networks=True),
        Setting("no-noise", "no noise, as many cells as at 1", "no noise", INFINITE),
        Setting(
            "no-noise-1000",
            "no noise, 1000 cells (B 833, CTG 236)",
            "no noise and 1000 cells",
            INFINITE,
            many_cells=True,
        ),
        Setting(
            "source-1",
            "ten times the source records, as many cells",
            "ten times the source records",
            "1",
            source_times=TIMES,
        ),
        Setting(
            "private-1", "ten times the private records", "ten times the private records", "1", private_times=TIMES
        ),
        Setting(
            "private-0.1", "ten times the private records", "ten times the private records", "0.1", private_times=TIMES
        ),
        *(
            Setting(
                f"others-{epsilon}",
                "cells averaged over other records of the private population",
                "other records of the private population",
                epsilon,
                averaged_over="others",
            )
            for epsilon in ("1", "0.1")
        ),
        *(
            Setting(
                f"where-{epsilon}",
                "cells averaged over the private records themselves",
                "the private records themselves",
                epsilon,
                averaged_over="private",
            )
            for epsilon in ("1", "0.1")
        ),
        Setting("exact", "no cells: the label of every private record", "every label", INFINITE, kind="exact labels"),
        Setting("h*", "h*: the paper's network on the same labels", "h*", INFINITE, kind="h*"),
    )
}
"""By name, in the order of the tables."""


@dataclass(frozen=True)
class Data:
    """One run's records, encoded."""

    source: Records  # the learner's
    private: Records  # what is counted
    private_labels: Bools  # (n,)
    test: Records  # of the private population
    test_labels: Bools  # (m,)
    averaged: Records  # over which the features of cells are averaged


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measured accuracy, in percent; `cells` is 0 where there are none, `seconds` where they were not noted."""

    dataset: str
    setting: str
    cells: int
    seed: int
    accuracy: float
    seconds: float = 0.0

    @property
    def key(self) -> Task:
        """The task of the run."""
        return Task(self.dataset, self.setting, SETTINGS[self.setting].epsilon, self.seed)


@lru_cache(2)
def _load_draw(dataset: str, seed: int, source_times: int, private_times: int) -> Data:
    if source_times == private_times == 1:
        return encoded(draw(dataset, seed))
    if dataset not in GENERATORS:
        raise ValueError(f"of {dataset} there are no more records; they can be drawn of {', '.join(GENERATORS)}")
    size = PAPER_DATASETS[dataset].target_size
    sizes = {"source_size": size * source_times, "oracle_size": size * private_times}
    return encoded(GENERATORS[dataset](seed, **sizes))


def encoded(draw: Draw) -> Data:
    """A draw as strategies read it."""
    split = split_of(draw, 0)
    return Data(split.source, split.private, split.private_labels, split.test, split.test_labels, split.source)


def load(dataset: str, setting: Setting, seed: int) -> Data:
    """The records of a run. If more are drawn, the first are the problem's own; test records are the same always.

    Raises ValueError: more records are needed than the problem has.
    """
    data = _load_draw(dataset, seed, setting.source_times, setting.private_drawn)
    if setting.averaged_over == "private":
        return replace(data, averaged=data.private)
    if setting.averaged_over == "source":
        return data
    counted = setting.private_times * PAPER_DATASETS[dataset].target_size
    return replace(
        data,
        private=data.private.take(slice(counted)),
        private_labels=data.private_labels[:counted],
        averaged=data.private.take(slice(counted, None)),
    )


def cell_count(data: Data, setting: Setting) -> int:
    """The number of cells by the strategy's rule; without noise the rule uses epsilon 1."""
    sizes = len(data.source), len(data.private)
    if setting.many_cells:
        return cell_count_rule(*sizes, np.inf, 1, most=MANY_CELLS)
    return cell_count_rule(*sizes, 1.0 if setting.epsilon == INFINITE else float(setting.epsilon), 1)


def noisy_counts(data: Data, partition: NearestCentre, epsilon: str, seed: int) -> Floats:
    """Private records of label 0 and of label 1 in every cell, each with discrete Laplace noise of scale 1/epsilon."""
    counts = np.zeros((partition.cell_count(data.source.schema), 2))
    np.add.at(counts, (partition.cells(data.private), data.private_labels.astype(np.int64)), 1)
    if epsilon == INFINITE:
        return counts
    rng = np.random.default_rng([99, seed, round(1000 * float(epsilon))])
    return counts + DiscreteLaplace(1 / Fraction(epsilon)).simulate(rng, counts.shape)


def cells_accuracy(data: Data, setting: Setting, seed: int) -> tuple[int, float]:
    """The number of cells, and the share of test records that the learner classifies correctly."""
    features = standardising_map(data.source)
    partition = kmeans_cells(data.source, features, cell_count(data, setting), seed)
    counts = noisy_counts(data, partition, setting.epsilon, seed)
    scale = 0.0 if setting.epsilon == INFINITE else 1.0 / float(setting.epsilon)
    points = coordinates(features, data.averaged)
    observation = Observation(partition.cells(data.averaged), counts, scale)
    labels, posterior = fit_with_cell_posterior(points, observation, seed=seed)
    networks = train_cell_networks(points, posterior, seed=seed) if setting.networks else None
    model = CellsModel(features, labels, networks)
    noise = (
        0.0 if setting.epsilon == INFINITE else len(counts) * DiscreteLaplace(1 / Fraction(setting.epsilon)).variance()
    )
    share = estimate_prevalences(counts.sum(axis=0), noise, declared=len(data.private_labels))[1]
    apart = model.unshifted(points if len(points) > MOST_JUDGED else held_apart(points, observation.cells))
    predicted = model.matched(apart, labels.source_mass, share).probability(data.test) > 0.5
    return len(counts), float(np.mean(predicted == data.test_labels))


_LENGTH_SCALES, _LINEAR_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 0.5, 3.0)
_FIRST_LINEAR_WEIGHT = 0.5
_AMPLITUDES, _NOISES = (0.25, 1.0, 4.0, 16.0), (0.01, 0.03, 0.1, 0.3, 1.0)


def exact_label_signal(points: Floats, labels: Bools, test: Floats, seed: int) -> Floats:
    """The label model's kernel machine on labels instead of counts: Gaussian-process regression of +-1.

    The same random features and kernels, with a normal noise of unknown variance in the labels (Rasmussen & Williams
    2006, Eq. 2.8 and 2.30). The kernel of the greatest evidence is taken: of all length-scales at linear weight 0.5,
    then of the other linear weights at the best of them; with each, all amplitudes and noises.

    Private points are (n, d), their labels (n,), test points (m, d). Returns posterior means of the signal there, (m,).
    """
    frequencies = draw_frequencies(points.shape[1], seed)
    signs = np.where(labels, 1.0, -1.0)

    def features(rows: Floats, length_scale: float, linear: float) -> Floats:
        stationary = stationary_features(rows @ frequencies / length_scale)
        return np.concatenate([stationary, np.sqrt(linear / rows.shape[1]) * rows], axis=1)

    def best(length_scale: float, linear: float) -> tuple[float, float, float, Floats]:
        """Evidence, length-scale, linear weight, posterior mean of the features' weights."""
        rows = features(points, length_scale, linear)
        values, vectors = np.linalg.eigh(rows.T @ rows)
        values = np.maximum(values, 0.0)
        response = vectors.T @ (rows.T @ signs)
        strongest = (-np.inf, np.zeros(0))
        for amplitude in _AMPLITUDES:
            for noise in _NOISES:
                spread = amplitude * values + noise
                fit = (len(signs) - np.sum(amplitude * response**2 / spread)) / noise
                log_determinant = np.sum(np.log(spread)) + (len(signs) - len(values)) * np.log(noise)
                evidence = float(-0.5 * (fit + log_determinant))
                if evidence > strongest[0]:
                    strongest = (evidence, vectors @ (amplitude * response / spread))
        return strongest[0], length_scale, linear, strongest[1]

    first = max((best(scale, _FIRST_LINEAR_WEIGHT) for scale in _LENGTH_SCALES), key=lambda candidate: candidate[0])
    rest = (best(first[1], linear) for linear in _LINEAR_WEIGHTS if linear != _FIRST_LINEAR_WEIGHT)
    _, length_scale, linear, weights = max([first, *rest], key=lambda candidate: candidate[0])
    return np.asarray(features(test, length_scale, linear) @ weights)


def compute(task: Task) -> Run:
    """One run, its accuracy to three decimals."""
    setting, cells = SETTINGS[task.maker], 0
    if setting.kind == "h*":
        split = load_split(task.problem, task.seed)
        share = float(np.mean((network(split).probability > 0.5) == split.test_labels))
    else:
        data = load(task.problem, setting, task.seed)
        if setting.kind == "exact labels":
            mapping = standardising_map(data.source)
            private, test = (coordinates(mapping, records) for records in (data.private, data.test))
            signal = exact_label_signal(private, data.private_labels, test, task.seed)
            share = float(np.mean((signal > 0) == data.test_labels))
        else:
            cells, share = cells_accuracy(data, setting, task.seed)
    return Run(task.problem, task.maker, cells, task.seed, round(100 * share, 3))


def tasks(order: Order) -> list[Task]:
    """All runs, the first seed of all before the second of any; more records only of what can be drawn anew."""
    axes, epsilons = order.size.axes, (*shortest(order.size.epsilons), INFINITE)
    chosen = [SETTINGS[name] for name in axes["settings"] if SETTINGS[name].epsilon in epsilons]
    return [
        Task(dataset, setting.name, setting.epsilon, seed)
        for seed in order.seeds
        for dataset in axes["datasets"]
        for setting in sorted(chosen, key=lambda row: (row.source_times, row.private_drawn))
        if dataset in GENERATORS or not setting.generated
    ]


DIFFERENCES = (
    ("1", "distance from h*", "h*", "cells-1"),
    ("1", "noise", "no-noise", "cells-1"),
    ("1", "few cells (1000 instead, both without noise)", "no-noise-1000", "no-noise"),
    ("1", "labels of cells instead of records (both without noise)", "exact", "no-noise-1000"),
    ("1", "few private records", "private-1", "cells-1"),
    ("1", "a small source", "source-1", "cells-1"),
    ("1", "a source of another population", "others-1", "cells-1"),
    ("1", "not knowing where the private records lie", "where-1", "others-1"),
    ("1", "a source that is not the private records themselves", "where-1", "cells-1"),
    ("1", "leaving out the networks", "networks-1", "cells-1"),
    ("0.1", "distance from h*", "h*", "cells-0.1"),
    ("0.1", "noise, and the fewer cells that it allows", "no-noise", "cells-0.1"),
    ("0.1", "few private records", "private-0.1", "cells-0.1"),
    ("0.1", "a source of another population", "others-0.1", "cells-0.1"),
    ("0.1", "not knowing where the private records lie", "where-0.1", "others-0.1"),
    ("0.1", "a source that is not the private records themselves", "where-0.1", "cells-0.1"),
    ("0.1", "leaving out the networks", "networks-0.1", "cells-0.1"),
    (INFINITE, "a kernel instead of the network (both on exact labels)", "h*", "exact"),
)
"""(epsilon, cause of a cost in accuracy, the setting without that cost, the setting with it)."""
RESOLVED_ERRORS = 2.0  # standard errors beyond which a difference is bold; of one run no difference is
OURS = {"1": ("cells-1", "networks-1"), "0.1": ("cells-0.1", "networks-0.1")}
"""Epsilon of a bar -> settings that a learner can have."""
IDEALS = {
    "1": ("no-noise", "no-noise-1000", "source-1", "private-1", "others-1", "where-1", "exact", "h*"),
    "0.1": ("private-0.1", "others-0.1", "where-0.1", "no-noise", "no-noise-1000", "exact", "h*"),
}
"""Epsilon of a bar -> ideal settings that are compared with it."""

READING = (
    "Accuracy on the test records in percent, mean ± standard error (runs). No learner can have these ideals; they say "
    "what is left to win, and where."
)
MEANINGS = (
    (
        "The learner",
        (
            "is cells without its networks, for speed, but for two rows. Counts are exact and their noise is seeded, "
            "in the form and of the law that curators answer; no curator is asked."
        ),
    ),
    (
        "No noise",
        "is epsilon infinite. Labels are still known by cell only, so what is lost there is not lost to privacy.",
    ),
    (
        "Ten times the records",
        (
            "come from the same generator: the same problem and test records, the problem's own records among them. "
            "CTG has no more, so it has no such rows. With ten times the source, cells are as many as before; with ten "
            "times the private records, as many as the rule says for that number."
        ),
    ),
    (
        "Cells averaged over other records",
        (
            "Cells, question, answers and label model are the same, but each cell's features are averaged over as many "
            "other records of the private population, or over the private records themselves, instead of the source's. "
            "With these the learner also knows better how many private records to expect in a cell."
        ),
    ),
    (
        "The label of every private record",
        (
            "Gaussian-process regression with the same random features and kernels on the private records themselves. "
            "Nothing is aggregated, and nothing is private."
        ),
    ),
    ("h*", "is the paper's network, trained on the same records and labels."),
)
COST = (
    "Points of accuracy between two of these settings, run by run on the same records: mean ± standard error; what is "
    "beyond two standard errors is bold. The part of the few private records holds the sampling error of the counts "
    "and, as ten times the records drown it, the noise. A cell's answer belongs to private records whose places in "
    "the cell the learner does not know; it takes its kernel at source records instead, six to ten a cell. That these "
    "are few, that they are of another population (on B they are not), and that they are not those very records are "
    "three costs; the last two are also shown together. Labels of cells instead of records are the price of "
    "aggregation: an answer is about several records, and a label that changes within a cell is averaged away. Costs "
    "overlap and do not add up to the distance from h*."
)
BAR = (
    "A bar is met at its number, or at the same distance from h* as it had from the h* that it was set by. What "
    "reaches it is bold. These runs are few; the bars are judged on those of the comparison."
)


class Amount(Mean, frozen=True):
    """A mean over runs with its standard error, 0 for one run."""

    value: float = msgspec.field(name="mean")

    @property
    def resolved(self) -> bool:
        """Whether the mean differs from 0 by enough standard errors."""
        return self.runs > 1 and abs(self.value) > RESOLVED_ERRORS * self.error


class Cost(msgspec.Struct, frozen=True):
    """The cost of one thing in points, by data set, at one epsilon."""

    epsilon: str
    cause: str = msgspec.field(name="what")
    amounts: dict[str, Amount]


class Findings(msgspec.Struct, frozen=True):
    """The findings of all runs."""

    runs: tuple[Run, ...]  # in the order of their file
    accuracies: dict[str, dict[str, Amount]]  # setting -> data set -> accuracy in percent
    costs: tuple[Cost, ...]  # in the order of `DIFFERENCES`, each with the data sets that were run
    bars: dict[str, dict[str, float]]  # epsilon -> data set -> what the bar asks for on these runs
    provenance: Provenance | None = None  # None before anything was computed, or where it is not known


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Findings:
    """Means over seeds, and differences seed by seed over those that both settings have."""
    groups = grouped(cells["cells"], lambda run: (run.setting, run.dataset))

    def present(amounts: Iterable[tuple[str, Amount | None]]) -> dict[str, Amount]:
        return {dataset: amount for dataset, amount in amounts if amount is not None}

    def difference(dataset: str, better: str, plain: str) -> Amount | None:
        first, second = (groups.get((name, dataset), ()) for name in (better, plain))
        return Amount.of_any(differences(first, second, attrgetter("accuracy")))

    accuracies = {
        name: present(
            (dataset, Amount.of_any(run.accuracy for run in groups.get((name, dataset), ()))) for dataset in DATASETS
        )
        for name in SETTINGS
    }
    in_site = {dataset: amount.value for dataset, amount in accuracies["h*"].items()}
    return Findings(
        tuple(cells["cells"]),
        {name: amounts for name, amounts in accuracies.items() if amounts},
        tuple(
            Cost(epsilon, cause, amounts)
            for epsilon, cause, better, plain in DIFFERENCES
            if (amounts := present((dataset, difference(dataset, better, plain)) for dataset in DATASETS))
        ),
        {
            epsilon: {
                dataset: least(dataset, epsilon, in_site.get(dataset))
                for dataset in DATASETS
                if any(dataset in accuracies[name] for name in names)
            }
            for epsilon, names in OURS.items()
        },
        provenance,
    )


def document(results: Findings) -> Document:
    """Accuracies, what each thing costs, and the bars."""
    accuracies, costs, bars = _accuracies(results), _costs(results), list(_bars(results))
    return document_of(
        "bounds",
        [
            Section("Accuracies", [Text(READING), accuracies, Facts(MEANINGS, "reading")] if accuracies else []),
            Section("The same, drawn", _strips(results) if accuracies else [], PAGE),
            Section("What each thing costs", [Text(COST), costs] if costs else []),
            *(Section(bar.caption, [Text(BAR) if bar is bars[0] else None, bar]) for bar in bars),
        ],
        results.provenance,
        {"bounds.csv": Table.of("runs", COLUMNS, results.runs)},
    )


COLUMNS: tuple[Column[Run], ...] = (
    *attributes("dataset setting"),
    Column("epsilon", lambda run: run.key.epsilon),
    *attributes("cells seed"),
    *attributes("accuracy", "{:.3f}".format),
)
BAR_MARKS = (("solid", "bar at epsilon 1"), ("dashes", "bar at epsilon 0.1"))


def _epsilon(text: str) -> str:
    return "infinite" if text == INFINITE else text


def _accuracies(results: Findings) -> Written:
    rows: list[tuple[object, ...]] = [
        (SETTINGS[name].title, _epsilon(SETTINGS[name].epsilon), *(_accuracy(amounts.get(name)) for name in DATASETS))
        for name, amounts in results.accuracies.items()
    ]
    bars = [
        (f"bar at {epsilon}", epsilon, *(f"{numbers[name]:.1f}" if name in numbers else "" for name in DATASETS))
        for epsilon, numbers in results.bars.items()
        if numbers
    ]
    return text_table("Accuracies", ("setting", "epsilon", *DATASETS), [*rows, *bars], numbers=True)


def _accuracy(amount: Amount | None) -> str:
    return "" if amount is None else f"{with_error(decimal(amount.value), amount.error)} ({amount.runs})"


def _strips(results: Findings) -> list[Block]:
    """A strip a data set, all settings of it on one axis."""

    def column(dataset: str) -> Column[str]:
        bars = [numbers[dataset] for numbers in results.bars.values() if dataset in numbers]
        means = [amounts[dataset].value for amounts in results.accuracies.values() if dataset in amounts]
        axis = make_axis(min([*means, *bars]), max([*means, *bars]), (1.0, 2.0, 5.0, 10.0, 20.0), left=8, right=92)
        return Column(dataset, lambda name: _strip(results, name, dataset, axis), drawn=True, axis=axis)

    datasets = [name for name in DATASETS if any(name in amounts for amounts in results.accuracies.values())]
    names = Column[str](
        "setting", lambda name: f"{SETTINGS[name].short}, {_epsilon(SETTINGS[name].epsilon)}", names=True
    )
    caption = f"Mean ± standard error in percent; from the left: {', '.join(datasets)}."
    table = Table(caption, [names, *map(column, datasets)], [Group(list(results.accuracies))], "dense")
    return [Text(caption), Legend(marks=BAR_MARKS), table]


def _strip(results: Findings, name: str, dataset: str, axis: Axis) -> Strip | None:
    amount = results.accuracies[name].get(dataset)
    if amount is None:
        return None
    marks = [
        (results.bars[epsilon][dataset], style)
        for epsilon, (style, _) in zip(OURS, BAR_MARKS, strict=True)
        if dataset in results.bars[epsilon]
    ]
    return Strip(axis, [(0, amount.value, amount.ends, f"{dataset}: {_accuracy(amount)}")], marks=marks)


def _costs(results: Findings) -> Table[Cost]:
    def column(dataset: str) -> Column[Cost]:
        def show(cost: Cost) -> Cell:
            amount = cost.amounts.get(dataset)
            text = amount and with_error(signed(amount.value), amount.error)
            return Cell(text or "", strong=amount is not None and amount.resolved)

        return Column(dataset, show, number=True)

    columns = [
        Column[Cost]("what costs", lambda cost: cost.cause, names=True),
        Column[Cost]("epsilon", lambda cost: _epsilon(cost.epsilon), number=True),
    ]
    return Table.of("What each thing costs", [*columns, *map(column, DATASETS)], results.costs)


def _bars(results: Findings) -> Iterator[Written]:
    """At each epsilon the bars, what a learner can have, and which ideals would reach them."""
    for epsilon, numbers in results.bars.items():
        if numbers:
            names = [name for name in (*OURS[epsilon], *IDEALS[epsilon]) if name in results.accuracies]
            rows = [
                (
                    SETTINGS[name].short,
                    *(_reached(results.accuracies[name].get(dataset), numbers[dataset]) for dataset in numbers),
                )
                for name in names
            ]
            bars = ("bar", *(f"{number:.1f}" for number in numbers.values()))
            yield text_table(f"The bars at epsilon {epsilon}", ("setting", *numbers), [bars, *rows], numbers=True)


def _reached(amount: Amount | None, bar: float) -> Cell:
    if amount is None:
        return Cell("")
    reached = amount.value >= bar
    return Cell(
        decimal(amount.value), strong=reached, tone="within" if reached else "", title="reached" if reached else ""
    )


EVERYTHING = {"datasets": DATASETS, "settings": tuple(SETTINGS)}
STUDY = Study(
    name="bounds",
    parts=[Part("cells", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices=EVERYTHING,
    short=Size(1, ("1", "0.1"), {**EVERYTHING, "datasets": ("B", "D", "E")}, "a minute"),
    full=Size(5, ("1", "0.1"), EVERYTHING, "four minutes"),
    seed=1000,
    noise="seeded, not private",
    width=165,
)
