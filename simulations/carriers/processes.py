"""Processes that a simulation starts; all of them end with it, however it ends.

On Linux, `guarded` has a command sent SIGTERM when the process that started it ends. On other systems only that process
can stop it.
"""

import json
import os
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
"""Seconds allowed for a curator to start: it needs few, but a machine that starts many is slow."""
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.05
GUARD = """
import os, sys
if sys.platform == "linux":
    import ctypes
    PR_SET_PDEATHSIG, SIGTERM = 1, 15
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # it has ended already
        sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Turns a Python process that has loaded nothing else into a command that ends with its parent; see `guarded`."""

AnyResult = TypeVar("AnyResult")


def guarded(*command: str) -> list[str]:
    """Command line of a program that ends with this process; start it from the main thread."""
    return [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), *command]


def environment() -> dict[str, str]:
    """Environment of a Python process that finds this one's modules and sends no Flower telemetry."""
    path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "FLWR_TELEMETRY_ENABLED": "0"}


class Processes:
    """Python processes and a folder `logs` for their output; a context manager that stops them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`; `name` identifies it to people and names its log."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own arguments
                guarded(sys.executable, "-m", module, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
            )

    def log(self, name: str) -> Path:
        """File with a process's output."""
        return self._logs / f"{name}.log"

    def wait(
        self,
        condition: Callable[[], AnyResult],
        purpose: str,
        *,
        seconds: float = START_SECONDS,
        interval: float = LOOK_SECONDS,
    ) -> AnyResult:
        """Call a condition every `interval` seconds until it is true, and return its result.

        Raises ConfigurationError: a process has ended, or `seconds` have passed; the text names the `purpose`.
        """
        end = time.monotonic() + seconds
        while not (result := condition()):
            self.check()
            if time.monotonic() > end:
                raise ConfigurationError(f"{purpose} took longer than {seconds:.0f} s")
            time.sleep(interval)
        return result

    def check(self) -> None:
        """Raise ConfigurationError if a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ConfigurationError(f"{name} has ended: {self._last_words(name)}")

    def stop(self) -> None:
        """Stop all processes, first by SIGTERM."""
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
