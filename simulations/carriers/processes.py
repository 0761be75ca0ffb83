"""Processes that a simulation starts; all of them end with it, however it ends.

`python -m simulations.carriers.processes PID COMMAND...` becomes a command that ends with the process of that number.
Linux sends it SIGTERM. Elsewhere only the process that started it can stop it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from protocol.errors import ConfigurationError, printable

START_SECONDS = 300.0
"""A curator is ready within seconds; a machine that is busy with many of them takes longer."""
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.05
PR_SET_PDEATHSIG = 1
"""Option of Linux's prctl."""

AnyResult = TypeVar("AnyResult")


def guarded(*command: str) -> list[str]:
    """The command line of a program that ends with this process; start it in the main thread."""
    return [sys.executable, "-m", "simulations.carriers.processes", str(os.getpid()), *command]


def environment() -> dict[str, str]:
    """That of a Python process which finds the same modules as this one, and in which Flower reports nothing."""
    path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "FLWR_TELEMETRY_ENABLED": "0"}


class Processes:
    """Python processes; a context manager that stops them.

    Args:
        logs: folder for what they write.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`; its name is for people, and of its log."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own arguments
                guarded(sys.executable, "-m", module, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )

    def log(self, name: str) -> Path:
        """What a process writes."""
        return self._logs / f"{name}.log"

    def wait(
        self,
        condition: Callable[[], AnyResult],
        purpose: str,
        *,
        seconds: float = START_SECONDS,
        interval: float = LOOK_SECONDS,
    ) -> AnyResult:
        """Call a condition until its result is true; that result.

        Args:
            condition: as above.
            purpose: what is waited for, for the error.
            seconds: that it may take.
            interval: seconds between two calls.

        Raises:
            ConfigurationError: a process has ended, or it takes too long.
        """
        end = time.monotonic() + seconds
        while not (result := condition()):
            self.check()
            if time.monotonic() > end:
                raise ConfigurationError(f"{purpose} took longer than {seconds:.0f} s")
            time.sleep(interval)
        return result

    def check(self) -> None:
        """Raise ConfigurationError where a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ConfigurationError(f"{name} has ended: {self._last_words(name)}")

    def stop(self) -> None:
        """Have all of them end, first by asking."""
        for process in self._running.values():
            process.terminate()
        end = time.monotonic() + STOP_SECONDS
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            process.kill()
            process.wait()
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self, name: str) -> str:
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        with suppress(ValueError, AttributeError):
            last = json.loads(last).get("error", last)
        return printable(last, 400)


def main(parent: str, *command: str) -> None:
    """Become the command, which ends with the process of number `parent`."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - there alone

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has ended already
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
