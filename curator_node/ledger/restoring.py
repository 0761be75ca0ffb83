"""What lost branches spent, by the sum of a chain."""

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from curator_node.ledger.branches import last_common, lost_amounts, precedes
from curator_node.ledger.studies import ZERO, Restored
from protocol.ledger.entries import Position, Suspect
from protocol.rationals import parse_amount

if TYPE_CHECKING:
    from curator_node.ledger.account import Account


def restored(account: "Account") -> list[Restored]:
    """What each suspect's branch spent and this chain does not show, in order, each beyond those before it."""
    found = []
    seen = [suspect for suspect in account.acknowledged if suspect.position]
    for suspect in sorted(account.suspects, key=lambda item: item.position.index if item.position else -1):
        found.append(_restored(account, suspect, seen))
        if suspect.position:
            seen.append(suspect)
    return found


def _restored(account: "Account", suspect: Suspect, seen: list[Suspect]) -> Restored:
    position = suspect.position
    if position is None:
        return Restored(suspect, ZERO, {})
    # A receipt says what its learner had spent over all keys, so another key's receipt is one of the same learner.
    keys = account.keys_of(suspect.learner)
    before = [
        (other.position, parse_amount(other.spent) if other.learner in keys else ZERO)
        for other in seen
        if other.position
    ]
    own_at = account.history_of(suspect.learner)
    spent = parse_amount(suspect.spent)
    total, own = lost_amounts(position, spent, account.hashes, account.totals, account.starts, own_at, before)
    by_learner = {suspect.learner: own}
    if not any(precedes(other, position) for other, _ in before):
        for learner, cost in _answered_twice(account, position):
            by_learner[learner] = by_learner.get(learner, ZERO) + cost
            total += cost
    return Restored(suspect, total, by_learner)


def _answered_twice(account: "Account", position: Position) -> Iterator[tuple[bytes, Fraction]]:
    """(learner, cost) of charges before the fork that were answered after it: perhaps on both branches."""
    common = last_common(position, account.hashes, account.starts)
    if common is None:
        return
    for answer in account.answers.values():
        if answer.owed.charged and answer.owed.index <= common < answer.index:
            yield answer.owed.key.learner, answer.owed.amount
