"""The contract that every extension keeps: query kinds, partitions and strategies, ours as well as those of others.

* `duties`: a duty, and whether it is kept
* `curator_run`: a curator over invented records whose noise never looks at them
* `kinds`, `partitions`, `strategies`: the duties of each
* `pages`: the fixed form of a kind's page
* `subjects`: what is installed under a name
* `suites`: classes for the tests of a package, one test for each duty

A contract draws questions with Hypothesis: `pip install "expril[extend]"`.
"""
