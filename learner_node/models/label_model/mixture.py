"""The fitted label model: an evidence-weighted mixture of Gaussian-process posteriors, ready to predict."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.likelihood import expected_share
from learner_node.models.label_model.random_features import (
    Kernel,
    Singles,
    blocks,
    bounded,
    kernel_diagonal,
    stationary_features,
)

Floats = NDArray[np.float64]

_LARGEST_SIGNAL = 1.5


@dataclass(frozen=True)
class Component:
    """The posterior of f under one kernel, as weights of the random features."""

    kernel: Kernel
    weight: float
    mean: Floats
    """float64 (1001 + d,): posterior mean of f is features @ mean."""
    reduction: Singles
    """float32 (1001 + d, K): the data lower the variance of f by |features @ reduction|^2."""
    within: float
    """Mean prior variance of f within a cell."""
    least_variance: float
    """Least posterior variance of a cell's mean of f."""

    def signal(self, rows: Singles) -> Floats:
        """Posterior means of f, float64 (n,), from `features_at` its length-scale."""
        mean: Floats = rows @ self.mean
        return mean

    def probability(self, rows: Singles, features: Floats) -> Floats:
        """P(label 1) under the posterior of g averaged over a region of a cell's size, float64 (n,).

        Averaged, because the model bounds only the means of cells: in a pure cell every record is sure,
        while the normal posterior at a single record would still be wide.
        """
        reduction = rows @ self.reduction
        prior = kernel_diagonal(self.kernel, np.mean(features**2, axis=1))
        variance = prior - self.within - np.einsum("nk,nk->n", reduction, reduction)
        return expected_share(self.signal(rows), np.maximum(variance, self.least_variance))


def features_at(length_scale: float, features: Floats, phases: Floats) -> Singles:
    """Stationary features, instances, and ones, float32 (n, 1000 + d + 1)."""
    constant = np.ones((len(features), 1), np.float32)
    return np.concatenate([stationary_features(phases / length_scale), features.astype(np.float32), constant], axis=1)


@dataclass(frozen=True)
class LabelModel:
    """P(label 1 | instance) as inferred from the counts: an evidence-weighted mixture of posteriors.

    Attributes:
        source_mass: Estimated number of target records that each source record stands for, float64 (n_s,),
            non-negative, equal within a cell. The sum is the estimated size of the target within the used
            cells.
        total: Estimated number of target records in all cells, at least 1.
        log_evidence: Log probability of the counts in the used cells, averaged over the kernels tried.
    """

    source_mass: Floats
    total: float
    log_evidence: float
    _frequencies: Floats
    _components: tuple[Component, ...]

    def latent(self, features: Floats) -> Floats:
        """Return the posterior mean of the latent g: positive where label 1 is the likelier one.

        Args:
            features: Instances on the scale of the fit, float64 (n, d), finite.

        Returns:
            float64 (n,) in [-1.5, 1.5].

        Raises:
            ValueError: `features` has another shape or holds infinities or NaNs.
        """
        rows = checked_features(features, self._frequencies.shape[0])
        result = np.zeros(len(rows))
        for block in blocks(len(rows)):
            for component, here in self._components_at(rows[block]):
                mean = component.signal(here)
                result[block] += component.weight * np.clip(mean, -_LARGEST_SIGNAL, _LARGEST_SIGNAL)
        signal: Floats = np.clip(result, -_LARGEST_SIGNAL, _LARGEST_SIGNAL)
        return signal

    def probability(self, features: Floats) -> Floats:
        """Return P(label 1), the posterior mean of Phi(PROBIT g).

        g is here the mean of the latent over a region of a cell's size around the instance.

        Args:
            features: Instances on the scale of the fit, float64 (n, d), finite.

        Returns:
            float64 (n,) in [0, 1].

        Raises:
            ValueError: `features` has another shape or holds infinities or NaNs.
        """
        rows = checked_features(features, self._frequencies.shape[0])
        result = np.zeros(len(rows))
        for block in blocks(len(rows)):
            for component, here in self._components_at(rows[block]):
                result[block] += component.weight * component.probability(here, rows[block])
        probability: Floats = np.clip(result, 0.0, 1.0)
        return probability

    def _components_at(self, rows: Floats) -> Iterator[tuple[Component, Singles]]:
        """Each component with its features at some instances, computed once per length-scale."""
        phases = rows @ self._frequencies
        by_scale: dict[float, Singles] = {}
        for component in self._components:
            scale = component.kernel.length_scale
            if scale not in by_scale:
                by_scale[scale] = features_at(scale, rows, phases)
            yield component, by_scale[scale]


def checked_features(features: Floats, dimensions: int | None) -> Floats:
    """Return the features as float64 (n, d), clipped; `dimensions` None is a fit, which needs two rows.

    Raises:
        ValueError: The shape is another or a value is not finite.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1 or (dimensions is not None and rows.shape[1] != dimensions):
        raise ValueError(f"features must have shape (n, {dimensions or 'd'}), not {rows.shape}")
    if dimensions is None and len(rows) < 2:
        raise ValueError("at least two source records are needed")
    if not np.isfinite(rows).all():
        raise ValueError("features must be finite")
    return bounded(rows)
