"""The study of the game: which of sixty frozen broken mechanisms it catches, beside an oracle, and its false alarms."""

import math
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
from scipy.stats import binom

from expril.audit.attack.game import breaks
from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes, numbers
from lab.broken.arithmetic import ARITHMETIC
from lab.broken.categories import CATEGORIES
from lab.broken.composition import COMPOSITION
from lab.broken.parts import Broken, Case, Rows
from lab.broken.right import RIGHT
from lab.broken.selection import SELECTION
from lab.broken.sensitivity import SENSITIVITY
from lab.broken.shape import SHAPE
from lab.cells import TaskCell, grouped
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.errors import ConfigurationError
from simulations.campaign.store import Task

FAMILIES = (SENSITIVITY, ARITHMETIC, SHAPE, SELECTION, CATEGORIES, COMPOSITION)
BROKEN: dict[str, Broken] = {case.name: case for family in FAMILIES for case in family.broken_ones}
CASES: dict[str, Case] = {**BROKEN, **{case.name: case for case in RIGHT.right_ones}}
ORACLE, GAME, ROUNDED, RIGHT_ONES = "oracle", "game", "rounded", "right"
SEEDS = {ORACLE: 100, GAME: 20, ROUNDED: 20, RIGHT_ONES: 200}  # at most, of each mechanism
DRAWS = {ORACLE: 100_000, GAME: 100_000, ROUNDED: 100_000, RIGHT_ONES: 20_000}  # of each input
DECIMALS = 6  # of rounded outcomes
ERROR_RATE = 0.05
CERTAIN = 0.99  # an oracle that proves a loss in this share of seeds is said to prove it
ALARMING = 1e-3  # level of the test of false alarms
READING = (
    f"With {DRAWS[GAME]:,} draws of each input, half of them to prove, at an error rate of {ERROR_RATE:g}. The oracle "
    "knows one good event by the mechanism's law. Loss: that of the law for these inputs, as if noise were no float; - "
    "where it is not known exactly. Bounds are the least of all seeds. Rounded: outcomes have six decimals, so that "
    "the last bits of floats tell nothing; not played where the fault is of the arithmetic."
)


class Trial(TaskCell, frozen=True):
    """One proof, tried with one seed."""

    proves: bool  # more than is claimed
    bound: float | None  # on epsilon from below; None where the event did not come, or nothing was played
    event: str = ""  # that the game chose, or why it was not played
    seconds: float = 0.0


def compute(task: Task) -> Trial:
    """Play one game, or look with the oracle."""
    case, begun = CASES[task.problem], time.process_time()
    rng = np.random.default_rng([task.seed, zlib.crc32(task.problem.encode()), task.maker == ORACLE])
    proves, bound, event = False, -math.inf, ""
    if task.maker == ORACLE:
        bound = BROKEN[task.problem].oracle_bound(rng, draws=DRAWS[ORACLE], error_rate=ERROR_RATE)
        proves = bound > Fraction(case.claim)
    else:
        game = case.game(rng)
        if task.maker == ROUNDED:
            game = replace(game, mechanism=lambda data, n: _rounded(case.draw(data, n, rng)))
        try:
            attack = game.play(draws=DRAWS[task.maker], error_rate=ERROR_RATE)
        except ConfigurationError as error:
            event = f"not played: {error}"
        else:
            proves, bound, event = breaks(attack), attack.lower_bound, attack.event
    return Trial(*task, proves, bound if math.isfinite(bound) else None, event, time.process_time() - begun)


def _rounded(rows: Rows) -> Rows:
    return np.round(rows, DECIMALS) if rows.dtype.kind == "f" else rows


class Tally(msgspec.Struct, frozen=True):
    """What one method showed of one mechanism."""

    proofs: int
    seeds: int
    bound: float | None  # the least
    event: str  # the most frequent one

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Tally | None":
        """The tally of all seeds; None where there are none."""
        if not trials:
            return None
        bounds = [trial.bound for trial in trials]
        least = None if None in bounds else min(bound for bound in bounds if bound is not None)
        return cls(
            sum(trial.proves for trial in trials),
            len(trials),
            least,
            Counter(trial.event for trial in trials).most_common(1)[0][0],
        )

    @property
    def text(self) -> str:
        """For tables: "20 of 20"."""
        return f"{self.proofs} of {self.seeds}"

    @property
    def certain(self) -> bool:
        """Whether nearly all seeds have a proof."""
        return self.proofs >= CERTAIN * self.seeds


class Row(msgspec.Struct, frozen=True):
    """One broken mechanism."""

    family: str
    name: str
    fault: str
    claim: str
    loss: str  # "infinite", a number, or "-"
    oracle: Tally | None
    game: Tally | None
    rounded: Tally | None


class Caught(msgspec.Struct, frozen=True):
    """Games on mechanisms that the oracle proves broken."""

    mechanisms: int
    share: float  # of games that prove them broken
    always: int  # mechanisms that every game proves broken

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> "Caught | None":
        """All games of these mechanisms; None where there are none."""
        if not tallies:
            return None
        shares = [tally.proofs / tally.seeds for tally in tallies]
        return cls(len(shares), sum(shares) / len(shares), shares.count(1))


class Alarms(msgspec.Struct, frozen=True):
    """What audits of right mechanisms said."""

    audits: int
    alarms: int
    chance: float  # of so many alarms or more, if each audit's is the error rate
    by_name: dict[str, int]  # mechanism -> its alarms


class Findings(msgspec.Struct, frozen=True):
    """What the study found."""

    rows: tuple[Row, ...]
    proved: int  # mechanisms that the oracle proves broken
    game: Caught | None
    rounded: Caught | None
    alarms: Alarms | None
    provenance: Provenance | None = None


def findings(cells: Mapping[str, Sequence[Trial]], provenance: Provenance | None = None) -> Findings:
    """Count proofs and false alarms."""
    trials = grouped((trial for part in cells.values() for trial in part), lambda trial: (trial.maker, trial.problem))
    rows = []
    for case in BROKEN.values():
        tallies = [Tally.of(trials.get((maker, case.name), ())) for maker in (ORACLE, GAME, ROUNDED)]
        if any(tallies):
            loss = "-" if case.loss is None else f"{case.loss:.3f}" if math.isfinite(case.loss) else "infinite"
            rows.append(Row(case.family, case.name, case.says, case.claim, loss, *tallies))
    proved = [row for row in rows if row.oracle and row.oracle.certain]
    game, rounded = (Caught.of([tally for row in proved if (tally := getattr(row, who))]) for who in (GAME, ROUNDED))
    return Findings(tuple(rows), len(proved), game, rounded, _alarms(cells[RIGHT_ONES]), provenance)


def _alarms(trials: Sequence[Trial]) -> Alarms | None:
    if not trials:
        return None
    alarms = sum(trial.proves for trial in trials)
    by_name = grouped(trials, lambda trial: trial.problem)
    return Alarms(
        len(trials),
        alarms,
        float(binom.sf(alarms - 1, len(trials), ERROR_RATE)),
        {name: sum(trial.proves for trial in group) for name, group in by_name.items()},
    )


def document(results: Findings) -> Document:
    """A table of broken mechanisms by family, and one of right ones."""

    def tally(row: Row, who: str) -> Cell:
        counts: Tally | None = getattr(row, who)
        missed = counts is not None and not counts.certain
        return Cell(counts.text if counts else "-", strong=missed, tone="warn" if missed else "")

    def least(row: Row, who: str) -> str:
        counts: Tally | None = getattr(row, who)
        return "-" if counts is None or counts.bound is None else f"{counts.bound:.3f}"

    columns = [
        Column[Row]("mechanism", lambda row: row.name, names=True),
        Column[Row]("what is broken", lambda row: row.fault, wraps=True),
        *numbers("claim = claim; loss = loss"),
        Column[Row]("oracle proves", lambda row: tally(row, "oracle"), number=True),
        Column[Row]("at least", lambda row: least(row, "oracle"), number=True),
        Column[Row]("game proves", lambda row: tally(row, "game"), number=True),
        Column[Row]("at least", lambda row: least(row, "game"), number=True),
        Column[Row]("rounded", lambda row: tally(row, "rounded"), number=True),
        Column[Row]("by the event", lambda row: row.game.event if row.game else "-", wraps=True),
    ]
    families = grouped(results.rows, lambda row: row.family)
    table = Table("Broken mechanisms", columns, [Group(rows, name) for name, rows in families.items()])
    sections = [Section("Broken mechanisms", [Text(READING), table])]
    if results.alarms:
        names = [
            Column[tuple[str, int]]("mechanism", lambda pair: pair[0], names=True),
            Column[tuple[str, int]]("what it does", lambda pair: CASES[pair[0]].says, wraps=True),
            Column[tuple[str, int]]("alarms", lambda pair: pair[1], number=True),
        ]
        rights = Table.of("Alarms at right mechanisms", names, tuple(results.alarms.by_name.items()))
        sections.append(Section("Right mechanisms", [Text(_said_of(results.alarms)), rights]))
    files = {"mechanisms.csv": Table.of("mechanisms", attributes("family name claim loss"), results.rows)}
    return document_of("broken", sections, results.provenance, files, summary=_summary(results))


def _summary(results: Findings) -> list[str]:
    sentences = [f"The oracle proves {results.proved} of {len(results.rows)} mechanisms broken."]
    for caught, outcomes in ((results.game, "as they come"), (results.rounded, "rounded")):
        if caught:
            sentences.append(
                f"Of the games on {caught.mechanisms} of these, with outcomes {outcomes}, {caught.share:.1%} prove it; "
                f"{caught.always} mechanisms are caught in every game."
            )
    return sentences + ([_said_of(results.alarms)] if results.alarms else [])


def _said_of(alarms: Alarms) -> str:
    verdict = "more than allowed" if alarms.chance < ALARMING else "not more than allowed"
    share = alarms.alarms / alarms.audits
    return (
        f"{alarms.alarms} of {alarms.audits:,} audits of right mechanisms raise an alarm, {share:.2%} where "
        f"{ERROR_RATE:.0%} are allowed. So many or more have a chance of {alarms.chance:.2g} at that rate: {verdict}."
    )


def _part(name: str) -> Part:
    cases = tuple(BROKEN)
    if name == RIGHT_ONES:
        cases = tuple(case.name for case in RIGHT.right_ones)
    elif name == ROUNDED:
        cases = tuple(case.name for case in BROKEN.values() if case.family != ARITHMETIC.name)

    def tasks(order: Order) -> list[Task]:
        chosen = [case for case in cases if name == RIGHT_ONES or case in order.size.axes["mechanisms"]]
        seeds = [] if name not in order.size.axes["parts"] else order.seeds[: SEEDS[name]]
        return [Task(case, name, CASES[case].claim, seed) for seed in seeds for case in chosen]

    settings = {"draws": DRAWS[name], "error_rate": ERROR_RATE}
    return Part(name, Trial, tasks, compute, lambda _order: settings)


PARTS = (ORACLE, GAME, ROUNDED, RIGHT_ONES)
ALL = {"mechanisms": tuple(BROKEN), "parts": PARTS}
STUDY = Study(
    name="broken",
    parts=[_part(name) for name in PARTS],
    findings=findings,
    document=document,
    choices=ALL,
    short=Size(1, (), ALL, "two minutes"),
    full=Size(200, (), ALL, "two hours"),
    noise="seeded generators of NumPy",
    width=150,
)
