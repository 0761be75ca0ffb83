"""Cases of Table 1: numbers and levels by group, standardised differences, and tests of difference.

It is a module of its own, as that of each sort of analysis, so that the study is a list of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from scipy.stats import beta

from lab.intervals.answers import Columns, Values, count, draw_records, noise_of
from lab.intervals.case import COARSE_RECORDS, WHOLE_LINE, Case, Compared, Interval, TrueNull, of_estimate
from lab.intervals.design import Condition
from learner_node.analyses.attribute_difference import (
    Moments,
    level_test,
    number_difference,
    number_test,
    share_difference,
)
from learner_node.analyses.inference import holm
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import POPULATION, THESE, Estimate
from learner_node.analyses.shares import (
    BinnedNumber,
    NoisySum,
    deviation_interval,
    mean_interval,
    quantile_interval,
    share_estimate,
)
from learner_node.analyses.table_one import TableOne
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

UPPER, MISSING = 100.0, 0.1
EDGES = tuple(np.arange(10.0, UPPER, 10.0))
LEVELS = {"sex": ("female", "male"), "stage": ("I", "II", "III")}
SCHEMA = Schema(
    (
        NumericAttribute("age", 0.0, UPPER),
        *(CategoricalAttribute(name, levels) for name, levels in LEVELS.items()),
        CategoricalAttribute("arm", ("old", "new")),
    ),
    "label",
    ("no", "yes"),
)
ATTRIBUTES = ("age", *LEVELS)
QUESTIONS = TableOne("table", group="arm", attributes=ATTRIBUTES, edges={"age": EDGES}).questions(SCHEMA)
ENDS = np.array([0.0, *EDGES, UPPER])
MIDDLES = (ENDS[1:] + ENDS[:-1]) / 2
QUARTILES = {"first quartile": 0.25, "median": 0.5, "third quartile": 0.75}


@dataclass(frozen=True)
class Groups:
    """Two groups: a number that is a beta variable, and levels."""

    share: float  # of the second group
    ages: tuple[tuple[float, float], tuple[float, float]]  # shapes of each group
    levels: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]  # attribute -> shares in each group

    def draw(self, rng: np.random.Generator, size: int) -> Columns:
        """Independent records; one age in ten is missing."""
        arm = (rng.random(size) < self.share).astype(int)
        age = UPPER * rng.beta(*np.asarray(self.ages)[arm].T)
        columns = {"arm": arm.astype(float), "age": np.where(rng.random(size) < MISSING, np.nan, age)}
        for name, shares in self.levels.items():
            ends = np.cumsum(np.asarray(shares), axis=1)[arm, :-1]
            columns[name] = (rng.random(size)[:, None] > ends).sum(1).astype(float)
        return columns

    @property
    def alike(self) -> bool:
        """Whether no attribute depends on the group."""
        return self.ages[0] == self.ages[1] and all(first == second for first, second in self.levels.values())

    def moments(self, group: int) -> tuple[float, float]:
        """Mean and variance of the middles of the bins."""
        masses = np.diff(beta.cdf(ENDS / UPPER, *self.ages[group]))
        mean = float(masses @ MIDDLES)
        return mean, float(masses @ (MIDDLES - mean) ** 2)

    @cached_property
    def truths(self) -> dict[str, float]:
        """By quantity, of the first group."""
        (mean, variance), (other, spread) = self.moments(0), self.moments(1)
        truths = {"mean": mean, "standard deviation": variance**0.5, "age, missing": MISSING}
        truths |= {name: UPPER * float(beta.ppf(share, *self.ages[0])) for name, share in QUARTILES.items()}
        truths["age, standardised difference"] = (mean - other) / ((variance + spread) / 2) ** 0.5
        p, q = (shares[0] for shares in self.levels["sex"])
        truths["sex, standardised difference"] = (p - q) / ((p * (1 - p) + q * (1 - q)) / 2) ** 0.5
        truths |= {
            f"share of stage {level}": share
            for level, share in zip(LEVELS["stage"], self.levels["stage"][0], strict=True)
        }
        return truths


def _compared(groups: Groups, condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """What `TableOne.read` says of the first group, and of how both differ."""
    sites = [draw_records(groups.draw, condition, rng) for _ in range(condition.sites)]
    most = condition.most_records_per_unit
    noise = noise_of(condition, share=Fraction(1, len(ATTRIBUTES)))
    exact = [
        np.sum([count(question, columns, SCHEMA)[0] for columns in sites], axis=0)[:, :2] for question in QUESTIONS
    ]
    age, sex, stage = (table + noise.simulate(rng, table.shape) for table in exact)
    numbers = [BinnedNumber(age[:-1, column], MIDDLES, ENDS, noise, most) for column in (0, 1)]
    moments = [
        Moments(
            Estimate(number.mean, *mean_interval(number, POPULATION), POPULATION),
            Estimate(number.variance and number.variance**0.5, *deviation_interval(number, POPULATION), POPULATION),
        )
        for number in numbers
    ]
    estimates = {"mean": moments[0].mean, "standard deviation": moments[0].deviation}
    for name, share in QUARTILES.items():
        estimates[name] = Estimate(*quantile_interval(numbers[0], share, POPULATION), POPULATION)
    for name, column, place in (("age, missing", age[:, 0], -1), *_stages(stage[:, 0])):
        inside = NoisySum(float(column[place]), 1)
        outside = NoisySum(float(column.sum() - column[place]), len(column) - 1)
        estimates[name] = share_estimate(inside, outside, noise, most)
    estimates["age, standardised difference"] = number_difference(*moments)
    women = [
        share_estimate(NoisySum(sex[0, k], 1), NoisySum(float(sex[1:-1, k].sum()), len(sex) - 2), noise, most)
        for k in (0, 1)
    ]
    estimates["sex, standardised difference"] = share_difference(*women)
    for name, estimate in estimates.items():
        room, coarse = _range(name), _coarse(name, condition)
        yield of_estimate(name, estimate, groups.truths[name], room, coarse=coarse)
    if exact[0][:-1, 0].sum() > 0:
        true = BinnedNumber(exact[0][:-1, 0], MIDDLES, ENDS, NoiseLaw(0.0)).mean or 0.0
        yield Interval("mean, these records", *mean_interval(numbers[0], THESE), true, (0.0, UPPER), coarse=True)
    if groups.alike:
        tests = {"age": number_test(age[:-1], MIDDLES, noise, most)}
        tests |= {"sex": level_test(sex[:-1], noise, most), "stage": level_test(stage[:-1], noise, most)}
        yield from (TrueNull(f"{name} by group", test.p) for name, test in tests.items())
        adjusted = [p for p in holm([test.p for test in tests.values()]) if p is not None]
        yield TrueNull("any of the three, Holm", min(adjusted, default=None))


def _stages(column: Values) -> Iterator[tuple[str, Values, int]]:
    """A common and a rare level, of records that are not missing."""
    yield from ((f"share of stage {LEVELS['stage'][place]}", column[:-1], place) for place in (0, 2))


def _range(quantity: str) -> tuple[float, float]:
    if "share" in quantity or "missing" in quantity:
        return 0.0, 1.0
    if "difference" in quantity:
        return WHOLE_LINE
    return (0.0, UPPER / 2) if quantity == "standard deviation" else (0.0, UPPER)


def _coarse(quantity: str, condition: Condition) -> bool:
    """Quartiles end at edges; few records, and an interval that joins others, cover more than they must."""
    noise = condition.draws * 2 * (condition.most_records_per_unit / float(condition.fraction)) ** 2
    few = condition.size * condition.sites < 1_000 * condition.most_records_per_unit
    return few or "difference" in quantity or quantity in QUARTILES or noise < COARSE_RECORDS**2


POPULATIONS = {
    "groups alike": Groups(0.4, ((2, 4), (2, 4)), {"sex": ((0.3, 0.7),) * 2, "stage": ((0.6, 0.37, 0.03),) * 2}),
    "groups differ": Groups(
        0.7, ((2, 2), (4, 2)), {"sex": ((0.2, 0.8), (0.5, 0.5)), "stage": ((0.2, 0.3, 0.5), (0.5, 0.4, 0.1))}
    ),
}


CASES: dict[str, Case] = {
    f"Table 1: {name}": Case(partial(_compared, groups), 400, 2) for name, groups in POPULATIONS.items()
}
