"""Methods of the query kind `model`: what is planned and released of each. One file and one line each."""

from protocol.models.bodies import Attributes, Body, Centres, Mapped, Moments
from protocol.models.forest import Forest
from protocol.models.k_means import KMeans
from protocol.models.linear import KernelSvm, LinearSvm, LogisticRegression
from protocol.models.method import Method, Work
from protocol.models.naive_bayes import NaiveBayes
from protocol.models.points import Points
from protocol.models.second_moments import LinearRegression, PrincipalComponents

AnyMethod = (
    NaiveBayes | LinearRegression | LogisticRegression | LinearSvm | KernelSvm | Forest | KMeans | PrincipalComponents
)

METHODS: dict[str, type[AnyMethod]] = {
    "naive_bayes": NaiveBayes,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "linear_svm": LinearSvm,
    "kernel_svm": KernelSvm,
    "forest": Forest,
    "k_means": KMeans,
    "principal_components": PrincipalComponents,
}
"""By the name on the wire."""

__all__ = [
    "METHODS",
    "AnyMethod",
    "Attributes",
    "Body",
    "Centres",
    "Forest",
    "KMeans",
    "KernelSvm",
    "LinearRegression",
    "LinearSvm",
    "LogisticRegression",
    "Mapped",
    "Method",
    "Moments",
    "NaiveBayes",
    "Points",
    "PrincipalComponents",
    "Work",
]
