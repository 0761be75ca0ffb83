"""The public format of a ledger, shared by the curator that writes it and all who verify it.

* `entries`: what an entry is, the hash chain, what the curator signs of each, and what the charges mean
* `merkle`: the tree over their hashes, and its proofs
* `notes`, `checkpoints`: how far a ledger goes, signed by its curator and co-signed by witnesses
* `exports`: a ledger as one portable file

Nothing is stored or decided here; that is `curator_node/ledger`.
"""
