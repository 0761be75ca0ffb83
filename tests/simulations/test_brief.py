"""The brief on top of a run's page: five questions, answered from the report alone, and each answer's opposite."""

from expril.report.document import PAPER, Answer, Brief, Document, Section, Text
from expril.report.files import as_markdown
from expril.report.page import as_page
from expril.report.table import text_table
from expril.report.terminal import as_terminal
from page_outline import Outline


def test_a_brief_is_on_the_page_and_in_markdown_with_its_figure_and_not_on_a_terminal():
    answers = [Answer(f"Question {n}?", f"Answer {n}.", ["More & more."]) for n in range(5)]
    figure = text_table("figure", ["name", "value"], [("a", "7"), ("b", "8")])
    document = Document("kind", "subject", "headline", sections=[Section("", [Brief(answers, [figure, None])], PAPER)])
    outline, text = Outline(as_page(document)), as_markdown(document)
    assert outline.count("article") == 5
    assert "Answer 3. More & more." in outline.text
    assert outline.rows[1][1] == ["a", "7"]
    assert "### Question 4?\n\n**Answer 4.** More \\& more." in text
    assert "| b | 8 |" in text
    assert list(as_terminal(document)) == []
    empty = Document("kind", "subject", "headline", sections=[Section("", [Brief(answers, [None]), Text("x")], PAPER)])
    assert 'class="beside"' not in as_page(empty)
