"""The tests: of the vectors, of a learner, and of a curator."""
