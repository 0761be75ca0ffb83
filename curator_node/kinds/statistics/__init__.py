"""The whole numbers on which a statistic is drawn; all of them are private, for the answerer's eyes only.

* `columns`: an attribute or a numeric label, on a grid
* `quantiles`: scores of a grid's points, quantiles, and their smooth sensitivity
* `heavy_tails`: exact noise of the law of `protocol.kinds.statistics.tails`
* `estimates`: estimators by name, on a block's records
* `blocks`: what an estimator says in each block
* `selection`: how much partitions tell of the class
"""
