"""Every kind of part computes from the answers as they came: negative cells count, and no part clamps them first."""

from fractions import Fraction

import numpy as np
import pytest

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.parts import PART_KINDS, read_parts
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

SCHEMA = Schema(
    (NumericAttribute("age", 0, 120), CategoricalAttribute("arm", ("old", "new"))),
    "died",
    ("no", "yes"),
    outcomes=(NumericAttribute("days", 0, 100), CategoricalAttribute("exit", ("alive", "dead"))),
    time_to_event=TimeToEvent("days", "exit", "alive", bins=4, horizon=80),
)
PLAN = {
    "counts": {"by": ["age", "arm"], "edges": {"age": [40, 60]}},
    "table_one": {"group": "died", "attributes": ["age", "arm"], "edges": {"age": [40, 60]}},
    "effects": {"exposure": "arm", "exposed": "new", "reference": "old", "outcome": "died", "event": "yes"},
    "survival": {"group": "arm"},
    "regression": {
        "model": "logistic",
        "outcome": "died",
        "event": "yes",
        "covariates": [{"variable": "arm"}, {"variable": "age", "edges": [40, 60]}],
    },
}


def numbers(value):
    """All numbers of what a result writes as JSON, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def result(part, change):
    """The part's result for answers around 40 records in each cell of declared values, but -7 in the first."""
    rng, tables = np.random.default_rng(5), []
    for question in part.questions(SCHEMA):
        axes = tuple(Axis.of(bins, SCHEMA) for bins in question.factors)
        exact = np.zeros(tuple(map(len, axes)))
        exact[tuple(slice(axis.proper) for axis in axes)] = 40
        noise = NoiseLaw(6.0, 2.0)
        answer = exact + noise.simulate(rng, exact.shape)
        answer.flat[0] = -7
        tables.append(NoisyTable(axes, change(answer), noise, sites=2))
    return part.read(TableAnswers(SCHEMA, Fraction(1), tables, {}))


@pytest.mark.parametrize("kind", sorted(PART_KINDS))
def test_a_clamp_before_reading_would_give_other_numbers(kind):
    """Were cells below zero lifted before, estimates and intervals would be the same with this lift and without."""
    (part,) = read_parts([{"kind": kind, "name": "part", **PLAN[kind]}], where="test")
    raw = numbers(result(part, lambda answer: answer).to_builtins())
    clamped = numbers(result(part, lambda answer: np.maximum(answer, 0.0)).to_builtins())
    assert raw
    assert raw != clamped
