"""What a `statistic` query plans and asks.

* `methods`: how a statistic is made private, what it costs, and the heavy-tailed law of noise
* `items`: quantiles, estimates and selections, as a body has them, and the estimators by name
"""
