"""The strategy `selected-cells`: exact cost, what it asks, and cells of what was chosen."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from learner_fakes import NoNoise, federate, open_curator, ring, steward
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem
from learner_node.strategies.selected import candidates_of, restricted
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from limits_told import limits_with
from margins import surely_above
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute

ATTRIBUTES = (
    NumericAttribute("x", -2, 2),
    NumericAttribute("y", -2, 2),
    NumericAttribute("noise", 0, 1),
    CategoricalAttribute("letter", ("a", "b")),
)


def frame(count, seed):
    """A label that is told by x and y alone."""
    rng = np.random.default_rng(seed)
    return ring(count, seed=seed).with_columns(
        noise=rng.random(count), letter=pl.Series(np.where(rng.random(count) < 0.5, "a", "b"))
    )


def problem(**changes):
    source = encode_frame(frame(80, 3), steward(attributes=ATTRIBUTES).schema)
    known = {"epsilon": Fraction(1), "sites": 1, "target_size": 500, "most_records_per_unit": 1, "seed": 0}
    return Problem(source, **known | changes)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(7, 10), Fraction(1, 1000)])
@pytest.mark.parametrize("most", [1, 6])
@pytest.mark.parametrize("options", [{}, {"features": 2, "share": "1/3", "weights": [1, 3], "networks": False}])
def test_a_plan_costs_exactly_epsilon(options, most, epsilon):
    asked = problem(epsilon=epsilon, most_records_per_unit=most)
    plan = make_strategy("selected-cells", options).plan(asked)
    assert [head.kind for head in plan.heads] == ["statistic", "counts"]
    assert QUERY_KINDS.plan_cost(plan, most) == epsilon


def test_candidates_are_quarters_and_levels():
    bins = candidates_of(problem().source)
    assert [each.attribute for each in bins] == [each.name for each in ATTRIBUTES]
    assert [len(each.edges) for each in bins] == [3, 3, 3, 0]
    kept = restricted(problem().source, {"letter", "y"})
    assert [each.name for each in kept.schema.attributes] == ["y", "letter"]
    assert np.array_equal(kept.numeric[:, 0], problem().source.column("y"))


@pytest.mark.parametrize(
    "options", [{"features": 0}, {"share": 0}, {"weights": [1]}, {"weights": [1, 0]}, {"weights": "11"}]
)
def test_wrong_options_are_told(options):
    with pytest.raises(ConfigurationError):
        make_strategy("selected-cells", options)


def test_without_noise_the_telling_attributes_are_chosen_and_cells_are_of_those_alone():
    limits = limits_with(query_kinds=("counts", "statistic"))
    curators = {
        name: open_curator(name, frame(900, seed), noise=NoNoise(), limits=limits, attributes=ATTRIBUTES)
        for name, seed in (("basel", 1), ("bern", 2))
    }
    learned = learn(
        federate(curators),
        frame(300, 3).drop("sick"),
        Budget(1),
        strategy="selected-cells",
        options={"features": 2, "networks": False},
    )
    assert learned.study.spent("basel") == learned.epsilon_claimed == 1
    body = learned.study.rounds[1].bodies["basel"]
    assert isinstance(body, CountsBody)
    (cells,) = body.partitions
    assert {feature.attribute for feature in cells.features.features} == {"x", "y"}
    test = frame(500, 4)
    said = learned.model().probability(encode_frame(test, learned.schema)) > 0.5
    right = said == (test["sick"] == "yes").to_numpy()
    assert surely_above(right, 0.5 * (1 + (test["sick"] == "no").mean()))  # half of what the majority leaves, and more


def test_curators_that_do_not_allow_it_are_left_out():
    curators = {"basel": open_curator("basel", frame(200, 1), attributes=ATTRIBUTES)}
    with pytest.raises(ConfigurationError, match="does not allow this kind"):
        learn(federate(curators), frame(60, 3).drop("sick"), Budget(1), strategy="selected-cells")


def test_nothing_is_estimated_before_an_answer():
    with pytest.raises(RuntimeError, match="not every question was answered"):
        Conversation(make_strategy("selected-cells", {}), problem()).estimate  # noqa: B018
