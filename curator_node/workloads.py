"""Workloads encoded once and counted fast: at most one byte per record and partition for small partitions.

Neighbouring partitions are counted jointly: counters for up to 16,384 joint cells fit the second-level
cache, and one pass over a uint16 column serves several partitions at once. The lowest bit is left
free for "the hypothesis errs here". Many records are encoded by several threads, one share of them each.
"""

import math
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import digest
from protocol.partitions import Partition
from protocol.records import Records

LEAST_JOINT_CELLS = 256
MOST_JOINT_CELLS = 16_384
"""Between these, a joint group has a quarter as many cells as there are records: more would only cost summing up."""

LEAST_SHARE = 50_000
"""Fewest records that are worth a thread of their own."""

Codes = NDArray[np.unsignedinteger]


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
Groups = Iterable[tuple[Codes, tuple[int, ...]]]


class Workload(Protocol):
    """A workload that can be counted."""

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """Records per cell where the hypothesis errs, and where it does not.

        Args:
            errors: (n,) bool.

        Returns:
            Two (sum of cell counts,) int64 vectors, partition by partition.
        """

    def count_classes(self, classes: NDArray[np.unsignedinteger], number: int) -> NDArray[np.int64]:
        """Records of each class per cell.

        Args:
            classes: (n,) class indices, in 0 .. number - 1.
            number: of classes.

        Returns:
            (sum of cell counts, number) int64.
        """

    def totals(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of the records' amounts per cell, in whole numbers.

        Args:
            amounts: (n, columns) int64, such that no sum overflows.

        Returns:
            (sum of cell counts, columns) int64.
        """


@dataclass(frozen=True)
class EncodedWorkload:
    """A workload applied to all records, kept for the next hypothesis.

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

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """See `Workload`."""
        return _count(zip(self.groups, self.sizes, strict=True), errors)

    def count_classes(self, classes: NDArray[np.unsignedinteger], number: int) -> NDArray[np.int64]:
        """See `Workload`."""
        return _count_classes(zip(self.groups, self.sizes, strict=True), classes, number)

    def totals(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Workload`."""
        return _totals(zip(self.groups, self.sizes, strict=True), amounts)


@dataclass(frozen=True)
class StreamedWorkload:
    """A workload too large to keep: each group is encoded, counted and dropped."""

    partitions: Sequence[Partition]
    records: Records

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """See `Workload`."""
        return _count(_encoded_groups(self.partitions, self.records), errors)

    def count_classes(self, classes: NDArray[np.unsignedinteger], number: int) -> NDArray[np.int64]:
        """See `Workload`."""
        return _count_classes(_encoded_groups(self.partitions, self.records), classes, number)

    def totals(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Workload`."""
        return _totals(_encoded_groups(self.partitions, self.records), amounts)


def encode_workload(partitions: Sequence[Partition], records: Records) -> EncodedWorkload:
    """Apply every partition to every record once."""
    groups, sizes = zip(*_encoded_groups(partitions, records), strict=True)
    return EncodedWorkload(groups, sizes)


class WorkloadCache:
    """Encoded workloads by digest, least recently used out first, bounded in bytes.

    One that is larger than the whole cache is never held in memory at once.
    """

    def __init__(self, records: Records, most_bytes: int) -> None:
        self._records = records
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, EncodedWorkload] = OrderedDict()
        self._bytes = 0

    def get(self, partitions: tuple[Partition, ...]) -> Workload:
        """The workload, from memory where it is kept."""
        key = digest(encode(partitions))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        sizes = [partition.cell_count(self._records.schema) for partition in partitions]
        bytes_per_record = sum(_code_type(group).itemsize for group in _group_sizes(sizes, len(self._records)))
        if bytes_per_record * len(self._records) > self._most_bytes:
            return StreamedWorkload(partitions, self._records)
        encoded = encode_workload(partitions, self._records)
        self._kept[key] = encoded
        self._bytes += encoded.nbytes
        while self._bytes > self._most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return encoded


def _group_sizes(sizes: Sequence[int], records: int) -> list[tuple[int, ...]]:
    """Neighbouring partitions to count jointly, as their cell counts."""
    most = min(max(records // 4, LEAST_JOINT_CELLS), MOST_JOINT_CELLS)
    groups: list[tuple[int, ...]] = []
    members: list[int] = []
    for k in sizes:
        if members and math.prod(members) * k > most:
            groups.append(tuple(members))
            members = []
        members.append(k)
    return [*groups, tuple(members)]


def _code_type(sizes: Sequence[int]) -> np.dtype[np.unsignedinteger]:
    return np.min_scalar_type(2 * math.prod(sizes) - 1)


def _encoded_groups(partitions: Sequence[Partition], records: Records) -> Iterator[tuple[Codes, tuple[int, ...]]]:
    remaining = iter(partitions)
    for sizes in _group_sizes([partition.cell_count(records.schema) for partition in partitions], len(records)):
        joint = np.zeros(len(records), np.intp)
        for k, partition in zip(sizes, remaining, strict=False):
            joint = joint * k + _cells(partition, records)
        yield (joint * 2).astype(_code_type(sizes)), sizes


def _cells(partition: Partition, records: Records) -> NDArray[np.intp]:
    """`partition.cells`, one share of the records for each core: a record's cell does not depend on the others."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = min(cores, len(records) // LEAST_SHARE)
    if shares < 2:
        return partition.cells(records)
    ends = [len(records) * share // shares for share in range(shares + 1)]
    with ThreadPoolExecutor(shares) as pool:
        parts = pool.map(lambda rows: partition.cells(records.take(rows)), map(slice, ends, ends[1:]))
        return np.concatenate(list(parts))


def _count(groups: Groups, errors: NDArray[np.bool_]) -> Counts:
    counted: list[NDArray[np.int64]] = []
    lowest_bits = errors.view(np.uint8)
    for codes, sizes in groups:
        length = 2 * math.prod(sizes)
        joint = np.bincount(codes | lowest_bits, minlength=length).reshape(-1, 2)
        counted += _marginals(joint, sizes)
    right, wrong = np.concatenate(counted, axis=1)
    return wrong, right


def _count_classes(groups: Groups, classes: NDArray[np.unsignedinteger], number: int) -> NDArray[np.int64]:
    counted: list[NDArray[np.int64]] = []
    columns = classes.astype(np.intp)
    for codes, sizes in groups:
        joint = np.bincount((codes >> 1).astype(np.intp) * number + columns, minlength=number * math.prod(sizes))
        counted += _marginals(joint.reshape(-1, number), sizes)
    by_class = np.concatenate(counted, axis=1)
    return np.ascontiguousarray(by_class.T)


def _totals(groups: Groups, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    summed: list[NDArray[np.int64]] = []
    for codes, sizes in groups:
        joint = np.zeros((math.prod(sizes), amounts.shape[1]), np.int64)
        cells = (codes >> 1).astype(np.intp)
        for column, values in zip(joint.T, amounts.T, strict=True):
            np.add.at(column, cells, values)  # bincount's weights would be floats
        summed += _marginals(joint, sizes)
    return np.ascontiguousarray(np.concatenate(summed, axis=1).T)


def _marginals(joint: NDArray[np.int64], sizes: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """Joint cells (prod(sizes), columns) to one (columns, k) per partition."""
    columns = joint.shape[1]
    rest = np.ascontiguousarray(joint.T)
    found = []
    for k in sizes:
        rest = rest.reshape(columns, k, -1)
        found.append(rest.sum(axis=2))
        rest = rest.sum(axis=1)
    return found
