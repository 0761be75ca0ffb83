"""Predicted against observed numbers, confused classes and their shares: each beside another way to compute it."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_score, r2_score, recall_score

from learner_node.scores.values import wilson
from simulations.references import Answers
from simulations.report.model import Score
from simulations.report.outcome_values import QUANTILES, Agreement, Confusion
from simulations.run import _score, mean_of
from simulations.scoring import RepeatScore, _number_errors, agreement, confusion


def numbers(seed=0, size=1000, spread=1.0):
    rng = np.random.default_rng(seed)
    predicted = rng.normal(50, 10, size)
    return Answers(predicted + rng.normal(0, spread * 5, size), predicted)


@given(st.integers(1, 5000), st.floats(0, 1))
def test_an_interval_of_a_share_is_wilson_s(records, share):
    hits = round(share * records)
    low, high = wilson(hits / records, records)
    other = binomtest(hits, records).proportion_ci(0.95, method="wilson")

    assert (low, high) == pytest.approx((other.low, other.high), abs=1e-6)
    assert low <= hits / records <= high


def test_groups_of_distinct_predictions_are_tenths_with_numpy_s_quantiles():
    answers = numbers()
    groups = agreement(answers)
    order = np.argsort(answers.predicted)

    assert groups.counts == (100,) * 10
    for number, part in enumerate(np.array_split(order, 10)):
        labels = answers.labels[part]
        assert groups.predicted[number] == pytest.approx(answers.predicted[part].mean())
        assert groups.observed[number] == pytest.approx(labels.mean())
        assert groups.observed_error[number] == pytest.approx(np.sqrt(labels.var(ddof=1) / 100))
        assert groups.quantiles[number] == pytest.approx(np.percentile(labels, [100 * q for q in QUANTILES]))


def test_nine_of_ten_records_lie_in_the_outer_band_and_half_in_the_inner_one():
    answers = numbers(size=100_000)
    groups = agreement(answers)
    places = np.minimum((np.argsort(np.argsort(answers.predicted)) / 10_000).astype(int), 9)
    rows = np.array(groups.quantiles)[places]

    def inside(low, high):
        return np.mean((rows[:, low] <= answers.labels) & (answers.labels <= rows[:, high]))

    assert inside(0, 4) == pytest.approx(0.9, abs=0.002)
    assert inside(1, 3) == pytest.approx(0.5, abs=0.002)


def test_records_of_one_prediction_stay_together():
    answers = Answers(np.arange(200.0), np.repeat([1.0, 2.0, 3.0], [20, 160, 20]))
    groups = agreement(answers)

    assert sum(groups.counts) == 200
    assert sorted(filter(None, groups.counts)) == [20, 20, 160]
    assert [value for value in groups.predicted if value is not None] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("size", "groups"), [(9, 0), (10, 1), (20, 2), (49, 2), (50, 5), (100, 10), (5000, 10)])
def test_few_records_are_in_few_groups(size, groups):
    result = agreement(numbers(size=size))
    assert (0 if result is None else len(result.counts)) == groups


def test_repeats_with_another_number_of_groups_are_left_out_of_their_means():
    repeats = [Score(value=0.5, value_se=None, constant=0.0, regression=0.5, agreement=agreement(numbers(n, size)))
               for n, size in enumerate((100, 99, 101))]  # fmt: skip
    combined = _score([RepeatScore(score, 100) for score in repeats]).agreement

    assert len(combined.counts) == 10
    assert sum(combined.counts) == 201
    both = [score.agreement.observed[3] for score in (repeats[0], repeats[2])]
    assert combined.observed[3] == pytest.approx(np.mean(both))


def test_standard_errors_of_r2_and_mae_are_those_of_many_samples():
    rng = np.random.default_rng(5)
    samples = [numbers(seed, 400, 2.0) for seed in range(600)]
    r2 = [r2_score(one.labels, one.predicted) for one in samples]
    absolute = [np.mean(np.abs(one.labels - one.predicted)) for one in samples]
    errors = np.array([_number_errors(one) for one in samples[:: rng.integers(1, 4)]]).mean(axis=0)

    assert errors == pytest.approx([np.std(r2), np.std(absolute)], rel=0.12)


@given(st.integers(2, 10), st.integers(1, 200), st.integers(0, 99))
def test_confused_classes_are_scikit_learn_s(classes, size, seed):
    rng = np.random.default_rng(seed)
    labels, called = rng.integers(0, classes, (2, size))
    table = confusion(Answers(labels.astype(np.uint8), called), classes)
    names = list(range(classes))

    assert table.counts == tuple(map(tuple, confusion_matrix(labels, called, labels=names)))
    recalls = recall_score(labels, called, labels=names, average=None, zero_division=np.nan)
    precisions = precision_score(labels, called, labels=names, average=None, zero_division=np.nan)
    for number in names:
        for share, other in ((table.recall(number), recalls), (table.precision(number), precisions)):
            assert (np.nan if share.value is None else share.value) == pytest.approx(other[number], nan_ok=True)


def test_repeats_are_summed_and_their_intervals_are_those_of_one_repeat_s_records():
    one, other = Confusion(counts=((30, 10), (5, 55))), Confusion(counts=((32, 8), (9, 51)))
    both = mean_of([one, other])

    assert both == Confusion(counts=((62, 18), (14, 106)), repeats=2)
    recall = both.recall(0)
    z, n, p = 1.959964, 40, 62 / 80
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (recall.value, recall.low, recall.high) == pytest.approx((p, middle - half, middle + half))
    assert recall.records == 40


def test_numbers_have_no_confusion_and_classes_no_agreement():
    assert confusion(numbers(), 0) is None
    assert agreement(Answers(np.zeros(50, np.uint8), np.zeros(50))) is None
    assert confusion(None, 2) is agreement(None) is None


def test_a_table_that_is_not_square_or_complete_is_refused():
    with pytest.raises(ValueError, match="as many columns as rows"):
        Confusion(counts=((1, 2),))
    with pytest.raises(ValueError, match="one count"):
        Agreement(counts=(1,), predicted=(), observed=(1.0,), observed_error=(None,), quantiles=((None,) * 5,))


def test_labels_of_any_size_have_an_absolute_error_and_old_scores_are_read():
    Score(value=0.1, value_se=None, constant=0.0, regression=0.2, absolute=3e12, absolute_se=1e10)
    old = b'{"accuracy":0.5,"accuracy_se":null,"majority":0.0,"ceiling":0.5,"absolute":12.5}'
    assert msgspec.json.decode(old, type=Score).agreement is None
