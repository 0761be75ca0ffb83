"""The loop of a daemon: look for messages, have them answered, keep the node known, serve what the steward changes.

A few threads fetch and answer messages. Questions, which are counted one at a time, have threads of their own, so that
cards, proposals and closes do not wait for a count. The number and the bytes of messages in hand are bounded. A message
whose parts have not all arrived is set aside, so that it holds no thread.
"""

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curator_node.daemon.calls import GoneError, NotLetInError, SuperLinkDownError, TooLargeError
from curator_node.daemon.fleet import HEARTBEAT_SECONDS, Fleet, Parcel
from curator_node.daemon.health import Watch, request_type
from curator_node.daemon.log import (
    Connected,
    Disconnected,
    LedgerState,
    PolicyAdopted,
    PolicyRefused,
    Unserved,
    utc_now,
)
from curator_node.daemon.settings import DaemonSettings
from curator_node.ledger.store import LedgerUnavailableError
from curator_node.policy import Policy
from curator_node.site import POLICY, Site
from curator_node.steward.enrolment import read_policy_of
from protocol.carriage import Pace
from protocol.errors import ExprilError
from protocol.messages import TYPE_NAMES, Query


class PolicyFiles:
    """The policy and the learners' files of a site, which may change while a daemon serves. They are read together.

    A change is noticed by a file's name, time, size and place on disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last_stamp = self._stamp()

    def changed(self) -> bool:
        """Whether a file has changed, appeared or vanished since the last read, or is being changed now."""
        earlier, self._last_stamp = self._last_stamp, self._stamp()
        return earlier != self._last_stamp

    def read(self) -> Policy:
        """The policy that the files hold now. What it says of query kinds is checked when it is adopted.

        So no plug-in that it newly names is imported by a process that serves.

        Raises:
            ConfigurationError: a file is absent or wrong.
        """
        self._last_stamp = self._stamp()
        return read_policy_of(self._folder, kinds=None)

    def _stamp(self) -> tuple[tuple[str, int, int, int], ...]:
        stamps = []
        for path in sorted([self._folder / POLICY, *(self._folder / "learners").glob("*.toml")]):
            try:
                status = path.stat()
            except OSError:
                continue
            stamps.append((path.name, status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(stamps)


COUNTERS = 8
"""Threads for questions: while one counts, the others read and check, and share the commits that they wait for."""
MOST_IN_HAND, MOST_ASIDE = 64, 512
LONGEST_BACK_OFF, LONGEST_OUTSIDE = 30.0, 5.0
"""Most seconds between two tries: if nothing answers, and if the node is not let in, which may soon pass."""
FILES_SECONDS, LEDGER_SECONDS = 2.0, 5.0
BUSY_FOR = 2.0
"""Seconds after a message for which the next is expected soon."""
ASIDE_SECONDS, LONGEST_ASIDE = 60.0, 2.0
SEND_SECONDS = 60.0

Unread = Literal["too_large", "not_ours", "incomplete", "gone", "undelivered", "fault"]


@dataclass(frozen=True)
class _Aside:
    """A message of which some parts have not arrived."""

    parcel: Parcel
    due: float  # when to look again, by the monotonic clock; so is
    end: float  # when to give up
    wait: float  # until the next look


class Service:
    """One curator at one SuperLink.

    Args:
        site: the curator's site.
        fleet: the curator's node.
        settings: waits and numbers of threads.
        watch: counts and logs requests.
        files: the steward's policy files.
        memory: the file that keeps the node's number for the next process, if it can be written.

    Attributes:
        connected_since: seconds since 1970; 0 while nothing can be fetched.
    """

    def __init__(
        self, site: Site, fleet: Fleet, settings: DaemonSettings, watch: Watch, files: PolicyFiles, memory: Path
    ) -> None:
        self._site, self._fleet, self._settings, self._watch = site, fleet, settings, watch
        self._files, self._memory = files, memory
        self._takers = ThreadPoolExecutor(settings.workers, thread_name_prefix="taker")
        self._counters = ThreadPoolExecutor(COUNTERS, thread_name_prefix="counter")
        self._lock = threading.Condition()
        self._parcels: dict[int, int] = {}
        self._aside: list[_Aside] = []
        self._looking = self._stale = self._again = False
        self._ledger_state = (False, True)
        self._told_reason = self._refused = ""
        self._busy_until = self._beat_due = self._files_due = self._ledger_due = self._look_due = 0.0
        self._pace = Pace(settings.busy_seconds / 5, settings.busy_seconds)
        self._queued = False
        self._wake: Callable[[], None] = lambda: None
        self._give_up = float("inf")
        self.connected_since = 0

    @property
    def in_hand(self) -> int:
        """Messages that are being fetched or answered."""
        return len(self._parcels)

    def run(
        self, wait: Callable[[float], bool], hung_up: Callable[[], bool], wake: Callable[[], None] = lambda: None
    ) -> None:
        """Serve until told to stop.

        Args:
            wait: waits for this many seconds, or until a signal comes; returns whether to stop.
            hung_up: returns whether the steward has asked since its last call for the files to be read anew.
            wake: ends a wait, from another thread.
        """
        self._wake = wake
        tries = 0
        while True:
            try:
                self._stale |= hung_up()
                pause = self._turn()
                tries = 0
            except Exception as error:  # noqa: BLE001 - the loop outlives whatever it meets
                pause = self._disconnected(error, tries)
                tries += 1
            if wait(pause):
                return

    def finish(self) -> int:
        """Finish the messages in hand, within the time that the settings allow, and sign off.

        Returns how many did not end.
        """
        end = time.monotonic() + self._settings.stop_seconds
        self._give_up = time.time() + self._settings.stop_seconds
        with self._lock:
            self._aside.clear()
            self._lock.wait_for(lambda: not self._parcels, max(0.0, end - time.monotonic()))
            unfinished = len(self._parcels)
        self._takers.shutdown(wait=not unfinished, cancel_futures=True)
        self._counters.shutdown(wait=not unfinished, cancel_futures=True)
        self._fleet.leave()
        return unfinished

    def _turn(self) -> float:
        """Look for a message and do whatever else is due; returns the seconds until the next turn."""
        now = time.monotonic()
        if now >= self._files_due or self._stale:
            self._files_due = now + FILES_SECONDS
            if self._files.changed() or self._stale or self._again:
                self._read_files()
        if now >= self._ledger_due and not self._looking:
            self._ledger_due, self._looking = now + LEDGER_SECONDS, True
            self._takers.submit(self._look_at_ledger)
        if not self.connected_since:
            self._enter()
        if now >= self._beat_due:
            self._fleet.beat()
            self._beat_due = now + HEARTBEAT_SECONDS * 0.8
        self._resume(now)
        if self._is_full():
            return self._settings.busy_seconds
        if (early := self._look_due - now) > 0:
            return early
        pause = self._look(now)
        with self._lock:
            if self._look_due <= now:  # no answer ended meanwhile
                self._look_due = time.monotonic() + pause
            return self._look_due - time.monotonic()

    def _look(self, now: float) -> float:
        """Look for a message; returns the seconds until the next look."""
        try:
            parcel = self._fleet.pull()
        except TooLargeError as error:
            self._log_unserved("too_large", error)
            return self._settings.busy_seconds
        queued, self._queued = self._queued, parcel is not None
        if parcel is not None:
            if not self._parcels:
                self._pace.end(now)
            self._busy_until = now + BUSY_FOR
            self._start(parcel, _Aside(parcel, 0.0, now + ASIDE_SECONDS, self._settings.busy_seconds))
            return 0.0 if queued else self._settings.busy_seconds  # until then, the end of an answer wakes the loop
        if self._parcels or self._aside:
            pause = self._settings.busy_seconds
        elif now < self._busy_until:
            pause = self._pace.pause(time.monotonic())
        else:
            return self._settings.idle_seconds
        # A SuperLink that is slow to say "nothing" has much to do: looks must not take all its time.
        return max(pause, min(time.monotonic() - now, self._settings.idle_seconds))

    def _enter(self) -> None:
        try:
            last = int(self._memory.read_text(encoding="ascii"))
        except (OSError, ValueError):
            last = 0
        node = self._fleet.enter(self._fleet.node or last)
        self.connected_since = utc_now()
        self._beat_due, self._told_reason = time.monotonic() + HEARTBEAT_SECONDS * 0.8, ""
        self._watch.tell(Connected(node=node))
        if node != last:
            try:
                self._memory.write_text(f"{node}\n", encoding="ascii")
            except OSError:
                return  # then a process that follows a kill waits until the SuperLink has noticed it

    def _disconnected(self, error: Exception, tries: int) -> float:
        """Log a lost connection once; returns the seconds until the next try."""
        self.connected_since = 0
        outside = isinstance(error, NotLetInError)
        event = Disconnected(reason="unexpected", status=0, kind=type(error).__name__)
        if isinstance(error, SuperLinkDownError):
            event = Disconnected(
                reason="not_let_in" if outside else "unreachable", status=error.status, kind=str(error)
            )
        if self._told_reason != event.reason:
            self._told_reason = event.reason
            self._watch.tell(event)
        longest = LONGEST_OUTSIDE if outside else LONGEST_BACK_OFF
        return float(min(longest, 0.1 * 2 ** min(tries, 16)) * (0.5 + secrets.randbelow(500) / 1000))

    def _read_files(self) -> None:
        """Adopt the steward's files as they are now. If the ledger is not available, this is tried again later."""
        self._stale = False
        try:
            policy = self._files.read()
            self._site.adopt(policy)
        except ExprilError as error:
            self._again = isinstance(error, LedgerUnavailableError)
            if self._refused != str(error):
                self._refused = str(error)
                self._watch.tell(PolicyRefused(reason=str(error)))
            return
        self._again, self._refused = False, ""
        self._fleet.most_bytes = policy.limits.message_bytes
        self._watch.tell(PolicyAdopted(learners=len({learner.name for learner in policy.keys.values()})))

    def _look_at_ledger(self) -> None:
        """Notice, with or without requests, that the ledger was halted or resumed, or cannot be read."""
        entry = self._site.ledger.account.next_index - 1
        try:
            standing = self._site.standing()
            state, entry = (standing.halted, True), standing.entry
        except (ExprilError, OSError):
            state = (self._ledger_state[0], False)
        finally:
            self._looking = False
        if state != self._ledger_state:
            self._ledger_state = state
            self._watch.tell(LedgerState(halted=state[0], available=state[1], entry=entry))

    def _resume(self, now: float) -> None:
        """Look again for the parts of messages that were set aside."""
        with self._lock:
            due = [aside for aside in self._aside if aside.due <= now]
            self._aside = [aside for aside in self._aside if aside.due > now]
        for aside in due:
            self._start(aside.parcel, aside)

    def _is_full(self) -> bool:
        """Whether no more may be fetched until something that is in hand ends.

        Memory has room for one longest message per thread. A message that is not fetched yet counts with the longest
        size.
        """
        with self._lock:
            room = self._settings.workers * self._fleet.most_bytes - sum(self._parcels.values())
            return len(self._parcels) >= MOST_IN_HAND or room < self._fleet.most_bytes

    def _start(self, parcel: Parcel, aside: _Aside) -> None:
        with self._lock:
            self._parcels[id(parcel)] = self._fleet.most_bytes
        self._takers.submit(self._take, parcel, aside)

    def _finish_parcel(self, parcel: Parcel) -> None:
        with self._lock:
            self._parcels.pop(id(parcel), None)
            if not self._parcels:
                now = time.monotonic()
                self._pace.begin(now)
                self._look_due = now + self._pace.pause(now)
            self._lock.notify_all()
        self._wake()

    def _take(self, parcel: Parcel, aside: _Aside) -> None:
        """Fetch a message and have it answered. A message that needs a count is answered by other threads."""
        try:
            if not self._fetch(parcel, aside):
                self._finish_parcel(parcel)
                return
            with self._lock:
                self._parcels[id(parcel)] = parcel.size
            if request_type(parcel.payload) == TYPE_NAMES[Query]:
                self._counters.submit(self._answer, parcel)
            else:
                self._answer(parcel)
        except Exception as error:  # noqa: BLE001 - a thread that ends by an error would leave the message in hand
            self._log_unserved("fault", error)
            self._finish_parcel(parcel)

    def _fetch(self, parcel: Parcel, aside: _Aside) -> bool:
        """Whether all parts of a message have arrived.

        One that can never be complete is answered by an error, or dropped.
        """
        try:
            if self._fleet.fetch(parcel):
                return True
        except TooLargeError as error:
            parcel.objects.clear()
            self._decline(parcel, "too_large", error)
            return False
        except GoneError as error:
            self._log_unserved("gone", error)
            return False
        except SuperLinkDownError:
            pass
        parcel.objects.clear()
        parcel.size = 0
        now = time.monotonic()
        with self._lock:
            again = now < aside.end and len(self._aside) < MOST_ASIDE
            if again:
                self._aside.append(_Aside(parcel, now + aside.wait, aside.end, min(2 * aside.wait, LONGEST_ASIDE)))
        if not again:
            self._decline(parcel, "incomplete")
        return False

    def _answer(self, parcel: Parcel) -> None:
        try:
            if not isinstance(parcel.payload, bytes):
                self._decline(parcel, "not_ours")
                return
            try:
                reply = self._fleet.app_reply(parcel)
            except Exception as error:  # noqa: BLE001 - Flower's own, of a type that nobody serves
                self._decline(parcel, "not_ours", error)
                return
            self._send(parcel, reply)
        finally:
            self._finish_parcel(parcel)

    def _decline(self, parcel: Parcel, reason: Unread, error: Exception | None = None) -> None:
        """Log a message as unserved and answer it by an error without text."""
        self._log_unserved(reason, error)
        self._send(parcel, self._fleet.error_reply(parcel))

    def _send(self, parcel: Parcel, reply: object) -> None:
        try:
            self._fleet.send(parcel, reply, patience=self._patience(parcel))
        except GoneError as error:
            self._log_unserved("gone", error)
        except SuperLinkDownError as error:
            self._log_unserved("undelivered", error)

    def _patience(self, parcel: Parcel) -> Callable[[], bool]:
        """A function that says whether to try again to send a reply: the learner waits, and the daemon goes on."""
        end = min(parcel.until, time.time() + SEND_SECONDS)
        return lambda: time.time() < min(end, self._give_up)

    def _log_unserved(self, reason: Unread, error: Exception | None = None) -> None:
        self._watch.tell(Unserved(reason=reason, kind="" if error is None else type(error).__name__))
