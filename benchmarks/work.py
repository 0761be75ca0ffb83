"""The longest that a question can hold a curator of a million records that declares no size, under default limits.

Each row is a workload of one kind of partition, hypothesis or release, repeated as often as the estimate of
`Counts.work` allows. Timed is `Curator.handle`, from the bytes of the question to those of the answer,
on one core: with more, encoding takes a share of it. The number is the processor's time, which is the wall's on an idle
machine; the wall's stands in the note. Two rows are refusals of long bodies, which cost the learner nothing.
"""

import itertools
import os
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from benchmarks.common import NOW, Result, at_most
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, PlannedCounts
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.partitions import (
    CrossBins,
    FeatureBins,
    NearestCentre,
    Partition,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Attribute, CategoricalAttribute, NumericAttribute, Schema

RECORDS = 1_000_000
NUMBERS, CATEGORIES, LEVELS = 20, 5, 200
MOST_SECONDS = 10.0
ATTRIBUTES: tuple[Attribute, ...] = (
    *(NumericAttribute(f"n{i}", 0.0, 1.0) for i in range(NUMBERS)),
    *(CategoricalAttribute(f"c{i}", tuple(f"l{j}" for j in range(LEVELS))) for i in range(CATEGORIES)),
)
LIMITS, COUNTS_LIMITS = Limits(), CountsLimits()

Case = tuple[str, Partition, str, Hypothesis | None, Fraction | None]


def run() -> list[Result]:
    """See the module."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with threadpool_limits(1):
            return _run(np.random.default_rng(0))
    finally:
        os.sched_setaffinity(0, cores)


def _run(rng: np.random.Generator) -> list[Result]:
    columns = _columns(rng)
    cases = list(_cases(rng))
    results = []
    for sort in ("two classes", "256 classes", "a number"):
        site = _Site(sort, columns, rng)
        results += [site.answer(case) for case in cases if _sort(case[2]) == sort]
    return [*results, *_refusals(columns, rng)]


def _cases(rng: np.random.Generator) -> Iterator[Case]:
    """(what, partition, release kind, hypothesis, scale where it is not that of a private question)."""

    def mass(name: str, partition: Partition) -> Case:
        return name, partition, "mass", None, None

    edge = FeatureBins("n3", _edges(1))
    yield mass("feature_bins, no edge", FeatureBins("n3", ()))
    yield mass("feature_bins, 8 edges", FeatureBins("n3", _edges(8)))
    yield mass("feature_bins, 900 edges", FeatureBins("n3", _edges(900)))
    yield mass("feature_bins, categories", FeatureBins("c3", ()))
    yield mass("product_bins, 8 x 8 edges", ProductBins(FeatureBins("n3", _edges(8)), FeatureBins("n4", _edges(8))))
    narrow, halves = FeatureBins("n3", ()), FeatureBins("n4", _edges(1))
    yield mass("cross_bins, 8 factors", CrossBins((narrow,) * 8))
    yield mass("cross_bins, 16 conditions", CrossBins((FeatureBins("c3", ()),), (Range(halves, (0, 1)),) * 16))
    for count, width in ((1, 1), (10, 2), (900, 2), (800, 60)):
        centres = NearestCentre.of(_numbers(width), rng.normal(size=(count, width)))
        yield mass(f"nearest_centre, {count} of width {width}", centres)
    for hidden in ((4,), (1,) * 15, (600,)):
        name = "-".join(map(str, hidden)) if len(hidden) < 15 else "fifteen of one unit"
        yield mass(f"score_bins, hidden layers {name}", ScoreBins(_network(rng, _numbers(2), hidden), (0.0,)))
    for count, edges in ((10, 1), (16, 0), (1, 20_000)):
        directions = rng.normal(size=(count, 2))
        projection = ProjectionBins.of(_numbers(2), directions, (_edges(edges),) * count)
        yield mass(f"projection_bins, {count} directions, {edges} edges", projection)
    for name, features in (("90 categories", _categories(90, 1)), ("400 numbers", _numbers(400))):
        line = ProjectionBins.of(features, rng.normal(size=(1, features.width)), ((0.0,),))
        yield mass(f"projection_bins, map of {name}", line)
    yield mass("tree_leaves, depth 64", TreeLeaves.of(_numbers(2), _chain(rng, 64)))
    yield mass("tree_leaves, 2,000 leaves", TreeLeaves.of(_numbers(2), _balanced(rng, 1_999)))
    yield mass("tree_leaves, 90,000 leaves", TreeLeaves.of(_numbers(2), _balanced(rng, 89_999)))
    yield "signed_error, network 20-130-130", edge, "signed_error", _network(rng, _numbers(20), (130, 130)), None
    yield "error_correct, 100,000 cells", FeatureBins("n3", _edges(99_998)), "error_correct", Constant(1), None
    yield "mass, 100,000 cells, scale 1/1000", FeatureBins("n3", _edges(99_998)), "mass", None, Fraction(1, 1000)
    for cells in (2, 10, 127, 780):
        yield (
            f"class_counts, 256 classes, {cells} cells",
            FeatureBins("n3", _edges(cells - 2)),
            "class_counts",
            None,
            None,
        )
    yield "label_total, 2 cells", FeatureBins("n3", ()), "label_total", None, None
    yield "label_total, 49,000 cells", FeatureBins("n3", _edges(48_998)), "label_total", None, None
    for release in ("squared_error", "error_sums"):
        yield f"{release}, 3 cells", edge, release, _network(rng, _numbers(20), (50,)), None


class _Site:
    """A curator of a million records, and a learner whose budget does not end."""

    def __init__(self, sort: str, columns: dict[str, np.ndarray], rng: np.random.Generator) -> None:
        records = len(columns["n0"])
        classes = {"two classes": ("no", "yes"), "256 classes": tuple(f"k{i}" for i in range(256)), "a number": ()}[
            sort
        ]
        label = np.array(classes)[rng.integers(0, len(classes), records)] if classes else rng.random(records)
        steward = SchemaFile(
            label="y", classes=classes, label_bounds=None if classes else (0.0, 1.0), attributes=ATTRIBUTES
        )
        self._key = SigningKey.generate()
        policy = Policy(
            name="site",
            cap="1000000000",
            open_studies=1000,
            cache_bytes=0,  # every workload is encoded, and no row finds the last one's
            learners=(LearnerPolicy(name="learner", key=self._key.public.hex(), cap="1000000000"),),
        )
        self.schema: Schema = steward.schema
        self._records = records
        frame = pl.DataFrame({**columns, "y": label})
        self._curator = temporary_site(frame, steward, policy, clock=lambda: NOW)

    def ask(self, body: bytes, planned: PlannedCounts) -> tuple[object, float, float]:
        """What the curator says, and how long it took: on the wall, and of the processor."""
        session = Session(curator=self._curator.identity, key=self._key, study=os.urandom(16))
        session.receive(self._curator.handle(session.propose(Plan.of((planned,)), "benchmark", NOW)))
        question = session.query("counts", body, NOW)
        wall, processor = time.perf_counter(), time.process_time()
        reply = self._curator.handle(question)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        return session.receive(reply), wall, processor

    def answer(self, case: Case) -> Result:
        """The largest question of its kind that is not refused."""
        name, partition, release, hypothesis, scale = case

        def question(count: int) -> Question:
            exact = Rational.of(Fraction(10 * count) if scale is None else scale)
            planned = PlannedCounts(release=release, partitions=count, scale=exact)
            return Question(Turn(planned), CountsBody((partition,) * count, hypothesis), self.schema)

        def fits(count: int) -> bool:
            cells = count * partition.cell_count(self.schema)
            columns = max(RELEASE_KINDS[release].columns(self.schema), 2)
            needed = COUNTS.work(question(count), None)
            return cells <= COUNTS_LIMITS.cells * 2 // columns and needed <= LIMITS.multiply_adds

        least, most = 1, COUNTS_LIMITS.partitions
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (middle, most) if fits(middle) else (least, middle - 1)
        asked = question(least)
        reply, wall, processor = self.ask(encode(asked.body), asked.turn.planned)
        assert isinstance(reply, Release), (name, reply)
        share = COUNTS.work(asked, None) / LIMITS.multiply_adds
        note = f"{least} partitions, {share:.0%} of the limit; {wall:.1f} s on the wall"
        return at_most(name, processor, MOST_SECONDS, "s", note=note)


def _refusals(columns: dict[str, np.ndarray], rng: np.random.Generator) -> list[Result]:
    """The longest bodies whose last partition alone is wrong, so that all others are checked for nothing."""
    site = _Site("two classes", {name: column[:1000] for name, column in columns.items()}, rng)
    wrong = FeatureBins("absent", ())
    features = _categories(4000, 1)
    wide = ProjectionBins.of(features, np.zeros((1, features.width)), ((0.0,),))
    network = ScoreBins(_network(rng, _numbers(1), ()), (0.0,))
    results = []
    for name, partition, count in (("40 maps of 4,000 categories", wide, 40), ("9,999 networks", network, 9_999)):
        body = encode(CountsBody((*[partition] * count, wrong), None))
        planned = PlannedCounts(release="mass", partitions=count + 1, scale=Rational(count, 1))
        reply, wall, processor = site.ask(body, planned)
        assert isinstance(reply, Refusal), name
        note = f"{len(body) / 1e6:.1f} MB; {wall:.2f} s on the wall"
        results.append(at_most(f"refused: {name}", processor, 1.0, "s", note=note))
    return results


def _sort(release: str) -> str:
    if release == "class_counts":
        return "256 classes"
    return "a number" if RELEASE_KINDS[release].of_steps else "two classes"


def _columns(rng: np.random.Generator) -> dict[str, np.ndarray]:
    levels = np.array([f"l{j}" for j in range(LEVELS)])
    numbers = {f"n{i}": rng.random(RECORDS) for i in range(NUMBERS)}
    return {**numbers, **{f"c{i}": levels[rng.integers(0, LEVELS, RECORDS)] for i in range(CATEGORIES)}}


def _edges(count: int) -> tuple[float, ...]:
    return tuple(float(edge) for edge in np.linspace(0.001, 0.999, count))


def _numbers(width: int) -> FeatureMap:
    return FeatureMap(tuple(NumericFeature(f"n{i % NUMBERS}", 0.5, 3.0, 0.5) for i in range(width)))


def _categories(count: int, levels: int) -> FeatureMap:
    names = tuple(f"l{j}" for j in range(levels))
    return FeatureMap(tuple(CategoricalFeature(f"c{i % CATEGORIES}", names, 1.0, "") for i in range(count)))


def _network(rng: np.random.Generator, features: FeatureMap, hidden: tuple[int, ...]) -> Mlp:
    widths = (features.width, *hidden, 1)
    return Mlp.of(
        features,
        [
            (rng.normal(0, 0.05, (out, into)).astype(np.float32), rng.normal(size=out).astype(np.float32))
            for into, out in itertools.pairwise(widths)
        ],
    )


def _chain(rng: np.random.Generator, count: int) -> np.ndarray:
    """Every node's child above is the next node."""
    nodes = _splits(rng, count)
    nodes[:, 2] = -1 - np.arange(count)
    nodes[:-1, 3] = np.arange(1, count)
    nodes[-1, 3] = -1 - count
    return nodes


def _balanced(rng: np.random.Generator, count: int) -> np.ndarray:
    """Node i has children 2 i + 1 and 2 i + 2, as far as there are any; leaves otherwise."""
    nodes = _splits(rng, count)
    children = np.arange(1, 2 * count + 1)
    nodes[:, 2:] = np.where(children < count, children, count - 1 - children).reshape(-1, 2)
    return nodes


def _splits(rng: np.random.Generator, count: int) -> np.ndarray:
    nodes = np.zeros((count, 4), np.int64)
    nodes[:, 0] = rng.integers(0, 2, count)
    nodes[:, 1] = rng.integers(-6_000, 6_000, count)
    return nodes
