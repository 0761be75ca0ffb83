"""A test suite for implementations of the ExPriL protocol; it imports none of them. See README.md."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
"""The folder of the vectors."""


def vectors() -> dict[str, dict[str, Any]]:
    """The vectors by the name of their file, without its ending."""
    paths = sorted(VECTORS.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths if path.stem != "schema"}
