"""Densities in an epsilon-mollifier, learnt by boosting, and exact draws from them.

Proofs: docs/explanation/integral-privacy.md.

A density may depend on records in any way. Privacy rests on the sampler alone, and on the base law, which does not
depend on records.
"""
