"""A learner trains on the synthetic records of several curators: a whole study of a strategy that asks for them."""

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy.spatial import KDTree

from learner_fakes import account, federate, open_curator, ring
from learner_node.strategies import STRATEGIES
from learner_node.strategies.base import SourceEstimate
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds.sample import PlannedSample, SampleBody
from protocol.limits import Limits
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.record_frames import encode_frame, encode_labels

AXES = (NumberAxis("x", -2, 2, 12), NumberAxis("y", -2, 2, 12), LevelAxis("sick"))
EPSILON, RECORDS = Fraction(1), 40


class Neighbours:
    """Nearest synthetic records."""

    def __init__(self, records, labels):
        self._tree, self._labels = KDTree(records.numeric), labels

    def probability(self, records):
        return self._labels[self._tree.query(records.numeric, 5)[1]].mean(axis=1)


class Synthetic:
    """Asks for records once, and keeps the table that came."""

    tables: ClassVar = []

    def plan(self, problem):
        each = Rational.of(problem.epsilon / RECORDS)
        told = {"learner": "naive_bayes", "examples": 500}
        return Plan.of([PlannedSample(records=RECORDS, epsilon=each, axes=AXES, **told)])

    def run(self, problem):
        (answer,) = yield SampleBody(), None
        table = answer.frame()
        self.tables.append((answer.sites, table))
        labels = encode_labels(table["sick"], problem.source.schema.classes)
        model = Neighbours(encode_frame(table, problem.source.schema), labels.astype(float))
        said = model.probability(problem.source)
        return model, SourceEstimate(np.ones(len(said)), said)


def test_a_learner_trains_on_the_records_of_all_curators(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "synthetic", Synthetic)
    monkeypatch.setattr(Synthetic, "tables", [])
    limits = Limits(kinds={"sample": {}})
    curators = {name: open_curator(name, limits=limits) for name in ("basel", "bern")}
    learned = learn(federate(curators), ring(30, 5).drop("sick"), Budget(EPSILON), strategy="synthetic")
    ((sites, table),) = Synthetic.tables
    assert (sites, table.height, table.columns) == (2, 2 * RECORDS, ["x", "y", "sick"])
    assert table["x"].is_between(-2, 2).all()
    said = learned.model().probability(encode_frame(ring(50, 9), learned.schema))
    assert ((said >= 0) & (said <= 1)).all()
    assert [account(curator).total_spent for curator in curators.values()] == [EPSILON] * 2


def test_a_plan_without_counts_is_not_foreseen():
    """A quote says so plainly."""
    from learner_node.kinds import READERS
    from protocol.errors import ConfigurationError
    from protocol.query_kind import Turn

    planned = PlannedSample(records=1, epsilon=Rational(1, 1), axes=AXES)
    with pytest.raises(ConfigurationError, match="cannot be foreseen"):
        READERS["sample"].rehearse(SampleBody(), Turn(planned), None, None, 1, None)
