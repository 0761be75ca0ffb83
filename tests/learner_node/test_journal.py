"""A study is ended at any point and goes on: the same releases, the same cost, never two charges for a question."""

import contextlib
import os
import shutil
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner_fakes import (
    LEARNER,
    Clock,
    EndsAt,
    Entropy,
    PowerFailure,
    Scripted,
    account,
    key,
    mass_body,
    open_curator,
    plan_of,
    silent_from,
)
from learner_node.carriers.journal import HEAD, Journal, Settings
from learner_node.study.federation import Federation, UnfinishedError
from learner_node.study.study import NoCuratorError, Study
from protocol.errors import ConfigurationError
from protocol.transcript import replay

PLAN = plan_of(10, 5, 4)
COST = Fraction(1, 10) + Fraction(1, 5) + Fraction(1, 4)
ABOUT = Settings("0.2.0", bytes(32), {})
NAMES = ("basel", "bern")


def attempt(path, curators, carrier, *, clock, plan=PLAN, shift=0.0, lifetime=600, abouts=ABOUT):
    """One process's run of the study; what it found."""
    with Journal(path, abouts, clock=clock, entropy=Entropy()) as journal:
        federation = Federation(
            curators={name: curator.identity for name, curator in curators.items()},
            key=key(LEARNER),
            carrier=journal.through(carrier),
            clock=journal.clock,
            entropy=journal.entropy,
            receipts=journal.receipts,
            resumable=True,
            lifetime=lifetime,
        )
        study = Study(federation)
        with study.closing():
            study.propose(plan, "to test", list(study.read_cards()))
            for number in range(len(plan.queries)):
                study.ask(dict.fromkeys(study.survivors, mass_body(number + shift)))
        return study


def releases(study):
    return [{name: answer.values.tolist() for name, answer in done.answers.items()} for done in study.rounds]


def assert_paid_once(study, curators):
    for name, curator in curators.items():
        assert study.spent(name) == study.spent_at_most(name) == account(curator).total_spent == COST
        assert account(curator).total_reserved == 0
        for session in (study.sessions[name], *study.retired[name]):
            replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.sampled_from([0, 1, 700, 5000])), max_size=6),
    st.integers(0, 40),
)
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_a_process_that_ends_anywhere_is_gone_on_with(tmp_path_factory, failures, cut):
    """Each failure: at which exchange of its process, whether it was served, and seconds until the next process."""
    path = tmp_path_factory.mktemp("study") / "journal"
    clock = Clock()
    curators = {name: open_curator(name, clock=clock) for name in NAMES}
    seen = []
    for at, served, away in failures:
        with contextlib.suppress(PowerFailure):
            attempt(path, curators, EndsAt(Scripted(curators), at, served=served), clock=clock)
        seen.append(path.stat().st_size)
        if cut and seen[-1] > cut + 200:  # the last record was being written
            os.truncate(path, _torn(path, cut))
        clock.now += away
    study = attempt(path, curators, Scripted(curators), clock=clock)
    assert_paid_once(study, curators)
    first = releases(study)
    silent = EndsAt(Scripted(curators), 1, served=False)
    assert releases(attempt(path, curators, silent, clock=clock)) == first, "all of it is in the journal"
    assert len(silent.sent) == 0


def _torn(path, cut):
    """A size that cuts into the journal's last record, and no further."""
    content, place, last = path.read_bytes(), 0, 0
    while place < len(content):
        last = place
        place += HEAD + int.from_bytes(content[place : place + 4], "big")
    return min(len(content), last + cut) if last else len(content)


@pytest.fixture
def curators():
    return {name: open_curator(name) for name in NAMES}


def test_a_journal_is_for_its_owner_and_for_one_process(tmp_path, curators):
    path = tmp_path / "journal"
    attempt(path, curators, Scripted(curators), clock=Clock())
    assert path.stat().st_mode & 0o777 == 0o600
    with (
        Journal(path, ABOUT, clock=Clock(), entropy=Entropy()),
        pytest.raises(ConfigurationError, match="another process runs this study"),
    ):
        Journal(path, ABOUT, clock=Clock(), entropy=Entropy())


def test_another_question_is_not_sent_under_the_same_journal(tmp_path, curators):
    path = tmp_path / "journal"
    with pytest.raises(PowerFailure):
        attempt(path, curators, EndsAt(Scripted(curators), 4, served=True), clock=Clock())
    carrier = Scripted(curators)
    with pytest.raises(ConfigurationError, match="would now ask something else than before"):
        attempt(path, curators, carrier, clock=Clock(), shift=0.5)
    assert carrier.sent == []
    assert_paid_once(attempt(path, curators, carrier, clock=Clock()), curators)


def test_other_settings_are_refused_before_anything_is_sent(tmp_path, curators):
    path = tmp_path / "journal"
    attempt(path, curators, Scripted(curators), clock=Clock())
    with pytest.raises(ConfigurationError, match="other settings, another source or another key"):
        attempt(path, curators, Scripted(curators), clock=Clock(), abouts=Settings("0.2.0", b"1" * 32, {}))


def test_a_torn_last_record_is_dropped_and_a_damaged_one_is_told(tmp_path, curators):
    path = tmp_path / "journal"
    attempt(path, curators, Scripted(curators), clock=Clock())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)
    path.write_bytes(whole + bytes(4096))  # what a power failure may leave of a file that grew
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)
    for place in (0, 3, 5, 9, 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ConfigurationError, match="damaged after 0 bytes"):
            attempt(path, curators, Scripted(curators), clock=Clock())


def test_receipts_are_those_with_which_the_study_began(tmp_path, curators):
    path = tmp_path / "journal"
    federation_receipts = {curators["basel"].identity: b"a receipt"}
    with Journal(path, Settings("1", bytes(32), federation_receipts), clock=Clock(), entropy=Entropy()) as journal:
        assert journal.receipts == federation_receipts
    with Journal(path, Settings("2", bytes(32), {}), clock=Clock(), entropy=Entropy()) as journal:
        assert journal.receipts == federation_receipts


def test_a_study_whose_carrier_cannot_go_on_is_left_open(tmp_path, curators):
    class Later(Scripted):
        def exchange(self, requests):
            if len(self.sent) >= 6:
                raise UnfinishedError("later")
            return super().exchange(requests)

    path = tmp_path / "journal"
    with pytest.raises(UnfinishedError):
        attempt(path, curators, Later(curators), clock=Clock())
    assert all(account(curator).total_reserved for curator in curators.values())
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)


def test_a_curator_that_never_answers_is_left_out_and_stays_so(tmp_path, curators):
    path = tmp_path / "journal"
    study = attempt(path, curators, Scripted(curators, {"bern": silent_from(2)}), clock=Clock())
    assert study.survivors == ["basel"]
    again = attempt(path, curators, Scripted(curators), clock=Clock())
    assert (again.survivors, again.left_out) == (study.survivors, study.left_out)


def test_nobody_is_left(tmp_path, curators):
    path = tmp_path / "journal"
    with pytest.raises(NoCuratorError):
        attempt(path, curators, Scripted(curators, dict.fromkeys(NAMES, silent_from(0))), clock=Clock())
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    with pytest.raises(NoCuratorError):
        attempt(copy, curators, Scripted(curators), clock=Clock())


@pytest.mark.parametrize("late", [-1, 0, 1, 4])
def test_a_request_that_comes_after_its_expiry_is_made_anew(tmp_path, late):
    """The card request, the proposal, a query and the close: each waits longer than it is valid."""
    clock = Clock()
    curators = {name: open_curator(name, clock=clock) for name in NAMES}

    class Slow(Scripted):
        def exchange(self, requests):
            if len({data for _, _, data in self.sent}) == 2 * (late + 1):
                clock.now += 700
            return super().exchange(requests)

    study = attempt(tmp_path / "journal", curators, Slow(curators), clock=clock)
    assert_paid_once(study, curators)
    assert [len(each) for each in study.retired.values()] == ([1, 1] if late == 0 else [0, 0])
    assert study.left_out == {}
