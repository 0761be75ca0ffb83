"""A small campaign that processes elsewhere can import."""

import os
import signal
import time
from pathlib import Path

import msgspec

from simulations.campaign.store import Task

TASKS = [Task("tiny", "adds", "1", seed) for seed in range(8)]
KILLED = 3


class Number(msgspec.Struct, frozen=True):
    """A cell."""

    problem: str
    maker: str
    epsilon: str
    seed: int
    value: int
    seconds: float = 0.01

    @property
    def key(self):
        return Task(self.problem, self.maker, self.epsilon, self.seed)


def compute(task):
    return Number(*task, value=task.seed + 1)


def compute_and_be_killed(task):
    if task.seed == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    return compute(task)


def compute_or_wait(task):
    """All but the first two wait for a file of the folder that the test names."""
    while task.seed > 1 and not Path(os.environ["EXPRIL_TEST_GO"]).exists():
        time.sleep(0.05)
    return compute(task)
