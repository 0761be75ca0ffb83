"""Tables for the terminal. They keep their columns whatever the terminal's width; a narrow one wraps lines itself."""

from collections.abc import Mapping

from rich import box
from rich.markup import escape
from rich.table import Table

from simulations.report.folding import few_of
from simulations.report.model import RunReport, Score
from simulations.scenario import Scenario

YARDSTICKS = {"accuracy": ("majority", "logistic regression"), "R²": ("mean", "ridge regression")}
"""What is scored -> what the best constant is called, and the model of the ceiling."""


def result_table(report: RunReport) -> Table:
    """For each learner and site: accuracy, what was expected, majority, ceiling, epsilon claimed and spent."""
    plural = "s" if report.repeats > 1 else ""
    seeded = "; NOISE FROM A SEED, NOT PRIVATE" if report.seeded_noise else ""
    constant, model = YARDSTICKS[report.measure]
    told = "expected: by the learner, from the noisy answers alone, with a 95 % interval\n" if report.expects else ""
    table = Table(
        title=f"{escape(report.title)}: {report.repeats} repeat{plural}{seeded}",
        caption=(
            f"{constant}, ceiling ({model} without privacy): by the harness, which owns all records\n"
            f"{told}"
            "epsilon spent: the most at any one curator"
        ),
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("site", no_wrap=True)
    further = [f"{report.further}\n(ceiling)"] if report.further else []
    expected = ["expected"] if report.expects else []
    for name in (
        f"{report.measure} ± se",
        *expected,
        constant,
        "ceiling",
        *further,
        "epsilon\nclaimed",
        "epsilon\nspent",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for learner in report.learners:
        budget = (learner.epsilon_claimed, learner.epsilon_spent)
        title = f"{escape(learner.learner)} ({learner.strategy})"
        table.add_row(title, "all", *_cells(learner.pooled, report), *budget, style="bold")
        unused = {item.curator for item in learner.rounds_answered if any(what != "release" for what in item.outcomes)}
        for rank, site in few_of(learner.sites):
            name = f"{escape(site.curator)}{' *' if site.curator in unused else ''}"
            table.add_row(rank, name, *_cells(site, report), "", "")
        table.add_section()
    if any(answer != "release" for item in report.learners for a in item.rounds_answered for answer in a.outcomes):
        table.caption = (
            f"{table.caption}\n* did not answer everything, or was left out; its answers are not in the model"
        )
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


def _cells(score: Score, report: RunReport) -> tuple[str, ...]:
    accuracy = _share(score.accuracy)
    if score.accuracy_se is not None:
        accuracy += f" ± {score.accuracy_se:.3f}"
    told: tuple[str, ...] = ("-",) if report.expects else ()
    if score.expected is not None:
        told = (f"{score.expected.accuracy:.3f}\n{score.expected.low:.2f}-{score.expected.high:.2f}",)
    second = (f"{_number(score.further)} ({_number(score.further_ceiling)})",) if report.further else ()
    return (accuracy, *told, _share(score.majority), _share(score.ceiling), *second)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
