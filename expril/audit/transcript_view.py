"""A transcript for people: every message, with all numbers needed to redo the arithmetic by hand.

Nothing is verified here; `expril.audit.recompute` does that. Texts of curators and learners are made printable.
"""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from expril.audit.kinds import AUDITED_KINDS
from expril.files import read_plain
from protocol.codec import decode
from protocol.envelopes import LEARNER_TYPES, Envelope, digest, open_envelope
from protocol.errors import ConfigurationError, ExprilError, RemoteProtocolError, printable
from protocol.messages import (
    NO_DIGEST,
    Card,
    Message,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClosed,
    StudyProposal,
)
from protocol.odds import PrivacyUnit, at_most
from protocol.plans import Plan
from protocol.rationals import parse_amount
from protocol.run_index import INDEX, MOST_TRANSCRIPT, TRANSCRIPTS, decode_index, decode_transcript
from protocol.schema import Schema
from protocol.strict_json import MOST_BYTES

View = dict[str, Any]


def find_transcript(path: Path, *, learner: str = "", curator: str = "", repeat: int = 0) -> Path:
    """Find a transcript's file: the path itself, or a file in a run's folder.

    `path`: a file, or the folder of a run. In a folder, `learner`, `curator` and `repeat` choose the transcript; an
    empty name takes the first.

    Raises:
        ConfigurationError: there is no such transcript; the message lists those that exist.
    """
    if not path.is_dir():
        return path
    try:
        index = decode_index(read_plain(path / TRANSCRIPTS / INDEX, most=MOST_BYTES), path)
    except OSError:
        raise ConfigurationError(f"{path} holds no run: no {TRANSCRIPTS}/{INDEX}") from None
    for entry in index.transcripts:
        named = (learner or entry.learner, curator or entry.curator, repeat)
        if named == (entry.learner, entry.curator, entry.repeat):
            return path / TRANSCRIPTS / entry.file
    raise ConfigurationError(
        f"{path} has no such transcript; learners: {', '.join(map(printable, index.names('learner')))}; curators: "
        f"{', '.join(map(printable, index.names('curator')))}; repeats: 0 to {index.repeats - 1}"
    )


def read_transcript_view(path: Path, *, values: bool = False) -> View:
    """Return a view of each message in a transcript.

    `values`: whether to show the numbers of releases, too.

    Raises:
        ConfigurationError: the transcript, or an envelope in it, cannot be read.
    """
    try:
        transcript = decode_transcript(read_plain(path, most=MOST_TRANSCRIPT))
    except OSError as error:
        why = "there is none; name a run's folder, or a file in its folder transcripts"
        why = why if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise ConfigurationError(f"cannot read the transcript {path}: {why}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    context = _Context(values)
    messages = []
    for position, data in enumerate(transcript.envelopes, start=1):
        try:
            envelope, message = open_envelope(data)
            messages.append({"number": position, **_header(envelope, message, data), **context.details(message)})
        except ExprilError as error:
            raise ConfigurationError(f"{path}, envelope {position}: {printable(str(error), 400)}") from None
    return {"file": str(path), "head": transcript.head.hex(), "messages": messages}


class _Context:
    """The card and the plan of earlier messages, which are needed to read later ones."""

    def __init__(self, values: bool) -> None:
        self._values = values
        self._most = 0
        self._schema: Schema | None = None
        self._plan: Plan | None = None

    def details(self, message: Message) -> View:
        """Show the content of a message beyond its header."""
        match message:
            case Card():
                self._most, self._schema = message.most_records_per_unit, message.schema
                return _card(message)
            case StudyProposal():
                self._plan = message.plan
                return self._proposal(message)
            case StudyAccepted():
                return {"cost": message.cost, "reserved_until": _time(message.reserved_until)} | _receipt(
                    message.receipt
                )
            case Query():
                return {"kind": printable(message.kind)} | self._question(message)
            case Release():
                released = {"kind": printable(message.kind)} | self._released(message)
                return released | self._condition(message) | _receipt(message.receipt)
            case StudyClosed():
                return {"refunded": message.refunded} | _receipt(message.receipt)
            case Refusal():
                return _refusal(message)
        return {}

    def _proposal(self, message: StudyProposal) -> View:
        queries = [self._planned(number) for number in range(1, len(message.plan.queries) + 1)]
        total = sum((Fraction(query["cost"]) for query in queries if query.get("cost")), Fraction(0))
        view: View = {"purpose": printable(message.purpose, 1000), "plan": queries, "plan_cost": str(total)}
        if message.newest_receipt:
            view["newest_receipt"] = digest(message.newest_receipt).hex()
        return view

    def _planned(self, number: int) -> View:
        """Show the planned query of a number, from 1 on; only its common fields if its kind is not installed."""
        plan = cast(Plan, self._plan)
        head, query = plan.heads[number - 1], bytes(plan.queries[number - 1])
        view: View = {"query": number, "kind": printable(head.kind), "turns": head.turns}
        audit = AUDITED_KINDS.audits.get(head.kind)
        if audit is None:
            return view | {"formula": "not told: query kind not installed"}
        try:
            view |= audit.view_planned(decode(query, AUDITED_KINDS[head.kind].planned), self._most)
        except RemoteProtocolError:
            view["formula"] = f"not told: {len(query)} bytes that cannot be read"
        return view

    def _number(self, message: Query | Release) -> int:
        """Return the number, from 1 on, of the planned query to which a message belongs; 0 if it belongs to none."""
        places = () if self._plan is None else self._plan.places
        return places[message.sequence - 1][0] + 1 if 1 <= message.sequence <= len(places) else 0

    def _question(self, message: Query) -> View:
        number = self._number(message)
        view: View = {"planned": self._planned(number)} if number else {}
        audit = AUDITED_KINDS.audits.get(message.kind)
        try:
            return view | (audit.view_question(message.body, self._schema) if audit else {"body": _size(message.body)})
        except RemoteProtocolError:
            return view | {"body": f"{_size(message.body)} that cannot be read"}

    def _released(self, message: Release) -> View:
        audit = AUDITED_KINDS.audits.get(message.kind)
        if audit is None:
            return {"release": _size(message.body), "release_digest": digest(message.body).hex()}
        try:
            numbers = audit.view_release(message.body)
        except RemoteProtocolError:
            return {"release": f"{_size(message.body)} that cannot be read"}
        view: View = {"numbers": len(numbers), "release_digest": digest(message.body).hex()}
        return view | ({"values": numbers} if self._values else {})

    def _condition(self, message: Release) -> View:
        """Show the condition under which the charge of an answer holds, if there is one."""
        number = self._number(message)
        if not number:
            return {}
        try:
            planned = AUDITED_KINDS.query(cast(Plan, self._plan), number - 1)
            proviso = AUDITED_KINDS.kind(planned.kind).proviso(planned)
        except RemoteProtocolError:
            return {}
        return {"on_condition": proviso} if proviso else {}


def _size(data: bytes) -> str:
    return f"{len(data)} bytes"


def _header(envelope: Envelope, message: Message, data: bytes) -> View:
    return {
        "from": "learner" if envelope.type in LEARNER_TYPES else "curator",
        "type": envelope.type,
        "label": printable(envelope.label),
        "sender": message.sender.hex(),
        "recipient": message.recipient.hex(),
        "study": message.study.hex(),
        "sequence": message.sequence,
        "answers": None if message.answers == NO_DIGEST else message.answers.hex(),
        "expires": _time(message.expires_at),
        "bytes": len(data),
        "digest": digest(data).hex(),
    }


def _card(card: Card) -> View:
    unit = PrivacyUnit.of(card.schema, card.unit, card.most_records_per_unit)
    try:
        odds = at_most(parse_amount(card.cap), AUDITED_KINDS.most_odds(card.limits, unit), unit)
    except RemoteProtocolError:
        odds = "unknown, as it allows a query kind that is not installed here"
    return {
        "name": printable(card.name),
        "unit": "each record" if card.unit is None else f"column {printable(card.unit)}",
        "c": card.most_records_per_unit,
        "relation": printable(card.relation),
        "on_condition": _conditions(card),
        "round_size": card.round_size,
        "cap": card.cap,
        "may_change": odds,
        "least_cost": card.least_cost,
        "limits": {name: _plain(getattr(card.limits, name)) for name in card.limits.__struct_fields__},
        "attributes": len(card.schema.attributes),
        "label_column": printable(card.schema.label),
        **(
            {"outcomes": [printable(outcome.name) for outcome in outcomes]}
            if (outcomes := card.schema.outcomes)
            else {}
        ),
        **_coding(card.schema),
    }


def _coding(schema: Schema) -> View:
    """The units of measurement and the sentinels that a card declares, by name; nothing where it declares none."""
    variables = (*schema.attributes, *schema.outcomes)
    names = [*(variable.name for variable in variables), schema.label]
    units = {printable(name): printable(schema.measure(name)) for name in names if schema.measure(name)}
    missing = {
        printable(attribute.name): [printable(item) if isinstance(item, str) else item for item in attribute.missing]
        for attribute in variables
        if attribute.missing
    }
    return {**({"units": units} if units else {}), **({"missing": missing} if missing else {})}


def _conditions(card: Card) -> dict[str, str]:
    """Return the conditions under which the costs of allowed kinds hold, by kind, if there are any."""
    allowed = AUDITED_KINDS.allowed(card.limits)
    return {
        name: audit.condition for name, audit in AUDITED_KINDS.audits.items() if name in allowed and audit.condition
    }


def _receipt(data: bytes) -> View:
    """Show the content of a receipt, without checking its signature."""
    receipt = decode(decode(data, Envelope, field="receipt").payload, Receipt, field="receipt")
    return {
        "receipt": {
            "charged": receipt.charged,
            "spent_by_study": receipt.spent_by_study,
            "spent_by_learner": receipt.spent_by_learner,
            "sequence": receipt.sequence,
            "request": receipt.request.hex(),
            "release": None if receipt.release == NO_DIGEST else receipt.release.hex(),
            "ledger_head": receipt.ledger_head.hex(),
            "issued": _time(receipt.issued_at),
        }
    }


def _refusal(refusal: Refusal) -> View:
    return {
        "code": printable(refusal.code),
        "final": refusal.final,
        "explanation": printable(refusal.explanation, 400),
        "field": printable(refusal.field, 400),
        "limit": printable(refusal.limit, 2000),
        "remaining": refusal.remaining,
        "scale_factor": refusal.scale_factor,
    }


def _plain(value: Any) -> Any:
    """Make a card's value printable. It may be of any type; only numbers are kept as they are."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, dict):
        return {printable(str(name)): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else printable(str(value))


def _time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


_ARROWS = {"learner": "->", "curator": "<-"}
_QUIET = frozenset({"number", "from", "type", "label", "recipient", "sequence", "digest", "plan", "planned", "receipt"})


def as_lines(view: View) -> list[str]:
    """Write a view of a transcript as text, a block for each message."""
    lines = [f"{view['file']}: {len(view['messages'])} messages, head {view['head']}"]
    for entry in view["messages"]:
        lines.append("")
        lines.append(
            f"{entry['number']}. {_ARROWS[entry['from']]} {entry['from']} {entry['type']} {entry['sequence']}  "
            f"digest {entry['digest']}"
        )
        lines += [
            f"     {name}: {_text(value)}"
            for name, value in entry.items()
            if name not in _QUIET and _has_content(value)
        ]
        for query in entry.get("plan", [entry["planned"]] if "planned" in entry else []):
            of = f" of {query['release']}" if "release" in query else ""
            who = query.get("who", "")
            lines.append(f"     query {query['query']}: {query['kind']}{of}, cost {query['formula']}{who}")
        lines += [
            f"     receipt, {name}: {value}" for name, value in entry.get("receipt", {}).items() if _has_content(value)
        ]
        if entry["type"] == "refusal":
            lines.append(f"     {'final' if entry['final'] else 'may pass: the same request may still be answered'}")
    return lines


def _has_content(value: Any) -> bool:
    return value not in (None, "", [], {})


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
