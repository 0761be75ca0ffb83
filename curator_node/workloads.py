"""Workloads encoded once and counted fast: at most one byte per record and partition for small partitions.

Neighbouring partitions are counted jointly: counters for up to 16,384 joint cells fit the second-level
cache, and one pass over a uint16 column serves several partitions at once. The lowest bit is left
free for "the hypothesis errs here".
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import digest
from protocol.partitions import Partition
from protocol.records import Records

LEAST_JOINT_CELLS = 256
MOST_JOINT_CELLS = 16_384
"""Between these, a joint group has a quarter as many cells as there are records: more would only cost summing up."""

Codes = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class EncodedWorkload:
    """A workload applied to all records.

    Attributes:
        groups: joint cell of each record, doubled; shape (n,), the smallest unsigned type that fits.
        sizes: cell counts of the partitions of each group.
    """

    groups: tuple[Codes, ...]
    sizes: tuple[tuple[int, ...], ...]

    @property
    def nbytes(self) -> int:
        """Memory kept, in bytes."""
        return sum(group.nbytes for group in self.groups)

    def count(self, errors: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records per cell where the hypothesis errs, and where it does not.

        Args:
            errors: (n,) bool.

        Returns:
            Two (sum of cell counts,) int64 vectors, partition by partition.
        """
        wrong: list[NDArray[np.int64]] = []
        right: list[NDArray[np.int64]] = []
        lowest_bits = errors.view(np.uint8)
        for codes, sizes in zip(self.groups, self.sizes, strict=True):
            length = 2 * math.prod(sizes)
            joint = np.ascontiguousarray(np.bincount(codes | lowest_bits, minlength=length).reshape(-1, 2).T)
            for k in sizes:
                joint = joint.reshape(2, k, -1)
                marginal = joint.sum(axis=2)
                right.append(marginal[0])
                wrong.append(marginal[1])
                joint = joint.sum(axis=1)
        return np.concatenate(wrong), np.concatenate(right)


def encode_workload(partitions: Sequence[Partition], records: Records) -> EncodedWorkload:
    """Apply every partition to every record once."""
    groups: list[Codes] = []
    sizes: list[tuple[int, ...]] = []
    joint = np.zeros(len(records), np.intp)
    members: list[int] = []
    most = min(max(len(records) // 4, LEAST_JOINT_CELLS), MOST_JOINT_CELLS)
    for partition in partitions:
        k = partition.cell_count(records.schema)
        if members and math.prod(members) * k > most:
            groups.append(_pack(joint, members))
            sizes.append(tuple(members))
            joint, members = np.zeros(len(records), np.intp), []
        joint = joint * k + partition.cells(records)
        members.append(k)
    groups.append(_pack(joint, members))
    sizes.append(tuple(members))
    return EncodedWorkload(tuple(groups), tuple(sizes))


class WorkloadCache:
    """Encoded workloads by digest, least recently used out first, bounded in bytes."""

    def __init__(self, records: Records, most_bytes: int) -> None:
        self._records = records
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, EncodedWorkload] = OrderedDict()
        self._bytes = 0

    def get(self, partitions: tuple[Partition, ...]) -> EncodedWorkload:
        """The encoding of a workload, from memory where it is kept."""
        key = digest(encode(partitions))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        encoded = encode_workload(partitions, self._records)
        if encoded.nbytes <= self._most_bytes:
            self._kept[key] = encoded
            self._bytes += encoded.nbytes
            while self._bytes > self._most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return encoded


def _pack(joint: NDArray[np.intp], sizes: list[int]) -> Codes:
    return (joint * 2).astype(np.min_scalar_type(2 * math.prod(sizes) - 1))
