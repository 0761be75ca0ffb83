"""What the numbers of a report must be: their fields' types say it, and a value is checked when it is made, too."""

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
    return {name: found for name, hint in hints.items() if (found := next(_metas(hint), None))}


def _metas(hint: Any) -> Iterator[msgspec.Meta]:
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _metas(inner)


def check_bounds(bounds: msgspec.Meta, **values: Any) -> None:
    """Refuse what lies beyond them."""
    low, high = bounds.ge or 0, bounds.le or 0
    for name, value in values.items():
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None and not low <= one <= high:
                raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {one!r}")


def check_shares(**shares: float | None) -> None:
    """Refuse what is no share."""
    check_bounds(get_args(Share)[1], **shares)


def check_interval(value: float | None, low: float | None, high: float | None) -> None:
    """Refuse an interval that does not hold its value; one that is not there is none."""
    if not (low or 0.0) <= (value or 0.0) <= (high or 0.0):
        raise ValueError(f"{value} does not lie between {low} and {high}")


def check_distinct(what: str, names: Iterable[str]) -> None:
    """Refuse a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} named twice: {name!r}")
        seen.add(name)
