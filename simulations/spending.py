"""What ledgers charge to learners, as a run tells it."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from curator_node.ledger.account import Account
from curator_node.ledger.studies import StudyKey
from protocol.ledger.entries import Entry, EntryKind
from protocol.rationals import parse_amount
from simulations.report.model import BudgetPoint


def spent_by_round(entries: Iterable[Entry], names: Mapping[bytes, str]) -> list[BudgetPoint]:
    """What each learner had spent after each of its queries; the queries of its later studies are counted on.

    Args:
        entries: of one ledger, in order.
        names: of the learners, by public key; others are "".
    """
    total: dict[str, Fraction] = {}
    last: dict[str, int] = {}
    before: dict[tuple[bytes, bytes], int] = {}
    points = []
    for entry in entries:
        if entry.kind is not EntryKind.CHARGE:
            continue
        name = names.get(entry.learner, "")
        total[name] = total.get(name, Fraction(0)) + parse_amount(entry.amount)
        number = before.setdefault((entry.learner, entry.study), last.get(name, 0)) + entry.sequence
        last[name] = max(last.get(name, 0), number)
        points.append(BudgetPoint(name, number, str(total[name])))
    return points


def spent_on(account: Account, learner: bytes, study: bytes) -> Fraction:
    """What a ledger charges to one study."""
    found = account.studies.get(StudyKey(learner, study))
    return Fraction(0) if found is None else found.spent
