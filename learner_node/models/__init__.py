"""What a learner fits: the label model, networks, models in files, synthetic records."""
