"""What the charges of a ledger mean."""

import json
from functools import lru_cache

_MARK, _UNIT, _EACH, _COLUMN = "; signatures: ", "privacy unit: ", "each record", "column "


def ledger_terms(unit: str | None, label: str) -> str:
    """What a ledger's charges mean; a unit column is quoted, so that none can be taken for "each record"."""
    protected = _EACH if unit is None else f"{_COLUMN}{json.dumps(unit, ensure_ascii=False)}"
    return f"{_UNIT}{protected}{_MARK}{json.dumps(label)}"


@lru_cache(maxsize=256)
def read_terms(terms: str) -> tuple[str | None, str] | None:
    """Inverse of `ledger_terms`: (unit column or None, label); None where these are no terms."""
    before, _, quoted = terms.rpartition(_MARK)
    unit_text = before.removeprefix(_UNIT)
    try:
        label = json.loads(quoted)
        unit = None if unit_text == _EACH else json.loads(unit_text.removeprefix(_COLUMN))
        is_exact = isinstance(label, str) and isinstance(unit, str | None) and ledger_terms(unit, label) == terms
    except (ValueError, RecursionError):
        return None
    return (unit, label) if is_exact else None
