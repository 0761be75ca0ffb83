"""Strategy `additive` with real curators: what it asks and costs, which attributes, and what its model adds up."""

import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_fakes import NoNoise, key
from learner_node.estimator import ExPriLClassifier
from learner_node.models.label_model.additive import BAND
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Problem
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from limits_told import limits_with
from margins import DEVIATIONS
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.limits import Limits
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.carriers.direct import direct_federation

ADMISSIONS = np.array([-0.9, 0.2, 0.9, 1.6])
SCHEMA = Schema(
    (
        NumericAttribute("admissions", 0, 20),
        NumericAttribute("age", 0, 120),
        CategoricalAttribute("ward", ("medicine", "surgery")),
        NumericAttribute("shoe size", 20, 60),
        NumericAttribute("constant", 0, 2),
    ),
    "back",
    ("no", "yes"),
)


def patients(n, seed):
    """Who comes back hangs on earlier admissions (log-odds `ADMISSIONS`), a little on the ward, on nothing else."""
    rng = np.random.default_rng(seed)
    admissions = np.minimum(rng.geometric(0.5, n) - 1, 3)
    surgery = rng.random(n) < 0.4
    odds = ADMISSIONS[admissions] - 0.8 * surgery
    return pl.DataFrame(
        {
            "admissions": admissions,
            "age": np.round(rng.normal(65, 15, n).clip(0, 120)),
            "ward": np.where(surgery, "surgery", "medicine"),
            "shoe size": rng.normal(41, 3, n),
            "constant": np.ones(n),
            "back": np.where(rng.random(n) < expit(odds), "yes", "no"),
        }
    )


def curators(*, sites=2, each=2500, limits=None, noise=None):
    """Curators of patients, who answer by direct calls."""
    held = {}
    for number in range(sites):
        name = f"site {number}"
        policy = Policy(
            name=name,
            cap="100",
            learners=(LearnerPolicy(name="ann", key=key("ann").public.hex(), cap="100"),),
            limits=limits or Limits(),
        )
        file = SchemaFile(label="back", classes=SCHEMA.classes, attributes=SCHEMA.attributes, round_size=each)
        held[name] = temporary_site(patients(each, number), file, policy, noise=noise)
    return direct_federation(held, key("ann"))


def study(options=None, *, epsilon=Fraction(1), **told):
    return learn(
        curators(**told), patients(1500, 99).drop("back"), Budget(epsilon), strategy="additive", options=options or {}
    )


def shapes(learned):
    return {shape.attribute: shape for shape in learned.model().shape_functions}


@pytest.fixture(scope="module")
def learned():
    return study()


def test_one_question_over_the_attributes_that_vary(learned):
    (done,) = learned.study.rounds
    assert [partition.attribute for partition in done.bodies["site 0"].partitions] == [
        "admissions",
        "age",
        "ward",
        "shoe size",
    ]
    (planned,) = QUERY_KINDS.queries(learned.study.plan)
    assert planned.scale.fraction == 4
    assert learned.study.spent("site 0") == 1


def test_its_shapes_are_the_truths_and_in_the_order_of_strength(learned):
    found = shapes(learned)
    assert list(found)[:2] == ["admissions", "ward"]
    admissions = found["admissions"]
    assert admissions.numeric
    assert [one.label for one in admissions.bins][:3] == ["0", "1", "2"]
    assert [(one.low, one.high) for one in admissions.bins] == [(None, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, None)]
    share = np.array([one.share for one in admissions.bins])
    assert share == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=DEVIATIONS * np.sqrt(0.25 / 5000))
    truth = ADMISSIONS - share @ ADMISSIONS
    for one, wanted in zip(admissions.bins, truth, strict=True):
        deviation = (one.upper - one.lower) / (2 * BAND)
        # 5,000 records tell no log-odds better than this; with noise, six times what the 625 of the rarest bin tell.
        assert 2 / np.sqrt(5000) < deviation < 6 * 2 / np.sqrt(625)
        assert abs(one.log_odds - wanted) < DEVIATIONS * deviation
    assert [one.label for one in found["ward"].bins] == ["medicine", "surgery"]
    assert found["shoe size"].strength < found["ward"].strength
    for one in found["shoe size"].bins:
        assert abs(one.log_odds) < DEVIATIONS * (one.upper - one.lower) / (2 * BAND)


def test_its_model_is_pickled_and_predicts_the_same(learned):
    records = encode_frame(patients(50, 5), SCHEMA)
    copy = pickle.loads(pickle.dumps(learned.model()))
    assert copy.probability(records).tolist() == learned.model().probability(records).tolist()
    assert copy.shape_functions == learned.model().shape_functions


def test_unseen_levels_and_missing_values_have_a_probability(learned):
    odd = pl.DataFrame({"admissions": [None], "age": [None], "ward": ["cellar"], "shoe size": [None], "constant": [1]})
    (found,) = learned.model().probability(encode_frame(odd, SCHEMA))
    assert expit(min(ADMISSIONS) - 0.8) < found < expit(max(ADMISSIONS))  # between what records can have


def test_named_attributes_are_the_only_ones_asked_and_have_less_noise():
    named = study({"attributes": ["ward", "admissions"]})
    (done,) = named.study.rounds
    assert [partition.attribute for partition in done.bodies["site 0"].partitions] == ["ward", "admissions"]
    (planned,) = QUERY_KINDS.queries(named.study.plan)
    assert planned.scale.fraction == 2
    assert set(shapes(named)) == {"ward", "admissions"}


def test_a_share_of_the_budget_chooses_those_that_say_something():
    chosen = study({"choice_share": "1/4", "chosen": 2}, epsilon=Fraction(2), noise=NoNoise())
    first, second = chosen.study.rounds
    assert len(first.bodies["site 0"].partitions) == 4
    assert [partition.attribute for partition in second.bodies["site 0"].partitions] == ["admissions", "ward"]
    assert [planned.scale.fraction for planned in QUERY_KINDS.queries(chosen.study.plan)] == [8, Fraction(4, 3)]
    assert chosen.study.spent("site 0") == 2
    assert set(shapes(chosen)) == {"admissions", "age", "ward", "shoe size"}


def test_where_all_would_be_chosen_one_question_is_asked():
    plan = make_strategy("additive", {"choice_share": "1/4", "chosen": 4}).plan(problem())
    assert len(plan.queries) == 1


def problem(**changes):
    known = {
        "source": encode_frame(patients(300, 99), SCHEMA),
        "epsilon": Fraction(1),
        "sites": 1,
        "target_size": 2000,
        "most_records_per_unit": 1,
        "seed": 0,
    }
    return Problem(**known | changes)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attributes": ["wart"]}, "no attribute 'wart'.*ward"),
        ({"attributes": ["back"]}, "'back' is the label"),
        ({"attributes": "ward"}, "list of names"),
        ({"attributes": []}, "at least one"),
        ({"attributes": ["ward", "ward"]}, "none twice"),
        ({"attributes": ["ward"], "choice_share": 0.5}, "none to choose"),
        ({"choice_share": 1}, "below 1"),
        ({"chosen": 0}, "whole number"),
        ({"bins": 0}, "whole number"),
        ({"attribute": ["ward"]}, "no option 'attribute'.*attributes"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_asked(options, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        make_strategy("additive", options).plan(problem())


def test_bins_keep_to_what_curators_allow():
    few = study({"bins": 10}, limits=limits_with(cells=20))
    (done,) = few.study.rounds
    assert sum(partition.cell_count(SCHEMA) for partition in done.bodies["site 0"].partitions) <= 20


def test_the_estimator_holds_the_model_and_says_no_accuracy():
    model = ExPriLClassifier(curators(), epsilon=1, strategy="additive", random_state=0)
    model.fit(patients(800, 7).drop("back"))
    assert model.models_[""].shape_functions[0].attribute == "admissions"
    assert model.accuracy_estimate_ is None
    assert model.synthetic_data()["weight"].sum() == pytest.approx(5000, rel=0.1)
