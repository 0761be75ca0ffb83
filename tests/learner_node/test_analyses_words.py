"""What all analyses say alike: forests between sites, and the methods paragraph."""

import math
from fractions import Fraction

import numpy as np
import pytest

from expril.report.document import Text, tables
from learner_node.analyses.between_sites import SUM_ONLY, SiteEstimate, between_sites
from learner_node.analyses.figures import RANDOM, between_sites_blocks, estimate_text, forest_row
from learner_node.analyses.methods import design_sentences, reader_sentences, records_counted, smallest_noise, total_of
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import THESE, Estimate
from learner_node.study.pooling import Pooling
from protocol.schema import Schema

SITES = [
    SiteEstimate("north", math.log(2.0), 0.04, 0.01),
    SiteEstimate("south", math.log(1.5), 0.09, 0.02),
    SiteEstimate("east", math.log(1.1), 0.2, 0.1),
]


def rows(blocks):
    return {row.label: row for table in tables(blocks) for group in table.groups for row in group.rows}


def words(blocks):
    return " ".join(block.text for block in blocks if isinstance(block, Text))


def test_a_forest_of_sites_shows_each_the_pooled_and_where_a_further_one_lies():
    pooled = between_sites(SITES)
    blocks = list(between_sites_blocks(SITES, pooled, measure="odds ratio", log=True))
    shown = rows(blocks)
    assert shown["north"].value == pytest.approx(2.0)
    assert shown["north"].low == pytest.approx(2.0 * math.exp(-1.959964 * 0.2))
    assert shown[RANDOM].value == pytest.approx(math.exp(pooled.random.value))
    assert shown[RANDOM].p == pooled.random.p
    assert shown["a further site like these"].low == pytest.approx(math.exp(pooled.prediction[0]))
    assert {row.about for row in shown.values()} == {"their population"}
    assert "differ by a variance of the logarithm" in words(blocks)


def test_what_cannot_be_said_of_sites_is_said_to_be_so():
    secure = list(between_sites_blocks([], None, measure="odds ratio", log=True, secure=True))
    assert words(secure) == SUM_ONLY
    missing = [*SITES, SiteEstimate("west", None, math.inf)]
    blocks = list(between_sites_blocks(missing, between_sites(missing), measure="odds ratio", log=True))
    assert rows(blocks)["west"].value is None
    assert RANDOM not in rows(blocks)
    assert "Not pooled: west has no estimate" in words(blocks)
    two = list(between_sites_blocks(SITES[:2], between_sites(SITES[:2]), measure="odds ratio", log=True))
    assert "a further site like these" not in rows(two)
    assert "two cannot tell" in words(two)


def test_an_estimate_names_its_estimand():
    estimate = Estimate(1.42, 1.1, 1.83, THESE, 0.007)
    assert estimate_text(estimate, log=True) == "1.42 (1.10 to 1.83), p 0.007, these records"
    assert forest_row("age", estimate).about == "these records"
    assert estimate_text(Estimate(None, -math.inf, math.inf)) == "not estimable, their population"


def answers(scale=2.0, draws=3.0, most=1, secure=False):
    axis = Axis("sex", (), ("f", "m"))
    table = NoisyTable((axis,), np.array([60.0, 45.0, 1.0, -3.0]), NoiseLaw(scale, draws), most, 3)
    return {"counts": TableAnswers(Schema, Fraction(1, 2), [table], {}, secure)}


def paragraph(pooling=Pooling(), population="", left_out=(), **options):  # noqa: B008 - frozen
    parts = answers(**options)
    counted = records_counted([], [table for part in parts.values() for table in part.pooled])
    sites, late = ["north", "south", "east"], dict.fromkeys(left_out, "late")
    return " ".join(design_sentences(sites, pooling, Fraction(1, 2), parts, late, population, counted))


def test_the_paragraph_says_design_privacy_noise_and_size():
    text = paragraph()
    assert "3 hospitals (north, south, east) counted their records in the cells of 1 table each" in text
    assert "ε = 0.5 and δ = 0" in text
    assert "e^ε = 1.65" in text
    assert "holds 3 such draws" in text
    deviation = math.sqrt(NoiseLaw(2.0, 3.0).variance)
    assert f"standard deviation {deviation:.2f}" in text
    assert "About 103 records" in text
    assert "clustering" not in text


def test_the_paragraph_says_what_a_secure_sum_a_unit_and_an_absence_are():
    secure = paragraph(Pooling("secure", 1, 0), draws=1.5, secure=True)
    assert "only their sum was opened" in secure
    assert "t = 1, u = 0" in secure
    assert "shape 1.5" in secure
    many = paragraph(population="curators count at most 3 records of each patient; models speak of them", most=3)
    assert "(curators count at most 3 records of each patient)" in many
    assert "by a factor of 3, an upper bound" in many
    assert "1 hospital that had been asked did not take part (west)" in paragraph(left_out=["west"])
    assert "nothing protects" in paragraph(scale=0.0)
    assert "added on purpose" in " ".join(reader_sentences())


def test_a_total_has_the_exact_interval_of_the_noise_and_is_never_negative():
    table = answers()["counts"].pooled[0]
    value, low, high = total_of(table)
    law = NoiseLaw(2.0, 12.0)
    inside = sum(p for p, k in zip(law.pmf, range(-law.width, law.width + 1), strict=True) if abs(k) <= high - value)
    assert value == 103
    assert 0.95 <= inside < 0.97
    assert low < value < high
    few = NoisyTable(table.axes, np.array([-9.0, 0, 0, 0]), table.noise)
    assert total_of(few)[:2] == (0.0, 0.0)
    assert smallest_noise([NoisyTable(table.axes, table.values, NoiseLaw(9.0)), table]) is table
