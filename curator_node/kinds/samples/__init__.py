"""Densities in an epsilon-mollifier, learnt by boosting, and exact draws from them (docs/integral-privacy.md).

What is learnt may depend on records in any way. Privacy rests on `sampler` alone, and on the base law, which no record
moves.
"""
