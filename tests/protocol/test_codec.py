"""Round trips, and hostile bytes: exactly one error type with the right code, never a hang."""

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from gates import bounded
from generators import KEYS, MESSAGES, bodies, messages, receipts, releases
from protocol.codec import MOST_ENVELOPE_BYTES, decode, encode
from protocol.envelopes import Envelope, open_envelope, seal
from protocol.errors import RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsLimits, CountsRelease
from protocol.limits import Limits
from protocol.messages import MESSAGE_TYPES, TYPE_NAMES, CardRequest, Receipt, Refusal, StudyProposal
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import Schema

KINDS = [*MESSAGE_TYPES.values(), Receipt, CountsBody, CountsRelease, Envelope, Plan, Limits, CountsLimits, Schema]
REQUEST = CardRequest(
    study=bytes(16), sender=KEYS[0].public, recipient=bytes(32), sequence=0, answers=bytes(32), expires_at=1
)


def refused(data, kind, **options):
    with pytest.raises(RemoteProtocolError) as caught:
        decode(data, kind, field="here", **options)
    assert caught.value.field == "here"
    return caught.value.code


def decodes_or_refuses(data, kind):
    codes = []
    try:
        value = decode(data, kind)
    except RemoteProtocolError as error:
        codes.append(error.code)
    else:
        assert encode(value) == data
    assert codes in ([], [RefusalCode.MALFORMED])


def test_the_generators_draw_every_message_type():
    assert MESSAGES.keys() == MESSAGE_TYPES.keys()


@given(messages)
@settings(deadline=None, max_examples=60)
def test_every_message_survives_the_wire(message):
    assert decode(encode(message), type(message)) == message


test_every_message_survives_the_wire_at_length = at_length(test_every_message_survives_the_wire, 150)


@given(receipts, bodies(), releases())
@settings(deadline=None, max_examples=15)
def test_receipts_bodies_and_releases_survive_the_wire(receipt, body, release):
    assert decode(encode(receipt), Receipt) == receipt
    assert decode(encode(body), CountsBody) == body
    assert decode(encode(release), CountsRelease) == release


test_receipts_bodies_and_releases_survive_the_wire_at_length = at_length(
    test_receipts_bodies_and_releases_survive_the_wire, 60
)


@given(st.binary(max_size=60), st.sampled_from(KINDS))
@settings(deadline=None, max_examples=300)
def test_arbitrary_bytes_are_malformed(data, kind):
    decodes_or_refuses(data, kind)


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=100)
def test_arbitrary_bytes_are_no_envelope(data):
    with pytest.raises(RemoteProtocolError):
        open_envelope(data)


@given(messages, st.data())
@settings(deadline=None, max_examples=45)
def test_flipped_bits_decode_to_another_value_or_are_malformed(message, data):
    flipped = bytearray(encode(message))
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    decodes_or_refuses(bytes(flipped), type(message))


test_flipped_bits_decode_to_another_value_or_are_malformed_at_length = at_length(
    test_flipped_bits_decode_to_another_value_or_are_malformed, 150
)


@given(bodies(), st.data())
@settings(deadline=None, max_examples=20)
def test_flipped_bits_of_a_body_decode_to_another_value_or_are_malformed(body, data):
    flipped = bytearray(encode(body))
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    decodes_or_refuses(bytes(flipped), CountsBody)


test_flipped_bits_of_a_body_decode_to_another_value_or_are_malformed_at_length = at_length(
    test_flipped_bits_of_a_body_decode_to_another_value_or_are_malformed, 80
)


@pytest.mark.parametrize("kind", [CardRequest, Envelope])
def test_every_truncation_is_malformed(kind):
    whole = encode(REQUEST) if kind is CardRequest else seal(REQUEST, KEYS[0])
    assert decode(whole, kind)
    for length in range(len(whole)):
        assert refused(whole[:length], kind) == RefusalCode.MALFORMED


@given(messages, st.binary(min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_trailing_bytes_are_malformed(message, tail):
    assert refused(encode(message) + tail, type(message)) == RefusalCode.MALFORMED


@given(messages, st.sampled_from(list(MESSAGE_TYPES.values())))
@settings(deadline=None, max_examples=80)
def test_one_type_is_not_read_as_another_unless_they_have_the_same_fields(message, other):
    same_fields = {CardRequest, MESSAGE_TYPES["study_close"]}
    if type(message) is other or {type(message), other} == same_fields:
        assert decode(encode(message), other)
    else:
        assert refused(encode(message), other) == RefusalCode.MALFORMED


def pack(value):
    return msgspec.msgpack.encode(value)


def fields_of(message):
    return msgspec.msgpack.decode(encode(message))


def test_an_unknown_field_is_malformed():
    assert refused(pack(fields_of(REQUEST) | {"extra": 1}), CardRequest) == RefusalCode.MALFORMED


def test_a_missing_field_is_malformed():
    for name in fields_of(REQUEST):
        without = {key: value for key, value in fields_of(REQUEST).items() if key != name}
        assert refused(pack(without), CardRequest) == RefusalCode.MALFORMED, name


def test_a_duplicated_key_is_malformed():
    whole = encode(REQUEST)
    assert whole[0] == 0x87
    assert refused(b"\x88" + whole[1:] + pack("sequence") + pack(0), CardRequest) == RefusalCode.MALFORMED


def test_fields_in_another_order_are_malformed():
    backwards = dict(reversed(fields_of(REQUEST).items()))
    assert refused(pack(backwards), CardRequest) == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    "wide", [b"\xcc\x01", b"\xcd\x00\x01", b"\xce\x00\x00\x00\x01", b"\xd0\x01", b"\xd3" + bytes(7) + b"\x01"]
)
def test_a_wider_integer_than_needed_is_malformed(wide):
    whole = encode(REQUEST)
    assert whole.endswith(pack("expires_at") + b"\x01")
    assert refused(whole[:-1] + wide, CardRequest) == RefusalCode.MALFORMED


def test_a_wider_string_or_array_header_than_needed_is_malformed():
    bins = encode(FeatureBins("x", (1.0,)))
    assert decode(bins, FeatureBins)
    for narrow, wide in ((b"\xa1x", b"\xd9\x01x"), (b"\x91\xcb", b"\xdc\x00\x01\xcb"), (b"\x83", b"\xde\x00\x03")):
        assert bins.count(narrow) == 1
        assert refused(bins.replace(narrow, wide), FeatureBins) == RefusalCode.MALFORMED


@pytest.mark.parametrize("edge", [1, True, None, "1.0", b"1"])
def test_an_edge_that_is_no_float64_is_malformed(edge):
    body = {"type": "feature_bins", "attribute": "x", "edges": [edge]}
    assert refused(pack(body), FeatureBins) == RefusalCode.MALFORMED


def test_a_float32_edge_is_malformed():
    whole = encode(FeatureBins("x", (1.0,)))
    single = whole.replace(b"\xcb" + struct.pack(">d", 1.0), b"\xca" + struct.pack(">f", 1.0))
    assert refused(single, FeatureBins) == RefusalCode.MALFORMED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "bomb",
    [
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xc1",
        b"",
        b"\xd6\xff\x00\x00\x00\x01",
    ],
    ids=["arrays", "maps", "array32", "map32", "bin32", "str32", "ext32", "reserved", "empty", "timestamp"],
)
def test_nesting_and_huge_declared_lengths_are_malformed_at_once(kind, bomb):
    with bounded(1):
        assert refused(bomb, kind) == RefusalCode.MALFORMED


@pytest.mark.parametrize(("kind", "name"), [(Limits, "kinds"), (CountsLimits, "release_kinds"), (Plan, "queries")])
def test_a_huge_declared_length_of_a_field_is_malformed_at_once(kind, name):
    for bomb in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"):
        assert refused(b"\x81" + pack(name) + bomb, kind) == RefusalCode.MALFORMED


def test_nesting_below_a_known_field_is_malformed():
    deep = b"\x81" + pack("partitions") + b"\x91" * 100_000
    assert refused(deep, CountsBody) == RefusalCode.MALFORMED
    for start in (pack("queries") + b"\x91", pack("queries") + b"\x91\x82" + pack("kind") + pack("x") + pack("a")):
        assert refused(b"\x81" + start + b"\x91" * 100_000, Plan) == RefusalCode.MALFORMED
    own = pack("kinds") + b"\x81" + pack("counts") + b"\x81" + pack("cells")
    assert refused(b"\x81" + own + b"\x91" * 100_000, Limits) == RefusalCode.MALFORMED


def test_text_that_is_not_utf8_is_malformed():
    whole = encode(FeatureBins("x", ()))
    assert refused(whole.replace(b"\xa1x", b"\xa1\xff"), FeatureBins) == RefusalCode.MALFORMED


def test_oversize_is_too_large_and_the_limit_is_inclusive():
    whole = encode(REQUEST)
    assert decode(whole, CardRequest, limit=len(whole)) == REQUEST
    assert refused(whole, CardRequest, limit=len(whole) - 1) == RefusalCode.TOO_LARGE
    assert refused(bytes(MOST_ENVELOPE_BYTES + 1), CardRequest) == RefusalCode.TOO_LARGE


def test_an_envelope_is_measured_before_it_is_read():
    with pytest.raises(RemoteProtocolError) as caught:
        open_envelope(bytes(11), limit=10)
    assert caught.value.code == RefusalCode.TOO_LARGE


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 0), ("version", 1), ("version", 3), ("study", bytes(15)), ("sender", bytes(31)), ("sender", "text")]
    + [("recipient", bytes(33)), ("sequence", -1), ("sequence", 2**20 + 1), ("answers", b"")]
    + [("expires_at", time) for time in (2**40 + 1, -1, 1.0)],
)
def test_each_field_of_the_header_has_its_bounds(field, value):
    assert refused(pack(fields_of(REQUEST) | {field: value}), CardRequest) == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    "text", ["", "-1", "01", "1.5", "1/0", "0/1\n", "1\n", " 1", "1 ", "1/", "/1", "+1", "1e3", "٣"]
)
def test_an_amount_that_is_no_plain_rational_is_malformed(text):
    refusal = msgspec.structs.replace(REFUSAL, remaining=text)
    if text:
        assert refused(encode(refusal), Refusal) == RefusalCode.MALFORMED
    else:
        assert decode(encode(refusal), Refusal).remaining == ""


def test_a_line_feed_is_not_the_empty_amount():
    assert refused(encode(msgspec.structs.replace(REFUSAL, scale_factor="\n")), Refusal) == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    "pair", [[0, 1], [1, 0], [-1, 1], [2, 4], [2**32, 1], [1, 2**32], [1], [1, 1, 1], [1.0, 1], [2**63, 2**64 - 1]]
)
def test_a_bad_rational_on_the_wire_is_malformed(pair):
    assert refused(pack(pair), Rational) == RefusalCode.MALFORMED


def test_an_empty_or_overlong_plan_is_malformed():
    query = {"kind": "counts", "release": "mass", "partitions": 1, "scale": [1, 1]}
    assert len(QUERY_KINDS.queries(decode(pack({"queries": [query] * 1000}), Plan))) == 1000
    for queries in ([], [query] * 1001):
        assert refused(pack({"queries": queries}), Plan) == RefusalCode.MALFORMED


def test_what_everybody_reads_of_a_plan_is_checked_whatever_the_kind():
    query = {"kind": "nobody has it", "turns": 50_000}
    assert len(decode(pack({"queries": [query] * 2}), Plan).places) == 100_000
    for wrong in ({"turns": 0}, {"turns": 100_001}, {"turns": 1.0}, {"kind": 1}, {"kind": "k" * 101}, {1: 1}):
        assert refused(pack({"queries": [query | wrong]}), Plan) == RefusalCode.MALFORMED
    for queries in ([query] * 3, [{"turns": 1}], ["counts"], [["counts"]], [None], [1]):
        assert refused(pack({"queries": queries}), Plan) == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 0},
        {"partitions": 100_001},
        {"partitions": 1.0},
        {"scale": [2, 2]},
        {"release": 1},
        {"steps": 0},
        {"steps": 1},
        {"turns": 1},
        {"more": 1},
    ],
)
def test_what_a_kind_reads_of_a_plan_is_checked_by_the_kind(change):
    query = {"kind": "counts", "release": "mass", "partitions": 1, "scale": [1, 1]}
    plan = decode(pack({"queries": [query, query | change]}), Plan)
    for read in (QUERY_KINDS.queries, QUERY_KINDS.turns, lambda plan: QUERY_KINDS.plan_cost(plan, 1)):
        with pytest.raises(RemoteProtocolError) as caught:
            read(plan)
        assert (caught.value.code, caught.value.field) == (RefusalCode.MALFORMED, "plan.queries")


def test_a_planned_query_has_one_encoding():
    start = b"\x84" + pack("kind") + pack("counts") + pack("release") + pack("mass") + pack("partitions")
    end = pack("scale") + pack([1, 1])
    assert QUERY_KINDS.queries(decode(b"\x81" + pack("queries") + b"\x91" + start + b"\x01" + end, Plan))
    for wider in (start + b"\xcc\x01" + end, b"\x85" + start[1:] + b"\x01" + pack("partitions") + b"\x01" + end):
        plan = decode(b"\x81" + pack("queries") + b"\x91" + wider, Plan)
        with pytest.raises(RemoteProtocolError) as caught:
            QUERY_KINDS.queries(plan)
        assert caught.value.code == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    ("name", "value"),
    [("release_kinds", "mass"), ("release_kinds", ["masses"]), ("cels", 5)]
    + [("cells", value) for value in (0, 500_001, 1.0, "5", True, {1: 2}, [None])],
)
def test_limits_of_a_kind_that_it_cannot_read_are_malformed(name, value):
    limits = decode(encode(Limits(kinds={"counts": {name: value}})), Limits)
    with pytest.raises(RemoteProtocolError) as caught:
        QUERY_KINDS.limits(limits, "counts")
    assert (caught.value.code, caught.value.field) == (RefusalCode.MALFORMED, "limits.kinds.counts")


def test_type_names_and_types_are_inverse():
    assert {TYPE_NAMES[kind]: kind for kind in TYPE_NAMES} == MESSAGE_TYPES
    assert MESSAGE_TYPES["study_proposal"] is StudyProposal


REFUSAL = Refusal(
    **{name: getattr(REQUEST, name) for name in ("study", "sender", "recipient", "sequence", "answers", "expires_at")},
    code="halted",
    explanation="",
    field="",
    limit="",
    remaining="",
    scale_factor="",
)
