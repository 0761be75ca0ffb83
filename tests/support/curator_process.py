"""A curator in a process of its own, over a Unix socket: something that a test can kill -9 at any moment.

A nursery process loads the libraries once and forks a child for each life, so that a life begins in milliseconds. The
child opens the site's folder, as a daemon does, and answers envelopes of which each is preceded by its length.

    python -m curator_process      # the nursery: reads "FOLDER SOCKET MARK" lines, prints the pid of each child
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_LENGTH = struct.Struct(">I")
PATIENCE = 60
"""Seconds that a life may take to begin, and an answer to come."""


class Nursery:
    """The process that bears curators. Use as a context manager."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def bear(self, folder, socket_path, mark):
        """Start a curator; its pid."""
        self._process.stdin.write(f"{folder}\t{socket_path}\t{mark}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class CuratorProcess:
    """A curator that can be killed; `exchange` raises ConnectionError where it dies before it answers.

    Args:
        nursery: bears it.
        folder: its site's.
        mark: this process's own; None takes the folder's.
    """

    def __init__(self, nursery, folder, mark=None):
        self._nursery = nursery
        self._folder = folder
        self._mark = mark or folder / "curator.mark"
        self._socket = folder / f"{self._mark.name}.socket"
        self.lives = 0
        self.pid = 0

    def start(self):
        """Begin a life; the one before has ended."""
        self._socket.unlink(missing_ok=True)
        self.pid = self._nursery.bear(self._folder, self._socket, self._mark)
        self.lives += 1
        return self

    def kill(self):
        """kill -9; returns when the process is gone, or a moment later."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def exchange(self, data):
        """One envelope there, one back."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE)
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    line.connect(str(self._socket))
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    if not _alive(self.pid):
                        raise ConnectionError("it died before it served") from None
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.002)
            line.sendall(_LENGTH.pack(len(data)) + data)
            return _receive(line)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _receive(line):
    def exactly(size):
        found = b""
        while len(found) < size:
            piece = line.recv(size - len(found))
            if not piece:
                raise ConnectionError("the curator is gone")
            found += piece
        return found

    return exactly(_LENGTH.unpack(exactly(_LENGTH.size))[0])


def _live(folder, socket_path, mark):
    from curator_node.site import open_site

    with socket.socket(socket.AF_UNIX) as door, _opened(open_site, folder, mark) as site:
        door.bind(str(socket_path))
        door.listen(64)
        while True:
            line, _ = door.accept()
            threading.Thread(target=_serve, args=(site, line), daemon=True).start()


def _serve(site, line):
    with line, suppress(ConnectionError):
        line.sendall(_framed(site.handle(_receive(line))))


def _opened(open_site, folder, mark):
    """The mark of a predecessor that was just killed may still be held for a moment."""
    from protocol.errors import ConfigurationError

    end = time.monotonic() + PATIENCE
    while True:
        try:
            return open_site(folder, mark=mark)
        except ConfigurationError as error:
            if "held by another process" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.002)


def _framed(data):
    return _LENGTH.pack(len(data)) + data


def _nurse():
    import opendp.prelude  # noqa: F401 - the largest part of a start

    import curator_node.site  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are reaped at once
    children = []
    for order in sys.stdin:
        folder, socket_path, mark = map(Path, order.rstrip("\n").split("\t"))
        child = os.fork()
        if child == 0:
            try:
                _live(folder, socket_path, mark)
            finally:
                os._exit(1)
        children.append(child)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    _nurse()
