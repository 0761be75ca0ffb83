"""Ledgers, their checkpoints and a forged history, for tests of witnesses."""

from curator_fakes import key
from curator_node.ledger import memory_ledger
from curator_node.ledger.ledger import hand_over
from protocol.ledger.checkpoints import Submission, make_checkpoint, sign_checkpoint
from protocol.ledger.entries import EntryKind, decode_entry, entry_hash
from protocol.ledger.merkle import Tree

NOW = 1_800_000_000


class Grown:
    """A curator's ledger that grows, and what its curator hands to witnesses.

    Args:
        entries: how many it has from the first on, at least 2.
        name: of its key.
        salt: of what is entered: ledgers of different salts are different branches.
    """

    def __init__(self, entries=2, name="basel", salt=0):
        self.keys = [key(name)]
        self.ledger = memory_ledger(self.keys[0])
        self.ledger.begin("privacy unit: each record", NOW)
        self.salt = salt
        self.grow(entries - 2)

    def grow(self, entries=1):
        for _ in range(entries):
            self.salt += 1
            self.ledger.serve_data(f"{self.salt:032x}", NOW)
        return self

    def rotate(self, name):
        self.keys.append(key(name))
        hand_over(self.ledger.store, self.keys[-2], self.keys[-1], NOW)
        return self.reopened(self.ledger.store)

    def reopened(self, store):
        self.ledger = type(self.ledger)(store, key=self.keys[-1], mark=self.ledger._mark)
        return self

    def branch(self, size, salt):
        """Another ledger of the same curator, with the first `size` entries of this one."""
        other = Grown(2)
        other.keys, other.salt = list(self.keys), salt
        store = type(self.ledger.store)()
        for row in self.ledger.store.rows(0)[:size]:
            store.append(row)
        return other.reopened(store)

    @property
    def account(self):
        return self.ledger.account

    @property
    def tree(self):
        return Tree(self.account.hashes)

    def checkpoint(self, size=None):
        """As it was when the ledger had `size` entries."""
        rows = self.ledger.store.rows(0)[:size]
        hashes = [entry_hash(row.body) for row in rows]
        handed = [
            (row.index, row.body, row.signature)
            for row in rows[:-1]
            if decode_entry(row.body).kind is EntryKind.HANDOVER
        ]
        return make_checkpoint(Tree(hashes), hashes[-1], self.keys[0].public, handed)

    def signed(self, size=None):
        checkpoint = self.checkpoint(size)
        return sign_checkpoint(checkpoint, self.keys[len(checkpoint.handovers)])

    def submission(self, old=0, size=None):
        return Submission(old, self.tree.consistency_proof(old, size), self.signed(size))
