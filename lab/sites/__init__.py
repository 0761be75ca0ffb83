"""The study of sites: how good a model is, and what a round costs, where records lie at few or many sites."""
