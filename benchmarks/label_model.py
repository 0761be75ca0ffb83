"""The label model of `cells`: its solve at K = 1000 against textbook EP, the search, and `cells` end to end.

"The solve" is one posterior: expectation propagation for one kernel, from flat sites, with all cell averages and site
tables at hand. The textbook's is Algorithm 3.5 of Rasmussen and Williams (2006): one site after the other, a rank-one
update of the posterior after each, a fresh Cholesky factor after each sweep, until the evidence moves by less than the
same tolerance; its moments are our own, one cell at a time. Both converge to the same posterior, which is checked.

The problem: 5000 source records of 25 normal attributes, 5000 private ones, epsilon 1. End to end is a whole study
with one curator in process: k-means, question, noisy answer, fit, and P(class 1) of every source record.

Times are of the processor, one thread, so that neighbours on the machine count little. What bounds a study is timed
alone: LAPACK and BLAS on matrices of the study's number and sizes. These are the factors of its search and their
inverses, the products of two evaluations at every source record, and those of the networks' training.
"""

import time
from collections.abc import Callable
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import polars as pl
from scipy.linalg import cholesky, lapack, solve_triangular
from threadpoolctl import threadpool_limits

from benchmarks.common import Result, at_least, at_most, median, spread
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_node.models.label_model import Observation, fit_label_model, gaussian_process
from learner_node.models.label_model.expectation_propagation import approximate_posterior, tilted_moments
from learner_node.models.label_model.likelihood import fit_mass_prior, noise_law, site_table
from learner_node.models.label_model.random_features import average_over_cells, draw_frequencies
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from protocol.envelopes import SigningKey
from protocol.limits import Limits
from protocol.rationals import MOST
from protocol.record_frames import encode_frame
from protocol.schema import NumericAttribute
from simulations.carriers.direct import direct_federation

SOURCE, ATTRIBUTES, CELLS = 5000, 25, 1000
TOLERANCE = 1e-2
MOST_SWEEPS = 15
HIDDEN, RECORDS, STEPS = 64, 2, 4 * 120
"""Units of a layer of the networks, records of a cell in a step, and steps of all of them."""
REPEATS = 5
SOLVE_SECONDS = 0.5
STUDY_SECONDS = {False: 0.8, True: 1.2}
"""Without networks, and with them."""
FASTER = 20.0
AGREE = 0.02
SIZES = 10_000, 100_000, 1_000_000
SLOPE = 1.1


def run() -> list[Result]:
    """See the module."""
    with threadpool_limits(1):
        return [*_solve(), *_search(), *_end_to_end(), *_scaling()]


def _processor_seconds(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def _problem(cells: int) -> tuple[np.ndarray, Observation]:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(SOURCE, ATTRIBUTES))
    centres = points[rng.choice(SOURCE, cells, replace=False)]
    nearest = (np.sum(centres**2, axis=1) - 2.0 * points @ centres.T).argmin(axis=1)
    labels = points[:, 0] + 0.5 * points[:, 1] ** 2 > 0.3
    pairs = np.stack([np.bincount(nearest[labels == value], minlength=cells) for value in (False, True)], axis=1)
    return points, Observation(nearest, np.rint(pairs + rng.laplace(0, 1.0, pairs.shape)), 1.0)


def _solve() -> list[Result]:
    points, observation = _problem(CELLS)
    cells, counts = observation.cells, observation.counts
    averages = average_over_cells(points, (cells,), draw_frequencies(ATTRIBUTES, 0), (1.0,))
    totals = counts.sum(axis=1)
    prior = fit_mass_prior(
        averages.counts,
        totals,
        averages.centres,
        total=float(totals.sum()),
        variance=2.0 * noise_law(1.0).variance(),
    )
    tables = site_table(counts, prior, scale=1.0, noises=1).log_likelihood
    rows = averages.stationary[1.0].astype(np.float64)
    covariance = rows @ rows.T + 0.5 * averages.centres @ averages.centres.T / ATTRIBUTES
    within = np.maximum(1.09 + 0.5 * averages.square - np.diag(covariance), 0.0)
    covariance[np.diag_indices(CELLS)] += within / averages.counts + 1e-6

    ours = [_processor_seconds(lambda: approximate_posterior(covariance, tables)) for _ in range(REPEATS)]
    posterior = approximate_posterior(covariance, tables)
    start = time.process_time()
    mean, evidence, sweeps = textbook_posterior(covariance, tables)
    theirs = time.process_time() - start
    name = f"label model's solve, K = {CELLS}"
    apart = float(np.max(np.abs(posterior.mean - mean) / np.sqrt(posterior.variance)))
    return [
        at_most(name, median(ours), SOLVE_SECONDS, "s", spread=spread(ours)),
        at_least(
            f"{name}, times faster than textbook EP", theirs / median(ours), FASTER, "times", note=f"{sweeps} sweeps"
        ),
        at_most(f"{name}, largest difference of the means, in deviations", apart, AGREE * 5, "deviations"),
        at_most(f"{name}, difference of the evidence", abs(posterior.log_evidence - evidence), AGREE, "nats"),
    ]


def textbook_posterior(covariance: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Algorithm 3.5: posterior means (K,), log evidence, sweeps."""
    size = len(covariance)
    top = tables.max(axis=1)
    below = tables - top[:, None]
    precision, shift = np.full(size, 1e-3), np.zeros(size)
    posterior, mean, log_determinant = _refreshed(covariance, precision, shift)
    previous, sweeps = np.inf, 0
    while sweeps < MOST_SWEEPS:
        sweeps += 1
        for site in range(size):
            variance = posterior[site, site]
            cavity = max(1.0 / variance - precision[site], 1e-6)
            cavity_mean = (mean[site] / variance - shift[site]) / cavity
            _, tilted, spread_ = tilted_moments(
                below[site : site + 1], np.array([cavity_mean]), np.array([1.0 / cavity])
            )
            updated = float(np.clip(1.0 / spread_[0] - cavity, 1e-5, 1e5))
            change = updated - precision[site]
            precision[site] = updated
            shift[site] = tilted[0] * (cavity + updated) - cavity_mean * cavity
            column = posterior[:, site].copy()
            posterior -= (change / (1.0 + change * variance)) * np.outer(column, column)
            mean = posterior @ shift
        posterior, mean, log_determinant = _refreshed(covariance, precision, shift)
        variances = np.diag(posterior)
        cavity = 1.0 / variances - precision
        cavity_mean = (mean / variances - shift) / cavity
        log_mass, _, _ = tilted_moments(below, cavity_mean, 1.0 / cavity)
        spread_ = 1.0 + precision / cavity
        residual = precision * cavity_mean - shift
        evidence = float(
            np.sum(top + log_mass + 0.5 * np.log(spread_) + 0.5 * residual**2 / (precision * spread_))
            - 0.5 * log_determinant
            - 0.5 * (np.sum(shift**2 / precision) - shift @ mean)
        )
        if abs(evidence - previous) < TOLERANCE:
            break
        previous = evidence
    return mean, evidence, sweeps


def _refreshed(
    covariance: np.ndarray, precision: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    root = np.sqrt(precision)
    lower = cholesky(np.eye(len(root)) + root[:, None] * covariance * root, lower=True)
    half = solve_triangular(lower, root[:, None] * covariance, lower=True)
    posterior = covariance - half.T @ half
    return posterior, posterior @ shift, 2.0 * float(np.sum(np.log(np.diag(lower))))


def _search() -> list[Result]:
    results = []
    for cells in (400, CELLS):
        points, observation = _problem(cells)
        times = [_processor_seconds(lambda: fit_label_model(points, [observation], seed=0)) for _ in range(3)]  # noqa: B023
        note = "averages, site tables, 27 kernels, and the posteriors of the best six"
        results.append(
            Result(f"label model's whole search, K = {cells}", median(times), "s", spread=spread(times), note=note)
        )
    return results


def _study(source: int, private: int, *, networks: bool = False) -> float:
    """Processor seconds of one study with `cells`, from encoded records."""
    rng = np.random.default_rng(0)
    names = [f"x{index}" for index in range(ATTRIBUTES)]
    attributes = tuple(NumericAttribute(name=name, lower=-6, upper=6) for name in names)
    steward = SchemaFile(label="y", classes=("0", "1"), attributes=attributes, round_size=private)
    values = rng.normal(size=(private, ATTRIBUTES))
    labels = (values[:, 0] + 0.5 * values[:, 1] ** 2 > 0.3).astype(np.int64)
    frame = pl.DataFrame(values, schema=names).with_columns(pl.Series("y", labels).cast(pl.String))
    source_records = encode_frame(pl.DataFrame(rng.normal(size=(source, ATTRIBUTES)), schema=names), steward.schema)
    key = SigningKey.generate()
    policy = Policy(
        name="site",
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=key.public.hex(), cap=MOST),),
        limits=Limits(multiply_adds=10**12),
    )
    federation = direct_federation({"site": temporary_site(frame, steward, policy)}, key)
    options = {"networks": networks}
    return _processor_seconds(
        lambda: learn(federation, lambda _: source_records, Budget(Fraction(1)), strategy="cells", options=options)
    )


def _end_to_end() -> list[Result]:
    results = []
    for networks in (False, True):
        times = [_study(SOURCE, SOURCE, networks=networks) for _ in range(REPEATS)]
        name = (
            f"cells {'with' if networks else 'without'} networks end to end, "
            f"{SOURCE} source and {SOURCE} private records, {ATTRIBUTES} attributes"
        )
        results.append(at_most(name, median(times), STUDY_SECONDS[networks], "s", spread=spread(times)))
    return [*results, *_floor()]


def _floor() -> list[Result]:
    """Seconds of a study's factors and products alone, without networks and with them."""
    component, spotrf = gaussian_process.Component, lapack.spotrf
    with (
        patch.object(lapack, "spotrf", side_effect=spotrf) as factored,
        patch.object(component, "probability", autospec=True, side_effect=component.probability) as evaluated,
    ):
        _study(SOURCE, SOURCE)
    cells = len(factored.call_args_list[0].args[0])
    products = [(len(rows), *one.reduction.shape) for one, rows, _ in (call.args for call in evaluated.call_args_list)]
    rng = np.random.default_rng(0)
    well = np.eye(cells, dtype=np.float32) * cells + rng.random((cells, cells), np.float32)
    rows, reduction = rng.random(products[0][:2], np.float32), rng.random(products[0][1:], np.float32)
    layers = [rng.random(shape, np.float32) for shape in ((ATTRIBUTES, HIDDEN), (HIDDEN, HIDDEN))]
    inputs = [rng.random((3 * cells // 4 * RECORDS, len(weight)), np.float32) for weight in layers]

    def factors() -> None:
        for _ in factored.call_args_list:
            lapack.strtri(spotrf(well, lower=1)[0], lower=1)

    def evaluations() -> None:
        for _ in products:
            rows @ reduction

    def training() -> None:
        for _ in range(STEPS):
            for values, weight in zip(inputs, layers, strict=True):
                delta = values @ weight  # forward, and of a like size both gradients
                values.T @ delta
                delta @ weight.T

    parts = [min(_processor_seconds(part) for _ in range(3)) for part in (factors, evaluations, training)]
    note = f"{len(factored.call_args_list)} factors {parts[0]:.2g} s, evaluations {parts[1]:.2g} s"
    name = "its factors and products alone, 5000 source and private records, 25 attributes"
    return [
        Result(f"cells without networks, {name}", sum(parts[:2]), "s", note=note),
        Result(f"cells with networks, {name}", sum(parts), "s", note=f"{note}, training {parts[2]:.2g} s"),
    ]


def _scaling() -> list[Result]:
    """Times of a study against either size, and the slope of their logarithms over the last decade."""
    results = []
    for axis, shapes in (
        ("source records", [(size, SOURCE) for size in SIZES]),
        ("private records", [(SOURCE, size) for size in SIZES]),
    ):
        durations = [_study(*shape) for shape in shapes]
        slope = float(np.log(durations[-1] / durations[-2]) / np.log(SIZES[-1] / SIZES[-2]))
        note = ", ".join(f"{size}: {seconds:.3g} s" for size, seconds in zip(SIZES, durations, strict=True))
        results.append(at_most(f"cells end to end, exponent of the time in {axis}", slope, SLOPE, "", note=note))
    return results
