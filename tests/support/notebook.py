"""Runs a notebook's code cells in order in one namespace, with plain Python: no magics, no kernel.

`python tests/support/notebook.py PATH`
"""

import json
import sys
from pathlib import Path


def read(path):
    """The notebook, as its file has it."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def code_cells(path):
    """Its code cells, in order."""
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def run(path):
    """The namespace that its code cells leave."""
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path)):
        code = compile("".join(cell["source"]), f"{path}, code cell {number}", "exec")
        exec(code, namespace)
    return namespace


if __name__ == "__main__":
    run(sys.argv[1])
