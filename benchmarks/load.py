"""How busy a machine is: a loop that is always the same, and the shares that others take of its cores.

It loads nothing else, since the gates of the tests begin with it, too.
"""

import os
import statistics
import time
from pathlib import Path


def loop_seconds() -> float:
    """Seconds of processor for a loop that is always the same: .04 on the machine where the tests' limits were set."""
    began = time.process_time()
    total = 0
    for number in range(600_000):
        total += number * number % 7
    return time.process_time() - began


class Load:
    """How busy the machine is from now on, beside this process and those that it waits for."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._loops = [loop_seconds() for _ in range(3)]
        self._ticks, self._own = _ticks(), sum(os.times()[:4])

    def measured(self) -> dict[str, float]:
        """Seconds since then, and of the reference loop; shares of the machine's time, 0 to 1, where Linux tells.

        `others` is what other processes took, and `stolen` what the host of a virtual machine gave to other guests.
        """
        ticks, own = _ticks(), sum(os.times()[:4])
        loops = [*self._loops, *(loop_seconds() for _ in range(3))]
        lasted = time.monotonic() - self._began
        told = {"lasted_seconds": round(lasted, 1), "loop_seconds": round(statistics.median(loops), 4)}
        if ticks and self._ticks:
            spans = [now - then for now, then in zip(ticks, self._ticks, strict=True)]
            whole = max(1, sum(spans))
            idle, stolen = spans[3] + spans[4], spans[7]
            used = (own - self._own) * os.sysconf("SC_CLK_TCK")
            told["others"] = round(max(0.0, whole - idle - stolen - used) / whole, 3)
            told["stolen"] = round(stolen / whole, 3)
        return told


def _ticks() -> list[int]:
    """User, nice, system, idle, waiting, two of interrupts, stolen: of all cores since the start; empty elsewhere."""
    try:
        return [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except OSError:
        return []
