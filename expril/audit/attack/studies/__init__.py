"""Attacks on whole studies, played through real curators with real noise.

* `games`: membership games, counted and judged
* `curators`: the curators that are attacked, and their records
* `counting`: isolation of records and of patients, averaging, differencing, Sybil learners, replay, and what they gain
* `membership`: inference on the hypothesis and on the synthetic data
* `attacks`: all of them by name
"""
