"""The study of in-site models: every method of the query kind `model` in a federation of real curators."""
