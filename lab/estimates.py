"""How often the learners' intervals of accuracy and AUC hold, and how calibrated their probabilities are, by data set.

`python -m lab.estimates --seeds 5300:5304 --out FILE` adds the runs that FILE lacks, one JSON line each;
`--show` sums FILE up. Runs are made with their own labels and with coin flips of the same share in their place, one of
each privacy unit, where no model can beat the majority class or rank. No curator is involved: exact counts and seeded
noise, in the form that curators answer, go to the strategy.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from lab.comparison.measures import measure
from lab.hospitals import scenario_split
from lab.problems import PROBLEMS, load_halves
from lab.splits import Split
from learner_node.kinds.counts import CountsAnswer
from learner_node.source import coordinates
from learner_node.strategies.base import Learnt, Problem, SourceEstimate, Strategy
from learner_node.strategies.cells import CellsModel, CellsStrategy
from learner_node.uncertainty import AccuracyEstimate
from protocol.noise_shares import LaplaceShares
from protocol.records import Records
from simulations.campaign.names import parse_seeds
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.chance_errors import auc_error, share_error
from simulations.expectations import within

EPSILONS = ("0.1", "0.3", "1")
OWN, COIN = "own", "coin flips"
USUAL = ("A", "B", "C", "D", "E", "CTG-A", "CTG-B", "heart", "heart-cleveland", "wdbc")
"""What is run unless the command says otherwise."""
DATASETS: dict[str, Callable[[int], Split]] = {
    **{name: partial(load_halves, name) for name in PROBLEMS},
    **{
        f"{name}, c = {most}": partial(scenario_split, name, most=most)
        for name in ("readmission", "readmission-30")
        for most in (2, 4)
    },
}
"""Name -> split of a seed; "c" is the contribution bound, 1 where none is named."""
COLUMNS = (
    "accuracy", "expected", "low", "high", "holds", "verdict",
    "auc", "expected_auc", "auc_low", "auc_high", "auc_holds", "ranks", "error_before", "error_after",
)  # fmt: skip


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one learner said of itself, and what was so; shares, not percent.

    Attributes:
        dataset: key of `DATASETS`.
        labels: `OWN` or `COIN`.
        epsilon: text.
        seed: of the split.
        accuracy: on the test records; with coin flips the exact one.
        majority: share of the private records' more frequent class.
        expected: accuracy that the learner expects.
        low: of its interval.
        high: of its interval.
        holds: whether interval and accuracy agree, give or take the test records' chance error (by unit).
        verdict: whether the learner says that it beats the majority class.
        auc: on the test records; with coin flips 1/2.
        expected_auc: that the learner expects.
        auc_low: of its interval.
        auc_high: of its interval.
        auc_holds: as `holds`.
        ranks: whether the learner says that it ranks better than chance.
        error_before: expected calibration error on the test records, before the model's mean is matched.
        error_after: the same after it.
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
    auc: float
    expected_auc: float
    auc_low: float
    auc_high: float
    auc_holds: bool
    ranks: bool
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
    coin = task.maker == COIN
    split = DATASETS[task.problem](task.seed)
    rng = np.random.default_rng([99, task.seed, int(1000 * float(task.epsilon)), int(coin)])
    labels, test_labels = split.private_labels, split.test_labels
    share = float(labels.mean())
    if coin:
        private, test = (None, None) if split.units is None else (split.units.private, split.units.test)
        labels, test_labels = _coins(share, len(labels), private, rng), _coins(share, len(test_labels), test, rng)
    model, told = learnt(split, labels, Fraction(task.epsilon), rng)
    raw, after = model.unshifted(coordinates(model.features, split.test)), model.probability(split.test)
    accuracy, error, auc, spread = _exact(after, share) if coin else _tested(after, test_labels, split)
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
        holds=within(told.accuracy, told.low, told.high, accuracy, error),
        verdict=told.beats_majority,
        auc=auc,
        expected_auc=told.auc,
        auc_low=told.auc_low,
        auc_high=told.auc_high,
        auc_holds=within(told.auc, told.auc_low, told.auc_high, auc, spread),
        ranks=told.ranks,
        error_before=measure(raw, test_labels).reliability.error / 100,
        error_after=measure(after, test_labels).reliability.error / 100,
        seconds=round(time.monotonic() - start, 3),
    )


def learnt(
    split: Split,
    labels: NDArray[np.bool_],
    epsilon: Fraction,
    rng: np.random.Generator,
    *,
    strategy: CellsStrategy | None = None,
) -> tuple[CellsModel, AccuracyEstimate]:
    """What `cells` learns from exact counts and seeded noise, and what it says of itself.

    Args:
        split: the records.
        labels: (n,) of the private ones.
        epsilon: to spend.
        rng: of the noise.
        strategy: None is `cells` with its usual options.
    """
    most = 1 if split.units is None else split.units.most
    problem = Problem(split.source, epsilon, len(split.sites), len(labels), most, split.seed)
    model, estimate = learn_from_counts(
        strategy or CellsStrategy(), problem, split.private, np.arange(len(labels)), labels, rng
    )
    assert isinstance(model, CellsModel)  # noqa: S101 - two classes
    assert isinstance(estimate, SourceEstimate)  # noqa: S101
    assert estimate.accuracy is not None  # noqa: S101
    return model, estimate.accuracy


def learn_from_counts(
    strategy: Strategy,
    problem: Problem,
    records: Records,
    rows: NDArray[np.int64],
    labels: NDArray[Any],
    rng: np.random.Generator,
) -> Learnt:
    """What a strategy of one question about label counts learns from exact counts and seeded noise.

    Args:
        strategy: whose plan is one query of a partition.
        problem: of the learner.
        records: among which the private ones are.
        rows: (n,) of each private record.
        labels: (n,) class of each private record.
        rng: of the noise.
    """
    asking = strategy.run(problem)
    body, _ = next(asking)
    (partition,) = body.partitions
    counts = np.zeros((partition.cell_count(problem.source.schema), len(problem.source.schema.classes)))
    np.add.at(counts, (partition.cells(records)[rows], labels.astype(int)), 1)
    counts += LaplaceShares(problem.scale(1).fraction, Fraction(problem.noises)).simulate(rng, counts.shape)
    scale, release = problem.scale(1).fraction, "error_correct" if counts.shape[1] == 2 else "class_counts"
    answer = CountsAnswer(body, counts, (len(counts),), release, scale, sites=problem.sites, noises=problem.noises)
    try:
        asking.send([answer])
    except StopIteration as end:
        learnt: Learnt = end.value
        return learnt
    raise ValueError("the strategy asks more than one question")


def _coins(share: float, count: int, units: NDArray[np.object_] | None, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Coin flips, one of each unit: all its records have it."""
    if units is None:
        flips: NDArray[np.bool_] = rng.random(count) < share
        return flips
    names, unit = np.unique(units, return_inverse=True)
    return (rng.random(len(names)) < share)[unit]


def _exact(probability: NDArray[np.float64], share: float) -> tuple[float, float, float, float]:
    """Accuracy and AUC under coin flips, each with no error."""
    ones = float(np.mean(probability > 0.5))
    return ones * share + (1 - ones) * (1 - share), 0.0, 0.5, 0.0


def _tested(
    probability: NDArray[np.float64], labels: NDArray[np.bool_], split: Split
) -> tuple[float, float, float, float]:
    """Accuracy and AUC on the test records, each followed by its standard error."""
    units = None if split.units is None else split.units.test
    correct = (probability > 0.5) == labels
    auc = float(roc_auc_score(labels, probability))
    return float(correct.mean()), share_error(correct, units), auc, auc_error(labels, probability, units)


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
    sys.stdout.write(
        "\n| labels | epsilon | data set | runs | bias | half-width | holds "
        f"| bias of AUC | half-width | holds |\n|{'---|' * 10}\n"
    )
    for (labels, epsilon, name), runs in ordered:
        scores = [(run.expected, run.accuracy, run.low, run.high, run.holds) for run in runs]
        ranking = [(run.expected_auc, run.auc, run.auc_low, run.auc_high, run.auc_holds) for run in runs]
        sums = " | ".join(f"{_summary(np.array(each, float))}" for each in (scores, ranking))
        sys.stdout.write(f"| {labels} | {epsilon} | {name} | {len(runs)} | {sums} |\n")


def _summary(runs: NDArray[np.float64]) -> str:
    """Of rows (expected, found, low, high, holds), in points.

    Marked where the bias is over a fifth of the half-width, or less than .93 hold; two standard errors are forgiven.
    """
    off = 100.0 * (runs[:, 0] - runs[:, 1])
    error = float(np.std(off, ddof=1) / np.sqrt(len(off))) if len(off) > 1 else 0.0
    half, held = 50.0 * float(np.mean(runs[:, 3] - runs[:, 2])), float(np.mean(runs[:, 4]))
    off_mark = " (!)" if abs(off.mean()) > half / 5.0 + 2.0 * error else ""
    held_mark = " (!)" if held < 0.93 - 2.0 * np.sqrt(0.93 * 0.07 / len(off)) else ""
    return f"{off.mean():+.1f} ± {error:.1f}{off_mark} | {half:.1f} | {held:.2f}{held_mark}"


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m lab.estimates", description=__doc__)
    parser.add_argument("--seeds", default="5300:5310", help="first:end")
    parser.add_argument("--out", type=Path, required=True, help="the file of runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--datasets", default=";".join(USUAL), help=f"some of {'; '.join(DATASETS)}, with ; between")
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    parser.add_argument("--labels", default=f"{OWN},{COIN}")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        show(chosen.out)
        return
    seeds = parse_seeds(chosen.seeds)
    names = [name.strip() for name in chosen.datasets.split(";")]
    strangers = set(names) - set(DATASETS)
    if strangers:
        parser.error(f"no data set is called {', '.join(sorted(strangers))}; there are {'; '.join(DATASETS)}")
    tasks = [
        Task(name, labels, epsilon, seed)
        for seed in seeds
        for epsilon in chosen.epsilons.split(",")
        for name in names
        for labels in chosen.labels.split(",")
    ]
    command = " ".join(["python -m lab.estimates", *arguments])
    campaign = Campaign("estimates", chosen.out.parent, seeds.start, chosen.jobs, command, noise="seeded, not private")
    campaign.run_file(chosen.out, tasks, compute, Estimate)


if __name__ == "__main__":
    main(sys.argv[1:])
