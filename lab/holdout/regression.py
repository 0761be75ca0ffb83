"""Unpenalised logistic regression, and forward stepwise choice of its variables by any score.

A model with one variable more differs little from the one without it. So all candidates of a step take Newton steps
with the curvature at the current model, factorised once (the chord method). It converges linearly, and to the maximum
of the likelihood wherever it converges, since the gradients are exact. What does not converge so takes whole Newton
steps of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.holdout.draws import DataSet, Part

Matrix = NDArray[np.float64]
Numbers = NDArray[np.float64]
Labels = NDArray[np.bool_]

TOLERANCE = 1e-7  # largest change of a coefficient at which a fit has converged, in units of the variables
MOST_CHORD_STEPS = 40
MOST_NEWTON_STEPS = 25
"""As many as R's `glm` takes: where classes can be separated no maximum exists, and the direction found is kept."""
RIDGE = 1e-9
"""Added to the curvature per record, so that a step exists where variables depend on each other; the gradients have no
such term, so what a converged fit maximises is the likelihood alone."""


@dataclass(frozen=True)
class Candidates:
    """Fits of the current variables and one more each."""

    weights: Matrix  # (p, c) of intercept and current variables, one column a candidate
    added: Matrix  # (c,) weight of each candidate's own variable
    scores: Matrix  # (n, c) log odds of the training records
    converged: NDArray[np.bool_]  # (c,) whether the last step changed no weight by more than `TOLERANCE`


def with_intercept(columns: Matrix) -> Matrix:
    """(n, d) variables -> (n, d + 1), a column of ones first."""
    return np.hstack([np.ones((len(columns), 1)), columns])


def fit(design: Matrix, labels: Labels, start: Matrix | None = None) -> tuple[Matrix, bool]:
    """Maximum of the likelihood by Newton's method: (p,) weights, and whether they converged.

    The design is (n, p), with an intercept's column where there is to be one; `start` is (p,), 0 by default.
    """
    weights = np.zeros(design.shape[1]) if start is None else start.copy()
    ridge = RIDGE * len(design) * np.eye(design.shape[1])
    for _ in range(MOST_NEWTON_STEPS):
        chances = logistic(design @ weights)
        curvature = design.T @ ((chances * (1 - chances))[:, None] * design) + ridge
        step = np.linalg.solve(curvature, design.T @ (labels - chances))
        weights = weights + step
        if np.abs(step).max() < TOLERANCE:
            return weights, True
    return weights, False


def fit_each(design: Matrix, weights: Matrix, more: Matrix, labels: Labels) -> Candidates:
    """Fit, for each column of `more`, the model of `design` and that column.

    `design` (n, p) has the intercept and current variables, `weights` (p,) are those of the current model, fitted;
    `more` (n, c) has one candidate a column, c >= 1.
    """
    chord = _Chord(design, weights, more)
    inner, added = np.repeat(weights[:, None], more.shape[1], axis=1), np.zeros(more.shape[1])
    scores = np.repeat((design @ weights)[:, None], more.shape[1], axis=1)
    open_ = np.arange(more.shape[1])
    for _ in range(MOST_CHORD_STEPS):
        errors = labels[:, None] - logistic(scores[:, open_])
        columns = more[:, open_]
        step, last = chord.step(open_, design.T @ errors, np.einsum("nc,nc->c", columns, errors))
        inner[:, open_] += step
        added[open_] += last
        scores[:, open_] += design @ step + columns * last
        open_ = open_[np.maximum(np.abs(step).max(axis=0), np.abs(last)) >= TOLERANCE]
        if not len(open_):
            break
    converged = np.ones(more.shape[1], bool)
    for column in open_:
        columns = np.column_stack([design, more[:, column]])
        fitted, converged[column] = fit(columns, labels)
        inner[:, column], added[column], scores[:, column] = fitted[:-1], fitted[-1], columns @ fitted
    return Candidates(inner, added, scores, converged)


class _Chord:
    """The curvature of all candidates at the current model, solved by blocks; shapes as of `fit_each`."""

    def __init__(self, design: Matrix, weights: Matrix, more: Matrix) -> None:
        chances = logistic(design @ weights)
        bends = (chances * (1 - chances))[:, None]
        self._inverse = np.linalg.inv(design.T @ (bends * design) + RIDGE * len(design) * np.eye(design.shape[1]))
        self._across = design.T @ (bends * more)
        self._solved = self._inverse @ self._across
        bend = np.einsum("nc,nc->c", bends * more, more) - np.einsum("pc,pc->c", self._across, self._solved)
        self._own = np.maximum(bend, RIDGE * len(design))

    def step(self, columns: NDArray[np.intp], inner: Matrix, last: Matrix) -> tuple[Matrix, Matrix]:
        """Gradients (p, c) and (c,) of these candidates -> their Newton steps, with this curvature."""
        added = (last - np.einsum("pc,pc->c", self._solved[:, columns], inner)) / self._own[columns]
        return self._inverse @ inner - self._solved[:, columns] * added, added


def logistic(scores: Matrix) -> Matrix:
    """Log odds -> probability, without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * scores))


@dataclass(frozen=True)
class Model:
    """A logistic model."""

    variables: tuple[int, ...]  # columns that it uses, in the order in which they were chosen
    weights: Matrix  # of the intercept and of these

    def right(self, part: Part) -> int:
        """How many records it predicts correctly. The prediction is class 1 if the probability is at least one half."""
        scores = with_intercept(part.columns[:, list(self.variables)]) @ self.weights
        return int(((scores >= 0) == part.labels).sum())


@dataclass(frozen=True)
class Offer:
    """One step: models that each have one variable more than the current one."""

    current: tuple[int, ...]  # variables so far
    candidates: NDArray[np.intp]  # (c,) their own variables, in the order of the columns
    fits: Candidates  # on the training records
    train: Numbers  # (c,) accuracies on the training records, in [0, 1]
    test: Numbers  # (c,) on the test records
    train_before: float  # of the model without; 0 before the first variable, as in the blog's code
    test_before: float
    labels: Labels  # (n,) of the training records

    def model(self, place: int) -> Model:
        """The candidate at a place."""
        weights = np.append(self.fits.weights[:, place], self.fits.added[place])
        return Model((*self.current, int(self.candidates[place])), weights)


Score = Callable[[Offer], Numbers]  # an offer -> (c,) scores; the first of those with the largest is chosen


@dataclass(frozen=True)
class Grown:
    """What a procedure chose."""

    models: tuple[Model, ...]  # of each step
    train: tuple[int, ...]  # of each step, how many records its model predicts correctly
    test: tuple[int, ...]
    fresh: tuple[int, ...]
    all_converged: bool  # whether every fit did


def grow(data: DataSet, test: Part, score: Score, steps: int) -> Grown:
    """Choose variables one by one, each by its score among all that are left.

    Fresh records are used only after a choice, to measure it. There are at least as many variables as steps.
    """
    remaining = np.arange(data.train.columns.shape[1])
    design, weights = np.ones((len(data.train), 1)), np.zeros(1)
    train_before = test_before = 0.0
    models: list[Model] = []
    converged = True
    for _ in range(min(steps, len(remaining))):
        current = models[-1].variables if models else ()
        fits = fit_each(design, weights, data.train.columns[:, remaining], data.train.labels)
        offer = Offer(
            current,
            remaining,
            fits,
            train=_shares(fits.scores, data.train),
            test=_shares(_scores(test, current, remaining, fits), test),
            train_before=train_before,
            test_before=test_before,
            labels=data.train.labels,
        )
        place = int(np.argmax(score(offer)))
        models.append(offer.model(place))
        converged &= bool(fits.converged[place])
        design = np.column_stack([design, data.train.columns[:, remaining[place]]])
        weights = models[-1].weights
        train_before, test_before = float(offer.train[place]), float(offer.test[place])
        remaining = np.delete(remaining, place)
    train, tested, fresh = (tuple(model.right(part) for model in models) for part in (data.train, test, data.fresh))
    return Grown(tuple(models), train, tested, fresh, converged)


def _scores(part: Part, current: tuple[int, ...], candidates: NDArray[np.intp], fits: Candidates) -> Matrix:
    scores = with_intercept(part.columns[:, list(current)]) @ fits.weights
    scores += part.columns[:, candidates] * fits.added
    return scores


def _shares(scores: Matrix, part: Part) -> Numbers:
    return np.asarray(((scores >= 0) == part.labels[:, None]).mean(axis=0))


def by_test(offer: Offer) -> Numbers:
    """The naive score: how many more test records are classified correctly."""
    return offer.test - offer.test_before


def by_likelihood(offer: Offer) -> Numbers:
    """The logarithm of the training likelihood, the usual score of stepwise regression: no test record is looked at."""
    wrong_way = np.where(offer.labels[:, None], -offer.fits.scores, offer.fits.scores)
    return np.asarray(-np.logaddexp(0.0, wrong_way).sum(axis=0))
