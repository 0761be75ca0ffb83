"""The reproduction's machinery: studies in lockstep, finished cells, real costs of the printed mechanism, studies."""

import csv
import io
import json
import math
import sys
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from typer.testing import CliRunner

from at_length import at_length
from expril.report.provenance import read_provenance
from lab.__main__ import app
from lab.problems import PAPER_DATASETS
from lab.reproduction import experiments, findings
from lab.reproduction.datasets import Draw
from lab.reproduction.experiments import (
    CURVES,
    EXPERIMENTS,
    PLAN_LENGTHS,
    Setup,
    curve_epsilon,
    curve_studies,
    error_ratio_epsilon,
    loss_at_bins,
    mass_ratio_epsilon,
    table_studies,
)
from lab.reproduction.findings import ACCURACIES, COLUMNS, entries, wilcoxon_tests
from lab.reproduction.laboratory import Laboratory, StudySettings
from lab.reproduction.runs import Chunk, Finished, Lockstep, StoppedError, chunks, compute, run_together, task_of
from lab.reproduction.study import STUDY, part_of
from lab.splits import split_of
from lab.study import FINDINGS, Order, parse_names
from learner_node.models.networks import TrainingSet, train_network
from learner_node.models.training_options import TrainingOptions
from learner_node.strategies.base import train_alone
from protocol.errors import ConfigurationError
from simulations.campaign.runner import FailedRunsError, run_batches
from simulations.campaign.store import Store, read_cells, read_settings

SMALL = TrainingOptions(hidden=(4,), epochs=2, batch_size=16)


# --- lockstep ---------------------------------------------------------------------------------------------


def training_set(seed):
    rng = np.random.default_rng(seed)
    return TrainingSet(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), None, seed)


def test_studies_that_need_different_numbers_of_networks_all_finish():
    """Each gets its own networks, the same as if it had been alone."""

    def work(item, train):
        return [train(training_set(100 * item + k), SMALL) for k in range(item)]

    results, failed = run_together([3, 0, 1, 2], work)
    outcome = [results[place] for place in range(4)]

    assert not failed
    for item, networks in zip([3, 0, 1, 2], outcome, strict=True):
        assert len(networks) == item
        for k, network in enumerate(networks):
            data = training_set(100 * item + k)
            single = train_network(data.X, data.y, hidden=(4,), epochs=2, batch_size=16, seed=data.seed)
            np.testing.assert_allclose(network.logits(data.X), single.logits(data.X), atol=1e-5)


def test_networks_of_different_options_may_meet():
    other = TrainingOptions(hidden=(2, 2), epochs=1)
    outcome, _ = run_together([SMALL, other, SMALL], lambda options, train: train(training_set(1), options))

    assert [len(outcome[place].layers) for place in range(3)] == [2, 3, 2]


def test_a_study_that_fails_holds_nobody_up_and_is_reported():
    finished = []

    def work(item, train):
        train(training_set(item), SMALL)
        if item == 1:
            raise KeyError("study 1")
        train(training_set(item + 10), SMALL)
        finished.append(item)

    outcome, failed = run_together([0, 1, 2], work)
    assert sorted(outcome) == sorted(finished) == [0, 2]
    assert isinstance(failed[1], KeyError)


def test_an_interrupt_stops_every_study_at_its_next_network(monkeypatch):
    begun = []

    def interrupted(sets, options):
        begun.append(len(sets))
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.reproduction.runs.train_networks", interrupted)
    meeting = Lockstep(1)
    with pytest.raises(KeyboardInterrupt), meeting.turn():
        meeting.trainer(0)(training_set(0), SMALL)
    meeting.stop()
    with pytest.raises(StoppedError), meeting.turn():
        raise AssertionError("no turn begins after a stop")
    assert begun == [1]


def test_an_error_of_training_reaches_every_study_that_waited():
    def work(item, train):
        bad = TrainingSet(np.zeros((3, 2)), np.full(3, 2.0), None, item)
        with pytest.raises(RuntimeError, match="trained together failed"):
            train(bad, SMALL)
        return item

    assert run_together([0, 1], work) == ({0: 0, 1: 1}, {})


def test_networks_are_trained_together_whichever_thread_comes_first(monkeypatch):
    sizes = []
    real = train_alone

    def counting(sets, options):
        sizes.append([data.seed for data in sets])
        return [real(data, options) for data in sets]

    monkeypatch.setattr("lab.reproduction.runs.train_networks", counting)

    def work(item, train):
        train(training_set(item), SMALL)
        train(training_set(10 + item), SMALL)

    run_together([0, 1, 2], work)

    assert sizes == [[0, 1, 2], [10, 11, 12]]
    assert threading.active_count() < 50


# --- the store --------------------------------------------------------------------------------------------

cells = st.builds(
    Finished,
    dataset=st.sampled_from(sorted(PAPER_DATASETS)),
    run=st.integers(0, 99),
    values=st.dictionaries(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False) | st.just("inf")),
    seconds=st.floats(0, 1e6),
)


@settings(max_examples=25, deadline=None)
@given(written=st.lists(cells, max_size=5), torn=st.integers(0, 400))
def test_a_store_that_was_cut_anywhere_loses_only_the_line_that_was_cut(tmp_path_factory, written, torn):
    path = tmp_path_factory.mktemp("store") / "cells.jsonl"
    with Store(path, {"seed": 1}, Finished) as store:
        for cell in written:
            store.add(cell)
    content = path.read_bytes()
    kept = content[: max(len(content) - torn, 0)]
    path.write_bytes(kept)

    with Store(path, {"seed": 1}, Finished) as again:
        complete = max(kept.count(b"\n") - 1, 0)
        assert again.finished == {cell.key: cell for cell in written[:complete]}
        again.add(Finished("A", 1000, {"x": 1.0}, 0.0))
    with Store(path, {"seed": 1}, Finished) as reopened:
        assert reopened.finished[task_of("A", 1000)].value("x") == 1.0
    assert {cell.key for cell in read_cells(path, Finished)} == set(reopened.finished)
    assert len(read_cells(path, Finished)) == len(reopened.finished)


test_a_store_that_was_cut_anywhere_loses_only_the_line_that_was_cut_at_length = at_length(
    test_a_store_that_was_cut_anywhere_loses_only_the_line_that_was_cut, 100
)


def test_a_store_of_other_settings_is_refused_and_kept(tmp_path):
    path = tmp_path / "cells.jsonl"
    with Store(path, {"seed": 1}, Finished) as store:
        store.add(Finished("A", 0, {"x": "inf"}, 0.0))
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=r"begun with other settings.*--out"):
        Store(path, {"seed": 2}, Finished)

    assert path.read_bytes() == before
    with Store(path, {"seed": 1}, Finished) as store:
        assert math.isinf(store.finished[task_of("A", 0)].value("x"))
    assert read_settings(path) == {"seed": 1}


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks there")
def test_two_processes_cannot_work_on_one_file(tmp_path):
    path = tmp_path / "cells.jsonl"
    with Store(path, {}, Finished), pytest.raises(ConfigurationError, match="another process works on"):
        Store(path, {}, Finished)
    with Store(path, {}, Finished):
        pass


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot be written: .*--out"):
        Store(tmp_path / "file" / "cells.jsonl", {}, Finished)


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "cells.jsonl"
    with Store(path, {}, Finished):
        pass
    path.write_text(path.read_text() + '{"dataset": 3}\n')

    with pytest.raises(ConfigurationError, match=r"line 2 of .* is no finished cell"):
        Store(path, {}, Finished)


# --- what the printed mechanism costs ---------------------------------------------------------------------


def laplace_tail(x):
    """P(L >= x) for the standard Laplace law."""
    return 0.5 * np.exp(-x) if x > 0 else 1 - 0.5 * np.exp(x)


def clipped_log_ratio(centre, width, other_centre, other_width):
    """Largest log-ratio p / p' of two Laplace laws clipped to [0, 1], by brute force over a grid and both atoms."""
    c = np.unique(np.concatenate([np.linspace(1e-9, 1 - 1e-9, 4001), [centre, other_centre]]).clip(1e-9, 1 - 1e-9))
    inside = np.log(other_width / width) - np.abs(c - centre) / width + np.abs(c - other_centre) / other_width
    low = np.log(laplace_tail(centre / width) / laplace_tail(other_centre / other_width))
    high = np.log(laplace_tail((1 - centre) / width) / laplace_tail((1 - other_centre) / other_width))
    return max(inside.max(), low, high)


@pytest.mark.parametrize("scale", [2, 6, 30, 75])
@pytest.mark.parametrize("n", [1, 2, 5, 34])
def test_the_loss_of_an_error_ratio_is_the_largest_over_all_releases(n, scale):
    """Against brute force over errors U, both directions, all releases and both ends."""
    worst = max(
        max(clipped_log_ratio(*old, *new), clipped_log_ratio(*new, *old))
        for errors in range(n + 1)
        for wrong in (0, 1)
        for old, new in [((errors / n, scale / n), ((errors + wrong) / (n + 1), scale / (n + 1)))]
    )

    assert error_ratio_epsilon(n, scale) == pytest.approx(worst, abs=1e-6)


def test_the_known_losses_of_an_error_ratio():
    """Four digits, from the analysis of the printed mechanism at l = 6, 30, 75."""
    known = {1: (0.7765, 0.7098, 0.6998), 10: (0.2468, 0.1256, 0.1074), 170: (0.1716, 0.0390, 0.0191)}
    for n, losses in known.items():
        for scale, loss in zip((6, 30, 75), losses, strict=True):
            assert error_ratio_epsilon(n, scale) == pytest.approx(loss, abs=6e-5)
    assert math.isinf(error_ratio_epsilon(0, 30))


@pytest.mark.parametrize("bins", [[10, 20], [1, 40, 3], [7, 7, 7, 7], [0, 5]])
def test_the_loss_of_a_mass_ratio_is_the_largest_over_all_releases(bins):
    """Against brute force: bins are independent given the counts, so their largest log-ratios add up."""
    scale = 9.0

    def worst_between(few, many):
        n, m = sum(few), sum(many)
        pairs = [((a / n, scale / n), (b / m, scale / m)) for a, b in zip(few, many, strict=True)]
        return max(
            sum(clipped_log_ratio(*old, *new) for old, new in pairs),
            sum(clipped_log_ratio(*new, *old) for old, new in pairs),
        )

    neighbours = []
    for j in range(len(bins)):
        more = [n + (k == j) for k, n in enumerate(bins)]
        neighbours.append(worst_between(bins, more))
        if bins[j]:
            neighbours.append(worst_between([n - (k == j) for k, n in enumerate(bins)], bins))

    assert mass_ratio_epsilon([bins], scale) == pytest.approx(max(neighbours), abs=1e-4)


def test_losses_add_up_over_features_and_a_bin_of_one_record_is_infinite():
    one, other = np.array([40, 3]), np.array([20, 23])
    together = loss_at_bins([one, other], Fraction(30))

    assert together == pytest.approx(
        float(np.max(error_ratio_epsilon([2, 3, 39, 40], 30)) + np.max(error_ratio_epsilon([19, 20, 22, 23], 30)))
    )
    assert math.isinf(loss_at_bins([one, np.array([1, 42])], 30))
    assert math.isinf(loss_at_bins([np.array([0, 43])], 30))
    assert math.isinf(mass_ratio_epsilon([np.array([1, 0])], 30))


# --- one run's studies ------------------------------------------------------------------------------------


def easy_draw(seed=0, n=120, name="C"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * n, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    parts = np.split(np.arange(3 * n), 3)
    source, oracle, test = parts
    return Draw(name, ("a", "b", "c"), X[source], y[source], X[oracle], y[oracle], X[test], y[test])


EASY = {"hidden": (8,), "epochs": 60, "batch_size": 32, "learning_rate": 1e-2, "weight_decay": 1e-4}


def laboratory(*, reweight=True, noise_seed=None, train=train_alone):
    draw = easy_draw()
    split = split_of(draw, 0, replace(PAPER_DATASETS["C"], target_size=len(draw.oracle)))
    return Laboratory(split, reweight=reweight, options=EASY, train=train, noise_seed=noise_seed)


@pytest.mark.parametrize("reweight", [False, True])
@pytest.mark.parametrize("learner", ["C", "I"])
def test_without_noise_the_paper_learns_what_one_attribute_decides(learner, reweight):
    """Labels are a coin's: that a guess is right so often has a chance of 1e-9."""
    lab = laboratory(reweight=reweight)

    accuracies = lab.study(StudySettings(learner, "none", 2, Fraction(6), 6)).accuracies

    by_chance = binom.isf(1e-9, 120, 0.5) / 120
    assert len(accuracies) == 2
    assert accuracies[-1] > by_chance
    assert lab.in_site() > by_chance
    assert 1 - by_chance < lab.majority() < by_chance


@pytest.mark.parametrize("reweight", [False, True])
def test_the_valid_studies_cost_exactly_what_they_claim(reweight):
    lab = laboratory(reweight=reweight)
    scale = Fraction(3 * (2 + reweight))

    lab.study(StudySettings("C", "valid", 2, scale, 4))
    assert lab.spent(simulation=False) == 1
    lab.study(StudySettings("I", "valid", 2, 2 * scale, 4))

    assert lab.spent(simulation=False) == Fraction(3, 2)
    assert lab.spent(simulation=True) == 0
    lab.study(StudySettings("I", "printed", 2, scale, 4))
    assert lab.spent(simulation=True) == 1


@pytest.mark.parametrize("noise", ["none", "printed", "valid"])
def test_noise_from_a_seed_runs_every_mechanism(noise):
    first, second = (laboratory(noise_seed=3).study(StudySettings("I", noise, 1, Fraction(6), 4)) for _ in range(2))

    assert first == second


def test_the_same_noise_gives_the_same_accuracies():
    """Also where the networks are trained beside those of another study."""
    settings = StudySettings("C", "printed", 2, Fraction(9), 4)
    single = laboratory(noise_seed=5).study(settings).accuracies

    beside, _ = run_together([0, 1], lambda _, train: laboratory(noise_seed=5, train=train).study(settings).accuracies)

    # Training rounds otherwise beside others: that moves what is next to the border, two or three records of 120.
    np.testing.assert_allclose(beside[1], beside[0], atol=0.025)
    np.testing.assert_allclose(beside[0], single, atol=0.025)
    assert laboratory(noise_seed=6).study(settings).accuracies != single


@pytest.mark.parametrize("reweight", [False, True])
def test_exact_bins_of_every_query_hold_every_private_record_once_per_attribute(reweight):
    lab = laboratory(reweight=reweight)
    workloads = lab.study(StudySettings("C", "printed", 2, Fraction(9), 5)).workloads

    assert len(workloads) == 2 + reweight
    assert workloads[-1] == workloads[-2]
    for workload in workloads:
        counts = lab.bin_records(workload)
        assert len(counts) == 3
        assert all(bins.sum() == 120 and len(bins) == 5 for bins in counts)


# --- what a run consists of -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPER_DATASETS)
def test_table_studies_follow_table_1(name):
    setup = Setup.of(name)
    studies = table_studies(setup)
    queries = 3 if PAPER_DATASETS[name].reweight else 2

    assert list(studies) == [
        f"{prefix}{learner}-ExPriL" for prefix in ("", "1DP-", "valid-1DP-") for learner in ("C", "I")
    ]
    assert {entry.scale for entry in studies.values()} == {PAPER_DATASETS[name].dimensions * queries}
    noisy = studies["1DP-C-ExPriL"]
    assert {entry.bins for entry in studies.values() if entry.noise != "none"} == {noisy.bins}
    per_deviation = PAPER_DATASETS[name].target_size / noisy.bins / float(noisy.scale)
    assert 2.5 < per_deviation / 2**0.5 < 5.5
    assert studies["C-ExPriL"].bins == studies["I-ExPriL"].bins == max(noisy.bins, 16)


@pytest.mark.parametrize("name", PAPER_DATASETS)
def test_curves_have_every_point_once_and_a_plan_costs_at_most_epsilon(name):
    setup = Setup.of(name)
    points = {}
    for key, study in curve_studies(setup):
        complete = key.fixed or key.noise == "none"
        for rounds in PLAN_LENGTHS if complete else [study.rounds]:
            assert (key, rounds) not in points
            points[key, rounds] = study.scale
    assert len(points) == len(CURVES) * len(PLAN_LENGTHS)
    d, masses = setup.problem.dimensions, setup.problem.reweight
    for (key, rounds), scale in points.items():
        if key.noise != "none":
            assert scale == (3 * d if key.fixed else d * (rounds + 1))
            claimed = curve_epsilon(setup, key, rounds)
            assert claimed == Fraction(rounds + masses) * d / scale
            assert key.fixed or claimed <= 1
    assert curve_epsilon(setup, CURVES[-1], 10) == Fraction(10 + masses, 3)


@pytest.mark.slow
def test_curves_of_two_rounds_from_studies_to_points(monkeypatch):
    """Each point is the mean over runs of what the run measured; a plan-scaled one is a study of its own."""
    asked = []
    study = Laboratory.study

    def spying(self, settings):
        asked.append(settings)
        return study(self, settings)

    monkeypatch.setattr(Laboratory, "study", spying)
    for module in (experiments, findings):
        monkeypatch.setattr(module, "PLAN_LENGTHS", range(1, 3))
    monkeypatch.setattr(experiments, "MOST_ROUNDS", 2)
    setup = Setup.of("C")
    runs = [Finished("C", run, experiments.curve_run(laboratory(), setup), 1.0) for run in range(2)]

    assert len(asked) == 2 * 2 * (1 + 2 + 2 + 1)
    curves = findings.learning_curves(runs, {"C": setup})
    assert len(curves) == 8
    for curve in curves:
        key = experiments.CurveKey(curve.learner, curve.noise, curve.fixed)
        for point in curve.points:
            values = [run.value(f"{key} {point.rounds}") for run in runs]
            assert point.mean == pytest.approx(np.mean(values))
            assert point.std == pytest.approx(np.std(values, ddof=1))
            assert -100 < point.mean < 100
    costs = {(c.noise, c.fixed): [point.epsilon for point in c.points] for c in curves}
    assert costs["printed", False] == costs["valid", False] == [1.0, 1.0]
    assert costs["printed", True] == pytest.approx([2 / 3, 1.0])
    assert costs["none", False] == [math.inf, math.inf]


# --- runs that are killed and go on -----------------------------------------------------------------------


def run_missing(path, name, setups, runs, *, seed=0, jobs=1, **more):
    """Runs of an experiment that a file lacks; its cells by (data set, run)."""

    def missing(finished):
        expected = [task_of(dataset, run) for dataset in setups for run in range(runs)]
        return chunks(name, setups, seed, [task for task in expected if task not in finished])

    run_batches(path, {}, Finished, missing, compute, jobs=jobs, **more).check()
    return kept(path)


def kept(path):
    return {(cell.dataset, cell.run): cell.values for cell in read_cells(path, Finished)}


@pytest.fixture
def quick(monkeypatch):
    """An experiment of one number per run that records which runs were computed."""
    computed = []

    def measure(laboratory, setup):
        computed.append((setup.problem.name, laboratory))
        return {"x": float(laboratory)}

    monkeypatch.setitem(EXPERIMENTS, "quick", replace(EXPERIMENTS["table2"], measure=measure))
    monkeypatch.setattr(experiments.Setup, "laboratory", lambda self, run, seed, train: seed + run)
    return computed


def test_a_run_that_was_stopped_goes_on_and_computes_nothing_twice(quick, tmp_path):
    setups = {name: Setup.of(name) for name in ("A", "C")}
    path = tmp_path / "quick.jsonl"

    class StopError(Exception):
        pass

    def stop_at_half(_what, done, total):
        if done > total / 2:
            raise StopError

    with pytest.raises(StopError):
        run_missing(path, "quick", setups, 30, seed=7, progress=stop_at_half)
    before = kept(path)
    assert 0 < len(before) < 60
    computed = len(quick)
    ticks = []
    after = run_missing(path, "quick", setups, 30, seed=7, progress=lambda *tick: ticks.append(tick))

    assert len(quick) == len(set(quick)) == 60
    assert len(quick) - computed == 60 - len(before)
    assert after == {(name, run): {"x": run + 7} for name in setups for run in range(30)}
    dones = [done for _, done, _ in ticks]
    assert dones == sorted(dones)
    assert dones[-1] == pytest.approx(ticks[-1][2])


def test_finished_runs_start_nothing(quick, tmp_path):
    run_missing(tmp_path / "quick.jsonl", "quick", {"C": Setup.of("C")}, 3)
    run_missing(tmp_path / "quick.jsonl", "quick", {"C": Setup.of("C")}, 2, jobs=8)

    assert len(quick) == 3


def test_a_run_that_fails_is_named_and_the_others_are_kept(quick, tmp_path, monkeypatch):
    def fails(laboratory, setup):
        if laboratory == 3:
            raise ArithmeticError("no tolerance")
        return {"x": float(laboratory)}

    monkeypatch.setitem(EXPERIMENTS, "quick", replace(EXPERIMENTS["table2"], measure=fails))
    with pytest.raises(FailedRunsError, match=r"run 3 of C: ArithmeticError: no tolerance"):
        run_missing(tmp_path / "quick.jsonl", "quick", {"C": Setup.of("C")}, 6)
    assert {run for _, run in kept(tmp_path / "quick.jsonl")} == {0, 1, 2, 4, 5}


def test_runs_that_fail_in_one_experiment_stop_no_other(quick, tmp_path, monkeypatch):
    """Each has its own file and its own place in the provenance."""

    def fails(laboratory, setup):
        raise ArithmeticError("no tolerance")

    monkeypatch.setitem(EXPERIMENTS, "broken", replace(EXPERIMENTS["table2"], measure=fails))
    study = replace(
        STUDY,
        parts=[part_of("broken"), part_of("quick")],
        findings=lambda cells, provenance: {"sources": sorted(provenance)},
        document=lambda _found: STUDY.document(findings.findings({})),
        check=lambda _order: None,
    )
    size = replace(STUDY.short, repeats=2, axes={"experiments": ("broken", "quick"), "datasets": ("C",)})
    with pytest.raises(FailedRunsError, match=r"2 run\(s\) failed.*run 0 of C: ArithmeticError"):
        study.run(Order(size, 7, tmp_path, "typed here", options={"noise_seed": 3}))
    assert [cell.values for cell in study.cells(tmp_path)["cells/quick"]] == [{"x": 7.0}, {"x": 8.0}]
    header = read_settings(tmp_path / "cells" / "quick.jsonl")
    assert (header["experiment"], header["setting"], header["seed"], header["noise_seed"]) == ("quick", "", 7, 3)
    told = read_provenance(tmp_path)
    assert (told["quick"].noise, told["quick"].command) == ("seed 3, not private", "typed here")
    assert json.loads((tmp_path / FINDINGS).read_text()) == {"sources": ["quick"]}


@pytest.mark.slow
def test_two_processes_share_the_work_and_give_what_one_gives(tmp_path, monkeypatch):
    """Costs to the last digit. Networks that are trained beside others round otherwise, so their scores are near."""
    for size in ("MANY_RUNS", "FEW_RUNS"):
        monkeypatch.setattr(f"lab.reproduction.runs.{size}", 5)
    setup = {"C": Setup.of("C", noise_seed=1)}
    outcome = [run_missing(tmp_path / f"{jobs}.jsonl", "table2", setup, 6, jobs=jobs) for jobs in (1, 2)]
    one, two = outcome
    assert one.keys() == two.keys()
    for key, values in one.items():
        costs = [name for name in values if name not in ACCURACIES]
        assert [values[name] for name in costs] == [two[key][name] for name in costs]
        np.testing.assert_allclose(*([entry[name] for name in ACCURACIES] for entry in (values, two[key])), atol=2)


def test_chunks_travel_between_processes():
    """Their setups hold functions of modules only."""
    from multiprocessing.reduction import ForkingPickler

    for name in PAPER_DATASETS:
        chunk = Chunk("table2", name, Setup.of(name), (0, 1), 0)
        assert len(ForkingPickler.dumps(chunk)) < 4096


# --- tables -----------------------------------------------------------------------------------------------


def finished_runs(dataset, rows):
    columns = dict.fromkeys(COLUMNS, 0.0)
    return [Finished(dataset, run, columns | values, 1.0) for run, values in enumerate(rows)]


def test_means_deviations_and_infinities():
    runs = finished_runs("A", [{"h_star": 90.0, "epsilon_printed_at_data": "inf"}, {"h_star": 94.0}, {"h_star": 92.0}])
    table = {cell.column: cell for cell in entries(runs)}

    assert (table["h_star"].mean, table["h_star"].std, table["h_star"].runs) == (92.0, 2.0, 3)
    assert table["h_star"].standard_errors == pytest.approx((92 - 94.3) / math.hypot(2 / 3**0.5, 0.23))
    at_data = table["epsilon_printed_at_data"]
    assert (at_data.mean, at_data.median, at_data.infinite_runs) == (math.inf, 0.0, 1)


def test_wilcoxon_is_paired_and_two_sided():
    rng = np.random.default_rng(0)
    level = rng.normal(70, 10, 30)
    rows = [{"C-ExPriL": x + 1 + 0.01 * k, "I-ExPriL": x} for k, x in enumerate(level)]
    tests = {test.noise: test for test in wilcoxon_tests(finished_runs("D", rows))}

    assert tests["none"].p_value == pytest.approx(2 * 0.5**30, rel=1e-3)  # all 30 signs alike
    assert tests["none"].difference > 1
    assert tests["valid"].p_value == 1.0


# --- the command ------------------------------------------------------------------------------------------


def test_dataset_names():
    assert parse_names("all", PAPER_DATASETS, "data set") == tuple(PAPER_DATASETS)
    assert parse_names(" ctg-b,A , a", PAPER_DATASETS, "data set") == ("CTG-B", "A")
    with pytest.raises(ConfigurationError, match="CTG-A"):
        parse_names("A, CTGA", PAPER_DATASETS, "data set")
    with pytest.raises(ConfigurationError, match="at least one"):
        parse_names(" ,", PAPER_DATASETS, "data set")


@pytest.mark.slow
def test_the_command_leaves_tables_that_its_cells_explain(tmp_path):
    """Two real runs of data set C, through curators, learner and messages."""
    out = tmp_path / "reproduction"
    arguments = ["study", "reproduction", "--only", "datasets=C", "--repeats", "2", "--jobs", "1"]
    arguments += ["--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output

    lines = (out / "cells" / "table2.jsonl").read_text().splitlines()
    values = [json.loads(line)["values"] for line in lines[1:]]
    rows = {row["column"]: row for row in csv.DictReader(io.StringIO((out / "table2.csv").read_text()))}
    for column in ("h_star", "C-ExPriL", "1DP-I-ExPriL", "valid-1DP-C-ExPriL", "h0_star"):
        assert float(rows[column]["mean"]) == pytest.approx(np.mean([v[column] for v in values]), abs=0.006)
        assert rows[column]["runs"] == "2"
    assert float(rows["epsilon_claimed"]["mean"]) == 1.0
    assert rows["epsilon_printed_worst"]["mean"] == "inf"
    assert all(85 < v["h_star"] <= 100 for v in values)
    assert all(v["C-ExPriL"] > v["h0_star"] + 10 for v in values)
    assert "study reproduction --repeats 2 --only datasets=C" in (out / "README.md").read_text()
    assert "<html" in (out / "report.html").read_text()

    stamp = (out / "cells" / "table2.jsonl").read_bytes()
    again = CliRunner().invoke(app, [*arguments, "--json"])
    assert again.exit_code == 0, again.output
    assert (out / "cells" / "table2.jsonl").read_bytes() == stamp
    assert "Infinity" not in again.stdout
    assert len(json.loads(again.stdout)["found"]["table"]) == len(COLUMNS)

    for other in (["--seed", "1"], ["--set", "noise_seed=1"]):
        refused = CliRunner().invoke(app, [*arguments, *other])
        assert refused.exit_code == 2
        assert "other seeds" in refused.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--only", "experiments=table2-unshrunken"], "did you mean 'table2-unshrunk'"),
        (["--only", "setting=unshrunk"], "there are: experiments, datasets"),
        (["--full", "--only", "experiments=table2-descent-10"], "say with --repeats how many"),
        (["--epsilon", "0.5"], "the paper's epsilon is 1"),
        (["--set", "noise_seed=-1"], "a noise_seed is a whole number"),
        (["--set", f"noise_seed={10**23}"], "a noise_seed is a whole number"),
        (["--set", "noise=1"], "there are: noise_seed"),
    ],
)
def test_an_order_that_cannot_be_is_refused_before_anything_is_made(tmp_path, options, told):
    refused = CliRunner().invoke(app, ["study", "reproduction", "--out", str(tmp_path / "x"), *options])
    assert refused.exit_code == 2
    assert told in refused.output
    assert not (tmp_path / "x").exists()


def test_an_order_takes_the_published_runs_or_as_many_as_it_says():
    def runs(**chosen):
        order = Order(STUDY.size(**chosen), 0, Path(), "")
        return {part.source: len(part.tasks(order)) for part in STUDY.parts if part.tasks(order)}

    assert runs() == {"table2": 25}
    assert runs(full=True) == {
        "table2": 700,
        "table2-descent-1": 100,
        "table2-descent-3": 140,
        "table2-unshrunk": 140,
        "table2-weakly-shrunk": 40,
        "table2-rule-bins": 40,
        "table2-longer-training": 100,
        "table2-shorter-training": 50,
        "table2-fine-bins": 140,
        "figure1": 35,
    }
    only = ["experiments=figure1,table2-rule-bins", "datasets=A,C"]
    assert runs(full=True, only=only) == {"figure1": 10}
    assert runs(full=True, only=only, repeats=3) == {"figure1": 6, "table2-rule-bins": 6}
