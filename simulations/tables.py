"""Tables for the terminal."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from simulations.report import RunReport, Score
from simulations.scenario import Scenario


def result_table(report: RunReport) -> Table:
    """For each learner and site: accuracy, majority, ceiling, epsilon claimed and spent."""
    plural = "s" if report.repeats > 1 else ""
    seeded = "; NOISE FROM A SEED, NOT PRIVATE" if report.seeded_noise else ""
    table = Table(
        title=f"{escape(report.title)}: {report.repeats} repeat{plural}{seeded}",
        caption="majority, ceiling (logistic regression, no privacy): by the harness, which owns all records",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", overflow="fold")
    table.add_column("site", overflow="fold")
    for name in ("accuracy ± se", "majority", "ceiling", "epsilon\nclaimed", "epsilon\nspent"):
        table.add_column(name, justify="right", no_wrap=True)
    for learner in report.learners:
        budget = (learner.epsilon_claimed, learner.epsilon_spent)
        title = f"{escape(learner.learner)}\n{learner.strategy}"
        table.add_row(title, "all", *_cells(learner.pooled), *budget, style="bold")
        for site in learner.sites:
            table.add_row("", escape(site.curator), *_cells(site), "", "")
        table.add_section()
    return table


def scenario_table(scenarios: Mapping[str, Scenario]) -> Table:
    """Name, learners and description of each scenario."""
    table = Table()
    table.add_column("scenario", no_wrap=True)
    table.add_column("learners")
    table.add_column("what it is")
    for name, scenario in scenarios.items():
        learners = ", ".join(f"{learner.strategy} at {learner.epsilon}" for learner in scenario.learners)
        table.add_row(name, learners, " ".join(scenario.description.split()))
    return table


def proof_table(rows: Sequence[Mapping[str, str | int]]) -> Table:
    """What each transcript proves."""
    table = Table(box=box.SIMPLE_HEAD)
    names = ("repeat", "learner", "curator", "verdict", "claimed", "spent", "releases", "study")
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(escape(str(row.get(name, ""))) for name in names))
    return table


def _cells(score: Score) -> tuple[str, str, str]:
    accuracy = _share(score.accuracy)
    if score.accuracy_se is not None:
        accuracy += f" ± {score.accuracy_se:.3f}"
    return (accuracy, _share(score.majority), _share(score.ceiling))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
