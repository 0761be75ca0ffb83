"""What was spent, recomputed from signed bytes alone: transcripts, receipts, ledgers. No data, no curator's code.

* `audit`: everything given together, and what it adds up to
* `verdicts`: the verdict on it, from one transcript to all
* `runs`: a run's folder: its list, transcripts and ledgers, held against each other
* `reports`: what is told for people, against what transcripts and ledgers prove
* `ledger`: one ledger's file, audited by itself
* `entries`: its entries read, and what they add up to
* `replay`: the rules that they must keep, and what a ledger that was rolled back must enter as spent
* `bounds`: costs computed anew from plans
* `receipts`: receipts and witnessed checkpoints, held against a ledger
* `sums`, `losses`: exact sums, and (epsilon, delta)
"""

from expril.audit.recompute.audit import recompute
from expril.audit.recompute.runs import Pins, read_pins, read_witnesses
from expril.audit.recompute.verdicts import DELTA, Recomputed

__all__ = ["DELTA", "Pins", "Recomputed", "read_pins", "read_witnesses", "recompute"]
