"""Secure aggregation: signed messages reveal the sum of curators' integer vectors, and nothing else.

Both sides are pure state machines: `participant` is a curator's, `aggregator` the learner's. Both work modulo 2^64. The
protocol is that of Bonawitz et al. (2017, "Practical secure aggregation for privacy-preserving machine learning"),
against a malicious learner that also relays all messages. Above 100 participants, masks and shares are sparse as in
Bell et al. (2020, "Secure single-server aggregation with (poly)logarithmic overhead"). Proofs are in
docs/explanation/secure-sums.md.
"""
