"""The daemon's log: one line of JSON an event, on standard error, for the steward and its tools.

Every event is a struct with fixed fields, so nothing else can be logged. No field is computed from a record. No time
shows how long a count took: an answered request is stamped with the second in which it came.
"""

import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec

from protocol.errors import printable
from protocol.refusals import RefusalCode

OURS = ("curator_node", "protocol")
"""Loggers whose lines are kept: they write constant texts, entry numbers and names of types."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something that happened."""

    time: str = ""  # when, to the second, UTC


class Started(Event, frozen=True, tag="started"):
    """The curator is open, and serves once it is connected."""

    curator: str  # its public key
    name: str  # as its policy says
    superlink: str  # "host:port"
    health_port: int  # of the loopback
    entry: int  # of the ledger, the newest


class Warned(Event, frozen=True, tag="warned"):
    """The steward should check the records or the policy; `expril curator check` says why."""

    warnings: int  # how many


class Connected(Event, frozen=True, tag="connected"):
    """The SuperLink has let this node in."""

    node: int  # Flower's number of it


class Disconnected(Event, frozen=True, tag="disconnected"):
    """Nothing can be fetched; the daemon tries again, at most every half minute."""

    # "unreachable": no answer, or a fault of the SuperLink's; "not_let_in": it does not know this node's key, or
    # takes the node's last connection, whose process was killed, for alive: that passes within a minute;
    # "unexpected": this side's own fault
    reason: Literal["unreachable", "not_let_in", "unexpected"]
    status: int  # of HTTP; 0 without an answer
    kind: str  # name of the error's type


class Request(Event, frozen=True, tag="request"):
    """A request was answered, stamped with the second in which it came."""

    type: str  # of the request; "unreadable" where it is no envelope
    reply: str  # type of the reply
    learner: str = ""  # its name in the policy; empty for a sender that was not verified
    key: str = ""  # the learner's public key; empty likewise
    study: str = ""  # its identity; empty outside a study
    sequence: int = 0  # of the request within its study
    digest: str = ""  # of the request; a repeat has the same
    code: RefusalCode | Literal[""] = ""  # why it was refused; empty where it was not
    epsilon: str = ""  # charged by a release, reserved for a study, or given back at its end; as a rational


class Unserved(Event, frozen=True, tag="unserved"):
    """A Flower message that is no request of ours; it was answered by an error without text, or dropped."""

    # "too_large": larger than the policy reads, noticed before it was held in memory; "not_ours": of another type, or
    # without an envelope; "incomplete": parts of it never came; "gone": its run has ended, or the SuperLink has lost
    # it; "undelivered": the reply could not be sent, and waits for the learner to ask again; "fault": this side's own
    reason: Literal["too_large", "not_ours", "incomplete", "gone", "undelivered", "fault"]
    kind: str = ""  # name of an error's type; empty where there is none


Outcome = Literal["told", "failed", "too_long", "not_run", "dropped"]
"""The outcome of a steward's command."""


class StewardTold(Event, frozen=True, tag="steward_told"):
    """A study began to wait for the steward's decision; the event says whether the steward's notice command worked."""

    study: str  # its identity
    # "told": the command ended with status 0; "failed": with another; "too_long": it was stopped; "not_run": it could
    # not be started; "dropped": too many studies began to wait at once, or the daemon was told to stop
    outcome: Outcome
    status: int = 0  # of the command; negative where a signal ended it, 0 where there is none


class PolicyAdopted(Event, frozen=True, tag="policy_adopted"):
    """The steward's changed files are served from now on."""

    learners: int  # how many may ask


class PolicyRefused(Event, frozen=True, tag="policy_refused"):
    """The steward's changed files cannot be served. The last valid ones stay in force."""

    reason: str  # the sentence of the error, about those files alone


class LedgerState(Event, frozen=True, tag="ledger"):
    """The ledger was halted or resumed, or its database became unreachable or reachable."""

    halted: bool  # until the steward acts
    available: bool  # whether it can be read
    entry: int  # the newest that is known


class Stopping(Event, frozen=True, tag="stopping"):
    """The daemon was told to stop, and fetches nothing more."""

    signal: int  # its number; 0 without one
    in_hand: int  # messages that are finished first


class Stopped(Event, frozen=True, tag="stopped"):
    """The daemon has ended."""

    unfinished: int  # messages that took too long; learners ask for them again


class Note(Event, frozen=True, tag="note"):
    """A line of the curator's own code."""

    logger: str  # which
    text: str  # constant, but for numbers and names of types


class Fault(Event, frozen=True, tag="fault"):
    """Our own code failed. The error's text, which could hold a value, is not logged."""

    kind: str  # name of the error's type
    thread: str  # name of the thread


def utc_now() -> int:
    """Seconds since 1970."""
    return int(datetime.now(UTC).timestamp())


class Log:
    """Writes events.

    Args:
        stream: standard error unless said otherwise.
        clock: seconds since 1970.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], int] = utc_now) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._lock = threading.Lock()

    @staticmethod
    def stamp(at: int) -> str:
        """A second since 1970 as events tell it."""
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def write(self, event: Event, *, at: int | None = None) -> None:
        """Write one event, stamped with `at` or the present second.

        Nothing is raised if nobody reads the stream any more.
        """
        stamped = msgspec.structs.replace(event, time=self.stamp(self._clock() if at is None else at))
        line = msgspec.json.encode(stamped).decode()
        with self._lock:
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                return


class _Notes(logging.Handler):
    """Our own loggers' lines as events. Others are left out: their texts are not ours to vouch for."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)  # refusals have an event of their own
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] not in OURS:
            return
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        plain = all(isinstance(item, int) or (isinstance(item, str) and item.isidentifier()) for item in arguments)
        text = record.getMessage() if plain else str(record.msg)
        self._log.write(Note(logger=record.name, text=printable(text)))


def take_over(log: Log) -> None:
    """Let only events reach standard error from now on: no library's line, no traceback, no text of an error."""
    root = logging.getLogger()
    root.handlers[:] = [_Notes(log)]
    root.setLevel(logging.WARNING)
    logging.getLogger("flwr").handlers.clear()
    logging.getLogger("flwr").propagate = False
    logging.raiseExceptions = False

    def of_thread(hook: threading.ExceptHookArgs) -> None:
        name = hook.thread.name if hook.thread is not None else ""
        log.write(Fault(kind=hook.exc_type.__name__, thread=name))

    threading.excepthook = of_thread
    sys.excepthook = lambda kind, *_: log.write(Fault(kind=kind.__name__, thread="main"))
    sys.unraisablehook = lambda hook: log.write(Fault(kind=hook.exc_type.__name__, thread="unraisable"))
