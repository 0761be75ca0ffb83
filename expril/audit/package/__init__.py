"""A claim package: one folder that proves what a study cost to whoever trusts nobody and has no data and no network.

* `writer`, `checker`: the two commands
* `facts`: what only people know, as a small TOML
* `evidence`: the transcripts and ledgers in the package, and what each curator spent on one unit by them
* `losses`: the enumerated losses of the questions, and a judgement of the audit by its attacks' numbers
* `deployment`: the entry for a registry of deployments
* `checklist`: what an evaluator asks, and where the answer is proven
* `contents`: names of the files, and what is for people, written anew and compared
* `manifest`: hashes of all files, signed, and how they are read
"""
