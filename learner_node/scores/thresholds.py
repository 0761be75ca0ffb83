"""Rules for decision thresholds on a probability, as users write them. Checking a scenario imports nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated

Threshold = float | str
"""A probability between 0 and 1; "prevalence"; or a share of the records to flag, such as "5%"."""

PREVALENCE = "prevalence"
DEFAULT_THRESHOLDS: tuple[Threshold, ...] = (0.5, PREVALENCE, "20%", "10%", "5%")
"""1/2 (as for accuracy), the expected share of class 1, and three shares of records to flag."""

_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")


@dataclass(frozen=True)
class Rule:
    """One threshold."""

    # "probability" (above `value`), "prevalence" (above the expected share of class 1), or "share" (the `value` of the
    # records with the highest probabilities)
    kind: Literal["probability", "prevalence", "share"]
    value: float  # in (0, 1); of "prevalence" 0
    name: str  # as a table shows it


def read_thresholds(written: Sequence[Threshold]) -> tuple[Rule, ...]:
    """Parse a user's rules. Raises ConfigurationError: one is no threshold, or two are the same."""
    rules = tuple(map(_rule, written))
    if again := first_repeated(rule.name for rule in rules):
        raise ConfigurationError(f"two thresholds are the same, {again}; write it once")
    return rules


def _rule(written: Threshold) -> Rule:
    if written == PREVALENCE:
        return Rule("prevalence", 0.0, "above the prevalence")
    if isinstance(written, str):
        match = _SHARE.fullmatch(written)
        if match and 0 < float(match[1]) < 100:
            return Rule("share", float(match[1]) / 100, f"highest {float(match[1]):g} %")
    elif not isinstance(written, bool) and 0 < written < 1:
        return Rule("probability", float(written), f"above {float(written):g}")
    raise ConfigurationError(
        f"{written!r} is no threshold; write a probability between 0 and 1 (0.2), a share of the records to flag "
        f'("10%"), or "{PREVALENCE}"'
    )
