"""What a ledger is to everybody who reads one: entries and their hash chain, signed heads, terms, exports.

* `entries`: what an entry is; the hash chain
* `heads`: what the curator's key signs of each
* `merkle`: the tree over their hashes, and its proofs
* `notes`, `checkpoints`: where a ledger stands, signed by its curator and co-signed by witnesses
* `terms`: what the charges mean
* `exports`: a ledger as one portable file

Nothing is stored or decided here; that is `curator_node/ledger`.
"""
