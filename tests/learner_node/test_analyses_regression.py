"""Regression tables against statsmodels, and their intervals under noise."""

import numpy as np
import pytest

from expril.report.document import Document, Section
from expril.report.files import as_markdown
from learner_node.analyses.inference import holm
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import Setting
from learner_node.analyses.regression import Regression
from learner_node.analyses.regression_design import Calibration, Moments, choose_blocks, covering, noise_measure
from learner_node.analyses.regression_fit import Rows, fit
from learner_node.analyses.regression_terms import Covariate
from learner_node.analyses.score_interval import noise_limit, normal_score
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent
from tests.support.regression_fakes import answers_of, codes

LEVELS = (2, 3, 4)
SLOPES = np.array([0.7, 0.0, -0.5, 0.0, 0.3, 0.6])
SCHEMA = Schema(
    attributes=(
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("group", ("a", "b", "c")),
        NumericAttribute("age", 0.0, 100.0),
        NumericAttribute("stay", 0.0, 8.0),
    ),
    label="died",
    classes=("no", "yes"),
)
COVARIATES = (Covariate("sex"), Covariate("group"), Covariate("age", edges=(25.0, 50.0, 75.0)))
PART = Regression("r", "logistic", COVARIATES, outcome="died")


def dummies(cells, levels=LEVELS):
    return np.concatenate([(cells[:, [j]] == np.arange(1, m)) for j, m in enumerate(levels)], axis=1).astype(float)


def records(count, generator, missing=0.0):
    cells = codes(LEVELS, count, 0.3, generator)
    risk = 1 / (1 + np.exp(1.0 - dummies(cells) @ SLOPES))
    columns = {"sex": cells[:, 0], "group": cells[:, 1], "age": cells[:, 2]}
    columns["died"] = (generator.random(count) < risk).astype(int)
    columns["stay"] = np.minimum(generator.poisson(np.exp(0.3 * cells[:, 0])), 4)
    if missing:
        columns["group"] = np.where(generator.random(count) < missing, 4, columns["group"])
    return columns


def exog(columns):
    cells = np.stack([columns["sex"], columns["group"], columns["age"]], axis=1)
    return np.column_stack([np.ones(len(cells)), dummies(cells)])


def coefficients(result):
    return np.array([row.coefficient for row in result.rows]), np.array([row.deviation for row in result.rows])


def larger(plain, robust, count=900):
    """The larger of the model's and the sandwich's deviation (HC0, with n / (n - p))."""
    return np.maximum(plain.bse[1:], robust.bse[1:] * np.sqrt(count / (count - len(plain.params))))


def test_logistic_without_noise_is_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    columns = records(900, np.random.default_rng(1))
    result = PART.read(answers_of(PART, SCHEMA, [columns], None, np.random.default_rng(0)))
    model = api.Logit(columns["died"], exog(columns))
    plain, robust = model.fit(disp=0), model.fit(disp=0, cov_type="HC0")
    values, deviations = coefficients(result)
    np.testing.assert_allclose(values, plain.params[1:], atol=1e-7)
    np.testing.assert_allclose(deviations, larger(plain, robust), atol=1e-6)
    assert result.rows[0].population.value == pytest.approx(np.exp(plain.params[1]))


def test_poisson_and_linear_without_noise_are_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    columns = records(900, np.random.default_rng(2))
    edges = (0.5, 1.5, 2.5, 3.5)
    scores = (0.0, 1.0, 2.0, 3.0, 4.0)
    for model in ("linear", "poisson"):
        part = Regression("r", model, COVARIATES, outcome="stay", outcome_edges=edges, outcome_scores=scores)
        result = part.read(answers_of(part, SCHEMA, [columns], None, np.random.default_rng(0)))
        if model == "linear":
            oracle = api.OLS(columns["stay"], exog(columns))
        else:
            oracle = api.GLM(columns["stay"], exog(columns), family=api.families.Poisson())
        plain, robust = oracle.fit(), oracle.fit(cov_type="HC0")
        values, deviations = coefficients(result)
        np.testing.assert_allclose(values, plain.params[1:], atol=1e-7)
        np.testing.assert_allclose(deviations, larger(plain, robust), atol=1e-6)
        if model == "linear":
            p = [row.population.p for row in result.rows]
            use = deviations <= plain.bse[1:] + 1e-9
            np.testing.assert_allclose(np.array(p)[use], plain.pvalues[1:][use], atol=1e-6)


def test_risk_ratio_of_a_binary_outcome_is_robust_poisson():
    api = pytest.importorskip("statsmodels.api")
    columns = records(900, np.random.default_rng(3))
    part = Regression("r", "poisson", COVARIATES, outcome="died")
    result = part.read(answers_of(part, SCHEMA, [columns], None, np.random.default_rng(0)))
    fit = api.GLM(columns["died"], exog(columns), family=api.families.Poisson()).fit()
    np.testing.assert_allclose(coefficients(result)[0], fit.params[1:], atol=1e-7)
    assert result.measure == "risk ratio"


def test_trend_reference_and_missing_level():
    api = pytest.importorskip("statsmodels.api")
    columns = records(900, np.random.default_rng(4), missing=0.2)
    covariates = (
        Covariate("sex", reference="m"),
        Covariate("group", missing="level"),
        Covariate("age", edges=(25.0, 50.0, 75.0), coding="trend", scores=(10.0, 40.0, 60.0, 80.0)),
    )
    part = Regression("r", "logistic", covariates, outcome="died")
    result = part.read(answers_of(part, SCHEMA, [columns], None, np.random.default_rng(0)))
    group = columns["group"]
    matrix = np.column_stack(
        [
            np.ones(900),
            columns["sex"] == 0,
            group == 1,
            group == 2,
            group == 4,
            np.array([10.0, 40.0, 60.0, 80.0])[columns["age"]],
        ]
    ).astype(float)
    fit = api.Logit(columns["died"], matrix).fit(disp=0)
    np.testing.assert_allclose(coefficients(result)[0], fit.params[1:], atol=1e-7)
    assert [row.level for row in result.rows] == ["f", "b", "c", "missing", "per a unit of the score"]


def test_complete_cases_are_those_with_all_covariates():
    columns = records(900, np.random.default_rng(5), missing=0.2)
    for part in (PART, Regression("r", "logistic", (*COVARIATES, Covariate("stay", edges=(1.0, 2.0))), outcome="died")):
        columns["stay"] = np.minimum(columns["stay"], 2)
        result = part.read(answers_of(part, SCHEMA, [columns], None, np.random.default_rng(0)))
        assert result.counted.records == pytest.approx((columns["group"] < 3).sum())
        assert any("missing at random" in sentence for sentence in result.methods())


def test_sites_as_strata_are_indicators_of_sites():
    api = pytest.importorskip("statsmodels.api")
    generator = np.random.default_rng(6)
    sites = [records(count, generator) for count in (500, 800)]
    part = Regression("r", "logistic", COVARIATES, outcome="died", strata="site")
    result = part.read(answers_of(part, SCHEMA, sites, None, generator))
    matrix = np.concatenate([np.column_stack([exog(c), np.full(len(c["sex"]), i)]) for i, c in enumerate(sites)])
    fit = api.Logit(np.concatenate([c["died"] for c in sites]), matrix).fit(disp=0)
    np.testing.assert_allclose(coefficients(result)[0], fit.params[1:-1], atol=1e-7)
    assert result.counted.stratified
    assert len(result.between[0].sites) == 2


def test_blocks_say_what_the_joint_table_says_where_pairs_suffice():
    generator = np.random.default_rng(7)
    cells = codes((3, 3, 3, 3), 60_000, 0.3, generator)
    events = (generator.random(60_000) < 1 / (1 + np.exp(1.0 - 0.5 * (cells[:, 0] == 2)))).astype(int)
    blocks = covering(4, 2)
    tables = []
    for block in blocks:
        table = np.zeros((2, 3, 3))
        np.add.at(table, (events, *(cells[:, index] for index in block)), 1.0)
        tables.append(table)
    calibration = Calibration.pairs(Moments.of((3, 3, 3, 3), blocks, tables, [0.0] * len(blocks)))
    joint = np.zeros((2, 3, 3, 3, 3))
    np.add.at(joint, (events, *cells.T), 1.0)
    function = 1 / (1 + np.exp(1 - calibration.points @ np.array([0.5, -0.4, 0.3, 0.2])))
    expected = joint.reshape(2, -1) @ function
    np.testing.assert_allclose(calibration.weights(calibration.sums) @ function, expected, rtol=2e-3)


def test_moments_have_the_noise_that_they_state():
    generator = np.random.default_rng(8)
    blocks, law = covering(4, 3), NoiseLaw(2.0, 1.25)
    levels = (3, 2, 3, 2)
    moments = [
        Moments.of(
            levels,
            blocks,
            [law.simulate(generator, (2, *(levels[index] for index in block))) for block in blocks],
            [law.variance] * len(blocks),
        )
        for _ in range(1500)
    ]
    spread = np.array([moment.sums for moment in moments]).var(axis=(0, 1))
    np.testing.assert_allclose(spread / moments[0].variances, 1.0, atol=0.15)


def test_every_pair_lies_in_a_block_and_small_tables_are_asked_whole():
    for covariates, size in ((8, 3), (5, 2), (7, 4)):
        pairs = {(i, j) for block in covering(covariates, size) for i in block for j in block if i < j}
        assert len(pairs) == covariates * (covariates - 1) // 2
    assert choose_blocks((4, 2, 3), 2) == ((0, 1, 2),)
    chosen = choose_blocks((4,) * 8, 2)
    assert len(chosen[0]) == 3
    assert noise_measure((4,) * 8, 2, chosen) < noise_measure((4,) * 8, 2, covering(8, 8)) / 10


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1000), (0.1, 100)])
def test_intervals_cover_under_noise(epsilon, count):
    generator = np.random.default_rng(9)
    inside = []
    for _ in range(60):
        columns = records(count, generator)
        result = PART.read(answers_of(PART, SCHEMA, [columns], epsilon, generator))
        for row, truth in zip(result.rows, np.exp(SLOPES), strict=True):
            inside.append(row.population.low <= truth <= row.population.high)
    assert np.mean(inside) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 60)


def test_noise_of_few_cells_has_heavy_tails_and_intervals_and_tests_agree_on_them():
    counts = np.array([[90.0, 70.0], [30.0, 25.0]])  # (no and yes, unexposed and exposed)
    law = NoiseLaw(1 / 3)
    answers = Calibration.joint((2,), counts, law.variance, law.kurtosis)
    rows = Rows("logit", np.array([[0.0, 1.0]]), np.ones((1, 2)))
    solution = fit(rows, np.array([[0.0], [1.0]]), answers)
    # the log odds ratio moves by 1 / count with each count
    assert solution.coefficients[1] == pytest.approx(np.log(90 * 25 / (70 * 30)))
    assert solution.noise_covariance[1, 1] == pytest.approx(law.variance * (counts**-2).sum())
    assert solution.noise_kurtosis[1] == pytest.approx(law.kurtosis * (counts**-4).sum() / (counts**-2).sum() ** 2)
    assert solution.noise_kurtosis[1] > 2
    for score, excess in ((1.0, 0.0), (1.7, 0.4), (3.0, 5.0)):
        limit = noise_limit(np.ones(()), np.asarray(excess), score)
        assert normal_score(float(limit), excess) == pytest.approx(score)
        assert normal_score(-float(limit), excess) == pytest.approx(-score)


def test_separation_is_not_estimable():
    columns = records(300, np.random.default_rng(10))
    columns["died"] = columns["sex"].copy()
    result = PART.read(answers_of(PART, SCHEMA, [columns], None, np.random.default_rng(0)))
    assert not result.rows[0].population.estimable
    assert "not estimable" in result.to_text().lower()
    assert result.to_builtins()["coefficients"][0]["high"] is None


def test_bad_input_is_refused_before_anything_is_asked():
    def message(**changes):
        values = {"name": "r", "model": "logistic", "covariates": COVARIATES, "outcome": "died", **changes}
        with pytest.raises(ConfigurationError) as error:
            Regression(**values).questions(SCHEMA)
        return str(error.value)

    assert "is the outcome" in message(covariates=(*COVARIATES, Covariate("died")))
    assert "no such variable" in message(covariates=(Covariate("weight"),))
    assert "listed twice" in message(covariates=(Covariate("sex"), Covariate("sex")))
    assert "edges or a number of bins" in message(covariates=(Covariate("age"),))
    assert "would be empty" in message(covariates=(Covariate("age", edges=(0.0, 10.0)),))
    assert "no level" in message(event="maybe")
    assert "more than tables can tell" in message(covariates=(Covariate("age", bins=200), Covariate("stay", bins=200)))
    assert "at least one variable" in message(covariates=())
    assert "time_to_event" in message(model="hazards", outcome="")
    assert "must be one of" in message(covariates=(Covariate("sex", reference="x"),))
    schema = Schema((CategoricalAttribute("one", ("x",)),), "died", ("no", "yes"))
    with pytest.raises(ConfigurationError, match="single level"):
        Regression("r", "logistic", (Covariate("one"),), outcome="died").questions(schema)


def test_quote_says_what_an_odds_ratio_of_2_would_show():
    law = NoiseLaw(1.0)
    quote = dict(PART.quote(Setting(SCHEMA, [5000], [law])))
    low, high = (float(text) for text in quote["odds ratio of 2 for sex"].split(" to "))
    assert 1.5 < low < 2 < high < 2.7
    far = dict(PART.quote(Setting(SCHEMA, [100], [NoiseLaw(30.0)])))
    assert "not estimable" in far["odds ratio of 2 for age"]


def test_holm_is_that_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = [0.01, 0.04, 0.03, 0.2, 0.001]
    np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1])


SURVIVAL = Schema(
    attributes=SCHEMA.attributes,
    label="died",
    classes=("no", "yes"),
    outcomes=(NumericAttribute("days", 0.0, 100.0), CategoricalAttribute("status", ("alive", "dead", "moved"))),
    time_to_event=TimeToEvent("days", "status", "alive", bins=4, horizon=80.0),
)


def lives(count, generator, levels=LEVELS, slopes=SLOPES):
    """Cells by variable of records with exponential times to two causes, censored in even parts of 100 days."""
    cells = codes(levels, count, 0.3, generator)
    hazard = 0.01 * np.exp(dummies(cells, levels) @ slopes)
    times = np.stack([generator.exponential(1 / hazard), generator.exponential(200.0, count)])
    censored = generator.uniform(20, 100, count)
    first = np.minimum(times.min(axis=0), censored)
    status = np.where(censored <= times.min(axis=0), 0, 1 + times.argmin(axis=0))
    interval = np.minimum((first / 20).astype(int), 4)
    return cells, {"days": interval, "status": status}


def test_hazards_without_noise_are_a_poisson_model_of_person_time():
    api = pytest.importorskip("statsmodels.api")
    cells, columns = lives(700, np.random.default_rng(11))
    columns |= {"sex": cells[:, 0], "group": cells[:, 1], "age": cells[:, 2]}
    part = Regression("r", "hazards", COVARIATES, cause="dead")
    result = part.read(answers_of(part, SURVIVAL, [columns], None, np.random.default_rng(0)))
    rows, events, offsets, records = [], [], [], []
    for index in range(700):
        for interval in range(min(columns["days"][index], 3) + 1):
            last = interval == columns["days"][index]
            rows.append(np.concatenate([np.eye(4)[interval], dummies(cells[[index]])[0]]))
            events.append(float(last and columns["status"][index] == 1))
            offsets.append(np.log(10.0 if last else 20.0))
            records.append(index)
    model = api.GLM(events, np.array(rows), family=api.families.Poisson(), offset=offsets)
    plain = model.fit()
    robust = model.fit(cov_type="cluster", cov_kwds={"groups": np.array(records), "use_correction": False})
    values, deviations = coefficients(result)
    np.testing.assert_allclose(values, plain.params[4:], atol=1e-7)
    robust_deviations = robust.bse[4:] * np.sqrt(700 / (700 - 10))
    np.testing.assert_allclose(deviations, np.maximum(plain.bse[4:], robust_deviations), atol=1e-6)
    assert result.measure == "hazard ratio"


def test_the_page_has_a_forest_and_each_site():
    generator = np.random.default_rng(12)
    sites = [records(count, generator) for count in (2000, 3000, 2500)]
    result = PART.read(answers_of(PART, SCHEMA, sites, 3.0, generator))
    text = as_markdown(Document("r", "r", "r", sections=[Section("Regression", result.blocks())]))
    assert "sex" in text
    assert "Odds ratio by site, sex: m against f" in text
    frame = result.to_frames()["coefficients"]
    assert frame.height == 6
    assert (frame["low"] < frame["these_records_low"]).all()
