"""Table 1 as a part: against scipy and statsmodels without noise, by simulation with it."""

import json

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from statsmodels.stats.contingency_tables import Table as Oracle
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from learner_node.analyses.inference import holm
from learner_node.analyses.methods import records_counted, smallest_noise, total_of
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import Setting
from learner_node.analyses.table_one import TableOne
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import convert

SCHEMA = Schema(
    attributes=(
        NumericAttribute("age", 0.0, 100.0, units="years"),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("stage", ("I", "II", "III")),
        CategoricalAttribute("arm", ("old", "new")),
    ),
    label="died",
    classes=("no", "yes"),
)
MIDDLES = np.arange(5.0, 100.0, 10.0)


def part(**keys):
    return convert({"kind": "table_one", "name": "Table 1", "group": "arm", **keys}, TableOne, where="plan")


def records(rng, n, difference=0.0):
    """Codes of age's bin, sex, stage and arm, with missing values."""
    arm = rng.integers(0, 2, n)
    age = np.clip(rng.normal(60 + difference * arm, 15), 0, 99.9) // 10
    sex, stage = rng.integers(0, 2, n), rng.choice(3, n, p=(0.6, 0.3, 0.1))
    age[rng.random(n) < 0.05] = 10
    return {"age": age.astype(int), "sex": sex, "stage": stage, "arm": arm}


def answers(table_one, columns, noise, rng, most=1, sites=1):
    tables = []
    for question in table_one.questions(SCHEMA):
        axes = tuple(Axis.of(bins, SCHEMA) for bins in question.factors)
        counts = np.zeros(tuple(map(len, axes)))
        np.add.at(counts, tuple(columns[axis.variable] for axis in axes), 1)
        tables.append(NoisyTable(axes, counts + noise.simulate(rng, counts.shape), noise, most, sites))
    return TableAnswers(SCHEMA, 1, tables, {})


def test_without_noise_every_number_is_scipy_s_and_statsmodels():
    rng = np.random.default_rng(1)
    columns = records(rng, 500, 4.0)
    table_one = part()
    result = table_one.read(answers(table_one, columns, NoiseLaw(0.0), rng))
    age, sex, stage = result.rows
    descriptions = []
    for column, keep in enumerate((columns["arm"] == 0, columns["arm"] == 1, columns["arm"] >= 0)):
        values = MIDDLES[columns["age"][keep & (columns["age"] < 10)]]
        oracle = DescrStatsW(values)
        assert age.numbers[column].mean.value == pytest.approx(values.mean(), abs=1e-6)
        assert age.numbers[column].deviation.value == pytest.approx(values.std(ddof=1), abs=1e-6)
        low, high = oracle.tconfint_mean()
        assert (age.numbers[column].mean.low, age.numbers[column].mean.high) == pytest.approx((low, high), abs=0.1)
        assert age.missing[column][0].value == (keep & (columns["age"] == 10)).sum()
        assert result.sizes[column].value == keep.sum()
        descriptions.append(oracle)
    first, second = descriptions[:2]
    spread = np.sqrt((first.data.var(ddof=1) + second.data.var(ddof=1)) / 2)
    assert age.difference.smd.value == pytest.approx((first.mean - second.mean) / spread, abs=1e-6)
    counts = np.array([[np.sum((columns["age"] == b) & (columns["arm"] == g)) for g in (0, 1)] for b in range(10)])
    used = counts.sum(1) > 0
    trend = Oracle(counts[used], shift_zeros=False).test_ordinal_association(MIDDLES[used], np.array([1.0, 0.0]))
    n = counts.sum()
    assert abs(age.difference.test.statistic) == pytest.approx(abs(trend.zscore) * np.sqrt(n / (n - 1)), abs=1e-6)
    table = np.array([[np.sum((columns["stage"] == s) & (columns["arm"] == g)) for g in (0, 1)] for s in range(3)])
    assert stage.difference.p == pytest.approx(chi2_contingency(table, correction=False).pvalue, abs=1e-6)
    p = [row.difference.p for row in result.rows]
    assert [row.difference.holm for row in result.rows] == pytest.approx(list(multipletests(p, method="holm")[1]))
    f, m = ((columns["sex"] == 0)[columns["arm"] == g].mean() for g in (0, 1))
    assert sex.difference.smd.value == pytest.approx((f - m) / np.sqrt((f * (1 - f) + m * (1 - m)) / 2), abs=1e-6)


def test_holm_leaves_out_what_has_no_p_value():
    assert holm([0.01, None, 0.04]) == [pytest.approx(0.02), None, pytest.approx(0.04)]
    assert holm([]) == []


def test_quartiles_hold_the_values_within_bins():
    rng = np.random.default_rng(2)
    table_one = part(group="", attributes=["age"])
    for noise in (NoiseLaw(0.0), NoiseLaw(3.0)):
        values = np.clip(rng.normal(60, 15, 400), 0, 99.9)
        result = table_one.read(answers(table_one, {"age": (values // 10).astype(int)}, noise, rng))
        for share, estimate in zip((0.25, 0.5, 0.75), result.rows[0].numbers[0].quartiles, strict=True):
            assert estimate.low <= np.quantile(values, share) <= estimate.high
            assert estimate.low % 10 == estimate.high % 10 == 0


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "n"), [(10.0, 100), (1.0, 1000), (20.0, 3000)])
def test_intervals_cover_and_tests_keep_their_level(scale, n):
    rng = np.random.default_rng(3)
    noise, repeats = NoiseLaw(scale), 60
    table_one = part(attributes=["age", "sex"])
    reference = records(rng, 400_000)
    ages = MIDDLES[reference["age"][reference["age"] < 10]]
    truth = {"mean": ages.mean(), "deviation": ages.std()}
    hits, rejections, trials = np.zeros(5), np.zeros(2), np.zeros(2)
    for _ in range(repeats):
        columns = records(rng, n)
        result = table_one.read(answers(table_one, columns, noise, rng))
        age, sex = result.rows
        number, share = age.numbers[0], sex.shares[0].shares[0]
        hits += [
            number.mean.low <= truth["mean"] <= number.mean.high,
            number.deviation.low <= truth["deviation"] <= number.deviation.high,
            share.low <= 0.5 <= share.high,
            sex.difference.smd.low <= 0 <= sex.difference.smd.high,
            result.sizes[0].low <= (columns["arm"] == 0).sum() <= result.sizes[0].high,
        ]
        for index, row in enumerate(result.rows):
            if row.difference.p is not None:
                rejections[index] += row.difference.p < 0.05
                trials[index] += 1
    assert hits.min() / repeats > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / repeats)
    assert (rejections / repeats).max() < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / repeats)


def test_margins_of_what_is_shown_agree_over_all_attributes():
    rng = np.random.default_rng(5)
    table_one = part()
    result = table_one.read(answers(table_one, records(rng, 300), NoiseLaw(15.0), rng))
    sums = {tuple(row.displayed.sum(0)) for row in result.rows}
    assert len(sums) == 1
    assert min(row.displayed.min() for row in result.rows) >= 0


def test_weights_of_attributes_become_shares_of_epsilon_and_a_quote_says_how_far_off_cells_are():
    table_one = part(weights={"age": "1/2", "sex": 2})
    assert [float(question.weight) for question in table_one.questions(SCHEMA)] == [0.5, 2.0, 1.0]
    twenty = NoiseLaw(20.0)
    quote = dict(table_one.quote(Setting(SCHEMA, [1000], [twenty] * 3)))
    assert quote["every cell of the 3 tables"] == f"give or take {twenty.quantile(0.975)} records"
    assert 55 <= twenty.quantile(0.975) <= 65


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"attributes": ["arm"]}, "group"),
        ({"attributes": ["sex", "sex"]}, "twice"),
        ({"weights": {"aeg": 1}}, "age"),
        ({"group": "arms"}, "arm"),
    ],
)
def test_what_does_not_fit_is_refused(keys, words):
    with pytest.raises(ConfigurationError, match=words):
        part(**keys).questions(SCHEMA)


def test_a_group_without_records_gives_wide_intervals_and_no_error():
    rng = np.random.default_rng(6)
    columns = records(rng, 60)
    columns["arm"] = np.zeros(60, int)
    for noise in (NoiseLaw(0.0), NoiseLaw(10.0), NoiseLaw(30.0, 4.0)):
        table_one = part(group="died", attributes=["age", "sex", "stage", "arm"])
        result = table_one.read(answers(table_one, {**columns, "died": np.zeros(60, int)}, noise, rng))
        json.dumps(result.to_builtins(), allow_nan=False)
        assert result.to_text()
        assert result.blocks()
        assert result.methods()
        assert set(result.to_frames()) == {"table_one", "table_one_tests"}


def test_each_site_has_its_own_columns():
    rng = np.random.default_rng(7)
    table_one = part(attributes=["sex"])
    single = answers(table_one, records(rng, 200), NoiseLaw(2.0), rng)
    by_site = {"north": single.pooled, "south": single.pooled}
    pooled = [single.pooled[0].plus(single.pooled[0])]
    result = table_one.read(TableAnswers(SCHEMA, 1, pooled, by_site))
    assert [site.site for site in result.sites] == ["north", "south"]
    assert set(result.to_frames()["table_one_by_site"]["site"]) == {"north", "south"}


def test_the_foot_says_how_far_the_mean_of_the_values_may_be():
    rng = np.random.default_rng(8)
    table_one = part(attributes=["age"], edges={"age": [20.0, 40.0]})
    columns = {**records(rng, 200), "age": np.repeat([0, 1, 2], [50, 50, 100])}
    (row,) = table_one.read(answers(table_one, columns, NoiseLaw(0.0), rng)).rows
    assert row.mean_reach == pytest.approx(0.25 * 10 + 0.25 * 10 + 0.5 * 30)


def test_one_number_of_records_is_that_of_the_table_one():
    rng = np.random.default_rng(9)
    table_one = part(attributes=["sex", "stage"])
    told = answers(table_one, records(rng, 300), NoiseLaw(5.0), rng)
    result = table_one.read(told)
    size = result.sizes[-1]
    assert records_counted([result], told.pooled) == (round(size.value), size.low, size.high)
    assert records_counted([], told.pooled) == total_of(smallest_noise(told.pooled))
