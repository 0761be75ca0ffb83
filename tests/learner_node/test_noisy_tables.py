"""Noisy tables and the law of their noise, against sums and convolutions done another way."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

SCHEMA = Schema(
    attributes=(NumericAttribute("age", 0, 120, units="years"), CategoricalAttribute("sex", ("f", "m"))),
    label="died",
    classes=("no", "yes"),
)
AXES = (
    Axis.of(FeatureBins("age", (40.0, 60.5)), SCHEMA),
    Axis.of(FeatureBins("sex", ()), SCHEMA),
    Axis.of(FeatureBins("died", ()), SCHEMA),
)


def table(values, scale=2.0, draws=1.0, **options):
    return NoisyTable(AXES, np.asarray(values, np.float64), NoiseLaw(scale, draws), **options)


def test_an_axis_names_its_cells():
    age, sex, died = AXES
    assert age.labels == ("below 40", "40 to 60.5", "60.5 or more", "missing")
    assert (len(age), age.proper, age.measure) == (4, 3, "years")
    assert sex.labels == ("f", "m", "other", "missing")
    assert (len(sex), sex.proper, died.levels) == (4, 2, ("no", "yes"))
    assert Axis.of(FeatureBins("age", ()), SCHEMA).labels == ("all", "missing")
    with pytest.raises(ValueError, match="no variable 'height'"):
        Axis.of(FeatureBins("height", ()), SCHEMA)


@given(st.permutations(range(3)), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_a_margin_adds_up_cells_and_their_noise(order, kept, seed):
    values = np.random.default_rng(seed).integers(-9, 99, (4, 4, 4)).astype(float)
    axes = order[:kept]
    margin = table(values).over(*axes)
    expected = np.zeros([4] * kept)
    for cell in product(range(4), repeat=3):
        expected[tuple(cell[axis] for axis in axes)] += values[cell]
    assert margin.values.tolist() == expected.tolist()
    assert margin.axes == tuple(AXES[axis] for axis in axes)
    assert margin.noise == NoiseLaw(2.0, 4.0 ** (3 - kept))


def test_tables_of_two_sites_are_added_with_both_noises():
    first = table(np.ones((4, 4, 4)), outside=3.0, most_records_per_unit=2)
    second = table(np.full((4, 4, 4), 2.0), draws=1.25, outside=-1.0, sites=3)
    joint = first.plus(second)
    assert (joint.values == 3).all()
    assert (joint.noise, joint.sites, joint.outside, joint.most_records_per_unit) == (NoiseLaw(2.0, 2.25), 4, 2.0, 2)
    with pytest.raises(ValueError, match="different scales"):
        first.plus(table(np.ones((4, 4, 4)), scale=3.0))
    with pytest.raises(ValueError, match="do not fit"):
        table(np.ones((4, 4)))


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 60.0])
@pytest.mark.parametrize("draws", [1.0, 1.25, 4.0, 5 / 3])
def test_moments_and_quantiles_are_those_of_the_law(scale, draws):
    law = NoiseLaw(scale, draws)
    places = np.arange(-law.width, law.width + 1)
    assert law.pmf @ places == pytest.approx(0, abs=1e-9 * scale)
    # scipy's negative binomials, whose difference the law is.
    geometric = stats.nbinom(draws, -np.expm1(-1 / scale))
    assert law.pmf @ places**2 == pytest.approx(2 * geometric.var(), rel=1e-6)
    assert law.variance == pytest.approx(2 * geometric.var(), rel=1e-9)
    fourth = law.pmf @ places.astype(float) ** 4 / law.variance**2 - 3
    assert law.kurtosis == pytest.approx(fourth, rel=1e-4)
    assert law.kurtosis == pytest.approx(float(geometric.stats("k")) / 2, rel=1e-9)
    for level in (0.025, 0.5, 0.975):
        quantile = law.quantile(level)
        assert law.pmf[: quantile + law.width + 1].sum() >= level - 1e-12
        assert law.pmf[: quantile + law.width].sum() < level
    assert law.quantile(0.5) == 0


def test_the_noise_of_two_cells_is_a_convolution():
    law = NoiseLaw(3.0, 1.25)
    both = np.convolve(law.pmf, law.pmf)
    pair = law.of_cells(2)
    centre = len(both) // 2
    reach = min(pair.width, centre)
    assert np.allclose(both[centre - reach : centre + reach + 1], pair.pmf[pair.width - reach : pair.width + reach + 1])


def test_without_noise_there_is_none():
    for law in (NoiseLaw(0.0), NoiseLaw(5.0, 0.0)):
        assert (law.exact, law.variance, law.kurtosis, law.width, law.quantile(0.99)) == (True, 0.0, 0.0, 0, 0)
        assert law.log_pmf(np.array([-1, 0, 1])).tolist() == [-np.inf, 0.0, -np.inf]
        assert not law.simulate(np.random.default_rng(0), (3,)).any()
    with pytest.raises(ValueError, match="negative"):
        NoiseLaw(-1.0)


def test_simulated_noise_has_the_law():
    """Chi-squared over 21 groups; false-alarm rate 1e-9, power above .99 for a scale wrong by 10 %."""
    law = NoiseLaw(4.0, 1.25)
    draws = law.simulate(np.random.default_rng(1), (20_000,)).astype(int)

    def p_value(scale):
        pmf, width = NoiseLaw(scale, 1.25).pmf, NoiseLaw(scale, 1.25).width
        expected = np.array([pmf[: width - 9].sum(), *pmf[width - 9 : width + 10], pmf[width + 10 :].sum()]) * len(
            draws
        )
        return stats.chisquare(np.bincount(np.clip(draws, -10, 10) + 10, minlength=21), expected).pvalue

    assert p_value(4.0) > 1e-9
    assert p_value(4.4) < 1e-9


@pytest.mark.parametrize(("scale", "draws"), [(10.0, 100.0), (10.5, 37.25), (60.0, 300.0)])
def test_a_wide_law_is_inverted_from_its_characteristic_function(monkeypatch, scale, draws):
    law = NoiseLaw(scale, draws)
    monkeypatch.setattr("learner_node.analyses.noise_law._DIRECT", 10**12)
    direct = law.pmf
    monkeypatch.setattr("learner_node.analyses.noise_law._DIRECT", 0)
    np.testing.assert_allclose(NoiseLaw(scale, draws).pmf, direct, atol=1e-13)


def test_a_margin_of_many_cells_at_several_sites_has_a_quantile_without_much_memory():
    # one by one, the masses of this law need gigabytes
    law = NoiseLaw(100.0, 4 * 2_000.0)
    assert law.quantile(0.975) == pytest.approx(1.96 * law.variance**0.5, rel=1e-3)


@pytest.mark.parametrize(("scale", "draws"), [(1e6, 3.0), (4e9, 2.0), (4e9, 1.5), (40.0, 1e7)])
def test_noise_wider_than_memory_has_quantiles_that_hold(scale, draws):
    law, unit = NoiseLaw(scale, draws), NoiseLaw(1e3, draws)
    expected = unit.quantile(0.975) * scale / 1e3
    assert expected * 0.999 <= law.quantile(0.975) <= expected * 1.01
    assert law.quantile(0.025) == -law.quantile(0.975)
