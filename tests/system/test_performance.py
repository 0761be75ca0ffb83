"""The page about performance says what the stored results say, and carries a curve on as its formula does."""

import pytest

from benchmarks import figures


@pytest.mark.parametrize("path", figures.FILES, ids=lambda path: path.name)
def test_the_page_and_its_pictures_are_those_of_the_stored_results(path):
    assert path.read_text(encoding="utf-8") == figures.FILES[path](), "python -m benchmarks.figures makes them anew"


def test_a_curve_goes_through_its_ends_and_says_where_it_reaches_a_limit():
    points = [(10, 5.0), (20, 9.0), (40, 41.0)]
    for exponent in (0.5, 1.0, 2.0):
        assert [figures.foretold(points, exponent, size) for size in (10, 40)] == [5.0, 41.0]
        limit = figures.foretold(points, exponent, 1000)
        assert figures.reached(points, exponent, limit) == pytest.approx(1000)
    assert figures.foretold(points, 1.0, 70) == 77.0
    assert figures.reached([(10, 5.0), (20, 5.0)], 0.0, 9.0) == float("inf")


def test_every_goal_names_another_result_of_a_benchmark():
    assert len({(goal.benchmark, goal.name) for goal in figures.GOALS}) == len(figures.GOALS)
    folder = figures.DOCS.parent / "benchmarks"
    assert {goal.benchmark for goal in figures.GOALS} <= {path.stem for path in folder.glob("*.py")}


def test_a_page_keeps_its_words_however_often_its_tables_are_made():
    marks = "\n\n".join(f"<!-- {name} -->\n| of an earlier time |" for name in figures.TABLES)
    made = figures.page(f"words\n\n{marks}\n\nmore words\n")
    assert made.startswith("words\n\n<!--")
    assert made.endswith("\n\nmore words\n")
    assert "an earlier time" not in made
    assert figures.page(made) == made
