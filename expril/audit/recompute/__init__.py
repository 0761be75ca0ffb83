"""What was spent, recomputed from signed bytes alone: transcripts, receipts, ledgers. No data, no curator's code.

* `whole`, `outcome`: everything given together, and its result
* `runs`: a run's folder
* `listing`: its list against its signatures, its files, and keys known from elsewhere
* `transcripts`: each replayed by itself
* `ledgers`: a run's ledgers held against its transcripts, and they against them
* `reports`, `costs`, `policies`: what is told for people, against what transcripts and ledgers prove
* `evidence`, `files`: a ledger, and a run's files, as they lie there
* `replay`, `known`, `lost`, `bounds`: its entries replayed, and their costs computed anew
* `remarks`: what it notes beside its charges
* `meaning`: its terms, and plans that are not private as claimed
* `signatures`: which are checked
* `ledger`: one ledger audited by itself
* `receipts`, `admitted`: held receipts and witnessed heads against it
* `sums`, `summing`, `losses`: exact sums, and (epsilon, delta)
* `findings`, `verdicts`, `tables`: what is found, and how it is told
"""

from expril.audit.recompute.runs import Pins, read_pins, read_witnesses
from expril.audit.recompute.verdicts import (
    DELTA,
    HELD,
    IN_PART,
    LEDGER_NOT_PROVEN,
    NO_LEDGER,
    NOT_PRIVATE,
    NOT_PROVEN,
    PROVEN,
    REFUSED,
    AuditedLedger,
    LedgerVerdict,
    Recomputed,
    RunProof,
    TranscriptVerdict,
)
from expril.audit.recompute.whole import recompute

__all__ = [
    "DELTA",
    "HELD",
    "IN_PART",
    "LEDGER_NOT_PROVEN",
    "NOT_PRIVATE",
    "NOT_PROVEN",
    "NO_LEDGER",
    "PROVEN",
    "REFUSED",
    "AuditedLedger",
    "LedgerVerdict",
    "Pins",
    "Recomputed",
    "RunProof",
    "TranscriptVerdict",
    "read_pins",
    "read_witnesses",
    "recompute",
]
