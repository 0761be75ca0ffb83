"""The command `expril`, a file or a folder a role: steward, auditor, learner, researcher."""
