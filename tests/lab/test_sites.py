"""The study of sites: how records are dealt, what a round gives, its numbers and pages, the command; rows that pool."""

import csv
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import t
from typer.testing import CliRunner

from comparison_fakes import tiny_split
from expril.commands.command import app
from lab.comparison import contestants
from lab.comparison.cells import file_settings
from lab.comparison.contestants import CONTESTANTS, SEVERAL_SITES
from lab.comparison.studies import make_study, run_study
from lab.problems import PROBLEMS
from lab.sites import command, studies
from lab.sites.command import NOISE, POINTS, Order, losses, simulate_sites
from lab.sites.files import fates_csv, noise_csv, points_csv
from lab.sites.markdown import build_markdown
from lab.sites.model import Mean, found_of
from lab.sites.page import build_page
from lab.sites.rounds import Ask, Round, exact_counts, one_noise, open_curators, take_round
from lab.sites.spread import spread_over
from lab.sites.studies import Question, Studied, compute_study
from lab.sites.words import headline, summary
from lab.splits import Units
from page_outline import Outline
from protocol.secure_sum.aggregator import STEPS

# --- records at so many sites ------------------------------------------------------------------------------


@pytest.mark.parametrize("sites", [1, 2, 7, 120])
def test_records_are_dealt_once_to_equal_sites(sites):
    split = tiny_split(0)
    dealt, again = spread_over(split, sites), spread_over(split, sites)

    sizes = [len(site.records) for site in dealt.sites]
    assert sum(sizes) == 120
    assert max(sizes) - min(sizes) <= 1
    rows = sorted(map(tuple, dealt.private.numeric.tolist()))
    assert rows == sorted(map(tuple, split.private.numeric.tolist()))
    assert [site.frame.rows() for site in dealt.sites] == [site.frame.rows() for site in again.sites]
    assert (dealt.test, dealt.source) == (split.test, split.source)


def test_sites_declare_their_share_and_names_differ():
    dealt = spread_over(PROBLEMS["C"].split(5000), 3)

    assert [site.steward.round_size for site in dealt.sites] == [1667] * 3
    assert len({site.name for site in dealt.sites}) == 3
    assert {site.steward.round_size for site in spread_over(tiny_split(0), 3).sites} == {None}


def test_units_are_never_parted_and_no_site_is_empty():
    split = tiny_split(0)
    units = Units(2, np.zeros(120, object), np.zeros(80, object))
    with pytest.raises(ValueError, match="units of tiny have several records"):
        spread_over(replace(split, units=units), 2)
    with pytest.raises(ValueError, match="120 records cannot be dealt to 121 sites"):
        spread_over(split, 121)


# --- a round ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "opened", "summed", "charged"),
    [("keys", False, 0, 0), ("shares", False, 0, 0), ("masked", False, 0, 3), ("agreed", False, 0, 5)],
)
def test_too_many_silent_sites_fail_the_sum_and_who_sent_counts_stays_charged(step, opened, summed, charged):
    """Two of five, where the plan tolerates one: four are needed at each of these steps."""
    found = take_round(Ask("secure", 5, 4, silent=2, step=step), 1)

    assert (found.opened, found.summed, found.charged) == (opened, summed, charged)
    assert STEPS[found.last] == step


@pytest.mark.parametrize(("step", "summed"), [("keys", 4), ("shares", 4), ("masked", 4), ("agreed", 5), ("opened", 5)])
def test_as_many_silent_sites_as_the_plan_tolerates_cost_their_records_at_most(step, summed):
    found = take_round(Ask("secure", 5, 4, silent=1, step=step), 2)

    assert (found.opened, found.summed, found.charged, found.last) == (True, summed, summed, 4)
    assert (found.shares, found.colluders) == (3, 1)


def test_what_is_opened_is_the_exact_counts_and_noise_of_the_bound():
    """n = 4, t = 1, u = 0: 4/3 of the variance of one noise.

    False alarm at most 1e-9: the mean of 8,000 squares of excess kurtosis 3 h / n is near normal, and 6.2 deviations
    of it are 14 %. Shares of shape 1/n instead of 1/h would be 25 % too low, which is seen with a probability above
    0.9999; noise at each site would be three times as much.
    """
    found = take_round(Ask("secure", 4, 8000), 3)

    deviation = np.sqrt((2 + 3 * 3 / 4) / 8000)
    assert found.shares == 3
    assert found.noise / one_noise() == pytest.approx(4 / 3, rel=6.2 * deviation)


def test_every_site_adds_a_noise_of_its_own_without_a_secure_sum():
    """The same bound, 5 standard errors of 20 % for 10 sites: it is not mistaken for one noise, a tenth."""
    found = take_round(Ask("sum", 10, 2000), 3)

    assert (found.opened, found.summed, found.charged, found.last) == (True, 10, 10, 0)
    assert found.noise / one_noise() == pytest.approx(10, rel=6.2 * np.sqrt(2.3 / 2000))


def test_exact_counts_are_those_of_the_curators_named():
    curators = open_curators(3, 0)
    first = exact_counts(curators, ["site 1"], 7)

    assert first.sum() == len(curators.ages["site 1"])
    assert exact_counts(curators, ["site 1", "site 2", "site 3"], 7).sum() == 3 * first.sum()
    assert first[-1] == 0  # the cell of missing ages


def test_bytes_are_those_of_the_turns():
    few, many = (take_round(Ask("secure", 3, numbers), 0) for numbers in (5, 505))

    assert len(few.sent) == len(few.received) == 5
    # 500 numbers of 8 bytes come back masked, and nowhere else.
    grown = [round(b - a) for a, b in zip(few.received, many.received, strict=True)]
    assert grown[2] == pytest.approx(4000, abs=10)
    assert all(abs(more) < 10 for turn, more in enumerate(grown) if turn != 2)


# --- numbers of the report ----------------------------------------------------------------------------------


def study(pooling, sites, epsilon, seed, accuracy, auc=80.0, problem="C"):
    return Studied(problem, pooling, sites, epsilon, seed, accuracy, auc, 1.0)


def made_round(ask, seed=0, **changes):
    given = {
        "shares": 8 if ask.pooling == "secure" else 1,
        "colluders": 1 if ask.pooling == "secure" else 0,
        "opened": True,
        "last": 4 if ask.pooling == "secure" else 0,
        "summed": ask.sites,
        "charged": ask.sites,
        "noise": one_noise() * ask.sites / (8 if ask.pooling == "secure" else 1),
        "sent": (100.0, 200.0, 300.0, 400.0, 500.0) if ask.pooling == "secure" else (50.0,),
        "received": (10.0, 20.0, 30.0, 40.0, 50.0) if ask.pooling == "secure" else (5.0,),
        "seconds": 0.5,
    }
    return Round(ask=ask, seed=seed, **(given | changes))


STUDIES = [
    study("sum", 1, "0.1", 0, 90.0),
    *(study("sum", 10, "0.1", seed, 80.0 + seed) for seed in range(3)),
    *(study("secure", 10, "0.1", seed, 84.0 + 2 * seed, 81.0) for seed in range(3)),
    study("secure", 10, "0.1", 7, 10.0),
    study("sum", 10, "1", 0, 93.0),
]
LOST = Ask("secure", 10, 50, dropouts=1, silent=3, step="masked")
ROUNDS = [
    made_round(Ask("secure", 10, 1000)),
    made_round(Ask("secure", 10, 1000), 1),
    made_round(Ask("sum", 10, 1000)),
    made_round(Ask("secure", 10, 50, dropouts=1)),
    made_round(LOST, opened=False, last=2, summed=0, charged=7, noise=0.0),
]


@pytest.fixture(scope="module")
def found():
    return found_of(STUDIES, ROUNDS)


def test_gains_are_differences_of_the_same_split(found):
    point = next(point for point in found.points if (point.sites, point.epsilon) == (10, "0.1"))

    assert point.gain.runs == 3
    assert point.gain.value == pytest.approx(np.mean([4, 5, 6]))
    assert point.gain.error == pytest.approx(t.ppf(0.975, 2) * np.std([4, 5, 6], ddof=1) / np.sqrt(3))
    assert point.auc_gain == Mean(1.0, 0.0, 3)
    assert (point.local.runs, point.secure.runs) == (3, 4)
    alone = next(point for point in found.points if point.sites == 1)
    assert (alone.local, alone.secure, alone.gain) == (Mean(90.0, 0.0, 1), None, None)
    assert found.epsilons == ("1", "0.1")


def test_the_bound_is_n_over_h_and_is_broken_by_noise_that_is_clearly_above(found):
    (row,) = found.opened
    assert (row.sites, row.colluders, row.dropouts, row.shares, row.numbers) == (10, 1, 1, 8, 2000)
    assert row.bound == pytest.approx(10 / 8) == pytest.approx(row.measured)
    assert row.low < row.measured < row.high
    assert row.local == pytest.approx(10)
    assert row.broken is None
    (above,) = found_of([], [made_round(Ask("secure", 10, 1000), noise=one_noise() * 2)]).opened
    assert above.broken
    (below,) = found_of([], [made_round(Ask("secure", 10, 1000), noise=one_noise() / 2)]).opened
    assert below.broken is False


def test_traffic_adds_up_both_directions_of_all_turns(found):
    (row,) = found.traffic
    assert row.secure == 1650
    assert row.local == 55
    assert row.turns[2] == (300, 30)


def test_a_failed_sum_says_where_and_what_stays_charged(found):
    opened, failed = found.fates
    assert (opened.silent, opened.opened, opened.summed, opened.noise) == (0, 1, 10, 1.25)
    assert (failed.silent, failed.opened, failed.failed_at, failed.charged) == (3, 0, "masked", 7)


def test_files_hold_every_number(found):
    (first, *_) = csv.DictReader(points_csv(found).splitlines())
    assert first["problem"] == "C"
    (noise,) = csv.DictReader(noise_csv(found).splitlines())
    assert (noise["bound"], noise["measured"]) == ("1.2500", "1.2500")
    (_, failed) = csv.DictReader(fates_csv(found).splitlines())
    assert (failed["failed_at"], failed["charged"], failed["opened"]) == ("masked", "7", "0")


def test_pages_say_what_was_found_and_load_nothing(found):
    page, text = build_page(found), build_markdown(found)

    assert headline(found) == "10 sites at epsilon 0.1, summed securely: 67.0 instead of 81.0 % on C"
    assert "At epsilon 0.1, 10 sites that sum securely gain in points: +5.0 ± 2.5 on C." in summary(found)
    assert any(
        sentence.startswith("The 99.9 % interval of the variance of what is opened lies above its bound, n/h")
        and "at no number of sites" in sentence
        for sentence in summary(found)
    )
    assert "| 3 (30 %) | masked: after it dealt shares | failed at masked | 0 | 7 |" in text
    assert "1.250" in page
    assert "failed at masked" in page
    assert "failed at masked" in " ".join(Outline(page).words)
    assert not {"script", "link", "img", "iframe"} & {name for name, _ in Outline(page).elements}
    assert build_page(found) == page


def test_nothing_is_a_page_too():
    empty = found_of([], [])
    assert "<h1>" in build_page(empty)
    assert build_markdown(empty).startswith("# ")


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """One problem, whose questions are small."""
    monkeypatch.setattr(command, "load_split", lambda problem, seed: tiny_split(seed, problem))
    monkeypatch.setattr(studies, "load_split", lambda problem, seed: tiny_split(seed, problem))
    monkeypatch.setitem(studies.QUESTIONS, "tiny", Question("cells", {"cells": 3, "networks": False}, "three cells"))
    monkeypatch.setattr(command, "NUMBERS", 4)
    monkeypatch.setattr(command, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(command, "LOSING", 5)
    monkeypatch.setattr(command, "SILENT", (2,))
    monkeypatch.setattr(command, "TOLERATED", (1,))


@pytest.mark.slow
def test_a_killed_study_goes_on_and_writes_every_file(tiny, tmp_path, monkeypatch):
    order = Order(tmp_path, "expril simulate sites", problems=("tiny",), sites=(1, 4), epsilons=("50",), repeats=1)
    seen = []
    found = simulate_sites(order, lambda what, done, total: seen.append((done, total)))

    assert [(point.sites, point.local.runs, point.secure and point.secure.runs) for point in found.points] == [
        (1, 1, None),
        (4, 1, 1),
    ]
    assert [row.sites for row in found.opened] == [4]
    assert len(found.fates) == len(losses()) == 6
    assert {fate.failed_at for fate in found.fates if fate.silent == 2} == set(STEPS)
    assert all(fate.opened for fate in found.fates if fate.silent < 2)
    assert {path.name for path in tmp_path.iterdir()} >= {POINTS, NOISE, "report.html", "README.md", "results.json"}
    assert found.provenance.command == "expril simulate sites"
    assert json.loads((tmp_path / "results.json").read_bytes())["points"][0]["problem"] == "tiny"

    def never(*_):
        raise AssertionError

    for name in ("compute_study", "compute_round"):
        monkeypatch.setattr(command, name, never)
    assert simulate_sites(order, lambda *_: None) == found


def test_a_study_is_charged_all_of_epsilon_either_way(tiny):
    for pooling in ("sum", "secure"):
        done = compute_study(studies.study_task("tiny", pooling, 3, "1000/21", 0))
        assert (done.pooling, done.sites, done.epsilon) == (pooling, 3, "1000/21")
        assert done.accuracy > 75  # nearer to all than to half


def test_the_command_has_defaults_and_takes_no_option_of_a_scenario(tmp_path, monkeypatch):
    orders = []

    def run(order, progress):
        orders.append(order)
        return found_of(STUDIES, ROUNDS)

    monkeypatch.setattr(command, "simulate_sites", run)
    told = CliRunner().invoke(app, ["simulate", "sites", "--out", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["run"] == str(tmp_path / "sites")
    assert (orders[0].sites, orders[0].epsilons) == (command.SITES, ("1", "0.1"))
    assert orders[0].command == "expril simulate sites"

    shown = CliRunner().invoke(
        app, ["simulate", "sites", "--out", str(tmp_path), "--epsilon", "3,0.1", "--repeats", "9"]
    )
    assert "failed at masked" in shown.stdout
    assert "Accuracy at epsilon 1: C" in shown.stdout
    assert "10 sites, of which" in shown.stdout
    assert (orders[1].epsilons, orders[1].repeats) == (("3", "0.1"), 9)
    assert orders[1].command == "expril simulate sites --repeats 9 --epsilon 3,0.1"

    for options, name in ((["--carrier", "ray"], "carrier"), (["--fresh"], "fresh"), (["--models", "all"], "models")):
        refused = CliRunner().invoke(app, ["simulate", "sites", *options])
        assert refused.exit_code == 2
        assert f"--{name} is for a scenario" in refused.stderr
    large = CliRunner().invoke(app, ["simulate", "sites", "--epsilon", "200"])
    assert large.exit_code == 2
    assert len(orders) == 2


# --- rows of the comparison ---------------------------------------------------------------------------------


def test_pooled_rows_are_run_where_there_are_several_sites():
    row = CONTESTANTS["cells-secure"]
    assert row.problems == SEVERAL_SITES
    assert all(PROBLEMS[name].title for name in SEVERAL_SITES)
    for name in ("A", "CTG-A", "CTG-pathologic"):
        assert not row.speaks_of(name)
    assert file_settings("cells-secure", 1)["settings"]["pooling"] == "secure"
    assert "pooling" not in file_settings("cells", 1)["settings"]


def test_a_pooled_row_asks_for_a_secure_sum(monkeypatch):
    asked = []
    monkeypatch.setattr(contestants, "run_study", lambda *_, pooling, **_kinds: asked.append(pooling))
    for name in ("cells-secure", "cells"):
        CONTESTANTS[name].solve(tiny_split(0), Fraction(1))
    assert asked == ["secure", "sum"]


def test_such_a_study_is_a_secure_sum_of_all_sites_at_the_same_cost():
    split = spread_over(tiny_split(1), 3)
    quick = {"cells": 4, "networks": False}
    answer = run_study(split, "cells", quick, Fraction(1000), pooling="secure")
    learned = make_study(split, "cells", quick, Fraction(1, 3), pooling="secure")

    assert answer.spent == 1000
    assert np.mean((answer.probability > 0.5) == split.test_labels) > 0.75  # nearer to all than to half
    (done,) = learned.study.rounds
    assert done.answers == {}
    assert len(done.took_part) == 3
    assert (done.pooled.sites, done.pooled.noises) == (3, 1.5)
    assert learned.epsilon_claimed == Fraction(1, 3)
