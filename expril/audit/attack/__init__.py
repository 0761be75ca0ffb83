"""All that is attacked: what is installed, whole studies, and what is broken on purpose, which must be caught.

* `everything`: a whole audit, over processes
* `game`: the distinguishing game on any mechanism
* `kinds`, `pairs`, `checks`: every registered query kind, by the way that a curator's answer takes
* `studies`: attacks on whole studies
* `controls`: every mechanism, curator and service that is broken on purpose
* `calibration`, `canaries`, `blog`: noise, one run with many canaries, and the game as a post plays it
* `mirror`: pictures of two distributions
"""
