"""What the tables of the study of sites hold, on its page, in its Markdown and in the terminal."""

from functools import partial

from expril.report.numbers import decimal, signed, with_error
from expril.report.table import Cell, Column, Group, Table
from lab.sites.model import Fate, Found, Mean, Opened, Point, Traffic
from protocol.secure_sum.aggregator import STEPS

TITLES = {"CTG-A": "CTG", "C": "C", "readmission": "readmission"}
SAID = {
    "keys": "keys: before it answers anything",
    "shares": "shares: after its key card",
    "masked": "masked: after it dealt shares",
    "agreed": "agreed: after its masked counts",
    "opened": "opened: after it signed the survivors",
}
"""Step from which on a site is silent, in words."""


def title_of(problem: str) -> str:
    """Of a problem."""
    return TITLES.get(problem, problem)


def accuracies(found: Found) -> dict[str, Table[Point]]:
    """For each epsilon, every problem against the number of sites."""
    return {epsilon: _accuracies(found, epsilon) for epsilon in found.epsilons}


def _accuracies(found: Found, epsilon: str) -> Table[Point]:
    groups = [
        Group([point for point in found.points if (point.problem, point.epsilon) == (problem, epsilon)], shown)
        for problem, shown in ((each, title_of(each)) for each in found.problems)
    ]
    return Table(
        f"Accuracy at epsilon {epsilon}",
        [
            Column("sites", lambda point: str(point.sites), names=True),
            Column("noise at each site", lambda point: _mean(point.local), number=True),
            Column("summed securely", lambda point: _mean(point.secure), number=True),
            Column("gain", lambda point: _gain(point.gain), number=True),
            Column("gain in AUC", lambda point: _gain(point.auc_gain), number=True),
            Column("repeats", lambda point: str(_runs(point)), number=True),
        ],
        groups,
    )


def _mean(mean: Mean | None) -> str:
    return "–" if mean is None else with_error(decimal(mean.value), mean.error if mean.runs > 1 else None)


def _gain(gain: Mean | None) -> Cell:
    if gain is None:
        return Cell("–")
    sure = gain.runs > 1 and abs(gain.value) > gain.error
    text = with_error(signed(gain.value), gain.error if gain.runs > 1 else None)
    return Cell(text, tone="" if not sure else "above" if gain.value > 0 else "below")


def _runs(point: Point) -> int:
    return max((mean.runs for mean in (point.local, point.secure) if mean is not None), default=0)


def noises(found: Found) -> Table[Opened]:
    """The variance of what is opened, against its bound."""
    return Table.of(
        "Variance of an opened number, in variances of one noise",
        [
            Column("sites n", lambda row: str(row.sites), names=True),
            Column("colluders t", lambda row: row.colluders, number=True),
            Column("dropouts u", lambda row: row.dropouts, number=True),
            Column("shares h", lambda row: row.shares, number=True),
            Column("bound n/h", lambda row: f"{row.bound:.3f}", number=True),
            Column("measured", lambda row: f"{row.measured:.3f}", number=True),
            Column("99.9 % interval", lambda row: f"{row.low:.3f} to {row.high:.3f}", number=True),
            Column("bound", _kept, number=True),
            Column("noise at each site", lambda row: decimal(row.local) if row.local else "–", number=True),
        ],
        found.opened,
    )


def _kept(row: Opened) -> Cell:
    if row.broken is None:
        return Cell("in the interval")
    return Cell("broken", tone="below") if row.broken else Cell("kept", tone="within")


def traffic(found: Found) -> Table[Traffic]:
    """Bytes a site, by turn."""
    return Table.of(
        "Kilobytes that one site receives and sends for one question",
        [
            Column("sites", lambda row: str(row.sites), names=True),
            Column("noise at each site", lambda row: _kilobytes(row.local) if row.local else "–", number=True),
            Column("summed securely", lambda row: _kilobytes(row.secure), number=True),
            *(Column(step, partial(_turn, number), number=True) for number, step in enumerate(STEPS)),
        ],
        found.traffic,
    )


def _kilobytes(value: float) -> str:
    return decimal(value / 1000)


def _turn(number: int, row: Traffic) -> str:
    return _kilobytes(sum(row.turns[number]))


def fates(found: Found) -> Table[Fate]:
    """What is opened, charged and lost where some are silent."""
    groups: dict[str, list[Fate]] = {}
    for fate in found.fates:
        title = f"{fate.sites} sites, of which {fate.dropouts} may drop out ({fate.dropouts / fate.sites:.0%})"
        groups.setdefault(title.replace("%", " %"), []).append(fate)
    return Table(
        "What becomes of a secure sum where sites fall silent",
        [
            Column("silent", _silent, names=True),
            Column("from the step", lambda fate: SAID[fate.step] if fate.silent else "–"),
            Column("the sum", _result),
            Column("sites in it", lambda fate: fate.summed, number=True),
            Column("sites charged", lambda fate: fate.charged, number=True),
            Column("variance", lambda fate: f"{fate.noise:.2f}" if fate.opened else "–", number=True),
            Column("lost", _lost),
        ],
        [Group(rows, title) for title, rows in groups.items()],
    )


def _silent(fate: Fate) -> str:
    return f"{fate.silent} ({fate.silent / fate.sites:.0%})".replace("%", " %") if fate.silent else "nobody"


def _result(fate: Fate) -> Cell:
    if fate.opened == fate.rounds:
        return Cell("opened", tone="within")
    if fate.opened:
        return Cell(f"opened {fate.opened} of {fate.rounds} times", tone="apart")
    return Cell(f"failed at {fate.failed_at}", tone="below")


def _lost(fate: Fate) -> str:
    if not fate.opened:
        return "the answer, and what was charged" if fate.charged else "the answer; nothing was charged"
    missing = fate.sites - fate.summed
    return f"the records of {missing} sites" if missing else "nothing"
