"""A whole run: a scenario's repeats as cells, the report that is made of them, and what its folder holds in the end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from learner_node.result.listing import listed_digests, save_index
from learner_node.study.pooling import POOLED
from learner_node.study.study import NoCuratorError
from protocol.envelopes import SigningKey
from protocol.run_index import FORMAT, LEDGERS, METRICS, REPORT, SCENARIO, Index
from simulations.carriers.stages import stage_of
from simulations.notes import failure_notes, how_records_were_split, score_notes
from simulations.repeats import ALL, Cost, Tick, run_repeats
from simulations.report.budget import StudyReport
from simulations.report.folding import some_of
from simulations.report.model import CurvePoint, LearnerReport, RunReport, Score, SiteAnswers, SiteScore, save_report
from simulations.report.validated import joined
from simulations.run_cells import LearnerCell, RepeatCell, UnfinishedRun, finish, leftovers
from simulations.run_folder import FORMAT as LIST_FORMAT
from simulations.run_folder import EpsilonList, epsilon_folder, epsilons_folder
from simulations.run_order import Order, keep_origin
from simulations.run_page import read_runs, rewrite_page
from simulations.scenario import LearnerScenario
from simulations.scoring import MEASURES, RepeatScore, bounded

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
Say = Callable[[str, str], None]
"""(kind, text): tells the user something."""


@dataclass
class Run:
    """All repeats of a scenario."""

    report: RunReport  # for the page and for machines
    cells: Sequence[RepeatCell]  # of the repeats, in order
    # learner -> its key, which it keeps in all repeats; it signs what the run leaves
    signers: Mapping[str, SigningKey] = field(repr=False)

    def metrics_frame(self) -> pl.DataFrame:
        """One row per repeat, learner, round and site; the curator "" stands for all sites."""
        strategies = {learner.learner: learner.strategy for learner in self.report.learners}
        rows = [
            {"repeat": cell.key, "learner": name, "strategy": strategies[name], **row}
            for cell in self.cells
            for name, learner in cell.learners.items()
            for row in _rounds(learner)
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def save(self, folder: Path) -> None:
        """Write everything into the run's folder, which holds closed ledgers, transcripts and models already."""
        report, cells = self.report, self.cells
        (folder / SCENARIO).write_text(report.config_toml, encoding="utf-8")
        metrics = BytesIO()
        self.metrics_frame().write_parquet(metrics)
        (folder / METRICS).write_bytes(metrics.getvalue())
        save_report(report, folder / REPORT)
        index = Index(
            format=FORMAT,
            expril=report.version,
            title=report.title,
            created=report.created,
            repeats=report.repeats,
            participants=tuple(one for cell in cells for one in cell.participants),
            transcripts=tuple(one for cell in cells for one in cell.transcripts),
            ledgers=tuple(one for cell in cells for one in cell.ledgers),
            files=listed_digests(folder),
        )
        save_index(index, self.signers, folder)
        rewrite_page(folder)


def run_scenario(
    order: Order,
    folder: UnfinishedRun | None = None,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Run:
    """Run every repeat that is not done yet.

    Args:
        order: what.
        folder: that has the repeats which are done, and keeps the others, with the first one's ledgers; None keeps all
            in memory.
        tick: called with (what, done, total) as work proceeds.

    Raises:
        AccountingError: receipts, ledger and plan disagree.
    """
    scenario, records = order.scenario, order.records
    signers = folder.signers if folder else {learner.name: SigningKey.generate() for learner in scenario.learners}
    cells = folder.cells if folder else []
    before = sum(len(cell.transcripts) for cell in cells)
    ledgers = folder.path / LEDGERS if folder else None
    with stage_of(order.carrier) as stage:
        for repeat, evidence in run_repeats(
            scenario, records, signers, first=len(cells), before=before, ledgers=ledgers, stage=stage, tick=tick
        ):
            tick("scoring", 0, 0)
            finished = finish(repeat, scenario, records, evidence)
            cells.append(folder.keep(finished) if folder else finished.cell)
            tick("scoring", 1, 1)
    return Run(report_of(order, cells, datetime.now(UTC).isoformat(timespec="seconds")), cells, signers)


def report_of(order: Order, cells: Sequence[RepeatCell], created: str) -> RunReport:
    """The report on all of a run's repeats, which ended then."""
    scenario = order.scenario
    first, measure = cells[0], MEASURES[cells[0].measure]
    own = {learner.name: [cell.learners[learner.name] for cell in cells] for learner in scenario.learners}
    learners = tuple(_learner_report(learner, own[learner.name]) for learner in scenario.learners)
    failed = [note for name, repeats in own.items() for note in failure_notes(name, _failures(repeats), len(cells))]
    kept = chain.from_iterable(cell.notes for cell in cells)
    return RunReport(
        title=scenario.title,
        description=f"{' '.join(scenario.description.split())} {how_records_were_split(scenario)}".strip(),
        created=created,
        version=order.version,
        seeded_noise=scenario.noise_seed is not None,
        repeats=scenario.repeats,
        command=order.command,
        config_toml=order.chosen.text,
        measure=measure.name,
        further=measure.further if any(learner.pooled.further is not None for learner in learners) else "",
        learners=learners,
        curators=first.curators,
        notes=(*order.chosen.notes, *kept, *failed, *score_notes(scenario, learners, measure.constant)),
        positive=first.positive,
        records=first.records,
        carrier=order.carrier,
    )


def run_one(order: Order, out: Path, making: list[UnfinishedRun], tick: Tick, say: Say) -> tuple[RunReport, Path]:
    """Run a scenario in a folder of its own, or go on with one that was interrupted.

    Args:
        order: what.
        out: under which the folder is made.
        making: the folder in the making is added, for whoever must say what an interrupt leaves.
        tick: called with (what, done, total) as work proceeds.
        say: called with what the user must know.

    Returns:
        Its report and its folder.
    """
    # Several BLAS threads on matrices this small cost more than they give.
    with UnfinishedRun(out, order) as folder, threadpool_limits(1):
        making.append(folder)
        if folder.cells:
            say("note", f"going on after {len(folder.cells)} repeats that are done in {folder.path}")
        for left in leftovers(out, folder.path):
            say("note", left)
        keep_origin(folder.path, order.chosen, order.carrier)
        run = run_scenario(order, folder, tick)
        tick("writing the report", 0, 0)
        run.save(folder.path)
        tick("writing the report", 1, 1)
    return run.report, folder.path


def run_epsilons(
    order: Order, epsilons: tuple[str, ...], out: Path, run_at: Callable[[str, Path], tuple[RunReport, Path]], say: Say
) -> tuple[list[RunReport], Path]:
    """A run at each epsilon in one folder, or those that an interrupted command left undone; and their page.

    Args:
        order: the scenario as it is without them.
        epsilons: in rising order.
        out: under which the folder is made.
        run_at: runs it at an epsilon, under a folder.
        say: called with what the user must know.

    Returns:
        The reports in the order of the epsilons, and the folder of all.
    """
    wanted = EpsilonList(LIST_FORMAT, order.command, order.fingerprint, epsilons)
    folder = epsilons_folder(out, order.scenario.title, wanted, fresh=order.fresh)
    for epsilon in epsilons:
        if (folder / epsilon_folder(epsilon) / REPORT).is_file():
            say("note", f"going on: epsilon {epsilon} is done in {folder}")
        else:
            run_at(epsilon, folder)[1].rename(folder / epsilon_folder(epsilon))
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


def summary(report: RunReport, folder: str) -> dict[str, Any]:
    """What `expril simulate --json` prints of a run."""
    told = msgspec.to_builtins(report)
    learners = [
        {name: one[name] for name in ("learner", "strategy", "pooling", "epsilon_claimed", "epsilon_spent", "studies")}
        | {"pooled": one["pooled"], "sites": one["sites"]}
        | {"outcomes": {answers["curator"]: answers["outcomes"] for answers in one["rounds_answered"]}}
        | {"left_out": one["left_out"], "validation": one["validation"]}
        for one in told["learners"]
    ]
    named = ("positive", "records", "seeded_noise", "carrier", "notes")
    return {
        "run": folder,
        "learners": learners,
        "measure": report.measure,
        "further": report.further,
        "lead": report.lead,
        **{name: told[name] for name in named},
    }


def _rounds(learner: LearnerCell) -> Iterator[dict[str, Any]]:
    """Scores after each round, by site."""
    for number, _ in enumerate(learner.scores[POOLED].rounds):
        for key, score in learner.scores.items():
            one = score.rounds[number]
            yield {
                "round": number + 1,
                "curator": key,
                "accuracy": one.accuracy,
                "majority": score.last.majority,
                "ceiling": score.last.ceiling,
                "further": one.further,
                "auc": one.auc,
                "average_precision": one.average_precision,
                "brier": one.brier,
                "epsilon_claimed": str(learner.costs[ALL].claimed),
                "epsilon_spent": str(learner.costs[ALL].spent),
            }


def _failures(repeats: Sequence[LearnerCell]) -> dict[str, dict[int, str]]:
    """Study -> repeats in which it brought nothing, and why."""
    found: dict[str, dict[int, str]] = {}
    for number, repeat in enumerate(repeats):
        for what, why in repeat.failures.items():
            found.setdefault(what, {})[number] = why
    return found


def _learner_report(learner: LearnerScenario, repeats: Sequence[LearnerCell]) -> LearnerReport:
    costs: dict[str, Cost] = {}
    for repeat in repeats:
        costs |= {what: cost.at_most(costs.get(what, Cost())) for what, cost in repeat.costs.items()}
    scores = {key: [repeat.scores[key] for repeat in repeats] for key in repeats[0].scores}
    failures, answered = _failures(repeats), next((one for one in repeats if one.outcomes), repeats[0])
    return LearnerReport(
        learner=learner.name,
        strategy=learner.strategy,
        pooling=learner.pooling,
        epsilon_claimed=str(costs[ALL].claimed),
        epsilon_spent=str(costs[ALL].spent),
        studies=tuple(
            StudyReport(what, str(cost.claimed), str(cost.spent), len(failures.get(what, ())))  # type: ignore[arg-type]
            for what, cost in costs.items()
            if what != ALL
        ),
        pooled=_score(scores[POOLED]),
        sites=tuple(
            SiteScore(curator=key, **msgspec.structs.asdict(_score(found)))
            for key, found in scores.items()
            if key != POOLED
        ),
        curve=tuple(_curve(scores[POOLED])),
        rounds_answered=tuple(
            SiteAnswers(curator, tuple(_outcome(said) for said in outcomes))
            for curator, outcomes in answered.outcomes.items()
        ),
        left_out=answered.left_out,
        parts=repeats[0].parts,
        validation=joined(_known(repeat.validation for repeat in repeats)),
    )


def _score(found: Sequence[RepeatScore]) -> Score:
    """Of all repeats; in the prevalence each record counts alike."""
    score = mean_of([one.last for one in found])
    told = [(one.last.prevalence, one.tested) for one in found if one.last.prevalence is not None]
    if told:
        shares, records = zip(*told, strict=True)
        score = msgspec.structs.replace(score, prevalence=float(np.average(shares, weights=records)))
    return score


def _curve(found: Sequence[RepeatScore]) -> Iterator[CurvePoint]:
    """The accuracy after each round that some repeat has, and the AUC, with their standard errors."""
    for number, rounds in enumerate(zip_longest(*(one.rounds for one in found)), 1):
        points = [
            CurvePoint(number, accuracy, None, one.auc)
            for one in rounds
            if one is not None and (accuracy := bounded(one.accuracy)) is not None
        ]
        if points:
            yield msgspec.structs.replace(mean_of(points), round=number)


def mean_of(repeats: Sequence[AnyStruct]) -> AnyStruct:
    """The mean of some repeats' values, field by field and over the repeats that have one; what is in it, likewise.

    Counts add up, and texts are alike. Where several repeats have a value, its standard error, "..._se", is over them;
    where one has, it stays that one's.
    """
    kind = type(repeats[0])
    values = {name: _known(getattr(one, name) for one in repeats) for name in kind.__struct_fields__}
    errors = {name: values[name.removesuffix("_se")] for name in values if name.endswith("_se")}
    means = {name: _mean(column) for name, column in values.items()}
    return kind(**means | {name: _error(column) for name, column in errors.items() if len(column) > 1})


def _mean(values: Sequence[Any]) -> Any:
    if not values or isinstance(values[0], str):
        return values[0] if values else None
    if isinstance(values[0], msgspec.Struct):
        return mean_of(values)
    if isinstance(values[0], tuple):
        return tuple(_mean(_known(column)) for column in zip_longest(*values))
    # Rounding does not put a mean outside of the values.
    return sum(values) if isinstance(values[0], int) else float(np.clip(np.mean(values), min(values), max(values)))


def _error(values: Sequence[Any]) -> Any:
    """Of the mean of several repeats; None where there is one."""
    if isinstance(values[0], tuple):
        return tuple(_error(_known(column)) for column in zip_longest(*values))
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _known(values: Iterable[Any]) -> list[Any]:
    """Those that are there."""
    return [value for value in values if value is not None]


def _outcome(said: str) -> str:
    return {"no reply": "vanished", "bad reply": "refusal:bad_reply"}.get(said, said)
