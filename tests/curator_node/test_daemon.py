"""The daemon: its loop against a SuperLink that does what a test wants, its parts, and the steward's command."""

import http.client
import io
import json
import logging
import os
import signal
import socket
import threading
import time
import typing
from collections import deque
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import pytest

from curator_fakes import Clock, Learner, ledger_over, mass_body, open_curator, opened, plan_of, policy
from curator_node.budgets import standing_of
from curator_node.daemon import log as log_module
from curator_node.daemon import service as service_module
from curator_node.daemon.calls import GoneError, NotLetInError, SuperLinkDownError, TooLargeError
from curator_node.daemon.fleet import Parcel
from curator_node.daemon.health import HealthPage, Status, Watch, describe
from curator_node.daemon.log import Event, Log, Note, Request, take_over
from curator_node.daemon.process import KEPT, Bell, Signals, notify
from curator_node.daemon.service import PolicyFiles, Service
from curator_node.daemon.settings import DAEMON, DaemonSettings, ledger_of, read_settings
from curator_node.ledger import StudyKey
from curator_node.ledger.store import LedgerUnavailableError, MemoryStore
from curator_node.site import Site
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError
from protocol.refusals import RefusalCode
from simulations.carriers.superlink import free_port
from waiting import wait_for

SETTINGS = DaemonSettings(
    superlink="127.0.0.1:1", insecure=True, busy_seconds=0.001, idle_seconds=0.001, workers=2, stop_seconds=20
)


class Tree:
    def __init__(self, name):
        self.object_id, self.children = name, ()


class Sent(Parcel):
    """A message whose content is bytes."""

    def __init__(self, data, name="m"):
        super().__init__(Tree(name), None, time.time() + 600)
        self.data = data

    @property
    def payload(self):
        return self.data


class FakeFleet:
    """A SuperLink and the node at it."""

    def __init__(self, handle):
        self.handle = handle
        self.most_bytes, self.node = 2**20, 0
        self.queue, self.sent = deque(), []
        self.faults = {}
        self.calls, self.left = [], False

    def _may(self, call, parcel=None):
        self.calls.append(call)
        fault = self.faults.get(call) or self.faults.get((call, id(parcel)))
        if fault is not None:
            raise fault

    def enter(self, last=0):
        self._may("enter")
        self.node = 7
        return 7

    def beat(self):
        self._may("beat")

    def pull(self):
        self._may("pull")
        return self.queue.popleft() if self.queue else None

    def fetch(self, parcel):
        self._may("fetch", parcel)
        if getattr(parcel, "lacking", False):
            return False
        parcel.size = len(parcel.data)
        return True

    def app_reply(self, parcel):
        return self.handle(parcel.data)

    def error_reply(self, parcel):
        return None

    def send(self, parcel, reply, *, patience):
        assert patience()
        self._may("send", parcel)
        self.sent.append((parcel, reply))

    def leave(self):
        self.left = True

    def reply_to(self, parcel):
        return wait_for(lambda: next((message for message in self.sent if message[0] is parcel), None))[1]


class ToldLog:
    def __init__(self):
        self.events: list[Event] = []

    def tell(self, event):
        self.events.append(event)

    def of(self, kind):
        return [event for event in self.events if event.__struct_config__.tag == kind]


class FakeSite:
    """What the loop asks of a site."""

    def __init__(self):
        self.clock = Clock()
        self.curator = open_curator(rules=policy(), clock=self.clock)
        self.ledger = self.curator._ledger
        self.adopted = []

    def adopt(self, rules):
        self.adopted.append(rules)

    def standing(self):
        return standing_of(self.ledger.account, self.curator.policy)


class FakeFiles:
    def __init__(self):
        self.now, self.dirty = policy(), False

    def changed(self):
        dirty, self.dirty = self.dirty, False
        return dirty

    def read(self):
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


class Serving:
    """A service that runs in a thread of the test's."""

    def __init__(self, tmp_path, handle=None):
        self.site, self.told, self.files = FakeSite(), ToldLog(), FakeFiles()
        self.fleet = FakeFleet(handle or self.site.curator.handle)
        self.service = Service(self.site, self.fleet, SETTINGS, self.told, self.files, tmp_path / "node.id")
        self.stop = threading.Event()
        self.hung = threading.Event()
        self.thread = threading.Thread(target=self._run, name="loop")

    def _run(self):
        def hung_up():
            hung = self.hung.is_set()
            self.hung.clear()
            return hung

        self.service.run(lambda seconds: self.stop.wait(min(seconds, 0.01)), hung_up)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.unfinished = self.service.finish()

    def ask(self, data):
        parcel = Sent(data)
        self.fleet.queue.append(parcel)
        return self.fleet.reply_to(parcel)


@pytest.fixture
def serving(tmp_path):
    with Serving(tmp_path) as running:
        yield running


@pytest.fixture
def quick(monkeypatch):
    """Waits of tens of seconds become none."""
    monkeypatch.setattr(service_module, "FILES_SECONDS", 0.0)
    monkeypatch.setattr(service_module, "LEDGER_SECONDS", 0.0)


def pending(site, name="ann", study=b"", ask="card"):
    learner = Learner(site.curator, name, clock=site.clock, study=study)
    learner.session.request_card(site.clock())
    return learner.session.pending


def test_a_card_does_not_wait_for_counts_that_hold_every_counting_thread(tmp_path):
    free = threading.Event()
    serving = Serving(tmp_path)

    def slow(data):
        if b"query" in data[:60]:
            assert free.wait(120)
        return serving.site.curator.handle(data)

    serving.fleet.handle = slow
    learner = opened(serving.site.curator, clock=serving.site.clock)
    learner.session.query("counts", mass_body(), serving.site.clock())
    with serving:
        questions = [Sent(learner.session.pending, f"q{number}") for number in range(5)]
        serving.fleet.queue.extend(questions)
        assert serving.ask(pending(serving.site, "bob"))
        assert not [message for message in serving.fleet.sent if message[0] in questions]
        assert serving.service.in_hand == 5
        free.set()
        for question in questions:
            assert serving.fleet.reply_to(question)
    assert serving.unfinished == 0
    assert serving.fleet.left


def test_no_more_is_fetched_than_fits_in_memory(tmp_path):
    """Questions that wait for a count are held: as many of the longest as there are threads, and no more."""
    free = threading.Event()
    serving = Serving(tmp_path, handle=lambda data: free.wait(120) and b"reply")
    learner = opened(serving.site.curator, clock=serving.site.clock)
    learner.session.query("counts", mass_body(), serving.site.clock())
    question = learner.session.pending
    serving.fleet.most_bytes = len(question)
    with serving:
        flood = [Sent(question, f"m{number}") for number in range(20)]
        serving.fleet.queue.extend(flood)
        wait_for(lambda: serving.service.in_hand == SETTINGS.workers)
        pulls = serving.fleet.calls.count("fetch")
        time.sleep(0.05)  # what would be fetched beyond that would be so by now, on most machines
        assert serving.fleet.calls.count("fetch") <= pulls + SETTINGS.workers
        assert len(serving.fleet.queue) == 20 - SETTINGS.workers
        free.set()
        for parcel in flood:
            assert serving.fleet.reply_to(parcel) == b"reply"


def test_a_message_that_is_too_large_is_declined_and_forgotten(serving):
    parcel = Sent(b"x")
    parcel.objects["part"] = bytes(10)
    serving.fleet.faults["fetch", id(parcel)] = TooLargeError()
    serving.fleet.queue.append(parcel)
    assert serving.fleet.reply_to(parcel) is None
    assert parcel.objects == {}
    assert [event.reason for event in serving.told.of("unserved")] == ["too_large"]


def test_a_message_without_all_its_parts_is_set_aside_and_answered_when_they_came(serving):
    late = Sent(pending(serving.site))
    late.lacking = True
    serving.fleet.queue.append(late)
    wait_for(lambda: serving.fleet.calls.count("fetch") >= 3)
    assert serving.ask(pending(serving.site, "bob"))
    late.lacking = False
    assert serving.fleet.reply_to(late)


def test_a_message_whose_parts_never_come_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(service_module, "ASIDE_SECONDS", 0.05)
    with Serving(tmp_path) as serving:
        never = Sent(b"x")
        never.lacking = True
        serving.fleet.queue.append(never)
        assert serving.fleet.reply_to(never) is None
        assert [event.reason for event in serving.told.of("unserved")] == ["incomplete"]


def test_a_message_of_very_many_parts_is_no_outage(serving):
    wait_for(lambda: serving.service.connected_since)
    serving.fleet.faults["pull"] = TooLargeError()
    wait_for(lambda: len(serving.told.of("unserved")) > 3)
    serving.fleet.faults.clear()
    assert serving.ask(pending(serving.site))
    assert serving.told.of("disconnected") == []


def test_a_message_that_is_gone_is_dropped(serving):
    gone = Sent(b"x")
    serving.fleet.faults["fetch", id(gone)] = GoneError("404")
    serving.fleet.queue.append(gone)
    wait_for(lambda: serving.told.of("unserved"))
    assert serving.told.of("unserved")[0].reason == "gone"
    assert serving.fleet.sent == []


def test_an_outage_is_told_once_and_passes(serving):
    wait_for(lambda: serving.service.connected_since)
    serving.fleet.faults["pull"] = SuperLinkDownError("ConnectError")
    wait_for(lambda: serving.fleet.calls.count("pull") > 5 and not serving.service.connected_since)
    tries = serving.fleet.calls.count("enter")
    wait_for(lambda: serving.fleet.calls.count("enter") > tries + 2)
    assert [event.reason for event in serving.told.of("disconnected")] == ["unreachable"] * len(
        serving.told.of("disconnected")
    )
    serving.fleet.faults.clear()
    wait_for(lambda: serving.service.connected_since)
    assert serving.ask(pending(serving.site))


def test_a_superlink_that_forgot_the_node_is_entered_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(service_module, "HEARTBEAT_SECONDS", 0.0)
    with Serving(tmp_path) as serving:
        wait_for(lambda: serving.service.connected_since)
        entered = serving.fleet.calls.count("enter")
        serving.fleet.faults["beat"] = NotLetInError("HTTPStatusError", 401)
        wait_for(lambda: not serving.service.connected_since)
        serving.fleet.faults.clear()
        wait_for(lambda: serving.fleet.calls.count("enter") > entered and serving.service.connected_since)
        assert serving.told.of("disconnected")[0].reason == "not_let_in"
        assert (tmp_path / "node.id").read_text() == "7\n"


def test_the_loop_outlives_what_nobody_foresaw(serving):
    wait_for(lambda: serving.service.connected_since)
    serving.fleet.faults["pull"] = KeyError("canary")
    wait_for(lambda: serving.told.of("disconnected"))
    assert serving.told.of("disconnected")[0].kind == "KeyError"
    serving.fleet.faults.clear()
    assert serving.ask(pending(serving.site))


def test_a_reply_that_cannot_be_sent_is_told(serving):
    parcel = Sent(pending(serving.site))
    serving.fleet.faults["send", id(parcel)] = SuperLinkDownError("ConnectError")
    serving.fleet.queue.append(parcel)
    wait_for(lambda: [event for event in serving.told.of("unserved") if event.reason == "undelivered"])


def test_changed_files_are_adopted_and_wrong_ones_are_told(quick, serving):
    serving.files.now, serving.files.dirty = policy(("ann",)), True
    wait_for(lambda: serving.told.of("policy_adopted"))
    assert serving.site.adopted == [policy(("ann",))]
    serving.files.now, serving.files.dirty = ConfigurationError("policy.toml: wrong"), True
    wait_for(lambda: serving.told.of("policy_refused"))
    assert serving.told.of("policy_refused")[0].reason == "policy.toml: wrong"
    serving.files.now = policy(("bob",))
    serving.hung.set()
    wait_for(lambda: len(serving.told.of("policy_adopted")) == 2)


def test_files_that_the_ledger_does_not_take_now_are_adopted_once_it_is_back(quick, serving):
    adopt, serving.site.adopt = serving.site.adopt, _unavailable
    serving.hung.set()
    wait_for(lambda: serving.told.of("policy_refused"))
    serving.site.adopt = adopt
    wait_for(lambda: serving.told.of("policy_adopted"))
    assert len(serving.told.of("policy_refused")) == 1


def test_a_ledger_that_halts_goes_or_comes_back_is_told_without_a_request(quick, serving):
    with serving.site.curator.lock:
        serving.site.ledger.halt(serving.site.clock(), "by hand")
    wait_for(lambda: [event for event in serving.told.of("ledger") if event.halted])
    standing, serving.site.standing = serving.site.standing, _away
    wait_for(lambda: [event for event in serving.told.of("ledger") if not event.available])
    serving.site.standing = standing
    wait_for(lambda: serving.told.of("ledger")[-1].available)


def test_what_takes_too_long_is_left_when_told_to_stop(tmp_path, monkeypatch):
    free = threading.Event()
    serving = Serving(tmp_path, handle=lambda data: free.wait(120) and b"reply")
    serving.service._settings = DaemonSettings(superlink="127.0.0.1:1", insecure=True, stop_seconds=0.05)
    with serving:
        serving.fleet.queue.append(Sent(pending(serving.site)))
        wait_for(lambda: serving.service.in_hand)
    assert serving.unfinished == 1
    assert serving.fleet.left
    free.set()


def _unavailable(rules):
    raise LedgerUnavailableError("the disk is full")


def _away():
    raise OSError


# --- The parts of a daemon that need no SuperLink: its settings, its log, its health page, its node's number.

CANARY = "canary-7f3a"


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

    handle = watch.watched(curator.handle, lambda: curator.policy, LABEL)
    watched = SimpleNamespace(identity=curator.identity, handle=handle)
    learner = opened(watched, clock=clock)
    clock.now += 5  # as if the count took long
    learner.query()
    Learner(watched, "stranger", clock=clock).card()
    handle(b"junk")
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

    watched = SimpleNamespace(identity=curator.identity, handle=watch.watched(slow, lambda: curator.policy, LABEL))
    received_at = clock()
    Learner(watched, clock=clock).card()
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


# --- The steward's command for a study that waits: told once, in constant words, and never in a request's way.

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
