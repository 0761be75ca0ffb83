"""Numbers as readers see them, and as files hold them."""

import math
from datetime import datetime


def points(value: float) -> str:
    """Return percentages or points for a file: with two decimals, infinities as "inf", which `float` reads."""
    return f"{value:z.2f}"


def decimal(value: float | None, digits: int = 1) -> str:
    """Return a number with a true minus sign, never "-0.0"; "infinite" for an infinity, "–" for None and NaN."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign; a zero after rounding has none."""
    text = decimal(value, digits)
    return f"+{text}" if value > 0 and float(f"{value:.{digits}f}") else text


def with_error(text: str, error: float | None, digits: int = 1) -> str:
    """Return "text ± error", or only the text if the error is None."""
    return text if error is None or math.isnan(error) else f"{text} ± {decimal(error, digits)}"


def count(many: int, noun: str) -> str:
    """Return "1 page" or "3 pages"."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"


def moment(created: str) -> str:
    """Return an ISO 8601 time as people write it; any other text is left unchanged."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    if len(created) <= len("2026-05-09"):
        return f"{when:%Y-%m-%d}"
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".rstrip()
