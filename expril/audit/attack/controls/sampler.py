"""A sampler that is broken on purpose: Metropolis and Hastings' walk, which reaches its law in the limit only."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Question
from curator_node.dataset import PrivateDataset
from curator_node.kinds import ANSWERERS
from curator_node.kinds.sample import density_of, points_of
from curator_node.kinds.samples.learning import Density
from curator_node.mechanisms import NoiseSource
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.kinds.invented import Neighbours, Record, held
from expril.audit.kinds.path import Path
from protocol.codec import encode
from protocol.kinds.sample import NUMBER, SampleRelease

STEPS = 10
"""Of the walk; to a neighbouring cell each."""
_KIND = ANSWERERS["sample"]
_EXAMPLE = _KIND.kind.examples()[""][0]


def path() -> Path:
    """The shipped question of one axis, answered by the walk."""
    return Path(replace(_KIND, answer=walked), _EXAMPLE, _EXAMPLE.copies, QuickNoise)


def pair() -> Neighbours:
    """A record at one end of the axis, and the same with one at the other end."""
    first: Record = {"x": -2.0, "s": "a", "outcome": "no"}
    last: Record = {**first, "x": 2.0}
    return Neighbours(((first,),), (last,))


def walked(question: Question, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """As the registered answerer, but for the draws."""
    planned = question.turn.planned
    density = density_of(planned, dataset, question.schema)
    rng = np.random.default_rng(np.frombuffer(noise.randomness(question.stamp)(32), np.uint32))
    starts = density.base.cells(points_of(dataset, density.base))[:, 0]
    cells = rng.choice(starts, planned.records)
    moves = _moves(density)
    for _ in range(STEPS):
        chances = np.cumsum(moves[cells], axis=1)
        cells = (rng.random((len(cells), 1)) >= chances[:, :-1]).sum(axis=1)
    return Answered(encode(SampleRelease(cells.astype(NUMBER).tobytes())))


def truth() -> float:
    """The walk's true loss on these records: the largest ratio of where it ends."""
    laws = []
    for units in pair().both:
        dataset = held(units, _EXAMPLE)
        density = density_of(_EXAMPLE.ask(1).planned, dataset, dataset.schema)
        starts = np.bincount(density.base.cells(points_of(dataset, density.base))[:, 0], minlength=len(_moves(density)))
        laws.append(starts / starts.sum() @ np.linalg.matrix_power(_moves(density), STEPS))
    return float(np.abs(np.log(laws[0] / laws[1])).max())


def _moves(density: Density) -> NDArray[np.float64]:
    """(cells, cells) chances of a step: to either neighbour by a coin, accepted by the ratio of the law there."""
    masses = density.masses()
    size = len(masses)
    moves = np.zeros((size, size))
    for cell in range(size):
        for neighbour in (cell - 1, cell + 1):
            if 0 <= neighbour < size:
                moves[cell, neighbour] = min(1.0, masses[neighbour] / masses[cell]) / 2
        moves[cell, cell] = 1 - moves[cell].sum()
    return moves
