"""What lost branches spent, by the sum of a chain.

For each lost branch that is proven, a chain enters once more what it does not show: the branch's total less that at the
last entry in common, and the whole charge of every unit that was running there (`units`). That may be more than was
lost: the last entry in common may lie before the fork, and a unit may have ended without another answer.

Two positions are taken for one branch only where a hash in what is known of one proves that it holds the other.
"""

from fractions import Fraction
from typing import TYPE_CHECKING

from curator_node.ledger.branches import Lost, holds
from curator_node.ledger.studies import ZERO, Restored
from protocol.messages import NO_DIGEST, NOBODY
from protocol.rationals import GRID, parse_amount, shorten, total_of

if TYPE_CHECKING:
    from curator_node.ledger.account import Account


def restored(account: "Account") -> tuple[list[Restored], list[list[Lost]]]:
    """What each suspect's branch spent and this chain does not show, each beyond those before it; and all branches.

    A branch is a list of what was added to it, in order of position: all that its newest proves was entered.
    """
    branches = _Branches(account)
    return [branches.add(lost) for lost in sorted(account.suspects, key=_place)], branches.known


def known(account: "Account", lost: Lost) -> bool:
    """Whether a lost branch is no news.

    It is none where the chain holds what a mark names; where the same mark or receipt was entered; and where what the
    steward has seen is proven to hold its position, and tells as much of what each learner had spent there. It is news
    where a receipt is of an entry that the chain holds: then the chain lacks its answer. So it is where the steward has
    seen another answer to the same request.
    """
    if any(lost.is_same(each) for each in (*account.suspects, *account.acknowledged)):
        return True
    if lost.position is None or any(lost.contradicts(each) for each in account.acknowledged):
        return False
    if holds(lost.position, account.hashes):
        return lost.suspect.learner == NOBODY
    seen = [each for each in account.acknowledged if each.receipt == NO_DIGEST and each.holds(lost.position)]
    learners = lost.learners(account.keys_of) if seen else []
    return bool(seen) and all(lost.own(keys) <= max(each.own(keys) for each in seen) for keys in learners)


class _Branches:
    """Lost branches, told apart by proof.

    Args:
        account: the sum of the chain that lacks them.

    Attributes:
        known: those that the steward went on from, and what was added since.
    """

    def __init__(self, account: "Account") -> None:
        self._account = account
        self.known = [list(branch) for branch in account.branches]

    def add(self, lost: Lost) -> Restored:
        """What this proves beyond all that was added before."""
        if lost.position is None:
            return Restored(lost.suspect, ZERO, {})
        account, common = self._account, lost.last_common(self._account.hashes)
        branch = next((branch for branch in self.known if _is_of(lost, branch)), None)
        totals = [ZERO if common is None else account.totals[common]]
        again: dict[bytes, Fraction] = {}
        if branch is None:
            branch = []
            self.known.append(branch)
            for unit in account.units.running_at(common) if common is not None else ():
                again[unit.study.learner] = again.get(unit.study.learner, ZERO) + unit.amount
        totals += [parse_amount(each.position.total) for each in branch if each.position]
        by_learner = dict(again)
        for keys in lost.learners(account.keys_of):
            before = [ZERO if common is None else account.spent_at(keys[0], common)]
            before += [each.own(keys) for each in branch]
            by_learner[keys[0]] = by_learner.get(keys[0], ZERO) + max(ZERO, lost.own(keys) - max(before))
        beyond = max(ZERO, parse_amount(lost.position.total) - max(totals))
        branch.append(lost)
        branch.sort(key=_place)
        running = total_of(again.values())
        shares = {learner: _up(own) for learner, own in by_learner.items()}
        return Restored(lost.suspect, _up(beyond + running), shares, _up(running))


def _is_of(lost: Lost, branch: list[Lost]) -> bool:
    """Whether a proof puts this on a branch: it goes on from the newest that is known of it, or lies before that."""
    newest = branch[-1].position
    if lost.position is None or newest is None or any(lost.contradicts(each) for each in branch):
        return False
    return lost.holds(newest) or any(each.holds(lost.position) for each in branch)


def _up(amount: Fraction) -> Fraction:
    """Rounded up where it is long: nobody's scales make an amount that cannot be entered."""
    return shorten(amount, longest=GRID)


def _place(lost: Lost) -> int:
    return lost.position.index if lost.position else -1
