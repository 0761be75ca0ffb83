"""vantage6's Kaplan-Meier algorithm, run in the environment of audited peers: what a node sends first.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.
"""

import os
import secrets
from importlib import import_module

import numpy as np
import pandas as pd

from lab.peers.task import Matrix, Setting, Vector

LIBRARIES = ("v6-kaplan-meier-py", "vantage6-algorithm-tools")
SEED = "KAPLAN_MEIER_RANDOM_SEED"
ABSENT = -1.0  # in place of a time, where several persons have one

partial = import_module("v6-kaplan-meier-py.partial")


def event_times(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """The unique event times after noise, sorted, `asks` times in a row, (draws, asks * persons).

    `records`: (persons, 1) times in days; `seed`: "unset", the default, or "fresh", another one for each draw, as if
    each came from a node of its own.
    """
    asks = int(setting.get("asks", 1))

    def ask() -> Vector:
        frame = pd.DataFrame({"time": records[:, 0].astype(int)})
        times = partial.get_unique_event_times("time", mock_data=[frame])
        return np.pad(np.sort(np.asarray(times, float)), (0, len(records) - len(times)), constant_values=ABSENT)

    def node() -> Vector:
        os.environ.pop(SEED, None)
        if setting.get("seed") == "fresh":
            os.environ[SEED] = str(1 + secrets.randbelow(2**32 - 1))
        return np.concatenate([ask() for _ in range(asks)])

    try:
        return np.array([node() for _ in range(draws)])
    finally:
        os.environ.pop(SEED, None)


RELEASES = {"event-times": event_times}
