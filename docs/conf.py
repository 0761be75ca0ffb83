"""How Sphinx makes the site of these pages: `make docs`."""

import sys
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "site"))

project = "ExPriL"
author = "the ExPriL authors"
version = release = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "notebooks", "outside", "reference"]
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
exclude_patterns = ["site/**"]
myst_heading_anchors = 6
myst_links_external_new_tab = False
html_theme = "furo"
html_title = f"ExPriL {version}"
html_static_path = ["site/style.css"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # a page opened from a disk may fetch no other
html_use_index = False
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Tables of text are code without colours."""
    app.add_lexer("csv", TextLexer)
