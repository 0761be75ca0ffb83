"""Words of charts: no two overlap at any width of a page; columns, legends and curves that tell nothing are left out.

Widths of letters are those of DejaVu Sans, the widest of the fonts that a page asks for, as its font file states them.
"""

import math
from itertools import combinations, pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from expril.report.chart import (
    Axis,
    Key,
    Level,
    Place,
    Series,
    Stage,
    Strip,
    Tick,
    count_axis,
    decade_axis,
    line_chart,
    log_axis,
    make_axis,
    tight_axis,
)
from expril.report.document import PAGE, Charts, Document, Legend, Section
from expril.report.files import as_markdown, csv_table
from expril.report.labels import LEAST_OF_FOUR, LEAST_WIDTH, STRIP_WIDTHS, Words, cut, text_width
from expril.report.numbers import axis_texts, plain_number, readable_edges
from expril.report.page import as_page, page_template
from expril.report.picture import PANEL
from expril.report.table import Cell, Column, Table

# fmt: off
ADVANCES = [
    651, 821, 942, 1716, 1303, 1946, 1597, 563, 799, 799, 1024, 1716, 651, 739, 651, 690, 1303, 1303, 1303, 1303,
    1303, 1303, 1303, 1303, 1303, 1303, 690, 690, 1716, 1716, 1716, 1087, 2048, 1401, 1405, 1430, 1577, 1294,
    1178, 1587, 1540, 604, 604, 1343, 1141, 1767, 1532, 1612, 1235, 1612, 1423, 1300, 1251, 1499, 1401, 2025,
    1403, 1251, 1403, 799, 690, 799, 1716, 1024, 1024, 1255, 1300, 1126, 1300, 1260, 721, 1300, 1298, 569, 569,
    1186, 569, 1995, 1298, 1253, 1300, 1300, 842, 1067, 803, 1298, 1212, 1675, 1212, 1212, 1075, 1303, 690, 1303,
    1716,
]
# fmt: on
WIDTHS = dict(zip((chr(n) for n in range(32, 127)), ADVANCES, strict=True))
OTHERS = {
    "−": 1716,
    "×": 1716,
    "…": 2048,
    "⁻": 1081,
    "⁰": 821,
    "¹": 821,
    "²": 821,
    "³": 821,
    "⁴": 821,
    "⁵": 821,
    "⁶": 821,
    "⁷": 821,
    "⁸": 821,
    "⁹": 821,
    "ε": 1107,
    "±": 1716,
}
EM = 2048


def long(text, size=12):
    return size / EM * sum(WIDTHS.get(letter) or OTHERS[letter] for letter in text)


def rendered(figure, width):
    template = page_template("expril.report", "chart.html.j2")
    return ET.fromstring(str(template.module.plot(figure, "a chart", width=width)))


def boxes(texts, width, size=12):
    """(left, right, top, bottom, words) of each text in pixels, in a chart of that width."""
    for text in texts:
        x = text.get("x", "0")
        left = float(x.removesuffix("%")) * (width / 100 if x.endswith("%") else 1)
        words = text.text or ""
        left -= {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor"), 0.0) * long(words, size)
        y = float(text.get("y"))
        # Digits, capitals and accents of 12 pixels rise 9.2 above the base line and descend 2.8 below it.
        yield left, left + long(words, size), y - 9.2 * size / 12, y + 2.8 * size / 12, words


def overlaps(found):
    """Pairs of words whose boxes meet."""
    return [
        (one[4], other[4])
        for one, other in combinations(list(found), 2)
        if one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
    ]


numbers = st.one_of(
    st.floats(-1e9, 1e9),
    st.floats(-1, 1),
    st.floats(-1e-7, 1e-7),
    st.integers(-5, 5).map(float),
    st.floats(0.999e6, 1.001e6),
)
words = st.text("abcMW wil0189.%-", max_size=60)


@st.composite
def horizontal(draw):
    kind = draw(st.sampled_from(["steps", "counts", "logarithmic", "drawn"]))
    low, high = sorted(draw(st.tuples(numbers, numbers)))
    left, right = draw(st.sampled_from([(2.5, 97.5), (11.0, 97.0), (0.0, 100.0)]))
    if kind == "steps":
        return make_axis(low, high, draw(st.sampled_from([(), (0.1, 0.2), (1.0,)])), left=left, right=right)
    if kind == "counts":
        return count_axis(draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=60)), left=left, right=right)
    positive = draw(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=12))
    if kind == "logarithmic":
        return log_axis(positive, left=left, right=right)
    bare = Axis(0.0, 1.0, (), left, right)
    places = draw(st.lists(st.floats(0, 1), min_size=1, max_size=30).map(sorted))
    return Axis(0.0, 1.0, tuple(Tick(draw(words), bare.at(place), place) for place in places), left, right)


@st.composite
def figures(draw):
    axis = draw(horizontal())
    values = draw(st.lists(numbers, min_size=3, max_size=5))
    key = Key(0, False, "line")
    stage = None
    if draw(st.booleans()):
        values = [abs(value) + 1e-6 for value in values]
        stage = Stage(decade_axis(min(values), max(values)), 200)
    steps = zip((axis.low, axis.low, axis.high), values, strict=False)
    places = [Place(x, value, (value, value), "place") for x, value in steps]
    levels = [
        Level(
            "dashes", draw(st.sampled_from(values)) + draw(st.sampled_from([0.0, 1e-3, 5.0])), draw(words), named=True
        )
        for _ in range(draw(st.integers(0, 5)))
    ]
    second = ("", ()) if draw(st.booleans()) else (draw(words), axis.ticks)
    height = draw(st.sampled_from([120, 270, 380]))
    return line_chart(
        "a chart",
        [Series(key, places)],
        axis,
        draw(st.sampled_from([(), (0.1,), (5.0,)])),
        levels=levels,
        stage=stage,
        height=height,
        unit=draw(words),
        across=draw(words),
        second=second,
    )


@given(figures(), st.sampled_from([LEAST_OF_FOUR, LEAST_WIDTH, PANEL]), st.integers(0, 1000))
def test_no_two_words_of_a_chart_overlap_at_the_least_width_or_any_larger(figure, least, further):
    texts = list(rendered(figure, least).iter("text"))

    for width in (least, least + further):
        found = list(boxes(texts, width))
        assert overlaps(found) == []
        assert all(left > -17 and right < width + 17 for left, right, *_ in found)  # a page's margin is 17.6 pixels


@given(horizontal(), st.integers(0, 600))
def test_no_two_words_above_a_column_of_strips_overlap_or_reach_into_the_next(axis, further):
    column = Column("plotted", lambda row: Strip(axis), drawn=True, axis=axis)
    macros = page_template("expril.report", "table.html.j2").module
    heading = ET.fromstring(str(macros.heading(column, macros.implied)))
    scales = list(heading.iter("svg"))

    assert len(scales) in (1, len(STRIP_WIDTHS))
    for least, scale in zip(STRIP_WIDTHS, scales, strict=False):
        words = list(boxes(scale.iter("text"), least + further))
        assert overlaps(words) == []
        assert all(left > -4 and right < least + further + 4 for left, right, *_ in words)


@given(st.lists(st.tuples(st.floats(0, 1), words), min_size=1, max_size=6), st.integers(0, 600))
def test_no_two_words_below_a_card_s_strip_overlap(labels, further):
    template = page_template("expril.report", "chart.html.j2")
    text = str(template.module.written(Axis(0.0, 1.0).stacked(labels)))

    assert overlaps(boxes(ET.fromstring(f"<svg>{text}</svg>").iter("text"), LEAST_WIDTH + further, 13)) == []


@given(st.text("".join((*WIDTHS, *OTHERS))))
def test_a_text_is_no_longer_than_its_bound(text):
    assert long(text) <= text_width(text) + 1e-9


def test_even_ticks_stay_even_and_keep_the_last():
    axis = make_axis(0.0, 50_000.0, (1000.0,))
    crowded = Axis(0, 50, tuple(Tick(f"{n},000", Axis(0, 50).at(n), n) for n in range(51)))

    assert next(words.text for words in axis.labels(144)) == "0"
    places = [
        words.x
        for words in line_chart("", [Series(Key(0, False, ""), [Place(0, 0, (0, 0), "")])], crowded, ()).words()
        if words.text.endswith(",000")
    ]
    steps = {round(after - before, 6) for before, after in pairwise(places)}
    assert len(places) > 3
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0.0, 1.4e6, ["0", "0.5 M", "1.0 M", "1.5 M"]),
        (0.0, 45_000.0, ["0", "10,000", "20,000", "30,000", "40,000", "50,000"]),
        (-3e-6, 3e-6, ["−4×10⁻⁶", "−2×10⁻⁶", "0", "2×10⁻⁶", "4×10⁻⁶"]),
    ],
)
def test_an_axis_has_round_steps_and_readable_texts_at_any_size(low, high, texts):
    assert [tick.label for tick in make_axis(low, high).ticks] == texts


@given(numbers, numbers)
def test_a_tight_axis_has_round_ticks_within_its_ends(one, other):
    low, high = min(one, other), max(one, other)
    axis = tight_axis(low, high)
    values = [tick.value for tick in axis.ticks]

    assert axis.low == low
    assert high in (axis.high, low)
    assert 2 <= len(values) <= 12
    assert all(axis.low - 1e-6 * (axis.high - axis.low) <= value for value in values)
    assert all(value <= axis.high + 1e-6 * (axis.high - axis.low) for value in values)


@given(st.floats(-1e9, 1e9), st.sampled_from([1e-6, 0.01, 1.0, 1000.0, 1e7]), st.integers(2, 8))
def test_texts_of_an_axis_read_as_its_values(start, step, count):
    first = round(start / step)
    values = [(first + n) * step for n in range(count)]
    read = [value_of(text) for text in axis_texts(values)]

    assert all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=step / 100) for one, other in zip(read, values, strict=True)
    )


@given(st.floats(-1e15, 1e15, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-15))
def test_a_plain_number_reads_as_its_value_to_three_digits(value):
    assert value_of(plain_number(value)) == pytest.approx(value, rel=0.0051)


def value_of(text):
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = text.replace("−", "-").replace(",", "").partition("×10")
    number = float(mantissa.removesuffix(" M")) * (1e6 if mantissa.endswith(" M") else 1)
    return number * 10.0 ** int(power.translate(digits) or 0)


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 6)), min_size=1, max_size=9, unique=True).map(sorted)
)
@example([36.555, 36.61])
@example([0.5, 2.3, 300.0])
def test_edges_are_rounded_alike_and_stay_apart(edges):
    texts = readable_edges(edges)
    read = list(map(value_of, texts))

    assert len({len(text.partition(".")[2]) for text in texts}) == 1
    assert read == sorted(set(read))
    assert len(read) == len(edges)
    for n, (edge, rounded) in enumerate(zip(edges, read, strict=True)):
        gaps = [abs(edge - other) for m, other in enumerate(edges) if m != n]
        assert abs(edge - rounded) <= 0.2 * min(gaps, default=math.inf) + 1e-9 * abs(edge)


def test_edges_have_three_digits_where_these_tell_them_apart():
    assert readable_edges([0.8312, 1.1949, 2.0071]) == ["0.83", "1.19", "2.01"]
    assert readable_edges([54.00002, 61.5, 70.25]) == ["54.0", "61.5", "70.2"]
    assert readable_edges([1234.1, 5678.2, 80000.7]) == ["1,230", "5,680", "80,000"]


ROWS = [("a", None, "–", 1.0), ("b", None, "", 2.0)]
COLUMNS = [
    Column("name", lambda row: row[0], names=True),
    Column("plot", lambda row: row[1], drawn=True, axis=Axis(0, 1)),
    Column("empty", lambda row: Cell(row[2], strong=True), number=True),
    Column("value", lambda row: row[3], number=True),
]


def test_a_column_without_a_value_is_left_out_by_pages_and_terminals():
    table = Table.of("rows", COLUMNS, ROWS)
    document = Document("kind", "subject", "headline", sections=[Section("title", [table])])

    page = as_page(document)
    assert ">value<" in page
    assert ">empty<" not in page
    assert "| name | empty | value |" in as_markdown(document)
    assert csv_table(table).startswith("name,empty,value\n")
    assert [column.heading for column in table.visible] == ["name", "value"]
    assert "empty" in [column.heading for column in Table.of("rows", COLUMNS, [*ROWS, ("c", None, "3", 1.0)]).visible]


def curve(values, index=0):
    places = [Place(n, value, (value, value), "") for n, value in enumerate(values)]
    return Series(Key(index, False, f"line {index}"), places)


def test_a_flat_curve_of_two_points_is_not_drawn():
    axis = make_axis(0, 3, (1.0,))

    assert not Charts([line_chart("flat", [curve([0.3, 0.3])], axis, (0.1,))])
    assert not Charts([line_chart("flat", [curve([0.3, 0.3]), curve([0.2], 1)], axis, (0.1,))])
    assert Charts([line_chart("rises", [curve([0.3, 0.4])], axis, (0.1,))])
    assert Charts([line_chart("long", [curve([0.3, 0.3, 0.3])], axis, (0.1,))])
    assert Charts([line_chart("a point", [curve([0.3])], axis, (0.1,))])
    flat = Section("Curve", [Charts([line_chart("flat", [curve([0.3, 0.3])], axis, (0.1,))])], PAGE)
    assert "<h2>" not in as_page(Document("kind", "subject", "headline", sections=[flat]))


def test_a_legend_has_only_what_is_drawn():
    axis = make_axis(0, 3, (1.0,))
    keys = [Key(0, False, "drawn here"), Key(1, True, "nowhere drawn")]
    chart = line_chart("rises", [curve([0.3, 0.4])], axis, (0.1,), levels=[Level("solid", 0.3, "level")])
    charts = Charts([chart], keys, [("solid", "a level"), ("dashes", "no level")])
    page = as_page(Document("kind", "subject", "headline", sections=[Section("", [charts])]))
    assert "drawn here" in page
    assert "a level" in page
    assert "nowhere drawn" not in page
    assert "no level" not in page

    strip = Strip(axis, dots=[(0, 1.0, (1.0, 1.0), "words")], marks=[(1.0, "solid")])
    table = Table.of("rows", [Column("plot", lambda row: strip, drawn=True, axis=axis)], ["a"])
    legend = Legend(keys, [("solid", "the mark"), ("track", "no span"), ("bar c0", "no error")])
    present = Section("", [legend, table]).present
    assert [key.name for key in present[0].keys] == ["drawn here"]
    assert list(present[0].marks) == [("solid", "the mark")]
    assert Section("", [Legend(keys[1:]), table]).present == [table]


@pytest.mark.parametrize("letter", ["i", "x", "W"])
def test_a_name_of_millions_of_letters_is_cut_as_fast_as_a_short_one(letter):
    """A stranger's audit may name a kind so; its curve once took hours to draw."""
    short, long = (cut(Words(letter * count, 0.0, 0.0), 200.0).text for count in (1_000, 300_000))
    assert short == long
    assert text_width(long) <= 200.0 < text_width(long + letter)
