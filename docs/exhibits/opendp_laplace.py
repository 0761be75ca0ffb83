"""OpenDP's own Laplace mechanism on floats, which the game finds nothing wrong with.

Run in this folder: expril audit game opendp_laplace:game
"""

import opendp.prelude as dp

from expril.audit.attack.game import Game

dp.enable_features("contrib")
laplace = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float), scale=1.0)


def release(value, n):
    """n noisy values; the noise of each is its own."""
    return laplace([value] * n)


def game():
    return Game(release, first=0.0, second=1.0, epsilon="1", neighbours="a sum of 0 and one of 1")
