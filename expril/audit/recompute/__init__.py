"""What was spent, recomputed from signed bytes alone: transcripts, receipts, ledgers. No data, no curator's code.

* `whole`: everything given together
* `verdicts`: the verdict on it, from one transcript to all
* `runs`: a run's folder: its list against its signatures and files, keys known from elsewhere, transcripts
* `ledgers`: a run's ledgers held against its transcripts, and they against them
* `reports`: what is told for people, against what transcripts and ledgers prove
* `ledger`: one ledger audited by itself; `evidence`: its file as it lies there
* `replay`, `reading`, `known`, `lost`, `bounds`: its entries read and replayed, and their costs computed anew
* `receipts`: held receipts and witnessed heads against it
* `sums`, `losses`: exact sums, and (epsilon, delta)
"""

from expril.audit.recompute.runs import Pins, read_pins, read_witnesses
from expril.audit.recompute.verdicts import DELTA, Recomputed
from expril.audit.recompute.whole import recompute

__all__ = ["DELTA", "Pins", "Recomputed", "read_pins", "read_witnesses", "recompute"]
