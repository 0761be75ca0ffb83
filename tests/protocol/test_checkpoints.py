"""Checkpoints: C2SP's formats to the byte, and no change of one passes."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from curator_fakes import key
from protocol.envelopes import is_signed
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import (
    CheckpointError,
    Equivocation,
    Submission,
    check_checkpoint,
    cosign,
    equivocate,
    read_checkpoint,
    read_equivocation,
    read_submission,
    sign_checkpoint,
    with_signature,
    witness_name,
    witnesses_of,
)
from protocol.ledger.notes import COSIGNATURE, PLAIN, Note, Signature, key_id, read_note, verifier_key
from witnessed import NOW, Grown

WITNESS = key("university")
REFUSED = (CheckpointError, ConfigurationError)


def co_signed(signed, witness=WITNESS, at=NOW):
    return with_signature(signed, cosign(signed, witness, at))


@pytest.fixture(scope="module")
def ward():
    return Grown(7)


@pytest.fixture(scope="module")
def rotated():
    """Of 12 entries; handed over with entries 5 and 9."""
    return Grown(5).rotate("basel 2").grow(2).rotate("basel 3").grow(1)


# --- the formats ------------------------------------------------------------------------------------------


def test_a_note_that_others_publish_as_an_example_is_read_and_verified():
    """From the documentation of Go's and Elixir's libraries for signed notes."""
    written = (
        "This is an example message.\n\n— example.com/foo "
        "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
    )
    vkey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    public = base64.b64decode(vkey.split("+", 2)[2])[1:]
    note = read_note(written, where="the note")
    (line,) = note.signatures
    assert line.key == key_id("example.com/foo", PLAIN, public) == bytes.fromhex("530d903a")
    assert is_signed(public, line.content, note.text.encode())
    assert verifier_key("example.com/foo", PLAIN, public) == vkey


def test_a_checkpoint_is_what_c2sp_s_pages_say(ward):
    """Read here by nothing of ours: signed-note, tlog-checkpoint and tlog-cosignature, each from its text."""
    written = str(co_signed(ward.signed()).note)
    text, signatures = written[: written.rindex("\n\n") + 1], written[written.rindex("\n\n") + 2 :].splitlines()
    origin, size, root, head, *more = text.splitlines()
    public = key("basel").public
    assert (origin, size, more) == (f"expril/ledger/{public.hex()}", "7", [])
    assert base64.b64decode(root) == ward.tree.root()
    assert head.split()[:2] == ["head", base64.b64encode(ward.account.head).decode()]
    (name, content), (witness, co_content) = (
        (line.split(" ")[1], base64.b64decode(line.split(" ")[2])) for line in signatures
    )
    assert all(line.startswith("— ") for line in signatures)
    assert name == origin
    assert content[:4] == hashlib.sha256(origin.encode() + b"\n\x01" + public).digest()[:4]
    Ed25519PublicKey.from_public_bytes(public).verify(content[4:], text.encode())
    assert witness == f"expril/witness/{WITNESS.public.hex()}"
    assert co_content[:4] == hashlib.sha256(witness.encode() + b"\n\x04" + WITNESS.public).digest()[:4]
    assert len(co_content) == 4 + 8 + 64
    message = f"cosignature/v1\ntime {int.from_bytes(co_content[4:12], 'big')}\n{text}"
    Ed25519PublicKey.from_public_bytes(WITNESS.public).verify(co_content[12:], message.encode())


def test_what_a_witness_gets_is_the_body_of_add_checkpoint(ward):
    made = ward.submission(3)
    top, _, note = str(made).partition("\n\n")
    assert top.splitlines()[0] == "old 3"
    assert [base64.b64decode(line) for line in top.splitlines()[1:]] == list(ward.tree.consistency_proof(3))
    assert note == str(ward.signed().note)
    assert read_submission(str(made), where="it") == made
    assert read_submission(note, where="it") == Submission(0, (), ward.signed())
    assert read_checkpoint(str(made), where="it") == read_checkpoint(note, where="it") == ward.signed()


def test_a_checkpoint_of_every_size_comes_back_as_it_was(ward):
    for size in range(1, 8):
        signed = ward.signed(size)
        assert read_checkpoint(str(signed.note), where="it") == signed
        assert signed.checkpoint == ward.checkpoint(size)
        assert signed.curator == key("basel").public


# --- changes ----------------------------------------------------------------------------------------------


LETTERS = Grown(5).rotate("basel 2").grow(2).signed()


@given(st.data())
def test_no_changed_letter_of_a_checkpoint_passes(data):
    """Whatever is still read is the same checkpoint, and no witness has gained or changed its word."""
    written = str(co_signed(LETTERS).note)
    place = data.draw(st.integers(0, len(written) - 1))
    letter = data.draw(st.sampled_from([*sorted({*written, "\x00", "\r", "é", "\u2028"}), "", "AA", "\n\n"]))
    other = written[:place] + letter + written[place + 1 :]
    if other == written:
        return
    try:
        signed = read_checkpoint(other, where="it")
        witnesses = witnesses_of(signed)
    except REFUSED:
        return
    assert signed.note.text == LETTERS.note.text
    assert witnesses in ({}, {WITNESS.public: NOW})
    assert witnesses == {} or place > written.index(witness_name(WITNESS.public))


@given(st.binary(max_size=300), st.text(max_size=300))
def test_anything_else_is_refused_in_words(data, text):
    for written in (data.decode("latin-1"), text, f"old 3\n{text}", f"{text}\n\n— a b\n", "old \n\n"):
        with pytest.raises(REFUSED):
            read_submission(written, where="it")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("expril/ledger/", "expril/ledgers/"),
        lambda text: text.replace("\n7\n", "\n07\n"),
        lambda text: text.replace("\n7\n", "\n8\n"),
        lambda text: text.replace("\n7\n", "\n0\n"),
        lambda text: text.replace("\n7\n", "\n" + "9" * 4400 + "\n"),
        lambda text: text.replace("\n7\n", "\n٧\n"),
        lambda text: text.upper(),
        lambda text: text.replace("head ", "tail "),
        lambda text: text + "more\n",
        lambda text: text + "handover 1 AA== AA== -\n",
        lambda text: "\n".join(text.split("\n")[:2]) + "\n",
        lambda text: text.replace("expril/ledger/" + key("basel").public.hex(), "expril/ledger/" + "00" * 32),
    ],
)
def test_the_curator_s_own_key_signs_no_other_form(ward, change):
    """A text that its key did sign, and that is no checkpoint, or one whose proofs do not fit."""
    text = change(ward.checkpoint().text)
    origin = text.split("\n")[0]
    public = key("basel").public
    line = Signature(origin, key_id(origin, PLAIN, public), key("basel").sign(text.encode()))
    with pytest.raises(REFUSED):
        read_checkpoint(str(Note(text, (line,))), where="it")


def test_a_checkpoint_is_signed_by_its_curator_alone(ward):
    with pytest.raises(CheckpointError, match="not signed by"):
        sign_checkpoint(ward.checkpoint(), key("mallory"))
    checkpoint = ward.checkpoint()
    for wrong in (
        checkpoint._replace(size=8),
        checkpoint._replace(root=bytes(32)),
        checkpoint._replace(head=bytes(32)),
        checkpoint._replace(head_proof=checkpoint.head_proof[:-1]),
        checkpoint._replace(head_proof=(*checkpoint.head_proof, bytes(32))),
    ):
        with pytest.raises(CheckpointError, match="last entry"):
            sign_checkpoint(wrong, key("basel"))


# --- handovers --------------------------------------------------------------------------------------------


def test_a_checkpoint_is_signed_by_the_key_of_its_time(rotated):
    first, second, third = (each.public for each in rotated.keys)
    assert [rotated.signed(size).curator for size in (1, 5, 6, 7, 9, 10, 11, 12)] == [
        *[first] * 3,
        *[second] * 3,
        *[third] * 2,
    ]
    assert rotated.signed().curators == tuple(rotated.account.curators) == ((0, first), (6, second), (10, third))
    for size in (7, 12):
        for number, other in enumerate(rotated.keys):
            if number != len(rotated.checkpoint(size).handovers):
                with pytest.raises(CheckpointError, match="not signed by"):
                    sign_checkpoint(rotated.checkpoint(size), other)
    assert read_checkpoint(str(rotated.signed().note), where="it") == rotated.signed()


def test_only_the_key_before_hands_a_ledger_over(rotated):
    checkpoint = rotated.checkpoint()
    one, two = checkpoint.handovers
    forged = one._replace(signature=key("mallory").sign(b"expril/2 ledger head"))
    for wrong in (
        (forged, two),
        (two, one),
        (two,),
        (one, one),
        (one._replace(place=one.place + 1), two),
        (one, two._replace(body=one.body)),
        (one, two._replace(body=b"")),
        (one, two._replace(proof=two.proof[:-1])),
        (one, two._replace(proof=one.proof)),
    ):
        for signer in rotated.keys:
            with pytest.raises(CheckpointError, match="handover"):
                sign_checkpoint(checkpoint._replace(handovers=wrong), signer)
    for fewer in ((), (one,)):
        with pytest.raises(CheckpointError, match="not signed by"):
            sign_checkpoint(checkpoint._replace(handovers=fewer), rotated.keys[-1])


def test_a_key_that_was_handed_a_ledger_signs_from_the_next_entry_on(rotated):
    """A checkpoint that ends with the handover is the old key's."""
    checkpoint = rotated.checkpoint(6)
    assert checkpoint.handovers == ()
    assert rotated.signed(6).curator == rotated.keys[0].public


# --- co-signatures ----------------------------------------------------------------------------------------


def test_co_signatures_are_counted_by_key_and_never_on_faith(ward):
    other = key("registry")
    signed = co_signed(co_signed(co_signed(ward.signed()), other, NOW + 5), WITNESS, NOW + 9)
    assert witnesses_of(signed) == {WITNESS.public: NOW + 9, other.public: NOW + 5}
    assert with_signature(signed, cosign(signed, other, NOW + 5)) == signed
    stranger = Signature("witness.example.com/w1", b"\x01\x02\x03\x04", bytes(72))
    assert witnesses_of(with_signature(signed, stranger)) == witnesses_of(signed)
    line = signed.note.signatures[1]
    for wrong in (
        line._replace(content=line.content[:8] + bytes(64)),
        line._replace(content=(NOW + 1).to_bytes(8, "big") + line.content[8:]),
        line._replace(content=(2**64 - 1).to_bytes(8, "big") + line.content[8:]),
        line._replace(content=line.content[:-1]),
        line._replace(content=b"\x00"),
    ):
        with pytest.raises(CheckpointError, match="co-signature"):
            witnesses_of(with_signature(signed, wrong))
    moved = Grown(8).signed()
    with pytest.raises(CheckpointError, match="co-signature"):
        witnesses_of(with_signature(moved, line))


def test_a_witness_of_another_program_is_known_by_its_name(ward):
    """Its line is built from C2SP's page."""
    signed, name, own = ward.signed(), "witness.example.com/w1", key("w1")
    message = f"cosignature/v1\ntime {NOW}\n{signed.note.text}".encode()
    line = Signature(name, key_id(name, COSIGNATURE, own.public), NOW.to_bytes(8, "big") + own.sign(message))
    with_line = with_signature(signed, line)
    assert witnesses_of(with_line) == {}
    assert witnesses_of(with_line, {name: own.public}) == {own.public: NOW}
    assert witnesses_of(with_line, {name: key("w2").public}) == {}


def test_a_known_key_whose_signature_does_not_fit_refuses_the_whole_note(ward):
    signed = ward.signed()
    again = signed.note.signatures[0]._replace(content=bytes(64))
    with pytest.raises(CheckpointError, match="not signed by"):
        check_checkpoint(signed.note._replace(signatures=(*signed.note.signatures, again)), where="it")


# --- equivocation -----------------------------------------------------------------------------------------


def test_two_ledgers_of_one_size_prove_themselves(ward):
    one, other = ward.signed(), ward.branch(4, salt=99).grow(3).signed()
    assert equivocate(one.checkpoint, other.checkpoint)
    evidence = json.dumps({"format": "expril equivocation 1", "checkpoints": [str(one.note), str(other.note)]})
    assert read_equivocation(evidence.encode(), where="it") == (one, other)
    for first, second in ((one, one), (one, ward.signed(6)), (one, Grown(7, "bern").signed())):
        same = json.dumps({"format": "expril equivocation 1", "checkpoints": [str(first.note), str(second.note)]})
        with pytest.raises(CheckpointError, match="proves nothing"):
            read_equivocation(same.encode(), where="it")
    forged = str(other.note).replace(str(other.note.signatures[0]), str(one.note.signatures[0]))
    for wrong in (b"", b"{}", evidence.encode()[:-1], json.dumps({"format": "x", "checkpoints": [forged, forged]})):
        with pytest.raises(REFUSED):
            read_equivocation(wrong if isinstance(wrong, bytes) else wrong.encode(), where="it")
    assert Equivocation(("", "")).format == "expril equivocation 1"
