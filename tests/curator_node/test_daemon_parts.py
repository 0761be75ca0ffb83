"""The parts of a daemon that need no SuperLink: its settings, its log, its health page, its node's number."""

import http.client
import io
import json
import logging
import os
import signal
import socket
import threading
import typing

import msgspec
import pytest

from curator_fakes import Clock, Learner, mass_body, open_curator, opened, policy
from curator_node.budgets import standing_of
from curator_node.daemon import log as log_module
from curator_node.daemon.health import HealthPage, Status, Watch, describe
from curator_node.daemon.log import Event, Log, Note, Request, take_over
from curator_node.daemon.process import Signals, notify
from curator_node.daemon.service import PolicyFiles
from curator_node.daemon.settings import DAEMON, DaemonSettings, ledger_of, read_settings
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError
from protocol.refusals import RefusalCode
from simulations.carriers.superlink import free_port

CANARY = "canary-7f3a"


# --- settings ---------------------------------------------------------------------------------------------


def settings(folder, text):
    (folder / DAEMON).write_text(text)
    return read_settings(folder)


def test_a_daemon_file_with_its_defaults(tmp_path):
    read = settings(tmp_path, 'superlink = "link.example.org:8000"\nca = "ca.crt"')
    assert read == DaemonSettings(superlink="link.example.org:8000", ca="ca.crt")
    assert ledger_of(read) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('superlink = "link:8000"', "ca is missing"),
        ('superlink = "link:8000"\ninsecure = true', "for a SuperLink on this machine"),
        ('superlink = "127.0.0.1:8000"\ninsecure = true\nca = "x"', "exclude each other"),
        ('superlink = "link"\nca = "x"', "host:port"),
        ('superlink = "link:99999"\nca = "x"', "host:port"),
        ('superlink = "https://link:8000"\nca = "x"', "host:port"),
        ('superlnk = "link:8000"\nca = "x"', "did you mean 'superlink'"),
        ('superlink = "link:8000"\nca = "x"\nledger = "postgresql://h/d"', "needs a mark"),
        ('superlink = "link:8000"\nca = "x"\nledger = "a"\nledger_env = "B"\nmark = "m"', "exclude each other"),
        ('superlink = "link:8000"\nca = "x"\nworkers = 0', "workers"),
        ('superlink = "link:8000"\nca = "x"\nwaiting_command = ["tell"]', "absolute path"),
        ('superlink = "link:8000"\nca = "x"\nwaiting_command = "/bin/tell"', "waiting_command"),
        ('superlink = "link:8000"\nca = "x"\nwaiting_command = ["/bin/tell", "a\\u0000b"]', "waiting_command"),
    ],
)
def test_what_a_daemon_file_may_not_say_is_named(tmp_path, text, complaint):
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        settings(tmp_path, text)
    assert DAEMON in str(caught.value)


def test_insecure_is_for_this_machine(tmp_path):
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert settings(tmp_path, f'superlink = "{host}:8000"\ninsecure = true').insecure


def test_the_command_line_wins(tmp_path):
    (tmp_path / DAEMON).write_text('superlink = "127.0.0.1:8000"\ninsecure = true')
    read = read_settings(tmp_path, {"superlink": "link:1", "ca": "/ca", "health_port": None})
    assert (read.superlink, read.ca, read.insecure, read.health_port) == ("link:1", "/ca", False, 9090)


def test_a_ledger_s_url_may_stand_in_the_environment(tmp_path):
    read = settings(tmp_path, 'superlink = "link:8000"\nca = "x"\nledger_env = "LEDGER"\nmark = "m"')
    assert ledger_of(read, {"LEDGER": "postgresql://h/d"}) == "postgresql://h/d"
    with pytest.raises(ConfigurationError, match="LEDGER is not set"):
        ledger_of(read, {})


# --- log --------------------------------------------------------------------------------------------------

WORDS = {
    "time", "curator", "name", "superlink", "health_port", "entry", "warnings", "node", "reason", "status", "kind",
    "type", "reply", "learner", "key", "study", "sequence", "digest", "code", "epsilon", "learners", "halted",
    "available", "signal", "in_hand", "unfinished", "logger", "text", "thread", "outcome",
}  # fmt: skip
"""Every field that an event may have. Read its documentation before you add one: nothing of a record may be in it."""


def events():
    classes, bases = [], [Event]
    while bases:
        for subclass in bases.pop().__subclasses__():
            classes.append(subclass)
            bases.append(subclass)
    return classes


@pytest.mark.parametrize("event", events(), ids=lambda event: event.__name__)
def test_an_event_has_known_fields_of_plain_types(event):
    """No number but whole ones: a share, a mean or a duration could tell of records."""
    plain = {str, int, bool}
    for field in msgspec.structs.fields(event):
        assert field.name in WORDS
        types = typing.get_args(field.type) or (field.type,)
        assert all(
            kind in plain or isinstance(kind, str) or typing.get_origin(kind) or kind is RefusalCode for kind in types
        )


def written(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_is_told_without_anything_of_an_answer():
    clock, stream = Clock(), io.StringIO()
    curator = open_curator(rules=policy())
    watch = Watch(Log(stream, clock), clock)

    class Watched:
        identity = curator.identity
        handle = staticmethod(watch.watched(curator.handle, lambda: curator.policy, LABEL))

    learner = opened(Watched, clock=clock)
    clock.now += 5  # as if the count took long
    learner.query()
    stranger = Learner(Watched, "stranger", clock=clock)
    stranger.card()
    Watched.handle(b"junk")
    lines = written(stream)
    assert [line["reply"] for line in lines] == ["study_accepted", "release", "refusal", "refusal"]
    assert [line["code"] for line in lines] == ["", "", "unknown_sender", "malformed"]
    assert [line["learner"] for line in lines] == ["ann", "ann", "", ""]
    assert lines[3]["type"] == "unreadable"
    assert lines[2]["key"] == lines[2]["digest"] == ""
    assert watch.requests == {"study_proposal": 1, "query": 1, "card_request": 1, "unreadable": 1}
    assert watch.releases == 1
    assert watch.refusals == {"unknown_sender": 1, "malformed": 1}
    assert set().union(*lines) == {"event", *msgspec.structs.asdict(Request(type="", reply=""))}


def test_an_answered_request_is_stamped_with_the_second_in_which_it_came():
    """When the count ended may depend on the records."""
    clock, stream = Clock(), io.StringIO()
    curator = open_curator(rules=policy())
    watch = Watch(Log(stream, clock), clock)

    def slow(data):
        reply = curator.handle(data)
        clock.now += 100
        return reply

    class Watched:
        identity = curator.identity
        handle = staticmethod(watch.watched(slow, lambda: curator.policy, LABEL))

    received_at = clock()
    Learner(Watched, clock=clock).card()
    assert written(stream)[0]["time"] == Log.stamp(received_at)


def test_a_fault_of_the_watch_never_costs_a_reply():
    stream = io.StringIO()
    watch = Watch(Log(stream), Clock())

    def broken():
        raise ValueError(CANARY)

    handle = watch.watched(open_curator(rules=policy()).handle, broken, LABEL)
    assert handle(b"junk")
    assert written(stream)[0]["kind"] == "ValueError"
    assert CANARY not in stream.getvalue()


@pytest.fixture
def logging_as_before():
    root, flower = logging.getLogger(), logging.getLogger("flwr")
    settings_before = root.handlers[:], root.level, flower.handlers[:], flower.propagate, logging.raiseExceptions
    hooks = threading.excepthook, log_module.sys.excepthook, log_module.sys.unraisablehook
    yield
    root.handlers[:], root.level, flower.handlers[:], flower.propagate, logging.raiseExceptions = settings_before
    threading.excepthook, log_module.sys.excepthook, log_module.sys.unraisablehook = hooks


def test_no_text_of_an_error_and_no_line_of_a_library_reaches_the_log(logging_as_before):
    stream = io.StringIO()
    take_over(Log(stream))
    logging.getLogger("flwr.x").error(CANARY)
    logging.getLogger("sqlalchemy").error("%s", CANARY)
    logging.getLogger("curator_node.curator").error("a request could not be served: %s", f"{CANARY} 17.5")
    logging.getLogger("curator_node.curator").error("a request could not be served: %s", "ValueError")
    thread = threading.Thread(target=lambda: int("no"), name="taker_0")
    thread.start()
    thread.join()
    log_module.sys.excepthook(ValueError, ValueError(CANARY), None)
    lines = written(stream)
    assert [line["event"] for line in lines] == ["note", "note", "fault", "fault"]
    assert lines[0]["text"] == "a request could not be served: %s"
    assert lines[1]["text"] == "a request could not be served: ValueError"
    assert (lines[2]["kind"], lines[2]["thread"]) == ("ValueError", "taker_0")
    assert CANARY not in stream.getvalue()


def test_a_log_that_nobody_reads_stops_nothing():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        Log(stream).write(Note(logger="x", text="y"))
        Log(stream).write(Note(logger="x", text="y"))
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# --- health -----------------------------------------------------------------------------------------------


def status(**changes):
    curator = open_curator(rules=policy())
    fields = {
        "curator": "c",
        "name": "basel",
        "superlink": "127.0.0.1:1",
        "node": 1,
        "serving_since": 1,
        "connected_since": 1,
        "requests": {},
        "releases": 0,
        "refusals": {},
        "unserved": {},
        "in_hand": 0,
        "ledger_available": True,
        "waiting": 2,
        "data_version": "",
        "budget": standing_of(curator._ledger.account, curator.policy),
    }
    return Status(**{**fields, **changes})


def fetched(port, page, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", page, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_health_page_is_for_this_machine_and_says_what_it_may():
    port, now = free_port(), [status()]
    page = HealthPage(port, lambda: now[0])
    try:
        assert fetched(port, "/health") == (200, {"healthy": True})
        now[0] = status(connected_since=0)
        assert fetched(port, "/health")[0] == 503
        now[0] = status(budget=None)
        assert fetched(port, "/health")[0] == 503
        now[0] = status(budget=msgspec.structs.replace(status().budget, halted=True))
        assert fetched(port, "/health")[0] == 503
        content = fetched(port, "/status")[1]
        assert content["waiting"] == 2
        assert content["budget"]["learners"]["ann"] == {
            "cap": "1",
            "spent": "0",
            "reserved": "0",
            "left": "1",
            "integral": "0",
        }
        assert fetched(port, "/")[0] == 404
        assert fetched(port, "/status", host="evil.example")[0] == 403
        with pytest.raises(ConfigurationError, match="health_port"):
            HealthPage(port, lambda: now[0])
    finally:
        page.close()


# --- files, signals, systemd ------------------------------------------------------------------------------


def test_a_change_of_the_steward_s_files_is_noticed(tmp_path):
    (tmp_path / "policy.toml").write_text("name = 'a'\ncap = 1\n")
    files = PolicyFiles(tmp_path)
    assert not files.changed()
    (tmp_path / "policy.toml").write_text("name = 'b'\ncap = 2\n")
    assert files.changed()
    assert not files.changed()
    (tmp_path / "learners").mkdir()
    (tmp_path / "learners" / "ann.toml").write_text("x")
    assert files.changed()
    (tmp_path / "learners" / "ann.toml").unlink()
    assert files.changed()


def test_signals_end_a_wait_and_are_not_lost():
    with Signals() as signals:
        assert not signals.wait(0)
        os.kill(os.getpid(), signal.SIGHUP)
        assert not signals.wait(60)
        assert signals.hung_up()
        assert not signals.hung_up()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(60)
        assert signals.stopped_by == signal.SIGTERM
        assert signals.wait(60)


def test_systemd_is_told_where_it_asks(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1")
        assert server.recv(100) == b"READY=1"
    notify("STOPPING=1")  # nobody listens any more
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_what_is_said_of_a_request_holds_no_byte_of_its_answer(clock):
    """Power: the description of a release is the same whatever its noise."""
    descriptions = []
    for _ in range(2):
        curator = open_curator(rules=policy(), clock=clock)
        learner = opened(curator, clock=clock)
        learner.session.query("counts", mass_body(), clock())
        request = learner.session.pending
        descriptions.append(describe(request, curator.handle(request), curator.policy, LABEL))
    assert descriptions[0] == msgspec.structs.replace(descriptions[1], digest=descriptions[0].digest)
