"""The distinguishing game on any mechanism: two neighbouring inputs, outcomes in, a lower bound on epsilon out.

* `playing`: the game
* `outcomes`: what a mechanism put out, as rows
* `statistics`: numbers to look at in an outcome
* `cells`: places of one statistic
* `search`: the choice of an event
* `bounds`: how large a loss some draws prove
* `spreads`: both distributions, for a figure
"""

from simulations.audit.game.outcomes import Mechanism, Rows
from simulations.audit.game.playing import breaks, claimed_epsilon, play
from simulations.audit.game.statistics import Function

__all__ = ["Function", "Mechanism", "Rows", "breaks", "claimed_epsilon", "play"]
