"""The document of a deployed study. A curator's texts are untrusted; the writers escape them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from expril.report.chart import Axis, Strip, Tick
from expril.report.document import PAPER, Block, Code, Document, Facts, Fold, Heading, Section, Text
from expril.report.numbers import count, plain_number
from expril.report.table import Cell, Column, Table
from learner_node.result.brief import study_brief
from learner_node.result.shapes import NamedBin, Shape, shape_blocks, shape_table
from protocol.rationals import named_parts, written

MODEL, CONSTANT = 0, 5
"""Colours of the style sheet."""
STUDIES = {"fit": "model", "validation": "validation", "analyses": "analyses"}
"""Names of a learner's studies in cost.json -> names on the page."""
SHARES = Axis(0.0, 1.0, tuple(Tick(str(n), Axis(0.0, 1.0).at(n), n) for n in (0, 0.5, 1)))
SECURE = (
    "It was spent on secure sums. It bounds the privacy loss on two conditions: no more curators collude with the "
    "learner than its plan assumes, and the cryptography is not broken."
)

Object = Mapping[str, Any]
Interval = Sequence[float]
"""A value and the ends of its 95 % interval."""


class Measure(NamedTuple):
    """Values within [0, 1] with intervals, drawn in one row: name, note, colour, values and ends."""

    name: str
    note: str
    colour: int
    interval: Interval


def study_document(facts: Object) -> Document:
    """The document made from `learner_node.result.folder.result_object`, as a pure function."""
    source = (
        f"Strategy {facts['strategy']}, label “{facts['label']}”, {count(facts['source_records'], 'source record')}, "
        f"ExPriL {facts['expril']}. The signed list of transcripts lets anybody hold the charges against it, and the "
        "model loads in Python:"
    )
    signed = (
        f"These curators signed their answers as not private, as simulations do: {', '.join(facts['not_private'])}."
    )
    figure = _figure(facts)
    return Document(
        kind="ExPriL study",
        subject=facts["learner"],
        headline=facts["title"],
        created=facts["finished"],
        banner=("Not private.", signed) if facts["not_private"] else None,
        sections=[
            Section("", [study_brief(facts, figure)], PAPER),
            _worth(facts, has_scores=bool(figure)),
            *_validated(facts),
            *_added_up(facts),
            _by_curator(facts),
            cost_section(facts),
            left_out_section(facts),
            receipts_section(facts["cost"]["curators"]),
            Section(
                "Where this comes from",
                [Text(source), Code('expril audit run FOLDER\nexpril.load("FOLDER").predict_proba(table)')],
            ),
        ],
    )


def spent_by(curator: Object, cost: Object) -> str:
    """A curator's charge by study: "2 (model 1, validation 1)". Both arguments are parts of `cost_object`."""
    return written(curator["spent"]) + named_parts(
        (STUDIES[study], curator[study]["spent"]) for study in cost["claimed"]
    )


def triple(interval: Interval) -> str:
    """A value and its interval, as text."""
    return f"{interval[0]:.3f} ({interval[1]:.3f} to {interval[2]:.3f})"


def _strip(colour: int, interval: Interval) -> Strip:
    value, low, high = (min(max(end, 0.0), 1.0) for end in interval)
    return Strip(SHARES, dots=[(colour, value, (low, high), triple(interval))])


def _figure(facts: Object) -> list[Block]:
    """What the answers tell of the model's scores, as strips; empty if they tell nothing."""
    expected, errors, validation = facts["expected"], facts["expected_errors"], facts["validation"]
    rows: list[Measure] = []
    if expected is not None:
        majority = [expected[f"majority{end}"] for end in ("", "_low", "_high")]
        rows = [
            Measure("Accuracy", "", MODEL, [expected[name] for name in ("accuracy", "low", "high")]),
            Measure("Majority class", "what always answering it would score", CONSTANT, majority),
            Measure("AUC", "", MODEL, [expected[f"auc{end}"] for end in ("", "_low", "_high")]),
        ]
    if errors is not None and errors["r2"] is not None:
        rows.append(Measure("R²", "-1 stands for whatever is less", MODEL, errors["r2"]))
    rows += [
        Measure(f"Recall of {name}", "", MODEL, recall) for name, recall in (facts["expected_recalls"] or {}).items()
    ]
    if validation is not None:
        rows.append(Measure("AUC", "validated by the curators", MODEL, validation["auc"]))
    columns: list[Column[Measure]] = [
        Column("measure", lambda row: Cell(row.name, under=row.note), names=True),
        Column("0 to 1", lambda row: _strip(row.colour, row.interval), drawn=True, axis=SHARES),
        Column("estimate (95 % interval)", lambda row: triple(row.interval), number=True),
    ]
    caption = "The model’s scores, with 95 % intervals"
    return [Heading(caption), Table.of(caption, columns, rows, "forest")] if rows else []


def _worth(facts: Object, *, has_scores: bool) -> Section:
    """The section on how good the model is; `has_scores` says whether there are estimates."""
    expected, errors = facts["expected"], facts["expected_errors"]
    population = f" Here {facts['population']}." if facts["population"] else ""
    lead = (
        "From the noisy answers alone, with 95 % intervals. Nobody but the curators can compute the exact values."
        f"{population}"
    )
    if not has_scores:
        lead = (
            "This strategy’s answers do not tell how good the model is"
            f"{' with one model a curator' if facts['pooling'] == 'site' else ''}. A validation asks the curators: "
            "validate in STUDY.toml."
        )
    notes = []
    if errors and errors["mean_absolute_error"]:
        absolute, squared = (_amounts(errors[f"mean_{kind}_error"]) for kind in ("absolute", "squared"))
        notes.append(
            f"Mean absolute error {absolute}, in {facts.get('units') or 'units of the label'}; mean squared error "
            f"{squared}. A part of epsilon asked for these errors, and for the labels’ "
            "squared distances from their mean."
        )
    if expected:
        beats = "beats" if expected["beats_majority"] else "is not shown to beat"
        ranks = "ranks" if expected["ranks"] else "is not shown to rank"
        notes.append(f"The model {beats} the majority class, and {ranks} records better than chance, at level 2.5 %.")
    notes += [f"Note: {facts['advice']}."] if facts["advice"] else []
    notes += [f"The validation brought nothing: {facts['validation_failure']}"] if facts["validation_failure"] else []
    return Section("What the model is worth", [Text(lead), *(Text(note, "fine") for note in notes)])


def _amounts(interval: Interval) -> str:
    """A number of any size and its interval, as text."""
    value, low, high = map(plain_number, interval)
    return f"{value} ({low} to {high})"


def _added_up(facts: Object) -> list[Section]:
    """The terms of an additive model; empty of another model, and of a result of an earlier version."""
    shapes = [
        Shape(
            part["attribute"],
            [NamedBin(**bin_) for bin_ in part["bins"]],
            part["units"],
            part["description"],
            part["bounds"] and tuple(part["bounds"]),
        )
        for part in facts.get("parts", ())
    ]
    if not shapes:
        return []
    lead = (
        f"The log-odds of “{facts['positive']}” are an intercept and, for each attribute, the value of the record’s "
        "bin; +0.69 doubles the odds. Steps and points are estimates from the noisy answers, less their mean over the "
        "records; bands and bars hold the truth with a probability of 95 % where the attributes’ contributions really "
        "add up. The first and the last step go on beyond the drawing."
    )
    fold = Fold("All numbers", [shape_table(shapes)])
    return [Section("What the model adds up", [Text(lead), *shape_blocks(shapes, MODEL, "the model"), fold])]


def _validated(facts: Object) -> list[Section]:
    validation = facts["validation"]
    if not validation:
        return []
    share = f" The share of “{facts['positive']}” is {triple(validation['prevalence'])}." if facts["positive"] else ""
    lead = (
        f"A second study, at epsilon {written(validation['epsilon'])}, asked how many records of each class lie in "
        f"bins of the model’s score.{share}"
    )

    def column(name: str) -> Column[Object]:
        def show(point: Object) -> Cell:
            value, low, high = point[name]
            return Cell(f"{value:.2f}", under=f"{low:.2f}–{high:.2f}")

        return Column(name.upper() if name in ("ppv", "npv") else name, show, number=True)

    points: list[Column[Object]] = [
        Column("threshold", lambda point: point["rule"], names=True),
        Column("probability", lambda point: f"{point['threshold']:.3f}", number=True),
        *map(column, ("flagged", "sensitivity", "specificity", "ppv", "npv")),
    ]
    bins: list[Column[Object]] = [
        Column("foretold", lambda row: f"{row['predicted']:.3f}", names=True),
        Column("observed, 0 to 1", lambda row: _strip(MODEL, row["observed"]), drawn=True, axis=SHARES),
        Column("observed (95 % interval)", lambda row: triple(row["observed"]), number=True),
    ]
    sections = [
        Section(
            "Validated by the curators",
            [
                Text(lead),
                Table.of("thresholds", points, validation["points"]),
                Heading("Calibration"),
                Table.of("calibration", bins, validation["calibration"]),
            ],
        )
    ]
    if fitted := validation["recalibration"]:
        outcome = (
            "The recalibrated model has risks that fit them, in the same order: recalibrated_ of the loaded model."
            if fitted["on"]
            else "The answers favour the risks as they are, so these stay."
        )
        text = (
            f"Intercept {triple(fitted['intercept'])} and slope {triple(fitted['slope'])} of the logit were fitted to "
            f"the same answers. {outcome} What is validated above are the risks as they were: a fit to answers is no "
            "validation by them."
        )
        sections.append(Section("Recalibrated", [Text(text)]))
    return sections


def _by_curator(facts: Object) -> Section:
    """What is known of each curator, and what only its hospital can know."""
    rows: list[tuple[str, Object]] = list(facts.get("by_curator", {}).items())
    columns: list[Column[tuple[str, Object]]] = [Column("curator", lambda row: row[0], names=True)]
    if any(row["shares"] for _, row in rows):
        columns.append(Column("share of its records", lambda row: _shares_in_lines(row[1]["shares"]), number=True))
    if any(row["validation"] for _, row in rows):
        columns += [
            Column("AUC, validated", lambda row: _at(row[1]["validation"], "auc"), number=True),
            Column(
                f"“{facts['positive']}”, validated", lambda row: _at(row[1]["validation"], "prevalence"), number=True
            ),
        ]
    lead = "What each curator’s own answers tell of its records, with 95 % intervals."
    if not rows:
        lead = "The answers tell nothing by curator."
    if facts["pooling"] == "secure":
        lead = "Only sums over curators were opened, so nothing is known of any one of them."
    further = (
        "What a hospital would reach alone, only the hospital can compute, on its own records. “expril predict "
        "--score” shows it there, beside what this model reaches for the same patients."
    )
    table = Table.of("Curator by curator", columns, rows)
    return Section("Curator by curator", [Text(lead), table if rows else None, Text(further, "fine")])


def _shares_in_lines(shares: Mapping[str, Interval]) -> str:
    return "\n".join(f"“{name}” {triple(share)}" for name, share in shares.items()) or "–"


def _at(validated: Object | None, name: str) -> str:
    return triple(validated[name]) if validated else "–"


def cost_section(facts: Object) -> Section:
    """What each curator's receipts charge, exactly."""
    cost = facts["cost"]

    def spending(study: str) -> Column[tuple[str, Object]]:
        return Column(STUDIES[study], lambda row: written(row[1][study]["spent"]), number=True)

    columns: list[Column[tuple[str, Object]]] = [
        Column("curator", lambda row: row[0], names=True),
        Column("epsilon spent", lambda row: Cell(written(row[1]["spent"]), strong=True), number=True),
        Column("at most", lambda row: written(row[1]["at_most"]), number=True),
        *map(spending, cost["claimed"]),
        Column("study", lambda row: row[1][next(iter(cost["claimed"]))]["state"], number=True),
    ]
    lead = "Exact, from the curators’ signed receipts. At most: a lost answer may have been charged all the same."
    planned = ", ".join(f"{STUDIES[study]} {written(claimed)}" for study, claimed in cost["claimed"].items())
    table = Table.of("What it cost", columns, list(cost["curators"].items()))
    secure = [Text(SECURE, "fine")] if facts["pooling"] == "secure" else []
    exactly = Text(f"Planned: {planned}. All figures exactly: cost.json.", "fine")
    return Section("What it cost", [Text(lead), table, exactly, *secure])


def left_out_section(facts: Object, title: str = "Who is not in the model") -> Section:
    """Curators that are not counted, and why."""
    nobody = Text("Nobody: every curator that was asked answered every question.")
    reasons = Facts(list(facts["left_out"].items()), "glossary")
    late = ", ".join(f"{name} {times}" for name, times in facts["answered_late"].items())
    again = [Text(f"Asked more than once, and charged once: {late}.", "fine")] if late else []
    return Section(title, [reasons if facts["left_out"] else nobody, *again])


def receipts_section(curators: Object) -> Section:
    """Digests of each curator's newest receipt."""
    lead = (
        "Digest (SHA-256) of each curator’s newest receipt. Show it where a curator’s ledger is in doubt; the "
        "receipts are beside this page."
    )
    columns: list[Column[tuple[str, Object]]] = [
        Column("curator", lambda row: row[0], names=True),
        Column("public key", lambda row: row[1]["key"]),
        Column("newest receipt", lambda row: row[1]["newest_receipt"] or "none"),
    ]
    return Section("Receipts", [Text(lead), Table.of("Receipts", columns, list(curators.items()), "digests")])
