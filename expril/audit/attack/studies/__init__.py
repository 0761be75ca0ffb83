"""Attacks on whole studies, played through real curators with real noise.

* `games`: membership games, counted and judged
* `theory`: what attacks on counts gain, exactly
* `tables`: records to attack
* `curators`: the curators that are attacked
* `adversary`: a learner of the adversary's own
* `counting`: isolation of records and of patients, averaging, differencing, Sybil learners, replay
* `membership`: inference on the hypothesis and on the synthetic data
* `rounded_counts`: the service without noise on which differencing is played for comparison
* `attacks`: all of them by name
"""
