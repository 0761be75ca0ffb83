"""The browser that tests of pages drive does what they rely on."""

import io

import pytest

from browser import BrowserError

PAGE = """<!DOCTYPE html><html lang="en"><title>A page</title>
<style>body { margin: 0; background: light-dark(#fff, #000) } @media print { p { display: none } }</style>
<meta name="color-scheme" content="light dark"><meta name="viewport" content="width=device-width">
<p>text</p><button onclick="this.textContent = 'pressed'">press</button>
<a download="table.csv" href="data:text/csv,1,2">table</a><div style="height: 2000px"></div>
<script>console.warn("careful", 1); absent()</script></html>"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "a page.html"
    path.write_text(PAGE, encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.browser
def test_a_tab_shows_themes_media_and_widths(browser, page, tmp_path):
    from PIL import Image

    with browser.open(page, width=390, height=700, dark=True) as tab:
        assert tab.run("[innerWidth, innerHeight, document.title]") == [390, 700, "A page"]
        whole = Image.open(io.BytesIO(tab.picture(tmp_path / "whole.png"))).convert("RGB")
        assert whole.width == 390
        assert whole.height > 2000
        assert whole.getpixel((380, 690)) == (0, 0, 0)
        tab.show(media="print")
        assert tab.run("getComputedStyle(document.querySelector('p')).display") == "none"
        shown = Image.open(io.BytesIO(tab.picture(whole=False))).convert("RGB")
        assert shown.size == (1200, 900)
        assert shown.getpixel((1190, 890)) == (255, 255, 255)
        assert tab.pdf(tmp_path / "page.pdf").startswith(b"%PDF-")
    assert (tmp_path / "page.pdf").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.browser
def test_a_tab_hears_errors_and_presses_and_catches_downloads(browser, page):
    with browser.open(page) as tab:
        assert [text.split(":")[0] for text in tab.errors] == ["careful 1", "Uncaught ReferenceError"]
        tab.click("button")
        assert "pressed" in tab.html
        tab.press("Tab")
        tab.press("Enter")
        assert tab.download() == ("table.csv", b"1,2")
        tab.click("a")
        assert tab.download() == ("table.csv", b"1,2")
        with pytest.raises(BrowserError, match="absent is not defined"):
            tab.run("absent()")
        with pytest.raises(BrowserError, match=r"Page\.fly"):
            tab.call("Page.fly")
