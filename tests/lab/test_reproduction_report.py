"""The files and the page of a reproduction: complete, true to the paper, inert, and whole when parts are missing."""

import csv
import io
import math
import random
import re
import shutil
import subprocess

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from expril.report import numbers
from expril.report.markdown import plain
from lab.paper import findings, plots, words
from lab.paper.files import closures_csv, curves_csv, table_csv, wilcoxon_csv
from lab.paper.markdown import build_markdown
from lab.paper.model import COLUMNS, Cell, Closure, Curve, Point, Provenance, Reproduction, Wilcoxon
from lab.paper.page import build_page
from lab.paper.published import NOT_SIGNIFICANT, TABLE_2
from page_outline import Outline

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }} | `` ```` & <b>"
DATASETS = ("A", "B", "C", "D", "E", "CTG-A", "CTG-B")
RUNS = 100


def make_cell(dataset, column, mean, std, runs=RUNS, median=None, infinite_runs=0):
    return Cell(dataset, column, mean, std, runs, mean if median is None else median, infinite_runs)


def made_up(seed=0, datasets=DATASETS):
    """Return a reproduction with random but plausible numbers; every fourth cell or so differs from the paper."""
    dice = random.Random(seed)
    table, tests, curves = [], [], []
    for dataset in datasets:
        masses = dataset not in ("A", "B", "CTG-A")
        for column in COLUMNS:
            published = TABLE_2.get((dataset, column))
            if published is not None and published.std is not None:
                mean = published.mean + dice.gauss(0, published.std / 5)
                table.append(make_cell(dataset, column, mean, published.std * dice.uniform(0.8, 1.2)))
            elif column == "ratio":
                table.append(make_cell(dataset, column, published.mean + dice.gauss(0, 0.01), 0.04))
            elif column.startswith("valid"):
                mean = TABLE_2[dataset, column.removeprefix("valid-")].mean - dice.uniform(0, 4)
                table.append(make_cell(dataset, column, mean, 4.4))
        at_data = math.inf if dataset == "CTG-A" else dice.uniform(3, 40)
        table += [
            make_cell(dataset, "epsilon_claimed", 1.0, 0.0),
            make_cell(dataset, "epsilon_printed_worst", math.inf, 0.0),
            make_cell(
                dataset,
                "epsilon_printed_at_data",
                math.inf if masses else at_data,
                0.0,
                median=12.3456 if masses else at_data * 0.9,
            ),
            make_cell(dataset, "epsilon_printed_masses", dice.uniform(2, 9) if masses else 0.0, 0.1),
        ]
        tests += [
            Wilcoxon(dataset, noise, dice.gauss(1, 1), dice.choice([3e-9, 0.00213, 0.041, 0.38]), RUNS)
            for noise in ("none", "printed", "valid")
        ]
        for learner in "CI":
            for noise, fixed in (("none", False), ("printed", False), ("valid", False), ("printed", True)):
                end = TABLE_2[dataset, f"{'' if noise == 'none' else '1DP-'}{learner}-ExPriL"].mean
                end -= TABLE_2[dataset, "h_star"].mean + 3 * (noise == "valid") - fixed
                points = tuple(
                    Point(
                        t,
                        end - 6 * math.exp(-t) + dice.gauss(0, 0.3),
                        dice.uniform(2.5, 4.5),
                        RUNS,
                        math.inf if noise == "none" else (t + masses) / 3 if fixed else (t + masses) / (t + 1),
                    )
                    for t in range(1, 11)
                )
                curves.append(Curve(dataset, learner, noise, fixed, points))
    outside = [cell for cell in table if findings.standing(cell) in ("above", "below")]
    closures = tuple(
        Closure(
            cell.dataset,
            cell.column,
            "60 epochs" if n % 2 else "hidden layers [32, 32], soft labels",
            cell.published.mean + (0.05 if n % 3 else 4),
            cell.published.std,
            RUNS,
        )
        for n, cell in enumerate(outside)
        if n % 4
    )
    where = Provenance(
        command="expril reproduce table2 --runs 100 --seed 1",
        created="2026-05-09T12:30:00Z",
        seed=1,
        seconds=5071.0,
        jobs=2,
        versions={"expril": "0.1.0", "torch": "2.9.0", "opendp": "0.14.1"},
        noise="OpenDP",
    )
    return Reproduction(
        table=tuple(table),
        table_provenance=where,
        wilcoxon=tuple(tests),
        closures=closures,
        curves=tuple(curves),
        curves_provenance=msgspec.structs.replace(where, command="expril reproduce figure1 --runs 100", seconds=9999.0),
        settings={name: {"records": "2500", "epochs": "20", "bins": f"{n + 3}"} for n, name in enumerate(datasets)},
    )


FULL = made_up()
EMPTY = Reproduction()
PARTIAL = {
    "nothing": EMPTY,
    "table": Reproduction(table=FULL.table),
    "two sets": made_up(1, ("B", "CTG-B")),
    "accuracies": Reproduction(table=tuple(cell for cell in FULL.table if not cell.column.startswith("epsilon"))),
    "epsilons": Reproduction(table=tuple(cell for cell in FULL.table if cell.column.startswith("epsilon"))),
    "curves": Reproduction(curves=FULL.curves),
    "no dp": Reproduction(curves=tuple(curve for curve in FULL.curves if curve.noise == "none")),
    "one point": Reproduction(curves=(msgspec.structs.replace(FULL.curves[3], points=FULL.curves[3].points[:1]),)),
    "no points": Reproduction(curves=(Curve("A", "C", "printed", False, ()),)),
    "closures alone": Reproduction(closures=FULL.closures),
    "wilcoxon": Reproduction(wilcoxon=FULL.wilcoxon),
    "provenance": Reproduction(table_provenance=FULL.table_provenance),
    "another set": Reproduction(
        table=(make_cell("heart", "C-ExPriL", 80.0, 1.0), make_cell("heart", "h_star", 81.2, 0.0, runs=1)),
        wilcoxon=(Wilcoxon("heart", "none", 0.0, math.nan, 1),),
        settings={"heart": {}, "A": {"epochs": "20"}},
    ),
}


def read(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- files


def test_the_table_survives_csv():
    rows = read(table_csv(FULL.table))
    assert list(rows[0]) == ["dataset", "column", "mean", "std", "runs"]
    assert len(rows) == len(FULL.table)
    for row, cell in zip(rows, FULL.table, strict=True):
        assert (row["dataset"], row["column"], int(row["runs"])) == (cell.dataset, cell.column, cell.runs)
        if math.isinf(cell.mean):
            assert row["mean"] == "inf"
        elif cell.column.startswith("epsilon"):
            assert float(row["mean"]) == pytest.approx(cell.mean, rel=5e-4)
        else:
            digits = 4 if cell.column == "ratio" else 2
            assert re.fullmatch(rf"-?\d+\.\d{{{digits}}}", row["mean"])
            assert float(row["mean"]) == pytest.approx(cell.mean, abs=0.5001 * 10**-digits)
            assert float(row["std"]) == pytest.approx(cell.std, abs=0.5001 * 10**-digits)


def test_the_curves_survive_csv():
    rows = read(curves_csv(FULL.curves))
    assert list(rows[0]) == ["dataset", "learner", "noise", "scale", "rounds", "mean", "std", "runs", "epsilon"]
    points = [(curve, point) for curve in FULL.curves for point in curve.points]
    for row, (curve, point) in zip(rows, points, strict=True):
        assert [row["dataset"], row["learner"], row["noise"]] == [curve.dataset, curve.learner, curve.noise]
        assert row["scale"] == ("fixed" if curve.fixed else "plan")
        assert [int(row["rounds"]), int(row["runs"])] == [point.rounds, point.runs]
        assert float(row["mean"]) == pytest.approx(point.mean, abs=0.00501)
        assert float(row["std"]) == pytest.approx(point.std, abs=0.00501)
        assert float(row["epsilon"]) == pytest.approx(point.epsilon, rel=5e-4)


def test_tests_and_closures_survive_csv():
    rows = read(wilcoxon_csv(FULL.wilcoxon))
    assert list(rows[0]) == ["dataset", "noise", "difference", "p_value", "runs"]
    for row, test in zip(rows, FULL.wilcoxon, strict=True):
        assert [row["dataset"], row["noise"], int(row["runs"])] == [test.dataset, test.noise, test.runs]
        assert float(row["p_value"]) == pytest.approx(test.p_value, rel=5e-4)
        assert float(row["difference"]) == pytest.approx(test.difference, abs=0.00501)
    hostile = (*FULL.closures, Closure("A", "ratio", 'a "b",\nc', -0.000001, 0.12345, 3))
    rows = read(closures_csv(hostile))
    assert list(rows[0]) == ["dataset", "column", "setting", "mean", "std", "runs"]
    assert [row["setting"] for row in rows] == [closure.setting for closure in hostile]
    assert (rows[-1]["mean"], rows[-1]["std"]) == ("0.0000", "0.1235")


def test_empty_files_have_a_header():
    for write in (table_csv, curves_csv, wilcoxon_csv, closures_csv):
        assert write(()).count("\n") == 1
        assert read(write(())) == []


# --- what the numbers amount to

places = st.sampled_from([*sorted(TABLE_2), ("heart", "C-ExPriL"), ("A", "valid-1DP-C-ExPriL")])
tables = st.dictionaries(places, st.tuples(st.floats(40, 100), st.floats(0, 6), st.integers(1, 200)))
attempts = st.lists(st.tuples(places, st.floats(40, 100), st.floats(0, 6), st.integers(1, 200)), max_size=20)


def away(place, mean, std, runs):
    """Independent: signed number of standard errors; None without two deviations."""
    if place not in TABLE_2 or TABLE_2[place].std is None:
        return None
    return (mean - TABLE_2[place].mean) / (std**2 / runs + TABLE_2[place].std ** 2 / 100) ** 0.5


@settings(max_examples=25, deadline=None)
@given(tables, attempts)
def test_the_verdict_counts_what_an_independent_count_finds(table, attempts):
    found = Reproduction(
        table=tuple(make_cell(*place, *numbers) for place, numbers in table.items()),
        closures=tuple(Closure(*place, "some setting", *numbers) for place, *numbers in attempts),
    )
    chosen_by = ("h_star", "h0_star")
    everywhere = {place: away(place, *numbers) for place, numbers in table.items()}
    distances = {place: z for place, z in everywhere.items() if z is not None and place[1] not in chosen_by}
    shut = {
        place
        for place, *numbers in attempts
        if (z := away(place, *numbers)) is not None
        and abs(z) <= 2
        and place in table
        and abs(numbers[0] - TABLE_2[place].mean) < abs(table[place][0] - TABLE_2[place].mean)
    }
    above = {place for place, z in distances.items() if z > 2}
    below = {place for place, z in distances.items() if z < -2}
    counts = findings.tally(found)
    assert (counts.compared, counts.above, counts.below) == (len(distances), len(above), len(below))
    assert counts.within == len(distances) - len(above) - len(below)
    assert (counts.above_closed, counts.below_closed) == (len(above & shut), len(below & shut))
    text = " ".join(words.verdict(found))
    if distances:
        assert words.headline(found).startswith(
            f"Of {counts.compared} published accuracies of the method, {counts.within} "
        )
        assert f"{counts.within} of ours lie within two standard errors" in text
    chosen = [z for place, z in everywhere.items() if z is not None and place not in distances]
    assert (counts.chosen, counts.chosen_within) == (len(chosen), sum(abs(z) <= 2 for z in chosen))
    if above | below:
        assert f"closes the gap of {len(shut & (above | below))} of the {len(above | below)} outside" in text
    listed = {(gap.dataset, gap.column) for gap in findings.gaps(found)}
    assert listed == {place for place, z in everywhere.items() if z is not None and abs(z) > 2}


test_the_verdict_counts_what_an_independent_count_finds_at_length = at_length(
    test_the_verdict_counts_what_an_independent_count_finds, 100
)


def test_the_verdict_says_what_it_finds():
    text = " ".join(words.verdict(FULL))
    assert "Table 2 (100 runs, 7 data sets) and Figure 1 (100 runs, 7 data sets) of the paper were run again" in text
    assert "about 1 would lie outside by chance alone" in text
    assert "its worst case is infinite" in text
    valid, printed = ([c.mean for c in FULL.table if c.column.startswith(start)] for start in ("valid", "1DP"))
    assert f"{sum(printed) / 14 - sum(valid) / 14:.1f} percentage points less" in text
    assert words.verdict(EMPTY) == ()
    assert words.headline(EMPTY) == "Nothing has been run yet"


@pytest.mark.parametrize(
    ("row", "ours", "paper", "verdict"),
    [
        (Wilcoxon("A", "none", 1.0, 0.01, 100), "C-ExPriL better", "C-ExPriL better", "agrees"),
        (Wilcoxon("A", "none", -1.0, 0.01, 100), "I-ExPriL better", "C-ExPriL better", "differs"),
        (Wilcoxon("B", "printed", 1.0, 0.01, 100), "C-ExPriL better", "no significant difference", "differs"),
        (Wilcoxon("C", "none", 1.0, 0.05, 100), "no significant difference", "no significant difference", "agrees"),
        (Wilcoxon("D", "none", 0.0, math.nan, 1), "no significant difference", "C-ExPriL better", "differs"),
        (Wilcoxon("D", "valid", 1.0, 0.01, 100), "C-ExPriL better", "not in the paper", "–"),
        (Wilcoxon("heart", "none", 1.0, 0.01, 100), "C-ExPriL better", "not in the paper", "–"),
    ],
)
def test_signed_rank_tests_are_compared_with_the_papers_claim(row, ours, paper, verdict):
    assert (findings.we_say(row), findings.paper_says(row), findings.agreement(row)) == (ours, paper, verdict)
    assert (row.dataset in NOT_SIGNIFICANT) == (paper.startswith("no ") and row.dataset in DATASETS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (numbers.decimal(-0.04), "0.0"),
        (numbers.decimal(-1.25, 2), "−1.25"),
        (numbers.decimal(math.inf), "infinite"),
        (numbers.decimal(math.nan), "–"),
        (numbers.signed(0.04), "0.0"),
        (numbers.signed(0.06), "+0.1"),
        (numbers.signed(-0.06), "−0.1"),
        (words.epsilon(1.0), "1"),
        (words.epsilon(11 / 3), "3.67"),
        (words.epsilon(12345.6), "12,346"),
        (words.epsilon(math.inf), "infinite"),
        (words.probability(3e-9), "< 0.0001"),
        (words.probability(0.0412), "0.041"),
        (words.epsilon_summary(None), "–"),
        (words.epsilon_summary(make_cell("A", "epsilon_printed_masses", 0.0, 0.0)), "not asked"),
        (
            words.epsilon_summary(make_cell("A", "x", math.inf, 0.0, infinite_runs=100)),
            "infinite in 100 of 100 runs",
        ),
        (
            words.epsilon_summary(make_cell("A", "x", math.inf, 0.0, median=2, infinite_runs=3)),
            "median 2, infinite in 3 of 100 runs",
        ),
        (words.epsilon_summary(make_cell("A", "epsilon_printed_worst", math.inf, 0.0)), "infinite"),
        (words.epsilon_summary(make_cell("A", "x", 3.0, 0.0, median=2)), "median 2, mean 3"),
        (findings.in_order(["heart", "CTG-A", "A", "A"]), ("A", "CTG-A", "heart")),
    ],
)
def test_numbers_in_words(text, shown):
    assert text == shown


# --- the page


def test_every_published_number_on_the_page_is_the_papers():
    outline = Outline(build_page(FULL))
    rows = [cells for kind, cells in outline.rows if kind == "paper"]
    columns = [name for name in COLUMNS if not name.startswith("epsilon")]
    assert len(rows) == len(DATASETS)
    seen = {}
    for dataset, cells in zip(DATASETS, rows, strict=True):
        for column, text in zip(columns, cells[1:], strict=True):
            if text != "–":
                seen[dataset, column] = tuple(map(float, text.split(" ± ")))
    assert seen == {place: tuple(n for n in published if n is not None) for place, published in TABLE_2.items()}


@pytest.mark.parametrize("build", [build_page, build_markdown])
def test_every_number_is_there(build):
    text = build(FULL)
    shown = Outline(text).text if build is build_page else text.replace("\\", "")
    for cell in FULL.table:
        if not cell.column.startswith("epsilon"):
            digits = 3 if cell.column == "ratio" else 1
            assert f"{cell.mean:.{digits}f} ± {cell.std:.{digits}f}" in shown
    for test in FULL.wilcoxon:
        assert numbers.signed(test.difference) in shown
    for closure in FULL.closures:
        assert f"{closure.mean:.1f} ± {closure.std:.1f}" in shown
        assert closure.setting in shown
    for curve in FULL.curves:
        for point in curve.points if build is build_page else (curve.points[0], curve.points[-1]):
            assert f"−{-point.mean:.1f} ± {point.std:.1f}" in shown
    for where in (FULL.table_provenance, FULL.curves_provenance):
        assert where.command in shown
        assert f"{where.seconds / 60:.1f} minutes" in shown
    for sentence in (words.headline(FULL), *words.verdict(FULL), words.WHY_NOT_PRIVATE):
        assert sentence in shown
    assert "2026-05-09 12:30 UTC" in shown
    assert "torch 2.9.0" in shown


def test_the_fixed_scale_shows_its_cost():
    text = Outline(build_page(FULL)).text
    assert text.count("at t = 10 it has spent 3.67") == 4  # C, D, E, CTG-B: the masses are a query, too
    assert text.count("at t = 10 it has spent 3.33") == 3
    (figure,) = plots.curve_figures(FULL.curves, ["C"])
    assert [panel.title for panel in figure.panels] == ["Differentially private (1-DP in the paper)", "No privacy"]
    private, public = figure.panels
    assert [tick.label for tick in private.costs] == [f"{t / 3:.2f}" for t in range(2, 12)]
    assert public.costs == ()
    assert (len(private.plot.lines), len(public.plot.lines)) == (6, 2)
    assert len({(line.index, line.hollow) for line in private.plot.lines}) == 6


def test_standing_is_told_without_colour():
    outline = Outline(build_page(FULL))
    rows = [cells[1:] for kind, cells in outline.rows if kind == "errors"]
    marks = "".join("".join(cells) for cells in rows)
    sides = [findings.standing(cell) for cell in FULL.table]
    expected = [sides.count(side) for side in ("within", "above", "below")]
    assert [marks.count(mark) for mark in "=▲▼"] == expected
    assert marks.count("above the paper by more than two standard errors") == expected[1]


def test_dots_lie_on_one_axis_and_bars_around_them():
    drawn = plots.dot_plots(FULL.table, DATASETS)
    assert [plot.dataset for plot in drawn] == list(DATASETS)
    assert len({plot.ticks for plot in drawn}) == 1
    for plot in drawn:
        assert [row.paper is None for row in plot.rows] == ["valid" in row.title for row in plot.rows]
        for row in plot.rows:
            for dot in (row.ours, row.paper):
                if dot is not None:
                    low, high = (float(end[:-1]) for end in dot.bar)
                    assert 0 <= low < float(dot.at[:-1]) < high <= 100
                    assert dot.text in plot.text


@pytest.mark.parametrize("name", PARTIAL)
def test_missing_parts_leave_a_whole_page(name):
    found = PARTIAL[name]
    outline = Outline(build_page(found))
    assert words.headline(found) in outline.text
    headings = sum(tag == "h2" for tag, _ in outline.elements)
    assert headings == sum(tag == "section" for tag, _ in outline.elements)
    assert ("figure" in dict(outline.elements)) == any(
        tag == "h2" and word in outline.text for tag, _ in outline.elements for word in ("in pictures", "Figure 1: ")
    )
    for word in ("None", "nan", "inf ", "Cell("):
        assert not re.search(rf"\b{re.escape(word)}", outline.text)
    text = build_markdown(found)
    assert text.startswith(f"# ExPriL reproduced: {words.headline(found)}\n")
    assert not re.search(r"\b(None|nan)\b", text)
    if name == "nothing":
        assert headings == 0
        assert text.count("\n") == 1


def test_a_partial_table_still_shows_the_papers_side():
    outline = Outline(build_page(Reproduction(table=tuple(c for c in FULL.table if c.column != "C-ExPriL")[:8])))
    papers = [cells for kind, cells in outline.rows if kind == "paper"]
    assert [len(cells) for cells in papers] == [9]
    assert "94.3 ± 2.3" in papers[0]


def hostile():
    where = msgspec.structs.replace(
        FULL.table_provenance, command=HOSTILE, created=HOSTILE, versions={HOSTILE: HOSTILE}, noise=HOSTILE
    )
    return Reproduction(
        table=(make_cell(HOSTILE, "C-ExPriL", 80.0, 1.0), make_cell(HOSTILE, "epsilon_claimed", 1.0, 0.0)),
        table_provenance=where,
        wilcoxon=(Wilcoxon(HOSTILE, "none", 1.0, 0.5, 100),),
        closures=(Closure(HOSTILE, HOSTILE, HOSTILE, 1.0, 1.0, 1),),
        curves=(Curve(HOSTILE, "C", "printed", True, FULL.curves[0].points),),
        settings={HOSTILE: {HOSTILE: HOSTILE}},
    )


def test_hostile_text_is_inert():
    text = build_page(hostile())
    outline = Outline(text)
    assert not {"script", "img"} & {tag for tag, _ in outline.elements}
    assert not any(name.startswith("on") for _, attributes in outline.elements for name in attributes)
    assert outline.text.count(re.sub(r"\s+", " ", HOSTILE)) > 10
    assert "alert('x')" not in text


def test_hostile_text_is_inert_in_markdown():
    text = build_markdown(hostile())
    fenced = re.search(r"^(`{3,})\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)
    assert fenced.group(2) == HOSTILE
    outside = text.replace(fenced.group(0), "")
    assert not re.search(r"(?<!\\)<", outside)
    assert not re.search(r"(?<!\\)`", outside)
    for line in outside.splitlines():
        if line.startswith("|---"):
            width = line.count("|")
        elif line.startswith("| **") and HOSTILE[8:13] in line:
            assert len(re.findall(r"(?<!\\)\|", line)) == width


@given(st.text())
def test_escaped_text_has_no_bare_markup(text):
    shown = plain(text)
    assert "\n" not in shown
    assert not re.search(r"[`*_\[\]<>|\\]", re.sub(r"\\.", "", shown))
    assert re.sub(r"\\(.)", r"\1", shown) == " ".join(text.split())


@pytest.mark.parametrize("found", [FULL, hostile(), EMPTY])
def test_page_loads_nothing(found):
    text = build_page(found)
    assert not re.search(r"https?:|//", re.sub(r"</|/>", "", text))
    loading = {"src", "srcset", "data", "action", "poster", "background", "ping", "formaction", "href", "xlink:href"}
    for tag, attributes in Outline(text).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "audio", "video", "image", "script"}
        assert not loading & attributes.keys()
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert text == build_page(found)


def test_plots_and_tables_are_named():
    for tag, attributes in Outline(build_page(FULL)).elements:
        if tag == "svg" and attributes.get("class") == "plot":
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"]) > 40
        if attributes.get("class") == "wide":
            assert attributes["aria-label"]
            assert attributes["tabindex"] == "0"
    outline = Outline(build_page(FULL))
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("caption") == tags.count("table")


@pytest.mark.slow
@pytest.mark.browser
def test_page_lives_in_a_real_browser(tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("install chromium: no chromium, chromium-browser or google-chrome on PATH")
    path = tmp_path / "page.html"
    path.write_text(build_page(FULL), encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    command = [browser, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, check=True, timeout=90)
    assert b"CONSOLE" not in done.stderr
    assert words.headline(FULL) in Outline(done.stdout.decode()).text
