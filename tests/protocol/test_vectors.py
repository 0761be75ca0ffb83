"""Known answers: bytes on the wire, digests and signatures never drift, and bad bytes are refused by the named rule."""

import json

import jsonschema
import pytest

import generate
from expril.audit.kinds.blog_holdout import BlogHoldoutBody, BlogHoldoutRelease, PlannedBlogHoldout
from expril_conformance import VECTORS, vectors
from expril_under_test.reading import READERS, RefusedError, read
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.kinds.statistic import StatisticLimits
from protocol.messages import MESSAGE_TYPES
from protocol.partitions import PARTITION_KINDS
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema

FILES = vectors()
CASES = [(name, vector) for name, content in FILES.items() for vector in (*content["good"], *content["bad"])]


def by_read(what, kind="good"):
    return [vector for content in FILES.values() for vector in content[kind] if vector["read"] == what]


def outcome(vector):
    """What ExPriL says of a vector."""
    try:
        return {"taken": read(vector["read"], vector["given"])}
    except RefusedError as error:
        return {"rule": error.rule} | ({"code": error.code} if "code" in vector else {})


@pytest.mark.parametrize("name", FILES)
def test_every_vector_is_taken_or_refused_by_the_rule_that_it_names(name):
    """And the twin of each bad one is taken, so that it is the fault alone that is refused."""
    content = FILES[name]
    for vector in (*content["good"], *content["bad"]):
        expected = {part: vector[part] for part in ("taken", "rule", "code") if part in vector}
        assert outcome(vector) == expected, vector["name"]
    good = {vector["name"]: vector["read"] for vector in content["good"]}
    assert len(good) == len(content["good"])
    assert all(good[vector["twin"]] in (vector["read"], "export") for vector in content["bad"])


def test_schemas_and_simulations_values_are_read_and_written_again_byte_for_byte():
    blog = {"planned": PlannedBlogHoldout, "body": BlogHoldoutBody, "release": BlogHoldoutRelease}
    typed = {f"blog {name}": kind for name, kind in blog.items()}
    typed |= dict.fromkeys((vector["name"] for vector in FILES["schemas"]["good"]), Schema)
    values = [vector for vector in by_read("value") if vector["name"] in typed]
    assert len(values) == len(typed)
    for vector in values:
        data = bytes.fromhex(vector["given"]["bytes"])
        assert encode(decode(data, typed[vector["name"]])) == data


def test_the_files_are_of_their_schema():
    schema = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    for content in FILES.values():
        checker.validate(content)
    assert set(schema["$defs"]["good"]["properties"]["read"]["enum"]) == set(READERS)
    wrong = {**FILES["keys"], "good": [FILES["keys"]["good"][0] | {"taken": {}}]}
    assert not checker.is_valid(wrong)


def test_the_files_are_what_the_generator_writes():
    written = generate.vectors()
    assert written.keys() == {f"{name}.json" for name in FILES}
    for name, content in written.items():
        assert (VECTORS / name).read_text(encoding="utf-8") == generate.text(content), "run make vectors"


def test_nothing_of_the_wire_is_without_a_vector():
    envelopes = by_read("envelope")
    assert {vector["taken"]["type"] for vector in envelopes} == set(MESSAGE_TYPES)
    assert {vector["given"]["label"] for vector in envelopes} == {LABEL, NOT_PRIVATE_LABEL}
    answers = json.dumps([vector["taken"]["value"] for vector in by_read("value")])
    assert all(f'"type": "{name}"' in answers for name in PARTITION_KINDS)
    assert {vector["taken"]["code"] for vector in by_read("refusal")} == set(RefusalCode)
    assert {vector["read"] for _, vector in CASES} == set(READERS)
    rules = {vector["rule"] for _, vector in CASES if "rule" in vector}
    assert rules == {"decode", "canonical form", "signature", "state", "budget", "content"}
    released = {
        bytes.fromhex(vector["given"]["planned"]) for vector in by_read("answer") if vector["given"]["kind"] == "counts"
    }
    assert all(any(name.encode() in planned for planned in released) for name in RELEASE_KINDS)
    answered = [vector["given"] for vector in by_read("answer") if vector["given"]["kind"] == "statistic"]
    planned = [bytes.fromhex(given["planned"]) for given in answered]
    assert all(any(name.encode() in each for each in planned) for name in StatisticLimits().methods)
