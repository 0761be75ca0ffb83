"""Known answers: bytes on the wire, digests and signatures never drift, and bad bytes keep their refusal code."""

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import pytest

from expril.audit.kinds.blog_holdout import BLOG_HOLDOUT, BlogHoldoutBody, BlogHoldoutRelease, PlannedBlogHoldout
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, SigningKey, digest, open_envelope, request_digest, seal, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.identity import LABEL as IDENTITY_LABEL
from protocol.identity import read_identity, write_identity
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, CountsRelease, PlannedCounts
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.kinds.sample import SAMPLE, PlannedSample, SampleBody, SampleRelease
from protocol.kinds.secure_counts import BODIES, RELEASES, PlannedSecureCounts, question_digest
from protocol.messages import MESSAGE_TYPES
from protocol.partitions import PARTITION_KINDS
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.transcript import Transcript, replay

FOLDER = Path(__file__).parent / "vectors"
GOOD = json.loads((FOLDER / "good.json").read_text(encoding="utf-8"))
BAD = json.loads((FOLDER / "bad.json").read_text(encoding="utf-8"))
IDENTITY = json.loads((FOLDER / "identity.json").read_text(encoding="utf-8"))
HOLDOUT = json.loads((FOLDER / "holdout.json").read_text(encoding="utf-8"))
SAMPLES = json.loads((FOLDER / "sample.json").read_text(encoding="utf-8"))
SECURE = json.loads((FOLDER / "secure_sum.json").read_text(encoding="utf-8"))
CURATOR = SigningKey.from_seed(bytes.fromhex(GOOD["curator"]["seed"]))
LEARNER = SigningKey.from_seed(bytes.fromhex(GOOD["learner"]["seed"]))
ENVELOPES = [bytes.fromhex(vector["envelope"]) for vector in GOOD["envelopes"]]


def test_the_labels_and_public_keys_are_as_recorded():
    assert (GOOD["label"], GOOD["seeded_label"]) == (LABEL, NOT_PRIVATE_LABEL)
    assert CURATOR.public.hex() == GOOD["curator"]["public"]
    assert LEARNER.public.hex() == GOOD["learner"]["public"]
    assert CURATOR.derive(GOOD["derived"]["purpose"]).hex() == GOOD["derived"]["secret"]


def test_there_is_a_vector_for_every_message_type():
    assert {vector["type"] for vector in GOOD["envelopes"]} == set(MESSAGE_TYPES)


def test_there_is_a_vector_for_every_kind_of_partition():
    bodies = [decode(bytes.fromhex(data), CountsBody) for data in GOOD["bodies"].values()]
    assert {type(partition) for body in bodies for partition in body.partitions} == set(PARTITION_KINDS.values())


@pytest.mark.parametrize("vector", GOOD["envelopes"], ids=lambda vector: vector["type"])
def test_an_envelope_verifies_and_is_written_again_byte_for_byte(vector):
    data, signer = bytes.fromhex(vector["envelope"]), bytes.fromhex(vector["signer"])
    envelope, message = open_envelope(data)
    verify(envelope, signer)
    assert envelope.type == vector["type"]
    assert envelope.payload.hex() == vector["payload"]
    assert digest(data).hex() == vector["digest"]
    assert request_digest(signer, envelope.type, envelope.payload).hex() == vector["request_digest"]
    key = CURATOR if signer == CURATOR.public else LEARNER
    assert seal(message, key) == data


def test_a_seeded_envelope_is_written_again_byte_for_byte():
    data = bytes.fromhex(GOOD["seeded_envelope"])
    envelope, message = open_envelope(data)
    verify(envelope, CURATOR.public, label=NOT_PRIVATE_LABEL)
    assert seal(message, CURATOR, label=NOT_PRIVATE_LABEL) == data


def test_the_transcript_has_its_recorded_head_and_epsilon():
    transcript = Transcript()
    for data in ENVELOPES:
        transcript.append(data)
    assert transcript.head.hex() == GOOD["transcript_head"]
    proof = replay(ENVELOPES, CURATOR.public, LEARNER.public)
    assert proof.epsilon_claimed == Fraction(GOOD["epsilon_claimed"])
    assert proof.epsilon_spent == Fraction(GOOD["epsilon_spent"])
    assert proof.refusals == ["halted"]


@pytest.mark.parametrize("name", GOOD["bodies"])
def test_a_body_is_read_and_written_again_byte_for_byte(name):
    data = bytes.fromhex(GOOD["bodies"][name])
    body = decode(data, CountsBody)
    assert encode(body) == data
    schema = open_envelope(ENVELOPES[1])[1].schema
    release = "mass" if body.hypothesis is None else "signed_error"
    planned = PlannedCounts(release=release, partitions=len(body.partitions), scale=Rational(1, 1))
    assert COUNTS.read_body(data, Turn(planned), KindTerms(schema, CountsLimits())) == body


@pytest.mark.parametrize("release", GOOD["other_queries"])
def test_queries_about_other_labels_are_read_and_written_again_byte_for_byte(release):
    case = GOOD["other_queries"][release]
    data = {what: bytes.fromhex(case[what]) for what in ("planned", "body")}
    schema_data = bytes.fromhex(GOOD["other_schemas"][case["schema"]])
    schema = decode(schema_data, Schema)
    planned, body = decode(data["planned"], PlannedCounts), decode(data["body"], CountsBody)
    assert (encode(schema), encode(planned), encode(body)) == (schema_data, data["planned"], data["body"])
    assert planned.release == release
    assert COUNTS.read_body(data["body"], Turn(planned), KindTerms(schema, CountsLimits())) == body
    tenths = {"squared_error": Fraction(1, 10), "error_sums": Fraction(1, 10)}
    assert QUERY_KINDS.cost(planned, 1) == tenths.get(release, 1)


def test_schemas_with_units_sentinels_and_dates_are_read_and_written_again_byte_for_byte():
    schemas = {name: bytes.fromhex(data) for name, data in GOOD["declared_schemas"].items()}
    read = {name: decode(data, Schema) for name, data in schemas.items()}
    assert {name: encode(schema) for name, schema in read.items()} == schemas
    assert (read["units"].measure("bp"), read["units"].measure("days")) == ("mm Hg", "days")
    assert read["missing"].find("weight").missing == (0.0, 999.0, -1.5, "not done")
    assert read["missing"].find("sex").missing == ("unknown", "999")
    assert read["days_since"].measure("born") == "days since 2015-01-01"


def test_schemas_with_outcomes_are_read_and_written_again_byte_for_byte():
    schemas = {name: bytes.fromhex(data) for name, data in GOOD["schemas_with_outcomes"].items()}
    read = {name: decode(data, Schema) for name, data in schemas.items()}
    assert {name: encode(schema) for name, schema in read.items()} == schemas
    assert read["label"].time_to_event.ends == (30.0, 90.0, 365.0)
    assert read["label"].causes == ("yes",)
    assert read["entry"].causes == ("relapse", "death")
    assert read["entry"].time_to_event.ends[-1] == 365.0


def test_a_query_about_outcomes_is_read_and_written_again_byte_for_byte():
    schema = decode(bytes.fromhex(GOOD["schemas_with_outcomes"]["entry"]), Schema)
    planned_data, data = (bytes.fromhex(GOOD["outcome_counts"][name]) for name in ("planned", "body"))
    planned, body = decode(planned_data, PlannedCounts), decode(data, CountsBody)
    assert (encode(planned), encode(body)) == (planned_data, data)
    assert COUNTS.read_body(data, Turn(planned), KindTerms(schema, CountsLimits())) == body
    assert QUERY_KINDS.cost(planned, 1) == Fraction(1, 10)
    # Entry x exit x cause; label x sex with a cell for all outside of the filter.
    assert [partition.cell_count(schema) for partition in body.partitions] == [3 * 4 * 5, 4 * 4 + 1]


def test_a_release_is_read_and_written_again_byte_for_byte():
    data = bytes.fromhex(GOOD["release"])
    release = decode(data, CountsRelease)
    assert encode(release) == data
    assert release.counts[:16] == bytes([7, *[0] * 7, 0xFD, *[0xFF] * 7])
    assert len(release.counts) == 8 * 8


def test_a_sample_is_read_and_written_again_byte_for_byte():
    told = {name: bytes.fromhex(data) for name, data in SAMPLES.items()}
    planned = dict.fromkeys(("planned", "planned_version_2"), PlannedSample)
    kinds = {**planned, "body": SampleBody, "release": SampleRelease}
    read = {name: decode(told[name], kind) for name, kind in kinds.items()}
    assert {name: encode(value) for name, value in read.items()} == told
    schema = open_envelope(ENVELOPES[1])[1].schema
    schema = Schema((*schema.attributes, NumericAttribute("x", -1, 1)), schema.label, schema.classes)
    cells = SAMPLE.read_release(told["release"], Question(Turn(read["planned"]), read["body"], schema)).reshape(
        -1, len(read["planned"].axes)
    )
    assert cells.tolist() == [[299, 1, 1, 0], [0, 0, 0, 0]]
    assert QUERY_KINDS.cost(read["planned"], 1) == QUERY_KINDS.cost(read["planned"], 7) == Fraction(1, 10)
    assert QUERY_KINDS.cost(read["planned_version_2"], 1) == Fraction(1, 10)  # at so small an epsilon nothing is saved


def test_a_holdout_is_read_and_written_again_byte_for_byte():
    told = {name: bytes.fromhex(data) for name, data in HOLDOUT.items()}
    kinds = {
        "planned": PlannedHoldout,
        "planned_between": PlannedHoldout,
        "body": HoldoutBody,
        "close": HoldoutRelease,
        "counts": HoldoutRelease,
        "blog_planned": PlannedBlogHoldout,
        "blog_body": BlogHoldoutBody,
        "blog_release": BlogHoldoutRelease,
    }
    read = {name: decode(told[name], kind) for name, kind in kinds.items()}
    assert {name: encode(value) for name, value in read.items()} == told
    assert QUERY_KINDS.cost(read["planned"], 1) == Fraction(3, 2)
    assert QUERY_KINDS.cost(read["planned_between"], 1) == Fraction(3, 8) + Fraction(7, 10) * Fraction(9, 8)
    assert BLOG_HOLDOUT.cost(read["blog_planned"], 1) == Fraction(1, 20)
    assert (read["close"].close, read["counts"].counts) == (True, (-7, 2**40))


def test_a_secure_sum_is_opened_from_what_was_released():
    """By a learner that has the recorded bytes alone; and every body and release is written again byte for byte."""
    planned = decode(bytes.fromhex(SECURE["planned"]), PlannedSecureCounts)
    assert encode(planned).hex() == SECURE["planned"]
    assert [key.hex() for key in planned.participants] == SECURE["participants"]
    bodies, releases = (
        [
            {int(index): decode(bytes.fromhex(data), kind) for index, data in turn[side].items()}
            for turn, kind in zip(SECURE["turns"], kinds, strict=True)
        ]
        for side, kinds in (("bodies", BODIES), ("releases", RELEASES))
    )
    question = question_digest(bytes.fromhex(SECURE["learner"]), Turn(planned), bodies[0][0])
    assert question.hex() == SECURE["question"]
    machine = Aggregator(planned.group(LABEL), question, 2)
    cards, sealed, masked, agreed, revealed = releases
    assert bodies[1][0].cards == machine.take_cards(cards)
    dealt = machine.take_shares({index: each.shares for index, each in sealed.items()})
    assert all((body.dealers, body.shares) == tuple(dealt[index]) for index, body in bodies[2].items())
    survivors = machine.take_masked({index: as_words(each.words) for index, each in masked.items()})
    assert list(survivors) == list(bodies[3][0].survivors) == SECURE["survivors"]
    assert machine.take_agreements({i: each.signature for i, each in agreed.items()}) == bodies[4][0].agreements
    opened = machine.take_revealed({index: each.shares for index, each in revealed.items()})
    assert opened.values.tolist() == SECURE["sum"] == [1 + 2 + 4, -3 * 2**40]


def read_envelope(data):
    envelope, _ = open_envelope(data)
    verify(envelope, LEARNER.public)


def read_first_body(data):
    proposal, card = open_envelope(ENVELOPES[2])[1], open_envelope(ENVELOPES[1])[1]
    COUNTS.read_body(
        data, QUERY_KINDS.turns(proposal.plan)[0], KindTerms(card.schema, QUERY_KINDS.limits(card.limits, "counts"))
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_vector_is_refused_with_its_code(name):
    vector = BAD[name]
    read = {"envelope": read_envelope, "body": read_first_body}[vector["reads"]]
    with pytest.raises(RemoteProtocolError) as caught:
        read(bytes.fromhex(vector["bytes"]))
    assert caught.value.code == vector["code"]


def test_identity_cards_are_read_and_written_again_letter_for_letter():
    assert IDENTITY["label"] == IDENTITY_LABEL
    for name, text in IDENTITY["cards"].items():
        card = read_identity(text, where=name)
        key = SigningKey.from_seed(bytes.fromhex(IDENTITY["seeds"][name]))
        assert write_identity(card, key) == text
        assert card.key == key.public
        assert card.fingerprint == IDENTITY["fingerprints"][name]
    first, successor = (read_identity(IDENTITY["cards"][name], where=name) for name in ("first", "successor"))
    assert (successor.previous, successor.succeeds(first.key), first.succeeds(successor.key)) == (
        first.key,
        True,
        False,
    )


@pytest.mark.parametrize("name", IDENTITY["bad"])
def test_a_bad_identity_card_is_none(name):
    with pytest.raises(ConfigurationError, match="bad card"):
        read_identity(IDENTITY["bad"][name], where="bad card")


def test_the_files_are_what_the_generator_writes():
    spec = importlib.util.spec_from_file_location("generate_vectors", FOLDER / "generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    for name, content in generator.vectors().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == generator.text(content), (
            "run tests/protocol/vectors/generate.py"
        )
