"""An epsilon so large that it was likely mistyped (100 for 1.00) is confirmed before anything is asked."""

from collections.abc import Iterable
from fractions import Fraction

from protocol.errors import ConfigurationError

LARGE_EPSILON = 100
"""From here on an answer may be e^100 times as likely with a record as without it: nothing is protected."""


class LargeEpsilonWarning(UserWarning):
    """An epsilon that protects nothing; who asks should look at it once more."""


def is_large(epsilon: Fraction) -> bool:
    """Whether an epsilon protects nothing."""
    return epsilon >= LARGE_EPSILON


def large_text(epsilon: Fraction) -> str:
    """What is said of a large epsilon."""
    return f"an epsilon of {LARGE_EPSILON} or more protects nothing, and {epsilon} was asked for"


def require_confirmed(epsilons: Iterable[Fraction], *, how: str) -> None:
    """Refuse large epsilons.

    Args:
        epsilons: that are asked for.
        how: one confirms ("--large-epsilon").

    Raises:
        ConfigurationError: one is large; the text says how to confirm it.
    """
    for epsilon in epsilons:
        if is_large(epsilon):
            raise ConfigurationError(f"{large_text(epsilon)}; write a smaller one, or confirm it with {how}")
