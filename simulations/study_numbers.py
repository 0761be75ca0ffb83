"""How a learner's studies in one repeat are numbered, in a run's evidence and in its list."""

FIT, VALIDATION = 0, 1
GIVEN_UP = 2
"""The first with a curator that was given up for the fit or the validation before anything was asked."""
