"""A whole study of a million records at four sites, over one logistic regression on the same records, pooled.

The study is `SimulatedExPriLClassifier` with its defaults: strategy `cells` with networks, epsilon 1; the learner's
source is all records, without labels. It has a process of its own, whose memory is measured from its first line, data
included. Times are of the processor, on one thread.
"""

import multiprocessing
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.common import Result, at_most, peak_memory

RECORDS, ATTRIBUTES, SITES = 1_000_000, 10, 4
MOST_SECONDS, MOST_MEGABYTES = 12.0, 700.0


def run() -> list[Result]:
    """See the module."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, megabytes = pool.apply(_study)
    points, labels = _problem()
    with threadpool_limits(1):
        start = time.process_time()
        LogisticRegression().fit(points, labels)
        pooled = time.process_time() - start
    name = f"{RECORDS:,} records of {ATTRIBUTES} attributes, {SITES} sites, a whole study"
    return [
        at_most(name, seconds, MOST_SECONDS, "s", note=f"logistic regression on the pooled records: {pooled:.2f} s"),
        Result(f"{name}, over logistic regression", seconds / pooled, "times"),
        at_most(f"{name}, memory", megabytes, MOST_MEGABYTES, "MB", note="the largest, data and libraries included"),
    ]


def _problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(RECORDS, ATTRIBUTES))
    chance = 0.5 * rng.normal(size=RECORDS)
    return points, (points[:, 0] + 0.5 * points[:, 1] ** 2 + chance > 0.3).astype(np.int64)


def _study() -> tuple[float, float]:
    """Seconds of processor, and the largest memory in megabytes."""
    from simulations.local import SimulatedExPriLClassifier

    points, labels = _problem()
    with threadpool_limits(1):
        start = time.process_time()
        SimulatedExPriLClassifier(n_curators=SITES, bounds=(-6, 6), random_state=0, noise_seed=1).fit(points, labels)
        seconds = time.process_time() - start
    return seconds, peak_memory()
