"""The order for `expril simulate`: a scenario, or a run's folder, from which the run can be repeated.

A run's folder keeps the scenario, the command's changes to it, and the schema file. Records are never copied. Their
location is in the folder's `local`, which is never passed on.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from expril.files import private_folder, read_plain, write_private
from learner_node.result.listing import file_digest
from protocol.errors import ConfigurationError
from protocol.mistakes import in_words
from protocol.run_index import AGAIN, LOCAL, REPORT, SCENARIO, SCHEMA, TRANSCRIPTS
from protocol.strict_json import MOST_BYTES, decode_json
from simulations.carriers import CARRIERS, PROCESS
from simulations.scenario import Scenario, at_epsilon, load_scenario, read_schema

if TYPE_CHECKING:
    from simulations.records import Records

ORIGIN = "origin.json"
FORMAT = 1
MODELS_OF = ("first", "all", "none")
"""Repeats whose models are kept."""
ONLY_FIRST, ALL, NONE = MODELS_OF
CHANGED = frozenset({"repeats", "seed", "epsilon", "leave_one_out"})
"""What a command may change in a scenario: keys of it, and every learner's epsilon."""

Change = bool | Annotated[int, msgspec.Meta(ge=0)] | Annotated[str, msgspec.Meta(max_length=100)]


class RunChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run's changes to its scenario file, stored as `again.json`."""

    format: int = FORMAT  # `FORMAT`
    changes: dict[str, Change] = {}  # key of the scenario -> value that the command gave instead of the file's
    carrier: str = PROCESS  # by which envelopes travelled


class RecordsOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The location of a run's file of records."""

    records: str  # path from the run's folder
    sha256: str  # of the file


@dataclass(frozen=True)
class ChosenScenario:
    """A scenario that is to be run."""

    scenario: Scenario  # ready to be run, with all changes
    text: str  # its TOML
    folder: Path  # that relative paths start from
    changes: Mapping[str, int | str]  # key -> value that was given instead of the file's
    notes: tuple[str, ...] = ()  # for its user
    carrier: str = PROCESS  # of the run that it is the folder of


@dataclass(frozen=True)
class Order:
    """A scenario with its records and settings."""

    chosen: ChosenScenario
    records: "Records"
    command: str  # as typed
    models: str = ONLY_FIRST  # of which repeats models are kept, one of `MODELS_OF`
    fresh: bool = False  # begin anew although an interrupted run could go on
    again: str = ""  # the command with all folders, to go on with an interrupted run; it is in no report
    carrier: str = PROCESS  # by which envelopes travel, a key of `simulations.carriers.CARRIERS`

    @property
    def scenario(self) -> Scenario:
        """The scenario with all changes applied."""
        return self.chosen.scenario

    @property
    def version(self) -> str:
        """ExPriL's version."""
        return version("expril")

    @property
    def fingerprint(self) -> str:
        """Equal for two orders exactly if one can resume the other's repeats."""
        frame, ways = self.records.dataset.frame, (self.version, self.models, self.carrier)
        parts = (
            msgspec.json.encode((self.scenario, self.records.steward, self.chosen.text, *ways)),
            repr(frame.schema).encode(),
            frame.hash_rows().to_numpy().tobytes(),
        )
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    @property
    def settings(self) -> dict[str, str | int]:
        """The settings that the run's file of cells begins with."""
        repeats, command = self.scenario.repeats, self.again or self.command
        return {"order": self.fingerprint, "repeats": repeats, "command": command}


def typed_command(scenario: str, options: Mapping[str, object]) -> str:
    """The command that runs a scenario with these options; empty ones are left out.

    A report shows it, so an absolute path of this machine is shortened to its last part.
    """
    name = Path(scenario).name if Path(scenario).is_absolute() else scenario
    return f"expril simulate {name}{typed_options(options)}"


def typed_options(options: Mapping[str, object]) -> str:
    """The options as they are typed, without those that are empty; one that is True is typed without a value."""
    typed = {name.replace("_", "-"): value for name, value in options.items() if value not in ("", None)}
    return "".join(f" --{name}" if value is True else f" --{name} {value}" for name, value in typed.items())


def choose(name: str, changes: Mapping[str, int | str], base: Path | None = None) -> ChosenScenario:
    """Load a built-in scenario, a scenario file, or the scenario of a run's folder.

    Args:
        name: the scenario as typed.
        changes: typed values that replace the file's and an earlier run's.
        base: folder for relative paths. With None it is the scenario file's, or what the run recorded.

    Raises:
        ConfigurationError: there is no such scenario; it, its schema file or an analysis has an error; or a run's
            records are gone.
    """
    chosen = _read_scenario(name, changes, base)
    schema = chosen.scenario.data.schema
    if schema is not None:
        read_schema(chosen.folder / schema)  # its errors come before any library of tables is loaded
    for learner in chosen.scenario.learners:
        learner.parts  # noqa: B018 - the error
    return chosen


def _read_scenario(name: str, changes: Mapping[str, int | str], base: Path | None) -> ChosenScenario:
    run = _run_of(Path(name))
    if run is None:
        scenario, text, folder = load_scenario(name)
        return _chosen(scenario, text, base or folder, changes)
    scenario, text, _ = load_scenario(str(run / SCENARIO))
    again = _read(run / AGAIN, RunChanges, RunChanges())
    chosen = _chosen(scenario, text, run, {**again.changes, **changes})
    if again.carrier in CARRIERS:
        chosen = replace(chosen, carrier=again.carrier)
    else:
        note = f"{run.name} was made with the carrier {again.carrier}, which is gone; this run takes {PROCESS}."
        chosen = replace(chosen, notes=(*chosen.notes, note))
    return chosen if scenario.data.path is None else _with_own_records(run, chosen, base)


def keep_origin(folder: Path, chosen: ChosenScenario, carrier: str) -> None:
    """Write into a run's folder what a repetition needs. The folder may later be renamed, but not moved.

    Raises OSError.
    """
    (folder / AGAIN).write_bytes(
        msgspec.json.format(msgspec.json.encode(RunChanges(changes=dict(chosen.changes), carrier=carrier)))
    )
    data = chosen.scenario.data
    if data.path is None:
        return
    (folder / SCHEMA).write_bytes((chosen.folder / str(data.schema)).read_bytes())
    records = (chosen.folder / data.path).resolve()
    origin = RecordsOrigin(records=_way(folder, records), sha256=file_digest(records))
    write_private(private_folder(folder / LOCAL) / ORIGIN, msgspec.json.encode(origin))


def _with_own_records(run: Path, chosen: ChosenScenario, base: Path | None) -> ChosenScenario:
    """The run's own copy of the schema file, and the records where they were, or under `base`."""
    data = chosen.scenario.data
    origin = _read(run / LOCAL / ORIGIN, RecordsOrigin, None)
    if base is not None:
        records = base / str(data.path)
    elif origin is not None:
        records = run / origin.records
    else:
        records = run / str(data.path)
    if not records.is_file():
        raise ConfigurationError(
            f"the records of this run, {data.path}, are not where they were when it was made; say which folder the "
            "scenario's paths start from: --base FOLDER"
        )
    notes = chosen.notes
    if origin is not None and file_digest(records) != origin.sha256:
        notes = (*notes, f"{data.path} has changed since {run.name} was made: this run has other records.")
    schema = run / SCHEMA if (run / SCHEMA).is_file() else (base or run) / str(data.schema)
    moved = msgspec.structs.replace(data, path=_way(run, records), schema=_way(run, schema))
    return replace(chosen, scenario=msgspec.structs.replace(chosen.scenario, data=moved), notes=notes)


def _way(start: Path, file: Path) -> str:
    """The relative path from a folder to a file."""
    try:
        return Path(os.path.relpath(file.resolve(), start.resolve())).as_posix()
    except ValueError:  # another drive
        return str(file.resolve())


def _run_of(path: Path) -> Path | None:
    """The run's folder if the path is one or is the scenario file in one."""
    folder = path.parent if path.name == SCENARIO and path.is_file() else path
    if not folder.is_dir():
        return None
    if (folder / SCENARIO).is_file() and ((folder / REPORT).exists() or (folder / TRANSCRIPTS).exists()):
        return folder
    if folder == path:
        raise ConfigurationError(
            f"{path} is a folder, and no run is in it: name a scenario, its file or a run's folder"
        )
    return None


def _chosen(scenario: Scenario, text: str, folder: Path, changes: Mapping[str, int | str]) -> ChosenScenario:
    if strangers := changes.keys() - CHANGED:
        raise ConfigurationError(f"the run was made by another ExPriL, which changed {', '.join(sorted(strangers))}")
    keys = {key: value for key, value in changes.items() if key != "epsilon"}
    for key, value in keys.items():
        _check_value(key, value)
    scenario = msgspec.structs.replace(scenario, **keys)
    notes: tuple[str, ...] = ()
    if "epsilon" in changes:
        there = at_epsilon(scenario, str(changes["epsilon"]))
        scenario, notes = there.scenario, there.notes
    return ChosenScenario(scenario, text, folder, dict(changes), notes)


def _check_value(key: str, value: object) -> None:
    """Raise ConfigurationError if a scenario's key cannot have this value; replacing a field checks nothing."""
    kind = next(field.type for field in msgspec.structs.fields(Scenario) if field.name == key)
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{key} = {value!r}: {in_words(error, value, kind)}") from None


def _read(path: Path, kind: Any, absent: Any) -> Any:
    try:
        return decode_json(read_plain(path, most=MOST_BYTES), kind, where=str(path))
    except FileNotFoundError:
        return absent
    except (OSError, ConfigurationError):
        raise ConfigurationError(f"{path} cannot be read, so the run cannot be run again from its folder") from None
