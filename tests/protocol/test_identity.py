"""Identity cards: what one key vouches for, what a successor inherits, and a fingerprint that stands for one key."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from generators import KEYS
from protocol.codec import decode, encode
from protocol.envelopes import Envelope, SigningKey, open_envelope, seal, sign_payload, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.identity import (
    BEGIN,
    END,
    LABEL,
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
from protocol.messages import CardRequest

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
    whole = bytearray(sign_payload(TYPE, encode(card), key, LABEL))
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
    data = sign_payload(TYPE, encode(card), key, LABEL)
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
        open_identity(sign_payload(TYPE, encode(whole), key, LABEL))
    whole = fields | {"issued": 1, "until": 0, "successions": []}
    open_identity(sign_payload(TYPE, encode(whole), key, LABEL))


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
