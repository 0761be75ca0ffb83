"""The page of a run: complete, inert, alone, the same every time, and alive in a real browser."""

import io
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expril.report.document import Charts, Note, tables
from expril.report.page import as_page
from expril.report.table import Table
from learner_node.result.shapes import MOST
from page_outline import Outline
from protocol.errors import ConfigurationError
from protocol.run_index import PAGE, REPORT
from simulations.report import words
from simulations.report.budget import BudgetPoint, CuratorReport, StudyReport, exact
from simulations.report.clinical import part_sections
from simulations.report.document import budget_axis, budget_strip, run_document
from simulations.report.model import (
    CurvePoint,
    Expected,
    Headline,
    LearnerReport,
    Part,
    PartBin,
    RunReport,
    Score,
    SiteAnswers,
    SiteScore,
    decode_report,
    encode_report,
    load_report,
    save_report,
)
from simulations.report.scores import Row, few_rows, score_axis
from simulations.report.words import FEW, MOST_ALIKE, fold_notes, some_of
from simulations.run_page import rewrite_page

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }}"
LONG = "University Hospital of Both Basels, Department of Cardiology and Internal Medicine"


def build_page(report):
    return as_page(run_document(report))


def blocks(report, kind):
    """All blocks of a kind that a page shows, in order."""
    shown = [block for section in run_document(report).in_medium("page") for block in section.present]
    return [block for block in shown if isinstance(block, kind)]


def terminal_table(report):
    """The first table of the terminal."""
    return next(tables(block for section in run_document(report).in_medium("terminal") for block in section.present))


def make_learner(name="cells", *, curators=("basel", "geneva", "zurich"), rounds=1, outcome="release", **fields):
    """Return a learner whose accuracies are distinct and can be looked for on the page."""
    accuracy = None if outcome.startswith("refusal") else 0.937
    values = {
        "learner": name,
        "strategy": "one k-means partition",
        "pooling": "sum",
        "epsilon_claimed": "1",
        "epsilon_spent": "1" if accuracy else "0",
        "pooled": Score(value=accuracy, value_se=accuracy and 0.004, constant=0.63, regression=0.978),
        "sites": tuple(
            SiteScore(
                curator=curator,
                value=accuracy and 0.9 + (n % 40) / 1000,
                value_se=accuracy and 0.011,
                constant=0.6 + (n % 40) / 1000,
                regression=None if n == 1 else 0.97,
            )
            for n, curator in enumerate(curators)
        ),
        "curve": tuple(CurvePoint(t, 0.937 - 0.3 * 0.5**t, 0.004) for t in range(1, rounds + 1)) if accuracy else (),
        "rounds_answered": tuple(SiteAnswers(curator, (outcome,) * rounds) for curator in curators),
    }
    return LearnerReport(**(values | fields))


def make_report(*learners, cap="2", curators=("basel", "geneva", "zurich"), **fields):
    """Return a report; every learner spends a tenth of its epsilon a round at every curator."""
    learners = learners or (make_learner(),)
    values = {
        "title": "wdbc",
        "description": "Three hospitals.",
        "created": "2026-05-09T12:30:00Z",
        "version": "0.1.0",
        "seeded_noise": False,
        "repeats": 20,
        "command": "expril simulate scenarios/wdbc.toml",
        "config_toml": '[scenario]\nname = "wdbc"\n',
        "learners": learners,
        "curators": tuple(
            CuratorReport(
                name=curator,
                cap=cap,
                private_unit="record",
                spent_by_round=tuple(
                    BudgetPoint(x.learner, t, str(Fraction(t, 3 * len(x.curve))))
                    for x in learners
                    for t in range(1, len(x.curve) + 1)
                ),
            )
            for curator in curators
        ),
    }
    return RunReport(**(values | fields))


def one_round():
    return make_report()


def three_learners():
    names = ("basel", "geneva", "zurich", LONG)
    return make_report(
        make_learner("cells", curators=names),
        make_learner(
            "feature bins", curators=names, rounds=10, pooling="site", epsilon_claimed="1/3", epsilon_spent="1/3"
        ),
        make_learner("score bins", curators=names, rounds=10),
        curators=names,
        seeded_noise=True,
        notes=("curator basel vanished in round 2",),
    )


def hundred_curators():
    names = tuple(f"hospital-{n:03d}" for n in range(100))
    return make_report(make_learner(curators=names, rounds=3), curators=names)


def all_refused():
    return make_report(make_learner(outcome="refusal:over_cap"), repeats=1)


def hostile():
    names = (HOSTILE, "geneva")
    return make_report(
        make_learner(HOSTILE, curators=names, outcome=f"refusal:{HOSTILE}", strategy=HOSTILE),
        make_learner("cells", curators=names, rounds=3),
        curators=names,
        **dict.fromkeys(("title", "description", "created", "version", "command"), HOSTILE),
        config_toml="</code></pre></details>" + HOSTILE,
        notes=(HOSTILE,),
    )


REPORTS = [one_round, three_learners, hundred_curators, all_refused, hostile]


@pytest.mark.parametrize("make", REPORTS)
def test_every_learner_curator_and_number_is_on_the_page(make):
    report = make()
    text = Outline(build_page(report)).text

    def shown(value):
        return re.sub(r"\s+", " ", value) in text

    assert shown(words.score_line(report))
    for learner in report.learners:
        assert shown(learner.learner)
        assert shown(learner.strategy)
        for score in (learner.pooled, *learner.sites, *learner.curve):
            for value in msgspec.structs.asdict(score).values():
                assert not isinstance(value, float) or f"{value:.3f}" in text
    for curator in report.curators:
        assert shown(curator.name)
        for point in curator.spent_by_round:
            assert point.spent in text
    for extra in (report.title, report.description, report.command, report.config_toml, report.version, *report.notes):
        assert shown(extra)


@pytest.mark.parametrize("make", REPORTS)
def test_same_report_gives_same_page(make):
    report = make()
    assert build_page(report) == build_page(decode_report(encode_report(report)))


@pytest.mark.parametrize("make", REPORTS)
def test_json_round_trip_is_lossless(make, tmp_path):
    report = make()
    assert decode_report(encode_report(report)) == report
    save_report(report, tmp_path / REPORT)
    assert load_report(tmp_path / REPORT) == report
    rewrite_page(tmp_path)
    assert (tmp_path / PAGE).read_bytes() == build_page(report).encode()


@pytest.mark.parametrize("make", REPORTS)
def test_page_loads_nothing(make):
    text = build_page(make())
    assert not re.search(r"https?://", text)
    loading = {"src", "srcset", "data", "action", "poster", "background", "ping", "formaction"}
    for tag, attributes in Outline(text).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "audio", "video", "image"}
        assert not loading & attributes.keys()
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_hostile_text_is_inert():
    text = build_page(hostile())
    outline = Outline(text)
    assert outline.count("script") == 1  # our own
    assert outline.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in outline.elements for name in attributes)
    assert outline.text.count(re.sub(r"\s+", " ", HOSTILE)) > 10  # shown, as text
    assert "alert('x')" not in text  # quotes are escaped, too
    assert "alert('x')" in unescape(text)


def test_seeded_noise_shows_a_banner_first():
    body = build_page(three_learners()).split("<body>")[1]
    assert body.lstrip().startswith('<aside class="banner"')
    assert "Not private." in body
    assert 'class="banner"' not in build_page(one_round())


def test_the_line_of_scores():
    assert words.score_line(one_round()) == "Pooled accuracy 0.937 ± 0.004 at epsilon 1"
    assert words.score_line(three_learners()) == "3 learners: pooled accuracy 0.937 at epsilon 1/3 to 1"
    validated = (StudyReport("model", "1", "1"), StudyReport("validation", "1/4", "1/4"))
    report = make_report(make_learner(epsilon_claimed="5/4", epsilon_spent="5/4", studies=validated))
    assert words.score_line(report).endswith(" at epsilon 1.25 (model 1, validation 0.25)")
    refused = (StudyReport("model", "1", "1"), StudyReport("validation", "2", "0"))
    report = make_report(make_learner(epsilon_claimed="3", epsilon_spent="1", studies=refused))
    assert words.score_line(report).endswith(" at epsilon 1")
    assert words.score_line(all_refused()) == "Nothing learned at epsilon 1: no curator released an answer"


@pytest.mark.parametrize(
    ("accuracy", "regression", "said"),
    [
        (None, 0.9, "learned nothing"),
        (0.5, 0.9, "did no better than the majority class"),
        (0.6, None, "beat the majority class"),
        (0.6, 0.502, "beat the majority class"),
        (
            0.6,
            0.9,
            f"came 25 % of the way from always answering the majority class to {words.REGRESSION}",
        ),
        (0.91, 0.9, "did at least as well as a regression on all records without privacy"),
    ],
)
def test_verdict(accuracy, regression, said):
    score = Score(value=accuracy, value_se=None, constant=0.5, regression=regression)
    assert words.verdict(score) == said


def test_one_round_has_no_curve_and_ten_rounds_have_one():
    assert blocks(one_round(), Charts) == []
    assert "so there is no learning curve" in build_page(one_round())
    (charts,) = blocks(three_learners(), Charts)
    (curve,) = charts.figures
    assert [(line.is_single, bool(line.line), bool(line.band)) for line in curve.lines] == [
        (True, False, False),
        (False, True, True),
        (False, True, True),
    ]
    assert [tick.label for tick in curve.ticks] == [str(n) for n in range(1, 11)]
    assert [rule.style for rule in curve.rules] == ["dashes", "solid", "alone c0"]


def test_many_curators_are_drawn_sorted_and_not_named_one_by_one():
    outline = Outline(build_page(hundred_curators()))
    classes = [attributes.get("class", "") for _, attributes in outline.elements]
    assert classes.count("card") == 1
    assert "legend" in classes  # of the curve: one entry
    assert classes.count("plot") < 30  # rows of the dot plot and of the ledgers that are alike
    assert "100 curators alike" in outline.text
    sorted_sites, _curve = blocks(hundred_curators(), Charts)
    (line,) = sorted_sites.figures[0].lines
    assert [mark.y for mark in line.marks] == sorted((mark.y for mark in line.marks), reverse=True)
    assert {mark.text.split(", ")[1] for mark in line.marks} == {f"hospital-{n:03d}" for n in range(100)}
    (ends,) = (table for table in blocks(hundred_curators(), Table) if "worst" in table.caption)
    worst, best = ends.groups
    assert (worst.rows[0].site, best.rows[-1].site) == ("hospital-000", "hospital-079")


def test_refused_late_and_vanished_curators_are_visible():
    answers = (
        SiteAnswers("basel", ("release", "release")),
        SiteAnswers("geneva", ("release", "refusal:over_cap")),
        SiteAnswers("zurich", ("late", "vanished")),
    )
    outline = Outline(build_page(make_report(make_learner(rounds=2, rounds_answered=answers))))
    assert "Accuracy after each round" in outline.text
    assert "3 of 6 questions were answered with a release." in outline.text
    assert "2 of 3 curators refused, came late or vanished at least once." in outline.text
    assert "1 of 2 released; refused: over_cap" in outline.text
    assert "0 of 2 released; late; vanished" in outline.text
    used = [attributes["href"] for tag, attributes in outline.elements if tag == "use"]
    assert {used.count("#square-" + kind) for kind in ("crossed", "half", "dashed")} == {2}  # the square and its key


def test_budget_overrun_is_an_alarm():
    text = build_page(make_report(make_learner(epsilon_spent="1.5"), cap="0.25"))
    assert text.count("Budget exceeded.") == 4  # the learner, and three curators that spent 1/3 of 0.25
    assert "cells spent epsilon 1.5, more than the 1 that it claimed." in text
    assert "basel spent epsilon 1/3, more than its cap of 0.25." in text
    assert "Budget exceeded." not in build_page(one_round())


def test_budget_bar_adds_up_exactly_and_knows_learners_that_the_report_does_not():
    points = (BudgetPoint("b", 1, "1/3"), BudgetPoint("a", 2, "0.3"), BudgetPoint("a", 1, "0.1"))
    curator = CuratorReport(name="basel", cap="1", private_unit="exam", spent_by_round=points)
    room, *spans = budget_strip(curator, {"a": 0, "b": 1}, budget_axis([curator])).spans
    assert room == (0.0, 1.0, "block track", "")
    assert [span[2:] for span in spans] == [
        ("block c0", "a, round 1: 1/10"),
        ("block c0", "a, round 2: 1/5"),
        ("block c1", "b, round 1: 1/3"),
    ]
    assert [span[1] for span in spans] == [0.1, 0.3, float(Fraction(19, 30))]
    assert [span[0] for span in spans] == [0.0, *(span[1] for span in spans[:-1])]
    text = Outline(build_page(make_report(curators=("basel",)))).text
    assert "1/3 of 2" in text
    stranger = msgspec.structs.replace(one_round(), curators=(curator,))
    assert "≈ 0.6333 of 1" in Outline(build_page(stranger)).text


def test_many_different_ledgers_show_the_fullest_and_say_so():
    ledgers = tuple(
        CuratorReport(
            name=f"hospital-{n:03d}",
            cap="1",
            private_unit="record",
            spent_by_round=(BudgetPoint("cells", 1, f"{n}/100"),),
        )
        for n in range(60)
    )
    report = msgspec.structs.replace(one_round(), curators=ledgers)
    shown = build_page(report).split("How to read this page")[0]
    assert "The 20 fullest ledgers; 40 more under" in shown
    assert "hospital-059" in shown
    assert "hospital-039" not in shown


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 0.978), (0.93, 0.931), (0.0, 0.0), (1.0, 1.0)])
def test_accuracy_axis_covers_its_values_with_few_ticks(low, high):
    axis = score_axis([Headline(high, None, low)])
    assert 0 <= axis.low <= low + 1e-9
    assert high - 1e-9 <= axis.high <= 1 + 1e-9
    assert 2 <= len(axis.ticks) <= 6
    assert axis.place(low) <= axis.place(high) <= 100


@pytest.mark.parametrize("cap", ["0.003", "1", "1/3", "7", "1000", "0"])
def test_budget_axis_covers_the_cap(cap):
    axis = budget_axis([CuratorReport(name="basel", cap=cap, private_unit="record")])
    assert axis.low == 0
    assert axis.high >= float(exact(cap))
    assert 2 <= len({tick.label for tick in axis.ticks}) <= 6


@pytest.mark.parametrize("text", ["", "-1", "1e3", "nan", "inf", "1/0", "1 ", "1_0", "٣", "1.", ".5", "1" * 400])
def test_unlawful_budgets_are_refused(text):
    with pytest.raises(ValueError, match=r"not a non-negative|division by zero"):
        exact(text)
    with pytest.raises(ValueError, match=r"not a non-negative|division by zero"):
        BudgetPoint("cells", 1, text)
    with pytest.raises(ValueError, match=r"not a non-negative|division by zero"):
        make_learner(epsilon_spent=text)


@pytest.mark.parametrize("value", [-1e7, 1e7, float("nan"), float("inf")])
def test_unlawful_accuracies_are_refused(value):
    for name in ("value", "value_se", "constant", "regression"):
        fields = {"value": 0.5, "value_se": None, "constant": 0.5, "regression": None, name: value}
        with pytest.raises(ValueError, match=f"{name} must lie between"):
            Score(**fields)
        with pytest.raises(ValueError, match=f"{name} must lie between"):
            SiteScore(curator="basel", **fields)
    with pytest.raises(ValueError, match="value must lie between"):
        CurvePoint(1, value, None)


def test_an_accuracy_is_no_less_than_nothing_but_an_explained_share_of_variance_may_be():
    fields = {"value": 0.5, "value_se": None, "constant": 0.5, "regression": None}
    for name in ("value", "constant", "regression"):
        report = make_report(learners=(make_learner(pooled=Score(**fields | {name: -0.25})),), measure="R²")
        assert getattr(decode_report(encode_report(report)).learners[0].pooled, name) == -0.25
        with pytest.raises(ValueError, match=f"{name} must lie between 0 and 1"):
            make_report(learners=report.learners)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: SiteAnswers("basel", ("error",)), "unknown outcome"),
        (lambda: SiteAnswers("basel", ("refusal:",)), "unknown outcome"),
        (lambda: make_report(make_learner(), make_learner(), curators=()), "learner named twice"),
        (lambda: make_report(curators=("basel", "basel")), "curator named twice"),
        (lambda: make_learner(curators=("basel", "basel")), "curator named twice"),
        (lambda: make_report(learners=()), "needs a learner"),
        (lambda: make_report(repeats=0), "at least 1"),
        (lambda: make_learner(curve=(CurvePoint(2, 0.5, None), CurvePoint(1, 0.5, None))), "must increase"),
        (
            lambda: CuratorReport(
                name="basel",
                cap="1",
                private_unit="record",
                spent_by_round=(BudgetPoint("cells", 1, "1"), BudgetPoint("cells", 2, "0.5")),
            ),
            "cumulative",
        ),
    ],
)
def test_unlawful_reports_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_unlawful_json_is_refused():
    data = encode_report(one_round())
    for old, new in [(b'"wdbc"', b"7"), (b'"title"', b'"tilte"'), (b'"sum"', b'"mean"'), (b"0.63", b"63"), (b"}", b"")]:
        assert old in data
        with pytest.raises(ConfigurationError):
            decode_report(data.replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("make", [three_learners, hostile])
def test_page_lives_in_a_real_browser(make, browser, tmp_path):
    from PIL import Image

    path = tmp_path / "page.html"
    path.write_text(build_page(make()), encoding="utf-8")
    with browser.open(path, width=1280, height=1600) as tab:
        assert tab.errors == []
        outline = Outline(tab.html)
        picture = Image.open(io.BytesIO(tab.picture(whole=False)))
    assert words.score_line(make()) in outline.text
    assert outline.count("svg") > 50
    assert outline.count("script") == 1
    assert outline.count("img") == 0
    assert outline.count("button") > 10  # made by the page's own script: the policy lets it run
    assert picture.size == (1280, 1600)
    assert len(picture.convert("RGB").getcolors(maxcolors=1 << 22)) > 200


@pytest.mark.slow
@pytest.mark.browser
def test_policy_stops_a_script_that_slipped_in(browser, tmp_path):
    """The control of the test above: its log is not empty by chance, and the second line of defence holds."""
    path = tmp_path / "page.html"
    html = build_page(one_round()).replace("<main>", "<main><script>document.title = 'broken in'</script>")
    path.write_text(html, encoding="utf-8")
    with browser.open(path) as tab:
        assert "Content Security Policy" in " ".join(tab.errors)
        assert tab.run("document.title") != "broken in"


def test_what_the_learner_expected_and_the_further_score_stand_beside_each_other():
    expected = Expected(value=0.921, low=0.874, high=0.953, beats_majority=1.0, coverage=1.0)
    fields = {"value": 0.937, "value_se": 0.004, "constant": 0.63, "regression": 0.978}
    score = Score(**fields, expected=expected, further=0.945, further_regression=0.966)
    report = make_report(make_learner(pooled=score), further="macro AUC")
    assert report.expects
    assert decode_report(encode_report(report)) == report
    text = Outline(build_page(report)).text
    for phrase in ("Expected by the learner", "0.921 0.874 to 0.953", "macro AUC (regression)", "0.945 (0.966)"):
        assert phrase in text
    assert list(first_row(report).items()) == [
        ("learner", "cells (one k-means partition)"),
        ("site", "all"),
        ("accuracy ± se", "0.937 ± 0.004"),
        ("expected", "0.921\n0.874 to 0.953"),
        ("majority", "0.630"),
        ("regression", "0.978"),
        ("macro AUC\n(regression)", "0.945 (0.966)"),
        ("epsilon\nclaimed", "1"),
        ("epsilon\nspent", "1"),
    ]


def test_a_learner_that_expected_nothing_and_one_score_take_no_room():
    report = one_round()
    assert not report.expects
    assert "xpected by the learner" not in Outline(build_page(report)).text
    assert not {"expected", "\n(regression)"} & set(first_row(report))


def test_what_secure_sums_spend_is_said_to_hold_on_conditions():
    summed = make_report(make_learner("ada", pooling="secure"), make_learner("grace", pooling="site"))
    said = Outline(build_page(summed)).text
    assert "one secure sum over curators" in said
    assert said.count("answers kept apart by curator") == 1
    assert "What ada spent was spent on secure sums. It bounds the privacy loss on two conditions" in said
    assert "ada: spent on secure sums" in terminal_table(summed).note
    apart = three_learners()
    assert "secure" not in Outline(build_page(apart)).text
    assert "secure" not in terminal_table(apart).note


def first_row(report):
    """Column -> cell of the terminal's table."""
    table = terminal_table(report)
    row = table.groups[0].rows[0]
    assert all(column.text(row).strong for column in table.columns)
    return {column.heading: column.text(row).text for column in table.columns}


def test_a_regression_is_worded_as_one():
    score = Score(value=-0.2, value_se=0.03, constant=0.0, regression=0.5, further=14.1, further_regression=12.5)
    report = make_report(make_learner(pooled=score), measure="R²", further="RMSE")
    assert words.score_line(report) == "Pooled R² −0.200 ± 0.030 at epsilon 1"
    assert words.verdict(score, "R²") == "did no better than the mean"
    text = Outline(build_page(report)).text
    for phrase in ("R² by curator", "RMSE (regression)", "14.1 (12.5)", "always answering the mean"):
        assert phrase in text
    assert "ccuracy" not in text


WARDS = [f"ward {number:02d}" for number in range(1, 91)]


def site(name, accuracy):
    score = SiteScore(curator=name, value=accuracy, value_se=None, constant=0.5, regression=None)
    return Row(0, None, score, score.headline("accuracy"), name)


def test_notes_that_differ_in_a_name_or_a_number_are_told_once():
    notes = [f"The steward of {name} is warned: {n} records." for n, name in enumerate(WARDS, start=3)]
    one, other = fold_notes([*notes, "All is well."], WARDS)
    assert one.text == "The steward of ward 01 is warned: 3 records."
    assert one.more.startswith("(89 more like this: ward 02, ward 03, ")
    assert one.more.endswith("ward 09 and 81 more)")
    assert other == Note("All is well.")


def test_a_few_stay_as_they_are():
    notes = [f"{name} vanished." for name in WARDS[:MOST_ALIKE]]
    assert fold_notes(notes, WARDS) == [Note(note) for note in notes]


def test_names_that_hold_one_another_are_told_apart():
    names = ["a", "a b", "a b c", "b", "data"]
    notes = [f"{name} says no." for name in names]
    (one,) = fold_notes([*notes, *notes], names)
    assert some_of(names) == ", ".join(names)
    assert one.more.startswith("(9 more like this: ")
    assert len(fold_notes(["data is lost."] * 5 + ["the past is lost."] * 5, ["data", "past"])) == 2


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(WARDS), st.integers(0, 99)), max_size=40))
def test_nothing_is_lost_and_the_order_is_that_of_the_first(drawn):
    notes = [f"{kind}: {name} has {number}." for kind, name, number in drawn]
    folded = fold_notes(notes, WARDS)
    assert sum(1 + int(note.more[1:].split()[0] if note.more else 0) for note in folded) == len(notes)
    assert {note.text for note in folded} <= set(notes)
    kinds = list(dict.fromkeys(kind for kind, _, _ in drawn))
    assert list(dict.fromkeys(note.text[0] for note in folded)) == kinds


def test_of_many_sites_a_table_keeps_the_best_the_middle_and_the_worst():
    sites = [site(name, 1 - number / 100) for number, name in enumerate(WARDS)]
    assert [(row.rank, row.site) for row in few_rows(sites[::-1])] == [
        ("best of 90", "ward 01"),
        ("median of 90", "ward 45"),
        ("worst of 90", "ward 90"),
    ]
    assert few_rows(sites[:FEW]) == sites[:FEW]
    silent = [site(name, None) for name in WARDS]
    assert few_rows(silent) == []
    assert few_rows([*silent, sites[0]])[0] == replace(sites[0], rank="best of 1")


def part(name, *values):
    """Bins of equal shares with bands of 0.1 on either side."""
    bins = [
        PartBin(label=f"bin {n}", share=1 / len(values), log_odds=v, lower=v - 0.1, upper=v + 0.1)
        for n, v in enumerate(values)
    ]
    return Part(attribute=name, numeric=True, bins=tuple(bins))


def part_blocks(*parts):
    """What a page shows of a model that adds these up."""
    (section,) = part_sections(make_report(make_learner(parts=parts)))
    return section.present


def test_marks_are_in_proportion_and_within_their_bars():
    _, grid = part_blocks(part("age", -1.0, 0.0, 1.0), part("ward", 0.5))
    tables = [table for _, table in grid.groups]
    columns = {column.heading: column for column in tables[0].columns}
    strips = [
        columns["log-odds, plotted"].drawing(row) for table in tables for group in table.groups for row in group.rows
    ]
    assert len({strip.axis for strip in strips}) == 1
    axis = strips[0].axis
    at = []
    for strip in strips:
        ((_, value, bar, text),) = strip.dots
        low, high = map(axis.place, bar)
        assert 0 <= low < axis.place(value) < high <= 100
        assert strip.text == text
        at.append(axis.place(value))
    assert at[1] == pytest.approx(axis.place(0))
    assert at[2] - at[1] == pytest.approx(at[1] - at[0])
    assert at[3] == pytest.approx((at[1] + at[2]) / 2)
    assert [columns["log-odds"].text(row).text for row in tables[0].groups[0].rows] == ["−1.00", "0.00", "+1.00"]


def test_the_weaker_of_many_are_named():
    _, grid, others = part_blocks(*(part(f"attribute {n}", 0.1) for n in range(MOST + 2)))
    assert len(grid.groups) == MOST
    assert others.text == f"2 weaker attributes not drawn: attribute {MOST}, attribute {MOST + 1}."


def test_nothing_is_drawn_of_a_model_that_adds_up_nothing():
    assert part_blocks() == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"share": 1.5}, "share"), ({"log_odds": float("nan")}, "finite"), ({"lower": 0.5}, "does not lie")],
)
def test_what_is_no_bin_is_refused(change, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        PartBin(**{"label": "a", "share": 0.5, "log_odds": 0.1, "lower": 0.0, "upper": 0.2} | change)


def test_a_part_survives_json():
    one = part("age", 0.1, 0.4)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Part) == one
