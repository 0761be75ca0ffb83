"""Competitors on the same records and epsilon: private learners that see the records, and models without privacy.

All of them are trained in site on the pooled private records; ours never sees one. What each protects, and with which
settings, is in docs/results/peers.md.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lab.peers.environment import checked, environment_versions, run_in_environment
from lab.peers.noisy_sums import adassp, histogram_naive_bayes, public_covariance
from lab.peers.preparation import gradient_boosting, logistic_regression, majority
from lab.peers.task import PeerFailedError, PeerResult, PeerTask, PeerUnavailableError, Vector
from protocol.errors import ConfigurationError


@dataclass(frozen=True)
class PeerKind:
    """One peer."""

    title: str
    description: str  # its library and settings, one line
    private: bool = True  # whether it has a guarantee; if not, epsilon is None
    # which deltas it takes: "zero" (pure), "positive" (it has no pure guarantee) or "any"
    delta: Literal["zero", "positive", "any"] = "zero"
    lowest_epsilon: float = 0.0  # below it the peer is not run
    # in this process; None where a family of the peers' environment runs it
    run: Callable[[PeerTask], Vector] | None = None
    family: str = ""  # key of `worker.FAMILIES`, "" where `run` is given

    def allows(self, epsilon: float | None) -> bool:
        """Whether it can be run at that epsilon; None stands for no privacy."""
        if epsilon is None or not self.private:
            return epsilon is None and not self.private
        return 0 < epsilon < float("inf") and epsilon >= self.lowest_epsilon

    def check(self, task: PeerTask) -> None:
        """Raise ConfigurationError on an epsilon or delta that the peer does not take."""
        if not self.allows(task.epsilon):
            needed = f"an epsilon of at least {self.lowest_epsilon:g}" if self.private else "epsilon None: not private"
            raise ConfigurationError(f"{task.peer} takes {needed}, not {task.epsilon}")
        right = {"zero": task.delta == 0, "positive": 0 < task.delta < 1, "any": 0 <= task.delta < 1}
        if self.private and not right[self.delta]:
            needed = {"zero": "0", "positive": "in (0, 1)", "any": "in [0, 1)"}[self.delta]
            raise ConfigurationError(f"{task.peer} takes a delta {needed}, not {task.delta}")


PEERS: dict[str, PeerKind] = {
    "dp-logistic": PeerKind(
        "logistic regression, diffprivlib",
        "objective perturbation; standardised by the source, in the unit ball; C = 0.03 sqrt(epsilon)",
        family="diffprivlib",
    ),
    "dp-naive-bayes": PeerKind(
        "Gaussian naive Bayes, diffprivlib",
        "noisy counts, sums and squares; mid-ranks among the source in [-1, 1]; variances + 0.2",
        family="diffprivlib",
    ),
    "dp-forest": PeerKind(
        "random forest, diffprivlib",
        "10 random trees of 8 levels (6 below epsilon 0.3) on mid-ranks among the source; permute and flip",
        family="diffprivlib",
    ),
    "opacus-logistic": PeerKind(
        "logistic regression by DP-SGD, Opacus",
        "Adam, 50 steps with all records, rate 0.05, gradients clipped to 1; standardised by the source",
        delta="positive",
        lowest_epsilon=0.05,
        family="opacus",
    ),
    "opacus-mlp": PeerKind(
        "32 tanh units by DP-SGD, Opacus",
        "Adam, 100 steps with all records, rate 0.02, gradients clipped to 1; standardised by the source",
        delta="positive",
        lowest_epsilon=0.05,
        family="opacus",
    ),
    "histogram-naive-bayes": PeerKind(
        "naive Bayes on noisy histograms",
        "ours, numpy; discrete Laplace of scale d / epsilon; 4 to 16 equal-count bins of the source, shrunk to it",
        run=histogram_naive_bayes,
    ),
    "public-covariance-linear": PeerKind(
        "linear model of one noisy sum, the source's covariance",
        "ours, numpy; sum of y x, clipped in L1 to the source's median norm, discrete Laplace; ridge by evidence",
        run=public_covariance,
    ),
    "adassp": PeerKind(
        "ridge regression on noisy statistics (AdaSSP)",
        "ours, numpy; x clipped in L2 to the source's median norm; three Gaussian mechanisms accounted for as one",
        delta="positive",
        run=adassp,
    ),
    "aim": PeerKind(
        "AIM, then logistic regression",
        "synthetic records by mbi and OpenDP's noise (zCDP where delta > 0); 8 even bins, triples with the label",
        delta="any",
        family="marginals",
    ),
    "mst": PeerKind(
        "MST, then logistic regression",
        "synthetic records by mbi and OpenDP's noise (zCDP where delta > 0); 8 even bins of the source's range",
        delta="any",
        family="marginals",
    ),
    "logistic-regression": PeerKind(
        "logistic regression, no privacy",
        "scikit-learn, standardised by the private records",
        private=False,
        run=logistic_regression,
    ),
    "gradient-boosting": PeerKind(
        "gradient boosting, no privacy",
        "scikit-learn, HistGradientBoostingClassifier as it comes",
        private=False,
        run=gradient_boosting,
    ),
    "majority": PeerKind("majority, no privacy", "the private records' share of class 1", private=False, run=majority),
}
"""By name, in the order of tables."""


__all__ = [
    "PEERS",
    "PeerFailedError",
    "PeerKind",
    "PeerResult",
    "PeerTask",
    "PeerUnavailableError",
    "peer_versions",
    "run_peer",
]


def run_peer(task: PeerTask) -> PeerResult:
    """Train one peer and predict; the same task gives the same result on the same machine.

    Raises ConfigurationError: no such peer, or an epsilon or delta that it does not take; PeerUnavailableError: its
    environment or library is missing; the text says how to install it; PeerFailedError: it gave no answer; ValueError:
    arrays of wrong shapes or ranges.
    """
    if task.peer not in PEERS:
        raise ConfigurationError(f"no peer is called {task.peer!r}; there are {', '.join(PEERS)}")
    kind = PEERS[task.peer]
    kind.check(task)
    task.check()
    if kind.run is None:
        return run_in_environment(kind.family, task)
    start = time.perf_counter()
    probability = kind.run(task)
    return PeerResult(checked(probability, len(task.test), task.peer), time.perf_counter() - start)


def peer_versions() -> dict[str, str]:
    """Versions in the peers' environment as "peers/...", nothing where there is none or it does not answer."""
    try:
        return {f"peers/{name}": its for name, its in environment_versions().items()}
    except (PeerUnavailableError, PeerFailedError):
        return {}
