"""Cases of regression: coefficients of a logistic model whose covariates are levels, so that its truth is its own.

It is a module of its own, as that of each sort of analysis, so that `cases` is a list of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lab.intervals.case import Case, PartCase
from lab.intervals.design import Condition
from lab.intervals.of_tables import Joint
from learner_node.analyses.part import Estimate
from learner_node.analyses.regression import Regression
from learner_node.analyses.regression_result import RegressionResult
from learner_node.analyses.regression_terms import Covariate
from protocol.schema import CategoricalAttribute, Schema

SEXES, STAGES = ("f", "m"), ("I", "II", "III")
SCHEMA = Schema((CategoricalAttribute("sex", SEXES), CategoricalAttribute("stage", STAGES)), "death", ("no", "yes"))
PART = Regression("risk", "logistic", (Covariate("sex"), Covariate("stage")), "death", "yes")
BASE = -1.5
COEFFICIENTS = {"sex m": 0.7, "stage II": 0.0, "stage III": 1.2}
COVARIATES = np.array([[0.3, 0.2, 0.05], [0.15, 0.2, 0.1]])
"""Shares of sex x stage, which hang together."""


def _joint() -> Joint:
    stages = np.array([0.0, COEFFICIENTS["stage II"], COEFFICIENTS["stage III"]])
    risk = expit(BASE + COEFFICIENTS["sex m"] * np.arange(2)[:, None] + stages)
    return Joint(("sex", "stage", "death"), COVARIATES[..., None] * np.stack([1.0 - risk, risk], -1))


@dataclass(frozen=True)
class _Rows:
    """Logarithms of the odds ratios of a result."""

    def __call__(self, result: RegressionResult) -> Iterator[tuple[str, Estimate]]:
        for row in result.rows:
            with np.errstate(divide="ignore"):
                low, high = float(np.log(row.population.low)), float(np.log(row.population.high))
            value = None if row.population.value is None else row.coefficient
            yield f"{row.covariate} {row.level}", Estimate(value, low, high, row.population.of, row.population.p)


def _test(result: RegressionResult) -> Iterator[tuple[str, float | None]]:
    for row in result.rows:
        if COEFFICIENTS[f"{row.covariate} {row.level}"] == 0.0:
            yield "coefficient of zero", row.population.p


def _few(_quantity: str, _of: str, condition: Condition) -> bool:
    return condition.size * condition.sites < 1_000


CASES: dict[str, Case] = {
    "logistic regression": Case(
        PartCase(PART, SCHEMA, _joint().draw, _Rows(), COEFFICIENTS, nulls=_test, coarse=_few), 400, 2
    )
}
