"""The ratio as the ExPriL paper prints it (Eq. 7): Laplace noise over an exact, private number of records.

Run in this folder: expril audit game printed_ratio:game
"""

import numpy as np

from expril.audit.attack.game import Game

SCALE = 30
generator = np.random.default_rng()


def printed_ratio(bin_, n):
    """n releases of clip((Laplace + errors) / records, 0, 1), to three digits."""
    errors, records = bin_
    noisy = (errors + generator.laplace(0, SCALE, n)) / records
    return np.round(np.clip(noisy, 0, 1), 3)


def game():
    return Game(
        printed_ratio,
        first=(0, 1),
        second=(1, 2),
        epsilon="1/30",
        neighbours="0 errors of 1 record, and 1 error of 2 records: one record more",
    )
