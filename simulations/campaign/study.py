"""A study: tasks -> cells, each kept at once -> findings -> a document. One way to run and to write all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, starmap
from pathlib import Path
from typing import Any

import msgspec

from curator_node.new_files import replace_text
from expril.report.document import Document
from expril.report.files import as_object, csv_table
from expril.report.markdown import as_markdown
from expril.report.page import as_page
from expril.report.provenance import Provenance, read_provenance
from protocol.errors import ConfigurationError
from simulations.campaign.names import parse_names
from simulations.campaign.runner import Campaign, run_missing, says_nothing
from simulations.campaign.store import Task, read_cells
from simulations.campaign.workers import Jobs, Progress

PAGE, MARKDOWN, FINDINGS = "report.html", "README.md", "results.json"


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        repeats: of each cell; repeat r has seed `seed + r`.
        epsilons: exact texts; none where the study's cells have epsilons of their own.
        axes: name of a choice -> what is chosen, such as data sets; values are keys of `Study.choices`.
        takes: on two cores, in words: "two minutes".
    """

    repeats: int
    epsilons: tuple[str, ...]
    axes: Mapping[str, tuple[str, ...]]
    takes: str


@dataclass(frozen=True)
class Order:
    """What is asked of a study.

    Attributes:
        size: how much.
        seed: of the first repeat.
        out: folder of results.
        command: as typed.
        jobs: who computes.
    """

    size: Size
    seed: int
    out: Path
    command: str
    jobs: Jobs = 1

    @property
    def seeds(self) -> range:
        """One a repeat."""
        return range(self.seed, self.seed + self.size.repeats)

    def tasks(self, problems: str, makers: str) -> list[Task]:
        """One of each seed, problem, epsilon and maker; both are names of axes."""
        axes = self.size.axes
        return list(starmap(_task, product(self.seeds, axes[problems], self.size.epsilons, axes[makers])))


@dataclass(frozen=True)
class Part:
    """Cells of one sort.

    Attributes:
        name: of the part, and of its file without ".jsonl"; or of a folder with a file for each maker and problem.
        cell: a msgspec struct with a `key`, which is its task, and `seconds`.
        tasks: all that an order wants, whether it is there or not.
        compute: a task -> its cell; other processes can import it.
        settings: what the numbers depend on beside the tasks; a file that was begun with others is refused.
        file_of: a task -> the file of its cell below the folder of results; None is one file for all.
    """

    name: str
    cell: type[Any]
    tasks: Callable[[Order], Sequence[Task]]
    compute: Callable[[Task], Any]
    settings: Callable[[Order], Mapping[str, object]] = lambda _order: {}
    file_of: Callable[[Task], str] | None = None

    def path(self, out: Path, task: Task) -> Path:
        """The file of a task's cell."""
        return out / (self.file_of(task) if self.file_of else f"{self.name}.jsonl")

    def read(self, out: Path) -> list[Any]:
        """The finished cells of a folder."""
        files = sorted((out / self.name).glob("*.jsonl")) if self.file_of else [out / f"{self.name}.jsonl"]
        return [cell for path in files if path.exists() for cell in read_cells(path, self.cell)]


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
        name: of the study, of its folder and in its provenance.
        title: what it shows, in one line, and where that is told.
        parts: its cells.
        findings: (name of a part -> its cells, provenance) -> what they say, a msgspec struct; a pure function.
        document: findings -> all that is said of them; its last sections may be for the terminal alone.
        short: what a command computes that says nothing else; at most two minutes.
        full: what is published.
        choices: name of an axis -> what it may hold, all by default.
        seed: of the first repeat, by default.
        noise: its source, in words.
        width: columns of the widest table.
        check: stops an order before any work; raises ConfigurationError or DataUnavailableError.
        read_versions: of other environments, by name.
    """

    name: str
    title: str
    parts: Sequence[Part]
    findings: Callable[[Mapping[str, list[Any]], Provenance | None], Any]
    document: Callable[[Any], Document]
    short: Size
    full: Size
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seed: int = 1
    noise: str = "OpenDP"
    width: int = 132
    check: Callable[[Order], None] = lambda _order: None
    read_versions: Callable[[], Mapping[str, str]] = dict

    def run(self, order: Order, progress: Progress = says_nothing) -> Document:
        """Compute the cells that the folder lacks, then write every file anew; also after an interrupt.

        Raises:
            FailedRunsError: some cells failed; all others are kept and written.
            ConfigurationError: cells of other settings, or another process works on them.
        """
        self.check(order)
        campaign = Campaign(self.name, order.out, order.seed, order.jobs, order.command, self.noise, self.read_versions)
        try:
            with campaign.session() as finish:
                for part in self.parts:
                    settings = {"experiment": self.name, **part.settings(order)}
                    run_missing(
                        part.tasks(order),
                        part.compute,
                        part.cell,
                        lambda task, part=part, settings=settings: (part.path(order.out, task), settings),  # type: ignore[misc]
                        jobs=order.jobs,
                        progress=progress,
                        finish=finish,
                    )
        finally:
            if any(self.cells(order.out).values()):
                document = self.write(order.out)
        return document

    def cells(self, out: Path) -> dict[str, list[Any]]:
        """The finished cells of a folder, by part."""
        return {part.name: part.read(out) for part in self.parts}

    def write(self, out: Path) -> Document:
        """Write every file of a folder from its finished cells: page, Markdown, JSON, CSV."""
        found = self.findings(self.cells(out), read_provenance(out).get(self.name))
        document = self.document(found)
        encoded = msgspec.json.format(msgspec.json.encode(as_object(found)), indent=1).decode()
        texts = {name: csv_table(table) for name, table in document.files.items()}
        write_texts(out, {**texts, FINDINGS: f"{encoded}\n", MARKDOWN: as_markdown(document), PAGE: as_page(document)})
        return document

    def size(
        self,
        *,
        full: bool = False,
        repeats: int | None = None,
        epsilons: tuple[str, ...] = (),
        only: Sequence[str] = (),
    ) -> Size:
        """The short or the full size with what somebody chose of it.

        Args:
            full: what is published instead of what is short.
            repeats: None takes the size's own.
            epsilons: none takes the size's own.
            only: "axis=one,two" each.

        Raises:
            ConfigurationError: no such axis, or no such choice; or epsilons of a study that has none to choose.
        """
        size = self.full if full else self.short
        if epsilons and not size.epsilons:
            raise ConfigurationError(f"--epsilon: the study {self.name} has no epsilon to choose")
        axes = dict(size.axes)
        for text in only:
            axis, _, names = text.partition("=")
            if axis not in self.choices:
                known = ", ".join(self.choices) or "none"
                raise ConfigurationError(f"--only {text}: the study {self.name} has no such axis; there are: {known}")
            axes[axis] = parse_names(names, self.choices[axis], axis.removesuffix("s"))
        return Size(repeats or size.repeats, epsilons or size.epsilons, axes, size.takes)


def _task(seed: int, problem: str, epsilon: str, maker: str) -> Task:
    return Task(problem, maker, epsilon, seed)


def write_texts(out: Path, files: Mapping[str, str]) -> None:
    """Write files of a folder, by name, UTF-8 with newlines as they are."""
    for name, text in files.items():
        replace_text(out / name, text)
