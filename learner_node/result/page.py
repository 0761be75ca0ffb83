"""The page of a deployed study as one HTML file that needs nothing else, and asks for nothing.

Whatever a curator wrote is untrusted; it reaches the page through a template with autoescape.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from expril.report.chart import percent
from expril.report.templates import Template, page_template, style
from protocol.rationals import named_parts, written
from protocol.run_index import FIT, STUDIES, VALIDATION

PACKAGE = "learner_node.result"
MODEL, CONSTANT = "c0", "c5"
"""Colours of the style sheet."""
WHAT = {"fit": STUDIES[FIT], "validation": STUDIES[VALIDATION]}
"""A learner's studies as cost.json names them -> as a page does."""

Object = Mapping[str, Any]


@cache
def _template() -> Template:
    return page_template(PACKAGE, {"written": written, "studies": WHAT.get, "percent": percent})


def build_study_page(told: Object) -> str:
    """The page of `learner_node.result.folder.result_object`; the same object gives the same text."""
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
    sentences = [
        f"{answered} of {asked} curators answered for about {told['private_records']:,} records.".replace(
            ",", "\u202f"
        ),
        f"That cost epsilon {_spent(told['cost'])} at the costliest.",
    ]
    if told["shares"]:
        common = (
            f"{value:.1%} ({low:.1%} to {high:.1%}) are “{name}”" for name, (value, low, high) in told["shares"].items()
        )
        sentences.append(f"Of the private records that count {', '.join(common)}, with 95 % intervals.")
    expected = told["expected"]
    if expected is not None:
        verdict = "better than" if expected["beats_majority"] else "not shown to be better than"
        sentences.append(
            f"The model is expected to classify {expected['accuracy']:.1%} of such records correctly, {verdict} always "
            "answering the more frequent class."
        )
    errors = told["expected_errors"]
    if errors is not None and errors["r2"] is not None:
        value, low, high = errors["r2"]
        sentences.append(
            f"The model is expected to explain {value:.0%} of the label's variance ({low:.0%} to {high:.0%})."
        )
    return sentences


def spent_by(curator: Object, cost: Object) -> str:
    """What a curator charged, and for which study: "2 (model 1, validation 1)"; both are of `cost_object`."""
    return written(curator["spent"]) + named_parts((WHAT[what], curator[what]["spent"]) for what in cost["claimed"])


def _spent(cost: Object) -> str:
    """What the costliest curator charged, and for what."""
    return spent_by(max(cost["curators"].values(), key=lambda one: Fraction(one["spent"])), cost)


def _strips(told: Object) -> list[dict[str, Any]]:
    """Rows of intervals on one axis from 0 to 1: what the answers let the learner expect, and what was validated."""
    rows: list[tuple[str, str, str, Sequence[float]]] = []
    expected, validation = told["expected"], told["validation"]
    if expected is not None:
        majority = [expected[f"majority{end}"] for end in ("", "_low", "_high")]
        rows = [
            ("Accuracy", "", MODEL, [expected[name] for name in ("accuracy", "low", "high")]),
            ("Majority class", "what always answering it would score", CONSTANT, majority),
            ("AUC", "", MODEL, [expected[f"auc{end}"] for end in ("", "_low", "_high")]),
        ]
    if told["expected_errors"] is not None and told["expected_errors"]["r2"] is not None:
        rows.append(("R²", "-1 stands for whatever is less", MODEL, told["expected_errors"]["r2"]))
    for name, recall in (told["expected_recalls"] or {}).items():
        rows.append((f"Recall of {name}", "", MODEL, recall))
    if validation is not None:
        rows.append(("AUC", "validated by the curators", MODEL, validation["auc"]))
    return [
        {"name": name, "note": note, "colour": colour, "value": told[0], "low": told[1], "high": told[2]}
        | {"from": min(max(told[1], 0.0), 1.0), "to": min(max(told[2], 0.0), 1.0), "at": min(max(told[0], 0.0), 1.0)}
        for name, note, colour, told in rows
    ]
