"""The audit by attack, of the installed software, of whole studies and of what is broken on purpose.

* `whole_audit`: a whole audit, over processes
* `game`, `game_statistics`: the distinguishing game on any mechanism, and the statistics by which it looks at outcomes
* `kinds`, `handle_checks`: the audit of each registered query kind, and checks that curators answer as audited
* `studies`: membership games on whole studies
* `controls`: mechanisms, curators and parts of them that are broken on purpose and must be caught
* `calibration`, `canaries`, `zumel_game`: tests of the noise, the one-run audit, and the game of a blog post
* `mirror_plot`: pictures of two distributions
"""
