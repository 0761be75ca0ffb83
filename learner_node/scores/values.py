"""Scores, shares and errors with bounds: a field's type states them, and a value is checked when it is made.

The scores of a learner and the reports of a simulation are made of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

LEAST_SCORE = -1e6
"""R^2 has no lower bound; a page has."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
ScoreValue = Annotated[float, msgspec.Meta(ge=LEAST_SCORE, le=1)]
ErrorValue = Annotated[float, msgspec.Meta(ge=0, le=-LEAST_SCORE)]


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Refuses a number beyond the bounds of its field's type, alone or in a tuple; NaN lies within none."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        for name, bounds in _bounds(type(self)).items():
            check_bounds(bounds, **{name: getattr(self, name)})


@cache
def _bounds(kind: type) -> dict[str, msgspec.Meta]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: bounds for name, hint in hints.items() if (bounds := next(_metas(hint), None))}


def _metas(hint: Any) -> Iterator[msgspec.Meta]:
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _metas(inner)


def check_bounds(bounds: msgspec.Meta, **values: Any) -> None:
    """Refuse values beyond the bounds."""
    low, high = bounds.ge or 0, bounds.le or 0
    for name, value in values.items():
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not low <= number <= high:
                raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {number!r}")


def check_shares(**shares: float | None) -> None:
    """Refuse numbers outside 0 to 1."""
    check_bounds(get_args(Share)[1], **shares)


def check_interval(value: float | None, low: float | None, high: float | None) -> None:
    """Refuse an interval that does not hold its value; an absent one passes."""
    if not (low or 0.0) <= (value or 0.0) <= (high or 0.0):
        raise ValueError(f"{value} does not lie between {low} and {high}")


def check_distinct(noun: str, names: Iterable[str]) -> None:
    """Refuse a name that is there twice."""
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise ValueError(f"{noun} named twice: {name!r}")
