"""Distils a function into a network that a curator can evaluate: random hidden units and ridge regression.

It needs no gradients. A hidden unit is a hinge across the source in a random direction. Output weights are fitted by
least squares on the source's points and on points between them, where the curators' records lie.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.special import logit

from protocol.feature_map import STEPS, FeatureMap
from protocol.hypotheses import Mlp
from protocol.records import Records

Floats = NDArray[np.float64]

HIDDEN_UNITS = 256
HEADER_PARAMETERS = 1024
"""Parameters that the safetensors header counts for, as curators infer their number from the byte length."""
_POINTS = 4000
_RIDGE = 1e-4
_MOST_OUTPUT_WEIGHT = 60.0
"""Largest output weight; curators accept up to 64."""
_BLENDED = 8000
_SCORE_RIDGE = 1e-6
_MOST_LOGIT = 8.0
_HELD_OUT = 1000
_SINGLE_SHARES = (0.0, 0.7)


def distil(
    function: Callable[[Floats], Floats], features: FeatureMap, points: Floats, *, most_parameters: int, seed: int
) -> Mlp:
    """The network nearest to a function on and between points.

    Args:
        function: points (m, width) -> values (m,) float64, near [0, 1].
        features: the map that gives points.
        points: (n, width) float64, n >= 2, in units, as `coordinates` gives.
        most_parameters: largest number of the network's parameters; it bounds the number of hidden units.
        seed: seed of the hidden units.

    Returns:
        A network whose logit is near the function's value.
    """
    rng = np.random.default_rng(seed)
    width = points.shape[1]
    hidden = int(np.clip((most_parameters - HEADER_PARAMETERS) // (width + 2), 1, HIDDEN_UNITS))
    first, second = rng.integers(0, len(points), (2, max(_POINTS - len(points), len(points))))
    share = rng.random((len(first), 1))
    rows = np.concatenate([points, share * points[first] + (1.0 - share) * points[second]])[: _POINTS + len(points)]
    return _fitted(features, points, rows, function(rows), hidden, _RIDGE, rng)


def distil_score(
    probability: Callable[[Records], Floats], features: FeatureMap, source: Records, *, hidden: int, seed: int
) -> Mlp:
    """The network whose logit is nearest to that of a model's probability, on source records and on blends of them.

    A blend takes each attribute from one of two source records, so that any model can be asked about it. Hinges across
    single attributes are tried as well, for models that add up what attributes contribute; the better network on
    blends that neither was fitted to is taken. A network sees a missing value as the feature map fills it in.

    Args:
        probability: records -> P(class 1), (n,) in [0, 1].
        features: the map that gives points.
        source: n >= 2 records.
        hidden: number of hidden units.
        seed: seed of blends and hidden units.
    """
    rng = np.random.default_rng(seed)
    blends = _blends(source, max(_BLENDED - len(source), min(len(source), _BLENDED)), rng)
    held_out = _blends(source, _HELD_OUT, rng)
    points = features.points(source) / STEPS
    rows = np.concatenate([points, features.points(blends) / STEPS])
    logits = _logits(np.concatenate([probability(source), probability(blends)]))
    target = _logits(probability(held_out))
    networks = [
        _fitted(features, points, rows, logits, hidden, _SCORE_RIDGE, rng, single=round(share * hidden))
        for share in _SINGLE_SHARES
    ]
    errors = [float(np.mean((network.logits(held_out) / STEPS**2 - target) ** 2)) for network in networks]
    return networks[int(np.argmin(errors))]


def _logits(probability: Floats) -> Floats:
    logits: Floats = np.clip(logit(np.clip(probability, 1e-9, 1.0 - 1e-9)), -_MOST_LOGIT, _MOST_LOGIT)
    return logits


def _blends(source: Records, count: int, rng: np.random.Generator) -> Records:
    first, second = rng.integers(0, len(source), (2, count))
    share = rng.random((count, 1))
    first_parent, second_parent = source.take(first), source.take(second)
    return Records(
        source.schema,
        np.where(rng.random(first_parent.numeric.shape) < share, first_parent.numeric, second_parent.numeric),
        np.where(
            rng.random(first_parent.categorical.shape) < share, first_parent.categorical, second_parent.categorical
        ),
    )


def _fitted(
    features: FeatureMap,
    points: Floats,
    rows: Floats,
    values: Floats,
    hidden: int,
    ridge: float,
    rng: np.random.Generator,
    *,
    single: int = 0,
) -> Mlp:
    """Random hinges across the points, and ridge regression of the values on them.

    The first `single` hinges are across one coordinate each.
    """
    directions = rng.standard_normal((hidden, points.shape[1]))
    if single:
        directions[:single] = 0.0
        directions[np.arange(single), rng.integers(0, points.shape[1], single)] = rng.choice((-1.0, 1.0), single)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    across = points[rng.integers(0, len(points), hidden)]
    thresholds = -np.einsum("hw,hw->h", directions, across)
    activations = np.maximum(rows @ directions.T + thresholds, 0.0)
    design = np.concatenate([activations, np.ones((len(rows), 1))], axis=1)
    gram = design.T @ design
    penalty = ridge * len(rows) * np.ones(hidden + 1)
    penalty[-1] = 1e-9
    weights = solve(gram + np.diag(penalty), design.T @ values, assume_a="pos")
    bounded = np.clip(weights, -_MOST_OUTPUT_WEIGHT, _MOST_OUTPUT_WEIGHT).astype(np.float32)
    hinges = directions.astype(np.float32), np.clip(thresholds, -60.0, 60.0).astype(np.float32)
    return Mlp.of(features, [hinges, (bounded[None, :-1], bounded[-1:])])
