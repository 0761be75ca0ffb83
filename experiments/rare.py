"""What an intercept does to the probabilities of a rare class, on development seeds.

`python -m experiments.rare --seeds 5600:5608 --out FILE` adds the runs that FILE lacks, one JSON line each; `--show`
prints FILE's table, that of docs/uncertainty.md: paired differences from `cells` without an intercept, with their
standard errors. Each run makes four models of one answer: with and without an intercept, with and without networks.

The records of "D 11 %" are data set D's with class 1 thinned out to that share at random, in source, private records
and test alike; "C 92 %" is C with class 0 at 8 %. No curator is involved: exact counts and seeded noise, in the form
that curators answer.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from experiments.campaign.names import parse_names, parse_seeds
from experiments.campaign.runner import Campaign
from experiments.campaign.store import Task, read_cells
from experiments.learning.measures import scores
from experiments.paper.draws import Draw
from experiments.problems import PROBLEMS, draw
from experiments.splits import Split, split_of
from learner_node.label_model import Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.label_model.cell_networks import train_cell_networks
from learner_node.rare_classes import is_rare, matching_intercept, mean_probability
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.cells import CellsModel
from learner_node.uncertainty import calibrated, calibration
from protocol.noise import DiscreteLaplace

EPSILONS = ("1", "0.3", "0.1")
NONE, INTERCEPT, ALONE, BOTH = "neither", "intercept", "no networks", "no networks, intercept"
WAYS = (NONE, INTERCEPT, ALONE, BOTH)
REMEDIES = WAYS[1:]
MAKER = "cells"
THINNED = {
    "A 8 %": ("A", 0.08),
    "C 8 %": ("C", 0.08),
    "C 92 %": ("C", 0.92),
    "D 11 %": ("D", 0.11),
    "C 21 %": ("C", 0.21),
    "D 21 %": ("D", 0.21),
}
"""Name -> data set of the paper, and its share of class 1; those of 21 % are beyond the gate."""
REAL = ("CTG-pathologic",)
"""Problems of the comparison with a rare class."""
SUREST = 1e-3
"""Log losses take probabilities as no nearer to 0 and 1."""
MEASURES = ("accuracy", "log_loss", "brier", "auc", "mean")


class Scores(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model on the test records; shares in percent, losses times 100.

    Attributes:
        accuracy: share of right classes.
        log_loss: mean negative log likelihood, probabilities kept `SUREST` from the ends.
        brier: mean squared error.
        auc: area under the ROC curve.
        mean: predicted probability of class 1.
    """

    accuracy: float
    log_loss: float
    brier: float
    auc: float
    mean: float

    @classmethod
    def of(cls, probability: NDArray[np.float64], labels: NDArray[np.bool_]) -> Self:
        """Of (m,) probabilities and labels."""
        accuracy, auc = scores(probability, labels)
        sure = np.clip(probability, SUREST, 1 - SUREST)
        return cls(
            accuracy=accuracy,
            log_loss=100 * float(-np.log(np.where(labels, sure, 1 - sure)).mean()),
            brier=100 * float(np.mean((probability - labels) ** 2)),
            auc=auc,
            mean=100 * float(probability.mean()),
        )


class RareRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer, and what each way makes of it.

    Attributes:
        dataset: name of the problem.
        epsilon: text.
        seed: of the split.
        prevalence: share of class 1 in the test records, in percent.
        process: the Gaussian process's own mean over the target's masses, in percent.
        ways: of `WAYS`.
        seconds: that the run took.
    """

    dataset: str
    epsilon: str
    seed: int
    prevalence: float
    process: float
    ways: dict[str, Scores]
    seconds: float

    @property
    def key(self) -> Task:
        """Which run it is."""
        return Task(self.dataset, MAKER, self.epsilon, self.seed)


def thinned(data: Draw, share: float, seed: int) -> Draw:
    """A random part of the records in which class 1 has that share, in each of source, oracle and test.

    Args:
        data: the records.
        share: of class 1, in (0, 1).
        seed: of the choice, >= 0.
    """
    rng = np.random.default_rng([seed, 12])
    parts = (data.source, data.source_labels), (data.oracle, data.oracle_labels), (data.test, data.test_labels)
    kept = [(records[rows], labels[rows]) for records, labels in parts for rows in [_kept(labels, share, rng)]]
    (source, source_labels), (oracle, oracle_labels), (test, test_labels) = kept
    return replace(
        data,
        source=source,
        source_labels=source_labels,
        oracle=oracle,
        oracle_labels=oracle_labels,
        test=test,
        test_labels=test_labels,
    )


def _kept(labels: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    rows = [rng.permutation(np.flatnonzero(labels == which)) for which in (0, 1)]
    most = min(len(rows[0]) / (1 - share), len(rows[1]) / share)
    return np.sort(np.concatenate([rows[0][: round(most * (1 - share))], rows[1][: round(most * share)]]))


def _split(name: str, seed: int) -> Split:
    if name not in THINNED:
        return PROBLEMS[name].split(seed)
    base, share = THINNED[name]
    return split_of(thinned(draw(base, seed), share, seed), seed)


def compute(task: Task) -> RareRun:
    """One run."""
    start = time.monotonic()
    split, epsilon, seed = _split(task.problem, task.seed), float(task.epsilon), task.seed
    source, labels, sites = split.source, split.private_labels, len(split.sites)
    rng = np.random.default_rng([97, seed, int(1000 * epsilon)])
    features = standardising_map(source)
    partition = kmeans_cells(source, features, cell_count_rule(len(source), len(labels), epsilon, sites), seed)
    counts = np.zeros((partition.cell_count(source.schema), 2))
    np.add.at(counts, (partition.cells(split.private), labels.astype(int)), 1)
    counts += DiscreteLaplace(Fraction(1 / epsilon)).simulate(rng, (sites, *counts.shape)).sum(axis=0)
    points, tested = coordinates(features, source), coordinates(features, split.test)
    observation = Observation(partition.cells(source), counts, 1 / epsilon, sites)
    process, posterior = fit_with_cell_posterior(points, observation, seed=seed)
    smooth, mass = process.probability(points), process.source_mass
    wanted = mean_probability(smooth, mass)
    networks = train_cell_networks(points, posterior, seed=seed)
    ways = {}
    for way in WAYS:
        model = CellsModel(features, process, None if way in (ALONE, BOTH) else networks)
        probability = model.averaged(smooth, points)
        sharpness = calibration(probability, posterior, seed=seed)
        # Beyond the gate, too: the tables show what it would do there.
        moved = matching_intercept(probability, sharpness, mass, wanted) if way in (INTERCEPT, BOTH) else 0.0
        ways[way] = Scores.of(calibrated(model.uncalibrated(tested), sharpness, moved), split.test_labels)
    return RareRun(
        dataset=task.problem,
        epsilon=task.epsilon,
        seed=seed,
        prevalence=100 * float(split.test_labels.mean()),
        process=100 * wanted,
        ways=ways,
        seconds=round(time.monotonic() - start, 3),
    )


def show(path: Path) -> None:
    """Print Markdown tables of a file's runs: means with neither remedy, then what each adds to them."""
    groups: dict[tuple[str, str], list[RareRun]] = defaultdict(list)
    for run in read_cells(path, RareRun):
        rare = "rare" if is_rare(run.process / 100) else "not rare"
        for key in ((run.dataset, run.epsilon), (f"all {rare}", run.epsilon), (f"all {rare}", "all")):
            groups[key].append(run)
    names = [*PROBLEMS, *THINNED, "all rare", "all not rare"]
    ordered = sorted(groups.items(), key=lambda item: (names.index(item[0][0]), item[0][1] == "all", item[0][1]))
    head = ("data set", "epsilon", "runs", "gate", "prevalence", "process", "predicted")
    sys.stdout.write(f"| {' | '.join([*head, 'remedy', *MEASURES])} |\n|{'---|' * (len(head) + 1 + len(MEASURES))}\n")
    for (name, epsilon), runs in ordered:
        open_ = sum(is_rare(run.process / 100) for run in runs)
        shares = (
            np.mean([value(run) for run in runs]) for value in (_prevalence, _process, lambda run: run.ways[NONE].mean)
        )
        first = [name, epsilon, str(len(runs)), str(open_), *(f"{share:.1f}" for share in shares)]
        for way in REMEDIES:
            gains = [_gain([getattr(run.ways[way], m) - getattr(run.ways[NONE], m) for run in runs]) for m in MEASURES]
            sys.stdout.write(f"| {' | '.join([*first, way, *gains])} |\n")
            first = [""] * len(first)


def _prevalence(run: RareRun) -> float:
    return run.prevalence


def _process(run: RareRun) -> float:
    return run.process


def _gain(differences: Sequence[float]) -> str:
    """Mean of paired differences with its standard error."""
    error = np.std(differences, ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.nan
    return f"{np.mean(differences):+.2f} ± {error:.2f}"


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    names = (*REAL, *THINNED)
    parser = argparse.ArgumentParser(prog="python -m experiments.rare", description=__doc__)
    parser.add_argument("--seeds", default="5600:5608", help="first:end")
    parser.add_argument("--datasets", default="all", help=f"of {', '.join(names)}")
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    parser.add_argument("--out", type=Path, required=True, help="the file of runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        show(chosen.out)
        return
    seeds, datasets = parse_seeds(chosen.seeds), parse_names(chosen.datasets, names, "data set")
    tasks = [
        Task(name, MAKER, epsilon, seed)
        for seed in seeds
        for name in datasets
        for epsilon in chosen.epsilons.split(",")
    ]
    command = " ".join(["python -m experiments.rare", *arguments])
    campaign = Campaign("rare", chosen.out.parent, 0, chosen.jobs, command, noise="seeded, not private")
    campaign.run_file(chosen.out, tasks, compute, RareRun)


if __name__ == "__main__":
    main(sys.argv[1:])
