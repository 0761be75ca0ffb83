"""All that is attacked: what is installed, whole studies, and what is broken on purpose, which must be caught.

* `whole_audit`: a whole audit, over processes
* `game`, `game_statistics`: the distinguishing game on any mechanism, and the numbers that it looks at in an outcome
* `kinds`, `handle_checks`: every registered query kind, by the way that a curator's answer takes
* `studies`: attacks on whole studies
* `controls`: every mechanism, curator and service that is broken on purpose
* `calibration`, `canaries`, `zumel_game`: noise, one run with many canaries, and the game of a blog post
* `mirror_plot`: pictures of two distributions
"""
