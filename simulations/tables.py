"""Tables for the terminal. They keep their columns whatever the terminal's width; a narrow one wraps lines itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from learner_node.pooling import SECURE
from protocol.rationals import written
from simulations.report.folding import FEW, few_of
from simulations.report.lead import led
from simulations.report.model import RunReport, Score
from simulations.report.rows import share_rows
from simulations.report.validated import Recalibrated, Told
from simulations.report.words import private_records, spent_parts
from simulations.scenario import Scenario

YARDSTICKS = {"accuracy": ("majority", "logistic regression"), "R²": ("mean", "ridge regression")}
"""What is scored -> what the best constant is called, and the model of the ceiling."""


def result_table(report: RunReport) -> Table:
    """For each learner and site: the score that leads, what was expected, yardsticks, the second score, epsilons."""
    plural = "s" if report.repeats > 1 else ""
    seeded = "; NOISE FROM A SEED, NOT PRIVATE" if report.seeded_noise else ""
    columns = _columns(report)
    table = Table(
        title=f"{escape(report.title)}: {report.repeats} repeat{plural}{seeded}",
        caption="\n".join(_captions(report)),
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("site", no_wrap=True)
    for name in (*columns, "epsilon\nclaimed", "epsilon\nspent"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner, shown in zip(report.learners, led(report).learners, strict=True):
        budget = (written(learner.epsilon_claimed), written(learner.epsilon_spent))
        title = f"{escape(learner.learner)} ({learner.strategy})"
        table.add_row(title, "all", *(show(learner.pooled) for show in columns.values()), *budget, style="bold")
        unused = {item.curator for item in learner.rounds_answered if any(what != "release" for what in item.outcomes)}
        stored = {site.curator: site for site in learner.sites}
        for rank, site in few_of(shown.sites):
            name = f"{escape(site.curator)}{' *' if site.curator in unused else ''}"
            table.add_row(rank, name, *(show(stored[site.curator]) for show in columns.values()), "", "")
        table.add_section()
    return table


def run_tables(report: RunReport) -> list[Table]:
    """All tables of a run."""
    further = (threshold_table, error_table, recall_table, share_table, validation_table)
    return [result_table(report), *(table for make in further if (table := make(report)) is not None)]


def validation_table(report: RunReport) -> Table | None:
    """What second studies told of the models, beside the exact figures; None where there were none."""
    validated = [(learner, learner.validation) for learner in report.learners if learner.validation is not None]
    if not validated:
        return None
    table = Table(
        title="validated by the curators: their answers, with 95 % intervals, and the exact figures",
        box=box.SIMPLE_HEAD,
    )
    lines = [
        "exact: of the private records of the first repeat, by the harness, which owns all records",
        "held: repeats whose interval of the AUC holds the exact one",
    ]
    table.add_column("learner", no_wrap=True)
    table.add_column("site", no_wrap=True)
    for name in ("AUC", "exact", "held", f"share of\n“{escape(report.positive)}”", "exact", "epsilon"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner, told in validated:
        whole = (_told(told.area), _exact(told.area), told.held, _told(told.prevalence), _exact(told.prevalence))
        table.add_row(escape(learner.learner), "all", *whole, written(told.epsilon_claimed), style="bold")
        if len(told.sites) > 1:
            for site in told.sites[:FEW]:
                own = (_told(site.area), _exact(site.area), "", _told(site.prevalence), _exact(site.prevalence))
                table.add_row("", escape(site.curator), *own, "")
            if len(told.sites) > FEW:
                table.add_row("", f"and {len(told.sites) - FEW} more, see the report", *[""] * 6)
        if told.recalibrated is not None:
            fitted = told.recalibrated
            said = ", ".join(
                f"{name} {value:.2f} ({low:.2f} to {high:.2f})"
                for name, (value, low, high) in (("intercept", fitted.intercept), ("slope", fitted.slope))
            )
            lines.append(
                f"{escape(learner.learner)}, recalibration fitted to the first repeat's answers: {said}; "
                f"{_verdict(fitted)}"
            )
        table.add_section()
    table.caption = "\n".join(lines)
    return table


def _verdict(fitted: Recalibrated) -> str:
    factor = f"(Bayes factor of the change {fitted.factor:.2g})"
    if not fitted.on:
        return f"off: the answers favour the risks as they are {factor}"
    on = f"on: the answers favour the change {factor}"
    return on if fitted.brier is None else f"{on}; Brier {fitted.brier:.4f}, not {fitted.brier_raw:.4f}, by the harness"


def _told(one: Told) -> str:
    return f"{one.value:.3f} ({one.low:.2f}-{one.high:.2f})"


def _exact(one: Told) -> str:
    return _number(one.exact)


def epsilon_table(epsilons: Sequence[str], reports: Sequence[RunReport]) -> Table:
    """Result against epsilon: for each epsilon and learner, over all sites, the scores and what was expected."""
    first = reports[-1]
    constant, _ = YARDSTICKS[first.measure]
    table = Table(
        title=f"{escape(first.title)}: {first.repeats} repeat{'s' if first.repeats > 1 else ''} at each epsilon",
        caption="expected: by the learner, from the noisy answers alone, with a 95 % interval; all else by the harness",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("epsilon", no_wrap=True)
    table.add_column("learner", no_wrap=True)
    second = ["AUC ± se", "expected"] if first.ranks else []
    for name in (f"{first.measure} ± se", "expected", f"{constant}\n(ceiling)", *second):
        table.add_column(name, justify="right", no_wrap=True)
    for epsilon, report in zip(epsilons, reports, strict=True):
        for number, learner in enumerate(report.learners):
            score = learner.pooled
            ranking = [_with_error(score.auc, score.auc_se), _expected(score, "auc")] if first.ranks else []
            table.add_row(
                "" if number else epsilon,
                escape(learner.learner),
                _with_error(score.accuracy, score.accuracy_se),
                _expected(score, "accuracy"),
                f"{_number(score.majority)} ({_number(score.ceiling)})",
                *ranking,
            )
        table.add_section()
    return table


def threshold_table(report: RunReport) -> Table | None:
    """What each threshold does for each learner, over all sites; None where there are not two classes."""
    learners = [learner for learner in report.learners if learner.pooled.operating_points]
    if not learners:
        return None
    told = [
        f"{escape(x.learner)}: average precision {_number(x.pooled.average_precision)} "
        f"(ceiling {_number(x.pooled.average_precision_ceiling)}), "
        f"Brier {_number(x.pooled.brier)} (ceiling {_number(x.pooled.brier_ceiling)})"
        for x in learners
    ]
    table = Table(
        title=f"flag a record as “{escape(report.positive)}” where its probability is ...",
        caption="\n".join(("shares of the test records of all sites, by the harness", _frequency(report), *told)),
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("threshold", no_wrap=True)
    for name in ("probability", "flagged", "sensitivity", "specificity", "PPV", "NPV"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner in learners:
        for number, point in enumerate(learner.pooled.operating_points):
            shares = (point.flagged, point.sensitivity, point.specificity, point.ppv, point.npv)
            name = "" if number else escape(learner.learner)
            table.add_row(name, point.rule, f"{point.threshold:.3f}", *map(_number, shares))
        table.add_section()
    return table


def scenario_table(scenarios: Mapping[str, Scenario]) -> Table:
    """Name, learners and description of each scenario, the default first."""
    table = Table(box=box.SIMPLE_HEAD, caption="print one: expril scenarios NAME; all keys: docs/scenarios.md")
    table.add_column("scenario", no_wrap=True)
    table.add_column("learners")
    table.add_column("what it is", ratio=1)
    for name, scenario in sorted(scenarios.items(), key=lambda item: (item[0] != "wdbc", item[0])):
        learners = "\n".join(f"{learner.strategy} at {learner.epsilon}" for learner in scenario.learners)
        table.add_row(name, learners, " ".join(scenario.description.split()))
        table.add_section()
    return table


def _columns(report: RunReport) -> dict[str, Callable[[Score], str]]:
    """Heading -> what a row shows, from the score that leads on."""
    constant, _ = YARDSTICKS[report.measure]
    if report.lead == "AUC":
        expected = {"expected": lambda score: _expected(score, "auc")} if report.expects else {}
        return {
            "AUC ± se": lambda score: _with_error(score.auc, score.auc_se),
            **expected,
            "AUC of\nceiling": lambda score: _number(score.auc_ceiling),
            "accuracy": lambda score: _number(score.accuracy),
            constant: lambda score: _number(score.majority),
        }
    expected = {"expected": lambda score: _expected(score, "accuracy")} if report.expects else {}
    columns: dict[str, Callable[[Score], str]] = {
        f"{report.measure} ± se": lambda score: _with_error(score.accuracy, score.accuracy_se),
        **expected,
        constant: lambda score: _number(score.majority),
        "ceiling": lambda score: _number(score.ceiling),
    }
    if report.further:
        columns[f"{report.further}\n(ceiling)"] = lambda score: (
            f"{_number(score.further)} ({_number(score.further_ceiling)})"
        )
    elif report.ranks:
        columns["AUC\n(ceiling)"] = lambda score: f"{_number(score.auc)} ({_number(score.auc_ceiling)})"
    return columns


def _captions(report: RunReport) -> list[str]:
    constant, model = YARDSTICKS[report.measure]
    lines = [f"{constant}, ceiling ({model} without privacy): by the harness, which owns all records"]
    if report.lead == "AUC":
        lines.insert(0, f"{_frequency(report)}: AUC leads; chance has 0.500")
    if report.expects:
        about = " about its errors" if report.measure == "R²" else " alone"
        lines.append(f"expected: by the learner, from the noisy answers{about}, with a 95 % interval")
    lines.append("epsilon spent: the most at any one curator")
    lines += [
        f"{escape(item.learner)} spent epsilon {spent_parts(item)}" for item in report.learners if len(item.studies) > 1
    ]
    summed = [item.learner for item in report.learners if item.pooling == SECURE]
    if summed:
        names = escape(", ".join(summed))
        lines.append(
            f"{names}: spent on secure sums, so it holds unless more curators collude with the learner than its plan "
            "assumes, or the cryptography is broken"
        )
    if any(answer != "release" for item in report.learners for a in item.rounds_answered for answer in a.outcomes):
        but = ", but for sums that were opened before" if summed else ""
        lines.append(f"* did not answer everything, or was left out; its answers are not in the model{but}")
    return lines


def _frequency(report: RunReport) -> str:
    return f"“{escape(report.positive)}” are {_number(report.prevalence)} of the test records"


def _expected(score: Score, name: Literal["accuracy", "auc", "absolute"]) -> str:
    told = score.expected
    if told is None:
        return "-"
    middle, low, high = {
        "accuracy": (told.accuracy, told.low, told.high),
        "auc": (told.auc, told.auc_low, told.auc_high),
        "absolute": (told.absolute, told.absolute_low, told.absolute_high),
    }[name]
    if middle is None:
        return "-"
    between = "-" if (low or 0.0) >= 0.0 else " to "
    return f"{_number(middle)}\n{low:.2f}{between}{high:.2f}"


def error_table(report: RunReport) -> Table | None:
    """Of a number, each learner's mean absolute error over all sites; None where the label has classes."""
    if report.measure != "R²":
        return None
    unasked = any(_expected(learner.pooled, "absolute") == "-" for learner in report.learners)
    why = "\n-: did not ask for its errors; of few records the answer would tell little" if unasked else ""
    table = Table(
        title="mean absolute error, in units of the label",
        caption="on the test records of all sites, by the harness; expected: by the learner, with a 95 % interval"
        + why,
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    for name in ("error", "expected", "ceiling"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner in report.learners:
        score = learner.pooled
        expected = _expected(score, "absolute").replace("\n", " (") + (")" if score.expected else "")
        table.add_row(escape(learner.learner), _number(score.absolute), expected, _number(score.absolute_ceiling))
    return table


def recall_table(report: RunReport) -> Table | None:
    """Of several classes, each one's recall, over all sites; None where there are not more than two."""
    learners = [learner for learner in report.learners if learner.pooled.recalls]
    if not learners:
        return None
    table = Table(
        title="recall: of the records of a class, the share that is called so",
        caption="recall, ceiling: on the test records of all sites, by the harness\n"
        "expected: by the learner, from the noisy answers alone, with a 95 % interval",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("class", no_wrap=True)
    for name in ("recall", "expected", "ceiling"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner in learners:
        for place, own in enumerate(learner.pooled.recalls[:FEW]):
            told = "-" if own.expected is None else f"{own.expected:.3f} ({own.low:.2f}-{own.high:.2f})"
            name = "" if place else escape(learner.learner)
            table.add_row(name, escape(own.name), _number(own.recall), told, _number(own.ceiling))
        if len(learner.pooled.recalls) > FEW:
            table.add_row("", f"and {len(learner.pooled.recalls) - FEW} more, see the report", "", "", "")
        table.add_section()
    return table


def share_table(report: RunReport) -> Table | None:
    """How common classes are among the private records, told and exact; None where no learner's answers tell it."""
    told = [(learner, rows) for learner in report.learners if (rows := share_rows(learner))]
    if not told:
        return None
    table = Table(
        title=f"how common a class is among {private_records(report)}",
        caption="told: by the answers' totals, with a 95 % interval\n"
        "exact: of these records, by the harness\n"
        "held: repeats whose interval holds the exact share",
        box=box.SIMPLE_HEAD,
    )
    sites = ["site"] if any(site for _, rows in told for site, _ in rows) else []
    for name in ("learner", *sites, "class"):
        table.add_column(name, no_wrap=True)
    for name in ("told", "exact", "held"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner, rows in told:
        for place, (site, own) in enumerate(rows[:FEW]):
            name = "" if place else escape(learner.learner)
            shown = f"{own.expected:.3f} ({own.low:.2f}-{own.high:.2f})"
            where = [escape(site) or "all"] if sites else []
            table.add_row(name, *where, escape(own.name), shown, _number(own.share), own.held)
        if len(rows) > FEW:
            table.add_row("", f"and {len(rows) - FEW} more, see the report")
        table.add_section()
    return table


def _with_error(value: float | None, error: float | None) -> str:
    return _number(value) if error is None else f"{_number(value)} ± {error:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
