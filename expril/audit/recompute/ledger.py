"""One ledger, audited by itself: file, chain, rules, costs, signatures, stored replies, and what its charges mean.

An Ed25519 verification takes longer than all else that an entry needs, so not every signature of a long ledger is
checked. The newest signature of each key covers all entries before it: the chain under it cannot be changed. The others
of an export are covered by the digests of its blocks.
"""

import os
import secrets
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from expril.audit.recompute.bounds import Bounds, Cards
from expril.audit.recompute.evidence import Evidence, open_evidence
from expril.audit.recompute.known import Findings
from expril.audit.recompute.replay import Replayed
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import printable
from protocol.ledger.entries import LedgerCorruptError, decode_entry, entry_hash
from protocol.ledger.exports import Pair, state_key
from protocol.ledger.heads import head_is_signed
from protocol.messages import NOBODY
from protocol.query_kind import Kinds
from protocol.rationals import plus

Tick = Callable[[str, int, int], None]
"""(what, done, total)."""


@dataclass(eq=False)
class LedgerAudit:
    """What a ledger's bytes prove.

    Attributes:
        path: of the file.
        replayed: the sum of its entries.
        bounds: what is known of the bound c.
        evidence: the file; its entries have been read.
        kinds: the query kinds that could be read.
        entries: how many the file holds.
        checked: how many signatures were verified.
        unproven: what rests on the curator's word.
        unwitnessed: (first, last) entry that nothing outside of the curator's hands covers; None where there is none.
        covered_by: what the newest entry that is covered rests on.
    """

    path: Path
    replayed: Replayed
    bounds: Bounds
    evidence: Evidence
    kinds: Kinds
    entries: int
    checked: int = 0
    unproven: list[str] = field(default_factory=list)
    unwitnessed: tuple[int, int] | None = None
    covered_by: str = ""

    @property
    def findings(self) -> Findings:
        """What is wrong."""
        return self.replayed.findings

    @property
    def curators(self) -> set[bytes]:
        """All keys that signed an entry; one to which it was only handed over said nothing."""
        return {key for start, key in self.replayed.keys if start < len(self.replayed)}


def audit_ledger(
    path: Path,
    *,
    kinds: Kinds,
    cards_of: Callable[[bytes], Cards] = lambda curator: {},  # noqa: ARG005
    curator: bytes = b"",
    named: Callable[[Replayed], Iterable[int]] = lambda replayed: (),  # noqa: ARG005
    every_signature: bool = False,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> LedgerAudit:
    """Replay a ledger's file.

    Args:
        path: an export, or a SQLite ledger.
        kinds: the query kinds that can be read.
        cards_of: curator's public key -> (learner, study) -> bound c of its signed card.
        curator: public key that must be one of the ledger's; empty takes what it names.
        named: the replayed ledger -> entries whose signatures are checked in any case.
        every_signature: check all of them, however many there are.
        tick: called with (what, done, total).

    Raises:
        ConfigurationError: it is no ledger, or nothing of it can be read.
        OSError: it is missing or cannot be read.
    """
    evidence = open_evidence(path)
    bounds = Bounds(kinds, cards_of)
    replayed = Replayed(bounds)
    entries, odd = _feed(replayed, evidence, tick)
    for finding in evidence.findings:
        replayed.findings.add(finding.index, finding.text)
    if not entries:
        replayed.findings.add(-1, "the ledger has no first entry")
    audit = LedgerAudit(path, replayed, bounds, evidence, kinds, entries)
    stranger = bool(curator) and curator not in audit.curators
    if stranger:
        replayed.findings.add(0, "the ledger was opened by another key")
    wanted = to_check(replayed, named(replayed), evidence.damaged, every=every_signature)
    wrong = unsigned(replayed, wanted, curator if stranger else b"")
    audit.checked = len(wanted)
    if odd is not None:
        replayed.findings.add(len(replayed), _broken(replayed, odd, changed=len(replayed) - 1 in wrong))
    for place in wrong:
        replayed.findings.add(
            place, f"ledger entry {place} is not signed by the curator: it or its signature was changed"
        )
    for study, text in bounds.contradictions(iter(replayed.studies.values())):
        replayed.findings.add(study.index, text)
    for study in bounds.wrong:
        cell = study.learner, study.versions[-1]
        replayed.under[cell] = plus(replayed.under[cell], bounds.shortfall(study))
    check_meaning(replayed)
    if not replayed.findings:
        _check_replies(audit)
    _tell(audit)
    return audit


def _feed(replayed: Replayed, evidence: Evidence, tick: Tick) -> tuple[int, Pair | None]:
    """Replay all entries; how many the file holds, and the first that does not belong to the chain."""
    entries = 0
    odd: Pair | None = None
    for part in evidence.parts:
        for pair in part:
            if not replayed.broken and not replayed.feed(*pair):
                odd = pair
            entries += 1
        tick("entries", entries, 0)
    return entries, odd


def _broken(replayed: Replayed, odd: Pair, *, changed: bool) -> str:
    """Why the chain ends: the entry before the one that does not fit may be the one that was changed."""
    place = len(replayed)
    body, signature = odd
    head = entry_hash(body)
    if changed:
        how = f"ledger entry {place - 1} was changed"
    elif _stands_elsewhere(replayed, body, signature, head):
        how = replayed.broken
    elif not head_is_signed(replayed.signer_of(place), signature, place, head):
        how = f"ledger entry {place} was changed ({replayed.broken})"
    else:
        how = f"{replayed.broken}, and its curator signed both: it keeps two histories, or entries were put in"
    return f"{how}; nothing from ledger entry {place} on is counted"


def _stands_elsewhere(replayed: Replayed, body: bytes, signature: bytes, head: bytes) -> bool:
    """Whether this is a whole entry of another place: what belongs here was dropped or moved."""
    try:
        index = decode_entry(body).index
    except LedgerCorruptError:
        return False
    return index != len(replayed) and head_is_signed(replayed.signer_of(index), signature, index, head)


def _check_replies(audit: LedgerAudit) -> None:
    """Hold the digests of stored replies, and of what answerers keep, against the chain."""
    wanted: dict[bytes, tuple[int, bytes, str]] = {
        request: (made.answered, made.reply, "the reply of")
        for request, made in audit.replayed.requests.items()
        if made.answered >= 0 and not made.evicted
    }
    for (learner, study), known in audit.replayed.studies.items():
        for kind, (index, kept) in known.states.items():
            wanted[state_key(learner, study, kind)] = (index, kept, "what the answerer kept with")
    replies = audit.evidence.replies
    for request, (index, kept, what) in wanted.items():
        stored = replies.get(request)
        if stored != kept:
            how = "is missing" if stored is None else "was changed"
            audit.findings.add(index, f"{what} ledger entry {index} {how}")
    strangers = len(replies.keys() - wanted.keys())
    if strangers:
        audit.findings.add(-1, f"{strangers} stored replies belong to no entry")


def _tell(audit: LedgerAudit) -> None:
    """What rests on the curator's word."""
    replayed = audit.replayed
    for entry in replayed.resumes:
        restored = "" if entry.learner == NOBODY else f", of it {entry.own} of learner {entry.learner.hex()[:16]}"
        audit.unproven.append(f"its entry {entry.index} enters {entry.amount} as spent on its steward's word{restored}")
    loose = {
        study.shape.kinds[query]
        for study in replayed.studies.values()
        if not all(study.shape.fixed)
        for query, fixed in enumerate(study.shape.fixed)
        if not fixed
    }
    audit.unproven += [
        f"what queries of kind {printable(kind)} were charged is not computed anew: "
        + ("it depends on releases" if kind in audit.kinds else "the kind is not installed")
        for kind in sorted(loose)
    ]
    if replayed.studies and not audit.bounds.cards and audit.bounds.bound is not None:
        audit.unproven.append(f"c = {audit.bounds.bound} as implied by its costs: no card shows it")
    shown = sorted(set(audit.bounds.cards.values()))
    if len(shown) > 1:
        audit.unproven.append(
            f"its curator's cards show c = {' and '.join(map(str, shown))}: what a study without a card of its own "
            "costs is not known, unless the steward changed c"
        )


MOST_ALL = 50_000
"""Entries up to which every signature is checked."""
SAMPLE = 2_000
"""Signatures drawn at random from a longer ledger."""
_AT_A_TIME = 256


def to_check(replayed: Replayed, named: Iterable[int], damaged: Iterable[tuple[int, int]], *, every: bool) -> list[int]:
    """Indices of the entries whose signatures are checked.

    Args:
        replayed: the ledger.
        named: entries that a receipt or a witnessed head names.
        damaged: (first, last) entry of parts of the file that are not as they were written.
        every: all of them.
    """
    length = len(replayed)
    if every or length <= MOST_ALL:
        return list(range(length))
    newest = [start - 1 for start, _ in replayed.keys[1:]] + [length - 1]
    chosen = {0, *newest, *replayed.handovers, *replayed.starts[-MOST_ALL:], *named}
    chosen.update(index for first, last in damaged for index in range(first, last + 1))
    chosen.update(secrets.SystemRandom().sample(range(length), SAMPLE))
    return sorted(index for index in chosen if 0 <= index < length)


def unsigned(replayed: Replayed, indices: Collection[int], signer: bytes = b"") -> list[int]:
    """Of these entries, those whose signature is not their key's.

    Args:
        replayed: the ledger.
        indices: which.
        signer: that must have signed all; empty takes the key that the ledger names at each place.
    """
    spans = [*replayed.keys, (len(replayed), b"")]
    tasks: list[tuple[bytes, list[int]]] = []
    for (start, key), (end, _) in pairwise(spans):
        own = [index for index in indices if start <= index < end]
        tasks += [(signer or key, own[place : place + _AT_A_TIME]) for place in range(0, len(own), _AT_A_TIME)]

    def check(task: tuple[bytes, list[int]]) -> list[int]:
        key, places = task
        return [
            place
            for place in places
            if not head_is_signed(key, replayed.signatures[place], place, replayed.hashes[place])
        ]

    # The library lets go of the interpreter's lock while it verifies.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return [place for found in pool.map(check, tasks) for place in found]


SIMULATED = "its signatures are those of a simulation: NOT PRIVATE, whatever it charges"


def check_meaning(replayed: Replayed) -> None:
    """Findings on a ledger's terms and plans go to the ledger.

    Args:
        replayed: the ledger; its findings are changed.
    """
    if replayed.unexplained >= 0:
        replayed.findings.add(
            replayed.unexplained,
            f"ledger entry {replayed.unexplained} accepts a plan before a START entry says what its charges mean",
        )
    if replayed.terms and replayed.label not in (LABEL, NOT_PRIVATE_LABEL):
        replayed.findings.add(
            replayed.starts[0],
            f"the ledger's terms are none that this program knows ({printable(replayed.terms, 200)}): nothing says "
            "what its charges mean",
        )
    if replayed.label == NOT_PRIVATE_LABEL:
        return
    for study in replayed.studies.values():
        if study.shape.not_private:
            replayed.findings.add(
                study.index,
                f"ledger entry {study.index} (reserve) accepts query {study.shape.not_private[0]}, which is not as "
                "private as its cost says, under terms that say nothing of a simulation: it has no epsilon",
            )
