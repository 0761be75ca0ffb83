"""The study of in-site models: every method of the query kind `model`, beside `cells` and the same without privacy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

from curator_node.records.schema_file import SchemaFile
from expril.report.chart import Figure, Key, Level, Series
from expril.report.document import Charts, Document, Section, Text
from expril.report.numbers import decimal, signed
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes
from lab.averages import Interval, log_chart, mean_columns, mean_place, mean_text
from lab.cells import INFINITE, TaskCell, by_seed, differences, epsilon_number, epsilon_order, grouped
from lab.learning import WrongCostError, federated, run_study, train_peer
from lab.measures import scores
from lab.problems import PROBLEMS, check_problems, load_split
from lab.splits import Options, Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.kinds.models.unsupervised import ask_clusters, ask_components
from learner_node.models.source import coordinates
from learner_node.strategies.base import NumberModel
from learner_node.strategies.models import unit_map
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from protocol.feature_map import FeatureMap
from protocol.kinds.model import MODEL
from protocol.rationals import parse_rational
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import NumericAttribute
from simulations.campaign.store import Task

CLASSES, NUMBER, NOTHING = "classes", "a number", "nothing"  # what a method predicts
CLUSTERS, COMPONENTS = 4, 2
KINDS: Mapping[str, Mapping[str, object]] = {MODEL.name: {}}  # what curators answer beside counts
LABELS: dict[str, str] = {"CTG-A": "ASTV", "wdbc": "mean smoothness", "heart": "age"}
"""Problem -> the attribute that a regression predicts from all others; the class is left out."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """One line of the study."""

    title: str
    # `CLASSES`: its score is the accuracy on the test records in percent; `NUMBER`: the explained part of the label's
    # variance; `NOTHING`: the explained part of the points' variance. Below 0 counts as 0.
    predicts: str
    open: str  # the name, in `WAYS`, of the same without privacy
    # (split, epsilon) -> score, area under the ROC curve or 0, exact epsilon by the costliest ledger
    run: Callable[[Split, Fraction], tuple[float, float, Fraction]]


class Fitted(TaskCell, frozen=True):
    """One method in one study: `maker` is a key of `WAYS`."""

    maker: str = msgspec.field(name="way")
    score: float  # in percent, see `Way`
    auc: float  # area under the ROC curve in percent; 0 where no classes are predicted
    charged: str  # exact epsilon by the costliest curator's ledger; "" without privacy
    sites: int  # curators
    seconds: float = 0.0


def compute(task: Task) -> Fitted:
    """One study."""
    split, way = load_split(task.problem, task.seed), WAYS[task.maker]
    private = task.epsilon != INFINITE
    score, auc, charged = way.run(split, parse_rational(task.epsilon) if private else Fraction(0))
    charged_text = str(charged) if private else ""
    return Fitted(*task, round(max(score, 0.0), 4), round(auc, 4), charged_text, len(split.sites))


def classifier(
    strategy: str, options: Options | None = None
) -> Callable[[Split, Fraction], tuple[float, float, Fraction]]:
    """A strategy of ours for two classes."""

    def run(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
        answer = run_study(split, strategy, options or {}, epsilon, kinds=KINDS)
        return *scores(answer.probability, split.test_labels), answer.spent or Fraction(0)

    return run


def regression(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
    """Strategy `site-linear`, with an attribute for its label."""
    steward, frames, source, test, truth = numbered(split)
    sites = [replace(site, frame=frame, steward=steward) for site, frame in zip(split.sites, frames, strict=True)]
    federation, charged = federated(sites, kinds=KINDS)
    learned = learn(federation, source, Budget(epsilon), strategy="site-linear", seed=split.seed)
    model = learned.model()
    if not isinstance(model, NumberModel):
        raise TypeError("a label that is a number has a model that predicts one")
    return explained(truth, model.predict_number(encode_frame(test, steward.schema))), 0.0, _all_of(epsilon, charged())


def clustered(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
    """Private k-means at every site: the mean over the sites of the variance that their clusters explain."""
    federation, charged = federated(split.sites, kinds=KINDS)
    answer, _ = ask_clusters(federation, lambda _: split.source, clusters=CLUSTERS, epsilon=epsilon, seed=split.seed)
    points = points_of(answer.features, split.test)
    scores_of = [near(points, centres) for centres in np.split(answer.centres, len(split.sites))]
    return float(np.mean(scores_of)), 0.0, _all_of(epsilon, charged())


def projected(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
    """Private principal components of all sites."""
    federation, charged = federated(split.sites, kinds=KINDS)
    answer, _ = ask_components(federation, lambda _: split.source, epsilon=epsilon)
    score = along(points_of(answer.features, split.test), answer.axes[:COMPONENTS])
    return score, 0.0, _all_of(epsilon, charged())


def peer(name: str) -> Callable[[Split, Fraction], tuple[float, float, Fraction]]:
    """A peer that is trained without privacy on all records."""
    return lambda split, _: (*scores(train_peer(split, None, name, 0.0).probability, split.test_labels), Fraction(0))


def least_squares(split: Split, _epsilon: Fraction) -> tuple[float, float, Fraction]:
    """scikit-learn's linear regression on all private records."""
    steward, frames, source, test, truth = numbered(split)
    features = unit_map(source(steward.schema), 0.9)
    private = pl.concat(frames)
    model = LinearRegression().fit(
        coordinates(features, encode_frame(private, steward.schema)), private[steward.label].to_numpy()
    )
    return explained(truth, model.predict(coordinates(features, encode_frame(test, steward.schema)))), 0.0, Fraction(0)


def free_clusters(split: Split, _epsilon: Fraction) -> tuple[float, float, Fraction]:
    """scikit-learn's k-means on all private records."""
    features = unit_map(split.source, 0.9)
    model = KMeans(CLUSTERS, n_init=4, random_state=split.seed).fit(points_of(features, split.private))
    return near(points_of(features, split.test), model.cluster_centers_), 0.0, Fraction(0)


def free_components(split: Split, _epsilon: Fraction) -> tuple[float, float, Fraction]:
    """scikit-learn's principal components of all private records."""
    features = unit_map(split.source, 0.9)
    model = PCA(COMPONENTS).fit(points_of(features, split.private))
    return along(points_of(features, split.test), model.components_), 0.0, Fraction(0)


WAYS: dict[str, Way] = {
    "cells": Way("cells: one question of counts", CLASSES, "logistic", classifier("cells", {"networks": False})),
    "site-naive-bayes": Way("naive Bayes", CLASSES, "logistic", classifier("site-naive-bayes")),
    "site-logistic": Way("logistic regression", CLASSES, "logistic", classifier("site-logistic")),
    "site-svm": Way("linear support vectors", CLASSES, "logistic", classifier("site-svm")),
    "site-kernel-svm": Way("support vectors, random features", CLASSES, "logistic", classifier("site-kernel-svm")),
    "site-forest": Way("random forest", CLASSES, "logistic", classifier("site-forest")),
    "site-linear": Way("linear regression", NUMBER, "least-squares", regression),
    "site-k-means": Way(f"k-means, {CLUSTERS} clusters a site", NOTHING, "k-means", clustered),
    "site-pca": Way(f"{COMPONENTS} principal components", NOTHING, "pca", projected),
    "logistic": Way("logistic regression, no privacy", CLASSES, "", peer("logistic-regression")),
    "least-squares": Way("linear regression, no privacy", NUMBER, "", least_squares),
    "k-means": Way(f"k-means, {CLUSTERS} clusters, no privacy", NOTHING, "", free_clusters),
    "pca": Way(f"{COMPONENTS} principal components, no privacy", NOTHING, "", free_components),
}
"""By name, in the order of the tables; those that are not private have no `open`."""


def numbered(split: Split) -> tuple[SchemaFile, list[pl.DataFrame], Callable[[object], Records], pl.DataFrame, Floats]:
    """Records whose label is an attribute: steward's file, the sites' frames, source by schema, test frame, labels."""
    name, old = LABELS[split.problem], split.sites[0].steward
    attribute = split.schema.find(name)
    if not isinstance(attribute, NumericAttribute):
        raise TypeError("a regression predicts a number")
    rest = tuple(attribute for attribute in split.schema.attributes if attribute.name != name)
    steward = msgspec.structs.replace(
        old, label=name, classes=(), label_bounds=(attribute.lower, attribute.upper), attributes=rest
    )
    frames = [site.frame.drop_nulls(name) for site in split.sites]
    source, test = (_framed(records, split) for records in (split.source, split.test))
    return (
        steward,
        frames,
        lambda _: encode_frame(source, steward.schema),
        test,
        np.asarray(split.test.column(name), np.float64),
    )


def points_of(features: FeatureMap, records: Records) -> Floats:
    """Points in units, as the curators see them: points longer than 1 are shrunk to length 1."""
    points = coordinates(features, records)
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0))


def explained(truth: Floats, predicted: Floats) -> float:
    """Explained part of a label's variance, in percent; of records with a label."""
    there = ~np.isnan(truth)
    error = np.mean((truth[there] - predicted[there]) ** 2)
    return float(100 * (1 - error / max(truth[there].var(), 1e-12)))


def near(points: Floats, centres: Floats) -> float:
    """Part of the points' variance that the nearest centres explain, in percent."""
    distances = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1)
    return float(100 * (1 - distances.sum() / ((points - points.mean(axis=0)) ** 2).sum()))


def along(points: Floats, axes: Floats) -> float:
    """Part of the points' variance along orthonormal axes, in percent."""
    centred = points - points.mean(axis=0)
    return float(100 * ((centred @ axes.T) ** 2).sum() / (centred**2).sum())


def _framed(records: Records, split: Split) -> pl.DataFrame:
    """Encoded records as a frame; missing values are null."""
    columns: dict[str, pl.Series] = {}
    for attribute in split.schema.attributes:
        column = records.column(attribute.name)
        if isinstance(attribute, NumericAttribute):
            columns[attribute.name] = pl.Series(column).fill_nan(None)
        else:
            names = [*attribute.levels, "other", None]
            columns[attribute.name] = pl.Series([names[code] for code in column.tolist()], dtype=pl.String)
    return pl.DataFrame(columns)


def _all_of(epsilon: Fraction, charged: Fraction) -> Fraction:
    """The charge, if it is epsilon; WrongCostError otherwise."""
    if charged != epsilon:
        raise WrongCostError(f"asked for {epsilon}, and a ledger holds {charged}")
    return charged


KEYS = {
    name: Key(number, False, way.title)
    for number, (name, way) in enumerate(
        (name, way) for name, way in WAYS.items() if way.predicts == CLASSES and way.open
    )
}
"""Of the private methods that predict classes."""
READING = (
    "Mean over the repeats and half the width of its 95 % interval. Every number is of a whole study with real "
    "curators, noise, signatures and ledgers; a repeat has its own split, which all methods share. Models are fitted "
    "at each site, and what the sites release is added up, or averaged where it cannot be. A mark tells that the "
    "difference to cells, within a repeat, is larger than its interval."
)
FURTHER = (
    "A regression predicts the named attribute, and what it explains is of that attribute's variance. Clusters and "
    "components explain the points' variance: with clusters, the mean over the sites of what each one's centres do. "
    "What explains less than the mean does is counted as 0."
)


class Point(msgspec.Struct, frozen=True):
    """One method on one problem at one epsilon."""

    problem: str  # key of `PROBLEMS`
    way: str  # key of `WAYS`
    epsilon: str  # exact text, "inf" without privacy
    score: Interval  # in percent, see `lab.model.Way`
    auc: Interval | None  # area under the ROC curve in percent; None where no classes are predicted
    gain: Interval | None  # score less that of `cells`, over the repeats that both have; None where they share none
    charged: str  # exact epsilon by the costliest ledger, the largest of the repeats; "" without privacy
    sites: int  # curators


class Findings(msgspec.Struct, frozen=True):
    """Everything that a report shows."""

    points: tuple[Point, ...]  # by problem, by epsilon downwards, in the order of `WAYS`
    provenance: Provenance | None = None  # None before anything was computed

    @property
    def epsilons(self) -> tuple[str, ...]:
        """Epsilons of private methods, downwards."""
        there = {point.epsilon for point in self.points if point.epsilon != INFINITE}
        return tuple(sorted(there, key=epsilon_order))

    def point(self, problem: str, way: str, epsilon: str) -> Point | None:
        """The one of these, where it was run."""
        return next(
            (point for point in self.points if (point.problem, point.way, point.epsilon) == (problem, way, epsilon)),
            None,
        )


def findings(cells: Mapping[str, Sequence[Fitted]], provenance: Provenance | None = None) -> Findings:
    """Findings of the cells that there are."""
    groups = grouped(
        by_seed(cells["studies"]),
        lambda study: (study.problem, study.epsilon, study.maker),
        list(PROBLEMS),
        epsilon_order,
        list(WAYS),
    )
    return Findings(tuple(_point(*key, groups) for key in groups), provenance)


def _point(problem: str, epsilon: str, way: str, groups: Mapping[tuple[str, str, str], Sequence[Fitted]]) -> Point:
    runs, beside = groups[problem, epsilon, way], groups.get((problem, epsilon, "cells"), ())
    classes = WAYS[way].predicts == CLASSES
    return Point(
        problem,
        way,
        epsilon,
        Interval.of(study.score for study in runs),
        Interval.of(study.auc for study in runs) if classes else None,
        Interval.of_any(differences(runs, beside, attrgetter("score"))) if classes and way != "cells" else None,
        max((study.charged for study in runs), key=len),
        runs[0].sites,
    )


def document(results: Findings) -> Document:
    """A table and charts of methods that predict classes, and a table of the others."""
    classified = _table(results, "Accuracy on the test records, in percent", [CLASSES])
    further = _table(results, "Explained variance on the test records, in percent", [NUMBER, NOTHING])
    columns = [*attributes("problem way epsilon sites charged"), *mean_columns("score auc gain")]
    sections = [
        Section(classified.caption, [Text(READING), _charts(results), classified] if classified else []),
        Section(further.caption, [Text(FURTHER), further] if further else []),
    ]
    return document_of(
        "model", sections, results.provenance, {"scores.csv": Table.of("scores", columns, results.points)}
    )


def _table(results: Findings, caption: str, predicted: Iterable[str]) -> Table[tuple[str, str]]:
    """A group for each problem, a row for each method, a column for each epsilon."""
    groups = []
    for problem in dict.fromkeys(point.problem for point in results.points):
        there = {point.way: point.sites for point in results.points if point.problem == problem}
        rows = [(problem, name) for name, way in WAYS.items() if name in there and way.predicts in predicted]
        sites = max(there.values())
        title = f"{problem}, {sites} {'site' if sites == 1 else 'sites'}"
        title += "" if CLASSES in predicted else f"; the regression predicts {LABELS.get(problem, 'nothing')}"
        groups.append(Group(rows, title))
    columns = [
        Column[tuple[str, str]]("method", lambda row: WAYS[row[1]].title, names=True),
        *(Column(f"epsilon {epsilon}", partial(_score, results, epsilon), number=True) for epsilon in results.epsilons),
        Column("no privacy", partial(_score, results, INFINITE), number=True),
        Column("charged", partial(_charged, results), number=True),
    ]
    return Table(caption, columns, [group for group in groups if group.rows])


def _score(results: Findings, epsilon: str, row: tuple[str, str]) -> Cell:
    point = results.point(*row, epsilon)
    if point is None or point.gain is None:
        return Cell(mean_text(point.score if point else None))
    return Cell(mean_text(point.score), tone=point.gain.tone, under=f"{signed(point.gain.value)} to cells")


def _charged(results: Findings, row: tuple[str, str]) -> str:
    """Whether each study's costliest ledger holds the asked epsilon; if not, the sum that it holds."""
    points = [point for point in results.points if (point.problem, point.way) == row and point.epsilon != INFINITE]
    if not points:
        return "–"
    wrong = [point.charged for point in points if Fraction(point.charged) != Fraction(point.epsilon)]
    return ", ".join(wrong) or "epsilon"


def _charts(results: Findings) -> Charts | None:
    """Accuracy against epsilon, one panel a problem; none where there is but one epsilon."""
    if len(results.epsilons) < 2:
        return None
    problems = dict.fromkeys(point.problem for point in results.points if point.way in KEYS)
    charts = [_chart(results, problem) for problem in problems]
    return Charts(charts, tuple(KEYS.values()), [("solid", WAYS["logistic"].title)])


def _chart(results: Findings, problem: str) -> Figure:
    def series(key: Key, way: str) -> Series:
        points = [point for epsilon in reversed(results.epsilons) if (point := results.point(problem, way, epsilon))]
        texts = [f"{mean_text(point.score)} % at epsilon {point.epsilon}" for point in points]
        places = [
            mean_place(epsilon_number(point.epsilon), point.score, text)
            for point, text in zip(points, texts, strict=True)
        ]
        return Series(key, places, errors=False)

    free = results.point(problem, "logistic", INFINITE)
    level = free and Level("solid", free.score.value, f"no privacy: {decimal(free.score.value)}")
    lines = [series(key, way) for way, key in KEYS.items()]
    steps = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    return log_chart(problem, lines, steps, "epsilon", levels=[level] if level else [], unit="%")


def tasks(order: Order) -> list[Task]:
    """All studies; what is not private has no epsilon."""
    return order.tasks("problems", "methods", lambda name: order.size.epsilons if WAYS[name].open else (INFINITE,))


def _settings(order: Order) -> dict[str, object]:
    """The header of the cells' file; its names are older than the study's."""
    return {"experiment": "insite", "seed": order.seed, "ways": {name: way.title for name, way in WAYS.items()}}


ALL = {"problems": tuple(LABELS), "methods": tuple(WAYS)}
SIZE = Size(3, ("10", "1", "0.1"), ALL, "a minute")  # the whole is short enough
STUDY = Study(
    name="model",
    parts=[Part("studies", Fitted, tasks, compute, _settings)],
    findings=findings,
    document=document,
    choices=ALL,
    short=SIZE,
    full=SIZE,
    seed=1000,
    check=check_problems,
)
