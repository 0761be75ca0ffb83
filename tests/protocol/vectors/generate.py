"""Writes the known-answer vectors beside this file: `python tests/protocol/vectors/generate.py`.

They pin the wire format. A change of any of them is a change of the protocol: raise the version and the labels.
"""

import json
import sys
from pathlib import Path

import numpy as np
from msgspec import structs

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.blog_holdout import BlogHoldoutBody, BlogHoldoutRelease, PlannedBlogHoldout
from protocol.codec import decode, encode
from protocol.envelopes import (
    LABEL,
    NOT_PRIVATE_LABEL,
    Envelope,
    SigningKey,
    digest,
    open_envelope,
    request_digest,
    seal,
    seal_receipt,
    sign_payload,
    statement_bytes,
)
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
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
from protocol.kinds.statistic import PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.items import Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Smooth
from protocol.limits import Limits
from protocol.messages import (
    NO_DIGEST,
    SEALED_BYTES,
    TYPE_NAMES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.partitions import (
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent
from protocol.secure_sum import participant
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.transcript import Transcript

HERE = Path(__file__).parent
CURATOR_SEED, LEARNER_SEED = b"\x01" * 32, b"\x02" * 32
CURATOR, LEARNER = SigningKey.from_seed(CURATOR_SEED), SigningKey.from_seed(LEARNER_SEED)
SUCCESSOR_SEED = b"\x03" * 32
SUCCESSOR = SigningKey.from_seed(SUCCESSOR_SEED)
SEEDS = {"first": LEARNER_SEED, "successor": SUCCESSOR_SEED, "curator": CURATOR_SEED}
STUDY = bytes(range(16))
SCHEMA = Schema(
    (NumericAttribute("age", 0.0, 120.0, "years"), CategoricalAttribute("sex", ("f", "m"))), "sick", ("no", "yes")
)
MAP = FeatureMap((NumericFeature("age", 50.0, 0.0625, 40.0), CategoricalFeature("sex", ("f", "m"), 1.0, "f")))
SHORT_MAP = FeatureMap(MAP.features[:1])
PLAN = Plan.of(
    (
        PlannedCounts(release="mass", partitions=2, scale=Rational(30, 1)),
        PlannedCounts(release="signed_error", partitions=1, scale=Rational(1000, 3)),
    )
)
# 0.weight (1, 4) and 0.bias (1,), written out: the safetensors writer may order or pad a header as it likes.
WEIGHTS_HEADER = (
    b'{"0.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    b'"0.weight":{"dtype":"F32","shape":[1,4],"data_offsets":[4,20]}}'
)
WEIGHTS = (
    len(WEIGHTS_HEADER).to_bytes(8, "little")
    + WEIGHTS_HEADER
    + bytes.fromhex("0000003f" + "0000803f" + "000080bf" + "00000040" + "000000c0")
)


def int32s(*numbers):
    """Little-endian int32, written out."""
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


TREE = TreeLeaves(MAP, int32s(0, -2560, -1, 1) + int32s(1, 1, -3, -2))
"""Younger than 40; then women, and the others."""
BODIES = {
    "mass": CountsBody((FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ())), None),
    "signed_error": CountsBody(
        (NearestCentre(MAP, bytes(16) + b"\x00\x10\x00\x00" * 4),), Mlp(features=MAP, weights=WEIGHTS)
    ),
    "constant": CountsBody((FeatureBins("age", ()),), Constant(1)),
    "product_bins": CountsBody((ProductBins(FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ())),), None),
    "score_bins": CountsBody((ScoreBins(Mlp(features=MAP, weights=WEIGHTS), (-1.5, 2.0**-24)),), None),
    "projection_bins": CountsBody(
        (ProjectionBins(MAP, int32s(4096, 0, 0, 0) + int32s(1, -2, 3, -262144), ((-0.25, 0.5), ())),), None
    ),
    "tree_leaves": CountsBody((TREE,), None),
    "cross_bins": CountsBody(
        (
            CrossBins((FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ()))),
            CrossBins((FeatureBins("sex", ()),), (Range(FeatureBins("age", (30.0, 60.5)), (1, 2)),)),
        ),
        None,
    ),
}
OTHER_LABELS = {
    "classes": Schema(SCHEMA.attributes, "stage", ("i", "ii", "iii")),
    "number": Schema(SCHEMA.attributes, "days", label_bounds=(0.0, 365.0)),
}
DECLARED = {
    "units": Schema(
        (NumericAttribute("bp", 0.0, 300.0, units="mm Hg"),), "days", label_bounds=(0.0, 365.0), label_units="days"
    ),
    "missing": Schema(
        (
            NumericAttribute("weight", 0.0, 300.0, missing=(0.0, 999.0, -1.5, "not done")),
            CategoricalAttribute("sex", ("f", "m"), missing=("unknown", "999")),
        ),
        "sick",
        ("no", "yes"),
    ),
    "days_since": Schema(
        (NumericAttribute("born", -36_525.0, 0.5, days_since="2015-01-01", missing=("1900-01-01", "unknown")),),
        "sick",
        ("no", "yes"),
    ),
}
"""Schemas with units, sentinels and dates."""
FOLLOWED = {
    "label": Schema(
        SCHEMA.attributes,
        "sick",
        ("no", "yes"),
        outcomes=(NumericAttribute("days", 0.0, 400.0, units="days"),),
        time_to_event=TimeToEvent("days", "sick", "no", edges=(30.0, 90.0, 365.0)),
    ),
    "entry": Schema(
        SCHEMA.attributes,
        "sick",
        ("no", "yes"),
        outcomes=(
            NumericAttribute("days", 0.0, 400.0),
            NumericAttribute("entry", 0.0, 400.0),
            CategoricalAttribute("end", ("alive", "relapse", "death"), missing=("lost",)),
        ),
        time_to_event=TimeToEvent("days", "end", "alive", entry="entry", bins=10, horizon=365.0),
    ),
}
"""Schemas with outcomes and a time to an event."""
OUTCOME_QUERY = (
    PlannedCounts(release="outcome_counts", partitions=2, scale=Rational(20, 1)),
    CountsBody(
        (
            CrossBins((FeatureBins("entry", (30.0,)), FeatureBins("days", (30.0, 365.0)), FeatureBins("end", ()))),
            CrossBins(
                (FeatureBins("sick", ()), FeatureBins("sex", ())),
                (Range(FeatureBins("age", (18.0,)), (1,)), Range(FeatureBins("end", ()), (0, 2))),
            ),
        ),
        None,
    ),
)
"""A query of the schema "entry": entry by exit by its cause, and the label by sex among some."""
OTHER_QUERIES = {
    "class_counts": (
        "classes",
        PlannedCounts(release="class_counts", partitions=1, scale=Rational(1, 1)),
        CountsBody((FeatureBins("age", (30.0,)),), None),
    ),
    "label_total": (
        "number",
        PlannedCounts(release="label_total", partitions=1, scale=Rational(1000, 1), steps=1000),
        CountsBody((FeatureBins("age", (30.0,)),), None),
    ),
    "squared_error": (
        "number",
        PlannedCounts(release="squared_error", partitions=1, scale=Rational(640, 1), steps=64),
        CountsBody((FeatureBins("age", ()),), Constant(0), most_squared_error=2**20),
    ),
    "error_sums": (
        "number",
        PlannedCounts(release="error_sums", partitions=1, scale=Rational(640, 1), steps=64),
        CountsBody((FeatureBins("age", ()),), Mlp(features=MAP, weights=WEIGHTS), most_squared_error=2**20),
    ),
}
_SETTLED = QUERY_KINDS.settle(Limits(), where="the vectors")
CARD_KINDS = ("mass", "signed_error", "error_correct", "class_counts", "label_total", "squared_error", "error_sums")
"""Release kinds of the card in the vectors. Later ones have vectors of their own, so that its bytes stay."""
LIMITS = structs.replace(
    _SETTLED,
    kinds={
        name: {**kind, "release_kinds": list(CARD_KINDS)} if "release_kinds" in kind else kind
        for name, kind in _SETTLED.kinds.items()
    },
)
NUMBERS = (7, -3, 0, 1, 2**40, -(2**40), 5, -1)
RELEASE = CountsRelease(counts=b"".join(n.to_bytes(8, "little", signed=True) for n in NUMBERS), ratios=b"")


class Exchange:
    """Both sides of one study, in order."""

    def __init__(self):
        self.transcript = Transcript()
        self.last_reply = NO_DIGEST
        self.spent = "0"
        self.messages = []

    def ask(self, kind, sequence, /, **fields):
        message = kind(
            study=STUDY,
            sender=LEARNER.public,
            recipient=CURATOR.public,
            sequence=sequence,
            answers=self.last_reply,
            expires_at=1_800_000_600,
            **fields,
        )
        self._append(message, LEARNER)
        self.asked = message

    def answer(self, kind, /, **fields):
        header = {
            "study": STUDY,
            "sender": CURATOR.public,
            "recipient": LEARNER.public,
            "sequence": self.asked.sequence,
            "answers": digest(self.transcript.envelopes[-1]),
            "expires_at": 1_800_000_600,
        }
        if kind in (StudyAccepted, Release, StudyClosed):
            fields["receipt"] = seal_receipt(self.receipt(kind, fields), CURATOR)
        self._append(kind(**header, **fields), CURATOR)
        if kind not in (Card, Refusal):
            self.last_reply = digest(self.transcript.envelopes[-1])

    def receipt(self, kind, fields):
        released = kind is Release
        self.spent = "1/15" if released else self.spent
        return Receipt(
            curator=CURATOR.public,
            learner=LEARNER.public,
            study=STUDY,
            sequence=self.asked.sequence,
            request=request_digest(LEARNER.public, TYPE_NAMES[type(self.asked)], encode(self.asked)),
            release=digest(fields["body"]) if released else NO_DIGEST,
            charged="1/15" if released else "0",
            spent_by_study=self.spent,
            spent_by_learner=self.spent,
            ledger_head=digest(b"head"),
            position=b"\x07" * SEALED_BYTES,
            issued_at=1_800_000_000,
        )

    def _append(self, message, key):
        self.messages.append(message)
        self.transcript.append(seal(message, key))


def study():
    exchange = Exchange()
    exchange.ask(CardRequest, 0)
    exchange.answer(
        Card,
        name="basel",
        schema=SCHEMA,
        unit=None,
        most_records_per_unit=1,
        relation="add or remove one privacy unit",
        round_size=1000,
        limits=LIMITS,
        cap="1",
        least_cost="1/1000",
    )
    exchange.ask(StudyProposal, 0, plan=PLAN, purpose="known answer", newest_receipt=b"")
    exchange.answer(StudyAccepted, cost="209/3000", reserved_until=1_800_086_400)
    exchange.ask(Query, 1, kind="counts", body=encode(BODIES["mass"]))
    exchange.answer(Release, kind="counts", body=encode(RELEASE))
    exchange.ask(Query, 2, kind="counts", body=encode(BODIES["signed_error"]))
    exchange.answer(
        Refusal,
        code=RefusalCode.HALTED.value,
        explanation=EXPLANATIONS[RefusalCode.HALTED],
        field="",
        limit="",
        remaining="2791/3000",
        scale_factor="",
    )
    exchange.ask(StudyClose, 3)
    exchange.answer(StudyClosed, refunded="3/1000")
    return exchange


def good():
    exchange = study()
    envelopes = []
    for message, data in zip(exchange.messages, exchange.transcript.envelopes, strict=True):
        envelope, _ = open_envelope(data)
        envelopes.append(
            {
                "type": envelope.type,
                "signer": message.sender.hex(),
                "envelope": data.hex(),
                "payload": envelope.payload.hex(),
                "digest": digest(data).hex(),
                "request_digest": request_digest(message.sender, envelope.type, envelope.payload).hex(),
            }
        )
    return {
        "label": LABEL,
        "curator": {"seed": CURATOR_SEED.hex(), "public": CURATOR.public.hex()},
        "learner": {"seed": LEARNER_SEED.hex(), "public": LEARNER.public.hex()},
        "envelopes": envelopes,
        "transcript_head": exchange.transcript.head.hex(),
        "epsilon_claimed": "209/3000",
        "epsilon_spent": "1/15",
        "bodies": {name: encode(body).hex() for name, body in BODIES.items()},
        "other_schemas": {name: encode(schema).hex() for name, schema in OTHER_LABELS.items()},
        "declared_schemas": {name: encode(schema).hex() for name, schema in DECLARED.items()},
        "other_queries": {
            release: {"schema": label, "planned": encode(planned).hex(), "body": encode(body).hex()}
            for release, (label, planned, body) in OTHER_QUERIES.items()
        },
        "schemas_with_outcomes": {name: encode(schema).hex() for name, schema in FOLLOWED.items()},
        "outcome_counts": {"planned": encode(OUTCOME_QUERY[0]).hex(), "body": encode(OUTCOME_QUERY[1]).hex()},
        "release": encode(RELEASE).hex(),
        "seeded_label": NOT_PRIVATE_LABEL,
        "seeded_envelope": seal(exchange.messages[0], CURATOR, label=NOT_PRIVATE_LABEL).hex(),
        "derived": {"purpose": "units", "secret": CURATOR.derive("units").hex()},
    }


def bad():
    """Bytes of an envelope or a body, and the code with which they are refused."""
    exchange = study()
    request = exchange.transcript.envelopes[0]
    envelope, message = open_envelope(request)
    payload = envelope.payload

    def sealed(**changes):
        parts = {"label": envelope.label, "type": envelope.type, "payload": payload, "signature": envelope.signature}
        return encode(Envelope(**(parts | changes)))

    def counts(*partitions, hypothesis=None, **fields):
        return encode(CountsBody(partitions, hypothesis, **fields))

    def relabelled(label):
        return seal(message, LEARNER, label=label)

    body, sex = encode(BODIES["mass"]), FeatureBins("sex", ())
    circle = int32s(0, 0, -1, -2) + int32s(0, 0, 2, -3) + int32s(0, 0, 1, -4)
    other_version = payload.replace(b"\xa7version\x02", b"\xa7version\x01")
    malformed, forged, wrong = RefusalCode.MALFORMED, RefusalCode.BAD_SIGNATURE, RefusalCode.BAD_QUERY
    cases = {
        "empty": (b"", malformed),
        "truncated": (request[:-1], malformed),
        "trailing byte": (request + b"\x00", malformed),
        "unknown type": (sealed(type="hello"), malformed),
        "receipt as a message": (sealed(type="receipt"), malformed),
        "short signature": (sealed(signature=bytes(63)), malformed),
        "payload of another type": (sealed(type="card"), malformed),
        "wider integer": (sealed(payload=payload.replace(b"\xa8sequence\x00", b"\xa8sequence\xcc\x00")), malformed),
        "unknown field": (sealed(payload=b"\x88" + payload[1:] + b"\xa1x\x00"), malformed),
        "duplicated field": (sealed(payload=b"\x88" + payload[1:] + b"\xa8sequence\x00"), malformed),
        "other version": (sealed(payload=other_version), malformed),
        "version 1": (relabelled("expril/1"), malformed),
        "version 1, not private": (relabelled("expril/1 simulation, not private"), malformed),
        "forged signature": (sealed(signature=bytes(64)), forged),
        "changed payload": (sealed(payload=payload[:-1] + b"\x59"), forged),
        "changed type": (sealed(type="study_close"), forged),
        "seeded label": (relabelled(NOT_PRIVATE_LABEL), forged),
        "seeded signature relabelled": (
            sealed(signature=open_envelope(relabelled(NOT_PRIVATE_LABEL))[0].signature),
            forged,
        ),
        "body truncated": (body[:-1], malformed),
        "body with a 32-bit edge": (
            body.replace(bytes.fromhex("cb403e000000000000"), bytes.fromhex("ca41f00000")),
            malformed,
        ),
        "body with falling edges": (counts(FeatureBins("age", (2.0, 1.0)), sex), wrong),
        "body with another attribute": (counts(FeatureBins("sick", ()), sex), wrong),
        "body with a hypothesis for masses": (counts(*BODIES["mass"].partitions, hypothesis=Constant(0)), wrong),
        "body with a score of another width": (counts(ScoreBins(Mlp(SHORT_MAP, WEIGHTS), ()), sex), wrong),
        "body with score edges closer than a step": (
            counts(ScoreBins(Mlp(MAP, WEIGHTS), (1.0, 1.0 + 2.0**-26)), sex),
            wrong,
        ),
        "body with half a direction": (counts(ProjectionBins(MAP, bytes(8), ((),)), sex), wrong),
        "body with a leaf that no node leads to": (counts(TreeLeaves(MAP, int32s(0, 0, -1, -1)), sex), wrong),
        "body with nodes that lead to each other": (counts(TreeLeaves(MAP, circle), sex), wrong),
        "body with a range of errors for masses": (counts(*BODIES["mass"].partitions, most_squared_error=1), wrong),
        "body with a label for masses": (counts(CrossBins((FeatureBins("sick", ()),)), sex), wrong),
        "body with a filter by label for masses": (
            counts(CrossBins((sex,), (Range(FeatureBins("sick", ()), (0,)),)), sex),
            wrong,
        ),
        "body with a cell that a filter has not": (counts(CrossBins((sex,), (Range(sex, (0, 4)),)), sex), wrong),
        "body with a written default": (b"\x83" + body[1:] + b"\xb2most_squared_error\xc0", malformed),
        "body of another size": (counts(BODIES["mass"].partitions[0]), RefusalCode.NOT_IN_PLAN),
    }
    return {
        name: {"reads": "body" if name.startswith("body") else "envelope", "bytes": data.hex(), "code": code.value}
        for name, (data, code) in cases.items()
    }


def vectors():
    return {
        "good.json": good(),
        "bad.json": bad(),
        "identity.json": identity(),
        "secure_sum.json": secure_sum(),
        "model.json": models(),
        "sample.json": sample(),
        "holdout.json": holdout(),
        "statistic.json": statistic(),
    }


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
    return {
        name: {
            "planned": encode(PlannedStatistic(method=method)).hex(),
            "body": encode(StatisticBody((item,))).hex(),
            "release": encode(StatisticRelease(np.array(numbers, "<i8").tobytes())).hex(),
            "numbers": list(numbers),
            "cost": str(QUERY_KINDS.cost(PlannedStatistic(method=method), 1)),
        }
        for name, (method, item, numbers) in cases.items()
    }


class Stream:
    """Random bytes that are known: SHA-256 of a seed and a counter."""

    def __init__(self, seed):
        self.seed, self.drawn = seed, 0

    def __call__(self, size):
        blocks = range(self.drawn, self.drawn + -(-size // 32))
        self.drawn = blocks.stop
        return b"".join(digest(self.seed + block.to_bytes(8, "big")) for block in blocks)[:size]


def secure_sum():
    """A round of four curators, of whom the third falls silent after it dealt: every body and release, and the sum."""
    keys = sorted((SigningKey.from_seed(bytes([number]) * 32) for number in range(11, 15)), key=lambda key: key.public)
    planned = PlannedSecureCounts(
        release="mass",
        partitions=1,
        scale=Rational(30, 1),
        turns=5,
        participants=tuple(key.public for key in keys),
        colluders=1,
        dropouts=1,
    )
    group, sent = planned.group(LABEL), AskKeys(encode(BODIES["constant"]), bytes(range(16)))
    question = question_digest(LEARNER.public, Turn(planned), sent)
    machine = Aggregator(group, question, 2)
    entropies = [Stream(bytes([index])) for index in range(4)]
    steps = []

    def turn(asked, answer):
        """Each answers what it is asked; what is sent and released, by index."""
        released = {index: answer(index, body) for index, body in asked.items()}
        hexadecimal = [{index: encode(each).hex() for index, each in side.items()} for side in (asked, released)]
        steps.append(dict(zip(("bodies", "releases"), hexadecimal, strict=True)))
        return released

    states = {}

    def signing(index):
        return lambda type_name, payload: keys[index].sign(statement_bytes(LABEL, type_name, payload))

    def begin(index, body):
        identity = planned.participants[index]
        card, states[index] = participant.begin(
            group, identity, question, 2, entropy=entropies[index], sign=signing(index)
        )
        return card

    def deal(index, body):
        sealed, states[index] = participant.share(group, states[index], body.cards, entropy=entropies[index])
        return SealedShares(sealed)

    def mask(index, body):
        values = np.array([index + 1, -(2**40)], np.int64)
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
    opened = machine.take_revealed({index: each.shares for index, each in shown.items()})
    return {
        "participants": [key.hex() for key in planned.participants],
        "learner": LEARNER.public.hex(),
        "planned": encode(planned).hex(),
        "question": question.hex(),
        "turns": steps,
        "survivors": list(opened.survivors),
        "sum": opened.values.tolist(),
    }


def models():
    """A plan, body and release of each method, what a unit of two records moves it by, and public randomness."""
    told = {}
    for name, (_, example) in AUDITED_KINDS.audits["model"].examples().items():
        asked = example.ask(2)
        planned, (body,) = asked.planned, asked.bodies
        count = sum(MODEL.lengths(Question(Turn(planned), decode(body, ModelBody), example.schema)))
        told[name] = {
            "schema": encode(example.schema).hex(),
            "planned": encode(planned).hex(),
            "body": body.hex(),
            "release": encode(ModelRelease(b"".join(n.to_bytes(8, "little") for n in range(count)))).hex(),
            "sensitivity": planned.sensitivity(2),
        }
    (tree,) = random_trees(FeatureMap((NumericFeature("age", 0.0, 1.0, 0.0),)), 1, 3, 4096, 9)
    return {
        "methods": told,
        "words": words(9, "trees", 4).tolist(),
        "tree": tree.table.tolist(),
        "frequencies": frequencies(9, 2, 3).astype(int).tolist(),
        "cosines": cosines(100, 3)[::512].astype(int).tolist(),
    }


def sample():
    """A planned sample on all three kinds of axes, its body and a release."""
    axes = (NumberAxis("age", 18, 90, 300, 45.0, 12.5), NumberAxis("x", -1, 1, 2), LevelAxis("sex"), LevelAxis("sick"))
    planned = PlannedSample(records=2, epsilon=Rational(1, 20), axes=axes, rounds=2, learner="naive_bayes", batch=0)
    release = SampleRelease(bytes([43, 1, 1, 0, 1, 0, 0, 0, *bytes(8)]))
    second = structs.replace(planned, version=2)
    told = {"planned": planned, "planned_version_2": second, "body": SampleBody(), "release": release}
    return {name: encode(one).hex() for name, one in told.items()}


def holdout():
    """A planned holdout, a question, both answers; and what a simulation's `blog_holdout` asks and answers."""
    planned = PlannedHoldout(
        turns=500,
        answers=3,
        resolution=1000,
        threshold=60,
        threshold_scale=Rational(20_000, 3),
        comparison_scale=Rational(80_000, 9),
        count_scale=Rational(8, 1),
    )
    told = {
        "planned": planned,
        "planned_between": structs.replace(planned, least_estimate=300, most_estimate=700),
        "body": HoldoutBody(Constant(1), 745),
        "close": HoldoutRelease(2, None),
        "counts": HoldoutRelease(3, (-7, 2**40)),
        "blog_planned": PlannedBlogHoldout(turns=2, tolerance=Rational(1, 25), records=1000),
        "blog_body": BlogHoldoutBody(Constant(1), None, 0.5),
        "blog_release": BlogHoldoutRelease(0.25),
    }
    return {name: encode(one).hex() for name, one in told.items()}


def identity():
    """Identity cards as texts, their fingerprints, and texts that are none."""
    first = IdentityCard(role="learner", name="Ann Müller", contact="ann@example.org", key=LEARNER.public, issued=1000)
    chain = (succession(LEARNER, SUCCESSOR.public, "learner", 2000),)
    second = IdentityCard(
        role="learner", name="Ann", organisation="B", key=SUCCESSOR.public, issued=2000, until=9000, successions=chain
    )
    ward = IdentityCard(role="curator", name="ward", key=CURATOR.public, issued=1000)
    cards = {"first": (first, LEARNER), "successor": (second, SUCCESSOR), "curator": (ward, CURATOR)}
    written = {name: write_identity(card, key) for name, (card, key) in cards.items()}
    foreign = IdentityCard(role="learner", name="Eve", key=LEARNER.public, issued=1000)
    stolen = IdentityCard(role="curator", name="ward", key=SUCCESSOR.public, issued=2000, successions=chain)
    bad = {
        "signed by another key": armour(sign_payload(TYPE, encode(foreign), CURATOR, LABEL_OF_CARDS)),
        "signed as a message": armour(sign_payload(TYPE, encode(first), LEARNER, LABEL)),
        "of another type": armour(sign_payload("card", encode(first), LEARNER, LABEL_OF_CARDS)),
        "with a succession in another role": armour(sign_payload(TYPE, encode(stolen), SUCCESSOR, LABEL_OF_CARDS)),
        "cut short": written["first"].replace(written["first"].splitlines()[2] + "\n", ""),
        "without an end": written["first"].split("-----END")[0],
        "twice": written["first"] * 2,
        "nothing": "",
    }
    return {
        "label": LABEL_OF_CARDS,
        "seeds": {name: seed.hex() for name, seed in SEEDS.items()},
        "fingerprints": {name: fingerprint(card.role, card.key) for name, (card, _) in cards.items()},
        "cards": written,
        "bad": bad,
    }


def text(content):
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, content in vectors().items():
        (HERE / name).write_text(text(content), encoding="utf-8")
        sys.stdout.write(f"{HERE / name}\n")
