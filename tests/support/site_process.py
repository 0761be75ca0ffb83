"""A curator of a folder in a process of its own: python site_process.py FOLDER LEDGER MARK.

A line of JSON in, a line of JSON out: {"handle": envelope in hexadecimal} -> {"reply": the same}; {"limit": bytes that
a file may have, or null} -> {}.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class SiteProcess:
    """The other end: a curator whose `handle` is another process's.

    Attributes:
        identity: the curator's public key.
        version: the name of its records on the ledger.
    """

    def __init__(self, folder, ledger, mark, **environment):
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(ledger), str(mark)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        self._told = None

    def _ready(self):
        if self._told is None:
            self._told = json.loads(self.process.stdout.readline())
        return self._told

    @property
    def identity(self):
        return bytes.fromhex(self._ready()["identity"])

    @property
    def version(self):
        return self._ready()["version"]

    @property
    def error(self):
        """Why it did not open; empty where it did."""
        return self._ready().get("error", "")

    def send(self, **line):
        self._ready()
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def handle(self, data):
        self.send(handle=data.hex())
        return bytes.fromhex(self.receive()["reply"])

    def limit(self, size):
        self.send(limit=size)
        self.receive()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.wait()


def tell(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def serve():
    from curator_node.ledger.places import ledger_place
    from curator_node.site import open_site
    from protocol.errors import ExprilError

    folder, ledger, mark = sys.argv[1:]
    try:
        site = open_site(Path(folder), ledger=ledger_place(ledger), mark=Path(mark))
    except ExprilError as error:
        tell(error=str(error), identity="", version="")
        return
    with site:
        tell(identity=site.identity.hex(), version=site.data_version)
        for line in sys.stdin:
            asked = json.loads(line)
            if "limit" in asked:
                most = resource.RLIM_INFINITY if asked["limit"] is None else asked["limit"]
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
                tell()
            else:
                tell(reply=site.handle(bytes.fromhex(asked["handle"])).hex())


if __name__ == "__main__":
    serve()
