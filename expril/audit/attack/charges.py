"""The attack on charges that depend on what was released: each answer must be as private as it was charged.

Of every set S of answers that were charged at most e, P(S | D) <= exp(e) P(S | D') must hold (ex-post privacy; Ligett,
Neel, Roth, Waggoner and Wu 2017). So for each charge that occurs, the event is sought among answers of that charge.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import breaks
from expril.audit.attack.game.bounds import loss_bound
from expril.audit.attack.game.outcomes import Rows
from expril.audit.attack.game.search import choose_events
from expril.audit.kinds.invented import Neighbours
from expril.audit.kinds.path import Path
from expril.audit.results import Attack

MOST_CHARGES = 4
"""Charges that are attacked: the most frequent ones."""
LEAST = 100
"""Answers of a charge, from either set of records, from which an event is learned."""


def attack_charges(path: Path, pair: Neighbours, *, draws: int, error_rate: float) -> tuple[Attack, ...]:
    """The game on the answers of each charge, most frequent first; none for a kind whose charges are planned.

    Args:
        path: the question.
        pair: the two sets of records.
        draws: from either, all charges together.
        error_rate: of all the bounds together.
    """
    if not path.answerer.kind.looks_back:
        return ()
    width, half = path.width(pair), draws // 2
    drawn = [path.charged_draws(units, draws, width) for units in pair.both]
    learned = np.concatenate([charges[:half] for _, charges in drawn])
    values, counts = np.unique(learned, return_counts=True)
    frequent = values[np.argsort(-counts)][:MOST_CHARGES]
    return tuple(_attack_charge(charge, drawn, half, pair, error_rate / len(frequent)) for charge in frequent)


def first_broken(attacks: tuple[Attack, ...]) -> Attack | None:
    """The first attack that proves more than was charged."""
    return next((attack for attack in attacks if breaks(attack)), None)


def _attack_charge(
    charge: Fraction,
    drawn: Sequence[tuple[Rows, NDArray[np.object_]]],
    half: int,
    pair: Neighbours,
    error_rate: float,
) -> Attack:
    """An event is learned from this charge's answers in the first half, and counted among them in the second."""
    words, bound, shares = f"none among the answers charged {charge}", 0.0, (0.0, 0.0)
    learned = [numbers[:half][charges[:half] == charge] for numbers, charges in drawn]
    fewest = min(map(len, learned))
    events = choose_events(learned[0][:fewest], learned[1][:fewest], error_rate, {}) if fewest >= LEAST else ()
    for side, event in enumerate(events):
        if event is None:
            continue
        held = [event.holds(numbers[half:]) & (charges[half:] == charge) for numbers, charges in drawn]
        more, fewer = held[side], held[1 - side]
        found = loss_bound(int(more.sum()), int(fewer.sum()), (len(more), len(fewer)), error_rate / 2)
        if found > bound:
            bound, shares = found, (float(more.mean()), float(fewer.mean()))
            likelier = ("first", "second")[side]
            words = f"charged {charge}, and {event.words(learned[side])}: likelier under the {likelier} input"
    return Attack(
        claimed=str(charge),
        lower_bound=bound,
        error_rate=error_rate,
        draws=len(drawn[0][0]),
        neighbours=pair.words,
        event=words,
        shares=shares,
    )
