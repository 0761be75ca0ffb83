"""Known answers of in-site models: bytes, sensitivities, and randomness that everybody may know."""

import json
from pathlib import Path

import pytest

from protocol.codec import decode, encode
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.kinds import QUERY_KINDS
from protocol.kinds.model import MODEL, ModelLimits, ModelRelease, PlannedModel
from protocol.kinds.models import METHODS
from protocol.kinds.models.forest import random_trees
from protocol.kinds.models.linear import cosines, frequencies
from protocol.kinds.models.method import words
from protocol.query_kind import KindTerms, Question, Turn
from protocol.schema import Schema

KNOWN = json.loads((Path(__file__).parent / "vectors" / "model.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_read_and_written_again_byte_for_byte(name):
    case = KNOWN["methods"][name]
    data = {what: bytes.fromhex(case[what]) for what in ("schema", "planned", "body", "release")}
    schema, planned = decode(data["schema"], Schema), decode(data["planned"], PlannedModel)
    body = MODEL.read_body(data["body"], Turn(planned), KindTerms(schema, ModelLimits()))
    written = (schema, planned, body, decode(data["release"], ModelRelease))
    assert [encode(value) for value in written] == list(data.values())
    assert planned.name == name
    assert QUERY_KINDS.cost(planned, 2) == planned.models == 2
    assert planned.sensitivity(2) == case["sensitivity"]
    told = MODEL.read_release(data["release"], Question(Turn(planned), body, schema))
    assert told.tolist() == list(range(len(told)))


def test_public_randomness_is_known():
    assert words(9, "trees", 4).tolist() == KNOWN["words"]
    (tree,) = random_trees(FeatureMap((NumericFeature("age", 0.0, 1.0, 0.0),)), 1, 3, 4096, 9)
    assert tree.table.tolist() == KNOWN["tree"]
    assert frequencies(9, 2, 3).tolist() == KNOWN["frequencies"]
    assert cosines(100, 3)[::512].tolist() == KNOWN["cosines"]
