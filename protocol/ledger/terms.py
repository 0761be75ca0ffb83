"""What the charges of a ledger mean."""

import json


def ledger_terms(unit: str | None, label: str) -> str:
    """What a ledger's charges mean; a unit column is quoted, so that none can be taken for "each record"."""
    protected = "each record" if unit is None else f"column {json.dumps(unit, ensure_ascii=False)}"
    return f"privacy unit: {protected}; signatures: {json.dumps(label)}"
