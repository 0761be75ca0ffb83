"""Numbers as readers see them, and as files hold them."""

import math


def points(value: float) -> str:
    """Percentages and percentage points in a file: two decimals; infinities as "inf", which `float` reads."""
    return f"{value:z.2f}"


def decimal(value: float | None, digits: int = 1) -> str:
    """Return a number with a true minus sign, never "-0.0"; "infinite", and "–" for none and not a number."""
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
    """Return "text ± error", or the text alone where no error is known."""
    return text if error is None or math.isnan(error) else f"{text} ± {decimal(error, digits)}"
