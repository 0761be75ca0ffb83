"""The seven problems of the paper's Table 1: how their data are drawn, their networks, and how these are trained.

The training settings are not the paper's, which prints none; they are chosen so that a network trained on the oracle's
own records is about as accurate as the paper's (column h* of Table 2). ADR 4 has the measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass

from experiments.paper.cardiotocography import draw_ctg_a, draw_ctg_b
from experiments.paper.draws import Draw
from experiments.paper.synthetic import draw_a, draw_b, draw_c, draw_d, draw_e

__all__ = ["PAPER_DATASETS", "Draw", "PaperDataset", "Training", "draw"]


@dataclass(frozen=True)
class Training:
    """Options of ``learner_node.networks.train_network``, by its names; AdamW, ReLU, linearly falling rate."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float


@dataclass(frozen=True)
class PaperDataset:
    """One row of Table 1.

    Attributes:
        name: "A" to "E", "CTG-A" or "CTG-B".
        draw: the data of a run from its seed (>= 0).
        dimensions: d, the columns of the records.
        hidden: units of the hidden layers.
        rounds: T, hypotheses that are trained.
        reweight: whether masses are asked first and Pb. 1 solved, because source and target differ.
        queries: questions in all, over which epsilon is divided; ``rounds``, plus one for the masses.
        target_size: n, records of the oracle.
        training: of every network, h* included.
    """

    name: str
    draw: Callable[[int], Draw]
    dimensions: int
    hidden: tuple[int, ...]
    rounds: int
    reweight: bool
    queries: int
    target_size: int
    training: Training


_DEEP = (16, 256, 256, 16)
_SHALLOW = (32, 32)
_DEEP_TRAINING = Training(epochs=17, batch_size=128, learning_rate=5e-3, weight_decay=1e-4)
_CTG_TRAINING = Training(epochs=30, batch_size=64, learning_rate=3e-3, weight_decay=1e-4)
_SHALLOW_TRAINING = Training(epochs=15, batch_size=256, learning_rate=5e-3, weight_decay=1e-4)

PAPER_DATASETS: dict[str, PaperDataset] = {
    row.name: row
    for row in (
        PaperDataset("A", draw_a, 2, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("B", draw_b, 4, _DEEP, 2, False, 2, 2500, _DEEP_TRAINING),
        PaperDataset("C", draw_c, 10, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("D", draw_d, 15, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("E", draw_e, 25, _SHALLOW, 2, True, 3, 5000, _SHALLOW_TRAINING),
        PaperDataset("CTG-A", draw_ctg_a, 22, _DEEP, 2, False, 2, 709, _CTG_TRAINING),
        PaperDataset("CTG-B", draw_ctg_b, 22, _DEEP, 2, True, 3, 708, _CTG_TRAINING),
    )
}
"""By name, in the order of Table 1."""


def draw(name: str, seed: int) -> Draw:
    """The data of one run.

    Raises:
        ValueError: No data set has that name, or the seed is negative.
        DataUnavailableError: CTG's workbook is not to be had.
    """
    if name not in PAPER_DATASETS:
        raise ValueError(f"the paper has no data set {name!r}; it has {', '.join(PAPER_DATASETS)}")
    return PAPER_DATASETS[name].draw(seed)
