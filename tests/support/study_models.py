"""A small model of each kind, from a seed, with records that it predicts for."""

import numpy as np
import polars as pl

from learner_node.kinds.models.classifiers import ForestModel, LinearInSite, NaiveBayesModel
from learner_node.kinds.models.moments import RidgeModel
from learner_node.models.files import StudyModel, encode_model
from learner_node.models.label_model.additive import AdditiveFit, ShapeBin, ShapeFunction
from learner_node.models.label_model.cell_networks import CellNetworks
from learner_node.models.label_model.gaussian_process import Component, LabelModel
from learner_node.models.label_model.one_against_rest import ClassesLabelModel
from learner_node.models.label_model.random_features import Kernel
from learner_node.models.source import standardising_map
from learner_node.strategies.additive import AdditiveModel
from learner_node.strategies.base import ErrorEstimate
from learner_node.strategies.cells import CellsClassesModel, CellsModel
from learner_node.strategies.cells_number import NetworkNumberModel
from learner_node.strategies.paper import NetworkModel
from protocol.hypotheses import Mlp
from protocol.kinds.models import Forest, LogisticRegression, Moments, Points
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

ATTRIBUTES = (NumericAttribute("x", -3.0, 3.0), CategoricalAttribute("colour", ("red", "green")))


def schema(classes=("no", "yes"), bounds=None):
    return Schema(attributes=ATTRIBUTES, label="sick", classes=classes if bounds is None else (), label_bounds=bounds)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    colours = rng.choice(np.array(["red", "green", "blue", None], object), n)
    numbers = [None if value > 2.5 else float(value) for value in rng.uniform(-4, 4, n)]
    return pl.DataFrame({"x": numbers, "colour": colours.tolist()}, schema={"x": pl.Float64, "colour": pl.String})


def feature_map(of):
    return standardising_map(encode_frame(people(40), of))


def label_model(rng, width, cells=5, components=2):
    """As a fit leaves it, `reduction` by column, since a product of matrices left it so."""
    made = [
        Component(
            kernel=Kernel(*(float(rng.uniform(low, high)) for low, high in ((0.5, 2), (0, 3), (0.2, 4), (0, 1)))),
            weight=1.0 / components,
            mean=rng.normal(size=1001 + width) / 30,
            reduction=np.asfortranarray(rng.normal(size=(1001 + width, cells)).astype(np.float32) / 40),
            within=float(rng.uniform(0, 0.1)),
            least_variance=float(rng.uniform(0.001, 0.1)),
        )
        for _ in range(components)
    ]
    return LabelModel(
        rng.uniform(0, 3, 40), float(rng.uniform(1, 99)), -np.inf, rng.normal(size=(width, 500)), tuple(made)
    )


def networks(rng, width):
    sizes = [(width, 4), (4, 1)]
    layers = [(rng.normal(size=(3, a, b)), rng.normal(size=(3, 1, b))) for a, b in sizes]
    return CellNetworks(tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers), 0.25)


def perceptron(rng, of):
    features = feature_map(of)
    layers = [(rng.normal(size=(3, features.width)), rng.normal(size=3)), (rng.normal(size=(1, 3)), rng.normal(size=1))]
    return Mlp.of(features, layers)


def two_classes(seed):
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    model = CellsModel(features, label_model(rng, features.width), networks(rng, features.width), 1.25)
    return StudyModel(of, {"": model}, {"": 40.0}, {"learner": "ada"})


def by_site(seed):
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    models = {
        "north": CellsModel(features, label_model(rng, features.width)),
        "söuth/1": NetworkModel(perceptron(rng, of)),
    }
    return StudyModel(of, models, {"north": 30.5, "söuth/1": 10.0})


def three_classes(seed):
    rng, of = np.random.default_rng(seed), schema(("a", "b", "c"))
    features = feature_map(of)
    models = tuple(label_model(rng, features.width) for _ in of.classes)
    labels = ClassesLabelModel(rng.uniform(size=40), models)
    return StudyModel(of, {"": CellsClassesModel(features, labels, rng.uniform(0.1, 1.0, len(models)))}, {"": 1.0})


def a_number(seed):
    rng, of = np.random.default_rng(seed), schema(bounds=(-2.0, 5.0))
    error = ErrorEstimate(0.5, 0.25, 0.75, 9.0) if seed % 2 else None
    return StudyModel(of, {"": NetworkNumberModel(perceptron(rng, of), (-2.0, 5.0), error)}, {"": 2.0})


def additive(seed):
    """Six bins of x, four of the colour."""
    rng, of = np.random.default_rng(seed), schema()
    partitions = (FeatureBins(attribute="x", edges=(-1.0, 0.0, 0.5, 2.0)), FeatureBins(attribute="colour", edges=()))
    root = rng.normal(size=(11, 11))
    fit = AdditiveFit(
        intercept=float(rng.normal()),
        contributions=rng.normal(size=10),
        covariance=root @ root.T,
        starts=np.array([0, 6, 10]),
        scales=rng.uniform(size=2),
        source_mass=rng.uniform(size=40),
        log_evidence=-3.5,
    )
    shape = ShapeFunction("x", numeric=True, bins=(ShapeBin("below -1", None, -1.0, 0.25, 0.5, -0.25, 1.25),))
    return StudyModel(of, {"": AdditiveModel(partitions, fit, (shape,))}, {"": 7.0})


def in_site(seed):
    """A model a curator: naive Bayes of a binned attribute and of one by its moments, a forest, a linear classifier."""
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    points = Points(width=features.width, radius=64, constant=16)
    bayes = NaiveBayesModel(
        (FeatureBins(attribute="colour", edges=()),),
        (np.log(rng.dirichlet(np.ones(4), 2).T),),
        (Moments("x", -3.0, 3.0),),
        rng.uniform(size=(1, 2)),
        rng.uniform(0.1, 1, size=(1, 2)),
        np.log([0.25, 0.75]),
    )
    trees = Forest(width=features.width, trees=3, depth=2, span=4096, seed=7)
    votes, trust = rng.uniform(size=(3, 4, 2)), rng.uniform(0.1, 9, size=(3, 4))
    method = LogisticRegression(points=points, regulariser=Rational(8, 1), steps=1024)
    models = {
        "bayes": bayes,
        "forest": ForestModel(features, trees, votes, trust, np.array([0.5, 0.5])),
        "linear": LinearInSite(features, method, rng.normal(size=points.coordinates)),
    }
    return StudyModel(of, models, {"bayes": 3.0, "forest": 2.0, "linear": 1.0})


def in_site_number(seed):
    rng, of = np.random.default_rng(seed), schema(bounds=(-2.0, 5.0))
    points = Points(width=feature_map(of).width, radius=64, constant=16)
    model = RidgeModel(feature_map(of), points, rng.normal(size=points.coordinates) / 64, (-2.0, 5.0))
    return StudyModel(of, {"": model}, {"": 2.0})


MAKERS = (two_classes, by_site, three_classes, a_number, additive, in_site, in_site_number)


def written(model, folder):
    path = folder / "model.safetensors"
    path.write_bytes(encode_model(model))
    return path
