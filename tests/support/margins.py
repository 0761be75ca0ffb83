"""Margins that have a reason, for what is trained or computed in floats: chance, and bounds of rounding errors."""

import numpy as np
from scipy.stats import binom, norm

FALSE_ALARM = 1e-9
DEVIATIONS = norm.isf(FALSE_ALARM / 2)
"""Of a normal law, passed on either side so rarely: 6.1."""


def surely_above(right, share):
    """Whether a classifier right with that chance would be right so often once in 1e9 samples at most.

    Power: one that is right with a chance of `share` + 12 / (2 sqrt(n)) or more fails as rarely.
    """
    right = np.asarray(right)
    return binom.sf(right.sum() - 1, len(right), share) < FALSE_ALARM


def surely_ahead(first, second):
    """Whether the mean of paired differences is above 0 by six of its standard errors."""
    gain = np.subtract(first, second, dtype=float)
    return gain.mean() > DEVIATIONS * gain.std() / np.sqrt(len(gain))


def within_its_error(value, truth, low, high):
    """Whether an estimate is as near as six of the standard errors that its 95 % interval states."""
    return abs(value - truth) < DEVIATIONS / 1.96 * 0.5 * (high - low)


def rounding_of_network(layers, rows):
    """Bound of a single-precision network's error, (n, outputs), of weights (inputs, outputs) and biases, and ReLU.

    A product of k terms and a bias is off by at most (k + 1) 2^-24 of the sum of its terms' sizes (Higham 2002, 3.1).
    Besides, a layer passes on what its inputs are off by, times the sizes of its weights at most.
    """
    value, error = np.asarray(rows, float), np.abs(rows) * 2.0**-24
    for place, layer in enumerate(layers):
        weights, bias = (np.asarray(array, float) for array in layer)
        size = np.abs(value) @ np.abs(weights) + np.abs(bias)
        error = error @ np.abs(weights) + (len(weights) + 2) * 2.0**-24 * (size + error @ np.abs(weights))
        value = value @ weights + bias
        if place < len(layers) - 1:
            value = np.maximum(value, 0.0)
    return error
