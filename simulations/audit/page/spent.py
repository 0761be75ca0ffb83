"""What was recomputed from transcripts, receipts and ledgers, as the page shows it."""

from typing import NamedTuple


class SpentRow(NamedTuple):
    """One curator, or one learner at it.

    Attributes:
        who: of whom.
        unit: privacy unit.
        claimed: epsilon that the curator signed, exact.
        recomputed: epsilon from the entries alone, exact.
        verdict: one sentence.
        wrong: whether something contradicts.
    """

    who: str
    unit: str
    claimed: str
    recomputed: str
    verdict: str
    wrong: bool
