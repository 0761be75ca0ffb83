"""Writes the known-answer vectors of the conformance suite: `python tests/protocol/vectors/generate.py [FOLDER]`.

They pin the wire format. A change of any of them is a change of the protocol: raise the version and the labels.
"""

import json
import sys
from pathlib import Path

import numpy as np
from msgspec import msgpack, structs

import vector_evidence
import vector_ledgers
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.blog_holdout import BlogHoldoutBody, BlogHoldoutRelease, PlannedBlogHoldout
from protocol.codec import decode, encode
from protocol.envelopes import (
    LABEL,
    NOT_PRIVATE_LABEL,
    Envelope,
    SigningKey,
    digest,
    encode_parts,
    open_envelope,
    request_digest,
    seal,
    sign_payload,
)
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.grids import LevelAxis, NumberAxis
from protocol.hypotheses import Constant, Mlp
from protocol.identity import LABEL as LABEL_OF_CARDS
from protocol.identity import TYPE, IdentityCard, armour, fingerprint, succession, write_identity
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.kinds.model import MODEL, ModelBody, ModelRelease
from protocol.kinds.models.forest import random_trees
from protocol.kinds.models.linear import cosines, frequencies
from protocol.kinds.models.method import words
from protocol.kinds.sample import PlannedSample, SampleBody, SampleRelease
from protocol.kinds.statistic import PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.items import Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Smooth
from protocol.messages import NO_DIGEST, Refusal
from protocol.partitions import CrossBins, FeatureBins, ProjectionBins, Range, ScoreBins, TreeLeaves
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import NumericAttribute, Schema
from vector_parts import (
    BODIES,
    CURATOR,
    DECLARED,
    FOLLOWED,
    LEARNER,
    MAP,
    OTHER_LABELS,
    OTHER_QUERIES,
    OUTCOME_QUERY,
    PLAN,
    RELEASE,
    SCHEMA,
    SEEDS,
    SHORT_MAP,
    SUCCESSOR,
    WEIGHTS,
    bad,
    good,
    int32s,
    plain,
    study,
)

FOLDER = Path(__file__).resolve().parents[3] / "conformance" / "expril_conformance" / "vectors"


def value(name, content):
    """Any value of the wire: its bytes, and what they say."""
    data = encode(content)
    return good(name, "value", {"bytes": data}, {"value": plain(data)})


def answer(name, kind, schema, planned, body, release, *, number=0, **more):
    """One turn of a planned query: what it costs where a unit has one record, and the numbers that were released."""
    turn, of_kind = Turn(planned, 0, number), QUERY_KINDS[kind]
    terms = KindTerms(schema, of_kind.limits())
    question = Question(turn, of_kind.read_body(encode(body), turn, terms), schema)
    numbers = of_kind.read_release(encode(release), question).tolist()
    asked = {"kind": kind, "schema": encode(schema), "planned": encode(planned), "turn": number, "body": encode(body)}
    taken = {"cost": str(QUERY_KINDS.cost(planned, 1)), "numbers": numbers, **more}
    return good(name, "answer", asked | {"release": encode(release)}, taken)


def numbers_for(kind, schema, planned, body):
    """A release of counts with the numbers 0, 1, 2, ..."""
    turn = Turn(planned)
    count = QUERY_KINDS[kind].length(Question(turn, body, schema))
    return CountsRelease(np.arange(count, dtype="<i8").tobytes(), b"")


def keys():
    """Seeds and public keys, a derived secret, and public keys that anybody could hold."""
    pairs = {**SEEDS, "curator of the studies": vector_evidence.CURATOR_SEED}
    small = {
        "zeros": bytes(32),
        "one": bytes([1, *bytes(31)]),
        "the prime less one": (2**255 - 20).to_bytes(32, "little"),
    }
    return [
        *(
            good(name, "key", {"seed": seed}, {"public": SigningKey.from_seed(seed).public})
            for name, seed in pairs.items()
        ),
        good(
            "units", "derived_key", {"seed": SEEDS["curator"], "purpose": "units"}, {"secret": CURATOR.derive("units")}
        ),
        good("public", "public_key", {"public": CURATOR.public}, {"public": CURATOR.public}),
    ], [
        bad(
            f"public key {name}",
            "public_key",
            {"public": key},
            "signature",
            "public",
            "a point of small order: anybody can sign under it",
        )
        for name, key in small.items()
    ]


def opened(name, data, signer, label=LABEL):
    """An envelope as its reader takes it."""
    envelope, _ = open_envelope(data)
    return good(
        name,
        "envelope",
        {"bytes": data, "signer": signer, "label": label},
        {
            "type": envelope.type,
            "payload": envelope.payload,
            "signed": encode_parts(label.encode(), envelope.type.encode(), envelope.payload),
            "signature": envelope.signature,
            "digest": digest(data),
            "request_digest": request_digest(signer, envelope.type, envelope.payload),
            "message": plain(envelope.payload),
        },
    )


def envelopes():
    """The messages of one study in their envelopes, and what is none."""
    exchange = study()
    taken = [
        opened(open_envelope(data)[0].type, data, message.sender)
        for message, data in zip(exchange.messages, exchange.transcript.envelopes, strict=True)
    ]
    names = set()
    for vector in taken:
        if vector["name"] in names:
            vector["name"] += " again"
        names.add(vector["name"])
    seeded = seal(exchange.messages[0], CURATOR, label=NOT_PRIVATE_LABEL)
    taken.append(opened("not private", seeded, CURATOR.public, NOT_PRIVATE_LABEL))
    return taken, bad_envelopes(exchange)


def bad_envelopes(exchange):
    """Envelopes that are refused, all of the learner's first message."""
    request = exchange.transcript.envelopes[0]
    envelope, message = open_envelope(request)
    payload = envelope.payload

    def sealed(**changes):
        parts = {"label": envelope.label, "type": envelope.type, "payload": payload, "signature": envelope.signature}
        return encode(Envelope(**(parts | changes)))

    def signed(data):
        return sign_payload(envelope.type, data, LEARNER, LABEL)

    def relabelled(label):
        return seal(message, LEARNER, label=label)

    other_version = payload.replace(b"\xa7version\x02", b"\xa7version\x01")
    fields = msgpack.decode(payload)
    decoding, canonical, signature = "decode", "canonical form", "signature"
    cases = {
        "empty": (b"", decoding, "no byte"),
        "truncated": (request[:-1], decoding, "the last byte is missing"),
        "trailing byte": (request + b"\x00", decoding, "a byte follows the envelope"),
        "unknown type": (sealed(type="hello"), decoding, "no message has this type"),
        "receipt as a message": (sealed(type="receipt"), decoding, "a receipt is no message"),
        "short signature": (sealed(signature=bytes(63)), decoding, "63 bytes of signature"),
        "payload of another type": (sealed(type="card"), decoding, "the payload lacks the fields of its type"),
        "wider integer": (
            sealed(payload=payload.replace(b"\xa8sequence\x00", b"\xa8sequence\xcc\x00")),
            canonical,
            "an integer takes two bytes where one is enough",
        ),
        "unknown field": (sealed(payload=b"\x88" + payload[1:] + b"\xa1x\x00"), decoding, "a field of no message"),
        "duplicated field": (
            sealed(payload=b"\x88" + payload[1:] + b"\xa8sequence\x00"),
            canonical,
            "a field stands there twice",
        ),
        "other version": (sealed(payload=other_version), decoding, "version 1 in the payload"),
        "version 1": (relabelled("expril/1"), decoding, "the label of version 1"),
        "version 1, not private": (relabelled("expril/1 simulation, not private"), decoding, "a label of version 1"),
        "forged signature": (sealed(signature=bytes(64)), signature, "zeros for a signature"),
        "changed payload": (sealed(payload=payload[:-1] + b"\x59"), signature, "changed after it was signed"),
        "changed type": (sealed(type="study_close"), signature, "the type was changed after it was signed"),
        "seeded label": (relabelled(NOT_PRIVATE_LABEL), signature, "signed as a simulation's"),
        "seeded signature relabelled": (
            sealed(signature=open_envelope(relabelled(NOT_PRIVATE_LABEL))[0].signature),
            signature,
            "a simulation's signature under the other label",
        ),
        "signed wider integer": (
            signed(payload.replace(b"\xa8sequence\x00", b"\xa8sequence\xcc\x00")),
            canonical,
            "well signed, but an integer takes two bytes where one is enough",
        ),
        "signed in another order": (
            signed(encode(dict(sorted(fields.items())))),
            canonical,
            "well signed, but the fields are in the order of the alphabet",
        ),
        "signed as a wider map": (
            signed(b"\xde\x00\x07" + payload[1:]),
            canonical,
            "well signed, but the map's head takes three bytes where one is enough",
        ),
        "signed as a wider text": (
            signed(payload.replace(b"\xa6sender", b"\xd9\x06sender")),
            canonical,
            "well signed, but a key's head takes two bytes where one is enough",
        ),
        "signed with a float": (
            signed(encode(fields | {"sequence": 0.0})),
            decoding,
            "well signed, but the sequence is a float",
        ),
        "signed with a text for bytes": (signed(encode(fields | {"study": "0" * 16})), decoding, "a text for bytes"),
        "signed without a field": (
            signed(encode({name: field for name, field in fields.items() if name != "answers"})),
            decoding,
            "well signed, but a field is missing",
        ),
    }
    given = {"signer": LEARNER.public, "label": LABEL}
    codes = {decoding: RefusalCode.MALFORMED, canonical: RefusalCode.MALFORMED, signature: RefusalCode.BAD_SIGNATURE}
    return [
        bad(name, "envelope", {"bytes": data} | given, rule, "card_request", fault, codes[rule])
        for name, (data, rule, fault) in cases.items()
    ]


def identities():
    """Identity cards as texts, their fingerprints, and texts that are none."""
    first = IdentityCard(role="learner", name="Ann Müller", contact="ann@example.org", key=LEARNER.public, issued=1000)
    chain = (succession(LEARNER, SUCCESSOR.public, "learner", 2000),)
    second = IdentityCard(
        role="learner", name="Ann", organisation="B", key=SUCCESSOR.public, issued=2000, until=9000, successions=chain
    )
    curator = IdentityCard(role="curator", name="ward", key=CURATOR.public, issued=1000)
    cards = {"first": (first, LEARNER), "successor": (second, SUCCESSOR), "curator": (curator, CURATOR)}
    written = {name: write_identity(*pair) for name, pair in cards.items()}
    foreign = IdentityCard(role="learner", name="Eve", key=LEARNER.public, issued=1000)
    stolen = IdentityCard(role="curator", name="ward", key=SUCCESSOR.public, issued=2000, successions=chain)
    cases = {
        "signed by another key": (
            armour(sign_payload(TYPE, encode(foreign), CURATOR, LABEL_OF_CARDS)),
            "signature",
            "another key than the card's signed it",
        ),
        "signed as a message": (
            armour(sign_payload(TYPE, encode(first), LEARNER, LABEL)),
            "signature",
            "the label of messages, not of cards",
        ),
        "of another type": (
            armour(sign_payload("card", encode(first), LEARNER, LABEL_OF_CARDS)),
            "decode",
            "the type is another",
        ),
        "with a succession in another role": (
            armour(sign_payload(TYPE, encode(stolen), SUCCESSOR, LABEL_OF_CARDS)),
            "signature",
            "the succession was signed for a learner",
        ),
        "cut short": (
            written["first"].replace(written["first"].splitlines()[2] + "\n", ""),
            "decode",
            "a line is missing",
        ),
        "without an end": (written["first"].split("-----END")[0], "decode", "the last line is missing"),
        "twice": (written["first"] * 2, "decode", "two cards in one text"),
        "nothing": ("", "decode", "no text"),
    }
    taken = [
        good(
            name,
            "identity",
            {"text": text},
            {
                "label": LABEL_OF_CARDS,
                "role": cards[name][0].role,
                "name": cards[name][0].name,
                "key": cards[name][0].key,
                "fingerprint": fingerprint(cards[name][0].role, cards[name][0].key),
                "previous": [each.previous for each in cards[name][0].successions],
            },
        )
        for name, text in written.items()
    ]
    refused = [
        bad(name, "identity", {"text": text}, rule, "first", fault) for name, (text, rule, fault) in cases.items()
    ]
    return taken, refused


def schemas():
    """Schemas as cards show them."""
    return [
        value(name, schema) for name, schema in {"of the study": SCHEMA, **OTHER_LABELS, **DECLARED, **FOLLOWED}.items()
    ], []


def counts():
    """Questions about counts, with a release of each; and questions that are refused."""
    taken = [
        value("release", RELEASE),
        *(value(f"body {name}", body) for name, body in BODIES.items()),
        answer("of the study", "counts", SCHEMA, vector_planned("mass", 2, 30), BODIES["mass"], RELEASE),
    ]
    for name, body in BODIES.items():
        planned = vector_planned("mass" if body.hypothesis is None else "signed_error", len(body.partitions), 1)
        taken.append(answer(name, "counts", SCHEMA, planned, body, numbers_for("counts", SCHEMA, planned, body)))
    planned = vector_planned("error_correct", 1, 8)
    taken.append(
        answer(
            "error_correct",
            "counts",
            SCHEMA,
            planned,
            BODIES["constant"],
            numbers_for("counts", SCHEMA, planned, BODIES["constant"]),
        )
    )
    for release, (label, planned, body) in OTHER_QUERIES.items():
        schema = OTHER_LABELS[label]
        taken.append(answer(release, "counts", schema, planned, body, numbers_for("counts", schema, planned, body)))
    planned, body = OUTCOME_QUERY
    schema = FOLLOWED["entry"]
    taken.append(
        answer("outcome_counts", "counts", schema, planned, body, numbers_for("counts", schema, planned, body))
    )
    return [*taken, *counted_cases()], bad_bodies()


ROWS = {
    "age": [29.999, 30.0, 60.499, 60.5, None, -5.0, 200.0, 0.0, 120.0, 44.0, 39.99, 71.0],
    "sex": ["f", "m", "m", "f", "f", "x", None, "m", "f", "f", "m", "F"],
    "sick": ["yes", "no", "yes", "no", "yes", "no", "yes", "yes", "no", "no", "yes", "no"],
    "stage": ["i", "ii", "iii", "i", "ii", "iii", "i", "ii", "iii", "i", "i", "i"],
    "days": [0.0, 30.0, 29.9, 364.9, 365.0, 12.5, 400.0, 1.0, 200.0, 90.0, 365.0, 31.0],
    "entry": [0.0, 30.0, 29.9, None, 0.0, 0.0, 100.0, 0.0, 50.0, 0.0, 300.0, 1.0],
    "end": ["alive", "death", "relapse", "death", "lost", None, "alive", "death", "alive", "relapse", "death", "x"],
}
"""Records at the ends of bins and beyond them, with missing values and levels that are not declared."""


def counted(name, schema, planned, body):
    """What a curator counts among records, before it adds noise."""
    variables = [variable.name for variable in (*schema.attributes, *schema.outcomes)]
    columns = list(dict.fromkeys([*variables, schema.label]))
    records = {
        "columns": columns,
        "rows": [list(row) for row in zip(*(ROWS[column] for column in columns), strict=True)],
    }
    numbers = vector_evidence.holding(schema, records).exact(body, planned)
    asked = {"schema": encode(schema), "planned": encode(planned), "body": encode(body), "records": records}
    return good(f"among records, {name}", "count", asked, {"numbers": numbers.ravel().tolist()})


def counted_cases():
    """Every kind of partition, and every kind of release."""
    for name, body in BODIES.items():
        release = {"signed_error": "signed_error", "constant": "error_correct"}.get(name, "mass")
        yield counted(name, SCHEMA, vector_planned(release, len(body.partitions), 1), body)
    for release, (label, planned, body) in OTHER_QUERIES.items():
        yield counted(release, OTHER_LABELS[label], planned, body)
    yield counted("outcome_counts", FOLLOWED["entry"], *OUTCOME_QUERY)


def vector_planned(release, partitions, scale):
    return PlannedCounts(release=release, partitions=partitions, scale=Rational(scale, 1))


def bad_bodies():
    """Bodies that a curator refuses where it waits for the masses of two partitions."""

    def two(*partitions, hypothesis=None, **fields):
        return encode(CountsBody(partitions, hypothesis, **fields))

    body, sex = encode(BODIES["mass"]), FeatureBins("sex", ())
    circle = int32s(0, 0, -1, -2) + int32s(0, 0, 2, -3) + int32s(0, 0, 1, -4)
    malformed, wrong = RefusalCode.MALFORMED, RefusalCode.BAD_QUERY
    narrow = bytes.fromhex("cb403e000000000000"), bytes.fromhex("ca41f00000")
    cases = {
        "body truncated": (body[:-1], malformed, "decode", "the last byte is missing"),
        "body with a 32-bit edge": (body.replace(*narrow), malformed, "canonical form", "a float of 32 bits"),
        "body with falling edges": (two(FeatureBins("age", (2.0, 1.0)), sex), wrong, "content", "edges fall"),
        "body with another attribute": (two(FeatureBins("sick", ()), sex), wrong, "content", "no such attribute"),
        "body with a hypothesis for masses": (
            two(*BODIES["mass"].partitions, hypothesis=Constant(0)),
            wrong,
            "content",
            "masses are counted without a hypothesis",
        ),
        "body with a score of another width": (
            two(ScoreBins(Mlp(SHORT_MAP, WEIGHTS), ()), sex),
            wrong,
            "content",
            "weights for more features than there are",
        ),
        "body with score edges closer than a step": (
            two(ScoreBins(Mlp(MAP, WEIGHTS), (1.0, 1.0 + 2.0**-26)), sex),
            wrong,
            "content",
            "two edges on one step of the scores' grid",
        ),
        "body with half a direction": (
            two(ProjectionBins(MAP, bytes(8), ((),)), sex),
            wrong,
            "content",
            "a direction has fewer numbers than there are features",
        ),
        "body with a leaf that no node leads to": (
            two(TreeLeaves(MAP, int32s(0, 0, -1, -1)), sex),
            wrong,
            "content",
            "a leaf has no number of its own",
        ),
        "body with nodes that lead to each other": (
            two(TreeLeaves(MAP, circle), sex),
            wrong,
            "content",
            "nodes go round in a circle",
        ),
        "body with a range of errors for masses": (
            two(*BODIES["mass"].partitions, most_squared_error=1),
            wrong,
            "content",
            "masses have no errors",
        ),
        "body with a label for masses": (
            two(CrossBins((FeatureBins("sick", ()),)), sex),
            wrong,
            "content",
            "masses are told by attributes alone",
        ),
        "body with a filter by label for masses": (
            two(CrossBins((sex,), (Range(FeatureBins("sick", ()), (0,)),)), sex),
            wrong,
            "content",
            "masses are told by attributes alone",
        ),
        "body with a cell that a filter has not": (
            two(CrossBins((sex,), (Range(sex, (0, 4)),)), sex),
            wrong,
            "content",
            "the filter names a cell that there is not",
        ),
        "body with a written default": (
            b"\x83" + body[1:] + b"\xb2most_squared_error\xc0",
            malformed,
            "canonical form",
            "a field has its default, which is omitted",
        ),
        "body of another size": (
            two(BODIES["mass"].partitions[0]),
            RefusalCode.NOT_IN_PLAN,
            "state",
            "one partition where two are planned",
        ),
    }
    asked = {"kind": "counts", "schema": encode(SCHEMA), "planned": encode(vector_planned("mass", 2, 30)), "turn": 0}
    return [
        bad(name, "answer", asked | {"body": data, "release": encode(RELEASE)}, rule, "of the study", fault, code)
        for name, (data, code, rule, fault) in cases.items()
    ] + [
        bad(
            f"release {name}",
            "answer",
            asked | {"body": body, "release": data},
            "content" if rule == "content" else rule,
            "of the study",
            fault,
            malformed,
        )
        for name, (data, rule, fault) in {
            "with a number too few": (
                encode(CountsRelease(RELEASE.counts[:-8], b"")),
                "content",
                "seven numbers for eight cells",
            ),
            "with ratios": (encode(CountsRelease(RELEASE.counts, bytes(8))), "content", "ratios where counts are due"),
            "cut short": (encode(RELEASE)[:-1], "decode", "the last byte is missing"),
        }.items()
    ]


def plans():
    """Plans with what they cost, and plans that are refused."""
    first, second = PLAN.queries

    def plan(*queries):
        return encode(
            {"queries": [msgpack.decode(bytes(query)) if not isinstance(query, dict) else query for query in queries]}
        )

    def counts_query(**changes):
        return {"kind": "counts", "release": "mass", "partitions": 1, "scale": [30, 1]} | changes

    primes = (4_294_967_291, 4_294_967_279)
    scaled = [counts_query(scale=[prime, 1]) for prime in primes]
    planned_secure = vector_evidence.secure_planned()
    planned_holdout = encode(holdout_plan())
    cases = {
        "of the study": (plan(first, second), 1),
        "with units of three records": (plan(first, second), 3),
        "with steps": (plan(counts_query(release="label_total", scale=[1000, 1], steps=1000)), 1),
        "of a secure sum": (plan(encode(planned_secure)), 1),
        "of two kinds": (plan(first, planned_holdout), 1),
    }
    taken = []
    for name, (data, records) in cases.items():
        read = decode(data, type(PLAN))
        facts = {
            "cost": str(QUERY_KINDS.plan_cost(read, records)),
            "turns": len(read.places),
            "costs": list(map(str, QUERY_KINDS.costs(read, records))),
            "value": plain(data),
        }
        taken.append(good(name, "plan", {"bytes": data, "records": records}, facts))
    malformed, wrong, unknown = RefusalCode.MALFORMED, RefusalCode.BAD_PLAN, RefusalCode.UNKNOWN_KIND
    bads = {
        "without a query": (plan(), malformed, "decode", "no query"),
        "with a scale of zero": (plan(counts_query(scale=[0, 1])), malformed, "decode", "a scale is positive"),
        "with a scale not in lowest terms": (
            plan(counts_query(scale=[60, 2])),
            malformed,
            "decode",
            "60/2 is written 30/1",
        ),
        "with a scale beyond 32 bits": (
            plan(counts_query(scale=[2**32, 1])),
            malformed,
            "decode",
            "a numerator of 33 bits",
        ),
        "with a written default": (
            plan(counts_query(steps=1)),
            malformed,
            "canonical form",
            "a field has its default, which is omitted",
        ),
        "of an unknown kind": (plan(counts_query(kind="telepathy")), unknown, "content", "no such kind"),
        "of an unknown release": (plan(counts_query(release="all")), wrong, "content", "no such release"),
        "with steps for masses": (plan(counts_query(steps=2)), wrong, "content", "masses have no steps"),
        "with a cost beyond 32 bits": (
            plan(counts_query(partitions=100, scale=[1, 2**32 - 1])),
            wrong,
            "budget",
            "the cost needs more than 32 bits",
        ),
        "with a sum beyond 32 bits": (plan(*scaled), wrong, "budget", "the sum of the costs needs more than 32 bits"),
        "with too many turns": (
            plan(*[msgpack.decode(planned_holdout) | {"turns": 100_000}] * 2),
            malformed,
            "decode",
            "more than 100,000 turns together",
        ),
    }
    return taken, [
        bad(name, "plan", {"bytes": data, "records": 1}, rule, "of the study", fault, code)
        for name, (data, code, rule, fault) in bads.items()
    ]


def refusals():
    """What a refusal means to the learner that gets it, by its code and recipient."""
    taken = []
    for addressed in (True, False):
        for code in RefusalCode:
            refusal = Refusal(
                study=bytes(16),
                sender=CURATOR.public,
                recipient=LEARNER.public if addressed else bytes(32),
                sequence=0,
                answers=NO_DIGEST,
                expires_at=0,
                code=code,
                explanation=EXPLANATIONS[code],
                field="",
                limit="",
                remaining="",
                scale_factor="",
            )
            taken.append(
                good(
                    f"{code}{'' if addressed else ', to nobody'}",
                    "refusal",
                    {"payload": encode(refusal)},
                    {"code": code.value, "final": refusal.final, "rules_out": refusal.rules_out},
                )
            )
    other = encode(structs.replace(refusal, code="because"))
    amount = encode(structs.replace(refusal, remaining="0.5"))
    return taken, [
        bad("of an unknown code", "refusal", {"payload": other}, "decode", "busy", "the protocol has no such code"),
        bad("with a decimal", "refusal", {"payload": amount}, "decode", "busy", "an amount is written 1/2"),
    ]


def holdout_plan():
    return PlannedHoldout(
        turns=500,
        answers=3,
        resolution=1000,
        threshold=60,
        threshold_scale=Rational(20_000, 3),
        comparison_scale=Rational(80_000, 9),
        count_scale=Rational(8, 1),
    )


def holdout():
    """A planned holdout, a question, both answers; and what a simulation's `blog_holdout` asks and answers."""
    planned = holdout_plan()
    between = structs.replace(planned, least_estimate=300, most_estimate=700)
    body = HoldoutBody(Constant(1), 745)
    close, told = HoldoutRelease(2, None), HoldoutRelease(3, (-7, 2**40))
    parts = {
        "planned": planned,
        "planned between": between,
        "body": body,
        "close": close,
        "counts": told,
        "blog planned": PlannedBlogHoldout(turns=2, tolerance=Rational(1, 25), records=1000),
        "blog body": BlogHoldoutBody(Constant(1), None, 0.5),
        "blog release": BlogHoldoutRelease(0.25),
    }
    return [
        *(value(name, part) for name, part in parts.items()),
        answer("close to it", "holdout", SCHEMA, planned, body, close),
        answer("far from it", "holdout", SCHEMA, planned, body, told),
        answer("between", "holdout", SCHEMA, between, HoldoutBody(Constant(1), 500), told),
    ], [
        bad(
            "an estimate outside of the plan's range",
            "answer",
            {
                "kind": "holdout",
                "schema": encode(SCHEMA),
                "planned": encode(between),
                "turn": 0,
                "body": encode(body),
                "release": encode(told),
            },
            "content",
            "between",
            "745 of 1000, where the plan says 300 to 700",
            RefusalCode.BAD_QUERY,
        )
    ]


def sample():
    """A planned sample on all three kinds of axes, its body and a release."""
    axes = (NumberAxis("age", 18, 90, 300, 45.0, 12.5), NumberAxis("x", -1, 1, 2), LevelAxis("sex"), LevelAxis("sick"))
    planned = PlannedSample(records=2, epsilon=Rational(1, 20), axes=axes, rounds=2, learner="naive_bayes", batch=0)
    release = SampleRelease(bytes([43, 1, 1, 0, 1, 0, 0, 0, *bytes(8)]))
    second = structs.replace(planned, version=2)
    schema = Schema((*SCHEMA.attributes, NumericAttribute("x", -1, 1)), SCHEMA.label, SCHEMA.classes)
    return [
        value("planned", planned),
        value("planned version 2", second),
        value("body", SampleBody()),
        value("release", release),
        answer("two records", "sample", schema, planned, SampleBody(), release),
        answer("two records, version 2", "sample", schema, second, SampleBody(), release),
    ], []


def statistic():
    """A plan, a question and a release of each method."""
    half, grid = Rational(1, 2), Grid(0.0, 120.0, 120)
    median, mean = Quantile("age", half, grid), Estimate("mean", ("age",), grid)
    chosen = Selection((FeatureBins("age", (60.5,)), FeatureBins("sex", ())), (1, 3))
    cases = {
        "exponential": (Exponential(Rational(2, 1), 1), median, (48,)),
        "smooth": (Smooth(Rational(5, 1), Rational(1, 8)), median, (51,)),
        "smooth, version 2": (Smooth(Rational(5, 1), Rational(1, 8), version=2), median, (51,)),
        "aggregate_mean": (AggregateMean(50, 120, Rational(120, 1)), mean, (-7,)),
        "aggregate_median": (AggregateMedian(50, Rational(2, 1)), mean, (47,)),
        "features": (Features(2, 3, Rational(6, 1)), chosen, (1, 0)),
    }
    return [
        answer(
            name,
            "statistic",
            SCHEMA,
            PlannedStatistic(method=method),
            StatisticBody((item,)),
            StatisticRelease(np.array(numbers, "<i8").tobytes()),
        )
        for name, (method, item, numbers) in cases.items()
    ], []


def models():
    """A plan, body and release of each method, what a unit of two records moves it by, and public randomness."""
    taken = []
    for name, (_, example) in AUDITED_KINDS.audits["model"].examples().items():
        questions = example.ask(2)
        planned, (body,) = questions.planned, questions.bodies
        read = decode(body, ModelBody)
        count = sum(MODEL.lengths(Question(Turn(planned), read, example.schema)))
        release = ModelRelease(b"".join(n.to_bytes(8, "little") for n in range(count)))
        taken.append(answer(name, "model", example.schema, planned, read, release, sensitivity=planned.sensitivity(2)))
    (tree,) = random_trees(FeatureMap((NumericFeature("age", 0.0, 1.0, 0.0),)), 1, 3, 4096, 9)
    drawn = {
        "words": ({"seed": 9, "purpose": "trees", "count": 4}, words(9, "trees", 4).tolist()),
        "tree": ({"seed": 9, "features": 1, "depth": 3, "step": 4096}, tree.table.tolist()),
        "frequencies": ({"seed": 9, "features": 2, "count": 3}, frequencies(9, 2, 3).astype(int).tolist()),
        "cosines": ({"turns": 100, "count": 3, "every": 512}, cosines(100, 3)[::512].astype(int).tolist()),
    }
    return [
        *taken,
        *(
            good(name, "randomness", {"of": name, **given}, {"numbers": numbers})
            for name, (given, numbers) in drawn.items()
        ),
    ], []


FILES = {
    "keys": (keys, "Ed25519 keys, and public keys under which anybody could sign."),
    "envelopes": (envelopes, "Signed envelopes: the messages of one study, the signed bytes and the digests."),
    "identities": (identities, "Identity cards as texts, with their fingerprints."),
    "schemas": (schemas, "Schemas of records, as a card shows them."),
    "plans": (plans, "Plans and their exact costs."),
    "counts": (counts, "The query kind counts: questions, releases, and questions that a curator refuses."),
    "secure_counts": (
        vector_evidence.secure_counts,
        "The query kind secure_counts: a sum of four curators in five turns.",
    ),
    "holdout": (holdout, "The query kind holdout, and a simulation's blog_holdout."),
    "sample": (sample, "The query kind sample."),
    "model": (models, "The query kind model, and the public randomness of its methods."),
    "statistic": (statistic, "The query kind statistic."),
    "refusals": (refusals, "What each refusal means to the learner that gets it."),
    "receipts": (vector_evidence.receipts, "Receipts: what a curator signs about its ledger."),
    "transcripts": (vector_evidence.transcripts, "Whole exchanges of one learner with one curator, replayed."),
    "ledgers": (vector_evidence.ledgers, "Entries and exports of ledgers: chain, heads, charges."),
    "checkpoints": (vector_evidence.checkpoints, "Checkpoints of ledgers, and what witnesses sign."),
    "ledger_kinds": (
        vector_ledgers.ledgers,
        "Ledgers with entries of every kind, and each of their rules broken once.",
    ),
    "journals": (vector_evidence.journals, "The journal of a learner's study."),
}


def vectors():
    """File name -> content."""
    told = {}
    for name, (make, about) in FILES.items():
        taken, refused = make()
        told[f"{name}.json"] = {"format": "expril vectors 1", "about": about, "good": taken, "bad": refused}
    return told


def text(content):
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, content in vectors().items():
        (folder / name).write_text(text(content), encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")
