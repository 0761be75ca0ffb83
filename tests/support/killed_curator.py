"""A curator in processes of their own, each of which answers one request, or is killed by SIGKILL after a write.

A nursery loads the libraries once and forks a child for each life.

    python -m killed_curator NAME SITES LEDGER    # reads "ENTRY REQUEST" lines, prints replies
"""

import os
import signal
import subprocess
import sys
from pathlib import Path


class KilledCurator:
    """One curator of a pool over a SQLite ledger; `handle` raises ConnectionError where it was killed.

    Args:
        name: whose key it has.
        sites: members of its policy.
        file: its ledger.
    """

    def __init__(self, name, sites, file):
        command = [sys.executable, "-W", "ignore", str(Path(__file__)), name, str(sites), str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def handle(self, data, *, dies_after="nothing"):
        """Answer in a new process, which is killed when it has written an entry of this kind."""
        self._process.stdin.write(f"{dies_after} {data.hex()}\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline().strip()
        if reply == "-":
            raise ConnectionError("it was killed")
        return bytes.fromhex(reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class _KillingStore:
    def __init__(self, inner, entry):
        self.inner, self.entry = inner, entry

    def append(self, *rows, **more):
        from protocol.ledger.entries import decode_entry

        self.inner.append(*rows, **more)
        if any(decode_entry(row.body).kind == self.entry for row in rows):
            os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def _live(name, sites, file, entry, request):
    from curator_fakes import key
    from curator_node.ledger.places import open_ledger_file
    from pooled import rules_of, site_of

    ledger = open_ledger_file(file, key(name))
    ledger.store = _KillingStore(ledger.store, entry)
    reply = site_of(name, None, rules_of(sites), ledger=ledger).handle(bytes.fromhex(request))
    sys.stdout.write(f"{reply.hex()}\n")
    sys.stdout.flush()
    ledger.close()


def _nurse(name, sites, file):
    import pooled  # noqa: F401 - the largest part of a start

    for order in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _live(name, int(sites), Path(file), *order.split())
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            sys.stdout.write("-\n")
            sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    _nurse(*sys.argv[1:])
