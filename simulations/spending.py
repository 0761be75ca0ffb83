"""What ledgers charge to learners, as a run tells it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from curator_node.ledger.account import Account
from curator_node.ledger.studies import StudyKey
from learner_node.study.study import Study
from protocol.ledger.entries import Entry, EntryKind
from protocol.rationals import parse_amount, parse_rational
from protocol.run_index import FIT, VALIDATION
from simulations.federation import Outcome, Repeat
from simulations.report.budget import STUDIES, BudgetPoint

ALL = ""
"""In the place of a study's name: all of a learner's together."""
ZERO = Fraction(0)


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


@dataclass(frozen=True)
class Cost:
    """What a learner's study, or all of them, cost in a repeat, or at most over several; exact.

    Attributes:
        claimed: what its plan announced.
        spent: the most that any one ledger charged.
    """

    claimed: Fraction = ZERO
    spent: Fraction = ZERO

    def at_most(self, other: "Cost") -> "Cost":
        """The larger of each."""
        return Cost(max(self.claimed, other.claimed), max(self.spent, other.spent))


def costs_of(outcome: Outcome, repeat: Repeat) -> dict[str, Cost]:
    """What each of a learner's studies cost in a repeat, and under `ALL` what all of them did at one curator."""
    found, charged = {}, dict[str, Fraction]()
    for what, study, claimed in _studies(outcome):
        own = {name: _charged(study, name, outcome.key, repeat) for name in study.sessions} if study else {}
        found[what] = Cost(claimed, max(own.values(), default=ZERO))
        for name, spent in own.items():
            charged[name] = charged.get(name, ZERO) + spent
    found[ALL] = Cost(sum((cost.claimed for cost in found.values()), ZERO), max(charged.values(), default=ZERO))
    return found


def _studies(outcome: Outcome) -> Iterator[tuple[str, Study | None, Fraction]]:
    """Name of each study, the study where one was begun, and what its plan announces."""
    learned, learner, found = outcome.learned, outcome.learner, outcome.validation
    yield STUDIES[FIT], outcome.study, learned.epsilon_claimed if learned else parse_rational(learner.epsilon)
    if found is not None:
        yield STUDIES[VALIDATION], found.study, found.epsilon_claimed
    elif learned is not None and learner.validate is not None:
        yield STUDIES[VALIDATION], outcome.validation_study, parse_rational(learner.validate)


def _charged(study: Study, curator: str, learner: bytes, repeat: Repeat) -> Fraction:
    """What a curator's ledger charged for a study, and for what was given up for it."""
    account = repeat.ledgers[curator].account
    sessions = (study.sessions[curator], *study.retired.get(curator, ()))
    return sum((spent_on(account, learner, session.study) for session in sessions), ZERO)


def spent_on(account: Account, learner: bytes, study: bytes) -> Fraction:
    """What a ledger charges to one study."""
    found = account.studies.get(StudyKey(learner, study))
    return Fraction(0) if found is None else found.spent
