"""How ExPriL reads what a vector holds: `read(what, inputs)` finds what the vector's `taken` says, or refuses."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from curator_node.ledger.checks import check_evidence
from curator_node.ledger.exports import ExportedLedger
from curator_node.policy import Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import hold_records
from learner_node.carriers import journal
from protocol.codec import decode, encode
from protocol.envelopes import (
    SigningKey,
    check_public_key,
    digest,
    encode_parts,
    open_envelope,
    open_receipt,
    request_digest,
    statement_bytes,
    verify,
)
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.identity import LABEL as LABEL_OF_CARDS
from protocol.identity import read_identity
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.models.forest import random_trees
from protocol.kinds.models.linear import cosines, frequencies
from protocol.kinds.models.method import words
from protocol.kinds.secure_counts import (
    BODIES,
    RELEASES,
    Agreement,
    MaskedCounts,
    PlannedSecureCounts,
    Revealed,
    SealedShares,
    question_digest,
)
from protocol.ledger.checkpoints import CheckpointError, read_checkpoint, witnesses_of
from protocol.ledger.entries import LedgerCorruptError, decode_entry, entry_hash, head_bytes, head_is_signed
from protocol.ledger.exports import decode_export, read_block
from protocol.messages import NO_DIGEST, Refusal
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question, Turn
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import Schema
from protocol.secure_sum import participant
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.transcript import ReplayError, Transcript, replay

Facts = dict[str, Any]
ENCODINGS = ("not the one encoding of its content", "in rising order")
AMOUNTS = frozenset(
    {"receipt.charged", "receipt.spent_by_study", "receipt.spent_by_learner", "refunded", "plan.queries.scale"}
)
RELAYED = ("body.cards", "body.shares", "body.dealers", "body.survivors", "body.agreements")
"""Parts of a secure sum's bodies that one curator makes and another checks."""
STATES = frozenset(
    {
        RefusalCode.OUT_OF_ORDER,
        RefusalCode.CHANGED_CONTENT,
        RefusalCode.NOT_IN_PLAN,
        RefusalCode.UNKNOWN_STUDY,
        RefusalCode.STUDY_CLOSED,
        RefusalCode.STUDY_EXPIRED,
    }
)


class RefusedError(Exception):
    """A vector is refused. `rule` is one of those of the vectors' README; `code` is a refusal code, or empty."""

    def __init__(self, rule: str, why: str, code: str = "") -> None:
        self.rule, self.code = rule, code
        super().__init__(why)


def rule_of(error: Exception) -> str:
    """The rule by which one of ExPriL's errors refuses."""
    cause = error.__cause__
    if isinstance(error, ReplayError) and isinstance(cause, RemoteProtocolError):
        return rule_of(cause)
    if not isinstance(error, RemoteProtocolError):
        return "budget" if "cost" in str(error) else "state"
    if error.field in AMOUNTS or "32 bits" in error.limit or error.code == RefusalCode.OVER_BUDGET:
        return "budget"
    if error.code in (RefusalCode.MALFORMED, RefusalCode.TOO_LARGE):
        if error.field == "release" and error.limit.endswith("numbers"):
            return "content"
        return "canonical form" if error.limit in ENCODINGS else "decode"
    if error.code == RefusalCode.BAD_SIGNATURE:
        return "state" if error.field == "receipt" else "signature"
    if error.code == RefusalCode.BAD_QUERY and error.field.startswith(RELAYED):
        return "signature" if "[" in error.field else "state"
    return "state" if error.code in STATES else "content"


def read(what: str, inputs: Mapping[str, Any]) -> Facts:
    """What a reader finds in a vector. Raises RefusedError; KeyError: there is nothing of this name to read."""
    reader = READERS[what]
    try:
        facts: Facts = plain(reader(**{name: raw(name, item) for name, item in inputs.items()}))
    except (RemoteProtocolError, ReplayError) as error:
        code = error.code if isinstance(error, RemoteProtocolError) else ""
        raise RefusedError(rule_of(error), str(error), code) from None
    return facts


TEXTS = frozenset({"label", "kind", "purpose", "text", "of"})


def raw(name: str, item: Any) -> Any:
    """An input with bytes for hexadecimal texts; records are as they are."""
    if name == "records":
        return item
    if isinstance(item, str) and name not in TEXTS:
        return bytes.fromhex(item)
    if isinstance(item, list):
        return [raw(name, inner) for inner in item]
    return {key: raw(key, inner) for key, inner in item.items()} if isinstance(item, dict) else item


def plain(item: Any) -> Any:
    """What was found, with hexadecimal texts for bytes."""
    if isinstance(item, bytes):
        return item.hex()
    if isinstance(item, dict):
        return {plain(key): plain(inner) for key, inner in item.items()}
    if isinstance(item, list | tuple):
        return [plain(inner) for inner in item]
    return item.tolist() if isinstance(item, np.ndarray) else item


def content(data: bytes) -> Any:
    """What MessagePack says, where it is in its one form."""
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError):
        raise RefusedError("decode", "no MessagePack", RefusalCode.MALFORMED) from None
    if encode(value) != data:
        raise RefusedError("canonical form", ENCODINGS[0], RefusalCode.MALFORMED)
    return value


def read_key(seed: bytes) -> Facts:
    """The public key of a seed."""
    return {"public": SigningKey.from_seed(seed).public}


def read_derived_key(seed: bytes, purpose: str) -> Facts:
    """A secret that a key derives."""
    return {"secret": SigningKey.from_seed(seed).derive(purpose)}


def read_public_key(public: bytes) -> Facts:
    """A public key under which nobody signs but its holder."""
    try:
        check_public_key(public)
    except ConfigurationError as error:
        raise RefusedError("signature", str(error)) from None
    return {"public": public}


def read_envelope(bytes: bytes, signer: bytes, label: str) -> Facts:
    """A signed message."""
    envelope, _ = open_envelope(bytes)
    verify(envelope, signer, label=label)
    return {
        "type": envelope.type,
        "payload": envelope.payload,
        "signed": encode_parts(label.encode(), envelope.type.encode(), envelope.payload),
        "signature": envelope.signature,
        "digest": digest(bytes),
        "request_digest": request_digest(signer, envelope.type, envelope.payload),
        "message": content(envelope.payload),
    }


def read_identity_card(text: str) -> Facts:
    """An identity card."""
    try:
        card = read_identity(text, where="the vector")
    except ConfigurationError as error:
        cause = error.__context__
        rule = rule_of(cause) if isinstance(cause, RemoteProtocolError) else "decode"
        raise RefusedError(rule, str(error)) from None
    return {
        "label": LABEL_OF_CARDS,
        "role": card.role,
        "name": card.name,
        "key": card.key,
        "fingerprint": card.fingerprint,
        "previous": [link.previous for link in card.successions],
    }


def read_value(bytes: bytes) -> Facts:
    """Any value."""
    return {"value": content(bytes)}


def read_plan(bytes: bytes, records: int) -> Facts:
    """A plan, and what it costs where a unit has up to `records` records."""
    plan = decode(bytes, Plan)
    return {
        "cost": str(QUERY_KINDS.plan_cost(plan, records)),
        "turns": len(plan.places),
        "costs": [str(cost) for cost in QUERY_KINDS.costs(plan, records)],
        "value": content(bytes),
    }


def read_answer(kind: str, schema: bytes, planned: bytes, turn: int, body: bytes, release: bytes) -> Facts:
    """One turn of a query, and its release."""
    query_kind = QUERY_KINDS[kind]
    query: Any = decode(planned, query_kind.planned)
    records = decode(schema, Schema)
    query_kind.check_planned(query)
    place = Turn(query, 0, turn)
    terms = KindTerms(records, query_kind.limits())
    question = Question(place, query_kind.read_body(body, place, terms), records)
    facts = {"cost": str(QUERY_KINDS.cost(query, 1)), "numbers": query_kind.read_release(release, question)}
    return facts | ({"sensitivity": query.sensitivity(2)} if kind == "model" else {})


def read_count(schema: bytes, planned: bytes, body: bytes, records: Mapping[str, Any]) -> Facts:
    """What a curator counts among records, before it adds noise."""
    described = decode(schema, Schema)
    steward = SchemaFile(
        label=described.label,
        attributes=described.attributes,
        classes=described.classes,
        label_bounds=described.label_bounds,
        outcomes=described.outcomes,
    )
    frame = pl.DataFrame(records["rows"], schema=records["columns"], orient="row", infer_schema_length=None)
    dataset = hold_records(frame, steward, Policy(name="a", cap="1"), SigningKey.from_seed(bytes(32)))
    return {"numbers": dataset.exact(decode(body, CountsBody), decode(planned, PlannedCounts)).ravel()}


def read_refusal(payload: bytes) -> Facts:
    """What a refusal means."""
    refusal = decode(payload, Refusal)
    if refusal.code not in EXPLANATIONS:
        raise RefusedError("decode", "an unknown code", RefusalCode.MALFORMED)
    return {"code": refusal.code, "final": refusal.final, "rules_out": refusal.rules_out}


def read_receipt(receipt: bytes, curator: bytes, label: str, request: bytes, release: bytes) -> Facts:
    """A receipt beside the request that it answers, and the body that was released, if one was."""
    opened = open_receipt(receipt, curator, label=label)
    envelope, message = open_envelope(request)
    identity = request_digest(message.sender, envelope.type, envelope.payload)
    expected = (message.sender, message.study, message.sequence, identity, digest(release) if release else NO_DIGEST)
    if (opened.learner, opened.study, opened.sequence, opened.request, opened.release) != expected:
        raise RefusedError("state", "the receipt is of another request or release")
    return {name: getattr(opened, name) for name in ("charged", "spent_by_study", "spent_by_learner", "ledger_head")}


def read_transcript(curator: bytes, learner: bytes, label: str, envelopes: Sequence[bytes]) -> Facts:
    """A transcript, and what it proves."""
    transcript = Transcript()
    for data in envelopes:
        transcript.append(data)
    proof = replay(envelopes, curator, learner, label=label)
    most = proof.most_charged
    return {
        "head": transcript.head,
        "state": str(proof.state),
        "claimed": str(proof.epsilon_claimed),
        "spent": str(proof.epsilon_spent),
        "at_most": str(proof.epsilon_at_most if most is None else most),
        "releases": proof.releases,
        "refusals": proof.refusals,
    }


def read_entry(bytes: bytes, signature: bytes, curator: bytes) -> Facts:
    """An entry of a ledger."""
    value = content(bytes)
    try:
        entry = decode_entry(bytes)
    except LedgerCorruptError as error:
        missing = "note" not in value or "plan" not in value
        raise RefusedError("canonical form" if missing else "decode", str(error)) from None
    hashed = entry_hash(bytes)
    if not head_is_signed(curator, signature, entry.index, hashed):
        raise RefusedError("signature", "the head is not signed")
    return {"kind": str(entry.kind), "hash": hashed, "signed": head_bytes(entry.index, hashed), "value": value}


def read_export(bytes: bytes, curator: bytes) -> Facts:
    """A ledger's export, and its sums."""
    export = decode_export(bytes)
    blocks = [read_block(block) for block in export.blocks]
    if not all(block.intact for block in blocks):
        raise RefusedError("decode", "a block has another digest")
    pairs = [pair for block in blocks for pair in block.pairs]
    checked = check_evidence(ExportedLedger(pairs, dict(export.replies)), curator)
    if checked.findings:
        why = checked.findings[0].text
        amounts = "charges more", "reserves another amount", "refunds another amount", "restores less"
        if any(words in why for words in amounts):
            raise RefusedError("budget", why)
        misplaced = "stored under another number" in why or why.startswith("the reply")
        unsigned = any(words in why for words in ("not signed", "was changed", "another key"))
        raise RefusedError("signature" if unsigned and not misplaced else "state", why)
    account = checked.account
    return {
        "entries": account.next_index,
        "head": account.head,
        "total": str(account.total_spent),
        "spent": {key: str(spent) for key, spent in sorted(account.spent.items()) if spent},
        "replies": len(export.replies),
    }


def read_checkpoint_text(text: str) -> Facts:
    """A checkpoint of a ledger, with the witnesses that signed it."""
    try:
        signed = read_checkpoint(text, where="the vector")
        witnesses = witnesses_of(signed)
    except ConfigurationError as error:
        raise RefusedError("decode", str(error)) from None
    except CheckpointError as error:
        unsigned = any(words in str(error) for words in ("not signed", "co-signature", "did not sign"))
        raise RefusedError("signature" if unsigned else "state", str(error)) from None
    checkpoint = signed.checkpoint
    return {
        "entries": checkpoint.size,
        "root": checkpoint.root,
        "head": checkpoint.head,
        "curators": signed.curators,
        "witnesses": witnesses,
    }


def read_journal(bytes: bytes) -> Facts:
    """A learner's journal: the records that are complete, and where the last of them ends."""
    size = int.from_bytes(bytes[:4], "big")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        path.write_bytes(bytes)
        first = decode(bytes[journal.HEAD : journal.HEAD + size], journal.Beginning)
        settings = journal.Settings(first.expril, first.about, first.receipts)
        try:
            journal.Journal(path, settings, clock=lambda: 0, entropy=lambda size: b"\0" * size).close()
        except ConfigurationError as error:
            raise RefusedError("decode", str(error)) from None
        complete = path.read_bytes()  # an incomplete last record was cut off
    records: list[str] = []
    place = 0
    while place < len(complete):
        end = place + journal.HEAD + int.from_bytes(complete[place : place + 4], "big")
        records.append(content(complete[place + journal.HEAD : end])["what"])
        place = end
    return {"records": records, "complete": len(complete)}


def read_secure_sum(
    learner: bytes, label: str, planned: bytes, schema: bytes, turns: Sequence[Mapping[str, Mapping[str, bytes]]]
) -> Facts:
    """A secure sum, as the learner opens it from what was released."""
    plan = decode(planned, PlannedSecureCounts)
    bodies, releases = (
        [
            {int(index): decode(data, kind) for index, data in turn[side].items()}
            for turn, kind in zip(turns, kinds, strict=True)
        ]
        for side, kinds in (("bodies", BODIES), ("releases", RELEASES))
    )
    question = question_digest(learner, Turn(plan), bodies[0][0])
    machine = Aggregator(plan.group(label), question, length_of(bodies[0][0].counts, schema))
    cards, sealed, masked, agreed, revealed = releases
    machine.take_cards(cards)
    machine.take_shares({index: item.shares for index, item in sealed.items()})
    survivors = machine.take_masked({index: as_words(item.words) for index, item in masked.items()})
    machine.take_agreements({index: item.signature for index, item in agreed.items()})
    opened = machine.take_revealed({index: item.shares for index, item in revealed.items()})
    return {"question": question, "survivors": list(survivors), "sum": opened.values}


def length_of(counts: bytes, schema: bytes) -> int:
    """Number of cells of a question about masses."""
    return decode(counts, CountsBody).cells(decode(schema, Schema))


def read_secure_part(
    learner: bytes,
    label: str,
    planned: bytes,
    schema: bytes,
    seed: bytes,
    draws: Sequence[bytes],
    values: Sequence[int],
    bodies: Sequence[bytes],
) -> Facts:
    """What one curator releases in the turns of a secure sum, with the random bytes that it drew in order."""
    plan, key, left = decode(planned, PlannedSecureCounts), SigningKey.from_seed(seed), list(draws)
    group = plan.group(label)

    def entropy(size: int) -> bytes:
        drawn = left.pop(0)
        if len(drawn) != size:
            raise ValueError("another number of random bytes was drawn")
        return drawn

    def sign(type_name: str, payload: bytes) -> bytes:
        return key.sign(statement_bytes(label, type_name, payload))

    releases: list[Any] = []
    sent = [decode(data, kind) for data, kind in zip(bodies, BODIES, strict=False)]
    question = question_digest(learner, Turn(plan), sent[0])
    length = length_of(sent[0].counts, schema)
    state: Any = None
    for number, body in enumerate(sent):
        match number:
            case 0:
                card, state = participant.begin(group, key.public, question, length, entropy=entropy, sign=sign)
                releases.append(card)
            case 1:
                participant.check_cards(group, state, body.cards)
                sealed, state = participant.share(group, state, body.cards, entropy=entropy)
                releases.append(SealedShares(sealed))
            case 2:
                participant.check_shares(group, state, body.dealers, body.shares)
                masked, state = participant.mask(state, body.dealers, body.shares, np.array(values, np.int64))
                releases.append(MaskedCounts(masked.astype("<u8").tobytes()))
            case 3:
                participant.check_survivors(group, state, body.survivors)
                signature, state = participant.agree(state, body.survivors, sign=sign)
                releases.append(Agreement(signature))
            case _:
                participant.check_opening(group, state, body.survivors, body.agreements)
                releases.append(Revealed(participant.reveal(state)))
    return {"releases": [encode(release) for release in releases]}


def read_randomness(of: str, **inputs: Any) -> Facts:
    """Numbers that a method draws from a public seed."""
    match of:
        case "words":
            return {"numbers": words(inputs["seed"], inputs["purpose"], inputs["count"])}
        case "tree":
            features = FeatureMap((NumericFeature("age", 0.0, 1.0, 0.0),))
            (tree,) = random_trees(features, inputs["features"], inputs["depth"], inputs["step"], inputs["seed"])
            return {"numbers": tree.table}
        case "frequencies":
            return {"numbers": frequencies(inputs["seed"], inputs["features"], inputs["count"]).astype(int)}
        case _:
            return {"numbers": cosines(inputs["turns"], inputs["count"])[:: inputs["every"]].astype(int)}


READERS: dict[str, Callable[..., Facts]] = {
    "key": read_key,
    "derived_key": read_derived_key,
    "public_key": read_public_key,
    "envelope": read_envelope,
    "identity": read_identity_card,
    "value": read_value,
    "plan": read_plan,
    "answer": read_answer,
    "count": read_count,
    "refusal": read_refusal,
    "receipt": read_receipt,
    "transcript": read_transcript,
    "entry": read_entry,
    "export": read_export,
    "checkpoint": read_checkpoint_text,
    "journal": read_journal,
    "secure_sum": read_secure_sum,
    "secure_part": read_secure_part,
    "randomness": read_randomness,
}
