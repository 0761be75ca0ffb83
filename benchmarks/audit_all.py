"""The whole audit as a person runs it, `expril audit all`, and its first look: wall and processor seconds.

Beside them stand what no order of work saves: the modules that its three processes load, and the exact noise of one
number for each draw of each release, at as many copies a call as its questions of counts have.
"""

import tempfile
import time
from fractions import Fraction

import numpy as np

from benchmarks.common import Result, at_most, command_seconds
from curator_node.mechanisms import ExactNoise, Stamp
from expril.audit.attack.kinds import kinds_to_audit
from expril.audit.attack.whole_audit import DRAWS
from protocol.noise import DiscreteLaplace

MOST = {"expril audit all --quick": 15.0, "expril audit all": 90.0}
PROCESSES, COPIES = 3, 500


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
    modules = PROCESSES * command_seconds("expril.audit.attack.whole_audit")[1]
    note = f"{PROCESSES} times: of the command and of two workers; a first look takes them as well"
    results.append(Result("its processes' modules alone, of the processor", modules, "s", note=note))
    exact, law, noise = np.zeros(COPIES, np.int64), DiscreteLaplace(Fraction(30)), ExactNoise()
    kinds, start = len(kinds_to_audit()), time.process_time()
    for call in range(2 * DRAWS // COPIES):
        noise.discrete_laplace(exact, 1, law, Stamp("benchmark", 0, call))
    draws = kinds * (time.process_time() - start)
    note = f"one number of noise for each of {2 * DRAWS} draws of {kinds} releases"
    results.append(Result("its draws alone, of the processor", draws, "s", note=note))
    return results
