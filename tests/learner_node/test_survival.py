"""Survival from noisy exits, held against lifelines and statsmodels without noise, and by coverage with it."""

from fractions import Fraction

import numpy as np
import pytest
import statsmodels.api as sm
from lifelines import AalenJohansenFitter, KaplanMeierFitter
from lifelines.datasets import load_gbsg2, load_lung
from lifelines.statistics import logrank_test, multivariate_logrank_test
from lifelines.utils import restricted_mean_survival_time
from statsmodels.stats.rates import confint_poisson

from learner_node.analyses.exit_counts import ExitCounts
from learner_node.analyses.group_comparison import hazard_ratio, log_rank
from learner_node.analyses.hazard_functionals import (
    Hazards,
    bounded_interval,
    incidence_to,
    restricted_mean,
    survival_to,
)
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import Setting
from learner_node.analyses.survival import Survival
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

pytestmark = pytest.mark.filterwarnings("ignore:It looks like your weights")
NONE = NoiseLaw(0.0)


def exits(times, events, ends, causes=1, noise=NONE):
    """Counts of exits; `events` are 0 for censored, else the cause's number."""
    values = np.zeros((len(ends) + 1, causes + 1))
    np.add.at(values, (np.searchsorted(ends, times), np.asarray(events, int) - 1), 1)
    return ExitCounts(values, tuple(ends), noise)


def as_records(counts):
    """Times, events and weights that lifelines reads by the actuarial convention: events at middles of bins."""
    rows = []
    for index, row in enumerate(counts.values):
        if index == counts.bins:
            rows.append((counts.ends[-1] + 1, 0, row.sum()))
            continue
        middle, width = (counts.ends[index] - counts.widths[index] / 2), counts.widths[index]
        rows += [(middle, cause + 1, row[cause]) for cause in range(counts.causes)]
        rows += [(middle - width / 4, 0, row[-1] / 2), (middle + width / 4, 0, row[-1] / 2)]
    table = np.array(rows)
    return table[table[:, 2] > 0].T


def lung():
    data = load_lung()
    return data.time.to_numpy(), data.status.to_numpy(), np.linspace(0, 1022, 11)[1:]


def gbsg2(bins=8):
    data = load_gbsg2()
    ends = np.linspace(0, 2600, bins + 1)[1:]
    return [exits(part.time, part.cens, ends) for _, part in data.groupby("horTh")]


def test_survival_and_restricted_mean_are_lifelines():
    counts = exits(*lung())
    times, events, weights = as_records(counts)
    fit = KaplanMeierFitter().fit(times, events, weights=(2 * weights).astype(int))
    hazards = Hazards.of(counts)
    curve = [hazards.value(survival_to(index + 1)) for index in range(10)]
    assert np.allclose(curve, fit.predict(np.array(counts.ends)), atol=1e-9)
    mean = restricted_mean_survival_time(fit, t=1022)
    assert hazards.value(restricted_mean(counts.widths)) == pytest.approx(mean, abs=1e-6)


def test_incidence_of_competing_causes_is_lifelines():
    generator = np.random.default_rng(3)
    times = generator.exponential(5, 400)
    # Events of one cause in odd bins, of the other in even ones: lifelines moves tied causes apart at random.
    causes = np.where(generator.random(400) < 0.3, 0, 1 + np.ceil(times).astype(int) % 2)
    counts = exits(times, causes, np.arange(1.0, 9.0), causes=2)
    moments, events, weights = as_records(counts)
    for cause in (0, 1):
        fit = AalenJohansenFitter(calculate_variance=False)
        fit.fit(moments, events.astype(int), event_of_interest=cause + 1, weights=(2 * weights).astype(int))
        curve = fit.cumulative_density_.iloc[:, 0]
        incidence = Hazards.of(counts, (cause, 1 - cause)).value(incidence_to(8))
        assert incidence == pytest.approx(curve[curve.index <= 8.0].iloc[-1], abs=1e-9)
        total = Hazards.of(counts, (1 - cause, cause)).value(incidence_to(8)) + incidence
        assert total == pytest.approx(1 - Hazards.of(counts).value(survival_to(8)), abs=1e-12)


def test_log_rank_is_lifelines():
    groups = gbsg2()
    (first, first_events, first_weights), (second, second_events, second_weights) = map(as_records, groups)
    oracle = logrank_test(first, second, first_events, second_events, weights_A=first_weights, weights_B=second_weights)
    test = log_rank(groups)
    assert test.statistic == pytest.approx(oracle.test_statistic, abs=1e-6)
    assert test.p_even == pytest.approx(oracle.p_value, abs=1e-9)
    assert test.p_even < test.p < test.p_any


def test_log_rank_of_three_groups_is_lifelines():
    data = load_gbsg2()
    ends = np.linspace(0, 2600, 9)[1:]
    groups = [exits(part.time, part.cens, ends) for _, part in data.groupby("tgrade")]
    records = [
        np.vstack([as_records(group), np.full(as_records(group).shape[1], number)])
        for number, group in enumerate(groups)
    ]
    times, events, weights, labels = np.hstack(records)
    oracle = multivariate_logrank_test(times, labels, events, weights=weights)
    assert log_rank(groups).statistic == pytest.approx(oracle.test_statistic, abs=1e-6)


def test_hazard_ratio_is_grouped_proportional_hazards():
    groups = gbsg2()
    rows, counts = [], []
    for number, group in enumerate(groups):
        events, risk = group.event_map() @ group.cells, group.risk_map() @ group.cells
        rows += [(*np.eye(8)[index], number) for index in range(8)]
        counts += list(zip(events, risk - events, strict=True))
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    oracle = sm.GLM(np.array(counts), np.array(rows), family=family).fit(tol=1e-13, maxiter=200)
    ratio = hazard_ratio(*groups)
    assert ratio.value == pytest.approx(oracle.params[-1], abs=1e-6)
    assert ratio.variance == pytest.approx(oracle.bse[-1] ** 2, abs=1e-6)
    assert ratio.low < ratio.value < ratio.high


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 0.018), (0.3, 0.056)])
def test_lung_is_near_the_curve_without_bins(epsilon, most):
    times, events, ends = lung()
    exact = exits(times, events, ends)
    truth = KaplanMeierFitter().fit(times, events).predict(ends).to_numpy()
    law, generator = NoiseLaw(1 / epsilon), np.random.default_rng(5)
    errors = []
    for _ in range(500):
        values = exact.values + law.simulate(generator, exact.values.shape)
        hazards = Hazards.of(ExitCounts(values, exact.ends, law))
        errors.append(np.cumprod(1 - hazards.display()[:, 0]) - truth)
    assert np.sqrt(np.mean(np.square(errors))) <= most


def test_intervals_of_these_records_hold_the_exact_curve():
    exact = exits(*lung())
    law, generator, inside = NoiseLaw(1.0), np.random.default_rng(6), []
    for _ in range(60):
        values = exact.values + law.simulate(generator, exact.values.shape)
        hazards = Hazards.of(ExitCounts(values, exact.ends, law))
        for bins in (2, 5, 9):
            low, high = hazards.interval(survival_to(bins), sampling=False)
            inside.append(low <= Hazards.of(exact).value(survival_to(bins)) <= high)
    assert np.mean(inside) > 0.9


SCHEMA = Schema(
    attributes=(CategoricalAttribute("arm", ("a", "b")),),
    label="died",
    classes=("no", "yes"),
    outcomes=(
        NumericAttribute("days", 0, 2000),
        NumericAttribute("came", 0, 2000),
        CategoricalAttribute("end", ("alive", "cancer", "other cause")),
    ),
    time_to_event=TimeToEvent("days", "end", "alive", bins=5, horizon=1000.0),
)


def answer(part, values, noise=NONE, sites=()):
    question = part.questions(SCHEMA)[0]
    axes = tuple(Axis.of(bins, SCHEMA) for bins in question.factors)
    tables = [NoisyTable(axes, np.asarray(values, float), noise)]
    return TableAnswers(SCHEMA, Fraction(1), tables, dict.fromkeys(sites, tables))


def test_a_part_tells_curves_and_comparisons():
    part = Survival(name="curves", group="arm")
    generator = np.random.default_rng(1)
    law = NoiseLaw(1.0)
    values = generator.poisson(40, (4, 7, 5)) + law.simulate(generator, (4, 7, 5))
    result = part.read(answer(part, values, law, sites=("north", "south")))
    frames = result.to_frames()
    assert frames["curves"].height == 12
    assert set(frames) == {"curves", "summary", "comparisons"}
    assert result.to_builtins()["log_rank"]["df"] == 1
    assert "Log-rank" in result.to_text()
    assert len(result.blocks()) > 5
    assert result.methods()


def test_nothing_in_the_table_gives_wide_intervals_and_no_error():
    part = Survival(name="curves", group="arm")
    for law in (NONE, NoiseLaw(10.0)):
        generator = np.random.default_rng(2)
        result = part.read(answer(part, law.simulate(generator, (4, 7, 5)), law))
        curves = result.to_frames()["curves"].filter(time=1000.0)
        assert (curves["survival_low"] <= 0.1).all()
        assert (curves["survival_high"] >= 0.9).all()
        assert result.to_builtins()
        assert result.to_text()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"group": "nobody"}, "no variable"),
        ({"cause": "alive"}, "other than"),
        ({"horizon": 1500.0}, "no end at the horizon"),
        ({"ends": (1000.0, 3000.0)}, "below the horizon"),
        ({"ends": (3.0, 2.0)}, "must rise"),
        ({"time": "arm"}, "number"),
        ({"event": "days"}, "category"),
        ({"censored": "gone"}, "no level"),
        ({"reference": "c", "group": "arm"}, "reference"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_in_words(keys, words):
    part = Survival(name="curves", **keys)
    with pytest.raises(ConfigurationError, match=words):
        part.questions(SCHEMA)


def test_delayed_entry_is_lifelines():
    generator = np.random.default_rng(8)
    entry = np.where(generator.random(600) < 0.5, 0.0, generator.integers(1, 5, 600).astype(float))
    exit_time = entry + 1 + generator.integers(0, 6, 600)
    events = generator.integers(0, 2, 600)
    ends = np.arange(1.0, 9.0)
    values = np.zeros((10, 9, 2))
    # All entries at the very end of a bin, all exits at its end: nobody is at risk for a part of a bin.
    np.add.at(values, (entry.astype(int), np.searchsorted(ends, exit_time), 1 - events), 1)
    counts = ExitCounts(values, tuple(ends), NONE)
    events_map, risk_map = counts.event_map(), counts.risk_map(missed=0.0, waited=1.0)
    hazards = (events_map @ counts.cells) / (risk_map @ counts.cells)
    fit = KaplanMeierFitter().fit(exit_time, events, entry=entry)
    assert np.allclose(np.cumprod(1 - hazards), fit.predict(ends), atol=1e-9)


def test_a_quote_tells_widths():
    part = Survival(name="curves", group="arm")
    lines = part.quote(Setting(SCHEMA, [2000], [NoiseLaw(1.0)]))
    assert lines[0][0].startswith("survival of 80 %")
    assert len(lines) == 3


@pytest.mark.parametrize("bins", [2, 3, 5, 10, 40])
def test_a_curve_of_any_number_of_bins_has_two_ends(bins):
    """With few bins the far end of the path had no slope left, so that a survival of zero was accepted."""
    values = np.zeros((bins + 1, 2))
    values[:-1, 0] = 600.0 / bins
    values[-1, 1] = 1400.0
    hazards = Hazards.of(ExitCounts(values, tuple(np.arange(1.0, bins + 1)), NoiseLaw(1.0)))
    low, high = hazards.interval(survival_to(bins))
    assert 0.65 < low < 0.7 < high < 0.75


def two_groups(generator, law, ratio, size=2000):
    """Exits of two equal groups of which about one in ten has an event before the horizon, without censoring."""
    groups = []
    for hazard in (1.0, ratio):
        times = 10.0 * (generator.exponential(1.0, size // 2) / (0.085 * hazard)) ** (1 / 1.3)
        exact = exits(times, np.ones(size // 2), np.arange(1.0, 11.0))
        groups.append(ExitCounts(exact.values + law.simulate(generator, exact.values.shape), exact.ends, law))
    return groups


def rejections(law, ratio, repeats, seed, size=2000):
    generator = np.random.default_rng(seed)
    return np.mean([log_rank(two_groups(generator, law, ratio, size)).p < 0.05 for _ in range(repeats)])


@pytest.mark.slow
def test_the_log_rank_test_has_its_power_and_keeps_its_size():
    ratio = 1.5
    exact = rejections(NONE, ratio, 2000, 1)
    assert 0.77 < exact < 0.84, "the exact test's power should be about 80 %"
    assert rejections(NoiseLaw(1.0), ratio, 1000, 2) >= 0.70
    assert rejections(NoiseLaw(1.0, 4), ratio, 1000, 3) >= 0.52
    for law in (NoiseLaw(10.0), NoiseLaw(10.0, 4), NoiseLaw(1.0), NoiseLaw(1.0, 4)):
        for size in (200, 2000):
            assert rejections(law, 1.0, 1000, 4, size) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("place", [np.ceil, lambda times: np.floor(times) + 1e-6])
def test_survival_is_covered_wherever_in_their_bins_records_are_censored(place):
    generator, law, inside = np.random.default_rng(9), NoiseLaw(1.0), []
    for _ in range(400):
        event, censored = generator.exponential(8.0, 10_000), place(generator.exponential(8.0, 10_000))
        exact = exits(np.minimum(event, censored), event <= censored, np.arange(1.0, 11.0))
        counts = ExitCounts(exact.values + law.simulate(generator, exact.values.shape), exact.ends, law)
        rare, common = (Hazards.extreme(counts, None, common=common) for common in (False, True))
        interval = bounded_interval(rare, Hazards.of(counts), common, survival_to(5))
        inside.append(interval.low <= np.exp(-5 / 8) <= interval.high)
    assert np.mean(inside) >= 0.95 - 3 * (0.05 * 0.95 / 400) ** 0.5


def test_ends_of_intervals_are_those_of_a_path_of_many_points(monkeypatch):
    """Few points, with a closer look where the test changes its mind, against 20,001 points without one."""
    generator, law = np.random.default_rng(11), NoiseLaw(1.0)
    exact = exits(*lung())
    counts = ExitCounts(exact.values + law.simulate(generator, exact.values.shape), exact.ends, law)
    quick = [Hazards.of(counts).interval(survival_to(bins)) for bins in (2, 5, 9)]
    fine = np.linspace(np.log(1e-6), np.log(1e4), 20_001)
    monkeypatch.setattr("learner_node.analyses.hazard_functionals._PATH", fine)
    monkeypatch.setattr("learner_node.analyses.score_interval._TURNS", 0)
    slow = [Hazards.of(counts).interval(survival_to(bins)) for bins in (2, 5, 9)]
    assert np.allclose(quick, slow, atol=1e-5)


def test_rates_are_those_of_poisson_counts():
    """Their score interval is the shorter one, since it takes hazards to be even."""
    result = Survival("rates", group="arm").read(answer(Survival("rates", group="arm"), poisson_table()))
    for group, cells in zip(result.estimates.groups, poisson_table()[:2], strict=True):
        events, exposure = cells[:5, 1:3].sum(), cells[:5, 1:3].sum(axis=1) @ np.arange(100, 1000, 200)
        exposure += 1000 * cells[5, :3].sum()
        low, high = confint_poisson(events, exposure, method="score")
        estimate = group.rate.population
        assert estimate.value == pytest.approx(events / exposure, rel=1e-12)
        assert estimate.low <= low * (1 + 1e-6)
        assert estimate.high >= high * (1 - 1e-6)
        assert estimate.high - estimate.low <= 1.1 * (high - low)


def poisson_table():
    """Exits of two arms, nobody of whom is censored within a bin."""
    values = np.zeros((4, 7, 5))
    values[:2, :5, 1:3] = np.random.default_rng(12).poisson(9, (2, 5, 2))
    values[:2, 5, 0] = 60
    return values


def test_unlike_censoring_in_bins_is_within_the_wider_interval():
    """All of the first group are censored as bins end, all of the second as they begin; hazards are equal."""
    ends, groups = np.arange(1.0, 6.0), []
    for place in (0.0, 1.0):
        values, alive = np.zeros((6, 2)), 40_000.0
        for index in range(5):
            early = 0.2 * alive * place
            values[index, 0] = 0.1 * (alive - early)
            values[index, 1] = early if place else 0.2 * 0.9 * alive
            alive -= values[index].sum()
        values[5, 1] = alive
        groups.append(ExitCounts(values, tuple(ends), NONE))
    ratio, test = hazard_ratio(*groups), log_rank(groups)
    assert ratio.high < 0 < ratio.any_high
    assert ratio.any_low <= ratio.low
    assert test.p < 1e-6
    assert test.p_any > 0.5
    three = log_rank([*groups, groups[0]])
    assert three.p < 1e-6
    assert three.p_any > 0.5


def test_a_curve_of_one_cause_takes_other_causes_as_censored():
    """Without a second cause, the same exits recorded as censored have the same curve and bounds."""
    generator = np.random.default_rng(13)
    cells = generator.poisson(30, (6, 3)).astype(float)
    ends = tuple(np.arange(1.0, 6.0))
    two = ExitCounts(cells, ends, NONE)
    merged = ExitCounts(np.stack([cells[:, 0], cells[:, 1:].sum(axis=1)], axis=1), ends, NONE)
    functional = survival_to(4)
    assert Hazards.of(two, (0,)).value(functional) == pytest.approx(Hazards.of(merged).value(functional), abs=1e-12)
    for common in (False, True):
        hazards = Hazards.extreme(two, (0,), common=common), Hazards.extreme(merged, None, common=common)
        assert np.allclose(*(item.interval(functional) for item in hazards), atol=1e-12)
