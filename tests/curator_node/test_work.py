"""The work of a query: stated before it starts, of question and card alone, never too little; checks stop early."""

import math
import tracemalloc
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_fakes import release_of
from curator_node.mechanisms import OpenDPNoise, Stamp
from generators import bodies, partitions_of, schemas
from learner_node.models.source import standardising_map
from learner_node.strategies.base import Problem
from learner_node.strategies.cells import CellsStrategy
from protocol.codec import encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, CountsRelease, PlannedCounts
from protocol.limits import ASSUMED_ROUND_SIZE, Limits
from protocol.partitions import (
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    ScoreBins,
    TreeLeaves,
)
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

TWO = Schema((NumericAttribute("x", 0.0, 1.0), CategoricalAttribute("c", ("a", "b"))), "y", ("no", "yes"))
MANY = msgspec.structs.replace(TWO, classes=tuple(f"k{number}" for number in range(256)))
NUMBER = msgspec.structs.replace(TWO, classes=(), label_bounds=(0.0, 1.0))
LINE = FeatureMap((NumericFeature("x", 0.0, 1.0, 0.0),))
BINS = FeatureBins("x", (0.5,))


def planned(release="mass", partitions=1, scale="30", steps=1):
    """The turn of a planned query."""
    return Turn(PlannedCounts(release=release, partitions=partitions, scale=Rational.of(Fraction(scale)), steps=steps))


def schema_for(release):
    return {"class_counts": MANY, "label_total": NUMBER, "squared_error": NUMBER, "error_sums": NUMBER}.get(
        release, TWO
    )


def products(partition_or_network, schema):
    """Products and comparisons of one record, counted from what is asked, by other means than the estimate's."""
    described = partition_or_network
    match described:
        case None | Constant():
            return 0
        case FeatureBins():
            return math.ceil(math.log2(len(described.edges) + 1))
        case ProductBins():
            return products(described.first, schema) + products(described.second, schema)
        case NearestCentre():
            # Of large matrices: two multiply-adds take a tenth of a nanosecond.
            return described.cell_count(schema) * described.features.width // 2
        case ProjectionBins():
            searches = sum(math.ceil(math.log2(len(edges) + 1)) for edges in described.edges)
            return len(described.edges) * described.features.width + searches
        case TreeLeaves():
            return _depth(described.table.tolist(), 0)
        case ScoreBins():
            return products(described.hypothesis, schema) + math.ceil(math.log2(len(described.edges) + 1))
        case Mlp():
            return sum(weight.size + bias.size for weight, bias in described._layers(""))
    raise TypeError(described)


def _depth(table, node):
    return 1 + max((_depth(table, child) for child in table[node][2:] if child > 0), default=0)


@pytest.mark.slow
@given(bodies(), st.sampled_from(sorted(RELEASE_KINDS)), st.integers(1, 10**7))
@settings(deadline=None, max_examples=150)
def test_the_estimate_is_never_below_the_products_comparisons_and_noisy_numbers(body, release, size):
    schema = schema_of(body, release)
    if schema is None:
        return
    per_record = sum(products(part, schema) for part in (*body.partitions, body.hypothesis))
    cells = sum(partition.cell_count(schema) for partition in body.partitions)
    numbers = cells * RELEASE_KINDS[release].columns(schema)
    # OpenDP draws a number in no less than 5 microseconds on any machine we know: 50,000 of the unit.
    least = size * per_record + 50_000 * numbers
    assert COUNTS.work(Question(planned(release, len(body.partitions)), body, schema), size) >= least


def schema_of(body, release):
    """A schema that the body's parts fit, as `generators.bodies` draws one; None where they fit none of ours."""
    base = schema_for(release)
    try:
        for partition in body.partitions:
            partition.check(base, "")
        if body.hypothesis is not None:
            body.hypothesis.check(base, "")
    except RemoteProtocolError:
        return None
    return base


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_more_to_do_is_more_work(data):
    schema = data.draw(schemas())
    first, second = (data.draw(partitions_of(schema)) for _ in range(2))
    smaller, larger = CountsBody((first,), None), CountsBody((first, second), None)
    size = data.draw(st.integers(1, 10**9))
    of_one = COUNTS.work(Question(planned(), smaller, schema), size)
    assert of_one < COUNTS.work(Question(planned(partitions=2), larger, schema), size)
    assert of_one < COUNTS.work(Question(planned(), smaller, schema), size + 1)
    assert of_one < COUNTS.work(Question(planned(scale="1/30"), smaller, schema), size)
    assert of_one < COUNTS.work(Question(planned("error_correct"), CountsBody((first,), Constant(1)), schema), size)


test_more_to_do_is_more_work_at_length = at_length(test_more_to_do_is_more_work, 100)


def test_an_undeclared_size_stands_for_a_million_records():
    body = CountsBody((BINS,), None)
    assert ASSUMED_ROUND_SIZE == 1_000_000
    assert COUNTS.work(Question(planned(), body, TWO), None) == COUNTS.work(Question(planned(), body, TWO), 1_000_000)


@pytest.mark.parametrize("scale", ["1/4294967295", "1/10", "3/2", "2", "1000/3", "4294967295"])
def test_noise_is_paid_for_by_the_number_whatever_the_records(scale):
    """A thousand cells more at a single record: all of the difference is noise."""
    few, many = (CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, k))),), None) for k in (1_000, 2_000))
    difference = COUNTS.work(Question(planned(scale=scale), many, TWO), 1) - COUNTS.work(
        Question(planned(scale=scale), few, TWO), 1
    )
    assert difference >= 1_000 * (300_000 if Fraction(scale) < 2 else 150_000)


def test_each_class_is_a_number():
    body = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99))),), None)
    assert COUNTS.work(Question(planned("class_counts"), body, MANY), 1) > 256 * 101 * 150_000


@pytest.mark.parametrize("release", RELEASE_KINDS)
@pytest.mark.parametrize("cells", [2, 30, 31, 8_200])
def test_the_bytes_of_a_release_are_known_before_anything_is_charged(release, cells):
    schema = schema_for(release)
    needs_hypothesis = RELEASE_KINDS[release].wants_hypothesis
    body = CountsBody(
        (FeatureBins("x", tuple(np.linspace(0, 1, cells - 2))),), Constant(1) if needs_hypothesis else None
    )
    length = 8 * cells * RELEASE_KINDS[release].columns(schema)
    sent = len(encode(CountsRelease(bytes(length), b"")))
    assert sent <= COUNTS.release_bytes(Question(planned(release), body, schema)) <= sent + 4


def test_an_answer_has_at_most_the_stated_bytes():
    class Private:
        """A dataset of which only the counts are asked."""

        steward = type("Steward", (), {"most_records_per_unit": 1})
        schema = None

        def exact(self, body, planned_):
            return np.full((70_000, 2), 2**62)

    body = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 69_998))),), Constant(1))
    query = planned("error_correct")

    class Silent(OpenDPNoise):
        def discrete_laplace(self, exact, l1, law, stamp):
            return exact

    sent = release_of(body, query.planned, Private(), Silent(), Stamp("ann", 0, 1))
    assert len(sent) <= COUNTS.release_bytes(Question(query, body, TWO))


# checks


class CountedLevels(tuple):
    """Levels that know how often they were gone through."""

    __slots__ = ()
    walks = 0

    def __iter__(self):
        CountedLevels.walks += 1
        return super().__iter__()


def test_the_levels_of_a_schema_are_gone_through_once_for_all_maps():
    attribute = CategoricalAttribute("c", CountedLevels(f"l{number}" for number in range(200)))
    schema = Schema((NumericAttribute("x", 0.0, 1.0), attribute), "y", ("no", "yes"))
    features = FeatureMap((CategoricalFeature("c", ("l0", "l7"), 1.0, "l7"),))
    records = Records(schema, np.zeros((3, 1)), np.array([[7], [-1], [200]], np.int16))
    CountedLevels.walks = 0
    for _ in range(100):
        features.check(schema, "here")
        assert features.points(records).tolist() == [[0, 4096, 0], [0, 4096, 0], [0, 0, 4096]]
    assert CountedLevels.walks <= 1


def refusal(data, plan, limits=CountsLimits(), schema=TWO):  # noqa: B008 - frozen
    with pytest.raises(RemoteProtocolError) as caught:
        COUNTS.read_body(data, plan, KindTerms(schema, limits))
    return caught.value.code, caught.value.field


def test_a_workload_of_too_many_cells_is_refused_before_the_rest_is_read(monkeypatch):
    checked = []
    check = FeatureBins.check
    monkeypatch.setattr(FeatureBins, "check", lambda *args: (checked.append(args), check(*args)))
    bins = FeatureBins("x", tuple(np.linspace(0, 1, 30)))
    data = encode(CountsBody((bins,) * 1_000, None))
    assert refusal(data, planned(partitions=1_000), CountsLimits(cells=100)) == (
        RefusalCode.OVER_LIMIT,
        "body.partitions",
    )
    assert len(checked) == 3


def test_a_hostile_body_of_many_short_numbers_is_not_unfolded():
    """Whole numbers of a byte each, where floats of nine are due, would take thirty times their bytes."""
    partition = {"type": "feature_bins", "attribute": "x", "edges": [0] * 100_000}
    data = msgspec.msgpack.encode({"partitions": [partition] * 100, "hypothesis": None})
    tracemalloc.start()
    assert refusal(data, planned(partitions=100)) == (RefusalCode.MALFORMED, "body")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data)


def test_a_body_is_read_as_its_codec_reads_it():
    """Part by part or at once: the same value, and the same bytes are refused."""
    body = CountsBody((BINS, FeatureBins("c", ())), Constant(1), 7)
    data = encode(body)
    assert COUNTS.read_body(data, planned("squared_error", 2), KindTerms(NUMBER, CountsLimits())) == body
    for end in range(len(data)):
        assert refusal(data[:end], planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED
    longer = data.replace(b"\xa9partitions", b"\xd9\x0apartitions", 1).replace(b"\xaapartitions", b"\xd9\x0apartitions")
    assert refusal(longer, planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED
    inner = data.replace(b"\xa9attribute", b"\xd9\x09attribute", 1)
    assert inner != data
    assert refusal(inner, planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED


# what stays possible


@pytest.mark.parametrize(
    "attributes",
    [
        tuple(NumericAttribute(f"n{i}", 0.0, 1.0) for i in range(30)),
        (
            *(NumericAttribute(f"n{i}", 0.0, 1.0) for i in range(6)),
            *(CategoricalAttribute(f"c{i}", tuple("abcdefghijkl")) for i in range(8)),
        ),
    ],
    ids=["thirty numbers", "six numbers, eight categories of twelve"],
)
@pytest.mark.parametrize(("size", "target"), [(500, 500), (10_000, 100_000)])
def test_default_cells_may_be_asked_where_no_size_is_declared(attributes, size, target):
    schema = Schema(attributes, "y", ("no", "yes"))
    rng = np.random.default_rng(0)
    numbers = sum(isinstance(attribute, NumericAttribute) for attribute in attributes)
    codes = rng.integers(0, 10, (size, len(attributes) - numbers)).astype(np.int16)
    source = Records(schema, rng.random((size, numbers)), codes)
    problem = Problem(source=source, epsilon=Fraction(1), sites=1, target_size=target, most_records_per_unit=1, seed=0)
    cells = CellsStrategy().cell_count(problem)
    features = standardising_map(source)
    body = CountsBody((NearestCentre(features, bytes(4 * cells * features.width)),), Constant(1))
    plan = planned("error_correct")
    assert COUNTS.read_body(encode(body), plan, KindTerms(schema, CountsLimits())) == body
    assert COUNTS.work(Question(plan, body, schema), None) <= Limits().multiply_adds


def test_the_default_limit_leaves_room_for_all_cells_and_refuses_a_million_noisy_numbers():
    all_cells = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99_998))),), Constant(1))
    assert COUNTS.work(Question(planned("error_correct"), all_cells, TWO), 100_000) <= Limits().multiply_adds
    wide = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99_998))),) * 5, Constant(1))
    assert COUNTS.work(Question(planned("error_correct", 5), wide, TWO), 1) > Limits().multiply_adds
