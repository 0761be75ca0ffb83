"""What an additive model adds up, as a run's page draws it: a panel for each attribute, a row for each of its bins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from expril.report.chart import Axis, Dot, make_axis

FEW = 12
"""Attributes that are drawn, the strongest first; the others are named."""
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_LEAST_SPAN = 0.2


class PartBin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bin of an attribute.

    Attributes:
        label: a range, a level, "other" or "missing".
        share: of the records that are in it, 0 to 1.
        log_odds: contribution to the log-odds of the positive class, less its mean over the records.
        lower, upper: its 95 % band.
    """

    label: str
    share: float
    log_odds: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse what is no share, no number, or outside its band."""
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie between 0 and 1, not {self.share!r}")
        if not all(map(math.isfinite, (self.log_odds, self.lower, self.upper))):
            raise ValueError("log-odds and their band must be finite")
        if not self.lower <= self.log_odds <= self.upper:
            raise ValueError(f"{self.log_odds} does not lie between {self.lower} and {self.upper}")


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one attribute contributes; numeric bins are in their order."""

    attribute: str
    numeric: bool
    bins: tuple[PartBin, ...]


@dataclass(frozen=True)
class Row:
    """One bin: words, and places in CSS percentages."""

    label: str
    share: str
    value: str
    dot: Dot


@dataclass(frozen=True)
class Panel:
    """One attribute."""

    attribute: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Panels:
    """One learner's model: panels on one axis, whose `zero` is a CSS percentage; `others` are not drawn."""

    learner: str
    index: int
    axis: Axis
    zero: str
    panels: tuple[Panel, ...]
    others: tuple[str, ...]


def panels(index: int, learner: str, parts: Sequence[Part]) -> Panels | None:
    """Place one learner's parts, the strongest first; None where it has none."""
    if not any(part.bins for part in parts):
        return None
    shown = parts[:FEW]
    ends = [end for part in shown for one in part.bins for end in (one.lower, one.upper)]
    low, high = min(*ends, -_LEAST_SPAN), max(*ends, _LEAST_SPAN)
    axis = make_axis(low, high, _STEPS)
    return Panels(
        learner=learner,
        index=index,
        axis=axis,
        zero=axis.at(0.0),
        panels=tuple(Panel(part.attribute, tuple(_row(one, axis) for one in part.bins)) for part in shown),
        others=tuple(part.attribute for part in parts[FEW:]),
    )


def _row(one: PartBin, axis: Axis) -> Row:
    told = f"{_signed(one.log_odds)} ({_signed(one.lower)} to {_signed(one.upper)})"
    dot = axis.dot(one.log_odds, (one.lower, one.upper), f"log-odds {told}, odds times {math.exp(one.log_odds):.2f}")
    share = f"{100 * one.share:.0f} %" if one.share >= 0.005 else "< 1 %"
    return Row(one.label, share, _signed(one.log_odds), dot)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
