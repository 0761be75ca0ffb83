"""The pace of looks for something that nobody announces."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.carriage import Pace

SHORTEST, LONGEST = 0.01, 0.2


def looks_until(pace, there):
    """(looks, seconds too late) until something is found that is there after so many seconds."""
    pace.begin(0.0)
    now, looks = 0.0, 0
    while True:
        now += pace.pause(now)
        looks += 1
        if now >= there:
            pace.end(now)
            return looks, now - there


@settings(max_examples=50)
@given(st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_what_is_there_is_found_soon_whatever_was_waited_for_before(before, there):
    pace = Pace(SHORTEST, LONGEST)
    looks_until(pace, before)
    looks, late = looks_until(pace, there)
    assert late <= LONGEST + 1e-9
    if there >= before * 1.25:
        assert late <= max(SHORTEST, there / 4) + 1e-9
    assert looks <= 20 + there / LONGEST


def test_a_wait_as_long_as_the_last_costs_few_looks():
    pace = Pace(SHORTEST, LONGEST)
    looks = [looks_until(pace, 0.06)[0] for _ in range(12)]
    assert looks[0] > 4
    assert sum(looks[2:]) <= 30
