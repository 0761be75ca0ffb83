"""Forward stepwise logistic regression, whatever a candidate is scored by."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.holdout.draws import Drawn, Part
from lab.holdout.logistic import Candidates, Labels, Matrix, fit_each, with_intercept

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A logistic model.

    Attributes:
        variables: columns that it uses, in the order in which they were chosen.
        weights: of the intercept and of these.
    """

    variables: tuple[int, ...]
    weights: Matrix

    def right(self, part: Part) -> int:
        """How many records it predicts correctly: class 1 where the probability is at least one half."""
        scores = with_intercept(part.columns[:, list(self.variables)]) @ self.weights
        return int(((scores >= 0) == part.labels).sum())


@dataclass(frozen=True)
class Offer:
    """One step: models that each have one variable more than the current one.

    Attributes:
        current: variables so far.
        candidates: (c,) their own variables, in the order of the columns.
        fits: on the training records.
        train: (c,) accuracies on the training records, in [0, 1].
        test: (c,) on the test records.
        train_before, test_before: of the model without; 0 before the first variable, as in the blog's code.
        labels: (n,) of the training records.
    """

    current: tuple[int, ...]
    candidates: NDArray[np.intp]
    fits: Candidates
    train: Numbers
    test: Numbers
    train_before: float
    test_before: float
    labels: Labels

    def model(self, place: int) -> Model:
        """The candidate at a place."""
        weights = np.append(self.fits.weights[:, place], self.fits.added[place])
        return Model((*self.current, int(self.candidates[place])), weights)


Score = Callable[[Offer], Numbers]
"""An offer -> (c,) scores; the first of those with the largest is chosen."""


@dataclass(frozen=True)
class Grown:
    """What a procedure chose.

    Attributes:
        models: of each step.
        train, test, fresh: of each step, how many records its model predicts correctly.
        all_converged: whether every fit did.
    """

    models: tuple[Model, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    fresh: tuple[int, ...]
    all_converged: bool


def grow(drawn: Drawn, test: Part, score: Score, steps: int) -> Grown:
    """Choose variables one by one, each by its score among all that are left.

    Args:
        drawn: the data set; `fresh` is looked at only after a choice, to say how good it was.
        test: the records that scores may look at.
        score: of candidates.
        steps: variables to choose, at most as many as there are.
    """
    left = np.arange(drawn.train.columns.shape[1])
    design, weights = np.ones((len(drawn.train), 1)), np.zeros(1)
    train_before = test_before = 0.0
    models: list[Model] = []
    converged = True
    for _ in range(min(steps, len(left))):
        current = models[-1].variables if models else ()
        fits = fit_each(design, weights, drawn.train.columns[:, left], drawn.train.labels)
        offer = Offer(
            current,
            left,
            fits,
            train=_shares(fits.scores, drawn.train),
            test=_shares(_scores(test, current, left, fits), test),
            train_before=train_before,
            test_before=test_before,
            labels=drawn.train.labels,
        )
        place = int(np.argmax(score(offer)))
        models.append(offer.model(place))
        converged &= bool(fits.converged[place])
        design = np.column_stack([design, drawn.train.columns[:, left[place]]])
        weights = models[-1].weights
        train_before, test_before = float(offer.train[place]), float(offer.test[place])
        left = np.delete(left, place)
    train, tested, fresh = (tuple(model.right(part) for model in models) for part in (drawn.train, test, drawn.fresh))
    return Grown(tuple(models), train, tested, fresh, converged)


def _scores(part: Part, current: tuple[int, ...], candidates: NDArray[np.intp], fits: Candidates) -> Matrix:
    scores = with_intercept(part.columns[:, list(current)]) @ fits.weights
    scores += part.columns[:, candidates] * fits.added
    return scores


def _shares(scores: Matrix, part: Part) -> Numbers:
    shares: Numbers = ((scores >= 0) == part.labels[:, None]).mean(axis=0)
    return shares


def by_test(offer: Offer) -> Numbers:
    """The naive score: how much more of the test records are right."""
    return offer.test - offer.test_before


def by_likelihood(offer: Offer) -> Numbers:
    """The logarithm of the training likelihood, the usual score of stepwise regression: no test record is looked at."""
    wrong_way = np.where(offer.labels[:, None], -offer.fits.scores, offer.fits.scores)
    logarithms: Numbers = -np.logaddexp(0.0, wrong_way).sum(axis=0)
    return logarithms
