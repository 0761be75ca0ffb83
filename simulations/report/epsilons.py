"""Runs of a scenario at several epsilons as one document: result against epsilon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from expril.report.chart import Figure, Key, Series, line_chart, log_axis
from expril.report.document import (
    PAGE,
    PAPER,
    Answer,
    Block,
    Brief,
    Charts,
    Code,
    Document,
    Medium,
    Note,
    Notes,
    Section,
    Text,
)
from expril.report.numbers import count
from expril.report.table import Cell, Column, Group, Table
from learner_node.result.phrases import OTHERS, QUESTIONS, series, sure
from protocol.rationals import parse_rational
from simulations.report.brief import is_protected, most_spent, result_line, run_brief, short_score
from simulations.report.document import SEEDED
from simulations.report.model import Headline, MeasureName, RunReport, Score
from simulations.report.scores import Row, place_of, score_columns, score_rows, yardsticks
from simulations.report.view import View, noun_of
from simulations.report.words import WORDS, fold_notes, ranks, spent_parts

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_STARTS = (
    "At ", "For ", "It ", "Joining ", "No ", "Nothing ",
    "Of ", "One ", "Only ", "The ", "There ", "What ", "Whether ", "Worse ",
)  # fmt: skip
_BOTH: frozenset[Medium] = frozenset({"page", "terminal"})


@dataclass(frozen=True)
class EpsilonRun:
    """A scenario's run at one of several epsilons."""

    epsilon: str  # of every learner, as written
    folder: str  # name of the run's folder
    report: RunReport


def epsilon_document(runs: Sequence[EpsilonRun]) -> Document:
    """The document of at least one run, as a pure function of the runs."""
    first = runs[-1].report
    notes = list(dict.fromkeys(note for run in runs for note in run.report.notes))
    raised = [Note(note) for note in notes if note.startswith("For epsilon")]
    every = fold_notes(notes, [curator.name for curator in first.curators])
    keys = [Key(index, False, learner.learner) for index, learner in enumerate(first.learners)]
    bands = "Bands: ± 1 standard error over the repeats of each run."
    if first.repeats == 1:
        bands = "One repeat each, so there are no standard errors over repeats."
    drawn = figures(runs)
    note = (
        f"Pooled over all curators. {bands} Every epsilon is a run of its own: other keys, other ledgers, other noise, "
        "the same records at the same sites."
    )
    leading = Charts(drawn[:1], keys if len(keys) > 1 else (), columns=1, name=drawn[0].name)
    charts: Charts | None = Charts(drawn[1:], keys, columns=2, name=drawn[1].name) if drawn[1:] else None
    repeats = f"{count(first.repeats, 'repeat')} at each of {count(len(runs), 'epsilon')}, split alike."
    again: list[Block] = [Text(f"ExPriL {first.version}", "fine"), *(Code(run.report.command) for run in runs)]
    folders = Text("Each run's folder has a page of its own, and is verified by itself.", "fine")
    return Document(
        kind="ExPriL simulations",
        subject=first.title,
        headline=headline(runs),
        sections=[
            Section("", [_brief(runs, leading)], PAPER),
            Section("", [Notes(raised) if raised else None], PAGE),
            Section("Result against epsilon", [charts, Text(note, "fine"), Text(repeats, "fine")], PAGE),
            Section("All epsilons", [_results(runs), folders], _BOTH),
            Section("Run it again", again, PAGE),
            Section("", [Notes(every) if every else None], frozenset({"terminal"})),
        ],
        created=first.created,
        about=first.description,
        banner=("Not private.", SEEDED) if first.seeded_noise else None,
    )


def headline(runs: Sequence[EpsilonRun]) -> str:
    """The best learner's score at the smallest and at the largest epsilon, in one line."""
    first, last = (_lowered(result_line(View.of(run.report))) for run in (runs[0], runs[-1]))
    line = f"At epsilon {runs[0].epsilon} {first}"
    return line if len(runs) == 1 else f"{line}; at {runs[-1].epsilon} {last.replace('the model', 'it', 1)}"


def _brief(runs: Sequence[EpsilonRun], figure: Charts) -> Brief:
    """The five answers over all epsilons: first those of the largest, then what differs."""
    answers = {run.epsilon: run_brief(run.report).answers for run in runs}
    what, worth, _, privacy, _ = answers[runs[-1].epsilon]
    epsilons = series([run.epsilon for run in runs])
    ends = list(dict.fromkeys((runs[0].epsilon, runs[-1].epsilon)))
    again = f"It was asked anew with a privacy loss (epsilon) of {epsilons}: the smaller, the more private."

    def by_epsilon(number: int, chosen: Sequence[str]) -> list[str]:
        return [f"At {epsilon}: {_lowered(answers[epsilon][number].answer)}" for epsilon in chosen]

    first, *_ = by_epsilon(1, [runs[0].epsilon])
    more = [f"At {run.epsilon}: {short_score(View.of(run.report))}." for run in runs[1:]]
    wrong, *later = by_epsilon(2, ends)
    joining, *joined = by_epsilon(4, [run.epsilon for run in runs])
    apart = "What it cost and what is left is said on each run’s own page."
    return Brief(
        [
            replace(what, more=[again, *what.more]),
            replace(worth, answer=first, more=[*more, *summary(runs)]),
            Answer(QUESTIONS[2], wrong, later),
            replace(privacy, **_certainties(runs, privacy)),
            Answer(QUESTIONS[4], joining, [*joined, apart]),
        ],
        [figure],
    )


def _lowered(sentence: str) -> str:
    """A sentence after a colon; a name or a quotation keeps its capital."""
    return sentence[0].lower() + sentence[1:] if sentence.startswith(_STARTS) else sentence


def _certainties(runs: Sequence[EpsilonRun], privacy: Answer) -> dict[str, Any]:
    """How sure anybody can be at each epsilon, in place of the largest's; nothing if that protects nothing."""
    if not all(is_protected(run.report) and most_spent(run.report) for run in runs):
        return {}
    noun = noun_of(runs[-1].report)
    bounds = series([f"{sure(most_spent(run.report))} sure with {run.epsilon}" for run in runs])
    who = f"a particular {noun.person_or_record} is among a hospital’s {noun.plural}"
    answer = f"Somebody who was 50 % sure that {who} can then be at most {bounds}, whatever else they know."
    others = series([f"{sure(2 * most_spent(run.report))} sure with {run.epsilon}" for run in runs])
    more = (
        "Somebody who knew it already, and was 50 % sure of anything else about that patient, can be at most "
        f"{others}. {OTHERS}"
    )
    return {"answer": answer, "more": [more, noun.protected or "It covers one record.", *privacy.more[3:]]}


def summary(runs: Sequence[EpsilonRun]) -> tuple[str, ...]:
    """Sentences on the smallest useful epsilon."""
    report = runs[-1].report
    words = WORDS[report.measure]
    claims: list[tuple[str, Callable[[Score], bool]]] = [(f"its {words.score} beats {words.constant_named}", _beats)]
    if report.ranks:
        claims.insert(0, ("a learner ranks records better than chance", ranks))
    sentences = []
    for claim, holds in claims:
        least = _least(runs, holds)
        where = "At no epsilon is it shown that" if least is None else f"From epsilon {least} on,"
        sentences.append(f"{where} {claim} by two standard errors.")
    return tuple(sentences)


def figures(runs: Sequence[EpsilonRun]) -> list[Figure]:
    """Charts of scores against epsilon, the leading score first: a line per learner, two levels to compare with."""
    measures: list[MeasureName] = [runs[-1].report.measure]
    if any(run.report.ranks for run in runs):
        measures.append("AUC")
    if _lead(runs) == "AUC":
        measures.reverse()
    return [_figure(runs, measure) for measure in measures]


def _figure(runs: Sequence[EpsilonRun], measure: MeasureName) -> Figure:
    values = [float(parse_rational(run.epsilon)) for run in runs]
    series = []
    for index, learner in enumerate(runs[-1].report.learners):
        scores = [
            (value, run.epsilon, account.pooled.headline(measure))
            for value, run in zip(values, runs, strict=True)
            for account in run.report.learners
            if account.learner == learner.learner
        ]
        places = [
            place_of(value, score, f" at epsilon {epsilon}")
            for value, epsilon, score in scores
            if score.value is not None
        ]
        series.append(Series(Key(index, False, learner.learner), places, pinched=True))
    pooled = [learner.pooled.headline(measure) for run in runs for learner in run.report.learners]
    constants, regressions = (
        [value for value in column if value is not None]
        for column in zip(*((score.constant, score.regression) for score in pooled), strict=True)
    )
    mean = Headline(
        None, None, sum(constants) / len(constants), sum(regressions) / len(regressions) if regressions else None
    )
    words, epsilons = WORDS[measure], [run.epsilon for run in runs]
    axis, levels = log_axis(values, epsilons, left=13.0), yardsticks(words, [mean])
    title = f"{words.score_title} against epsilon"
    return line_chart(title, series, axis, _STEPS, levels=levels, height=340, across="epsilon, logarithmic")


def _results(runs: Sequence[EpsilonRun]) -> Table[Row]:
    """A table by epsilon and learner, over all sites: scores, estimates and spending."""
    report = runs[-1].report
    folders = {run.epsilon: run.folder for run in runs}
    constant = WORDS[report.measure].constant
    brier, measure = "Brier\n(regression)", f"{report.measure} ± se"
    short = {measure, "expected", constant, "regression", "AUC ± se", "AUC\nexpected", brier}
    scores = [column for column in score_columns(report)[1] if column.heading in short]
    columns: list[Column[Row]] = [
        Column("epsilon", lambda row: "" if row.index else row.rank, names=True),
        Column("learner", lambda row: Cell(row.learner.learner, key=row.key)),
        *(replace(column, page=column.heading == brier) for column in scores),
        Column("epsilon\nspent", lambda row: spent_parts(row.learner), number=True, page=True),
        Column("run", lambda row: "" if row.index else folders[row.rank], page=True),
    ]
    groups = [Group([replace(row, rank=run.epsilon) for row, *_ in score_rows(run.report)]) for run in runs]
    title = f"{report.title}: {count(report.repeats, 'repeat')} at each epsilon"
    note = "Expected: by the learner, from the noisy answers alone, with a 95 % interval; all else by the harness."
    return Table(title, columns, groups, note=note)


def _lead(runs: Sequence[EpsilonRun]) -> MeasureName:
    return "AUC" if any(run.report.lead == "AUC" for run in runs) else runs[-1].report.measure


def _beats(score: Score) -> bool:
    return score.value is not None and score.value - 2 * (score.value_se or 0.0) > score.constant


def _least(runs: Sequence[EpsilonRun], holds: Callable[[Score], bool]) -> str | None:
    """The smallest epsilon from which on `holds` is true of some learner in every run."""
    least = None
    for run in reversed(runs):
        if not any(holds(learner.pooled) for learner in run.report.learners):
            break
        least = run.epsilon
    return least
