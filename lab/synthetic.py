"""The study of synthetic data sets for the same records at the same epsilon, and their worth on real records.

Rows may be weighted and softly labelled, as those of `models.synthetic` are; a row of weight 2 counts as two rows, and
one of class 1 with probability p as p of a row of class 1 and 1 - p of one of class 0.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from expril.report.document import PAPER, Document, Facts, Section, Text
from expril.report.numbers import points
from expril.report.provenance import Provenance
from expril.report.table import Column, Table, attributes
from lab.cells import INFINITE, TaskCell, by_seed, epsilon_order, grouped, shortest
from lab.learning import make_study, peer_task
from lab.measures import scores
from lab.peers import marginals, peer_versions
from lab.peers.environment import generate_in_environment, peers_python
from lab.peers.marginals import Attribute, attributes_of, discretise
from lab.problems import PROBLEMS, check_problems, load_split
from lab.splits import Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.strategies import DEFAULT_STRATEGY
from learner_node.strategies.base import SourceEstimate
from learner_node.study.pooling import POOLED
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.bool_]

BINS = 10  # even bins of a numeric attribute over the source's range, for total-variation distances
MEASURES = {
    "accuracy-logistic": "accuracy of logistic regression, trained on it, on real test records, in percent",
    "auc-logistic": "its area under the ROC curve, in percent",
    "accuracy-boosting": "accuracy of gradient boosting, likewise",
    "auc-boosting": "its area under the ROC curve",
    "marginal-tv": "total-variation distance of one binned attribute, mean over the attributes, in percent",
    "wasserstein": "1-Wasserstein distance of one attribute, mean over the attributes, in percent of its range",
    "pair-tv": "total-variation distance of two binned attributes or one and the label, mean over pairs, in percent",
    "label-gap": "difference of the shares of class 1, in percentage points",
}
"""Name of each measure and what it is; all but the accuracies and areas are better when lower, and 0 at best."""


@dataclass(frozen=True)
class WeightedRecords:
    """A data set, real or synthetic. Raises ValueError if an array violates the comment beside it."""

    matrix: Matrix  # (n, p) float64, finite
    weights: Vector  # (n,) not negative, with a positive sum
    probability: Vector  # (n,) P(class 1) in [0, 1]

    def __post_init__(self) -> None:
        rows = (len(self.matrix),)
        if self.matrix.ndim != 2 or self.weights.shape != rows or self.probability.shape != rows:
            raise ValueError("a data set needs an (n, p) matrix, n weights and n probabilities")
        if not np.isfinite(self.matrix).all():
            raise ValueError("a record holds a number that is not finite")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all() and self.weights.sum() > 0):
            raise ValueError("weights must be finite, not negative, and not all 0")
        if not ((self.probability >= 0) & (self.probability <= 1)).all():
            raise ValueError("a probability is outside [0, 1]")

    @classmethod
    def of(cls, matrix: Matrix, labels: NDArray[np.generic]) -> "WeightedRecords":
        """Plain labelled records, each of weight 1."""
        return cls(matrix, np.ones(len(matrix)), np.asarray(labels, np.float64))

    @property
    def share(self) -> float:
        """The share of class 1, by weight."""
        return float(np.average(self.probability, weights=self.weights))

    def hard(self) -> tuple[Matrix, NDArray[np.int64], Vector]:
        """Rows, labels and weights for a learner of hard labels.

        A row occurs once for each class in which it has weight.
        """
        weights = np.concatenate([self.weights * (1 - self.probability), self.weights * self.probability])
        labels = np.repeat([0, 1], len(self.matrix)).astype(np.int64)
        weighed = weights > 0
        return np.concatenate([self.matrix, self.matrix])[weighed], labels[weighed], weights[weighed]


def utility(
    synthetic: WeightedRecords, private: WeightedRecords, test: WeightedRecords, columns: "Columns"
) -> dict[str, float]:
    """All `MEASURES` of one data set, by name: distances from the private records, accuracies on the test records."""
    marginal, pair = variation(synthetic, private, columns.attributes)
    scores_of = {}
    for name, probability in (
        ("logistic", logistic_regression(synthetic, test.matrix)),
        ("boosting", gradient_boosting(synthetic, test.matrix)),
    ):
        scores_of[f"accuracy-{name}"], scores_of[f"auc-{name}"] = scores(probability, test.probability > 0.5)
    return {
        **scores_of,
        "marginal-tv": 100 * marginal,
        "wasserstein": 100 * range_wasserstein(synthetic, private, columns),
        "pair-tv": 100 * pair,
        "label-gap": 100 * abs(synthetic.share - private.share),
    }


@dataclass(frozen=True)
class Columns:
    """What the columns of the matrices are, decided on public values alone."""

    lower: Vector  # (p,) of each column's range
    upper: Vector  # (p,) above `lower`
    attributes: tuple[Attribute, ...]  # the columns as discrete attributes

    @classmethod
    def of(cls, names: Sequence[str], lower: Vector, upper: Vector) -> "Columns":
        """Columns by name; "attribute=level" are levels (`attributes_of`)."""
        return cls(lower, upper, tuple(attributes_of(names, lower, upper, BINS)))


def logistic_regression(data: WeightedRecords, test: Matrix) -> Vector:
    """P(class 1) of test records by logistic regression on standardised columns; a constant without two classes."""
    matrix, labels, weights = data.hard()
    if len(set(labels.tolist())) < 2:
        return np.full(len(test), float(labels[0]))
    scaler = StandardScaler().fit(data.matrix, sample_weight=data.weights)
    model = LogisticRegression(max_iter=2000).fit(scaler.transform(matrix), labels, sample_weight=weights)
    return np.asarray(model.predict_proba(scaler.transform(test))[:, 1])


def gradient_boosting(data: WeightedRecords, test: Matrix) -> Vector:
    """P(class 1) of test records by histogram gradient boosting as it comes; a constant without two classes."""
    matrix, labels, weights = data.hard()
    if len(set(labels.tolist())) < 2:
        return np.full(len(test), float(labels[0]))
    model = HistGradientBoostingClassifier(random_state=0).fit(matrix, labels, sample_weight=weights)
    return np.asarray(model.predict_proba(test)[:, 1])


def variation(first: WeightedRecords, second: WeightedRecords, attributes: Sequence[Attribute]) -> tuple[float, float]:
    """Total variation, 1/2 sum |p - q|: means over the attributes and over all pairs of them, the label being one."""
    sizes = [attribute.size for attribute in attributes]
    codes = [discretise(data.matrix, attributes) for data in (first, second)]
    sides = (first, second)

    def shares(side: int, places: Sequence[int], *, label: bool = False) -> Vector:
        data = sides[side]
        cells = np.zeros(len(data.matrix), np.int64)
        count = 1
        for place in places:
            cells = cells * sizes[place] + codes[side][:, place]
            count *= sizes[place]
        parts = [data.weights * data.probability, data.weights * (1 - data.probability)] if label else [data.weights]
        counted = np.concatenate([np.bincount(cells, weights=part, minlength=count) for part in parts])
        return np.asarray(counted / data.weights.sum())

    def distance(places: Sequence[int], *, label: bool = False) -> float:
        return float(0.5 * np.abs(shares(0, places, label=label) - shares(1, places, label=label)).sum())

    everyone = range(len(sizes))
    pairs = [distance(pair) for pair in combinations(everyone, 2)]
    labelled = [distance((place,), label=True) for place in everyone]
    return float(np.mean([distance((place,)) for place in everyone])), float(np.mean(pairs + labelled))


def range_wasserstein(first: WeightedRecords, second: WeightedRecords, columns: Columns) -> float:
    """Mean 1-Wasserstein distance over the attributes, each in units of its range; values outside count as its ends.

    Two different levels are one apart, so for an attribute of levels this is the total-variation distance.
    """
    distances = []
    for attribute in columns.attributes:
        if not attribute.edges:
            distances.append(variation(first, second, [attribute])[0])
            continue
        place = attribute.columns[0]
        low, high = columns.lower[place], columns.upper[place]
        ends = [np.clip(data.matrix[:, place], low, high) for data in (first, second)]
        distances.append(wasserstein_distance(*ends, first.weights, second.weights) / (high - low))
    return float(np.mean(distances))


DELTA = 1e-6  # of AIM and MST, whose guarantee is (epsilon, delta); ours is pure


@dataclass(frozen=True)
class Generator:
    """One row of the tables."""

    name: str  # as in the results
    title: str
    # (split, epsilon) -> the data set that stands for the private records
    generate: Callable[[Split, Fraction], WeightedRecords]
    private: bool = True  # whether epsilon is spent; what is not is made once, under epsilon "inf"
    pure: bool = True  # whether delta is 0
    needs_environment: bool = False  # whether it runs in the peers' environment
    trains: bool = True  # whether a classifier may be trained on it; not on the test records


def ours(split: Split, epsilon: Fraction) -> WeightedRecords:
    """The default strategy over real curators: the source's rows, weighted and softly labelled.

    Raises WrongCostError: a ledger holds another sum than epsilon.
    """
    learned = make_study(split, DEFAULT_STRATEGY, {}, epsilon)
    estimate = learned.estimates[POOLED]
    if not isinstance(estimate, SourceEstimate):
        raise TypeError(f"the label of {split.problem} has not two classes")
    return WeightedRecords(split.matrices.source, estimate.weights, estimate.probability)


def plain_source(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The source as it is, all rows labelled with the private records' more frequent class."""
    majority = float(split.private_labels.mean() > 0.5)
    rows = len(split.matrices.source)
    return WeightedRecords(split.matrices.source, np.ones(rows), np.full(rows, majority))


def real(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The private records themselves."""
    return WeightedRecords.of(split.matrices.train, split.matrices.labels)


def fresh(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The test records with their labels: how far two real samples are apart."""
    return WeightedRecords.of(split.matrices.test, split.matrices.test_labels)


def generated(algorithm: str) -> Callable[[Split, Fraction], WeightedRecords]:
    """AIM or MST at (epsilon, `DELTA`), with bounds and levels from the source, in the peers' environment."""

    def generate(split: Split, epsilon: Fraction) -> WeightedRecords:
        return WeightedRecords.of(*generate_in_environment(peer_task(split, algorithm, epsilon, DELTA)))

    return generate


GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        Generator(DEFAULT_STRATEGY, "ours: the learner's source, weighted and labelled by answers", ours),
        Generator("aim", "AIM, for triples with the label", generated("aim"), pure=False, needs_environment=True),
        Generator("mst", "MST", generated("mst"), pure=False, needs_environment=True),
        Generator("source", "the source with the majority's label", plain_source, private=False),
        Generator("real", "the private records themselves", real, private=False),
        Generator("fresh", "the test records with their labels", fresh, private=False, trains=False),
    )
}
"""By name, in the order of the tables."""


DISTANCES = ("marginal-tv", "wasserstein", "pair-tv", "label-gap")
SECONDS = "seconds"  # of generating; in the tables beside the measures
READING = (
    "Mean ± standard deviation over the runs. Accuracies and areas (higher is better) are those of a classifier "
    "trained on the data set and tested on real records; distances (lower is better) are to the private records. "
    f"AIM and MST spend (epsilon, {DELTA:g}) and see the private records; ours spends pure epsilon at each curator and "
    "never sees one."
)


class Finished(TaskCell, frozen=True):
    """One data set that was generated and measured: the problem is a key of `PROBLEMS`, the maker of `GENERATORS`."""

    maker: str = msgspec.field(name="generator")
    values: dict[str, float]  # key of `MEASURES` -> value; only the `DISTANCES` where it is no training data
    seconds: float  # of generating


class SyntheticRow(msgspec.Struct, frozen=True):
    """One line of the table: mean and sample standard deviation (0 for one run) over the runs."""

    dataset: str
    generator: str
    epsilon: str
    measure: str
    mean: float
    std: float
    runs: int


class Findings(msgspec.Struct, frozen=True):
    """Every measure of every generator at every epsilon, in the order of problems, generators and measures."""

    rows: tuple[SyntheticRow, ...]
    provenance: Provenance | None = None


def tasks(order: Order) -> list[Task]:
    """All cells, the first run of everything before the second of anything; what is not private is made once a run."""
    private = shortest(order.size.epsilons)
    return order.tasks("datasets", "generators", lambda name: private if GENERATORS[name].private else (INFINITE,))


def compute(task: Task) -> Finished:
    """Generate one data set and measure it."""
    generator = GENERATORS[task.maker]
    split = load_split(task.problem, task.seed)
    matrices = split.matrices
    start = time.monotonic()
    records = generator.generate(split, Fraction(0) if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start
    private = WeightedRecords.of(matrices.train, matrices.labels)
    test = WeightedRecords.of(matrices.test, matrices.test_labels)
    values = utility(records, private, test, Columns.of(matrices.columns, matrices.lower, matrices.upper))
    rounded = {name: round(values[name], 6) for name in (MEASURES if generator.trains else DISTANCES)}
    return Finished(*task, rounded, round(seconds, 3))


def findings(cells: Mapping[str, Sequence[Finished]], provenance: Provenance | None = None) -> Findings:
    """Means over the runs, whatever is still missing."""
    groups = grouped(
        by_seed(cells["cells"]),
        lambda cell: (cell.problem, cell.epsilon, cell.maker),
        list(PROBLEMS),
        epsilon_order,
        list(GENERATORS),
    )
    rows = []
    for (problem, epsilon, generator), group in groups.items():
        columns = {name: [cell.values[name] for cell in group] for name in MEASURES if name in group[0].values}
        for measure, values in (columns | {SECONDS: [cell.seconds for cell in group]}).items():
            std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            rows.append(SyntheticRow(problem, generator, epsilon, measure, float(np.mean(values)), std, len(values)))
    return Findings(tuple(rows), provenance)


def document(results: Findings) -> Document:
    """What is measured and made, then a table a data set: a line a generator and epsilon."""
    datasets = dict.fromkeys(row.dataset for row in results.rows)
    measures = [name for name in (*MEASURES, SECONDS) if any(row.measure == name for row in results.rows)]
    titles = [(name, generator.title) for name, generator in GENERATORS.items()]
    return document_of(
        "synthetic",
        [
            *(
                Section(name, [Text(READING) if name in list(datasets)[:1] else None, _table(results, name, measures)])
                for name in datasets
            ),
            Section("Measures", [Facts(list(MEASURES.items()), "glossary")], PAPER),
            Section("Generators", [Facts(titles, "glossary")], PAPER),
        ],
        results.provenance,
        {
            "synthetic.csv": Table.of(
                "synthetic data",
                [
                    *attributes("dataset generator epsilon measure"),
                    *attributes("mean std", points),
                    *attributes("runs"),
                ],
                results.rows,
            )
        },
    )


def _table(results: Findings, dataset: str, measures: Sequence[str]) -> Table[Mapping[str, SyntheticRow]]:
    lines: dict[tuple[str, str], dict[str, SyntheticRow]] = {}
    for row in results.rows:
        if row.dataset == dataset:
            lines.setdefault((row.generator, row.epsilon), {})[row.measure] = row

    def show(measure: str) -> Callable[[Mapping[str, SyntheticRow]], str]:
        return lambda line: f"{line[measure].mean:.1f} ± {line[measure].std:.1f}" if measure in line else "–"

    return Table.of(
        dataset,
        [
            Column("generator", lambda line: line[SECONDS].generator, names=True),
            Column("epsilon", lambda line: line[SECONDS].epsilon),
            *(Column(name, show(name), number=True, title=MEASURES.get(name, "")) for name in measures),
            Column("runs", lambda line: line[SECONDS].runs, number=True),
        ],
        list(lines.values()),
        "dense",
    )


def needs_environment(order: Order) -> bool:
    """Whether AIM or MST is asked for."""
    return any(GENERATORS[name].needs_environment for name in order.size.axes["generators"])


def check(order: Order) -> None:
    """No environment for AIM and MST, or records that are not to be had, stop an order before any work."""
    if needs_environment(order):
        peers_python()
    check_problems(order)


def settings(order: Order) -> Mapping[str, object]:
    """What the numbers depend on."""
    return {
        "seed": order.seed,
        "delta": DELTA,
        "bins": [marginals.BINS, BINS],
        "fit_steps": marginals.FIT_STEPS,
        "aim": [marginals.MOST_ROUNDS, marginals.MOST_MEGABYTES, marginals.MOST_CANDIDATE_CELLS],
    }


STUDY = Study(
    name="synthetic",
    parts=[Part("cells", Finished, tasks, compute, settings)],
    findings=findings,
    document=document,
    choices={"generators": tuple(GENERATORS), "datasets": tuple(PROBLEMS)},
    short=Size(
        2,
        ("1", "0.1"),
        {"generators": ("cells", "source", "real", "fresh"), "datasets": ("A", "wdbc")},
        "half a minute",
    ),
    full=Size(
        2,
        ("1", "0.1"),
        {"generators": tuple(GENERATORS), "datasets": ("A", "C", "CTG-A", "heart", "wdbc")},
        "nine minutes",
    ),
    seed=1000,
    width=170,
    check=check,
    read_versions=lambda order: peer_versions() if needs_environment(order) else {},
)
