"""Auditing a ledger's export of a million entries, by `recompute`, as `expril audit run` does.

The ledger is invented: 50 enrolled learners, studies of 30 queries, three snapshots of records, one change of the
curator's key. Every entry is signed. Making it takes longer than auditing it, so it is kept in the folder for temporary
files (EXPRIL_BENCHMARK_FOLDER names another one).
"""

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

from benchmarks.common import NOW, Result, at_most, peak_memory
from expril.audit.recompute import recompute
from protocol.envelopes import SigningKey, digest
from protocol.kinds.counts import PlannedCounts
from protocol.ledger.entries import (
    GENESIS,
    Entry,
    EntryKind,
    encode_entry,
    entry_hash,
    head_is_signed,
    ledger_terms,
    sign_head,
)
from protocol.ledger.exports import ExportReader, encode_export, read_block
from protocol.plans import Plan
from protocol.rationals import Rational

ENTRIES = 1_000_000
SIGNATURES = 20_000
"""Of so many the time of all is taken."""
LEARNERS, QUERIES, PLANS = 50, 30, 40
PARTITIONS = 22


class _Maker:
    """Chains entries; signatures come in the end."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.heads: list[bytes] = [GENESIS]
        self.replies: list[tuple[bytes, bytes]] = []
        self.spent = Fraction(0)
        self._randomness = secrets.token_bytes

    def add(self, kind: EntryKind, **fields: object) -> None:
        """Append an entry."""
        index = len(self.bodies)
        entry = Entry(
            index=index,
            previous=self.heads[-1],
            nonce=self._randomness(16),
            kind=kind,
            at=NOW + index,
            **fields,  # type: ignore[arg-type]
        )
        self.bodies.append(encode_entry(entry))
        self.heads.append(entry_hash(self.bodies[-1]))

    def ask(self, kind: EntryKind, learner: bytes, study: bytes, sequence: int, **fields: object) -> None:
        """Append what a request made, and its answer."""
        request, reply = self._randomness(32), self._randomness(32)
        shared = {"learner": learner, "study": study, "sequence": sequence, "request": request}
        self.add(kind, **shared, **fields)
        self.add(EntryKind.ANSWERED, **shared, reply=reply, size=2000)
        self.replies.append((request, reply))

    def study(self, learner: bytes, plan: Plan, cost: Fraction) -> None:
        """A whole study."""
        study = self._randomness(16)
        costs = (str(cost),) * QUERIES
        self.ask(
            EntryKind.RESERVE, learner, study, 0, amount=str(cost * QUERIES), plan=plan, costs=costs, expires_at=2**40
        )
        for sequence in range(1, QUERIES + 1):
            self.ask(EntryKind.CHARGE, learner, study, sequence, amount=str(cost))
        self.ask(EntryKind.CLOSE, learner, study, QUERIES + 1, amount="0")
        self.spent += cost * QUERIES


def make_export(entries: int) -> tuple[bytes, Fraction]:
    """The bytes of an export of at least so many entries, and what is spent in it."""
    keys = SigningKey.generate(), SigningKey.generate()
    ledger = _Maker()
    ledger.add(EntryKind.OPEN, learner=keys[0].public)
    terms = ledger_terms("patient", "expril/2")
    ledger.add(EntryKind.START, note=terms)
    learners = [digest(b"learner" + bytes([number])) for number in range(LEARNERS)]
    for number, learner in enumerate(learners):
        ledger.add(EntryKind.ENROL, learner=learner, note=f"learner {number // 2}")
    scales = [Fraction(300 * (number + 10)) for number in range(PLANS)]
    plans = [
        Plan.of([PlannedCounts(release="mass", partitions=PARTITIONS, scale=Rational.of(scale))] * QUERIES)
        for scale in scales
    ]
    handover = 0
    count = entries // (2 * QUERIES + 4)
    for number in range(count):
        if number in (0, count // 3, 2 * count // 3):
            ledger.add(EntryKind.DATA, note=secrets.token_hex(16))
        if number == count // 2:
            handover = len(ledger.bodies)
            ledger.add(EntryKind.HANDOVER, learner=keys[1].public)
            ledger.add(EntryKind.START, note=terms)
        place = number % PLANS
        ledger.study(learners[number % LEARNERS], plans[place], Fraction(2 * PARTITIONS) / scales[place])
    while len(ledger.bodies) < entries:
        ledger.add(EntryKind.START, note=terms)

    def sign(part: range) -> list[bytes]:
        return [sign_head(keys[place > handover], place, ledger.heads[place + 1]) for place in part]

    parts = [range(first, min(first + 4096, len(ledger.bodies))) for first in range(0, len(ledger.bodies), 4096)]
    with ThreadPoolExecutor(2) as pool:
        signatures = [signature for part in pool.map(sign, parts) for signature in part]
    return encode_export(zip(ledger.bodies, signatures, strict=True), ledger.replies), ledger.spent


def _store(path: Path, total: Path) -> None:
    content, spent = make_export(ENTRIES)
    path.write_bytes(content)
    total.write_text(str(spent))


def run() -> list[Result]:
    """See the module."""
    folder = Path(os.environ.get("EXPRIL_BENCHMARK_FOLDER", tempfile.gettempdir()))
    path, total = folder / f"expril-audit-{ENTRIES}.export", folder / f"expril-audit-{ENTRIES}.spent"
    if not total.is_file():
        with get_context("spawn").Pool(1) as pool:  # whose memory is not the audit's
            pool.apply(_store, (path, total))
    start, processor = time.perf_counter(), time.process_time()
    recomputed = recompute(path)
    wall, processor = time.perf_counter() - start, time.process_time() - processor
    (ledger,) = recomputed.ledgers
    assert recomputed.proven, recomputed.wrong[:3]
    assert ledger.audit.replayed.total == Fraction(total.read_text())
    floors = _floors(path, ledger.audit.replayed.keys[0][1])
    return [*_results(path, ledger.audit.entries, ledger.audit.checked, wall, processor), *floors]


def _floors(path: Path, key: bytes) -> Iterator[Result]:
    """What no reader can leave out: reading and hashing. And all signatures, of which an audit checks a part."""
    start, entries = time.process_time(), 0
    first: list[tuple[int, bytes, bytes]] = []
    with path.open("rb") as file:
        for block in ExportReader(file).blocks():
            for body, signature in read_block(block).pairs:
                head = entry_hash(body)
                if entries < SIGNATURES:
                    first.append((entries, head, signature))
                entries += 1
    taken = time.process_time() - start
    yield Result("its blocks read, and all hashes, alone, of the processor", taken, "s", note="the bound of one pass")
    start = time.process_time()
    assert all(head_is_signed(key, signature, place, head) for place, head, signature in first)
    taken = (time.process_time() - start) / len(first) * entries
    note = f"from {len(first)} of them; an audit of so long an export checks the newest of each key and a sample"
    yield Result("all its signatures alone, of the processor", taken, "s", note=note)


def _results(path: Path, entries: int, checked: int, wall: float, processor: float) -> Iterator[Result]:
    size = path.stat().st_size / 2**20
    note = f"{entries} entries, {size:.0f} MiB; {checked} signatures checked, {PLANS} different plans"
    yield at_most("audit of an export of 10^6 entries", wall, 5, "s", note=note)
    yield Result("the same, of the processor", processor, "s", note="the clock also counts who else uses the machine")
    yield Result("the same, of the processor, by entry", processor / entries * 1e6, "us")
    yield at_most("most memory", peak_memory(), 300, "MiB")
