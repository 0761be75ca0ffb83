"""The steward's own command, run when a study begins to wait for the steward's word.

No shell reads it. What it is given is constant, but for the study's identity in hexadecimal: nothing that a learner
wrote in words. It runs apart from the requests, one at a time and seldom, whatever learners do.
"""

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from curator_node.daemon.log import Event, Outcome, StewardTold

LONGEST_SECONDS = 30.0
"""A command that takes longer is stopped."""
APART_SECONDS = 60.0
"""Between the starts of two."""
LOOK_SECONDS = 0.05
"""Between two looks whether it has ended."""
REAP_SECONDS = 2.0
"""For the end of one that was stopped."""
MOST_QUEUED = 100
"""Studies whose turn is still to come."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""Of the environment. A ledger's URL with its password, which may stand in another, is not handed on."""


class Bell:
    """Rings for the steward.

    Args:
        command: a program and its arguments; empty: nothing is run.
        tell: is told what became of each run.
        longest, apart: seconds, as above.
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
        """A study waits: have the command run for it, soon. Returns at once, and raises nothing."""
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
                self._tell(StewardTold(study=study, outcome="dropped") if stopping else self._told(study))

    def _told(self, study: str) -> StewardTold:
        """Run the command for one study; what became of it."""
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
    """Stop a command with what it started; its status. One that took another user's rights may not be stopped."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
    try:
        return process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return 0
