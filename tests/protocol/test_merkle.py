"""The Merkle tree of RFC 9162, against the RFC's own recursive statement, and against vectors that others use."""

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from protocol.ledger.merkle import (
    EMPTY_ROOT,
    Tree,
    check_consistency,
    check_inclusion,
)

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
