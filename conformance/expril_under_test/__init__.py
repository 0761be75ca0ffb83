"""ExPriL's own programs for its conformance suite: `python -m expril_under_test.learner` and `.curator`."""
