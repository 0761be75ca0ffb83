"""Every kind of partition, asked of a real curator: the release's shape, refusals, and what is encoded only once."""

import numpy as np
import pytest

from curator_fakes import (
    ATTRIBUTES,
    ROWS,
    ZeroNoise,
    numbers,
    open_curator,
    opened,
    planned,
)
from curator_node.records import workloads
from protocol.codec import encode
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import CountsBody
from protocol.messages import Refusal, Release
from protocol.partitions import (
    PARTITION_KINDS,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    ScoreBins,
    TreeLeaves,
)
from protocol.plans import Plan
from protocol.refusals import RefusalCode
from protocol.schema import Schema

SCHEMA = Schema(attributes=ATTRIBUTES, label="sick", classes=("no", "yes"))
MAP = FeatureMap(
    (
        NumericFeature("age", 60.0, 1 / 32, 60.0),
        NumericFeature("dose", 0.0, 0.5, 0.0),
        CategoricalFeature("sex", ("f", "m"), 1.0, "f"),
    )
)
ELSEWHERE = FeatureMap((NumericFeature("weight", 0.0, 1.0, 0.0),))
AGE = FeatureBins("age", (30.0, 60.0))
SEX = FeatureBins("sex", ())
NETWORK = Mlp.of(MAP, [(np.array([[1.0, 0, 0, 0, 0]]), np.array([0.0]))])
WIDTH = MAP.width

# The ages of ROWS are 20, 44, 71.5, missing (60) and 118; (age - 60) / 32 is -1.25, -.5, .359, 0 and 1.8.
GOOD = {
    "feature_bins": (AGE, [1, 1, 2, 1]),
    "nearest_centre": (NearestCentre.of(MAP, np.eye(2, WIDTH) * [[-1], [1]] * 1.0), None),
    "product_bins": (ProductBins(AGE, SEX), [1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]),
    "score_bins": (ScoreBins(NETWORK, (-1.0, 0.0, 2.0**-24)), [1, 1, 1, 2]),
    "projection_bins": (
        ProjectionBins.of(MAP, np.array([[1.0, 0, 0, 0, 0], [0, 0, 1.0, -1.0, 0]]), ((0.0,), (0.0, 0.5))),
        None,
    ),
    "tree_leaves": (TreeLeaves.of(MAP, np.array([(0, 0, 1, -1), (3, 1, -2, -3)])), [3, 1, 1]),
}
BAD = {
    "feature_bins": (FeatureBins("age", (2.0, 1.0)), "edges"),
    "nearest_centre": (NearestCentre(MAP, bytes(4)), "centres"),
    "product_bins": (ProductBins(AGE, FeatureBins("weight", ())), "second.attribute"),
    "score_bins": (ScoreBins(Mlp(ELSEWHERE, NETWORK.weights), ()), "hypothesis.features.features[0].attribute"),
    "projection_bins": (ProjectionBins(MAP, bytes(4 * WIDTH), ((), ())), "directions"),
    "tree_leaves": (TreeLeaves.of(MAP, np.array([(0, 0, 0, -1)])), "nodes"),
}
KINDS = pytest.mark.parametrize("kind", PARTITION_KINDS)


def body(*partitions, hypothesis=None):
    return encode(CountsBody(tuple(partitions), hypothesis))


def exact_curator():
    """A curator whose noise is 0."""
    return open_curator(noise=ZeroNoise())


def test_every_registered_kind_is_served_here():
    assert GOOD.keys() == BAD.keys() == PARTITION_KINDS.keys()
    assert {kind: type(partition) for kind, (partition, _) in GOOD.items()} == PARTITION_KINDS


@KINDS
def test_a_release_has_a_number_for_each_cell(kind):
    partition, _ = GOOD[kind]
    learner = opened(open_curator(), plan=Plan.of((planned(1, release="mass"),)))
    reply = learner.query(body(partition))
    assert isinstance(reply, Release)
    assert len(numbers(reply)) == partition.cell_count(SCHEMA)


@KINDS
def test_without_noise_the_release_counts_every_record_once(kind):
    partition, expected = GOOD[kind]
    learner = opened(exact_curator(), plan=Plan.of((planned(1, release="mass"),)))
    counts = numbers(learner.query(body(partition)))
    assert sum(counts) == len(ROWS)
    assert expected in (None, counts)


@KINDS
def test_a_malformed_partition_is_refused_by_name_and_costs_nothing(kind):
    partition, field = BAD[kind]
    learner = opened(open_curator(), plan=Plan.of((planned(1, release="mass"),)))
    reply = learner.query(body(partition))
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.field) == (RefusalCode.BAD_QUERY, f"body.partitions[0].{field}")
    assert reply.limit


@KINDS
def test_a_partition_is_encoded_once_for_all_hypotheses_and_studies(kind, monkeypatch):
    encoded = []
    encode_workload = workloads.encode_workload

    def recording(partitions, records):
        encoded.append(partitions)
        return encode_workload(partitions, records)

    monkeypatch.setattr(workloads, "encode_workload", recording)
    partition, _ = GOOD[kind]
    curator = open_curator()
    for learner_name in ("ann", "bob"):
        plan = Plan.of((planned(30, release="signed_error"), planned(30, release="signed_error")))
        learner = opened(curator, learner_name, plan=plan)
        for hypothesis in (Constant(0), NETWORK):
            assert isinstance(learner.query(body(partition, hypothesis=hypothesis)), Release)
    assert encoded == [(partition,)]
