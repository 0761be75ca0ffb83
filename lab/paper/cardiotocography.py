"""Data sets CTG-A and CTG-B: the 2126 cardiotocograms, divided as section 4.1 of the paper describes; CTG-pathologic.

Rows are treated as independent, as the paper does, though they come from 352 exams. What the paper leaves open is a
constant here; ADR 4 says what else was tried.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from lab.paper.draws import Draw, Labels, Records, stream
from simulations.datasets.ctg import load_ctg, load_ctg3

Rows = NDArray[np.int64]

CTG_A_SOURCE = 708
CTG_A_ORACLE = 709
"""Thirds of the 2126 records; the test part is what remains, 709."""

CTG_B_HALF = 1063
"""Records on either side: 'source and target datasets have the same size'."""
CTG_B_SOURCE = 708
CTG_B_ORACLE = 708
"""Of the halves, the records that are used; the test part is what remains of the target, 355."""

HEART_RATE = "LB"
LEAST_SHARE, LARGEST_SHARE = 0.1, 0.9


@cache
def _records() -> tuple[tuple[str, ...], Records, Labels]:
    """Names (22), values (2126, 22) and labels (2126,) of the file's records, in its order; 1 is a normal state.

    Raises:
        DataUnavailableError: The workbook is not to be had.
    """
    dataset = load_ctg()
    values = dataset.frame.select(dataset.attributes).to_numpy()
    labels = (dataset.frame["state"] == "normal").to_numpy().astype(np.int64)
    values.setflags(write=False)
    labels.setflags(write=False)
    return tuple(dataset.attributes), values, labels


def rows_a(seed: int) -> tuple[Rows, Rows, Rows]:
    """Source, oracle and test rows of CTG-A: a random division of all 2126 into 708, 709 and 709."""
    order = stream("CTG-A", seed).permutation(len(_records()[1]))
    source, oracle, test = np.split(order, [CTG_A_SOURCE, CTG_A_SOURCE + CTG_A_ORACLE])
    return source, oracle, test


def target_probability() -> Records:
    """(2126,) f(x): the baseline heart rate LB, scaled linearly from its range to [.1, .9].

    The paper says that f(x) is the probability of the source; its h0* fits that of the target (ADR 4).
    """
    attributes, values, _ = _records()
    rate = values[:, attributes.index(HEART_RATE)]
    share = (rate - rate.min()) / (rate.max() - rate.min())
    probability: Records = LEAST_SHARE + (LARGEST_SHARE - LEAST_SHARE) * share
    return probability


def rows_b(seed: int) -> tuple[Rows, Rows, Rows]:
    """Source (708), oracle (708) and test (355) rows of CTG-B.

    The rows are visited in random order; one is put in the target with probability f(x), else in the source, until one
    side has 1063; the other side takes the rest. Fast hearts are thus more frequent in the target.
    """
    rng = stream("CTG-B", seed)
    probability = target_probability()
    order = rng.permutation(len(probability))
    chosen = rng.random(len(order)) < probability[order]
    full = np.flatnonzero(np.maximum(np.cumsum(chosen), np.cumsum(~chosen)) == CTG_B_HALF)[0] + 1
    chosen[full:] = not chosen[full - 1]
    target, source = order[chosen], order[~chosen]
    return source[:CTG_B_SOURCE], target[:CTG_B_ORACLE], target[CTG_B_ORACLE:]


@cache
def _pathologic() -> Labels:
    """(2126,) 1 where the state is pathologic (NSP 3), in the file's order."""
    labels: Labels = (load_ctg3().frame["state"] == "pathologic").to_numpy().astype(np.int64)
    labels.setflags(write=False)
    return labels


def _draw(name: str, rows: tuple[Rows, Rows, Rows], labels: Labels | None = None) -> Draw:
    attributes, values, normal = _records()
    labels = normal if labels is None else labels
    source, oracle, test = rows
    centre, deviation = values[source].mean(axis=0), values[source].std(axis=0)
    scaled = (values - centre) / np.where(deviation > 0, deviation, 1.0)
    return Draw(
        name=name,
        attributes=attributes,
        source=scaled[source],
        source_labels=labels[source],
        oracle=scaled[oracle],
        oracle_labels=labels[oracle],
        test=scaled[test],
        test_labels=labels[test],
    )


def draw_ctg_a(seed: int) -> Draw:
    """CTG-A: source and target alike; a random division into thirds, scaled by the source's mean and deviation."""
    return _draw("CTG-A", rows_a(seed))


def draw_ctg_b(seed: int) -> Draw:
    """CTG-B: source and target differ in heart rate, but overlap; scaled by the source's mean and deviation."""
    return _draw("CTG-B", rows_b(seed))


def draw_ctg_pathologic(seed: int) -> Draw:
    """CTG-A's division and scaling, with another label: pathologic (176 of the 2126) against normal and suspect."""
    return _draw("CTG-pathologic", rows_a(seed), _pathologic())
