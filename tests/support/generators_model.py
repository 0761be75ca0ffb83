"""Hypothesis strategies for lawful `model` queries: every method that fits a schema's label."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from protocol.codec import encode
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import (
    METHODS,
    Attributes,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.rationals import Rational
from protocol.schema import NumericAttribute

SEEDS = st.sampled_from([0, 1, 2**32 - 1])


@st.composite
def points_of(draw, width, *, least_constant=0, linear=False):
    """Vectors of that width; those of a linear classifier have a constant of at most their radius."""
    radius = draw(st.sampled_from([1, 3, 256]))
    most = radius if linear else 100
    constant = draw(st.sampled_from([value for value in (0, 1, 100) if least_constant <= value <= most]))
    return Points(width=width, radius=radius, constant=constant)


@st.composite
def moments_of(draw, schema):
    """Moments of one of the schema's numbers."""
    attribute = draw(st.sampled_from([one for one in schema.attributes if isinstance(one, NumericAttribute)]))
    middle = (attribute.lower + attribute.upper) / 2
    lower, upper = draw(st.sampled_from([(attribute.lower, attribute.upper), (middle, attribute.upper)]))
    return Moments(attribute.name, lower, upper)


def _linear(draw):
    return {"regulariser": Rational.of(draw(st.sampled_from([1, 100, Fraction(7, 3)]))), "steps": 64}


@st.composite
def methods_of(draw, name, schema, features, bins):
    """(method of that name, body) under a schema."""
    if name == "naive_bayes":
        numeric = any(isinstance(one, NumericAttribute) for one in schema.attributes)
        moments = draw(st.lists(moments_of(schema), max_size=2)) if numeric else []
        binned = draw(st.lists(bins, min_size=not moments, max_size=2))
        steps = draw(st.sampled_from([1, 2, 256])) if moments else 1
        body = Attributes(tuple(draw(st.permutations([*binned, *moments]))))
        return NaiveBayes(binned=len(binned), moments=len(moments), steps=steps), body
    chosen = draw(features)
    width, body = chosen.width, Mapped(chosen)
    if name == "k_means":
        points, clusters = draw(points_of(width, least_constant=1)), draw(st.integers(1, 3))
        place = st.integers(-points.radius, points.radius)
        count = clusters * width
        centres = np.array(draw(st.lists(place, min_size=count, max_size=count))).reshape(clusters, width)
        iterations = draw(st.integers(1, 3))
        return KMeans(points=points, clusters=clusters, iterations=iterations), Centres.of(chosen, centres)
    if name == "forest":
        trees, depth, span = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 4096]))
        return Forest(width=width, trees=trees, depth=depth, span=span, seed=draw(SEEDS)), body
    if name == "kernel_svm":
        sizes = {"frequencies": draw(st.integers(1, 3)), "radius": draw(st.sampled_from([10, 4096]))}
        return KernelSvm(width=width, seed=draw(SEEDS), **sizes, **_linear(draw)), body
    points = draw(points_of(width, linear=name in ("logistic_regression", "linear_svm")))
    if name == "linear_regression":
        return LinearRegression(points=points, label_steps=draw(st.sampled_from([1, 7, 256]))), body
    if name == "principal_components":
        return PrincipalComponents(points=points), body
    return {"logistic_regression": LogisticRegression, "linear_svm": LinearSvm}[name](
        points=points, **_linear(draw)
    ), body


@st.composite
def model_queries_of(draw, schema, features, bins, *, name=None):
    """(planned query, encoded body) of `model`, lawful under a schema; each costs 1/2, 1/3, 1/4 or 1/10.

    Args:
        draw: Hypothesis's own.
        schema: of the records.
        features: draws feature maps.
        bins: draws `FeatureBins`.
        name: of the method; any that fits unless told.
    """
    classes = len(schema.classes)
    unfit = {"linear_regression"} if classes else {"naive_bayes", "forest"}
    unfit |= set() if classes == 2 else {"logistic_regression", "linear_svm", "kernel_svm"}
    chosen = name or draw(st.sampled_from([one for one in METHODS if one not in unfit]))
    method, body = draw(methods_of(chosen, schema, features, bins))
    copies = draw(st.sampled_from([1, 1, 2]))
    epsilon = Rational(1, draw(st.sampled_from([2, 3, 4, 10])))
    return PlannedModel(method=method, epsilon=epsilon, models=copies), encode(ModelBody((body,) * copies))
