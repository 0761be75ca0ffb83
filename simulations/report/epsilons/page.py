"""The page of several epsilons: two figures, result against epsilon, and a table. As a run's page it loads nothing."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from expril.report.chart import Axis, Figure, Key, Place, Rule, Stage, Tick, make_axis
from expril.report.numbers import count
from expril.report.templates import Template, page_template, style
from protocol.rationals import parse_rational
from simulations.report.epsilons.model import EpsilonRun
from simulations.report.lead import by_ranking
from simulations.report.model import RunReport, Score
from simulations.report.plots import interval
from simulations.report.words import WORDS, plain, ranks, spent_parts

PACKAGE = "simulations.report.epsilons"
_HEIGHT, _BELOW = 340, 18
_LEFT, _RIGHT = 13.0, 94.0
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@cache
def _template() -> Template:
    return page_template(PACKAGE, {"plain": plain, "spent_parts": spent_parts})


def build_epsilon_page(runs: Sequence[EpsilonRun]) -> str:
    """Return the page of at least one run; the same runs give the same text, and every string is shown as text."""
    first = runs[-1].report
    learners = [learner.learner for learner in first.learners]
    return _template().render(
        first=first,
        runs=runs,
        headline=headline(runs),
        summary=summary(runs),
        figures=figures(runs),
        keys=[Key(index, False, name) for index, name in enumerate(learners)],
        learners=learners,
        words=WORDS[first.measure],
        reports=[run.report for run in runs],
        notes=list(dict.fromkeys(note for run in runs for note in run.report.notes if note.startswith("For epsilon"))),
        style=style("simulations.report", PACKAGE),
    )


def write_epsilon_page(runs: Sequence[EpsilonRun], path: Path) -> None:
    """Write the page to a file (UTF-8)."""
    path.write_text(build_epsilon_page(runs), encoding="utf-8", newline="\n")


def headline(runs: Sequence[EpsilonRun]) -> str:
    """Return the answer in one line: the best learner's score at the smallest and at the largest epsilon."""
    shown = [(run.epsilon, _led(run.report, runs)) for run in runs]
    name = WORDS[_lead(runs)].score
    ends = []
    for epsilon, report in (shown[0], shown[-1]):
        scores = [learner.pooled.accuracy for learner in report.learners if learner.pooled.accuracy is not None]
        ends.append(f"{max(scores):.3f} at epsilon {epsilon}" if scores else f"nothing at epsilon {epsilon}")
    return f"Pooled {name} {', '.join(dict.fromkeys(ends))}"


def summary(runs: Sequence[EpsilonRun]) -> tuple[str, ...]:
    """Return the sentences under the headline: from which epsilon on it is worth asking."""
    sentences = []
    report = runs[-1].report
    if report.ranks:
        least = _least(runs, ranks)
        sentences.append(
            "At no epsilon does a learner rank records better than chance by two standard errors."
            if least is None
            else f"From epsilon {least} on, a learner ranks records better than chance by two standard errors."
        )
    least = _least(runs, _beats)
    words = WORDS[report.measure]
    sentences.append(
        f"At no epsilon does its {words.score} beat {words.constant_named} by two standard errors."
        if least is None
        else f"From epsilon {least} on, its {words.score} beats {words.constant_named} by two standard errors."
    )
    sentences.append(f"{count(report.repeats, 'repeat')} at each of {count(len(runs), 'epsilon')}, split alike.")
    return tuple(sentences)


def figures(runs: Sequence[EpsilonRun]) -> tuple[Figure, ...]:
    """Return the score that leads against epsilon, then the other; a line a learner, the yardsticks as rules."""
    reports = [run.report for run in runs]
    drawn = [(WORDS[reports[0].measure].score_title, reports, WORDS[reports[0].measure].constant)]
    if any(report.ranks for report in reports):
        drawn.append(("AUC", [by_ranking(report) for report in reports], "chance"))
    if _lead(runs) == "AUC":
        drawn.reverse()
    epsilons = [run.epsilon for run in runs]
    return tuple(_figure(name, epsilons, shown, constant) for name, shown, constant in drawn)


def _figure(name: str, epsilons: Sequence[str], reports: Sequence[RunReport], constant: str) -> Figure:
    logs = [math.log(parse_rational(epsilon)) for epsilon in epsilons]
    across = Axis(logs[0], max(logs[-1], logs[0] + 1e-9), (), _LEFT, _RIGHT)
    lines: dict[str, list[Place]] = {}
    for log, epsilon, report in zip(logs, epsilons, reports, strict=True):
        for learner in report.learners:
            score = learner.pooled
            if score.accuracy is not None:
                told = f"{plain(score)} at epsilon {epsilon}"
                place = Place(across.place(log), score.accuracy, interval(score.accuracy, score.accuracy_se), told)
                lines.setdefault(learner.learner, []).append(place)
    pooled = [learner.pooled for report in reports for learner in report.learners]
    marks = {
        "majority": (constant, _mean(score.majority for score in pooled)),
        "ceiling": ("ceiling", _mean(score.ceiling for score in pooled if score.ceiling is not None)),
    }
    values = [end for places in lines.values() for place in places for end in place.error]
    values += [value for _, value in marks.values() if value is not None] or [0.0, 1.0]
    stage = Stage(make_axis(min(values), max(values), _STEPS), _HEIGHT)
    names = [learner.learner for learner in reports[-1].learners]
    return Figure(
        stage,
        name,
        tuple(Tick(epsilon, across.at(log)) for epsilon, log in zip(epsilons, logs, strict=True)),
        tuple(stage.line(names.index(title), False, title, places) for title, places in lines.items()),
        " ".join(f"{title}: {'; '.join(place.text for place in places)}." for title, places in lines.items()),
        below=_BELOW,
        rules=tuple(
            Rule(kind, stage.y(value), f"{title} {value:.3f}")
            for kind, (title, value) in marks.items()
            if value is not None
        ),
    )


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _lead(runs: Sequence[EpsilonRun]) -> str:
    return "AUC" if any(run.report.lead == "AUC" for run in runs) else runs[-1].report.measure


def _led(report: RunReport, runs: Sequence[EpsilonRun]) -> RunReport:
    return by_ranking(report) if _lead(runs) == "AUC" else report


def _beats(score: Score) -> bool:
    return score.accuracy is not None and score.accuracy - 2 * (score.accuracy_se or 0.0) > score.majority


def _least(runs: Sequence[EpsilonRun], holds: Callable[[Score], bool]) -> str | None:
    """The smallest epsilon from which on the best learner of every run holds what is asked."""
    least = None
    for run in reversed(runs):
        if not any(holds(learner.pooled) for learner in run.report.learners):
            break
        least = run.epsilon
    return least
