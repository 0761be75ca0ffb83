"""A claim package: one folder that proves what a study cost to whoever trusts nobody and has no data and no network.

* `people`: what only people know, as a small TOML
* `evidence`: transcripts and exports that go in, and what they prove
* `worlds`: what each curator spent, over all runs and ledgers
* `deployment`: the entry for a registry of deployments
* `checklist`: what an evaluator asks, and where the answer is proven
* `exact`: losses of the releases, by enumeration
* `judged`: the attack, by its numbers
* `contents`: names of the files, and what is for people, written anew and compared
* `manifest`: hashes of all files, signed, and how they are read
* `writing`, `checking`: the two commands
"""
