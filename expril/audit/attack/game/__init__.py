"""The distinguishing game on any mechanism: two neighbouring inputs, outcomes in, a lower bound on epsilon out.

* `playing`: the game
* `games`: one that somebody else states
* `outcomes`: what a mechanism put out, as rows
* `statistics`: numbers to look at in an outcome
* `cells`: places of one statistic
* `events`: sets of outcomes
* `search`: the choice of one
* `bounds`: how large a loss some draws prove
* `spreads`: both distributions, for a figure
"""

from expril.audit.attack.game.bounds import loss_bound
from expril.audit.attack.game.games import Game, one_by_one
from expril.audit.attack.game.outcomes import Mechanism, Rows
from expril.audit.attack.game.playing import breaks, claimed_epsilon, play, verdict_of
from expril.audit.attack.game.statistics import Function

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
