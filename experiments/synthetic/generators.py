"""The data sets that are compared, all for the same private records: ours, trivial bounds, AIM and MST."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from experiments.learning.problems import Split
from experiments.learning.studies import make_study
from experiments.peers import marginals
from experiments.peers.environment import peers_python
from experiments.synthetic.utility import WeightedRecords
from learner_node.learn import POOLED
from learner_node.strategies import DEFAULT_STRATEGY
from learner_node.strategies.base import SourceEstimate
from protocol.errors import ExprilError

DELTA = 1e-6
"""Of AIM and MST, whose guarantee is (epsilon, delta); ours is pure."""
MOST_SECONDS = 1800


class GeneratorFailedError(ExprilError):
    """A generator's process ended without records. The text names the kind of error, never a value."""


@dataclass(frozen=True)
class Generator:
    """One row of the tables.

    Attributes:
        name: as in the results.
        title: for people.
        generate: (split, epsilon) -> the data set that stands for the private records.
        private: whether epsilon is spent; what is not is made once, under epsilon "inf".
        pure: whether delta is 0.
        needs_environment: whether it runs in the peers' environment.
        trains: whether a classifier may be trained on it; not on the test records.
    """

    name: str
    title: str
    generate: Callable[[Split, Fraction], WeightedRecords]
    private: bool = True
    pure: bool = True
    needs_environment: bool = False
    trains: bool = True


def ours(split: Split, epsilon: Fraction) -> WeightedRecords:
    """The default strategy over real curators: the source's rows, weighted and softly labelled.

    Raises:
        WrongCostError: a ledger holds another sum than epsilon.
    """
    learned = make_study(split, DEFAULT_STRATEGY, {}, epsilon)
    estimate = learned.estimates[POOLED]
    if not isinstance(estimate, SourceEstimate):
        raise TypeError(f"the label of {split.problem} has not two classes")
    return WeightedRecords(split.matrices.source, estimate.weights, estimate.probability)


def plain_source(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The source as it is, all rows labelled with the private records' more frequent class."""
    majority = float(split.private_labels.mean() > 0.5)
    rows = len(split.matrices.source)
    return WeightedRecords(split.matrices.source, np.ones(rows), np.full(rows, majority))


def real(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The private records themselves."""
    return WeightedRecords.of(split.matrices.train, split.matrices.labels)


def fresh(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The test records with their labels: how far two real samples are apart."""
    return WeightedRecords.of(split.matrices.test, split.matrices.test_labels)


def generated(algorithm: str) -> Callable[[Split, Fraction], WeightedRecords]:
    """AIM or MST at (epsilon, `DELTA`), with bounds and levels from the source, in the peers' environment."""

    def generate(split: Split, epsilon: Fraction) -> WeightedRecords:
        return _in_environment(algorithm, split, epsilon)

    return generate


GENERATORS: dict[str, Generator] = {
    each.name: each
    for each in (
        Generator(DEFAULT_STRATEGY, "ours: the learner's source, weighted and labelled by answers", ours),
        Generator("aim", "AIM, for triples with the label", generated("aim"), pure=False, needs_environment=True),
        Generator("mst", "MST", generated("mst"), pure=False, needs_environment=True),
        Generator("source", "the source with the majority's label", plain_source, private=False),
        Generator("real", "the private records themselves", real, private=False),
        Generator("fresh", "the test records with their labels", fresh, private=False, trains=False),
    )
}
"""By name, in the order of the tables."""


def _in_environment(algorithm: str, split: Split, epsilon: Fraction) -> WeightedRecords:
    python = peers_python()
    matrices = split.matrices
    with tempfile.TemporaryDirectory() as folder:
        request, reply = Path(folder, "request.npz"), Path(folder, "reply.npz")
        np.savez(
            request,
            algorithm=np.array(algorithm),
            train=matrices.train,
            labels=matrices.labels,
            lower=matrices.lower,
            upper=matrices.upper,
            columns=np.array(matrices.columns),
            epsilon=np.array(float(epsilon)),
            delta=np.array(DELTA),
            seed=np.array(split.seed),
        )
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        settings = {**os.environ, **threads}
        command = [str(python), str(Path(marginals.__file__)), str(request), str(reply)]
        try:
            done = subprocess.run(  # noqa: S603 - our own file, by the environment that the user named
                command, env=settings, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise GeneratorFailedError(f"{algorithm} took more than {MOST_SECONDS} s on {split.problem}") from None
        if done.returncode:
            kind = (done.stderr.strip().splitlines() or [""])[-1].partition(":")[0]
            raise GeneratorFailedError(f"{algorithm} failed on {split.problem}: {kind or f'status {done.returncode}'}")
        with np.load(reply, allow_pickle=False) as found:
            return WeightedRecords.of(found["matrix"], found["labels"])
