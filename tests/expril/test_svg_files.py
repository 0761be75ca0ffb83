"""Charts and drawings of a document as SVG files of their own."""

from xml.etree import ElementTree as ET

import pytest

from expril.report.chart import Key, Level, Place, Series, line_chart, make_axis
from expril.report.document import Charts, Document, Drawing, Fold, Grid, Section
from expril.report.files import as_markdown
from expril.report.page import as_page
from expril.report.picture import GAP, MARGIN, PANEL, as_files, as_svg
from page_outline import Outline

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>&\"'</script>"


def charts(count, *, columns=3, name=HOSTILE, file="curves.svg"):
    keys = [Key(0, False, name), Key(1, True, "dashed")]
    series = [Series(key, [Place(x, x, (x - 1, x + 1), f"{x}") for x in (1.0, 2.0, 3.0)]) for key in keys]
    levels = [Level("majority", 2.0, "a level")]
    figures = [
        line_chart(f"{name} {n}", series, make_axis(0, 3, (1.0,)), (1.0,), levels=levels, across="x")
        for n in range(count)
    ]
    return Charts(figures, keys, [("majority", "the rule")], columns=columns, file=file, name=name)


def drawing(**changes):
    svg = '<svg width="100" height="50"><image href="data:image/png;base64,AAAA"/></svg>'
    return Drawing(svg, "maps", **({"size": (100, 50), "images": True, "file": "maps.svg"} | changes))


@pytest.mark.parametrize(("count", "across"), [(2, 2), (3, 3), (7, 3)])
def test_charts_stand_in_rows_under_one_legend(count, across):
    tree = ET.fromstring(as_svg(charts(count)))

    assert int(tree.get("width")) == across * (PANEL + GAP) - GAP + 2 * MARGIN
    places = [(chart.get("x"), chart.get("y")) for chart in tree.iterfind(f"{SVG}g/{SVG}svg")]
    assert len(set(places)) == count
    assert len({y for _, y in places}) == -(-count // across)
    words = [text.text for text in tree.iter(f"{SVG}text")]
    assert words.count("the rule") == words.count(f"{HOSTILE}") - 1 == 1  # the title, and the key
    assert [f"{HOSTILE} {n}" for n in range(count)] == [word for word in words if word and word[:-2] == HOSTILE]


def test_one_chart_is_wide_and_bears_the_title_alone():
    tree = ET.fromstring(as_svg(charts(1)))

    assert int(tree.get("width")) == 2 * PANEL + 2 * MARGIN
    assert f"{HOSTILE} 0" not in [text.text for text in tree.iter(f"{SVG}text")]


def test_a_file_loads_nothing_runs_nothing_and_follows_the_theme():
    for text in (as_svg(charts(2)), as_svg(drawing())):
        tree = ET.fromstring(text)
        assert not list(tree.iter(f"{SVG}script"))
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "url(" not in text
        assert "light-dark(" in text


def test_a_drawing_has_room_for_its_title():
    tree = ET.fromstring(as_svg(drawing()))

    assert int(tree.get("width")) > 480
    assert len(list(tree.iter(f"{SVG}image"))) == 1


def test_all_files_of_a_document_are_made_and_shown_by_its_markdown():
    blocks = [Fold("more", [charts(1)]), Grid([[drawing()]]), charts(1, file=""), drawing(file="")]
    document = Document("kind", "subject", "headline", sections=[Section("all", blocks)])

    assert as_files(document).keys() == {"curves.svg", "maps.svg"}
    text = as_markdown(document)
    assert "](curves.svg)" in text
    assert "![maps](maps.svg)" in text
    assert text.count("![") == 2


def test_a_page_allows_images_only_where_it_draws():
    def page(*blocks):
        return as_page(Document("kind", "subject", "headline", sections=[Section("all", blocks)]))

    assert "img-src data:;" in page(drawing())
    assert "img-src data:;" in page(charts(2))  # a figure is one before it is a PNG
    assert "img-src" not in page()
    assert "<script>" not in page()
    # A drawing of fixed size scrolls on a narrow page.
    assert ("div", "scroll") in [
        (name, attributes.get("class")) for name, attributes in Outline(page(drawing())).elements
    ]
