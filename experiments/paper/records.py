"""The paper's records as a steward and a learner hold them: frames, and the schema over them."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.steward import StewardFile
from experiments.paper.draws import Draw
from protocol.schema import NumericAttribute

LABEL_COLUMN, CLASSES = "label", ("0", "1")
BOUND = 32.0
"""Declared bounds of all attributes: the records are standardised by the source, or lie in [0, 1]. A few CTG rows
(12 in 20 draws) have an attribute beyond; it counts as the bound."""


def draw_steward(draw: Draw, round_size: int | None = None) -> StewardFile:
    """A schema of numeric attributes; the paper takes every row as independent, so the record is the unit.

    Args:
        draw: whose attributes they are.
        round_size: declared; the paper's Table 1 prints it for each data set.
    """
    attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in draw.attributes)
    return StewardFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=round_size)


def draw_frame(draw: Draw, records: NDArray[np.float64], labels: NDArray[np.int64] | None = None) -> pl.DataFrame:
    """Records of a draw as a frame, with the label column where labels are given.

    Args:
        draw: whose attributes they have.
        records: (n, d) rows of the draw.
        labels: (n,) in {0, 1}.
    """
    frame = pl.DataFrame({name: records[:, index] for index, name in enumerate(draw.attributes)})
    return frame if labels is None else frame.with_columns(pl.Series(LABEL_COLUMN, labels).cast(pl.String))
