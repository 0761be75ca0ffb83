"""The page of a deployed study as one HTML file that needs nothing else, and asks for nothing.

Whatever a curator wrote is untrusted; it reaches the page through a template with autoescape.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from simulations.report import svg
from simulations.report.templates import Template, page_template, style
from simulations.report.words import number

PACKAGE = "simulations.report.study"

Object = Mapping[str, Any]


@cache
def _template() -> Template:
    return page_template(PACKAGE, {"budget": lambda text: number(Fraction(text)), "percent": svg.percent})


def build_study_page(told: Object) -> str:
    """The page of `simulations.study_folder.result_object`; the same object gives the same text."""
    return _template().render(
        told=told,
        headline=told["title"],
        summary=_summary(told),
        style=style(PACKAGE),
        strips=_strips(told),
        cost=told["cost"],
    )


def _summary(told: Object) -> list[str]:
    asked = len(told["cost"]["curators"])
    answered = asked - len(told["left_out"])
    spent = max((Fraction(one["spent"]) for one in told["cost"]["curators"].values()), default=Fraction(0))
    sentences = [
        f"{answered} of {asked} curators answered for about {told['private_records']:,} records.".replace(
            ",", "\u202f"
        ),
        f"That cost epsilon {number(spent)} at the costliest.",
    ]
    expected = told["expected"]
    if expected is not None:
        verdict = "better than" if expected["beats_majority"] else "not shown to be better than"
        sentences.append(
            f"The model is expected to classify {expected['accuracy']:.1%} of such records correctly, {verdict} always "
            "answering the more frequent class."
        )
    return sentences


def _strips(told: Object) -> list[dict[str, Any]]:
    """Rows of intervals on one axis from 0 to 1: what the answers let the learner expect, and what was validated."""
    rows = []
    expected, validation = told["expected"], told["validation"]
    if expected is not None:
        names = (("Accuracy", "accuracy", "low", "high", ""), ("AUC", "auc", "auc_low", "auc_high", ""))
        majority = (
            "Majority class",
            "majority",
            "majority_low",
            "majority_high",
            "what always answering it would score",
        )
        rows += [
            {"name": name, "note": note, "value": expected[key], "low": expected[low], "high": expected[high]}
            for name, key, low, high, note in (names[0], majority, names[1])
        ]
    if validation is not None:
        value, low, high = validation["auc"]
        note = "validated by the curators"
        rows.append({"name": "AUC", "note": note, "value": value, "low": low, "high": high})
    return rows
