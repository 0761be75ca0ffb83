"""A smooth label signal f over the instance space, inferred from noisy label counts of cells.

f has a Gaussian-process prior; a cell's answer depends on the mean of f over the cell's *source*
records. The kernel's length-scale, linear weight and amplitude are not chosen by hand: the six settings
with the greatest evidence are averaged by it. Drawing the cells, asking the question, and training a
network on the result are done elsewhere.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from learner_node.label_model.expectation_propagation import (
    NormalPosterior,
    NormalSites,
    approximate_posterior,
)
from learner_node.label_model.likelihood import (
    SIGNAL_NODES,
    SiteTable,
    fit_mass_prior,
    noises_by_label,
    pair_variance,
    site_table,
)
from learner_node.label_model.mixture import Component, LabelModel, checked_features
from learner_node.label_model.random_features import (
    CellAverages,
    Kernel,
    average_over_cells,
    draw_frequencies,
    kernel_diagonal,
)

Floats = NDArray[np.float64]

_LENGTH_SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
_LINEAR_WEIGHTS = (0.0, 0.5, 3.0)
_AMPLITUDES = (0.25, 4.0)
_REFINED_LENGTH_SCALES = 2
_AVERAGED_KERNELS = 6
_SMALLEST_WEIGHT = 0.01
_JITTER = 1e-6
_LARGEST_COUNT = 1e12
_FEWEST_CELLS = 6
_SIGNED_COUNT_DEVIATIONS = 8.0
_SOURCE_RECORDS_PER_CELL = 3


def cell_count_rule(n_source: int, epsilon: float, sites: int, *, most: int = 400) -> int:
    """Return how many cells to draw: about four noise deviations of signed count in each.

    The source's size stands in for the target's, so the rule reads public numbers only:
    n_s epsilon / (8 sqrt(m)), at least 6, at most `most`, and at least three source records a cell.

    Args:
        n_source: Number of source records n_s, at least 2.
        epsilon: Privacy loss of the question at one site, positive.
        sites: Number m of independent noises summed; 1 under secure summation of one noise.
        most: Upper bound.

    Returns:
        At least 1; for fewer than 18 source records it is below 6.

    Raises:
        ValueError: An argument is out of range.
    """
    if n_source < 2 or not epsilon > 0 or sites < 1 or most < 1:
        raise ValueError("need n_source >= 2, epsilon > 0, sites >= 1 and most >= 1")
    most = max(1, min(most, n_source // _SOURCE_RECORDS_PER_CELL))
    wanted = n_source * epsilon / (_SIGNED_COUNT_DEVIATIONS * np.sqrt(sites))
    return most if wanted >= most else min(most, max(_FEWEST_CELLS, round(wanted)))


def fit_label_model(
    features: Floats,
    cells: NDArray[np.int64],
    counts: Floats,
    *,
    scale: float,
    sites: int | tuple[int, int],
    seed: int,
) -> LabelModel:
    """Infer the label signal from the noisy label counts of cells.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2, d >= 1, finite.
        cells: Cell of each source record, integer (n_s,), in [0, K). Cells without one are left out.
        counts: Noisy counts, float64 (K, 2), finite: target records of label 0 (column 0) and of label 1
            (column 1), summed over the sites. Integers; others are rounded where it matters.
        scale: Scale of the discrete Laplace noise of one site, P(k) proportional to exp(-|k| / scale);
            0 is no noise.
        sites: Number of independent noises in each count, at least 1; or, where they differ, in those of label 0
            and of label 1.
        seed: Seed of the random features, non-negative.

    Returns:
        The model; a pure function of the arguments.

    Raises:
        ValueError: A shape, type or range is not as above.
    """
    rows = checked_features(features, None)
    cells, counts = _checked_counts(cells, counts, len(rows))
    if not (np.isfinite(scale) and scale >= 0) or min(noises_by_label(sites)) < 1:
        raise ValueError("need a finite scale >= 0 and sites >= 1")
    used, compact = np.unique(cells, return_inverse=True)
    source_counts = np.bincount(compact).astype(np.float64)
    frequencies = draw_frequencies(rows.shape[1], seed)
    averages = average_over_cells(rows, compact, frequencies, _LENGTH_SCALES)
    total = max(float(counts.sum()), float(len(used)))
    prior = fit_mass_prior(
        source_counts,
        counts[used].sum(axis=1),
        averages.centres,
        total=max(float(counts[used].sum()), float(len(used))),
        variance=pair_variance(scale, sites),
    )
    table = site_table(counts[used], prior, scale=scale, sites=sites)
    posteriors = _search_kernels(averages, source_counts, table)
    evidence = np.array([posterior.log_evidence for _, posterior in posteriors])
    order = np.argsort(-evidence, kind="stable")[:_AVERAGED_KERNELS]
    weights = np.exp(evidence[order] - evidence.max())
    order, weights = order[weights >= _SMALLEST_WEIGHT], weights[weights >= _SMALLEST_WEIGHT]
    weights /= weights.sum()
    chosen = [(float(weight), *posteriors[i]) for weight, i in zip(weights, order, strict=True)]
    return LabelModel(
        source_mass=(_posterior_mass(table, chosen) / source_counts)[compact],
        total=total,
        log_evidence=float(logsumexp(evidence) - np.log(len(evidence))),
        _frequencies=frequencies,
        _components=tuple(_component(averages, *choice) for choice in chosen),
    )


def _search_kernels(
    averages: CellAverages, source_counts: Floats, table: SiteTable
) -> list[tuple[Kernel, NormalPosterior]]:
    """Posteriors at amplitude 1 for all kernels, and at the others for the best two length-scales."""
    grams = {scale: rows @ rows.T for scale, rows in averages.stationary.items()}
    linear_gram = averages.centres @ averages.centres.T / averages.centres.shape[1]
    results: list[tuple[Kernel, NormalPosterior]] = []

    def try_amplitude(length_scale: float, amplitude: float) -> float:
        """Try all linear weights, each from the sites of the last; return the best evidence."""
        start: NormalSites | None = None
        best = -np.inf
        for linear in _LINEAR_WEIGHTS:
            kernel = Kernel(length_scale, linear, amplitude)
            covariance = amplitude * (grams[length_scale] + linear * linear_gram)
            # The cell's own mean is estimated from its few source records.
            within = np.maximum(kernel_diagonal(kernel, averages.square) - np.diag(covariance), 0.0)
            covariance[np.diag_indices_from(covariance)] += within / source_counts + _JITTER
            posterior = approximate_posterior(covariance, table.log_likelihood, start=start)
            start = posterior.sites
            results.append((kernel, posterior))
            best = max(best, posterior.log_evidence)
        return best

    best = {scale: try_amplitude(scale, 1.0) for scale in _LENGTH_SCALES}
    for scale in sorted(_LENGTH_SCALES, key=lambda scale: -best[scale])[:_REFINED_LENGTH_SCALES]:
        for amplitude in _AMPLITUDES:
            try_amplitude(scale, amplitude)
    return results


def _component(averages: CellAverages, weight: float, kernel: Kernel, posterior: NormalPosterior) -> Component:
    linear = kernel.linear / averages.centres.shape[1]
    rows = kernel.amplitude * np.concatenate(
        [averages.stationary[kernel.length_scale], linear * averages.centres], axis=1
    )
    features = np.concatenate([averages.stationary[kernel.length_scale], averages.centres], axis=1)
    within = kernel_diagonal(kernel, averages.square) - np.einsum("kj,kj->k", rows, features)
    return Component(
        kernel,
        weight,
        mean=rows.T @ posterior.coefficients,
        reduction=rows.T @ posterior.whitener.T,
        within=max(float(within.mean()), 0.0),
        least_variance=float(posterior.variance.min()),
    )


def _posterior_mass(table: SiteTable, chosen: list[tuple[float, Kernel, NormalPosterior]]) -> Floats:
    """Posterior means of the cell masses, float64 (K,): E[M | answer, f] averaged over f."""
    result = np.zeros(len(table.mass))
    spacing = SIGNAL_NODES[1] - SIGNAL_NODES[0]
    for weight, _, posterior in chosen:
        centre = np.clip(posterior.mean, -1.0, 1.0)[:, None]
        spread = np.maximum(np.sqrt(posterior.variance), spacing)[:, None]
        density = np.exp(-0.5 * ((SIGNAL_NODES - centre) / spread) ** 2)
        result += weight * np.sum(density * table.mass, axis=1) / density.sum(axis=1)
    return result


def _checked_counts(cells: NDArray[np.int64], counts: Floats, n_source: int) -> tuple[NDArray[np.int64], Floats]:
    cells, counts = np.asarray(cells), np.asarray(counts, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] < 1 or counts.shape[1] != 2:
        raise ValueError(f"counts must have shape (K, 2), not {counts.shape}")
    if not np.isfinite(counts).all():
        raise ValueError("counts must be finite")
    if cells.shape != (n_source,) or not np.issubdtype(cells.dtype, np.integer):
        raise ValueError(f"cells must be integers of shape ({n_source},)")
    if cells.min() < 0 or cells.max() >= len(counts):
        raise ValueError(f"cells must lie in [0, {len(counts)})")
    return cells.astype(np.int64), np.clip(counts, -_LARGEST_COUNT, _LARGEST_COUNT)
