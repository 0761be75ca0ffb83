"""Other private learners, on the same records and epsilon; they see the private records, ours never does."""
