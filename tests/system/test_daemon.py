"""A curator's daemon as a process, over TLS, at a real SuperLink: what it answers, and what it never does."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from fractions import Fraction

import msgspec
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from curator_fakes import ROWS, Learner, frame_of, key, mass_body, plan_of, policy
from curator_node.client_app import NOT_SERVED
from curator_node.site import POLICY
from curator_node.steward.desk import read_status
from deployed import Daemon, Remote, Run, app_bundle, ledger_of, make_site, now, toml
from protocol.carriage import FIELD, MESSAGE_TYPE, RECORD
from protocol.messages import Card, Refusal, Release, StudyAccepted, StudyClosed
from simulations.carriers.superlink import SuperLink
from waiting import wait_for

CANARY = "canary-7f3a-0b1c"
GENTLE = policy(cap=10)


@pytest.fixture(scope="module")
def ward(tmp_path_factory, superlink):
    """A daemon that several tests ask, each in a study of its own; a canary stands among its records."""
    frame = frame_of([(CANARY, *row[1:]) for row in ROWS])
    folder = make_site(tmp_path_factory.mktemp("wards") / "ward", superlink, frame=frame, rules=GENTLE)
    with Daemon(folder) as running:
        yield running


@pytest.fixture
def own(tmp_path, superlink):
    """A daemon that a test may stop."""
    with Daemon(make_site(tmp_path / "ward", superlink, rules=GENTLE)) as running:
        yield running


@pytest.fixture(scope="module")
def run(superlink):
    with Run(superlink) as running:
        yield running


def learner_at(run, daemon, study=b""):
    return Learner(Remote(run, daemon.node, daemon.identity), clock=now, study=study)


# --- what it answers --------------------------------------------------------------------------------------


def test_a_study_over_tls_from_card_to_close(ward, run):
    learner, before = learner_at(run, ward, b"card to close"), len(ward.events)
    assert isinstance(learner.card(), Card)
    assert isinstance(learner.propose(plan_of(30, 30)), StudyAccepted)
    assert isinstance(learner.query(), Release)
    assert isinstance(learner.query(), Release)
    assert isinstance(learner.close(), StudyClosed)
    told = [each for each in ward.events[before:] if each["event"] == "request"]
    assert [each["reply"] for each in told] == ["card", "study_accepted", "release", "release", "study_closed"]
    assert [each["epsilon"] for each in told] == ["", "1/15", "1/30", "1/30", "0"]
    assert {each["learner"] for each in told} == {"ann"}


def test_what_is_no_request_of_ours_is_answered_by_an_error_without_text(ward, run):
    def ours():
        """Flower may lose an object that is on its way twice."""
        return RecordDict({RECORD: ConfigRecord({FIELD: secrets.token_bytes(8)})})

    array = RecordDict({RECORD: ArrayRecord({FIELD: Array("uint8", (1,), "numpy.ndarray", b"x")})})
    many = RecordDict({f"r{number}": ConfigRecord({"x": number}) for number in range(20)})
    odd = [
        (ours(), "query.sql"),
        (ours(), "query"),
        (ours(), "train"),
        (ours(), "evaluate"),
        (RecordDict(), MESSAGE_TYPE),
        (RecordDict({RECORD: ConfigRecord({FIELD: "text"})}), MESSAGE_TYPE),
        (RecordDict({"other": ConfigRecord({FIELD: b"x"})}), MESSAGE_TYPE),
        (array, MESSAGE_TYPE),
        (many, MESSAGE_TYPE),
    ]
    for content, kind in odd:
        reply = run.pull(run.push(ward.node, content, kind))
        assert reply.has_error(), (kind, content)
        assert (reply.error.code, reply.error.reason or "") == (NOT_SERVED, "")
    reply = run.pull(run.push(ward.node, ours(), MESSAGE_TYPE))
    assert not reply.has_error(), "junk in an envelope's place gets a signed refusal"


def test_health_says_what_it_may_and_neither_page_nor_log_holds_anything_of_a_record(ward, run):
    learner = learner_at(run, ward, b"health")
    learner.card()
    learner.propose(plan_of(30))
    assert isinstance(learner.query(), Release)
    assert ward.ask("/health") == (200, {"healthy": True})
    code, told = ward.ask("/status")
    assert code == 200
    assert told["budget"]["learners"]["ann"]["cap"] == "10"
    assert told["requests"]["query"] >= 1
    assert told["node"] == ward.node
    assert told["in_hand"] == 0
    assert told["data_version"]
    assert CANARY not in f"{told}"
    assert CANARY not in ward.log.read_text()


@pytest.mark.slow
def test_status_asks_the_daemon_and_reads_the_ledger_where_none_runs(own):
    command = [sys.executable, "-m", "expril", "curator", "status", str(own.folder), "--json"]
    running = subprocess.run(command, capture_output=True, check=False, text=True)
    assert running.returncode == 0
    assert msgspec.json.decode(running.stdout)["running"]
    own.stop()
    resting = subprocess.run(command, capture_output=True, check=False, text=True)
    assert resting.returncode == 1
    told = msgspec.json.decode(resting.stdout)
    assert not told["running"]
    assert told["budget"]["learners"]["ann"]["cap"] == "10"


# --- it changes, stops and comes back ---------------------------------------------------------------------


@pytest.mark.slow
def test_the_steward_s_own_command_is_run_once_for_a_study_that_waits(tmp_path, superlink, run):
    said, program = tmp_path / "said", tmp_path / "tell"
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    program.chmod(0o700)
    rules = msgspec.structs.replace(GENTLE, approval="manual")
    folder = make_site(tmp_path / "ward", superlink, rules=rules, waiting_command=[str(program), "ward 3"])
    with Daemon(folder) as running:
        learner = learner_at(run, running, b"waits")
        learner.card()
        for reply in (learner.propose(plan_of(30)), learner.ask(), learner.ask()):
            assert reply.code == "awaiting_approval"
        study = learner.session.study.hex()
        assert running.wait_for("steward_told")["study"] == study
        assert running.ask("/status")[1]["waiting"] == 1
        assert running.stop() == 0
        assert sum(each["event"] == "steward_told" for each in running.events) == 1
    assert said.read_text() == f"ward 3 {study}\n"
    assert read_status(folder)["waiting"] == 1


@pytest.mark.slow
def test_the_steward_s_changes_are_served_without_a_restart(own, run):
    learner_at(run, own).card()
    place = own.folder / POLICY
    place.write_text(toml(msgspec.structs.replace(GENTLE, name="renamed")))
    own.wait_for("policy_adopted")
    assert learner_at(run, own).card().name == "renamed"
    place.write_text("cap = ")
    assert "policy.toml" in own.wait_for("policy_refused")["reason"]
    assert learner_at(run, own).card().name == "renamed"
    place.write_text(toml(msgspec.structs.replace(GENTLE, learners=())))
    own.process.send_signal(signal.SIGHUP)
    own.wait_for("policy_adopted", learners=0)
    assert learner_at(run, own).card().code == "unknown_sender"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_is_stopped_leaves_cleanly_and_comes_back_at_once(own, run, superlink, how):
    node, before = own.node, len(own.events)
    assert own.stop(how) == 0
    assert [each["event"] for each in own.events[before:]] == ["stopping", "stopped"]
    assert superlink.nodes()[node] == "offline"
    before = len(own.events)
    own.start()
    assert own.node == node
    assert not [each for each in own.events[before:] if each["event"] == "disconnected"]
    assert isinstance(learner_at(run, own).card(), Card)


@pytest.mark.processes
def test_after_a_kill_the_stored_answer_comes_back_and_nothing_more_is_charged(own, run):
    learner = learner_at(run, own)
    learner.propose(plan_of(30, 30))
    learner.session.query("counts", mass_body(), now())
    request = learner.session.pending
    first = learner.curator.handle(request)
    own.kill()
    own.start()
    assert not [each for each in own.events if each["event"] == "disconnected"], (
        "its successor goes on as the same node"
    )
    assert learner.curator.handle(request) == first
    assert isinstance(learner.session.receive(first), Release)
    assert isinstance(learner.query(), Release)
    assert isinstance(learner.close(), StudyClosed)
    assert own.stop() == 0
    assert own.events[-1]["event"] == "stopped"
    assert own.events[-1]["unfinished"] == 0
    assert ledger_of(own.folder).account.spent == {key("ann").public: Fraction(1, 15)}


@pytest.mark.slow
def test_a_successor_that_does_not_know_the_node_s_number_waits_until_the_superlink_gives_it_up(own):
    own.kill()
    (own.folder / "node.id").unlink()
    before = len(own.events)
    own.start()
    told = [each["event"] for each in own.events[before:]]
    assert "disconnected" in told
    assert own.wait_for("disconnected", after=before)["reason"] == "not_let_in"


@pytest.mark.slow
def test_two_daemons_never_serve_from_one_mark(own):
    second = Daemon(own.folder)
    second.log = own.folder.parent / "second.log"
    second.start(connected=False)
    assert second.process.wait(120) == 2
    assert "is held by another process" in second.log.read_text()
    assert own.ask("/health")[0] == 200


# --- the SuperLink goes and comes back --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("durable", [True, False])
def test_a_study_goes_on_after_the_superlink_was_restarted(tmp_path, durable):
    link = SuperLink(tmp_path / "link", durable=durable)
    with link, Daemon(make_site(tmp_path / "ward", link, rules=GENTLE)) as daemon:
        with Run(link) as run:
            learner = learner_at(run, daemon)
            learner.propose(plan_of(30, 30))
            assert isinstance(learner.query(), Release)
            session = learner.session
        link.kill()
        daemon.wait_for("disconnected", reason="unreachable")
        assert daemon.ask("/health")[0] == 503
        before = len(daemon.events)
        link.start()
        if not durable:
            daemon.wait_for("disconnected", after=before, reason="not_let_in")
            link.register(daemon.folder / "node.pub")
        daemon.wait_for("connected", after=before)
        with Run(link) as run:
            learner = learner_at(run, daemon)
            learner.session = session
            assert isinstance(learner.query(), Release)
            assert isinstance(learner.close(), StudyClosed)
        assert daemon.stop() == 0
    assert ledger_of(daemon.folder).account.spent == {key("ann").public: Fraction(1, 15)}


@pytest.mark.slow
def test_a_daemon_waits_for_a_superlink_that_is_not_there_yet_and_stops_when_told(tmp_path, superlink):
    folder = make_site(tmp_path / "ward", superlink, rules=GENTLE)
    text = (folder / "daemon.toml").read_text().replace(superlink.address, "127.0.0.1:9")
    (folder / "daemon.toml").write_text(text)
    daemon = Daemon(folder)
    try:
        daemon.start(connected=False)
        assert daemon.wait_for("disconnected")["reason"] == "unreachable"
        assert daemon.ask("/health")[0] == 503
        assert daemon.stop() == 0
    finally:
        daemon.kill()


@pytest.mark.slow
def test_a_superlink_under_another_authority_is_not_spoken_to(tmp_path, superlink):
    folder = make_site(tmp_path / "ward", superlink, rules=GENTLE)
    other = SuperLink(tmp_path / "other")
    shutil.copy(other.ca, folder / "ca.crt")
    daemon = Daemon(folder)
    try:
        daemon.start(connected=False)
        assert daemon.wait_for("disconnected") | {"time": ""} == {
            "event": "disconnected",
            "time": "",
            "reason": "unreachable",
            "status": 0,
            "kind": "ConnectError",
        }
    finally:
        daemon.kill()


# --- what it never does -----------------------------------------------------------------------------------

HOSTILE = """
from pathlib import Path
Path({marker!r}).write_text("executed")
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
server, client = ServerApp(), ClientApp()
def leak(message, context):
    return Message(RecordDict({{"x": ConfigRecord({{"x": Path({secret!r}).read_text()}})}}), reply_to=message)
client.train()(leak), client.evaluate()(leak), client.query()(leak), client.query("expril")(leak)
"""


@pytest.mark.slow
def test_an_app_that_somebody_ships_is_not_executed_and_leaks_nothing(tmp_path):
    """It would write a file when it is loaded, and read the canary when it is asked."""
    secret, marker = tmp_path / "patients.csv", tmp_path / "executed"
    secret.write_text(CANARY)
    code = HOSTILE.format(secret=str(secret), marker=str(marker))
    link = SuperLink(tmp_path / "link", durable=True)
    frame = frame_of([(CANARY, *row[1:]) for row in ROWS])
    with link, Daemon(make_site(tmp_path / "ward", link, frame=frame, rules=GENTLE)) as daemon:
        with Run(link, app_bundle(code)) as run:
            replies = []
            for kind in ("train", "evaluate", "query", MESSAGE_TYPE):
                content = RecordDict({RECORD: ConfigRecord({FIELD: kind.encode()})})
                replies.append(run.pull(run.push(daemon.node, content, kind)))
            learner = learner_at(run, daemon)
            learner.propose(plan_of(30))
            assert isinstance(learner.query(), Release), "the run's own studies go on"
            told = [str(reply.error) if reply.has_error() else str(reply.content) for reply in replies]
        assert [reply.has_error() for reply in replies] == [True, True, True, False]
        daemon.stop()
    assert not marker.exists()
    assert CANARY not in "".join(told)
    stored = [path for path in (tmp_path / "link").rglob("*") if path.is_file()]
    assert link.database in stored
    for path in (*stored, daemon.log):
        assert CANARY.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_the_hostile_app_would_leak_where_it_ran(tmp_path):
    """Power: a node that loads what it is shipped would be noticed."""
    secret, marker = tmp_path / "patients.csv", tmp_path / "executed"
    (tmp_path / "shipped.py").write_text(HOSTILE.format(secret=str(secret), marker=str(marker)))
    env = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0"}
    subprocess.run([sys.executable, "-c", "import shipped"], cwd=tmp_path, env=env, check=True)
    assert marker.exists()


@pytest.mark.slow
def test_a_message_of_300_megabytes_is_refused_before_it_is_held(own, run):
    learner_at(run, own).card()
    before = own.memory()
    long = RecordDict({RECORD: ConfigRecord({FIELD: bytes(300 * 2**20)})})
    reply = run.pull(run.push(own.node, long, ttl=600.0), seconds=600)
    assert (reply.error.code, reply.error.reason or "") == (NOT_SERVED, "")
    assert own.wait_for("unserved")["reason"] == "too_large"
    assert own.memory() - before < 60
    assert isinstance(learner_at(run, own).card(), Card)


@pytest.mark.slow
def test_messages_whose_parts_never_come_hold_nobody_up(ward, run, monkeypatch):
    """More than there are threads: the SuperLink has the names of their parts, and nothing else."""
    monkeypatch.setattr("flwr.superlink.grid.http_grid.push_objects", lambda *_, **__: None)
    content = RecordDict({RECORD: ConfigRecord({FIELD: b"x"})})
    pushed = [run.push(ward.node, content) for _ in range(8)]
    monkeypatch.undo()
    assert isinstance(learner_at(run, ward, b"others").card(), Card)
    assert not list(run.grid.pull_messages(pushed)), "they are still waited for"


@pytest.mark.slow
def test_a_refusal_is_counted(ward, run):
    assert isinstance(learner_at(run, ward, b"refused").propose(plan_of("1/20")), Refusal)
    assert wait_for(lambda: ward.ask("/status")[1]["refusals"].get("over_budget"))
