"""Release kinds: what is counted in a cell. In each, one record moves one number of its cell by exactly one.

| kind | numbers per cell | replaces in the paper |
|---|---|---|
| mass | n | p of Eq. 1 |
| signed_error | (correct) - (errors) = n - 2U | q of Eq. 3, at half the variance near q = 1/2 |
| error_correct | U, n - U | q and p at once |
| paper_ratio | clip((U + Laplace)/n, 0, 1), Eq. 7: not private as claimed, simulations only | q as printed |
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def _mass(errors: Counts, correct: Counts) -> Counts:
    return (errors + correct)[:, None]


def _signed_error(errors: Counts, correct: Counts) -> Counts:
    return (correct - errors)[:, None]


def _error_correct(errors: Counts, correct: Counts) -> Counts:
    return np.column_stack([errors, correct])


@dataclass(frozen=True)
class ReleaseKind:
    """One way to count.

    Attributes:
        columns: numbers released per cell.
        wants_hypothesis: True where a hypothesis must be given, False where it must not, None where it may.
        exact: (errors (k,), correct (k,)) -> (k, columns) int64; None for `paper_ratio`, whose noise is not
            added to a count of stated sensitivity.
        private: whether the stated cost is the true one; others are refused outside simulations.
    """

    columns: int
    wants_hypothesis: bool | None
    exact: Callable[[Counts, Counts], Counts] | None
    private: bool = True


RELEASE_KINDS: dict[str, ReleaseKind] = {
    "mass": ReleaseKind(1, wants_hypothesis=False, exact=_mass),
    "signed_error": ReleaseKind(1, wants_hypothesis=True, exact=_signed_error),
    "error_correct": ReleaseKind(2, wants_hypothesis=True, exact=_error_correct),
    "paper_ratio": ReleaseKind(1, wants_hypothesis=None, exact=None, private=False),
}
