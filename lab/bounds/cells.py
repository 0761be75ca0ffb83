"""A cell of the study of bounds: `cells` with one thing at a time made ideal, on one draw of a data set.

No curator is involved: exact counts and seeded noise, in the form and of the law that curators answer. The learner is
`cells` without its networks, but for two settings; `tests/lab/test_bounds.py` holds it against the strategy itself.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from lab.cells import INFINITE, shortest
from lab.comparison.studies import network
from lab.problems import PAPER_DATASETS, draw, load_split
from lab.reproduction.datasets import Draw, draw_a, draw_b, draw_c, draw_d, draw_e
from lab.splits import split_of
from lab.study import Order
from learner_node.models.label_model import Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.models.label_model.cell_networks import train_cell_networks
from learner_node.models.label_model.random_features import draw_frequencies, stationary_features
from learner_node.models.source import coordinates, kmeans_cells, standardising_map
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
    """One row of the tables: `cells`, but for what is named."""

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
        """Whether it needs a problem of which more records can be drawn."""
        return self.source_times > 1 or self.private_drawn > 1

    @property
    def private_drawn(self) -> int:
        """How often the problem's private records are drawn."""
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
    private_labels: Bools  # bool (n,)
    test: Records  # of the private population
    test_labels: Bools  # bool (m,)
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
        """Which run it is."""
        return Task(self.dataset, self.setting, SETTINGS[self.setting].epsilon, self.seed)


@lru_cache(2)
def _drawn(dataset: str, seed: int, source_times: int, private_times: int) -> Data:
    if source_times == private_times == 1:
        return encoded(draw(dataset, seed))
    if dataset not in GENERATORS:
        raise ValueError(f"of {dataset} there are no more records; they can be drawn of {', '.join(GENERATORS)}")
    size = PAPER_DATASETS[dataset].target_size
    sizes = {"source_size": size * source_times, "oracle_size": size * private_times}
    return encoded(GENERATORS[dataset](seed, **sizes))


def encoded(drawn: Draw) -> Data:
    """A draw as strategies read it."""
    split = split_of(drawn, 0)
    return Data(split.source, split.private, split.private_labels, split.test, split.test_labels, split.source)


def load(dataset: str, setting: Setting, seed: int) -> Data:
    """The records of a run; of several times as many, the first are those of the problem, and so are the test's.

    Raises ValueError: more records are needed than the problem has.
    """
    data = _drawn(dataset, seed, setting.source_times, setting.private_drawn)
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
    """As many as the rule says; without noise, as at epsilon 1."""
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
    """Cells that were drawn, and the share of test records that the learner gets right."""
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
    predicted = model.matched(points, observation.cells, share).probability(data.test) > 0.5
    return len(counts), float(np.mean(predicted == data.test_labels))


_LENGTH_SCALES, _LINEAR_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 0.5, 3.0)
_FIRST_LINEAR_WEIGHT = 0.5
_AMPLITUDES, _NOISES = (0.25, 1.0, 4.0, 16.0), (0.01, 0.03, 0.1, 0.3, 1.0)


def exact_label_signal(points: Floats, labels: Bools, test: Floats, seed: int) -> Floats:
    """The label model's kernel machine on labels instead of counts: Gaussian-process regression of +-1.

    The same random features and kernels, with a normal noise of unknown variance in the labels (Rasmussen & Williams
    2006, Eq. 2.8 and 2.30). The kernel of the greatest evidence is taken: of all length-scales at linear weight 0.5,
    then of the other linear weights at the best of them; with each, all amplitudes and noises.

    `points`: of the private records, float64 (n, d); `labels`: bool (n,); `test`: float64 (m, d).

    Returns:
        Posterior means of the signal at the test points, float64 (m,).
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
        found = (-np.inf, np.zeros(0))
        for amplitude in _AMPLITUDES:
            for noise in _NOISES:
                spread = amplitude * values + noise
                fit = (len(signs) - np.sum(amplitude * response**2 / spread)) / noise
                log_determinant = np.sum(np.log(spread)) + (len(signs) - len(values)) * np.log(noise)
                evidence = float(-0.5 * (fit + log_determinant))
                if evidence > found[0]:
                    found = (evidence, vectors @ (amplitude * response / spread))
        return found[0], length_scale, linear, found[1]

    first = max((best(scale, _FIRST_LINEAR_WEIGHT) for scale in _LENGTH_SCALES), key=lambda found: found[0])
    others = (best(first[1], linear) for linear in _LINEAR_WEIGHTS if linear != _FIRST_LINEAR_WEIGHT)
    _, length_scale, linear, weights = max([first, *others], key=lambda found: found[0])
    signal: Floats = features(test, length_scale, linear) @ weights
    return signal


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
