"""What a run leaves behind: scenario, metrics, transcripts, ledgers with their policies, and one HTML page.

A folder appears under its name only when it is complete; `unfinished` keeps the repeats of one that is not. All but the
page, and what is local, is in a list that the run's learners sign (`protocol.run_index`).
"""

import shutil
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from learner_node.result.listing import listed_digests, save_index
from protocol.errors import ConfigurationError
from protocol.run_index import (
    FORMAT,
    LEDGER_SUFFIX,
    LEDGERS,
    METRICS,
    POLICY_SUFFIX,
    REPORT,
    SCENARIO,
    TRANSCRIPTS,
    Index,
    LedgerEntry,
    Participant,
    TranscriptEntry,
    encode_transcript,
    file_name,
    transcript_file,
)
from simulations.report.model import save_report
from simulations.run import Run
from simulations.run_page import rewrite_page

PARTIAL = ".{}.partial"
"""Name of a folder in the making."""


class NewFolder:
    """A folder `base/title-date-time` in the making; a context that keeps it only where nothing went wrong.

    Attributes:
        path: where to write; inside the context a hidden folder, after it the final one.
    """

    def __init__(self, base: Path, title: str, now: datetime | None = None) -> None:
        self._base = base
        self._name = stamped(title, now)
        self.path = base

    def __enter__(self) -> Self:
        self.path = claim_folder(self._base, PARTIAL, self._name)
        (self.path / LEDGERS).mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        self.path = self.path.rename(claim_folder(self._base, "{}", self._name))


def stamped(title: str, now: datetime | None = None) -> str:
    """The name of a run's folder: its title, fit for a file's name, and the time."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    return f"{file_name(title)}-{stamp}"


def claim_folder(base: Path, pattern: str, name: str) -> Path:
    """Make a new folder of that name, with a number where it is taken.

    Args:
        base: where.
        pattern: with {} for the name.
        name: that is wanted.

    Raises:
        ConfigurationError: it cannot be made.
    """
    for number in range(1, 1000):
        folder = base / pattern.format(name + (f"-{number}" if number > 1 else ""))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise ConfigurationError(f"{folder} is in the way") from None
            continue
        except OSError as error:
            raise ConfigurationError(f"cannot make the run folder {folder}: {error.strerror}") from None
        return folder
    raise ConfigurationError(f"{base} holds too many runs of this second")


def save_run(run: Run, folder: Path) -> None:
    """Write everything of a run into its folder. The ledgers there must be closed.

    Args:
        run: what happened.
        folder: of a `NewFolder`; it holds the ledgers already.
    """
    report, evidence = run.report, run.evidence
    (folder / SCENARIO).write_text(report.config_toml, encoding="utf-8")
    metrics = BytesIO()
    run.metrics_frame().write_parquet(metrics)
    (folder / METRICS).write_bytes(metrics.getvalue())
    save_report(report, folder / REPORT)
    for name, policy in evidence.policies.items():
        (folder / LEDGERS / f"{name}{POLICY_SUFFIX}").write_bytes(msgspec.toml.encode(policy))
    (folder / TRANSCRIPTS).mkdir(exist_ok=True)
    entries = []
    for position, (who, transcript) in enumerate(evidence.transcripts.items()):
        repeat, learner, curator, study = who
        file = transcript_file(position)
        (folder / TRANSCRIPTS / file).write_bytes(encode_transcript(transcript))
        entries.append(
            TranscriptEntry(
                file=file,
                repeat=repeat,
                learner=learner,
                curator=curator,
                label=evidence.labels[curator],
                head=transcript.head.hex(),
                envelopes=len(transcript.envelopes),
                state=evidence.states[who],
                study=study,
            )
        )
    index = Index(
        format=FORMAT,
        expril=report.version,
        title=report.title,
        created=report.created,
        repeats=report.repeats,
        participants=tuple(
            Participant(role, name, repeat, key.hex()) for (role, name, repeat), key in evidence.keys.items()
        ),
        transcripts=tuple(entries),
        ledgers=tuple(
            LedgerEntry(
                file=f"{name}{LEDGER_SUFFIX}",
                curator=name,
                repeat=0,
                key=evidence.keys["curator", name, 0].hex(),
                head=head.hex(),
                entries=count,
            )
            for name, (head, count) in evidence.ledgers.items()
        ),
        files=listed_digests(folder),
    )
    save_index(index, evidence.signers, folder)
    rewrite_page(folder)
