"""The paper's perspectives as strategies: what each asks in which round, its share of epsilon, what may go wrong."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from at_length import at_length
from learner_fakes import NoNoise, federate, open_curator, ring, silent_from, steward
from learner_node.models.source import coordinates, even_bins, kmeans_cells, standardising_map
from learner_node.strategies import check_options, make_strategy
from learner_node.strategies.base import Problem
from learner_node.strategies.options import exact_shares
from learner_node.strategies.perspectives import gradient_directions, information, varying_attributes
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from limits_told import limits_with
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS
from protocol.kinds import QUERY_KINDS
from protocol.partitions import FeatureBins, NearestCentre, ProductBins, ProjectionBins, ScoreBins, TreeLeaves
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute
from seeded import nothing_unseeded

WIDE = (
    *(NumericAttribute(name=name, lower=-4, upper=4) for name in "abcdef"),
    NumericAttribute(name="constant", lower=0, upper=1),
    CategoricalAttribute(name="site", levels=("left", "right")),
)
STRATEGIES = {
    "random-subsets": {},
    "informative": {},
    "varying-bins": {},
    "varying-bins of cells": {"cells": True},
    "new-features": {"score": True, "hidden": [4]},
    "adaptive-cells": {},
    "adaptive-cells by a tree": {"tree": True},
}


def wide(n, seed=0):
    """Eight attributes, one constant, one categorical; the label depends on a + b alone, nearly without fault."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.uniform(-2, 2, n) for name in "abcdef"}
    sick = columns["a"] + columns["b"] + rng.normal(0, 0.2, n) > 0
    site = rng.choice(["left", "right"], n)
    return pl.DataFrame({**columns, "constant": np.zeros(n), "site": site, "sick": np.where(sick, "yes", "no")})


def study(strategy, options=None, *, epsilon=1, seed=0, source=None, scripts=None, sites=1, noise=None, **curator):
    """Learn from `wide` records."""
    curators = {
        f"site-{index}": open_curator(
            f"site-{index}", wide(600, 10 + index), noise=noise or NoNoise(), attributes=WIDE, **curator
        )
        for index in range(sites)
    }
    source = wide(200, 3).drop("sick") if source is None else source
    return learn(
        federate(curators, scripts or {}),
        source,
        Budget(Fraction(epsilon)),
        strategy=strategy.split(" ")[0],
        options=STRATEGIES[strategy] if options is None else options,
        seed=seed,
    )


def asked(learned):
    """The partitions of each round."""
    return [done.bodies["site-0"].partitions for done in learned.study.rounds]


# --- shares of epsilon


@settings(max_examples=45, deadline=None)
@given(st.lists(st.fractions(Fraction(1, 1000), 1000, max_denominator=1000), min_size=1, max_size=6))
def test_shares_sum_to_exactly_one_and_keep_their_ratios(weights):
    shares = exact_shares(len(weights), weights)
    assert sum(shares) == 1
    assert all(share * weights[0] == weight * shares[0] for share, weight in zip(shares, weights, strict=True))


test_shares_sum_to_exactly_one_and_keep_their_ratios_at_length = at_length(
    test_shares_sum_to_exactly_one_and_keep_their_ratios, 100
)


def test_equal_shares_are_the_default():
    assert exact_shares(3, None) == (Fraction(1, 3),) * 3
    assert exact_shares(2, ["1/4", 0.75]) == (Fraction(1, 4), Fraction(3, 4))


@pytest.mark.parametrize("shares", [[1], [1, 2, 3], [1, -1], [0, 1], "12", 3, [1, "x"], [1, float("nan")]])
def test_shares_that_do_not_fit_are_refused(shares):
    with pytest.raises(ConfigurationError, match="varying-bins"):
        make_strategy("varying-bins", {"shares": shares})


@pytest.mark.family(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_round_costs_its_share(strategy):
    options = STRATEGIES[strategy] | {"shares": [1, 4]}
    learned = study(strategy, options, epsilon=Fraction(7, 10))
    plan = learned.study.plan
    costs = [query.partitions / query.scale.fraction for query in QUERY_KINDS.queries(plan)]
    assert costs == [Fraction(7, 50), Fraction(28, 50)]
    assert QUERY_KINDS.plan_cost(plan, 1) == learned.study.spent("site-0") == Fraction(7, 10)


# --- what each asks


@pytest.mark.slow
def test_random_subsets_ask_every_attribute_before_one_is_repeated():
    learned = study("random-subsets", {"rounds": 5, "features": 3})
    rounds = [[partition.attribute for partition in partitions] for partitions in asked(learned)]
    assert all(len(set(names)) == 3 for names in rounds)
    names = [name for one in rounds for name in one]
    known = {*"abcdef", "site"}
    assert set(names[:7]) == set(names[7:14]) == known
    assert asked(study("random-subsets", {"rounds": 5, "features": 3}, seed=1)) != asked(learned)


def test_random_subsets_take_the_root_of_the_number_of_attributes():
    learned = study("random-subsets")
    assert [len(partitions) for partitions in asked(learned)] == [3, 3]  # seven of eight attributes vary


def test_informative_finds_the_pair_that_decides_the_label():
    """Either attribute alone knows the label of three records in four: that so many are right has a chance of 1e-9."""
    learned = study("informative")
    first, second = asked(learned)
    assert [partition.attribute for partition in first] == [*"abcdef", "site"]
    assert all(isinstance(partition, FeatureBins) for partition in first)
    (pair,) = second
    assert isinstance(pair, ProductBins)
    assert {pair.first.attribute, pair.second.attribute} == {"a", "b"}
    test = wide(500, 4)
    probability = learned.model().probability(encode_frame(test.drop("sick"), learned.schema))
    assert np.sum((probability > 0.5) == (test["sick"] == "yes").to_numpy()) > binom.isf(1e-9, 500, 3 / 4)


def test_informative_asks_no_more_pairs_than_there_are():
    source = ring(60, seed=3).drop("sick")
    learned = learn(
        federate({"site-0": open_curator("site-0", noise=NoNoise())}),
        source,
        Budget(1),
        strategy="informative",
        options={"pairs": 5},
    )
    assert [len(partitions) for partitions in asked(learned)] == [2, 1]


def test_informative_leaves_out_pairs_that_are_too_large_for_the_curators():
    """Two attributes of 30 levels make a product of 1024 cells; 300 are allowed, and the budget is not lost on it."""
    levels = tuple(f"l{index}" for index in range(30))
    attributes = tuple(CategoricalAttribute(name, levels) for name in "ab")
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({name: rng.choice(levels, 400) for name in "ab"})
    frame = frame.with_columns(sick=pl.Series(rng.choice(["no", "yes"], 400)))
    curator = open_curator("site-0", frame, noise=NoNoise(), attributes=attributes, limits=limits_with(cells=300))
    learned = learn(federate({"site-0": curator}), frame.drop("sick"), Budget(1), strategy="informative", options={})
    assert learned.study.outcomes["site-0"] == ["release"] * 2
    ((alone,),) = asked(learned)[1:]
    assert isinstance(alone, FeatureBins)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_single_attribute_is_enough(strategy):
    attributes = (NumericAttribute(name="x", lower=-4, upper=4),)
    curators = {"site-0": open_curator("site-0", ring(300), noise=NoNoise(), attributes=attributes)}
    source = ring(80, seed=3).select("x")
    learned = learn(
        federate(curators), source, Budget(1), strategy=strategy.split(" ")[0], options=STRATEGIES[strategy]
    )
    assert learned.study.outcomes["site-0"] == ["release"] * 2
    assert learned.model().probability(learned.source).shape == (80,)


def test_varying_bins_lie_between_those_of_the_other_rounds():
    learned = study("varying-bins", {"rounds": 2, "bins": 4})
    first, second = asked(learned)
    for before, after in zip(first[:6], second[:6], strict=True):
        assert before.attribute == after.attribute
        merged = np.sort([*before.edges, *after.edges])
        assert set(merged[::2]) == set(after.edges)
        assert set(merged[1::2]) == set(before.edges)


def test_varying_bins_of_cells_have_other_centres_each_round():
    first, second = asked(study("varying-bins of cells"))
    assert isinstance(first[0], NearestCentre)
    assert first[0].features == second[0].features
    assert first[0].centres != second[0].centres


def test_new_features_follow_the_direction_that_decides_the_label():
    """Within 26 degrees; either of its two attributes is 45 degrees away, any other 90."""
    first, second = asked(study("new-features", {"projections": 1}))
    assert isinstance(first[0], NearestCentre)
    (projections,) = second
    assert isinstance(projections, ProjectionBins)
    leading = projections.grid[0] / np.linalg.norm(projections.grid[0])
    assert abs(leading[0] + leading[1]) / np.sqrt(2) > 0.9


def test_new_features_may_be_random_directions_and_the_score():
    _, second = asked(study("new-features", {"score": True, "projections": 2, "learned": False, "hidden": [4]}))
    assert [type(partition) for partition in second] == [ScoreBins, ProjectionBins, ProjectionBins]
    assert second[1].directions != second[2].directions


def test_a_score_too_large_for_the_card_is_told_before_anything_is_asked():
    with pytest.raises(ConfigurationError, match="smaller, or set score to false"):
        study("new-features", {"score": True, "hidden": [200]}, limits=limits_with(parameters=2000))


def test_adaptive_cells_are_denser_where_the_label_is_open():
    learned = study("adaptive-cells", source=wide(800, 3).drop("sick"))
    first, second = (partitions[0] for partitions in asked(learned))
    sums = [
        np.abs((partition.grid / STEPS)[:, :2].sum(axis=1)).mean() for partition in (first, second)
    ]  # of a and b: 0 is the border between the labels
    # Drawn alike, two means of 42 centres would differ by an eighth of either, as a standard error.
    assert sums[1] < 0.5 * sums[0]


def test_adaptive_cells_by_a_tree_split_what_the_label_depends_on():
    _, (tree,) = asked(study("adaptive-cells by a tree"))
    assert isinstance(tree, TreeLeaves)
    split = np.bincount(tree.table[:, 0], minlength=6)
    assert split[:2].sum() > 0.5 * split.sum()  # most of them, of two attributes of six


# --- exactness, limits, faults


@pytest.mark.slow
@pytest.mark.family(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_that_is_random_is_the_seeds(strategy):
    """Later questions and the model are searched and trained: equal seeds need not give them equal digits."""
    with nothing_unseeded():
        first, second = (study(strategy, seed=4, epsilon=99, cap="99") for _ in range(2))
    assert asked(first)[0] == asked(second)[0]
    assert [list(map(type, one)) for one in asked(first)] == [list(map(type, one)) for one in asked(second)]


@pytest.mark.family(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cells", [64, 80])
def test_questions_keep_to_the_cells_that_the_card_allows(strategy, cells):
    learned = study(strategy, limits=limits_with(cells=cells), epsilon=99, cap="99")
    assert learned.study.outcomes["site-0"] == ["release"] * 2
    for partitions in asked(learned):
        assert sum(partition.cell_count(learned.schema) for partition in partitions) <= cells


@pytest.mark.family(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_curator_that_drops_out_half_way_leaves_the_others_model(strategy):
    scripts = {"site-1": silent_from(2)}
    learned = study(strategy, sites=2, scripts=scripts)
    assert learned.study.survivors == ["site-0"]
    assert learned.study.spent("site-0") == 1
    assert learned.models[""][0] is not None
    # Nearer to one site's 600 records than to two sites' or none's.
    assert learned.estimates[""].weights.sum() == pytest.approx(600, abs=300)


@pytest.mark.family(2)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_model_per_site_has_one_plan(strategy):
    curators = {
        name: open_curator(name, wide(300, index), attributes=WIDE, limits=limits_with(cells=100 * (index + 1)))
        for index, name in enumerate(("basel", "bern"))
    }
    learned = learn(
        federate(curators),
        wide(100, 3).drop("sick"),
        Budget("1/2"),
        strategy=strategy.split(" ")[0],
        options=STRATEGIES[strategy],
        pooling=Pooling("site"),
    )
    assert set(learned.models) == {"basel", "bern"}
    assert {learned.study.spent(name) for name in curators} == {Fraction(1, 2)}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("random-subsets", {"rounds": 0}, "rounds"),
        ("random-subsets", {"features": 1.5}, "features"),
        ("random-subsets", {"bins": True}, "bins"),
        ("informative", {"pairs": 0}, "pairs"),
        ("informative", {"round": 2}, "takes no option 'round'; known: bins, pairs, shares"),
        ("adaptive-cells", {"round": 2}, "takes no option 'round'; did you mean 'rounds'"),
        ("cells", {"network": False}, "takes no option 'network'; did you mean 'networks'"),
        ("cells", {"mass_share": False}, "mass_share"),
        ("cells", {"mass_share": [1]}, "mass_share must be a number at least 0"),
        ("cells", {"mass_share": -1}, "mass_share must be at least 0 and below 1"),
        ("cells", {"mass_share": 0.1, "same_population": True}, "the masses are known; leave mass_share out"),
        ("cells", {7: 1}, "takes no option '7'"),
        ("adaptive-cells", {"rounds": 1001}, "rounds must be a whole number from 2 to 1000"),
        ("adaptive-cells", {"shares": [[1], [3]]}, "shares must be a list of 2 positive numbers"),
        ("paper-c", {"label_alpha": 10**400}, "label_alpha must be a number"),
        ("cells", {"mass_share": 1}, "mass_share must be at least 0 and below 1"),
        ("paper-c", {"epoch": 2}, "takes no option 'epoch'; did you mean 'epochs'"),
        ("paper-i", {"hidden": 32}, "hidden must be a list"),
        ("paper-i", {"soft_labels": 1}, "soft_labels must be true or false"),
        ("paper-c", {"learning_rate": "fast"}, "learning_rate must be a number"),
        ("paper-c", {"label_alpha": "1"}, "label_alpha must be a number"),
        ("varying-bins", {"cells": 40}, "cells must be true or false"),
        ("varying-bins", {"rounds": 1001}, "rounds"),
        ("new-features", {"rounds": 1}, "rounds must be a whole number from 2"),
        ("new-features", {"score": False, "projections": 0}, "ask the score"),
        ("new-features", {"score": 1}, "score must be true or false"),
        ("new-features", {"hidden": [0]}, "hidden"),
        ("adaptive-cells", {"rounds": 1}, "rounds must be a whole number from 2"),
        ("adaptive-cells", {"tree": "yes"}, "tree must be true or false"),
        ("adaptive-cells", {"cells": 0}, "cells"),
    ],
)
def test_bad_options_are_named_before_a_strategy_is_loaded_and_by_itself(name, options, message):
    for check in (check_options, make_strategy):
        with pytest.raises(ConfigurationError, match=message):
            check(name, options)


# --- parts


def counts_of(probability, masses, rng, scale):
    """Noisy counts of labels 0 and 1."""
    ones = rng.binomial(masses, probability)
    pairs = np.stack([masses - ones, ones], axis=1).astype(float)
    decay = np.exp(-1 / scale)
    return pairs + rng.geometric(1 - decay, pairs.shape) - rng.geometric(1 - decay, pairs.shape)


def test_information_is_that_of_the_label_and_nothing_without_one():
    """The mean of 2,000 draws lies within 6 standard errors (false alarm 2e-9); a bias of 0.02 would be 15 of them."""
    rng = np.random.default_rng(0)
    masses, source_counts, scale = np.full(10, 250), np.full(10, 50), 20.0
    decay = np.exp(-1 / scale)
    variance = 2 * decay / (1 - decay) ** 2
    for spread in (0.0, 0.2):
        probability = 0.5 + spread * np.where(np.arange(10) % 2, 1, -1)
        told = [information(counts_of(probability, masses, rng, scale), source_counts, variance) for _ in range(2000)]
        expected = (2 * spread) ** 2  # the correlation ratio
        assert np.mean(told) == pytest.approx(expected, abs=6 * np.std(told) / np.sqrt(len(told)) + 0.05 * expected)


@pytest.mark.parametrize("counts", [np.zeros((3, 2)), np.full((3, 2), -50.0), np.full((3, 2), 1e12)])
def test_information_of_hostile_counts_is_a_number(counts):
    assert np.isfinite(information(counts, np.array([5, 0, 1]), 8.0))


def test_heavy_records_draw_the_centres():
    records = encode_frame(ring(400), steward().schema)
    features = standardising_map(records)
    points = coordinates(features, records)
    weights = np.where(points[:, 0] > 0, 100.0, 1.0)
    # Of the records half lie there, of their weight 99 %; a centre is a fortieth, and some are found by chance.
    shares = [np.mean(kmeans_cells(records, features, 40, 0, chosen).grid[:, 0] > 0) for chosen in (None, weights)]
    assert shares[0] == pytest.approx(0.5, abs=0.15)
    assert shares[1] > 0.75


def test_many_records_are_clustered_by_a_sample():
    records = encode_frame(ring(25_000), steward().schema)
    features = standardising_map(records)
    first, second = (kmeans_cells(records, features, 4, 3) for _ in range(2))
    assert first == second
    # Four cells of a square: a quarter each. Two that share one, where k-means ended ill, would have an eighth.
    assert np.bincount(first.cells(records), minlength=4) == pytest.approx([6250] * 4, rel=0.25)


@pytest.mark.parametrize("shift", [0.0, 0.25, 0.75])
def test_shifted_bins_hold_even_mass_but_at_the_ends(shift):
    records = encode_frame(ring(1000), steward().schema)
    (bins, _) = even_bins(records, 5, shift=shift)
    masses = np.bincount(bins.cells(records), minlength=len(bins.edges) + 1)[: len(bins.edges) + 1]
    expected = [200] * 5 if not shift else [200 * shift, 200, 200, 200, 200, 200 * (1 - shift)]
    assert np.abs(masses - expected).max() <= 1


@pytest.mark.parametrize("width", [3, 100])
def test_gradients_find_the_direction_of_a_signal(width):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, width)) * np.where(np.arange(width) < 5, 1.0, 0.01)
    direction = np.zeros(width)
    direction[:3] = [0.6, -0.8, 0.0]

    class Ridge:
        def latent(self, at):
            return np.tanh(at @ direction)

    found = gradient_directions(Ridge(), points, np.random.default_rng(0))
    assert abs(found[0] @ direction) > 0.99  # one degree is 0.0002; the nearest attribute has 0.8
    assert np.allclose(found @ found.T, np.eye(len(found)), atol=width * 2.0**-40)  # some n 2^-53, from LAPACK


def test_constant_attributes_are_not_asked():
    records = encode_frame(wide(50), steward(attributes=WIDE).schema)
    known = Problem(records, Fraction(1), 1, 50, 1, 0)
    assert varying_attributes(known) == [*"abcdef", "site"]


def test_options_may_be_numpy_numbers():
    """As scikit-learn's grids hand them over."""
    assert make_strategy("adaptive-cells", {"cells": np.int64(40), "tree": np.True_})
    assert make_strategy("cells", {"cells": np.int64(40), "networks": np.False_})
