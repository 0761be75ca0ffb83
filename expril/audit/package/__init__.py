"""A claim package: one folder that proves what a study cost to whoever trusts nobody and has no data and no network.

* `people`: what only people know, as a small TOML
* `evidence`: transcripts and exports that go in, and what they prove
* `deployment`: the entry for a registry of deployments
* `checklist`: what an evaluator asks, and where the answer is proven
* `exact`: losses of the releases, by enumeration
* `worlds`: what each curator spent, over all runs and ledgers
* `names`, `plain_files`: of the files, and how they are read
* `rebuilt`: what is for people, written anew and compared
* `judged`: the attack, by its numbers
* `manifest`: hashes of all files, signed
* `writing`, `checking`: the two commands
"""
