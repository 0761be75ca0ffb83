"""How often whole audits accuse correct mechanisms, as it was measured and stored with the source."""

from pathlib import Path
from typing import Any

import msgspec

STORED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "audit_game.json"
"""Of a checkout; an installed wheel has no measurements."""
COMMAND = "python -m benchmarks audit_game"
ROW = "audits of eleven correct stand-ins flagged"
KEPT = ("name", "value", "unit", "target", "met", "note", "command", "versions")


def measured_false_alarms(stored: Path = STORED) -> dict[str, Any]:
    """The measured rate with its command; nothing but the command where none is stored.

    Args:
        stored: results of the benchmark.
    """
    try:
        told = msgspec.json.decode(stored.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.DecodeError):
        told = []
    rows = [{name: row[name] for name in KEPT if name in row} for row in told if str(row.get("name")).startswith(ROW)]
    return {"measured": rows, "measure_again": COMMAND}
