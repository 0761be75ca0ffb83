"""What an audit of everything that is given together found: for terminal, JSON and page."""

from dataclasses import dataclass, field
from typing import Any

from expril.audit.recompute.findings import as_text
from expril.audit.recompute.ledger import LedgerAudit
from expril.audit.recompute.sums import Sum, UnitSum
from expril.audit.recompute.verdicts import RunProof
from protocol.envelopes import LABEL

DELTA = 1e-6


@dataclass(eq=False)
class AuditedLedger:
    """A ledger's part of a result.

    Attributes:
        file: for people.
        curator: name in the run, or the first digits of its key.
        world: the run and repeat that it belongs to; "" where no run that was given knows its curator.
        audit: what it proves.
        held: whether findings on it are told with its run already.
        sums: what was spent; empty where it is the beginning of another ledger that was given.
    """

    file: str
    curator: str
    world: str
    audit: LedgerAudit
    held: bool = False
    sums: list[Sum] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        audit, replayed = self.audit, self.audit.replayed
        return {
            "file": self.file,
            "curator": self.curator,
            "keys": [key.hex() for _, key in replayed.keys],
            "terms": replayed.terms,
            "unit": replayed.unit,
            "private": replayed.label == LABEL and not any(one.shape.not_private for one in replayed.studies.values()),
            "c": audit.bounds.bound,
            "head": replayed.head.hex(),
            "entries": audit.entries,
            "counted": len(replayed),
            "signatures_checked": audit.checked,
            "spent": as_text(replayed.total),
            "halted": replayed.halted,
            "data": [{"entry": index, "version": version} for index, version in replayed.data],
            "findings": [{"entry": one.index, "text": one.text} for one in audit.findings],
            "unproven": list(audit.unproven),
            "unwitnessed": None if audit.unwitnessed is None else list(audit.unwitnessed),
            "covered_by": audit.covered_by or None,
            "sums": [one.as_object() for one in self.sums],
        }


@dataclass
class Recomputed:
    """What was recomputed from transcripts, receipts and ledgers alone.

    Attributes:
        delta: of each accepted plan; None where no (epsilon, delta) was asked for.
        runs: folders of runs.
        ledgers: of these runs, and those that were given by themselves.
        sums: of curators whose ledger is not here, by what transcripts prove.
        units: by privacy unit, over curators.
        complaints: what is wrong beyond a run and a ledger.
        remarks: what is not computed or not proven, beyond a run and a ledger.
        unread: what could not be read at all.
    """

    delta: float | None = DELTA
    runs: list[RunProof] = field(default_factory=list)
    ledgers: list[AuditedLedger] = field(default_factory=list)
    transcript_sums: list[Sum] = field(default_factory=list)
    units: list[UnitSum] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def sums(self) -> list[Sum]:
        """By curator, learner, version; where `learner` or `version` is "", over all."""
        return [*(one for ledger in self.ledgers for one in ledger.sums), *self.transcript_sums]

    @property
    def wrong(self) -> list[str]:
        """Everything that is not proven, with its place."""
        return [
            *self.complaints,
            *(f"{run.folder}: {text}" for run in self.runs for text in run.wrong),
            *(f"{one.file}: {text}" for one in self.ledgers if not one.held for text in one.audit.findings.texts()),
        ]

    @property
    def unproven(self) -> list[str]:
        """Everything that is left open although nothing is wrong."""
        return [
            *(text for run in self.runs for text in run.unproven),
            *(f"{one.file}: {text}" for one in self.ledgers if not one.held for text in one.audit.unproven),
            *self.remarks,
        ]

    @property
    def unwitnessed(self) -> list[str]:
        """Entries of which nothing outside of the curators' hands speaks."""
        return [
            f"{one.file}: entries {one.audit.unwitnessed[0]}..{one.audit.unwitnessed[1]} rest on the curator's word"
            + (f"; those before are covered by {one.audit.covered_by}" if one.audit.covered_by else "")
            for one in self.ledgers
            if one.audit.unwitnessed is not None
        ]

    @property
    def proven(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def as_object(self) -> dict[str, Any]:
        """For machines; amounts are exact, as text."""
        return {
            "proven": self.proven,
            "delta": self.delta,
            "wrong": self.wrong,
            "unproven": self.unproven,
            "unwitnessed": self.unwitnessed,
            "sums": [one.as_object() for one in self.sums],
            "units": [one.as_object() for one in self.units],
            "runs": [run.as_object() for run in self.runs],
            "ledgers": [one.as_object() for one in self.ledgers],
            "unread": self.unread,
        }
