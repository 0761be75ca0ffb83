"""Rollback, edits and equivocation in 10^4 invented histories of ledgers: what witnesses and held receipts find.

Each history is a ledger of real entries whose curator lies or not, and signs anew what it changes; some branch is shown
to up to three witnesses, in receipts to learners, and in the end to an auditor. A lie is open where a co-signed
checkpoint or a held receipt is not of the auditor's ledger. Beyond the newest of them nothing can be found, and nothing
is counted.
"""

import secrets
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.common import Result, at_least, at_most
from curator_node.ledger import Caps, Ledger, Reservation, StudyKey, memory_ledger
from curator_node.ledger.branches import position_at
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.sealing import Sealer
from curator_node.ledger.store import Row
from expril.audit.recompute.receipts import hold_checkpoints
from expril.audit.witness import EquivocationError, MemoryState, witness
from protocol.envelopes import SigningKey, open_receipt, seal_receipt
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.ledger.checkpoints import (
    CheckpointError,
    Submission,
    make_checkpoint,
    read_submission,
    sign_checkpoint,
)
from protocol.ledger.entries import GENESIS, Entry, EntryKind, decode_entry, encode_entry, entry_hash, sign_head
from protocol.ledger.merkle import Tree
from protocol.messages import NO_DIGEST, NO_STUDY, Receipt
from protocol.plans import Plan
from protocol.rationals import Rational

LIES = ("rollback", "edit", "drop", "insert", "fork")
"""What a dishonest curator does; beside them there are honest ones."""
HONEST = "none"
_PLANNED = PlannedCounts(release="mass", partitions=1, scale=Rational.of(30))
_COST = QUERY_KINDS.cost(_PLANNED, 1)
_CAPS = Caps(learner=Fraction(1000), total=Fraction(1000))
_START = 1_700_000_000


class Outcome(NamedTuple):
    """What came of one history."""

    lie: str  # one of `LIES`, or `HONEST`
    entries: int  # of the ledger that the auditor got
    shown: int  # how many checkpoints were shown to witnesses
    signed_wrongly: int  # of them co-signed, although they do not go on from what the witness had co-signed
    refused_wrongly: int  # of them refused, although they do
    equivocations: int  # of them refused with evidence
    contradicted: bool  # whether a co-signed checkpoint or a held receipt is not of the auditor's ledger, in truth
    found: bool  # whether the auditor finds so
    misplaced: int  # how many of the found contradictions name a stretch of entries without the first that differs


class _Branch:
    """A ledger as its curator shows it to somebody.

    Args:
        rows: its entries.
        keys: all keys that the curator ever had.
    """

    def __init__(self, rows: Sequence[Row], keys: dict[bytes, SigningKey]) -> None:
        self.rows = list(rows)
        self.keys = keys

    @property
    def bodies(self) -> list[bytes]:
        return [row.body for row in self.rows]

    @property
    def curators(self) -> list[tuple[int, bytes]]:
        entries = [decode_entry(body) for body in self.bodies]
        later = ((entry.index + 1, entry.learner) for entry in entries if entry.kind is EntryKind.HANDOVER)
        return [(0, entries[0].learner), *later]

    @property
    def hashes(self) -> list[bytes]:
        return list(map(entry_hash, self.bodies))

    def append(self, note: str) -> None:
        """Add an entry, signed by the key of its time."""
        index, key = len(self.rows), self.keys[self.curators[-1][1]]
        previous = entry_hash(self.rows[-1].body) if self.rows else GENESIS
        self.rows.append(_signed(_data(index, previous, note), key))

    def submission(self, old: int, proof_of: "_Branch") -> str:
        """What the curator hands to a witness; the proof may be of another branch."""
        hashes, curators = self.hashes, [curator for curator in self.curators if curator[0] < len(self.rows)]
        rows = [(row.index, row.body, row.signature) for row in (self.rows[start - 1] for start, _ in curators[1:])]
        checkpoint = make_checkpoint(Tree(hashes), hashes[-1], curators[0][1], rows)
        signed = sign_checkpoint(checkpoint, self.keys[curators[-1][1]])
        tree = Tree(proof_of.hashes)
        size = min(len(hashes), tree.size)
        return str(Submission(old, tree.consistency_proof(min(old, size), size), signed))


class _Witness:
    """A witness, and in truth what it has co-signed."""

    def __init__(self, seed: bytes) -> None:
        self.key = SigningKey.from_seed(seed)
        self.state = MemoryState(self.key.public)
        self.seen: dict[int, list[bytes]] = {}
        self.signed: dict[int, str] = {}

    def fits(self, bodies: list[bytes], old: int) -> bool:
        """Whether a ledger goes on from all that was co-signed, in truth."""
        if len(bodies) in self.seen:
            return self.seen[len(bodies)] == bodies
        newest = max(self.seen, default=0)
        return len(bodies) > newest and old == newest and bodies[:newest] == self.seen.get(newest, [])


def play(seed: int, lie: str) -> Outcome:
    """One history: a ledger of up to 25 entries grows, its curator lies or not, witnesses and an auditor look at it.

    Args:
        seed: of all choices; nonces of entries are the operating system's.
        lie: one of `LIES`, or `HONEST`.
    """
    rng = np.random.default_rng([seed, (HONEST, *LIES).index(lie)])
    first = SigningKey.from_seed(rng.bytes(32))
    witnesses = [_Witness(rng.bytes(32)) for _ in range(rng.integers(1, 4))]
    receipts: list[tuple[bytes, list[bytes]]] = []
    tally = {"shown": 0, "signed_wrongly": 0, "refused_wrongly": 0, "equivocations": 0}
    honest = _ledger(rng, first)
    branches = [honest]
    for _ in range(rng.integers(0, 3)):
        _grow(honest, rng)
        _look(branches, witnesses, receipts, rng, tally)
    if lie != HONEST:
        branches.append(_lied(lie, honest, rng))
        if lie in ("rollback", "edit", "drop", "insert") and rng.random() < 0.5:
            branches = branches[1:]  # what was there before is shown to nobody any more
    for _ in range(rng.integers(0, 6)):
        _grow(branches[int(rng.integers(len(branches)))], rng)
        _look(branches, witnesses, receipts, rng, tally)
    branch = branches[int(rng.integers(len(branches)))]
    return _audited(lie, branch, witnesses, receipts, tally)


def _ledger(rng: np.random.Generator, first: SigningKey) -> _Branch:
    """A curator's ledger of real entries; in a third of all a new key takes over."""
    ledger = memory_ledger(first)
    ledger.begin("privacy unit: each record", _START)
    for number in range(1, int(rng.integers(2, 5))):
        _spend(ledger, rng.bytes(32), number)
    keys = {first.public: first}
    if rng.random() < 1 / 3:
        new = SigningKey.from_seed(rng.bytes(32))
        hand_over(ledger.store, first, new, _START)
        keys[new.public] = new
    return _Branch(ledger.store.rows(0), keys)


def _spend(ledger: Ledger, learner: bytes, number: int) -> None:
    """A study of one question."""
    key, request = StudyKey(learner, number.to_bytes(16, "big")), secrets.token_bytes(32)
    ledger.reserve(Reservation(key, Plan.of([_PLANNED]), (_COST,), request, _START + 100), _CAPS, _START)
    ledger.answer(request, lambda _: b"accepted", _START)
    question = secrets.token_bytes(32)
    ledger.charge(key, 1, _COST, question, _START)
    ledger.answer(question, lambda _: b"release", _START)


def _grow(branch: _Branch, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(0, 3)):
        branch.append(rng.bytes(16).hex())


def _lied(lie: str, honest: _Branch, rng: np.random.Generator) -> _Branch:
    """Another ledger of the same curator, with all entries in order and signed."""
    entries = [decode_entry(body) for body in honest.bodies]
    place = int(rng.integers(1, len(entries)))
    if lie in ("rollback", "fork"):
        branch = _Branch(honest.rows[:place], honest.keys)
        for _ in range(rng.integers(0 if lie == "rollback" else 1, 6)):
            branch.append(rng.bytes(16).hex())
        return branch
    if lie == "edit":
        entries[place] = msgspec.structs.replace(entries[place], at=entries[place].at + 1)
    elif lie == "drop":
        del entries[place]
    else:
        entries.insert(place, _data(place, GENESIS, rng.bytes(16).hex()))
    return _chained(entries, honest.keys)


def _chained(entries: Sequence[Entry], keys: dict[bytes, SigningKey]) -> _Branch:
    """Entries in a chain of their own, each signed by the key of its time."""
    head, signer, rows = GENESIS, entries[0].learner, []
    for index, entry in enumerate(entries):
        placed = msgspec.structs.replace(entry, index=index, previous=head)
        rows.append(_signed(placed, keys[signer]))
        head = entry_hash(rows[-1].body)
        signer = placed.learner if placed.kind is EntryKind.HANDOVER else signer
    return _Branch(rows, keys)


def _data(index: int, previous: bytes, note: str) -> Entry:
    return Entry(
        index=index, previous=previous, nonce=secrets.token_bytes(16), kind=EntryKind.DATA, at=_START + index, note=note
    )


def _signed(entry: Entry, key: SigningKey) -> Row:
    body = encode_entry(entry)
    return Row(entry.index, body, sign_head(key, entry.index, entry_hash(body)))


def _look(
    branches: Sequence[_Branch],
    witnesses: Sequence[_Witness],
    receipts: list[tuple[bytes, list[bytes]]],
    rng: np.random.Generator,
    tally: dict[str, int],
) -> None:
    """The curator shows some branch to a witness, or gives a receipt of it to a learner."""
    branch = branches[int(rng.integers(len(branches)))]
    if rng.random() < 1 / 3:
        receipts.append((_receipt(branch), branch.bodies))
        return
    witness_of = witnesses[int(rng.integers(len(witnesses)))]
    old = max(witness_of.seen, default=0)
    proof_of = branches[int(rng.integers(len(branches)))] if rng.random() < 1 / 4 else branch
    bodies = branch.bodies
    old = old if old <= len(bodies) else 0
    honest_proof = proof_of is branch or proof_of.bodies[: len(bodies)] == bodies
    fits = witness_of.fits(bodies, old)
    written = branch.submission(old, proof_of)
    tally["shown"] += 1
    try:
        submission = read_submission(written, where="the checkpoint")
        trusted = submission.signed.checkpoint.first
        signed = witness(submission, witness_of.key, witness_of.state, now=_START + tally["shown"], trusted=trusted)
    except EquivocationError:
        tally["equivocations"] += 1
        tally["refused_wrongly"] += fits
    except (CheckpointError, ConfigurationError):
        tally["refused_wrongly"] += fits and (honest_proof or len(bodies) in witness_of.seen)
    else:
        tally["signed_wrongly"] += not fits
        witness_of.seen[len(bodies)] = bodies
        witness_of.signed[len(bodies)] = str(signed.note)


def _receipt(branch: _Branch) -> bytes:
    """A receipt of where a branch stands, as a curator signs it at its steward's word."""
    key, hashes = branch.keys[branch.curators[-1][1]], branch.hashes
    position = position_at(len(hashes) - 1, hashes, [Fraction(0)] * len(hashes))
    receipt = Receipt(
        curator=key.public,
        learner=bytes(32),
        study=NO_STUDY,
        sequence=0,
        request=NO_DIGEST,
        release=NO_DIGEST,
        charged="0",
        spent_by_study="0",
        spent_by_learner="0",
        ledger_head=hashes[-1],
        position=Sealer(key, secrets.token_bytes).seal(position, NO_DIGEST),
        issued_at=_START,
    )
    return seal_receipt(receipt, key)


def _audited(
    lie: str,
    branch: _Branch,
    witnesses: Sequence[_Witness],
    receipts: Sequence[tuple[bytes, list[bytes]]],
    tally: dict[str, int],
) -> Outcome:
    hashes, bodies, curators = branch.hashes, branch.bodies, branch.curators
    seen = {
        f"{place}/{size}": known_bodies
        for place, member in enumerate(witnesses)
        for size, known_bodies in member.seen.items()
    }
    signed = {f"{place}/{size}": text for place, member in enumerate(witnesses) for size, text in member.signed.items()}
    findings = hold_checkpoints(hashes, curators, signed, witnesses=[member.key.public for member in witnesses])
    strangers = [receipt for receipt, _ in receipts if not _in_ledger(receipt, hashes, curators)]
    truth = [*seen.values(), *(known_bodies for _, known_bodies in receipts)]
    return Outcome(
        lie=lie,
        entries=len(bodies),
        contradicted=any(bodies[: len(known_bodies)] != known_bodies for known_bodies in truth),
        found=bool(not findings.in_order or strangers or findings.unverified),
        misplaced=sum(
            not gap.first <= _first_difference(seen[gap.name], bodies) <= gap.last for gap in findings.contradicted
        ),
        **tally,
    )


def _in_ledger(receipt: bytes, hashes: Sequence[bytes], curators: Sequence[tuple[int, bytes]]) -> bool:
    for _, key in curators:
        try:
            return open_receipt(receipt, key).ledger_head in hashes
        except RemoteProtocolError:
            continue
    return False


def _first_difference(first: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Index of the first entry that two ledgers do not share."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(other)))


HISTORIES = 10_000
HONEST_SHARE = 5
"""One in so many histories is honest."""
ENTRIES = 1_000_000


def run() -> list[Result]:
    """See the module."""
    counts: Counter[str] = Counter()
    played: Counter[str] = Counter()
    by_lie: Counter[str] = Counter()
    start = time.process_time()
    for seed in range(HISTORIES):
        lie = HONEST if seed % HONEST_SHARE == 0 else LIES[(seed - seed // HONEST_SHARE) % len(LIES)]
        outcome = play(seed, lie)
        played[lie] += 1
        by_lie[lie] += outcome.contradicted
        counts["dishonest"] += lie != HONEST
        counts["open"] += outcome.contradicted
        counts["missed"] += outcome.contradicted and not outcome.found
        counts["alarms"] += outcome.found and not outcome.contradicted
        counts["shown"] += outcome.shown
        counts["signed wrongly"] += outcome.signed_wrongly
        counts["refused wrongly"] += outcome.refused_wrongly
        counts["equivocations"] += outcome.equivocations
        counts["misplaced"] += outcome.misplaced
    seconds = time.process_time() - start
    kinds = ", ".join(f"{lie} {by_lie[lie]} of {played[lie]}" for lie in LIES)
    return [
        at_least("histories", HISTORIES, 10_000, "histories", note=f"{counts['dishonest']} of them dishonest"),
        at_least("open lies", counts["open"], HISTORIES / 4, "histories", note=kinds),
        at_most("open lies that were not found", counts["missed"], 0, "histories"),
        at_most("false alarms", counts["alarms"], 0, "histories", note="of histories without an open lie"),
        at_most("contradictions named at a wrong place", counts["misplaced"], 0, "contradictions"),
        Result("checkpoints shown to witnesses", counts["shown"], "checkpoints"),
        at_most("of them co-signed although they contradict", counts["signed wrongly"], 0, "checkpoints"),
        at_most("of them refused although they go on", counts["refused wrongly"], 0, "checkpoints"),
        Result("of them refused with evidence of an equivocation", counts["equivocations"], "checkpoints"),
        Result("a history", seconds / HISTORIES * 1e3, "ms", note="of processor time"),
        *_of_a_large_ledger(),
    ]


def _of_a_large_ledger() -> list[Result]:
    key = SigningKey.generate()
    head = memory_ledger(key).account.head
    start = time.process_time()
    tree = Tree(number.to_bytes(32, "big") for number in range(ENTRIES - 1))
    tree.append(head)
    built = time.process_time()
    checkpoint = make_checkpoint(tree, head, key.public)
    submission = str(Submission(ENTRIES // 3, tree.consistency_proof(ENTRIES // 3), sign_checkpoint(checkpoint, key)))
    read_submission(submission, where="the checkpoint")
    end = time.process_time()
    return [
        Result("tree over 10^6 entries", built - start, "s"),
        Result("checkpoint of 10^6 entries: proofs, signature, reading it", (end - built) * 1e3, "ms"),
        Result("what a witness gets of 10^6 entries", len(submission.encode()), "bytes"),
    ]
