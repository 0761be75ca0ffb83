"""Power of a plan's tests and the least epsilon that shows an effect, held against studies that are simulated."""

from fractions import Fraction

import numpy as np
import pytest

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import EffectSize, EffectTest, Setting
from learner_node.analyses.parts import read_parts
from learner_node.analyses.power import (
    READABLE,
    foresee,
    least_epsilon,
    linear_power,
    quadratic_power,
    read_effect,
)
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

SCHEMA = Schema(
    attributes=(
        CategoricalAttribute("arm", ("old", "new")),
        CategoricalAttribute("stage", ("I", "II", "III")),
        NumericAttribute("age", 0.0, 100.0),
    ),
    label="died",
    classes=("no", "yes"),
    outcomes=(NumericAttribute("days", 0.0, 20.0), CategoricalAttribute("status", ("alive", "dead"))),
    time_to_event=TimeToEvent("days", "status", "alive", bins=10, horizon=10.0),
)
ARMS = {"exposure": "arm", "exposed": "new", "outcome": "died", "event": "yes"}
AGES = [12.5 * number for number in range(1, 8)]
PARTS = {
    "effects": {"kind": "effects", **ARMS},
    "survival": {"kind": "survival", "group": "arm"},
    "table of a category": {"kind": "table_one", "group": "arm", "attributes": ["stage"]},
    "table of a number": {"kind": "table_one", "group": "arm", "attributes": ["age"], "edges": {"age": AGES}},
    "counts": {"kind": "counts", "by": ["stage", "arm"]},
    "regression": {
        "kind": "regression",
        "model": "logistic",
        "outcome": "died",
        "covariates": [{"variable": "arm"}, {"variable": "stage"}],
    },
}
EFFECTS = {
    "effects": EffectSize("odds ratio", 2.0),
    "survival": EffectSize("hazard ratio", 1.6),
    "table of a category": EffectSize("standardised difference", 0.3),
    "table of a number": EffectSize("standardised difference", 0.25),
    "counts": EffectSize("difference", 12.0),
    "regression": EffectSize("odds ratio", 1.8),
}


def part_of(name):
    return read_parts([{"name": name, **PARTS[name]}], where="plan")[0]


def setting(part, scale, *, records=1000, draws=1.0, most=1):
    laws = [NoiseLaw(scale, draws) for _ in part.questions(SCHEMA)]
    return Setting(SCHEMA, (records,), laws, most)


@pytest.mark.parametrize("name", PARTS)
def test_power_grows_with_epsilon(name):
    part = part_of(name)
    at = setting(part, 1.0)
    for test in part.effect_tests(at, EFFECTS[name]):
        powers = [test.power([NoiseLaw(1 / epsilon) for _ in at.noises]) for epsilon in np.geomspace(0.02, 1.5, 12)]
        assert np.all(np.diff(powers) > -0.005), (test.words, powers)
        assert powers[0] < 0.25 < powers[-1]


@pytest.mark.parametrize("name", [name for name in PARTS if name != "counts"])
def test_power_grows_with_the_effect_and_with_records(name):
    part, effect = part_of(name), EFFECTS[name]
    larger = EffectSize(effect.measure, effect.size * 1.3)
    powers = [
        part.effect_tests(setting(part, 2.0, records=records), size)[0].power(setting(part, 2.0).noises)
        for records, size in ((500, effect), (1000, effect), (1000, larger))
    ]
    assert powers == sorted(powers)
    assert powers[0] < powers[2]


def test_the_least_epsilon_is_readable_and_the_first_that_is_enough():
    noises = (NoiseLaw(2.0),)  # at epsilon 1/2
    test = EffectTest("an effect", lambda laws: 1 / (1 + laws[0].scale))  # 80 % at a scale of 1/4
    assert least_epsilon(test, noises, Fraction(1, 2), 0.8) == 4
    assert least_epsilon(test, noises, Fraction(1, 2), 0.75) == 3
    assert least_epsilon(test, noises, Fraction(1, 2), 0.77) == Fraction(34, 10)  # 3.35, rounded up
    assert least_epsilon(test, noises, Fraction(1, 2), 0.9999) is None
    assert list(READABLE) == sorted(set(READABLE))


def test_a_quote_says_which_epsilon_shows_an_effect_or_that_none_does():
    part = part_of("effects")
    (quote,) = foresee(part, setting(part, 1.0), Fraction(1), Fraction(1, 4))
    assert quote.words.startswith("odds ratio of 2 (10 % of the unexposed with the event, 50 % exposed)")
    assert quote.least is not None
    assert quote.least_of_part == quote.least / 4
    assert "with 80 % from epsilon" in quote.to_text()
    assert "for this analysis" in quote.to_text()
    noises = [NoiseLaw(float(1 / quote.least))]
    assert part.effect_tests(setting(part, 1.0), None)[0].power(noises) >= 0.8
    (few,) = foresee(part, setting(part, 1.0, records=100), Fraction(1), Fraction(1))
    assert few.least is None
    assert f"no epsilon shows it: without noise the power is {100 * few.without_noise:.0f} %" in few.to_text()
    assert few.to_builtins()["least_epsilon"] is None


def test_an_effect_is_read_in_the_words_of_the_plan():
    parts = [part_of("survival"), part_of("effects")]
    assert read_effect("hazard ratio 1.5", parts) == EffectSize("hazard ratio", 1.5)
    assert read_effect(" risk difference -0.05 ", parts) == EffectSize("risk difference", -0.05)
    for text, sentence in (
        ("2", "write a measure and its size"),
        ("odds ratio", "write a measure and its size"),
        ("odds ratios 2", "did you mean"),
        ("rate ratio 2", "no analysis tests"),
        ("odds ratio 1", "no effect"),
        ("odds ratio -2", "above 0"),
        ("risk difference 0", "no effect"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            read_effect(text, parts)


def test_an_effect_that_no_population_has_is_refused():
    for name, effect in (
        ("effects", EffectSize("risk ratio", 11.0)),
        ("survival", EffectSize("survival difference", 0.9)),
        ("table of a category", EffectSize("share difference", 0.9)),
        ("table of a category", EffectSize("standardised difference", 1e9)),
        ("table of a number", EffectSize("standardised difference", 40.0)),
    ):
        part = part_of(name)
        with pytest.raises(ConfigurationError):
            part.effect_tests(setting(part, 1.0), effect)


def test_a_plan_is_asked_for_effects_of_its_own_parts_alone():
    survival, effects = part_of("survival"), part_of("effects")
    assert not survival.effect_tests(setting(survival, 1.0), EffectSize("odds ratio", 2.0))
    assert not effects.effect_tests(setting(effects, 1.0), EffectSize("hazard ratio", 2.0))
    alone = read_parts([{"kind": "survival", "name": "all"}], where="plan")[0]
    assert not alone.measures
    assert not alone.effect_tests(setting(alone, 1.0), None)


@pytest.mark.parametrize("draws", [1.0, 4.0])
def test_the_power_of_a_linear_statistic_is_that_of_draws(draws):
    rng = np.random.default_rng(3)
    weights, law, sampling = np.array([1.0, -0.5, 0.25]), NoiseLaw(6.0, draws), 20.0
    null = law.simulate(rng, (400_000, 3)) @ weights + rng.normal(0, sampling**0.5, 400_000)
    limit = np.quantile(np.abs(null), 0.95)
    for signal in (5.0, 15.0, 30.0):
        simulated = np.mean(np.abs(null + signal) > limit)
        assert abs(linear_power(signal, weights, (sampling, sampling), law) - simulated) < 0.01


def test_the_power_of_a_quadratic_statistic_without_noise_is_that_of_scipy():
    ncx2 = pytest.importorskip("scipy.stats").ncx2
    chi2 = pytest.importorskip("scipy.stats").chi2
    for df in (1, 3, 10):
        for noncentrality in (2.0, 8.0, 20.0):
            exact = ncx2.sf(chi2.ppf(0.95, df), df, noncentrality)
            assert abs(quadratic_power(noncentrality, df, 2.0 * df) - exact) < 0.02
    assert abs(quadratic_power(0.0, 3, 6.0) - 0.05) < 1e-9


# --- simulated studies, read by the part itself --------------------------------------------------------------------


def shares_of(name, part):
    """The population that a quote assumes, as a table of shares for each question."""
    axes = [[len(Axis.of(bins, SCHEMA)) for bins in question.factors] for question in part.questions(SCHEMA)]
    (shape,) = axes
    shares = np.zeros(shape)
    if name == "effects":
        odds = 1 / 9 * 2
        shares[1, :2] = 0.5 * (1 - odds / (1 + odds)), 0.5 * odds / (1 + odds)
        shares[0, :2] = 0.45, 0.05
    elif name == "survival":
        for arm, ratio in enumerate((1.0, 1.6)):
            alive = 0.8 ** (ratio * np.arange(11) / 10)
            shares[arm, :10, 1] = 0.5 * -np.diff(alive)
            shares[arm, 10, 0] = 0.5 * alive[-1]
    elif name == "table of a category":
        p = 0.2
        q = np.linspace(0.2, 0.9, 700_001)
        distance = (q - p) / np.sqrt((q * (1 - q) + p * (1 - p)) / 2)
        other = q[np.searchsorted(distance, 0.3)]
        shares[:3, 0] = 0.5 * np.array([p, (1 - p) / 2, (1 - p) / 2])
        shares[:3, 1] = 0.5 * np.array([other, (1 - other) / 2, (1 - other) / 2])
    elif name == "table of a number":
        places = np.linspace(-0.5, 0.5, 8)
        slopes = np.linspace(0, 4, 40_001)
        weights = np.exp(slopes[:, None] * places)
        weights /= weights.sum(1, keepdims=True)
        mean = weights @ places
        distance = mean / np.sqrt(((places**2).mean() + weights @ places**2 - mean**2) / 2)
        shares[:8, 0] = 0.5 / 8
        shares[:8, 1] = 0.5 * weights[np.searchsorted(distance, 0.25)]
    else:  # regression: an effect of the arm around a fifth
        odds = 0.25 * np.array([1.8**-0.5, 1.8**0.5])
        risks = odds / (1 + odds)
        shares[1, :2, :3], shares[0, :2, :3] = (risks / 6)[:, None], ((1 - risks) / 6)[:, None]
    return shares / shares.sum()


def shown(name, part, values, law):
    """Whether the part's own result shows the effect."""
    question = part.questions(SCHEMA)[0]
    axes = tuple(Axis.of(bins, SCHEMA) for bins in question.factors)
    result = part.read(TableAnswers(SCHEMA, Fraction(1), (NoisyTable(axes, values, law),), {}))
    if name == "effects":
        return next(line.estimate.p for line in result.lines if line.measure == "odds ratio" and line.estimate.p) < 0.05
    if name == "survival":
        return result.estimates.test.p < 0.05
    if name.startswith("table"):
        return result.rows[0].difference.p < 0.05
    (row,) = (row for row in result.rows if row.covariate == "arm")
    return row.population.p is not None and row.population.p < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("draws", [1.0, 4.0])
@pytest.mark.parametrize("name", [name for name in PARTS if name != "counts"])
def test_power_is_that_of_simulated_studies(name, draws):
    """At the scale of noise with a power of about 80 %, and at one of about 50 %."""
    part, rng = part_of(name), np.random.default_rng(7)
    at = setting(part, 1.0, draws=draws)
    (test,) = part.effect_tests(at, EFFECTS[name])[:1]
    repeats = 120
    for wanted in (0.8, 0.5):
        least = least_epsilon(test, at.noises, Fraction(1), wanted)
        law = NoiseLaw(float(1 / least), draws)
        foreseen = test.power([law])
        shares = shares_of(name, part)
        hits = 0
        for _ in range(repeats):
            values = rng.multinomial(1000, shares.ravel()).reshape(shares.shape) + law.simulate(rng, shares.shape)
            hits += shown(name, part, values, law)
        error = 3.5 * (foreseen * (1 - foreseen) / repeats) ** 0.5
        assert abs(hits / repeats - foreseen) < error + 0.05, (least, foreseen, hits / repeats)
