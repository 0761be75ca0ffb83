"""A run's folder while it is made: each repeat is on disk when it ends, and a killed run goes on after the last one.

The hidden folder holds, beside what the run will leave, `PROGRESS`: what was ordered, everything that the repeats so
far add to the report, and the learners' signing keys, since a learner keeps its key and signs the whole run in the end.
These keys are of this simulation alone; they lie there with mode 0600 until the run is complete, and are then removed.
Finished repeats are never run again, so none of their noise is ever drawn a second time.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from learner_node.model_files import SUFFIX, StudyModel, encode_model, kept_in_files
from learner_node.private_files import private_folder, write_private
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError, ExprilError
from protocol.run_index import (
    LEDGERS,
    LOCAL,
    MODELS,
    PREDICTIONS,
    PROGRESS,
    TRANSCRIPTS,
    decode_transcript,
    encode_transcript,
    file_name,
    transcript_file,
)
from protocol.transcript import Transcript
from simulations.alone import take_alone
from simulations.carriers import PROCESS
from simulations.gathered import Finished, Gathered
from simulations.harness import Exchanged
from simulations.predictions import predictions_of
from simulations.progress_file import STATE, State, read_state, restored, state_of
from simulations.records import Records
from simulations.run_folder import PARTIAL, claim_folder, stamped
from simulations.scenario import Scenario

KEYS = "learner-keys.json"
LOCK = "lock"
LEAST_FREE = 2**16
"""With fewer bytes, a disk is full."""
MODELS_OF = ("first", "all", "none")
"""Of which repeats models are kept."""
ONLY_FIRST, ALL, NONE = MODELS_OF


@dataclass(frozen=True)
class Order:
    """What is to be run.

    Attributes:
        scenario, records: what, with all that the command changed of it.
        text: the scenario's TOML.
        command: as typed.
        version: of ExPriL.
        models: of which repeats models are kept, one of `MODELS_OF`.
        carrier: by which envelopes travel.
    """

    scenario: Scenario
    records: Records
    text: str
    command: str
    version: str
    models: str = ONLY_FIRST
    carrier: str = PROCESS

    @property
    def fingerprint(self) -> str:
        """The same where, and only where, a run could go on with the other's repeats."""
        frame = self.records.dataset.frame
        told = (
            msgspec.json.encode(
                (self.scenario, self.records.steward, self.text, self.version, self.models, self.carrier)
            ),
            repr(frame.schema).encode(),
            frame.hash_rows().to_numpy().tobytes(),
        )
        return sha256(b"".join(sha256(one).digest() for one in told)).hexdigest()


@dataclass(frozen=True)
class Leftover:
    """A folder that an interrupted run left.

    Attributes:
        path: of it.
        done, repeats: finished ones, and all; 0 where nothing can be read of it.
        command: that goes on with it; "" as above.
    """

    path: Path
    done: int = 0
    repeats: int = 0
    command: str = ""

    def __str__(self) -> str:
        """One sentence: what it is, and what to do."""
        if not self.done:
            return f"{self.path} was left by an interrupted run and holds no finished repeat: rm -r {self.path}"
        return (
            f"{self.path} holds {self.done} of {self.repeats} repeats of an interrupted run: {self.command!r} goes on "
            f"with them, rm -r {self.path} removes them"
        )


class Unfinished:
    """The folder of a run in the making; a context that goes on with an interrupted run of the same order.

    Where something goes wrong, the finished repeats are kept; a folder without any is removed.

    Args:
        base: under which runs are kept.
        order: what is run.
        fresh: begin anew although an interrupted run could go on.

    Attributes:
        path: where to write; inside the context a hidden folder, after it the final one.
        gathered: what the finished repeats gave.
        kept: what is said where the run ends early: what is there, and how to go on; "" where nothing is.
    """

    def __init__(self, base: Path, order: Order, *, fresh: bool = False) -> None:
        self._base, self._order, self._fresh = base, order, fresh
        self._fingerprint = order.fingerprint
        self._lock: IO[bytes] | None = None
        self._done = 0
        self.path = base
        self.gathered = Gathered.nothing(order.scenario)
        self.kept = ""

    def __enter__(self) -> Self:
        for progress in self._base.glob(f"[!.]*/{PROGRESS}"):  # killed between the last two steps of `__exit__`
            shutil.rmtree(progress, ignore_errors=True)
        if self._fresh or not self._go_on():
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                name = self.path.name.removeprefix(".").removesuffix(".partial")
                self.path = self.path.rename(claim_folder(self._base, "{}", name))
                shutil.rmtree(self.path / PROGRESS)
            elif not self._done:
                shutil.rmtree(self.path, ignore_errors=True)
        finally:
            if self._lock is not None:
                self._lock.close()
        if isinstance(error, OSError) or (isinstance(error, ExprilError) and _full(self._base)):
            what = error.strerror if isinstance(error, OSError) else "no space is left on its disk"
            raise ConfigurationError(f"cannot write the run in {self._base}: {what}") from error

    def keep(self, finished: Finished) -> None:
        """Write what a repeat gave; it is on disk when this returns.

        Raises:
            OSError: it cannot be written; the repeats before it are kept.
        """
        gathered, repeat = finished.gathered, finished.repeat
        for position, (who, transcript) in enumerate(gathered.evidence.transcripts.items()):
            if who[0] == repeat.number:
                data = encode_transcript(transcript)
                (self.path / TRANSCRIPTS / transcript_file(position)).write_bytes(data)
        if self._order.models == ALL or (self._order.models == ONLY_FIRST and repeat.number == 0):
            self._keep_models(finished)
        told = BytesIO()
        predictions_of(repeat, finished.said).write_parquet(told)
        folder = private_folder(private_folder(self.path / LOCAL) / PREDICTIONS)
        write_private(folder / f"{_of_repeat(repeat.number)}.parquet", told.getvalue())
        self._write_state(gathered)

    def _keep_models(self, finished: Finished) -> None:
        folder = self.path / MODELS
        folder.mkdir(exist_ok=True)
        number = finished.repeat.number
        for place, outcome in enumerate(finished.repeat.outcomes):
            if outcome.learned is None or not outcome.learned.estimates:
                continue
            told = outcome.validation
            recalibration = told.recalibration if told else None
            learner, found = outcome.learner, StudyModel.of(outcome.learned, recalibration=recalibration)
            if not all(map(kept_in_files, found.models.values())):
                finished.gathered.notes.append(f"Models of {learner.name} are not kept: no file holds their kind.")
                continue
            about = {
                "learner": learner.name,
                "repeat": str(number),
                "strategy": learner.strategy,
                "scenario": self._order.scenario.title,
                "expril": self._order.version,
            }
            name = f"{_of_repeat(number)}-{place}-{file_name(learner.name)[:40]}{SUFFIX}"
            (folder / name).write_bytes(encode_model(replace(found, about=about)))

    def _write_state(self, gathered: Gathered) -> None:
        state = state_of(gathered, self._fingerprint, self._order.command, self._order.scenario.repeats)
        write_private(self.path / PROGRESS / STATE, state)
        self.gathered, self._done = gathered, gathered.done
        if self._done:
            self.kept = (
                f"{self._done} of {self._order.scenario.repeats} repeats are kept in {self.path}: the same command "
                f"goes on with them, rm -r {self.path} removes them"
            )

    def _begin(self) -> None:
        self.path = claim_folder(self._base, PARTIAL, stamped(self._order.scenario.title))
        try:
            private_folder(self.path / PROGRESS)
            self._lock = _locked(self.path)
            self._lay_out()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def _lay_out(self) -> None:
        keys = {name: key.to_pem().decode() for name, key in self.gathered.evidence.signers.items()}
        write_private(self.path / PROGRESS / KEYS, json.dumps(keys).encode())
        for name in (LEDGERS, TRANSCRIPTS):
            (self.path / name).mkdir()
        self._write_state(self.gathered)

    def _go_on(self) -> bool:
        """Take over the newest interrupted run of this order that no process works on."""
        for path in sorted(_partials(self._base), reverse=True):
            state = read_state(path)
            if state is None or state.fingerprint != self._fingerprint:
                continue
            lock = _locked(path)
            if lock is None:
                continue
            if not state.done:
                shutil.rmtree(path, ignore_errors=True)
                lock.close()
                continue
            try:
                gathered = _read_back(path, state)
            except (OSError, ExprilError, ValueError, KeyError):
                lock.close()  # damaged: it is told of as a leftover
                continue
            self.path, self._lock = path, lock
            _forget_unfinished(path, gathered)
            self._write_state(gathered)
            return True
        return False


def leftovers(base: Path, besides: Path | None = None) -> Iterator[Leftover]:
    """The folders under a base that interrupted runs left; not those that a process works on.

    Args:
        base: under which runs are kept.
        besides: the folder of the run that asks.
    """
    for path in sorted(_partials(base)):
        if path == besides:
            continue
        lock = _locked(path)
        if lock is None and (path / PROGRESS / LOCK).exists():
            continue
        if lock is not None:
            lock.close()
        state = read_state(path)
        yield Leftover(path) if state is None else Leftover(path, state.done, state.repeats, state.command)


def _partials(base: Path) -> list[Path]:
    return [path for path in base.glob(PARTIAL.format("*")) if path.is_dir()]


def _locked(path: Path) -> IO[bytes] | None:
    """The folder's lock, held; None where another process holds it, or none can be had."""
    try:
        file = (path / PROGRESS / LOCK).open("ab")
    except OSError:
        return None
    if take_alone(file):
        return file
    file.close()
    return None


def _read_back(path: Path, state: State) -> Gathered:
    """What the finished repeats gave; ValueError where a transcript has not the head that it had."""
    pems: dict[str, str] = json.loads((path / PROGRESS / KEYS).read_bytes())
    signers = {name: SigningKey.from_pem(pem.encode()) for name, pem in pems.items()}
    transcripts: dict[Exchanged, Transcript] = {}
    for position, told in enumerate(state.transcripts):
        transcript = decode_transcript((path / TRANSCRIPTS / transcript_file(position)).read_bytes())
        if transcript.head != told.head:
            raise ValueError("a transcript is not as it was")
        transcripts[told.who] = transcript
    return restored(state, signers, transcripts)


def _forget_unfinished(path: Path, gathered: Gathered) -> None:
    """Remove what the repeat that was interrupted had written."""
    known = {transcript_file(position) for position in range(len(gathered.evidence.transcripts))}
    for file in (path / TRANSCRIPTS).iterdir():
        if file.name not in known:
            file.unlink()
    done = tuple(_of_repeat(number) for number in range(gathered.done))
    for file in (*(path / MODELS).glob("*"), *(path / LOCAL / PREDICTIONS).glob("*")):
        if not file.name.startswith(done):
            with suppress(FileNotFoundError):
                file.unlink()


def _full(folder: Path) -> bool:
    """Whether a database that failed there failed for lack of room."""
    try:
        return shutil.disk_usage(folder).free < LEAST_FREE
    except OSError:
        return False


def _of_repeat(number: int) -> str:
    return f"repeat-{number:05d}"
