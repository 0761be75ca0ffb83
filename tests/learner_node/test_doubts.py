"""What a learner is told before anything is asked and spent."""

import pytest

from learner_node.study.doubts import doubts_about
from learner_node.study.pooling import SUMMED, Pooling, SecurePool


def about(options=None, *, records=100, curators=3, pooling=SUMMED):
    return doubts_about(options, records=records, curators=curators, pooling=pooling)


@pytest.mark.parametrize(("cells", "count"), [(99, 0), (100, 0), (101, 1), (None, 0)])
def test_more_cells_than_source_records_are_told(cells, count):
    told = about({"cells": cells, "networks": False})
    assert len(told) == count
    assert all("101 cells are more than the 100 source records" in text for text in told)


def test_a_secure_sum_is_told_that_no_curator_may_fall_silent_by_the_rule_that_plans_it():
    for curators in range(2, 40):
        pool = SecurePool.of(number.to_bytes(32, "big") for number in range(curators))
        told = about(curators=curators, pooling=Pooling("secure"))
        assert len(told) == (pool.dropouts == 0)
        assert all(f"a secure sum of {curators} curators that allows no dropout" in text for text in told)


@pytest.mark.parametrize(("curators", "way"), [(3, "takes 4 curators or more"), (4, "allow one: dropouts = 1")])
def test_the_way_out_of_a_secure_sum_without_a_dropout_is_one(curators, way):
    assert way in about(curators=curators, pooling=Pooling("secure"))[0]
    keys = [number.to_bytes(32, "big") for number in range(max(curators, 4))]
    assert SecurePool.of(keys, dropouts=1).dropouts == 1
    assert about(curators=curators, pooling=Pooling("secure", dropouts=1)) == []


def test_one_curator_alone_is_an_error_told_elsewhere():
    assert about(curators=1, pooling=Pooling("secure")) == []
