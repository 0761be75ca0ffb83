"""Every kind of page is readable on a phone, in the dark, on paper, by keyboard and by a screen reader.

The fast tests read the pages' elements. The slow ones look at the pages in a browser, pages of small real runs among
them; `make pages` runs them all.
"""

import itertools
import re
from functools import cache
from html.parser import HTMLParser

import pytest

import axe
from every_page import PUBLISHED, RUNS, run_page, written_pages
from expril.report.page import style
from trees import ROOT

KINDS = (
    "several learners",
    "rare outcome",
    "number",
    "many curators",
    "failed",
    "hostile",
    "several epsilons",
    "study",
    "study of a number",
    "analyses",
    "audit",
    "audit that fails",
    "checklist",
)


@cache
def written():
    return written_pages()


@pytest.fixture(scope="module", autouse=True)
def _written():
    """All pages, made once for the module."""
    written()


class Node:
    """An element: its tag, attributes, parent, and text within."""

    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children, self.text = tag, attributes, parent, [], ""

    def get(self, name, default=None):
        return self.attributes.get(name, default)

    def all(self, *tags):
        for child in self.children:
            if child.tag in tags:
                yield child
            yield from child.all(*tags)

    @property
    def hidden(self):
        return self.get("aria-hidden") == "true" or (self.parent is not None and self.parent.hidden)

    @property
    def words(self):
        return " ".join([self.text, *(child.words for child in self.children)]).strip()


class Tree(HTMLParser):
    """The elements of a page."""

    VOID = frozenset({"meta", "img", "br", "link", "input", "hr", "wbr"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = self.place = Node("", {}, None)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs), self.place)
        self.place.children.append(node)
        if tag not in self.VOID:
            self.place = node

    def handle_startendtag(self, tag, attrs):
        self.place.children.append(Node(tag, dict(attrs), self.place))

    def handle_endtag(self, tag):
        self.place = self.place.parent

    def handle_data(self, data):
        self.place.text += data


@cache
def tree(name):
    return Tree(written()[name]).root


def test_every_kind_is_here():
    assert tuple(written()) == KINDS


@pytest.mark.parametrize("name", KINDS)
def test_a_page_says_its_language_title_parts_and_headings(name):
    page = tree(name)
    (html,) = page.all("html")
    assert html.get("lang") == "en"
    (head,) = page.all("head")
    (title,) = head.all("title")
    assert len(title.words) > 5 or name == "hostile"
    metas = {node.get("name"): node.get("content") for node in page.all("meta")}
    assert metas["viewport"] == "width=device-width, initial-scale=1"
    assert metas["color-scheme"] == "light dark"
    assert len(list(page.all("main"))) == 1
    levels = [int(node.tag[1]) for node in page.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    for before, after in itertools.pairwise(levels):
        assert after <= before + 1


@pytest.mark.parametrize("name", KINDS)
def test_tables_have_captions_scopes_and_a_group_that_scrolls(name):
    page = tree(name)
    for table in page.all("table"):
        (caption,) = table.all("caption")
        assert caption.words
        assert table.parent.get("tabindex") == "0"
        assert table.parent.get("role") == "group"
        assert table.parent.get("aria-label") == caption.words
        (head,) = table.all("thead")
        assert all(heading.get("scope") == "col" for heading in head.all("th"))
        for body in table.all("tbody"):
            assert all(heading.get("scope") in ("row", "rowgroup") for heading in body.all("th"))
        if "stacked" in table.get("class", ""):
            roles = {"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell"}
            for part in (table, *table.all("thead", "tbody", "tr", "td")):
                assert part.get("role") == roles[part.tag]
            assert {heading.get("role") for heading in table.all("th")} <= {"columnheader", "rowheader"}


@pytest.mark.parametrize("name", KINDS)
def test_every_drawing_is_named_or_is_said_elsewhere(name):
    for drawing in tree(name).all("svg"):
        if any(parent.tag in ("svg", "template") for parent in ancestors(drawing)):
            continue
        inside = any(parent.get("role") == "img" and parent.get("aria-label") for parent in ancestors(drawing))
        assert drawing.hidden or inside or (drawing.get("role") == "img" and drawing.get("aria-label")), (
            drawing.attributes
        )
        if drawing.hidden and drawing.get("class") == "cell":
            row = next(parent for parent in ancestors(drawing) if parent.tag in ("tr", "p"))
            assert row.words


def ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


@pytest.mark.parametrize("name", KINDS)
def test_nothing_but_its_own_order_decides_where_a_key_leads(name):
    page = tree(name)
    nodes = list(page.all("div", "pre", "button", "a", "summary", "section", "table", "th", "td", "svg", "symbol"))
    assert {node.get("tabindex") for node in nodes} <= {None, "0"}
    names = [node.get("id") for node in nodes if node.get("id")]
    assert len(names) == len(set(names))
    for fold in page.all("details"):
        assert fold.children[0].tag == "summary"
        assert fold.children[0].words


@pytest.mark.parametrize("name", KINDS)
def test_a_tone_is_told_by_a_mark_and_in_words(name):
    tones = {"within", "above", "below", "apart", "best", "good", "bad", "warn"}
    for span in tree(name).all("span"):
        if span.get("class") in tones:
            mark = span.children[0]
            assert mark.get("aria-hidden") == "true"
            assert mark.words
            assert span.words != mark.words


# In a browser

SIZES = (320, 390, 768, 1200)
PAPER = 718
"""Width of an A4 sheet between Chromium's margins, in CSS pixels."""
OPEN_FOLDS = "for (const fold of document.querySelectorAll('details')) fold.open = true"


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):
    """Name -> path of its page; a run's is made once."""
    base = tmp_path_factory.mktemp("pages")

    @cache
    def path(name):
        if name.startswith("docs/"):
            page = ROOT / name
            if str(style()) not in page.read_text(encoding="utf-8"):
                pytest.skip(f"{name} has an earlier style sheet; write it anew (docs/development.md)")
            return page
        kind, _, rest = name.partition(": ")
        if kind == "run":
            return run_page(base, rest)
        page = base / f"{name.replace(' ', '-')}.html"
        page.write_text(written()[name], encoding="utf-8")
        return page

    return path


NAMES = (*KINDS, *(f"run: {name}" for name in RUNS), *(page.relative_to(ROOT).as_posix() for page in PUBLISHED))


def in_browser(test):
    test = pytest.mark.filterwarnings("ignore::UserWarning")(test)
    return pytest.mark.slow(pytest.mark.browser(pytest.mark.parametrize("name", NAMES)(test)))


@in_browser
def test_axe_finds_nothing(browser, page_of, name):
    script = axe.read_axe()
    if script is None:
        pytest.skip("install axe-core: python tests/support/axe.py (it needs npm)")
    for width, dark in ((390, False), (390, True), (1200, False), (1200, True)):
        with browser.open(page_of(name), width=width, dark=dark) as tab:
            tab.run(OPEN_FOLDS)
            assert axe.findings(tab, script) == [], (width, dark)
            assert tab.errors == []


CONTRAST = """(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const ratio = (text) => {
    const at = light(text);
    return (Math.max(at, paper) + 0.05) / (Math.min(at, paper) + 0.05);
  };
  const weak = new Set();
  for (const node of document.querySelectorAll("svg text")) {
    const fill = getComputedStyle(node).fill;
    if (ratio(fill) < 4.5) weak.add(`text ${node.getAttribute("class") ?? ""} ${fill}`);
  }
  for (const node of document.querySelectorAll(".full, .block:not(.track), .event")) {
    const fill = getComputedStyle(node).fill;
    if (ratio(fill) < 3) weak.add(`${node.getAttribute("class")} ${fill}`);
  }
  const lines = ".hollow, .bar, .mean, .dashes, .solid, .unprotected, .released, .outlined, .dashed, .diagonal";
  for (const node of document.querySelectorAll(lines)) {
    const { stroke } = getComputedStyle(node);
    if (stroke !== "none" && ratio(stroke) < 3) weak.add(`${node.getAttribute("class")} ${stroke}`);
  }
  return [...weak];
})()"""
"""What of the drawings, which axe does not judge, has too little contrast with the paper (WCAG 1.4.3 and 1.4.11)."""


@in_browser
def test_drawings_have_contrast_in_both_themes(browser, page_of, name):
    with browser.open(page_of(name)) as tab:
        for dark in (False, True):
            tab.show(dark=dark)
            assert tab.run(CONTRAST) == []


SQUEEZED = """(() => {
  const found = [], canvas = document.createElement("canvas").getContext("2d");
  const visible = (node) => node.getClientRects().length && !node.closest(".sr") && !node.closest("svg");
  for (const cell of document.querySelectorAll("th, td, p, dt, dd, li, h1, h2, h3, summary, figcaption")) {
    if (!visible(cell) || getComputedStyle(cell).clipPath !== "none" || cell.querySelector("p, li, table")) continue;
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), lines = new Set();
    const style = getComputedStyle(cell);
    const room = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    for (let node; (node = walker.nextNode()); ) {
      if (!visible(node.parentElement)) continue;
      canvas.font = getComputedStyle(node.parentElement).font;
      for (const { 0: word, index } of node.data.matchAll(/[^\\s\\-–\\/<>()"']+/gu)) {
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const boxes = [...range.getClientRects()];
        for (const box of boxes) lines.add(Math.round(box.bottom / 6));
        const rows = new Set(boxes.map((box) => Math.round(box.top)));
        if (rows.size > 1 && canvas.measureText(word).width < Math.min(room, 130)) found.push(`broken: ${word}`);
      }
    }
    const text = cell.textContent.replace(/\\s+/g, " ").trim();
    if (lines.size > 3 && text.length / lines.size < 7) found.push(`${lines.size} lines: ${text.slice(0, 60)}`);
  }
  return found;
})()"""
"""Words that are broken although they fit, and texts of several lines with less than seven letters in a line."""
SIDEWAYS = """[...document.querySelectorAll("body *")].filter((node) => !node.closest("svg")
  && node.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !node.closest(".wide, .scroll, pre")).map((node) => node.outerHTML.slice(0, 120))"""


@in_browser
@pytest.mark.parametrize("width", SIZES)
def test_no_text_is_squeezed_and_no_page_scrolls_sideways(browser, page_of, name, width):
    with browser.open(page_of(name), width=width) as tab:
        tab.run(OPEN_FOLDS)
        assert tab.run("innerWidth") == width, tab.run(SIDEWAYS)[:3]
        assert tab.run("document.documentElement.scrollWidth") == width, tab.run(SIDEWAYS)[:3]
        assert tab.run(SQUEEZED) == []


DRAWN_TEXTS = """(() => {
  const found = [];
  for (const drawing of document.querySelectorAll("svg:not(svg svg)")) {
    const texts = [...drawing.querySelectorAll("text")].filter((text) => text.getClientRects().length
      && getComputedStyle(text).visibility !== "hidden" && text.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, n) => {
      const scale = drawing.viewBox.baseVal && drawing.viewBox.baseVal.width
        ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 11 && !drawing.closest(".scroll")) found.push(`${size} px: ${text.textContent}`);
      for (let m = 0; m < n; m++) {
        const across = Math.min(boxes[n].right, boxes[m].right) - Math.max(boxes[n].left, boxes[m].left);
        const down = Math.min(boxes[n].bottom, boxes[m].bottom) - Math.max(boxes[n].top, boxes[m].top);
        if (across > 1 && down > 4) found.push(`${text.textContent} on ${texts[m].textContent}`);
      }
    });
  }
  return found;
})()"""
"""Texts of drawings that are smaller than 11 pixels, or lie upon each other (a box is taller than its letters)."""


@in_browser
@pytest.mark.parametrize("width", SIZES)
def test_texts_of_drawings_are_large_enough_and_apart(browser, page_of, name, width):
    with browser.open(page_of(name), width=width) as tab:
        assert tab.run(DRAWN_TEXTS) == []


FOCUS = """(() => { const node = document.activeElement, style = getComputedStyle(node);
  return [node.tagName, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    node.getBoundingClientRect().width > 0]; })()"""


@in_browser
def test_keys_reach_everything_that_acts_and_show_where_they_are(browser, page_of, name):
    with browser.open(page_of(name)) as tab:
        expected = tab.run(
            "[...document.querySelectorAll('[tabindex=\"0\"], summary, button, a[href]')]"
            ".filter((node) => node.checkVisibility()).length"
        )
        seen = 0
        for _ in range(min(expected, 60)):
            tab.press("Tab")
            tag, visible, drawn = tab.run(FOCUS)
            assert tag != "BODY"
            assert visible, tab.run("document.activeElement.outerHTML.slice(0, 120)")
            assert drawn
            seen += 1
        assert seen == min(expected, 60)
        if tab.run("document.querySelector('details:not([open]) > summary') !== null"):
            tab.run("document.querySelector('details:not([open]) > summary').focus()")
            tab.press("Enter")
            assert tab.run("document.activeElement.parentElement.open")
        if tab.run("document.querySelector('.sortable th button') !== null"):
            tab.run("document.querySelector('.sortable').closest('details')?.setAttribute('open', '')")
            tab.run("document.querySelector('.sortable th button').focus()")
            for key, order in (("Enter", "ascending"), (" ", "descending")):
                tab.press(key)
                assert tab.run("document.activeElement.parentElement.ariaSort") == order
            assert tab.run("document.activeElement.tagName") == "BUTTON"


CUT = """[...document.querySelectorAll(".wide, .scroll, pre")].filter((node) => node.scrollWidth > node.clientWidth + 1)
  .map((node) => node.textContent.replace(/\\s+/g, " ").slice(0, 60))"""
PRINTED_BUTTONS = """[...document.querySelectorAll("button")]
  .filter((node) => !node.closest("th") && node.checkVisibility())
  .map((node) => node.textContent)"""


@in_browser
def test_print_is_light_whole_and_open(browser, page_of, name):
    with browser.open(page_of(name), width=PAPER, dark=True, media="print") as tab:
        assert tab.run("getComputedStyle(document.documentElement).colorScheme") == "light"
        assert tab.run("getComputedStyle(document.querySelector('h1')).color") == "rgb(26, 30, 35)"
        assert tab.run("document.documentElement.scrollWidth") == PAPER
        assert tab.run(CUT) == []
        assert tab.run(PRINTED_BUTTONS) == []
        folded = "[...document.querySelectorAll('details > :nth-child(2)')].filter((node) => !node.checkVisibility())"
        assert tab.run(f"{folded}.length") == 0
        assert set(tab.run("[...document.querySelectorAll('thead')].map((h) => getComputedStyle(h).display)")) <= {
            "table-header-group"
        }
        pdf = tab.pdf()
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 1
