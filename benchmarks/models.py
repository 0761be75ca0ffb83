"""In-site models: processor time of a curator's fit, beside the work that its question states.

200,000 records of ten numbers. The noise is not among it: some ten microseconds a released number, see `counting`.
"""

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.common import Result, median
from curator_node.kinds.models import EXACT, sums_about
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.kinds.model import NOISE_ONCE, ModelBody, PlannedModel, length, work
from protocol.kinds.models import (
    AnyMethod,
    Attributes,
    Body,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.records import LABEL_STEPS, Records
from protocol.schema import NumericAttribute, Schema

RECORDS, WIDTH, REPEATS = 200_000, 10, 3
NAMES = tuple(f"x{place}" for place in range(WIDTH))
ATTRIBUTES = tuple(NumericAttribute(name, -4.0, 4.0) for name in NAMES)
CLASSES = Schema(attributes=ATTRIBUTES, label="y", classes=("no", "yes"))
NUMBER = Schema(attributes=ATTRIBUTES, label="y", label_bounds=(-4.0, 4.0))
ONE = Rational(1, 1)
TENTH_OF_NANOSECOND = 1e-10


def run() -> list[Result]:
    """See the module."""
    rng = np.random.default_rng(1)
    numeric = rng.normal(size=(RECORDS, WIDTH)).clip(-4, 4)
    score = np.clip((numeric[:, 0] + 0.3 * rng.normal(size=RECORDS) + 4) / 8, 0, 1)
    results = []
    with threadpool_limits(1):
        for method, body in _cases():
            schema = NUMBER if isinstance(method, LinearRegression) else CLASSES
            labels = (score * LABEL_STEPS if schema is NUMBER else score > score.mean()).astype(np.uint16)
            records = Records(schema, numeric, np.empty((RECORDS, 0), np.int16))
            results.append(_result(method, body, records, labels))
    return results


def _cases() -> Iterator[tuple[AnyMethod, Body]]:
    features = FeatureMap(tuple(NumericFeature(name, 0.0, WIDTH**-0.5, 0.0) for name in NAMES))
    points, body = Points(width=WIDTH, radius=256, constant=64), Mapped(features)
    fine = Points(width=WIDTH, radius=STEPS, constant=STEPS // 4)
    yield NaiveBayes(binned=0, moments=WIDTH, steps=16), Attributes(tuple(Moments(name, -3.0, 3.0) for name in NAMES))
    yield LinearRegression(points=points, label_steps=256), body
    yield PrincipalComponents(points=points), body
    yield Forest(width=WIDTH, trees=10, depth=6, span=STEPS, seed=1), body
    centres = np.random.default_rng(2).integers(-100, 100, (8, WIDTH))
    yield KMeans(points=points, clusters=8, iterations=5), Centres.of(features, centres)
    yield LogisticRegression(points=fine, regulariser=ONE, steps=256), body
    yield LinearSvm(points=fine, regulariser=ONE, steps=256), body
    yield KernelSvm(width=WIDTH, frequencies=50, seed=1, radius=STEPS, regulariser=ONE, steps=256), body


def _result(method: AnyMethod, body: Body, records: Records, labels: NDArray[np.uint16]) -> Result:
    planned = PlannedModel(method=method, epsilon=ONE)
    asked, turn = ModelBody((body,)), Turn(planned)
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        _fit(planned, body, records, labels)
        taken.append(time.process_time() - start)
    numbers = length(asked, turn, records.schema)
    stated = (work(asked, turn, records.schema, RECORDS) - NOISE_ONCE * numbers) * TENTH_OF_NANOSECOND
    return Result(
        f"{planned.name}, {RECORDS:,} records of {WIDTH} numbers",
        median(taken),
        "s",
        spread=(min(taken), max(taken)),
        note=f"processor time, one thread; stated: {stated:.3g} s; {numbers} numbers are released",
    )


def _fit(planned: PlannedModel, body: Body, records: Records, labels: NDArray[np.uint16]) -> None:
    method = planned.method
    if isinstance(method, KMeans) and isinstance(body, Centres):
        centres = body.table(WIDTH)
        for _ in range(method.iterations):
            (sums,) = sums_about(method, body, records, centres[None])
            centres = method.next_centres(centres, sums)
    else:
        EXACT[planned.name](method, body, records, labels)
