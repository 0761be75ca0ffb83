"""What an additive model adds up, as values: attributes and their bins."""

import math

import msgspec


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
