"""Strategies: exact cost, what they ask, and that they learn where there is no noise."""

import itertools
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from learner_fakes import NoNoise, federate, open_curator, ring, steward
from learner_node.kinds import READERS
from learner_node.models.source import even_bins
from learner_node.strategies import STRATEGIES, make_strategy
from learner_node.strategies import paper as paper_module
from learner_node.strategies.base import Conversation, Problem
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.study import NoCuratorError
from limits_told import limits_with
from margins import DEVIATIONS, surely_above
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.record_frames import encode_frame, encode_labels
from protocol.release_kinds import RELEASE_KINDS
from simulations.kinds import SIMULATED_ANSWERERS, SIMULATED_READERS
from simulations.paper_ratio import SIMULATED_KINDS

SETTINGS = [
    ("additive", {}),
    ("additive", {"attributes": ["y"], "bins": 4}),
    ("additive", {"choice_share": "1/3", "chosen": 1}),
    ("cells", {}),
    ("cells", {"cells": 9}),
    ("cells", {"same_population": True}),
    ("cells", {"networks": False, "mass_share": "1/4"}),
    ("cells", {"networks": False, "mass_share": 0}),
    ("paper-c", {}),
    ("paper-c", {"rounds": 1}),
    ("paper-i", {"rounds": 5}),
    ("paper-c", {"rounds": 3, "reweight": False}),
    ("paper-c", {"weighting": "tilt"}),
    ("importance", {}),
    ("importance", {"bins": 3, "hidden": [4]}),
    ("paper-i", {"printed": True}),
    ("random-subsets", {}),
    ("random-subsets", {"rounds": 3, "features": 1, "shares": [1, 2, "1/3"]}),
    ("informative", {}),
    ("informative", {"pairs": 2, "shares": [1, 1]}),
    ("varying-bins", {}),
    ("varying-bins", {"cells": True, "rounds": 3}),
    ("new-features", {}),
    ("new-features", {"score": True, "hidden": [4], "shares": [2, 1]}),
    ("adaptive-cells", {}),
    ("adaptive-cells", {"tree": True, "rounds": 3, "shares": [3, 2, 1]}),
]
EPSILONS = [Fraction(1), Fraction(1, 3), Fraction(7, 10), Fraction(355, 113), Fraction(1, 1000)]


def problem(source=None, **changes):
    known = {
        "source": encode_frame(ring(80) if source is None else source, steward().schema),
        "epsilon": Fraction(1),
        "sites": 1,
        "target_size": 500,
        "most_records_per_unit": 1,
        "seed": 0,
    }
    return Problem(**known | changes)


def test_every_registered_strategy_is_tested_here():
    """Those that ask other kinds than counts are tested in files of their own."""
    elsewhere = {name for name in STRATEGIES if name.startswith("site-")} | {"selected-cells"}
    assert {name for name, _ in SETTINGS} == set(STRATEGIES) - elsewhere


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in SETTINGS))
def test_a_plan_costs_exactly_epsilon(name):
    chosen = [options for other, options in SETTINGS if other == name]
    for options, most, epsilon in itertools.product(chosen, (1, 6), EPSILONS):
        plan = make_strategy(name, options).plan(problem(epsilon=epsilon, most_records_per_unit=most))
        assert SIMULATED_KINDS.plan_cost(plan, most) == epsilon, (options, most, epsilon)


@pytest.mark.family(8)
@pytest.mark.parametrize(("name", "options"), [s for s in SETTINGS if "printed" not in s[1]])
def test_each_question_is_the_planned_one_and_what_is_charged_is_epsilon(name, options):
    curators = {"basel": open_curator("basel", most=6)}
    learned = learn(federate(curators), ring(60, seed=3).drop("sick"), Budget("7/10"), strategy=name, options=options)
    study = learned.study
    assert study.outcomes["basel"] == ["release"] * len(study.plan.queries)
    assert study.spent("basel") == learned.epsilon_claimed == Fraction(7, 10)
    for planned, done in zip(QUERY_KINDS.queries(study.plan), study.rounds, strict=True):
        body = done.bodies["basel"]
        assert len(body.partitions) == planned.partitions
        assert RELEASE_KINDS[planned.release].wants_hypothesis == (body.hypothesis is not None)


@pytest.mark.family(4)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("additive", {}),
        ("additive", {"choice_share": "1/4", "chosen": 1}),
        pytest.param("cells", {"cells": 60}, marks=pytest.mark.slow),
        ("cells", {"cells": 60, "networks": False}),
        ("paper-c", {"rounds": 3, "bins": 12}),
        ("paper-c", {"rounds": 3, "bins": 12, "weighting": "tilt"}),
        ("random-subsets", {"rounds": 2, "features": 1}),
        ("informative", {}),
        ("varying-bins", {}),
        ("varying-bins", {"cells": True}),
        ("new-features", {}),
        ("new-features", {"score": True, "projections": 0}),
        ("adaptive-cells", {}),
        ("adaptive-cells", {"tree": True}),
    ],
)
def test_without_noise_a_strategy_clearly_beats_the_majority(name, options):
    private = {"basel": ring(1500, seed=1), "bern": ring(1500, seed=2)}
    curators = {site: open_curator(site, frame, noise=NoNoise()) for site, frame in private.items()}
    learned = learn(federate(curators), ring(600, seed=3).drop("sick"), Budget(1), strategy=name, options=options)
    test = ring(1000, seed=4)
    truth = encode_labels(test["sick"], ("no", "yes"))
    probability = learned.model().probability(encode_frame(test, learned.schema))
    assert probability.min() >= 0
    assert probability.max() <= 1
    # The label is told by the attributes, so all can be right: more than half of what the majority leaves is.
    majority = max(truth.mean(), 1 - truth.mean())
    assert surely_above((probability > 0.5) == truth, 0.5 * (majority + 1))


@pytest.mark.slow
def test_the_source_estimate_says_how_many_records_each_stands_for():
    for name in ("additive", "cells", "importance", "paper-c", "random-subsets", "informative", "adaptive-cells"):
        curators = {"basel": open_curator("basel", ring(800, seed=1), noise=NoNoise())}
        learned = learn(federate(curators, {}), ring(200, seed=3).drop("sick"), Budget("1/2"), strategy=name)
        estimate = learned.estimates[""]
        assert estimate.weights.shape == estimate.probability.shape == (200,)
        assert (estimate.weights >= 0).all()
        assert estimate.weights.sum() == pytest.approx(800, abs=DEVIATIONS * np.sqrt(800))  # a sample's own error
        assert ((estimate.probability >= 0) & (estimate.probability <= 1)).all()


@pytest.mark.parametrize(("name", "used"), [("paper-i", [1, 1, 1]), ("paper-c", [1, 2, 3])])
def test_instantaneous_uses_the_newest_system_and_cumulative_all(name, used, monkeypatch):
    systems = []
    solve = paper_module.solve_labels

    def spying(chosen, **options):
        systems.append(chosen)
        return solve(chosen, **options)

    monkeypatch.setattr(paper_module, "solve_labels", spying)
    curators = {"basel": open_curator("basel", noise=NoNoise())}
    learned = learn(federate(curators), ring(60, seed=3).drop("sick"), Budget(1), strategy=name, options={"rounds": 3})
    assert [len(chosen) for chosen in systems] == used
    kinds = [type(done.bodies["basel"].hypothesis) for done in learned.study.rounds]
    assert kinds == [type(None), Constant, Mlp, Mlp]
    models = learned.models[""]
    assert models[0] is None
    # each asked hypothesis is the model of the round before
    assert [done.bodies["basel"].hypothesis for done in learned.study.rounds[2:]] == [
        model.hypothesis for model in models[1:3]
    ]


def test_errors_are_asked_in_bins_of_even_mass_of_the_weighted_source():
    curators = {"basel": open_curator("basel", ring(1200, seed=1).filter(pl.col("x") > -0.5), noise=NoNoise())}
    source = ring(300, seed=3).drop("sick")
    learned = learn(federate(curators), source, Budget(1), strategy="paper-c", options={"rounds": 2, "bins": 5})
    masses, *errors = [done.bodies["basel"].partitions for done in learned.study.rounds]
    weights = learned.estimates[""].weights
    assert masses == tuple(even_bins(learned.source, 5))
    assert errors[0] == errors[1] == tuple(even_bins(learned.source, 5, weights))
    assert errors[0] != masses


@pytest.mark.parametrize(("reweight", "share"), [(True, 0.25), (False, 0.5)])
def test_labels_are_regularised_by_the_variance_of_a_bins_errors(reweight, share, monkeypatch):
    """Errors are (n - S) / 2: a quarter of the noise variance of S, and S of a pair has twice that of a count."""
    alphas = []
    solve = paper_module.solve_labels

    def spying(chosen, *, alpha, **options):
        alphas.append(alpha)
        return solve(chosen, alpha=alpha, **options)

    monkeypatch.setattr(paper_module, "solve_labels", spying)
    options = {"rounds": 1, "bins": 4, "reweight": reweight}
    curators = {"basel": open_curator("basel", noise=NoNoise())}
    learned = learn(federate(curators), ring(60, seed=3).drop("sick"), Budget(1), strategy="paper-c", options=options)
    scale = float(QUERY_KINDS.queries(learned.study.plan)[-1].scale.fraction)
    decay = np.exp(-1 / scale)
    size = learned.study.sessions["basel"].card.round_size or 60
    assert alphas == [pytest.approx(0.1 * (share * 2 * decay / (1 - decay) ** 2 + size / 16))]
    options |= {"label_alpha": 7.0}
    learn(federate(curators), ring(60, seed=3).drop("sick"), Budget(1), strategy="paper-c", options=options)
    assert alphas[1:] == [7.0]


@pytest.mark.parametrize("name", ["paper-c", "paper-i"])
def test_the_printed_mechanism_runs_against_simulation_curators_only(name):
    ring_source = ring(60, seed=3).drop("sick")
    options = {"printed": True, "rounds": 1}
    for readers, refusal in (
        (READERS, r"\(plan\.queries\.release"),
        (SIMULATED_READERS, r"does not allow this kind \(plan\.queries\[0\]\.release: mass, sign"),
    ):
        ordinary = federate({"basel": open_curator("basel")}, readers=readers)
        with pytest.raises(ConfigurationError, match=refusal):
            learn(ordinary, ring_source, Budget(1), strategy=name, options=options)
    limits = limits_with(release_kinds=("paper_ratio",))
    for simulation in (False, True):
        with pytest.raises(ConfigurationError, match="unknown release kind 'paper_ratio'"):
            open_curator("basel", limits=limits, simulation=simulation)
    simulated = open_curator("basel", limits=limits, simulation=True, answerers=SIMULATED_ANSWERERS)
    wary = federate({"basel": simulated}, readers=SIMULATED_READERS)
    with pytest.raises(NoCuratorError):
        learn(wary, ring_source, Budget(1), strategy=name, options=options)
    trusting = federate({"basel": simulated}, allow_not_private=True, readers=SIMULATED_READERS)
    learned = learn(trusting, ring_source, Budget(1), strategy=name, options=options)
    assert learned.model().probability(learned.source).shape == (60,)


def test_the_same_seed_gives_the_same_questions():
    bodies = []
    for seed in (4, 4, 5):
        curators = {"basel": open_curator("basel", noise=NoNoise())}
        learned = learn(
            federate(curators),
            ring(60, seed=3).drop("sick"),
            Budget(1),
            strategy="cells",
            options={"networks": False},
            seed=seed,
        )
        bodies.append(learned.study.rounds[0].bodies["basel"])
    assert bodies[0] == bodies[1] != bodies[2]


def test_nothing_is_estimated_before_an_answer():
    for name in STRATEGIES:
        with pytest.raises(RuntimeError, match="not every question was answered"):
            Conversation(make_strategy(name, {}), problem()).estimate  # noqa: B018
