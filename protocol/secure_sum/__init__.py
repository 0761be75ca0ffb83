"""Secure aggregation: the sum of curators' integer vectors, and nothing else, over rounds of signed messages.

Pure state machines: `participant` is a curator's side, `aggregator` the learner's. Both work modulo 2^64. The shape is
that of Bonawitz et al. (2017, "Practical secure aggregation for privacy-preserving machine learning"), against a
malicious learner that also relays all messages; above 100 participants masks and shares are sparse as in Bell et al.
(2020, "Secure single-server aggregation with (poly)logarithmic overhead"). What holds, and why: docs/secure-sums.md.
"""
