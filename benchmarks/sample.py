"""`sample`: a density learnt at the paper's settings, exact draws from it, and the stated work of both.

The records are 10,000 of the paper's ring of eight Gaussians; Q_0 is the standard Gaussian on 256 by 256 points. All
times are processor time of one thread.
"""

import os
import time
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.common import Result, at_most, median
from curator_node.kinds.samples.learning import Density, NaiveBayesLearner, NetworkLearner, WeakLearner, learn_density
from protocol.grids import BaseLaw, NumberAxis
from protocol.kinds.sample import SAMPLE, PlannedSample, SampleBody
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

RECORDS, DRAWN, ROUNDS = 10_000, 10_000, 3
EPSILON = Fraction(1)
AXES = tuple(NumberAxis(name, -4.0, 4.0, 256, 0.0, 1.0) for name in ("x", "y"))
SCHEMA = Schema(tuple(NumericAttribute(name, -4, 4) for name in ("x", "y")), "side", ("no", "yes"))
LEARNERS: dict[str, tuple[WeakLearner, dict[str, Any]]] = {
    "the paper's network, 750 epochs in batches of 1,000": (NetworkLearner(), {}),
    "the paper's network, 750 steps of all examples": (NetworkLearner(batch=None), {"batch": 0}),
    "naive Bayes": (NaiveBayesLearner(), {"learner": "naive_bayes"}),
}
UNIT = 1e-10
"""Seconds of a core that one unit of stated work stands for."""


def ring(count: int) -> np.ndarray:
    """Records of eight Gaussians of deviation 0.1, on a circle of radius 2."""
    rng = np.random.default_rng(1)
    angles = rng.integers(0, 8, count) * np.pi / 4
    return 2 * np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(0, 0.1, (count, 2))


def run() -> list[Result]:
    """See the module."""
    base, points = BaseLaw.of(AXES), ring(RECORDS)
    results = []
    for name, (learner, keywords) in LEARNERS.items():
        start = time.process_time()
        density = learn_density(points, base, EPSILON, ROUNDS, learner=learner)
        learnt = time.process_time() - start
        drawing = median([_drawing(density) for _ in range(7)])
        results += [
            at_most(f"a density in two dimensions, T = 3, 10,000 records: {name}", learnt, 60, "s"),
            at_most(f"10,000 exact draws from it, epsilon 1: {name}", drawing, 1, "s"),
            Result(
                f"its gain in log-likelihood over the base law, of 1/2 at most: {name}", _gain(density, points), "nats"
            ),
        ]
        planned = PlannedSample(records=DRAWN, epsilon=Rational(1, 1), axes=AXES, rounds=ROUNDS, **keywords)
        stated = UNIT * SAMPLE.work(Question(Turn(planned), SampleBody(), SCHEMA), RECORDS)
        note = "stated work must not be less than what is done"
        results.append(at_most(f"time over stated work: {name}", (learnt + drawing) / stated, 1, "", note=note))
    return results


def _drawing(density: Density) -> float:
    start = time.process_time()
    density.draw_cells(DRAWN, os.urandom)
    return time.process_time() - start


def _gain(density: Density, points: np.ndarray) -> float:
    return float((density.log_density(points) - density.after(0).log_density(points)).mean())
