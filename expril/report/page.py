"""Documents as web pages: one HTML file that holds every number and loads nothing.

Every string of a document is untrusted and reaches the page through one template, which escapes it. The content
security policy of a page allows no request, and no script but our own (named by its digest), which sorts tables and
saves figures and tables as files. Images are allowed as data URIs: of drawings, and of a figure that becomes a PNG.
"""

import base64
import hashlib
import re

from markupsafe import Markup

from expril.report.document import Document
from expril.report.page_files import file_name, page_files
from expril.report.picture import has_picture
from expril.report.plain_svg import SVG
from expril.report.png import MOST, SCALE
from expril.report.template import PACKAGE, asset, page_template, style

_LARGE = re.compile(r"<(h1|h2|h3|article)>.*?</\1>", re.DOTALL)
"""Headings and answers, in large type: there a line does not break between a number and its percent sign."""


def embedded(svg: str) -> Markup:
    """Return an SVG file as a page holds it, whose script makes the file of it again.

    HTML knows the namespace; images are those of the drawing that the page shows.
    """
    markup = svg.replace(f' xmlns="{SVG}"', "").replace("'", "&#39;")
    return Markup(re.sub(r' href="data:[^"]*"', ' href=""', markup).strip())  # noqa: S704 - escaped by its writer


def as_page(document: Document) -> str:
    """Return a document as one HTML page; the same document gives the same text."""
    files = page_files(document)
    parts = {"document": document, "headline": document.headline, "summary": document.summary, "style": style()}
    parts |= {
        "file_of": {id(entry.block): entry for entry in files}.get,
        "embedded": embedded,
        "scale": SCALE,
        "most": MOST,
    }
    parts |= {"prefix": file_name(document.subject)}
    if any(has_picture(entry.block) for entry in files):
        parts["images"] = True
    if files:
        script = asset(PACKAGE, "page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        parts |= {"script": Markup(script), "digest": digest}  # noqa: S704 - our own file, no text of a document
    page = page_template(PACKAGE, "document.html.j2").render(**parts)
    return _LARGE.sub(lambda match: re.sub(r"(?<=\d) %", "\u00a0%", match[0]), page)
