"""Before anything is asked: a quote's costs, noise and simulated problems; the command; and a learner's doubts."""

import json
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.special import betaincinv
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from expril.commands.app import app
from learner_fakes import ring, steward
from learner_node.kinds import READERS
from learner_node.kinds import counts as counts_reader
from learner_node.models.label_model import cell_count_rule
from learner_node.models.label_model import prior as foresight
from learner_node.models.label_model.prior import DIFFICULTIES, Belief, Foresight, draw_prior_problems
from learner_node.models.label_model.random_features import draw_frequencies, stationary_features
from learner_node.models.source import coordinates, kmeans_cells, standardising_map
from learner_node.questions import quote_report as quoting
from learner_node.questions.quote import MOST_SITES, MOST_TARGET_SIZE, Target, _suggested, quote
from learner_node.questions.rehearsal import CellsForeseen, rehearse
from learner_node.scores.auc import expected_auc
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem
from learner_node.study.doubts import doubts_about
from learner_node.study.pooling import SUMMED, Pooling, SecurePool
from learner_node.study.reading import questions
from margins import DEVIATIONS
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.noise import DiscreteLaplace
from protocol.record_frames import encode_frame


def records(n=60, **label):
    return encode_frame(ring(n), steward(**label).schema)


@pytest.fixture(scope="module")
def rows():
    return quote(records(), Target(2, size=400), epsilons=[Fraction(1), Fraction(1, 3)], problems=3)


def test_costs_and_scales_are_exact_and_the_rule_is_among_the_numbers_of_cells(rows):
    for epsilon in (Fraction(1), Fraction(1, 3)):
        of_one = [row for row in rows if row.epsilon == epsilon]
        rule = cell_count_rule(60, 400, float(epsilon), 2)
        assert all(row.cost == epsilon and row.precision.scale == 1 / epsilon for row in of_one)
        assert [row.precision.cells for row in of_one if row.usual] == [rule]
        assert [row.precision.cells for row in of_one] == sorted({rule // 2, rule, 2 * rule})
        assert sum(row.suggested for row in of_one) == 1


def test_a_contribution_bound_scales_the_noise():
    row = quote(records(), Target(most_records_per_unit=4), epsilons=[Fraction(1)], options={"cells": 6}, problems=3)[0]
    assert (row.cost, row.precision.scale) == (Fraction(1), Fraction(4))


@pytest.mark.parametrize("changed", [{"sites": MOST_SITES + 1}, {"size": MOST_TARGET_SIZE + 1}])
def test_what_is_too_large_to_simulate_is_refused_before_anything_is_drawn(changed):
    with pytest.raises(ConfigurationError, match=f"{next(iter(changed))} is .* state a smaller one"):
        quote(records(), Target(**changed), epsilons=[Fraction(1)], problems=3)


def test_errors_are_those_of_the_noise_and_the_sample(rows):
    row = next(row for row in rows if row.epsilon == Fraction(1, 3) and row.usual)
    decay = np.exp(-1 / 3)
    variance = 2 * 2 * decay / (1 - decay) ** 2
    assert row.precision.count_error == pytest.approx(variance**0.5)
    assert row.precision.records_per_cell == pytest.approx(400 / row.precision.cells)
    simulated = np.random.default_rng(0)
    mass, draws = round(row.precision.records_per_cell), 200_000
    ones = simulated.binomial(mass, 0.5, draws)
    noise = simulated.normal(0, variance**0.5, (2, draws))
    share = 0.5 + ((ones + noise[0]) - (mass - ones + noise[1])) / (2 * mass)
    # The deviation of so many draws has an error of 1 / sqrt(2 * 200,000): six of it.
    assert row.precision.share_error == pytest.approx(min(0.5, share.std()), rel=DEVIATIONS / np.sqrt(2 * draws))


def test_scores_are_shares_and_no_model_beats_perfect_knowledge(rows):
    for row in rows:
        told = row.simulated
        for score in (told.accuracy, told.auc):
            assert 0 <= score.low <= score.mean <= score.high <= 1
            assert score.mean <= score.best <= 1
            assert score.without_noise - score.mean == pytest.approx(score.loss)
            assert score.loss_low <= score.loss <= score.loss_high
        assert 0.5 <= told.majority <= told.accuracy.best
        assert told.by_difficulty.keys() == set(DIFFICULTIES)
        assert np.mean(list(told.by_difficulty.values())) == pytest.approx(told.accuracy.mean)


def test_equal_seeds_give_equal_quotes_and_more_noise_a_worse_one():
    arguments = {"target": Target(1, 600), "options": {"cells": 8}, "problems": 3}
    one, tiny = (quote(records(), epsilons=[Fraction(e)], **arguments)[0] for e in ("1", "1/1000"))
    again, other = (quote(records(), epsilons=[Fraction(1)], seed=seed, **arguments)[0] for seed in (0, 1))
    assert again == one
    assert other.accuracies != one.accuracies
    assert tiny.simulated.auc.mean < one.simulated.auc.mean
    assert tiny.precision.share_error == 0.5


def test_any_strategy_can_be_quoted():
    row = quote(
        records(40), strategy="paper-c", options={"rounds": 1, "epochs": 1}, epsilons=[Fraction(1)], problems=3
    )[0]
    assert row.queries == 2
    assert row.cost == 1
    assert row.precision.share_error is None
    assert row.suggested


def test_the_table_marks_what_is_suggested_in_text_too_and_its_object_is_exact(rows):
    request = quoting.Request("t", records(), Target(2, 400), True, "cells", {})
    table = quoting.quote_table(request, rows)
    first, scales = ([table.columns[place].text(row).text for row in rows] for place in (0, 2))
    assert first == [("* " if row.suggested else "") + str(row.epsilon) for row in rows]
    assert {"* 1", "* 1/3", "1"} <= set(first)
    assert scales == [str(row.precision.scale) for row in rows]
    odd = replace(rows[0], precision=replace(rows[0].precision, scale=Fraction(102400, 9)))
    assert table.columns[2].text(odd).text == "≈ 11,378"
    assert quoting.as_object(request, [odd])["rows"][0]["scale"] == "102400/9"
    assert "* suggested" in table.note
    assert "(declared)" in table.note
    assert "no round_size is declared" in quoting.quote_table(replace(request, declared=False), rows).note


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epsilons": []}, "epsilons must be at least 1"),
        ({"epsilons": [Fraction(0)]}, "distinct positive epsilons"),
        ({"epsilons": [Fraction(1), Fraction(1)]}, "distinct positive epsilons"),
        ({"target": Target(sites=0)}, "sites must be at least 1"),
        ({"problems": 2}, "at least 3 problems"),
        ({"strategy": "cels"}, "cells"),
        ({"options": {"rounds": 3}}, "rounds"),
        ({"strategy": "paper-c", "options": {"printed": True}}, "not private"),
        (
            {"source": records(10, classes=("a", "b", "c")), "strategy": "paper-c"},
            "'paper-c' is for a label of two classes, and 'sick' is another; quote cells",
        ),
    ],
)
def test_what_cannot_be_quoted_is_said(changes, text):
    with pytest.raises(ConfigurationError, match=text):
        quote(**{"source": records(10), "epsilons": [Fraction(1)], "problems": 3} | changes)


def test_another_number_of_cells_is_suggested_only_when_clearly_better(rows):
    usual = replace(rows[0], usual=True, accuracies=(0.7, 0.8, 0.6))
    lucky, slight, better = (
        replace(rows[0], usual=False, accuracies=accuracies)
        for accuracies in ((0.9, 0.7, 0.7), (0.701, 0.801, 0.601), (0.75, 0.85, 0.64))
    )
    assert _suggested([usual, lucky]) is usual
    assert _suggested([usual, slight]) is usual
    assert _suggested([usual, better]) is better


@pytest.mark.parametrize(
    ("label", "queries", "release_numbers"),
    [({"classes": ("a", "b", "c")}, 1, 3), ({"classes": (), "label_bounds": (0.0, 1.0)}, 1, 2)],
)
def test_other_labels_are_quoted_without_scores(label, queries, release_numbers):
    """The error of a share, drawn: noise in all numbers of a cell, and a sample of labels at the ends of the range."""
    (row,) = quote(records(90, **label), Target(3, size=900), epsilons=[Fraction(1, 2)])
    assert (row.queries, row.cost, row.simulated, row.suggested) == (queries, Fraction(1, 2), None, True)
    rng = np.random.default_rng(0)
    mass, draws = row.precision.records_per_cell, 100_000
    deviation = row.precision.count_error
    noise = rng.normal(0, deviation, (release_numbers, draws))
    own = rng.binomial(round(mass), 0.5, draws) + noise[0]
    share = 0.5 + (0.5 * own - 0.5 * (round(mass) - own + noise[0] + noise[1:].sum(axis=0))) / mass
    assert row.precision.share_error == pytest.approx(min(0.5, share.std()), rel=DEVIATIONS / np.sqrt(2 * draws))


def test_ranges_hold_other_problems_of_the_prior():
    """By construction: 300 problems of another seed against the ranges of this one.

    Each of a range's two quantiles is of 300 draws: with all 95 % to be held and both errors of chance, fewer than 86 %
    happen with a probability below 1e-9; a range that holds 75 % passes with one below 1e-5.
    """
    source = records(80)
    told, drawn = (
        quote(source, Target(size=500), epsilons=[Fraction(1, 2)], options={"cells": 12}, seed=seed)[0]
        for seed in (0, 1)
    )
    inside = (np.array(drawn.accuracies) >= told.simulated.accuracy.low) & (
        np.array(drawn.accuracies) <= told.simulated.accuracy.high
    )
    assert inside.mean() >= 0.86


@pytest.mark.slow
def test_what_is_known_narrows_the_ranges():
    def width(belief, score):
        (row,) = quote(records(), Target(size=600), epsilons=[Fraction(1)], options={"cells": 8}, belief=belief)
        told = getattr(row.simulated, score)
        return told.high - told.low

    nothing, rare = Belief(), Belief(prevalence=(0.08, 0.12))
    assert width(rare, "accuracy") < width(nothing, "accuracy")
    both = Belief(prevalence=(0.45, 0.55), best_auc=(0.75, 0.8))
    assert width(both, "auc") < width(nothing, "auc")


@pytest.mark.parametrize("epsilon", ["3", pytest.param("1/4", marks=pytest.mark.slow)])
def test_what_is_foreseen_is_near_what_is_rehearsed(epsilon):
    """The closed form against expectation propagation: less than a quarter of what tells problems apart is missed."""
    source = records(120)
    problem = Problem(source, Fraction(epsilon), 2, 800, 1, 0)
    points = coordinates(standardising_map(source), source)
    drawn = draw_prior_problems(points, 8, 5, Belief(prevalence=(0.3, 0.7)))
    options = {"cells": 15, "networks": False}
    foreseen = CellsForeseen(source, drawn, seed=0).rehearse(problem, options)
    real = rehearse(problem, "cells", options, drawn, seed=0, tick=lambda done: None)
    for told, found in ((foreseen.accuracy, real.accuracy), (foreseen.auc, real.auc)):
        assert np.mean((told - found) ** 2) < 0.25 * np.var(found)


def test_a_rehearsed_answer_counts_the_private_records():
    source = records(50)
    tally = np.random.default_rng(1).integers(0, 6, (50, 2))
    plan = make_strategy("cells", {"cells": 6}).plan(Problem(source, Fraction(10**6), 1, 300, 1, 0))
    partition = kmeans_cells(source, standardising_map(source), 6, 0)
    for hypothesis, errors in ((None, 0 * tally[:, 0]), (Constant(predicted=1), tally[:, 0])):
        body = CountsBody(partitions=(partition,), hypothesis=hypothesis)
        turn = QUERY_KINDS.turns(plan)[0]
        answer = counts_reader.rehearse(body, turn, source, tally, 3, np.random.default_rng(0))
        cells = partition.cells(source)
        for cell in range(6):
            here = cells == cell
            wrong = errors[here].sum()
            assert answer.values[cell].tolist() == [wrong, tally[here].sum() - wrong]


def test_a_secure_sum_is_quoted_with_the_noise_of_its_shares():
    """Ten curators with h = 6: 10/6 noises, where ten are added up otherwise; the rule then draws more cells."""
    rows = {
        name: quote(records(600), Target(10, size=2000, pooling=Pooling(name)), epsilons=[Fraction(1, 3)], problems=3)
        for name in ("sum", "secure")
    }
    usual = {name: next(row for row in found if row.usual) for name, found in rows.items()}
    ratio = usual["secure"].precision.count_error / usual["sum"].precision.count_error
    assert ratio == pytest.approx((1 / 6) ** 0.5)
    assert usual["secure"].precision.cells == cell_count_rule(600, 2000, 1 / 3, 10 / 6)
    assert usual["secure"].cost == usual["sum"].cost == Fraction(1, 3)
    assert usual["secure"].queries == 1
    assert usual["secure"].simulated is not None


@pytest.mark.parametrize(("strategy", "label"), [("additive", {}), ("cells", {"classes": ("a", "b", "c")})])
def test_any_strategy_is_quoted_with_secure_sums(strategy, label):
    row = quote(
        records(60, **label),
        Target(3, pooling=Pooling("secure")),
        strategy=strategy,
        epsilons=[Fraction(1)],
        problems=3,
    )[0]
    scale = float(row.precision.scale)
    assert row.precision.count_error == pytest.approx(1.5**0.5 * DiscreteLaplace(Fraction(scale)).variance() ** 0.5)


def test_a_rehearsed_secure_answer_has_the_noise_of_its_shares():
    """False alarm 1e-9 (6.5 deviations of a mean square with kurtosis below 6, and half more for the tails); power: 4/3
    is 25 deviations from 4."""
    source = records(60)
    pool = SecurePool.of(number.to_bytes(32, "big") for number in range(4))
    problem = Problem(source, Fraction(1, 10), 4, 240, 1, 0, pool=pool)
    strategy = make_strategy("cells", {"cells": 2})
    turn = questions(QUERY_KINDS.turns(strategy.plan(problem)), READERS)[0]
    body = Conversation(strategy, problem).body
    tally, rng = np.zeros((60, 2), np.int64), np.random.default_rng(3)
    drawn = [READERS["secure_counts"].rehearse(body, turn, source, tally, 4, rng) for _ in range(1500)]
    values = np.concatenate([answer.values.ravel() for answer in drawn])
    assert drawn[0].noises == 4 / 3
    bound = 10 * (5 / len(values)) ** 0.5
    assert np.mean(values**2) == pytest.approx(4 / 3 * DiscreteLaplace(Fraction(10)).variance(), rel=bound)


# --- the command


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["quote", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def schema_text(keys):
    ends = 'kind = "numeric"\nlower = -2.0\nupper = 2.0\n'
    attributes = "".join(f'[[attributes]]\nname = "{name}"\n{ends}' for name in ("x", "y"))
    return f'label = "sick"\nclasses = ["no", "yes"]\n{keys}\n{attributes}'


def test_a_file_with_its_schema(tmp_path):
    ring(50).drop("sick").write_csv(tmp_path / "own.csv")
    (tmp_path / "schema.toml").write_text(schema_text("round_size = 300"))
    arguments = (tmp_path / "own.csv", "--schema", tmp_path / "schema.toml", "--epsilons", "1/3", "--problems", 3)
    found = json.loads(run(*arguments, "--sites", 2, "--option", "cells=5", "--json").stdout)
    assert found["target_size"] == 600
    assert [(row["epsilon"], row["cost"], row["cells"]) for row in found["rows"]] == [("1/3", "1/3", 5)]
    assert (found["pooling"], found["noises"]) == ("sum", 2)
    found = json.loads(run(*arguments, "--sites", 3, "--pooling", "secure", "--option", "cells=5", "--json").stdout)
    assert (found["pooling"], found["noises"]) == ("secure", 1.5)
    assert "colluders = 2 needs" in run(*arguments, "--colluders", 2, code=2).stderr
    assert "1 curators cannot sum" in run(*arguments, "--pooling", "secure", code=2).stderr
    table = run(*arguments, "--option", "cells=5").stdout
    assert "300 private ones (declared) at 1 site(s)" in table


def test_a_scenario_gives_source_sites_and_declared_sizes():
    found = json.loads(run("wdbc", "--epsilons", 1, "--problems", 3, "--option", "cells=4", "--json").stdout)
    assert (found["sites"], found["strategy"]) == (3, "cells")
    assert found["target_size"] > 200


def test_the_object_has_all_keys_and_says_what_was_stated():
    arguments = ("wdbc", "--epsilons", 1, "--problems", 3, "--option", "cells=4", "--prevalence", 0.4, "--json")
    found = json.loads(run(*arguments).stdout)
    assert (found["prevalence"], found["best_auc"]) == ([0.4, 0.4], None)
    (row,) = found["rows"]
    before = {"epsilon", "cost", "options", "queries", "split", "cells", "scale", "count_error", "records_per_cell"}
    before |= {"share_error", "problems", "accuracy", "accuracy_low", "accuracy_high", "majority", "best"}
    before |= {"beats_majority", "by_difficulty", "usual", "suggested", "chosen"}
    assert row.keys() == before | set(quoting.SIMULATED)
    assert row["accuracy"] == pytest.approx(np.mean(list(row["by_difficulty"].values())))
    assert row["accuracy_without_noise"] - row["accuracy"] == pytest.approx(row["accuracy_lost"])
    assert row["auc_without_noise"] - row["auc"] == pytest.approx(row["auc_lost"])
    assert row["majority"] == pytest.approx(0.6, abs=1 / 300)  # as 300 quantiles of the records have it


@pytest.mark.slow
@pytest.mark.skipif("EXPRIL_DATA_DIR" not in os.environ, reason="needs the UCI files in EXPRIL_DATA_DIR")
def test_a_label_of_three_classes_has_no_scores_and_says_why():
    found = json.loads(run("ctg3", "--json").stdout)
    assert all(row[key] is None for row in found["rows"] for key in quoting.SIMULATED)
    assert "accuracy is quoted for labels of two classes" in " ".join(run("ctg3").stdout.split())


def test_a_file_speaks_of_the_records_that_count(tmp_path):
    """A unit's records beyond the bound are left out, as curators leave them out."""
    frame = ring(40).drop("sick").with_columns(patient=pl.Series([f"p{row // 4}" for row in range(40)]))
    frame.write_csv(tmp_path / "own.csv")
    declared = schema_text('unit = "patient"\nmost_records_per_unit = 3\nround_size = 100')
    (tmp_path / "schema.toml").write_text(declared)
    arguments = (tmp_path / "own.csv", "--schema", tmp_path / "schema.toml", "--epsilons", 1, "--problems", 3)
    assert json.loads(run(*arguments, "--json").stdout)["source_records"] == 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.csv"], "--schema"),
        (["none.csv", "--schema", "none.toml"], "no schema file"),
        (["wdb"], "wdbc"),
        (["wdbc", "--learner", "adda"], "ada"),
        (["wdbc", "--option", "cells"], "name=value"),
        (["wdbc", "--epsilons", "1,x"], "x"),
        (["wdbc", "--prevalence", "often"], "--prevalence takes a number or a range, such as 0.4"),
        (["wdbc", "--prevalence", "40"], "prevalence must be a number or a range from 0.001 to 0.999"),
        (["wdbc", "--best-auc", "0.8-0.7"], "best AUC must be a number or a range from 0.51 to 0.999"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, text):
    assert text in run(*arguments, code=2).output


def test_the_quote_asks_as_many_cells_as_the_strategy_would():
    """Signed counts have less noise and get more cells; a share for the masses leaves less for them."""
    source, epsilon = records(300), Fraction(1, 2)
    usual = {}
    for name, options in {"pairs": {}, "signed": {"same_population": True}, "bought": {"mass_share": "1/10"}}.items():
        rows = quote(source, Target(1, size=600), epsilons=[epsilon], options=options, problems=3)
        usual[name] = next(row for row in rows if row.usual)
    assert usual["pairs"].precision.cells == cell_count_rule(300, 600, 0.5, 1)
    assert usual["signed"].precision.cells == cell_count_rule(300, 600, 0.5, 1, signed=True)
    assert usual["bought"].precision.cells == cell_count_rule(300, 600, 0.45, 1, signed=True)
    assert (usual["signed"].precision.scale, usual["bought"].precision.scale) == (2, Fraction(20, 9))


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "usual"), [("adaptive-cells", ("1/2", "1/2")), ("informative", ("1/4", "3/4"))])
def test_splits_of_the_budget_are_tried_where_a_strategy_has_two_rounds(strategy, usual):
    rows = quote(records(), Target(size=400), strategy=strategy, epsilons=[Fraction(1)], problems=3)
    assert [tuple(map(str, row.split)) for row in rows] == [("1/2", "1/2"), ("1/4", "3/4"), ("3/4", "1/4")]
    assert [tuple(map(str, row.split)) for row in rows if row.usual] == [usual]
    assert sum(row.suggested for row in rows) == 1
    assert all(sum(row.split) == 1 and row.cost == 1 for row in rows)
    only = quote(
        records(), Target(size=400), strategy=strategy, options={"shares": [2, 1]}, epsilons=[Fraction(1)], problems=3
    )
    assert [tuple(map(str, row.split)) for row in only] == [("2/3", "1/3")]


@pytest.mark.parametrize(("shares", "shown"), [((1,), "1"), (("1/3",) * 3, "3 x 1/3"), (("1/4", "3/4"), "0.25 0.75")])
def test_a_split_is_written_short(shares, shown):
    assert quoting._split([Fraction(share) for share in shares]) == shown


POINTS = np.random.default_rng(0).standard_normal((900, 5)) @ np.diag([3.0, 1.0, 1.0, 0.5, 0.5])


def test_problems_are_probabilities_and_know_themselves():
    drawn = draw_prior_problems(POINTS, 30, 7)
    assert drawn.probability.shape == (900, 30)
    assert ((drawn.probability >= 0) & (drawn.probability <= 1)).all()
    ones = drawn.probability.mean(axis=0)
    np.testing.assert_allclose(drawn.majority, np.maximum(ones, 1 - ones))
    assert (drawn.best >= drawn.majority - 900 * 2.0**-53).all()  # by Jensen, up to the roundings of a mean
    assert (drawn.best_auc >= 0.5).all()
    assert sorted(drawn.difficulty[:3]) == list(range(len(DIFFICULTIES)))
    assert np.bincount(drawn.difficulty).tolist() == [10, 10, 10]


def test_equal_seeds_give_equal_problems_and_fewer_are_the_first_of_more():
    few, many, other = (draw_prior_problems(POINTS, *of) for of in ((6, 3), (12, 3), (6, 4)))
    # A bent signal is a product of 1,001 terms in single precision, of a row of norm 1.04 and some weights of norm 32.
    # The steepest slope is 100 deviations, and the normal density at most 0.4.
    rounding = 1001 * 2.0**-24 * 1.04 * 32 * 100 * 0.4
    assert rounding < 0.1
    np.testing.assert_allclose(few.probability, many.probability[:, :6], atol=rounding)
    assert (np.abs(few.probability - other.probability).max(axis=0) > 5 * rounding).all()


def test_the_prior_is_spread_over_prevalence_and_what_attributes_explain():
    """300 points of a Halton sequence miss a share by 0.015 at most: the 5 % point is between 3.5 and 6.5 %."""
    drawn = draw_prior_problems(POINTS, 300, 0)
    low, high = np.quantile(drawn.probability.mean(axis=0), (0.05, 0.95))
    least, most = betaincinv(1.5, 1.5, (0.035, 0.065))
    assert least < low < most
    assert 1 - most < high < 1 - least
    low, high = np.quantile(drawn.best_auc, (0.05, 0.95))
    # Of a normal signal: the middle of all prevalences is the hardest to tell, and 0.1 nearly the easiest.
    assert normal_auc(1 - 0.965**3, 0.5) < low < normal_auc(1 - 0.935**3, 0.1)
    assert high > normal_auc(1 - 0.065**3, 0.5)


def normal_auc(explained, prevalence):
    """Of perfect knowledge of a standard normal signal that explains so much."""
    signal = norm.ppf((np.arange(1000) + 0.5) / 1000)
    probability = norm.cdf((np.sqrt(explained) * signal + norm.ppf(prevalence)) / np.sqrt(1 - explained))
    return expected_auc(probability, probability)


def test_what_is_stated_holds():
    drawn = draw_prior_problems(POINTS, 40, 0, Belief(prevalence=(0.08, 0.12), best_auc=(0.65, 0.75)))
    ones = drawn.probability.mean(axis=0)
    # The first 25 points of base 5, and 32 of base 2, leave at most one such part open at an end. A share of 300
    # quantiles is off by 1 / 300 at most, and the AUC by that for each class.
    part, off = 0.04 / 25, 1 / 300
    assert 0.08 - off < ones.min() < 0.08 + part + off
    assert 0.12 - part - off < ones.max() < 0.12 + off
    part, off = 0.1 / 32, 2 / 300
    assert 0.65 - off < drawn.best_auc.min() < 0.65 + part + off
    assert 0.75 - part - off < drawn.best_auc.max() < 0.75 + off


def test_simple_problems_follow_the_main_axis():
    """Of the easy third, the correlation with the widest column is large; of the hard third, it is not (six errors)."""
    drawn = draw_prior_problems(POINTS, 60, 1)
    along = np.array([abs(np.corrcoef(POINTS[:, 0], column)[0, 1]) for column in drawn.probability.T])
    easy, hard = (along[drawn.difficulty == kind] for kind in (0, 2))
    assert easy.mean() - hard.mean() > DEVIATIONS * np.sqrt(easy.var() / len(easy) + hard.var() / len(hard))
    assert np.median(easy) > np.sqrt(0.5)  # that axis says more than all the others
    assert np.median(hard) < np.sqrt(0.5)


@pytest.mark.parametrize("constant", [False, True])
def test_records_that_are_all_alike_have_problems_too(constant):
    points = np.zeros((5, 2)) if constant else np.eye(5)[:, :2]
    drawn = draw_prior_problems(points, 6, 0, Belief(best_auc=(0.8, 0.9)))
    assert np.isfinite(drawn.probability).all()


def test_the_expected_auc_is_that_of_a_population_of_copies():
    rng = np.random.default_rng(2)
    score, probability = rng.integers(0, 9, 40).astype(float), rng.random(40)
    labels = np.repeat([1, 0], 40)
    weights = np.concatenate([probability, 1 - probability])
    wanted = roc_auc_score(labels, np.tile(score, 2), sample_weight=weights)
    assert expected_auc(score, probability) == pytest.approx(wanted)
    assert expected_auc(score, np.ones(40)) == 0.5


def test_foreseen_signals_are_gaussian_process_posteriors_averaged_by_evidence(monkeypatch):
    """Against dense covariances of the same random features, and scipy's normal density for the evidence."""
    monkeypatch.setattr(foresight, "LENGTH_SCALES", (0.5, 2.0))
    monkeypatch.setattr(foresight, "LINEAR_WEIGHTS", (0.0, 3.0))
    monkeypatch.setattr(foresight, "SMALLEST_WEIGHT", 0.0)
    rng = np.random.default_rng(3)
    rows, cells = POINTS[:60] / POINTS[:60].std(axis=0), np.arange(60) % 7
    observed, variance = 0.4 * rng.standard_normal((7, 4)), rng.uniform(0.05, 0.3, 7)
    found = Foresight(rows, seed=5).signals(cells, observed, variance)
    phases = rows @ draw_frequencies(5, 5)
    average = (cells == np.arange(7)[:, None]) / np.bincount(cells)[:, None]
    means, evidence, covariances = [], [], []
    for length in (0.5, 2.0):
        for linear in (0.0, 3.0):
            features = np.hstack(
                [stationary_features(phases / length).astype(float), np.sqrt(linear / 5) * rows, np.full((60, 1), 0.3)]
            )
            centres = average @ features
            square = average @ (features**2).sum(axis=1)
            within = np.maximum(square - (centres**2).sum(axis=1), 0.0)
            covariance = centres @ centres.T + np.diag(within / np.bincount(cells) + 1e-6 + variance)
            covariances.append(covariance)
            means.append(features @ centres.T @ np.linalg.solve(covariance, observed))
            evidence.append([multivariate_normal(cov=covariance).logpdf(column) for column in observed.T])
    weight = np.exp(np.array(evidence) - np.max(evidence, axis=0))
    wanted = np.einsum("knp,kp->np", np.array(means), weight / weight.sum(axis=0))
    # A signal is a row of features (of norm 1.04) times cells' means of such, times the cells' weights: two products of
    # at most 1,001 terms in single precision.
    bent = [np.abs(np.linalg.solve(each, observed)).sum(axis=0).max() for each in covariances]
    np.testing.assert_allclose(found, wanted, atol=2 * 1001 * 2.0**-24 * 1.09 * max(bent))


def about(options=None, *, records=100, curators=3, pooling=SUMMED):
    return doubts_about(options, records=records, curators=curators, pooling=pooling)


@pytest.mark.parametrize(("cells", "count"), [(99, 0), (100, 0), (101, 1), (None, 0)])
def test_more_cells_than_source_records_are_told(cells, count):
    told = about({"cells": cells, "networks": False})
    assert len(told) == count
    assert all("101 cells are more than the 100 source records" in text for text in told)


def test_a_secure_sum_is_told_that_no_curator_may_fall_silent_by_the_rule_that_plans_it():
    for curators in range(2, 40):
        pool = SecurePool.of(number.to_bytes(32, "big") for number in range(curators))
        told = about(curators=curators, pooling=Pooling("secure"))
        assert len(told) == (pool.dropouts == 0)
        assert all(f"a secure sum of {curators} curators that allows no dropout" in text for text in told)


@pytest.mark.parametrize(("curators", "way"), [(3, "takes 4 curators or more"), (4, "allow one: dropouts = 1")])
def test_the_way_out_of_a_secure_sum_without_a_dropout_is_one(curators, way):
    assert way in about(curators=curators, pooling=Pooling("secure"))[0]
    keys = [number.to_bytes(32, "big") for number in range(max(curators, 4))]
    assert SecurePool.of(keys, dropouts=1).dropouts == 1
    assert about(curators=curators, pooling=Pooling("secure", dropouts=1)) == []


def test_one_curator_alone_is_an_error_told_elsewhere():
    assert about(curators=1, pooling=Pooling("secure")) == []
