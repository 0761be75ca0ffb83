"""The steward's command for a study that waits: told once, in constant words, and never in a request's way."""

import time
from fractions import Fraction

import pytest

from curator_fakes import Clock, Learner, ledger_over, open_curator, plan_of, policy
from curator_node.daemon.process import KEPT, Bell
from curator_node.ledger import StudyKey
from curator_node.ledger.store import LedgerUnavailableError, MemoryStore
from curator_node.site import Site
from protocol.refusals import RefusalCode
from waiting import wait_for

RULES = policy(("ann", "bob"), approval="manual", held_studies=3)
STUDY = bytes(range(16))
NOTED = 'printf "%s\\n" "$@" >> {out}; echo -- >> {out}'


class Rung:
    """A bell whose command writes down how it was called, and the events that it told."""

    def __init__(self, folder, script=NOTED, *arguments, **options):
        self.out, self.program, self.events = folder / "out", folder / "program", []
        self.program.write_text("#!/bin/sh\n" + script.format(out=self.out) + "\n")
        self.program.chmod(0o700)
        self.bell = Bell([str(self.program), *arguments], self.events.append, **{"apart": 0.0, **options})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bell.close()

    def outcomes(self, count):
        wait_for(lambda: len(self.events) >= count, what=f"{count} outcomes")
        return [event.outcome for event in self.events]

    @property
    def calls(self):
        return [call.split("\n")[:-1] for call in self.out.read_text().split("--\n")[:-1]]


def propose(curator, clock, study, name="ann", purpose="a test"):
    learner = Learner(curator, name, clock=clock, study=study)
    learner.session.propose(plan_of(30), purpose, clock())
    return learner, learner.ask()


def test_the_command_gets_its_own_arguments_and_the_study_and_no_shell_reads_them(tmp_path):
    with Rung(tmp_path, NOTED, "a study; touch $HOME/x", "$(id)") as rung:
        rung.bell.ring(STUDY)
        assert rung.outcomes(1) == ["told"]
    assert rung.calls == [["a study; touch $HOME/x", "$(id)", STUDY.hex()]]
    (event,) = rung.events
    assert (event.study, event.status) == (STUDY.hex(), 0)


def test_nothing_of_the_environment_but_five_names_is_handed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPRIL_LEDGER", "postgresql://curator:password@h/d")
    with Rung(tmp_path, "env > {out}; pwd >> {out}") as rung:
        rung.bell.ring(STUDY)
        assert rung.outcomes(1) == ["told"]
    *lines, where = rung.out.read_text().splitlines()
    assert {line.split("=")[0] for line in lines} <= {*KEPT, "PWD", "OLDPWD", "SHLVL", "_"}  # the last are the shell's
    assert "password" not in rung.out.read_text()
    assert where == "/"


def test_nothing_that_a_learner_wrote_reaches_the_command(tmp_path, clock):
    evil = f"'; touch {tmp_path / 'evil'}; $(touch {tmp_path / 'evil'})\n--all"
    curator = open_curator(rules=RULES, clock=clock)
    with Rung(tmp_path, 'printf "%s\\n" "$@" >> {out}; env >> {out}; echo -- >> {out}') as rung:
        curator.waits = rung.bell.ring
        _, reply = propose(curator, clock, b"; touch evil", purpose=evil)
        assert reply.code == RefusalCode.AWAITING_APPROVAL
        assert rung.outcomes(1) == ["told"]
    assert "touch" not in rung.out.read_text()
    assert rung.calls[0][0] == b"; touch evil".ljust(16, b"-").hex()
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("script", "outcome", "status"),
    [("exit 3", "failed", 3), ("kill -9 $$", "failed", -9), ("sleep 600", "too_long", -9)],
)
def test_what_goes_wrong_is_one_event(tmp_path, script, outcome, status):
    with Rung(tmp_path, script, longest=0.3) as rung:
        rung.bell.ring(STUDY)
        rung.outcomes(1)
    assert [(event.outcome, event.status) for event in rung.events] == [(outcome, status)]


def test_what_a_stopped_command_started_is_stopped_with_it(tmp_path):
    with Rung(tmp_path, "echo $$ > {out}; sleep 600 & echo $! >> {out}; wait", longest=0.5) as rung:
        rung.bell.ring(STUDY)
        assert rung.outcomes(1) == ["too_long"]
    for process in rung.out.read_text().split():
        wait_for(lambda process=process: not alive(int(process)), what="the end of what it started")


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - not a file of ours
            return file.read().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("program", ["absent", "folder", "no program"])
def test_a_command_that_cannot_be_run_is_told_and_costs_no_request(tmp_path, program):
    path = tmp_path / program
    if program == "folder":
        path.mkdir()
    if program == "no program":
        path.write_text("neither a script nor a binary")
        path.chmod(0o700)
    events, clock = [], Clock()
    bell = Bell([str(path)], events.append)
    curator = open_curator(rules=RULES, clock=clock)
    curator.waits = bell.ring
    assert propose(curator, clock, b"s")[1].code == RefusalCode.AWAITING_APPROVAL
    wait_for(lambda: events)
    bell.close()
    assert [event.outcome for event in events] == ["not_run"]


def test_a_request_does_not_wait_for_a_command_that_hangs_and_its_end_stops_it(tmp_path, clock):
    curator = open_curator(rules=RULES, clock=clock)
    with Rung(tmp_path, "echo $$ > {out}; exec sleep 600") as rung:
        curator.waits = rung.bell.ring
        before = time.monotonic()
        for study in (b"1", b"2", b"3"):
            assert propose(curator, clock, study)[1].code == RefusalCode.AWAITING_APPROVAL
        assert time.monotonic() - before < 60
        wait_for(rung.out.exists)
    assert [event.outcome for event in rung.events] == ["dropped"] * 3
    assert not alive(int(rung.out.read_text()))


def test_however_much_waits_the_command_runs_seldom_and_what_is_too_much_is_dropped(tmp_path):
    with Rung(tmp_path, apart=0.2) as rung:
        begun = time.monotonic()
        for number in range(200):
            rung.bell.ring(number.to_bytes(16))
        wait_for(lambda: sum(event.outcome == "told" for event in rung.events) >= 3)
        assert time.monotonic() - begun >= 2 * 0.2
        assert sum(event.outcome == "dropped" for event in rung.events) >= 200 - 101
    runs = [event for event in rung.events if event.outcome == "told"]
    assert len(rung.calls) == len(runs) <= 1 + (time.monotonic() - begun) / 0.2
    assert len(rung.events) == 200


def test_without_a_command_nothing_runs_and_nothing_is_told():
    events = []
    bell = Bell((), events.append)
    bell.ring(STUDY)
    bell.close()
    assert events == []


# --- which studies ------------------------------------------------------------------------------------------


def test_a_study_is_told_once_by_whichever_of_several_processes_saw_it_first(store, clock):
    """However often its learner asks, and whomever: only the process whose row it became tells it."""
    curators = [open_curator(store, rules=RULES, clock=clock) for _ in range(3)]
    studies = []
    for curator in curators:
        curator.waits = studies.append
    for number, study in enumerate((b"1", b"2", b"3")):
        learner, _ = propose(curators[number], clock, study)
        for curator in curators * 5:
            learner.curator = curator
            assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    assert studies == [study.ljust(16, b"-") for study in (b"1", b"2", b"3")]
    assert propose(curators[0], clock, b"4")[1].code == RefusalCode.TOO_MANY_REQUESTS
    assert len(studies) == 3


def test_what_is_refused_or_accepted_or_not_kept_is_told_to_nobody(clock):
    class Away(MemoryStore):
        def hold(self, proposal, now):
            raise LedgerUnavailableError("away")

    for rules, study, inner in ((RULES, b"1", Away()), (policy(), b"2", MemoryStore())):
        studies = []
        curator = open_curator(inner, rules=rules, clock=clock)
        curator.waits = studies.append
        propose(curator, clock, study)
        assert studies == []


def test_how_many_wait_is_what_nobody_has_decided_on_and_is_not_too_old(store, clock):
    curator = open_curator(store, rules=RULES, clock=clock)
    site = Site(curator, curator._ledger, _clock=clock)
    assert site.waiting() == 0
    for study in (b"1", b"2"):
        propose(curator, clock, study)
    assert site.waiting() == 2
    ledger, first = ledger_over(store), store.pending(clock())[0]
    study = StudyKey(first.learner, b"1".ljust(16, b"-"))
    ledger.decide_on(study, first.request, clock(), approve=False, cost=Fraction(1), until=0)
    assert site.waiting() == 1
    clock.advance(RULES.approval_seconds)
    assert site.waiting() == 0
