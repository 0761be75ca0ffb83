"""The built-in scenarios learn what they are documented to learn.

Noise comes from a seed here, so that the figures do not change from run to run.
"""

import os

import msgspec
import numpy as np
import pytest
from scipy.stats import t

from margins import DEVIATIONS, FALSE_ALARM
from simulations.records import load_records
from simulations.run import run_scenario
from simulations.run_order import ChosenScenario, Order
from simulations.scenario import load_scenario


def pooled(name, **changes):
    scenario, text, folder = load_scenario(name)
    scenario = msgspec.structs.replace(scenario, noise_seed=1, **changes)
    run = run_scenario(Order(ChosenScenario(scenario, text, folder, {}), load_records(scenario, folder), ""))
    assert run.report.seeded_noise
    return {learner.learner: learner for learner in run.report.learners}


def assert_learnt(score):
    """Over 12 seeds: surely better than the majority, nearer to the ceiling, and not surely beyond the ceiling.

    The ceiling learns without privacy. Sure is what Student's law of 11 degrees passes with a probability of 1e-9.
    """
    room = t(11).isf(FALSE_ALARM) * score.accuracy_se
    assert score.accuracy > score.majority + room
    assert score.accuracy > 0.5 * (score.majority + score.ceiling)
    assert score.accuracy < score.ceiling + room


@pytest.mark.slow
def test_wdbc_at_epsilon_1_learns_most_of_what_there_is_over_12_seeds():
    ada = pooled("wdbc")["ada"]
    assert ada.epsilon_claimed == ada.epsilon_spent == "1"
    assert_learnt(ada.pooled)


@pytest.mark.slow
@pytest.mark.skipif("EXPRIL_DATA_DIR" not in os.environ, reason="needs the UCI files in EXPRIL_DATA_DIR")
def test_four_heart_hospitals_at_epsilon_1_learn_most_of_what_there_is_over_12_seeds():
    ada = pooled("heart")["ada"]
    assert ada.epsilon_spent == "1"
    assert_learnt(ada.pooled)


@pytest.mark.slow
@pytest.mark.skipif("EXPRIL_DATA_DIR" not in os.environ, reason="needs the UCI files in EXPRIL_DATA_DIR")
def test_all_three_strategies_run_on_ctg_and_cells_is_the_best():
    """All rank better than chance, by Mann and Whitney's error of a test half; the best is told by order alone."""
    learners = pooled("ctg-rows", repeats=2)
    scores = {learner.strategy: learner.pooled for learner in learners.values()}
    assert scores.keys() == {"cells", "paper-c", "paper-i"}
    exam = pooled("ctg", repeats=2)["ada"]
    assert exam.epsilon_spent == "1"
    for score in (*scores.values(), exam.pooled):
        records = sum(score.calibration.counts)
        ones = score.prevalence * records
        chance = np.sqrt((records + 1) / (12 * ones * (records - ones)))
        assert score.auc > 0.5 + DEVIATIONS * chance
    assert scores["cells"].auc > max(scores["paper-c"].auc, scores["paper-i"].auc)
