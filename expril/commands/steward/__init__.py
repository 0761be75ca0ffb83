"""The commands of a steward, who keeps a curator: its ledger, its site, and the learners that it knows."""
