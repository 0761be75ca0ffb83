"""Warnings before a learner asks and spends anything.

An epsilon so large that it was likely mistyped (100 for 1.00) is refused until confirmed. Other doubts are warnings.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from learner_node.study.pooling import Pooling, usual_pool
from protocol.errors import ConfigurationError

LARGE_EPSILON = 100
"""Smallest epsilon that needs confirmation: an answer may be e^100 times as likely with a record as without."""


class StudyWarning(UserWarning):
    """Warns that a study may bring less than its learner expects at its cost."""


def is_large(epsilon: Fraction) -> bool:
    """Whether an epsilon is so large that it protects nothing."""
    return epsilon >= LARGE_EPSILON


def large_text(epsilon: Fraction) -> str:
    """The sentence about a large epsilon."""
    return f"an epsilon of {LARGE_EPSILON} or more protects nothing, and {epsilon} was asked for"


def require_confirmed(epsilons: Iterable[Fraction], *, how: str) -> None:
    """Raise ConfigurationError if an epsilon is large. `how` names the way to confirm it ("--large-epsilon")."""
    for epsilon in epsilons:
        if is_large(epsilon):
            raise ConfigurationError(f"{large_text(epsilon)}; write a smaller one, or confirm it with {how}")


def doubts_about(
    options: Mapping[str, Any] | None,
    *,
    records: int,
    curators: int,
    pooling: Pooling,
) -> list[str]:
    """Sentences that warn about a valid study, from its strategy's options, source size and number of curators."""
    doubts = []
    cells = options.get("cells") if isinstance(options, Mapping) else None
    if isinstance(cells, int) and cells > records:
        doubts.append(
            f"{cells} cells are more than the {records} source records: no more than {records} can be told apart, and "
            "each then stands on one record; leave cells out, and a rule chooses as many as the noise allows"
        )
    if pooling.secure:
        t, u = usual_pool(curators, pooling.colluders, pooling.dropouts)
        if u == 0 and curators > t:
            least = 3 + t
            way = "allow one: dropouts = 1" if curators >= least else f"to allow one takes {least} curators or more"
            doubts.append(
                f"a secure sum of {curators} curators that allows no dropout is lost where one of them falls silent: "
                f'all have paid then, and nothing is learned; {way}, or pool by "sum"'
            )
    return doubts
