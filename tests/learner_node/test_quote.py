"""A quote: exact costs, noise as it will be, reproducible simulations, and the command."""

import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from expril.command import app
from learner_fakes import ring, steward
from learner_node.label_model import cell_count_rule
from learner_node.label_model.prior import DIFFICULTIES, draw_prior_labels
from learner_node.quote import MOST_SITES, MOST_TARGET_SIZE, _suggested, quote
from protocol.errors import ConfigurationError
from protocol.records import encode_frame
from simulations import quoting


def records(n=60, **label):
    return encode_frame(ring(n), steward(**label).schema)


@pytest.fixture(scope="module")
def rows():
    return quote(records(), epsilons=[Fraction(1), Fraction(1, 3)], sites=2, target_size=400, problems=3)


def test_costs_and_scales_are_exact_and_the_rule_is_among_the_numbers_of_cells(rows):
    for epsilon in (Fraction(1), Fraction(1, 3)):
        of_one = [row for row in rows if row.epsilon == epsilon]
        rule = cell_count_rule(60, 400, float(epsilon), 2)
        assert all(row.cost == epsilon and row.precision.scale == 1 / epsilon for row in of_one)
        assert [row.precision.cells for row in of_one if row.usual] == [rule]
        assert [row.precision.cells for row in of_one] == sorted({rule // 2, rule, 2 * rule})
        assert sum(row.suggested for row in of_one) == 1


def test_a_contribution_bound_scales_the_noise():
    row = quote(records(), epsilons=[Fraction(1)], options={"cells": 6}, most_records_per_unit=4, problems=3)[0]
    assert (row.cost, row.precision.scale) == (Fraction(1), Fraction(4))


@pytest.mark.parametrize("changed", [{"sites": MOST_SITES + 1}, {"target_size": MOST_TARGET_SIZE + 1}])
def test_what_is_too_large_to_simulate_is_refused_before_anything_is_drawn(changed):
    with pytest.raises(ConfigurationError, match=f"{next(iter(changed))} is .* state a smaller one"):
        quote(records(), epsilons=[Fraction(1)], problems=3, **changed)


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
    assert row.precision.share_error == pytest.approx(min(0.5, share.std()), rel=0.02)


def test_accuracies_are_shares_and_no_model_beats_perfect_knowledge(rows):
    for row in rows:
        told = row.simulated
        assert 0 <= told.low <= told.mean <= told.high <= 1
        assert 0.5 <= told.majority <= told.best <= 1
        assert max(row.accuracies) <= 1
        assert told.mean <= told.best
        assert told.by_difficulty.keys() == DIFFICULTIES.keys()
        assert np.mean(list(told.by_difficulty.values())) == pytest.approx(told.mean)


def test_equal_seeds_give_equal_quotes_and_more_noise_a_worse_one():
    arguments = {"options": {"cells": 8}, "sites": 1, "target_size": 600, "problems": 3}
    one, tiny = (quote(records(), epsilons=[Fraction(e)], **arguments)[0] for e in ("1", "1/1000"))
    again, other = (quote(records(), epsilons=[Fraction(1)], seed=seed, **arguments)[0] for seed in (0, 1))
    assert again == one
    assert other.accuracies != one.accuracies
    assert tiny.simulated.mean < one.simulated.mean
    assert tiny.precision.share_error == 0.5


def test_any_strategy_can_be_quoted():
    row = quote(
        records(40), strategy="paper-c", options={"rounds": 1, "epochs": 1}, epsilons=[Fraction(1)], problems=3
    )[0]
    assert row.queries == 2
    assert row.cost == 1
    assert row.precision.share_error is None
    assert row.suggested


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epsilons": []}, "epsilons must be at least 1"),
        ({"epsilons": [Fraction(0)]}, "distinct positive epsilons"),
        ({"epsilons": [Fraction(1), Fraction(1)]}, "distinct positive epsilons"),
        ({"sites": 0}, "sites must be at least 1"),
        ({"problems": 2}, "at least 3 problems"),
        ({"strategy": "cels"}, "cells"),
        ({"options": {"rounds": 3}}, "rounds"),
        ({"strategy": "paper-c", "options": {"printed": True}}, "not private"),
        ({"source": records(10, classes=("a", "b", "c"))}, "two classes; 'sick' is another"),
        ({"source": records(10, classes=(), label_bounds=(0.0, 1.0))}, "two classes; 'sick' is another"),
    ],
)
def test_what_cannot_be_quoted_is_said(changes, text):
    with pytest.raises(ConfigurationError, match=text):
        quote(**{"source": records(10), "epsilons": [Fraction(1)], "problems": 3} | changes)


def test_another_number_of_cells_is_suggested_only_when_clearly_better(rows):
    from dataclasses import replace

    usual = replace(rows[0], usual=True, accuracies=(0.7, 0.8, 0.6))

    def other(*accuracies):
        mean = float(np.mean(accuracies))
        return replace(rows[0], usual=False, accuracies=accuracies, simulated=replace(rows[0].simulated, mean=mean))

    base = replace(usual, simulated=replace(usual.simulated, mean=0.7))
    lucky, better = other(0.9, 0.7, 0.7), other(0.75, 0.85, 0.64)
    assert _suggested([base, lucky]) is base
    assert _suggested([base, better]) is better


@pytest.mark.parametrize("number", range(6))
def test_prior_labels_are_probabilities_with_both_classes(number):
    points = np.random.default_rng(0).standard_normal((300, 5))
    drawn = draw_prior_labels(points, number, 7)
    assert drawn.name == list(DIFFICULTIES)[number % 3]
    assert drawn.probability.shape == (300,)
    assert ((drawn.probability >= 0) & (drawn.probability <= 1)).all()
    assert 0.5 <= drawn.majority <= drawn.best <= 1
    assert drawn.majority < 0.9
    assert (drawn.probability == draw_prior_labels(points, number, 7).probability).all()


# --- the command


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["quote", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_a_file_with_its_schema(tmp_path):
    ring(50).drop("sick").write_csv(tmp_path / "own.csv")
    (tmp_path / "schema.toml").write_text(
        'label = "sick"\nclasses = ["no", "yes"]\nround_size = 300\n'
        + "".join(
            f'[[attributes]]\nname = "{name}"\nkind = "numeric"\nlower = -2.0\nupper = 2.0\n' for name in ("x", "y")
        )
    )
    arguments = (tmp_path / "own.csv", "--schema", tmp_path / "schema.toml", "--epsilons", "1/3", "--problems", 3)
    found = json.loads(run(*arguments, "--sites", 2, "--option", "cells=5", "--json").stdout)
    assert found["target_size"] == 600
    assert [(row["epsilon"], row["cost"], row["cells"]) for row in found["rows"]] == [("1/3", "1/3", 5)]
    table = run(*arguments, "--option", "cells=5").stdout
    assert "300 private ones (declared) at 1 site(s)" in table


def test_a_scenario_gives_source_sites_and_declared_sizes():
    found = json.loads(run("wdbc", "--epsilons", 1, "--problems", 3, "--option", "cells=4", "--json").stdout)
    assert (found["sites"], found["strategy"]) == (3, "cells")
    assert found["target_size"] > 200


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.csv"], "--schema"),
        (["none.csv", "--schema", "none.toml"], "no schema file"),
        (["wdb"], "wdbc"),
        (["wdbc", "--learner", "adda"], "ada"),
        (["wdbc", "--option", "cells"], "name=value"),
        (["wdbc", "--epsilons", "1,x"], "x"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, text):
    assert text in run(*arguments, code=2).output


@pytest.mark.parametrize(
    ("value", "shown"), [("1", "1"), ("10/3", "10/3"), ("1/100000", "1/100000"), ("123457/1000000", "~0.1235")]
)
def test_a_long_exact_number_does_not_widen_the_table(value, shown):
    assert quoting._short(Fraction(value)) == shown


def test_the_quote_asks_as_many_cells_as_the_strategy_would():
    """Signed counts have less noise and get more cells; a share for the masses leaves less for them."""
    source, epsilon = records(300), Fraction(1, 2)
    usual = {}
    for name, options in {"pairs": {}, "signed": {"same_population": True}, "bought": {"mass_share": "1/10"}}.items():
        rows = quote(source, epsilons=[epsilon], sites=1, target_size=600, options=options, problems=3)
        usual[name] = next(row for row in rows if row.usual)
    assert usual["pairs"].precision.cells == cell_count_rule(300, 600, 0.5, 1)
    assert usual["signed"].precision.cells == cell_count_rule(300, 600, 0.5, 1, signed=True)
    assert usual["bought"].precision.cells == cell_count_rule(300, 600, 0.45, 1, signed=True)
    assert (usual["signed"].precision.scale, usual["bought"].precision.scale) == (2, Fraction(20, 9))


@pytest.mark.parametrize(("strategy", "usual"), [("adaptive-cells", ("1/2", "1/2")), ("informative", ("1/4", "3/4"))])
def test_splits_of_the_budget_are_tried_where_a_strategy_has_two_rounds(strategy, usual):
    rows = quote(records(), strategy=strategy, epsilons=[Fraction(1)], target_size=400, problems=3)
    assert [tuple(map(str, row.split)) for row in rows] == [("1/2", "1/2"), ("1/4", "3/4"), ("3/4", "1/4")]
    assert [tuple(map(str, row.split)) for row in rows if row.usual] == [usual]
    assert sum(row.suggested for row in rows) == 1
    assert all(sum(row.split) == 1 and row.cost == 1 for row in rows)
    only = quote(
        records(), strategy=strategy, options={"shares": [2, 1]}, epsilons=[Fraction(1)], target_size=400, problems=3
    )
    assert [tuple(map(str, row.split)) for row in only] == [("2/3", "1/3")]


@pytest.mark.parametrize(("shares", "shown"), [((1,), "1"), (("1/3",) * 3, "3 x 1/3"), (("1/4", "3/4"), "1/4 3/4")])
def test_a_split_is_written_short(shares, shown):
    assert quoting._split([Fraction(share) for share in shares]) == shown
