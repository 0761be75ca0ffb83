"""A curator's daemon as a process: it opens a site's folder, stops on signals, and reports to systemd.

`Bell` runs the steward's own command when a study begins to wait for approval.
"""

import contextlib
import os
import queue
import resource
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Self

from curator_node.daemon.fleet import Fleet, Link
from curator_node.daemon.health import HealthPage, Status, Watch
from curator_node.daemon.log import (
    Event,
    Log,
    Outcome,
    Started,
    StewardTold,
    Stopped,
    Stopping,
    Warned,
    take_over,
    utc_now,
)
from curator_node.daemon.service import PolicyFiles, Service
from curator_node.daemon.settings import NODE_KEY, DaemonSettings, inside, ledger_of
from curator_node.ledger.places import mark_path
from curator_node.site import LEDGER, Site, open_site
from protocol.errors import ExprilError

LONGEST_SECONDS = 30.0
"""A command that takes longer is stopped."""
APART_SECONDS = 60.0
"""Least time between the starts of two commands."""
LOOK_SECONDS = 0.05
"""Time between two checks whether a command has ended."""
REAP_SECONDS = 2.0
"""How long a stopped command may take to end."""
MOST_QUEUED = 100
"""Most studies that wait for the command to be run."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Environment variables that the command gets. Another one may hold a ledger's URL with its password."""


class Bell:
    """Runs the steward's command for each study that begins to wait, one at a time, in a thread.

    Args:
        command: a program and its arguments; if it is empty, nothing is run.
        tell: called with the outcome of each run.
        longest: seconds after which a run is stopped.
        apart: least seconds between the starts of two runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        tell: Callable[[Event], None],
        *,
        longest: float = LONGEST_SECONDS,
        apart: float = APART_SECONDS,
    ) -> None:
        self._command = tuple(command)
        self._tell = tell
        self._longest, self._apart = longest, apart
        self._queued = queue.Queue[str](MOST_QUEUED)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
        if self._command:
            self._thread.start()

    def ring(self, study: bytes) -> None:
        """Have the command run for a study that waits. Returns at once, and raises nothing."""
        if not self._command:
            return
        try:
            self._queued.put_nowait(study.hex())
        except queue.Full:
            self._tell(StewardTold(study=study.hex(), outcome="dropped"))

    def close(self) -> None:
        """Run nothing more, and stop what runs."""
        self._stopping.set()
        if self._command:
            with suppress(queue.Full):
                self._queued.put_nowait("")  # wakes a thread that waits for a study
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        stopping = False
        while not (stopping and self._queued.empty()):
            study = self._queued.get()
            stopping = self._stopping.wait(max(0.0, due - time.monotonic()))
            due = time.monotonic() + self._apart
            if study:
                self._tell(StewardTold(study=study, outcome="dropped") if stopping else self._run_for(study))

    def _run_for(self, study: str) -> StewardTold:
        """Run the command for one study; returns the event that says how it ended."""
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        try:
            process = subprocess.Popen(  # noqa: S603 - the steward's own words, and hexadecimal digits
                [*self._command, study],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return StewardTold(study=study, outcome="not_run")
        end = time.monotonic() + self._longest
        while (status := process.poll()) is None:
            stopping = self._stopping.wait(LOOK_SECONDS)
            if stopping or time.monotonic() > end:
                outcome: Outcome = "dropped" if stopping else "too_long"
                return StewardTold(study=study, outcome=outcome, status=_stop(process))
        return StewardTold(study=study, outcome="failed" if status else "told", status=status)


def _stop(process: "subprocess.Popen[bytes]") -> int:
    """Stop a command and the processes that it started. Returns its exit status.

    A command that runs with another user's rights may not be stopped.
    """
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
    try:
        return process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return 0


NODE_MEMORY = "node.id"
"""File of the node's number. It lies beside the mark, since this process may write there."""


def serve(
    folder: Path, settings: DaemonSettings, *, log: Log | None = None, opener: Callable[..., Site] = open_site
) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reads the steward's files anew. Ends with status 0 when told to stop.

    Args:
        folder: the site's.
        settings: of its daemon file.
        log: where events go; None takes standard error.
        opener: opens the site, as `open_site` does; a simulation passes its own noise in it.

    Raises:
        ConfigurationError: the site cannot be opened, or the health page's port is taken.
    """
    log = log or Log()
    take_over(log)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the records
    mark = inside(folder, settings.mark)
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        site = stack.enter_context(opener(folder, ledger=ledger_of(settings), mark=mark))
        watch = Watch(log, utc_now)
        link = Link(settings.superlink, inside(folder, settings.ca), folder / NODE_KEY)
        handle = watch.watched(site.handle, lambda: site.policy, site.label)
        fleet = Fleet(link, handle, most_bytes=site.policy.limits.message_bytes)
        stack.callback(fleet.close)
        memory = (mark or mark_path(folder / LEDGER)).with_name(NODE_MEMORY)
        bell = Bell(settings.waiting_command, watch.tell)
        stack.callback(bell.close)
        site.curator.waits = bell.ring
        service = Service(site, fleet, settings, watch, PolicyFiles(folder), memory)
        began = utc_now()
        page = HealthPage(settings.health_port, lambda: status_of(site, service, fleet, watch, settings, began))
        stack.callback(page.close)
        account = site.ledger.account
        watch.tell(
            Started(
                curator=site.identity.hex(),
                name=site.policy.name,
                superlink=settings.superlink,
                health_port=settings.health_port,
                entry=account.next_index - 1,
            )
        )
        if site.warnings:
            watch.tell(Warned(warnings=len(site.warnings)))
        notify("READY=1")
        service.run(signals.wait, signals.hung_up, signals.wake)
        notify("STOPPING=1")
        watch.tell(Stopping(signal=signals.stopped_by, in_hand=service.in_hand))
        unfinished = service.finish()
        watch.tell(Stopped(unfinished=unfinished))
        if unfinished:
            # A thread still counts. Nothing is lost: what it was charged for is answered when it is asked again.
            os._exit(0)


def status_of(site: Site, service: Service, fleet: Fleet, watch: Watch, settings: DaemonSettings, began: int) -> Status:
    """The present content of the health page."""
    budget, waiting = None, None
    with contextlib.suppress(ExprilError, OSError):
        budget, waiting = site.standing(), site.waiting()
    return Status(
        curator=site.identity.hex(),
        name=site.policy.name,
        superlink=settings.superlink,
        node=fleet.node,
        serving_since=began,
        connected_since=service.connected_since,
        requests=dict(watch.requests),
        releases=watch.releases,
        refusals=dict(watch.refusals),
        unserved=dict(watch.unserved),
        in_hand=service.in_hand,
        ledger_available=budget is not None,
        waiting=waiting,
        data_version=site.data_version,
        budget=budget,
    )


def notify(state: str) -> None:
    """Tell systemd, where it started this process as `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(state.encode(), name)


class Signals:
    """SIGTERM, SIGINT and SIGHUP as bytes of a pipe: they wake a wait, and never interrupt an answer.

    Attributes:
        stopped_by: the signal that asked to stop; 0 before.
    """

    _STOP = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.stopped_by = 0
        self._hung_up = False

    def wait(self, seconds: float) -> bool:
        """Wait until the time is over or a signal comes. Returns at once, and True, if a signal asked to stop."""
        if select.select([self._read], [], [], 0.0 if self.stopped_by else max(0.0, seconds))[0]:
            for number in self._read.recv(64):
                self._hung_up |= number == signal.SIGHUP
                if number in self._STOP:
                    self.stopped_by = self.stopped_by or number
        return self.stopped_by != 0

    def wake(self) -> None:
        """End a wait; any thread may call it."""
        with suppress(OSError):
            self._write.send(b"\0")

    def hung_up(self) -> bool:
        """Whether SIGHUP came since the last call."""
        hung_up, self._hung_up = self._hung_up, False
        return hung_up

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _nothing) for number in (*self._STOP, signal.SIGHUP)}
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._read.close()
        self._write.close()


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: the pipe already holds the signal's number."""
