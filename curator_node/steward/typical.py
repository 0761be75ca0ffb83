"""What a learner with the default strategy would ask, and whether policy and schema let it: counts of labels in cells.

Only the shape of such a question matters here, and that is public: nothing is asked, and no record is read.
"""

from fractions import Fraction
from typing import NamedTuple

from curator_node.policy import Policy
from curator_node.records.schema_file import StewardFile
from curator_node.requests import check_planned
from protocol.codec import encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import CategoricalFeature, Feature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.partitions import NearestCentre
from protocol.query_kind import Kinds, Turn
from protocol.rationals import Rational
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Attribute, NumericAttribute, Schema

CELLS = (30, 100, 300, 1000)
SECONDS = 1e-10
"""Of one unit of work, on one core."""


class Typical(NamedTuple):
    """One question.

    Attributes:
        release: what is counted in its cells.
        cells: how many.
        seconds: that its work is stated as, of one core.
        size: of its message, in bytes.
        refused: why it would be, in words; empty where it would not.
    """

    release: str
    cells: int
    seconds: float
    size: int
    refused: str


def typical_questions(steward: StewardFile, policy: Policy, kinds: Kinds = QUERY_KINDS) -> list[Typical]:
    """The questions of the default strategy, by number of cells, at a cost of the whole cap."""
    return [_asked(release, cells, steward, policy, kinds) for release in _releases(steward.schema) for cells in CELLS]


def _releases(schema: Schema) -> tuple[str, ...]:
    if schema.label_bounds is not None:
        return ("label_total", "squared_error", "error_sums")
    return ("error_correct",) if len(schema.classes) == 2 else ("class_counts",)


def _asked(release: str, cells: int, steward: StewardFile, policy: Policy, kinds: Kinds) -> Typical:
    schema = steward.schema
    features = FeatureMap(tuple(_feature(attribute) for attribute in schema.attributes))
    partition = NearestCentre(features=features, centres=bytes(4 * features.width * cells))
    wanted = RELEASE_KINDS[release].wants_hypothesis
    body = CountsBody(partitions=(partition,), hypothesis=Constant(predicted=1) if wanted else None)
    data = encode(body)
    scale = Fraction(steward.most_records_per_unit) / (policy.total_cap or 1)
    planned = PlannedCounts(release=release, partitions=1, scale=Rational.of(scale.limit_denominator(2**31)))
    work, refused = 0, ""
    try:
        check_planned(planned, 1, kinds, policy, steward, "plan")
        kind = kinds.kind(planned.kind)
        read = kind.read_body(data, Turn(planned, 0, 0), schema, kinds.limits(policy.limits, planned.kind))
        work = kind.work(read, Turn(planned, 0, 0), schema, steward.round_size)
        if work > policy.limits.multiply_adds:
            refused = "more work than limits.multiply_adds allows; declare round_size in the schema, or raise the limit"
    except RemoteProtocolError as error:
        refused = ": ".join(part for part in (EXPLANATIONS[RefusalCode(error.code)], error.limit) if part)
    if len(data) > policy.limits.message_bytes:
        refused = refused or "a longer message than limits.message_bytes allows"
    return Typical(release, cells, work * SECONDS, len(data), refused)


def _feature(attribute: Attribute) -> Feature:
    if isinstance(attribute, NumericAttribute):
        middle = (attribute.lower + attribute.upper) / 2
        return NumericFeature(attribute.name, middle, 1 / max(attribute.upper - attribute.lower, 1e-9), middle)
    return CategoricalFeature(attribute.name, attribute.levels, 1.0, attribute.levels[0])
