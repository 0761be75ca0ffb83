"""Reads `sample` releases into tables of synthetic records; several curators' tables are concatenated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from learner_node.study.reading import Reader
from protocol.grids import BaseLaw, LevelAxis, levels_of
from protocol.kinds import sample
from protocol.query_kind import Question
from protocol.schema import NumericAttribute, Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class SampleAnswer:
    """Synthetic records."""

    schema: Schema  # of the records that they are like
    base: BaseLaw  # the grid that they lie on, and the law that they come from where nothing was learnt
    cells: NDArray[np.int64]  # (n, axes) int64, their places on it
    sites: int = 1  # number of curators that drew them

    @property
    def points(self) -> NDArray[np.float64]:
        """(n, axes): numbers in the middle of their cells, levels and classes from 0."""
        return self.base.points(self.cells)

    def frame(self) -> "pl.DataFrame":
        """A table of n rows as a steward's would be: every attribute and the label; what was not drawn is missing.

        Numbers are Float64, dates Datetime, levels and classes String. `protocol.record_frames.encode_frame` reads its
        attributes.
        """
        import polars as pl  # noqa: PLC0415 - who asks for nothing of the kind waits for no library of tables

        from protocol.record_frames import times_of  # noqa: PLC0415 - as above

        schema = self.schema
        numbers = {attribute.name for attribute in schema.attributes if isinstance(attribute, NumericAttribute)}
        numbers |= {schema.label} if schema.label_bounds is not None else set()
        names = [*(attribute.name for attribute in schema.attributes), schema.label]
        types = {name: pl.Float64 if name in numbers else pl.String for name in names}
        table = {name: pl.Series(name, [None] * len(self.cells), types[name]) for name in names}
        points = self.points
        for column, axis in enumerate(self.base.axes):
            if isinstance(axis, LevelAxis):
                values = np.array(levels_of(axis.name, schema), object)[self.cells[:, column]].tolist()
            else:
                values = points[:, column].tolist()
            table[axis.name] = pl.Series(axis.name, values, types[axis.name])
        for attribute in schema.attributes:
            if isinstance(attribute, NumericAttribute) and attribute.days_since:
                days = table[attribute.name].fill_null(np.nan).to_numpy()
                table[attribute.name] = times_of(days, attribute)
        return pl.DataFrame(list(table.values()))


def read(data: bytes, question: Question) -> SampleAnswer:
    """Decode a release. Raises RemoteProtocolError: it is no SampleRelease of the planned shape."""
    base = question.turn.planned.base_law(question.schema)
    cells = sample.SAMPLE.read_release(data, question).reshape(-1, len(base.axes))
    return SampleAnswer(question.schema, base, cells)


def put_together(answers: Sequence[SampleAnswer]) -> SampleAnswer:
    """Concatenate the records of several curators' answers to one query."""
    cells = np.concatenate([answer.cells for answer in answers])
    return replace(answers[0], cells=cells, sites=sum(answer.sites for answer in answers))


def complaint_about(_answer: SampleAnswer, _round_size: int | None) -> str:
    """Always "": any record of the grid can be drawn from any curator's records."""
    return ""


SAMPLE = Reader(kind=sample.SAMPLE, read=read, pool=put_together, complaint=complaint_about)
