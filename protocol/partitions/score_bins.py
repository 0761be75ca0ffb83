"""Bins of a submitted hypothesis' logit: cells of alike score, drawn where a learner is sure and where it is not."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.hypotheses import Mlp
from protocol.partitions.grid_edges import GridEdges, bins, check_edges, search_cost, search_once
from protocol.records import Records
from protocol.schema import Schema


class ScoreBins(msgspec.Struct, frozen=True, tag="score_bins", forbid_unknown_fields=True):
    """Bin j holds the records with e_j <= logit < e_{j+1}; the end bins are unbounded; len(edges) + 1 cells.

    `edges` are in units of the logit, rounded to the logit's own grid of 2^-24. Since a hypothesis predicts class 1
    where its logit is *above* 0, the edge 2^-24, not 0, separates the two classes exactly.
    """

    hypothesis: Mlp
    edges: GridEdges

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "edges", tuple(map(float, self.edges)))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless hypothesis and edges fit; reads no record."""
        self.hypothesis.check(schema, f"{field}.hypothesis")
        check_edges(self.edges, f"{field}.edges")

    def cell_count(self, schema: Schema) -> int:  # noqa: ARG002
        """Number of bins k."""
        return len(self.edges) + 1

    def multiply_adds(self) -> int:
        """Work of the network and of a binary search for one record."""
        return self.hypothesis.multiply_adds() + search_cost(self.edges)

    def multiply_adds_once(self) -> int:
        """Work of preparing both."""
        return self.hypothesis.multiply_adds_once() + search_once(self.edges)

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The bin of each record's exact logit, shape (n,)."""
        return bins(self.hypothesis.logits(records), self.edges)
