"""The document of a reproduction: complete, true to the paper, inert, and whole when parts are missing."""

import csv
import io
import math
import random
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from expril.report import numbers
from expril.report.files import as_markdown, csv_table, plain
from expril.report.page import as_page
from expril.report.provenance import Provenance
from expril.report.terminal import as_terminal
from lab.reproduction import study
from lab.reproduction.findings import (
    COLUMNS,
    NOT_SIGNIFICANT,
    TABLE_2,
    Curve,
    Entry,
    Point,
    Reproduction,
    Wilcoxon,
    gaps,
    setting_counts,
    table_counts,
)
from lab.reproduction.study import STUDY, document
from page_outline import Outline

DOCS = Path(__file__).parents[2] / "docs"
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }} | `` ```` & <b>"
DATASETS = ("A", "B", "C", "D", "E", "CTG-A", "CTG-B")
RUNS = 100


def make_entry(dataset, column, mean, std, runs=RUNS, median=None, infinite_runs=0, setting=""):
    return Entry(dataset, column, mean, std, runs, mean if median is None else median, infinite_runs, setting)


def page_of(found):
    return as_page(document(found))


def markdown_of(found):
    return as_markdown(document(found))


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
                table.append(make_entry(dataset, column, mean, published.std * dice.uniform(0.8, 1.2)))
            elif column == "ratio":
                table.append(make_entry(dataset, column, published.mean + dice.gauss(0, 0.01), 0.04))
            elif column.startswith("valid"):
                mean = TABLE_2[dataset, column.removeprefix("valid-")].mean - dice.uniform(0, 4)
                table.append(make_entry(dataset, column, mean, 4.4))
        at_data = math.inf if dataset == "CTG-A" else dice.uniform(3, 40)
        table += [
            make_entry(dataset, "epsilon_claimed", 1.0, 0.0),
            make_entry(dataset, "epsilon_printed_worst", math.inf, 0.0),
            make_entry(
                dataset,
                "epsilon_printed_at_data",
                math.inf if masses else at_data,
                0.0,
                median=12.3456 if masses else at_data * 0.9,
            ),
            make_entry(dataset, "epsilon_printed_masses", dice.uniform(2, 9) if masses else 0.0, 0.1),
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
    outside = [cell for cell in table if cell.standing in ("above", "below")]
    closures = tuple(
        make_entry(
            cell.dataset,
            cell.column,
            cell.published.mean + (0.05 if n % 3 else 4),
            cell.published.std,
            setting="60 epochs" if n % 2 else "hidden layers [32, 32], soft labels",
        )
        for n, cell in enumerate(outside)
        if n % 4
    )
    where = Provenance(
        command="table2 --repeats 100 --seed 1",
        created="2026-05-09T12:30:00Z",
        seed=1,
        seconds=5071.0,
        jobs=2,
        versions={"expril": "0.1.0", "torch": "2.9.0", "opendp": "0.14.1"},
        noise="OpenDP",
    )
    return Reproduction(
        table=tuple(table),
        wilcoxon=tuple(tests),
        closures=closures,
        curves=tuple(curves),
        provenance={
            "table2": where,
            "figure1": msgspec.structs.replace(where, command="figure1 --repeats 100", seconds=9999.0),
        },
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
    "provenance": Reproduction(provenance=FULL.provenance),
    "one run": Reproduction(table=(make_entry("A", "h_star", 81.2, 0.0, runs=1),), settings={"A": {}, "B": {"e": "2"}}),
}


def read(found, name):
    return list(csv.DictReader(io.StringIO(csv_table(study.files(found)[name]), newline="")))


# --- files


def test_the_table_survives_csv():
    rows = read(FULL, "table2.csv")
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
    rows = read(FULL, "figure1.csv")
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
    rows = read(FULL, "wilcoxon.csv")
    assert list(rows[0]) == ["dataset", "noise", "difference", "p_value", "runs"]
    for row, test in zip(rows, FULL.wilcoxon, strict=True):
        assert [row["dataset"], row["noise"], int(row["runs"])] == [test.dataset, test.noise, test.runs]
        assert float(row["p_value"]) == pytest.approx(test.p_value, rel=5e-4)
        assert float(row["difference"]) == pytest.approx(test.difference, abs=0.00501)
    hostile = (*FULL.closures, make_entry("A", "ratio", -0.000001, 0.12345, 3, setting='a "b",\nc'))
    rows = read(Reproduction(closures=hostile), "closures.csv")
    assert list(rows[0]) == ["dataset", "column", "setting", "mean", "std", "runs"]
    assert [row["setting"] for row in rows] == [closure.setting for closure in hostile]
    assert (rows[-1]["mean"], rows[-1]["std"]) == ("0.0000", "0.1235")


def test_of_what_was_not_made_there_is_no_file():
    assert study.files(EMPTY) == {}
    assert list(study.files(Reproduction(curves=FULL.curves))) == ["figure1.csv"]


# --- what the numbers amount to

places = st.sampled_from([*sorted(TABLE_2), ("A", "valid-1DP-C-ExPriL")])
tables = st.dictionaries(places, st.tuples(st.floats(40, 100), st.floats(0, 6), st.integers(1, 200)))
attempts = st.lists(st.tuples(places, st.floats(40, 100), st.floats(0, 6), st.integers(1, 200)), max_size=20)


def away(place, mean, std, runs):
    """Independent: signed number of standard errors; None without two deviations."""
    if place not in TABLE_2 or TABLE_2[place].std is None:
        return None
    return (mean - TABLE_2[place].mean) / (std**2 / runs + TABLE_2[place].std ** 2 / 100) ** 0.5


@settings(max_examples=25, deadline=None)
@given(tables, attempts)
def test_counts_are_what_an_independent_count_finds(table, attempts):
    found = Reproduction(
        table=tuple(make_entry(*place, *numbers) for place, numbers in table.items()),
        closures=tuple(make_entry(*place, *numbers, setting="some setting") for place, *numbers in attempts),
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
    counts = {item.title: item for item in table_counts(found)}
    ours = counts.get("of the method")
    assert (len(ours.sides), ours.closed) == (len(distances), len((above | below) & shut)) if ours else not distances
    if ours:
        assert [ours.sides.count(side) for side in ("above", "below")] == [len(above), len(below)]
        assert ours.runs == min(table[place][2] for place in distances)
    chosen = [z for place, z in everywhere.items() if z is not None and place not in distances]
    sides = counts["references h* and h0*"].sides if chosen else ()
    assert (len(sides), sides.count("within")) == (len(chosen), sum(abs(z) <= 2 for z in chosen))
    listed = {(gap.entry.dataset, gap.entry.column) for gap in gaps(found)}
    assert listed == {place for place, z in everywhere.items() if z is not None and abs(z) > 2}
    for item in setting_counts(found):
        made = [z for place, *n in attempts if place[1] not in chosen_by and (z := away(place, *n)) is not None]
        assert [item.sides.count(side) for side in ("within", "above")] == [
            sum(abs(z) <= 2 for z in made),
            sum(z > 2 for z in made),
        ]


test_counts_are_what_an_independent_count_finds_at_length = at_length(
    test_counts_are_what_an_independent_count_finds, 100
)


def test_the_prose_has_the_numbers_of_the_published_cells():
    """What docs/results/reproduction.md says, from docs/results/reproduction/cells."""
    found = STUDY.read_findings(DOCS / "results" / "reproduction")
    prose = " ".join((DOCS / "results" / "reproduction.md").read_text(encoding="utf-8").replace("\\*", "*").split())
    ours, references = table_counts(found)
    within, above, below = (ours.sides.count(side) for side in ("within", "above", "below"))
    by_chance = math.erfc(2 / math.sqrt(2)) * len(ours.sides)
    places = {(item.dataset, item.column): item for item in found.table}
    valid, printed = (
        [places[name, f"{prefix}1DP-{learner}-ExPriL"].mean for name in DATASETS for learner in "CI"]
        for prefix in ("valid-", "")
    )
    bests = {item.title.partition(":")[0]: item.sides for item in setting_counts(found)}
    judged = [test.agreement for test in found.wilcoxon if test.agreement != "–"]
    costs = [places[name, "epsilon_printed_at_data"].mean for name in DATASETS]
    masses = max(places[name, "epsilon_printed_masses"].mean for name in DATASETS)
    ends = {f"{c.points[-1].epsilon:.2f}": None for c in found.curves if c.fixed}
    for sentence in (
        f"Of {len(ours.sides)} accuracies of the method",
        f"{within} of ours lies within two standard errors of the paper's, {above} above and {below} below",
        f"about {by_chance:.0f} would lie outside by chance",
        f"Table 2 has {ours.runs} runs of each data set",
        f"{references.sides.count('within')} of {len(references.sides)} lie within two standard errors",
        f"brings {ours.closed} of those {above + below} within",
        f"has {bests['fine-bins'].count('within')} of {len(bests['fine-bins'])} within",
        f"after one gradient step {bests['descent-1'].count('within')} of {len(bests['descent-1'])}, after three",
        f"after three {bests['descent-3'].count('within')} of {len(bests['descent-3'])}.",
        f"as the paper says in {judged.count('agrees')} of {len(judged)} comparisons",
        f"it costs {min(costs):.1f} to {max(costs):.1f}; where the masses are asked",
        f"their query alone costs up to {masses:.2f}",
        f"on average {(sum(valid) - sum(printed)) / 14:.1f} percentage points more than the printed one",
        f"Figure 1** has {found.curves[0].points[0].runs} runs of each data set",
        f"has cost {' after ten rounds by its own claim, '.join(ends)} where the masses are asked",
    ):
        assert sentence in prose
    assert max(bests, key=lambda name: bests[name].count("within")) == "fine-bins"
    assert all(math.isinf(places[name, "epsilon_printed_worst"].mean) for name in DATASETS)


@pytest.mark.parametrize(
    ("row", "ours", "paper", "verdict"),
    [
        (Wilcoxon("A", "none", 1.0, 0.01, 100), "C-ExPriL better", "C-ExPriL better", "agrees"),
        (Wilcoxon("A", "none", -1.0, 0.01, 100), "I-ExPriL better", "C-ExPriL better", "differs"),
        (Wilcoxon("B", "printed", 1.0, 0.01, 100), "C-ExPriL better", "no significant difference", "differs"),
        (Wilcoxon("C", "none", 1.0, 0.05, 100), "no significant difference", "no significant difference", "agrees"),
        (Wilcoxon("D", "none", 0.0, math.nan, 1), "no significant difference", "C-ExPriL better", "differs"),
        (Wilcoxon("D", "valid", 1.0, 0.01, 100), "C-ExPriL better", "not in the paper", "–"),
    ],
)
def test_signed_rank_tests_are_compared_with_the_papers_claim(row, ours, paper, verdict):
    assert (row.ours, row.paper, row.agreement) == (ours, paper, verdict)
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
        (study.epsilon_text(1.0), "1"),
        (study.epsilon_text(11 / 3), "3.67"),
        (study.epsilon_text(12345.6), "12,346"),
        (study.epsilon_text(math.inf), "infinite"),
        (study.probability(3e-9), "< 0.0001"),
        (study.probability(0.0412), "0.041"),
        (study.epsilons_summary(None), "–"),
        (study.epsilons_summary(make_entry("A", "epsilon_printed_masses", 0.0, 0.0)), "not asked"),
        (study.epsilons_summary(make_entry("A", "x", math.inf, 0.0, infinite_runs=100)), "infinite in 100 of 100 runs"),
        (
            study.epsilons_summary(make_entry("A", "x", math.inf, 0.0, median=2, infinite_runs=3)),
            "median 2, infinite in 3 of 100 runs",
        ),
        (study.epsilons_summary(make_entry("A", "epsilon_printed_worst", math.inf, 0.0)), "infinite"),
        (study.epsilons_summary(make_entry("A", "x", 3.0, 0.0, median=2)), "median 2, mean 3"),
    ],
)
def test_numbers_in_words(text, shown):
    assert text == shown


# --- the page


def test_every_published_number_on_the_page_is_the_papers():
    rows = [cells for _, cells in Outline(page_of(FULL)).rows]
    start = next(n for n, cells in enumerate(rows) if "in std. errors" in cells)
    seen, dataset, names = {}, "", {title: name for name, title in COLUMNS.items()}
    for cells in rows[start + 1 :]:
        if len(cells) == 1:
            dataset = cells[0]
        elif cells[0] not in names or len(cells) != 7:
            break
        elif cells[3] != "–":
            seen[dataset, names[cells[0]]] = tuple(map(float, cells[3].split(" ± ")))
    assert seen == {place: tuple(n for n in published if n is not None) for place, published in TABLE_2.items()}


@pytest.mark.parametrize("build", [page_of, markdown_of])
def test_every_number_is_there(build):
    text = build(FULL)
    shown = Outline(text).text if build is page_of else text.replace("\\", "")
    for entry in FULL.table:
        if not entry.column.startswith("epsilon"):
            digits = 3 if entry.column == "ratio" else 1
            assert f"{entry.mean:.{digits}f} ± {entry.std:.{digits}f}" in shown
    for test in FULL.wilcoxon:
        assert numbers.signed(test.difference) in shown
    for closure in FULL.closures:
        assert f"{closure.mean:.1f} ± {closure.std:.1f}" in shown
        assert closure.setting in shown
    for curve in FULL.curves:
        for point in curve.points if build is page_of else (curve.points[0], curve.points[-1]):
            assert f"−{-point.mean:.1f} ± {point.std:.1f}" in shown
    for where in FULL.provenance.values():
        assert where.command in shown
        assert f"{where.seconds / 60:.1f} minutes" in shown
    for text in (document(FULL).headline, study.SUMMARY, study.EPSILON_NOTE, study.CLOSING):
        assert text in shown
    assert "2026-05-09 12:30 UTC" in shown
    assert "torch 2.9.0" in shown


def test_the_fixed_scale_shows_its_cost():
    """In the row below the axis, and in the table of all numbers; the masses are a query, too."""
    (section,) = [item for item in document(FULL).in_medium("page") if item.title.startswith("Figure 1")]
    charts = {item.figures[0].name.partition(",")[0]: item.figures for item in section.blocks[1::2]}
    private, public = charts["C"]
    assert [private.name, public.name] == ["C, differentially private (1-DP in the paper)", "C, no privacy"]
    assert private.second[0] == "ε"
    assert [tick.label for tick in private.second[1]] == [f"{t / 3:.2f}" for t in range(2, 12)]
    assert [tick.label for tick in charts["A"][0].second[1]] == [f"{t / 3:.2f}" for t in range(1, 11)]
    assert public.second[1] == ()
    assert (len(private.lines), len(public.lines)) == (6, 2)
    assert len({(line.index, line.hollow) for line in private.lines}) == 6
    assert private.stage == public.stage
    fold = next(item for item in section.blocks[2::2] if item.summary == "Numbers of C")
    fixed = next(group for group in fold.blocks[0].groups if "fixed for three" in group.title)
    assert [row[-1] for row in fixed.rows] == [study.epsilon_text(t / 3) for t in range(2, 12)]


def test_standing_is_told_without_colour():
    table = study._pictured(FULL)
    cells = [table.columns[-2].text(entry) for group in table.groups for entry in group.rows]
    sides = [entry.standing for entry in FULL.table]
    for side, mark in (("within", "="), ("above", "▲"), ("below", "▼")):
        assert sum(cell.mark == mark for cell in cells) == sides.count(side)
    text = Outline(page_of(FULL)).text
    assert text.count("above the paper by more than two standard errors") == sides.count("above")


def test_dots_lie_on_one_axis_and_bars_around_them():
    table = study._pictured(FULL)
    assert [group.title for group in table.groups] == list(DATASETS)
    column = table.columns[1]
    for group in table.groups:
        for entry in group.rows:
            strip = column.drawing(entry)
            if entry.column == "ratio":
                assert strip is None
                continue
            assert strip.axis is column.axis
            ((_, value, (low, high), _),) = strip.dots
            assert column.axis.low <= low < value < high <= column.axis.high
            assert (len(strip.spans), len(strip.marks)) == ((0, 0) if "valid" in entry.column else (1, 1))
            for (lower, upper, *_), (mean, _) in zip(strip.spans, strip.marks, strict=True):
                assert lower < mean == entry.published.mean < upper


def test_the_terminal_shows_the_table_beside_the_papers():
    titles = [str(item.title) for item in as_terminal(document(FULL))]
    assert titles[1 : 1 + len(DATASETS)] == [f"Table 2, ours and the paper’s: {name}" for name in DATASETS]
    assert len(titles) == len(DATASETS) + 6
    table = study._pictured(FULL)
    entry = FULL.table[0]
    shown = [column.text(entry).text for column in table.written]
    assert (*shown[:3], shown[-1]) == ("h*", study.spread("h_star", entry), "94.3 ± 2.3", str(RUNS))
    assert list(as_terminal(document(EMPTY))) == []


@pytest.mark.parametrize("name", PARTIAL)
def test_missing_parts_leave_a_whole_page(name):
    found = PARTIAL[name]
    outline = Outline(page_of(found))
    headings = sum(tag == "h2" for tag, _ in outline.elements)
    assert headings == sum(tag == "section" for tag, _ in outline.elements)
    assert ("figure" in dict(outline.elements)) == any(curve.points for curve in found.curves)
    for word in ("None", "nan", "inf ", "Entry("):
        assert not re.search(rf"\b{re.escape(word)}", outline.text)
    text = markdown_of(found)
    assert text.startswith(f"# {document(found).headline}\n")
    assert not re.search(r"\b(None|nan)\b", text)
    if name == "nothing":
        assert headings == 0
        assert "|" not in text


def hostile():
    where = msgspec.structs.replace(
        FULL.provenance["table2"], command=HOSTILE, created=HOSTILE, versions={HOSTILE: HOSTILE}, noise=HOSTILE
    )
    return Reproduction(
        table=(make_entry(HOSTILE, "C-ExPriL", 80.0, 1.0), make_entry(HOSTILE, "epsilon_claimed", 1.0, 0.0)),
        provenance={"table2": where},
        wilcoxon=(Wilcoxon(HOSTILE, "none", 1.0, 0.5, 100),),
        closures=(make_entry(HOSTILE, HOSTILE, 1.0, 1.0, 1, setting=HOSTILE),),
        curves=(Curve(HOSTILE, "C", "printed", True, FULL.curves[0].points),),
        settings={HOSTILE: {HOSTILE: HOSTILE}},
    )


def test_hostile_text_is_inert():
    text = page_of(hostile())
    outline = Outline(text)
    assert outline.count("img") == 0
    assert outline.count("script") == 1  # our own
    assert not any(name.startswith("on") for _, attributes in outline.elements for name in attributes)
    assert outline.text.count(re.sub(r"\s+", " ", HOSTILE)) > 10
    assert "alert('x')" not in text


def test_hostile_text_is_inert_in_markdown():
    text = markdown_of(hostile())
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
    text = page_of(found)
    words = re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL)  # our own
    assert not re.search(r"https?:|//", re.sub(r"</|/>", "", words))
    loading = {"src", "srcset", "data", "action", "poster", "background", "ping", "formaction", "href", "xlink:href"}
    for tag, attributes in Outline(text).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "audio", "video", "image"}
        assert not loading & attributes.keys()
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert text == page_of(found)


def test_plots_and_tables_are_named():
    outline = Outline(page_of(FULL))
    for tag, attributes in outline.elements:
        if tag == "svg" and attributes.get("class") == "plot":
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"]) > 40
        if attributes.get("class") == "wide":
            assert attributes["aria-label"]
            assert attributes["tabindex"] == "0"
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("caption") == tags.count("table")


@pytest.mark.slow
@pytest.mark.browser
def test_page_lives_in_a_real_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(FULL), encoding="utf-8")
    with browser.open(path) as tab:
        assert tab.errors == []
        assert document(FULL).headline in Outline(tab.html).text
