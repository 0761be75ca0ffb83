"""Witnesses of ledgers: who co-signs checkpoints, and what co-signed checkpoints say about a ledger.

* `keeping`: what a witness keeps, on disk or for simulations
* `witnessing`: what it co-signs, and what it refuses
* `holding`: entries of a ledger or its export, held against checkpoints
"""

from expril.audit.witness.holding import Contradiction, WitnessFindings, hold
from expril.audit.witness.keeping import WitnessState, open_state
from expril.audit.witness.witnessing import EquivocationError, witness

__all__ = ["Contradiction", "EquivocationError", "WitnessFindings", "WitnessState", "hold", "open_state", "witness"]
