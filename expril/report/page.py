"""Documents as web pages: one HTML file that holds every number and loads nothing.

Every string of a document is untrusted and reaches the page through one template, which escapes it. The content
security policy of a page allows no request, and no script but our own (named by its digest), which sorts tables and
saves figures and tables as files. Images are allowed as data URIs: of drawings, and of a figure that becomes a PNG.
"""

import base64
import hashlib

from markupsafe import Markup

from expril.report.document import Document, Drawing, leaves, tables
from expril.report.template import PACKAGE, asset, page_template, style


def as_page(document: Document) -> str:
    """Return a document as one HTML page; the same document gives the same text."""
    parts = {"document": document, "headline": document.headline, "summary": document.summary, "style": style()}
    blocks = [block for section in document.in_medium("page") for block in leaves(section.present)]
    if any(isinstance(block, Drawing) and block.images for block in blocks):
        parts["images"] = True
    if any(table.sortable for table in tables(blocks)):
        script = asset(PACKAGE, "page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        parts |= {"script": Markup(script), "digest": digest}  # noqa: S704 - our own file, no text of a document
    return page_template(PACKAGE, "document.html.j2").render(**parts)
