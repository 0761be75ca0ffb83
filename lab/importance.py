"""Importance weights as a second way to do Pb. 1, beside the least squares of Eq. 2: on C, D, E and CTG-B.

`python -m lab.importance` makes the studies and prints the tables of docs/importance-weights.md; its results
are kept in docs/importance/results.json and printed again with `--show`. The published mechanism of Ji and Elkan (2013)
is played on floats, outside of any curator: it is a reference for the weights alone.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import t as student

from lab.comparison.contestants import paper_options
from lab.comparison.studies import SILENT_EPSILON, make_study
from lab.paper.experiments import MOST_BINS
from lab.problems import PAPER_DATASETS, PROBLEMS, load_split
from lab.splits import Split
from learner_node.kinds.counts import CountsAnswer
from learner_node.learn import Learned
from learner_node.pooling import POOLED
from learner_node.solvers import solve_weights
from learner_node.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.strategies.base import AnyModel, class_probabilities
from learner_node.strategies.bin_workload import BinWorkload, consistent_masses
from learner_node.strategies.checked import LEAST_SQUARES, TILT
from protocol.kinds.counts import CountsBody
from protocol.noise import DiscreteLaplace

EPSILON = Fraction(1)
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "importance" / "results.json"
RUNS = {"C": 20, "D": 20, "E": 12, "CTG-B": 12}
"""Of each problem; the seeds count from 0."""
NAMES = tuple(RUNS)
FIRST_DEVELOPMENT_SEED, DEVELOPMENT_RUNS = 5000, 5
REGULARISERS = (3.0, 10.0, 30.0, 100.0, 300.0)
"""Of the published mechanism; the best of them on development seeds is used, problem by problem."""
SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Of Eq. 2's regularisation, relative to that of `paper-c`; the best is used likewise."""
PARTS = 4
"""Of each attribute, cut at the source's quartiles, in the distance of two sets of records."""
METHODS: dict[str, tuple[str, Mapping[str, object]]] = {
    "paper-c": ("paper-c", {"weighting": LEAST_SQUARES}),
    "paper-c, tilt": ("paper-c", {"weighting": TILT}),
    "paper-i": ("paper-i", {"weighting": LEAST_SQUARES}),
    "paper-i, tilt": ("paper-i", {"weighting": TILT}),
    "importance": ("importance", {}),
}
BEST_ALPHA = "Eq. 2, best regularisation"
SILENT = ("paper-c", "paper-c, tilt", "importance")
"""Those that are also asked with next to no noise."""
SILENT_BINS = 16
"""Of each attribute then, as in the paper's reproduction: the rule for noise would give a bin to each record."""
Vector = NDArray[np.float64]
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """Quartile cells of every pair of attributes, by the source.

    Attributes:
        edges: (d, 3) the source's quartiles.
    """

    edges: Points

    @classmethod
    def of(cls, source: Points) -> "Plane":
        """Of source points, (n, d)."""
        return cls(np.quantile(source, np.arange(1, PARTS) / PARTS, axis=0).T)

    def shares(self, points: Points, weights: Vector | None = None) -> Points:
        """Of weighted records in each cell of each pair: (pairs, 16)."""
        places = np.stack([np.searchsorted(e, x, side="right") for e, x in zip(self.edges, points.T, strict=True)])
        told = np.ones(len(points)) if weights is None else weights
        found = [
            np.bincount(PARTS * places[a] + places[b], told, PARTS**2) for a, b in combinations(range(len(places)), 2)
        ]
        shares: Points = np.array(found) / told.sum()
        return shares


def distance(first: Points, second: Points) -> float:
    """Total variation of two sets of records over the cells of a pair, mean over all pairs; in percent."""
    return float(50 * np.abs(first - second).sum(axis=1).mean())


def effective(weights: Vector) -> float:
    """Kish's effective sample size, in percent of the records."""
    return float(100 * weights.sum() ** 2 / (weights @ weights) / len(weights))


def _bounded(points: Points, radius: float) -> Points:
    """With a constant, and scaled into the unit ball: what the published mechanism needs of a record."""
    told = np.column_stack([points / radius, np.ones(len(points))]) / np.sqrt(2)
    bounded: Points = told / np.maximum(1.0, np.linalg.norm(told, axis=1))[:, None]
    return bounded


def discriminator(private: Points, public: Points, regulariser: float) -> Vector:
    """Coefficients b that tell private records from public ones, (k,): regularised logistic regression.

    It minimises the logistic losses, private records as positive and public ones as negative, plus
    regulariser |b|^2 / 2. One private record more or less moves the minimiser by at most 1 / regulariser in the
    Euclidean norm, as a loss has a slope of at most 1 and the objective is strongly convex. The objective is a sum, not
    a mean: the number of private records is private.

    Args:
        private: (m, k), rows in the unit ball.
        public: (n, k), likewise.
        regulariser: positive.
    """
    signed = np.concatenate([private, -public])

    def value(b: Vector) -> tuple[float, Vector]:
        margin = signed @ b
        loss = float(np.logaddexp(0, -margin).sum() + regulariser * (b @ b) / 2)
        return loss, regulariser * b - signed.T @ expit(-margin)

    start = np.zeros(signed.shape[1])
    found: Vector = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return found


def published_weights(private: Points, public: Points, regulariser: float, epsilon: float, seed: int) -> Vector:
    """Weights of the public records by a noisy discriminator, (n,), as the survey tells of Ji and Elkan (2013).

    The noise on b has a density proportional to exp(-epsilon regulariser |noise|).

    Args:
        private: (m, d).
        public: (n, d).
        regulariser: positive.
        epsilon: positive, for one record added or removed.
        seed: of the noise.
    """
    radius = float(np.quantile(np.linalg.norm(public, axis=1), 0.95))
    told = _bounded(public, radius)
    b = discriminator(_bounded(private, radius), told, regulariser)
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=len(b))
    noise = direction / np.linalg.norm(direction) * rng.gamma(len(b), 1 / (epsilon * regulariser))
    score = told @ (b + noise)
    weights: Vector = np.exp(score - score.max())
    return weights


def _points(split: Split) -> tuple[Points, Points, Points]:
    """Standardised by the source: source, private and test records."""
    features = standardising_map(split.source)
    source, private, test = (coordinates(features, each) for each in (split.source, split.private, split.test))
    return source, private, test


def _published_distance(name: str, seed: int, regulariser: float) -> tuple[float, float]:
    split = load_split(name, seed)
    source, private, test = _points(split)
    plane = Plane.of(source)
    share = float(EPSILON) / PAPER_DATASETS[name].queries  # as much as the paper's learner spends on the masses
    weights = published_weights(private, source, regulariser, share, seed)
    return distance(plane.shares(source, weights), plane.shares(test)), effective(weights)


def _study(name: str, split: Split, method: str, epsilon: Fraction) -> Learned:
    """One study of a method, with networks and bins as the paper has them."""
    strategy, told = METHODS[method]
    chosen = PROBLEMS[name].network if strategy == "importance" else paper_options(split, epsilon)
    bins = {"bins": SILENT_BINS} if epsilon == SILENT_EPSILON else {}
    return make_study(split, strategy, {**chosen, **told, **bins}, epsilon)


def _weights(learned: Learned) -> Vector:
    return learned.estimates[POOLED].weights


def _model(learned: Learned) -> AnyModel:
    models = [model for model in learned.models[POOLED] if model is not None]
    return models[-1]


def one_run(name: str, seed: int, regulariser: float) -> dict[str, dict[str, float]]:
    """Method -> accuracy, distance and effective size, in percent, of one run."""
    split = load_split(name, seed)
    source, private, test = _points(split)
    plane = Plane.of(source)
    truth = plane.shares(test)
    found: dict[str, dict[str, float]] = {
        "unweighted": {"distance": distance(plane.shares(source), truth), "effective": 100.0},
        "private records": {"distance": distance(plane.shares(private), truth)},
    }
    for method in METHODS:
        learned = _study(name, split, method, EPSILON)
        said = class_probabilities(_model(learned), split.test)[:, 1] > 0.5
        found[method] = {
            "accuracy": float(100 * np.mean(said == split.test_labels)),
            "distance": distance(plane.shares(source, _weights(learned)), truth),
            "effective": effective(_weights(learned)),
        }
    for method in SILENT:
        learned = _study(name, split, method, SILENT_EPSILON)
        found[f"{method}, no noise"] = {"distance": distance(plane.shares(source, _weights(learned)), truth)}
    away, size = _published_distance(name, seed, regulariser)
    found["published"] = {"distance": away, "effective": size}
    return found


def _least_squares_distance(name: str, seed: int, shrinkage: float) -> tuple[float, float]:
    """Eq. 2 on masses as noisy as those of `paper-c`, with another regularisation: distance and effective size."""
    split, row = load_split(name, seed), PAPER_DATASETS[name]
    source, _, test = _points(split)
    scale = row.dimensions * row.queries / EPSILON
    bins = paper_bin_count(row.target_size, scale, most=MOST_BINS)
    workload = BinWorkload.of(split.source, tuple(even_bins(split.source, bins)))
    law, rng = DiscreteLaplace(scale), np.random.default_rng(seed)
    sizes = tuple(each.cell_count(split.schema) for each in workload.partitions)
    pairs = zip(workload.partitions, sizes, strict=True)
    exact = np.concatenate([np.bincount(each.cells(split.private), minlength=k) for each, k in pairs])
    counted = exact.astype(np.int64) + law.simulate(rng, exact.shape)
    body = CountsBody(partitions=workload.partitions, hypothesis=None)
    answer = CountsAnswer(body, counted[:, None].astype(np.float64), sizes, "mass", scale)
    masses = consistent_masses(answer.values[:, 0], answer)
    prior = float(masses.sum()) / len(sizes) / len(split.source)
    alpha = shrinkage * answer.noise_variance / 2
    weights = solve_weights(workload.R, masses, alpha=alpha, prior=prior, tolerance=1e-8).x
    plane = Plane.of(source)
    return distance(plane.shares(source, weights), plane.shares(test)), effective(weights)


def _best(choices: Sequence[float], tried: Callable[[int, float], tuple[float, float]]) -> float:
    """The choice of least distance on development seeds."""
    seeds = range(FIRST_DEVELOPMENT_SEED, FIRST_DEVELOPMENT_SEED + DEVELOPMENT_RUNS)
    means = [np.mean([tried(seed, each)[0] for seed in seeds]) for each in choices]
    return choices[int(np.argmin(means))]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student's)."""
    told = np.array(values)
    return float(told.mean()), float(student.ppf(0.975, len(told) - 1) * told.std(ddof=1) / np.sqrt(len(told)))


def _cells(results: Mapping[str, list[dict[str, dict[str, float]]]], method: str, what: str) -> list[str]:
    told = []
    for name in NAMES:
        runs = [run[method] for run in results[name]]
        values = [run[what] for run in runs if what in run]
        told.append("{:.1f} ± {:.1f}".format(*interval(values)) if len(values) > 1 else "")
    return told


def _difference(results: Mapping[str, list[dict[str, dict[str, float]]]], method: str, against: str) -> list[str]:
    found = []
    for name in NAMES:
        values = [run[method]["accuracy"] - run[against]["accuracy"] for run in results[name]]
        found.append("{:+.1f} ± {:.1f}".format(*interval(values)))
    return found


def tables(results: Mapping[str, list[dict[str, dict[str, float]]]]) -> str:
    """The tables of the page, as Markdown."""
    head = f"| {{}} | {' | '.join(NAMES)} |\n|{'---|' * (len(NAMES) + 1)}"
    lines = [head.format("accuracy, %")]
    lines += [f"| `{method}` | {' | '.join(_cells(results, method, 'accuracy'))} |" for method in METHODS]
    for method, against in (
        ("paper-c, tilt", "paper-c"),
        ("paper-i, tilt", "paper-i"),
        ("importance", "paper-c"),
    ):
        lines.append(f"| `{method}` less `{against}` | {' | '.join(_difference(results, method, against))} |")
    lines += ["", head.format("distance to the private population, %")]
    rows = (
        "unweighted",
        "paper-c",
        BEST_ALPHA,
        "paper-c, tilt",
        "importance",
        "published",
        "paper-c, no noise",
        "paper-c, tilt, no noise",
        "importance, no noise",
        "private records",
    )
    lines += [f"| {row} | {' | '.join(_cells(results, row, 'distance'))} |" for row in rows]
    lines += ["", head.format("effective sample size, % of the source")]
    lines += [f"| {row} | {' | '.join(_cells(results, row, 'effective'))} |" for row in rows[1:6]]
    return "\n".join(lines)


def main() -> None:
    """Make what is missing of the runs, keep them, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print what is kept")
    told = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"regulariser": {}, "runs": {}}
    for name in () if told.show else NAMES:
        for chosen, choices, tried in (
            ("regulariser", REGULARISERS, partial(_published_distance, name)),
            ("shrinkage", SHRINKAGES, partial(_least_squares_distance, name)),
        ):
            if name not in kept.setdefault(chosen, {}):
                kept[chosen][name] = _best(choices, tried)
        runs = kept["runs"].setdefault(name, [])
        for seed in range(RUNS[name]):
            if seed == len(runs):
                runs.append(one_run(name, seed, kept["regulariser"][name]))
            if BEST_ALPHA not in runs[seed]:
                away, size = _least_squares_distance(name, seed, kept["shrinkage"][name])
                runs[seed][BEST_ALPHA] = {"distance": away, "effective": size}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(tables(kept["runs"]))  # noqa: T201


if __name__ == "__main__":
    main()
