"""What a `statistic` query plans and asks.

* `methods`: how a statistic is made private, and what it costs
* `asked`: quantiles, estimates and selections, as a body has them
* `tails`: the heavy-tailed law of noise that is scaled by smooth sensitivity
"""
