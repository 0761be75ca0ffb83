"""What `expril simulate` does once a scenario is chosen: one run, or one at each of several epsilons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from threadpoolctl import threadpool_limits

from learner_node.study import NoCuratorError
from protocol.run_index import LEDGERS
from simulations.again import Chosen, keep_origin
from simulations.carriers import PROCESS
from simulations.epsilon_runs import epsilon_folder
from simulations.epsilons import FORMAT, EpsilonList, done, find_or_make_folder, settle
from simulations.harness import Tick
from simulations.records import Records
from simulations.report.folding import some_of
from simulations.report.model import RunReport
from simulations.run import run_scenario, summary
from simulations.run_folder import save_run
from simulations.run_page import read_runs, rewrite_page
from simulations.unfinished import Order, Unfinished, leftovers

Say = Callable[[str, str], None]
"""(kind, text): tells the user something."""


@dataclass(frozen=True)
class Asked:
    """What is to be run.

    Attributes:
        chosen, records: what.
        command: as typed.
        models: of which repeats models are kept, see `simulations.unfinished`.
        fresh: begin anew although an interrupted run could go on.
        carrier: key of `simulations.carriers.CARRIERS`.
        again: the command with all folders, for whoever goes on with an interrupted run; it is in no report.
    """

    chosen: Chosen
    records: Records
    command: str
    models: str
    fresh: bool = False
    again: str = ""
    carrier: str = PROCESS

    @property
    def order(self) -> Order:
        """As an unfinished run knows it."""
        chosen, command = self.chosen, self.again or self.command
        return Order(chosen.scenario, self.records, chosen.text, command, version("expril"), self.models, self.carrier)


def run_one(asked: Asked, out: Path, making: list[Unfinished], tick: Tick, say: Say) -> tuple[RunReport, Path]:
    """Run a scenario in a folder of its own, or go on with one that was interrupted.

    Args:
        asked: what.
        out: under which the folder is made.
        making: the folder in the making is added, for whoever must say what an interrupt leaves.
        tick: called with (what, done, total) as work proceeds.
        say: called with what the user must know.

    Returns:
        Its report and its folder.
    """
    # Several BLAS threads on matrices this small cost more than they give.
    with Unfinished(out, asked.order, fresh=asked.fresh) as folder, threadpool_limits(1):
        making.append(folder)
        if folder.gathered.done:
            say("note", f"going on after {folder.gathered.done} repeats that are done in {folder.path}")
        for left in leftovers(out, folder.path):
            say("note", str(left))
        keep_origin(folder.path, asked.chosen, asked.carrier)
        run = run_scenario(
            asked.chosen.scenario,
            asked.records,
            text=asked.chosen.text,
            command=asked.command,
            version=asked.order.version,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            ledgers=folder.path / LEDGERS,
            carrier=asked.carrier,
            tick=tick,
            gathered=folder.gathered,
            keep=folder.keep,
        )
        run.report = msgspec.structs.replace(run.report, notes=(*asked.chosen.notes, *run.report.notes))
        tick("writing the report", 0, 0)
        save_run(run, folder.path)
        tick("writing the report", 1, 1)
    return run.report, folder.path


def run_epsilons(
    asked: Asked, epsilons: tuple[str, ...], out: Path, run_at: Callable[[str, Path], tuple[RunReport, Path]], say: Say
) -> tuple[list[RunReport], Path]:
    """A run at each epsilon in one folder, or those that an interrupted command left undone; and their page.

    Args:
        asked: the scenario as it is without them.
        epsilons: in rising order.
        out: under which the folder is made.
        run_at: runs it at an epsilon, under a folder.
        say: called with what the user must know.

    Returns:
        The reports in the order of the epsilons, and the folder of all.
    """
    order = asked.order
    wanted = EpsilonList(FORMAT, asked.command, order.fingerprint, epsilons)
    folder = find_or_make_folder(out, asked.chosen.scenario.title, wanted, fresh=asked.fresh)
    for epsilon in epsilons:
        if done(folder, epsilon):
            say("note", f"going on: epsilon {epsilon} is done in {folder}")
        else:
            settle(run_at(epsilon, folder)[1], folder, epsilon)
    rewrite_page(folder)
    return [run.report for run in read_runs(folder)], folder


def nothing_learned(reports: Sequence[RunReport], epsilons: Sequence[str]) -> str:
    """The sentence on the learners that learned nothing in any repeat; "" where there are none.

    Args:
        reports: of a run, or of several at different epsilons.
        epsilons: these, where there are several.
    """
    where = [f" at epsilon {epsilon}" for epsilon in epsilons] if len(reports) > 1 else [""]
    who = [
        f"{learner.learner}{place}"
        for place, report in zip(where, reports, strict=True)
        for learner in report.learners
        if learner.failed == report.repeats
    ]
    return f"nothing was learned by {some_of(who)}; the notes say why" if who else ""


def summary_of_all(reports: Sequence[RunReport], epsilons: Sequence[str], folder: Path) -> dict[str, Any]:
    """The object that `expril simulate --json` prints: of a run, or of several at different epsilons."""
    if len(reports) == 1:
        told = summary(reports[0], str(folder))
    else:
        runs = zip(epsilons, reports, strict=True)
        every = [{"epsilon": one, **summary(report, str(folder / epsilon_folder(one)))} for one, report in runs]
        told = {"run": str(folder), "epsilons": every}
    wrong = nothing_learned(reports, epsilons)
    return {**told, "error": wrong, "kind": NoCuratorError.kind} if wrong else told
