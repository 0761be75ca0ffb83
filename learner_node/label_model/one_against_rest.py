"""More than two classes: one label model a class, of that class against the rest, brought to a common scale.

Of a cell's C counts, each with m noises, the model of class c sees two: its own, and the sum of the others with
(C - 1) m noises. All C models see the same total, so they agree on the masses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model.cell_posterior import CellPosterior
from learner_node.label_model.gaussian_process import fit_with_cell_posterior
from learner_node.label_model.mixture import LabelModel
from learner_node.label_model.observations import Observation

Floats = NDArray[np.float64]

LEAST_PROBABILITY = 1e-3
"""No class is ruled out by a model that was fitted to that class alone."""


@dataclass(frozen=True)
class ClassesLabelModel:
    """P(class c | instance) as inferred from noisy counts.

    Attributes:
        source_mass: estimated number of target records that each source record stands for, float64 (n_s,).
        models: one a class.
    """

    source_mass: Floats
    models: tuple[LabelModel, ...]

    def probabilities(self, features: Floats) -> Floats:
        """Return the class probabilities, float64 (n, C); each row is positive and adds up to 1.

        Args:
            features: Instances on the scale of the fit, float64 (n, d), finite.

        Raises:
            ValueError: `features` has another shape or holds infinities or NaNs.
        """
        apart = np.column_stack([model.probability(features) for model in self.models])
        positive = np.maximum(apart, LEAST_PROBABILITY)
        together: Floats = positive / positive.sum(axis=1, keepdims=True)
        return together


def fit_classes_label_model(
    features: Floats, cells: NDArray[np.int64], counts: Floats, *, scale: float, noises: float, seed: int
) -> tuple[ClassesLabelModel, tuple[CellPosterior, ...]]:
    """Infer class probabilities from the noisy class counts of cells.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2, d >= 1, finite.
        cells: Cell of each source record, integer (n_s,), in [0, K).
        counts: Noisy counts, float64 (K, C), finite, C >= 2: target records of each class, summed over the sites.
        scale: Scale of the discrete Laplace noise of one site; 0 is no noise.
        noises: Number of independent noises in each count, at least 1.
        seed: Seed of the random features, non-negative; one for all classes.

    Returns:
        The model, and the cells' posterior of each class against the rest, which are large and predict nothing; a pure
        function of the arguments.

    Raises:
        ValueError: A shape, type or range is not as above.
    """
    numbers = np.asarray(counts, dtype=np.float64)
    if numbers.ndim != 2 or numbers.shape[1] < 2:
        raise ValueError(f"counts must have shape (K, C) with at least two classes, not {numbers.shape}")
    total = numbers.sum(axis=1)
    by_label = (noises * (numbers.shape[1] - 1), noises)
    observed = [Observation(cells, np.column_stack([total - own, own]), scale, by_label) for own in numbers.T]
    models, posteriors = zip(*(fit_with_cell_posterior(features, each, seed=seed) for each in observed), strict=True)
    return ClassesLabelModel(np.mean([model.source_mass for model in models], axis=0), models), posteriors
