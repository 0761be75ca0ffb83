"""The distinguishing game on any mechanism: two neighbouring inputs, outcomes in, a lower bound on epsilon out.

* `playing`: the game, both distributions for a figure, and `Game`, one that somebody else states
* `statistics`: what a mechanism put out, and numbers to look at in it
* `search`: sets of outcomes, how large a loss they prove, and the choice of one
"""

from expril.audit.attack.game.playing import Game, breaks, claimed_epsilon, one_by_one, play, verdict_of
from expril.audit.attack.game.search import loss_bound
from expril.audit.attack.game.statistics import Function, Mechanism, Rows

__all__ = [
    "Function",
    "Game",
    "Mechanism",
    "Rows",
    "breaks",
    "claimed_epsilon",
    "loss_bound",
    "one_by_one",
    "play",
    "verdict_of",
]
