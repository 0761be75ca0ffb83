"""Attacks on whole studies, played through real curators with real noise.

* `attacks`: the table of attacks, and how each is played and judged
* `games`: membership games: the attacked curators and their records, terms, guesses, verdict
* `counting`: attacks on counts, and differencing on a service of rounded counts
* `membership`: inference on the hypothesis and on the synthetic data
"""
