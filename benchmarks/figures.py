"""Draws what the stored results say, and puts their tables into docs/performance.md: `python -m benchmarks.figures`.

Nothing is measured here. A table follows a mark of the page, such as `<!-- goals -->`, up to the next empty line;
there is one after the last, too.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import stored_rows
from expril.report.chart import Figure, Key, Level, Place, Series, Stage, decade_axis, line_chart, log_axis
from expril.report.document import Charts
from expril.report.picture import as_svg

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
LEFT, RIGHT = 12.0, 96.0
"""Ends of a horizontal axis, in percent of the width."""


@dataclass(frozen=True)
class Goal:
    """What people wait for: a row of the page."""

    what: str
    beside: str  # what it is measured beside in the same run
    benchmark: str
    name: str  # of the result; with * at its end the largest that begins so
    bound: str = ""  # what stops it where the goal is not reached
    floor: str = ""  # name of the same benchmark's result that measures this alone
    before: str = ""  # what it was by definition, where the base cannot be measured


GOALS = (
    Goal(
        "a round over TLS, three daemons: stock Flower's over ours",
        "stock Flower",
        "deployment",
        "stock Flower over ours",
        "the floor below, and [what Flower would have to change](researcher/carriers.md#a-round-over-a-superlink)",
    ),
    Goal(
        "the same, over its floor of four calls",
        "a call of the same run",
        "deployment",
        "a round, ours, over its floor",
    ),
    Goal("calls a round, looks among them", "8 carry something", "deployment", "calls a round"),
    Goal(
        "three daemons ready, and a plan accepted",
        "none",
        "deployment",
        "three daemons ready, and a plan accepted",
        "three processes load a daemon's libraries",
        floor="three processes that load a daemon's libraries alone",
    ),
    Goal(
        "a query's layers beyond counting and noise",
        "its six signature operations",
        "query_overhead",
        "a query's layers over its six signature operations",
        "the eight signature operations that it makes",
        floor="eight signature operations over six",
    ),
    Goal(
        "a number of noise, 100 at once, scale 30",
        "OpenDP's vector call",
        "noise",
        "a number of noise over OpenDP's vector call, scale 30, 100 at once",
        before="1 times: it was that call",
    ),
    Goal(
        "counting errors of 10^6 records in 22 attributes of ten bins",
        "numpy's `bincount`",
        "kernels",
        "counting errors in*",
        "the codes, read once from memory",
    ),
    Goal(
        "nearest-centre cells of 10^6 records",
        "scikit-learn",
        "kernels",
        "nearest of 100 centres, over scikit-learn",
        "ties are exact: the product in double precision and its comparison",
        floor="nearest of 100 centres, over scikit-learn, the product and its comparison alone",
    ),
    Goal(
        "leaves of a tree of 10^6 records",
        "scikit-learn",
        "kernels",
        "one of 64 leaves at most*",
        "no compiled loop walks the tree; moving the points to the grid",
        floor="one of 64 leaves, over scikit-learn, moving points to the grid alone",
    ),
    Goal("projections of 10^6 records", "numpy", "kernels", "bins of 4 projections, over numpy", "ties are exact"),
    Goal(
        "`cells` with networks, n 5,000, d 25",
        "none",
        "label_model",
        "cells with networks end to end, 5000*",
        "factors and products of its matrices, and training",
        floor="cells with networks, its factors and products*",
    ),
    Goal(
        "`cells` without networks, n 5,000, d 25",
        "none",
        "label_model",
        "cells without networks end to end, 5000*",
        "factors and products of its matrices",
        floor="cells without networks, its factors and products*",
    ),
    Goal(
        "a whole study of 10^6 records at four sites",
        "none",
        "million",
        "1,000,000 records of 10 attributes, 4 sites, a whole study",
    ),
    Goal(
        "the same",
        "a logistic regression on the pooled records",
        "million",
        "1,000,000 records of 10 attributes, 4 sites, a whole study, over logistic regression",
    ),
    Goal("the same, memory", "none", "million", "1,000,000 records of 10 attributes, 4 sites, a whole study, memory"),
    Goal(
        "1,000 curators, three rounds, simulated",
        "none",
        "many_curators",
        "1000 curators, three rounds, cores",
        "their signatures, of one processor",
        floor="1000 curators, their signatures alone",
    ),
    Goal(
        "10,000 curators, three rounds, simulated",
        "none",
        "many_curators",
        "10000 curators, three rounds, cores",
        "ten times the signatures of the row above",
    ),
    Goal("the same, memory", "none", "many_curators", "10000 curators, three rounds, cores, memory of all"),
    Goal("exponent in curators", "300 curators", "many_curators", "exponent in curators, cores"),
    Goal(
        "questions of eight learners at one curator, SQLite",
        "bare commits of the disk",
        "throughput",
        "SQLite: questions a second",
        "the processors that curator and learners share here, even if none ever waits",
        floor="SQLite: questions a second if no core ever waits",
    ),
    Goal(
        "the same, over bare commits", "bare commits of the disk", "throughput", "SQLite: questions over bare commits"
    ),
    Goal(
        "two curators that share a ledger, PostgreSQL",
        "none",
        "throughput",
        "PostgreSQL, two curators: questions a second",
    ),
    Goal(
        "a secure sum of 30 sites and 1,000 values: SecAgg+'s time over ours, every signature checked by everybody",
        "Flower's SecAgg+",
        "secure_sum",
        "30 sites x 1000 values, times as fast, every signature checked by everybody",
        "key agreements and signatures",
        floor="30 sites x 1000 values, its cryptography alone",
    ),
    Goal(
        "the same in one process, whose curators check each signature once",
        "Flower's SecAgg+",
        "secure_sum",
        "30 sites x 1000 values, times as fast",
    ),
    Goal(
        "a secure sum of 1,000 sites and 1,000 values",
        "its cryptography alone",
        "secure_sum",
        "1000 sites x 1000 values, 2 processes",
        "its cryptography, of one processor",
        floor="1000 sites, its cryptography alone, processor time",
    ),
    Goal(
        "Table 2 of the paper, a tenth of its 7 x 100 runs",
        "none",
        "table_two",
        "7 x 10 runs of Table 2",
        "the matrix products of training, of one processor",
        floor="7 x 10 runs of Table 2, matrix products alone",
    ),
    Goal(
        "the default audit",
        "none",
        "audit_all",
        "expril audit all",
        "tables of invented records, and slow kinds; draws, of one processor",
        floor="its draws alone, of the processor",
    ),
    Goal(
        "a first look",
        "none",
        "audit_all",
        "expril audit all --quick",
        "modules of its processes, of one processor",
        floor="its processes' modules alone, of the processor",
    ),
    Goal(
        "audit of an export of 10^6 entries",
        "none",
        "audit_ledger",
        "audit of an export of 10^6 entries",
        "one pass that reads blocks and takes hashes",
        floor="its blocks read, and all hashes, alone, of the processor",
    ),
    Goal("the same, memory", "none", "audit_ledger", "most memory"),
    Goal("a wrong file is told", "none", "startup", "a wrong file"),
    Goal("`expril simulate` to its first line", "none", "startup", "expril simulate to its first line"),
    Goal(
        "`make demo` from nothing",
        "none",
        "installation",
        "make demo",
        "Python's venv and pip",
        floor="make demo, venv and pip alone",
    ),
    Goal("a bare curator's installation", "none", "installation", "a bare curator's installation"),
    Goal("packages of it", "none", "installation", "packages of a bare curator's installation"),
)
"""The issue's rows, in its order."""


@dataclass(frozen=True)
class Part:
    """Something that grows, and what it may not exceed."""

    grows: str
    what: str
    words: str
    unit: str
    limit: float  # in this unit
    told: str  # the limit in words
    helps: str = "a faster core, or less to do"
    alone: bool = True  # whether neither a setting nor a further machine helps


FAR = {"records": 100_000_000, "sites": 100_000}
"""What the page foretells."""
ANSWER, PATIENT, WORK = 60.0, 3600.0, 50.0
"""Seconds that a learner waits for a curator before it goes on without it; for a study or a start; and work of a
question that the default policy answers, in billions."""
CALLS, EXCHANGES = "calls of a study at one SuperLink", 6
"""A study of three rounds: card, plan, three questions, close."""


def parts() -> tuple[Part, ...]:
    """What may break first; the memory is that of the machine whose results are stored."""
    memory = next((row["machine"]["memory_gib"] for row in stored_rows("growth")), 1.0)
    room = 1024 * memory, f"{memory:.1f} GiB, this machine's memory"
    patience, hour = (ANSWER, "60 s, a learner's patience"), (PATIENT, "an hour")
    raised = "the policy's limit, which a steward can raise"
    more, larger = "processes on further machines", "a machine with more memory"
    return (
        Part(
            "records",
            "work by the policy's rule",
            "work of a question",
            "x 10^9",
            WORK,
            "50 x 10^9 by default",
            raised,
            alone=False,
        ),
        Part("records", "memory", "memory of a curator", "MiB", *room, larger),
        Part("records", "first answer", "the first answer in new cells", "s", *patience),
        Part("records", "next answer", "an answer in known cells", "s", *patience),
        Part("records", "at the start", "the start of a curator", "s", *hour),
        Part("sites", "memory", "memory of a simulation", "MiB", *room, more, alone=False),
        Part("sites", "all curators' part of a study", "all curators' processors", "s", *hour, more, alone=False),
        Part("sites", "the learner's part of a study", "the learner's processor", "s", *hour),
        Part("sites", CALLS, CALLS, "s", *hour, "larger and fewer calls, or a leaner SuperLink"),
    )


Points = list[tuple[int, float]]


def curves() -> dict[str, dict[str, Points]]:
    """What grows -> what is measured -> size and value."""
    found: dict[str, dict[str, Points]] = {}
    for row in stored_rows("growth"):
        if match := re.fullmatch(r"([\d,]+) (\w+): (.+)", row["name"]):
            size, name, what = match.groups()
            found.setdefault(name, {}).setdefault(what, []).append((int(size.replace(",", "")), row["value"]))
    return found


def units() -> dict[str, str]:
    """What is measured -> its unit."""
    return {row["name"].partition(": ")[2]: row["unit"] for row in stored_rows("growth")}


def exponents() -> dict[str, float]:
    """Exponent by what grows and what is measured: "sites: memory"."""
    end = ", exponent"
    return {row["name"].removesuffix(end): row["value"] for row in stored_rows("growth") if row["name"].endswith(end)}


def foretold(points: Points, exponent: float, size: float) -> float:
    """v(n) = v_1 + (v_k - v_1) ((n - n_1) / (n_k - n_1))^e, through the first and the last of k points."""
    (start, least), (end, most) = points[0], points[-1]
    return least + max(0.0, most - least) * ((size - start) / (end - start)) ** exponent


def reached(points: Points, exponent: float, limit: float) -> float:
    """The n at which a curve is at its limit; infinite if never."""
    (start, least), (end, most) = points[0], points[-1]
    if exponent <= 0 or most <= least:
        return float("inf")
    return start + (end - start) * max(0.0, (limit - least) / (most - least)) ** (1 / exponent)


# --- Tables


def goals() -> list[str]:
    """What people wait for: the base of the same run, now, and the aim."""
    lines = [
        "| what | beside it | before | now | goal | reached | other processes, loop | command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for goal in GOALS:
        command = f"`{goal.benchmark}`"
        rows = [row for row in stored_rows(goal.benchmark) if _is(row["name"], goal.name)]
        row = max(rows, key=lambda row: row["value"], default=None)
        if row is None:
            lines.append(f"| {goal.what} | {goal.beside} | | not stored | | | | {command} |")
            continue
        unit = f" {row['unit']}".rstrip()
        before = f"{_figure(row['base']['value'])}{unit}" if "base" in row else goal.before
        met = {None: "", True: "yes", False: f"no{_bound(goal)}"}[row["met"]]
        lines.append(
            f"| {goal.what} | {goal.beside} | {before} | {_figure(row['value'])}{unit} | {row['target']} | {met} "
            f"| {_busy(row['machine'])} | {command} |"
        )
    return lines


def _bound(goal: Goal) -> str:
    """What stops it, and what that takes alone."""
    alone = next((row for row in stored_rows(goal.benchmark) if goal.floor and _is(row["name"], goal.floor)), None)
    taken = f", {_figure(alone['value'])} {alone['unit']}".rstrip() + " alone" if alone else ""
    return f": {goal.bound}{taken}" if goal.bound else ""


def _is(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _busy(machine: Mapping[str, float]) -> str:
    if "others" not in machine:
        return "not said"
    return f"{machine['others']:.0%}, {machine['loop_seconds']:.3f} s"


def sizes() -> list[str]:
    """The curves as a table."""
    lines = ["| what grows | from .. to | what is measured | at each size | exponent |", "|---|---|---|---|---|"]
    fitted, unit = exponents(), units()
    for name, measures in curves().items():
        for what, points in measures.items():
            values = ", ".join(_figure(value) for _, value in points)
            reach = f"{points[0][0]:,} .. {points[-1][0]:,}"
            exponent = fitted[f"{name}: {what}"]
            lines.append(f"| {name} | {reach} | {what} | {values} {unit[what]} | {exponent:.2f} |")
    return lines


def limits() -> list[str]:
    """What the machine can do, and what of it the program takes."""
    lines = ["| the machine's own limit | | beside it |", "|---|---|---|"]
    found, points = {row["name"]: row for row in stored_rows("growth")}, curves()
    call = next((row for row in stored_rows("deployment") if row["name"] == "a call"), None)
    rate = next((row for row in stored_rows("throughput") if row["name"] == "SQLite: questions a second"), None)
    beside: dict[str, str] = {}
    if points:
        (few, fixed), (many, time) = points["records"]["next answer"][0], points["records"]["next answer"][-1]
        moved = 22 * (many - few) / max(1e-9, time - fixed) / 1e9
        beside["memory copied by one core"] = f"an answer in known cells reads its codes at {moved:.2g} GB/s"
        question = points["learners"]["next answer"][0][1]
        signing = found["machine: signatures of one core"]["value"]
        beside["signatures of one core"] = f"a whole question takes the time of {question * signing:.1f} signatures"
    if rate:
        beside["appends made durable"] = f"one curator answers {_figure(rate['value'])} questions a second"
    if call:
        beside["an echo over TLS on loopback"] = f"a call to a SuperLink takes {_figure(call['value'])} ms"
    for name, row in found.items():
        if (short := name.removeprefix("machine: ")) != name:
            lines.append(f"| {short} | {_figure(row['value'])} {row['unit']} | {beside.get(short, '')} |")
    return lines


def predictions() -> list[str]:
    """What each part takes far out, beside what it may take; the one that breaks first is first."""
    lines = [
        "| at | what | measured up to | exponent | foretold | limit | reached at | what helps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for far, part, forecast in _ranked():
        place = "never" if math.isinf(forecast.end) else f"{float(f'{forecast.end:.2g}'):,.0f}"
        lines.append(
            f"| {far:,} {part.grows} | {part.words} | {forecast.last:,} | {forecast.exponent:.2f} | "
            f"{_amount(forecast.value, part.unit)} | {part.told} | {place} | {part.helps} |"
        )
    return lines


def first() -> list[str]:
    """What breaks first, in words."""
    lines = []
    for name, far in FAR.items():
        ranked = [(part, forecast) for _, part, forecast in _ranked() if part.grows == name]
        for part, forecast in ranked[:1]:
            share = forecast.value / part.limit
            many = f"{share:.1f} times its limit" if share >= 1 else f"{share:.0%} of its limit, so nothing breaks"
            lines.append(f"* At {far:,} {name} **{part.words}** is first, with {many}. What helps: {part.helps}.")
        if (left := [part for part, _ in ranked if part.alone]) and left[0] is not ranked[0][0]:
            lines.append(f"* The first limit there that no setting and no further machine moves: **{left[0].words}**.")
    return lines


@dataclass(frozen=True)
class Forecast:
    """A curve carried on."""

    last: int  # largest size that was measured
    exponent: float
    value: float
    end: float  # size at which the limit is reached


def _ranked() -> list[tuple[int, Part, Forecast]]:
    """(size, part, forecast) for what is foretold; of each size what reaches its limit first is first."""
    measured, fitted = curves(), exponents()
    for row in stored_rows("deployment"):
        if row["name"] == "a call, the SuperLink's processor":
            calls = [(sites, EXCHANGES * (2 * sites + 2) * row["value"] / 1000) for sites in (1, 3)]
            measured.setdefault("sites", {})[CALLS] = calls
            fitted[f"sites: {CALLS}"] = 1.0
    ranked = []
    for part in parts():
        if points := measured.get(part.grows, {}).get(part.what):
            exponent, far = fitted[f"{part.grows}: {part.what}"], FAR[part.grows]
            value, end = foretold(points, exponent, far), reached(points, exponent, part.limit)
            ranked.append((far, part, Forecast(points[-1][0], exponent, value, end)))
    return sorted(ranked, key=lambda entry: (-entry[0], entry[2].end))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _amount(value: float, unit: str) -> str:
    return f"{value / 1024:.3g} GiB" if unit == "MiB" and value > 1024 else f"{_figure(value)} {unit}"


# --- Pictures


KEYS = tuple(
    Key(place, False, name)
    for place, name in enumerate(
        (
            "at the start",
            "first answer",
            "next answer",
            "all curators' part of a study",
            "the learner's part of a study",
            "a participant's round",
        )
    )
)
KEPT = (Key(0, False, "memory"), Key(1, False, "disk"))


def growth(name: str, keys: Sequence[Key], unit: str) -> str:
    """A panel for each curve, both axes logarithmic."""
    figures = [
        figure
        for grows, measures in curves().items()
        if (figure := _panel(grows, {key: measures[key.name] for key in keys if key.name in measures}, unit))
    ]
    return as_svg(Charts(figures, keys, columns=3, size=0.6, name=name))


def _panel(grows: str, lines: Mapping[Key, Points], unit: str) -> Figure | None:
    if not lines:
        return None
    values = [value for points in lines.values() for _, value in points]
    sizes = [size for size, _ in next(iter(lines.values()))]
    series = [
        Series(
            key, [Place(size, value, (value, value), f"{_figure(value)} {unit} at {size:,}") for size, value in points]
        )
        for key, points in lines.items()
    ]
    axis = log_axis(sizes, map(_short, sizes), left=LEFT, right=RIGHT)
    stage = Stage(decade_axis(min(values), max(values)), 240)
    return line_chart(grows, series, axis, (), stage=stage, unit=unit, across=grows)


def traffic() -> str:
    """Bytes a site by number of sites, of a secure sum."""
    rows = [row for row in stored_rows("secure_sum") if row["name"].endswith("bytes a site")]
    points = [(int(row["name"].split()[0]), row["value"] / 1000) for row in rows]
    key = Key(0, False, "sent and received")
    line = Series(key, [Place(n, value, (value, value), f"{value:.1f} kB at {n} sites") for n, value in points])
    axis = log_axis((2, 5, 10, 20, 50, 100, 200, 500, 1000), left=LEFT, right=RIGHT)
    stage = Stage(decade_axis(min(value for _, value in points), max(value for _, value in points)), 300)
    level = Level("dashes", 8.0, "the vector itself: 8 kB", named=True)
    chart = line_chart("bytes", [line], axis, (), stage=stage, levels=[level], unit="kB", across="sites")
    return as_svg(Charts([chart], columns=1, name="Bytes of a site in a secure sum of 1,000 values"))


def _short(size: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size // unit}{letter}"
    return str(size)


# --- The files

TABLES: dict[str, Callable[[], list[str]]] = {
    "goals": goals,
    "sizes": sizes,
    "limits": limits,
    "predictions": predictions,
    "first": first,
}


def page(text: str) -> str:
    """The page with its tables as the stored results have them."""
    for name, table in TABLES.items():
        head, mark, rest = text.partition(f"<!-- {name} -->")
        _, gap, tail = rest.partition("\n\n")
        text = "\n".join([head + mark, *table()]) + gap + tail
    return text


FILES: dict[Path, Callable[[], str]] = {
    DOCS / "explanation" / "secure-sums-traffic.svg": traffic,
    DOCS / "performance-time.svg": lambda: growth("Seconds of processor as sizes grow", KEYS, "s"),
    DOCS / "performance-memory.svg": lambda: growth("MiB as sizes grow", KEPT, "MiB"),
    PAGE: lambda: page(PAGE.read_text(encoding="utf-8")),
}


def main() -> None:
    """See the module."""
    for path, text in FILES.items():
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
