"""The command `expril`, a file a role: steward, auditor, learner, researcher."""
