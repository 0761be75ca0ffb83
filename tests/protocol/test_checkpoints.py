"""Checkpoints in C2SP's formats, and the Merkle tree of RFC 9162 against its statement and others' vectors."""

import base64
import hashlib
import json
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
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
from protocol.ledger.merkle import EMPTY_ROOT, Tree, check_consistency, check_inclusion
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


# --- the RFC's recursion: sections 2.1.1, 2.1.3.1 and 2.1.4.1 ----------------------------------------------


def split(n):
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def mth(leaves):
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def path(m, leaves):
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    return [*path(m, leaves[:k]), mth(leaves[k:])] if m < k else [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m, leaves, whole):
    if m == len(leaves):
        return [] if whole else [mth(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], whole=False), mth(leaves[:k])]


def leaves_of(n, salt=b""):
    return [sha256(salt + bytes([i])).digest() for i in range(n)]


CT_LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
"""The eight leaves by which implementations of Certificate Transparency are held against each other."""
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_roots_that_certificate_transparency_s_programs_agree_on():
    assert [Tree(CT_LEAVES[:n]).root().hex() for n in range(1, 9)] == CT_ROOTS
    assert Tree().root().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_proofs_of_the_rfc_s_example_of_seven_leaves():
    """RFC 9162, section 2.1.5: PATH(0) = [b, h, l], PATH(6) = [i, k]; PROOF(3) = [c, d, g, l], PROOF(6) = [i, j, k]."""
    leaves = leaves_of(7)
    a, b, c, d, e, f, j = ([leaf] for leaf in leaves)
    g, h, i = a + b, c + d, e + f
    k, l, ij = g + h, i + j, i + j  # noqa: E741 - the RFC's letters
    tree = Tree(leaves)
    assert tree.inclusion_proof(0) == tuple(map(mth, (b, h, l)))
    assert tree.inclusion_proof(3) == tuple(map(mth, (c, g, l)))
    assert tree.inclusion_proof(4) == tuple(map(mth, (f, j, k)))
    assert tree.inclusion_proof(6) == tuple(map(mth, (i, k)))
    assert tree.consistency_proof(3) == tuple(map(mth, (c, d, g, ij)))
    assert tree.consistency_proof(4) == (mth(l),)
    assert tree.consistency_proof(6) == tuple(map(mth, (i, j, k)))


@pytest.mark.parametrize("n", range(34))
def test_every_root_and_proof_of_small_trees_is_the_recursion_s(n):
    leaves = leaves_of(34)
    tree = Tree(leaves)
    assert tree.root(n) == mth(leaves[:n]) == Tree(leaves[:n]).root()
    for m in range(n):
        assert tree.inclusion_proof(m, n) == tuple(path(m, leaves[:n])) == Tree(leaves[:n]).inclusion_proof(m)
        assert check_inclusion(leaves[m], m, n, tree.root(n), tree.inclusion_proof(m, n))
    for m in range(1, n + 1):
        assert tree.consistency_proof(m, n) == tuple(subproof(m, leaves[:n], whole=True))
        assert check_consistency(m, tree.root(m), n, tree.root(n), Tree(leaves[:n]).consistency_proof(m))
    assert check_consistency(0, EMPTY_ROOT, n, tree.root(n), tree.consistency_proof(0, n))


def test_a_tree_that_grows_is_the_tree_of_what_it_holds():
    tree, leaves = Tree(), leaves_of(70)
    for n, leaf in enumerate(leaves, start=1):
        tree.append(leaf)
        assert tree.size == n
        assert tree.root() == mth(leaves[:n])
    for n in (-1, 71):
        with pytest.raises(ValueError, match="leaves"):
            tree.root(n)
    for wrong in ((-1, 70), (70, 70), (3, 71)):
        with pytest.raises(ValueError, match="leaf"):
            tree.inclusion_proof(*wrong)
    for wrong in ((-1, 70), (71, 70), (3, 71)):
        with pytest.raises(ValueError, match="leaves"):
            tree.consistency_proof(*wrong)


# --- what is refused --------------------------------------------------------------------------------------

SIZES = st.integers(1, 200)


def changed(data, bit):
    place = bit % (8 * len(data))
    return data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]


@settings(max_examples=45, deadline=None)
@given(SIZES, st.data())
def test_any_change_of_a_consistency_proof_or_root_is_refused(size, data):
    old = data.draw(st.integers(1, size))
    tree = Tree(leaves_of(size))
    proof, before, after = tree.consistency_proof(old), tree.root(old), tree.root()
    assert check_consistency(old, before, size, after, proof)
    bit = data.draw(st.integers(0, 255))
    assert not check_consistency(old, changed(before, bit), size, after, proof)
    assert not check_consistency(old, before, size, changed(after, bit), proof)
    assert not check_consistency(old, before, size, after, (*proof, after))
    assert not check_consistency(old, before, size, after, (before, *proof))
    for place, node in enumerate(proof):
        assert not check_consistency(
            old, before, size, after, (*proof[:place], changed(node, bit), *proof[place + 1 :])
        )
        assert not check_consistency(old, before, size, after, (*proof[:place], node[:-1], *proof[place + 1 :]))
        assert not check_consistency(old, before, size, after, proof[:place] + proof[place + 1 :])
    if proof:
        swapped = tuple(reversed(proof))
        assert swapped == proof or not check_consistency(old, before, size, after, swapped)


test_any_change_of_a_consistency_proof_or_root_is_refused_at_length = at_length(
    test_any_change_of_a_consistency_proof_or_root_is_refused, 150
)


@settings(max_examples=150, deadline=None)
@given(SIZES, st.data())
def test_any_change_of_an_inclusion_proof_leaf_or_place_is_refused(size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    tree = Tree(leaves)
    proof, root = tree.inclusion_proof(index), tree.root()
    assert check_inclusion(leaves[index], index, size, root, proof)
    bit = data.draw(st.integers(0, 255))
    assert not check_inclusion(changed(leaves[index], bit), index, size, root, proof)
    assert not check_inclusion(leaves[index], index, size, changed(root, bit), proof)
    assert not check_inclusion(leaves[index], index, size, root, (*proof, root))
    for place, node in enumerate(proof):
        assert not check_inclusion(
            leaves[index], index, size, root, (*proof[:place], changed(node, bit), *proof[place + 1 :])
        )
        assert not check_inclusion(leaves[index], index, size, root, proof[:place] + proof[place + 1 :])
    for other in range(size):
        assert other == index or not check_inclusion(leaves[index], other, size, root, proof)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.data())
def test_another_old_size_is_refused(size, data):
    old = data.draw(st.integers(1, size))
    tree = Tree(leaves_of(size))
    proof, before = tree.consistency_proof(old), tree.root(old)
    for other in range(size + 2):
        assert other == old or not check_consistency(other, before, size, tree.root(), proof)
    assert not check_consistency(old, before, old - 1, tree.root(), proof)


def test_a_root_does_not_hold_its_size():
    """Why a checkpoint signs both: a fifth leaf and a pair of leaves stand at the same place of the tree."""
    tree = Tree(leaves_of(5))
    sizes = [n for n in range(20) if check_consistency(4, tree.root(4), n, tree.root(), tree.consistency_proof(4))]
    assert sizes == [5, 6, 7, 8]


@settings(max_examples=100, deadline=None)
@given(SIZES, st.data())
def test_no_proof_leads_from_one_branch_to_another(size, data):
    """All proofs that the honest algorithm makes from any leaves of either branch are refused."""
    common = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(common + 1, size))
    mine, theirs = leaves_of(size), leaves_of(common) + leaves_of(size + 5, b"other")[common:]
    before = Tree(mine).root(old)
    for tree in (Tree(theirs), Tree(mine), Tree(mine[:old] + theirs[old:])):
        assert not check_consistency(
            old, before, size + 5, Tree(theirs).root(), tree.consistency_proof(min(old, tree.size))
        )


def test_no_tree_is_the_beginning_of_a_smaller_one():
    tree = Tree(leaves_of(9))
    assert not check_consistency(9, tree.root(), 5, tree.root(5), ())
    assert not check_consistency(5, tree.root(5), 9, tree.root(), ())
    assert not check_consistency(0, tree.root(5), 9, tree.root(), ())
    assert not check_inclusion(leaves_of(9)[0], -1, 9, tree.root(), ())
    assert not check_inclusion(leaves_of(9)[0], 9, 9, tree.root(), ())
    assert not check_consistency(5, tree.root(5), 9, tree.root(), (bytes(32),) * 64)
