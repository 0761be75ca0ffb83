"""Mechanisms that are broken on purpose are caught, and their laws are what they say."""

import numpy as np
import pytest
from scipy.stats import binom

from expril.audit.attack.controls.mechanisms import (
    CLEAN,
    CONTROLS,
    LATEST,
    NOT_ANSWERED,
    audit_control,
    noise_of_seconds,
    seeded_by_clock,
    variant_1,
    variant_3,
    variant_4,
    variant_5,
    variant_6,
)
from expril.audit.attack.controls.mechanisms import CLOCK_CELLS as CELLS
from expril.audit.attack.game import loss_bound
from protocol.errors import ConfigurationError

SUBTLE = ("svt_3", "raw_leak")
"""These need all the draws of a default audit."""


@pytest.mark.family(8)
@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_caught(name):
    """The noise is seeded; in an audit it is not, and benchmarks/audit.py counts how often each is caught."""
    result = audit_control(name, draws=100_000 if name in SUBTLE else 20_000, error_rate=0.001, seed=1)
    assert result.caught, result
    assert result.fault.endswith(".")
    assert result.truth == "infinite" or result.attack.lower_bound < float(result.truth)


def test_a_raw_leak_of_a_thousandth_is_caught_nearly_always():
    """Computed: with probability 1 - 1e-3 one direction's event comes 30 times in half the draws, which proves 1/2;
    both directions fail together with a probability below 2e-6."""
    draws = 50_000
    assert loss_bound(30, 0, (draws, draws), 0.0005) > 0.5
    assert binom.cdf(29, draws, 1e-3) ** 2 < 2e-6


def test_a_control_that_is_not_there_is_named():
    assert len(CONTROLS) >= 13
    assert not CONTROLS.keys() & CLEAN.keys()
    with pytest.raises(ConfigurationError, match="svt_5"):
        audit_control("svt_7", error_rate=0.05)


@pytest.mark.parametrize("variant", [variant_1, variant_4, variant_5, variant_6])
def test_a_sparse_vector_stops_where_it_should(variant):
    answers = variant((0,) * 10, 2_000, np.random.default_rng(2))
    most = {variant_1: 1, variant_4: 3}.get(variant, 10)
    above = answers == 1
    assert above.sum(1).max() <= most
    stopped = (np.cumsum(above, 1) - above) >= most
    assert ((answers == NOT_ANSWERED) == stopped).all()


def test_variant_3_puts_out_a_value_above():
    rows = variant_3((50, 0), 500, np.random.default_rng(3))
    assert (rows[:, 0] == 0).mean() > 0.9
    assert abs(rows[rows[:, 0] == 0, 1].mean() - 50) < 3


def test_the_clock_s_noise_is_that_of_a_second_just_before():
    rows = seeded_by_clock((0,) * CELLS, 200, np.random.default_rng(4))
    assert rows.shape == (200, 1 + CELLS)
    table = noise_of_seconds()
    assert all((table[row[0] - LATEST + 1 : row[0] + 1] == row[1:]).all(axis=1).any() for row in rows)
