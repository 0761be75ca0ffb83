"""What is trained in site, on all private records and their labels, without privacy: what privacy can cost at most."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from learner_node.strategies.base import train_alone
from learner_node.strategies.paper import NetworkModel
from simulations.comparison.problems import PROBLEMS, Split
from simulations.comparison.studies import Answer
from simulations.reproduction.in_site import train_in_site


def network(split: Split) -> Answer:
    """The reproduction's h*: the problem's network, trained on the private records."""
    options = PROBLEMS[split.problem].network
    labels = split.private_labels.astype(np.float64)
    hypothesis = train_in_site(split.private, labels, options, split.seed, train_alone)
    return Answer(NetworkModel(hypothesis).probability(split.test))


def logistic_regression(split: Split) -> Answer:
    """scikit-learn's, on standardised columns."""
    return _fitted(split, make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)))


def gradient_boosting(split: Split) -> Answer:
    """scikit-learn's histogram gradient boosting, as it comes."""
    return _fitted(split, HistGradientBoostingClassifier(random_state=split.seed))


def majority(split: Split) -> Answer:
    """The private records' share of class 1, for every test record."""
    return Answer(np.full(len(split.test), split.private_labels.mean()))


def _fitted(split: Split, model: LogisticRegression) -> Answer:
    matrices = split.matrices
    model.fit(matrices.train, matrices.labels)
    return Answer(model.predict_proba(matrices.test)[:, 1])
