"""What a steward reads before it approves a study, in plain words; nothing of it comes from a record."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from curator_node.announcement import announced
from curator_node.enrolled import EnrolledLearner
from curator_node.ledger import Account, Ledger, StudyKey
from curator_node.ledger.store import Held
from curator_node.policy import Policy
from curator_node.proposals import undecided
from curator_node.records.schema_file import StewardFile
from curator_node.steward.exposure import exposure, rows
from protocol.envelopes import open_envelope, request_digest, verify
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.identity import fingerprint
from protocol.messages import StudyProposal
from protocol.odds import PrivacyUnit
from protocol.plans import Plan, Planned
from protocol.query_kind import Kinds
from protocol.rationals import written

_MOST_TOLD = 12
"""So many sorts of questions are written out."""


@dataclass(frozen=True)
class Waiting:
    """A proposal that waits, read again from its own bytes.

    Attributes:
        held: as it is kept.
        message: the proposal.
        name: the enrolled learner's; "" where its key is in the policy no more.
    """

    held: Held
    message: StudyProposal
    name: str

    @property
    def key(self) -> StudyKey:
        """Its study."""
        return StudyKey(self.message.sender, self.message.study)

    def cost(self, kinds: Kinds, steward: StewardFile) -> Fraction:
        """The most that the study may be charged; ConfigurationError where the plan cannot be read any more."""
        try:
            return kinds.plan_cost(self.message.plan, steward.most_records_per_unit)
        except RemoteProtocolError as error:
            raise ConfigurationError(f"the plan cannot be read any more ({error}); decline it") from None


def waiting(ledger: Ledger, policy: Policy, now: int) -> list[Waiting]:
    """The proposals that wait for the steward, the first that came in front; see `undecided`.

    Raises:
        ConfigurationError: what is kept is not what a learner signed: somebody has changed the database.
    """
    return [_read(held, policy) for held in undecided(ledger, now)]


def readable(proposal: Waiting, kinds: Kinds, steward: StewardFile) -> tuple[Fraction, str]:
    """The most that a study may be charged, and why its plan cannot be read any more; "" where it can."""
    try:
        return proposal.cost(kinds, steward), ""
    except ConfigurationError as error:
        return Fraction(0), str(error)


def find(proposals: list[Waiting], study: str) -> Waiting:
    """The proposal whose study's identity begins with these digits; ConfigurationError unless there is exactly one."""
    wanted = study.lower()
    found = [each for each in proposals if wanted and each.message.study.hex().startswith(wanted)]
    if len(found) != 1:
        known = ", ".join(each.message.study.hex()[:8] for each in proposals) or "none"
        what = "no study that waits begins" if not found else "several studies that wait begin"
        raise ConfigurationError(f"{what} with {study!r}; those that wait: {known}")
    return found[0]


def summary(
    proposal: Waiting, ledger: Ledger, policy: Policy, steward: StewardFile, kinds: Kinds
) -> list[tuple[str, str]]:
    """(what, in plain words) of a proposal, for its steward.

    Raises:
        ConfigurationError: its plan cannot be read under the kinds and the schema of today.
    """
    message, account, key = proposal.message, ledger.account, proposal.message.sender
    cost = proposal.cost(kinds, steward)
    cap, total_cap, total = policy.cap_of(key), policy.total_cap, account.total_spent
    spent, reserved = account.spent_by(key, proposal.name), account.reserved_by(key, proposal.name)
    unit = steward.protected
    found = exposure(account, policy, unit, kinds, learner=key, name=proposal.name, plan=message.plan)
    attributes = ", ".join(attribute.name for attribute in steward.attributes)
    about = (
        f"any of the schema's {len(steward.attributes)} attributes ({attributes}) and the label {steward.label}. The "
        "plan fixes how much is asked and what it costs; which attributes each question takes is chosen later"
    )
    leaves = (
        f"of this learner's own budget of {written(cap)}: {written(cap - spent - reserved - cost)} ({written(spent)} "
        f"spent before, {written(reserved)} set aside for its other studies); of the budget over all learners of "
        f"{written(total_cap)}: {written(total_cap - total - cost)} ({written(total)} spent before)"
    )
    one = f"one {printable(unit.name)}, all its records together," if unit.name else "one record"
    tells = ", ".join(dict.fromkeys(kinds.kind(head.kind).tells for head in message.plan.heads))
    learns = (
        f"{tells}, with noise. Whatever else one knows, the answers change the odds of any belief about {one} by no "
        "more than the factors below: a factor of 1 changes nothing, and one of 2 makes two to one of what was even"
    )
    costs = (
        f"at most {written(cost)} of the budget, which is counted in epsilon; set aside for "
        f"{_days(policy.reservation_seconds)} once accepted, and what is not used then comes back"
    )
    provisos = dict.fromkeys(kinds.kind(each.kind).proviso(each) for each in kinds.queries(message.plan))
    provided = "; ".join(each for each in provisos if each)
    return [
        *_changes(proposal, account, cost),
        ("who", _who(proposal, policy)),
        ("why", printable(message.purpose, 1000) or "the learner says nothing about it"),
        ("asks", _asked(message.plan, unit, kinds)),
        ("about", about),
        ("costs", costs),
        ("leaves", leaves),
        ("learns", learns),
        *rows(found, unit),
        *([("provided", provided)] if provided else []),
        *announced(message, cost, ledger, policy).rows(),
    ]


def as_object(
    proposal: Waiting, ledger: Ledger, policy: Policy, steward: StewardFile, kinds: Kinds
) -> dict[str, object]:
    """A proposal for a steward's own programs: its names, times and cost, and all that `summary` says.

    What cannot be read any more has no "epsilon" and no "summary"; "unreadable" says why.
    """
    held, message = proposal.held, proposal.message
    cost, unreadable = readable(proposal, kinds, steward)
    told: dict[str, str] = {}
    named: dict[str, dict[str, object] | None] = {"announces": None, "validates": None}
    if not unreadable:
        told = dict(summary(proposal, ledger, policy, steward, kinds))
        named = announced(message, cost, ledger, policy).as_objects()
    return {
        "study": message.study.hex(),
        "learner": proposal.name,
        "key": message.sender.hex(),
        "received_at": held.received_at,
        "expires_at": held.expires_at,
        "epsilon": None if unreadable else str(cost),
        "purpose": printable(message.purpose, 1000),
        **named,
        "summary": told,
        "unreadable": unreadable,
    }


def _read(held: Held, policy: Policy) -> Waiting:
    """Checked anew: what the steward reads must be what is accepted, whoever can write to the database."""
    try:
        envelope, message = open_envelope(held.envelope, types=("study_proposal",))
        verify(envelope, message.sender)
        same = request_digest(message.sender, envelope.type, envelope.payload) == held.request
    except RemoteProtocolError:
        same = False
    if not same or not isinstance(message, StudyProposal):
        raise ConfigurationError("a proposal that waits is not what its learner signed: the database was changed")
    learner = policy.learner(message.sender)
    return Waiting(held, message, learner.name if learner else "")


def _changes(proposal: Waiting, account: Account, cost: Fraction) -> list[tuple[str, str]]:
    """What differs from what the steward approved before; nothing where nothing was approved."""
    word = account.decisions.get(proposal.held.request)
    if word is None:
        return []
    changes = (
        [] if word.cost == cost else [f"it cost at most {written(word.cost)} by then, and costs {written(cost)} now"]
    )
    pairs = zip(("terms hold", "records are served"), word.under, account.under, strict=True)
    changes += [f"other {what} now" for what, then, now in pairs if then != now]
    day = datetime.fromtimestamp(word.at, UTC).strftime("%Y-%m-%d %H:%M")
    since = "; ".join(changes) or "nothing but that the approval has ended"
    return [("changed", f"since it was approved, {day} UTC: {since}")]


def _who(proposal: Waiting, policy: Policy) -> str:
    learner = policy.learner(proposal.message.sender)
    told = [learner.organisation, learner.contact] if isinstance(learner, EnrolledLearner) else []
    about = ", ".join(printable(text) for text in told if text)
    name = printable(proposal.name) or "nobody that may ask any more"
    return f"{name}{f' ({about})' if about else ''}, key {fingerprint('learner', proposal.message.sender)}"


def _asked(plan: Plan, unit: PrivacyUnit, kinds: Kinds) -> str:
    """The questions in words, with how exactly each is answered; equal ones together."""
    queries = kinds.queries(plan)
    alike = Counter(_question(planned, unit, kinds) for planned in queries)
    told = [f"{f'{many} x ' if len(queries) > 1 else ''}{words}" for words, many in alike.items()]
    rest = [f"and {len(told) - _MOST_TOLD} more sorts of questions like these"] if len(told) > _MOST_TOLD else []
    return f"{len(queries)} question{'s' if len(queries) > 1 else ''}: {'; '.join(told[:_MOST_TOLD] + rest)}"


def _question(planned: Planned, unit: PrivacyUnit, kinds: Kinds) -> str:
    kind = kinds.kind(planned.kind)
    return f"{kind.precision(planned, unit) or kind.tells} (kind {printable(kind.name)})"


def _days(seconds: int) -> str:
    many, what = (seconds / 86_400, "day") if seconds >= 86_400 else (seconds / 3600, "hour")
    return f"{many:.3g} {what}{'' if many == 1 else 's'}"
