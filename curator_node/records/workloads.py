"""Workloads encoded once and counted fast: at most one byte per record and partition for small partitions.

Neighbouring partitions are counted jointly: counters for up to 16,384 joint cells fit the second-level cache, and one
pass over a uint16 column serves several partitions at once. The lowest bit is left free for "the hypothesis errs here".
Many records are encoded by several threads, one share of them each.

`protocol.kinds.counts` estimates a workload's time and memory; its constants were measured with this module.
"""

import math
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import digest
from protocol.partitions import PARTITION_KINDS, Partition
from protocol.records import Records

_SHIPPED = frozenset(PARTITION_KINDS.values())
LEAST_JOINT_CELLS = 256
MOST_JOINT_CELLS = 16_384
"""Between these bounds a joint group has at most a quarter as many cells as there are records: summing up more cells
would cost more than it saves."""

MOST_COUNTERS = 2 * MOST_JOINT_CELLS
"""Most counters of one pass over several partitions: with many classes, fewer partitions go together."""

LEAST_SHARE = 50_000
"""Fewest records that are worth a thread of their own."""

KEY_BYTES = 250
"""Bytes of a digest and of its entry in the cache."""

ARRAY_BYTES = sys.getsizeof(np.empty(0, np.uint8))
"""Bytes of an array beside its numbers. They are most of the memory if records are few."""

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
            number: number of classes.

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
    """A workload applied to all records, kept for the next hypothesis."""

    groups: tuple[Codes, ...]  # joint cell of each record, doubled; shape (n,), the smallest unsigned type that fits
    sizes: tuple[tuple[int, ...], ...]  # cell counts of the partitions of each group

    @property
    def nbytes(self) -> int:
        """Memory kept, in bytes: the codes, and the arrays and tuples that hold them."""
        return _memory(self.sizes, len(self.groups[0]))

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
    """A cache of encoded workloads by digest, bounded in bytes. The least recently used are dropped first.

    A workload larger than the whole cache is never in memory at once. Several threads may ask. Workloads are encoded
    one after the other, and one that several threads ask for is encoded once.
    """

    def __init__(self, records: Records, most_bytes: int) -> None:
        self._records = records
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, EncodedWorkload] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, partitions: tuple[Partition, ...]) -> Workload:
        """The encoded workload, from the cache if it is there."""
        key = digest(encode(partitions))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            needed = _memory(_group_sizes(partitions, self._records), len(self._records)) + KEY_BYTES
            if needed > self._most_bytes:
                return StreamedWorkload(partitions, self._records)
            encoded = encode_workload(partitions, self._records)
            self._kept[key] = encoded
            self._bytes += needed
            while self._bytes > self._most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes + KEY_BYTES
            return encoded


def _group_sizes(partitions: Sequence[Partition], records: Records) -> tuple[tuple[int, ...], ...]:
    """Neighbouring partitions to count jointly, as their cell counts."""
    most = min(max(len(records) // 4, LEAST_JOINT_CELLS), MOST_JOINT_CELLS)
    return _neighbours([partition.cell_count(records.schema) for partition in partitions], most)


def _neighbours(sizes: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
    """Runs of neighbouring sizes whose product is at most `most`. A larger size is a run of its own."""
    groups: list[tuple[int, ...]] = []
    members: list[int] = []
    product = 1
    for k in sizes:
        if members and product * k > most:
            groups.append(tuple(members))
            members, product = [], 1
        members.append(k)
        product *= k
    return (*groups, tuple(members))


def _code_type(sizes: Sequence[int]) -> np.dtype[np.unsignedinteger]:
    return np.min_scalar_type(2 * math.prod(sizes) - 1)


def _memory(groups: tuple[tuple[int, ...], ...], records: int) -> int:
    """Bytes that an encoded workload of such groups keeps. Each of its two tuples has a pointer to every group."""
    code_bytes = sum(_code_type(sizes).itemsize * records + ARRAY_BYTES + sys.getsizeof(sizes) for sizes in groups)
    return code_bytes + 2 * sys.getsizeof(groups)


def _encoded_groups(partitions: Sequence[Partition], records: Records) -> Iterator[tuple[Codes, tuple[int, ...]]]:
    shares = _shares(records)
    start = 0
    with ThreadPoolExecutor(len(shares)) if len(shares) > 1 else nullcontext() as pool:
        for sizes in _group_sizes(partitions, records):
            group = partitions[start : start + len(sizes)]
            start += len(sizes)
            yield _encoded_group(group, sizes, shares, pool), sizes


def _shares(records: Records) -> list[Records]:
    """One share of the records for each core: a record's cell does not depend on the others."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = min(cores, len(records) // LEAST_SHARE)
    if shares < 2:
        return [records]
    ends = [len(records) * share // shares for share in range(shares + 1)]
    return [records.take(rows) for rows in map(slice, ends, ends[1:])]


def _encoded_group(
    group: Sequence[Partition], sizes: tuple[int, ...], shares: Sequence[Records], pool: Executor | None
) -> Codes:
    encode_share = partial(_encoded_share, group, sizes)
    if pool is None:
        return encode_share(shares[0])
    return np.concatenate(list(pool.map(encode_share, shares)))


def _encoded_share(group: Sequence[Partition], sizes: tuple[int, ...], records: Records) -> Codes:
    joint = np.zeros(len(records), np.intp)
    for k, partition in zip(sizes, group, strict=True):
        joint *= k
        joint += _cells(partition, k, records)
    joint *= 2
    return joint.astype(_code_type(sizes))


def _cells(partition: Partition, k: int, records: Records) -> NDArray[np.intp]:
    """The cell of each record. One of another's package sees attributes alone, and every record is in one of k cells.

    So no outcome is counted that the release kind does not allow, and the sensitivity holds whatever it returns.
    """
    if type(partition) in _SHIPPED:
        return partition.cells(records)
    return np.clip(partition.cells(replace(records, further={})), 0, k - 1)


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
        joint_cells = (codes >> 1).astype(np.intp)
        stride = math.prod(sizes)
        for part in _neighbours(sizes, MOST_COUNTERS // number):
            cells = math.prod(part)
            stride //= cells
            at = joint_cells
            if part != sizes:
                at = joint_cells // stride
                at -= at // cells * cells  # the rest: faster than %, which numpy does not vectorize
            joint = np.bincount(at * number + columns, minlength=number * cells)
            counted += _marginals(joint.reshape(-1, number), part)
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
    marginals = []
    for k in sizes:
        rest = rest.reshape(columns, k, -1)
        marginals.append(rest.sum(axis=2))
        rest = rest.sum(axis=1)
    return marginals
