"""Draws (planned query, encoded body) of `sample`, lawful under a schema."""

from fractions import Fraction

from hypothesis import strategies as st

from protocol.codec import encode
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds.sample import PlannedSample, SampleBody
from protocol.rationals import Rational
from protocol.schema import NumericAttribute


@st.composite
def axes_of(draw, schema):
    """One to three of the attributes and the label, numbers within, across and beyond their bounds."""
    bounds = {a.name: (a.lower, a.upper) for a in schema.attributes if isinstance(a, NumericAttribute)}
    bounds |= {schema.label: schema.label_bounds} if schema.label_bounds is not None else {}
    names = [*(attribute.name for attribute in schema.attributes), schema.label]
    axes = []
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        if name not in bounds:
            axes.append(LevelAxis(name))
            continue
        lower, upper = bounds[name]
        lower, upper = draw(st.sampled_from([(lower, upper), (lower, lower + (upper - lower) / 3), (7.0, 7.5)]))
        law = draw(st.sampled_from([(None, None), (lower, upper - lower)]))
        axes.append(NumberAxis(name, lower, upper, draw(st.sampled_from([2, 5, 300])), *law))
    return tuple(axes)


@st.composite
def sample_queries_of(draw, schema, **told):
    """One to four records, each at 1/10, 1/20 or 1/7; few examples, so that learning is quick."""
    planned = PlannedSample(
        records=draw(st.integers(1, 4)),
        epsilon=Rational.of(Fraction(1, draw(st.sampled_from([10, 20, 7])))),
        axes=draw(axes_of(schema)),
        rounds=draw(st.integers(1, 2)),
        learner=draw(st.sampled_from(["network", "naive_bayes"])),
        examples=20,
        epochs=2,
        batch=draw(st.sampled_from([0, 7])),
        version=draw(st.sampled_from([1, 2])),
    )
    return planned, encode(SampleBody())
