"""Cases of regression tables: each model, few and many covariates, a rare event, and a coefficient that is zero."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from lab.intervals.answers import Columns
from lab.intervals.case import Case, PartCase
from learner_node.analyses.part import Estimate
from learner_node.analyses.regression import Regression
from learner_node.analyses.regression_design import Calibration, all_points
from learner_node.analyses.regression_fit import fit
from learner_node.analyses.regression_result import RegressionResult
from learner_node.analyses.regression_terms import Covariate, Model, time_outcome
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

Floats = NDArray[np.float64]
CORRELATION = 0.3
SMALL = (2, 3, 4)
SLOPES = (0.7, 0.0, -0.5, 0.0, 0.3, 0.6)
MANY = (3,) * 7
MANY_SLOPES = (0.5, -0.3, 0.0, 0.0, 0.4, 0.8, -0.6, 0.2, 0.0, 0.5, 0.0, 0.0, 0.3, -0.4)
COUNTS = 9
HAZARD, CENSORING = 0.02, 0.01
HORIZON, INTERVALS = 50.0, 5


def copula(levels: Sequence[int], rng: np.random.Generator, size: int) -> NDArray[np.intp]:
    """Cells of covariates (size, d), even and correlated."""
    latent = np.sqrt(CORRELATION) * rng.standard_normal((size, 1))
    latent = latent + np.sqrt(1 - CORRELATION) * rng.standard_normal((size, len(levels)))
    cuts = [norm.ppf(np.arange(1, count) / count) for count in levels]
    return np.stack([np.searchsorted(cut, latent[:, index]) for index, cut in enumerate(cuts)], axis=1)


def indicators(levels: Sequence[int], cells: NDArray[np.intp]) -> Floats:
    """Design columns: each level but the first."""
    columns = [cells[:, [index]] == np.arange(1, count) for index, count in enumerate(levels)]
    return np.concatenate(columns, axis=1).astype(float)


def _draw(
    model: str, levels: Sequence[int], slopes: Sequence[float], intercept: float, rng: np.random.Generator, size: int
) -> Columns:
    """Independent records of a model that is true."""
    cells = copula(levels, rng, size)
    predictor = intercept + indicators(levels, cells) @ np.asarray(slopes)
    columns = {f"x{index}": cells[:, index].astype(float) for index in range(len(levels))}
    columns["y"] = np.zeros(size)
    columns["number"] = np.zeros(size)
    if model == "logistic":
        columns["y"] = (rng.random(size) < expit(predictor)).astype(float)
    elif model == "risk ratio":
        columns["y"] = (rng.random(size) < np.exp(predictor)).astype(float)
    elif model == "poisson":
        columns["number"] = np.minimum(rng.poisson(np.exp(predictor)), COUNTS - 1).astype(float)
    else:
        columns["number"] = rng.binomial(4, predictor).astype(float)
    return columns


def _schema(levels: Sequence[int]) -> Schema:
    names = tuple(f"x{index}" for index in range(len(levels)))
    attributes = [
        CategoricalAttribute(name, tuple(f"level {place}" for place in range(count)))
        for name, count in zip(names, levels, strict=True)
    ]
    return Schema((*attributes, NumericAttribute("number", -0.5, COUNTS - 0.5)), "y", ("no", "yes"))


def _rows(result: RegressionResult) -> Iterator[tuple[str, Estimate]]:
    for row in result.rows:
        yield f"{row.covariate} {row.level}", row.population
        yield f"{row.covariate} {row.level}", row.records


def _null_rows(truths: Mapping[str, float], null: float, result: Any) -> Iterator[tuple[str, float | None]]:
    for name, estimate in _rows(result):
        if truths[name] == null and estimate.of == "their population":
            yield f"{name} has no effect", estimate.p


def _names(levels: Sequence[int]) -> list[str]:
    return [f"x{index} level {place}" for index, count in enumerate(levels) for place in range(1, count)]


def of_model(model: str, levels: Sequence[int], slopes: Sequence[float], intercept: float) -> PartCase:
    """A model with true coefficients."""
    covariates = tuple(Covariate(f"x{index}") for index in range(len(levels)))
    part: Any
    family: Model = "poisson" if model == "risk ratio" else model  # type: ignore[assignment]
    if model in {"poisson", "linear"}:
        count = COUNTS if model == "poisson" else 5
        edges = tuple(place + 0.5 for place in range(count - 1))
        scores = tuple(map(float, range(count)))
        part = Regression("r", family, covariates, outcome="number", outcome_edges=edges, outcome_scores=scores)
    else:
        part = Regression("r", family, covariates, outcome="y")
    ratio = model != "linear"
    values = np.exp(slopes) if ratio else 4 * np.asarray(slopes)
    truths = dict(zip(_names(levels), map(float, values), strict=True))
    return PartCase(
        part,
        _schema(levels),
        partial(_draw, model, levels, slopes, intercept),
        _rows,
        truths,
        nulls=partial(_null_rows, truths, 1.0 if ratio else 0.0),
    )


TIME_LEVELS = (2, 3)
TIME_SLOPES = (0.7, 0.0, -0.5)
TIMES = Schema(
    tuple(
        CategoricalAttribute(f"x{index}", tuple(f"level {place}" for place in range(count)))
        for index, count in enumerate(TIME_LEVELS)
    ),
    "y",
    ("no", "yes"),
    outcomes=(NumericAttribute("time", 0.0, 1e4), CategoricalAttribute("status", ("alive", "dead"))),
    time_to_event=TimeToEvent("time", "status", "alive", bins=INTERVALS, horizon=HORIZON),
)


def _draw_times(rng: np.random.Generator, size: int) -> Columns:
    cells = copula(TIME_LEVELS, rng, size)
    hazard = HAZARD * np.exp(indicators(TIME_LEVELS, cells) @ np.asarray(TIME_SLOPES))
    event, censoring = rng.exponential(1 / hazard), rng.exponential(1 / CENSORING, size)
    return {
        **{f"x{index}": cells[:, index].astype(float) for index in range(len(TIME_LEVELS))},
        "time": np.minimum(np.minimum(event, censoring), 9e3),
        "status": (event <= censoring).astype(float),
        "y": np.zeros(size),
    }


def _time_truths() -> dict[str, float]:
    """The coefficients of the binned records' population: those of expected counts."""
    points = all_points(TIME_LEVELS)
    design = indicators(TIME_LEVELS, points)
    drawn = copula(TIME_LEVELS, np.random.default_rng(0), 2_000_000)
    shares = np.bincount(np.ravel_multi_index(tuple(drawn.T), TIME_LEVELS), minlength=len(points)) / len(drawn)
    hazard = HAZARD * np.exp(design @ np.asarray(TIME_SLOPES))
    total = hazard + CENSORING
    width = HORIZON / INTERVALS
    table = np.zeros((INTERVALS + 1, 2, len(points)))
    for interval in range(INTERVALS):
        leaves = np.exp(-total * width * interval) * -np.expm1(-total * width)
        table[interval] = leaves * np.stack([CENSORING / total, hazard / total])
    table[INTERVALS, 0] = np.exp(-total * HORIZON)
    sums = (table * shares * 1e9).reshape(-1, len(points))
    rows = time_outcome(TIMES, None).rows("hazards")
    solution = fit(rows, design, Calibration(points, sums, np.zeros(sums.shape)))
    return dict(zip(_names(TIME_LEVELS), map(float, np.exp(solution.coefficients[INTERVALS:])), strict=True))


def of_times() -> PartCase:
    """Proportional hazards."""
    part: Any = Regression("r", "hazards", tuple(Covariate(f"x{index}") for index in range(len(TIME_LEVELS))))
    return PartCase(part, TIMES, _draw_times, _rows, _time_truths())


CASES: dict[str, Case] = {
    "regression: logistic": Case(of_model("logistic", SMALL, SLOPES, -1.0), 2_000, 20),
    "regression: logistic, rare event": Case(of_model("logistic", (2, 3), (0.7, 0.0, -0.5), -3.0), 2_000, 20),
    "regression: logistic, seven covariates": Case(of_model("logistic", MANY, MANY_SLOPES, -1.0), 400, 5),
    "regression: linear": Case(of_model("linear", SMALL, tuple(0.2 * s for s in SLOPES), 0.4), 2_000, 20),
    "regression: Poisson": Case(of_model("poisson", SMALL, SLOPES, -1.0), 2_000, 20),
    "regression: risk ratio": Case(of_model("risk ratio", SMALL, SLOPES, -2.5), 2_000, 20),
    "regression: hazards": Case(of_times(), 2_000, 20),
}
