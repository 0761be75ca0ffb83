"""Intervals of risk difference, risk ratio and odds ratio: against statsmodels without noise, by coverage with it."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.proportion import confint_proportions_2indep

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import POPULATION, THESE
from learner_node.analyses.two_by_two import MEASURES, Tables, effect, mantel_haenszel

EXACT = NoiseLaw(0.0)
TABLE = np.array([[[30.0, 170.0], [12.0, 288.0]]])
STRATA = np.array([[[30.0, 70.0], [20.0, 90.0]], [[10.0, 90.0], [12.0, 300.0]], [[40.0, 60.0], [25.0, 50.0]]])


@pytest.mark.parametrize(("measure", "name"), [("risk ratio", "ratio"), ("odds ratio", "odds-ratio")])
def test_without_noise_ratios_have_the_score_intervals_of_statsmodels(measure, name):
    oracle = confint_proportions_2indep(30, 200, 12, 300, compare=name, method="score", correction=False)
    estimate = effect(Tables(TABLE, EXACT), measure)
    assert (estimate.low, estimate.high) == pytest.approx(oracle, rel=1e-6)


def test_without_noise_a_difference_has_mee_s_interval():
    """statsmodels inverts another form of this test, whose ends are .0004 apart; here it is written out."""

    def distance(difference):
        def misfit(low):
            high = low + difference
            return -(30 * np.log(high) + 170 * np.log(1 - high) + 12 * np.log(low) + 288 * np.log(1 - low))

        ends = max(0.0, -difference) + 1e-9, min(1.0, 1.0 - difference) - 1e-9
        low = minimize_scalar(misfit, bounds=ends, method="bounded", options={"xatol": 1e-13}).x
        high = low + difference
        variance = high * (1 - high) / 200 + low * (1 - low) / 300
        return (30 / 200 - 12 / 300 - difference) ** 2 / variance - 3.841458820694124

    estimate = effect(Tables(TABLE, EXACT), "risk difference")
    assert estimate.low == pytest.approx(brentq(distance, 0.0, 0.11), abs=1e-6)
    assert estimate.high == pytest.approx(brentq(distance, 0.11, 0.4), abs=1e-6)


def test_without_noise_strata_are_mantel_and_haenszel_s():
    oracle = StratifiedTable([table.T for table in STRATA])
    estimate = effect(Tables(STRATA, EXACT), "odds ratio")
    assert estimate.value == pytest.approx(oracle.oddsratio_pooled, rel=1e-9)
    assert mantel_haenszel(STRATA, "risk ratio") == pytest.approx(
        StratifiedTable(list(STRATA)).riskratio_pooled, rel=1e-9
    )
    # the score interval and that of Robins, Breslow and Greenland's variance agree as far as the sample is large
    assert (estimate.low, estimate.high) == pytest.approx(oracle.oddsratio_pooled_confint(), rel=0.02)
    null = oracle.test_null_odds(correction=False)
    assert estimate.p == pytest.approx(null.pvalue, rel=0.05)


def test_without_noise_these_records_are_known():
    estimate = effect(Tables(TABLE, EXACT, of=THESE), "odds ratio")
    assert estimate.value == estimate.low == estimate.high == pytest.approx(30 * 288 / 170 / 12)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("of", [THESE, POPULATION])
def test_answers_that_say_nothing_give_all_that_is_possible(measure, of):
    for values in (np.zeros((1, 2, 2)), np.full((1, 2, 2), -9.0), np.array([[[3.0, -2.0], [-1.0, 4.0]]])):
        estimate = effect(Tables(values, NoiseLaw(30.0), of=of), measure)
        assert estimate.value is None
        assert (estimate.low, estimate.high) == ((-1.0, 1.0) if measure == "risk difference" else (0.0, np.inf))


def test_a_cell_that_may_be_empty_leaves_a_ratio_open_at_that_side():
    estimate = effect(Tables(np.array([[[60.0, 140.0], [1.0, 199.0]]]), NoiseLaw(2.0)), "odds ratio")
    assert estimate.high == np.inf
    assert 1.0 < estimate.low < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "records", "draws", "most"),
    [(0.1, 100, 1.0, 1), (1.0, 400, 4.0, 1), (3.0, 100, 1.0, 1), (0.3, 4000, 4 / 3, 3)],
)
def test_intervals_hold_at_a_fixed_truth(epsilon, records, draws, most):
    rng = np.random.default_rng(11)
    noise = NoiseLaw(most / epsilon, draws)
    chances = np.array([0.3 * 0.2, 0.3 * 0.8, 0.7 * 0.1, 0.7 * 0.9])
    truths = {"risk difference": 0.1, "risk ratio": 2.0, "odds ratio": 2.25}
    repeats, misses = 400, dict.fromkeys(MEASURES, 0)
    for _ in range(repeats):
        values = most * rng.multinomial(records // most, chances) + noise.simulate(rng, (4,))
        for measure, truth in truths.items():
            estimate = effect(Tables(values.reshape(1, 2, 2), noise, most), measure)
            misses[measure] += not estimate.low <= truth <= estimate.high
    assert max(misses.values()) <= 0.06 * repeats + 4 * np.sqrt(0.06 * 0.94 * repeats)


def test_the_interval_of_sums_of_cells_knows_their_noise():
    narrow = effect(Tables(TABLE, NoiseLaw(2.0)), "odds ratio")
    wide = effect(Tables(TABLE, NoiseLaw(2.0), added=np.array([[[1.0, 5.0], [1.0, 5.0]]])), "odds ratio")
    even = effect(Tables(TABLE, NoiseLaw(2.0), added=np.full((1, 2, 2), 5.0)), "odds ratio")
    same = effect(Tables(TABLE, NoiseLaw(2.0, 5.0)), "odds ratio")
    assert narrow.high < wide.high < even.high
    assert even.high == pytest.approx(same.high, rel=1e-6)
