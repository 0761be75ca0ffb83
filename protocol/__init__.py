"""What curators and learners must agree on, to the last bit.

Nothing here reads a clock, a disk, a network or a global random generator. The folder holds the wire
format (`messages`, `codec`, `envelopes`), the rules of a study (`transitions`, `plans`, `transcript`) and the
functions that both sides evaluate and that must agree exactly (`feature_map`, `partitions`, `hypotheses`).
"""
