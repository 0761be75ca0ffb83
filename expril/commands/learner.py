"""The commands of a learner, who holds unlabelled records: `expril quote`, `expril learner ...`, `expril predict`."""

import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expril.commands.identity_cards import DAY, Contact, Days, Name, Organisation, Out, drafted, hand_out, read_card
from expril.commands.terminal import (
    BAD,
    MOST_SEED,
    FilesFolder,
    Json,
    LargeEpsilon,
    Png,
    bars,
    check_files,
    plain_errors,
    print_json,
    print_table,
    say,
    without_controls,
)
from protocol.errors import ConfigurationError

if TYPE_CHECKING:
    import polars as pl

    from expril.report.document import Document
    from expril.report.table import Written
    from learner_node.carriers.journal import Journal
    from learner_node.models.predictions import Predictions
    from learner_node.result.folder import DeployedStudy
    from learner_node.study.federation import Carrier
    from learner_node.study_file import StudyFile
    from simulations.report.model import ScoreInterval

learner_app = typer.Typer(no_args_is_help=True, help="A learner's studies with deployed curators: prepare, run.")

STUDY_FILE, KEY_FILE = "STUDY.toml", "learner.pem"
PREDICTIONS, TABLES = Path("predictions.csv"), (".csv", ".parquet")
GOES_ON = "what was asked and answered is kept; the same command goes on with it"
FOREVER = 10.0 * 366 * DAY


def quote(  # noqa: PLR0913, PLR0917 - one argument an option
    source: Annotated[
        str,
        typer.Argument(help="Unlabelled records (.csv, .parquet, .pq), a scenario (name or TOML), or a STUDY.toml."),
    ] = "wdbc",
    schema: Annotated[Path | None, typer.Option(help="The steward's schema file; needed with records.")] = None,
    learner: Annotated[str, typer.Option(help="A learner of the scenario. [its first]")] = "",
    epsilons: Annotated[
        str, typer.Option(help="Comma-separated, each a decimal or a/b. [1,0.3,0.1, or the analyses' own]")
    ] = "",
    sites: Annotated[
        int | None, typer.Option(min=1, help="Curators whose answers are summed. [1, or the scenario's]")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Private records at all curators. [as declared]")] = None,
    contribution: Annotated[
        int | None, typer.Option(min=1, help="Bound c on the records of a unit. [as declared]")
    ] = None,
    pooling: Annotated[str, typer.Option(help="sum, site or secure. [sum, or the learner's]")] = "",
    colluders: Annotated[
        int | None, typer.Option(min=1, help="Colluders of a secure sum. [see docs/learner/learner.md]")
    ] = None,
    dropouts: Annotated[int | None, typer.Option(min=0, help="Dropouts of a secure sum. [see --colluders]")] = None,
    strategy: Annotated[str, typer.Option(help="A strategy. [cells, or the learner's]")] = "",
    option: Annotated[list[str] | None, typer.Option(help="Option of the strategy, as name=value; repeatable.")] = None,
    prevalence: Annotated[
        str, typer.Option(help="Share of the second class, if known: 0.4 or 0.35-0.45. Narrows the quote.")
    ] = "",
    best_auc: Annotated[
        str, typer.Option(help="AUC that a good model has without privacy, if known, as 0.7-0.8. Narrows the quote.")
    ] = "",
    problems: Annotated[
        int | None, typer.Option(min=3, help="Simulated problems per row. [300, or 4 to 12 if each takes long]")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Seed of the simulated problems and their noise.")
    ] = 0,
    effect: Annotated[
        list[str] | None, typer.Option(help="Effect that analyses should show: 'odds ratio 2'; repeatable. [usual]")
    ] = None,
    power: Annotated[float, typer.Option(min=0.06, max=0.99, help="Chance with which they should show it.")] = 0.8,
    large_epsilon: LargeEpsilon = False,
    json_: Json = False,
) -> None:
    """Estimate what a study would cost and bring before anything is asked: noise, cells, accuracy and AUC.

    Of analyses: the cost of each, the noise of its tables, the intervals to expect, and the least epsilon that shows
    an effect.
    """
    with plain_errors(part="learner"):
        from learner_node.study.doubts import doubts_about, require_confirmed
        from learner_node.study.pooling import Pooling
        from learner_node.study_file import study_of_analyses
        from protocol.rationals import parse_rational

        requested = [parse_rational(item.strip()) for item in (epsilons or "1,0.3,0.1").split(",")]
        if not large_epsilon:
            require_confirmed(requested, how="--large-epsilon")
        with bars(json_) as tick:
            tick("reading records", 0, 1)
            from simulations.scenario import is_table, load_scenario, read_schema

            # Faults in a file are reported before the libraries of tables, and then those of models, are loaded.
            if not is_table(source) and study_of_analyses(Path(source)) is None:
                load_scenario(source)
            elif schema is not None:
                read_schema(schema)
            from simulations.quote_source import read_quoted, read_quoted_analyses

            pool = Pooling().changed(pooling, colluders, dropouts) if pooling else None
            analyses = read_quoted_analyses(
                source, schema=schema, learner=learner, size=size, contribution=contribution, pooling=pool
            )
            if analyses is not None:
                from learner_node.analyses.quoting import quote_at

                amounts = requested if epsilons else [analyses.epsilon]
                quotes = quote_at(analyses.parts, analyses.prospect, amounts, effect or [], power)
                if json_:
                    print_json({"quotes": [item.to_builtins() for item in quotes]})
                else:
                    sys.stdout.write(without_controls("\n\n".join(item.to_text() for item in quotes)) + "\n")
                return
            if effect:
                raise ConfigurationError("--effect is of analyses; this study asks for a model")
            quoted = read_quoted(source, schema=schema, learner=learner)
            from threadpoolctl import threadpool_limits

            from learner_node.questions import quote_report as quoting
            from simulations.quote_source import request_of
        request = request_of(quoted).changed(
            sites=sites,
            target_size=size,
            most_records_per_unit=contribution,
            strategy=strategy,
            options=option or [],
            pooling=pooling,
            colluders=colluders,
            dropouts=dropouts,
            prevalence=prevalence,
            best_auc=best_auc,
        )
        target = request.target
        size = len(request.source)
        warnings = doubts_about(request.options, records=size, curators=target.sites, pooling=target.pooling)
        say("warning", *quoted.doubts, *warnings)
        with bars(json_) as tick, threadpool_limits(1):
            rows = quoting.run(request, requested, problems=problems, seed=seed, tick=tick)
        if json_:
            print_json(quoting.as_object(request, rows))
            return
        print_table(quoting.quote_table(request, rows))


def predict(  # noqa: PLR0913, PLR0917 - one argument an option
    model: Annotated[
        Path, typer.Argument(help="A model's file, or the folder of a study's result or of a simulation's run.")
    ],
    records: Annotated[Path, typer.Argument(help="The records: .csv, .parquet, or .toml that names a database.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to make, .csv or .parquet; only you may read it.")
    ] = PREDICTIONS,
    id_: Annotated[list[str] | None, typer.Option("--id", help="A column to copy, such as an id; repeatable.")] = None,
    site: Annotated[str, typer.Option(help="The site whose model predicts, if each has one.")] = "",
    site_column: Annotated[str, typer.Option(help="Instead: the column that names each record's site.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Instead: mix the models of all sites.")] = False,
    learner: Annotated[str, typer.Option(help="The learner whose model predicts, if the folder has several.")] = "",
    repeat: Annotated[int, typer.Option(min=0, help="The repeat of a simulation's run.")] = 0,
    as_fitted: Annotated[
        bool, typer.Option("--as-fitted", help="Leave risks as they are where the model's validation mended them.")
    ] = False,
    schema: Annotated[
        Path | None, typer.Option(help="The schema file of these records, if values of their own mean missing.")
    ] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Score the model on these records' labels, beside your own regression.")
    ] = False,
    own_records: Annotated[
        Path | None,
        typer.Option(
            "--own", help="With --score: other records of yours, from which alone your regression learns. [these]"
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it exists.")] = False,
    json_: Json = False,
) -> None:
    """Predict for records with the model of a study: the likeliest class and each class's probability, or a number.

    Rows are in the order of the records. No label is needed. The table is about single people, so only you may read it.

    With --score the records have labels, and the terminal shows what the model and your own regression reach on them:
    exact numbers of private records, for you alone.
    """
    with plain_errors(part="learner"):
        if score and json_:
            raise ConfigurationError("--score is for your own eyes: what --json prints ends in logs; leave one out")
        if own_records is not None and not score:
            raise ConfigurationError("--own is of --score: it names the records from which your own regression learns")
        from expril.files import require_new, write_new, write_private

        suffix, rule = out.suffix.lower(), "predictions are replaced only with --overwrite"
        if suffix not in TABLES:
            raise ConfigurationError(f"{out} must end in {' or '.join(TABLES)}")
        if out.exists() and any(out.samefile(path) for path in (model, records, own_records) if path and path.exists()):
            raise ConfigurationError(f"{out} is what the predictions are made from; choose another name: --out")
        if not (overwrite and out.is_file()):
            require_new(out, rule=rule)
        if not model.exists():
            raise ConfigurationError(f"no model {model}; name a model's file, or the folder of a result or a run")
        from curator_node.records.files import read_records
        from simulations.scenario import read_schema

        site_file = None if schema is None else read_schema(schema)
        with bars(json_) as tick:
            tick("reading the records", 0, 0)
            table, learnt = read_records(records), None if own_records is None else read_records(own_records)
        from threadpoolctl import threadpool_limits

        from curator_node.records.dataset import complaints_about
        from learner_node.models.files import load
        from learner_node.models.predictions import PREDICTED, UNFORESEEN, Site, encode_table, predictions_of

        loaded = load(model, learner or None, repeat)
        mends = loaded.recalibration is not None and loaded.recalibration.on and not as_fitted
        # One thread, so that the digits are the same, however many cores are free.
        with bars(json_) as tick, threadpool_limits(1):
            tick("predicting", 0, 0)
            predictions = predictions_of(
                loaded.recalibrated_ if mends else loaded,
                table,
                keep=id_ or (),
                site=Site(site, site_column, mixed),
                schema=None if site_file is None else site_file.schema,
            )
            if score:
                tick("predicting", 1, 1)
                tick("comparing with your own regression", 0, 0)
                unit = None if site_file is None else site_file.unit
                scores = _scores(predictions, table, learnt, unit)
        content = encode_table(predictions.frame, suffix)
        if overwrite:
            write_private(out, content)
        else:
            write_new(out, content, rule=rule)
        if json_:
            # What machines print ends in logs: nothing here, nor on standard error, is computed from the records.
            about = {"label": loaded.schema.label, "classes": list(loaded.schema.classes), "recalibrated": mends}
            print_json({"predictions": str(out), "columns": predictions.frame.columns, **about})
            return
        say("warning", *complaints_about(predictions.records, predictions.moved))
        if predictions.frame[UNFORESEEN].null_count() < predictions.frame.height:
            say("note", f"some values are outside of what the schema declares; the column {UNFORESEEN!r} says where")
        sys.stdout.write(
            f"{out}  {PREDICTED} {loaded.schema.label!r}{', risks recalibrated' if mends else ''}\n"
            "  about single people: only you may read it\n"
        )
        if score:
            print_table(scores)
            say(
                "private",
                "these are exact numbers of private records, without noise: for you alone, not to be handed on",
                style=BAD,
            )


def _scores(
    predictions: "Predictions", table: "pl.DataFrame", learnt: "pl.DataFrame | None", unit: str | None
) -> "Written":
    """What a study's model reaches on records with labels, beside their holder's own regression."""
    from expril.report.table import text_table
    from simulations.own_patients import Patients, own_patients

    def written(score: "ScoreInterval | None", sign: str = "") -> str:
        if score is None:
            return "-"
        ends = "" if score.low == score.high else f" ({score.low:{sign}.3f} to {score.high:{sign}.3f})"
        return f"{score.value:{sign}.3f}{ends}"

    schema = predictions.records.schema
    others = None if learnt is None else Patients.of(learnt, schema, unit)
    compared = own_patients(Patients.of(table, schema, unit), predictions.values, others)
    records = max(joining.records for joining in compared.values())
    return text_table(
        f"your own {records} records, with 95 % intervals",
        ("", "constant", "your regression", "this model", "the model's gain"),
        [
            (measure, *map(written, (item.constant, item.regression, item.federation)), written(item.gain, "+"))
            for measure, item in compared.items()
        ],
        note="your regression learnt from the records of --own alone"
        if learnt is not None
        else "your regression predicts each fifth of these records from the rest\n"
        "if the study asked these records, its model's scores are too good: take newer patients, and these as --own",
    )


@learner_app.command("init")
def learner_init(folder: Annotated[Path, typer.Argument(help="The folder to make.")]) -> None:
    """Make a learner's folder: a signing key and a STUDY.toml to fill in. Never overwrites anything."""
    with plain_errors(part="learner", on_interrupt="what was made so far is kept; remove it before you try again"):
        from curator_node.key_files import write_key
        from expril.files import write_new
        from learner_node.study_file import TEMPLATE

        public = write_key(folder / KEY_FILE)
        write_new(folder / STUDY_FILE, TEMPLATE.encode(), rule="a study's file is never overwritten")
        sys.stdout.write(
            f"learner {public}\n"
            "  this public key says who signs; each curator's steward enters it, and checks it by telephone\n"
            f"next\n  1. write {folder / STUDY_FILE}\n"
            f"  2. expril learner run {folder / STUDY_FILE}\n"
        )


@dataclass(frozen=True)
class _How:
    """The command line's options of the carrier."""

    superlink: str
    ca: Path | None
    secret: Path | None
    folder: Path | None
    wait: bool
    without: Sequence[str]


@learner_app.command("run")
def learner_run(  # noqa: PLR0913, PLR0917 - the options of a command
    path: Annotated[Path, typer.Argument(help="The study's file.", metavar="STUDY.toml")] = Path(STUDY_FILE),
    superlink: Annotated[str, typer.Option(help='The SuperLink, "host:port". [as the file says]')] = "",
    ca: Annotated[
        Path | None, typer.Option(help="Certificate of the authority that certifies it (PEM). [as the file says]")
    ] = None,
    secret: Annotated[Path | None, typer.Option(help="The SuperLink's SuperExec secret. [as the file says]")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="A folder of requests and replies, instead of a SuperLink.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the result. [result, beside the file]")] = None,
    without: Annotated[list[str] | None, typer.Option(help="A curator to go on without; repeatable.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for stewards and replies without limit.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Ask all questions anew, in another study, which costs again.")
    ] = False,
    files: FilesFolder = None,
    png: Png = False,
    json_: Json = False,
) -> None:
    """Run a study with deployed curators, or go on with it; the same command does both and pays for nothing twice.

    Exit status: 0 finished; 2 not finished, or nothing was learned; 3 a reply or a steward's decision is awaited, and
    the same command goes on.
    """
    with plain_errors(part="learner", on_interrupt=GOES_ON):
        check_files(files, png)
        how = _How(superlink, ca, secret, folder, wait, tuple(without or ()))
        target = out or path.parent / "result"
        summary = _run(path, target, how, again=again, quiet=json_)
        if files is not None:
            from expril.report.page_files import write_page_files

            write_page_files(_document(summary, target), files, png=png)
        if json_:
            print_json({**summary, "folder": str(target)})
        elif "analyses" in summary or "question" in summary:
            _show_answers(summary, target)
        else:
            _show(summary, target)


learner_app.command("ask", hidden=True)(learner_run)


def _document(summary: dict[str, Any], target: Path) -> "Document":
    if "analyses" in summary:
        from learner_node.result.analyses_folder import read_analyses_folder

        return read_analyses_folder(target)
    if "question" in summary:
        from learner_node.result.question_folder import question_document

        return question_document(summary)
    from learner_node.result.document import study_document

    return study_document(summary)


def _run(path: Path, target: Path, how: _How, *, again: bool, quiet: bool) -> dict[str, Any]:
    read = _read(path)
    from importlib.metadata import version

    from threadpoolctl import threadpool_limits

    from learner_node.result.analyses_folder import save_analyses
    from learner_node.result.deployed import keep_receipts, run_analyses, run_question, run_study
    from learner_node.result.folder import DeployedStudy, save_result
    from learner_node.result.question_folder import save_question
    from learner_node.study.doubts import doubts_about
    from learner_node.study.federation import UnfinishedError
    from learner_node.study.study import NoCuratorError

    study = read["study"]
    doubts = doubts_about(
        study.options,
        records=len(read["source"]),
        curators=len(read["curators"]) - len(how.without),
        pooling=study.pool,
    )
    for doubt in doubts if study.asks_model else ():
        say("warning", doubt)
    result = DeployedStudy(**read, version=version("expril"), finished=_now())
    receipts = path.parent / study.receipts
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))  # so that a seed gives the same digits, however many cores are free
        journal = stack.enter_context(_journal(path, target, result, again=again))
        if journal.resumed and not quiet:
            say("study", "going on with what was asked before")
        carrier = _carrier(study, result, path, how, stack, quiet=quiet)
        curators, key = result.curators, result.key
        try:
            if study.question is not None:
                answers = run_question(study, curators=curators, key=key, journal=journal, carrier=carrier)
                keep_receipts(receipts, [answers.study])
                return save_question(result, answers, target)
            if study.analyses:
                analyses = run_analyses(study, curators=curators, key=key, journal=journal, carrier=carrier)
                keep_receipts(receipts, [analyses.study])
                return save_analyses(result, analyses, target)
            outcome = run_study(
                study,
                result.source,
                curators=curators,
                key=key,
                journal=journal,
                carrier=carrier,
                progress=lambda stage, finished, total: (
                    None if quiet or finished == total else say("study", _words(stage, finished, total))
                ),
            )
        except UnfinishedError:
            raise
        except NoCuratorError as error:
            if error.study is not None:
                keep_receipts(receipts, [error.study])
            most = max((error.study.spent_at_most(name) for name in result.curators), default=0) if error.study else 0
            if not most:
                journal.forget()
                raise NoCuratorError(f"{error}. Nothing was spent; the same command asks anew", error.study) from None
            text = f"{error}. It cost at most {most}; --again asks anew, which costs again"
            raise NoCuratorError(text, error.study) from None
        except ConfigurationError:
            if not journal.proposed:
                journal.forget()
            raise
        keep_receipts(receipts, outcome.studies)
        return save_result(result, outcome, target)


def _read(path: Path) -> dict[str, Any]:
    """The study's file and the files that it names, read before heavy libraries: fields of `DeployedStudy`."""
    from curator_node.key_files import read_key
    from learner_node.study_file import curator_keys, read_study
    from simulations.scenario import is_table

    if is_table(str(path)):
        raise ConfigurationError(
            f"{path} is a table of records, and a study's file is TOML that names one as its source; expril learner "
            "init FOLDER makes one to fill in"
        )
    if not path.is_file():
        raise ConfigurationError(f"no study file {path}; make one: expril learner init FOLDER")
    text = path.read_bytes()
    study = read_study(text, where=str(path))
    key = read_key(path.parent / study.key)
    curators = curator_keys(study, path.parent, now=_now(), where=str(path))
    if not study.asks_model:
        import polars as pl

        source = pl.DataFrame()
    else:
        from curator_node.records.files import read_records

        source = read_records(path.parent / study.source)
    return {"study": study, "text": text, "source": source, "key": key, "curators": curators}


def _now() -> int:
    return int(time.time())


def _journal(path: Path, target: Path, result: "DeployedStudy", *, again: bool) -> "Journal":
    import hashlib

    from learner_node.carriers.journal import Journal, Settings
    from learner_node.result.deployed import read_receipts
    from learner_node.result.folder import prepare_result
    from learner_node.study_file import about

    source = b""
    if result.study.asks_model:
        with (path.parent / result.study.source).open("rb") as file:
            source = hashlib.file_digest(file, "sha256").digest()
    settings = Settings(
        version=result.version,
        about=about(result.study, result.curators, source, result.key.public),
        receipts=read_receipts(path.parent / result.study.receipts),
    )
    where = prepare_result(target)
    if again and where.exists():
        where.replace(where.with_name(f"{where.name}.{secrets.token_hex(4)}.before"))
    return Journal(where, settings, clock=_now, entropy=secrets.token_bytes)


def _carrier(
    study: "StudyFile", result: "DeployedStudy", path: Path, how: _How, stack: ExitStack, *, quiet: bool
) -> "Carrier":
    from learner_node.carriers.folder import FolderCarrier
    from learner_node.carriers.waiting import WaitingCarrier
    from protocol.strict_toml import suggest

    def note(text: str) -> None:
        if not quiet:
            say("note", text)

    for name in how.without:
        if name not in result.curators:
            raise ConfigurationError(f"--without {name}: no such curator{suggest(name, list(result.curators))}")
    without = [result.curators[name] for name in how.without]
    names = {key: name for name, key in result.curators.items()}
    all_or_none = study.all_or_none
    waiting = partial(WaitingCarrier, names=names, without=without, all_or_none=all_or_none, poll=how.wait, notify=note)
    folder = how.folder or (path.parent / study.folder if study.folder and not how.superlink else None)
    if folder is not None:
        wait = FOREVER if how.wait else study.wait_seconds
        posted = FolderCarrier(folder, names, wait=wait, without=without)
        return waiting(posted, waits=lambda refusal: True)  # noqa: ARG005
    return waiting(stack.enter_context(_superlink(study, result, path, how, note)))


def _superlink(study: "StudyFile", result: "DeployedStudy", path: Path, how: _How, note: Any) -> Any:
    from learner_node.carriers.superlink import SuperLinkCarrier
    from learner_node.carriers.superlink_run import SuperLinkAddress

    link = study.superlink
    address = how.superlink or (link.address if link else "")
    secret = how.secret or (path.parent / link.secret if link else None)
    ca = how.ca or (path.parent / link.ca if link and link.ca else None)
    if not address or secret is None:
        raise ConfigurationError(
            f"{path} names neither [superlink] nor a folder: write one, or use --superlink, --ca, --secret, or --folder"
        )
    for label, file in (("secret", secret), ("CA file", ca)):
        if file is not None and not file.is_file():
            raise ConfigurationError(f"no {label} {file}; ask who keeps the SuperLink {address}")
    return SuperLinkCarrier(
        SuperLinkAddress(address, None if ca is None else ca.read_bytes(), secret.read_bytes()),
        result.key,
        result.curators.values(),
        timeout=study.timeout_seconds,
        patience=FOREVER if how.wait else study.patience_seconds,
        notify=note,
    )


def _words(stage: str, finished: int, total: int) -> str:
    return f"{stage}: {finished + 1} of {total}" if total else stage


def _show(summary: dict[str, Any], target: Path) -> None:
    lines = []
    expected, validation = summary["expected"], summary["validation"]
    if expected is not None:
        verdict = "beats" if expected["beats_majority"] else "is not shown to beat"
        score = f"accuracy  {expected['accuracy']:.3f} ({expected['low']:.3f} to {expected['high']:.3f})"
        lines += [
            f"{score}; {verdict} the majority class, {expected['majority']:.3f}",
            f"AUC       {expected['auc']:.3f} ({expected['auc_low']:.3f} to {expected['auc_high']:.3f})",
        ]
    errors = summary["expected_errors"] or {}
    names = {"r2": "R²", "mean_absolute_error": "MAE"}
    estimates = {title: errors[name] for name, title in names.items() if errors.get(name) is not None}
    estimates |= {f"recall of {name}": recall for name, recall in (summary["expected_recalls"] or {}).items()}
    estimates |= {f"share of {name}": share for name, share in summary["shares"].items()}
    lines += [f"{name:<9} {value:.3f} ({low:.3f} to {high:.3f})" for name, (value, low, high) in estimates.items()]
    if validation is not None:
        value, low, high = validation["auc"]
        lines.append(f"validated AUC {value:.3f} ({low:.3f} to {high:.3f})")
    if summary["validation_failure"]:
        lines.append(f"the validation brought nothing: {summary['validation_failure']}")
    lines += [*_spending(summary), *(f"left out  {name}: {why}" for name, why in summary["left_out"].items())]
    lines += [f"note      {summary['advice']}"] if summary["advice"] else []
    lines.append(f"result    {target}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _show_answers(summary: dict[str, Any], target: Path) -> None:
    from learner_node.result.analyses_folder import read_folder

    if "question" in summary:
        lines = [
            f"all       {summary['pooled']}",
            *(f"{name:<9} {turns}" for name, turns in summary["answers"].items()),
        ]
    else:
        lines = [read_folder(target).to_text(), ""]
    lines = [*lines, *_spending(summary), f"result    {target}"]
    sys.stdout.write(without_controls("".join(f"{line}\n" for line in lines)))


def _spending(summary: dict[str, Any]) -> list[str]:
    """A line for each curator: what it charged."""
    from learner_node.result.document import spent_by
    from protocol.rationals import written

    return [
        f"{name:<9} epsilon {spent_by(spending, summary['cost'])} spent"
        + (f", at most {written(spending['at_most'])}" if spending["at_most"] != spending["spent"] else "")
        for name, spending in summary["cost"]["curators"].items()
    ]


@learner_app.command("card")
def learner_card(
    key: Annotated[Path, typer.Argument(help="The learner's private key (PEM); expril keys makes one.")],
    name: Name,
    organisation: Organisation = "",
    contact: Contact = "",
    valid_days: Days = 0,
    out: Out = None,
) -> None:
    """Make the card that a curator enrols, a signed text to mail, and print the fingerprint to read out."""
    with plain_errors():
        from curator_node.key_files import read_key
        from protocol.identity import write_identity

        signing_key = read_key(key)
        card = drafted("learner", name, organisation, contact, signing_key.public, valid_days)
        hand_out(card, write_identity(card, signing_key), out)


@learner_app.command("rotate")
def learner_rotate(
    key: Annotated[Path, typer.Argument(help="The old private key (PEM); the file stays as it is.")],
    new: Annotated[Path, typer.Argument(help="Where to write the new private key (PEM).")],
    card: Annotated[Path, typer.Option(help="The card of the old key.")],
    valid_days: Days = 0,
    out: Out = None,
) -> None:
    """Make a new key, and a card in which the old key vouches for it. Not after the old key leaked."""
    with plain_errors(on_interrupt="a new key that was written stays; remove it before you try again"):
        import msgspec

        from curator_node.key_files import read_key, write_key
        from protocol.identity import MOST_SUCCESSIONS, succession, write_identity

        old_key, old_card, now = read_key(key), read_card(card), int(time.time())
        if old_card.key != old_key.public or old_card.role != "learner":
            raise ConfigurationError(f"{card} is not the card of the learner's key {key}")
        write_key(new)
        new_key = read_key(new)
        chain = (*old_card.successions, succession(old_key, new_key.public, "learner", now))[-MOST_SUCCESSIONS:]
        until = now + valid_days * DAY if valid_days else 0
        new_card = msgspec.structs.replace(old_card, key=new_key.public, issued=now, until=until, successions=chain)
        hand_out(new_card, write_identity(new_card, new_key), out)
