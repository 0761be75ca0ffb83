"""The estimators that may be asked of blocks, by name: how many attributes each takes.

`curator_node.kinds.statistics.estimates` has them. A new one is a line here and a function there.
"""

from typing import NamedTuple


class Estimator(NamedTuple):
    """What can be said of an estimator without a record.

    Attributes:
        about: what it estimates, in words.
        fewest, most: attributes that it takes.
        of_classes: whether it needs a label of two classes.
        cost: of a record, in the unit of `protocol.limits`, beyond taking its attributes.
        pair_cost: the same for each pair of attributes, itself and a constant among them.
        pair_once: of a pair of attributes, whatever the number of records of a block.
    """

    about: str
    fewest: int = 1
    most: int = 1
    of_classes: bool = False
    cost: int = 300
    pair_cost: int = 0
    pair_once: int = 0

    def work(self, attributes: int) -> int:
        """Of a record, for so many attributes."""
        return self.cost + self.pair_cost * (attributes + 1) ** 2

    def work_once(self, attributes: int) -> int:
        """Of a block, for so many attributes."""
        return self.pair_once * (attributes + 1) ** 2


ESTIMATORS: dict[str, Estimator] = {
    "mean": Estimator("the mean of one attribute"),
    "trimmed_mean": Estimator("the mean of one attribute without its lowest and highest tenth", cost=1000),
    "median": Estimator("the median of one attribute", cost=1000),
    "lower_quartile": Estimator("the quantile at 1/4 of one attribute", cost=1000),
    "upper_quartile": Estimator("the quantile at 3/4 of one attribute", cost=1000),
    "interquartile_range": Estimator("the difference of both quartiles of one attribute", cost=1000),
    "variance": Estimator("the variance of one attribute"),
    "standard_deviation": Estimator("the square root of the variance of one attribute"),
    "correlation": Estimator("Pearson's correlation of two attributes", 2, 2),
    "slope": Estimator("the slope of the second attribute on the first, by least squares", 2, 2),
    "linear_coefficient": Estimator(
        "the coefficient of the first attribute, for the last one on all others by least squares",
        2,
        20,
        pair_cost=100,
        pair_once=100_000,
    ),
    "logistic_coefficient": Estimator(
        "the log-odds of the second class per unit of the first attribute, given all others",
        1,
        20,
        True,
        pair_cost=4_000,
        pair_once=2_000_000,
    ),
}
