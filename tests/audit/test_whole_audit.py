"""A whole audit: tasks over processes, the command, the calibration of noise, and the page with its JSON."""

import json
import math
import os
import types
from dataclasses import replace
from fractions import Fraction
from functools import partial
from multiprocessing.reduction import ForkingPickler

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from audit_results import HOSTILE, attack, audit, blog, check, control, curve, kind, laplace, spread, study
from command_line import run as typed
from curator_fakes import altered
from curator_node.exact_draws import digits_of
from curator_node.kinds import ANSWERERS
from expril.audit import document as words
from expril.audit.attack import calibration
from expril.audit.attack import mirror_plot as pictures
from expril.audit.attack import whole_audit as everything
from expril.audit.attack.calibration import (
    DRAWS,
    FALSE_ALARM,
    MISSED_ALARM,
    SCALES,
    WIDE,
    bounded_pass_probability,
    calibrate,
    copies_pass_probability,
    equal_chance,
    first_values,
    pass_probability,
    shared_pass_probability,
    shift_pass_probability,
    suspicious_centre,
    suspicious_pairs,
    table_check,
)
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.attack.kinds import AUDITS, Candidate, attack_kind, kinds_to_audit
from expril.audit.attack.loss_curves import FACTORS, loss_curve, with_factor
from expril.audit.attack.whole_audit import FALSE_ALARMS, Attempt, play, tasks_of
from expril.audit.brief import QUESTIONS, audit_brief
from expril.audit.document import SpentRow, audit_document
from expril.audit.kinds.answer_path import AnswerPath
from expril.audit.kinds.invented import Neighbours, plain_record
from expril.audit.kinds.kind_audit import Enumerated
from expril.audit.results import AuditResult, Spread, as_object, decode_result, read_result, write_result
from expril.report.page import as_page
from page_outline import Outline
from protocol.errors import ConfigurationError
from protocol.kinds.counts import PlannedCounts
from protocol.rationals import Rational
from simulations.campaign.runner import FailedRunsError
from simulations.campaign.store import Store


def results_of(results):
    return results


def tasks_for(*results):
    return [Attempt(str(place), partial(results_of, part), float(place + 1)) for place, part in enumerate(results)]


def fails():
    raise ConfigurationError("nothing to attack")


def test_results_are_in_the_order_of_the_tasks_whatever_finishes_first():
    first, second = kind("a"), kind("b")
    ticks = []
    result = play(
        tasks_for((study(), study(epsilon="10")), first, (check(),), second, control(), blog()),
        workers=1,
        tick=lambda label, finished, total: ticks.append((label, finished, total)),
    )
    assert result.kinds == (first, second)
    assert len(result.studies) == 2
    assert (len(result.checks), len(result.controls), result.blog is not None) == (1, 1, True)
    assert ticks[0] == ("", 0.0, 21.0)
    assert ticks[-1][1:] == (21.0, 21.0)
    assert result.versions["opendp"][0].isdigit()
    assert result.false_alarm == FALSE_ALARMS


def pid():
    return kind(str(os.getpid()))


@pytest.mark.slow
def test_two_processes_share_the_work():
    result = play([Attempt(str(n), pid, 1.0) for n in range(4)], workers=2)
    assert len(result.kinds) == 4
    assert str(os.getpid()) not in {part.kind for part in result.kinds}


def test_what_fails_is_named_and_what_was_done_is_kept(tmp_path):
    cells = tmp_path / "cells.jsonl"
    good = tasks_for(kind("a"), kind("b"))
    with pytest.raises(FailedRunsError, match="nothing to attack"):
        play([*good, Attempt("bad", fails, 2.0)], workers=1, cells=cells)
    finished = []
    result = play(
        [*tasks_for(kind("x"), kind("y")), Attempt("bad", partial(results_of, kind("c")), 2.0)],
        workers=1,
        cells=cells,
        tick=lambda label, *_: finished.append(label),
    )
    assert [part.kind for part in result.kinds] == ["a", "b", "c"]
    assert finished == ["", "bad"]
    assert not cells.exists()


def test_other_draws_or_other_software_begin_anew(tmp_path, monkeypatch):
    cells = tmp_path / "cells.jsonl"
    bad = Attempt("bad", fails, 2.0)
    for settings, source in (({"draws": 1}, "one"), ({"draws": 2}, "one"), ({"draws": 2}, "other")):
        monkeypatch.setattr(everything, "installed", lambda source=source: {"source": source})
        finished = []
        with pytest.raises(FailedRunsError):
            play(
                [*tasks_for(kind("a")), bad],
                workers=1,
                cells=cells,
                tick=lambda label, *_, finished=finished: finished.append(label),
                **settings,
            )
        assert "0" in finished


def test_what_another_audit_works_on_is_left_to_it(tmp_path):
    cells = tmp_path / "cells.jsonl"
    with Store(cells, {"draws": 1}, everything.Cell):
        before = cells.read_bytes()
        with pytest.raises(ConfigurationError, match="another process works on"):
            play(tasks_for(kind("a")), workers=1, cells=cells, draws=2)
        assert cells.read_bytes() == before


def test_the_parts_of_false_alarms_add_up_to_the_budget():
    tasks = tasks_of(draws=100_000, quick=False)
    assert len({task.maker for task in tasks}) == len(tasks)
    rates = {}
    for task in tasks:
        if isinstance(task.work, partial):
            rates.setdefault(task.work.func, []).append(task.work.keywords.get("error_rate"))
    alarming = [*rates[everything.kind_and_curve], *rates[everything.one_run], *rates[everything.attack_study]]
    assert sum(alarming) == pytest.approx(FALSE_ALARMS)
    strictness = set(rates[everything.audit_control] + rates[everything.audit_path_control])
    assert strictness == set(rates[everything.kind_and_curve])
    assert len(rates[everything.kind_and_curve]) == len(everything.kinds_to_audit())
    assert len(rates[everything.audit_path_control]) == len(everything.PATH_CONTROLS)
    assert len(rates[everything.audit_control]) == len(everything.CONTROLS)


def test_a_quick_look_is_at_the_releases_alone():
    tasks = tasks_of(draws=100_000, quick=True)
    assert [task.maker for task in tasks] == [*everything.kinds_to_audit(), "colluders"]
    assert {(task.work.keywords["draws"], task.work.keywords["pairs"]) for task in tasks[:-1]} == {(1000, 10)}


def test_every_task_can_be_sent_to_another_process():
    for task in (*tasks_of(draws=2000, quick=False), *tasks_of(draws=2000, quick=True)):
        ForkingPickler.dumps(task.work)


def test_a_check_that_was_made_twice_is_told_once_and_its_failure_is_not_lost():
    result = play(tasks_for(check(), check(passed=False), check()), workers=1)
    assert [part.passed for part in result.checks] == [False]


# The command


@pytest.fixture
def run(tmp_path, monkeypatch):
    def command(result, *options, code):
        parts = (result.kinds, result.controls, result.checks, result.studies, *filter(None, (result.blog,)))
        monkeypatch.setattr(everything, "tasks_of", lambda **asked: tasks_for(*parts))
        return typed("audit", "all", "--workers", 1, "--out", tmp_path / "out", *options, code=code)

    return command


def test_all_in_order_exits_with_0_and_writes_a_page_and_json(run, tmp_path):
    finished = run(audit(), code=0)
    for part in (*audit().kinds, *audit().controls, *audit().checks):
        assert (part.kind if hasattr(part, "kind") else part.name.replace("_", " ")) in finished.stdout
    assert "No attack found more privacy loss than is claimed." in finished.stdout
    assert read_result(tmp_path / "out" / "audit.json")[0].kinds == audit().kinds
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "expril audit all" in page


def test_a_quick_look_says_what_it_left_out(run, tmp_path):
    few = audit(kinds=(kind(draws=5000),), controls=(), checks=(), studies=())
    said = run(few, "--quick", code=0).stdout
    page = (tmp_path / "out" / "audit.html").read_text()
    for part in (
        "quick look",
        "few pairs of data sets",
        "left out the mechanisms that are broken on purpose, the attacks",
    ):
        assert part in " ".join(said.split())
        assert part in page
    assert "left out" not in run(audit(kinds=(kind(draws=10_000),)), code=0).stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kinds": (kind(violation=True, bound=0.5),)}, "VIOLATION"),
        ({"controls": (control(caught=False, bound=0.1),)}, "MISSED"),
        ({"checks": (check(passed=False),)}, "FAILED"),
        ({"studies": (study(gain=0.9, holds=False),)}, "ABOVE BOUND"),
        ({"studies": (study(reaches=False),)}, "SHORT"),
    ],
)
def test_what_is_not_in_order_exits_with_1(run, change, said):
    assert said in run(audit(**change), code=1).stdout


def test_json_for_a_gate(run):
    finished = run(audit(), "--json", code=0)
    ticks = json.loads(finished.stdout)
    assert [part["kind"] for part in ticks["kinds"]] == [part.kind for part in audit().kinds]
    assert all(part["caught"] for part in ticks["controls"])
    assert json.loads(run(audit(kinds=(kind(violation=True, bound=1.0),)), "--json", code=1).stdout)["passed"] is False


def test_wrong_use_exits_with_2(run):
    run(audit(), "--draws", "7", code=2)
    run(audit(), "--drawz", "7", code=2)


ALARM = FALSE_ALARM / len(SCALES)


class Shifted(QuickNoise):
    def discrete_laplace(self, exact, l1, law, stamp):
        return super().discrete_laplace(exact, l1, law, stamp) + round(law.scale / 10)


class Halting(QuickNoise):
    """Every fifth number is the one before it."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        noise[1::10] = noise[:-1:10][: len(noise[1::10])]
        noise[3::10] = noise[2::10][: len(noise[3::10])]
        return exact + noise


class Bounded(QuickNoise):
    """No number is beyond five scales."""

    def discrete_laplace(self, exact, l1, law, stamp):
        most = int(5 * law.scale)
        return exact + super().discrete_laplace(np.zeros_like(exact), l1, law, stamp).clip(-most, most)


class Uniform(QuickNoise):
    """Bounded, and as often 0 and as far from it on average as it should be: its loss is infinite."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        apart = noise != 0
        most = max(1, round(2 * np.abs(noise[apart]).mean() - 1)) if apart.any() else 1
        noise[apart] = np.sign(noise[apart]) * np.random.default_rng().integers(1, most + 1, int(apart.sum()))
        return exact + noise


class Repeating(QuickNoise):
    """A fifth of the numbers are those three places before."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        again = np.flatnonzero(np.random.default_rng().random(max(0, len(noise) - 3)) < 0.2)
        noise[again + 3] = noise[again]
        return exact + noise


class TooSmall(QuickNoise):
    """Shares for one curator more than there are."""

    def laplace_shares(self, size, law, parts, stamp):
        return super().laplace_shares(size, law, parts + 1, stamp)


class RepeatedShares(QuickNoise):
    """Half of the shares are the other half once more."""

    def laplace_shares(self, size, law, parts, stamp):
        return np.tile(super().laplace_shares(size // 2, law, parts, stamp), 2)


KEPT = np.random.default_rng(1)


class InMemory(QuickNoise):
    """A generator in the memory of the process: a copy of the process repeats it."""

    def __init__(self):
        super().__init__(generator=KEPT)


@pytest.mark.slow
def test_installed_noise_passes(monkeypatch):
    monkeypatch.setattr(calibration, "DRAWS", 5_000)  # `tests/curator_node/test_mechanisms.py` takes all of them
    checks = calibrate()
    assert [result.name for result in checks] == [
        "noise_scale",
        "noise_centre",
        "noise_tails",
        "noise_independent",
        "noise_shares",
        "noise_choice",
        "noise_of_new_processes",
        "noise_tables",
    ]
    for result in checks:
        assert result.passed, result
        assert result.false_alarm <= FALSE_ALARM


@pytest.mark.parametrize("fault", ["nothing", "rate", "sign", "bound", "order"])
def test_a_table_that_is_not_the_law_s_is_found(fault):
    def digits(scale, *, signed):
        table = list(digits_of(scale, signed=signed))
        if fault == "rate" and scale == 30:
            table[0] = replace(table[0], rate=table[0].rate * (1 + Fraction(1, 2**70)))
        if fault == "sign":
            table = [replace(digit, signed=False) for digit in table]
        if fault == "bound" and scale == Fraction(1000, 3):
            bounds = table[1].bounds(64)
            bounds[-1] += 1
            table[1] = types.SimpleNamespace(**vars(table[1]), bounds=lambda bits: bounds, count=1)
        if fault == "order":
            table = table[::-1]
        return tuple(table)

    found = table_check(digits)
    assert found.passed == (fault == "nothing")
    assert found.finding.startswith("Yes: all" if found.passed else "No: not at")


@pytest.mark.family(3)
@pytest.mark.parametrize(
    ("noise", "name"),
    [
        (lambda: QuickNoise(Fraction(9, 10)), "noise_scale"),
        pytest.param(lambda: QuickNoise(Fraction(11, 10)), "noise_scale", marks=pytest.mark.slow),
        (Shifted, "noise_centre"),
        (Bounded, "noise_tails"),
        pytest.param(Uniform, "noise_tails", marks=pytest.mark.slow),
        (Halting, "noise_independent"),
        pytest.param(Repeating, "noise_independent", marks=pytest.mark.slow),
        (TooSmall, "noise_shares"),
        pytest.param(RepeatedShares, "noise_shares", marks=pytest.mark.slow),
        (lambda: QuickNoise(Fraction(5, 6)), "noise_choice"),
        pytest.param(lambda: QuickNoise(Fraction(6, 5)), "noise_choice", marks=pytest.mark.slow),
        (InMemory, "noise_of_new_processes"),
    ],
)
def test_wrong_noise_fails(noise, name, monkeypatch):
    monkeypatch.setattr(calibration, "FORKED", 3)
    checks = {result.name: result for result in calibrate(noise)}
    assert not checks[name].passed
    assert "No:" in checks[name].finding or "were the same" in checks[name].finding


def test_a_generator_that_every_process_seeds_for_itself_passes(monkeypatch):
    monkeypatch.setattr(calibration, "FORKED", 3)
    result = first_values(QuickNoise)
    assert result.passed
    assert result.false_alarm <= FALSE_ALARM


def test_the_stated_power_is_computed():
    """Each chance of missing is below 1e-6, but for the centre's, which is stated as it is."""
    for scale in SCALES:
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            assert pass_probability(DRAWS, scale, scale * factor, ALARM) < MISSED_ALARM
        assert copies_pass_probability(DRAWS // 3, scale, 0.2, ALARM / 10) < MISSED_ALARM
        assert bounded_pass_probability(DRAWS, scale, ALARM) == 0
        assert shared_pass_probability(DRAWS, scale, ALARM / 4) < MISSED_ALARM
    assert shift_pass_probability(DRAWS, 30, 3, ALARM) < 2 * MISSED_ALARM
    assert shift_pass_probability(DRAWS, 30, 0, ALARM) > 1 - 1e-6  # no shift passes


@pytest.mark.parametrize("shift", [-3, 1, 3])
def test_the_power_on_a_shift_is_that_of_draws(shift):
    """With few draws, where a miss is frequent: within five deviations of what is seen in 400 repeats."""
    rng, law = np.random.default_rng(5), calibration.DiscreteLaplace(Fraction(30))
    rows = law.simulate(rng, (400, 1000)) + shift
    passed = np.mean([not suspicious_centre(row, 0.05) for row in rows])
    stated = shift_pass_probability(1000, 30, shift, 0.05)
    assert passed <= stated + 5 * np.sqrt(0.25 / 400)


def test_equal_chances_are_sums_of_squares():
    for scale in (Fraction(1, 2), Fraction(3), Fraction(30)):
        law = calibration.DiscreteLaplace(scale)
        squares = sum(np.exp(2 * law.log_pmf(k)) for k in range(-2000, 2001))
        assert equal_chance(scale) == pytest.approx(squares, rel=1e-9)
    assert float(1 / (2 * WIDE)) < 2**-31


def test_the_false_alarm_rate_of_repeated_values_is_an_upper_bound():
    """Of c comparisons, two or more agree with a chance of at most (c P(X = Y))^2 / 2."""
    compared, chance = 880, float(1 / (2 * WIDE))
    assert stats.binom(compared, chance).sf(1) <= (compared * chance) ** 2 / 2


def test_a_row_is_no_copy_of_itself_in_disguise():
    rng, law = np.random.default_rng(2), calibration.DiscreteLaplace(Fraction(3))
    first, second = law.simulate(rng, (2, DRAWS))
    assert not suspicious_pairs(first, second, 3)
    assert suspicious_pairs(first, -first, 3)
    assert suspicious_pairs(first, first, 3)


def build_page(result, **rest):
    return as_page(audit_document(result, **rest))


BAD = {
    "gave away more": {"kinds": (kind(), kind("counts/new", violation=True, bound=0.5))},
    "gained more": {"studies": (study(gain=0.9, holds=False),)},
    "less than theory gives": {"studies": (study(reaches=False),)},
    "a check failed": {"checks": (check(passed=False),)},
    "proves nothing": {"controls": (control(caught=False, bound=0.2),)},
}


def test_the_answer_comes_first():
    html = build_page(audit(), created="2026-11-22T14:50:00+00:00")
    outline = Outline(html)
    assert outline.text.index(words.headline(audit())) < outline.text.index("What each release gives away")
    assert "banner" not in [attrs.get("class") for _, attrs in outline.elements]
    for text in ("100,000 times", "3 were caught", "at most 5 of 100", "opendp 0.14.1", "expril audit all"):
        assert text in outline.text


@pytest.mark.parametrize("said", BAD)
def test_what_went_wrong_is_the_headline_and_the_banner(said):
    result = audit(**BAD[said])
    assert not result.passed
    outline = Outline(build_page(result))
    assert said in words.headline(result)
    assert "banner" in [attrs.get("class") for _, attrs in outline.elements]


def test_an_audit_of_nothing_does_not_say_that_all_is_well():
    assert "nothing is said" in words.headline(AuditResult())
    Outline(build_page(AuditResult()))


def test_the_first_screen_answers_four_questions():
    """Claim, reach, controls, and what was not tried; each follows from the results."""
    page = Outline(build_page(audit())).text
    for question in QUESTIONS:
        assert page.index(question) < page.index("What each release gives away")
    answers = {answer.question: answer.sentences for answer in audit_brief(audit()).answers}
    assert "3 kinds of release" in answers[QUESTIONS[0]]
    assert "93 % of the claim" in answers[QUESTIONS[1]]
    assert "all of them were caught" in answers[QUESTIONS[2]]
    for said, change in BAD.items():
        bad = audit_brief(audit(**change)).answers
        if said in ("gave away more", "gained more", "proves nothing"):
            assert [answer.sentences for answer in bad] != list(answers.values())
    violated = audit_brief(audit(kinds=(kind("counts/new", violation=True, bound=0.5),))).answers[1]
    assert violated.answer == "More than is claimed, of 1 release: counts/new."
    untold = audit_brief(audit(kinds=(kind("counts/new", exact=None),))).answers
    assert "exactly for 0 of 1 kind" in untold[1].sentences
    assert "No exact loss was computed for counts/new" in untold[3].sentences
    assert audit_brief(AuditResult()).answers[0].answer.startswith("Nothing")


def test_loss_is_drawn_against_epsilon_for_each_kind():
    page = build_page(audit(curves=(curve("counts/mass"), curve("sample", exact=(0.2, 0.4, 0.7, 1.3)))))
    assert Outline(page).text.index("Loss against epsilon") > 0
    for text in (
        "exact law: 0.25 at epsilon 0.25",
        "exact law: 1.3 at epsilon 2",
        "proven by draws: 0.96 at epsilon 1",
    ):
        assert text in page
    assert "Loss against epsilon" not in build_page(audit(curves=()))


@pytest.mark.parametrize(
    "bad", [{"exact": (0.25, 0.5, 1.0, 2.01)}, {"proven": (0.26, None, 0.96, None)}], ids=["exact", "proven"]
)
def test_a_loss_above_the_claim_at_another_epsilon_fails_the_audit(bad):
    result = audit(curves=(curve("sample", **bad),))
    assert not result.passed
    assert words.headline(result) == "At another epsilon a release loses more than claimed: sample"


@pytest.mark.slow
@pytest.mark.parametrize("name", kinds_to_audit())
def test_the_curve_of_every_kind_rises_below_its_claim(name):
    """An exact law at each of four epsilons, of every kind; and the plan that is priced there is another.

    What the draws prove passes the claim with a chance of 1e-9.
    """
    result, candidate = attack_kind(name, draws=1000, error_rate=1e-9)
    drawn = loss_curve(result, candidate, AUDITS[name.partition("/")[0]])
    assert drawn.holds
    assert len(drawn.epsilons) == len(FACTORS)
    assert list(drawn.exact) == sorted(drawn.exact)
    assert drawn.exact[FACTORS.index(1)] == pytest.approx(result.exact, abs=1e-9)


def test_a_law_that_fails_at_another_epsilon_is_not_left_out():
    """Only a stated limit leaves a point out; a law with a fault would else hide a loss."""
    counts = AUDITS["counts"]
    path = AnswerPath(ANSWERERS["counts"], counts.examples()["mass"][0])
    record = plain_record(path.example.schema)
    pair = Neighbours(((record,),), (record,))
    candidate = Candidate(path, pair, 1, (), Enumerated.alike(1.0, 1.0), 1.0)

    def law(case):
        if case.planned != path.planned:
            raise ValueError("math domain error")
        return counts.claimed_law(case)

    with pytest.raises(ValueError, match="domain"):
        loss_curve(kind("counts/mass"), candidate, altered(counts, claimed_law=law))


def test_noise_is_widened_wherever_a_plan_names_it():
    """Twice the scale, half the decay; sizes and shares stay."""
    half = Fraction(1, 2)
    counts = PlannedCounts(release="mass", partitions=3, scale=Rational(30, 1))
    assert with_factor(counts, half) == msgspec.structs.replace(counts, scale=Rational(60, 1))
    (example, *_) = AUDITS["statistic"].examples()["smooth"]
    planned = example.ask(1).planned
    before, after = planned.method, with_factor(planned, half).method
    assert (after.scale.fraction, after.decay.fraction) == (2 * before.scale.fraction, before.decay.fraction / 2)
    assert msgspec.structs.replace(after, scale=before.scale, decay=before.decay) == before


def test_an_event_that_is_no_interval_is_not_drawn():
    """Such as values seen under one input alone: no axis shows them."""
    drawn = kind("counts/mass")
    scattered = kind("counts/new", spread=spread(event=None))
    assert build_page(audit(kinds=(drawn, scattered))).count("<figure") < build_page(audit(kinds=(drawn, drawn))).count(
        "<figure"
    )


def test_every_kind_control_check_and_study_is_on_the_page():
    result = audit(checks=(check(), check(passed=False)))
    text = Outline(build_page(result, spent=[SpentRow("north", "each record", "1", "1", "It adds up.", False)])).text
    for row in result.kinds:
        assert row.kind in text
        assert row.verdict in text
    for row in result.controls:
        assert row.name.replace("_", " ") in text
        assert row.fault in text
    for row in result.studies:
        assert row.verdict in text
    parts = "It adds up.|FAILED|caught|holds|0.3333 (1/3)|0.5400|0.7098|suppressed counts"
    assert all(part in text for part in parts.split("|"))


def test_the_paper_s_mechanism_leads_the_controls_and_missed_ones_lead_it():
    names = [row.name for row in words.in_order(audit().controls)]
    assert names[0] == "paper_ratio_1"
    missed = control("clock", caught=False)
    assert words.in_order((*audit().controls, missed))[0] == missed


def test_the_paper_s_figure_is_its_law():
    law = pictures.paper_law()
    inside = [sum(law.first), sum(law.second)]
    rng = np.random.default_rng(1)
    for n, share in zip((1, 2), inside, strict=True):
        ratios = (rng.laplace(0, pictures.SCALE, 400_000) + 1) / n
        share_inside = ((ratios > 0) & (ratios < 1)).mean()
        assert abs(share_inside - share) < 6.2 * (share * (1 - share) / 400_000) ** 0.5  # false alarm below 1e-9
    loss = max(abs(math.log(a / b)) for a, b in zip(law.first, law.second, strict=True))
    assert loss == pytest.approx(math.log(2) + 1 / 60, abs=0.002)  # ln(1 + 1/n) + n / ((n + 1) l) at n = 1, l = 30
    assert "where a claim of 1/30 allows 1.03 times" in pictures.paper_words()


def test_bars_that_hide_all_others_are_cut():
    hiding = Spread("x", (0.0, 1.0, 2.0, 3.0), (0.9, 0.01, 0.01, 0.08), (0.9, 0.02, 0.02, 0.06))
    assert pictures.mirror(hiding).axis.endswith("(the tallest bars are cut)")
    assert pictures.mirror(spread()).axis == "released count"


def test_a_bar_of_several_numbers_is_in_the_event_only_as_a_whole():
    wide = Spread("x", (5.0, 15.0, 25.0), (0.5, 0.1, 0.4), (0.4, 0.2, 0.4), (1.0, 29.0))
    assert pictures.mirror(wide).above_event.count("M") == 1


def test_the_page_runs_our_own_script_alone_and_loads_nothing():
    html = build_page(audit())
    outline = Outline(html)
    assert not {"img", "link", "iframe", "object"} & {tag for tag, _ in outline.elements}
    assert outline.count("script") == 1
    policy = next(attrs["content"] for tag, attrs in outline.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert policy.count("script-src 'sha256-") == policy.count("script") == 1
    assert "url(" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_texts_of_a_mechanism_are_shown_and_never_obeyed():
    hostile = audit(
        kinds=(
            kind(
                HOSTILE, neighbours=HOSTILE, event=HOSTILE, spread=Spread(HOSTILE, (0.0, 1.0), (0.5, 0.5), (0.4, 0.6))
            ),
        ),
        controls=(control(HOSTILE, truth=HOSTILE, neighbours=HOSTILE),),
        checks=(msgspec.structs.replace(check(), name=HOSTILE, finding=HOSTILE, question=HOSTILE, power=HOSTILE),),
        studies=(study(HOSTILE), study(HOSTILE, "none", target=HOSTILE)),
        blog=msgspec.structs.replace(blog(), spreads={HOSTILE: spread()}),
        versions={HOSTILE: HOSTILE},
    )
    html = build_page(
        hostile, spent=[SpentRow(*([HOSTILE] * 5), True)], command=HOSTILE, created="2026-11-22T14:50:00+00:00"
    )
    assert html.count("<script") == 1  # our own
    assert Outline(html).text.count("alert(") > 12


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40, unique=True).map(sorted),
    st.one_of(st.none(), st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))),
    st.randoms(use_true_random=False),
)
def test_any_distribution_can_be_drawn(values, event, random):
    heights = [tuple(random.random() / len(values) for _ in values) for _ in range(2)]
    picture = pictures.mirror(Spread("x", tuple(values), *heights, event))
    assert picture.above.startswith("M")
    numbers = [
        float(part)
        for path in (picture.above, picture.below)
        for part in path.replace("Z", "").split("V")[1::2]
        if "H" not in part
    ]
    assert all(0 <= number <= 100 for number in numbers)


def test_an_event_far_out_is_in_the_picture():
    places = tuple(float(n) for n in range(-100, 101))
    far = Spread("x", places, laplace(1, 3, places), laplace(0, 3, places), (90.0, math.inf))
    assert pictures.mirror(far).above_event
    near = msgspec.structs.replace(far, event=(1.0, math.inf))
    assert len(pictures.mirror(near).above) < len(pictures.mirror(far).above)


def test_bounds_stand_in_units_of_their_claim():
    strip = words.share_strip(kind())
    (exactly, proven), ((claimed, _),) = strip.dots, strip.marks
    assert exactly[1] == pytest.approx(claimed)
    assert proven[1] < claimed < words.share_strip(kind(bound=0.4)).dots[1][1]
    axis = words.ratio_axis([attack(bound=3.0), attack(bound=0.1)])
    assert [tick.label for tick in axis.ticks] == ["1 ×", "10 ×"]
    ((_, least, _, _),) = words.ratio_strip(axis, control(bound=0.0)).dots
    assert axis.at(least) == axis.at(axis.low)


def test_a_kind_that_could_not_be_audited_is_shown():
    nothing = kind(violation=True, claimed="0", bound=0.0, exact=None, spread=None)
    assert "VIOLATION" in Outline(build_page(audit(kinds=(nothing,)))).text
    assert words.of_claim("0", 0.1) == math.inf


# For machines


def test_the_json_is_what_a_gate_needs():
    fields = as_object(audit(), created="now")
    assert {"kind", "claimed", "lower_bound", "exact", "violation"} <= fields["kinds"][0].keys()
    assert {"name", "caught"} <= fields["controls"][0].keys()
    assert (fields["kinds"][0]["claimed"], fields["kinds"][0]["lower_bound"]) == ("1/3", 0.31)
    assert fields["passed"] is True
    brief = as_object(audit(), pictures=False)
    assert "spread" not in json.dumps(brief)
    json.dumps(brief, allow_nan=False)


@pytest.mark.parametrize("result", [audit(), AuditResult(), audit(**BAD["gave away more"])])
def test_an_audit_is_read_back_as_it_was_written(result, tmp_path):
    write_result(result, tmp_path / "audit.json", created="now")
    assert read_result(tmp_path / "audit.json") == (result, "now")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields.update(passed=False), "does not follow"),
        (lambda fields: fields["kinds"][0].update(lower_bound=0.1), "two things of lower_bound"),
        (lambda fields: fields.update(format="expril audit 9"), "format"),
        (lambda fields: fields["checks"][0].pop("found"), "found"),
        (lambda fields: fields.pop("kinds"), "kinds"),
    ],
)
def test_a_changed_result_is_refused(change, said):
    fields = as_object(audit())
    change(fields)
    with pytest.raises(ConfigurationError, match=said):
        decode_result(json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b'"x"', b"[" * 100_000])
def test_what_is_no_result_is_refused(data):
    with pytest.raises(ConfigurationError):
        decode_result(data)


# In a browser


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_lives_in_a_real_browser_and_is_no_wider_than_a_phone(browser, tmp_path):
    page = tmp_path / "page.html"
    html = build_page(audit(kinds=(kind(HOSTILE), kind("counts/" + "x" * 80))), command="expril audit all")
    page.write_text(html, encoding="utf-8")
    with browser.open(page, width=390) as tab:
        assert tab.errors == []
        assert tab.run("document.documentElement.scrollWidth") == 390
