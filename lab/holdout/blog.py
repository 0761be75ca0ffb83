"""The blog's `diffPrivMethod`, and what it costs by the arithmetic of its own noise.

The post gives it in R. A candidate's score is the improvement of its training accuracy with Laplace noise of scale
eps / 2 where the improvements on training and test records differ by at most eps / 2, else the improvement on the test
records with Laplace noise of scale eps, in either case clipped to 0 .. 1. The comparison has no noise, and there is no
end of questions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lab.holdout.regression import Numbers, Offer, Score

TOLERANCE = Fraction(1, 25)  # the blog's eps

Laplace = Callable[[Numbers], Numbers]  # (c,) scales -> (c,) independent Laplace noises


def blog_score(train: Numbers, test: Numbers, laplace: Laplace, tolerance: float) -> Numbers:
    """Scores of improvements on training and test records, (c,) each.

    Improvements of accuracy are in [-1, 1]; `tolerance` is the blog's eps.
    """
    close = np.abs(test - train) <= tolerance / 2
    noise = laplace(np.where(close, tolerance / 2, tolerance))
    return np.clip(np.where(close, train, test) + noise, 0.0, 1.0)


def by_blog(random: np.random.Generator, tolerance: Fraction = TOLERANCE) -> Score:
    """The blog's score, with seeded noise: a simulation, which protects nobody."""

    def score(offer: Offer) -> Numbers:
        return blog_score(
            offer.train - offer.train_before,
            offer.test - offer.test_before,
            lambda scales: random.laplace(size=len(scales)) * scales,
            float(tolerance),
        )

    return score


def questions(variables: int, steps: int) -> int:
    """How many candidates all steps score together: each is one question to the test records."""
    return sum(variables - step for step in range(min(steps, variables)))


@dataclass(frozen=True)
class BlogCost:
    """Epsilon of one question and of a whole run, where one of n test records is replaced by another; n is public."""

    questions: int  # of a run
    moved: Fraction  # 2 / n: how far one record moves an improvement at most
    noise_alone: Fraction  # of a question whose answer shows noise of scale eps, if the comparison cost nothing
    question: Fraction  # of a question in the worst case, by what the comparison tells; it is attained
    usual: Fraction  # the same where the training accuracy did not change, as in most steps

    @property
    def run_by_noise(self) -> Fraction:
        """Epsilon of a run, if comparisons cost nothing."""
        return self.questions * self.noise_alone

    @property
    def run(self) -> Fraction:
        """Epsilon of a run in the worst case. It is attained, as the same question may be asked again."""
        return self.questions * self.question

    @property
    def honest_scale(self) -> Fraction:
        """Scale of Laplace noise in every answer, in accuracies of 0 to 1, at which a run costs an epsilon of 1."""
        return self.questions * self.moved


def blog_cost(records: int, count: int, tolerance: Fraction = TOLERANCE) -> BlogCost:
    """What the blog's variant costs.

    There are n test records; `tolerance` is the blog's eps.
    """
    moved = Fraction(2, records)
    worst, usual = (edge_loss(Fraction(train), moved, tolerance) for train in (-1, 0))
    return BlogCost(count, moved, moved / tolerance, worst, usual)


def edge_loss(train: Fraction, moved: Fraction, tolerance: Fraction) -> Fraction:
    """Epsilon that the answer 1 costs at the edge of the comparison.

    Where both data sets fall on the same side of the comparison, answers differ as Laplace noise of scale eps does. At
    its edge one data set gives noise of scale eps / 2 about the training improvement t, its neighbour noise of scale
    eps about t + eps / 2 + moved. Without clipping the ratio of their densities has no bound. Clipped, it is largest at
    the answer 1, whose chances are halves of exp(-(1 - t) / (eps / 2)) and exp(-(1 - t - eps / 2 - moved) / eps). It
    grows as t falls, and t = -1 is the least there is.

    `train` is t, in [-1, 1 - eps / 2 - moved], `tolerance` eps; one record moves the test improvement by `moved`.
    """
    return (1 - train) / (tolerance / 2) - (1 - train - tolerance / 2 - moved) / tolerance
