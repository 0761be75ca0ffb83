"""A smooth latent g over the instance space, inferred from noisy label counts of cells.

P(label 1) = Phi(PROBIT g), and g has a Gaussian-process prior. A cell's answer depends on the mean of g over the
cell's *source* records. The kernel's length-scale, linear weight and amplitude are not chosen by hand: the six settings
with the greatest evidence are averaged by it. Drawing the cells, asking the question, and training a
network on the result are done elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from learner_node.models.label_model.expectation_propagation import (
    CellPosterior,
    FittedSites,
    NormalPosterior,
    fit_sites,
    normal_posterior,
)
from learner_node.models.label_model.likelihood import (
    SIGNAL_NODES,
    MassPrior,
    Noises,
    SiteTable,
    at_latent_nodes,
    expected_mass_prior,
    expected_share,
    fit_mass_prior,
    noises_by_label,
    pair_variance,
    signed_site_table,
    site_table,
)
from learner_node.models.label_model.observations import Observation, UsedCells
from learner_node.models.label_model.random_features import (
    CellAverages,
    Covariances,
    Kernel,
    Singles,
    average_over_cells,
    blocks,
    bounded,
    draw_frequencies,
    kernel_diagonal,
    stationary_features,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.int64] | slice
EVERYWHERE = slice(None)

_LARGEST_SIGNAL = 1.5


@dataclass(frozen=True)
class Component:
    """The posterior of f under one kernel, as weights of the random features."""

    kernel: Kernel
    weight: float
    mean: Floats  # float64 (1001 + d,): posterior mean of f is features @ mean
    reduction: Singles  # float32 (1001 + d, K): the data lower the variance of f by |features @ reduction|^2
    within: float  # mean prior variance of f within a cell
    least_variance: float  # least posterior variance of a cell's mean of f

    def signal(self, rows: Singles) -> Floats:
        """Posterior means of f, float64 (n,), given the features that `features_at` returns at its length-scale."""
        mean: Floats = rows @ self.mean
        return mean

    def probability(self, rows: Singles, features: Floats) -> Floats:
        """P(label 1) under the posterior of g averaged over a region of a cell's size, float64 (n,).

        The average is taken since the model constrains only cell means: in a pure cell every record is certain, while
        the normal posterior at a single record would still be wide.
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
    """P(label 1 | instance) as inferred from the counts: an evidence-weighted mixture of posteriors."""

    # Estimated number of target records that each source record stands for, float64 (n_s,), non-negative, equal within
    # a cell. The sum is the estimated size of the target within the used cells.
    source_mass: Floats
    total: float  # Estimated number of target records in all cells, at least 1
    log_evidence: float  # Log probability of the counts in the used cells, averaged over the kernels tried
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

    Raises ValueError: The shape is another or a value is not finite.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1 or (dimensions is not None and rows.shape[1] != dimensions):
        raise ValueError(f"features must have shape (n, {dimensions or 'd'}), not {rows.shape}")
    if dimensions is None and len(rows) < 2:
        raise ValueError("at least two source records are needed")
    if not np.isfinite(rows).all():
        raise ValueError("features must be finite")
    return bounded(rows)


LENGTH_SCALES = (1.0, 0.5, 2.0, 0.25, 4.0)  # the likelier first: the others are then given up sooner
LINEAR_WEIGHTS = (0.0, 0.5, 3.0)
CONSTANT = 0.25
"""Prior variance of g's mean level: a probit of deviation 1, which makes rare classes likely enough."""
_STEP = 4.0
_LEAST_AMPLITUDE, _MOST_AMPLITUDE = _STEP**-5, _STEP
_REFINED_LENGTH_SCALES = 2
_AVERAGED_KERNELS = 6
SMALLEST_WEIGHT = 0.01
_HOPELESS = 8.0
_JITTER = 1e-6
MOST_CELLS = 500
_MOST_FURTHER_CELLS = 500
_LARGE_SOURCE, _RECORDS_PER_FURTHER_CELL = 10_000, 15
_FEWEST_CELLS = 5
_SIGNED_COUNT_DEVIATIONS = 6.0
_SOURCE_RECORDS_PER_CELL = 3


def most_cells(n_source: int) -> int:
    """Most cells that are worth their time: 500, plus one for each 15 source records beyond 10,000, up to 1000.

    This was measured on 18,000 source records and 36,000 private ones at epsilon 1 (docs/learner/strategies.md); the
    label model's time grows with the cube of the cells. Up to 10,000 records, a curator without a declared size accepts
    the work, too.
    """
    further = max(0, n_source - _LARGE_SOURCE) // _RECORDS_PER_FURTHER_CELL
    return MOST_CELLS + min(further, _MOST_FURTHER_CELLS)


def cell_count_rule(
    n_source: int, n_target: int, epsilon: float, noises: float, *, signed: bool = False, most: int = MOST_CELLS
) -> int:
    """Number of cells that hold about three times as many records as the standard deviation of a signed count's noise.

    The number is n_t epsilon / (6 sqrt(m)), at least 5 and at most `most`, with at least three source records a cell.

    Args:
        n_source: Number of source records, at least 2.
        n_target: Declared number n_t of target records at all sites, at least 1.
        epsilon: Privacy loss of one partition for one record, positive.
        noises: Number m of independent noises summed; fractional, little above 1, for a secure sum.
        signed: Whether signed counts are asked, whose noise has half the variance of a difference of two counts.
        most: Upper bound.

    Returns:
        At least 1; for fewer than 15 source records it is below 5.

    Raises:
        ValueError: An argument is out of range.
    """
    if n_source < 2 or n_target < 1 or not epsilon > 0 or noises < 1 or most < 1:
        raise ValueError("need n_source >= 2, n_target >= 1, epsilon > 0, noises >= 1 and most >= 1")
    most = max(1, min(most, n_source // _SOURCE_RECORDS_PER_CELL))
    ideal = n_target * epsilon / (_SIGNED_COUNT_DEVIATIONS * np.sqrt(0.5 * noises if signed else noises))
    return most if ideal >= most else min(most, max(_FEWEST_CELLS, round(ideal)))


def fit_label_model(features: Floats, observations: Sequence[Observation], *, seed: int) -> LabelModel:
    """Infer the label signal from the noisy label counts of one or more partitions.

    Several partitions are taken as independent given f. Those of one query count the same records, so their
    sampling errors are not independent; their noises are.

    Args:
        features: Source records, standardised, float64 (n_s, d), n_s >= 2, d >= 1, finite.
        observations: The answered partitions, at least one.
        seed: Seed of the random features, non-negative.

    Returns:
        The model; a pure function of the arguments.

    Raises:
        ValueError: A shape, type or range is not as above.
    """
    return _fit(features, observations, seed).model


def fit_with_cell_posterior(
    features: Floats, observation: Observation, *, seed: int, rows: Rows = EVERYWHERE
) -> tuple[LabelModel, CellPosterior]:
    """Fit one observation as `fit_label_model`; also return its cells' posterior, which is large.

    `rows` are those source records, some of each cell, that `features` and the posterior's cells are of.
    """
    fit = _fit(features, [observation], seed, rows)
    prior, table = fit.prior, fit.table
    mass = np.maximum(fit.mass, 1e-9)
    total_variance = (
        np.inf if observation.mass_spread is not None else pair_variance(observation.scale, observation.noises)
    )
    posterior = CellPosterior(
        cells=fit.cells.compact[0][rows],
        table=table,
        mass=mass,
        mass_variance=1.0 / (prior.shape / prior.mean**2 + 1.0 / (total_variance + mass)),
        log_evidence=fit.model.log_evidence,
        kernels=tuple(
            (weight, seen_covariance(fit.covariances, kernel), posterior_of)
            for weight, kernel, posterior_of in fit.chosen
        ),
        dimensions=np.shape(features)[1],
    )
    return fit.model, posterior


@dataclass(frozen=True)
class _Fit:
    """A label model with the kernels and posteriors that it averages."""

    model: LabelModel
    cells: UsedCells
    prior: MassPrior
    table: SiteTable
    covariances: Covariances
    chosen: list[tuple[float, Kernel, NormalPosterior]]
    mass: Floats


def _fit(features: Floats, observations: Sequence[Observation], seed: int, rows: Rows = EVERYWHERE) -> _Fit:
    points = checked_features(features, None)
    if not observations:
        raise ValueError("at least one observation is needed")
    count = len(points) if isinstance(rows, slice) else len(observations[0].cells)
    observed = [observation.checked(count) for observation in observations]
    cells = UsedCells.of(observed)
    frequencies = draw_frequencies(points.shape[1], seed)
    of_points = [numbers[rows] for numbers in cells.compact]
    averages = average_over_cells(points, of_points, frequencies, LENGTH_SCALES, seed=seed)
    prior, table = _stacked_tables(observed, cells, averages)
    covariances = Covariances(averages)
    tried = _search_kernels(covariances, at_latent_nodes(table.log_likelihood))
    evidence = np.array([fitted.log_evidence for _, fitted in tried])
    order = np.argsort(-evidence, kind="stable")[:_AVERAGED_KERNELS]
    weights = np.exp(evidence[order] - evidence.max())
    order, weights = order[weights >= SMALLEST_WEIGHT], weights[weights >= SMALLEST_WEIGHT]
    weights /= weights.sum()
    chosen = []
    for weight, (kernel, fitted) in zip(weights, [tried[i] for i in order], strict=True):
        chosen.append((float(weight), kernel, normal_posterior(seen_covariance(covariances, kernel), fitted)))
    mass = _posterior_mass(table, chosen)
    model = LabelModel(
        source_mass=_source_mass(observed, cells, mass),
        total=_total(observed),
        log_evidence=float(logsumexp(evidence) - np.log(len(evidence))),
        _frequencies=frequencies,
        _components=tuple(_component(averages, cells.spans, *choice) for choice in chosen),
    )
    return _Fit(model, cells, prior, table, covariances, chosen, mass)


def _stacked_tables(
    observations: Sequence[Observation], cells: UsedCells, averages: CellAverages
) -> tuple[MassPrior, SiteTable]:
    """Mass priors and site tables of all used cells; each observation has its own mass prior."""
    priors = []
    for observation, span in zip(observations, cells.spans, strict=True):
        counts = cells.counts[span]
        if observation.mass_spread is not None:
            masses = counts.sum(axis=1)
            priors.append(expected_mass_prior(cells.source_counts[span], masses, observation.mass_spread))
            continue
        priors.append(
            fit_mass_prior(
                cells.source_counts[span],
                counts.sum(axis=1),
                averages.centres[span],
                total=max(float(counts.sum()), float(len(counts))),
                variance=pair_variance(observation.scale, observation.noises),
            )
        )
    prior = MassPrior(np.concatenate([part.mean for part in priors]), np.concatenate([part.shape for part in priors]))
    log_likelihood = np.empty((len(cells.counts), len(SIGNAL_NODES)))
    mass = np.empty_like(log_likelihood)
    laws = [(item.scale, item.noises, item.mass_spread is not None) for item in observations]
    for law in dict.fromkeys(laws):
        alike = [span for span, other in zip(cells.spans, laws, strict=True) if other == law]
        rows = np.concatenate([np.arange(span.start, span.stop) for span in alike])
        table = _table(cells.counts[rows], prior.of(rows), *law)
        log_likelihood[rows], mass[rows] = table.log_likelihood, table.mass
    return prior, SiteTable(log_likelihood, mass)


def _table(counts: Floats, prior: MassPrior, scale: float, noises: Noises, signed: bool) -> SiteTable:
    if not signed:
        return site_table(counts, prior, scale=scale, noises=noises)
    return signed_site_table(counts[:, 1] - counts[:, 0], prior, scale=scale, noises=max(noises_by_label(noises)))


def seen_covariance(covariances: Covariances, kernel: Kernel) -> Floats:
    """Prior covariance of the cell means of f over the target's records: a new float64 (U, U)."""
    covariance, within = covariances.of(kernel)
    # The cell's own mean is estimated from its few source records.
    covariance[np.diag_indices_from(covariance)] += within / covariances.averages.counts + _JITTER
    return covariance


def _search_kernels(covariances: Covariances, log_sites: Floats) -> list[tuple[Kernel, FittedSites]]:
    """Fit all kernels at amplitude 1, then the best two length-scales at other amplitudes while evidence grows.

    Each fit starts from the sites of the best so far, and stops early once its evidence is far too low.
    """
    tried: list[tuple[Kernel, FittedSites]] = []

    def try_amplitude(length_scale: float, amplitude: float) -> float:
        """Try all linear weights; return the best evidence."""
        here = -np.inf
        for linear in LINEAR_WEIGHTS:
            kernel = Kernel(length_scale, linear, amplitude, CONSTANT)
            best = max(tried, key=lambda pair: pair[1].log_evidence)[1] if tried else None
            fitted = fit_sites(
                seen_covariance(covariances, kernel),
                log_sites,
                start=best.sites if best else None,
                least_evidence=best.log_evidence - _HOPELESS if best else -np.inf,
            )
            tried.append((kernel, fitted))
            here = max(here, fitted.log_evidence)
        return here

    best = {scale: try_amplitude(scale, 1.0) for scale in LENGTH_SCALES}
    refined = sorted(LENGTH_SCALES, key=lambda scale: -best[scale])[:_REFINED_LENGTH_SCALES]
    covariances.keep(refined)
    for scale in refined:
        for step in (_STEP, 1.0 / _STEP):
            amplitude, evidence = step, best[scale]
            while _LEAST_AMPLITUDE <= amplitude <= _MOST_AMPLITUDE:
                before, evidence = evidence, try_amplitude(scale, amplitude)
                if evidence < before:
                    break
                amplitude *= step
    return tried


def _component(
    averages: CellAverages, spans: Sequence[slice], weight: float, kernel: Kernel, posterior: NormalPosterior
) -> Component:
    """The posterior as weights; a "cell" of its probabilities is one of the finest observation."""
    stationary = averages.stationary[kernel.length_scale]
    constant = np.ones((len(stationary), 1), np.float32)
    features = np.concatenate([stationary, averages.centres.astype(np.float32), constant], axis=1)
    scales = np.full(features.shape[1], kernel.amplitude)
    scales[stationary.shape[1] :] *= kernel.linear / averages.centres.shape[1]
    scales[-1] = kernel.constant
    squares = np.einsum("kj,kj,j->k", features, features, scales, dtype=np.float64)
    within = kernel_diagonal(kernel, averages.square) - squares
    rows = features * scales.astype(np.float32)
    finest = min(spans, key=lambda span: float(within[span].mean()))
    return Component(
        kernel,
        weight,
        mean=rows.T.astype(np.float64) @ posterior.coefficients,
        reduction=rows.T @ posterior.whitener.T.astype(np.float32),
        within=max(float(within[finest].mean()), 0.0),
        least_variance=float(posterior.variance[finest].min()),
    )


def _posterior_mass(table: SiteTable, chosen: list[tuple[float, Kernel, NormalPosterior]]) -> Floats:
    """Posterior means of the cell masses, float64 (K,): E[M | answer, f] averaged over f."""
    result, at_latent = np.zeros(len(table.mass)), at_latent_nodes(table.mass)
    spacing = SIGNAL_NODES[1] - SIGNAL_NODES[0]
    for weight, _, posterior in chosen:
        centre = np.clip(posterior.mean, -1.0, 1.0)[:, None]
        spread = np.maximum(np.sqrt(posterior.variance), spacing)[:, None]
        density = np.exp(-0.5 * ((SIGNAL_NODES - centre) / spread) ** 2)
        result += weight * np.sum(density * at_latent, axis=1) / density.sum(axis=1)
    return result


def _source_mass(observations: Sequence[Observation], cells: UsedCells, mass: Floats) -> Floats:
    """Number of target records per source record, float64 (n_s,): a weighted mean over the observations.

    Weights are the inverse variances of one count: its noise, plus one record of sampling.
    """
    precision = [1.0 / (1.0 + 0.5 * pair_variance(item.scale, item.noises)) for item in observations]
    per_record = mass / cells.source_counts
    terms = [
        weight / sum(precision) * per_record[numbers] for weight, numbers in zip(precision, cells.compact, strict=True)
    ]
    result: Floats = np.sum(terms, axis=0)
    return result


def _total(observations: Sequence[Observation]) -> float:
    """Number of target records in all cells: a mean over observations, weighted by inverse noise variance."""
    precision = [1.0 / (len(item.counts) * 0.5 * pair_variance(item.scale, item.noises)) for item in observations]
    totals = [float(item.counts.sum()) for item in observations]
    mean = sum(weight / sum(precision) * total for weight, total in zip(precision, totals, strict=True))
    return max(mean, float(len(np.unique(observations[0].cells))))
