"""Numbers as readers see them, and as files hold them."""

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

_MILLION, _MOST = 1e6, 1e12
_TINY = -4
"""Power of ten below which a number is written with a power of ten."""
_ROUNDED_FROM = 1e4
"""Magnitude from which whole numbers are rounded."""
_MOST_PLACES, _COARSE, _MOST_MOVED = 17, 1000, 0.2
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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


def plain_number(value: float, digits: int = 3) -> str:
    """Return a number of any size in a few significant digits: "0.0324", "12.3", "1,230", "1.23 M", "2.1×10⁻⁶".

    `digits` is at least 1. Whole numbers below ten thousand keep all their digits. None of the forms loses the sign.
    """
    if not math.isfinite(value):
        return decimal(value)
    if value == 0:
        return "0"
    magnitude = abs(value)
    power = math.floor(math.log10(float(f"{magnitude:.{digits - 1}e}")))
    if magnitude >= _MOST or power < _TINY:
        return f"{_trimmed(value / 10.0**power, digits - 1)}×10{str(power).translate(_SUPERSCRIPTS)}"
    if power >= math.log10(_MILLION):
        return f"{_trimmed(value / _MILLION, max(0, digits - 1 - (power - 6)))} M"
    rounded = round(value, digits - 1 - power) if magnitude >= _ROUNDED_FROM else value
    return _trimmed(rounded, max(0, digits - 1 - power))


def _trimmed(value: float, digits: int) -> str:
    """A number with thousands apart and so many decimals; without zeros at its end if these do not come of rounding."""
    text = f"{value:z,.{digits}f}"
    exact = "." in text and math.isclose(float(text.replace(",", "")), value, rel_tol=1e-12)
    return (text.rstrip("0").rstrip(".") if exact else text).replace("-", "−")


def axis_texts(values: Sequence[float]) -> list[str]:
    """Return the texts of an axis' evenly spaced values, all in one form with as many decimals as their step needs.

    Values from a million are in millions ("1.2 M"), thousands are set apart ("12,000"), and steps below a
    ten-thousandth are in powers of ten ("2×10⁻⁵"). Zero is "0" where others have a unit or a power.
    """
    step = min((abs(after - before) for before, after in pairwise(values)), default=0.0)
    step = step or abs(values[0]) or 1.0
    largest = max(map(abs, values))
    power = math.floor(math.log10(step) + 1e-9)
    if power < _TINY or largest >= _MOST:
        place = max(math.floor(math.log10(largest) + 1e-9), power)
        return [
            _with_unit(value / 10.0**place, place - power, f"×10{str(place).translate(_SUPERSCRIPTS)}")
            for value in values
        ]
    if largest >= _MILLION:
        return [_with_unit(value / _MILLION, max(0, 6 - power), " M") for value in values]
    return [f"{value:z,.{max(0, -power)}f}".replace("-", "−") for value in values]


def _with_unit(value: float, digits: int, unit: str) -> str:
    text = f"{value:z,.{digits}f}".replace("-", "−")
    return f"{text}{unit}" if float(f"{value:.{digits}f}") else "0"


def readable_edges(values: Sequence[float], digits: int = 3) -> list[str]:
    """Return rising numbers rounded to what is readable, all with the same number of decimals.

    The largest gets `digits` significant digits. There are more decimals where rounding would move a number by more
    than a fifth of its distance to the next one, and fewer where all end in zeros. From a thousand on, a number is
    rounded to `digits` significant digits, too, under the same condition.
    """
    largest = max(map(abs, values), default=0.0)
    places = 0 if largest == 0 else max(0, digits - 1 - math.floor(math.log10(largest)))
    while places < _MOST_PLACES and not _told_apart(values, [round(value, places) for value in values]):
        places += 1
    rounded = [round(value, places) for value in values]
    coarse = [
        value if abs(value) < _COARSE else round(value, digits - 1 - math.floor(math.log10(abs(value))))
        for value in rounded
    ]
    rounded = coarse if _told_apart(values, coarse) else rounded
    while places and all(f"{value:.{places}f}".endswith("0") for value in rounded):
        places -= 1
    return [f"{value:z,.{places}f}".replace("-", "−") for value in rounded]


def _told_apart(values: Sequence[float], rounded: Sequence[float]) -> bool:
    """Whether rounding moves each number by at most a fifth of its distance to the next one on either side."""
    gaps = [math.inf, *(after - before for before, after in pairwise(values)), math.inf]
    near = zip(values, rounded, gaps, gaps[1:], strict=False)
    return all(abs(value - other) <= _MOST_MOVED * min(below, above) for value, other, below, above in near)
