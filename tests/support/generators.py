"""Hypothesis strategies for every value of the protocol. Alphabets are small, so that things collide."""

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import strategies as st

from generators_holdout import holdout_queries_of
from generators_model import model_queries_of
from generators_sample import sample_queries_of
from generators_statistic import statistic_queries_of
from limits_told import card_limits
from protocol.codec import encode
from protocol.envelopes import SigningKey, seal_receipt
from protocol.feature_map import MOST_COORDINATE, STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import HYPOTHESIS_KINDS, Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.messages import (
    SEALED_BYTES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.partitions import (
    PARTITION_KINDS,
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.plans import Plan
from protocol.rationals import Rational, amount
from protocol.records import MISSING_CODE, Records
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.release_kinds import MOST_SQUARED_ERROR, MOST_STEPS, RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

KEYS = [SigningKey.from_seed(bytes([i]) * 32) for i in range(1, 4)]
NUMERIC = NumericAttribute("x", -2.0, 3.0, units="mm Hg", missing=(1e308, "none"))
TINY = NumericAttribute("t", 0.0, 1e-9, description="denormal-like")
WIDE = NumericAttribute("w", -1e15, 1e15)
CATEGORY = CategoricalAttribute("c", ("a", "b", "é"), missing=("zzz",))
ATTRIBUTES = (NUMERIC, CATEGORY, WIDE, CategoricalAttribute("d", ("b",)), TINY)
HALF_STEP = 0.5 / STEPS


@st.composite
def schemas(draw):
    """One to five attributes out of five; two classes, more, or a number."""
    chosen = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=5, unique=True))
    label = draw(st.sampled_from([{"classes": ("no", "yes")}, {"classes": ("a", "b", "é")}, {"label_bounds": (-1, 9)}]))
    return Schema(attributes=tuple(chosen), label="y", **label)


def numbers_of(attribute):
    """Values within the bounds, many of them equal, on an edge or half a grid step from a tie; NaN = missing."""
    low, high = attribute.lower, attribute.upper
    few = [low, high, (low + high) / 2, 0.0, -0.0, HALF_STEP, 3 * HALF_STEP, 5e-324, 1.0, 1 / 3, math.nan]
    few = [value for value in few if math.isnan(value) or low <= value <= high]
    return st.one_of(st.sampled_from(few), st.floats(low, high))


@st.composite
def records_of(draw, schema, *, most=12):
    """Encoded records of a schema."""
    n = draw(st.integers(0, most))
    numeric = [a for a in schema.attributes if isinstance(a, NumericAttribute)]
    categorical = [a for a in schema.attributes if isinstance(a, CategoricalAttribute)]
    rows = [[draw(numbers_of(a)) for a in numeric] for _ in range(n)]
    codes = [[draw(st.integers(MISSING_CODE, len(a.levels))) for a in categorical] for _ in range(n)]
    return Records(
        schema,
        np.array(rows, np.float64).reshape(n, len(numeric)),
        np.array(codes, np.int16).reshape(n, len(categorical)),
    )


any_number = st.one_of(st.floats(allow_infinity=False), st.sampled_from([math.nan, 1e308, -1e308, 5e-324, -0.0, None]))
"""What a record may hold: infinity is refused where records are read."""
any_text = st.one_of(st.none(), st.sampled_from(["a", "b", "é", "zzz", "", "?", " a "]))


@st.composite
def raw_frames_of(draw, schema):
    """Data frames of a schema's columns before they are encoded: any number, any text."""
    n = draw(st.integers(0, 6))
    return pl.DataFrame(
        {
            a.name: pl.Series(
                draw(st.lists(any_number if isinstance(a, NumericAttribute) else any_text, min_size=n, max_size=n)),
                dtype=pl.Float64 if isinstance(a, NumericAttribute) else pl.String,
            )
            for a in schema.attributes
        }
    )


@st.composite
def feature_bins_of(draw, schema):
    """Bins of one attribute, edges among few values."""
    return draw(bins_among(schema.attributes))


@st.composite
def bins_among(draw, variables):
    """Bins of one of the variables, edges among few values."""
    attribute = draw(st.sampled_from(variables))
    edges = ()
    if isinstance(attribute, NumericAttribute):
        few = [-2.0, -1.0, 0.0, HALF_STEP, 1e-9, 1 / 3, 1.0, 3.0, 1e15]
        edges = tuple(sorted(draw(st.sets(st.sampled_from(few), max_size=5))))
    return FeatureBins(attribute.name, edges)


@st.composite
def feature_maps_of(draw, schema):
    """A map with scales that put records on, beside and beyond the grid."""
    features = []
    for attribute in draw(st.lists(st.sampled_from(schema.attributes), min_size=1, max_size=4)):
        factor = draw(st.sampled_from([1.0, -1.0, 0.0, 0.1, 1 / 3, 1 / STEPS, 1e15, 5e-324, 40.0]))
        if isinstance(attribute, NumericAttribute):
            offset, imputation = draw(st.tuples(*[st.sampled_from([0.0, -0.0, 1 / 3, 1.0, -1e15, 1e15])] * 2))
            features.append(NumericFeature(attribute.name, offset, factor, imputation))
        else:
            levels = draw(st.lists(st.sampled_from(attribute.levels), min_size=1, max_size=3, unique=True))
            imputation = draw(st.sampled_from(["", *attribute.levels[:2]]))
            features.append(CategoricalFeature(attribute.name, tuple(levels), factor, imputation))
    return FeatureMap(tuple(features))


def units_on_grid(most):
    """Numbers within +-most: few, on the grid, or between two grid points."""
    few = [0.0, 1.0, -1.0, 1 / STEPS, HALF_STEP, -HALF_STEP, 3 * HALF_STEP, most, -most, 0.1]
    return st.one_of(st.sampled_from(few), st.floats(-most, most, width=32))


@st.composite
def cross_bins_of(draw, schema, *, outcomes=False):
    """Products of one to three factors, now and then of a variable with itself, with up to two conditions.

    With `outcomes` the label and the schema's outcomes are among the variables.
    """
    further = (schema.variable(schema.label), *schema.outcomes) if outcomes else ()
    variables = bins_among((*schema.attributes, *further))
    factors = tuple(draw(st.lists(variables, min_size=1, max_size=3)))
    conditions = []
    for bins in draw(st.lists(variables, max_size=2)):
        cells = draw(st.sets(st.integers(0, bins.cell_count(schema) - 1), min_size=1, max_size=4))
        conditions.append(Range(bins, tuple(sorted(cells))))
    return CrossBins(factors, tuple(conditions))


@st.composite
def nearest_centres_of(draw, schema):
    """Few centres, some of them equal."""
    features = draw(feature_maps_of(schema))
    coordinate = units_on_grid(float(MOST_COORDINATE))
    row = st.lists(coordinate, min_size=features.width, max_size=features.width)
    centres = draw(st.lists(row, min_size=1, max_size=5))
    repeats = draw(st.integers(0, 1))
    return NearestCentre.of(features, np.array(centres + centres[:1] * repeats))


@st.composite
def mlps_of(draw, schema):
    """Small networks with weights on and between grid points."""
    features = draw(feature_maps_of(schema))
    widths = [features.width, *draw(st.lists(st.integers(1, 3), max_size=2)), 1]
    layers = []
    for fan_in, fan_out in itertools.pairwise(widths):
        count = fan_out * (fan_in + 1)
        values = np.array(draw(st.lists(units_on_grid(2.0), min_size=count, max_size=count)), np.float32)
        layers.append((values[fan_out:].reshape(fan_out, fan_in), values[:fan_out]))
    return Mlp.of(features, layers)


@st.composite
def product_bins_of(draw, schema):
    """Products of two attributes' bins, now and then of one attribute with itself."""
    return ProductBins(draw(feature_bins_of(schema)), draw(feature_bins_of(schema)))


@st.composite
def grid_edges(draw):
    """Rising edges, many of them one step of 2^-24 apart, at 0 or beyond whatever a sum can reach."""
    few = [-(2.0**27), -1.0, -(2.0**-24), 0.0, 2.0**-24, 2.0**-12, 1 / 3, 1.0, 4.0, 2.0**27]
    return tuple(sorted(draw(st.sets(st.sampled_from(few), max_size=4))))


@st.composite
def score_bins_of(draw, schema):
    """Bins of small networks' logits."""
    return ScoreBins(draw(mlps_of(schema)), draw(grid_edges()))


@st.composite
def projection_bins_of(draw, schema):
    """One to three directions, some of them equal or 0."""
    features = draw(feature_maps_of(schema))
    row = st.lists(units_on_grid(float(MOST_COORDINATE)), min_size=features.width, max_size=features.width)
    directions = draw(st.lists(st.one_of(row, st.just([0.0] * features.width)), min_size=1, max_size=3))
    edges = tuple(draw(grid_edges()) for _ in directions)
    return ProjectionBins.of(features, np.array(directions), edges)


@st.composite
def trees_over(draw, features, *, most=9):
    """Trees of any shape, grown by splitting a drawn leaf; leaves are numbered in a drawn order."""
    few = [-MOST_COORDINATE * STEPS, -STEPS, -1, 0, 1, 2, STEPS, MOST_COORDINATE * STEPS]
    thresholds = st.one_of(st.sampled_from(few), st.integers(-MOST_COORDINATE * STEPS, MOST_COORDINATE * STEPS))
    nodes, open_ends = [], [(0, 0)]
    for index in range(draw(st.integers(1, most))):
        parent, side = open_ends.pop(draw(st.integers(0, len(open_ends) - 1)))
        if index:
            nodes[parent][2 + side] = index
        nodes.append([draw(st.integers(0, features.width - 1)), draw(thresholds), 0, 0])
        open_ends += [(index, 0), (index, 1)]
    for leaf, (parent, side) in enumerate(draw(st.permutations(open_ends))):
        nodes[parent][2 + side] = -1 - leaf
    return TreeLeaves.of(features, np.array(nodes))


def tree_leaves_of(schema):
    """Trees over drawn maps."""
    return feature_maps_of(schema).flatmap(trees_over)


PARTITIONS = {
    "feature_bins": feature_bins_of,
    "nearest_centre": nearest_centres_of,
    "product_bins": product_bins_of,
    "score_bins": score_bins_of,
    "projection_bins": projection_bins_of,
    "tree_leaves": tree_leaves_of,
    "cross_bins": cross_bins_of,
}
"""What draws each kind; a test says that no registered kind lacks one."""


def partitions_of(schema):
    """Partitions of every registered kind."""
    return st.one_of([PARTITIONS[kind](schema) for kind in PARTITION_KINDS])


def constants_of(schema):
    """Both constants."""
    return st.builds(Constant, predicted=st.sampled_from([0, 1]))


HYPOTHESES = {"constant": constants_of, "mlp": mlps_of}
"""As PARTITIONS."""


def hypotheses_of(schema):
    """Hypotheses of every registered kind."""
    return st.one_of([HYPOTHESES[kind](schema) for kind in HYPOTHESIS_KINDS])


@st.composite
def rationals(draw):
    """Positive wire rationals."""
    top = st.one_of(st.sampled_from([1, 2, 3, 30, 1000, 2**32 - 1]), st.integers(1, 2**32 - 1))
    return Rational.of(Fraction(draw(top), draw(top)))


def plans():
    """Plans of one to three queries."""
    queries = st.sampled_from(list(RELEASE_KINDS)).flatmap(
        lambda release: st.builds(
            PlannedCounts,
            release=st.just(release),
            partitions=st.integers(1, 4),
            scale=rationals(),
            steps=st.sampled_from([1, 2, 1000, MOST_STEPS]) if RELEASE_KINDS[release].of_steps else st.just(1),
        )
    )
    return st.lists(queries, min_size=1, max_size=3).map(Plan.of)


@st.composite
def bodies(draw):
    """Bodies of `counts`."""
    schema = draw(schemas())
    partitions = draw(st.lists(partitions_of(schema), min_size=1, max_size=3))
    most = draw(st.sampled_from([None, 1, 2**20, MOST_SQUARED_ERROR]))
    return CountsBody(tuple(partitions), draw(st.one_of(st.none(), hypotheses_of(schema))), most)


def releases():
    """Bodies of a release of `counts`."""
    return st.builds(CountsRelease, counts=st.binary(max_size=24), ratios=st.binary(max_size=16))


@st.composite
def counts_queries_of(draw, schema, *, release=None, partitions=None, hypotheses=None):
    """(planned query, encoded body) of `counts`, lawful under a schema; of every release kind that fits it unless told.

    For units of one record each costs 1/2, 1/3, 1/4 or 1/10.
    """
    fitting = [name for name, kind in RELEASE_KINDS.items() if kind.fits(schema)]
    name = release or draw(st.sampled_from(fitting))
    kind = RELEASE_KINDS[name]
    steps = draw(st.sampled_from([1, 2, 100])) if kind.of_steps else 1
    if partitions is None:
        partitions = partitions_of(schema)
        if kind.reads_outcomes:
            partitions = st.one_of(cross_bins_of(schema, outcomes=True), partitions)
    workload = draw(st.lists(partitions, min_size=1, max_size=3))
    planned = PlannedCounts(
        release=name,
        partitions=len(workload),
        scale=Rational.of(Fraction(len(workload) * steps * draw(st.sampled_from([2, 3, 4, 10])))),
        steps=steps,
    )
    wanted = draw(st.booleans()) if kind.wants_hypothesis is None else kind.wants_hypothesis
    hypothesis = draw(hypotheses_of(schema) if hypotheses is None else hypotheses) if wanted else None
    # A bound that the steps do not divide, too: errors are then rounded.
    most = draw(st.sampled_from([None, 2**20, 3])) if kind.ranged else None
    return planned, encode(CountsBody(tuple(workload), hypothesis, most))


QUERIES = {
    "counts": counts_queries_of,
    "holdout": lambda schema, **told: holdout_queries_of(hypotheses_of(schema)),
    "sample": sample_queries_of,
    "model": lambda schema, **told: model_queries_of(schema, feature_maps_of(schema), feature_bins_of(schema)),
    "statistic": statistic_queries_of,
}
"""What draws (planned query, encoded body) of each query kind; as PARTITIONS."""
SEVERAL_CURATORS = {"secure_counts"}
"""Kinds whose later turns need what other curators said: `pooled.Pool` asks them."""
OWN_SAMPLERS = {"sample"}
"""Kinds whose law hangs on the records, so that what they release does, whatever bytes they are given."""


def queries_of(schema, *, kind=None, **told):
    """Lawful queries of a kind; None takes those that a policy allows by default. What is told is told of counts."""
    kinds = [name for name, one in QUERY_KINDS.items() if one.by_default] if kind is None else [kind]
    return st.one_of([QUERIES[name](schema, **told) for name in kinds])


amounts = st.fractions(0, 3, max_denominator=30).map(amount)
digests = st.sampled_from([bytes(32), b"\xff" * 32, bytes(range(32))])
studies = st.sampled_from([bytes(16), b"study-0123456789", b"\xff" * 16])
sequences = st.integers(0, 3)
seconds = st.sampled_from([0, 1, 127, 128, 2**31, 2**40])
short_texts = st.text("ab é", max_size=4)
names = st.text("ab é", min_size=1, max_size=4)

receipts = st.builds(
    Receipt,
    curator=st.just(KEYS[0].public),
    learner=st.just(KEYS[1].public),
    study=studies,
    sequence=sequences,
    request=digests,
    release=digests,
    charged=amounts,
    spent_by_study=amounts,
    spent_by_learner=amounts,
    ledger_head=digests,
    position=st.sampled_from([bytes(SEALED_BYTES), b"\xff" * SEALED_BYTES]),
    issued_at=seconds,
)
receipt_envelopes = st.one_of(st.just(b""), receipts.map(lambda receipt: seal_receipt(receipt, KEYS[0])))


def _built(kind, /, **fields):
    return st.builds(
        kind,
        study=studies,
        sender=st.sampled_from([key.public for key in KEYS]),
        recipient=st.sampled_from([bytes(32), *(key.public for key in KEYS)]),
        sequence=sequences,
        answers=digests,
        expires_at=seconds,
        **fields,
    )


MESSAGES = {
    "card_request": _built(CardRequest),
    "card": _built(
        Card,
        name=names,
        schema=schemas(),
        unit=st.one_of(st.none(), names),
        most_records_per_unit=st.integers(1, 3),
        relation=names,
        round_size=st.one_of(st.none(), st.sampled_from([1, 100, 2**40])),
        limits=st.builds(card_limits, cells=st.sampled_from([1, 500_000]), parameters=st.sampled_from([1, 2**53])),
        cap=amounts,
        least_cost=amounts,
    ),
    "study_proposal": _built(StudyProposal, plan=plans(), purpose=short_texts, newest_receipt=receipt_envelopes),
    "study_accepted": _built(StudyAccepted, cost=amounts, reserved_until=seconds, receipt=receipt_envelopes),
    "query": _built(Query, kind=names, body=st.binary(max_size=20)),
    "release": _built(Release, kind=names, body=st.binary(max_size=20), receipt=receipt_envelopes),
    "study_close": _built(StudyClose),
    "study_closed": _built(StudyClosed, refunded=amounts, receipt=receipt_envelopes),
    "refusal": st.sampled_from(list(RefusalCode)).flatmap(
        lambda code: _built(
            Refusal,
            code=st.just(code.value),
            explanation=st.just(EXPLANATIONS[code]),
            field=short_texts,
            limit=short_texts,
            remaining=st.one_of(st.just(""), amounts),
            scale_factor=st.one_of(st.just(""), amounts),
        )
    ),
}
messages = st.one_of(*MESSAGES.values())
