"""The part `effects`: from a plan's file to lines of a page, with exact and with noisy answers."""

import json
from fractions import Fraction

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import StratifiedTable, Table2x2

from learner_node.analyses.effects import Effects
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import POPULATION, THESE, Setting
from learner_node.analyses.parts import read_parts
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

SCHEMA = Schema(
    attributes=(
        CategoricalAttribute("arm", ("new", "old", "none")),
        CategoricalAttribute("sex", ("f", "m")),
        NumericAttribute("age", 0.0, 100.0),
    ),
    label="death",
    classes=("no", "yes"),
)
PART = {"kind": "effects", "name": "e", "exposure": "arm", "outcome": "death", "event": "yes"}


def part(**more):
    return read_parts([{**PART, **more}], where="plan")[0]


def records(rng, size, odds_ratio=2.0):
    arm, sex, age = rng.integers(0, 3, size), rng.integers(0, 2, size), rng.uniform(20, 90, size)
    odds = np.where(sex == 0, 0.2, 0.5) * np.where(arm == 0, odds_ratio, 1.0)
    return {"arm": arm, "sex": sex, "age": age, "death": (rng.random(size) < odds / (1 + odds)).astype(int)}


def table(analysis, columns, noise=None, rng=None, most=1, sites=1):
    factors = analysis.questions(SCHEMA)[0].factors
    axes = tuple(Axis.of(bins, SCHEMA) for bins in factors)
    values = np.zeros(tuple(map(len, axes)))
    codes = [
        np.searchsorted(bins.edges, columns[bins.attribute], side="right") if bins.edges else columns[bins.attribute]
        for bins in factors
    ]
    np.add.at(values, tuple(codes), 1.0)
    law = noise or NoiseLaw(0.0)
    return NoisyTable(axes, values + law.simulate(rng or np.random.default_rng(0), values.shape), law, most, sites)


def answers(*tables, secure=False):
    pooled = tables[0]
    for other in tables[1:]:
        pooled = pooled.plus(other)
    by_site = {} if secure else {f"h{n}": (answer,) for n, answer in enumerate(tables)}
    return TableAnswers(SCHEMA, Fraction(1), (pooled,), by_site, secure)


def line(result, place, measure="odds ratio", of=POPULATION):
    return next(
        line.estimate for line in result.lines if (line.place, line.measure, line.estimate.of) == (place, measure, of)
    )


def test_exact_answers_give_statsmodels_numbers():
    rng = np.random.default_rng(1)
    columns = records(rng, 2000)
    analysis = part(exposed="new", reference="old", strata="sex")
    result = analysis.read(answers(table(analysis, columns)))

    def cells(chosen):
        return np.array(
            [[np.sum(chosen & (columns["arm"] == a) & (columns["death"] == d)) for d in (1, 0)] for a in (0, 1)]
        )

    crude = Table2x2(cells(np.ones(2000, bool)))
    assert line(result, "all records").value == pytest.approx(crude.oddsratio, rel=1e-9)
    assert line(result, "all records", "risk ratio").value == pytest.approx(crude.riskratio, rel=1e-9)
    strata = StratifiedTable([cells(columns["sex"] == code) for code in (0, 1)])
    common = line(result, "common to the strata (Mantel-Haenszel)")
    assert common.value == pytest.approx(strata.oddsratio_pooled, rel=1e-9)
    assert common.p == pytest.approx(strata.test_null_odds().pvalue, rel=0.05)
    assert line(result, "sex f", of=THESE).low == pytest.approx(Table2x2(cells(columns["sex"] == 0)).oddsratio)


def test_sites_are_lines_and_are_pooled():
    rng = np.random.default_rng(2)
    analysis = part(exposed="new", reference=["old", "none"])
    tables = [table(analysis, records(rng, size), NoiseLaw(1.0), rng) for size in (900, 2000, 1500)]
    result = analysis.read(answers(*tables))
    estimates, pooled = result.sites[result.lines[0].contrast, "odds ratio"]
    assert [estimate.site for estimate in estimates] == ["h0", "h1", "h2"]
    assert all(0 < estimate.noise_variance < 0.2 * estimate.variance for estimate in estimates)
    assert pooled.random.low < np.log(2) < pooled.random.high
    common = line(result, "common to the sites (Mantel-Haenszel)")
    assert common.low < 2.0 < common.high
    assert common.high / common.low < line(result, "site h0").high / line(result, "site h0").low
    assert "between 3 sites" in result.to_text()
    assert {"site h0", "site h1", "site h2"} <= set(result.to_frames()["effects"]["place"])


def test_sites_together_have_the_largest_bound_of_any_whichever_comes_first():
    rng = np.random.default_rng(4)
    analysis = part(exposed="new", reference=["old", "none"])
    several = table(analysis, records(rng, 900), NoiseLaw(1.0), rng, most=3)
    single = table(analysis, records(rng, 900), NoiseLaw(1.0), rng)
    place = "common to the sites (Mantel-Haenszel)"
    orders = [line(analysis.read(answers(*tables)), place) for tables in ((several, single), (single, several))]
    assert (orders[0].low, orders[0].high) == pytest.approx((orders[1].low, orders[1].high), rel=1e-6)


def test_secure_studies_say_that_only_the_sum_was_opened():
    rng = np.random.default_rng(2)
    analysis = part(exposed="new", reference="old")
    result = analysis.read(answers(table(analysis, records(rng, 2000), NoiseLaw(1.0, 4 / 3), rng), secure=True))
    assert "Only the sum over sites was opened" in result.to_text()
    assert not result.sites


def test_results_are_complete_in_every_form():
    rng = np.random.default_rng(4)
    analysis = part(reference="none", ordered=True, strata="age", edges={"age": [50.0]})
    result = analysis.read(answers(*(table(analysis, records(rng, 60), NoiseLaw(20.0), rng, 3) for _ in range(2))))
    text = json.dumps(result.to_builtins(), allow_nan=False)
    assert "arm old against arm none" in text
    assert result.to_frames()["effects"].height == len(result.lines)
    assert len(result.tests) == 2
    assert len(result.blocks()) > 4
    assert "up to 3" in " ".join(result.methods())
    assert "not estimable" in result.to_text()


def test_a_number_is_cut_where_conditions_say():
    rng = np.random.default_rng(5)
    columns = records(rng, 500)
    analysis = part(exposure="age", exposed={"from": 65.0}, edges={"age": [40.0, 80.0]}, ordered=True)
    assert analysis.questions(SCHEMA)[0].factors[0].edges == (40.0, 65.0, 80.0)
    result = analysis.read(answers(table(analysis, columns)))
    old = columns["age"] >= 65
    risks = [columns["death"][old].mean(), columns["death"][~old].mean()]
    assert line(result, "all records", "risk difference", THESE).value == pytest.approx(risks[0] - risks[1])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"outcome": "arm"}, "different variables"),
        ({}, "state exposed, reference or both"),
        ({"exposed": "nw"}, "exposed: arm: no level 'nw'; did you mean"),
        ({"exposed": "new", "reference": ["new", "old"]}, "groups apart"),
        ({"exposed": "new", "event": ["no", "yes"]}, "must be the event"),
        ({"exposure": "age", "reference": "missing"}, "state its edges"),
        ({"exposure": "sex", "exposed": "f", "ordered": True}, "at least three groups"),
        ({"exposed": "new", "edges": {"age": [5.0]}}, "not counted here"),
        ({"exposed": "new", "strata": "height"}, "no variable 'height'"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_asked(wrong, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        part(**wrong).questions(SCHEMA)


def test_a_quote_states_the_interval_to_expect():
    analysis = part(exposure="sex", exposed="f")
    rows = dict(analysis.quote(Setting(SCHEMA, (500, 500), (NoiseLaw(1.0, 2.0),))))
    low, high = map(float, rows["an odds ratio of 2"].split(" to "))
    assert 1.2 < low < 1.5
    assert 2.8 < high < 3.4


def test_the_steward_reads_what_is_counted():
    words = part(exposed="new", strata="sex", where={"age": {"from": 65.0}}).words(SCHEMA)
    assert "arm, death and sex" in words
    assert "age from 65" in words
    assert isinstance(part(exposed="new"), Effects)
