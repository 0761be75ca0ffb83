"""The whole audit as a person runs it, `expril audit all`, and its first look: wall and processor seconds."""

import tempfile

from benchmarks.common import Result, at_most, command_seconds

MOST = {"expril audit all --quick": 15.0, "expril audit all": 90.0}


def run() -> list[Result]:
    """See the module. An older commit has no first look."""
    results = []
    for command, limit in MOST.items():
        with tempfile.TemporaryDirectory() as folder:
            wall, processor, status = command_seconds(*command.split(), "--out", folder)
        if status in (0, 1):
            note = "two processes; passed" if status == 0 else "two processes; something was found or not caught"
            results += [
                at_most(command, wall, limit, "s", note=note),
                Result(f"{command}, processor time of all", processor, "s"),
            ]
    return results
