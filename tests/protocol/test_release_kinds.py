"""Release kinds of several classes and of numeric labels: what a record can move, what is counted, what is refused."""

import itertools
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_answerers import MAP, partitions, records, slow_cell, slow_point, weights

from at_length import at_length
from curator_fakes import ATTRIBUTES, ROWS, UNIT_KEY, Learner, ZeroNoise, open_curator, opened, release_of, steward_file
from curator_node.mechanisms import Stamp
from curator_node.records.dataset import PrivateDataset, StewardWarning
from learner_node.kinds.counts import add, read
from learner_node.study.cards import complaint_about_plan
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, CountsRelease, PlannedCounts
from protocol.messages import Refusal, Release
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.records import LABEL_STEPS
from protocol.refusals import RefusalCode
from protocol.release_kinds import MOST_SQUARED_ERROR, MOST_STEPS, RELEASE_KINDS
from protocol.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore::curator_node.records.dataset.StewardWarning")

CLASSES = ("none", "some", "much", "all")
BOUNDS = (-2.0, 6.0)
SCALE = Rational.of(Fraction(30))
STAMP = Stamp("ann", 0, 1)
SCHEMAS = {
    "two": Schema(attributes=ATTRIBUTES, label="sick", classes=("no", "yes")),
    "classes": Schema(attributes=ATTRIBUTES, label="sick", classes=CLASSES),
    "number": Schema(attributes=ATTRIBUTES, label="sick", label_bounds=BOUNDS),
}
# On the grid of 8/4096, half way between two of its points, at a bound, and beyond both.
numbers = st.sampled_from([-1e300, -2.0, -2.0 + 1 / 1024, -2.0 + 3 / 1024, 0.0, 1.0, 2 + 1 / 512, 5.999, 6.0, 7.5])
class_rows = st.builds(lambda row, label: (*row[:4], label), records, st.sampled_from(CLASSES))
number_rows = st.builds(lambda row, label: (*row[:4], label), records, numbers)
steps_ = st.sampled_from([1, 2, 3, 64, 1000, MOST_STEPS])
mosts = st.sampled_from([None, 1, 100, 2**20, MOST_SQUARED_ERROR])


@st.composite
def regressors(draw):
    """A constant or a network whose output is near the label's range."""
    if draw(st.booleans()):
        return Constant(predicted=draw(st.sampled_from([0, 1])))
    values = draw(st.lists(weights, min_size=MAP.width, max_size=MAP.width))
    bias = draw(st.sampled_from([-1.0, 0.0, 0.3, 0.5, 2.0]))
    return Mlp.of(MAP, [(np.array([values], np.float32) / 8, np.array([bias], np.float32))])


@st.composite
def queries(draw):
    """(schema, checked body, planned query) of a kind that is not for two classes only."""
    release = draw(st.sampled_from(["class_counts", "label_total", "squared_error", "error_sums"]))
    kind = RELEASE_KINDS[release]
    schema = SCHEMAS["classes" if release == "class_counts" else "number"]
    workload = tuple(draw(st.lists(partitions, min_size=1, max_size=3)))
    body = CountsBody(
        partitions=workload,
        hypothesis=draw(regressors()) if kind.wants_hypothesis else None,
        most_squared_error=draw(mosts) if kind.ranged else None,
    )
    steps = draw(steps_) if kind.of_steps else 1
    planned = PlannedCounts(release=release, partitions=len(workload), scale=SCALE, steps=steps)
    return schema, read_as(body, planned, schema), planned


def held(rows, schema, *, most=1, cache_bytes=10**6):
    label = pl.Float64 if schema.label_bounds else pl.String
    columns = {"patient": pl.String, "age": pl.Float64, "dose": pl.Float64, "sex": pl.String, "sick": label}
    steward = msgspec.structs.replace(
        steward_file(most=most, unit=most > 1, round_size=None),
        classes=schema.classes,
        label_bounds=schema.label_bounds,
    )
    frame = pl.DataFrame(list(rows), schema=columns, orient="row")
    return PrivateDataset(frame, steward, unit_key=UNIT_KEY, cache_bytes=cache_bytes)


def answered(data, body, planned):
    """(exact numbers that the noise was given, claimed sensitivity)."""
    noise = ZeroNoise()
    release = decode(release_of(body, planned, data, noise, STAMP), CountsRelease)
    ((exact, l1, law, stamp),) = noise.calls
    assert (law.scale, stamp, release.ratios) == (SCALE.fraction, STAMP, b"")
    assert release.counts == exact.astype("<i8").tobytes()
    assert exact.dtype == np.int64
    return exact, l1


# sensitivity


def rows_of(schema, **options):
    return st.lists(number_rows if schema.label_bounds else class_rows, **options)


tables = queries().flatmap(
    lambda query: st.tuples(
        st.just(query), rows_of(query[0], min_size=1, max_size=8), rows_of(query[0], min_size=1, max_size=4)
    )
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=tables)
def test_a_record_moves_each_partition_by_exactly_the_planned_steps(drawn):
    (schema, body, planned), rest, (new, *_) = drawn
    without, l1 = answered(held(rest, schema), body, planned)
    present, same = answered(held([new, *rest], schema), body, planned)
    assert l1 == same == planned.steps * planned.partitions
    assert QUERY_KINDS.cost(planned, 1) == Fraction(l1) / SCALE.fraction
    columns = RELEASE_KINDS[planned.release].columns(schema)
    ends = np.cumsum([columns * p.cell_count(schema) for p in body.partitions])[:-1]
    for block in np.split(present - without, ends):
        assert (block >= 0).all()
        assert block.sum() == planned.steps
        assert np.count_nonzero(block.reshape(-1, columns).any(axis=1)) == 1


test_a_record_moves_each_partition_by_exactly_the_planned_steps_at_length = at_length(
    test_a_record_moves_each_partition_by_exactly_the_planned_steps, 200
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=tables, most=st.integers(2, 3), shuffle=st.randoms(use_true_random=False))
def test_a_unit_moves_the_numbers_by_no_more_than_is_charged(drawn, most, shuffle):
    (schema, body, planned), rest, own = drawn
    with_unit = [*rest, *(("new", *row[1:]) for row in own)]
    shuffle.shuffle(with_unit)
    without, l1 = answered(held(rest, schema, most=most), body, planned)
    present, _ = answered(held(with_unit, schema, most=most), body, planned)
    assert QUERY_KINDS.cost(planned, most) == Fraction(l1) / SCALE.fraction
    assert np.abs(present - without).sum() == min(len(own), most) * planned.steps * planned.partitions <= l1


test_a_unit_moves_the_numbers_by_no_more_than_is_charged_at_length = at_length(
    test_a_unit_moves_the_numbers_by_no_more_than_is_charged, 120
)


def test_steps_of_a_record_stay_within_the_plan_for_every_label_and_prediction():
    """All labels of the grid against predictions at both ends, in the middle and beside: never below 0 or above S."""
    labels = np.arange(LABEL_STEPS + 1)
    for steps, most in itertools.product((1, 2, 7, 1000, MOST_STEPS), (1, 2, 99, 2**20, MOST_SQUARED_ERROR)):
        for prediction in (0, 1, 2047, 2048, LABEL_STEPS):
            for release in ("squared_error", "error_sums"):
                given_ = RELEASE_KINDS[release].of_steps(labels, np.full_like(labels, prediction), steps, most)
                assert given_.min() >= 0
                assert (given_.sum(axis=1) == steps).all()
                assert not given_[prediction, :-1].any()
        shares = RELEASE_KINDS["label_total"].of_steps(labels, None, steps, MOST_SQUARED_ERROR)[:, 0]
        assert (shares[0], shares[-1]) == (0, steps)
        assert (np.diff(shares) >= 0).all()


# counts, against rational arithmetic


def slow_label(value):
    """Grid steps of a number; a half goes to the even one, as Python's round does."""
    return round(Fraction(min(max(value, BOUNDS[0]), BOUNDS[1]) - BOUNDS[0]) / 8 * LABEL_STEPS)


def slow_number(hypothesis, row):
    if isinstance(hypothesis, Constant):
        return hypothesis.predicted * LABEL_STEPS
    ((weight, bias),) = hypothesis._layers("")
    point = slow_point(row)
    logit = sum(round(float(w) * 4096) * z for w, z in zip(weight[0], point, strict=True))
    logit += round(float(bias[0]) * 4096 * 4096)
    return min(max(round(Fraction(logit, 4096)), 0), LABEL_STEPS)


def to_nearest(value):
    """Halves upwards."""
    return int(value + Fraction(1, 2))


def slow_numbers(row, schema, body, planned):
    """What one record adds to its cell."""
    if schema.label_bounds is None:
        return [int(row[4] == name) for name in schema.classes]
    share = Fraction(slow_label(row[4]), LABEL_STEPS)
    most = body.most_squared_error or MOST_SQUARED_ERROR
    if planned.release == "error_sums":
        reach = int(most**0.5)
        part = Fraction(min(abs(slow_label(row[4]) - slow_number(body.hypothesis, row)), reach), reach)
        squared, absolute = (to_nearest(one * planned.steps) for one in (part**2, part))
        return [squared, absolute - squared, planned.steps - absolute]
    if planned.release == "squared_error":
        error = (slow_label(row[4]) - slow_number(body.hypothesis, row)) ** 2
        share = Fraction(min(error, most), most)
    own = to_nearest(share * planned.steps)
    return [own, planned.steps - own]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=tables)
def test_numbers_are_those_of_a_slow_loop_and_of_a_streamed_workload(drawn):
    (schema, body, planned), rows, _ = drawn
    columns = RELEASE_KINDS[planned.release].columns(schema)
    expected = []
    for partition in body.partitions:
        cells = [[0] * columns for _ in range(partition.cell_count(schema))]
        for row in rows:
            cell = cells[slow_cell(partition, row)]
            cell[:] = [a + b for a, b in zip(cell, slow_numbers(row, schema, body, planned), strict=True)]
        expected += [number for cell in cells for number in cell]
    assert answered(held(rows, schema), body, planned)[0].tolist() == expected
    assert answered(held(rows, schema, cache_bytes=0), body, planned)[0].tolist() == expected


test_numbers_are_those_of_a_slow_loop_and_of_a_streamed_workload_at_length = at_length(
    test_numbers_are_those_of_a_slow_loop_and_of_a_streamed_workload, 150
)


@settings(max_examples=10, deadline=None)
@given(rows=st.lists(number_rows, min_size=1, max_size=10), hypothesis=regressors(), shuffle=st.randoms())
def test_a_prediction_does_not_depend_on_the_batch(rows, hypothesis, shuffle):
    schema = SCHEMAS["number"]
    frame = {name: [row[i] for row in rows] for i, name in ((1, "age"), (2, "dose"), (3, "sex"))}
    types = {"age": pl.Float64, "dose": pl.Float64, "sex": pl.String}
    encoded = encode_frame(pl.DataFrame(frame, schema=types), schema)
    whole = hypothesis.predict_number(encoded)
    assert whole.tolist() == [slow_number(hypothesis, row) for row in rows]
    order = list(range(len(rows)))
    shuffle.shuffle(order)
    assert hypothesis.predict_number(encoded.take(np.array(order))).tolist() == whole[order].tolist()
    assert [hypothesis.predict_number(encoded.take(slice(i, i + 1)))[0] for i in order] == whole[order].tolist()


test_a_prediction_does_not_depend_on_the_batch_at_length = at_length(test_a_prediction_does_not_depend_on_the_batch, 60)


def test_a_sum_of_many_records_does_not_overflow_or_round():
    """2^40 records of 2^16 steps stay below int64; a float32 or a float64 beyond 2^53 would lose the last one."""
    assert 2**40 * MOST_STEPS < 2**63
    rows = [("p", 1.0, 1.0, "f", 6.0)] * 300
    bins = FeatureBins(attribute="age", edges=())
    planned = PlannedCounts(release="label_total", partitions=1, scale=SCALE, steps=MOST_STEPS)
    exact, _ = answered(held(rows, SCHEMAS["number"]), CountsBody((bins,), None), planned)
    assert exact.tolist() == [300 * MOST_STEPS, 0, 0, 0]


@pytest.mark.parametrize("release", ["label_total", "squared_error"])
def test_a_workload_that_is_not_kept_is_encoded_once_a_question(release, monkeypatch):
    """The work that a curator bounds is that of encoding once."""
    encoded = []
    cells = FeatureBins.cells

    def recording(self, records_):
        encoded.append(self)
        return cells(self, records_)

    data = held([("p", 1.0, 1.0, "f", 6.0)] * 3, SCHEMAS["number"], cache_bytes=0)
    monkeypatch.setattr(FeatureBins, "cells", recording)
    body = body_for(release)
    exact, _ = answered(data, body, planned_for(release, steps=3))
    assert exact.reshape(-1, 2).sum() == 9
    assert encoded == list(body.partitions)


def test_one_count_a_class_of_two_is_the_pair_of_the_constant():
    bins = FeatureBins(attribute="age", edges=(30.0, 60.0))
    rows = [(*row[:4], row[4]) for row in ROWS]
    found = []
    for release, hypothesis in (("class_counts", None), ("error_correct", Constant(predicted=1))):
        planned = PlannedCounts(release=release, partitions=1, scale=SCALE)
        found.append(answered(held(rows, SCHEMAS["two"]), CountsBody((bins,), hypothesis), planned)[0].tolist())
    assert found[0] == found[1]


# refusals


def read_as(body, planned, schema, **limits):
    return COUNTS.read_body(encode(body), Turn(planned), KindTerms(schema, CountsLimits(**limits)))


def refusal_of(body, planned, schema, **limits):
    with pytest.raises(RemoteProtocolError) as caught:
        read_as(body, planned, schema, **limits)
    return caught.value


def body_for(release, **changes):
    hypothesis = Constant(predicted=1) if RELEASE_KINDS[release].wants_hypothesis else None
    fields = {"partitions": (FeatureBins(attribute="age", edges=(30.0,)),), "hypothesis": hypothesis}
    return CountsBody(**(fields | changes))


def planned_for(release, **changes):
    return PlannedCounts(**({"release": release, "partitions": 1, "scale": SCALE} | changes))


@pytest.mark.parametrize("release", RELEASE_KINDS)
@pytest.mark.parametrize("label", SCHEMAS)
def test_a_kind_is_refused_where_the_label_does_not_fit(release, label):
    lawful = {
        "two": {"mass", "outcome_counts", "signed_error", "error_correct", "class_counts"},
        "classes": {"mass", "outcome_counts", "class_counts"},
        "number": {"mass", "outcome_counts", "label_total", "squared_error", "error_sums"},
    }[label]
    body, planned, schema = body_for(release), planned_for(release), SCHEMAS[label]
    if release in lawful:
        assert read_as(body, planned, schema) == body
        return
    refusal = refusal_of(body, planned, schema)
    assert (refusal.code, refusal.field) == (RefusalCode.BAD_QUERY, "plan.queries.release")
    assert refusal.limit.startswith(f"{release} needs ")


@pytest.mark.parametrize(
    ("release", "changes", "field"),
    [
        ("class_counts", {"hypothesis": Constant(predicted=1)}, "body.hypothesis"),
        ("label_total", {"hypothesis": Constant(predicted=1)}, "body.hypothesis"),
        ("squared_error", {"hypothesis": None}, "body.hypothesis"),
        ("label_total", {"most_squared_error": 5}, "body.most_squared_error"),
        ("mass", {"most_squared_error": 5}, "body.most_squared_error"),
    ],
)
def test_a_body_that_does_not_fit_its_kind_is_refused(release, changes, field):
    schema = SCHEMAS["classes" if release == "class_counts" else "number"]
    refusal = refusal_of(body_for(release, **changes), planned_for(release), schema)
    assert (refusal.code, refusal.field) == (RefusalCode.BAD_QUERY, field)


@pytest.mark.parametrize("most", [0, -1, MOST_SQUARED_ERROR + 1])
def test_a_range_of_errors_outside_the_grid_is_malformed(most):
    body = body_for("squared_error", most_squared_error=most)
    assert refusal_of(body, planned_for("squared_error"), SCHEMAS["number"]).code == RefusalCode.MALFORMED


def test_more_numbers_a_cell_leave_fewer_cells():
    """A limit of cells is one of pairs: what is released, and held in memory, stays within it."""
    question = body_for("class_counts"), planned_for("class_counts"), SCHEMAS["classes"]
    assert read_as(*question, cells=6) == question[0]
    refusal = refusal_of(*question, cells=5)
    assert (refusal.code, refusal.limit) == (RefusalCode.OVER_LIMIT, "at most 2 cells of 4 numbers")


def test_a_curator_refuses_a_misfit_plan_alike_whatever_its_records_and_reserves_nothing():
    said = []
    for records_ in (None, held([("p", 1.0, 1.0, "f", "no")], SCHEMAS["two"])):
        learner = Learner(open_curator(records=records_))
        learner.card()
        refusal = learner.propose(Plan.of((planned_for("label_total", steps=3, scale=Rational.of(90)),)))
        assert isinstance(refusal, Refusal)
        said.append((refusal.code, refusal.field, refusal.limit, refusal.remaining))
        assert not learner.curator._ledger.account.studies
    assert said[0] == said[1]
    assert said[0][:2] == (RefusalCode.BAD_PLAN, "plan.queries[0].release")
    assert said[0][2] == "label_total needs a numeric label; this one is 2 classes"


def test_the_learner_objects_before_it_asks():
    learner = Learner(open_curator())
    learner.card()
    reason = complaint_about_plan(Plan.of((planned_for("label_total", steps=3),)), learner.session.card, QUERY_KINDS)
    assert "(plan.queries[0].release: label_total needs a numeric label; this one is 2 classes)" in reason


def test_a_numeric_answer_is_charged_and_read():
    """Through curator, receipt and reader, with real noise: the steps are in the cost and in the answer."""
    rows = [("p", float(age), 1.0, "f", float(age % 8)) for age in range(1, 100)]
    curator = open_curator(records=held(rows, SCHEMAS["number"]))
    planned = planned_for("label_total", steps=10, scale=Rational.of(Fraction(100)))
    learner = opened(curator, plan=Plan.of((planned,)))
    release = learner.query(encode(body_for("label_total")))
    assert isinstance(release, Release)
    assert learner.curator._ledger.account.total_spent == Fraction(1, 10)
    answer = read(release.body, Question(Turn(planned), body_for("label_total"), SCHEMAS["number"]))
    both = add([answer, answer])
    assert (answer.steps, both.steps, both.sites) == (10, 10, 2)
    assert answer.values.shape == (3, 2)
    assert both.values.tolist() == (2 * answer.values).tolist()


# what the steward hears


@pytest.mark.parametrize(
    ("label", "values", "text"),
    [
        ("number", [1.0, 2.0, 3.0], None),
        ("number", [-2.0, 6.0, 6.0], None),
        ("number", [1.0, 1.0, 1.0], "one label"),
        ("number", [1.0, 7.0, 2.0], "more than a tenth of the labels 'sick' lie outside label_bounds"),
        ("classes", ["none", "none", "none"], "one class"),
        ("classes", ["none", "some", "much"], "a declared class does not occur"),
        ("classes", list(CLASSES), None),
    ],
)
@pytest.mark.filterwarnings("always::curator_node.records.dataset.StewardWarning")
def test_labels_that_do_not_fit_are_told_to_the_steward(label, values, text, recwarn):
    held([("p", 1.0, 1.0, "f", value) for value in values], SCHEMAS[label])
    heard = [str(each.message) for each in recwarn if each.category is StewardWarning]
    assert len(heard) == (text is not None)
    if text is not None:
        assert text in heard[0]
