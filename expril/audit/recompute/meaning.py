"""What a ledger's charges mean: terms that can be read, and plans that are as private as their costs say."""

from expril.audit.recompute.replay import Replayed
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import printable

SIMULATED = "its signatures are those of a simulation: NOT PRIVATE, whatever it charges"


def check_meaning(replayed: Replayed) -> None:
    """Findings on a ledger's terms and plans go to the ledger.

    Args:
        replayed: the ledger; its findings are changed.
    """
    if replayed.unexplained >= 0:
        replayed.findings.add(
            replayed.unexplained,
            f"ledger entry {replayed.unexplained} accepts a plan before a START entry says what its charges mean",
        )
    if replayed.terms and replayed.label not in (LABEL, NOT_PRIVATE_LABEL):
        replayed.findings.add(
            replayed.starts[0],
            f"the ledger's terms are none that this program knows ({printable(replayed.terms, 200)}): nothing says "
            "what its charges mean",
        )
    if replayed.label == NOT_PRIVATE_LABEL:
        return
    for study in replayed.studies.values():
        if study.shape.not_private:
            replayed.findings.add(
                study.index,
                f"ledger entry {study.index} (reserve) accepts query {study.shape.not_private[0]}, which is not as "
                "private as its cost says, under terms that say nothing of a simulation: it has no epsilon",
            )
