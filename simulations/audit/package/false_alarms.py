"""How often the game accuses correct mechanisms, as it was measured and stored with the source."""

from pathlib import Path
from typing import Any

import msgspec

STORED = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
"""Of a checkout; an installed wheel has no measurements."""
COMMAND = "python -m benchmarks audit_game"


def measured_false_alarms(stored: Path = STORED) -> dict[str, Any]:
    """The measured rates with their command; where none are stored, how to measure them.

    Args:
        stored: folder of results.
    """
    rows = []
    for path in sorted(stored.glob("audit_*.json")):
        try:
            told = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
        except (OSError, msgspec.DecodeError):
            continue
        rows += [
            {name: row[name] for name in ("name", "value", "unit", "target", "note", "command") if name in row}
            for row in told
            if "false alarm" in str(row.get("name", "")).lower() or "falsely" in str(row.get("name", "")).lower()
        ]
    return {"measured": rows, "measure_again": COMMAND}
