"""What an additive model adds up, on a run's page: where its marks are, and what it refuses."""

import re

import msgspec
import pytest

from simulations.report.parts import FEW, Part, PartBin, panels


def part(name, *values):
    """Bins of equal shares with bands of 0.1 on either side."""
    bins = [
        PartBin(label=f"bin {n}", share=1 / len(values), log_odds=v, lower=v - 0.1, upper=v + 0.1)
        for n, v in enumerate(values)
    ]
    return Part(attribute=name, numeric=True, bins=tuple(bins))


def place(text):
    return float(text.rstrip("%"))


def test_marks_are_in_proportion_and_within_their_bars():
    drawn = panels(0, "ada", [part("age", -1.0, 0.0, 1.0), part("ward", 0.5)])
    rows = drawn.panels[0].rows
    at = [place(row.dot.at) for row in rows]
    assert at[1] == pytest.approx(place(drawn.zero))
    assert at[2] - at[1] == pytest.approx(at[1] - at[0], abs=0.02)
    assert place(drawn.panels[1].rows[0].dot.at) == pytest.approx((at[1] + at[2]) / 2, abs=0.02)
    for row in rows:
        low, high = map(place, row.dot.bar)
        assert 0 <= low < place(row.dot.at) < high <= 100
    assert [row.value for row in rows] == ["−1.00", "+0.00", "+1.00"]


def test_the_weaker_of_many_are_named():
    drawn = panels(0, "ada", [part(f"attribute {n}", 0.1) for n in range(FEW + 2)])
    assert len(drawn.panels) == FEW
    assert drawn.others == (f"attribute {FEW}", f"attribute {FEW + 1}")


def test_nothing_is_drawn_of_a_model_that_adds_up_nothing():
    assert panels(0, "ada", []) is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"share": 1.5}, "share"), ({"log_odds": float("nan")}, "finite"), ({"lower": 0.5}, "does not lie")],
)
def test_what_is_no_bin_is_refused(change, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        PartBin(**{"label": "a", "share": 0.5, "log_odds": 0.1, "lower": 0.0, "upper": 0.2} | change)


def test_a_part_survives_json():
    one = part("age", 0.1, 0.4)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Part) == one
