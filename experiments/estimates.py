"""How often the learners' accuracy intervals hold, and how calibrated their probabilities are, on all data sets.

`python -m experiments.estimates --seeds 5300:5304 --out FILE` adds the runs that FILE lacks, one JSON line each;
`--show` sums FILE up. Runs are made with their own labels and with coin flips of the same share in their place, where
no model can beat the majority class. No curator is involved: exact counts and seeded noise, in the form that curators
answer.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np

from experiments.campaign.names import parse_seeds
from experiments.campaign.runner import Campaign
from experiments.campaign.store import Task, read_cells
from experiments.learning.measures import measure
from experiments.problems import PROBLEMS, load_halves
from learner_node.label_model import Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.label_model.cell_networks import train_cell_networks
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.cells import CellsModel
from learner_node.uncertainty import LEVEL, calibrated, calibration, estimate_accuracy
from protocol.noise import DiscreteLaplace
from simulations.expectations import holds

EPSILONS = ("0.1", "0.3", "1")
OWN, COIN = "own", "coin flips"
INFINITE = 10**9
COLUMNS = ("accuracy", "expected", "low", "high", "holds", "verdict", "error_before", "error_after")


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one learner said of itself, and what was so; shares, not percent.

    Attributes:
        dataset: key of `PROBLEMS`.
        labels: `OWN` or `COIN`.
        epsilon: text.
        seed: of the split.
        accuracy: on the test records; with coin flips the exact one.
        majority: share of the private records' more frequent class.
        expected: accuracy that the learner expects.
        low: of its interval.
        high: of its interval.
        holds: whether interval and accuracy agree.
        verdict: whether the learner says that it beats the majority class.
        error_before: expected calibration error on the test records.
        error_after: the same after calibration.
        seconds: that the run took.
    """

    dataset: str
    labels: str
    epsilon: str
    seed: int
    accuracy: float
    majority: float
    expected: float
    low: float
    high: float
    holds: bool
    verdict: bool
    error_before: float
    error_after: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which run it is."""
        return Task(self.dataset, self.labels, self.epsilon, self.seed)


def compute(task: Task) -> Estimate:
    """One run."""
    start = time.monotonic()
    coin, epsilon = task.maker == COIN, float(task.epsilon)
    split = load_halves(task.problem, task.seed)
    source, labels, test_labels, sites = split.source, split.private_labels, split.test_labels, len(split.sites)
    rng = np.random.default_rng([99, task.seed, int(1000 * epsilon), int(coin)])
    share = float(labels.mean())
    if coin:
        labels, test_labels = rng.random(len(labels)) < share, rng.random(len(test_labels)) < share
    features = standardising_map(source)
    count = cell_count_rule(len(source), len(labels), epsilon, sites)
    partition = kmeans_cells(source, features, count, task.seed)
    counts = np.zeros((partition.cell_count(source.schema), 2))
    np.add.at(counts, (partition.cells(split.private), labels.astype(int)), 1)
    counts += DiscreteLaplace(Fraction(1 / epsilon)).simulate(rng, (sites, *counts.shape)).sum(axis=0)
    points = coordinates(features, source)
    observation = Observation(partition.cells(source), counts, 1 / epsilon, sites)
    smooth, posterior = fit_with_cell_posterior(points, observation, seed=task.seed)
    model = CellsModel(features, smooth, train_cell_networks(points, posterior, seed=task.seed))
    probability = model.uncalibrated(points)
    told = estimate_accuracy(probability, posterior, seed=task.seed)
    raw = model.uncalibrated(coordinates(features, split.test))
    after = calibrated(raw, calibration(probability, posterior, seed=task.seed))
    ones = float(np.mean(raw > 0.5))
    accuracy = ones * share + (1 - ones) * (1 - share) if coin else float(np.mean((raw > 0.5) == test_labels))
    return Estimate(
        dataset=task.problem,
        labels=task.maker,
        epsilon=task.epsilon,
        seed=task.seed,
        accuracy=accuracy,
        majority=max(share, 1 - share),
        expected=told.accuracy,
        low=told.low,
        high=told.high,
        holds=bool(holds(told, accuracy, INFINITE if coin else len(test_labels))),
        verdict=bool(told.p_value <= LEVEL),
        error_before=measure(raw, test_labels).reliability.error / 100,
        error_after=measure(after, test_labels).reliability.error / 100,
        seconds=round(time.monotonic() - start, 3),
    )


def show(path: Path) -> None:
    """Print Markdown tables of a file's runs: by data set, and how far the estimates are off over all of them."""
    groups: dict[tuple[str, str, str], list[Estimate]] = defaultdict(list)
    for run in read_cells(path, Estimate):
        for name in (run.dataset, "all"):
            groups[run.labels, run.epsilon, name].append(run)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0] == COIN, -float(item[0][1]), item[0][2]))
    sys.stdout.write(
        f"| labels | epsilon | data set | runs | {' | '.join(COLUMNS)} |\n|{'---|' * (4 + len(COLUMNS))}\n"
    )
    for (labels, epsilon, name), runs in ordered:
        means = " | ".join(f"{np.mean([getattr(run, column) for run in runs]):.3f}" for column in COLUMNS)
        sys.stdout.write(f"| {labels} | {epsilon} | {name} | {len(runs)} | {means} |\n")
    sys.stdout.write(f"\n| labels | epsilon | runs | bias | mean error | mean width |\n|{'---|' * 6}\n")
    for (labels, epsilon, name), runs in ordered:
        if name == "all":
            off = np.array([run.expected - run.accuracy for run in runs])
            width = np.mean([run.high - run.low for run in runs])
            sys.stdout.write(
                f"| {labels} | {epsilon} | {len(runs)} | {off.mean():+.3f} | {np.abs(off).mean():.3f} | {width:.2f} |\n"
            )


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m experiments.estimates", description=__doc__)
    parser.add_argument("--seeds", default="5300:5310", help="first:end")
    parser.add_argument("--out", type=Path, required=True, help="the file of runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        show(chosen.out)
        return
    seeds = parse_seeds(chosen.seeds)
    tasks = [
        Task(name, labels, epsilon, seed)
        for seed in seeds
        for epsilon in EPSILONS
        for name in PROBLEMS
        for labels in (OWN, COIN)
    ]
    command = " ".join(["python -m experiments.estimates", *arguments])
    campaign = Campaign("estimates", chosen.out.parent, seeds.start, chosen.jobs, command, noise="seeded, not private")
    campaign.run_file(chosen.out, tasks, compute, Estimate)


if __name__ == "__main__":
    main(sys.argv[1:])
