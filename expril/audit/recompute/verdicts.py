"""What an audit of a run folder found: verdicts on transcripts and ledgers, complaints and what stays unproven."""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expril.audit.recompute.findings import as_text
from protocol.errors import printable
from protocol.messages import Message, Receipt
from protocol.run_index import Index, LedgerEntry, TranscriptEntry
from protocol.transcript import Replay

if TYPE_CHECKING:
    from expril.audit.recompute.ledger import LedgerAudit

PROVEN = "proven"
IN_PART = "proven in part"
REFUSED = "refused"
NOT_PROVEN = "NOT PROVEN"
NOT_PRIVATE = ", NOT PRIVATE"
"""Added where all is in order but signed as not private."""

HELD = "held"
"""Against the curator's ledger, entry by entry."""
NO_LEDGER = "none kept"
LEDGER_NOT_PROVEN = NOT_PROVEN


@dataclass
class TranscriptVerdict:
    """What one transcript proves.

    Attributes:
        entry: which.
        verdict: `PROVEN`; `IN_PART` where `unproven` says what is left open; `REFUSED` where no plan was accepted, so
            that nothing could be spent; each with `NOT_PRIVATE` where signed so; `NOT_PROVEN`.
        why: for `NOT_PROVEN`, what is wrong.
        unproven: what the transcript leaves open.
        ledger: `HELD`, `NO_LEDGER` or `LEDGER_NOT_PROVEN`.
        proof: the replay, where it went through.
    """

    entry: TranscriptEntry
    verdict: str
    why: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    ledger: str = NO_LEDGER
    proof: Replay | None = None

    def as_object(self) -> dict[str, Any]:
        """For machines; numbers are null where the replay did not go through."""
        proof = self.proof
        told: dict[str, Any] = dict.fromkeys(("claimed", "spent", "at_most", "releases", "refusals", "state"))
        if proof is not None:
            told = {
                "claimed": as_text(proof.epsilon_claimed),
                "spent": as_text(proof.epsilon_spent),
                "at_most": as_text(proof.epsilon_at_most),
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
            "why": self.why,
            "unproven": self.unproven,
            "ledger": self.ledger,
            **told,
        }


@dataclass(frozen=True)
class Answer:
    """A reply with its receipt, both verified by the replay.

    Attributes:
        receipt: the receipt.
        reply: digest of the reply's bytes.
        release: what it releases; None where it is no release.
    """

    receipt: Receipt
    reply: bytes
    release: bytes | None = None


@dataclass(frozen=True)
class Exchange:
    """One learner's exchange with one curator.

    Attributes:
        verdict: on its transcript.
        learner, curator: public keys.
        study: its identity; empty where none was proposed.
        requests: digest of a request -> the request.
        answers: digest of a request -> its answer.
    """

    verdict: TranscriptVerdict
    learner: bytes = b""
    curator: bytes = b""
    study: bytes = b""
    requests: dict[bytes, Message] = field(default_factory=dict)
    answers: dict[bytes, Answer] = field(default_factory=dict)


@dataclass
class LedgerVerdict:
    """What one ledger proves.

    Attributes:
        entry: which.
        why: what is wrong; the ledger is proven where this is empty.
        unproven: what it charges without a receipt, or holds on its curator's word alone.
        spent: over all learners; None where it could not be read.
    """

    entry: LedgerEntry
    why: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    spent: Fraction | None = None

    @property
    def verdict(self) -> str:
        """`PROVEN`, `IN_PART` or `NOT_PROVEN`."""
        return NOT_PROVEN if self.why else IN_PART if self.unproven else PROVEN

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "file": self.entry.file,
            "curator": self.entry.curator,
            "key": self.entry.key,
            "head": self.entry.head,
            "entries": self.entry.entries,
            "verdict": self.verdict,
            "why": self.why,
            "unproven": self.unproven,
            "spent": None if self.spent is None else as_text(self.spent),
        }


@dataclass
class RunProof:
    """What a whole run folder proves.

    Attributes:
        folder: which.
        index: the run's list; None where it could not be read, and then nothing else was looked at.
        complaints: what is wrong with the run as a whole, signatures first.
        remarks: what rests on somebody's word, or is not proven by its nature.
        transcripts, ledgers: verdicts on each.
        exchanges: the transcripts, as far as they could be read.
        audits: file of a ledger -> what it holds, where its chain holds.
    """

    folder: Path
    index: Index | None = None
    complaints: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    transcripts: list[TranscriptVerdict] = field(default_factory=list)
    ledgers: list[LedgerVerdict] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list, repr=False)
    audits: "dict[str, LedgerAudit]" = field(default_factory=dict, repr=False)

    def world(self, repeat: int) -> str:
        """The run and repeat, for people."""
        return f"{self.folder}, repeat {repeat}"

    def curator_name(self, name: str, repeat: int) -> str:
        """A curator's name, with its repeat where there are several."""
        several = self.index is not None and self.index.repeats > 1
        return f"{printable(name)}, repeat {repeat}" if several else printable(name)

    def _place(self, entry: TranscriptEntry) -> str:
        """The file of a transcript, with its repeat where there are several."""
        return self.curator_name(entry.file, entry.repeat)

    @property
    def wrong(self) -> list[str]:
        """Everything that is not proven, the run as a whole first."""
        return [
            *self.complaints,
            *(f"{self._place(item.entry)}: {why}" for item in self.transcripts for why in item.why),
            *(f"{item.entry.file}: {why}" for item in self.ledgers for why in item.why),
        ]

    @property
    def unproven(self) -> list[str]:
        """Everything that is left open although nothing is wrong."""
        return [
            *(f"{self._place(item.entry)}: {text}" for item in self.transcripts for text in item.unproven),
            *(f"{item.entry.file}: {text}" for item in self.ledgers for text in item.unproven),
            *self.remarks,
        ]

    @property
    def proven(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "run": str(self.folder),
            "proven": self.proven,
            "complaints": self.complaints,
            "remarks": self.remarks,
            "transcripts": [item.as_object() for item in self.transcripts],
            "ledgers": [item.as_object() for item in self.ledgers],
        }
