"""The study `bounds`: accuracies with one thing at a time made ideal, what each thing costs, bars in reach."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from expril.report.chart import Axis, Strip, make_axis
from expril.report.document import PAGE, Block, Document, Facts, Legend, Section, Text
from expril.report.numbers import decimal, signed, with_error
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, Written, attributes, text_table
from lab.averages import Mean
from lab.bounds.cells import DATASETS, SETTINGS, Run, compute, tasks
from lab.cells import INFINITE, differences, grouped
from lab.comparison.bars import least
from lab.studies import document_of
from lab.study import Part, Size, Study

DIFFERENCES = (
    ("1", "distance from h*", "h*", "cells-1"),
    ("1", "noise", "no-noise", "cells-1"),
    ("1", "few cells (1000 instead, both without noise)", "no-noise-1000", "no-noise"),
    ("1", "labels of cells instead of records (both without noise)", "exact", "no-noise-1000"),
    ("1", "few private records", "private-1", "cells-1"),
    ("1", "a small source", "source-1", "cells-1"),
    ("1", "a source of another population", "others-1", "cells-1"),
    ("1", "not knowing where the private records lie", "where-1", "others-1"),
    ("1", "a source that is not the private records themselves", "where-1", "cells-1"),
    ("1", "leaving out the networks", "networks-1", "cells-1"),
    ("0.1", "distance from h*", "h*", "cells-0.1"),
    ("0.1", "noise, and the fewer cells that it allows", "no-noise", "cells-0.1"),
    ("0.1", "few private records", "private-0.1", "cells-0.1"),
    ("0.1", "a source of another population", "others-0.1", "cells-0.1"),
    ("0.1", "not knowing where the private records lie", "where-0.1", "others-0.1"),
    ("0.1", "a source that is not the private records themselves", "where-0.1", "cells-0.1"),
    ("0.1", "leaving out the networks", "networks-0.1", "cells-0.1"),
    (INFINITE, "a kernel instead of the network (both on exact labels)", "h*", "exact"),
)
"""At which epsilon, what costs accuracy, the setting without that cost, the setting with it."""
RESOLVED_ERRORS = 2.0
"""Standard errors beyond which a difference is bold; of one run no difference is."""
OURS = {"1": ("cells-1", "networks-1"), "0.1": ("cells-0.1", "networks-0.1")}
"""Epsilon of a bar -> settings that a learner can have."""
IDEALS = {
    "1": ("no-noise", "no-noise-1000", "source-1", "private-1", "others-1", "where-1", "exact", "h*"),
    "0.1": ("private-0.1", "others-0.1", "where-0.1", "no-noise", "no-noise-1000", "exact", "h*"),
}
"""Epsilon of a bar -> settings that are asked whether they would reach it."""

READING = (
    "Accuracy on the test records in percent, mean ± standard error (runs). No learner can have these ideals; they say "
    "what is left to win, and where."
)
MEANINGS = (
    (
        "The learner",
        (
            "is cells without its networks, for speed, but for two rows. Counts are exact and their noise is seeded, "
            "in the form and of the law that curators answer; no curator is asked."
        ),
    ),
    (
        "No noise",
        "is epsilon infinite. Labels are still known by cell only, so what is lost there is not lost to privacy.",
    ),
    (
        "Ten times the records",
        (
            "come from the same generator: the same problem and test records, the problem's own records among them. "
            "CTG has no more, so it has no such rows. With ten times the source, cells are as many as before; with ten "
            "times the private records, as many as the rule says for that number."
        ),
    ),
    (
        "Cells averaged over other records",
        (
            "Cells, question, answers and label model are the same, but each cell's features are averaged over as many "
            "other records of the private population, or over the private records themselves, instead of the source's. "
            "With these the learner also knows better how many private records to expect in a cell."
        ),
    ),
    (
        "The label of every private record",
        (
            "Gaussian-process regression with the same random features and kernels on the private records themselves. "
            "Nothing is aggregated, and nothing is private."
        ),
    ),
    ("h*", "is the paper's network, trained on the same records and labels."),
)
COST = (
    "Points of accuracy between two of these settings, run by run on the same records: mean ± standard error; what is "
    "beyond two standard errors is bold. The part of the few private records holds the sampling error of the counts "
    "and, as ten times the records drown it, the noise. A cell's answer belongs to private records whose places in "
    "the cell the learner does not know; it takes its kernel at source records instead, six to ten a cell. That these "
    "are few, that they are of another population (on B they are not), and that they are not those very records are "
    "three costs; the last two are also shown together. Labels of cells instead of records are the price of "
    "aggregation: an answer is about several records, and a label that changes within a cell is averaged away. Costs "
    "overlap and do not add up to the distance from h*."
)
BAR = (
    "A bar is met at its number, or at the same distance from h* as it had from the h* that it was set by. What "
    "reaches it is bold. These runs are few; the bars are judged on those of the comparison."
)


class Amount(Mean, frozen=True):
    """A mean over runs with its standard error, 0 for one run."""

    value: float = msgspec.field(name="mean")

    @property
    def resolved(self) -> bool:
        """Whether it is far enough from 0."""
        return self.runs > 1 and abs(self.value) > RESOLVED_ERRORS * self.error


class Cost(msgspec.Struct, frozen=True):
    """What one thing costs: at which epsilon, what it is, points by data set."""

    epsilon: str
    what: str
    amounts: dict[str, Amount]


class Findings(msgspec.Struct, frozen=True):
    """All that the runs say."""

    runs: tuple[Run, ...]  # in the order of their file
    accuracies: dict[str, dict[str, Amount]]  # setting -> data set -> accuracy in percent
    costs: tuple[Cost, ...]  # in the order of `DIFFERENCES`, each with the data sets that were run
    bars: dict[str, dict[str, float]]  # epsilon -> data set -> what the bar asks for on these runs
    provenance: Provenance | None = None  # None before anything was computed, or where it is not known


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Findings:
    """Means over seeds, and differences seed by seed over those that both settings have."""
    found = grouped(cells["cells"], lambda run: (run.setting, run.dataset))

    def known(amounts: Iterable[tuple[str, Amount | None]]) -> dict[str, Amount]:
        return {dataset: amount for dataset, amount in amounts if amount is not None}

    def difference(dataset: str, better: str, plain: str) -> Amount | None:
        first, second = (found.get((name, dataset), ()) for name in (better, plain))
        return Amount.of_any(differences(first, second, attrgetter("accuracy")))

    accuracies = {
        name: known(
            (dataset, Amount.of_any(run.accuracy for run in found.get((name, dataset), ()))) for dataset in DATASETS
        )
        for name in SETTINGS
    }
    in_site = {dataset: amount.value for dataset, amount in accuracies["h*"].items()}
    return Findings(
        tuple(cells["cells"]),
        {name: amounts for name, amounts in accuracies.items() if amounts},
        tuple(
            Cost(epsilon, what, amounts)
            for epsilon, what, better, plain in DIFFERENCES
            if (amounts := known((dataset, difference(dataset, better, plain)) for dataset in DATASETS))
        ),
        {
            epsilon: {
                dataset: least(dataset, epsilon, in_site.get(dataset))
                for dataset in DATASETS
                if any(dataset in accuracies[name] for name in names)
            }
            for epsilon, names in OURS.items()
        },
        provenance,
    )


def document(found: Findings) -> Document:
    """Accuracies, what each thing costs, and the bars."""
    accuracies, costs, bars = _accuracies(found), _costs(found), list(_bars(found))
    return document_of(
        "bounds",
        [
            Section("Accuracies", [Text(READING), accuracies, Facts(MEANINGS, "reading")] if accuracies else []),
            Section("The same, drawn", _drawn(found) if accuracies else [], PAGE),
            Section("What each thing costs", [Text(COST), costs] if costs else []),
            *(Section(bar.caption, [Text(BAR) if bar is bars[0] else None, bar]) for bar in bars),
        ],
        found.provenance,
        {"bounds.csv": Table.of("runs", COLUMNS, found.runs)},
    )


COLUMNS: tuple[Column[Run], ...] = (
    *attributes("dataset setting"),
    Column("epsilon", lambda run: run.key.epsilon),
    *attributes("cells seed"),
    *attributes("accuracy", "{:.3f}".format),
)
BAR_MARKS = (("solid", "bar at epsilon 1"), ("dashes", "bar at epsilon 0.1"))


def _epsilon(text: str) -> str:
    return "infinite" if text == INFINITE else text


def _accuracies(found: Findings) -> Written:
    rows: list[tuple[object, ...]] = [
        (SETTINGS[name].title, _epsilon(SETTINGS[name].epsilon), *(_accuracy(amounts.get(name)) for name in DATASETS))
        for name, amounts in found.accuracies.items()
    ]
    bars = [
        (f"bar at {epsilon}", epsilon, *(f"{numbers[name]:.1f}" if name in numbers else "" for name in DATASETS))
        for epsilon, numbers in found.bars.items()
        if numbers
    ]
    return text_table("Accuracies", ("setting", "epsilon", *DATASETS), [*rows, *bars], numbers=True)


def _accuracy(amount: Amount | None) -> str:
    return "" if amount is None else f"{with_error(decimal(amount.value), amount.error)} ({amount.runs})"


def _drawn(found: Findings) -> list[Block]:
    """A strip a data set, all settings of it on one axis."""

    def column(dataset: str) -> Column[str]:
        bars = [numbers[dataset] for numbers in found.bars.values() if dataset in numbers]
        means = [amounts[dataset].value for amounts in found.accuracies.values() if dataset in amounts]
        axis = make_axis(min([*means, *bars]), max([*means, *bars]), (1.0, 2.0, 5.0, 10.0, 20.0), left=8, right=92)
        return Column(dataset, lambda name: _strip(found, name, dataset, axis), drawn=True, axis=axis)

    shown = [name for name in DATASETS if any(name in amounts for amounts in found.accuracies.values())]
    names = Column[str](
        "setting", lambda name: f"{SETTINGS[name].short}, {_epsilon(SETTINGS[name].epsilon)}", names=True
    )
    caption = f"Mean ± standard error in percent; from the left: {', '.join(shown)}."
    table = Table(caption, [names, *map(column, shown)], [Group(list(found.accuracies))], "dense")
    return [Text(caption), Legend(marks=BAR_MARKS), table]


def _strip(found: Findings, name: str, dataset: str, axis: Axis) -> Strip | None:
    amount = found.accuracies[name].get(dataset)
    if amount is None:
        return None
    marks = [
        (found.bars[epsilon][dataset], style)
        for epsilon, (style, _) in zip(OURS, BAR_MARKS, strict=True)
        if dataset in found.bars[epsilon]
    ]
    return Strip(axis, [(0, amount.value, amount.ends, f"{dataset}: {_accuracy(amount)}")], marks=marks)


def _costs(found: Findings) -> Table[Cost]:
    def column(dataset: str) -> Column[Cost]:
        def show(cost: Cost) -> Cell:
            amount = cost.amounts.get(dataset)
            text = amount and with_error(signed(amount.value), amount.error)
            return Cell(text or "", strong=amount is not None and amount.resolved)

        return Column(dataset, show, number=True)

    columns = [
        Column[Cost]("what costs", lambda cost: cost.what, names=True),
        Column[Cost]("epsilon", lambda cost: _epsilon(cost.epsilon), number=True),
    ]
    return Table.of("What each thing costs", [*columns, *map(column, DATASETS)], found.costs)


def _bars(found: Findings) -> Iterator[Written]:
    """At each epsilon the bars, what a learner can have, and which ideals would reach them."""
    for epsilon, numbers in found.bars.items():
        if numbers:
            names = [name for name in (*OURS[epsilon], *IDEALS[epsilon]) if name in found.accuracies]
            rows = [
                (SETTINGS[name].short, *(_reached(found.accuracies[name].get(each), numbers[each]) for each in numbers))
                for name in names
            ]
            bars = ("bar", *(f"{number:.1f}" for number in numbers.values()))
            yield text_table(f"The bars at epsilon {epsilon}", ("setting", *numbers), [bars, *rows], numbers=True)


def _reached(amount: Amount | None, bar: float) -> Cell:
    if amount is None:
        return Cell("")
    reached = amount.value >= bar
    return Cell(
        decimal(amount.value), strong=reached, tone="within" if reached else "", title="reached" if reached else ""
    )


EVERYTHING = {"datasets": DATASETS, "settings": tuple(SETTINGS)}
STUDY = Study(
    name="bounds",
    parts=[Part("cells", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices=EVERYTHING,
    short=Size(1, ("1", "0.1"), {**EVERYTHING, "datasets": ("B", "D", "E")}, "a minute"),
    full=Size(5, ("1", "0.1"), EVERYTHING, "four minutes"),
    seed=1000,
    noise="seeded, not private",
    width=165,
)
