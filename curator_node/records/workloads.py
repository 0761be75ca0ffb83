"""Workloads encoded once and counted fast: at most one byte per record and partition for small partitions.

Neighbouring partitions are counted jointly: counters for up to 16,384 joint cells fit the second-level cache, and one
pass over a uint16 column serves several partitions at once. The lowest bit is left free for "the hypothesis errs here".
Many records are encoded by several threads, one share of them each.

Of many records, partitions of few cells are kept as planes of bits where only errors are counted: a machine word then
counts 64 records, and the time depends on no record (Warren 2013, chapter 5).

`protocol.kinds.counts` estimates a workload's time and memory; its constants were measured with this module.
"""

import math
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from protocol.codec import encode
from protocol.envelopes import digest
from protocol.partitions import PARTITION_KINDS, Partition
from protocol.records import Records
from protocol.schema import Schema

_SHIPPED = frozenset(PARTITION_KINDS.values())
LEAST_JOINT_CELLS = 256
MOST_JOINT_CELLS = 16_384
"""Between these bounds a joint group has at most a quarter as many cells as there are records: summing up more cells
would cost more than it saves."""

MOST_COUNTERS = 2 * MOST_JOINT_CELLS
"""Most counters of one pass over several partitions: with many classes, fewer partitions go together."""

LEAST_SHARE = 50_000
"""Fewest records that are worth a thread of their own."""

LEAST_PLANED, MOST_PLANED = 65_536, 32
"""Fewest records, and most cells of a partition, that are counted in planes of bits."""

BLOCK_WORDS, PLANE_ENTRIES = 256, 65_536
"""Words of a plane, and of all planes of one step, that are worked on at once: half a megabyte stays in the cache."""
WORD = 64

KEY_BYTES = 250
"""Bytes of a digest and of its entry in the cache."""

ARRAY_BYTES = sys.getsizeof(np.empty(0, np.uint8))
"""Bytes of an array beside its numbers. They are most of the memory if records are few."""

Codes = NDArray[np.unsignedinteger]


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
Groups = Iterable[tuple[Codes, tuple[int, ...]]]


class ErrorCounts(Protocol):
    """A workload of which errors can be counted."""

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """Records per cell where the hypothesis errs, and where it does not.

        Args:
            errors: (n,) bool.

        Returns:
            Two (sum of cell counts,) int64 vectors, partition by partition.
        """


class Workload(ErrorCounts, Protocol):
    """A workload that can be counted."""

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
class PlanedWorkload:
    """A workload of which errors alone are counted, kept as planes of bits: bit b of the records' cells is plane b.

    Of a set S of bits, popcounts of the planes' conjunctions tell how many erring records have all of S in their cell's
    number; differences of these (Moebius) are the cells' counts. Cells are numbered from 0, so of k cells only the sets
    below k occur.
    """

    # (blocks, bits, partitions, BLOCK_WORDS) uint64, and the places of these partitions in the workload
    planes: tuple[tuple[NDArray[np.uint64], tuple[int, ...]], ...]
    joint: EncodedWorkload | None  # the partitions of more cells, in order
    sizes: tuple[int, ...]  # cell counts of all partitions
    records: int
    total: NDArray[np.int64]  # records per cell, (sum of cell counts,)

    @classmethod
    def of(cls, partitions: Sequence[Partition], records: Records) -> "PlanedWorkload":
        """Apply every partition to every record once."""
        sizes = tuple(partition.cell_count(records.schema) for partition in partitions)
        shares, planes = _shares(records), []
        with ThreadPoolExecutor(len(shares)) if len(shares) > 1 else nullcontext() as pool:
            for bits, places in _planed(sizes):
                words = np.empty((_blocks(len(records)), bits, len(places), BLOCK_WORDS), np.uint64)
                for row, at in enumerate(places):
                    cells = _encoded_group((partitions[at],), (sizes[at],), shares, pool) >> 1
                    for bit in range(bits):
                        words[:, bit, row] = _words((cells >> bit & 1).view(np.uint8).astype(np.bool_))
                planes.append((words, places))
        large = [partition for partition, k in zip(partitions, sizes, strict=True) if k > MOST_PLANED]
        workload = cls(
            tuple(planes),
            encode_workload(large, records) if large else None,
            sizes,
            len(records),
            np.empty(0, np.int64),
        )
        return replace(workload, total=workload.errors(np.ones(len(records), np.bool_)))

    @property
    def nbytes(self) -> int:
        """Memory kept, in bytes."""
        return _planed_memory(self.sizes, self.records)

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """See `Workload`."""
        wrong = self.errors(errors)
        return wrong, self.total - wrong

    def errors(self, errors: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Records per cell where the hypothesis errs, (sum of cell counts,) int64."""
        erring, words = int(np.count_nonzero(errors)), _words(errors)
        counted: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(self.sizes)
        for planes, places in self.planes:
            sets = _set_counts(planes, words, max(self.sizes[at] for at in places))
            sets[0] = erring
            for bit in range(planes.shape[1]):
                halves = sets.reshape(-1, 2, 1 << bit, len(places))
                halves[:, 0] -= halves[:, 1]
            for row, at in enumerate(places):
                counted[at] = sets[: self.sizes[at], row]
        if self.joint is not None:
            large = [at for at, k in enumerate(self.sizes) if k > MOST_PLANED]
            wrong, _ = self.joint.count(errors)
            ends = np.cumsum([self.sizes[at] for at in large])[:-1]
            for at, part in zip(large, np.split(wrong, ends), strict=True):
                counted[at] = part
        return np.concatenate(counted)


def _planed(sizes: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """(bits, places of partitions) of the planes that are worked on together: as many as `PLANE_ENTRIES` hold."""
    by_bits: dict[int, list[int]] = {}
    for at, k in enumerate(sizes):
        if k <= MOST_PLANED:
            by_bits.setdefault(max(1, (k - 1).bit_length()), []).append(at)
    batches = []
    for bits, places in by_bits.items():
        most = max(1, PLANE_ENTRIES // (BLOCK_WORDS * max(1, max(sizes[at] for at in places) - 1)))
        batches += [(bits, tuple(places[first : first + most])) for first in range(0, len(places), most)]
    return batches


def _blocks(records: int) -> int:
    return -(-records // (WORD * BLOCK_WORDS))


def _words(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Flags as bits, (blocks, BLOCK_WORDS) uint64; those beyond the last record are 0."""
    words = np.zeros((_blocks(len(flags)), BLOCK_WORDS), np.uint64)
    packed = np.packbits(flags)
    words.view(np.uint8).reshape(-1)[: len(packed)] = packed
    return words


def _set_counts(planes: NDArray[np.uint64], errors: NDArray[np.uint64], most: int) -> NDArray[np.int64]:
    """Erring records whose cell's number has all bits of a set, (2^bits, partitions) for the sets 1 .. most - 1."""
    _, bits, members, _ = planes.shape
    counts = np.zeros((1 << bits, members), np.int64)
    joints = np.empty((most, members, BLOCK_WORDS), np.uint64)
    ones, latest = (np.zeros(joints[1:].shape, np.uint8) for _ in range(2))
    for block, (words, erring) in enumerate(zip(planes, errors, strict=True)):
        for number in range(1, most):
            rest, lowest = number & (number - 1), (number & -number).bit_length() - 1
            np.bitwise_and(words[lowest], joints[rest] if rest else erring, out=joints[number])
        if block % 3 == 0:  # three words have at most 192 ones: more would overflow a byte
            counts[1:most] += ones.sum(axis=2, dtype=np.int64)
            np.bitwise_count(joints[1:], out=ones)
        else:
            np.bitwise_count(joints[1:], out=latest)
            ones += latest
    counts[1:most] += ones.sum(axis=2, dtype=np.int64)
    return counts


def _planed_memory(sizes: tuple[int, ...], records: int) -> int:
    """Bytes that a `PlanedWorkload` keeps."""
    planes = sum(
        8 * BLOCK_WORDS * _blocks(records) * bits * len(places) + ARRAY_BYTES + 2 * sys.getsizeof(places)
        for bits, places in _planed(sizes)
    )
    large = [k for k in sizes if k > MOST_PLANED]
    joint = _memory(_neighbours(large, _most_joint(records)), records) if large else 0
    return planes + joint + sys.getsizeof(sizes) + 8 * sum(sizes) + ARRAY_BYTES


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


@dataclass(frozen=True)
class RepeatedErrorCounts:
    """Partitions of which some are asked several times: each is counted once, for all of its places."""

    once: ErrorCounts  # the different partitions
    cells: NDArray[np.intp]  # of each cell of all partitions, its place among the cells of `once`

    def count(self, errors: NDArray[np.bool_]) -> Counts:
        """See `Workload`."""
        wrong, right = self.once.count(errors)
        return wrong[self.cells], right[self.cells]


@dataclass(frozen=True)
class RepeatedWorkload(RepeatedErrorCounts):
    """See `RepeatedErrorCounts`."""

    once: Workload

    def count_classes(self, classes: NDArray[np.unsignedinteger], number: int) -> NDArray[np.int64]:
        """See `Workload`."""
        return self.once.count_classes(classes, number)[self.cells]

    def totals(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Workload`."""
        return self.once.totals(amounts)[self.cells]


def _different(partitions: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """The partitions without repetitions; a repeated one is the same object in all of its places."""
    return tuple({id(partition): partition for partition in partitions}.values())


def _cells_of(partitions: tuple[Partition, ...], different: tuple[Partition, ...], schema: Schema) -> NDArray[np.intp]:
    """Of each cell of all partitions, its place among the cells of the different ones."""
    ends = np.cumsum([partition.cell_count(schema) for partition in different])
    ranges = np.split(np.arange(ends[-1]), ends[:-1])
    own_cells = {id(partition): cells for partition, cells in zip(different, ranges, strict=True)}
    return np.concatenate([own_cells[id(partition)] for partition in partitions])


def encode_workload(partitions: Sequence[Partition], records: Records) -> EncodedWorkload:
    """Apply every partition to every record once."""
    groups, sizes = zip(*_encoded_groups(partitions, records), strict=True)
    return EncodedWorkload(groups, sizes)


Kept = TypeVar("Kept", EncodedWorkload, PlanedWorkload)


class WorkloadCache:
    """A cache of encoded workloads by digest, bounded in bytes. The least recently used are dropped first.

    A workload larger than the whole cache is never in memory at once. Several threads may ask. Workloads are encoded
    one after the other, and one that several threads ask for is encoded once.
    """

    def __init__(self, records: Records, most_bytes: int) -> None:
        self._records = records
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, EncodedWorkload | PlanedWorkload] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, partitions: tuple[Partition, ...]) -> Workload:
        """The encoded workload, from the cache if it is there."""
        different = _different(partitions)
        if len(different) < len(partitions):
            return RepeatedWorkload(self.get(different), _cells_of(partitions, different, self._records.schema))
        needed = _memory(_group_sizes(partitions, self._records), len(self._records))
        return self._get(b"", partitions, needed, encode_workload)

    def of_errors(self, partitions: tuple[Partition, ...]) -> ErrorCounts:
        """A workload of which only errors are counted, from the cache if it is there."""
        different = _different(partitions)
        if len(different) < len(partitions):
            cells = _cells_of(partitions, different, self._records.schema)
            return RepeatedErrorCounts(self.of_errors(different), cells)
        sizes = tuple(partition.cell_count(self._records.schema) for partition in partitions)
        if len(self._records) < LEAST_PLANED or min(sizes) > MOST_PLANED:
            return self.get(partitions)
        return self._get(b"planes", partitions, _planed_memory(sizes, len(self._records)), PlanedWorkload.of)

    def _get(
        self,
        form: bytes,
        partitions: tuple[Partition, ...],
        nbytes: int,
        make: Callable[[Sequence[Partition], Records], Kept],
    ) -> Kept | StreamedWorkload:
        key = form + digest(encode(partitions))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("Kept", self._kept[key])
            needed = nbytes + KEY_BYTES
            if needed > self._most_bytes:
                return StreamedWorkload(partitions, self._records)
            encoded = make(partitions, self._records)
            self._kept[key] = encoded
            self._bytes += needed
            while self._bytes > self._most_bytes:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes + KEY_BYTES
            return encoded


def _group_sizes(partitions: Sequence[Partition], records: Records) -> tuple[tuple[int, ...], ...]:
    """Neighbouring partitions to count jointly, as their cell counts."""
    return _neighbours([partition.cell_count(records.schema) for partition in partitions], _most_joint(len(records)))


def _most_joint(records: int) -> int:
    return min(max(records // 4, LEAST_JOINT_CELLS), MOST_JOINT_CELLS)


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
