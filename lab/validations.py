"""How often the intervals of a validation hold: the table of docs/learner/validation.md.

The population is known: the private half of a scenario's records, from which units are drawn with replacement, site by
site, as many as there are. So the exact curve of the population is known, and an answer has both the chance of the draw
and the noise. The score is a logistic regression on the test records. Every other seed doubles its logits, so that it
is too sure. No curator is involved: exact counts get seeded noise, in the form of the curators' answers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Table
from lab.averages import Averages, Summary, averages, names, number, plain
from lab.cells import TaskCell
from lab.curators import NOISE
from lab.studies import document_of
from lab.study import Part, Size, Study
from learner_node.models.source import coordinates, standardising_map
from learner_node.questions.score_question import bin_count, probability_of, settled_thresholds, validation_bins
from learner_node.questions.validation import DRAWS
from learner_node.scores.performance import Interval, Performance, performance
from learner_node.scores.score_posterior import Bins, draw_counts
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, read_thresholds
from protocol.hypotheses import Mlp
from protocol.noise import DiscreteLaplace
from protocol.partitions import ScoreBins
from protocol.rationals import parse_rational
from protocol.record_frames import encode_frame, encode_labels
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema
from simulations.campaign.store import Task
from simulations.records import load_records, split_records
from simulations.scenario import load_scenario

EPSILONS = ("0.1", "0.3", "1", "3")
SCENARIOS = ("wdbc", "heart", "ctg", "readmission", "readmission-30")
INVENTED = {
    "easy": (0.98, 0.4, 280, 3),
    "plain": (0.8, 0.3, 1000, 2),
    "rare": (0.7, 0.05, 8000, 4),
    "coin": (0.5, 0.3, 600, 2),
}
"""Two normals -> area, prevalence, private records, sites. The source of "easy" has another prevalence."""
POPULATION = 100_000
ALL = "all"
READING = (
    "For each quantity the share of intervals that hold the exact value; beside them the score's bins, the area of the "
    "exact curve, the bias of what is told of it, and the mean width of its interval."
)
QUANTITIES = ("prevalence", "auc", "sensitivity", "specificity", "ppv", "npv", "calibration")
REPEATS = {"pooled": 4, "site": 1}  # answers to one split and one score; there are several sites


class Coverage(TaskCell, frozen=True):
    """How often intervals hold the exact values, on one split and over a few answers."""

    problem: str = msgspec.field(name="dataset")  # a scenario, or a key of `INVENTED`
    maker: str = msgspec.field(name="part")  # "pooled" or "site"
    bins: int  # of the score
    area: float  # of the exact curve; the mean, where there are several sites
    hits: dict[str, int] = msgspec.field(name="held")  # quantity -> intervals that held the exact value
    intervals: dict[str, int] = msgspec.field(name="made")  # quantity -> intervals
    width: dict[str, float]  # quantity -> sum of their widths
    bias: float  # sum of estimated areas less exact ones
    seconds: float = 0.0


@dataclass(frozen=True)
class Pool:
    """The population of one site."""

    records: Records  # n of them
    labels: NDArray[np.bool_]  # (n,) whether of class 1
    starts: NDArray[np.int64]  # first record of each unit, and n; units lie together

    def cells(self, bins: ScoreBins) -> NDArray[np.int64]:
        """Bin and label of each record as one number."""
        return 2 * bins.cells(self.records).astype(np.int64) + self.labels


@dataclass(frozen=True)
class Split:
    """A population, what the learner has of it, and a score."""

    source: Records  # the learner's records
    pools: tuple[Pool, ...]  # by site
    counts: tuple[int, ...]  # units that are drawn at each site
    hypothesis: Mlp  # whose score is validated
    most: int  # records of one unit


@lru_cache(2)
def load(dataset: str, seed: int) -> Split:
    """The records of one run."""
    return _invented(dataset, seed) if dataset in INVENTED else _from_scenario(dataset, seed)


def _from_scenario(dataset: str, seed: int) -> Split:
    scenario, _, folder = load_scenario(dataset)
    sites = split_records(scenario, load_records(scenario, folder), seed)
    first = next(iter(sites.values()))
    schema, steward = first.steward.schema, first.steward
    source = encode_frame(pl.concat([site.source for site in sites.values()]), schema)
    test = pl.concat([site.test for site in sites.values()])
    labels = encode_labels(test[schema.label], schema.classes) > 0
    pools = []
    for site in sites.values():
        frame, unit = site.counted, steward.unit
        if unit is None:
            starts = np.arange(frame.height + 1)
        else:
            frame = frame.sort(unit, maintain_order=True)
            names = frame[unit].to_numpy()
            starts = np.append(np.flatnonzero(np.append(True, names[1:] != names[:-1])), len(names))
        pools.append(Pool(encode_frame(frame, schema), encode_labels(frame[schema.label], schema.classes) > 0, starts))
    hypothesis = _logistic(source, encode_frame(test, schema), labels, 1 + seed % 2)
    most = 1 if steward.unit is None else steward.most_records_per_unit
    return Split(source, tuple(pools), tuple(len(pool.starts) - 1 for pool in pools), hypothesis, most)


def _invented(dataset: str, seed: int) -> Split:
    area, prevalence, size, sites = INVENTED[dataset]
    rng = np.random.default_rng([7, seed, *dataset.encode()])
    schema = Schema(attributes=(NumericAttribute("x", -8.0, 8.0),), label="y", classes=("0", "1"))
    apart = np.sqrt(2.0) * float(ndtri(area))

    def draw(count: int, share: float) -> tuple[Records, NDArray[np.bool_]]:
        labels = rng.random(count) < share
        values = rng.standard_normal(count) + apart * (labels - 0.5)
        return encode_frame(pl.DataFrame({"x": values}), schema), labels

    source, _ = draw(1000, 0.6 if dataset == "easy" else prevalence)
    pools = []
    for _ in range(sites):
        records, labels = draw(POPULATION // sites, prevalence)
        pools.append(Pool(records, labels, np.arange(len(labels) + 1)))
    hypothesis = _logistic(source, *draw(400, prevalence), 1 + seed % 2) if dataset != "coin" else _line(source, 1.0)
    return Split(source, tuple(pools), (size // sites,) * sites, hypothesis, 1)


def _line(source: Records, slope: float) -> Mlp:
    features = standardising_map(source)
    return Mlp.of(features, [(np.full((1, features.width), slope, np.float32), np.zeros(1, np.float32))])


def _logistic(source: Records, records: Records, labels: NDArray[np.bool_], sureness: float) -> Mlp:
    """Logistic regression as a network without hidden units; its logits times a number."""
    features = standardising_map(source)
    fitted = LogisticRegression(max_iter=2000).fit(coordinates(features, records), labels)
    weights, bias = sureness * fitted.coef_, sureness * fitted.intercept_
    return Mlp.of(features, [(weights.astype(np.float32), bias.astype(np.float32))])


def compute(task: Task) -> Coverage:
    """The coverage of one run."""
    split, epsilon = load(task.problem, task.seed), Fraction(task.epsilon)
    scale = split.most / epsilon
    pooled = task.maker == "pooled"
    records = [int(np.diff(pool.starts).mean() * count) for pool, count in zip(split.pools, split.counts, strict=True)]
    probability = probability_of(split.hypothesis, split.source)
    count = bin_count(probability, target_size=sum(records), scale=float(scale), noises=len(split.pools))
    thresholds = settled_thresholds(read_thresholds(DEFAULT_THRESHOLDS), probability, bins=count)
    bins = validation_bins(split.hypothesis, split.source, count, thresholds)
    k = len(bins.edges) + 1
    place = Bins.of(split.hypothesis.logits(split.source), bins.cells(split.source), k)
    cells = [pool.cells(bins) for pool in split.pools]
    parts = [list(range(len(cells)))] if pooled else [[index] for index in range(len(cells))]
    truths = [_truth(split, [cells[index] for index in part], part, k) for part in parts]
    rng = np.random.default_rng([11, task.seed, int(1000 * epsilon), int(pooled)])
    law = DiscreteLaplace(scale)
    hits: dict[str, int] = defaultdict(int)
    intervals: dict[str, int] = defaultdict(int)
    width: dict[str, float] = defaultdict(float)
    bias = 0.0
    for repeat in range(REPEATS[task.maker]):
        answers = []
        for pool, records_of, count_of in zip(split.pools, cells, split.counts, strict=True):
            units = rng.integers(0, len(pool.starts) - 1, count_of)
            rows = np.concatenate([np.arange(pool.starts[unit], pool.starts[unit + 1]) for unit in units])
            answers.append(np.bincount(records_of[rows], minlength=2 * k).reshape(k, 2) + law.simulate(rng, (k, 2)))
        for part, truth in zip(parts, truths, strict=True):
            if truth is None:
                continue
            draws = draw_counts(
                np.sum([answers[index] for index in part], axis=0).astype(np.float64),
                place,
                scale=float(scale),
                noises=len(part),
                draws=DRAWS,
                seed=repeat,
                design=float(split.most),
            )
            estimates = performance(draws, list(bins.edges), [0.0] * k)
            for name, value, interval in _compared(estimates, truth):
                hits[name] += value in interval
                intervals[name] += 1
                width[name] += interval.high - interval.low
            bias += estimates.auc - truth[0]
    areas = [truth[0] for truth in truths if truth is not None]
    return Coverage(*task, k, float(np.mean(areas)), dict(hits), dict(intervals), dict(width), bias)


Truth = tuple[float, NDArray[np.float64]]  # exact area, and exact shares of the records by bin and class, (k, 2)


def _truth(split: Split, cells: Sequence[NDArray[np.int64]], part: Sequence[int], k: int) -> Truth | None:
    """The exact curve of some sites' populations, weighed as they are drawn; None where a class is absent."""
    weights, labels, scores, shares = [], [], [], np.zeros((k, 2))
    for index, bins_of in zip(part, cells, strict=True):
        pool = split.pools[index]
        weight = split.counts[index] / (len(pool.starts) - 1)
        weights.append(np.full(len(bins_of), weight))
        labels.append(pool.labels)
        scores.append(split.hypothesis.logits(pool.records))
        shares += weight * np.bincount(bins_of, minlength=2 * k).reshape(k, 2)
    label = np.concatenate(labels)
    if label.all() or not label.any():
        return None
    area = roc_auc_score(label, np.concatenate(scores), sample_weight=np.concatenate(weights))
    return float(area), shares / shares.sum()


def _compared(estimates: Performance, truth: Truth) -> Iterator[tuple[str, float, Interval]]:
    """(quantity, exact value, interval) of all that a validation tells."""
    area, shares = truth
    yield "prevalence", shares[:, 1].sum(), estimates.prevalence
    yield "auc", area, estimates.area
    below = np.cumsum(shares, axis=0)
    above = shares.sum(axis=0) - below
    for index, point in enumerate(estimates.points):
        (negative, missed), (false, true_) = below[index], np.maximum(above[index], 0.0)
        for name, part, rest in (
            ("sensitivity", true_, missed),
            ("specificity", negative, false),
            ("ppv", true_, false),
            ("npv", negative, missed),
        ):
            if part + rest > 0:
                yield name, part / (part + rest), getattr(point, name)
    for bin_, (zeros, ones) in zip(estimates.calibration, shares, strict=True):
        if zeros + ones > 0:
            yield "calibration", ones / (zeros + ones), bin_.observed


def _ratio(part: Callable[[Coverage], float], quantity: str) -> Summary:
    """The ratio of a sum over the runs to the number of a quantity's intervals."""
    return lambda runs: sum(map(part, runs)) / max(sum(run.intervals.get(quantity, 0) for run in runs), 1)


def _share_that_holds(quantity: str) -> Summary:
    return _ratio(lambda run: run.hits.get(quantity, 0), quantity)


NUMBERS = {
    "bins": plain(lambda run: run.bins),
    "area": plain(lambda run: run.area),
    "bias": _ratio(lambda run: run.bias, "auc"),
    "width": _ratio(lambda run: run.width["auc"], "auc"),
    **{f"{quantity}_held": _share_that_holds(quantity) for quantity in QUANTITIES},
}


def findings(cells: Mapping[str, Sequence[Coverage]], provenance: Provenance | None = None) -> Averages:
    """Averages over all data sets and over each, by sort of answers and epsilon."""
    named = (((run.maker, run.epsilon, name), run) for run in cells["runs"] for name in (ALL, run.problem))
    return averages(named, NUMBERS, (str, parse_rational, [ALL, *DATASETS]), provenance)


def document(results: Averages) -> Document:
    """A table over all data sets, and one by data set."""
    columns = [
        *names("answers; epsilon; data set"),
        number("bins", "bins", ".0f"),
        number("AUC", "area", ".2f"),
        number("bias", "bias", "+.3f"),
        number("width", "width", ".2f"),
        *(number(quantity, f"{quantity}_held", ".2f") for quantity in QUANTITIES),
    ]
    pooled = [row for row in results.rows if row.names[2] == ALL]
    apart = [row for row in results.rows if row.names[2] != ALL]
    sections = [
        Section("All data sets", [Text(READING), Table.of("Over all data sets", columns, pooled)]),
        Section("By data set", [Table.of("By data set", columns, apart)]),
    ]
    return document_of("validations", sections, results.provenance)


DATASETS = (*SCENARIOS, *INVENTED)
STUDY = Study(
    name="validations",
    parts=[Part("runs", Coverage, lambda order: order.tasks("datasets", "answers"), compute)],
    findings=findings,
    document=document,
    choices={"datasets": DATASETS, "answers": tuple(REPEATS)},
    short=Size(
        2, ("0.1", "1"), {"datasets": ("heart", "wdbc", "plain", "coin"), "answers": tuple(REPEATS)}, "a minute"
    ),
    full=Size(4, EPSILONS, {"datasets": DATASETS, "answers": tuple(REPEATS)}, "half an hour"),
    seed=5600,
    noise=NOISE,
    width=160,
)
