"""Witnesses of ledgers: who co-signs checkpoints, and what co-signed checkpoints say about a ledger.

* `holding`: entries of a ledger or its export, held against checkpoints
"""

from simulations.audit.witness.holding import Contradiction, WitnessFindings, hold

__all__ = ["Contradiction", "WitnessFindings", "hold"]
