"""The study of sites: how records are dealt, what a round gives, its numbers, document, command; rows that pool."""

import csv
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t
from typer.testing import CliRunner

from comparison_fakes import tiny_split
from expril.report.files import as_markdown, csv_table
from expril.report.numbers import decimal
from expril.report.page import as_page
from lab import problems
from lab.__main__ import app
from lab.averages import Interval, mean_text
from lab.comparison import contestants
from lab.comparison.contestants import CONTESTANTS, SEVERAL_SITES, file_settings
from lab.learning import make_study, run_study
from lab.problems import PROBLEMS
from lab.sites import rounds, study
from lab.sites.rounds import (
    Ask,
    Question,
    Round,
    Studied,
    compute,
    exact_counts,
    one_noise,
    open_curators,
    spread_over,
    take_round,
    task_of,
)
from lab.sites.study import STUDY, document, findings, losses
from lab.splits import Units
from lab.study import FINDINGS, MARKDOWN, PAGE, Order, Size
from page_outline import Outline
from protocol.secure_sum.aggregator import STEPS

DOCS = Path(__file__).parents[2] / "docs"

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
    results = take_round(Ask("secure", 5, 4, silent=2, step=step), 1)

    assert (results.opened, results.summed, results.charged) == (opened, summed, charged)
    assert STEPS[results.last] == step


@pytest.mark.parametrize(("step", "summed"), [("keys", 4), ("shares", 4), ("masked", 4), ("agreed", 5), ("opened", 5)])
def test_as_many_silent_sites_as_the_plan_tolerates_cost_their_records_at_most(step, summed):
    results = take_round(Ask("secure", 5, 4, silent=1, step=step), 2)

    assert (results.opened, results.summed, results.charged, results.last) == (True, summed, summed, 4)
    assert (results.shares, results.colluders) == (3, 1)


def test_what_is_opened_is_the_exact_counts_and_noise_of_the_bound():
    """n = 4, t = 1, u = 0: 4/3 of the variance of one noise.

    False alarm at most 1e-9: the mean of 8,000 squares of excess kurtosis 3 h / n is near normal, and 6.2 deviations
    of it are 14 %. Shares of shape 1/n instead of 1/h would be 25 % too low, which is seen with a probability above
    0.9999; noise at each site would be three times as much.
    """
    results = take_round(Ask("secure", 4, 8000), 3)

    deviation = np.sqrt((2 + 3 * 3 / 4) / 8000)
    assert results.shares == 3
    assert results.noise / one_noise() == pytest.approx(4 / 3, rel=6.2 * deviation)


def test_every_site_adds_a_noise_of_its_own_without_a_secure_sum():
    """The same bound, 5 standard errors of 20 % for 10 sites: it is not mistaken for one noise, a tenth."""
    results = take_round(Ask("sum", 10, 2000), 3)

    assert (results.opened, results.summed, results.charged, results.last) == (True, 10, 10, 0)
    assert results.noise / one_noise() == pytest.approx(10, rel=6.2 * np.sqrt(2.3 / 2000))


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


def studied(pooling, sites, epsilon, seed, accuracy, auc=80.0, problem="C"):
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
    studied("sum", 1, "0.1", 0, 90.0),
    *(studied("sum", 10, "0.1", seed, 80.0 + seed) for seed in range(3)),
    *(studied("secure", 10, "0.1", seed, 84.0 + 2 * seed, 81.0) for seed in range(3)),
    studied("secure", 10, "0.1", 7, 10.0),
    studied("sum", 10, "1", 0, 93.0),
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
def results():
    return findings({"studies": STUDIES, "rounds": ROUNDS})


def test_gains_are_differences_of_the_same_split(results):
    point = next(point for point in results.points if (point.sites, point.epsilon) == (10, "0.1"))

    assert point.gain.runs == 3
    assert point.gain.value == pytest.approx(np.mean([4, 5, 6]))
    assert point.gain.error == pytest.approx(t.ppf(0.975, 2) * np.std([4, 5, 6], ddof=1) / np.sqrt(3))
    assert point.auc_gain == Interval(1.0, 0.0, 3)
    assert (point.local.runs, point.secure.runs) == (3, 4)
    single = next(point for point in results.points if point.sites == 1)
    assert (single.local, single.secure, single.gain) == (Interval(90.0, 0.0, 1), None, None)
    assert [point.epsilon for point in results.points] == ["1", "0.1", "0.1"]


def test_the_bound_is_n_over_h_and_is_broken_by_noise_that_is_clearly_above(results):
    (row,) = results.opened
    assert (row.sites, row.colluders, row.dropouts, row.shares, row.numbers) == (10, 1, 1, 8, 2000)
    assert row.bound == pytest.approx(10 / 8) == pytest.approx(row.measured)
    assert row.low < row.measured < row.high
    assert row.local == pytest.approx(10)
    assert row.broken is None
    for factor, broken in ((2, True), (1 / 2, False)):
        rounds = [made_round(Ask("secure", 10, 1000), noise=one_noise() * factor)]
        (row,) = findings({"studies": [], "rounds": rounds}).opened
        assert row.broken is broken


def test_traffic_adds_up_both_directions_of_all_turns(results):
    (row,) = results.traffic
    assert row.secure == 1650
    assert row.local == 55
    assert row.turns[2] == (300, 30)


def test_a_failed_sum_says_where_and_what_stays_charged(results):
    opened, failed = results.fates
    assert (opened.silent, opened.opened, opened.summed, opened.noise) == (0, 1, 10, 1.25)
    assert (failed.silent, failed.opened, failed.failed_at, failed.charged) == (3, 0, "masked", 7)


def test_files_hold_every_number(results):
    def rows(name):
        return list(csv.DictReader(csv_table(document(results).files[name]).splitlines()))

    assert rows("accuracy.csv")[0]["problem"] == "C"
    (noise,) = rows("noise.csv")
    assert (noise["bound"], noise["measured"]) == ("1.2500", "1.2500")
    (_, failed) = rows("dropouts.csv")
    assert (failed["failed_at"], failed["charged"], failed["opened"]) == ("masked", "7", "0")


def test_pages_say_what_was_found_and_load_nothing(results):
    shown = document(results)
    page, text = as_page(shown), as_markdown(shown)

    assert "| 10 | 81.0 ± 2.5 | 67.0 ± 60.5 | +5.0 ± 2.5 | +1.0 ± 0.0 | 4 |" in text
    assert "| 3 (30 %) | masked: after it dealt shares | failed at masked | 0 | 7 |" in text.replace("\xa0", " ")
    assert "1.250" in page
    assert "failed at masked" in " ".join(Outline(page).words)
    assert Outline(page).count("figure") == 4  # of C at two epsilons, noise, traffic
    assert not {"link", "img", "iframe"} & {name for name, _ in Outline(page).elements}
    assert as_page(shown) == page


def test_a_gain_that_is_sure_has_a_mark_and_a_chart_has_all_points(results):
    first, second, *_ = document(results).sections
    charts, fold = second.blocks[1:]
    (table,) = fold.blocks
    row = table.groups[0].rows[1]
    assert [(column.text(row).text, column.text(row).tone) for column in table.columns[3:5]] == [
        ("+5.0 ± 2.5", "above"),
        ("+1.0 ± 0.0", "above"),
    ]
    (figure,) = charts.figures
    assert [len(line.marks) for line in figure.lines] == [2, 1]
    assert [rule.text for rule in figure.rules] == ["all records at one site: 90.0"]
    assert first.blocks[1].figures[0].rules == ()


def test_nothing_is_a_page_too():
    empty = document(findings({"studies": [], "rounds": []}))
    assert "<h1>" in as_page(empty)
    assert not empty.in_medium("page")


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """One problem, whose questions are small."""
    for module in (problems, rounds):
        monkeypatch.setattr(module, "load_split", lambda problem, seed: tiny_split(seed, problem))
    monkeypatch.setitem(rounds.QUESTIONS, "tiny", Question("cells", {"cells": 3, "networks": False}, "three cells"))
    for name, value in {"NUMBERS": 4, "LOSING": 5, "SILENT": (2,), "TOLERATED": (1,)}.items():
        monkeypatch.setattr(study, name, value)


@pytest.mark.slow
def test_a_killed_study_goes_on_and_writes_every_file(tiny, tmp_path):
    size = Size(1, ("50",), {"problems": ("tiny",), "sites": ("1", "4")}, "")
    STUDY.run(Order(size, 1000, tmp_path, "typed here"))
    results = findings(STUDY.cells(tmp_path))

    assert [(point.sites, point.local.runs, point.secure and point.secure.runs) for point in results.points] == [
        (1, 1, None),
        (4, 1, 1),
    ]
    assert [row.sites for row in results.opened] == [4]
    assert len(results.fates) == len(losses()) == 6
    assert {fate.failed_at for fate in results.fates if fate.silent == 2} == set(STEPS)
    assert all(fate.opened for fate in results.fates if fate.silent < 2)
    cells = {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert len(cells) == 2
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"accuracy.csv", "noise.csv", "dropouts.csv", PAGE, MARKDOWN, FINDINGS}
    shown = json.loads((tmp_path / FINDINGS).read_bytes())
    assert (shown["points"][0]["problem"], shown["provenance"]["command"]) == ("tiny", "typed here")
    STUDY.run(Order(size, 1000, tmp_path, "typed again"))
    assert {path: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == cells


def test_a_study_is_charged_all_of_epsilon_either_way(tiny):
    for pooling in ("sum", "secure"):
        done = compute(task_of("tiny", pooling, 3, "1000/21", 0))
        assert (done.pooling, done.sites, done.epsilon) == (pooling, 3, "1000/21")
        assert done.accuracy > 75  # nearer to all than to half


def test_what_is_asked_at_most_thrice_does_not_grow_with_repeats():
    counts = {}
    for repeats in (1, 3, 10):
        order = Order(STUDY.size(full=True, repeats=repeats), 1000, Path(), "")
        counts[repeats] = (len(study.round_tasks(order)), len(study.study_tasks(order)))
    assert counts == {1: (36, 90), 3: (108, 270), 10: (108, 900)}


# --- the run that is kept -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A copy of the kept results, written anew by the command."""
    folder = tmp_path_factory.mktemp("kept") / "sites"
    shutil.copytree(DOCS / "results" / "sites", folder)
    for name in (MARKDOWN, PAGE, "accuracy.csv", "noise.csv", "dropouts.csv"):
        (folder / name).unlink()
    done = CliRunner().invoke(app, ["study", "sites", "--out", str(folder.parent), "--rewrite"])
    assert done.exit_code == 0, done.output
    return folder, done.stdout


def test_the_command_rewrites_the_kept_files_and_prints_their_tables(kept):
    folder, printed = kept
    assert all((folder / name).exists() for name in (PAGE, MARKDOWN, "accuracy.csv", "noise.csv", "dropouts.csv"))
    assert "failed at masked" in printed
    assert "Accuracy at epsilon 1: CTG" in printed
    assert "20 sites, of which 4 may drop out" in printed
    assert "…" not in printed  # every column is wide enough


def test_the_prose_has_the_kept_numbers(kept):
    folder, _ = kept
    prose = " ".join((DOCS / "results" / "sites.md").read_text(encoding="utf-8").split())
    results = findings(STUDY.cells(folder))
    at = {(point.problem, point.epsilon, point.sites): point for point in results.points}

    single, most = at["CTG-A", "0.1", 1], at["CTG-A", "0.1", 100]
    assert f"CTG has {mean_text(single.local)} % with all records at one site." in prose
    assert f"{mean_text(most.local)} % with noise at each, and {mean_text(most.secure)} % summed securely" in prose
    c, readmission = at["C", "0.1", 100], at["readmission", "0.1", 100]
    assert f"C has {mean_text(at['C', '0.1', 1].local)} % at one site" in prose
    assert f"{mean_text(c.local)} or {mean_text(c.secure)} % at 100" in prose
    assert f"readmission has {mean_text(at['readmission', '0.1', 1].local)} % at one site" in prose
    assert (
        f"{mean_text(readmission.local)}, which is the larger class, or {mean_text(readmission.secure)} % at" in prose
    )
    sure = [point.problem for point in (most, c, readmission) if point.gain.tone or point.auc_gain.tone]
    assert sure == ["CTG-A", "C"]
    assert (most.gain.tone, c.gain.tone) == ("", "")
    assert f"but those in AUC, {mean_text(most.auc_gain)} on CTG and, barely, {mean_text(c.auc_gain)} on C." in prose
    for (key, part), words in {
        (("CTG-A", "0.1", 50), "gain"): "{} points on CTG at 50 sites",
        (("C", "0.1", 20), "gain"): "{} on C at 20",
        (("readmission", "0.1", 50), "auc_gain"): "in AUC {} on readmission at 50",
        (("CTG-A", "1", 100), "gain"): "100 sites gain {} points on CTG",
        (("C", "1", 100), "gain"): "{} on C, ",
        (("readmission", "1", 100), "gain"): "{} on readmission; three sites gain nothing that is sure",
    }.items():
        assert words.format(mean_text(getattr(at[key], part))) in prose
    assert not any(at[problem, "1", 3].gain.tone for problem in rounds.QUESTIONS)
    gains = [mean_text(at[problem, "0.1", 100].gain) for problem in ("CTG-A", "C", "readmission")]
    assert "Their gains in accuracy are {} on CTG, {} on C and {} on readmission.".format(*gains) in prose


def test_the_prose_has_the_kept_noise_bytes_and_failures(kept):
    folder, _ = kept
    prose = " ".join((DOCS / "results" / "sites.md").read_text(encoding="utf-8").split())
    results = findings(STUDY.cells(folder))
    ratios = [row.measured / row.bound for row in results.opened]
    assert f"the measured variance is {min(ratios):.2f} to {max(ratios):.2f} times n/h, within its interval" in prose
    assert {row.broken for row in results.opened} == {None}
    assert {row.numbers for row in results.opened} == {3000}
    kilobytes = {row.sites: row.secure / 1000 for row in results.traffic}
    assert {decimal(row.local / 1000) for row in results.traffic} == {"19.2"}
    two, ten, fifty, hundred = (decimal(kilobytes[sites], 0) for sites in (2, 10, 50, 100))
    assert "takes 19.2 kB a site with noise at each" in prose
    assert f"summed securely {two} kB at 2 sites, {ten} at 10, {fifty} at 50 and {hundred} at 100" in prose
    within = [fate for fate in results.fates if fate.silent <= fate.dropouts]
    assert all(fate.opened == fate.rounds for fate in within)
    charged = {fate.failed_at: fate.charged for fate in results.fates if not fate.opened}
    assert charged == {"keys": 0, "shares": 0, "masked": 14, "agreed": 20}
    assert "At `keys` and `shares` nothing was charged" in prose
    assert "at `masked` those who answered were (14 of 20), at `agreed` all 20" in prose
    (last,) = [fate for fate in results.fates if fate.silent > fate.dropouts and fate.step == "opened"]
    assert last.opened == last.rounds  # at `opened` even 6 of 20 did no harm


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
