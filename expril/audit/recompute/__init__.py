"""What was spent, recomputed from signed bytes alone: transcripts, receipts, ledgers. No data, no curator's code.

* `audit`: the audit of all inputs together, and its sums
* `verdicts`: verdicts on a transcript, a ledger, a run and all inputs together
* `folders`: the folders of runs below a path
* `runs`: a run's folder: its list, transcripts and ledgers, compared with each other
* `reports`, `deployed`: reports for people and folders of deployed studies, compared with what transcripts and ledgers
  prove; `statements` compares leaf by leaf
* `ledger`: one ledger's file, audited by itself
* `entries`: the reader of its entries, and the sums over them
* `replay`: the rules for entries; `branches`: what a ledger that was rolled back must enter as spent
* `bounds`: costs computed anew from plans
* `receipts`: receipts and witnessed checkpoints, compared with a ledger
* `sums`, `losses`: exact sums, and (epsilon, delta)
"""

from expril.audit.recompute.audit import recompute
from expril.audit.recompute.runs import Pins, read_pins, read_witnesses
from expril.audit.recompute.verdicts import DELTA, Recomputed

__all__ = ["DELTA", "Pins", "Recomputed", "read_pins", "read_witnesses", "recompute"]
