"""MBDE as the study asks for it: `curator_node/kinds/samples` learns it, from the records that a curator would hold."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from curator_node.exact_draws import RandomBytes
from curator_node.kinds.samples.learning import NetworkLearner, clipped, learn_density
from lab.sample.domains import Box
from protocol.grids import BaseLaw, NumberAxis

Floats = NDArray[np.float64]
ROUNDS, EXAMPLES = 3, 10_000
"""T, and records and draws of each classifier, as in the paper."""


@dataclass(frozen=True)
class Training:
    """Passes over all examples, and examples of a step; None takes all of them."""

    epochs: int
    batch: int | None

    def __str__(self) -> str:
        """For tables."""
        return f"{self.epochs} epochs in {'one batch' if self.batch is None else f'batches of {self.batch}'}"


WHOLE = Training(750, None)
"""The paper's number of epochs; it names no batch."""
TRAINING = {1: WHOLE, 2: Training(75, 250)}
"""By dimensions. In the plane 750 steps with all examples hardly leave the first weights; a tenth of the epochs in
small batches costs half and has 8 times as many steps."""


@dataclass(frozen=True)
class Learnt:
    """A density that MBDE learnt, on the grid of its base."""

    masses: Floats  # (n,) probabilities of the cells, the last coordinate fastest
    classifiers: tuple[Floats, ...]  # c_t at each cell, clipped
    thetas: tuple[float, ...]  # the leverage of each
    settings: str  # of the training, in words


@lru_cache(maxsize=4)
def base_law(box: Box, cells: int) -> BaseLaw:
    """A standard Gaussian on a box of as many cells in each coordinate."""
    axes = [
        NumberAxis(f"x{place}", low, high, cells, 0.0, 1.0)
        for place, (low, high) in enumerate(zip(box.low, box.high, strict=True))
    ]
    return BaseLaw.of(axes)


def base_masses(box: Box, cells: int) -> Floats:
    """(n,) probabilities of the cells under Q_0."""
    law = base_law(box, cells)
    found: Floats = np.exp(law.log_masses(_every(law)))
    return found


def learn(box: Box, cells: int, records: Floats, epsilon: Fraction, seed: int, training: Training) -> Learnt:
    """Learn a density, and evaluate it and its classifiers on the whole grid.

    `box` is of Q_0, `records` are (n, d); the seed is of the learner's draws and first weights.
    """
    law = base_law(box, cells)
    learner = NetworkLearner(epochs=training.epochs, batch=training.batch)
    density = learn_density(
        records, law, epsilon, ROUNDS, learner=learner, examples=EXAMPLES, random_bytes=_seeded(seed)
    )
    every = _every(law)
    return Learnt(
        density.masses().ravel(),
        tuple(clipped(each.log_odds(every)) for each in density.classifiers),
        density.thetas,
        f"T = {ROUNDS}, {EXAMPLES:,} records and draws, {training}",
    )


def _every(law: BaseLaw) -> NDArray[np.int64]:
    """(n, d) all cells, the last coordinate fastest."""
    return np.column_stack(np.unravel_index(np.arange(math.prod(law.sizes)), law.sizes)).astype(np.int64)


def _seeded(seed: int) -> RandomBytes:
    return np.random.default_rng(seed).bytes
