"""Figures and tables of a page as files: SVG in pixels, PNG and CSV, by command and by the page's buttons."""

import csv
import io
import re
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from operator import attrgetter, itemgetter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expril.commands.terminal import check_files, without_controls
from expril.report.chart import Key, Level, Place, Series, Strip, line_chart, make_axis
from expril.report.document import Cards, Charts, Document, Drawing, Fold, Grid, Heading, Legend, Section, Text
from expril.report.labels import Box, text_width
from expril.report.page import as_page
from expril.report.page_files import as_csv, file_name, page_files, without_formula, write_page_files
from expril.report.picture import as_picture, as_svg
from expril.report.plain_svg import Frame, Sheet, moved_path, plain_svg
from expril.report.png import MOST, SCALE, as_png, has_letters
from expril.report.table import Cell, Column, Group, Table, text_table
from protocol.errors import ConfigurationError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script> & \"q\" 'q' ]]> </template>"
AXIS = make_axis(0, 3, (1.0,))


def charts(name="", count=1):
    keys = [Key(0, False, "first"), Key(1, True, HOSTILE)]
    series = [Series(key, [Place(x, x, (x - 1, x + 1), f"{x}") for x in (1.0, 2.0, 3.0)]) for key in keys]
    levels = [Level("dashes", 2.0, "a level", named=True)]
    figures = [
        line_chart(f"{HOSTILE} {n}", series, AXIS, (1.0,), levels=levels, across="x", diagonal=True)
        for n in range(count)
    ]
    return Charts(figures, keys, [("dashes", "the rule")], name=name)


def drawn_strip(row):
    return Strip(AXIS, [(0, row[1], (0.5, 2.5), "")], [(0.0, 2.0, "track", "")])


def strips(caption="a table of strips", groups=None):
    columns = [
        Column("name", lambda row: Cell(row[0], under="a second line", key=Key(2, False, "")), names=True),
        Column("plotted", drawn_strip, drawn=True, axis=AXIS),
        Column("value\nof it", itemgetter(1), number=True),
        Column("verdict", lambda row: Cell(HOSTILE, tone="good", title="a meaning")),
    ]  # fmt: skip
    return Table(caption, columns, groups or [Group([("a", 1.0), ("b", 2.0)], "one"), Group([("c", 1.5)], "two")])


def texts(*cells, caption="texts"):
    """A table with a second column, as a page leaves columns of dashes out."""
    return text_table(caption, ["heading", "x"], [[cell, "x"] for cell in cells])


def document(*blocks, **fields):
    return Document("kind", "the subject", "headline", sections=[Section("the section", blocks)], **fields)


DRAWING = Drawing(
    '<svg width="100" height="50"><rect width="50%" height="10"/>'
    '<image y="10" width="9" height="9" href="data:image/png;base64,AAAA"/></svg>',
    "of a size",
    size=(100, 50),
    images=True,
)
WIDE = Drawing('<svg class="plot" height="40"><line class="grid" x2="100%"/></svg>\n<p class="axis">words</p>', "wide")
EVERYTHING = document(
    charts("charts", 2),
    charts(),
    DRAWING,
    Legend([Key(0, False, "a key")], [("track", "room"), ("solid", "a line")]),
    strips(),
    Fold("more", [texts("1,234", "−0.5", "=1+1", "0.5 ± 0.1", 'a "quoted" cell, and\na second line', "@x", "-", "+1")]),
    Grid([[WIDE]]),
    settings=text_table("settings", ["key", "value"], [["a", 1]]),
)


def rows(text):
    assert text.startswith("\ufeff")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text[1:], newline=""), strict=True))


def test_a_pages_files_are_its_figures_and_tables_in_order():
    files = page_files(EVERYTHING)

    assert [file.name for file in files] == [
        "the-section-charts", file_name(f"{HOSTILE} 0"), "of-a-size", "a-table-of-strips", "more-texts",
        "the-section-wide", "where-the-numbers-come-from-settings",
    ]  # fmt: skip
    assert [(bool(file.svg), bool(file.csv)) for file in files] == [
        (True, False), (True, False), (True, False), (True, True), (False, True), (True, False), (False, True),
    ]  # fmt: skip


def test_files_of_one_title_are_told_apart():
    heading = [Heading("ann"), texts(1), Heading("bob"), texts(2), texts(3), Heading("bob"), texts(4)]
    files = page_files(document(*heading, Text("x"), DRAWING, Cards([])))

    assert [file.name for file in files] == [
        *("the-section-texts-ann", "the-section-texts-bob", "the-section-texts-bob-2", "the-section-texts-bob-3"),
        "of-a-size",
    ]
    assert len({file.name for file in files}) == len(files)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Accuracy by hospital", "accuracy-by-hospital"),
        ("ε spent, R² of it", "epsilon-spent-r2-of-it"),
        ("Müller/..\\x", "muller-x"),
        ("../..", "figure"),
        ("word " * 20, "-".join(["word"] * 12)),
        ("w" * 70, "w" * 60),
    ],
)
def test_a_files_name_is_made_of_plain_letters(title, name):
    assert file_name(title) == name


def test_a_figure_is_a_file_of_pixels_that_loads_nothing():
    for file in page_files(EVERYTHING):
        if not file.svg:
            continue
        tree = ET.fromstring(file.svg)
        assert {element.tag for element in tree.iter()} <= {
            f"{SVG}{name}" for name in ("svg", "title", "style", "path", "rect", "text", "image")
        }
        places = [value for element in tree.iter() for name, value in element.items() if name != "font-family"]
        assert not [value for value in places if "%" in value or "var(" in value]
        assert not re.search(r"light-dark|var\(|currentColor|@|url\(", tree.findtext(f"{SVG}style"))
        assert "http" not in file.svg.replace("http://www.w3.org/2000/svg", "")
        assert tree.find(f"{SVG}rect").attrib.items() >= {"x": "0", "y": "0", "width": tree.get("width")}.items()
        assert tree.findtext(f"{SVG}title") == file.title
        used = {element.get("class") for element in tree.iter() if element.get("class")}
        assert used == set(re.findall(r"\.([a-z]+)\{", tree.findtext(f"{SVG}style")))


def test_charts_without_a_legend_have_that_of_the_charts_above():
    bare = replace(charts("bare ones too"), keys=(), rules=())
    first, last = page_files(document(charts("with a legend"), bare))
    other = page_files(document(bare))[0]

    words = [[text.text for text in ET.fromstring(file.svg).iter(f"{SVG}text")] for file in (first, last, other)]
    assert words[0][1:] == words[1][1:]
    assert "the rule" in words[1]
    assert "the rule" not in words[2]


def test_a_character_that_xml_lacks_is_replaced():
    (file,) = page_files(document(charts("a name\x00 with\x0b some")))

    assert ET.fromstring(file.svg).findtext(f"{SVG}title") == "a name\ufffd with\ufffd some"


def test_a_table_of_strips_is_a_figure_with_legend_words_and_strips():
    tree = ET.fromstring(page_files(EVERYTHING)[3].svg)

    words = [text.text for text in tree.iter(f"{SVG}text")]
    assert words[:4] == ["a table of strips", "a key", "room", "a line"]
    assert {"one", "two", "a", "b", "c", "value", "of it", "1.5"} <= set(words)
    assert f"✓ {HOSTILE}" in " ".join(words)  # in several lines
    assert words.count("a second line") == 3
    marks = [path.get("d") for path in tree.iter(f"{SVG}path") if "A" in path.get("d")]
    assert len(marks) == 3 + 1  # three rows, and the legend
    named = {text.text: float(text.get("y")) for text in tree.iter(f"{SVG}text")}
    assert named["a"] < named["b"] < named["two"] < named["c"]
    assert all(0 <= float(text.get("x")) <= float(tree.get("width")) for text in tree.iter(f"{SVG}text"))


def test_styles_follow_selectors_and_their_weight():
    sheet = Sheet.of(
        """:root { --ink: light-dark(#111, #eee); --paper: #ccc }
        .c1 { --c: #00f } .bar { stroke: var(--c); stroke-width: 2px } rect { fill: red }
        svg.plot text, .x:hover { fill: var(--ink); font: 600 12px/1.2 sans } .plot > .name { fill: var(--paper) }
        @media print { .bar { stroke: #000 } } text { fill: green }""",
        paper="#fff",
    )
    text = plain_svg(
        '<svg xmlns="http://www.w3.org/2000/svg" class="plot" width="200" height="100"><title>t</title>'
        '<g class="c1"><line class="bar" x2="100%" y2="50%"/></g><text class="name">a</text>'
        '<g><text class="name">b</text></g><rect width="10%" height="1"/></svg>',
        sheet,
    )
    tree = ET.fromstring(text)
    styles = dict(re.findall(r"\.([a-z]+)\{([^}]*)\}", tree.findtext(f"{SVG}style")))
    shapes = [(element.tag.removeprefix(SVG), styles.get(element.get("class"))) for element in tree][2:]
    assert shapes == [
        ("path", "stroke:#00f;stroke-width:2"),
        ("text", "fill:#fff;font-size:12px;font-weight:600"),
        ("text", "fill:#111;font-size:12px;font-weight:600"),
        ("rect", "fill:red"),
    ]
    assert tree.find(f"{SVG}path").get("d") == "M0 0L200 50"


def test_places_are_those_of_nested_and_stretched_drawings():
    tree = ET.fromstring(
        plain_svg(
            '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"><g transform="translate(10 20)">'
            '<svg x="50%" y="1" width="50%" height="40" viewBox="0 0 100 100" preserveAspectRatio="none">'
            '<path d="M0 0L100 50h-50V100Z"/></svg>'
            '<svg x="10" y="10" width="20" height="40" viewBox="-1 -1 2 2"><path d="M0 0A1 1 0 1 1-1 0"/></svg>'
            '<rect x="25%" width="10" height="10" transform="scale(2)"/></g></svg>',
            Sheet.of(""),
        )
    )

    stretched, round_, *_ = (path.get("d") for path in tree.iter(f"{SVG}path"))
    assert stretched == "M110 21L210 41h-50V61Z"
    assert round_ == "M30 50A10 10 0 1 1 20 50"  # as large as fits, and in the middle
    assert dict(tree.find(f"{SVG}rect").items()) == {"x": "110", "y": "20", "width": "20", "height": "20"}


numbers = st.floats(-999, 999).map(lambda value: round(value, 1))
scales = st.sampled_from((1.0, 0.5, 2.0))
frames = st.builds(partial(Frame, 1, 1), sx=scales, sy=scales, dx=numbers, dy=numbers)


@given(st.lists(st.tuples(numbers, numbers), min_size=1), frames)
def test_every_point_of_a_path_is_moved_alike(points, frame):
    path = "M" + "L".join(f"{x} {y}" for x, y in points) + "Z"
    moved = moved_path(path, frame)

    at = [tuple(map(float, pair.split())) for pair in moved[1:-1].split("L")]
    for (x, y), (there_x, there_y) in zip(points, at, strict=True):
        assert there_x == pytest.approx(frame.x(x), abs=0.051)
        assert there_y == pytest.approx(frame.y(y), abs=0.051)


def test_a_table_is_a_line_of_headings_and_a_line_for_each_row():
    assert rows(as_csv(strips())) == [
        ["group", "name", "value of it", "verdict"],
        ["one", "a – a second line", "1.0", HOSTILE],
        ["one", "b – a second line", "2.0", HOSTILE],
        ["two", "c – a second line", "1.5", HOSTILE],
    ]
    assert rows(as_csv(strips(groups=[Group([("a", 1.0)])])))[0] == ["name", "value of it", "verdict"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("1,234", "1234"), ("12,345,678.25", "12345678.25"), ("1,23", "1,23"), ("−0.50", "-0.50"), ("+3", "+3"),
        (".784", ".784"), ("1e−5", "1e-5"), ("0.5 ± 0.1", "0.5 ± 0.1"), ("–", "–"), ("", ""), ("-", "'-"),
        ("=SUM(A1)", "'=SUM(A1)"), ("+1+1", "'+1+1"), ("-2+3", "'-2+3"), ("@now", "'@now"), ("＝1", "'＝1"),
        ("\t=1", "'=1"), ("two\nlines", "two lines"), ("a; =1+1;x", "a; '=1+1;x"), ('a,"b"', 'a,"b"'),
    ],
)  # fmt: skip
def test_a_cell_is_a_number_or_a_text_and_never_a_formula(text, field):
    assert rows(as_csv(texts(text, "a text"))) == [["heading", "x"], [field, "x"], ["a text", "x"]]


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), min_size=1, max_size=4))
def test_any_texts_are_one_line_a_row_and_no_formula(cells):
    written = rows(as_csv(text_table("t", [f"h{n}" for n in range(len(cells))], [cells, ["x"] * len(cells)])))
    assert [len(row) for row in written] == [len(cells)] * 3
    for field in written[1]:
        assert field[:1] not in "=@＝＋－＠" or not field
        assert field[:1] not in "+-" or not field or float(field) is not None


def test_files_are_written_with_stable_names(tmp_path):
    written = write_page_files(EVERYTHING, tmp_path / "a" / "b")

    assert sorted(tmp_path.rglob("*.*")) == sorted(written)
    assert [path.name for path in written[-5:]] == [
        "a-table-of-strips.svg", "a-table-of-strips.csv", "more-texts.csv", "the-section-wide.svg",
        "where-the-numbers-come-from-settings.csv",
    ]  # fmt: skip
    for file in page_files(EVERYTHING):
        if file.csv:
            assert (tmp_path / "a" / "b" / f"{file.name}.csv").read_bytes() == file.csv.encode()
    assert write_page_files(EVERYTHING, tmp_path / "a" / "b") == written


def test_a_figure_becomes_a_png_of_its_size(tmp_path):
    pytest.importorskip("resvg_py", reason="pip install 'expril[figures]'")
    from PIL import Image

    assert has_letters()
    write_page_files(document(strips()), tmp_path, png=True)
    tree = ET.parse(tmp_path / "a-table-of-strips.svg").getroot()
    image = Image.open(tmp_path / "a-table-of-strips.png").convert("RGB")
    assert image.size == (SCALE * int(tree.get("width")), SCALE * int(tree.get("height")))
    colours = dict(map(reversed, image.getcolors(1 << 24)))
    assert {(255, 255, 255), (0x0B, 0x5F, 0xA5)} <= colours.keys()  # paper, and the first colour
    tall = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="8000"/>'
    assert Image.open(io.BytesIO(as_png(tall))).size == (20, MOST)


def test_a_png_without_letters_is_refused_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setattr("expril.report.png.has_letters", lambda: False)
    check_files(tmp_path, png=False)
    with pytest.raises(ConfigurationError, match="no font is installed"):
        check_files(tmp_path, png=True)


def test_a_page_offers_each_file_and_allows_no_more_than_their_images():
    page = as_page(EVERYTHING)

    assert page.count('<div class="save" hidden') == 7
    assert page.count("<template>") == 5
    assert page.count(" data-table>") == 3
    assert "<script>alert" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/=]+'; img-src data:; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )
    assert "img-src" not in as_page(document(texts(1)))
    assert "<script>" not in as_page(document(Text("words")))


@cache
def every_kind():
    from every_page import written_documents

    return written_documents()


def charts_of(document_):
    return [block for section in document_.in_medium("page") for block in section.present if isinstance(block, Charts)]


def boxes(tree):
    """Text -> the box around it, an upper bound, for each text of a figure."""
    styles = dict(re.findall(r"\.([a-z]+)\{([^}]*)\}", tree.findtext(f"{SVG}style")))
    for text in tree.iter(f"{SVG}text"):
        style = dict(rule.split(":") for rule in styles[text.get("class")].split(";"))
        size, x, y = float(style["font-size"].removesuffix("px")), float(text.get("x")), float(text.get("y"))
        width = text_width(text.text or "", size) * (1.08 if style.get("font-weight") == "600" else 1)
        left = x - {"start": 0, "middle": 0.5, "end": 1}[style.get("text-anchor", "start")] * width
        if text.text and not text.get("aria-hidden"):
            yield text.text, Box(left, left + width, y - 0.8 * size + 1, y + 0.2 * size - 1)


@pytest.mark.slow
def test_words_of_every_pages_figures_are_inside_and_apart():
    figures = 0
    for document_ in every_kind().values():
        for file in filter(attrgetter("svg"), page_files(document_)):
            tree = ET.fromstring(file.svg)
            placed = list(boxes(tree))
            for words, box in placed:
                assert box.left >= -1, (file.name, words)
                assert box.right <= float(tree.get("width")) + 1, (file.name, words)
                assert 0 <= box.top < box.bottom <= float(tree.get("height")), (file.name, words)
            overlapping = [(words, other) for (words, box), (other, box_) in combinations(placed, 2) if box.meets(box_)]
            assert overlapping == [], file.name
            figures += 1
    assert figures > 50
    crowded = f'<svg xmlns="{SVG[1:-1]}"><style>.a{{font-size:12px}}</style><text class="a" x="0" y="9">one</text>'
    first, second = boxes(ET.fromstring(f'{crowded}<text class="a" x="9" y="12">two</text></svg>'))
    assert first[1].meets(second[1])  # power


KINDS = ("several learners", "rare outcome", "number", "many curators", "hostile", "several epsilons", "study", "audit")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("page", "dark"), [("everything", False), *((kind, True) for kind in KINDS)])
def test_each_button_of_a_page_saves_the_file_that_is_written(browser, tmp_path, page, dark):
    from PIL import Image

    document_ = EVERYTHING if page == "everything" else every_kind()[page]
    path = tmp_path / "page.html"
    path.write_text(as_page(document_), encoding="utf-8")
    with browser.open(path, dark=dark) as tab:
        tab.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        files = page_files(document_)
        for file in files[:: len(files) // 20 + 1]:  # an audit has sixty alike
            name = f"{file_name(document_.subject)}-{file.name}"
            place = f'.save[data-name="{name}"]'
            labels = tab.run(f"[...document.querySelectorAll('{place} button')].map((button) => button.ariaLabel)")
            kinds = [label.removeprefix("Save as ").partition(":")[0] for label in labels]
            assert kinds == ["SVG", "PNG"] * bool(file.svg) + ["CSV"] * bool(file.csv)
            for n, kind in enumerate(kinds, 1):
                tab.click(f"{place} button:nth-of-type({n})")
                saved, data = tab.download()
                assert saved == f"{name}.{kind.lower()}"
                if kind == "SVG":
                    assert data == file.svg.encode()
                elif kind == "CSV":
                    assert data == file.csv.encode()
                else:
                    tree = ET.fromstring(file.svg)
                    image = Image.open(io.BytesIO(data)).convert("RGB")
                    assert image.size == (SCALE * int(tree.get("width")), SCALE * int(tree.get("height")))
                    colours = image.getcolors(1 << 24)
                    assert max(colours)[1] == (255, 255, 255)  # in both themes
                    assert len(colours) > 20
        assert tab.errors == []


@pytest.mark.slow
@pytest.mark.browser
def test_a_figure_in_pixels_looks_like_the_one_of_styles_and_percentages(browser, tmp_path):
    """A browser draws both forms: what `plain_svg` resolved is what the style sheet says."""
    from PIL import Image, ImageChops

    blocks = [charts("one"), charts("three", 3)]
    blocks += [
        block for kind in ("rare outcome", "number", "several epsilons") for block in charts_of(every_kind()[kind])
    ]
    drawn = []
    for number, block in enumerate(blocks):
        forms = as_svg(block, "t").replace("light-dark(#fdfcf9,", "light-dark(#ffffff,"), as_picture(block, "t")
        pictures = []
        for form in forms:
            path = tmp_path / f"{number}.html"
            path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>body {{ margin: 0 }}</style>{form}')
            with browser.open(path, width=1400, height=1400) as tab:
                pictures.append(Image.open(io.BytesIO(tab.picture(whole=False))).convert("L"))
        difference = ImageChops.difference(*pictures).point(lambda value: 255 * (value > 60))
        ink = pictures[0].point(lambda value: 255 * (value < 200))
        drawn.append((difference.histogram()[255], ink.histogram()[255]))
    assert all(inked > 1000 for _, inked in drawn), drawn
    assert all(different < 0.02 * inked for different, inked in drawn), drawn  # tenths of a pixel are rounded


@pytest.mark.slow
@pytest.mark.browser
def test_buttons_are_reached_by_keyboard_and_absent_in_print_and_without_script(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(as_page(document(strips())), encoding="utf-8")
    displays = "[...document.querySelectorAll('.save')].map((place) => getComputedStyle(place).display)"
    with browser.open(path) as tab:
        for _ in range(4):  # the table that scrolls, then SVG, PNG and CSV
            tab.press("Tab")
        assert tab.run("document.activeElement.textContent") == "CSV"
        tab.press("Enter")
        assert tab.download() == ("the-subject-a-table-of-strips.csv", as_csv(strips()).encode())
        assert tab.run(displays) == ["flex"]
        tab.show(media="print")
        assert tab.run(displays) == ["none"]
    path.write_text(re.sub(r"<script>.*</script>", "", path.read_text(), flags=re.DOTALL), encoding="utf-8")
    with browser.open(path) as tab:
        assert tab.run(displays) == ["none"]


@pytest.mark.slow
@pytest.mark.browser
def test_a_sorted_table_is_saved_in_its_order(browser, tmp_path):
    table = Table("t", [Column("n", itemgetter(0), number=True)], [Group([(2,), (10,), (1,)])], sortable=True)
    path = tmp_path / "page.html"
    path.write_text(as_page(document(table)), encoding="utf-8")
    with browser.open(path) as tab:
        tab.click("thead button")
        tab.click(".save button")
        assert rows(tab.download()[1].decode()) == [["n"], ["1"], ["2"], ["10"]]


def test_levels_of_a_card_give_a_terminal_no_command():
    assert without_controls("a\x1b[31m\r\x9b2J\u202eb\n\u2003é\n") == "a?[31m??2J?b\n\u2003é\n"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", "'=1+1"),
        (" @a", "' @a"),
        ("-1", "-1"),
        ("-1 to 0", "'-1 to 0"),
        ("a; =b", "a; '=b"),
        ("1,000", "1,000"),
    ],
)
def test_no_text_is_a_formula(text, safe):
    assert without_formula(text) == safe
