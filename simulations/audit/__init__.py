"""An auditor's tools: nothing here believes what is claimed.

* `results`: what each part found, as one form for tables, JSON and page
* `game`: the distinguishing game on any mechanism
* `controls`: mechanisms that are broken on purpose, which it must catch
* `canaries`, `blog`: one run with many canaries; the game as the post that started it plays it
* `witness`: witnesses of ledgers, and entries held against what they co-signed
* `studies`: attacks on whole studies
"""
