"""Four curators that sum securely, as a scenario; and what goes wrong there."""

SECURE = """
title = "Secure sums"
noise_seed = 7
seed = 1

[data]
name = "wdbc"

[data.sites]
how = "random"
fractions = { north = 0.25, east = 0.25, south = 0.25, west = 0.25 }

[[learners]]
name = "ada"
pooling = "secure"
dropouts = 1
options = { networks = false }
"""
FAULTS = """
[[faults]]
curator = "south"
kind = "late"
round = 3

[[faults]]
curator = "west"
kind = "vanish"
round = 4
"""
"""South's masked vector comes at the second try; west falls silent when its own is there."""
