"""The whole numbers on which the noise of a statistic is drawn. All are private, for the answerer alone.

* `quantiles`: scores of a grid's points, quantiles, and their smooth sensitivity
* `heavy_tails`: exact noise of the law of `protocol.kinds.statistics.methods`
* `estimates`: attributes on a grid, estimators by name, and what one says in each block (sample and aggregate)
"""
