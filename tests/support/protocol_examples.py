"""The worked examples of docs/protocol: a short study, a ledger and a few single values, each with its bytes.

Everything is made from fixed keys, so anybody can make the same bytes again.
"""

import re
from fractions import Fraction

import numpy as np

from curator_node.opendp_noise import float_not_below
from protocol.codec import encode
from protocol.envelopes import (
    LABEL,
    SigningKey,
    digest,
    encode_parts,
    request_digest,
    seal,
    seal_receipt,
    statement_bytes,
)
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.grids import LevelAxis
from protocol.hypotheses import Constant, Mlp
from protocol.identity import LABEL as CARD_LABEL
from protocol.identity import IdentityCard, fingerprint, succession, write_identity
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.kinds.holdout import PlannedHoldout
from protocol.kinds.model import PlannedModel
from protocol.kinds.models import NaiveBayes
from protocol.kinds.models.method import words
from protocol.kinds.sample import PlannedSample
from protocol.kinds.secure_counts import AskKeys, PlannedSecureCounts, question_digest
from protocol.kinds.statistic import PlannedStatistic
from protocol.kinds.statistics.methods import AggregateMean, Exponential, Features, Smooth
from protocol.ledger.checkpoints import make_checkpoint, sign_checkpoint
from protocol.ledger.entries import (
    GENESIS,
    Entry,
    EntryKind,
    encode_entry,
    entry_hash,
    head_bytes,
    ledger_terms,
    sign_head,
)
from protocol.ledger.exports import encode_export
from protocol.ledger.merkle import Tree
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
from protocol.partitions import CrossBins, FeatureBins, NearestCentre, Range
from protocol.plans import Plan
from protocol.query_kind import Turn
from protocol.rationals import Rational, amount
from protocol.records import Records
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.secure_sum import masks, shamir
from protocol.secure_sum.graph import graph_of, settled
from protocol.secure_sum.group import Group, list_digest, make_card, round_digest, seed_check
from protocol.transcript import START, Transcript

CURATOR, LEARNER, SUCCESSOR = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
STUDY = bytes(range(16))
EXPIRES = 1_800_000_600
SCHEMA = Schema((NumericAttribute("age", 0.0, 120.0), CategoricalAttribute("sex", ("f", "m"))), "sick", ("no", "yes"))
PLANNED = PlannedCounts(release="error_correct", partitions=1, scale=Rational(30, 1))
BODY = CountsBody((FeatureBins("age", (30.0, 60.5)),), Constant(1))
NUMBERS = (12, 3, -1, 0, 40, 2**33, 1, -(2**40))
RELEASE = CountsRelease(counts=np.array(NUMBERS, "<i8").tobytes(), ratios=b"")
WIDTH = 100


def hexed(data):
    """Bytes in hexadecimal, in lines; 32 or more equal bytes in a row are written once, with their number."""
    lines, at = [], 0
    for run in re.finditer(rb"(.)\1{31,}", data, re.DOTALL):
        lines += [*_wrapped(data[at : run.start()]), f"({run[1].hex()} x {len(run[0])})"]
        at = run.end()
    return "\n".join([*lines, *_wrapped(data[at:])])


def _wrapped(data):
    text = data.hex()
    return [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]


def told(**parts):
    """Named parts of an example, bytes in hexadecimal."""
    pieces = []
    for name, value in parts.items():
        text = hexed(value) if isinstance(value, bytes) else str(value)
        short = len(text) + len(name) < WIDTH and "\n" not in text
        pieces.append(f"{name.replace('_', ' ')}:{' ' if short else chr(10)}{text}")
    return "\n".join(pieces)


class _Study:
    """A short study, in order: message -> its envelope."""

    def __init__(self):
        self.envelopes, self.payloads, self.receipts = {}, {}, {}
        self.transcript, self.last_reply, self.spent = Transcript(), NO_DIGEST, "0"
        limits = Limits(
            kinds={"counts": {"release_kinds": ["error_correct"], "cells": 1000, "partitions": 10, "parameters": 1000}}
        )
        self.ask("card_request", CardRequest, 0)
        self.answer(
            "card",
            Card,
            name="basel",
            schema=SCHEMA,
            unit=None,
            most_records_per_unit=1,
            relation="add or remove one privacy unit",
            round_size=1000,
            limits=limits,
            cap="1",
            least_cost="1/1000",
        )
        self.ask("study_proposal", StudyProposal, 0, plan=Plan.of([PLANNED]), purpose="example", newest_receipt=b"")
        self.answer("study_accepted", StudyAccepted, cost="1/30", reserved_until=1_800_086_400)
        self.ask("query", Query, 1, kind="counts", body=encode(BODY))
        self.answer(
            "refusal",
            Refusal,
            code="busy",
            explanation=EXPLANATIONS[RefusalCode.BUSY],
            field="",
            limit="",
            remaining="29/30",
            scale_factor="",
        )
        self.answer("release", Release, kind="counts", body=encode(RELEASE))
        self.ask("study_close", StudyClose, 2)
        self.answer("study_closed", StudyClosed, refunded="0")

    def ask(self, name, kind, sequence, /, **fields):
        header = {"sender": LEARNER.public, "recipient": CURATOR.public, "answers": self.last_reply}
        self.asked = kind(study=STUDY, sequence=sequence, expires_at=EXPIRES, **header, **fields)
        self.request = self._send(name, self.asked, LEARNER)

    def answer(self, name, kind, /, **fields):
        header = {"sender": CURATOR.public, "recipient": LEARNER.public, "answers": digest(self.request)}
        if kind in (StudyAccepted, Release, StudyClosed):
            fields["receipt"] = self.receipts[name] = seal_receipt(self.receipt(kind, fields), CURATOR)
        reply = kind(study=STUDY, sequence=self.asked.sequence, expires_at=EXPIRES, **header, **fields)
        data = self._send(name, reply, CURATOR)
        if kind not in (Card, Refusal):
            self.last_reply = digest(data)

    def receipt(self, kind, fields):
        released = kind is Release
        self.spent = "1/30" if released else self.spent
        return Receipt(
            curator=CURATOR.public,
            learner=LEARNER.public,
            study=STUDY,
            sequence=self.asked.sequence,
            request=request_digest(LEARNER.public, TYPE_NAMES[type(self.asked)], encode(self.asked)),
            release=digest(fields["body"]) if released else NO_DIGEST,
            charged="1/30" if released else "0",
            spent_by_study=self.spent,
            spent_by_learner=self.spent,
            ledger_head=digest(b"head"),
            position=b"\x07" * SEALED_BYTES,
            issued_at=1_800_000_000,
        )

    def _send(self, name, message, key):
        self.payloads[name], self.envelopes[name] = encode(message), seal(message, key)
        self.transcript.append(self.envelopes[name])
        return self.envelopes[name]


def _messages():
    study = _Study()
    for name, envelope in study.envelopes.items():
        parts = {"payload": study.payloads[name], "envelope": envelope, "SHA-256_of_the_envelope": digest(envelope)}
        if name in ("card_request", "study_proposal", "query", "study_close"):
            parts["request_digest"] = request_digest(LEARNER.public, name, study.payloads[name])
        yield name, told(**parts)
    payload = study.payloads["card_request"]
    signed = encode_parts(LABEL.encode(), b"card_request", payload)
    yield "signed bytes", told(signed_bytes=signed, signature=LEARNER.sign(signed))
    yield (
        "request digest",
        told(hashed_bytes=encode_parts(b"expril/2 request", LEARNER.public, b"card_request", payload)),
    )
    statement = statement_bytes(LABEL, "secure_sum_card", b"\x00\x01")
    yield "statement", told(signed_bytes=statement, signature=CURATOR.sign(statement))
    yield "receipt", told(envelope=study.receipts["release"], SHA_256=digest(study.receipts["release"]))
    heads, head = [START.hex()], START
    for envelope in study.envelopes.values():
        head = digest(head + digest(envelope))
        heads.append(head.hex())
    yield "transcript", "\n".join(heads)


def _values():
    numbers = (0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, -1, -32, -33, -128, -129, -32_769, -(2**31) - 1)
    yield "integers", "\n".join(f"{number}: {encode(number).hex()}" for number in numbers)
    others = (None, False, True, 0.5, 120.0, "", "sex", "é", b"", b"\x00\x01", (), (1, "a"), {"a": 1})
    names = {None: "nil", False: "false", True: "true"}

    def name(value):
        if isinstance(value, bytes):
            return f"bytes {value.hex()}" if value else "empty bytes"
        return names.get(value, repr(value)) if isinstance(value, bool | None) else _json(value)

    lines = [f"{name(value)}: {encode(value).hex()}" for value in others]
    heads = {31: 1, 32: 2, 256: 3}
    lines += [f"text of {size} letters a begins: {encode('a' * size)[:head].hex()}" for size, head in heads.items()]
    yield "values", "\n".join(lines)
    yield (
        "rational",
        "\n".join(f"{r.numerator}/{r.denominator}: {encode(r).hex()}" for r in (Rational(30, 1), Rational(1000, 3))),
    )
    yield "plan", told(query=encode(PLANNED), plan=encode(Plan.of([PLANNED])))
    yield "counts", told(body=encode(BODY), release=encode(RELEASE), numbers=", ".join(map(str, NUMBERS)))
    scales = (Fraction(30), Fraction(1, 10), Fraction(1000, 3), Fraction(1, 3), Fraction(2**32 - 1, 7))
    yield (
        "scales",
        "\n".join(
            f"{s}: {float_not_below(s).hex()}{'' if Fraction(float_not_below(s)) == s else ' (above)'}" for s in scales
        ),
    )


def _json(value):
    return (
        {(): "[]", (1, "a"): '[1, "a"]'}.get(value)
        if isinstance(value, tuple)
        else '{"a": 1}'
        if isinstance(value, dict)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


def _cards():
    yield (
        "fingerprint",
        told(
            hashed_bytes=encode_parts(b"expril/2 fingerprint", b"curator", CURATOR.public),
            of_the_curator=fingerprint("curator", CURATOR.public),
            of_the_learner=fingerprint("learner", LEARNER.public),
        ),
    )
    step = succession(LEARNER, SUCCESSOR.public, "learner", 1_800_000_000)
    card = IdentityCard(role="learner", name="Ada", key=SUCCESSOR.public, issued=1_800_000_000, successions=(step,))
    payload = encode(card)
    yield (
        "identity card",
        told(
            bytes_that_the_old_key_signs=encode_parts(
                b"expril/2 succession", b"learner", LEARNER.public, SUCCESSOR.public, (1_800_000_000).to_bytes(8, "big")
            ),
            payload=payload,
            bytes_that_the_new_key_signs=encode_parts(CARD_LABEL.encode(), b"identity_card", payload),
            card=write_identity(card, SUCCESSOR).strip(),
        ),
    )


def _ledger():
    told_entries = [
        {"kind": EntryKind.OPEN, "at": 1_800_000_000, "learner": CURATOR.public},
        {"kind": EntryKind.START, "at": 1_800_000_001, "note": ledger_terms(None, LABEL)},
        {"kind": EntryKind.ENROL, "at": 1_800_000_002, "learner": LEARNER.public, "note": "ada"},
    ]
    head, pairs, lines = GENESIS, [], {"genesis": GENESIS}
    tree = Tree()
    for index, fields in enumerate(told_entries):
        entry = Entry(index=index, previous=head, nonce=bytes([index]) * 16, **fields)
        body = encode_entry(entry)
        head = entry_hash(body)
        tree.append(head)
        signature = sign_head(CURATOR, index, head)
        pairs.append((body, signature))
        lines |= {
            f"entry_{index}": body,
            f"hash_of_entry_{index}": head,
            f"signed_bytes_of_entry_{index}": head_bytes(index, head),
            f"signature_of_entry_{index}": signature,
        }
    yield "ledger", told(**lines)
    yield "ledger export", told(file=encode_export(pairs, [(digest(b"a request"), digest(b"a reply"))]))
    signed = sign_checkpoint(make_checkpoint(tree, head, CURATOR.public), CURATOR)
    yield "checkpoint", str(signed.note).strip()


def _hypotheses():
    features = FeatureMap((NumericFeature("age", 50.0, 0.0625, 40.0), CategoricalFeature("sex", ("f", "m"), 1.0, "f")))
    hypothesis = Mlp(features=features, weights=WEIGHTS)
    records = Records(SCHEMA, np.array([[30.0], [73.21], [np.nan]]), np.array([[0], [1], [-1]], np.int16))
    logits = [int(logit) for logit in hypothesis.logits(records)]
    points = [[int(number) for number in row] for row in features.points(records)]
    yield (
        "hypothesis",
        told(
            hypothesis=encode(hypothesis),
            weights=WEIGHTS,
            points_of_the_three_records=points,
            logits_in_steps=logits,
            predictions=[int(one) for one in hypothesis.predict(records)],
        ),
    )
    rows = {
        "feature_bins of age at 30, 60.5": FeatureBins("age", (30.0, 60.5)),
        "feature_bins of sex": FeatureBins("sex", ()),
        "cross_bins of age and sex": CrossBins((FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ()))),
        "cross_bins of sex, within age from 30": CrossBins(
            (FeatureBins("sex", ()),), (Range(FeatureBins("age", (30.0, 60.5)), (1, 2)),)
        ),
        "nearest_centre": NearestCentre(features, bytes(16) + b"\x00\x10\x00\x00" * 4),
    }
    yield (
        "cells",
        "\n".join(
            f"{name}: {partition.cell_count(SCHEMA)} cells; {[int(cell) for cell in partition.cells(records)]}"
            for name, partition in rows.items()
        ),
    )


_HEADER = (
    b'{"0.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    b'"0.weight":{"dtype":"F32","shape":[1,4],"data_offsets":[4,20]}}'
)
WEIGHTS = (
    len(_HEADER).to_bytes(8, "little")
    + _HEADER
    + bytes.fromhex("0000003f" + "0000803f" + "000080bf" + "00000040" + "000000c0")
)
"""0.bias 0.5, and 0.weight 1, -1, 2, -2."""


def _prices():
    grid = Rational(1, 2)
    plans = {
        "counts": PLANNED,
        "holdout": PlannedHoldout(
            turns=20,
            answers=2,
            resolution=100,
            threshold=10,
            threshold_scale=Rational(2000, 1),
            comparison_scale=Rational(4000, 1),
            count_scale=Rational(20, 1),
            least_estimate=40,
            most_estimate=70,
        ),
        "sample, version 1": PlannedSample(records=3, epsilon=grid, axes=(LevelAxis("sex"),), rounds=2),
        "sample, version 2": PlannedSample(records=3, epsilon=grid, axes=(LevelAxis("sex"),), rounds=2, version=2),
        "model": PlannedModel(method=NaiveBayes(binned=2), epsilon=grid),
        "statistic, exponential": PlannedStatistic(method=Exponential(Rational(40, 1), 3)),
        "statistic, smooth, version 1": PlannedStatistic(method=Smooth(Rational(10, 1), Rational(1, 20))),
        "statistic, smooth, version 2": PlannedStatistic(method=Smooth(Rational(10, 1), Rational(1, 20), version=2)),
        "statistic, aggregate_mean": PlannedStatistic(method=AggregateMean(50, 100, Rational(200, 1)), statistics=2),
        "statistic, features": PlannedStatistic(method=Features(2, 1, Rational(16, 1))),
    }
    yield (
        "prices",
        "\n".join(
            f"{name}: {amount(QUERY_KINDS.cost(planned, 2))}\n{hexed(encode(planned))}"
            for name, planned in plans.items()
        ),
    )
    first = ", ".join(map(str, words(7, "trees", 3)))
    yield "public randomness", f"the first words of purpose trees and seed 7: {first}"


def _secure_sum():
    participants = tuple(sorted((CURATOR.public, LEARNER.public, SUCCESSOR.public)))
    group = Group(participants, 1, 0, LABEL)
    planned = PlannedSecureCounts(
        release="mass", partitions=1, scale=Rational(30, 1), turns=5, participants=participants, colluders=1, dropouts=0
    )
    counts = encode(CountsBody((FeatureBins("sex", ()),), None))
    question = question_digest(LEARNER.public, Turn(planned), AskKeys(counts, bytes(16)))
    privates = [[bytes([16 * place + number]) * 32 for number in (1, 2, 3)] for place in range(3)]
    cards = []
    for place, (sealing, masking, seed) in enumerate(privates):
        key = next(key for key in (CURATOR, LEARNER, SUCCESSOR) if key.public == participants[place])
        public = masks.public_of(sealing), masks.public_of(masking), seed_check(seed)
        cards.append(
            (place, make_card(group, question, public, lambda name, data, key=key: key.sign(group.signed(name, data))))
        )
    round_ = round_digest(group, question, tuple(cards))
    dealers = list_digest("dealers", (0, 1, 2))
    pair = (0).to_bytes(8, "big") + (1).to_bytes(8, "big")
    (sealing_secret,) = masks.exchange(privates[0][0], [cards[1][1].sealing])
    (masking_secret,) = masks.exchange(privates[0][1], [cards[1][1].masking])
    pair_key = masks.derive(masking_secret, b"pair mask", round_ + dealers + pair)
    self_key = masks.derive(privates[0][2], b"self mask", round_ + dealers)
    yield (
        "secure sum",
        told(
            planned_query=encode(planned),
            counts=counts,
            group=group.digest,
            question=question,
            card_of_index_0=encode(cards[0][1]),
            round=round_,
            dealers=dealers,
            sealing_keys_of_the_pair_0_1=masks.derive(sealing_secret, b"shares", round_ + pair, keys=2),
            key_of_the_pair_mask_0_1=pair_key,
            first_words_of_the_pair_mask=", ".join(map(str, masks.stream(pair_key, 2))),
            key_of_the_self_mask_of_0=self_key,
            first_words_of_the_self_mask=", ".join(map(str, masks.stream(self_key, 2))),
            survivors_payload=round_ + dealers + list_digest("survivors", (0, 1, 2)),
            share_at_point_2_of_polynomial_1_1=shamir.split(
                (1).to_bytes(32, "big"), (1, 2), 2, lambda size: (bytes(32) + b"\x80" + bytes(size))[:size]
            )[1],
        ),
    )
    lines = []
    for size, colluders, dropouts in ((100, 10, 20), (120, 5, 0), (150, 10, 20), (300, 30, 30)):
        word, local, _ = settled(size, colluders, dropouts)
        lines.append(f"N {size}, t {colluders}, U {dropouts}: edge probability {word} / 2^32, local colluders {local}")
    drawn = graph_of(bytes(range(32)), 150, 10, 20)
    lines += [
        f"N 150, t 10, U 20, round {bytes(range(32)).hex()}:",
        f"neighbours of place 0: {', '.join(map(str, drawn.neighbours(0)))}",
        f"threshold of place 0: {drawn.threshold(0)}",
    ]
    yield "graph", "\n".join(lines)


EXAMPLES = {
    name: text
    for made in (_messages, _values, _cards, _ledger, _hypotheses, _prices, _secure_sum)
    for name, text in made()
}
"""Name of an example -> its text on a page."""
