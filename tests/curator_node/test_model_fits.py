"""Fits of in-site models: what one unit can change, sums against slow loops, minimisers against 60 digits."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from at_length import also_at_length
from curator_fakes import ZeroNoise
from curator_node.answering import CuratorQuestion
from curator_node.kinds import newton
from curator_node.kinds.model import EXACT, MODEL, MOST_LINEAR_RECORDS, sums_about
from curator_node.kinds.newton import Losses, minimise
from curator_node.kinds.samples.learning import NetworkLearner, learn_density, public_stream
from curator_node.kinds.statistics.estimates import Block, estimate
from curator_node.mechanisms import Stamp
from expril.audit.generators.queries import methods_of
from expril.audit.generators.values import feature_bins_of, feature_maps_of, records_of, schemas
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.grids import LEAST_RANGE, BaseLaw, NumberAxis
from protocol.kinds import QUERY_KINDS
from protocol.kinds.model import ModelBody, ModelLimits, ModelRelease, PlannedModel
from protocol.kinds.models import (
    Attributes,
    Centres,
    KernelSvm,
    KMeans,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
)
from protocol.kinds.models.linear import TOLERANCE
from protocol.kinds.models.second_moments import split_moments
from protocol.kinds.sample import PlannedSample
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import Estimate, Grid
from protocol.kinds.statistics.methods import AggregateMean
from protocol.noise import DiscreteLaplace
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.records import LABEL_STEPS, Records
from protocol.schema import NumericAttribute, Schema

LINEAR = ("logistic_regression", "linear_svm", "kernel_svm")
SUMS = tuple(name for name in EXACT if name not in LINEAR)
LABELS = {"linear_regression": {"label_bounds": (-1.0, 9.0)}} | {name: {"classes": ("no", "yes")} for name in LINEAR}
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
BRIEF = settings(QUICK, max_examples=4)


@st.composite
def labelled(draw, name):
    """(schema, records, labels, method, body) that fit together."""
    drawn = draw(schemas())
    label = LABELS.get(name, {"classes": ("a", "b", "é")})
    schema = Schema(attributes=drawn.attributes, label="y", **label)
    records = draw(records_of(schema))
    most = len(schema.classes) - 1 if schema.classes else LABEL_STEPS
    labels = np.array(draw(st.lists(st.integers(0, most), min_size=len(records), max_size=len(records))), np.uint16)
    method, body = draw(methods_of(name, schema, feature_maps_of(schema), feature_bins_of(schema)))
    return records, labels, method, body


def joined(records, times):
    """The same records several times over."""
    rows = np.tile(np.arange(len(records)), times)
    return records.take(rows), rows


@also_at_length(150)
@pytest.mark.parametrize("name", SUMS)
@QUICK
@given(data=st.data())
def test_sums_add_up_record_by_record_and_each_moves_them_no_further_than_told(name, data):
    """Additive to the last bit: what a record adds hangs on that record alone, so a unit moves its records' parts."""
    records, labels, method, body = data.draw(labelled(name))
    fit = EXACT[name]
    parts = [fit(method, body, records.take(slice(i, i + 1)), labels[i : i + 1]) for i in range(len(records))]
    sums = fit(method, body, records, labels)
    assert sums.dtype == np.int64
    assert sums.shape == (method.length(body, records.schema),)
    assert (sums == np.sum([np.zeros_like(sums), *parts], axis=0)).all()
    for bound in (1, 2, 3):
        unit = np.sum([np.zeros_like(sums), *parts[:bound]], axis=0)
        assert np.abs(unit).sum() <= method.sensitivity(bound)


BOUNDS = st.integers(1, 3)


@also_at_length(150)
@pytest.mark.parametrize("name", LINEAR)
@QUICK
@given(data=st.data(), bound=BOUNDS, times=st.sampled_from([1, 7, 100]))
def test_a_unit_moves_a_minimiser_no_further_than_told(name, data, bound, times):
    records, labels, method, body = data.draw(labelled(name))
    more_records, rows = joined(records, times)
    without = slice(min(bound, len(records)), None)
    more = EXACT[name](method, body, more_records, labels[rows])
    fewer = EXACT[name](method, body, more_records.take(without), labels[rows][without])
    assert np.abs(more - fewer).sum() <= method.sensitivity(bound)


@QUICK
@given(data=st.data(), bound=BOUNDS)
def test_a_unit_moves_the_sums_about_given_centres_no_further_than_told(data, bound):
    records, _, method, body = data.draw(labelled("k_means"))
    points = method.points
    centres = np.array(
        data.draw(
            st.lists(
                st.integers(-points.radius, points.radius),
                min_size=method.clusters * points.width,
                max_size=method.clusters * points.width,
            )
        ),
        np.float64,
    ).reshape(method.clusters, points.width)
    whole, fewer = (
        sums_about(method, body, some, centres[None])[0] for some in (records, records.take(slice(bound, None)))
    )
    assert np.abs(whole - fewer).sum() * method.iterations <= method.sensitivity(bound)
    # Against whole numbers: the nearest centre, of equally near ones the first.
    slow = np.zeros_like(whole)
    for row in points.rows(body.features.points(records)).astype(int).tolist():
        distances = [sum((x - c) ** 2 for x, c in zip(row, one, strict=False)) for one in centres.astype(int).tolist()]
        slow[distances.index(min(distances))] += row
    assert (whole == slow).all()


def one_number(values, labels, **label):
    schema = Schema(attributes=(NumericAttribute("x", -2.0, 3.0),), label="y", **label)
    numeric = np.array(values, np.float64)[:, None]
    return Records(schema, numeric, np.empty((len(values), 0), np.int16)), np.array(labels, np.uint16)


def test_naive_bayes_tells_counts_sums_and_squares():
    records, labels = one_number([0.0, 1.0, 0.5, math.nan, 3.0, -2.0], [0, 0, 0, 0, 1, 1], classes=("a", "b"))
    method = NaiveBayes(binned=0, moments=1, steps=4)
    body = Attributes((Moments("x", 0.0, 1.0),))
    (table,) = method.tables(EXACT["naive_bayes"](method, body, records, labels), body, records.schema)
    steps = {0: [0, 4, 2], 1: [4, 0]}
    for column, u in steps.items():
        assert table[1, column] / 2 + table[2, column] == 4 * sum(u)
        assert table[2, column] == sum(value * value for value in u)
    assert table.sum(axis=0).tolist() == [4 * 16, 2 * 16]
    assert table[3].tolist() == [16, 0]


@QUICK
@given(data=st.data())
def test_second_moments_are_sums_of_products(data):
    records, labels, method, body = data.draw(labelled("linear_regression"))
    told = split_moments(EXACT["linear_regression"](method, body, records, labels), method.points.coordinates)
    rows = method.points.rows(body.features.points(records)).astype(np.int64)
    y = np.array([math.trunc(Fraction((2 * int(v) - LABEL_STEPS) * method.label_steps, LABEL_STEPS)) for v in labels])
    y = y.astype(np.int64).reshape(-1)
    assert (told.products == rows.T @ rows).all()
    assert (told.label_products == y @ rows).all()
    assert told.label_square.tolist() == [int(y @ y)]


@QUICK
@given(data=st.data())
def test_forests_count_each_record_once_a_tree(data):
    records, labels, method, body = data.draw(labelled("forest"))
    classes = len(records.schema.classes)
    tables = EXACT["forest"](method, body, records, labels).reshape(method.trees, method.leaves, classes)
    assert (tables.sum(axis=1) == np.bincount(labels, minlength=classes)).all()
    for table, tree in zip(tables, method.partitions(body), strict=True):
        slow = np.zeros_like(table)
        for leaf, label in zip(tree.cells(records), labels, strict=True):
            slow[leaf, label] += 1
        assert (table == slow).all()


def exact_gradient(losses, weights):
    """J's gradient at these very floats, in 60 digits; it shares no code with the solver."""
    with localcontext() as context:
        context.prec = 60
        w = [Decimal(value) for value in weights.tolist()]
        total = [Decimal(losses.regulariser) * value for value in w]
        for row, sign in zip(losses.rows.tolist(), losses.signs.tolist(), strict=True):
            x = [Decimal(value) / losses.unit for value in row]
            score = Decimal(sign) * sum(a * b for a, b in zip(w, x, strict=True))
            slope = 1 / (1 + (losses.sharpness * (score - losses.margin)).exp())
            total = [t - Decimal(sign) * slope * a for t, a in zip(total, x, strict=True)]
        return total


def exact_gradient_length(losses, weights):
    return length(exact_gradient(losses, weights))


def length(numbers):
    with localcontext() as context:
        context.prec = 60
        return float(sum(value * value for value in numbers).sqrt())


def losses_of(rows, signs, *, regulariser=1.0, margin=0, sharpness=1):
    rows = np.array(rows, np.int16)
    return Losses(rows, np.array(signs, np.float64), STEPS, math.sqrt(2), regulariser, margin, sharpness)


UNIT = st.sampled_from([0, 1, -1, STEPS, -STEPS, STEPS // 2, -STEPS // 3])


@settings(max_examples=25, deadline=None)
@given(
    st.data(), st.integers(1, 3), st.sampled_from([(0, 1), (1, 1), (1, 4), (1, 8)]), st.sampled_from([1.0, 7 / 3, 1e6])
)
def test_a_fit_stops_within_its_tolerance(data, width, loss, regulariser):
    row = st.lists(UNIT, min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    signs = data.draw(st.lists(st.sampled_from([1, -1]), min_size=len(rows), max_size=len(rows)))
    times = data.draw(st.sampled_from([1, 20]))
    losses = losses_of(rows * times, signs * times, regulariser=regulariser, margin=loss[0], sharpness=loss[1])
    assert exact_gradient_length(losses, minimise(losses)) <= TOLERANCE / 2


def hard_losses():
    """Data sets on which a full Newton step overshoots: separable ones, one class, and very many like records."""
    line = np.linspace(-STEPS, STEPS, 2000).astype(int)
    separable = [[int(x), STEPS] for x in line]
    yield "separable", separable, np.sign(line + 0.5)
    yield "one class", separable, np.ones(2000)
    yield "all alike", [[STEPS, 0]] * 2000, np.ones(2000)
    yield "nothing", [[0, 0]] * 2000, np.ones(2000)
    yield "one against all", [[STEPS, 0]] * 1999 + [[-STEPS, 0]], [1] * 2000
    yield "noise", separable, np.resize([1, -1, -1, 1, 1], 2000)


@pytest.mark.parametrize("case", list(hard_losses()), ids=lambda case: case[0])
@pytest.mark.parametrize(("margin", "sharpness"), [(0, 1), (1, 8)])
def test_hard_records_take_few_steps(case, margin, sharpness, monkeypatch):
    """And end within the tolerance, in 60 digits."""
    _, rows, signs = case
    losses = losses_of(rows, signs, margin=margin, sharpness=sharpness)
    monkeypatch.setattr(newton, "MOST_STEPS", 30)
    weights = minimise(losses)
    gradient, _ = losses.derivatives(weights)
    assert np.linalg.norm(gradient) <= newton.STOP
    some = losses_of(rows[::50], np.asarray(signs)[::50], margin=margin, sharpness=sharpness)
    assert exact_gradient_length(some, minimise(some)) <= TOLERANCE / 2


def test_a_float_gradient_is_as_exact_as_the_tolerance_needs():
    """Of 2,000 records it differs from 60 digits by less than a millionth of what is left to rounding."""
    rng = np.random.default_rng(3)
    losses = losses_of(rng.integers(-2000, 2000, (2000, 4)), rng.choice([-1, 1], 2000), margin=1, sharpness=8)
    weights = minimise(losses)
    computed = np.linalg.norm(losses.derivatives(weights)[0])
    assert abs(computed - exact_gradient_length(losses, weights)) < 1e-6 * (float(TOLERANCE) - newton.STOP)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
@example([2.2e-308, -5e-324], 0)  # the slices of the smallest floats have no smaller step
def test_slices_of_weights_are_multiplied_without_rounding(weights, seed):
    """Added up in rational numbers they are the weights, but for 2^-78 of the largest."""
    weights = np.array(weights)
    slices = newton.sliced(weights)
    rows = np.random.default_rng(seed).integers(-STEPS, STEPS + 1, (5, len(weights)))
    for part in slices:
        for row, product in zip(rows.tolist(), rows.astype(float) @ part, strict=True):
            assert Fraction(float(product)) == sum(v * Fraction(w) for v, w in zip(row, part.tolist(), strict=True))
    for number, *parts in zip(weights.tolist(), *(part.tolist() for part in slices), strict=True):
        assert abs(sum(map(Fraction, parts)) - Fraction(number)) <= Fraction(max(abs(weights))) / 2**78


def test_a_gradient_grows_no_less_exact_with_the_weights():
    """At the weights of separable records, with many at the loss's corner: the page's bound holds, in 60 digits.

    Products of floats as they come break it more than tenfold, so the slices are needed.
    """
    rng = np.random.default_rng(4)
    half, half_rows = rng.normal(size=40) * 1e9, rng.integers(-STEPS // 10, STEPS // 10, (200, 40))
    weights = np.concatenate([half, -half])
    weights[0] += 1.0  # all but this cancels, in every score
    tiny = 2.0**-40  # so that the regulariser's own rounding hides nothing
    losses = losses_of(np.hstack([half_rows, half_rows]), rng.choice([-1, 1], 200), regulariser=tiny, sharpness=8)
    exact = exact_gradient(losses, weights)

    def wrong(gradient):
        return length([a - Decimal(b) for a, b in zip(exact, gradient.tolist(), strict=True)])

    bound = 200 * math.sqrt(2) * 2.0**-53 * (200 + 17) + 2.0**-53 * tiny * np.linalg.norm(weights)
    assert wrong(losses.derivatives(weights)[0]) <= bound
    rows = losses.rows / losses.unit
    slopes = 1 / (1 + np.exp(8 * losses.signs * (rows @ weights)))
    assert wrong(tiny * weights - (losses.signs * slopes) @ rows) > 10 * bound


def test_the_derivatives_are_those_of_the_objective():
    rng = np.random.default_rng(1)
    losses = losses_of(
        rng.integers(-4000, 4000, (50, 3)), rng.choice([-1, 1], 50), regulariser=2.0, margin=1, sharpness=4
    )
    weights, step = rng.normal(size=3), 1e-5
    gradient, hessian = losses.derivatives(weights)
    for place in range(3):
        away = np.eye(3)[place] * step
        slope = (losses.value(weights + away) - losses.value(weights - away)) / (2 * step)
        assert gradient[place] == pytest.approx(slope, rel=1e-6)
        bend = (losses.derivatives(weights + away)[0] - losses.derivatives(weights - away)[0]) / (2 * step)
        assert hessian[place] == pytest.approx(bend, rel=1e-5)


def test_support_vectors_nearly_attain_their_sensitivity():
    """Far below the margin a record pulls with all its weight."""
    records, labels = one_number([1.0, 1.0, 1.0], [1, 1, 1], classes=("a", "b"))
    body = Mapped(FeatureMap((NumericFeature("x", 0.0, 1.0, 0.0),)))
    points = Points(width=1, radius=STEPS)
    svm = LinearSvm(points=points, regulariser=Rational(20, 1), steps=2**16, sharpness=8)
    few, more = (EXACT["linear_svm"](svm, body, records.take(slice(n)), labels[:n])[0] for n in (1, 2))
    assert 0.98 < (more - few) / svm.sensitivity(1) <= 1
    logistic = LogisticRegression(points=points, regulariser=Rational(20, 1), steps=2**16)
    few, more = (EXACT["logistic_regression"](logistic, body, records.take(slice(n)), labels[:n])[0] for n in (1, 2))
    assert 0.4 < (more - few) / logistic.sensitivity(1) <= 1


class Steps(ZeroNoise):
    """Noise that is told: draw after draw."""

    def __init__(self, noise):
        self.noise, self.asked = noise, []

    def discrete_laplace(self, exact, l1, law, stamp):
        self.asked.append((exact.copy(), l1, law, stamp))
        return exact + self.noise[len(self.asked) - 1]


class Held:
    def __init__(self, records, labels, bound):
        self.records, self.labels, self.steward = records, labels, self
        self.most_records_per_unit = bound


def ask(planned, bodies, records, labels, noise, bound=1):
    question = CuratorQuestion(
        Turn(planned), ModelBody(tuple(bodies)), records.schema, (), b"", Stamp("ann", 0, 1), None
    )
    answered = MODEL.answer(question, Held(records, labels, bound), noise)
    return np.frombuffer(decode(answered.release, ModelRelease).numbers, "<i8")


@QUICK
@given(data=st.data(), bound=st.integers(1, 3))
def test_k_means_looks_at_nothing_but_what_it_released(data, bound):
    """Each iteration's exact sums are about centres that a learner finds from the released numbers alone."""
    records, labels, method, body = data.draw(labelled("k_means"))
    planned = PlannedModel(method=method, epsilon=Rational(1, 2), models=2)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    size = 2 * method.clusters * method.points.coordinates
    source = Steps(rng.integers(-5000, 5000, (method.iterations, size)))
    told = ask(planned, [body, body], records, labels, source, bound).reshape(2, -1)
    for run, numbers in enumerate(told):
        path = method.path(numbers, body)
        assert len(path) == method.iterations + 1
        assert all((np.abs(centres) <= method.points.radius).all() for centres in path)
        for iteration, released in enumerate(numbers.reshape(method.iterations, -1)):
            noise = source.noise[iteration].reshape(2, -1)[run]
            (sums,) = sums_about(method, body, records, path[iteration][None])
            assert (released - noise == sums.ravel()).all()
    spent = sum(law.loss(l1) for _, l1, law, _ in source.asked)
    assert spent == Fraction(1, 2)
    assert [stamp.part for *_, stamp in source.asked] == list(range(method.iterations))


@pytest.mark.parametrize("name", EXACT)
@BRIEF
@given(data=st.data())
def test_equal_models_have_noise_of_their_own(name, data):
    records, labels, method, body = data.draw(labelled(name))
    planned = PlannedModel(method=method, epsilon=Rational(1, 3), models=3)
    length = method.length(body, records.schema)
    source = Steps([np.arange(3 * length)])
    told = ask(planned, [body] * 3, records, labels, source, 2).reshape(3, -1)
    assert (told - np.arange(3 * length).reshape(3, -1) == told[0] - np.arange(length)).all()
    ((_, l1, law, _),) = source.asked
    assert l1 == planned.sensitivity(2) == 3 * method.sensitivity(2)
    assert law == DiscreteLaplace(Fraction(3 * l1))


@pytest.mark.family(2)
@pytest.mark.parametrize("name", [*EXACT, "k_means"])
@pytest.mark.filterwarnings("error")
@BRIEF
@given(data=st.data())
def test_no_records_spoil_an_answer(name, data):
    """None, one class, all missing, all alike: numbers like any others, without a warning."""
    records, labels, method, body = data.draw(labelled(name))
    planned = PlannedModel(method=method, epsilon=Rational(1, 3))
    iterations = method.iterations if isinstance(method, KMeans) else 1
    missing = Records(records.schema, np.full_like(records.numeric, np.nan), np.full_like(records.categorical, -1))
    for some, theirs in (
        (records.take(slice(0)), labels[:0]),
        (missing, labels),
        (records, np.zeros_like(labels)),
        (records, np.full_like(labels, labels.max(initial=0))),
        (joined(records.take(slice(1)), 300)[0], np.resize(labels, 300 * min(1, len(labels)))),
    ):
        told = ask(planned, [body], some, theirs, Steps([0] * iterations))
        assert told.shape == (method.length(body, records.schema),)


def test_the_fits_in_floats_alone_are_bounded_in_records():
    places = {f"limits.kinds.model.methods: {name}": MOST_LINEAR_RECORDS for name in LINEAR}
    assert MODEL.bounded(ModelLimits()) == places
    assert MODEL.bounded(ModelLimits(methods=SUMS)) == {}
    assert MOST_LINEAR_RECORDS == 33_554_432


def test_the_error_of_floats_stays_within_what_is_left_to_it():
    """The page's bound, at the most records, the sharpest loss and the longest vectors that a plan may have."""
    n, b, u, tau = MOST_LINEAR_RECORDS, 2, Fraction(1, 2**53), TOLERANCE
    assert n * b * u * (4120 + 2 * Fraction(n, newton.BLOCK)) + Fraction(1, 2**19) < tau / 24
    assert newton.BLOCK == 4096
    plan = LinearSvm(points=Points(1, 1, 1), regulariser=Rational(1, 1), steps=16, sharpness=8)
    assert plan.complaint() == ""
    assert plan.length_above == b * plan.unit
    # One rounding of the weights moves the gradient by so much at most: a float passes the stop.
    assert (n * 8 * b**2 / 4 + 1) * u * Fraction(19, 10) * math.isqrt(n) < tau / 11
    assert Fraction(newton.STOP) == tau / 4 > tau / 24 + tau / 11


# --- Lawful but extreme questions: answers come without an error or a warning, and their work is not understated.

NARROW_SCHEMA = Schema((NumericAttribute("x", 0.0, 1.0),), "y", ("no", "yes"))
LINE = FeatureMap((NumericFeature("x", 0.0, 1.0, 0.0),))
ONE = Rational(1, 1)


@pytest.mark.parametrize("law", [(None, None), (0.0, 5e-324), (0.0, 0.0), (1e15, 1e-300)])
def test_an_axis_too_narrow_for_floats_is_no_axis(law):
    """Its deviation, or a number over it, had no float: a planned sample failed after it was charged."""
    with pytest.raises(ValueError, match=r"needs a range|deviation"):
        NumberAxis("x", 0.0, 5e-324, 2, *law)


def test_a_plan_with_such_an_axis_is_not_read():
    lawful = encode(PlannedSample(records=1, epsilon=ONE, axes=(NumberAxis("x", 0.0, 0.5, 2),)))
    assert decode(lawful, PlannedSample)
    with pytest.raises(RemoteProtocolError):
        decode(lawful.replace(encode(0.5), encode(5e-324)), PlannedSample)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lower", [0.0, -LEAST_RANGE])
def test_the_narrowest_axis_is_drawn_by_the_farthest_bell(lower):
    axis = NumberAxis("x", lower, lower + LEAST_RANGE, 4, 1e15, LEAST_RANGE / 2**39)
    points = np.array([[np.nan], [0.0], [-1e300], [1e300]])
    for each in (axis, NumberAxis("x", lower, lower + LEAST_RANGE, 4)):
        learner = NetworkLearner(1, None)
        from_records = learn_density(points, BaseLaw.of((each,)), ONE.fraction, 1, learner=learner, examples=5)
        assert len(from_records.draw_cells(5, public_stream(b"test"))) == 5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["slope", "linear_coefficient", "logistic_coefficient", "correlation", "variance"])
@pytest.mark.parametrize("narrow", [0, 1])
def test_a_declared_range_without_steps_is_no_error(name, narrow):
    ranges = [(-1e15, 1e15), (-1e15, 1e15)]
    ranges[narrow] = (0.0, 5e-324)
    steps = np.array([[0, 5], [65536, 9], [7, 7], [100, 200], [65536, 0]], np.int64)
    found = estimate(name, Block(steps, np.array([0, 1, 1, 0, 1], np.uint8), tuple(ranges)))
    assert found is None or np.isfinite(found)


def test_runs_of_k_means_from_the_same_centres_are_work_of_their_own():
    """After the noise of the first iteration each run has centres of its own."""
    method = KMeans(points=Points(width=1, radius=100, constant=1), clusters=1000, iterations=50)
    body = Centres.of(LINE, np.zeros((1000, 1), np.int64))

    def per_record(models):
        turn = Turn(PlannedModel(method=method, epsilon=ONE, models=models))
        question = Question(turn, ModelBody((body,) * models), NARROW_SCHEMA)
        return QUERY_KINDS["model"].work(question, 2) - QUERY_KINDS["model"].work(question, 1)

    assert per_record(100) > 95 * per_record(1)


def test_small_blocks_of_a_regression_are_work():
    """Twelve steps of Newton's method in each of 10,000 blocks of a few records: about ten seconds."""
    grid = Grid(-1.0, 1.0, 100)
    asked = StatisticBody((Estimate("logistic_coefficient", ("x",), grid),))
    turn = Turn(PlannedStatistic(method=AggregateMean(10_000, 100, ONE)))
    assert STATISTIC.work(Question(turn, asked, NARROW_SCHEMA), 30_000) > 8e10


@pytest.mark.parametrize("radius", [1, 3, 1000, 4096])
def test_a_linear_classifier_has_a_constant_of_at_most_its_radius(radius):
    """What is left to errors of floats is proven for vectors of at most about sqrt(2) units, not of thousands."""
    for constant in (0, 1, radius, min(radius + 2, 4096), 4096):
        points = Points(width=2, radius=radius, constant=constant)
        for method in (
            LinearSvm(points=points, regulariser=ONE, steps=64),
            KernelSvm(width=2, frequencies=2, seed=0, radius=radius, constant=constant, regulariser=ONE, steps=64),
        ):
            assert bool(method.complaint()) is (constant > radius)
