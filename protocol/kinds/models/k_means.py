"""k-means in a planned number of iterations from public centres (Blum, Dwork, McSherry and Nissim 2005)."""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.kinds.models.method import Body, Centres, Points, Work, check_map, wrong_body
from protocol.limits import BYTE_ONCE, CALL_ONCE
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_CLUSTERS = 1000
MOST_ITERATIONS = 50
_ROW_COST = 200
_CLUSTER_COST = 60
_ITERATION_COST = 500
_ONCE = 100 * CALL_ONCE


class KMeans(msgspec.Struct, frozen=True, kw_only=True, tag="k_means", forbid_unknown_fields=True):
    """Each iteration adds a record's vector (x, constant) to the cluster whose centre is nearest to x.

    The noisy sums of all iterations are released, (iterations, clusters, width + 1). The last column divided by the
    constant is a cluster's number of records. `next_centres` computes the next centres from the noisy sums alone.
    """

    points: Points  # how a record becomes its vector; the constant is at least 1
    clusters: Annotated[int, msgspec.Meta(ge=1, le=MOST_CLUSTERS)]  # K
    iterations: Annotated[int, msgspec.Meta(ge=1, le=MOST_ITERATIONS)]  # T; each spends epsilon / T

    @property
    def parts(self) -> int:
        """Number of iterations."""
        return self.iterations

    def complaint(self) -> str:
        """What the settings must be, if they do not fit together; "" if they do."""
        return "" if self.points.constant else "a constant of at least 1, by which records are counted"

    def label_complaint(self, schema: Schema) -> str:
        """Always "": no label is read."""
        return ""

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change: given the centres, a record moves the sums of one cluster in each iteration."""
        return most_records_per_unit * self.iterations * self.points.most_sum

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """0: no label is read."""
        return 0

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Largest L1 change: in each iteration a record leaves one cluster and enters another."""
        return 2 * self.sensitivity(most_records_per_unit)

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit."""
        if not isinstance(body, Centres):
            raise wrong_body(Centres, field)
        check_map(body.features, self.points.width, schema, field)
        limit = f"{self.clusters} x {self.points.width} little-endian int32 within +-{self.points.radius}"
        if len(body.centres) != 4 * self.clusters * self.points.width:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.centres", limit)
        if np.abs(body.table(self.points.width)).max() > self.points.radius:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.centres", limit)

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model."""
        return self.iterations * self.clusters * self.points.coordinates

    def next_centres(self, centres: NDArray[np.float64], sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Centres after an iteration, (..., clusters, width) whole numbers within +-radius.

        A cluster of less than one record, by its noisy number, keeps its centre.

        Args:
            centres: (..., clusters, width) before the iteration.
            sums: (..., clusters, width + 1) that the iteration released.
        """
        constant, radius = self.points.constant, float(self.points.radius)
        mass = sums[..., -1:].astype(np.float64)
        moved = np.clip(np.rint(sums[..., :-1] * float(constant) / np.maximum(mass, constant)), -radius, radius)
        return np.where(mass >= constant, moved, centres)

    def path(self, numbers: NDArray[np.int64], body: Centres) -> list[NDArray[np.float64]]:
        """Centres before each iteration and after the last one, from the released numbers of one model."""
        centres = [body.table(self.points.width)]
        for sums in numbers.reshape(self.iterations, self.clusters, -1):
            centres.append(self.next_centres(centres[-1], sums))
        return centres

    def nearest(self, rows: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
        """The nearest cluster of each record, (n,); the first one if several are equally near.

        It maximises 2 x.c - ||c||^2 over centres c. This is a whole number below 2^53, hence exact in any order of
        summation. `rows` are
        (n, width + 1) of `Points.rows`; `centres` are (clusters, width) whole numbers.
        """
        scores = rows[:, :-1] @ (2.0 * centres.T) - np.sum(centres * centres, axis=1)
        nearest: NDArray[np.intp] = np.argmax(scores, axis=1)
        return nearest

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model."""
        if not isinstance(body, Centres):
            raise wrong_body(Centres, "body")
        mapping, next_run = (
            body.features.multiply_adds() + _ROW_COST * self.points.coordinates,
            self.work_of_another_run,
        )
        once = body.features.multiply_adds_once() + BYTE_ONCE * len(body.centres)
        return Work(self.iterations * mapping + next_run.per_record, once + next_run.once)

    @property
    def work_of_another_run(self) -> Work:
        """Work of another run on mapped points, which starts at the same centres but has its own noise."""
        size = self.points.coordinates
        placing = self.clusters * (size + _CLUSTER_COST) + 40 * size + _ITERATION_COST
        return Work(self.iterations * placing, self.iterations * _ONCE)
