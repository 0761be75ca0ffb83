"""A process that finds this folder on PYTHONPATH is without what deploy/curator.excluded names, like a curator."""

import sys
from pathlib import Path

LIST = Path(__file__).resolve().parents[3] / "deploy" / "curator.excluded"
MODULES = {"pyyaml": "yaml"}
"""Where it is not the distribution's name."""


def excluded():
    """Distributions that the lock leaves out, as they are named."""
    return [line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def modules():
    """The modules of those."""
    return {MODULES.get(name, name.replace("-", "_")) for name in excluded()}


class Absent:
    """Finds none of them."""

    def __init__(self):
        self.names = modules()

    def find_spec(self, name, path=None, target=None):
        """Raise as if it were not installed, or leave it to the others."""
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
