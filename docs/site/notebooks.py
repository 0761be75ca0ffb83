"""Notebooks as pages: their text and their code, without what they printed."""

import json

from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

FENCE = "`````"


class NotebookParser(MystParser):
    """Reads a notebook's cells as one text of Markdown."""

    supported = ("notebook",)

    def parse(self, inputstring, document):
        """Parse cells in order; code is shown as Python."""
        cells = json.loads(inputstring)["cells"]
        texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
        super().parse(
            "\n\n".join(f"{FENCE}python\n{text}\n{FENCE}" if code else text for text, code in texts), document
        )


def setup(app: Sphinx):
    """Register the parser."""
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
