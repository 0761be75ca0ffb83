"""How often the learners' intervals of accuracy and AUC hold, and how calibrated their probabilities are, by data set.

Runs are made with their own labels, and with coin flips of the same share in their place, one of each privacy unit:
then no model can beat the majority class or rank. No curator is involved: see `exact_counts`.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.averages import RUNS, Average, Averages, Mean, Summary, averages, covers, mean, names, number, plain
from lab.cells import Run, epsilon_order
from lab.curators import NOISE, learn_from_counts
from lab.measures import measure
from lab.problems import PROBLEMS, load_halves, scenario_split
from lab.splits import Split
from lab.studies import document_of
from lab.study import Part, Size, Study
from learner_node.models.source import coordinates
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.strategies.base import Problem, SourceEstimate
from learner_node.strategies.cells import CellsModel, CellsStrategy
from simulations.campaign.store import Task
from simulations.scoring import within

Floats = NDArray[np.float64]


def share_error(correct: NDArray[np.bool_], units: NDArray[np.generic] | None = None) -> float:
    """Standard error of the share of correct records; without units the binomial one.

    Args:
        correct: (n,) whether each test record is classified correctly, n >= 1.
        units: (n,) whose record it is; None: each record is a unit.
    """
    return _error((correct - correct.mean()) / len(correct), units)


def auc_error(labels: NDArray[np.bool_], score: Floats, units: NDArray[np.generic] | None = None) -> float:
    """Standard error of the area under the ROC curve (DeLong et al. 1988; by unit as Obuchowski 1997).

    Args:
        labels: (n,) whether a test record has label 1; both labels occur.
        score: (n,) that is to be higher there.
        units: (n,) privacy unit of each record; None if each record is a unit.

    Raises:
        ValueError: one label does not occur.
    """
    positive, negative = np.sort(score[labels]), np.sort(score[~labels])
    if not len(positive) or not len(negative):
        raise ValueError("the area under the ROC curve needs records of both labels")
    contribution = np.where(
        labels, _share_below(negative, score) / len(positive), (1.0 - _share_below(positive, score)) / len(negative)
    )
    # Each label's contributions sum to the area.
    area = contribution[labels].sum()
    contribution -= np.where(labels, area / len(positive), area / len(negative))
    return _error(contribution, units)


def _share_below(values: Floats, score: Floats) -> Floats:
    """Share of ascending values that lie below each score, equal ones counting one half."""
    places = np.searchsorted(values, score) + np.searchsorted(values, score, "right")
    return np.asarray(places / (2.0 * len(values)))


def _error(contribution: Floats, units: NDArray[np.generic] | None) -> float:
    of_unit = np.arange(len(contribution)) if units is None else np.unique(units, return_inverse=True)[1]
    return float(np.sqrt(np.sum(np.bincount(of_unit, weights=contribution) ** 2)))


EPSILONS = ("1", "0.3", "0.1")
OWN, COIN = "own", "coin flips"
USUAL = ("A", "B", "C", "D", "E", "CTG-A", "CTG-B", "heart", "heart-cleveland", "wdbc")  # docs/learner/uncertainty.md
DATASETS: dict[str, Callable[[int], Split]] = {
    **{name: partial(load_halves, name) for name in PROBLEMS},
    **{
        f"{name}, c = {most}": partial(scenario_split, name, most=most)
        for name in ("readmission", "readmission-30")
        for most in (2, 4)
    },
}
"""Name -> split of a seed; "c" is the contribution bound, 1 where none is named."""
MEASURES = {
    "accuracy": "on the test records; with coin flips the exact one",
    "expected": "accuracy that the learner expects",
    "low": "of its interval",
    "high": "of its interval",
    "holds": "interval and accuracy agree, give or take the test records' chance error (by unit)",
    "verdict": "the learner says that it beats the majority class",
    "auc": "on the test records; with coin flips 1/2",
    "expected_auc": "that the learner expects",
    "auc_low": "of its interval",
    "auc_high": "of its interval",
    "auc_holds": "as with accuracy",
    "ranks": "the learner says that it ranks better than chance",
    "error_before": "expected calibration error on the test records, before the model's mean is matched",
    "error_after": "the same after it",
}
"""Numbers of a run, what a learner said of itself and what was so; shares, not percent."""
ALL = "all"
READING = (
    "Bias is what is expected less what the test records say, in points, with its standard error. Holds: the interval "
    "agrees with the test records, widened by their chance error. (!) marks a bias of more than a fifth of the "
    "half-width, and intervals that hold in less than .93; two standard errors are forgiven. Under coin flips accuracy "
    "and AUC are exact, and no model can be better than chance."
)


def compute(task: Task) -> Run:
    """One run: `MEASURES`, and the share of the private records' more frequent class."""
    coin = task.maker == COIN
    split = DATASETS[task.problem](task.seed)
    rng = np.random.default_rng([99, task.seed, int(1000 * float(Fraction(task.epsilon))), int(coin)])
    labels, test_labels = split.private_labels, split.test_labels
    share = float(labels.mean())
    if coin:
        private, test = (None, None) if split.units is None else (split.units.private, split.units.test)
        labels, test_labels = _coins(share, len(labels), private, rng), _coins(share, len(test_labels), test, rng)
    model, estimate = learnt(split, labels, Fraction(task.epsilon), rng)
    raw, after = model.unshifted(coordinates(model.features, split.test)), model.probability(split.test)
    accuracy, error, auc, spread = _exact(after, share) if coin else _tested(after, test_labels, split)
    numbers = {
        "accuracy": accuracy,
        "expected": estimate.accuracy,
        "low": estimate.low,
        "high": estimate.high,
        "holds": within(estimate.accuracy, estimate.low, estimate.high, accuracy, error),
        "verdict": estimate.beats_majority,
        "auc": auc,
        "expected_auc": estimate.auc,
        "auc_low": estimate.auc_low,
        "auc_high": estimate.auc_high,
        "auc_holds": within(estimate.auc, estimate.auc_low, estimate.auc_high, auc, spread),
        "ranks": estimate.ranks,
        "error_before": measure(raw, test_labels).reliability.error / 100,
        "error_after": measure(after, test_labels).reliability.error / 100,
        "majority": max(share, 1 - share),
    }
    return Run(*task, {name: float(number) for name, number in numbers.items()})


def learnt(
    split: Split, labels: NDArray[np.bool_], epsilon: Fraction, rng: np.random.Generator
) -> tuple[CellsModel, AccuracyEstimate]:
    """The model that `cells` learns with its usual options, and its claims about itself.

    `labels` (n,) are those of the private records.
    """
    most = 1 if split.units is None else split.units.most
    problem = Problem(split.source, epsilon, len(split.sites), len(labels), most, split.seed)
    model, estimate = learn_from_counts(CellsStrategy(), problem, split.private, np.arange(len(labels)), labels, rng)
    assert isinstance(model, CellsModel)  # noqa: S101 - two classes
    assert isinstance(estimate, SourceEstimate)  # noqa: S101
    assert estimate.accuracy is not None  # noqa: S101
    return model, estimate.accuracy


def _coins(share: float, count: int, units: NDArray[np.object_] | None, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Coin flips, one of each unit: all its records have it."""
    if units is None:
        return np.asarray(rng.random(count) < share)
    names, unit = np.unique(units, return_inverse=True)
    return (rng.random(len(names)) < share)[unit]


def _exact(probability: NDArray[np.float64], share: float) -> tuple[float, float, float, float]:
    """Expected accuracy and AUC under coin flips, each followed by a standard error of 0."""
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


FORGIVEN = 2.0  # standard errors by which a bar may be missed
SCORES = {
    "accuracy": ("expected", "accuracy", "low", "high", "holds"),
    "auc": ("expected_auc", "auc", "auc_low", "auc_high", "auc_holds"),
}
"""Score -> numbers of a run: expected, found, low, high, holds."""


def _coverage(score: str) -> dict[str, Summary]:
    """Bias and half-width in points, and how often the intervals hold."""
    expected, observed, low, high, holds = SCORES[score]
    return {
        f"{score}_bias": mean(lambda run: 100.0 * (run.numbers[expected] - run.numbers[observed])),
        f"{score}_half_width": plain(lambda run: 50.0 * (run.numbers[high] - run.numbers[low])),
        f"{score}_holds": plain(holds),
    }


NUMBERS = {**_coverage("accuracy"), **_coverage("auc"), **{f"mean_{name}": plain(name) for name in MEASURES}}


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Average over all data sets and over each, by sort of labels and epsilon."""
    named = (((run.maker, run.epsilon, name), run) for run in cells["runs"] for name in (ALL, run.problem))
    return averages(named, NUMBERS, ((OWN, COIN), epsilon_order, [ALL, *sorted(DATASETS)]), provenance)


def document(results: Averages) -> Document:
    """Bias and coverage, then means, of each sort of labels."""
    sections = []
    for labels in dict.fromkeys(row.names[0] for row in results.rows):
        rows = [row for row in results.rows if row.names[0] == labels]
        columns = [*names("epsilon; data set", 1), *_columns("bias", "accuracy"), *_columns("bias of AUC", "auc")]
        coverage = Table.of(f"Bias and coverage, labels: {labels}", columns, rows)
        measures = [
            number(name.replace("_", " "), f"mean_{name}", ".3f", title=title) for name, title in MEASURES.items()
        ]
        means = Table.of(f"Means, labels: {labels}", [*names("epsilon; data set", 1), *measures, RUNS], rows)
        sections.append(Section(f"Labels: {labels}", [Text(READING), coverage, means]))
    return document_of("estimates", sections, results.provenance)


def _columns(bias: str, score: str) -> list[Column[Average]]:
    def unbiased(row: Average) -> bool:
        off = row.numbers[f"{score}_bias"]
        slack = FORGIVEN * off.error if isinstance(off, Mean) else 0.0
        return abs(row.value(f"{score}_bias")) <= row.value(f"{score}_half_width") / 5.0 + slack

    def covering(row: Average) -> bool:
        return covers(row.value(f"{score}_holds"), row.runs, FORGIVEN)

    return [
        number(bias, f"{score}_bias", "+.1f", fine=unbiased),
        number("half-width", f"{score}_half_width", ".1f"),
        number("holds", f"{score}_holds", ".2f", fine=covering),
    ]


STUDY = Study(
    name="estimates",
    parts=[Part("runs", Run, lambda order: order.tasks("datasets", "labels"), compute)],
    findings=findings,
    document=document,
    choices={"datasets": tuple(DATASETS), "labels": (OWN, COIN)},
    short=Size(3, ("1", "0.3"), {"datasets": ("A", "heart", "wdbc"), "labels": (OWN, COIN)}, "one minute"),
    full=Size(200, EPSILONS, {"datasets": USUAL, "labels": (OWN,)}, "a few hours"),
    seed=5400,
    noise=NOISE,
    width=180,
)
