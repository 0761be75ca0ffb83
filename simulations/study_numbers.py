"""How a learner's studies in one repeat are numbered, in a run's evidence and in its list."""

FIT, VALIDATION = 0, 1
NAMES = {FIT: "model", VALIDATION: "validation"}
"""What they are called where people read."""
GIVEN_UP = 2
"""The first with a curator that was given up for the fit or the validation before anything was asked."""
