"""An auditor's tools: nothing here believes what is claimed.

* `results`: what each part found, as one form for tables, JSON and page
* `game`: the distinguishing game on any mechanism
* `controls`: mechanisms that are broken on purpose, which it must catch
* `canaries`, `blog`: one run with many canaries; the game as the post that started it plays it
* `recompute`: what was spent, from what was signed alone
* `shown`: a transcript for a person's eyes
* `witness`: witnesses of ledgers, and entries held against what they co-signed
* `studies`: attacks on whole studies
* `kinds`, `calibration`: what is installed, by a curator's own path, and its noise
* `everything`, `workers`, `files`, `tables`: all of these at once, over processes; its JSON, and its tables
* `page`: an audit as one page
* `package`: a claim as one folder that a stranger checks
"""
