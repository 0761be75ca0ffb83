"""Differences of counts betray a person who is suppressed or rounded, and no attack beats the bound of epsilon."""

import numpy as np

from lab.differencing import LEAST, Noisy, Suppressing, Target, chart, many_differences, play, single_difference


def test_a_step_of_a_rounded_count_betrays_a_bit():
    rng = np.random.default_rng(0)
    service = Suppressing("rounded", LEAST)
    for _ in range(20):
        target = Target(rng.integers(0, 2, 1000), 700)
        assert many_differences(service, target, rng) == target.bit
        assert single_difference(Suppressing("suppressed"), target, rng) == target.bit


def test_no_attack_on_noisy_answers_beats_its_bound():
    outcomes = play(300, 2)
    assert all(outcome.within for outcome in outcomes)
    noisy = [outcome for outcome in outcomes if outcome.bound is not None]
    assert len({outcome.service for outcome in noisy}) == 3
    assert max(outcome.right for outcome in noisy if outcome.service == Noisy(0.1).name) < 0.65
    assert chart(outcomes).count("<circle") == len(outcomes)
