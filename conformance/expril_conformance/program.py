"""A program under test: it is asked by a line of JSON, and answers by one.

It is apart from the suite's tests since whoever writes an adapter reads it beside README.md.
"""

import json
import shlex
import subprocess
import threading
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""Longest time for one answer."""


class UnsupportedError(AssertionError):
    """The program says that it does not do this."""


class Program:
    """A program that is started when it is first asked, and can be stopped and started anew."""

    def __init__(self, command: str) -> None:
        self.command = shlex.split(command)
        self._process: subprocess.Popen[str] | None = None

    @property
    def expected_failures(self) -> Path | None:
        """The file of tests that it is known to fail; None where its command names no file."""
        files = [word for word in self.command if Path(word).is_file()]
        return Path(f"{files[-1]}.xfails") if files else None

    def ask(self, do: str, **line: Any) -> dict[str, Any]:
        """The answer to one line. Raises UnsupportedError; AssertionError: it ended, or answered something else."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True)  # noqa: S603
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise TypeError("a program without pipes")
        watch = threading.Timer(SECONDS, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps({"do": do, **line}) + "\n")
            process.stdin.flush()
            text = process.stdout.readline()
        except BrokenPipeError:
            text = ""
        finally:
            watch.cancel()
        if not text:
            self.stop()
            raise AssertionError(f"{shlex.join(self.command)} ended, or took {SECONDS:.0f} s, at {do}")
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise AssertionError(f"{do} was answered with no JSON object: {text[:200]!r}")  # noqa: TRY004
        if "unsupported" in answer:
            raise UnsupportedError(str(answer["unsupported"]))
        return answer

    def stop(self) -> None:
        """End it; the next question starts it anew."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
