"""A whole run: a scenario's repeats as cells, the report on them, and the run's folder."""

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
from learner_node.study.budget import Amount
from learner_node.study.doubts import require_confirmed
from learner_node.study.pooling import POOLED
from learner_node.study.study import NoCuratorError
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.run_index import FORMAT, LEDGERS, METRICS, REPORT, SCENARIO, Index
from protocol.strict_toml import suggest
from simulations.analysing import joined_analyses
from simulations.carriers.stages import stage_of
from simulations.joining import joining_of
from simulations.leave_one_out import leave_one_out
from simulations.notes import failure_notes, how_records_were_split, score_notes
from simulations.records import load_records
from simulations.repeats import ALL, Cost, Tick, evidence_of, run_repeat
from simulations.report.analyses import analyses_summary
from simulations.report.budget import ANALYSES, StudyReport
from simulations.report.model import (
    CurvePoint,
    Joining,
    LearnerReport,
    MeasureName,
    RunReport,
    Score,
    SiteAnswers,
    SiteScore,
    joined_validations,
    save_report,
)
from simulations.report.words import some_of
from simulations.run_cells import LearnerCell, RepeatCell, UnfinishedRun, finish, leftovers
from simulations.run_folder import FORMAT as LIST_FORMAT
from simulations.run_folder import EpsilonList, epsilon_folder, epsilons_folder, name_newest, of_newest
from simulations.run_order import MODELS_OF, ONLY_FIRST, Order, choose, keep_origin, typed_command
from simulations.run_page import read_runs, rewrite_page
from simulations.scenario import LearnerScenario
from simulations.scoring import MEASURES, RepeatScore, bounded

LEARNER_FIELDS = (
    "learner",
    "strategy",
    "pooling",
    "epsilon_claimed",
    "epsilon_spent",
    "studies",
    "pooled",
    "sites",
    "joining",
)
"""Fields of a learner's report that are in a run's summary."""
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
Say = Callable[[str, str], None]
"""Called with (kind, text) of a message to the user."""


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
        """Write all remaining files into the run's folder, which already holds ledgers, transcripts and models."""
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
            participants=tuple(participant for cell in cells for participant in cell.participants),
            transcripts=tuple(transcript for cell in cells for transcript in cell.transcripts),
            ledgers=tuple(ledger for cell in cells for ledger in cell.ledgers),
            files=listed_digests(folder),
        )
        save_index(index, self.signers, folder)
        rewrite_page(folder)


def run_scenario(
    order: Order,
    folder: UnfinishedRun | None = None,
    tick: Tick = lambda step, done, total: None,  # noqa: ARG005
) -> Run:
    """Run all repeats that are not finished, and report on all.

    `folder` holds the finished repeats and stores new ones, with the first repeat's ledgers; None keeps all in memory.
    Raises AccountingError: receipts, ledger and plan disagree.
    """
    scenario, records = order.scenario, order.records
    signers = folder.signers if folder else {learner.name: SigningKey.generate() for learner in scenario.learners}
    cells = folder.cells if folder else []
    before = sum(len(cell.transcripts) for cell in cells)
    ledgers = folder.path / LEDGERS if folder else None
    with stage_of(order.carrier) as stage:
        for number in range(len(cells), scenario.repeats):
            tick("repeats", number, scenario.repeats)
            stored = ledgers if number == 0 else None
            repeat = run_repeat(scenario, records, number, keys=signers, ledgers=stored, stage=stage, tick=tick)
            evidence = evidence_of(repeat, before, with_ledgers=stored is not None)
            before += len(evidence.transcripts)
            if scenario.leave_one_out:
                leave_one_out(scenario, repeat, stage, tick)
            tick("scoring", 0, 0)
            finished = finish(repeat, scenario, records, evidence)
            cells.append(folder.keep(finished) if folder else finished.cell)
            tick("scoring", 1, 1)
        tick("repeats", scenario.repeats, scenario.repeats)
    return Run(report_of(order, cells, datetime.now(UTC).isoformat(timespec="seconds")), cells, signers)


def report_of(order: Order, cells: Sequence[RepeatCell], created: str) -> RunReport:
    """The report on all repeats of a run that ended at `created`."""
    scenario = order.scenario
    first, measure = cells[0], MEASURES[cells[0].measure]
    cells_of = {learner.name: [cell.learners[learner.name] for cell in cells] for learner in scenario.learners}
    learners = tuple(_learner_report(learner, cells_of[learner.name]) for learner in scenario.learners)
    failures = [
        note for name, repeats in cells_of.items() for note in failure_notes(name, _failures(repeats), len(cells))
    ]
    cell_notes = chain.from_iterable(cell.notes for cell in cells)
    report = RunReport(
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
        notes=(*order.chosen.notes, *cell_notes, *failures, *score_notes(scenario, learners, measure.constant)),
        positive=first.positive,
        records=first.records,
        label=first.label,
        units=first.units,
        classes=first.classes,
        carrier=order.carrier,
    )
    return msgspec.structs.replace(
        report,
        learners=tuple(
            msgspec.structs.replace(learner, joining=_joining(cells_of[learner.learner], report.lead))
            for learner in learners
        ),
    )


def _joining(repeats: Sequence[LearnerCell], measure: MeasureName) -> tuple[Joining, ...]:
    """Whether joining pays, by site; empty where no repeat compared."""
    names = dict.fromkeys(name for repeat in repeats for name in repeat.joining)
    return tuple(
        joining_of(name, [repeat.joining[name] for repeat in repeats if name in repeat.joining], measure)
        for name in names
    )


def run_one(order: Order, out: Path, making: list[UnfinishedRun], tick: Tick, say: Say) -> tuple[RunReport, Path]:
    """Run a scenario in its own folder under `out`, or resume an interrupted run; return report and folder.

    `making` receives the unfinished run, so that the caller can say what an interrupt leaves. `tick` is called as work
    proceeds, `say` with each note for the user.
    """
    # Several BLAS threads on matrices this small cost more than they give.
    with UnfinishedRun(out, order) as folder, threadpool_limits(1):
        making.append(folder)
        if folder.cells:
            say("note", f"going on after {len(folder.cells)} repeats that are done in {folder.path}")
        for note in leftovers(out, folder.path):
            say("note", note)
        keep_origin(folder.path, order.chosen, order.carrier)
        run = run_scenario(order, folder, tick)
        tick("writing the report", 0, 0)
        run.save(folder.path)
        tick("writing the report", 1, 1)
    return run.report, folder.path


def simulate(
    scenario: str | Path,
    *,
    out: str | Path = "runs",
    repeats: int | None = None,
    seed: int | None = None,
    epsilon: Amount | None = None,
    leave_one_out: bool = False,
    large_epsilon: bool = False,
    models: str = ONLY_FIRST,
    base: str | Path | None = None,
    carrier: str = "",
) -> tuple[RunReport, Path]:
    """Run a scenario as the command `expril simulate` does, but print nothing, not even doubts about the scenario.

    An interrupted call goes on when it is repeated.

    Args:
        scenario: a built-in scenario's name, a TOML file, or the folder of an earlier run.
        out: folder under which the run's folder is made.
        repeats: in place of the scenario's, from 1.
        seed: in place of the scenario's; of splits and learners, never of noise.
        epsilon: of every learner, in place of its own.
        leave_one_out: also learns, for each site, from all other sites (docs/learner/joining.md).
        large_epsilon: confirms an epsilon that protects little.
        models: which repeats' models are kept: "first", "all" or "none".
        base: folder from which the scenario's paths start; None takes the scenario file's own.
        carrier: how envelopes travel: "process", "cores", "ray" or "deploy"; "" takes "process", or that of an earlier
            run.

    Returns:
        The report, and the run's folder.

    Raises:
        ConfigurationError: there is no such scenario, it or a file that it names has an error, or an argument is wrong.
    """
    if models not in MODELS_OF:
        raise ConfigurationError(f"models = {models!r}{suggest(models, list(MODELS_OF))}")
    if epsilon is not None and not large_epsilon:
        require_confirmed([parse_rational(epsilon)], how="large_epsilon=True")
    typed = {"repeats": repeats, "seed": seed, "epsilon": None if epsilon is None else str(epsilon)}
    changes: dict[str, int | str] = {key: value for key, value in typed.items() if value is not None}
    if leave_one_out:
        changes["leave_one_out"] = True
    name = of_newest(str(scenario))
    chosen = choose(name, changes, None if base is None else Path(base))
    records = load_records(chosen.scenario, chosen.folder)
    command = typed_command(name, {**changes, "carrier": carrier}) + (" --large-epsilon" if large_epsilon else "")
    order = Order(chosen, records, command, models, carrier=carrier or chosen.carrier)
    report, folder = run_one(order, Path(out), [], lambda what, done, total: None, lambda kind, text: None)  # noqa: ARG005
    name_newest(folder)
    return report, folder


def run_epsilons(
    order: Order, epsilons: tuple[str, ...], out: Path, run_at: Callable[[str, Path], tuple[RunReport, Path]], say: Say
) -> tuple[list[RunReport], Path]:
    """Make the missing runs at `epsilons` (rising) in one folder under `out`, and their common page.

    `order` has no epsilon. `run_at`, called with (epsilon, folder), makes a run; `say` gets each note for the user.
    Returns the reports in the order of the epsilons, and the folder.
    """
    content = EpsilonList(LIST_FORMAT, order.command, order.fingerprint, epsilons)
    folder = epsilons_folder(out, order.scenario.title, content, fresh=order.fresh)
    for epsilon in epsilons:
        if (folder / epsilon_folder(epsilon) / REPORT).is_file():
            say("note", f"going on: epsilon {epsilon} is done in {folder}")
        else:
            run_at(epsilon, folder)[1].rename(folder / epsilon_folder(epsilon))
    rewrite_page(folder)
    return [run.report for run in read_runs(folder)], folder


def nothing_learned(reports: Sequence[RunReport], epsilons: Sequence[str]) -> str:
    """A sentence on learners without a result in any repeat; "" if there are none. Several runs need `epsilons`."""
    places = [f" at epsilon {epsilon}" for epsilon in epsilons] if len(reports) > 1 else [""]
    names = [
        f"{learner.learner}{place}"
        for place, report in zip(places, reports, strict=True)
        for learner in report.learners
        if learner.failed == report.repeats
    ]
    return f"nothing was learned by {some_of(names)}; the notes say why" if names else ""


def summary_of_all(reports: Sequence[RunReport], epsilons: Sequence[str], folder: Path) -> dict[str, Any]:
    """The object that `expril simulate --json` prints, for one run or several epsilons."""
    if len(reports) == 1:
        content = summary(reports[0], str(folder))
    else:
        runs = [
            {"epsilon": epsilon, **summary(report, str(folder / epsilon_folder(epsilon)))}
            for epsilon, report in zip(epsilons, reports, strict=True)
        ]
        content = {"run": str(folder), "epsilons": runs}
    error = nothing_learned(reports, epsilons)
    return {**content, "error": error, "kind": NoCuratorError.kind} if error else content


def summary(report: RunReport, folder: str) -> dict[str, Any]:
    """One run's part of that object."""
    fields = msgspec.to_builtins(report)
    learners = [
        {
            **{name: learner[name] for name in LEARNER_FIELDS},
            "outcomes": {answers["curator"]: answers["outcomes"] for answers in learner["rounds_answered"]},
            "left_out": learner["left_out"],
            "validation": learner["validation"],
            **analyses_summary(learner.get("analyses")),
        }
        for learner in fields["learners"]
    ]
    names = ("positive", "records", "seeded_noise", "carrier", "notes")
    return {
        "run": folder,
        "learners": learners,
        "measure": report.measure,
        "further": report.further,
        "lead": report.lead,
        **{name: fields[name] for name in names},
    }


def _rounds(learner: LearnerCell) -> Iterator[dict[str, Any]]:
    """Scores after each round, by site."""
    for number, _ in enumerate(learner.scores[POOLED].rounds if learner.scores else ()):
        for key, score in learner.scores.items():
            current = score.rounds[number]
            yield {
                "round": number + 1,
                "curator": key,
                "accuracy": current.value,
                "majority": score.last.constant,
                "ceiling": score.last.regression,
                "further": current.further,
                "auc": current.auc,
                "average_precision": current.average_precision,
                "brier": current.brier,
                "epsilon_claimed": str(learner.costs[ALL].claimed),
                "epsilon_spent": str(learner.costs[ALL].spent),
            }


def _failures(repeats: Sequence[LearnerCell]) -> dict[str, dict[int, str]]:
    """Study -> repeats without a result -> reason."""
    failures: dict[str, dict[int, str]] = {}
    for number, repeat in enumerate(repeats):
        for study, reason in repeat.failures.items():
            failures.setdefault(study, {})[number] = reason
    return failures


def _learner_report(learner: LearnerScenario, repeats: Sequence[LearnerCell]) -> LearnerReport:
    costs: dict[str, Cost] = {}
    for repeat in repeats:
        costs |= {study: cost.at_most(costs.get(study, Cost())) for study, cost in repeat.costs.items()}
    scores = {key: [repeat.scores[key] for repeat in repeats] for key in repeats[0].scores}
    analyses = joined_analyses(_present(repeat.analyses for repeat in repeats))
    failures, answered = _failures(repeats), next((repeat for repeat in repeats if repeat.outcomes), repeats[0])
    return LearnerReport(
        learner=learner.name,
        strategy=ANALYSES if learner.analyses else learner.strategy,
        pooling=learner.pooling,
        epsilon_claimed=str(costs[ALL].claimed),
        epsilon_spent=str(costs[ALL].spent),
        studies=tuple(
            StudyReport(name, str(cost.claimed), str(cost.spent), len(failures.get(name, ())))  # type: ignore[arg-type]
            for name, cost in costs.items()
            if name != ALL
        ),
        pooled=_score(scores[POOLED]) if scores else NO_SCORE,
        sites=tuple(
            SiteScore(curator=key, **msgspec.structs.asdict(_score(site_scores)))
            for key, site_scores in scores.items()
            if key != POOLED
        ),
        curve=tuple(_curve(scores[POOLED])) if scores else (),
        rounds_answered=tuple(
            SiteAnswers(curator, tuple(map(_outcome, outcomes))) for curator, outcomes in answered.outcomes.items()
        ),
        left_out=answered.left_out,
        parts=repeats[0].parts,
        validation=joined_validations(_present(repeat.validation for repeat in repeats)),
        purpose=learner.purpose,
        analyses=msgspec.UNSET if analyses is None else analyses,
    )


NO_SCORE = Score(value=None, value_se=None, constant=0.0, regression=None)
"""Of a learner that asks analyses, which learn no model."""


def _score(repeats: Sequence[RepeatScore]) -> Score:
    """Mean scores over repeats; the prevalence weights each record equally."""
    score = mean_of([repeat.last for repeat in repeats])
    agreements = _present(repeat.last.agreement for repeat in repeats)
    # Repeats whose test records form another number of groups, a rounded split, are left out of the means of groups.
    alike = [agreement for agreement in agreements if len(agreement.counts) == len(agreements[0].counts)]
    if alike:
        score = msgspec.structs.replace(score, agreement=mean_of(alike))
    prevalences = [(repeat.last.prevalence, repeat.tested) for repeat in repeats if repeat.last.prevalence is not None]
    if prevalences:
        shares, records = zip(*prevalences, strict=True)
        score = msgspec.structs.replace(score, prevalence=float(np.average(shares, weights=records)))
    return score


def _curve(repeats: Sequence[RepeatScore]) -> Iterator[CurvePoint]:
    """Accuracy and AUC with standard errors after each round, over the repeats that have the round."""
    for number, scores in enumerate(zip_longest(*(repeat.rounds for repeat in repeats)), 1):
        points = [
            CurvePoint(number, value, None, score.auc)
            for score in scores
            if score is not None and (value := bounded(score.value)) is not None
        ]
        if points:
            yield msgspec.structs.replace(mean_of(points), round=number)


def mean_of(repeats: Sequence[AnyStruct]) -> AnyStruct:
    """The field-wise mean over repeats with a value; nested structs and tuples are averaged likewise.

    Counts are summed; texts are equal. A field "..._se" becomes the standard error over the repeats that have its
    value; if only one has, its own error stays.
    """
    kind = type(repeats[0])
    values = {name: _present(getattr(repeat, name) for repeat in repeats) for name in kind.__struct_fields__}
    errors = {name: values[name.removesuffix("_se")] for name in values if name.endswith("_se")}
    means = {name: _mean(column) for name, column in values.items()}
    return kind(**means | {name: _error(column) for name, column in errors.items() if len(column) > 1})


def _mean(values: Sequence[Any]) -> Any:
    if not values or isinstance(values[0], str):
        return values[0] if values else None
    if isinstance(values[0], msgspec.Struct):
        return mean_of(values)
    if isinstance(values[0], tuple):
        return tuple(_mean(_present(column)) for column in zip_longest(*values))
    # Rounding does not put a mean outside of the values.
    return sum(values) if isinstance(values[0], int) else float(np.clip(np.mean(values), min(values), max(values)))


def _error(values: Sequence[Any]) -> Any:
    """Standard error of the mean; None for a single value."""
    if isinstance(values[0], tuple):
        return tuple(_error(_present(column)) for column in zip_longest(*values))
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _present(values: Iterable[Any]) -> list[Any]:
    """The values that are not None."""
    return [value for value in values if value is not None]


def _outcome(text: str) -> str:
    return {"no reply": "vanished", "bad reply": "refusal:bad_reply"}.get(text, text)
