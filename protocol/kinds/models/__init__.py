"""Methods of the query kind `model`: what is planned and released of each."""

from protocol.kinds.models.forest import Forest
from protocol.kinds.models.k_means import KMeans
from protocol.kinds.models.linear import KernelSvm, LinearSvm, LogisticRegression
from protocol.kinds.models.method import Attributes, Body, Centres, Mapped, Method, Moments, Points, Work
from protocol.kinds.models.naive_bayes import NaiveBayes
from protocol.kinds.models.second_moments import LinearRegression, PrincipalComponents

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
"""Each method by its name on the wire."""

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
