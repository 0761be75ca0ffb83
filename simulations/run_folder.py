"""What a run leaves behind: scenario, metrics, transcripts, ledgers, and one HTML page."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from protocol.errors import ConfigurationError, ExprilError
from protocol.transcript import replay
from simulations.harness import Run, metrics_frame
from simulations.report import load_report, save_report, write_page

SCENARIO = "scenario.toml"
METRICS = "metrics.parquet"
REPORT = "report.json"
PAGE = "report.html"
TRANSCRIPTS = "transcripts"
LEDGERS = "ledgers"


class StoredTranscript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner's exchange with one curator in one repeat."""

    repeat: int
    learner: str
    curator: str
    learner_key: bytes
    curator_key: bytes
    label: str
    envelopes: list[bytes]


def new_folder(base: Path, title: str, now: datetime | None = None) -> Path:
    """Make a fresh folder `base/title-date-time`, with a number behind it where that exists."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in title)
    for number in range(1, 1000):
        folder = base / (f"{safe}-{stamp}" + (f"-{number}" if number > 1 else ""))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigurationError(f"cannot make the run folder {folder}: {error.strerror}") from None
        (folder / LEDGERS).mkdir()
        return folder
    raise ConfigurationError(f"{base} holds too many runs of this second")


def save_run(run: Run, folder: Path) -> Path:
    """Write everything; the path of the page."""
    (folder / SCENARIO).write_text(run.report.config_toml, encoding="utf-8")
    metrics_frame(run).write_parquet(folder / METRICS)
    save_report(run.report, folder / REPORT)
    transcripts = folder / TRANSCRIPTS
    transcripts.mkdir()
    for position, ((repeat, learner, curator), envelopes) in enumerate(run.transcripts.items()):
        stored = StoredTranscript(
            repeat=repeat,
            learner=learner,
            curator=curator,
            learner_key=run.keys[repeat, learner],
            curator_key=run.keys[repeat, curator],
            label=run.labels[curator],
            envelopes=envelopes,
        )
        (transcripts / f"{position:05d}.msgpack").write_bytes(msgspec.msgpack.encode(stored))
    return rewrite_page(folder)


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


def verify_run(folder: Path) -> list[dict[str, str | int]]:
    """Replay every stored transcript as an auditor would, without data: one row each.

    Raises:
        ConfigurationError: the folder holds no transcripts, or one of them cannot be read.
    """
    files = sorted((folder / TRANSCRIPTS).glob("*.msgpack"))
    if not files:
        raise ConfigurationError(f"{folder} holds no transcripts")
    rows: list[dict[str, str | int]] = []
    for file in files:
        try:
            stored = msgspec.msgpack.decode(file.read_bytes(), type=StoredTranscript)
        except msgspec.DecodeError:
            raise ConfigurationError(f"{file.name} is not a transcript") from None
        row: dict[str, str | int] = {"repeat": stored.repeat, "learner": stored.learner, "curator": stored.curator}
        try:
            proof = replay(stored.envelopes, stored.curator_key, stored.learner_key, label=stored.label)
        except ExprilError as error:
            rows.append(row | {"verdict": "NOT PROVEN", "why": f"{file.name}: {error}"})
            continue
        rows.append(
            row
            | {
                "verdict": "proven",
                "claimed": str(proof.epsilon_claimed),
                "spent": str(proof.epsilon_spent),
                "releases": proof.releases,
                "study": proof.state,
            }
        )
    return rows
