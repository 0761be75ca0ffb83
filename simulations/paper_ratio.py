"""The paper's release (Eq. 7), which is not private as claimed: query kind `counts` with release kind `paper_ratio`.

Only simulations, laboratory and audit know it. An ordinary curator does not, whatever its policy says. This module
defines the kind; `simulations.kinds` answers and reads it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import Counts, CountsLimits, CountsRelease, PlannedCounts
from protocol.odds import PrivacyUnit
from protocol.query_kind import Kinds, Question
from protocol.release_kinds import RELEASE_KINDS, ReleaseKind

PAPER_RATIO = "paper_ratio"
_BINARY = RELEASE_KINDS["signed_error"]
_RATIO = ReleaseKind(
    _BINARY.columns,
    wants_hypothesis=None,
    fits=_BINARY.fits,
    label=_BINARY.label,
    words="a ratio of errors, with noise that does not hide a record,",
)
"""The paper's q: clip((U + Laplace) / n, 0, 1) with the number U of errors and the exact, private number n of
records."""


class PrintedCountsLimits(CountsLimits, frozen=True, forbid_unknown_fields=True):
    """Limits of `counts` that may name `paper_ratio`, which is not allowed by default."""

    installed: ClassVar[Mapping[str, ReleaseKind]] = {
        "mass": RELEASE_KINDS["mass"],
        "signed_error": RELEASE_KINDS["signed_error"],
        "error_correct": RELEASE_KINDS["error_correct"],
        PAPER_RATIO: _RATIO,
        **RELEASE_KINDS,
    }


class PrintedCounts(Counts):
    """`counts` with the printed release, whose claimed cost (Eq. 14) is wrong."""

    limits = PrintedCountsLimits

    def private(self, limits: CountsLimits) -> bool:
        """False if the printed release is allowed."""
        return PAPER_RATIO not in limits.release_kinds

    def private_planned(self, planned: PlannedCounts) -> bool:
        """False for the printed release."""
        return planned.release != PAPER_RATIO

    def precision(self, planned: PlannedCounts, unit: PrivacyUnit) -> str:
        """The precision of counts; none is stated for ratios."""
        sentence = super().precision(planned, unit)
        if self.private_planned(planned):
            return sentence
        return f"{sentence.partition(', each number right')[0]}; {sentence.rpartition('; ')[2]}"

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """All released numbers, cell by cell: float64 for ratios, else int64; errors as for `counts`."""
        if self.private_planned(question.turn.planned):
            return super().read_release(data, question)
        release = decode(data, CountsRelease, field="release")
        return np.frombuffer(self._checked(release.ratios, release.counts, question), "<f8")


PRINTED_COUNTS = PrintedCounts()
SIMULATED_KINDS = Kinds(*{**QUERY_KINDS, PRINTED_COUNTS.name: PRINTED_COUNTS}.values())
"""A simulation's kinds. They are here so that a scenario can be read without loading what answers them."""
