"""The comparison: its problems, what is measured, runs that go on, means and differences, bars, the command."""

import csv
import io
import json
import math
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from comparison_fakes import STEWARD, fake_contestant, guess, made_up, tiny_split
from expril.commands import terminal
from expril.report.files import csv_table
from expril.report.provenance import read_provenance
from lab import problems as problems_module
from lab.__main__ import app
from lab.cells import epsilon_text, shortest
from lab.comparison.contestants import (
    CONTESTANTS,
    DEFAULT,
    Outcome,
    asked_epsilons,
    cells_file,
    file_settings,
    paper_options,
    runs_of,
    tasks,
)
from lab.comparison.findings import LEAST, REFERENCE, averages, findings, holds, standings
from lab.comparison.study import DETAILS, STUDY, document
from lab.learning import Answer, WrongCostError, run_study
from lab.measures import measure
from lab.peers import PEERS, PeerFailedError, PeerUnavailableError
from lab.problems import PROBLEMS, draw, load_split
from lab.splits import Problem, make_matrices
from lab.study import Order, Size
from learner_node.strategies import STRATEGIES
from learner_node.strategies.cells import CellsStrategy
from protocol.errors import ConfigurationError
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.record_frames import encode_frame
from simulations.campaign.runner import FailedRunsError
from simulations.campaign.store import read_cells, read_settings

ROOT = Path(__file__).parents[2]
# --- problems ---------------------------------------------------------------------------------------------


@pytest.fixture
def data_directory(monkeypatch):
    directory = Path(os.environ.get("EXPRIL_DATA_DIR") or ROOT.parent / "shared" / "data")
    if not (directory / "CTG.xls").is_file():
        pytest.skip("set EXPRIL_DATA_DIR to a folder with the records")
    monkeypatch.setenv("EXPRIL_DATA_DIR", str(directory))


def test_a_problem_of_the_paper_is_the_draw_of_its_reproduction():
    split, draws = load_split("B", 3), draw("B", 3)

    np.testing.assert_array_equal(split.source.numeric, draws.source)
    np.testing.assert_array_equal(split.private.numeric, draws.oracle)
    np.testing.assert_array_equal(split.private_labels, draws.oracle_labels > 0)
    np.testing.assert_array_equal(split.test.numeric, draws.test)
    np.testing.assert_array_equal(split.test_labels, draws.test_labels > 0)
    assert [site.steward.round_size for site in split.sites] == [2500]


def test_every_hospital_keeps_three_quarters_and_the_learner_labels_the_rest(data_directory):
    heart, cleveland = load_split("heart", 1000), load_split("heart-cleveland", 1000)

    sizes = [len(site.records) for site in heart.sites]
    assert [site.name for site in heart.sites] == ["cleveland", "hungary", "long-beach", "switzerland"]
    assert sum(sizes) + len(heart.test) == 920
    assert sum(sizes) == pytest.approx(0.75 * 920, abs=4)
    np.testing.assert_array_equal(heart.source.numeric, heart.test.numeric)
    for mine, other in zip(heart.sites, cleveland.sites, strict=True):
        assert mine.frame.equals(other.frame)
    np.testing.assert_array_equal(heart.test.numeric, cleveland.test.numeric)
    np.testing.assert_array_equal(heart.test_labels, cleveland.test_labels)
    assert len(cleveland.source) == 303 - sizes[0]
    np.testing.assert_array_equal(cleveland.source.numeric, cleveland.test.numeric[: len(cleveland.source)])


def test_wdbc_goes_to_three_sites_and_no_record_twice():
    split, again, other = load_split("wdbc", 7), PROBLEMS["wdbc"].split(7), PROBLEMS["wdbc"].split(8)

    rows = {tuple(row) for row in (*split.private.numeric, *split.test.numeric)}
    assert len(rows) == 569 == len(split.private) + len(split.test)
    assert [len(site.records) for site in split.sites] == [143, 143, 142]
    np.testing.assert_array_equal(split.private.numeric, again.private.numeric)
    assert not np.array_equal(split.test.numeric, other.test.numeric)


def test_pathologic_states_are_another_label_of_the_same_records(data_directory):
    pathologic, normal = load_split("CTG-pathologic", 1000), load_split("CTG-A", 1000)

    np.testing.assert_array_equal(pathologic.source.numeric, normal.source.numeric)
    np.testing.assert_array_equal(pathologic.test.numeric, normal.test.numeric)
    labels = np.concatenate([pathologic.private_labels, pathologic.test_labels])
    assert not (labels & np.concatenate([normal.private_labels, normal.test_labels])).any()
    assert labels.mean() == pytest.approx(176 / 2126, abs=0.02)
    assert [site.steward.round_size for site in pathologic.sites] == [709]


@pytest.mark.slow
def test_readmissions_are_split_as_their_scenario_says_and_each_patient_counts_once(data_directory):
    any_time, soon = load_split("readmission", 1000), load_split("readmission-30", 1000)

    assert [site.name for site in any_time.sites] == ["elsewhere", "emergency", "referral", "transfer"]
    patients = [site.frame["patient"] for site in any_time.sites]
    assert sum(column.len() for column in patients) == pl.concat(patients).n_unique()
    assert len(any_time.private) == pytest.approx(69_990 / 2, abs=4)
    assert len(any_time.source) == len(any_time.test) == pytest.approx(69_990 / 4, abs=4)
    assert soon.test_labels.mean() < 0.1
    assert 0.3 < any_time.test_labels.mean() < 0.4
    matrices = any_time.matrices
    assert matrices.train.shape == (len(any_time.private), len(matrices.columns))
    for name in ("race", "diag_1", "payer_code"):
        places = [place for place, column in enumerate(matrices.columns) if column.startswith(f"{name}=")]
        assert (matrices.train[:, places].sum(axis=1) <= 1).all()
        assert (matrices.source[:, places].sum(axis=1) == 1).mean() > 0.99


def test_an_unknown_problem_is_named():
    with pytest.raises(ValueError, match="no problem is called 'F'; there are A, B"):
        load_split("F", 0)


def test_matrices_fill_gaps_by_the_source_and_bound_by_its_range():
    source = pl.DataFrame({"age": [10.0, 30.0, None, 50.0], "dose": [0.5] * 4, "sex": ["male", "male", "female", None]})
    private = pl.DataFrame({"age": [None, 99.0], "dose": [0.5, 0.9], "sex": [None, "unknown"]})
    schema = STEWARD.schema
    results = make_matrices(
        encode_frame(source, schema),
        encode_frame(private, schema),
        np.array([True, False]),
        encode_frame(source[:1], schema),
        np.array([False]),
    )

    assert results.columns == ("age", "dose", "sex=female", "sex=male")
    np.testing.assert_array_equal(results.train, [[30, 0.5, 0, 1], [99, 0.9, 0, 0]])
    np.testing.assert_array_equal(results.source[2:], [[30, 0.5, 1, 0], [50, 0.5, 0, 1]])
    np.testing.assert_array_equal(results.test, [[10, 0.5, 0, 1]])
    np.testing.assert_array_equal(results.labels, [1, 0])
    np.testing.assert_array_equal(results.lower, [10, 0.5, 0, 0])
    np.testing.assert_array_equal(results.upper, [50, 1, 1, 1])


# --- measures ---------------------------------------------------------------------------------------------


def test_measures_against_numbers_by_hand():
    results = measure(np.array([0.9, 0.8, 0.3, 0.6]), np.array([True, False, False, True]))

    assert results.accuracy == 75
    assert results.auc == 75  # of four pairs, 0.6 < 0.8 is the wrong one
    assert results.brier == pytest.approx((0.01 + 0.64 + 0.09 + 0.16) / 4)
    assert results.reliability.counts == (1, 1, 1, 1)
    assert results.reliability.predicted == (0.3, 0.6, 0.8, 0.9)
    assert results.reliability.observed == (0, 1, 0, 1)
    assert results.reliability.error == pytest.approx(100 * (0.3 + 0.4 + 0.8 + 0.1) / 4)


def test_a_constant_prediction_is_calibrated_whatever_the_order_of_the_records():
    labels = np.arange(300) < 100
    results = measure(np.full(300, 1 / 3), labels)

    assert results.reliability.error == pytest.approx(0, abs=1e-4)
    assert results.auc == 50
    assert results.accuracy == pytest.approx(200 / 3)


def test_one_class_alone_has_no_ranking():
    assert measure(np.array([0.2, 0.3]), np.array([False, False])).auc == 50


@pytest.mark.parametrize(
    ("probability", "message"), [([0.5, 1.5], "outside"), ([math.nan, 0.5], "outside"), ([0.5], "probabilities")]
)
def test_what_is_no_probability_is_refused(probability, message):
    with pytest.raises(ValueError, match=message):
        measure(np.array(probability), np.array([True, False]))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80))
def test_every_record_is_in_one_bin(predictions):
    probability, labels = (np.array(column) for column in zip(*predictions, strict=True))
    bins = measure(probability, labels).reliability

    assert sum(bins.counts) == len(predictions)
    assert max(bins.counts) - min(bins.counts) <= 1
    assert np.dot(bins.counts, bins.observed) == pytest.approx(labels.sum(), abs=1e-3)
    assert np.dot(bins.counts, bins.predicted) == pytest.approx(probability.sum(), abs=1e-3)
    assert list(bins.predicted) == sorted(bins.predicted)


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [(Fraction(1), "1"), (Fraction(3, 10), "0.3"), (Fraction(1, 3), "1/3"), (Fraction(10), "10"), (None, "inf")],
)
def test_epsilons_are_written_exactly(epsilon, text):
    assert epsilon_text(epsilon) == text


# --- studies ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_study_asks_every_site_and_costs_exactly_epsilon():
    split = tiny_split(1)
    answer = run_study(
        split, "cells", {"cells": 4}, Fraction(3, 10), claims=lambda learned: {"rounds": len(learned.study.rounds)}
    )

    assert answer.spent == Fraction(3, 10)
    assert answer.extras == {"rounds": 1}
    assert answer.probability.shape == (80,)
    silent = run_study(split, "cells", {"cells": 10}, Fraction(1000))
    assert np.mean((silent.probability > 0.5) == split.test_labels) > 0.75  # nearer to all than to half


class ThriftyStrategy(CellsStrategy):
    """Spends half of what it is given."""

    def plan(self, problem):
        return Plan.of(
            (
                PlannedCounts(
                    release="error_correct", partitions=1, scale=replace(problem, epsilon=problem.epsilon / 2).scale(1)
                ),
            )
        )


@pytest.mark.slow
def test_a_study_that_costs_something_else_is_never_reported(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "thrifty", ThriftyStrategy)
    with pytest.raises(WrongCostError, match="asked for 1, claimed 1/2, spent 1/2"):
        run_study(tiny_split(2), "thrifty", {"cells": 3}, Fraction(1))


def test_the_papers_strategies_get_the_papers_settings():
    results = paper_options(load_split("B", 0), Fraction(1))

    assert results["hidden"] == (16, 256, 256, 16)
    assert (results["rounds"], results["reweight"], results["bins"]) == (2, False, 55)
    assert paper_options(load_split("B", 0), Fraction(1, 10))["bins"] == 6
    assert paper_options(tiny_split(0, "wdbc"), Fraction(1)) == {}


# --- runs that are killed and go on -----------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Two tiny problems and three contestants that note what they were asked."""
    asked = []

    def noting(contestant):
        def solve(split, epsilon):
            asked.append((split.problem, contestant.name, epsilon, split.seed))
            return contestant.solve(split, epsilon)

        return replace(contestant, solve=solve)

    def split_of(name):
        return lambda seed: tiny_split(seed, name)

    for name in ("tiny-1", "tiny-2"):
        monkeypatch.setitem(PROBLEMS, name, Problem(name, f"title of {name}", split_of(name)))
    for contestant in (
        fake_contestant("cells", 0.9, silent=True),
        fake_contestant("dp-peer", 0.8, "peer", most_runs=2, lowest_epsilon=0.2),
        fake_contestant("h*", 0.95, "open"),
    ):
        monkeypatch.setitem(CONTESTANTS, contestant.name, noting(contestant))
    problems_module.load_split.cache_clear()
    yield asked
    problems_module.load_split.cache_clear()


def work(out, runs=3, *, seed=5000, jobs=1, **axes):
    expected = {"datasets": ("tiny-1", "tiny-2"), "strategies": ("cells", "dp-peer", "h*")}
    return Order(Size(runs, ("1.0", "1/10"), expected | axes, ""), seed, out, "typed here", jobs)


def kept(out):
    """The cells of a folder."""
    return STUDY.cells(out)["cells"]


def gather(out):
    """What the cells of a folder say."""
    return findings({"cells": kept(out)})


EVERYTHING = 2 * (3 * 3 + 2 * 1 + 3)
"""Of two problems: cells at 1, 0.1 and infinity, the peer twice and only at 1, h* once a run."""


def test_what_is_asked_of_whom():
    assert asked_epsilons(fake_contestant("x", silent=True), ["1", "0.1"]) == ("1", "0.1", "inf")
    assert asked_epsilons(fake_contestant("x", group="peer", lowest_epsilon=0.2), ["1", "0.1"]) == ("1",)
    assert asked_epsilons(fake_contestant("x", group="open"), ["1", "0.1"]) == ("inf",)


@pytest.mark.parametrize(
    ("caps", "problem", "runs"),
    [
        ({}, "A", 20),
        ({}, "readmission", 2),
        ({"most_runs": 1}, "readmission", 1),
        ({"most_runs": 10}, "readmission-30", 2),
        ({"big_runs": 1}, "readmission", 1),
        ({"big_runs": 0}, "readmission", 0),
        ({"big_runs": 0}, "A", 20),
        ({"problems": frozenset({"A"})}, "B", 0),
    ],
)
def test_big_problems_and_slow_contestants_get_fewer_runs(caps, problem, runs):
    assert runs_of(fake_contestant("x", **caps), problem, 20) == runs


def test_everything_gets_a_first_run_before_anything_gets_a_second(quick):
    expected = tasks(work(Path()))

    assert len(expected) == len(set(expected)) == EVERYTHING
    assert [task.seed for task in expected] == sorted(task.seed for task in expected)
    assert {task.epsilon for task in expected} == {"1", "0.1", "inf"}


def test_a_killed_run_goes_on_and_computes_nothing_twice(quick, tmp_path):
    class KilledError(Exception):
        pass

    def kill(_what, done, total):
        if len(quick) == 7:
            raise KilledError

    with pytest.raises(KilledError):
        STUDY.run(work(tmp_path), kill)
    ticks = []
    STUDY.run(work(tmp_path), lambda *tick: ticks.append(tick))

    assert len(quick) == len(set(quick)) == EVERYTHING
    assert ticks[-1][1] == pytest.approx(ticks[-1][2])
    cells = kept(tmp_path)
    assert len({cell.key for cell in cells}) == EVERYTHING
    assert {cell.spent for cell in cells if cell.maker == "cells"} == {"1", "1/10", ""}
    assert {path.name for path in (tmp_path / "cells").iterdir()} == {"cells.jsonl", "dp-peer.jsonl", "h_star.jsonl"}
    STUDY.run(work(tmp_path, runs=2))
    assert len(quick) == EVERYTHING


def test_cells_of_another_seed_are_not_mixed_in(quick, tmp_path):
    STUDY.run(work(tmp_path, runs=1))
    with pytest.raises(ConfigurationError, match="other settings"):
        STUDY.run(work(tmp_path, runs=1, seed=1000))


def test_what_is_not_installed_is_left_out_with_a_note_and_what_fails_is_named(quick, tmp_path, monkeypatch):
    tried = []

    def unavailable(split, epsilon):
        tried.append(split.seed)
        raise PeerUnavailableError("install it with `make peers`")

    def failing(split, epsilon):
        if split.seed == 5001:
            raise ArithmeticError("no root")
        return Answer(guess(split, 0.7))

    monkeypatch.setitem(CONTESTANTS, "dp-peer", fake_contestant("dp-peer", group="peer"))
    monkeypatch.setitem(CONTESTANTS, "dp-peer", replace(CONTESTANTS["dp-peer"], solve=unavailable))
    monkeypatch.setitem(CONTESTANTS, "h*", replace(CONTESTANTS["h*"], solve=failing))
    with pytest.raises(FailedRunsError, match="h\\* on tiny-1, seed 5001: ArithmeticError: no root"):
        STUDY.run(work(tmp_path))

    assert tried == [5000]
    results = gather(tmp_path)
    assert read_provenance(tmp_path)["comparison"].skipped == {"dp-peer": "install it with `make peers`"}
    assert results.find("tiny-1", "h*", "inf").runs == 2
    assert results.find("tiny-2", "cells", "0.1").runs == 3
    assert "make peers" in (tmp_path / "report.html").read_text()
    assert "make peers" in (tmp_path / "README.md").read_text()


def test_an_interrupt_leaves_tables_of_what_is_finished(quick, tmp_path, monkeypatch):
    """Even where the peers' process was interrupted, too, and says no versions any more."""

    def broken_off():
        raise PeerFailedError("broken off")

    monkeypatch.setattr("lab.peers.environment_versions", broken_off)

    def interrupt(_what, done, total):
        if len(quick) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        STUDY.run(work(tmp_path), interrupt)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))

    assert sum(int(row["runs"]) for row in rows) == 9


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    results = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        STUDY.run(work(out, 2, datasets=("wdbc",), strategies=("majority", "histogram-naive-bayes"), jobs=jobs))
        results.append({cell.key: cell.measures for cell in kept(out)})
    assert len(results[0]) == 4 + 2
    assert results[0] == results[1]


@pytest.mark.slow
def test_two_processes_skip_a_peer_that_neither_has(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPRIL_PEERS", str(tmp_path / "no-python"))
    out = tmp_path / "out"
    STUDY.run(work(out, 4, datasets=("wdbc",), strategies=("majority", "dp-logistic"), jobs=2))

    assert "make peers" in read_provenance(out)["comparison"].skipped["dp-logistic"]
    assert [cell.maker for cell in kept(out)] == ["majority"] * 4


# --- means, differences, bars -----------------------------------------------------------------------------


def outcomes_of(accuracies, strategy, epsilon="1", problem="A", first=0, **changes):
    """Outcomes of exactly these accuracies in percent, over 100 test records."""
    made = []
    for seed, accuracy in enumerate(accuracies, first):
        labels = np.ones(100, np.bool_)
        probability = np.where(np.arange(100) < accuracy, 0.9, 0.2)
        made.append(Outcome(problem, strategy, epsilon, seed, measure(probability, labels), 2.0 + seed, **changes))
    return made


def compare_outcomes(cells):
    """What these cells say."""
    return findings({"cells": cells})


def test_means_deviations_and_paired_differences_against_numbers_by_hand():
    results = compare_outcomes(
        [
            *outcomes_of([90, 92, 97], "cells", spent="1"),
            *outcomes_of([80, 91, 90, 60], "paper-c"),
            *outcomes_of([70], "paper-i", first=50),
        ]
    )
    cells, other, single = results.rows

    assert (cells.mean, cells.runs, cells.spent) == (93, 3, "1")
    assert cells.std == pytest.approx(math.sqrt((9 + 1 + 16) / 2))
    assert cells.difference is None
    assert cells.seconds == 3
    assert other.mean == pytest.approx(80.25)
    assert other.pairs == 3
    assert other.difference == pytest.approx((-10 - 1 - 7) / 3)
    assert other.difference_error == pytest.approx(math.sqrt((16 + 25 + 1) / 2 / 3))
    assert (single.difference, single.difference_error, single.pairs, single.std) == (None, None, 0, 0)


def test_rows_are_ordered_by_epsilon_then_as_the_tables_are():
    made = [
        made_up(strategy, problem, epsilon, 0, 0.8)
        for strategy in ("paper-i", "cells", "gone")
        for problem in ("wdbc", "A")
        for epsilon in ("0.1", "1", "inf", "1/3")
    ]
    results = compare_outcomes(made)

    assert results.epsilons == ("inf", "1", "1/3", "0.1")
    assert [row.strategy for row in results.rows[:6]] == ["cells", "cells", "paper-i", "paper-i", "gone", "gone"]
    assert [row.dataset for row in results.rows[:2]] == ["A", "wdbc"]
    assert results.strategies[-1].title == "gone"


def test_an_interval_holds_within_the_error_of_the_test_records():
    # 400 records at 80 % have a standard error of 2 points, 1.96 of which widen a half-width of 3 to 4.94.
    measured = measure(np.where(np.arange(400) < 320, 0.9, 0.2), np.ones(400, np.bool_))

    def claim(estimated, low, high):
        extras = {"estimated_accuracy": estimated, "interval_low": low, "interval_high": high}
        return holds(Outcome("A", "cells", "1", 0, measured, 1.0, extras=extras))

    assert claim(75.2, 72.2, 78.2)
    assert not claim(75.0, 72.0, 78.0)
    assert claim(84.9, 81.9, 87.9)
    assert not claim(85.0, 82.0, 88.0)


def test_claims_are_covered_or_not():
    claimed = {"estimated_accuracy": 90.0, "interval_low": 88.0, "interval_high": 92.0}
    results = compare_outcomes(outcomes_of([91, 60, 90, 92], "cells", extras=claimed))

    assert results.rows[0].coverage == 75
    assert (results.rows[0].claims.estimated, results.rows[0].claims.observed) == (90, pytest.approx(83.25))
    assert compare_outcomes(outcomes_of([91], "cells")).rows[0].coverage is None


def test_a_bar_is_met_at_its_number_or_at_the_same_distance_from_h_star():
    made = [
        *outcomes_of([94, 94], "cells"),
        *outcomes_of([96, 96], "paper-c"),
        *outcomes_of([94], "h*", "inf"),
        *outcomes_of([74], "cells", problem="B"),
        *outcomes_of([99], "h*", "inf", problem="B"),
        *outcomes_of([79], "cells", problem="heart"),
        *outcomes_of([70], "h*", "inf", problem="heart"),
        *outcomes_of([91], "paper-c", "0.3", problem="wdbc"),
    ]
    bars = {(bar.dataset, bar.epsilon): bar for bar in standings(compare_outcomes(made))}

    a = bars["A", "1"]
    assert (a.number, a.needed, a.met) == (95.0, pytest.approx(94 - 0.2), True)
    assert (a.best.strategy, a.best_met, a.aim) == ("paper-c", True, True)
    b = bars["B", "1"]
    assert (b.needed, b.met, b.aim) == (75.0, False, False)
    heart = bars["heart", "1"]
    assert (heart.needed, heart.met, heart.in_site, heart.aim) == (80.0, False, None, None)
    wdbc = bars["wdbc", "0.3"]
    assert (wdbc.met, wdbc.best_met) == (None, True)
    assert len(bars) == 4


def test_bars_are_of_problems_that_there_are():
    averaged = {name for name, problem in PROBLEMS.items() if problem.averaged}
    assert {dataset for least in LEAST.values() for dataset in least} == averaged
    assert set(REFERENCE) < set(PROBLEMS)
    assert [len(least) for least in LEAST.values()] == [10, 2, 8]


def test_an_average_needs_every_data_set():
    made = [*outcomes_of([90], "cells"), *outcomes_of([70], "cells", problem="B"), *outcomes_of([99], "paper-c")]
    assert [(item.strategy.name, item.mean) for item in averages(compare_outcomes(made), "1")] == [
        ("cells", 80),
        ("paper-c", None),
    ]


# --- files and command ------------------------------------------------------------------------------------


def test_the_results_have_exactly_the_columns_that_were_asked_for():
    results = compare_outcomes([*outcomes_of([90, 91], "cells", spent="1"), *outcomes_of([55], "majority", "inf")])
    files = document(results).files

    assert csv_table(files["results.csv"]) == (
        "dataset,strategy,epsilon,mean,std,runs\nA,majority,inf,55.00,0.00,1\nA,cells,1,90.50,0.71,2\n"
    )
    details = list(csv.DictReader(io.StringIO(csv_table(files["details.csv"]))))
    assert tuple(details[0]) == tuple(column.heading for column in DETAILS)
    assert (details[1]["epsilon_spent"], details[1]["difference"], details[1]["coverage"]) == ("1", "", "")


def test_epsilons_as_typed_are_those_of_the_cells():
    assert shortest(["1.0", "1/3", "1/10"]) == ("1", "1/3", "0.1")


def test_the_table_of_entries_has_every_peer_and_the_default():
    assert DEFAULT in CONTESTANTS
    assert set(PEERS) < set(CONTESTANTS)
    assert {name for name, contestant in CONTESTANTS.items() if contestant.group == "peer"} == {
        name for name, kind in PEERS.items() if kind.private
    }
    assert all(contestant.name == name for name, contestant in CONTESTANTS.items())


def study(*arguments):
    """The command."""
    return CliRunner().invoke(app, ["study", "comparison", *map(str, arguments)])


def test_the_command_leaves_every_file_and_a_second_one_computes_nothing(tmp_path):
    out = tmp_path / "comparison"
    arguments = ["--only", "datasets=WDBC", "--only", "strategies=majority,histogram-naive-bayes", "--epsilon", "1"]
    arguments += ["--repeats", "2", "--jobs", "1", "--out", tmp_path]
    first = study(*arguments)
    assert first.exit_code == 0, first.output
    assert "histogram-naive-bayes (2)" in first.output
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "cells",
        "details.csv",
        "provenance.json",
        "report.html",
        "results.csv",
        "results.json",
    }
    where = json.loads((out / "provenance.json").read_text())["comparison"]
    assert where["command"] == (
        "expril-lab study comparison --repeats 2 --epsilon 1 "
        "--only datasets=WDBC --only strategies=majority,histogram-naive-bayes"
    )
    assert where["cores"] >= 1
    assert "expril" in where["versions"]
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    again = study(*arguments, "--json")
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    rows = json.loads(again.output)["found"]["rows"]
    assert [(row["dataset"], row["strategy"], row["epsilon"], row["runs"]) for row in rows] == [
        ("wdbc", "majority", "inf", 2),
        ("wdbc", "histogram-naive-bayes", "1", 2),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "datasets=Q"], "unknown dataset 'Q'"),
        (["--only", "strategies=cell"], "unknown strategy 'cell'; did you mean 'cells'"),
        (["--only", "rounds=2"], "has no such axis; there are: strategies, datasets"),
        (["--epsilon", "-1"], "must be positive"),
        (["--epsilon", "1,100"], "an epsilon of 100 or more protects nothing, and 100 was asked for"),
        (["--epsilon", "1,100"], "confirm it with --large-epsilon"),
        (["--seed", 10**23], "--help"),
        (["--repeats", 10**23], "--help"),
    ],
)
def test_a_slip_on_the_command_line_is_one_clear_line(arguments, message, tmp_path):
    results = study(*arguments, "--out", tmp_path / "none")

    assert results.exit_code == 2
    assert message in results.output
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("number", terminal._FULL)
def test_a_full_disk_is_one_sentence_and_what_was_computed_is_kept(number, monkeypatch, tmp_path):
    def fail(*_args, **_options):
        raise OSError(number, os.strerror(number), "results.csv")

    monkeypatch.setattr("lab.study.write_texts", fail)
    only = ["--only", "datasets=wdbc", "--only", "strategies=majority", "--repeats", 1, "--jobs", 1]
    done = study(*only, "--out", tmp_path, "--json")
    results = json.loads(done.stdout)
    assert (done.exit_code, results["kind"]) == (2, "disk")
    assert results["error"] == f"results.csv: {terminal._FULL[number]}; free some space, or write to another folder"
    assert (tmp_path / "comparison" / "cells" / "majority.jsonl").stat().st_size > 100


# --- what is published ------------------------------------------------------------------------------------

LEARNING = ROOT / "docs" / "results" / "learning"


def test_a_published_file_of_cells_goes_on():
    for path in (LEARNING / "cells").iterdir():
        name = read_settings(path)["strategy"]
        assert read_settings(path) == json.loads(json.dumps(file_settings(name, STUDY.seed)))
        assert path == LEARNING / cells_file(read_cells(path, Outcome)[0].key)
