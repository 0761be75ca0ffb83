"""The verdicts of an audit: on a transcript, a ledger, a run, and all inputs together.

Each `Verdict` lists what is wrong and what is left open, in itself and in its parts. These lists alone decide whether
it is proven.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from expril.audit.recompute.entries import ZERO, as_text
from expril.audit.recompute.ledger import LedgerAudit
from expril.audit.recompute.sums import Sum, UnitSum, bound_text
from protocol.envelopes import LABEL
from protocol.errors import printable
from protocol.messages import Message, Receipt
from protocol.run_index import LEDGERS, Index, LedgerEntry, TranscriptEntry
from protocol.transcript import Replay
from protocol.transitions import State

DELTA = 1e-6
PROVEN = "proven"
IN_PART = "proven in part"
REFUSED = "refused"
NOT_PROVEN = "NOT PROVEN"
NOT_PRIVATE = ", NOT PRIVATE"
"""Ending of a verdict on a transcript that is signed as not private."""

HELD = "held"
"""State of a transcript that was compared with its curator's ledger, entry by entry."""
NO_LEDGER = "none kept"
LEDGER_NOT_PROVEN = NOT_PROVEN


def learner_names(index: Index) -> dict[bytes, str]:
    """Return the names of the learners in a run's list, by public key."""
    return {bytes.fromhex(entry.key): entry.name for entry in index.participants if entry.role == "learner"}


@dataclass(kw_only=True, eq=False)
class Verdict:
    """A verdict on something that an audit checks."""

    complaints: list[str] = field(default_factory=list)  # what is wrong with it as a whole
    # what it leaves open, or what rests on somebody's word, although nothing is wrong
    remarks: list[str] = field(default_factory=list)

    def parts(self) -> Iterable[tuple[str, "Verdict"]]:
        """Return (place, verdict) of each part."""
        return ()

    @property
    def wrong(self) -> list[str]:
        """Return everything that is wrong, with its place. What is wrong with the whole comes first."""
        return [*self.complaints, *(f"{place}: {text}" for place, part in self.parts() for text in part.wrong)]

    @property
    def unproven(self) -> list[str]:
        """Return everything that is left open, with its place. What the whole leaves open comes last."""
        return [*(f"{place}: {text}" for place, part in self.parts() for text in part.unproven), *self.remarks]

    @property
    def proven(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    @property
    def verdict(self) -> str:
        """`PROVEN`, `IN_PART` or `NOT_PROVEN`."""
        return NOT_PROVEN if self.wrong else IN_PART if self.unproven else PROVEN


@dataclass(frozen=True)
class Answer:
    """A reply with its receipt, both verified by the replay."""

    receipt: Receipt
    reply: bytes  # digest of the reply's bytes
    release: bytes | None = None  # what it releases; None where it is no release


@dataclass(eq=False)
class TranscriptVerdict(Verdict):
    """The verdict on one transcript of a learner's exchange with a curator."""

    entry: TranscriptEntry
    learner: bytes = b""  # learner, curator: public keys; empty where the run's list has none
    curator: bytes = b""
    proof: Replay | None = None  # the replay, where it went through
    study: bytes = b""  # its identity; empty where none was proposed
    purpose: str = ""  # that was proposed to the curator's steward
    announces: Fraction | None = None  # epsilon of a validation that was announced, and of which nothing is here
    carried_receipt: bytes = b""  # digest of the earlier receipt that the proposal carried; empty where it carried none
    newest_receipt: bytes = b""  # digest of the newest receipt in it; empty where there is none
    requests: dict[bytes, Message] = field(default_factory=dict, repr=False)  # digest of a request -> the request
    answers: dict[bytes, Answer] = field(default_factory=dict, repr=False)  # digest of a request -> its answer
    ledger: str = NO_LEDGER  # `HELD`, `NO_LEDGER` or `LEDGER_NOT_PROVEN`
    charged: Fraction | None = None  # what its curator's ledger charges to its study, where it is `HELD`

    @property
    def planned(self) -> Fraction:
        """The cost of the proposed plan, whether accepted or not; 0 where none can be computed."""
        if self.proof is None or self.proof.plan is None or self.proof.card is None:
            return ZERO
        cost = self.proof.plan_cost
        return self.proof.epsilon_claimed if cost is None else cost

    @property
    def at_most(self) -> Fraction | None:
        """The most that the curator charged here, by its ledger or by signed ends; None if nothing bounds it."""
        if self.charged is not None:
            return self.charged
        return None if self.proof is None or self.announces else self.proof.most_charged

    @property
    def verdict(self) -> str:
        """The verdict, or `REFUSED` if the curator refused the plan. `NOT_PRIVATE` is added if that was signed."""
        word = super().verdict
        if word == PROVEN and self.proof is not None and self.proof.state is State.REFUSED:
            word = REFUSED  # nothing could be spent
        return word if word == NOT_PROVEN or self.entry.label == LABEL else word + NOT_PRIVATE

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values. Numbers are null if the replay failed."""
        proof = self.proof
        numbers: dict[str, Any] = dict.fromkeys(("claimed", "spent", "at_most", "releases", "refusals", "state"))
        if proof is not None:
            numbers = {
                "claimed": as_text(proof.epsilon_claimed),
                "spent": as_text(proof.epsilon_spent),
                "at_most": bound_text(self.at_most),
                "releases": proof.releases,
                "refusals": list(proof.refusals),
                "state": proof.state.value,
            }
        return {
            "file": self.entry.file,
            "repeat": self.entry.repeat,
            "learner": self.entry.learner,
            "curator": self.entry.curator,
            "verdict": self.verdict,
            "why": self.complaints,
            "unproven": self.remarks,
            "ledger": self.ledger,
            **numbers,
        }


@dataclass(eq=False)
class AuditedLedger(Verdict):
    """The verdict on one ledger."""

    file: str  # for people
    curator: str  # name in the run, or the first digits of its key
    world: str  # the run and repeat that it belongs to; "" where no run that was given knows its curator
    read: LedgerAudit | None = None  # what its bytes prove; None where they could not be read
    # what was spent; empty where it is the beginning of another ledger that was given
    sums: list[Sum] = field(default_factory=list)

    @property
    def audit(self) -> LedgerAudit:
        """The audit of the ledger's file; LookupError if it could not be read."""
        if self.read is None:
            raise LookupError(self.file)
        return self.read

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        audit, replayed = self.audit, self.audit.replayed
        return {
            "file": self.file,
            "curator": self.curator,
            "keys": [key.hex() for _, key in replayed.keys],
            "terms": replayed.terms,
            "unit": replayed.unit,
            "private": replayed.label == LABEL
            and not any(item.shape.not_private for item in replayed.studies.values()),
            "c": audit.bounds.bound,
            "head": replayed.head.hex(),
            "entries": audit.entries,
            "counted": len(replayed),
            "signatures_checked": audit.checked,
            "spent": as_text(replayed.total),
            "halted": replayed.halted,
            "data": [{"entry": index, "version": version} for index, version in replayed.data],
            "plug_ins": [{"entry": index, "packages": note.splitlines()} for index, note in replayed.plug_ins],
            "findings": [{"entry": item.index, "text": item.text} for item in audit.findings],
            "unproven": list(audit.unproven),
            "unwitnessed": None if audit.unwitnessed is None else list(audit.unwitnessed),
            "covered_by": audit.covered_by or None,
            "sums": [item.as_object() for item in self.sums],
        }


@dataclass(eq=False)
class LedgerVerdict(AuditedLedger):
    """The verdict on a ledger in a run's list."""

    entry: LedgerEntry = field(kw_only=True)

    @property
    def holds(self) -> bool:
        """Whether its chain is whole and signed by its curator. It holds even if replies are missing."""
        read = self.read
        return read is not None and not read.replayed.broken and bytes.fromhex(self.entry.key) in read.curators

    @property
    def spent(self) -> Fraction | None:
        """The amount spent over all learners; None if the ledger could not be read."""
        return None if self.read is None else self.read.replayed.total

    def as_listed(self) -> dict[str, Any]:
        """Return it as plain JSON values, as they are listed beside the run's transcripts."""
        return {
            "file": self.entry.file,
            "curator": self.entry.curator,
            "key": self.entry.key,
            "head": self.entry.head,
            "entries": self.entry.entries,
            "verdict": self.verdict,
            "why": self.complaints,
            "unproven": self.remarks,
            "spent": None if self.spent is None else as_text(self.spent),
        }


@dataclass(eq=False)
class RunProof(Verdict):
    """The verdict on a whole run folder. Complaints on signatures come first."""

    folder: Path
    index: Index | None = None  # the run's list; None where it could not be read, and then nothing else was looked at
    # transcripts, ledgers: verdicts on each
    transcripts: list[TranscriptVerdict] = field(default_factory=list, repr=False)
    ledgers: list[LedgerVerdict] = field(default_factory=list)

    def world(self, repeat: int) -> str:
        """Name the run and the repeat, for people."""
        return f"{self.folder}, repeat {repeat}"

    def curator_name(self, name: str, repeat: int) -> str:
        """Return a curator's name, with its repeat if there are several."""
        several = self.index is not None and self.index.repeats > 1
        return f"{printable(name)}, repeat {repeat}" if several else printable(name)

    def ledger(self, entry: LedgerEntry) -> LedgerVerdict:
        """Make an empty verdict on a ledger of its list."""
        file, name = f"{self.folder}/{LEDGERS}/{entry.file}", self.curator_name(entry.curator, entry.repeat)
        return LedgerVerdict(file, name, self.world(entry.repeat), entry=entry)

    def parts(self) -> Iterable[tuple[str, Verdict]]:
        """Return the verdicts on its transcripts, with their repeat if there are several, and on its ledgers."""
        for item in self.transcripts:
            yield self.curator_name(item.entry.file, item.entry.repeat), item
        for ledger in self.ledgers:
            yield ledger.entry.file, ledger

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "run": str(self.folder),
            "proven": self.proven,
            "complaints": self.complaints,
            "remarks": self.remarks,
            "transcripts": [item.as_object() for item in self.transcripts],
            "ledgers": [ledger.as_listed() for ledger in self.ledgers],
        }


@dataclass(eq=False)
class Recomputed(Verdict):
    """The verdict on all inputs together, recomputed from transcripts, receipts and ledgers alone."""

    delta: float | None = DELTA  # of each accepted plan; None where no (epsilon, delta) was asked for
    runs: list[RunProof] = field(default_factory=list)  # folders of runs
    lone_ledgers: list[AuditedLedger] = field(default_factory=list)  # ledgers that were given by themselves
    # of curators whose ledger is not here, by what transcripts prove
    transcript_sums: list[Sum] = field(default_factory=list)
    units: list[UnitSum] = field(default_factory=list)  # by privacy unit, over curators
    unread: list[str] = field(default_factory=list)  # what could not be read at all

    @property
    def ledgers(self) -> list[AuditedLedger]:
        """The ledgers of runs whose chain holds, and those outside of any run."""
        return [*(ledger for run in self.runs for ledger in run.ledgers if ledger.holds), *self.lone_ledgers]

    @property
    def sums(self) -> list[Sum]:
        """Sums by curator, learner and version; "" as `learner` or `version` means all."""
        return [*(row for ledger in self.ledgers for row in ledger.sums), *self.transcript_sums]

    def parts(self) -> Iterable[tuple[str, Verdict]]:
        """Return the verdicts on its runs, and on ledgers outside of any run."""
        yield from ((str(run.folder), run) for run in self.runs)
        yield from ((ledger.file, ledger) for ledger in self.lone_ledgers)

    @property
    def unproven(self) -> list[str]:
        """As for any verdict, but without the folders of runs in the places."""
        texts = [text for run in self.runs for text in run.unproven]
        return [
            *texts,
            *(f"{ledger.file}: {text}" for ledger in self.lone_ledgers for text in ledger.unproven),
            *self.remarks,
        ]

    @property
    def unwitnessed(self) -> list[str]:
        """The entries that rest on the curators' word alone."""
        return [
            f"{ledger.file}: entries {ledger.audit.unwitnessed[0]}..{ledger.audit.unwitnessed[1]} rest on the "
            "curator's word"
            + (f"; those before are covered by {ledger.audit.covered_by}" if ledger.audit.covered_by else "")
            for ledger in self.ledgers
            if ledger.audit.unwitnessed is not None
        ]

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON values, with exact amounts as text."""
        return {
            "proven": self.proven,
            "delta": self.delta,
            "wrong": self.wrong,
            "unproven": self.unproven,
            "unwitnessed": self.unwitnessed,
            "sums": [item.as_object() for item in self.sums],
            "units": [item.as_object() for item in self.units],
            "runs": [run.as_object() for run in self.runs],
            "ledgers": [item.as_object() for item in self.ledgers],
            "unread": self.unread,
        }
