"""A peer's task and its result.

This file imports little: the peers' own environment loads it too, and has numpy but none of our other libraries.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ExprilError
from simulations.campaign.runner import UnavailableError

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

ARRAYS = ("train", "labels", "test", "lower", "upper", "source")
"""The fields of a task that travel as arrays; the others travel as JSON."""


class PeerUnavailableError(UnavailableError):
    """A peer's library, or the peers' environment, is not there; the text says how to install it."""


class PeerFailedError(ExprilError):
    """A peer ended without an answer. The text names the kind of error and its place, never a value."""

    kind = "runs"


@dataclass(frozen=True)
class PeerTask:
    """One training of one peer."""

    peer: str  # key of `PEERS`
    epsilon: float | None  # of the guarantee, for all of the training; None for what is not private
    delta: float  # in [0, 1); 0 for a pure guarantee
    seed: int  # >= 0, of the training's choices and, as this is a simulation, of the noise where a library lets it be
    train: Matrix  # (n, p) float64 private records, imputed and one-hot, unscaled
    labels: Labels  # (n,) int64 in {0, 1}
    test: Matrix  # (m, p) float64
    lower: Vector  # (p,) float64 public lower bounds of the columns; records may lie beyond
    upper: Vector  # (p,) float64 public upper bounds, above `lower`
    source: Matrix  # (s, p) float64 the learner's unlabelled records, which are public here
    # (p,) names: an attribute's, or "attribute=level" for a 0/1 column of a categorical attribute
    columns: tuple[str, ...]

    def check(self) -> None:
        """Raise ValueError on wrong shapes, non-finite numbers, bounds or labels out of order."""
        n, p = self.train.shape if self.train.ndim == 2 else (0, 0)
        if n < 1 or p < 1:
            raise ValueError(f"train must have shape (n, p) with n, p >= 1, not {self.train.shape}")
        shapes = {"test": (len(self.test), p), "source": (len(self.source), p), "labels": (n,), "lower": (p,)}
        for name, shape in (shapes | {"upper": (p,)}).items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {getattr(self, name).shape}")
        if len(self.columns) != p:
            raise ValueError(f"{len(self.columns)} names for {p} columns")
        if not len(self.source) or not len(self.test):
            raise ValueError("source and test must have a record each")
        for name in ARRAYS:
            if not np.all(np.isfinite(getattr(self, name))):
                raise ValueError(f"{name} must be finite")
        if not np.all(self.lower < self.upper):
            raise ValueError("every lower bound must be below its upper bound")
        if not np.all((self.labels == 0) | (self.labels == 1)):
            raise ValueError("labels must be 0 or 1")
        if self.seed < 0:
            raise ValueError("seed must not be negative")

    def entropy(self) -> int:
        """A number in [0, 2^32) from seed and peer, for libraries that take one; peers share no randomness."""
        return int(np.random.SeedSequence([self.seed, zlib.crc32(self.peer.encode())]).generate_state(1)[0])

    def private_epsilon(self) -> float:
        """Epsilon, where there must be one. Raises ValueError: it is None."""
        if self.epsilon is None:
            raise ValueError(f"{self.peer} needs an epsilon")
        return self.epsilon


Setting = Mapping[str, float | str]
"""Arguments of a library, by our name of them."""


@dataclass(frozen=True)
class Release:
    """Outcomes that are wanted of one mechanism of a library."""

    name: str  # key of its family's table of releases
    draws: int  # >= 1
    setting: Setting = field(default_factory=dict)


@dataclass(frozen=True)
class PeerResult:
    """What one training gave."""

    probability: Vector  # (m,) float64 of class 1 for each test record, in [0, 1]
    seconds: float  # wall time of training and prediction, without what it takes to start an environment
