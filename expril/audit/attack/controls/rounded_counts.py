"""What many hospitals' count services do today: counts below 10 are suppressed, others are rounded to tens.

A simulation, and no part of ExPriL's: the service that the same attack is played on for comparison. It has no noise, no
budget and no ledger. Counts below five, six or ten are hidden in practice (Baldwin, "A Novel Method for Calculating
Aggregate Counts While Censoring Small Cells in Multi-site Studies", 2014).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.studies.curators import Table, table_of
from expril.audit.attack.studies.games import Guesses, Terms, half_in
from protocol.errors import ConfigurationError

SUPPRESSED_BELOW, ROUNDED_TO = 10, 10
KNOWN = 25
"""Patients that the adversary knows to be there: it enrolled them itself, say."""
BATCH = 500

Range = tuple[float, float]


class CountService:
    """Counts patients by criteria, for whoever asks, as often as they ask.

    Args:
        values: (n,) of one attribute, for all patients that are in.
    """

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._values = np.sort(values[~np.isnan(values)])

    def count(self, ranges: Sequence[Range]) -> int | None:
        """Patients whose value is in one of some half-open ranges, none of which overlap.

        In tens, half of one rounded up; None where there are fewer than 10.
        """
        ends = np.searchsorted(self._values, np.asarray(ranges, np.float64), side="left")
        exact = int((ends[:, 1] - ends[:, 0]).sum())
        if exact < SUPPRESSED_BELOW:
            return None
        return (exact + ROUNDED_TO // 2) // ROUNDED_TO * ROUNDED_TO


def play_rounded(terms: Terms) -> tuple[Guesses, int]:
    """Differencing on such services until there are as many games as wanted; guesses, and questions asked in all.

    Raises:
        ConfigurationError: the records have too few victims to know some and to attack others.
    """
    games, records, rng = terms.games, terms.records, terms.rng
    guessed: list[bool] = []
    truth: list[NDArray[np.bool_]] = []
    asked = 0
    while games - len(guessed) >= 2 or not truth:
        table = table_of(records, KNOWN + min(BATCH, games - len(guessed)))
        if len(table.victims) < KNOWN + 2:
            raise ConfigurationError(f"too few records of {records} can be told apart; attack other records")
        inside = half_in(len(table.victims) - KNOWN, rng)
        present = rng.random(table.frame.height) < 0.5
        present[table.victims] = np.concatenate([np.ones(KNOWN, np.bool_), inside])
        service = CountService(table.frame.filter(present)[table.attribute].to_numpy())
        for victim in range(KNOWN, len(table.victims)):
            guess, questions = differencing(service, table, victim)
            guessed.append(guess)
            asked += questions
        truth.append(inside)
    return Guesses.of(np.array(guessed), np.concatenate(truth)), asked


def differencing(service: CountService, table: Table, victim: int) -> tuple[bool, int]:
    """Two counts that differ by the victim alone, each padded with the same patients that are known to be there.

    One known patient after the other is added to the neighbours until the shown count moves. Short of that patient the
    exact count lies right below the edge between two shown counts, and the victim would move it over.

    Returns:
        Whether the victim is in, and how many questions it took.
    """
    known = list(zip(table.starts[:KNOWN].tolist(), table.ends[:KNOWN].tolist(), strict=True))
    crowd = [(float(table.ends[victim - 1]), float(table.starts[victim]))]
    shown = service.count(crowd)
    for number, patient in enumerate(known):
        padded = service.count([*crowd, patient])
        if padded != shown:
            with_victim = service.count([*crowd, (float(table.starts[victim]), float(table.ends[victim]))])
            return with_victim != shown, number + 3
        crowd.append(patient)
        shown = padded
    return False, len(known) + 1
