"""A study: tasks -> cells, each kept at once -> findings -> a document. One way to run and to write all of them."""

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from expril.files import replace_text
from expril.report.document import Document
from expril.report.files import as_markdown, as_object, csv_table
from expril.report.page import as_page
from expril.report.picture import as_files
from expril.report.provenance import read_provenance
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest
from simulations.campaign.runner import (
    Batch,
    Campaign,
    FailedRunsError,
    Finish,
    Progress,
    run_batches,
    run_missing,
    says_nothing,
)
from simulations.campaign.store import Task, read_cells


def typable(name: str) -> str:
    """A name as a command line takes it: "readmission, c = 2" is "readmission-c-2"."""
    return re.sub(r"[^\w.:/+-]+", "-", name).strip("-")


def parse_names(text: str, names: Collection[str], kind: str) -> tuple[str, ...]:
    """Comma-separated names in any case, each once, or all of them for "all".

    Each of the known names may be typed as `typable` has it; `what` one is called in errors: "data set".

    Raises ConfigurationError: an unknown name, or none.
    """
    if text.strip().lower() == "all":
        return tuple(names)
    typed = list(map(typable, names))
    by_lower = {key.lower(): name for name in names for key in (name, typable(name))}
    chosen = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        if part.lower() not in by_lower:
            raise ConfigurationError(f"unknown {kind} {part!r}{suggest(part, typed)}; there are {', '.join(typed)}")
        chosen.append(by_lower[part.lower()])
    if not chosen:
        raise ConfigurationError(f"name at least one {kind}: {', '.join(typed)}, or all")
    return tuple(dict.fromkeys(chosen))


PAGE, MARKDOWN, FINDINGS = "report.html", "README.md", "results.json"


@dataclass(frozen=True)
class Size:
    """How much is computed."""

    repeats: int  # of each cell; repeat r has seed `seed + r`. 0 where the study has a number for each of its parts.
    epsilons: tuple[str, ...]  # exact texts; none where the study's cells have epsilons of their own
    # name of a choice -> what is chosen, such as data sets; values are keys of `Study.choices`
    axes: Mapping[str, tuple[str, ...]]
    takes: str  # on two cores, in words: "two minutes"


@dataclass(frozen=True)
class Order:
    """What is asked of a study."""

    size: Size  # how much
    seed: int  # of the first repeat
    out: Path  # folder of results
    command: str  # as typed
    jobs: int = 1  # processes
    # name of an option that the study declares -> what was read of it
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        """The seed of each repeat."""
        return range(self.seed, self.seed + self.size.repeats)

    def tasks(self, problems: str, makers: str, epsilons: Callable[[str], Sequence[str]] | None = None) -> list[Task]:
        """A task for each seed, problem, maker and epsilon; the first seed of all comes before the second of any.

        `problems` and `makers` name axes; `epsilons` are a maker's, the size's by default.
        """
        pairs = product(self.seeds, self.size.axes[problems], self.size.axes[makers])
        return [
            Task(problem, maker, epsilon, seed)
            for seed, problem, maker in pairs
            for epsilon in (epsilons(maker) if epsilons else self.size.epsilons)
        ]


@dataclass(frozen=True)
class Part:
    """Cells of one sort."""

    name: str  # of the part, and of its file without ".jsonl"; or of a folder with a file for each maker and problem
    cell: type[Any]  # a msgspec struct with a `key`, which is its task, and `seconds`
    tasks: Callable[[Order], Sequence[Task]]  # all that an order wants, whether it is there or not
    compute: Callable[[Any], Any]  # a task -> its cell; other processes can import it
    # what the numbers depend on beside the tasks; a file that was begun with others is refused
    settings: Callable[[Order], Mapping[str, object]] = lambda _order: {}
    # a task -> the file of its cell below the folder of results; None is one file for all
    file_of: Callable[[Task], str] | None = None
    # an order, and tasks that its one file lacks -> what is computed together; `compute` then makes a `Computed` of a
    # batch. None computes each task alone.
    batches: Callable[[Order, Sequence[Task]], Sequence[Batch]] | None = None
    # its name in the provenance; "" is the study's. A study with such parts finds all of its provenance.
    source: str = ""
    # a task -> what its file begins with, where that is not the experiment with `settings`
    header: Callable[[Order, Task], Mapping[str, object]] | None = None

    def path(self, out: Path, task: Task) -> Path:
        """The file of a task's cell."""
        return out / (self.file_of(task) if self.file_of else f"{self.name}.jsonl")

    def place(self, experiment: str, order: Order, task: Task) -> tuple[Path, Mapping[str, object]]:
        """The file of a task's cell, and what it begins with."""
        header = self.header(order, task) if self.header else {"experiment": experiment, **self.settings(order)}
        return self.path(order.out, task), header

    def read(self, out: Path) -> list[Any]:
        """The finished cells of a folder."""
        files = sorted((out / self.name).glob("*.jsonl")) if self.file_of else [out / f"{self.name}.jsonl"]
        return [cell for path in files if path.exists() for cell in read_cells(path, self.cell)]

    def run(self, study: str, order: Order, progress: Progress, finish: Finish) -> None:
        """Compute the cells that the folder lacks."""
        tasks = self.tasks(order)
        to_whom: dict[str, Any] = {"jobs": order.jobs, "progress": progress, "finish": finish}
        if self.batches is None:
            run_missing(tasks, self.compute, self.cell, partial(self.place, study, order), **to_whom)
        elif tasks:
            make, (path, settings) = self.batches, self.place(study, order, tasks[0])

            def missing(finished: Container[Task]) -> Sequence[Batch]:
                return make(order, [task for task in tasks if task not in finished])

            run_batches(path, settings, self.cell, missing, self.compute, **to_whom)


@dataclass(frozen=True)
class Study:
    """A study."""

    name: str  # of the study, of its folder and in its provenance
    parts: Sequence[Part]  # its cells
    # (name of a part -> its cells, provenance) -> what they say, a msgspec struct; a pure function. Where parts have
    # sources of their own, provenance is by source.
    findings: Callable[[Mapping[str, list[Any]], Any], Any]
    # findings -> all that is said of them; its last sections may be for the terminal alone
    document: Callable[[Any], Document]
    short: Size  # what a command computes that says nothing else; at most two minutes
    full: Size  # what is published
    # name of an axis -> what it may hold, all by default
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seed: int = 1  # of the first repeat, by default
    noise: str | Callable[[Order], str] = "exact"  # its source, in words, or an order -> them
    width: int = 132  # columns of the widest table
    # stops an order before any work; raises ConfigurationError or DataUnavailableError
    check: Callable[[Order], None] = lambda _order: None
    # name of a further option, of `--set NAME=VALUE` -> what reads its text; raises ValueError
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    # findings -> what is published of them as JSON: all, by default
    results: Callable[[Any], object] = lambda results: results
    indent: int = 1  # of results.json; 0 is one line
    # of other environments, by name, as far as an order needs them
    read_versions: Callable[[Order], Mapping[str, str]] = lambda _order: {}

    def run(self, order: Order, progress: Progress = says_nothing) -> Document:
        """Compute the cells that the folder lacks, then write every file anew; also after an interrupt.

        Raises FailedRunsError: some cells failed; all others are kept and written; ConfigurationError: cells of other
        settings, or another process works on them.
        """
        self.check(order)
        noise = self.noise if isinstance(self.noise, str) else self.noise(order)
        versions = partial(self.read_versions, order)
        failures: list[str] = []
        try:
            for source in dict.fromkeys(part.source for part in self.parts):
                campaign = Campaign(
                    source or self.name, order.out, order.seed, order.jobs, order.command, noise, versions
                )
                try:
                    with campaign.session() as finish:
                        for part in self.parts:
                            if part.source == source:
                                part.run(self.name, order, progress, finish)
                except FailedRunsError as error:  # the other sources' cells can still be had
                    failures += error.failures
        except BaseException:
            if any(self.cells(order.out).values()):
                self.write(order.out)
            raise
        document = self.write(order.out)
        Finish(failures=failures).check()
        return document

    def cells(self, out: Path) -> dict[str, list[Any]]:
        """The finished cells of a folder, by part."""
        return {part.name: part.read(out) for part in self.parts}

    def read_findings(self, out: Path) -> Any:
        """Findings of a folder's finished cells."""
        provenance = read_provenance(out)
        several = any(part.source for part in self.parts)
        return self.findings(self.cells(out), provenance if several else provenance.get(self.name))

    def published(self, results: Any) -> object:
        """Findings as JSON values."""
        return as_object(self.results(results))

    def write(self, out: Path) -> Document:
        """Write every file of a folder from its finished cells: page, Markdown, JSON, CSV, SVG."""
        results = self.read_findings(out)
        document = self.document(results)
        encoded = msgspec.json.format(msgspec.json.encode(self.published(results)), indent=self.indent).decode()
        texts = {name: csv_table(table) for name, table in document.files.items()} | as_files(document)
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

        `only` has texts "axis=name,name".

        Raises ConfigurationError: no such axis, or no such choice; or epsilons of a study that has none to choose.
        """
        size = self.full if full else self.short
        if epsilons and not size.epsilons:
            raise ConfigurationError(f"--epsilon: the study {self.name} has no epsilon to choose")
        axes = dict(size.axes)
        for text in only:
            axis, _, names = text.partition("=")
            if axis not in self.choices:
                axes_there = ", ".join(self.choices) or "none"
                raise ConfigurationError(
                    f"--only {text}: the study {self.name} has no such axis; there are: {axes_there}"
                )
            axes[axis] = parse_names(names, self.choices[axis], _singular(axis))
        return Size(repeats or size.repeats, epsilons or size.epsilons, axes, size.takes)

    def read_options(self, texts: Sequence[str]) -> dict[str, Any]:
        """The value of each option, from texts "name=value".

        Raises ConfigurationError: no such option, or no such value.
        """
        read = {}
        for text in texts:
            name, _, value = text.partition("=")
            if name not in self.options:
                options_there = ", ".join(self.options) or "none"
                raise ConfigurationError(
                    f"--set {text}: the study {self.name} has no such option; there are: {options_there}"
                )
            try:
                read[name] = self.options[name](value)
            except ValueError as error:
                raise ConfigurationError(f"--set {text}: {error}") from None
        return read


def _singular(axis: str) -> str:
    return f"{axis.removesuffix('ies')}y" if axis.endswith("ies") else axis.removesuffix("s")


def write_texts(out: Path, files: Mapping[str, str]) -> None:
    """Write files of a folder, by name, UTF-8 with newlines as they are."""
    for name, text in files.items():
        replace_text(out / name, text)
