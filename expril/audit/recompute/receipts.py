"""Receipts of learners and checkpoints of witnesses, compared with the ledger that they name.

A receipt names the hash of one entry, and with it all entries before. If the ledger has no such entry, it was rolled
back, edited, or is an older copy. A checkpoint is signed by the curator and co-signed by witnesses; it names the root
over its first entries. Beyond the newest entry that any of them names, the ledger rests on the curator's word.

A ledger may say that it lost entries: a HALT entry names what was lost, and a RESUME entry restores it. Both are the
curator's word alone. They are accepted only if the spending that they enter covers all charges in the receipts.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from expril.audit.recompute.branches import BranchTrace
from expril.audit.recompute.effects import Effect
from expril.audit.recompute.entries import ZERO, as_text
from expril.audit.recompute.ledger import LedgerAudit
from expril.audit.recompute.replay import Replayed
from expril.files import read_plain
from protocol.codec import decode
from protocol.envelopes import LABEL, RECEIPT_TYPE, Envelope, open_receipt
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.ledger.checkpoints import CheckpointError, SignedCheckpoint, equivocate, read_checkpoint, witnesses_of
from protocol.ledger.entries import STUB, EntryKind
from protocol.ledger.merkle import Tree
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Receipt
from protocol.rationals import parse_amount, plus, shorten, total_of

MOST_BYTES = 65_536
"""Greatest length of a receipt's file."""


@dataclass(frozen=True)
class HeldReceipt:
    """A receipt that somebody holds."""

    source: str  # where it comes from, for people
    receipt: Receipt  # what it says
    envelope: bytes = b""  # its bytes; empty where its signature was verified by a replay
    # whether what it says of its entry is compared elsewhere: then only its head is looked up here
    proven: bool = False


def read_receipt_file(path: Path) -> HeldReceipt:
    """Read a receipt from its file. Its signature is checked later, when its ledger is known.

    Raises:
        ConfigurationError: the file holds no receipt.
    """
    try:
        data = read_plain(path, most=MOST_BYTES)
        envelope = decode(data, Envelope, field="receipt")
        if envelope.type != RECEIPT_TYPE:
            raise ConfigurationError(f"{path} is no receipt but a {printable(envelope.type)}")
        return HeldReceipt(str(path), decode(envelope.payload, Receipt, field="receipt"), data)
    except (OSError, RemoteProtocolError):
        raise ConfigurationError(
            f"{path} is no receipt, or it was changed; a learner keeps them in receipts/"
        ) from None


def places_of(replayed: Replayed, receipts: Sequence[HeldReceipt]) -> dict[bytes, int]:
    """Map hashes to indices of the ledger's entries that receipts name."""
    heads = {held_receipt.receipt.ledger_head for held_receipt in receipts}
    if not heads:
        return {}
    return {head: index for index, head in enumerate(replayed.hashes) if head in heads}


def hold_receipts(audit: LedgerAudit, receipts: Sequence[HeldReceipt]) -> None:
    """Compare a ledger with the receipts of its curator, and add the findings to `audit`."""
    own_receipts = [held_receipt for held_receipt in receipts if held_receipt.receipt.curator in audit.curators]
    replayed = audit.replayed
    places = places_of(replayed, own_receipts)
    admitted = AdmittedLosses(replayed)
    newest = -1
    by: HeldReceipt | None = None
    for held_receipt in own_receipts:
        receipt = held_receipt.receipt
        if held_receipt.envelope and not _is_signed(held_receipt, replayed.label):
            audit.findings.add(-1, f"{held_receipt.source} is not signed by the curator that it names: it says nothing")
            continue
        index = places.get(receipt.ledger_head)
        if index is None:
            if not admitted.names(receipt):
                audit.findings.add(len(replayed), _lacks(held_receipt, replayed))
            elif less := admitted.complaint(receipt):
                audit.findings.add(len(replayed), f"it lost the entries that {held_receipt.source} is of, and {less}")
            else:
                audit.unproven.append(
                    f"{held_receipt.source} is of entries that this ledger lost, as its HALT entry says"
                )
            continue
        wrong = [] if held_receipt.proven else _differences(held_receipt, index, replayed)
        if wrong:
            audit.findings.add(index, f"{held_receipt.source} and ledger entry {index} differ in {', '.join(wrong)}")
        elif index > newest:
            newest, by = index, held_receipt
    for text in admitted.uncovered():
        audit.findings.add(len(replayed), text)
    if _cover(audit, newest, "" if by is None else by.source) and by is not None and by.envelope:
        audit.unproven.append(
            f"{by.source} is signed by the curator alone: that a learner held it rests on the word of who gave it"
        )


def hold_witnessed(
    audit: LedgerAudit, checkpoints: Mapping[str, str], witnesses: Collection[bytes] | None = None
) -> set[str]:
    """Compare witnessed checkpoints (file -> its text) with a ledger, and add the findings to `audit`.

    `witnesses`: public keys that are known from elsewhere; None takes all witnesses, and the result says so.

    Returns:
        The files whose checkpoints are of this ledger.
    """
    replayed = audit.replayed
    if not checkpoints or not replayed.keys:
        return set()
    comparison = hold_checkpoints(replayed.hashes, replayed.keys, checkpoints, witnesses=witnesses)
    for contradiction in comparison.contradicted:
        audit.findings.add(
            contradiction.first, f"the ledger contradicts a checkpoint that its curator signed: {contradiction.text}"
        )
    for first, second, size in comparison.equivocations:
        audit.findings.add(size - 1, f"{first} and {second} are two checkpoints of {size} entries with two roots")
    if comparison.witnessed:
        names = ", ".join(key for key, size in comparison.witnesses.items() if size == comparison.witnessed)
        _cover(audit, comparison.witnessed - 1, f"a head that {_witnesses(names)} co-signed")
        if witnesses is None:
            audit.unproven.append(
                f"nobody checked whose key {_witnesses(names)} is: a curator can make a witness up (--witness KEY)"
            )
    if comparison.signed > comparison.witnessed:
        whom = "no witness" if witnesses is None else "no witness that --witness names"
        audit.unproven.append(f"a checkpoint of {comparison.signed} entries fits, and {whom} co-signed it")
    return checkpoints.keys() - {name for name, _ in comparison.unverified}


def _witnesses(names: str) -> str:
    return f"{'witnesses' if ',' in names else 'witness'} {names}"


def differing(effect: Effect, receipt: Receipt, replayed: Replayed) -> list[str]:
    """Return the facts in which a receipt differs from the entry of its request."""
    study = effect.study
    charged = effect.amount if effect.kind is EntryKind.CHARGE else ZERO
    by_learner = shorten(replayed.purses.by_learner(study.learner, effect.index), math.ceil)
    facts = {
        "learner": receipt.learner == study.learner,
        "study": (receipt.study, receipt.sequence) == (study.study, effect.sequence),
        "the head": receipt.ledger_head == replayed.hashes[effect.index],
        "the charge": parse_amount(receipt.charged) == charged,
        "the study's total": parse_amount(receipt.spent_by_study) == effect.by_study,
        "the learner's total": parse_amount(receipt.spent_by_learner) == by_learner,
    }
    return [fact for fact, same in facts.items() if not same]


def _differences(held_receipt: HeldReceipt, index: int, replayed: Replayed) -> list[str]:
    receipt = held_receipt.receipt
    if receipt.request != NO_DIGEST:
        effect = replayed.requests.get(receipt.request)
        return ["the request"] if effect is None or effect.index != index else differing(effect, receipt, replayed)
    by_learner = shorten(replayed.purses.by_learner(receipt.learner, index), math.ceil)
    wrong = [] if parse_amount(receipt.spent_by_learner) == by_learner else ["the learner's total"]
    if receipt.study != NO_STUDY:
        study = replayed.studies.get((receipt.learner, receipt.study))
        charges = (charge for charge in replayed.charges if charge.study is study and charge.entry <= index)
        if parse_amount(receipt.spent_by_study) != total_of(charge.amount for charge in charges):
            wrong.append("the study's total")
    return wrong


def _is_signed(held_receipt: HeldReceipt, label: str) -> bool:
    try:
        open_receipt(held_receipt.envelope, held_receipt.receipt.curator, label=label or LABEL)
    except RemoteProtocolError:
        return False
    return True


def _lacks(held_receipt: HeldReceipt, replayed: Replayed) -> str:
    receipt = held_receipt.receipt
    halts = f", although it admits a rollback at entry {replayed.resumes[-1].index}" if replayed.admitted else ""
    return (
        f"it lacks the entry that {held_receipt.source} names (request {receipt.sequence}, study "
        f"{receipt.study.hex()}, head {receipt.ledger_head.hex()[:16]}): the ledger was rolled back or edited, "
        f"or is an older copy{halts}"
    )


def _cover(audit: LedgerAudit, index: int, by: str) -> bool:
    """Note that somebody else vouches for all entries up to this one; return whether these are more than before."""
    last = len(audit.replayed) - 1
    first = 0 if audit.unwitnessed is None and not audit.covered_by else (audit.unwitnessed or (last + 1, 0))[0]
    more = index + 1 > first
    if more:
        audit.covered_by, first = by, index + 1
    audit.unwitnessed = (first, last) if first <= last else None
    return more


class AdmittedLosses:
    """The losses that a ledger admits in its HALT and RESUME entries, compared with receipts of lost entries."""

    def __init__(self, replayed: Replayed) -> None:
        self._replayed = replayed
        self._by_stub: defaultdict[bytes, list[tuple[BranchTrace, int]]] = defaultdict(list)
        self._by_request: defaultdict[bytes, list[tuple[BranchTrace, int]]] = defaultdict(list)
        for trace, index in replayed.admitted:
            for stub in trace.lost_stubs():
                self._by_stub[stub].append((trace, index))
            if trace.suspect.request != NO_DIGEST:
                self._by_request[trace.suspect.request].append((trace, index))
        self._charged: dict[bytes, tuple[bytes, Fraction]] = {}

    def names(self, receipt: Receipt) -> bool:
        """Whether the ledger admits that it lost this receipt's entry."""
        return bool(self._naming(receipt))

    def complaint(self, receipt: Receipt) -> str:
        """Keep the loss that a receipt shows; say where the ledger admits less than that, or ""."""
        self._charged[receipt.ledger_head] = receipt.learner, parse_amount(receipt.charged)
        wrong = [self._less(receipt, trace, index) for trace, index in self._naming(receipt)]
        return "" if "" in wrong else wrong[0]

    def uncovered(self) -> Iterator[str]:
        """Yield a sentence for each learner, and for all together, whose charges in kept receipts were not restored."""
        if not self._charged:
            return
        purses, restored = self._replayed.purses, self._replayed.restored
        charged_by: defaultdict[tuple[bytes, ...], Fraction] = defaultdict(Fraction)
        for learner, charged in self._charged.values():
            keys = tuple(sorted(purses.keys_of(learner)))
            charged_by[keys] = plus(charged_by[keys], charged)
        for keys, charges in charged_by.items():
            there = total_of(restored.get(key, ZERO) for key in keys)
            if there < charges:
                yield (
                    f"receipts show that {as_text(charges)} of learner {keys[0].hex()[:16]} was lost, and its RESUME "
                    f"entries restore {as_text(there)} of it"
                )
        charges = total_of(charged_by.values())
        if (there := restored.get(NOBODY, ZERO)) < charges:
            yield (
                f"receipts show that {as_text(charges)} was lost, and its RESUME entries enter "
                f"{as_text(there)} as spent"
            )

    def _naming(self, receipt: Receipt) -> list[tuple[BranchTrace, int]]:
        return self._by_stub.get(receipt.ledger_head[:STUB], []) + self._by_request.get(receipt.request, [])

    def _less(self, receipt: Receipt, trace: BranchTrace, resumed: int) -> str:
        spent, position = parse_amount(receipt.spent_by_learner), trace.suspect.position
        amounts = {
            "its HALT entry says that the learner had spent": trace.spent_by(
                self._replayed.purses.keys_of(receipt.learner)
            ),
            f"with what its entry {resumed} restores the learner has spent": shorten(
                self._replayed.purses.by_learner(receipt.learner, resumed), math.ceil
            ),
        }
        if position is not None:
            amounts["its HALT entry says that all had spent"] = parse_amount(position.total)
        return next(
            (
                f"{place} {as_text(amount)}, and not {as_text(spent)}"
                for place, amount in amounts.items()
                if amount < spent
            ),
            "",
        )


class Contradiction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checkpoint that the curator signed, but whose root is not that of these entries."""

    name: str  # of the checkpoint
    size: int  # number of its entries
    first: int  # first, last: indices of the entries among which the first that was changed or is missing lies
    last: int
    co_signed: bool  # whether a witness co-signed it
    text: str  # one sentence, for people


class WitnessFindings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of comparing checkpoints with a list of entries."""

    entries: int  # how many there are
    # so many of them, from the first on, are as a witness has co-signed; what follows is unwitnessed
    witnessed: int = 0
    signed: int = 0  # the same of checkpoints that may have no co-signature
    witnesses: Mapping[str, int] = {}  # public key -> up to how many entries it has co-signed
    contradicted: tuple[Contradiction, ...] = ()  # checkpoints that are not of these entries
    # (name, name, size): two checkpoints of one size that the curator signed, with two roots
    equivocations: tuple[tuple[str, str, int], ...] = ()
    # (name, why): cannot be read, another ledger's, or with a signature that does not fit; they say nothing about these
    # entries
    unverified: tuple[tuple[str, str], ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether no checkpoint contradicts the entries or another checkpoint."""
        return not self.contradicted and not self.equivocations


def hold_checkpoints(
    hashes: Sequence[bytes],
    curators: Sequence[tuple[int, bytes]],
    checkpoints: Mapping[str, str],
    *,
    witnesses: Collection[bytes] | None = None,
    other_keys: Mapping[str, bytes] | None = None,
) -> WitnessFindings:
    """Compare a ledger's entries with checkpoints.

    Rollbacks and edits of entries up to the newest checkpoint are found. Later entries are not checked.

    `hashes`: `entries.entry_hash` of every entry, by index; `curators`: (index, public key) of who signs from that
    entry on, as `Account.curators` has it; the first is (0, the curator's first key), and names the ledger;
    `checkpoints`: name, such as a file's -> the text; with or without co-signatures; `witnesses`: public keys of the
    witnesses that are trusted. None takes every one whose signature fits, so that a curator may have made the witness
    itself: then say whose keys were not checked. The curator's own never count. `other_keys`: name -> public key of
    witnesses whose names do not hold it, as those of other programs.

    Returns:
        What was found. No checkpoint makes this function raise an error.
    """
    tree = Tree(hashes)
    unverified: list[tuple[str, str]] = []
    read: dict[str, SignedCheckpoint] = {}
    co_signers: dict[str, list[bytes]] = {}
    for name, written in checkpoints.items():
        try:
            signed = read_checkpoint(written, where=name)
            by = witnesses_of(signed, other_keys)
        except (ConfigurationError, CheckpointError) as error:
            unverified.append((name, str(error)))
            continue
        if not curators or signed.checkpoint.first != curators[0][1]:
            unverified.append((name, f"{name} is of another ledger, {signed.checkpoint.origin}"))
            continue
        read[name] = signed
        curator_keys = {key for _, key in (*curators, *signed.curators)}
        co_signers[name] = [key for key in by if key not in curator_keys and (witnesses is None or key in witnesses)]
    agreeing = {name: signed for name, signed in read.items() if _agrees(signed, tree, curators)}
    sizes = {name: signed.checkpoint.size for name, signed in agreeing.items()}
    by_witness: dict[str, int] = {}
    for name, size in sizes.items():
        for key in co_signers[name]:
            by_witness[key.hex()] = max(size, by_witness.get(key.hex(), 0))
    return WitnessFindings(
        entries=tree.size,
        witnessed=max(by_witness.values(), default=0),
        signed=max(sizes.values(), default=0),
        witnesses=by_witness,
        contradicted=tuple(
            _contradiction(name, signed, tree, _common(name, sizes, co_signers), co_signed=bool(co_signers[name]))
            for name, signed in read.items()
            if name not in agreeing
        ),
        equivocations=tuple(
            (first, other, read[first].checkpoint.size)
            for first, other in itertools.combinations(read, 2)
            if equivocate(read[first].checkpoint, read[other].checkpoint)
        ),
        unverified=tuple(unverified),
    )


def _agrees(signed: SignedCheckpoint, tree: Tree, curators: Sequence[tuple[int, bytes]]) -> bool:
    """Whether a checkpoint has the ledger's root at its size, and names the keys that signed the entries so far."""
    size = signed.checkpoint.size
    same_keys = signed.curators == tuple(span for span in curators if span[0] < size)
    return size <= tree.size and tree.root(size) == signed.checkpoint.root and same_keys


def _common(name: str, agreeing: Mapping[str, int], co_signers: Mapping[str, Collection[bytes]]) -> Collection[int]:
    """Return the sizes of the agreeing checkpoints that share a co-signer with this one."""
    signers = set(co_signers[name])
    return [size for other, size in agreeing.items() if signers & set(co_signers[other])]


def _contradiction(
    name: str, signed: SignedCheckpoint, tree: Tree, common: Collection[int], *, co_signed: bool
) -> Contradiction:
    size = signed.checkpoint.size
    first = max((other for other in common if other < size), default=0)
    last = size - 1
    if size > tree.size:
        text = f"entries from {tree.size} to {last} are missing: rolled back, or an older export"
        last = tree.size
    elif tree.root(size) == signed.checkpoint.root:
        first, text = last, f"it was signed by {signed.curator.hex()}, which was not the ledger's key at entry {last}"
    else:
        text = f"an entry from {first} to {last} is not the one that was there: edited, or another branch"
    return Contradiction(
        name=name, size=size, first=first, last=last, co_signed=co_signed, text=f"{name}, of {size} entries: {text}"
    )
