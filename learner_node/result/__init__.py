"""The page of a deployed study: what its learner can know, and nothing that only an owner of the records knows."""
