"""Generalised linear models from noisy tables: estimating equations, and their variance of sampling and of noise.

A model has *rows*: one for most, one a stratum or an interval of time where each has an intercept of its own. A record
of outcome cell o adds (response - exposure * mean) to each row, times the row's design vector. Summed over records
that is linear in the answers once a coefficient vector is chosen (`regression_design.Calibration`). So its noise is
known exactly there, and the estimate is where the sum vanishes (M-estimation, Stefanski and Boos 2002): the noise of
the design enters as that of the outcome does, and shrinks no coefficient.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.regression_design import Calibration

Floats = NDArray[np.float64]
Link = Literal["identity", "logit", "log"]

_MOST_STEPS = 40
_LARGEST = 25.0
"""A coefficient beyond is a separation: exp(25) is 7e10."""
_TILTS = 2
"""Times that the reference of later intervals is made anew, of those who are still there by the last solution."""
LIMIT = 0.25
"""Largest noise in the information on a coefficient, relative to it, with which the coefficient is estimated."""


@dataclass(frozen=True)
class Rows:
    """What a record of each outcome cell adds to each row."""

    link: Link
    response: Floats  # (T, K)
    exposure: Floats  # (T, K), not negative
    periods: int = 1  # each so many rows are successive intervals of time, at whose ends the exposed are fewer

    @property
    def count(self) -> int:
        """Number of rows T, each with an intercept."""
        return len(self.response)


@dataclass(frozen=True)
class Fit:
    """Coefficients with their covariance. Without a solution `estimable` is false everywhere."""

    coefficients: Floats  # (T + P,): intercepts of the rows, then of the design's columns; nan without a solution
    covariance: Floats  # of sampling and noise
    noise_covariance: Floats  # of the noise alone
    noise_kurtosis: Floats  # (T + P,): excess, of the noise in each coefficient
    estimable: NDArray[np.bool_]  # (T + P,)
    information_noise: Floats  # (T + P,): relative noise in what the answers tell of each coefficient; inf if unknown
    records: float  # noisy number of records that count
    residual_degrees: float  # records less the number of coefficients, at least 1


def _mean(link: Link, predictor: Floats) -> tuple[Floats, Floats]:
    """The mean and its derivative at a linear predictor."""
    if link == "identity":
        return predictor, np.ones_like(predictor)
    if link == "log":
        mean = np.exp(np.minimum(predictor, 50.0))
        return mean, mean
    mean = 1 / (1 + np.exp(-np.clip(predictor, -50.0, 50.0)))
    return mean, mean * (1 - mean)


class _Equations:
    """The estimating equations of one model and one set of answers."""

    def __init__(self, rows: Rows, design: Floats, answers: Calibration, tilts: Floats | None = None) -> None:
        self.rows, self.answers = rows, answers
        # The reference of each row: of those who are exposed in it.
        self.calibrations = (
            [answers] * rows.count if tilts is None else [answers.tilted(tilts[row]) for row in range(rows.count)]
        )
        self.design = np.column_stack([np.ones(len(design)), design])  # (N, 1 + P)
        self.columns = self.design.shape[1] - 1
        self.size = rows.count + self.columns
        self.design_coefficients = answers.coefficients(self.design)  # (q, 1 + P)
        self.responses = (rows.response @ answers.sums) @ self.design_coefficients  # (T, 1 + P)
        exposures = rows.exposure @ answers.sums
        self.weights = np.stack(
            [calibration.weights(exposures[row]) for row, calibration in enumerate(self.calibrations)]
        )  # (T, N)

    def place(self, row: int) -> NDArray[np.intp]:
        """Numbers of a row's coefficients: its intercept and those of the design."""
        return np.concatenate([[row], np.arange(self.rows.count, self.size)]).astype(np.intp)

    def at(self, coefficients: Floats) -> tuple[Floats, Floats]:
        """The equations' values (T + P,) and minus their derivative (T + P, T + P)."""
        value, slope = np.zeros(self.size), np.zeros((self.size, self.size))
        for row in range(self.rows.count):
            place = self.place(row)
            mean, change = _mean(self.rows.link, self.design @ coefficients[place])
            value[place] += self.responses[row] - (self.weights[row] * mean) @ self.design
            slope[np.ix_(place, place)] += (self.design * (self.weights[row] * change)[:, None]).T @ self.design
        return value, slope

    def start(self) -> Floats:
        """Intercepts that fit each row without the design's columns."""
        coefficients = np.zeros(self.size)
        for row in range(self.rows.count):
            total = max(self.weights[row].sum(), 1.0)
            share = self.responses[row, 0] / total
            if self.rows.link == "identity":
                coefficients[row] = share
            elif self.rows.link == "log":
                coefficients[row] = np.log(max(share, 0.5 / total))
            else:
                share = min(max(share, 0.5 / total), 1 - 0.5 / total)
                coefficients[row] = np.log(share / (1 - share))
        return coefficients

    def tilts(self, coefficients: Floats) -> Floats:
        """How likely who has a point's covariates is to be exposed in the middle of each row's interval, (T, N)."""
        tilts = np.ones((self.rows.count, len(self.design)))
        for row in range(self.rows.count):
            if row % self.rows.periods == 0:
                hazard = np.zeros(len(self.design))
            mean, _ = _mean("log", self.design @ coefficients[self.place(row)])
            step = mean * self.rows.exposure[row].max()
            tilts[row] = np.exp(-np.minimum(hazard + step / 2, 30.0))
            hazard = hazard + step
        return tilts

    def solve(self) -> Floats | None:
        """Where the equations vanish; None where Newton's steps find no such place."""
        coefficients = self.start()
        value, slope = self.at(coefficients)
        for _ in range(_MOST_STEPS):
            try:
                step = np.linalg.solve(slope, value)
            except np.linalg.LinAlgError:
                return None
            largest = np.abs(step).max()
            if not np.isfinite(largest):
                return None
            if self.rows.link != "identity":
                step *= min(1.0, 2.0 / max(largest, 1e-300))
            coefficients = coefficients + step
            if self.rows.link != "identity" and np.abs(coefficients[self.rows.count :]).max(initial=0) > _LARGEST:
                return None
            value, slope = self.at(coefficients)
            if largest < 1e-9 * max(1.0, np.abs(coefficients).max()):
                return coefficients
        return None

    def record_sums(self, coefficients: Floats) -> Floats:
        """Coefficients (K, q, T + P) of the equations on the sums of each outcome cell."""
        rows = self.rows
        parts = np.zeros((rows.response.shape[1], self.answers.sums.shape[1], self.size))
        for row in range(rows.count):
            place = self.place(row)
            mean, _ = _mean(rows.link, self.design @ coefficients[place])
            expected = self.calibrations[row].coefficients(self.design * mean[:, None])
            for cell in np.flatnonzero((rows.response[row] != 0) | (rows.exposure[row] != 0)):
                parts[cell][:, place] += (
                    rows.response[row, cell] * self.design_coefficients - rows.exposure[row, cell] * expected
                )
        return parts

    def noise(self, coefficients: Floats, inverse: Floats) -> tuple[Floats, Floats]:
        """Covariance of the noise in the coefficients, and its excess kurtosis in each, (T + P,)."""
        total, fourth = np.zeros((self.size, self.size)), np.zeros(self.size)
        if self.answers.variances.any():
            for part, variances in zip(self.record_sums(coefficients), self.answers.variances, strict=True):
                moved = part @ inverse.T
                total += moved.T @ (variances[:, None] * moved)
                fourth += self.answers.kurtosis * (variances**2 @ moved**4)
        return total, fourth / np.maximum(np.diag(total), 1e-150) ** 2

    def sampling(self, coefficients: Floats) -> Floats:
        """Covariance of the equations over samples of records: sum of their squares (White 1980).

        With blocks a record adds to the equations as far as pairs tell, not its own residual; that is squared.
        """
        rows = self.rows
        total = np.zeros((self.size, self.size))
        if self.answers.features is not None:
            for cell, part in enumerate(self.record_sums(coefficients)):
                if part.any():
                    used = np.flatnonzero((rows.response[:, cell] != 0) | (rows.exposure[:, cell] != 0))
                    weights = self.calibrations[int(used[-1])].weights(self.answers.sums[cell])
                    terms = self.answers.features @ part
                    total += (terms * weights[:, None]).T @ terms
            return total
        predicted = [_mean(rows.link, self.design @ coefficients[self.place(row)])[0] for row in range(rows.count)]
        for cell in range(rows.response.shape[1]):
            used = np.flatnonzero((rows.response[:, cell] != 0) | (rows.exposure[:, cell] != 0))
            if not used.size:
                continue
            weights = self.calibrations[int(used[-1])].weights(self.answers.sums[cell])
            residuals = np.stack([rows.response[row, cell] - rows.exposure[row, cell] * predicted[row] for row in used])
            residual_sum = residuals.sum(axis=0)
            slopes = self.design[:, 1:] * residual_sum[:, None]
            block = np.arange(rows.count, self.size)
            total[np.ix_(block, block)] += (slopes * weights[:, None]).T @ slopes
            across = (residuals * weights) @ slopes
            total[np.ix_(used, block)] += across
            total[np.ix_(block, used)] += across.T
            total[np.ix_(used, used)] += (residuals * weights) @ residuals.T
        return total

    def dispersion(self, coefficients: Floats, degrees: float) -> float:
        """Variance of the residuals of a linear model, with noise of mean 0."""
        total = 0.0
        for row in range(self.rows.count):
            mean = self.design @ coefficients[self.place(row)]
            for cell in np.flatnonzero(self.rows.exposure[row]):
                weights = self.answers.weights(self.answers.sums[cell])
                total += float(weights @ (self.rows.response[row, cell] - mean) ** 2)
        return total / degrees

    def information_noise(self, coefficients: Floats, inverse: Floats) -> Floats:
        """Standard deviation of the noise in the information on each coefficient, relative to that information."""
        directions = inverse  # the direction in which only one equation changes
        exposures = [row.nonzero()[0] for row in self.rows.exposure]
        variance = np.zeros(self.size)
        parts: dict[int, Floats] = {}
        for row, cells in enumerate(exposures):
            place = self.place(row)
            _, change = _mean(self.rows.link, self.design @ coefficients[place])
            moved = self.calibrations[row].coefficients((self.design @ directions[place]) ** 2 * change[:, None])
            for cell in cells:
                parts[int(cell)] = parts.get(int(cell), 0.0) + self.rows.exposure[row, cell] * moved
        for cell, part in parts.items():
            variance += self.answers.variances[cell] @ part**2
        information = np.diag(inverse)
        relative = np.full(self.size, np.inf)
        positive = information > 0
        relative[positive] = np.sqrt(variance[positive]) / information[positive]
        return relative


def fit(rows: Rows, design: Floats, answers: Calibration, *, most_records: int = 1, limit: float = LIMIT) -> Fit:
    """Fit a model to answers.

    Args:
        rows: responses and exposures of the K outcome cells.
        design: columns of the covariates (N, P) at the calibration's points, without an intercept.
        answers: the sums (K, q) of the records.
        most_records: records of a unit, by which the variance of sampling is multiplied as a bound.
        limit: largest relative noise of the information with which a coefficient is estimated.

    The variance of sampling is the larger one of the model's and the sandwich's, coefficient by coefficient: the
    first holds with few records, the second where the model is wrong.
    """
    equations = _Equations(rows, design, answers)
    size = equations.size
    total = float(equations.weights.sum(axis=1).max()) if rows.count else 0.0
    records = float(answers.weights(answers.sums.sum(axis=0)).sum())
    degrees = max(records - size, 1.0)
    nothing = Fit(
        np.full(size, np.nan),
        np.full((size, size), np.inf),
        np.full((size, size), np.inf),
        np.zeros(size),
        np.zeros(size, bool),
        np.full(size, np.inf),
        records,
        degrees,
    )
    if total <= 0:
        return nothing
    solution = equations.solve()
    for _ in range(_TILTS if rows.periods > 1 and answers.features is not None else 0):
        if solution is not None:
            equations = _Equations(rows, design, answers, equations.tilts(solution))
            solution = equations.solve()
    if solution is None:
        return nothing
    _, slope = equations.at(solution)
    try:
        inverse: Floats = np.linalg.inv(slope).astype(np.float64)
    except np.linalg.LinAlgError:
        return nothing
    noise, kurtosis = equations.noise(solution, inverse)
    dispersion = max(equations.dispersion(solution, degrees), 0.0) if rows.link == "identity" else 1.0
    model = dispersion * _nonnegative(slope)
    model = inverse @ model @ inverse.T
    sandwich = inverse @ _nonnegative(equations.sampling(solution)) @ inverse.T * (records / degrees)
    sampling = most_records * _larger(model, sandwich)
    relative = equations.information_noise(solution, inverse)
    covariance = sampling + noise
    variances = np.diag(covariance)
    estimable = (relative <= limit) & np.isfinite(variances) & (variances > 0)
    return Fit(solution, covariance, noise, kurtosis, estimable, relative, records, degrees)


def _nonnegative(matrix: Floats) -> Floats:
    """The nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= 0:
        return matrix
    nearest: Floats = (vectors * np.maximum(values, 0)) @ vectors.T
    return nearest


def _larger(first: Floats, second: Floats) -> Floats:
    """The first matrix, its rows and columns stretched so that its diagonal is at least the second's."""
    stretch = np.sqrt(np.maximum(np.diag(second) / np.maximum(np.diag(first), 1e-300), 1.0))
    stretched: Floats = first * np.outer(stretch, stretch)
    return stretched
