"""Signatures and identity cards: what one key vouches for, what a successor inherits; nothing else verifies."""

import base64
import itertools

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.policy import LearnerPolicy, Policy
from generators import KEYS, messages, receipts
from protocol.codec import decode, encode
from protocol.envelopes import (
    LABEL,
    NOT_PRIVATE_LABEL,
    Envelope,
    SigningKey,
    check_public_key,
    encode_parts,
    open_envelope,
    open_receipt,
    request_digest,
    seal,
    seal_receipt,
    sign_payload,
    verify,
)
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.identity import (
    BEGIN,
    END,
    MOST_SUCCESSIONS,
    TYPE,
    IdentityCard,
    armour,
    fingerprint,
    open_identity,
    read_identity,
    same_fingerprint,
    succession,
    write_identity,
)
from protocol.identity import LABEL as IDENTITY_LABEL
from protocol.messages import SEALED_BYTES, CardRequest, Receipt
from protocol.refusals import RefusalCode

LABELS = [LABEL, NOT_PRIVATE_LABEL]
REQUEST = CardRequest(
    study=bytes(16), sender=KEYS[0].public, recipient=bytes(32), sequence=0, answers=bytes(32), expires_at=1
)
RECEIPT = Receipt(
    curator=KEYS[0].public,
    learner=KEYS[1].public,
    study=bytes(16),
    sequence=1,
    request=bytes(32),
    release=bytes(32),
    charged="1/30",
    spent_by_study="1/30",
    spent_by_learner="1/30",
    ledger_head=bytes(32),
    position=bytes(SEALED_BYTES),
    issued_at=1,
)


def assert_bad_signature(envelope, signer, **options):
    with pytest.raises(RemoteProtocolError) as caught:
        verify(envelope, signer, **options)
    assert caught.value.code == RefusalCode.BAD_SIGNATURE


@given(messages, st.sampled_from(KEYS), st.sampled_from(LABELS))
@settings(deadline=None, max_examples=60)
def test_a_sealed_message_opens_to_itself_and_verifies(message, key, label):
    envelope, opened = open_envelope(seal(message, key, label=label))
    assert opened == message
    verify(envelope, key.public, label=label)


@given(messages, st.sampled_from(LABELS))
@settings(deadline=None, max_examples=40)
def test_another_key_or_the_other_label_never_verifies(message, label):
    envelope, _ = open_envelope(seal(message, KEYS[0], label=label))
    other = LABELS[1 - LABELS.index(label)]
    assert_bad_signature(envelope, KEYS[1].public, label=label)
    assert_bad_signature(envelope, KEYS[0].public, label=other)
    assert_bad_signature(msgspec.structs.replace(envelope, label=other), KEYS[0].public, label=other)


def test_a_seeded_envelope_does_not_verify_by_default():
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0], label=NOT_PRIVATE_LABEL))
    assert_bad_signature(envelope, KEYS[0].public)


@pytest.mark.parametrize("label", ["expril/1", "expril/1 simulation, not private"])
def test_what_version_1_signed_is_refused_by_name(label):
    sealed, receipt = seal(REQUEST, KEYS[0], label=label), seal_receipt(RECEIPT, KEYS[0], label=label)
    for read in (
        lambda: open_envelope(sealed),
        lambda: verify(decode(sealed, Envelope), KEYS[0].public),
        lambda: verify(decode(sealed, Envelope), KEYS[0].public, label=label),
        lambda: open_receipt(receipt, KEYS[0].public),
    ):
        with pytest.raises(
            RemoteProtocolError, match=r"version 1 .* update ExPriL; verify .* with ExPriL 0\.1"
        ) as caught:
            read()
        assert (caught.value.code, caught.value.field) == (RefusalCode.MALFORMED, "envelope.label")


@given(st.integers(0, 511))
@settings(deadline=None, max_examples=40)
def test_every_flipped_bit_of_the_signature_is_noticed(bit):
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    forged = bytearray(envelope.signature)
    forged[bit // 8] ^= 1 << bit % 8
    assert_bad_signature(msgspec.structs.replace(envelope, signature=bytes(forged)), KEYS[0].public)


def test_a_changed_payload_is_noticed():
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    changed = encode(msgspec.structs.replace(REQUEST, expires_at=2))
    assert_bad_signature(msgspec.structs.replace(envelope, payload=changed), KEYS[0].public)


def test_a_changed_type_is_noticed_although_the_payload_fits_it():
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    changed = msgspec.structs.replace(envelope, type="study_close")
    reopened, _ = open_envelope(encode(changed))
    assert_bad_signature(reopened, KEYS[0].public)


@pytest.mark.parametrize("signer", [b"", bytes(31), bytes(33)])
def test_a_key_of_the_wrong_length_is_a_bad_signature(signer):
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    assert_bad_signature(envelope, signer)


@pytest.mark.parametrize("name", ["", "receipt", "Card", "unknown"])
def test_an_envelope_of_no_message_type_is_malformed(name):
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    with pytest.raises(RemoteProtocolError) as caught:
        open_envelope(encode(msgspec.structs.replace(envelope, type=name)))
    assert caught.value.code == RefusalCode.MALFORMED
    assert caught.value.field == "envelope.type"


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_the_wrong_length_is_malformed(size):
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    with pytest.raises(RemoteProtocolError) as caught:
        open_envelope(encode(msgspec.structs.replace(envelope, signature=bytes(size))))
    assert caught.value.code == RefusalCode.MALFORMED


parts = st.lists(st.binary(max_size=3), max_size=4)


@given(parts, parts)
@settings(deadline=None, max_examples=300)
def test_the_pre_authentication_encoding_is_injective(some, others):
    assert (encode_parts(*some) == encode_parts(*others)) == (some == others)


def test_the_pre_authentication_encoding_does_not_slide_between_parts():
    assert (
        len({encode_parts(b"ab", b"c"), encode_parts(b"a", b"bc"), encode_parts(b"abc"), encode_parts(b"abc", b"")})
        == 4
    )
    assert encode_parts("é".encode()) == b"\x00\x00\x00\x00\x00\x00\x00\x02\xc3\xa9"


@given(receipts, st.sampled_from(LABELS))
@settings(deadline=None, max_examples=30)
def test_a_receipt_opens_for_its_curator_and_label_only(receipt, label):
    sealed = seal_receipt(receipt, KEYS[0], label=label)
    assert open_receipt(sealed, KEYS[0].public, label=label) == receipt
    for curator, wanted in ((KEYS[1].public, label), (KEYS[0].public, LABELS[1 - LABELS.index(label)])):
        with pytest.raises(RemoteProtocolError) as caught:
            open_receipt(sealed, curator, label=wanted)
        assert caught.value.code == RefusalCode.BAD_SIGNATURE


def test_a_receipt_that_names_another_curator_than_its_signer_is_refused():
    sealed = seal_receipt(msgspec.structs.replace(RECEIPT, curator=KEYS[1].public), KEYS[0])
    with pytest.raises(RemoteProtocolError) as caught:
        open_receipt(sealed, KEYS[0].public)
    assert (caught.value.code, caught.value.field) == (RefusalCode.BAD_SIGNATURE, "receipt.curator")


def test_a_message_is_no_receipt_and_a_receipt_is_no_message():
    with pytest.raises(RemoteProtocolError) as caught:
        open_receipt(seal(REQUEST, KEYS[0]), KEYS[0].public)
    assert caught.value.field == "receipt.type"
    with pytest.raises(RemoteProtocolError) as caught:
        open_envelope(seal_receipt(RECEIPT, KEYS[0]))
    assert caught.value.field == "envelope.type"


@pytest.mark.parametrize("data", [b"", b"\x00", bytes(100)])
def test_a_receipt_of_junk_is_malformed(data):
    with pytest.raises(RemoteProtocolError) as caught:
        open_receipt(data, KEYS[0].public)
    assert caught.value.code == RefusalCode.MALFORMED


def test_a_receipt_with_a_changed_amount_is_refused():
    envelope = decode(seal_receipt(RECEIPT, KEYS[0]), Envelope)
    cheaper = encode(msgspec.structs.replace(RECEIPT, charged="0"))
    with pytest.raises(RemoteProtocolError) as caught:
        open_receipt(encode(msgspec.structs.replace(envelope, payload=cheaper)), KEYS[0].public)
    assert caught.value.code == RefusalCode.BAD_SIGNATURE


requests = st.tuples(st.binary(max_size=2), st.text("ab", max_size=2), st.binary(max_size=2))


@given(requests, requests)
@settings(deadline=None, max_examples=200)
def test_a_request_digest_differs_by_each_of_its_components(one, other):
    assert (request_digest(*one) == request_digest(*other)) == (one == other)


def test_a_request_digest_ignores_the_signature():
    one, other = (open_envelope(seal(REQUEST, KEYS[0], label=label))[0] for label in LABELS)
    assert one.signature != other.signature
    assert request_digest(KEYS[0].public, one.type, one.payload) == request_digest(
        KEYS[0].public, other.type, other.payload
    )


def test_a_key_survives_its_pem():
    key = SigningKey.generate()
    again = SigningKey.from_pem(key.to_pem())
    assert again.public == key.public
    assert again.sign(b"x") == key.sign(b"x")


def test_the_key_of_rfc_8032_has_its_published_public_key_and_signature():
    # RFC 8032, 7.1, TEST 1.
    key = SigningKey.from_seed(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert key.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


def test_derived_secrets_differ_by_purpose_and_key():
    derived = {key.derive(purpose) for key in KEYS for purpose in ("a", "b")}
    assert len(derived) == 6
    assert {len(secret) for secret in derived} == {32}
    assert KEYS[0].derive("a") == SigningKey.from_seed(b"\x01" * 32).derive("a")


def _pem(private, encryption=None):
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def _unknown_algorithm():
    body = base64.b64decode(b"".join(KEYS[0].to_pem().split(b"\n")[1:-2]))
    changed = base64.b64encode(body.replace(b"\x2b\x65\x70", b"\x2b\x65\x7f"))
    return b"-----BEGIN PRIVATE KEY-----\n" + changed + b"\n-----END PRIVATE KEY-----\n"


BAD_PEMS = {
    "empty": b"",
    "junk": b"\xff\x00junk",
    "truncated": KEYS[0].to_pem()[:60],
    "garbled": KEYS[0].to_pem().replace(b"M", b"N"),
    "encrypted": _pem(KEYS[0]._private, BestAvailableEncryption(b"secret")),
    "elliptic": _pem(ec.generate_private_key(ec.SECP256R1())),
    "rsa": _pem(rsa.generate_private_key(65537, 2048)),
    "unknown algorithm": _unknown_algorithm(),
}


@pytest.mark.parametrize("name", BAD_PEMS)
def test_a_bad_key_file_is_a_configuration_error_that_says_what_to_do(name):
    with pytest.raises(ConfigurationError, match="expril keys"):
        SigningKey.from_pem(BAD_PEMS[name])


def _small_order_encodings():
    """Every encoding of a point of small order on edwards25519, found by arithmetic: 8P = 0 (RFC 8032, section 5.1)."""
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p

    def add(one, other):
        (x1, y1), (x2, y2) = one, other
        k = d * x1 * x2 * y1 * y2
        return (x1 * y2 + x2 * y1) * pow(1 + k, -1, p) % p, (y1 * y2 + x1 * x2) * pow(1 - k, -1, p) % p

    def root(square):
        x = pow(square, (p + 3) // 8, p)
        if (x * x - square) % p:
            x = x * pow(2, (p - 1) // 4, p) % p
        return x if (x * x - square) % p == 0 else None

    # y of the points of order 1, 2, 4, and of order 8, where 2P has y = 0: y^2 = -x^2.
    candidates = [0, 1, p - 1]
    for sign in (1, -1):
        inner = root((1 + d) % p)
        square = (-1 + sign * inner) * pow(d, -1, p) % p if inner is not None else None
        y = root(square) if square is not None else None
        candidates += [] if y is None else [y, p - y]
    found = set()
    for y in candidates:
        x = root((y * y - 1) * pow(d * y * y + 1, -1, p) % p)
        point = (x, y)
        for _ in range(3):
            point = add(point, point)
        assert point == (0, 1), "eight times the point is the neutral one"
        for written in (y, y + p):
            if written < 2**255:
                found |= {(written | bit << 255).to_bytes(32, "little") for bit in (0, 1)}
    return sorted(found)


def test_keys_of_small_order_are_refused_everywhere():
    encodings = _small_order_encodings()
    assert len(encodings) == 14
    assert bytes(32) in encodings
    envelope, _ = open_envelope(seal(REQUEST, KEYS[0]))
    for encoding in encodings:
        with pytest.raises(ConfigurationError, match="expril keys"):
            check_public_key(encoding)
        with pytest.raises(RemoteProtocolError):
            verify(envelope, encoding)
        with pytest.raises(ValueError, match="expril keys"):
            Policy(name="a", cap=1, learners=(LearnerPolicy(name="x", key=encoding.hex(), cap=1),))
    for key in KEYS:
        check_public_key(key.public)


MANY = [SigningKey.from_seed(bytes([number]) * 32) for number in range(1, 30)]
texts = st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)
ROLES = st.sampled_from(["curator", "learner"])


@st.composite
def lines_of_keys(draw):
    """A card, the key that signs it, and the keys that led to it."""
    keys = draw(st.lists(st.sampled_from(MANY), min_size=1, max_size=5, unique_by=lambda key: key.public))
    role = draw(ROLES)
    times = sorted(draw(st.lists(st.integers(0, 2**40 - 9), min_size=len(keys), max_size=len(keys))))
    chain = tuple(
        succession(old, new.public, role, at) for old, new, at in zip(keys[:-1], keys[1:], times[:-1], strict=True)
    )
    card = IdentityCard(
        role=role,
        name=draw(texts.filter(bool)),
        organisation=draw(texts),
        contact=draw(texts),
        key=keys[-1].public,
        issued=times[-1],
        until=draw(st.sampled_from([0, times[-1] + 1])),
        successions=chain,
    )
    return card, keys[-1], keys[:-1]


@settings(max_examples=20, deadline=None)
@given(lines_of_keys(), texts, texts)
def test_a_card_comes_through_mail_as_it_was(made, before, after):
    card, key, earlier = made
    text = write_identity(card, key)
    for mailed in (text, f"{before}\n{text}\n{after}", text.replace("\n", " \r\n"), f"\ufeff\n{text}"):
        assert read_identity(mailed, where="mail") == card
    assert all(card.succeeds(old.public) for old in earlier)
    assert not card.succeeds(card.key)
    assert card.previous == (earlier[-1].public if earlier else None)


test_a_card_comes_through_mail_as_it_was_at_length = at_length(test_a_card_comes_through_mail_as_it_was, 100)


@settings(max_examples=20, deadline=None)
@given(lines_of_keys(), st.data())
def test_no_byte_of_a_card_can_be_changed(made, data):
    card, key, _ = made
    whole = bytearray(sign_payload(TYPE, encode(card), key, IDENTITY_LABEL))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteProtocolError):
        open_identity(bytes(whole))


test_no_byte_of_a_card_can_be_changed_at_length = at_length(test_no_byte_of_a_card_can_be_changed, 100)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_card_or_refused(data):
    with pytest.raises(RemoteProtocolError):
        open_identity(data)
    with pytest.raises(ConfigurationError):
        read_identity(armour(data), where="text")


@given(st.text(max_size=200))
def test_any_text_is_a_card_or_refused_in_one_sentence(text):
    for each in (text, f"{BEGIN}\n{text}\n{END}", f"{END}\n{text}\n{BEGIN}"):
        with pytest.raises(ConfigurationError, match="text"):
            read_identity(each, where="text")


def test_a_card_as_long_as_a_book_is_not_read():
    with pytest.raises(ConfigurationError, match="longer"):
        read_identity("x" * 100_000, where="book")


def test_no_signature_of_a_card_is_one_of_a_message_or_the_other_way_round():
    key = KEYS[0]
    request = CardRequest(
        study=bytes(16), sender=key.public, recipient=bytes(32), sequence=0, answers=bytes(32), expires_at=1
    )
    with pytest.raises(RemoteProtocolError):
        open_identity(seal(request, key))
    card = IdentityCard(role="learner", name="ann", key=key.public, issued=1)
    data = sign_payload(TYPE, encode(card), key, IDENTITY_LABEL)
    with pytest.raises(RemoteProtocolError):
        open_envelope(data)
    with pytest.raises(RemoteProtocolError):
        verify(decode(data, Envelope), key.public)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a\nb"},
        {"name": ""},
        {"contact": "\u202eback"},
        {"organisation": "x" * 201},
        {"issued": 10, "until": 10},
        {"role": "auditor"},
        {"version": 2},
        {"key": bytes(32)},
    ],
    ids=str,
)
def test_a_card_that_breaks_a_rule_is_refused(change):
    key = KEYS[0]
    fields = {"version": 1, "role": "learner", "name": "a", "organisation": "", "contact": "", "key": key.public}
    whole = fields | {"issued": 1, "until": 0, "successions": []} | change
    with pytest.raises(RemoteProtocolError):
        open_identity(sign_payload(TYPE, encode(whole), key, IDENTITY_LABEL))
    whole = fields | {"issued": 1, "until": 0, "successions": []}
    open_identity(sign_payload(TYPE, encode(whole), key, IDENTITY_LABEL))


def chain_of(*keys, role="learner"):
    return tuple(succession(old, new.public, role, 5) for old, new in itertools.pairwise(keys))


@pytest.mark.parametrize(
    "chain",
    [
        chain_of(MANY[0], MANY[1]),  # leads elsewhere
        (*chain_of(MANY[0], MANY[1]), *chain_of(MANY[3], MANY[2])),  # has a gap
        chain_of(MANY[2], MANY[0], MANY[2]),  # comes back
        chain_of(MANY[0], MANY[2], role="curator"),  # was said in another role
        chain_of(*MANY[5 : 5 + MOST_SUCCESSIONS + 1], MANY[2]),  # is too long
        tuple(MANY[1].sign(b"") and each for each in chain_of(MANY[2], MANY[2])),  # goes nowhere
    ],
    ids=["elsewhere", "gap", "circle", "role", "long", "nowhere"],
)
def test_a_succession_that_does_not_lead_here_is_refused(chain):
    card = IdentityCard(role="learner", name="a", key=MANY[2].public, issued=9, successions=chain)
    with pytest.raises((RemoteProtocolError, ConfigurationError)):
        write_identity(card, MANY[2])


def test_nobody_else_can_say_that_a_key_gives_way():
    (true,) = chain_of(MANY[0], MANY[2])
    forged = succession(MANY[1], MANY[2].public, "learner", 5)
    for signature in (forged.signature, bytes(64)):
        made = type(true)(previous=true.previous, key=true.key, at=true.at, signature=signature)
        card = IdentityCard(role="learner", name="a", key=MANY[2].public, issued=9, successions=(made,))
        with pytest.raises((RemoteProtocolError, ConfigurationError)):
            write_identity(card, MANY[2])


def test_another_s_card_cannot_be_written():
    card = IdentityCard(role="learner", name="a", key=MANY[0].public, issued=9)
    with pytest.raises((RemoteProtocolError, ConfigurationError)):
        write_identity(card, MANY[1])


def test_the_time_of_a_card():
    card = IdentityCard(role="learner", name="a", key=MANY[0].public, issued=100_000, until=200_000)
    assert (card.expired(199_999), card.expired(200_000)) == (False, True)
    assert (card.premature(13_600), card.premature(13_599)) == (False, True)
    assert not IdentityCard(role="learner", name="a", key=MANY[0].public, issued=1).expired(2**40)


@given(st.sampled_from(MANY), st.sampled_from(MANY), ROLES, ROLES)
def test_a_fingerprint_stands_for_one_key_in_one_role(one, other, role, another):
    own = fingerprint(role, one.public)
    assert len(own.replace("-", "")) * 5 == 140
    assert not set(own) & set("ILOU")
    told = own.lower().replace("-", " ").replace("0", "o").replace("1", "l")
    assert same_fingerprint(told, own)
    same = (one.public, role) == (other.public, another)
    assert same_fingerprint(fingerprint(another, other.public), own) == same
    assert not same_fingerprint(own[:-1], own)
    assert not same_fingerprint("", own)
