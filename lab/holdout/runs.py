"""One run: one data set, one way to choose variables, and how good each step's model is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction

import msgspec
import numpy as np

from lab.cells import TaskCell
from lab.holdout.blog import by_blog
from lab.holdout.draws import SETTINGS, DataSet, Sizes, draw
from lab.holdout.regression import Grown, by_likelihood, by_test, grow
from simulations.campaign.store import Task

NAIVE, THRESHOLDOUT, LARGE, SOURCE = "naive", "thresholdout", "naive, large test", "training likelihood"
EACH_STEP, EACH_CANDIDATE = "holdout, each step", "holdout, each candidate"
"""Procedures that ask a curator; the first chooses as `SOURCE` does."""
FREE = (NAIVE, THRESHOLDOUT, LARGE, SOURCE)
"""Procedures that no curator answers; what the test records lose is not accounted."""
PROCEDURES = (*FREE, EACH_STEP, EACH_CANDIDATE)  # all, in the order in which they are shown


class Run(TaskCell, frozen=True):
    """One run: the problem is a key of `SETTINGS`, the maker the procedure that chose.

    Epsilon is what the curator may charge, "inf" where none is asked; the seed is of the data set and of seeded noise.
    """

    problem: str = msgspec.field(name="setting")
    maker: str = msgspec.field(name="procedure")
    sizes: tuple[int, int, int]  # records of training, test and fresh
    signal: tuple[bool, ...]  # of each step, whether its variable carries signal
    train: tuple[int, ...]  # of each step, how many records its model predicts correctly
    test: tuple[int, ...]
    fresh: tuple[int, ...]
    seconds: float = 0.0
    # of each step, the accuracy that the learner believes in, in percent; empty where it is the test's
    estimates: tuple[float, ...] = ()
    questions: int = msgspec.field(default=0, name="asked")  # to the curator
    counted: int = 0  # how many of them were answered by counts
    last: int = -1  # step of the last question, from 0; -1 where none was asked
    charged: str = ""  # exact epsilon by the curator's ledger; "" where none was asked

    def percent(self, part: str) -> "list[float]":
        """Accuracy of each step on "train", "test" or "fresh" records."""
        size = dict(zip(("train", "test", "fresh"), self.sizes, strict=True))[part]
        return [100 * right / size for right in getattr(self, part)]

    @property
    def believed(self) -> list[float]:
        """Accuracy by step, in percent, that the user believes in: the estimates, or else the test accuracy."""
        return list(self.estimates) or self.percent("test")

    @property
    def signals_found(self) -> list[int]:
        """Number of signal variables that were chosen up to each step."""
        return [int(number) for number in np.cumsum(self.signal)]


@dataclass(frozen=True)
class Answers:
    """Questions to a curator and the learner's estimates; fields are those of `Run`."""

    estimates: tuple[float, ...]
    questions: int
    counted: int
    last: int
    charged: Fraction


Solve = Callable[[DataSet, Sizes, Fraction], tuple[Grown, Answers]]
"""A procedure that asks a curator: data set, sizes, epsilon -> what it chose, and what was answered."""


def compute_run(sizes: Sizes, solvers: Mapping[str, Solve], task: Task) -> Run:
    """One run; `solvers` are the procedures that ask a curator."""
    data = draw(SETTINGS[task.problem], task.seed, sizes)
    test = data.large if task.maker == LARGE else data.test
    answers: Answers | None = None
    if task.maker in solvers:
        grown, answers = solvers[task.maker](data, sizes, Fraction(task.epsilon))
    else:
        random = np.random.default_rng([task.seed, 1])
        score = {NAIVE: by_test, LARGE: by_test, THRESHOLDOUT: by_blog(random), SOURCE: by_likelihood}[task.maker]
        grown = grow(data, test, score, sizes.steps)
    asking = {} if answers is None else asdict(answers) | {"charged": str(answers.charged)}
    return Run(
        *task,
        sizes=(len(data.train), len(test), len(data.fresh)),
        signal=tuple(bool(data.signal[model.variables[-1]]) for model in grown.models),
        train=grown.train,
        test=grown.test,
        fresh=grown.fresh,
        **asking,
    )
