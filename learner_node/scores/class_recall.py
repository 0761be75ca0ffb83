"""Of several classes, how many records of each a model calls so: its recalls, from the answers that it was learnt from.

Nothing is asked for it. The posterior of each class's share in the cells, against the rest, says how many records of
the class a cell holds; the model says which of the source's records there it calls so. Within a cell the counts do not
tell which records are of the class. There they are dealt by the model's own ranking, sharper or blunter by an unknown
factor. How often the intervals hold is in docs/outcomes.md.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from learner_node.models.label_model import CellPosterior
from learner_node.models.label_model.one_against_rest import relative
from learner_node.scores.performance import Interval
from learner_node.scores.uncertainty import WITHIN_DEVIATION, steeper, within_mean

Floats = NDArray[np.float64]

_DRAWS = 600
_SHARPNESS = np.exp(np.linspace(-1.2, 1.6, 9))
_STEEPER_DEVIATION = 0.25
"""Of log b, by which the posterior's shares are moved from their mean: a smooth prior blunts a signal with steps."""
_SHIFTS = np.linspace(-7.0, 7.0, 113)
_SUREST = 1e-4


def class_recalls(
    posteriors: Sequence[CellPosterior], exclusion: float, probabilities: Floats, *, seed: int
) -> tuple[Interval, ...]:
    """The recall of each class on the population behind the private records, with 95 % intervals.

    Args:
        posteriors: of the cells, for each class against the rest, C of them.
        exclusion: how their shares are brought together, see `one_against_rest.together`.
        probabilities: that the model gives the source's records, (n, C); it calls a record of the likeliest class, the
            first of equals.
        seed: of the draws, non-negative.

    Returns:
        One a class; 0 to 1.
    """
    called = probabilities.argmax(axis=1)
    rng = np.random.default_rng(seed)
    drawn = [posterior.draw(_DRAWS, rng) for posterior in posteriors]
    apart = [relative(0.5 * (1.0 + draws.signal), exclusion) for draws in drawn]
    usual = np.stack([each.mean(axis=0) for each in apart])
    return tuple(
        _recall(
            posterior,
            draws.mass,
            own / (own + usual.sum(axis=0) - usual[number]),
            probabilities[:, number],
            called == number,
            rng,
        )
        for number, (posterior, draws, own) in enumerate(zip(posteriors, drawn, apart, strict=True))
    )


def _recall(
    posterior: CellPosterior,
    mass: Floats,
    told: Floats,
    probability: Floats,
    called: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Interval:
    """Of one class, whose share of each cell (S, K) `told` has been drawn."""
    weight = mass / mass.sum(axis=1, keepdims=True)
    sharper = np.exp(rng.normal(0.0, _STEEPER_DEVIATION, _DRAWS))[:, None]
    share = np.clip(steeper(told, weight, sharper), _SUREST, 1.0 - _SUREST)
    nodes = np.log(_SHARPNESS)
    weights = np.exp(-0.5 * ((nodes - within_mean(posterior)) / WITHIN_DEVIATION) ** 2)
    sharpness = rng.choice(len(nodes), _DRAWS, p=weights / weights.sum())
    right = np.empty_like(share)
    for cell, curves in enumerate(_curves(posterior.cells, probability, called)):
        for which, (shares, hits) in enumerate(curves):
            own = sharpness == which
            right[own, cell] = np.interp(share[own, cell], shares, hits)
    records = (mass * share).sum(axis=1)
    hit = (mass * np.minimum(right, share)).sum(axis=1)
    return Interval.of_share(hit, np.maximum(records - hit, 0.0))


def _curves(
    cells: NDArray[np.int64], probability: Floats, called: NDArray[np.bool_]
) -> Iterator[list[tuple[Floats, Floats]]]:
    """Of each cell, for each sharpness: shares of the class, rising, and the shares that are of it and called so."""
    probit = ndtri(np.clip(probability, _SUREST, 1.0 - _SUREST))
    order = np.argsort(cells, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(cells))[:-1]):
        curves = []
        for sharp in _SHARPNESS:
            ranked = ndtr(sharp * probit[members][:, None] + _SHIFTS * max(sharp, 1.0))
            shares, hits = ranked.mean(axis=0), (ranked * called[members][:, None]).mean(axis=0)
            curves.append(
                (np.concatenate([[0.0], shares, [1.0]]), np.concatenate([[0.0], hits, [called[members].mean()]]))
            )
        yield curves
