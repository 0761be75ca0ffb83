"""Secure sums: curators add up masked vectors, and only the sum over all of them is opened."""
