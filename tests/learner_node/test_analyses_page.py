"""The page of a study of analyses: what a reader asks first, each part, who was counted, the paragraph to paste."""

from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from expril.report.curves import Curve, curve_charts, curve_table
from expril.report.document import Brief, Fold, Text, leaves, tables
from expril.report.files import as_markdown
from expril.report.forest import forest_table
from expril.report.page import as_page
from learner_node.analyses.between_sites import SiteEstimate, between_sites
from learner_node.analyses.figures import between_sites_blocks, forest_row
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.part import THESE, Estimate
from learner_node.analyses.results import Analyses
from learner_node.result.analyses_document import analyses_document
from learner_node.study.pooling import SUMMED, Pooling
from protocol.schema import Schema

SITES = ("St. Mary’s", "North Valley")
DAYS = (0.0, 180.0, 360.0, 540.0)


@dataclass(frozen=True)
class Shown:
    """What a part found, as blocks alone."""

    made: tuple

    def to_text(self):
        return "text"

    def to_frames(self):
        return {}

    def to_builtins(self):
        return {}

    def blocks(self):
        return self.made

    def methods(self):
        return ["Odds ratios were fitted by conditional likelihood."]


class Invented(msgspec.Struct, frozen=True, tag_field="kind", tag="invented"):
    """A part that shows fixed blocks."""

    name: str
    weight: int = 1

    def read(self, _answers):
        return Shown(tuple(BLOCKS[self.name]()))


def odds():
    rows = [
        forest_row("intensive care", Estimate(1.9, 1.3, 2.8, p=0.0004), more=("812",)),
        forest_row("the same", Estimate(1.9, 1.6, 2.2, THESE), more=("812",)),
        forest_row("surgery", Estimate(None, -np.inf, np.inf), more=("4",)),
    ]
    yield forest_table("Hospital death", rows, measure="odds ratio", null=1.0, log=True, headings=["patients"])
    sites = [SiteEstimate(SITES[0], 0.6, 0.05, 0.01), SiteEstimate(SITES[1], 0.2, 0.9, 0.4)]
    yield from between_sites_blocks(sites, between_sites(sites), measure="odds ratio", log=True)


def curves():
    groups = [
        Curve("heart failure", DAYS, (1, 0.8, 0.7, 0.6), (1, 0.7, 0.6, 0.5), (1, 0.9, 0.8, 0.7), (1203, 900, 600, 311)),
        Curve("lung cancer", DAYS, (1, 0.4, 0.2, 0.1), (1, 0.3, 0.1, 0), (1, 0.5, 0.3, 0.2), (803, 311, 120, 44)),
    ]
    yield curve_charts("Survival by disease", groups, unit="days", about="their population", steps=True)
    yield Fold("All numbers", [curve_table("Survival by disease, numbers", groups, measure="alive", unit="days")])


BLOCKS = {"odds": odds, "curves": curves}


def analyses(pooling=SUMMED, **changes):
    axis = Axis("ward", (), ("surgery", "medicine"))
    law = NoiseLaw(4.0, 1.5 if pooling.secure else 2.0)
    pooled = NoisyTable((axis,), np.array([700.0, 510.0, 2.0, -3.0]), law, sites=2)
    sites = {
        name: [NoisyTable((axis,), np.array([350.0, 255.0, 1.0, 0.0]), NoiseLaw(4.0))]
        for name in (() if pooling.secure else SITES)
    }
    answers = TableAnswers(Schema, Fraction(1, 2), [pooled], sites, pooling.secure)
    return replace(
        Analyses(
            parts=(Invented("odds"), Invented("curves")),
            answers={"odds": answers, "curves": answers},
            schema=Schema,
            curators=SITES,
            pooling=pooling,
            epsilon_claimed=Fraction(1),
            epsilon_spent=dict.fromkeys(SITES, Fraction(1)),
            left_out={"South": "it refused: its cap is used up"},
            population="",
        ),
        **changes,
    )


def facts(pooling="sum"):
    curator = {"key": "ab" * 32, "spent": "1", "at_most": "1", "newest_receipt": "cd" * 32}
    curator["analyses"] = {"spent": "1", "at_most": "1", "state": "closed"}
    return {
        "title": "Who dies, and when",
        "purpose": "To plan palliative care",
        "learner": "ada",
        "expril": "1.0",
        "finished": "2026-11-24T12:00:00+00:00",
        "pooling": pooling,
        "left_out": {"South": "it refused: its cap is used up"},
        "answered_late": {},
        "not_private": [],
        "cards": {name: {"unit": "patient", "records": 1, "cap": "3"} for name in SITES},
        "cost": {"claimed": {"analyses": "1"}, "curators": dict.fromkeys(SITES, curator)},
    }


def document(pooling=SUMMED, **changes):
    return analyses_document(facts(pooling.method), analyses(pooling, **changes))


def sections(shown):
    return {section.title: section for section in shown.sections}


def text_of(section):
    return " ".join(block.text for block in leaves(section.present) if isinstance(block, Text))


def test_first_come_the_questions_of_whoever_decides():
    (brief,) = (block for block in document().sections[0].present if isinstance(block, Brief))
    answers = {answer.question: answer.sentences for answer in brief.answers}
    assert "was asked of 2 hospitals, by the learner ada" in answers["What was asked, and of whom?"]
    assert "The plan has 2 parts: odds and curves" in answers["What was asked, and of whom?"]
    assert "without South" in answers["What was asked, and of whom?"]
    assert "“These records”" in answers["How sure are its numbers?"]
    assert "73 % sure" in answers["What did one patient give away, at worst?"]
    assert "of the 3 that this learner may ever spend there" in answers["What did it cost, and what is left?"]


def test_the_paragraph_holds_design_parts_and_what_a_reader_must_know_once():
    text = text_of(sections(document())["Methods"])
    assert text.count("Odds ratios were fitted by conditional likelihood.") == 1
    assert text.index("fixed in one plan") < text.index("conditional likelihood") < text.index("added on purpose")
    assert "did not take part (South)" in text


@pytest.mark.parametrize("secure", [False, True])
def test_who_was_counted_is_shown_by_site_only_where_sites_answered(secure):
    pooling = Pooling("secure", 1, 0) if secure else SUMMED
    counted = sections(document(pooling))["Who was counted"]
    (table,) = tables(counted.present)
    names = [row[0] for group in table.groups for row in group.rows]
    assert names == (["all together"] if secure else [*SITES, "all together"])
    assert ("no hospital is shown by itself" in text_of(counted)) == secure


def test_every_part_is_a_section_in_all_forms():
    shown = document()
    assert list(sections(shown))[1:3] == ["odds", "curves"]
    page, text = as_page(shown), as_markdown(shown)
    for words in ("not estimable", "their population", "these records", "1.90"):
        assert words in page
        assert words in text
    assert "Number at risk" in page
    assert "This part cost epsilon 0.5" in text
