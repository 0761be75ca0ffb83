"""What a run leaves behind: scenario, metrics, transcripts, ledgers with their policies, and one HTML page.

A folder appears under its name only when it is complete; a run that fails or is interrupted leaves nothing.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from protocol.errors import ConfigurationError
from protocol.transcript import Transcript
from simulations.harness import Run, metrics_frame
from simulations.report import load_report, save_report, write_page

SCENARIO = "scenario.toml"
METRICS = "metrics.parquet"
REPORT = "report.json"
PAGE = "report.html"
TRANSCRIPTS = "transcripts"
INDEX = "index.json"
LEDGERS = "ledgers"
LEDGER_SUFFIX = ".ledger"
POLICY_SUFFIX = ".policy.toml"


class IndexEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner's exchange with one curator in one repeat: who, and the head that its envelopes must chain to."""

    file: str
    repeat: int
    learner: str
    curator: str
    learner_key: str
    curator_key: str
    label: str
    head: str


class NewFolder:
    """A folder `base/title-date-time` in the making; a context that keeps it only where nothing went wrong.

    Attributes:
        path: where to write; inside the context a hidden folder, after it the final one.
    """

    def __init__(self, base: Path, title: str, now: datetime | None = None) -> None:
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in title)
        self._base = base
        self._name = f"{safe}-{stamp}"
        self.path = base

    def __enter__(self) -> Self:
        self.path = self._claim(".{}.partial")
        (self.path / LEDGERS).mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        final = self._claim("{}")
        self.path = self.path.rename(final)

    def _claim(self, pattern: str) -> Path:
        for number in range(1, 1000):
            folder = self._base / pattern.format(self._name + (f"-{number}" if number > 1 else ""))
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                if not folder.is_dir():
                    raise ConfigurationError(f"{folder} is in the way") from None
                continue
            except OSError as error:
                raise ConfigurationError(f"cannot make the run folder {folder}: {error.strerror}") from None
            return folder
        raise ConfigurationError(f"{self._base} holds too many runs of this second")


def save_run(run: Run, folder: Path) -> None:
    """Write everything of a run into its folder."""
    (folder / SCENARIO).write_text(run.report.config_toml, encoding="utf-8")
    metrics_frame(run).write_parquet(folder / METRICS)
    save_report(run.report, folder / REPORT)
    for name, policy in run.policies.items():
        (folder / LEDGERS / f"{name}{POLICY_SUFFIX}").write_bytes(msgspec.toml.encode(policy))
    transcripts = folder / TRANSCRIPTS
    transcripts.mkdir()
    index = []
    for position, ((repeat, learner, curator), transcript) in enumerate(run.transcripts.items()):
        file = f"{position:05d}.msgpack"
        (transcripts / file).write_bytes(msgspec.msgpack.encode(transcript.envelopes))
        index.append(
            IndexEntry(
                file=file,
                repeat=repeat,
                learner=learner,
                curator=curator,
                learner_key=run.keys[repeat, learner].hex(),
                curator_key=run.keys[repeat, curator].hex(),
                label=run.labels[curator],
                head=transcript.head.hex(),
            )
        )
    (transcripts / INDEX).write_bytes(msgspec.json.format(msgspec.json.encode(index), indent=1))
    rewrite_page(folder)


def rewrite_page(folder: Path) -> Path:
    """Write the page anew from the stored numbers; its path.

    Raises:
        ConfigurationError: the folder holds no readable run.
    """
    try:
        report = load_report(folder / REPORT)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{folder} is not the folder of a run ({type(error).__name__})") from None
    write_page(report, folder / PAGE)
    return folder / PAGE


def read_index(folder: Path) -> list[IndexEntry]:
    """The transcripts that a run folder must hold.

    Raises:
        ConfigurationError: no readable index.
    """
    try:
        return msgspec.json.decode((folder / TRANSCRIPTS / INDEX).read_bytes(), type=list[IndexEntry])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{folder} holds no transcripts of a run ({type(error).__name__})") from None


def read_transcript(folder: Path, entry: IndexEntry) -> Transcript | None:
    """The stored transcript, None where its file is absent or no list of envelopes."""
    try:
        envelopes = msgspec.msgpack.decode((folder / TRANSCRIPTS / entry.file).read_bytes(), type=list[bytes])
    except (OSError, msgspec.DecodeError):
        return None
    transcript = Transcript()
    for envelope in envelopes:
        transcript.append(envelope)
    return transcript
