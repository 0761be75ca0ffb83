"""Every (state, event) pair against a second list, written out here and not read from the table."""

import itertools

import pytest

from protocol.errors import LocalProtocolError
from protocol.transitions import TRANSITIONS, Event, State, advance

LAWFUL = """
new       study_proposal  proposed
proposed  study_accepted  open
proposed  refusal         refused
open      query           asked
open      study_close     closing
open      expiry          expired
asked     release         open
asked     refusal         open
asked     study_close     closing
asked     expiry          expired
closing   study_closed    closed
closing   refusal         open
"""
EXPECTED = {(state, event): after for state, event, after in map(str.split, LAWFUL.strip().splitlines())}
STATES = ["new", "proposed", "refused", "open", "asked", "closing", "closed", "expired"]
EVENTS = ["study_proposal", "study_accepted", "query", "release", "study_close", "study_closed", "refusal", "expiry"]


def test_the_list_names_every_state_and_event():
    assert sorted(STATES) == sorted(state.value for state in State)
    assert sorted(EVENTS) == sorted(event.value for event in Event)
    assert len(EXPECTED) == 12


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_a_step_is_lawful_exactly_where_the_second_list_says_so(state, event):
    before = {key: dict(value) for key, value in TRANSITIONS.items()}
    if (state, event) in EXPECTED:
        assert advance(State(state), Event(event)) == EXPECTED[state, event]
    else:
        with pytest.raises(LocalProtocolError, match=f"{event} is not lawful in a study that is {state}"):
            advance(State(state), Event(event))
    assert before == TRANSITIONS


@pytest.mark.parametrize("state", ["refused", "closed", "expired"])
def test_a_finished_study_stays_finished(state):
    for event in EVENTS:
        with pytest.raises(LocalProtocolError, match="lawful: nothing"):
            advance(State(state), Event(event))


def test_every_state_can_be_reached_from_new():
    reached = {"new"}
    for _ in STATES:
        reached |= {after for (state, _), after in EXPECTED.items() if state in reached}
    assert reached == set(STATES)
