"""A schema that does not fit its records raises no error; its steward, and nobody else, is told which column."""

import warnings

import polars as pl
import pytest

from curator_fakes import UNIT_KEY, Learner, error_body, open_curator, plan_of, steward_file
from curator_node.records import dataset
from curator_node.records.dataset import PrivateDataset, StewardWarning
from protocol.messages import Release, StudyAccepted

CANARY = "canary-7f3a"
N = 40
GOOD = {
    "patient": [str(row) for row in range(N)],
    "age": [float(20 + row) for row in range(N)],
    "dose": [0.5] * N,
    "sex": ["f", "m"] * (N // 2),
    "sick": ["no", "yes"] * (N // 2),
}


def heard(steward=None, **columns):
    """What the steward hears, and the dataset."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = PrivateDataset(
            pl.DataFrame({**GOOD, **columns}),
            steward or steward_file(round_size=N),
            unit_key=UNIT_KEY,
            cache_bytes=10**6,
        )
    assert all(warning.category is StewardWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught], data


def mixed(bad, good, count):
    return [bad] * count + [good] * (N - count)


def test_records_that_fit_are_no_news():
    assert heard()[0] == []


@pytest.mark.parametrize("bad", [-0.001, 120.001, 1e300, -1e300])
def test_more_than_a_tenth_beyond_the_bounds_is_told(bad):
    assert heard(age=mixed(bad, 50.0, N // 10))[0] == []
    (text,) = heard(age=mixed(bad, 50.0, N // 10 + 1))[0]
    assert text.startswith("more than a tenth of the values of 'age' lie outside the declared bounds")
    assert "check the bounds" in text


def test_values_on_the_bounds_are_within():
    assert heard(age=[0.0, 120.0] * (N // 2), dose=["-5", "5.0"] * (N // 2))[0] == []


def test_numbers_written_as_text_are_compared_as_numbers():
    (text,) = heard(dose=mixed(" 5.1", "0", 5))[0]
    assert "'dose'" in text


@pytest.mark.parametrize("bad", ["F", "female", CANARY])
def test_more_than_a_tenth_of_undeclared_levels_is_told(bad):
    assert heard(sex=mixed(bad, "f", N // 10))[0] == []
    (text,) = heard(sex=mixed(bad, "f", N // 10 + 1))[0]
    assert text.startswith("more than a tenth of the values of 'sex' are no declared level")
    assert "spelling and case of the levels" in text


def test_the_tenth_is_of_what_is_not_missing():
    few = [None] * (N - 10)
    assert heard(age=[*few, 200.0, *[50.0] * 9], sex=[*few, "F", *"fmfmfmfmf"])[0] == []
    texts, _ = heard(age=[*few, 200.0, *[50.0] * 8, None], sex=[*few, "F", *"fmfmfmfm", "?"])
    assert [name for text in texts for name in ("'age'", "'sex'") if name in text] == ["'age'", "'sex'"]


@pytest.mark.parametrize("missing", [None, "", "?", "NA"])
def test_an_attribute_that_is_missing_in_every_record_is_told_and_in_all_but_one_is_not(missing):
    nothing = pl.Series([missing] * N, dtype=pl.String)
    texts, _ = heard(age=nothing, sex=nothing)
    assert [text.split(";")[0] for text in texts] == [
        f"{name} is missing in every record" for name in ("'age'", "'sex'")
    ]
    assert heard(age=mixed(missing, "50", N - 1), sex=mixed(missing, "f", N - 1))[0] == []


def test_records_are_judged_before_units_are_bounded():
    one_unit = ["p"] * (N - 1) + ["q"]
    texts, data = heard(steward_file(unit=True, round_size=2), patient=one_unit, age=mixed(200.0, 50.0, 5))
    assert len(data._labels) == 2
    assert "'age'" in texts[0]


@pytest.mark.parametrize("declared", [N // 2, N, 2 * N, None])
def test_a_round_size_within_a_factor_of_two_is_no_news(declared):
    assert heard(steward_file(round_size=declared))[0] == []


@pytest.mark.parametrize("declared", [1, N // 2 - 1, 2 * N + 1, 2**40])
def test_a_round_size_that_is_far_off_is_told_without_a_number(declared):
    (text,) = heard(steward_file(round_size=declared))[0]
    assert "round_size" in text
    assert not any(letter.isdigit() for letter in text)


def test_the_round_size_is_compared_with_the_records_that_count():
    few = ["p"] * (N - 10) + list("abcdefghij")
    assert heard(steward_file(unit=True, round_size=11), patient=few)[0] == []
    (text,) = heard(steward_file(unit=True, round_size=N), patient=few)[0]
    assert "records that count" in text


def test_more_records_than_are_assumed_ask_for_a_round_size(monkeypatch):
    monkeypatch.setattr(dataset, "ASSUMED_ROUND_SIZE", N - 1)
    assert heard(steward_file(round_size=N))[0] == []
    (text,) = heard(steward_file(round_size=None))[0]
    assert "declare it" in text


def test_no_value_and_no_number_is_told():
    texts, _ = heard(age=mixed(31_337.25, 50.0, 17), sex=mixed(CANARY, "f", 23), dose=[None] * N, sick=["no"] * N)
    assert len(texts) == 4
    for text in texts:
        assert CANARY not in text
        assert not any(letter.isdigit() for letter in text)


def test_a_learner_hears_nothing():
    texts, data = heard(age=[500.0] * N, sex=[CANARY] * N, dose=[None] * N)
    assert len(texts) == 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = Learner(open_curator(records=data))
        usual = Learner(open_curator(records=heard()[1]))
        kinds = []
        for learner in (told, usual):
            replies = [learner.card(), learner.propose(plan_of(30, 30, release="error_correct"))]
            replies += [learner.query(error_body()), learner.query(error_body())]
            assert isinstance(replies[1], StudyAccepted)
            assert isinstance(replies[2], Release)
            assert not any(word in repr(reply) for reply in replies for word in (CANARY, "tenth", "every record"))
            kinds.append([type(reply) for reply in replies])
    assert kinds[0] == kinds[1]
    assert caught == []
