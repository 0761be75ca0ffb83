"""The audit by attack, of the installed software, of whole studies and of what is broken on purpose.

* `whole_audit`: a whole audit, over processes
* `game`: the distinguishing game on any mechanism
* `event_search`, `game_statistics`, `structure_statistics`: its search for an event, and what it computes of outcomes
* `loss_bounds`: what the counts of one event prove
* `kinds`: the audit of each registered query kind
* `neighbours`, `conformity`, `loss_curves`: its search for neighbours, the comparison of a curator with the
  claimed law, and the loss at other epsilons
* `handle_checks`: checks that curators answer as audited
* `studies`: membership games on whole studies
* `controls`: mechanisms, curators and parts of them that are broken on purpose and must be caught
* `calibration`, `canaries`, `zumel_game`: tests of the noise, the one-run audit, and the game of a blog post
* `mirror_plot`: pictures of two distributions
"""
