"""Label problems drawn from the label model's own prior, for quotes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model.random_features import Kernel, bounded, draw_frequencies, stationary_features

Floats = NDArray[np.float64]

DIFFICULTIES: dict[str, tuple[Kernel, ...]] = {
    "easy": (Kernel(4.0, 3.0, 4.0), Kernel(2.0, 3.0, 4.0)),
    "middling": (Kernel(1.0, 0.5, 1.0), Kernel(1.0, 0.5, 4.0)),
    "hard": (Kernel(0.5, 0.0, 1.0), Kernel(0.25, 0.0, 4.0)),
}
"""Kernels among those that the label model averages over: steep and nearly linear, bent, and of many regions."""
_CONSTANT_DEVIATION = 0.3
_OWN_STREAM = 1_000_003


@dataclass(frozen=True)
class PriorLabels:
    """One problem.

    Attributes:
        name: its difficulty.
        probability: P(label 1) of each source record, float64 (n_s,), in [0, 1].
    """

    name: str
    probability: Floats

    @property
    def majority(self) -> float:
        """What always answering the likelier class scores."""
        return float(max(self.probability.mean(), 1.0 - self.probability.mean()))

    @property
    def best(self) -> float:
        """What knowing `probability` scores."""
        return float(np.maximum(self.probability, 1.0 - self.probability).mean())


def draw_prior_labels(features: Floats, number: int, seed: int) -> PriorLabels:
    """Draw the label signal f from the Gaussian-process prior; P(label 1) = (1 + f) / 2, f clipped to [-1, 1].

    f is centred on the source and moved by the prior's constant of deviation 0.3, so that both classes are common. The
    difficulties take turns, and their kernels. The random features are not those of any fit, which would make the
    problem the model's own.

    Args:
        features: Source records, standardised, float64 (n_s, d).
        number: Of the problem, non-negative.
        seed: Non-negative; equal arguments give equal problems.
    """
    rows = bounded(features)
    rng = np.random.default_rng([_OWN_STREAM, seed, number])
    name = list(DIFFICULTIES)[number % len(DIFFICULTIES)]
    kernels = DIFFICULTIES[name]
    kernel = kernels[number // len(DIFFICULTIES) % len(kernels)]
    frequencies = draw_frequencies(rows.shape[1], int(rng.integers(2**31)))
    stationary = stationary_features(rows @ frequencies / kernel.length_scale)
    signal = stationary @ rng.standard_normal(stationary.shape[1])
    signal += np.sqrt(kernel.linear / rows.shape[1]) * (rows @ rng.standard_normal(rows.shape[1]))
    signal += _CONSTANT_DEVIATION * rng.standard_normal() - signal.mean()
    return PriorLabels(name, 0.5 * (1.0 + np.clip(np.sqrt(kernel.amplitude) * signal, -1.0, 1.0)))
