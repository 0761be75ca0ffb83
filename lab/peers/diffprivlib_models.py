"""IBM's diffprivlib, run in the peers' environment: logistic regression, Gaussian naive Bayes, random forest.

Settings were chosen on seeds >= 5000 of seven problems, which no reported figure uses: docs/results/peers.md.
"""

import warnings

import numpy as np
from diffprivlib.models import GaussianNB, LogisticRegression, RandomForestClassifier

from lab.peers.preparation import ranks, standardise
from lab.peers.task import Matrix, PeerTask, Vector

LIBRARIES = ("diffprivlib", "scikit-learn", "numpy", "scipy")

INVERSE_PENALTY = 0.03  # scikit-learn's C at epsilon 1; it falls with the square root of epsilon
CONSTANT, LARGE_CONSTANT = 0.3, 3.0
SPARSE = 6.0
"""Below this n epsilon / p noise outweighs the features, and a larger constant column keeps the class shares."""
VARIANCE_FLOOR = 0.2
"""Added to every variance of naive Bayes; the columns are about uniform on [-1, 1], of variance 1/3."""
TREES = 10
DEEP, SHALLOW = 8, 6  # levels of a tree at epsilon >= 0.3 and below


def logistic(task: PeerTask) -> Vector:
    """Objective perturbation: (m,) probabilities of class 1.

    Records are standardised by the source, divided by its median norm, clipped to the unit ball, and extended by a
    constant column inside it. The library's own intercept is not used: it is not penalised, which the proof of
    Chaudhuri, Monteleoni and Sarwate (2011) requires.
    """
    epsilon = task.private_epsilon()
    constant = CONSTANT if len(task.train) * epsilon / task.train.shape[1] >= SPARSE else LARGE_CONSTANT
    radius = float(np.median(np.linalg.norm(standardise(task.source, task.source), axis=1))) or 1.0

    def inside(records: Matrix) -> Matrix:
        scaled = standardise(task.source, records) / radius
        scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
        return np.asarray(np.hstack([scaled, np.full((len(scaled), 1), constant)]) / np.hypot(1.0, constant))

    model = LogisticRegression(
        epsilon=epsilon,
        data_norm=1.0,
        C=INVERSE_PENALTY * epsilon**0.5,
        fit_intercept=False,
        max_iter=1000,
        random_state=task.entropy(),
    )
    with warnings.catch_warnings():
        # The library passes an option of L-BFGS that scipy deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        model.fit(inside(task.train), task.labels)
    return _of_one(model, inside(task.test))


def naive_bayes(task: PeerTask) -> Vector:
    """Gaussian naive Bayes on mid-ranks among the source: (m,) probabilities of class 1."""
    model = GaussianNB(
        epsilon=task.private_epsilon(),
        bounds=_unit_bounds(task),
        var_smoothing=VARIANCE_FLOOR,
        random_state=task.entropy(),
    )
    return _of_one(model.fit(ranks(task.source, task.train), task.labels), ranks(task.source, task.test))


def forest(task: PeerTask) -> Vector:
    """Ten random trees, each of a tenth of the records, on mid-ranks: (m,) share of trees that vote 1."""
    epsilon = task.private_epsilon()
    model = RandomForestClassifier(
        TREES,
        epsilon=epsilon,
        bounds=_unit_bounds(task),
        classes=[0, 1],
        max_depth=DEEP if epsilon >= 0.3 else SHALLOW,
        shuffle=True,
        random_state=task.entropy(),
    )
    return _of_one(model.fit(ranks(task.source, task.train), task.labels), ranks(task.source, task.test))


MODELS = {"dp-logistic": logistic, "dp-naive-bayes": naive_bayes, "dp-forest": forest}


def _unit_bounds(task: PeerTask) -> tuple[Vector, Vector]:
    ones = np.ones(task.train.shape[1])
    return -ones, ones


def _of_one(model: LogisticRegression, records: Matrix) -> Vector:
    return np.asarray(model.predict_proba(records)[:, 1])
