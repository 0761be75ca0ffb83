"""Vectors of what a real curator, a real learner and a real secure sum leave behind: ledgers, journals, transcripts."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import msgpack, structs

from curator_node.ledger import Ledger, create_ledger
from curator_node.ledger.checks import check
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import assemble_site, hold_records
from learner_node.carriers.journal import Journal, Settings
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import (
    LABEL,
    NOT_PRIVATE_LABEL,
    Envelope,
    SigningKey,
    digest,
    open_envelope,
    open_receipt,
    seal,
    seal_receipt,
    sign_payload,
    statement_bytes,
)
from protocol.kinds.counts import CountsRelease
from protocol.kinds.secure_counts import (
    Agreement,
    AskKeys,
    MaskedCounts,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
    question_digest,
)
from protocol.ledger.checkpoints import cosign, make_checkpoint, sign_checkpoint, with_signature, witnesses_of
from protocol.ledger.entries import EntryKind, decode_entry, encode_entry, entry_hash, head_bytes, sign_head
from protocol.ledger.exports import decode_export, encode_export, read_block
from protocol.ledger.merkle import Tree
from protocol.ledger.notes import PLAIN, Note, Signature, key_id
from protocol.messages import Release
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.secure_sum import participant
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.transcript import Transcript, replay
from vector_parts import BODIES, CURATOR, LEARNER, PLAN, RELEASE, SCHEMA, SUCCESSOR, bad, good, plain, study

CURATOR_SEED = b"\x04" * 32
SITE = SigningKey.from_seed(CURATOR_SEED)
"""The curator of the real studies."""
NOW = 1_800_000_000
SHORT = encode(CountsRelease(RELEASE.counts[:-8], b""))
"""A release with a number too few."""
RECORDS = [(20.0, "f", "no"), (44.0, "m", "yes"), (71.5, "m", "yes"), (None, "f", "no"), (118.0, None, "yes")]


class NoNoise:
    """Adds nothing, so that the vectors are the same each time."""

    seeded = False

    def discrete_laplace(self, exact, l1, law, stamp):
        return exact


class Stream:
    """Random bytes that are known: SHA-256 of a seed and a counter. `draws` are those that were drawn."""

    def __init__(self, seed):
        self.seed, self.drawn, self.draws = seed, 0, []

    def __call__(self, size):
        blocks = range(self.drawn, self.drawn + -(-size // 32))
        self.drawn = blocks.stop
        data = b"".join(digest(self.seed + block.to_bytes(8, "big")) for block in blocks)[:size]
        self.draws.append(data)
        return data


def holding(schema, records):
    """Records as a curator of a schema holds them."""
    steward = SchemaFile(
        label=schema.label,
        attributes=schema.attributes,
        classes=schema.classes,
        label_bounds=schema.label_bounds,
        outcomes=schema.outcomes,
    )
    frame = pl.DataFrame(records["rows"], schema=records["columns"], orient="row", infer_schema_length=None)
    policy = Policy(name="basel", cap="1", learners=(LearnerPolicy("ann", LEARNER.public.hex(), "1"),))
    return hold_records(frame, steward, policy, SITE)


class Evidence:
    """A real curator without noise, three studies with it, and what they leave."""

    def __init__(self):
        self.now = NOW
        store, mark, entropy = MemoryStore(), MemoryMark(), Stream(b"ledger")
        create_ledger(store, SITE, mark, now=NOW, note="of the vectors", entropy=entropy)
        steward = SchemaFile(label=SCHEMA.label, classes=SCHEMA.classes, attributes=SCHEMA.attributes, round_size=100)
        keys = {"ann": LEARNER, "bob": SUCCESSOR}
        policy = Policy(
            name="basel",
            cap="1",
            learners=tuple(LearnerPolicy(name, key.public.hex(), "1/2") for name, key in keys.items()),
        )
        frame = pl.DataFrame(RECORDS, schema={"age": pl.Float64, "sex": pl.String, "sick": pl.String}, orient="row")
        self.curator = assemble_site(
            hold_records(frame, steward, policy, SITE),
            policy,
            key=SITE,
            ledger=Ledger(store, key=SITE, mark=mark, entropy=entropy),
            clock=lambda: self.now,
            noise=NoNoise(),
            entropy=entropy,
        ).curator
        self.whole = self.session(LEARNER, b"a whole study")
        self.ask_all(self.whole, PLAN)
        self.left = self.session(SUCCESSOR, b"a study left")
        self.ask_all(self.left, PLAN, queries=1, close=False)
        self.now += 86_400
        self.refused = self.session(LEARNER, b"too dear", receipt=self.whole.newest_receipt)
        self.ask(self.refused, self.refused.request_card(self.now))
        dear = structs.replace(PLAN, queries=(type(PLAN).of([encode_scale(1)]).queries[0],))
        self.ask(self.refused, self.refused.propose(dear, "too dear", self.now))
        self.export, self.account = export_ledger(store), check(store, SITE.public).account
        export = decode_export(self.export)
        self.pairs, self.replies = read_block(export.blocks[0]).pairs, export.replies

    def session(self, key, name, receipt=b""):
        return Session(curator=SITE.public, key=key, study=name.ljust(16, b"."), newest_receipt=receipt)

    def ask(self, session, data):
        return session.receive(self.curator.handle(data))

    def ask_all(self, session, plan, queries=2, *, close=True):
        self.ask(session, session.request_card(self.now))
        self.ask(session, session.propose(plan, "a vector", self.now))
        for body in [BODIES["mass"], BODIES["signed_error"]][:queries]:
            self.ask(session, session.query("counts", encode(body), self.now))
        if close:
            self.ask(session, session.close(self.now))

    def linked(self, entries):
        """A chain of these entries, each with the hash of the one before it and a signature of its own."""
        pairs, previous = [], entries[0].previous
        for index, entry in enumerate(entries):
            body = encode_entry(structs.replace(entry, previous=previous))
            previous = entry_hash(body)
            pairs.append((body, sign_head(SITE, index, previous)))
        return pairs


def encode_scale(scale):
    return {"kind": "counts", "release": "mass", "partitions": 1, "scale": [scale, 1]}


def receipts():
    """Receipts of the real studies, each with the request that it answers."""
    whole = Evidence().whole.transcript.envelopes
    pairs = [(whole[place], whole[place + 1]) for place in range(2, len(whole), 2)]

    def given(request, receipt, release=b""):
        return {"receipt": receipt, "curator": SITE.public, "label": LABEL, "request": request, "release": release}

    taken = []
    for request, reply in pairs:
        envelope, message = open_envelope(reply)
        receipt = open_receipt(message.receipt, SITE.public)
        body = message.body if isinstance(message, Release) else b""
        facts = {
            name: getattr(receipt, name) for name in ("charged", "spent_by_study", "spent_by_learner", "ledger_head")
        }
        taken.append(good(envelope.type, "receipt", given(request, message.receipt, body), facts))
    taken[2]["name"] = "release again"
    request, message = pairs[1][0], open_envelope(pairs[1][1])[1]
    receipt = open_receipt(message.receipt, SITE.public)

    def other(key=SITE, label=LABEL, body=message.body, of=request, **fields):
        return given(of, seal_receipt(structs.replace(receipt, **fields), key, label=label), body)

    plain_field = encode(receipt)
    wrong_amount = plain_field.replace(b"\xa41/30", b"\xa40.03") if b"\xa41/30" in plain_field else b""
    cases = {
        "signed by another": (other(LEARNER), "signature", "the learner signed it"),
        "of another curator": (other(curator=CURATOR.public), "signature", "it names another curator than its signer"),
        "not private": (other(label=NOT_PRIVATE_LABEL), "signature", "signed as a simulation's"),
        "of another learner": (other(learner=SUCCESSOR.public), "state", "it names another learner"),
        "of another request": (other(of=pairs[2][0]), "state", "it is of another request"),
        "of another release": (other(body=message.body + b"\0"), "state", "it is of another release"),
        "of another study": (other(study=bytes(16)), "state", "it names another study"),
        "with a short position": (
            given(request, resigned(message.receipt, position=receipt.position[:-1]), message.body),
            "decode",
            "1,051 bytes of position",
        ),
    }
    if wrong_amount:
        cases["with a decimal"] = (
            given(request, resigned(message.receipt, charged="0.03"), message.body),
            "decode",
            "an amount is written 1/30",
        )
    return taken, [
        bad(f"receipt {name}", "receipt", told, rule, "release", fault) for name, (told, rule, fault) in cases.items()
    ]


def resigned(receipt, **fields):
    """A receipt's envelope with fields that no `Receipt` holds, signed by the curator."""
    payload = encode(msgpack.decode(decode(receipt, Envelope).payload) | fields)
    return sign_payload("receipt", payload, SITE, LABEL)


def replayed(name, envelopes, curator):
    """A transcript, and what it proves."""
    transcript = Transcript()
    for data in envelopes:
        transcript.append(data)
    proof = replay(envelopes, curator, LEARNER.public)
    most = proof.most_charged
    facts = {
        "head": transcript.head,
        "state": str(proof.state),
        "claimed": str(proof.epsilon_claimed),
        "spent": str(proof.epsilon_spent),
        "at_most": str(proof.epsilon_at_most) if most is None else str(most),
        "releases": proof.releases,
        "refusals": list(proof.refusals),
    }
    return good(name, "transcript", exchange_of(envelopes, curator), facts)


def exchange_of(envelopes, curator=CURATOR.public):
    return {"curator": curator, "learner": LEARNER.public, "label": LABEL, "envelopes": list(envelopes)}


def transcripts():
    """Exchanges that prove what was charged, and some that prove nothing."""
    evidence, honest = Evidence(), study().transcript.envelopes
    whole = evidence.whole.transcript.envelopes
    taken = [
        replayed("of the envelopes", honest, CURATOR.public),
        replayed("of a real study", whole, SITE.public),
        replayed("without its closing", whole[:-2], SITE.public),
        replayed("without its last answer", whole[:-3], SITE.public),
        replayed("of a proposal alone", whole[:3], SITE.public),
        replayed("refused", evidence.refused.transcript.envelopes, SITE.public),
        replayed("with a request twice", [*whole[:5], *whole[4:]], SITE.public),
    ]
    card, proposal, accepted, query, release, closed = 1, 2, 3, 4, 5, 9
    other = bytes([9]) * 32
    faults = {
        "a reply that the learner signed": ({release: {"key": LEARNER}}, "signature"),
        "a reply of a simulation": ({release: {"label": NOT_PRIVATE_LABEL}}, "signature"),
        "a receipt that another signed": ({release: {"receipt_key": LEARNER}}, "signature"),
        "a receipt of another request": ({release: {"receipt": {"request": other}}}, "state"),
        "a receipt of another release": ({release: {"receipt": {"release": other}}}, "state"),
        "a receipt of another study": ({accepted: {"receipt": {"study": bytes(16)}}}, "state"),
        "a receipt that charges more": ({release: {"receipt": {"charged": "1/14"}}}, "budget"),
        "a receipt that charges less": ({release: {"receipt": {"charged": "1/16"}}}, "budget"),
        "an acceptance that charges": ({accepted: {"receipt": {"charged": "1/100"}}}, "budget"),
        "a study's total that is not the sum": ({release: {"receipt": {"spent_by_study": "1/14"}}}, "budget"),
        "a learner that spent less than its study": ({release: {"receipt": {"spent_by_learner": "1/16"}}}, "budget"),
        "a learner's total that falls": (
            {release: {"receipt": {"spent_by_learner": "1/2"}}, closed: {"receipt": {"spent_by_learner": "1/3"}}},
            "budget",
        ),
        "another cost than the plan's": ({accepted: {"message": {"cost": "1/15"}}}, "budget"),
        "a refund of more than is left": ({closed: {"message": {"refunded": "1/15"}}}, "budget"),
        "a reply to another request": ({release: {"message": {"answers": other}}}, "state"),
        "a reply of another sequence": ({release: {"message": {"sequence": 2}}}, "state"),
        "a reply of another study": ({release: {"message": {"study": bytes(16)}}}, "state"),
        "a reply for somebody else": ({release: {"message": {"recipient": SUCCESSOR.public}}}, "state"),
        "a query of another sequence": ({query: {"message": {"sequence": 2}}}, "state"),
        "a query that follows another reply": ({query: {"message": {"answers": other}}}, "state"),
        "a query of another study": ({query: {"message": {"study": bytes(16)}}}, "state"),
        "a proposal of a later sequence": ({proposal: {"message": {"sequence": 1}}}, "state"),
        "a card for another request": ({card: {"message": {"answers": other}}}, "state"),
        "a question that was not planned": (
            {query: {"message": {"body": encode(BODIES["constant"])}}, release: {}},
            "state",
        ),
        "a release of another size": (
            {release: {"message": {"body": SHORT}, "receipt": {"release": digest(SHORT)}}},
            "content",
        ),
    }
    refused = {
        name: (study(fault).transcript.envelopes[: max(fault) + 1], rule, "of the envelopes")
        for name, (fault, rule) in faults.items()
    }
    signed_twice = seal(structs.replace(open_envelope(honest[release])[1], expires_at=1), CURATOR)
    refused |= {
        "a reply left out": ([*honest[:5], honest[6]], "state", "of the envelopes"),
        "a request left out": ([*honest[:4], honest[5]], "state", "of the envelopes"),
        "a proposal left out": ([*honest[:2], honest[3]], "state", "of the envelopes"),
        "a reply before its request": ([*honest[:4], honest[5], honest[4]], "state", "of the envelopes"),
        "no card": (honest[2:4], "state", "of the envelopes"),
        "two answers to one request": ([*honest[:6], signed_twice], "state", "of the envelopes"),
        "a query after the closing": ([*honest, late_query(honest)], "state", "of the envelopes"),
        "bytes that are none": ([*honest[:4], honest[4][:-1]], "decode", "of the envelopes"),
    }
    return taken, [
        bad(f"with {name}", "transcript", exchange_of(envelopes), rule, twin, name)
        for name, (envelopes, rule, twin) in refused.items()
    ]


def late_query(honest):
    """A query that is signed after its study was closed."""
    query = open_envelope(honest[4])[1]
    return seal(structs.replace(query, sequence=4, answers=digest(honest[-1])), LEARNER)


def ledgers():
    """Entries and exports of a real ledger, and forged ones."""
    evidence = Evidence()
    pairs = evidence.pairs
    taken = []
    for index, (body, signature) in enumerate(pairs):
        entry = decode_entry(body)
        hashed = entry_hash(body)
        facts = {"kind": str(entry.kind), "hash": hashed, "signed": head_bytes(index, hashed), "value": plain(body)}
        given = {"bytes": body, "signature": signature, "curator": SITE.public}
        taken.append(good(f"entry {index}, {entry.kind}", "entry", given, facts))
    taken.append(exported("export", evidence))
    body, signature = pairs[3]
    fields = plain_entry(body)
    curator = {"curator": SITE.public}
    twin = taken[3]["name"]
    kept = [
        bad(
            "entry signed by another",
            "entry",
            {"bytes": body, "signature": sign_head(LEARNER, 3, entry_hash(body))} | curator,
            "signature",
            twin,
            "another key signed the head",
        ),
        bad(
            "entry at another place",
            "entry",
            {"bytes": body, "signature": sign_head(SITE, 4, entry_hash(body))} | curator,
            "signature",
            twin,
            "the signed head has another place",
        ),
        bad(
            "entry cut short",
            "entry",
            {"bytes": body[:-1], "signature": signature} | curator,
            "decode",
            twin,
            "the last byte is missing",
        ),
        bad(
            "entry without a field",
            "entry",
            signed_entry({name: each for name, each in fields.items() if name != "note"}),
            "canonical form",
            twin,
            "a default is left out, and an entry writes it",
        ),
        bad(
            "entry of an unknown kind",
            "entry",
            signed_entry(fields | {"kind": "gift"}),
            "decode",
            twin,
            "no entry is of this kind",
        ),
        bad(
            "entry with a short nonce",
            "entry",
            signed_entry(fields | {"nonce": bytes(15)}),
            "decode",
            twin,
            "15 bytes of nonce",
        ),
    ]
    return taken, kept + bad_exports(evidence)


def plain_entry(body):
    return msgpack.decode(body)


def signed_entry(fields):
    body = encode(fields)
    signature = sign_head(SITE, fields["index"], entry_hash(body))
    return {"bytes": body, "signature": signature, "curator": SITE.public}


def exported(name, evidence):
    """An export, and its sums."""
    account = evidence.account
    facts = {
        "entries": account.next_index,
        "head": account.head,
        "total": str(account.total_spent),
        "spent": {key: str(spent) for key, spent in sorted(account.spent.items()) if spent},
        "replies": len(evidence.replies),
    }
    return good(name, "export", {"bytes": evidence.export, "curator": SITE.public}, facts)


def bad_exports(evidence):
    """Exports that an auditor refuses. Those whose chain was made anew are signed by the curator itself."""
    pairs, replies = evidence.pairs, evidence.replies
    entries = [decode_entry(body) for body, _ in pairs]
    place = {
        kind: next(i for i, entry in enumerate(entries) if entry.kind is kind)
        for kind in EntryKind
        if any(entry.kind is kind for entry in entries)
    }

    def export(pairs, replies=replies):
        return encode_export(pairs, replies)

    def changed(kind, **fields):
        index = place[kind]
        new = structs.replace(entries[index], **fields)
        return export(evidence.linked([*entries[:index], new, *entries[index + 1 :]]))

    def without(index):
        rest = entries[:index] + entries[index + 1 :]
        return export(evidence.linked([structs.replace(entry, index=i) for i, entry in enumerate(rest)]))

    def swapped(index):
        rest = [*pairs[:index], pairs[index + 1], pairs[index], *pairs[index + 2 :]]
        return export(rest)

    charge, reserve, close = place[EntryKind.CHARGE], place[EntryKind.RESERVE], place[EntryKind.CLOSE]
    body, signature = pairs[charge]
    touched = encode_entry(structs.replace(entries[charge], at=entries[charge].at + 1))
    again = structs.replace(entries[reserve], index=len(entries), study=b"another study...", expires_at=2 * NOW)
    second = structs.replace(entries[reserve], index=len(entries), request=bytes([9]) * 32)
    flipped = bytearray(evidence.export)
    flipped[evidence.export.index(signature) + 5] ^= 1
    backwards = encode(structs.replace(decode_export(evidence.export), replies=tuple(reversed(replies))))
    other_reply = [(replies[0][0], bytes(32)), *replies[1:]]
    cases = {
        "cut short": (evidence.export[:-1], "decode", "the last byte is missing"),
        "of another format": (
            evidence.export.replace(b"expril ledger export 2", b"expril ledger export 3"),
            "decode",
            "the format is unknown",
        ),
        "with a damaged block": (bytes(flipped), "decode", "a block has another digest than is written beside it"),
        "with replies in another order": (backwards, "canonical form", "the digests of requests fall"),
        "with a changed entry": (
            export([*pairs[:charge], (touched, signature), *pairs[charge + 1 :]]),
            "signature",
            "an entry was changed and not signed anew",
        ),
        "with a signature of another": (
            export([*pairs[:charge], (body, sign_head(LEARNER, charge, entry_hash(body))), *pairs[charge + 1 :]]),
            "signature",
            "another key signed a head",
        ),
        "without an entry": (export([*pairs[:charge], *pairs[charge + 1 :]]), "state", "an entry is missing"),
        "without its first entry": (export(pairs[1:]), "state", "the first entry is missing"),
        "with entries in another order": (swapped(charge), "state", "two entries changed places"),
        "without a charge": (without(charge), "state", "made anew: an answer without a charge"),
        "without a reservation": (without(reserve), "state", "made anew: a charge without a reservation"),
        "with a request twice": (
            export(evidence.linked([*entries, again])),
            "state",
            "made anew: a request is reserved a second time",
        ),
        "with a study twice": (
            export(evidence.linked([*entries, second])),
            "state",
            "made anew: a study is reserved a second time",
        ),
        "with a charge out of order": (
            changed(EntryKind.CHARGE, sequence=2, amount="3/1000"),
            "state",
            "made anew: the second query is charged before the first",
        ),
        "with a charge of more": (
            changed(EntryKind.CHARGE, amount="1/2"),
            "budget",
            "made anew: more is charged than was reserved",
        ),
        "with a reservation of less": (
            changed(EntryKind.RESERVE, amount="1/100"),
            "budget",
            "made anew: less is reserved than the queries cost",
        ),
        "with a refund of more": (
            changed(EntryKind.CLOSE, amount="1/2"),
            "budget",
            "made anew: more is refunded than is left",
        ),
        "without a reply": (export(pairs, replies[1:]), "state", "the digest of a kept reply is missing"),
        "with another reply": (export(pairs, other_reply), "state", "the digest of a kept reply is another"),
        "of another curator": (evidence.export, "signature", "another curator is asked for"),
    }
    assert close
    told = []
    for name, (data, rule, fault) in cases.items():
        curator = CURATOR.public if name == "of another curator" else SITE.public
        told.append(bad(f"export {name}", "export", {"bytes": data, "curator": curator}, rule, "export", fault))
    return told


def checkpoints():
    """What a curator publishes of its ledger and witnesses sign, and what is none."""
    evidence = Evidence()
    pairs = evidence.pairs
    hashes = [entry_hash(body) for body, _ in pairs]

    def of(hashes, handovers=()):
        return make_checkpoint(Tree(hashes), hashes[-1], SITE.public, handovers)

    whole, first = (sign_checkpoint(of(part), SITE) for part in (hashes, hashes[:1]))
    witnessed = with_signature(whole, cosign(whole, LEARNER, NOW + 60))
    last = decode_entry(pairs[-1][0])
    handed = encode_entry(
        structs.replace(
            last,
            index=len(pairs),
            previous=hashes[-1],
            kind=EntryKind.HANDOVER,
            learner=SUCCESSOR.public,
            study=bytes(16),
        )
    )
    after = [*hashes, entry_hash(handed), digest(b"one more entry")]
    handovers = [(len(pairs), handed, sign_head(SITE, len(pairs), entry_hash(handed)))]
    moved = sign_checkpoint(of(after, handovers), SUCCESSOR)
    cases = {"of a real ledger": whole, "of one entry": first, "with a witness": witnessed, "of a second key": moved}
    taken = []
    for name, signed in cases.items():
        checkpoint = signed.checkpoint
        facts = {
            "entries": checkpoint.size,
            "root": checkpoint.root,
            "head": checkpoint.head,
            "curators": [[place, key] for place, key in signed.curators],
            "witnesses": witnesses_of(signed),
        }
        taken.append(good(name, "checkpoint", {"text": str(signed.note)}, facts))

    def noted(checkpoint, key=SITE, text=None):
        text = checkpoint.text if text is None else text
        origin = checkpoint.origin
        return str(Note(text, (Signature(origin, key_id(origin, PLAIN, SITE.public), key.sign(text.encode())),)))

    plain_text, cosigned = str(whole.note), str(witnessed.note)
    checkpoint, line = whole.checkpoint, cosign(whole, LEARNER, NOW + 60)
    later = line._replace(content=(NOW + 61).to_bytes(8, "big") + line.content[8:])
    unproven = [(len(pairs), handed, sign_head(SUCCESSOR, len(pairs), entry_hash(handed)))]
    stolen = of(after, unproven)
    stolen_note = Note(
        stolen.text,
        (
            Signature(
                stolen.origin,
                key_id(stolen.origin, PLAIN, SUCCESSOR.public),
                SUCCESSOR.sign(stolen.text.encode()),
            ),
        ),
    )
    bads = {
        "without a signature": (checkpoint.text, "decode", "no signature follows the text"),
        "with other line ends": (plain_text.replace("\n", "\r\n"), "decode", "lines end as on another system"),
        "of another program": (
            noted(checkpoint, text=checkpoint.text.replace("expril/ledger", "other/ledger")),
            "decode",
            "the origin is no ledger's of this protocol",
        ),
        "signed by another": (noted(checkpoint, LEARNER), "signature", "another key signed under the curator's name"),
        "with a changed size": (
            plain_text.replace(f"\n{checkpoint.size}\n", f"\n{checkpoint.size + 1}\n", 1),
            "state",
            "the head is not the last of so many entries",
        ),
        "of another root": (noted(checkpoint._replace(root=bytes(32))), "state", "the head is not in the tree"),
        "of another head": (noted(checkpoint._replace(head=hashes[0])), "state", "the head is not the last entry"),
        "with a changed co-signature": (
            cosigned.replace(str(line), str(later)),
            "signature",
            "the witness signed another time",
        ),
        "of a key that nobody handed over to": (
            str(stolen_note),
            "signature",
            "the new key signed its own handover",
        ),
    }
    return taken, [
        bad(
            f"checkpoint {name}",
            "checkpoint",
            {"text": text},
            rule,
            "with a witness" if "co-signature" in name else "of a real ledger",
            fault,
        )
        for name, (text, rule, fault) in bads.items()
    ]


def journals():
    """A learner's journal, as it was written and as a crash or a fault leaves it."""
    whole = Evidence().whole.transcript.envelopes
    clock, entropy = lambda: NOW, Stream(b"journal")
    settings = Settings(version="0", about=digest(b"vectors"), receipts={SITE.public: b""})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        with Journal(path, settings, clock=clock, entropy=entropy) as journal:
            journal.entropy(16)
            for request, reply in ((whole[0], whole[1]), (whole[2], whole[3])):
                journal.clock()
                journal.exchange(Answer(reply), {SITE.public: request})
            journal.decided(b"a decision", bytes, bytes)
        data = path.read_bytes()
    records = ["begun", "drew", "read", "asked", "answered", "read", "asked", "answered", "decided"]
    first = 16 + int.from_bytes(data[:4], "big")
    broken = bytearray(data)
    broken[first + 20] ^= 1
    length = bytearray(data)
    length[3] ^= 1
    taken = [
        good("journal", "journal", {"bytes": data}, {"records": records, "complete": len(data)}),
        good("journal cut short", "journal", {"bytes": data[:-3]}, {"records": records[:-1], "complete": cut(data)}),
    ]
    return taken, [
        bad(
            "journal with a changed record",
            "journal",
            {"bytes": bytes(broken)},
            "decode",
            "journal",
            "a record has another digest",
        ),
        bad(
            "journal with a changed length",
            "journal",
            {"bytes": bytes(length)},
            "decode",
            "journal",
            "a length has another digest",
        ),
    ]


def cut(data):
    """Where the last record of a journal begins."""
    place = 0
    while place + 16 + int.from_bytes(data[place : place + 4], "big") < len(data):
        place += 16 + int.from_bytes(data[place : place + 4], "big")
    return place


class Answer:
    """A carrier with one reply."""

    def __init__(self, reply):
        self.reply = reply

    def exchange(self, requests):
        return dict.fromkeys(requests, self.reply)


def secure_keys():
    keys = (SigningKey.from_seed(bytes([number]) * 32) for number in range(11, 15))
    return sorted(keys, key=lambda key: key.public)


def secure_seeds():
    seeds = [bytes([number]) * 32 for number in range(11, 15)]
    return sorted(seeds, key=lambda seed: SigningKey.from_seed(seed).public)


def secure_planned():
    return PlannedSecureCounts(
        release="mass",
        partitions=1,
        scale=Rational(30, 1),
        turns=5,
        participants=tuple(key.public for key in secure_keys()),
        colluders=1,
        dropouts=1,
    )


class SecureSum:
    """A round of four curators, of whom the third falls silent after it dealt: every body and release, and the sum."""

    def __init__(self):
        keys, self.planned = secure_keys(), secure_planned()
        planned = self.planned
        group, sent = planned.group(LABEL), AskKeys(encode(BODIES["constant"]), bytes(range(16)))
        self.question = question = question_digest(LEARNER.public, Turn(planned), sent)
        machine = Aggregator(group, question, 2)
        self.entropies = [Stream(bytes([index])) for index in range(4)]
        self.values = [[index + 1, -(2**40)] for index in range(4)]
        self.steps, states = [], {}

        def turn(bodies, answer):
            """Each answers its body; what is sent and released, by index."""
            released = {index: answer(index, body) for index, body in bodies.items()}
            encoded = [{str(index): encode(each) for index, each in side.items()} for side in (bodies, released)]
            self.steps.append(dict(zip(("bodies", "releases"), encoded, strict=True)))
            return released

        def signing(index):
            return lambda type_name, payload: keys[index].sign(statement_bytes(LABEL, type_name, payload))

        def begin(index, body):
            identity, entropy = planned.participants[index], self.entropies[index]
            card, states[index] = participant.begin(group, identity, question, 2, entropy=entropy, sign=signing(index))
            return card

        def deal(index, body):
            sealed, states[index] = participant.share(group, states[index], body.cards, entropy=self.entropies[index])
            return SealedShares(sealed)

        def mask(index, body):
            values = np.array(self.values[index], np.int64)
            words, states[index] = participant.mask(states[index], body.dealers, body.shares, values)
            return MaskedCounts(words.astype("<u8").tobytes())

        def agree(index, body):
            signature, states[index] = participant.agree(states[index], body.survivors, sign=signing(index))
            return Agreement(signature)

        cards = machine.take_cards(turn(dict.fromkeys(range(4), sent), begin))
        sealed = turn(dict.fromkeys(range(4), RelayCards(cards)), deal)
        dealt = machine.take_shares({index: each.shares for index, each in sealed.items()})
        survivors = [0, 1, 3]
        masked = turn({index: RelayShares(*dealt[index], sent.counts, sent.nonce) for index in survivors}, mask)
        listed = machine.take_masked({index: as_words(each.words) for index, each in masked.items()})
        signed = turn(dict.fromkeys(survivors, ProposeSurvivors(listed)), agree)
        agreements = machine.take_agreements({index: each.signature for index, each in signed.items()})
        shown = turn(
            dict.fromkeys(survivors, OpenSum(listed, agreements)),
            lambda index, _: Revealed(participant.reveal(states[index])),
        )
        self.opened = machine.take_revealed({index: each.shares for index, each in shown.items()})


def secure_counts():
    """A sum as the learner opens it, and as each curator takes part in it."""
    round_ = SecureSum()
    given = {"learner": LEARNER.public, "label": LABEL, "planned": encode(round_.planned), "schema": encode(SCHEMA)}
    opened = {
        "question": round_.question,
        "survivors": list(round_.opened.survivors),
        "sum": round_.opened.values.tolist(),
    }
    taken = [
        good("planned", "value", {"bytes": given["planned"]}, {"value": plain(given["planned"])}),
        good("sum", "secure_sum", given | {"turns": round_.steps}, opened),
    ]
    for index, seed in enumerate(secure_seeds()):
        bodies = [step["bodies"].get(str(index)) for step in round_.steps]
        releases = [step["releases"].get(str(index)) for step in round_.steps]
        own = {"seed": seed, "draws": round_.entropies[index].draws, "values": round_.values[index]}
        part = given | own | {"bodies": [body for body in bodies if body is not None]}
        taken.append(
            good(f"part of {index}", "secure_part", part, {"releases": [each for each in releases if each is not None]})
        )
    return taken, bad_parts(round_, given)


def bad_parts(round_, given):
    """What a curator refuses where a learner lies: each is the last body of a part that was honest before."""
    bodies = [step["bodies"]["0"] for step in round_.steps]
    own = {"seed": secure_seeds()[0], "draws": round_.entropies[0].draws, "values": round_.values[0]}
    relayed, shares, _, opening = (
        decode(data, kind)
        for data, kind in zip(bodies[1:], (RelayCards, RelayShares, ProposeSurvivors, OpenSum), strict=True)
    )
    cards = relayed.cards
    forged = structs.replace(cards[1][1], signature=bytes(64))
    wrong_signature = ((0, opening.agreements[0][1]), (1, bytes(64)), *opening.agreements[2:])
    cases = {
        "a forged card": (1, RelayCards((cards[0], (1, forged), *cards[2:])), "signature"),
        "too few cards": (1, RelayCards(cards[:2]), "state"),
        "its own card left out": (1, RelayCards(cards[1:]), "state"),
        "a share left out": (2, structs.replace(shares, shares=shares.shares[1:]), "state"),
        "too few dealers": (2, structs.replace(shares, dealers=(0, 1), shares=shares.shares[:1]), "state"),
        "too few survivors": (3, ProposeSurvivors((0, 1)), "state"),
        "a survivor that did not deal": (3, ProposeSurvivors((0, 1, 7)), "state"),
        "another list than it signed": (4, structs.replace(opening, survivors=(0, 1, 2)), "state"),
        "a forged agreement": (4, structs.replace(opening, agreements=wrong_signature), "signature"),
        "too few agreements": (4, structs.replace(opening, agreements=opening.agreements[:1]), "state"),
    }
    return [
        bad(
            f"part with {name}",
            "secure_part",
            given | own | {"bodies": [*bodies[:number], encode(body)]},
            rule,
            "part of 0",
            name,
            "bad_query",
        )
        for name, (number, body, rule) in cases.items()
    ]
