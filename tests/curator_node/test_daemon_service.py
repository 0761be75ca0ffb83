"""The daemon's loop against a SuperLink that does what a test wants: slow counts, floods, outages, lost parts."""

import threading
import time
from collections import deque

import pytest

from curator_fakes import Clock, Learner, mass_body, open_curator, opened, policy
from curator_node.budgets import standing_of
from curator_node.daemon import service as service_module
from curator_node.daemon.calls import GoneError, NotLetInError, SuperLinkDownError, TooLargeError
from curator_node.daemon.fleet import Parcel
from curator_node.daemon.log import Event
from curator_node.daemon.service import Service
from curator_node.daemon.settings import DaemonSettings
from curator_node.ledger.store import LedgerUnavailableError
from protocol.errors import ConfigurationError
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


def test_a_message_that_is_too_large_is_declined_and_forgotten(tmp_path):
    with Serving(tmp_path) as serving:
        parcel = Sent(b"x")
        parcel.objects["part"] = bytes(10)
        serving.fleet.faults["fetch", id(parcel)] = TooLargeError()
        serving.fleet.queue.append(parcel)
        assert serving.fleet.reply_to(parcel) is None
        assert parcel.objects == {}
        assert [event.reason for event in serving.told.of("unserved")] == ["too_large"]


def test_a_message_without_all_its_parts_is_set_aside_and_answered_when_they_came(tmp_path):
    with Serving(tmp_path) as serving:
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


def test_a_message_of_very_many_parts_is_no_outage(tmp_path):
    with Serving(tmp_path) as serving:
        wait_for(lambda: serving.service.connected_since)
        serving.fleet.faults["pull"] = TooLargeError()
        wait_for(lambda: len(serving.told.of("unserved")) > 3)
        serving.fleet.faults.clear()
        assert serving.ask(pending(serving.site))
        assert serving.told.of("disconnected") == []


def test_a_message_that_is_gone_is_dropped(tmp_path):
    with Serving(tmp_path) as serving:
        gone = Sent(b"x")
        serving.fleet.faults["fetch", id(gone)] = GoneError("404")
        serving.fleet.queue.append(gone)
        wait_for(lambda: serving.told.of("unserved"))
        assert serving.told.of("unserved")[0].reason == "gone"
        assert serving.fleet.sent == []


def test_an_outage_is_told_once_and_passes(tmp_path):
    with Serving(tmp_path) as serving:
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


def test_the_loop_outlives_what_nobody_foresaw(tmp_path):
    with Serving(tmp_path) as serving:
        wait_for(lambda: serving.service.connected_since)
        serving.fleet.faults["pull"] = KeyError("canary")
        wait_for(lambda: serving.told.of("disconnected"))
        assert serving.told.of("disconnected")[0].kind == "KeyError"
        serving.fleet.faults.clear()
        assert serving.ask(pending(serving.site))


def test_a_reply_that_cannot_be_sent_is_told(tmp_path):
    with Serving(tmp_path) as serving:
        parcel = Sent(pending(serving.site))
        serving.fleet.faults["send", id(parcel)] = SuperLinkDownError("ConnectError")
        serving.fleet.queue.append(parcel)
        wait_for(lambda: [event for event in serving.told.of("unserved") if event.reason == "undelivered"])


def test_changed_files_are_adopted_and_wrong_ones_are_told(tmp_path, quick):
    with Serving(tmp_path) as serving:
        serving.files.now, serving.files.dirty = policy(("ann",)), True
        wait_for(lambda: serving.told.of("policy_adopted"))
        assert serving.site.adopted == [policy(("ann",))]
        serving.files.now, serving.files.dirty = ConfigurationError("policy.toml: wrong"), True
        wait_for(lambda: serving.told.of("policy_refused"))
        assert serving.told.of("policy_refused")[0].reason == "policy.toml: wrong"
        serving.files.now = policy(("bob",))
        serving.hung.set()
        wait_for(lambda: len(serving.told.of("policy_adopted")) == 2)


def test_files_that_the_ledger_does_not_take_now_are_adopted_once_it_is_back(tmp_path, quick):
    with Serving(tmp_path) as serving:
        adopt, serving.site.adopt = serving.site.adopt, _unavailable
        serving.hung.set()
        wait_for(lambda: serving.told.of("policy_refused"))
        serving.site.adopt = adopt
        wait_for(lambda: serving.told.of("policy_adopted"))
        assert len(serving.told.of("policy_refused")) == 1


def test_a_ledger_that_halts_goes_or_comes_back_is_told_without_a_request(tmp_path, quick):
    with Serving(tmp_path) as serving:
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
