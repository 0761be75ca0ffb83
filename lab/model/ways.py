"""One method on one split: a whole study with real curators over real records, their noise and their ledgers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

from curator_node.records.schema_file import StewardFile
from lab.cells import INFINITE, TaskCell
from lab.comparison.measures import scores
from lab.comparison.studies import WrongCostError, federated, run_study, train_peer
from lab.problems import load_split
from lab.splits import Options, Split
from learner_node.kinds.models.unsupervised import ask_clusters, ask_components
from learner_node.models.source import coordinates
from learner_node.strategies.base import NumberModel
from learner_node.strategies.models import unit_map
from learner_node.study.learn import learn
from protocol.feature_map import FeatureMap
from protocol.kinds.model import MODEL
from protocol.rationals import parse_rational
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import NumericAttribute
from simulations.campaign.store import Task

CLASSES, NUMBER, NOTHING = "classes", "a number", "nothing"
"""What a method predicts."""
CLUSTERS, COMPONENTS = 4, 2
KINDS: Mapping[str, Mapping[str, object]] = {MODEL.name: {}}
"""What curators answer beside counts."""
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
    ceiling: str  # the name, in `WAYS`, of the same without privacy
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
    told = str(charged) if private else ""
    return Fitted(*task, round(max(score, 0.0), 4), round(auc, 4), told, len(split.sites))


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
    learned = learn(federation, source, strategy="site-linear", epsilon=epsilon, seed=split.seed)
    model = learned.model()
    if not isinstance(model, NumberModel):
        raise TypeError("a label that is a number has a model that predicts one")
    return explained(truth, model.predict_number(encode_frame(test, steward.schema))), 0.0, _all_of(epsilon, charged())


def clustered(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
    """Private k-means at every site: the mean over the sites of what each one's clusters explain."""
    federation, charged = federated(split.sites, kinds=KINDS)
    found, _ = ask_clusters(federation, lambda _: split.source, clusters=CLUSTERS, epsilon=epsilon, seed=split.seed)
    points = points_of(found.features, split.test)
    each = [near(points, centres) for centres in np.split(found.centres, len(split.sites))]
    return float(np.mean(each)), 0.0, _all_of(epsilon, charged())


def projected(split: Split, epsilon: Fraction) -> tuple[float, float, Fraction]:
    """Private principal components of all sites."""
    federation, charged = federated(split.sites, kinds=KINDS)
    found, _ = ask_components(federation, lambda _: split.source, epsilon=epsilon)
    score = along(points_of(found.features, split.test), found.axes[:COMPONENTS])
    return score, 0.0, _all_of(epsilon, charged())


def peer(name: str) -> Callable[[Split, Fraction], tuple[float, float, Fraction]]:
    """What is trained without privacy on all records."""
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
    found = KMeans(CLUSTERS, n_init=4, random_state=split.seed).fit(points_of(features, split.private))
    return near(points_of(features, split.test), found.cluster_centers_), 0.0, Fraction(0)


def free_components(split: Split, _epsilon: Fraction) -> tuple[float, float, Fraction]:
    """scikit-learn's principal components of all private records."""
    features = unit_map(split.source, 0.9)
    found = PCA(COMPONENTS).fit(points_of(features, split.private))
    return along(points_of(features, split.test), found.components_), 0.0, Fraction(0)


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
"""By name, in the order of the tables; those without a ceiling are one."""


def numbered(
    split: Split,
) -> tuple[StewardFile, list[pl.DataFrame], Callable[[object], Records], pl.DataFrame, Floats]:
    """The same records with an attribute for their label and without the class.

    Returns:
        The steward's file, the sites' frames, what encodes the source, the test frame, and its labels.
    """
    name, old = LABELS[split.problem], split.sites[0].steward
    attribute = split.schema.find(name)
    if not isinstance(attribute, NumericAttribute):
        raise TypeError("a regression predicts a number")
    others = tuple(each for each in split.schema.attributes if each.name != name)
    steward = msgspec.structs.replace(
        old, label=name, classes=(), label_bounds=(attribute.lower, attribute.upper), attributes=others
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
    """Points in units, those longer than 1 shrunk to that, as the curators see them."""
    points = coordinates(features, records)
    shrunk: Floats = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1.0)
    return shrunk


def explained(truth: Floats, predicted: Floats) -> float:
    """Explained part of a label's variance, in percent; of records with a label."""
    known = ~np.isnan(truth)
    error = np.mean((truth[known] - predicted[known]) ** 2)
    return float(100 * (1 - error / max(truth[known].var(), 1e-12)))


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
    """What was charged; WrongCostError where it is not what was asked for."""
    if charged != epsilon:
        raise WrongCostError(f"asked for {epsilon}, and a ledger holds {charged}")
    return charged
