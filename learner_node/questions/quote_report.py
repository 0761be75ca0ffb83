"""`expril quote`: its input, and its output as a table or a JSON object.

Nothing private is read: of curators only their declarations are used.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from expril.report.table import Cell, Column, Group, Table
from learner_node.models.label_model.prior import Belief
from learner_node.questions.quote import QuoteRow, Simulated, Target, many_attributes
from learner_node.questions.quote import quote as quote_plans
from learner_node.study.pooling import SUMMED
from protocol.errors import ConfigurationError
from protocol.rationals import written
from protocol.records import Records

Tick = Callable[[str, int, int], None]
SUGGESTED = "*"
"""Marks a suggested plan, also in text without bold letters."""
ASSUMED = "assumed: no round_size is declared, so each site is taken to be as large as the source; --size tells better"
OF_A_NUMBER = (
    "\nnoise scale: in steps, into which the label's range is divided\nerror of a share: of a cell's mean label, as a "
    "share of its range"
)
SIMULATED = (
    "problems", "accuracy", "accuracy_low", "accuracy_high", "best", "accuracy_without_noise", "accuracy_lost",
    "accuracy_lost_low", "accuracy_lost_high", "majority", "beats_majority", "by_difficulty", "auc", "auc_low",
    "auc_high", "best_auc", "auc_without_noise", "auc_lost", "auc_lost_low", "auc_lost_high",
)  # fmt: skip
"""Keys of a row that are null unless the label has two classes."""


@dataclass(frozen=True)
class Request:
    """What is quoted.

    `title` heads the table, `source` holds the learner's encoded records, `target` describes the curators with their
    size as declared or assumed, `declared` is True if all of them declare theirs, `strategy` and `options` are the
    learner's, and `belief` is what is known of the labels.
    """

    title: str
    source: Records
    target: Target
    declared: bool
    strategy: str
    options: dict[str, Any]
    belief: Belief = field(default_factory=Belief)

    @property
    def size(self) -> int:
        """Total number of private records."""
        return self.target.records(self.source)

    def changed(
        self,
        *,
        sites: int | None,
        target_size: int | None,
        most_records_per_unit: int | None,
        strategy: str,
        options: Sequence[str],
        pooling: str = "",
        colluders: int | None = None,
        dropouts: int | None = None,
        prevalence: str = "",
        best_auc: str = "",
    ) -> "Request":
        """Return a copy with the command line's values; options of another strategy are dropped.

        Raises ConfigurationError: an option is not of the form name=value, or a range of the belief is invalid.
        """
        before = self.target
        target = Target(
            sites=sites or before.sites,
            size=target_size or round(self.size * (sites or before.sites) / before.sites),
            most_records_per_unit=most_records_per_unit or before.most_records_per_unit,
            pooling=before.pooling.changed(pooling, colluders, dropouts),
            willing=replace(before.willing, work=math.inf) if target_size else before.willing,  # then it is declared
        )
        before_options = self.options if strategy in ("", self.strategy) else {}
        return replace(
            self,
            target=target,
            declared=self.declared or target_size is not None,
            strategy=strategy or self.strategy,
            options={**before_options, **dict(map(_option, options))},
            belief=Belief(parse_range("--prevalence", prevalence), parse_range("--best-auc", best_auc)),
        )


def parse_range(option: str, text: str) -> tuple[float, float] | None:
    """Parse "0.3" as (0.3, 0.3) and "0.2-0.4" as a range; None for an empty text.

    Raises ConfigurationError: the text is neither.
    """
    if not text:
        return None
    low, dash, high = text.partition("-")
    try:
        return float(low), float(high if dash else low)
    except ValueError:
        raise ConfigurationError(
            f"{option} takes a number or a range, such as 0.4 or 0.35-0.45, not {text!r}"
        ) from None


def run(
    request: Request, epsilons: Sequence[Fraction], *, problems: int | None, seed: int, tick: Tick
) -> list[QuoteRow]:
    """Compute the rows by `learner_node.questions.quote.quote`."""
    return quote_plans(
        request.source,
        request.target,
        strategy=request.strategy,
        options=request.options,
        epsilons=epsilons,
        belief=request.belief,
        problems=problems,
        seed=seed,
        progress=tick,
    )


def as_object(request: Request, rows: Sequence[QuoteRow]) -> dict[str, Any]:
    """The object that `expril quote --json` prints; exact numbers are texts, what is not simulated is null."""
    return {
        "source_records": len(request.source),
        "sites": request.target.sites,
        "target_size": request.size,
        "most_records_per_unit": request.target.most_records_per_unit,
        "pooling": request.target.pooling.method,
        "noises": request.target.sites / request.target.pool.shares if request.target.pool else request.target.sites,
        "strategy": request.strategy,
        "prevalence": request.belief.prevalence,
        "best_auc": request.belief.best_auc,
        "rows": [
            {
                "epsilon": str(row.epsilon),
                "cost": str(row.cost),
                "options": dict(row.options),
                "chosen": row.chosen,
                "queries": row.queries,
                "split": [str(share) for share in row.split],
                "cells": row.precision.cells,
                "scale": str(row.precision.scale),
                "count_error": row.precision.count_error,
                "records_per_cell": row.precision.records_per_cell,
                "share_error": row.precision.share_error,
                **_simulated(row.simulated),
                "usual": row.usual,
                "suggested": row.suggested,
            }
            for row in rows
        ],
    }


def _simulated(scores: Simulated | None) -> dict[str, Any]:
    if scores is None:
        return dict.fromkeys(SIMULATED)
    values = (
        *(scores.problems, *astuple(scores.accuracy)),
        *(scores.majority, scores.beats_majority, dict(scores.by_difficulty)),
        *astuple(scores.auc),
    )
    return dict(zip(SIMULATED, values, strict=True))


def quote_table(request: Request, rows: Sequence[QuoteRow]) -> Table[QuoteRow]:
    """One line per epsilon and plan; the suggested plan of each epsilon in bold, and marked."""
    cells: dict[str, Callable[[QuoteRow], str]] = {
        "epsilon\n= cost": lambda row: f"{SUGGESTED} " * row.suggested + written(row.epsilon),
        "attributes\nchosen": lambda row: str(row.chosen or "none"),
        "split": lambda row: _split(row.split),
        "cells": lambda row: str(row.precision.cells),
        "noise\nscale": lambda row: written(row.precision.scale),
        "error:\ncount": lambda row: f"{row.precision.count_error:.1f}",
        "of a\nshare": lambda row: "-" if row.precision.share_error is None else f"{row.precision.share_error:.2f}",
    }
    if not any(row.chosen for row in rows):
        del cells["attributes\nchosen"]
    if all(row.queries == 1 for row in rows):
        del cells["split"]
    if rows[0].simulated is not None:
        simulated: dict[str, Callable[[Simulated], str]] = {
            "accuracy": lambda scores: _ranged(scores.accuracy.mean, scores.accuracy.low, scores.accuracy.high),
            "AUC": lambda scores: _ranged(scores.auc.mean, scores.auc.low, scores.auc.high),
            "AUC lost\nto noise": lambda scores: _ranged(
                scores.auc.loss, max(scores.auc.loss_low, 0.0), scores.auc.loss_high
            ),
            "beats\nmajority": lambda scores: f"{100 * scores.beats_majority:.0f} %",
        }
        cells |= {name: partial(_of_simulated, show) for name, show in simulated.items()}
    questions = "one question" if rows[0].queries == 1 else f"{rows[0].queries} questions"
    columns = [Column[QuoteRow](name, partial(_cell, show), number=True) for name, show in cells.items()]
    declared = "declared" if request.declared else ASSUMED
    note = (
        f"{len(request.source)} source records; {request.size} private ones ({declared}) "
        f"at {request.target.sites} site(s){_pooled(request)};\n"
        f"at most {request.target.most_records_per_unit} record(s) a unit\n{_explained(request, rows)}"
    )
    title = f"{request.title}: {request.strategy}, {questions}"
    return Table(title, columns, [Group(rows)], note=note, compact=True)


def _cell(show: Callable[[QuoteRow], str], row: QuoteRow) -> Cell:
    return Cell(show(row), strong=row.suggested)


def _of_simulated(show: Callable[[Simulated], str], row: QuoteRow) -> str:
    return "" if row.simulated is None else show(row.simulated)


def _pooled(request: Request) -> str:
    if request.target.pool is None:
        return ""
    sites, shares = request.target.sites, request.target.pool.shares
    return f",\nsummed securely: noise of {sites / shares:.3g} instead of {sites}"


def _ranged(mean: float, low: float, high: float) -> str:
    """A mean and its range, such as "0.81 .58-.97"."""
    ends = "-".join(f"{end:.2f}".removeprefix("0") if end < 1 else "1" for end in (low, high))
    return f"{mean:.2f} {ends}"


def _explained(request: Request, rows: Sequence[QuoteRow]) -> str:
    """A text on what the numbers mean, and what they cannot know."""
    scores = rows[0].simulated
    problem = replace(request.target, pooling=SUMMED, most_records_per_unit=1).problem(request.source, rows[0].epsilon)
    chosen = "".join(f"\n{line}" for line in many_attributes(problem, request.strategy, request.options))
    if scores is None:
        number = OF_A_NUMBER if request.source.schema.label_bounds is not None else ""
        return "cost and precision alone;\naccuracy is quoted for labels of two classes" + number + chosen
    belief = request.belief
    beliefs = [
        f"{name} {low:g}" + (f" to {high:g}" if high > low else "")
        for name, (low, high) in (
            (name, ends) for name, ends in (("prevalence", belief.prevalence), ("best AUC", belief.best_auc)) if ends
        )
    ]
    stated = f" with {' and '.join(beliefs)}" if beliefs else ""
    lines = [
        f"mean and 90 % range to reckon with, over {scores.problems} inventions of the labels{stated}",
        (
            f"mean accuracy, AUC: without noise {scores.accuracy.without_noise:.2f}, {scores.auc.without_noise:.2f}; "
            f"of perfect knowledge {scores.accuracy.best:.2f}, {scores.auc.best:.2f}"
        ),
    ]
    unknowns = [
        name
        for name, ends in (
            ("how common the label is (--prevalence)", belief.prevalence),
            ("how well any model could do (--best-auc)", belief.best_auc),
        )
        if ends is None
    ]
    if unknowns:
        lines.append(
            f"no source record tells {' or '.join(unknowns)};\nwhat is stated, from the literature, narrows the ranges"
        )
    lines.append(f"{SUGGESTED} suggested: the strategy's own plan unless another is clearly better")
    return "\n".join(lines) + chosen


def _split(shares: Sequence[Fraction]) -> str:
    """Shares of the questions: "1", "0.25 0.75", or "3 x 1/3" where they are equal."""
    if len(shares) > 1 and len(set(shares)) == 1:
        return f"{len(shares)} x {written(shares[0])}"
    return " ".join(map(written, shares))


def _option(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ConfigurationError(f"an option is written name=value, such as cells=40, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
