"""The plain words that a steward reads before it approves a study. None of them comes from a record.

A study and the validation of its model are two proposals. The first may announce the cost of the second, and the second
names the first. The steward sees whether the learner keeps to the announced cost, which does not bind the ledger.
"""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from curator_node.admission import undecided_proposals
from curator_node.ledger import Account, Ledger, StudyKey
from curator_node.ledger.store import PendingProposal
from curator_node.policy import EnrolledLearner, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.steward.exposure import exposure, exposure_rows
from protocol.announcements import Notice, read_notice
from protocol.envelopes import open_envelope, request_digest, verify
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.identity import fingerprint
from protocol.ledger.entries import Entry, EntryKind, decode_entry
from protocol.messages import NO_STUDY, StudyProposal
from protocol.odds import PrivacyUnit
from protocol.plans import Plan, Planned
from protocol.query_kind import Kinds
from protocol.rationals import amount, parse_amount, shorten, written
from protocol.transitions import State

_ENDED = (State.CLOSED, State.EXPIRED)


@dataclass(frozen=True)
class Announcement:
    """A study's announcement of its validation, or a validation's reference to its study."""

    notice: Notice  # as its learner wrote it
    cost: Fraction  # of the proposal itself, at most
    remaining: Fraction  # what its learner may still reserve, before it
    is_known: bool = False  # whether the study that it names is one of this learner's on this ledger
    most: Fraction | None = None  # what that study announced for its validation; None where it announced none
    before: Fraction = Fraction(0)  # what other validations of that study have cost here, or may still

    def rows(self) -> list[tuple[str, str]]:
        """Rows (subject, plain words) for the steward; empty where nothing is announced."""
        if self.notice.most is not None:
            return [("then", self._then(self.notice.most))]
        return [("after", self._after())] if self.notice.study != NO_STUDY else []

    def as_objects(self) -> dict[str, dict[str, object] | None]:
        """The same for programs; all amounts are rationals."""
        then: dict[str, object] | None = None
        if self.notice.most is not None:
            then = {"epsilon": amount(self.notice.most), "together": _up(self.cost + self.notice.most)}
        after: dict[str, object] | None = None
        if self.notice.study != NO_STUDY:
            after = {
                "study": self.notice.study.hex(),
                "known": self.is_known,
                "announced": None if self.most is None else amount(self.most),
                "before": _up(self.before),
                "more": self.more,
            }
        return {"announces": then, "validates": after}

    @property
    def more(self) -> bool:
        """Whether the validation costs more, with others of the same study, than that study announced."""
        return self.before + self.cost > (self.most or 0)

    def _then(self, most: Fraction) -> str:
        short = (
            ""
            if self.cost + most <= self.remaining
            else f", which is more than the {written(self.remaining)} that is left"
        )
        return (
            f"a validation of the model, proposed apart, at most {written(most)} of epsilon; both together at most "
            f"{written(self.cost + most)}{short}. The learner says so, and it binds nobody"
        )

    def _after(self) -> str:
        named = f"it validates the model of study {self.notice.study.hex()[:8]}"
        if not self.is_known:
            return f"{named}, as its learner says; this ledger holds no such study of that learner"
        with_others = f", {written(self.before + self.cost)} with other validations of it" if self.before else ""
        costs = f"it costs at most {written(self.cost)}{with_others}"
        if self.most is None:
            return f"{named}, which announced no validation; {costs}"
        verdict = "MORE than that" if self.more else "no more than that"
        return f"{named}, which announced one of at most {written(self.most)}; {costs}: {verdict}"


def announcement_of(message: StudyProposal, cost: Fraction, ledger: Ledger, policy: Policy) -> Announcement:
    """The announcement in a proposal, with the ledger's facts on it.

    Args:
        message: the proposal.
        cost: the most that its plan may cost.
        ledger: a refreshed ledger.
        policy: the steward's.

    Raises:
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read.
    """
    notice, learner = read_notice(message.purpose), policy.learner(message.sender)
    cap, name = policy.cap_of(message.sender), "" if learner is None else learner.name
    remaining = ledger.account.remaining(message.sender, cap, policy.total_cap, name)
    if notice.study == NO_STUDY:
        return Announcement(notice, cost, remaining)
    keys = ledger.account.keys_of(message.sender, name)
    entries = [decode_entry(row.body) for row in ledger.store.rows(0)]
    opened = [entry for entry in entries if entry.kind is EntryKind.RESERVE and entry.learner in keys]
    first = next((entry for entry in opened if entry.study == notice.study), None)
    validations = [entry for entry in opened if read_notice(entry.note).study == notice.study]
    return Announcement(
        notice,
        cost,
        remaining,
        is_known=first is not None,
        most=None if first is None else read_notice(first.note).most,
        before=sum((_costs(entry, ledger) for entry in validations if entry.study != message.study), Fraction(0)),
    )


def _costs(entry: Entry, ledger: Ledger) -> Fraction:
    """The most that a study may cost; if it has ended, the sum of its charges."""
    study = ledger.account.studies[StudyKey(entry.learner, entry.study)]
    return study.spent if study.state in _ENDED else parse_amount(entry.amount)


def _up(value: Fraction) -> str:
    return amount(shorten(value, math.ceil))


_MOST_SORTS = 12
"""Most different questions that are written out."""


@dataclass(frozen=True)
class WaitingProposal:
    """A proposal that waits, read again from its own bytes."""

    pending: PendingProposal  # as it is kept
    message: StudyProposal  # the proposal
    name: str  # the enrolled learner's; "" where its key is in the policy no more

    @property
    def key(self) -> StudyKey:
        """The key of its study."""
        return StudyKey(self.message.sender, self.message.study)

    def cost(self, kinds: Kinds, steward: SchemaFile) -> Fraction:
        """The most that the study may be charged; ConfigurationError where the plan cannot be read any more."""
        try:
            return kinds.plan_cost(self.message.plan, steward.most_records_per_unit)
        except RemoteProtocolError as error:
            raise ConfigurationError(f"the plan cannot be read any more ({error}); decline it") from None


def waiting_proposals(ledger: Ledger, policy: Policy, now: int) -> list[WaitingProposal]:
    """The proposals that wait for the steward, the first that came in front; see `undecided_proposals`.

    Raises:
        ConfigurationError: a kept proposal is not as its learner signed it, so somebody has changed the database.
    """
    return [_read(pending, policy) for pending in undecided_proposals(ledger, now)]


def readable(proposal: WaitingProposal, kinds: Kinds, steward: SchemaFile) -> tuple[Fraction, str]:
    """The most that a study may be charged, and why its plan cannot be read any more; "" where it can."""
    try:
        return proposal.cost(kinds, steward), ""
    except ConfigurationError as error:
        return Fraction(0), str(error)


def find_proposal(proposals: list[WaitingProposal], study: str) -> WaitingProposal:
    """The proposal whose study's identity begins with these digits; ConfigurationError unless there is exactly one."""
    digits = study.lower()
    matches = [proposal for proposal in proposals if digits and proposal.message.study.hex().startswith(digits)]
    if len(matches) != 1:
        identities = ", ".join(proposal.message.study.hex()[:8] for proposal in proposals) or "none"
        problem = "no study that waits begins" if not matches else "several studies that wait begin"
        raise ConfigurationError(f"{problem} with {study!r}; those that wait: {identities}")
    return matches[0]


def summary(
    proposal: WaitingProposal, ledger: Ledger, policy: Policy, steward: SchemaFile, kinds: Kinds
) -> list[tuple[str, str]]:
    """Rows (subject, plain words) that describe a proposal to its steward.

    Raises:
        ConfigurationError: its plan cannot be read under the kinds and the schema of today.
    """
    message, account, key = proposal.message, ledger.account, proposal.message.sender
    cost = proposal.cost(kinds, steward)
    cap, total_cap, total = policy.cap_of(key), policy.total_cap, account.total_spent
    spent, reserved = account.spent_by(key, proposal.name), account.reserved_by(key, proposal.name)
    unit = steward.protected
    exposures = exposure(account, policy, unit, kinds, learner=key, name=proposal.name, plan=message.plan)
    attributes = ", ".join(attribute.name for attribute in steward.attributes)
    outcomes = ", ".join(outcome.name for outcome in steward.outcomes)
    label = f"the label {steward.label}{f' and the outcomes ({outcomes})' if outcomes else ''}"
    about = (
        f"any of the schema's {len(steward.attributes)} attributes ({attributes}) and {label}. The "
        "plan fixes how much is asked and what it costs; which attributes each question takes is chosen later"
    )
    leaves = (
        f"of this learner's own budget of {written(cap)}: {written(cap - spent - reserved - cost)} ({written(spent)} "
        f"spent before, {written(reserved)} set aside for its other studies); of the budget over all learners of "
        f"{written(total_cap)}: {written(total_cap - total - cost)} ({written(total)} spent before)"
    )
    subject = f"one {printable(unit.name)}, all its records together," if unit.name else "one record"
    tells = ", ".join(dict.fromkeys(kinds.kind(head.kind).reveals for head in message.plan.heads))
    learns = (
        f"{tells}, with noise. Whatever else one knows, the answers change the odds of any belief about {subject} by "
        "no more than the factors below: a factor of 1 changes nothing, and one of 2 makes two to one of what was even"
    )
    costs = (
        f"at most {written(cost)} of the budget, which is counted in epsilon; set aside for "
        f"{_days(policy.reservation_seconds)} once accepted, and what is not used then comes back"
    )
    provisos = dict.fromkeys(kinds.kind(planned.kind).proviso(planned) for planned in kinds.queries(message.plan))
    provided = "; ".join(planned for planned in provisos if planned)
    return [
        *_changes(proposal, account, cost),
        ("who", _who(proposal, policy)),
        ("why", printable(message.purpose, 1000) or "the learner says nothing about it"),
        ("asks", _questions_text(message.plan, unit, kinds)),
        ("about", about),
        ("costs", costs),
        ("leaves", leaves),
        ("learns", learns),
        *exposure_rows(exposures, unit),
        *([("provided", provided)] if provided else []),
        *announcement_of(message, cost, ledger, policy).rows(),
    ]


def as_object(
    proposal: WaitingProposal, ledger: Ledger, policy: Policy, steward: SchemaFile, kinds: Kinds
) -> dict[str, object]:
    """A proposal for a steward's own programs: its names, times and cost, and all rows of `summary`.

    A proposal that cannot be read any more has no "epsilon" and no "summary"; "unreadable" says why.
    """
    pending, message = proposal.pending, proposal.message
    cost, unreadable = readable(proposal, kinds, steward)
    summary_rows: dict[str, str] = {}
    announcements: dict[str, dict[str, object] | None] = {"announces": None, "validates": None}
    if not unreadable:
        summary_rows = dict(summary(proposal, ledger, policy, steward, kinds))
        announcements = announcement_of(message, cost, ledger, policy).as_objects()
    return {
        "study": message.study.hex(),
        "learner": proposal.name,
        "key": message.sender.hex(),
        "received_at": pending.received_at,
        "expires_at": pending.expires_at,
        "epsilon": None if unreadable else str(cost),
        "purpose": printable(message.purpose, 1000),
        **announcements,
        "summary": summary_rows,
        "unreadable": unreadable,
    }


def _read(pending: PendingProposal, policy: Policy) -> WaitingProposal:
    """Check a stored proposal anew, so that the steward reads the signed text even if the database was changed."""
    try:
        envelope, message = open_envelope(pending.envelope, types=("study_proposal",))
        verify(envelope, message.sender)
        same = request_digest(message.sender, envelope.type, envelope.payload) == pending.request
    except RemoteProtocolError:
        same = False
    if not same or not isinstance(message, StudyProposal):
        raise ConfigurationError("a proposal that waits is not what its learner signed: the database was changed")
    learner = policy.learner(message.sender)
    return WaitingProposal(pending, message, learner.name if learner else "")


def _changes(proposal: WaitingProposal, account: Account, cost: Fraction) -> list[tuple[str, str]]:
    """Rows on what has changed since the steward approved the proposal; none if it never did."""
    word = account.decisions.get(proposal.pending.request)
    if word is None:
        return []
    changes = (
        [] if word.cost == cost else [f"it cost at most {written(word.cost)} by then, and costs {written(cost)} now"]
    )
    pairs = zip(("terms hold", "records are served", "plug-ins are in use"), word.under, account.under, strict=True)
    changes += [f"other {subject} now" for subject, then, now in pairs if then != now]
    day = datetime.fromtimestamp(word.at, UTC).strftime("%Y-%m-%d %H:%M")
    since = "; ".join(changes) or "nothing but that the approval has ended"
    return [("changed", f"since it was approved, {day} UTC: {since}")]


def _who(proposal: WaitingProposal, policy: Policy) -> str:
    learner = policy.learner(proposal.message.sender)
    texts = [learner.organisation, learner.contact] if isinstance(learner, EnrolledLearner) else []
    about = ", ".join(printable(text) for text in texts if text)
    name = printable(proposal.name) or "nobody that may ask any more"
    return f"{name}{f' ({about})' if about else ''}, key {fingerprint('learner', proposal.message.sender)}"


def _questions_text(plan: Plan, unit: PrivacyUnit, kinds: Kinds) -> str:
    """The planned questions and the precision of their answers, in words; equal questions are counted."""
    queries = kinds.queries(plan)
    alike = Counter(_question(planned, unit, kinds) for planned in queries)
    phrases = [f"{f'{many} x ' if len(queries) > 1 else ''}{words}" for words, many in alike.items()]
    rest = (
        [f"and {len(phrases) - _MOST_SORTS} more sorts of questions like these"] if len(phrases) > _MOST_SORTS else []
    )
    return f"{len(queries)} question{'s' if len(queries) > 1 else ''}: {'; '.join(phrases[:_MOST_SORTS] + rest)}"


def _question(planned: Planned, unit: PrivacyUnit, kinds: Kinds) -> str:
    kind = kinds.kind(planned.kind)
    return f"{kind.precision(planned, unit) or kind.reveals} (kind {printable(kind.name)})"


def _days(seconds: int) -> str:
    number, unit_name = (seconds / 86_400, "day") if seconds >= 86_400 else (seconds / 3600, "hour")
    return f"{number:.3g} {unit_name}{'' if number == 1 else 's'}"
