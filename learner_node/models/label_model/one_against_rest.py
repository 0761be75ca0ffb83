"""More than two classes: one label model per class, of that class against the rest, brought to a common scale.

With C counts per cell of m noises each, the model of class c uses two: its own count, and the sum of the others with (C
- 1) m noises. All C models see the same total, so they agree on the masses.

The models' separate shares p_c are combined as p_c / (1 - p_c)^t, divided by their sum. With t = 1 this is the
probability that one model is right and all others wrong if they err independently; with t = 0 it only rescales. With
ten classes the models see little each and are nearly independent; with three they repeat each other. So t is estimated
from how well it predicts held-out cells.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.expectation_propagation import CellPosterior
from learner_node.models.label_model.gaussian_process import EVERYWHERE, LabelModel, Rows, fit_with_cell_posterior
from learner_node.models.label_model.observations import Observation

Floats = NDArray[np.float64]

LEAST_PROBABILITY = 1e-3
"""Smallest and, from 1, largest share by a single class's model, so that none is certain or ruled out."""
_EXCLUSIONS: Floats = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class ClassesLabelModel:
    """P(class c | instance) as inferred from noisy counts."""

    source_mass: Floats  # estimated number of target records that each source record stands for, float64 (n_s,)
    models: tuple[LabelModel, ...]  # one a class
    exclusion: float = 0.0  # t, how far one class's evidence is evidence against the others, in [0, 1]

    def probabilities(self, features: Floats) -> Floats:
        """Return the class probabilities, float64 (n, C); each row is positive and adds up to 1.

        Args:
            features: Instances on the scale of the fit, float64 (n, d), finite.

        Raises:
            ValueError: `features` has another shape or holds infinities or NaNs.
        """
        return shares_together(np.column_stack([model.probability(features) for model in self.models]), self.exclusion)


def shares_together(apart: Floats, exclusion: float) -> Floats:
    """Combine each class's share against the rest into class probabilities, float64 (n, C), rows adding up to 1.

    `apart` (n, C) has P(class c) by its own model, float64 in [0, 1]; `exclusion` is t, in [0, 1], as in the module's
    text.
    """
    positive = relative(apart, exclusion)
    result: Floats = positive / positive.sum(axis=1, keepdims=True)
    return result


def relative(apart: Floats, exclusion: float) -> Floats:
    """Unnormalised odds p / (1 - p)^t of `shares_together`: float64 of p's shape, positive."""
    sure = np.clip(apart, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    result: Floats = sure / (1.0 - sure) ** exclusion
    return result


def fit_classes_label_model(
    features: Floats,
    cells: NDArray[np.int64],
    counts: Floats,
    *,
    scale: float,
    noises: float,
    seed: int,
    rows: Rows = EVERYWHERE,
) -> tuple[ClassesLabelModel, tuple[CellPosterior, ...]]:
    """Infer class probabilities from the noisy class counts of cells.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2, d >= 1, finite.
        cells: Cell of each source record, integer (n_s,), in [0, K).
        counts: Noisy counts, float64 (K, C), finite, C >= 2: target records of each class, summed over the sites.
        scale: Scale of the discrete Laplace noise of one site; 0 is no noise.
        noises: Number of independent noises in each count, at least 1.
        seed: Seed of the random features, non-negative; one for all classes.
        rows: as of `fit_with_cell_posterior`.

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
    observed = [Observation(cells, np.column_stack([total - column, column]), scale, by_label) for column in numbers.T]
    models, posteriors = zip(
        *(fit_with_cell_posterior(features, observation, seed=seed, rows=rows) for observation in observed),
        strict=True,
    )
    mass = np.mean([model.source_mass for model in models], axis=0)
    return ClassesLabelModel(mass, models, _exclusion(posteriors)), posteriors


def _exclusion(posteriors: tuple[CellPosterior, ...]) -> float:
    """Posterior mean of t under a uniform prior, by the likelihood of all answers given combined held-out shares.

    The C answers of a cell share their total, so they count as C - 1.
    """
    held_out = np.column_stack([posterior.held_out_share() for posterior in posteriors])
    log_likelihood = np.array(
        [
            sum(
                posterior.log_likelihood(share)
                for posterior, share in zip(posteriors, shares_together(held_out, t).T, strict=True)
            )
            for t in _EXCLUSIONS
        ]
    )
    weight = np.exp((log_likelihood - log_likelihood.max()) * (1.0 - 1.0 / len(posteriors)))
    return float(weight @ _EXCLUSIONS / weight.sum())
