"""What a learner asks before, beside and after a study: a quote, a validation, a choice of models."""
