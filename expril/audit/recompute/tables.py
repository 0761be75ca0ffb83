"""What an audit found, as tables for the terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from expril.audit.recompute.integral import INFINITE
from expril.audit.recompute.outcome import Recomputed
from expril.audit.recompute.sums import Sum
from expril.audit.recompute.verdicts import RunProof
from protocol.errors import printable
from protocol.rationals import written

TABLE_WIDTH = 120
"""Columns that these tables need."""
NAME_BYTES = 16
"""Of the name of a snapshot of records."""


def verdict(result: Recomputed) -> str:
    """The answer in one sentence."""
    if result.wrong:
        return f"Not proven: {len(result.wrong)} of these things do not fit."
    if not result.sums:
        return "Nothing was proven: no study was read."
    left = len(result.unproven) + len(result.unwitnessed)
    rest = f" What is left open is said in {left} line{'s' if left > 1 else ''}." if left else ""
    return f"Proven: every signature, entry and sum fits.{rest}"


def proof_tables(proof: RunProof) -> list[Table]:
    """What each transcript and each ledger of a run proves, under which curator's key, and how many do."""
    counted = Counter(item.verdict for item in proof.transcripts)
    caption = f"{len(proof.transcripts)} transcripts: " + ", ".join(
        f"{count} {what}" for what, count in counted.items()
    )
    transcripts = Table(title=escape(str(proof.folder)), box=box.SIMPLE_HEAD, caption=caption)
    for name in ("repeat", "learner", "curator", "key", "verdict", "claimed", "spent", "releases", "study", "ledger"):
        transcripts.add_column(name, no_wrap=True)
    keys = {} if proof.index is None else proof.index.keys()
    for item in proof.transcripts:
        told = ("", "", "", "")
        if item.proof is not None:
            spent = written(item.proof.epsilon_spent)
            if item.proof.epsilon_at_most != item.proof.epsilon_spent:
                spent += f" to {written(item.proof.epsilon_at_most)}"
            told = (written(item.proof.epsilon_claimed), spent, str(item.proof.releases), str(item.proof.state))
        entry = item.entry
        key = keys.get(("curator", entry.curator, entry.repeat))
        names = (_plain(entry.learner), _plain(entry.curator), key.hex()[:8] if key else "?")
        transcripts.add_row(str(entry.repeat), *names, item.verdict, *told, item.ledger)
    ledgers = Table(box=box.SIMPLE_HEAD)
    for name in ("ledger", "key", "verdict", "entries", "spent over all learners"):
        ledgers.add_column(name, no_wrap=True)
    for kept in proof.ledgers:
        spent = "?" if kept.spent is None else written(kept.spent)
        ledgers.add_row(_plain(kept.entry.file), kept.entry.key[:8], kept.verdict, str(kept.entry.entries), spent)
    return [transcripts, ledgers] if proof.ledgers else [transcripts]


def sum_table(result: Recomputed) -> Table:
    """What was claimed and spent, by curator, learner, version of the records and privacy unit."""
    told = [*_unit_lines(result), *_conditions(result)]
    table = Table(title="epsilon, recomputed", box=box.SIMPLE_HEAD, caption="\n".join(told) or None)
    for name in ("curator", "privacy unit", "learner", "records", "claimed", "spent", "integral", "(epsilon, delta)"):
        table.add_column(name, no_wrap=True)
    for one in result.sums:
        spent = written(one.spent) + (f" to {written(one.at_most)}" if one.at_most != one.spent else "")
        who = _plain(one.learner) or "all learners"
        style = "" if one.learner or one.version else "bold"
        records = one.version[:8] if len(one.version) == 2 * NAME_BYTES else one.version
        names = (_plain(one.curator), _plain(one.unit), who, records or "all")
        table.add_row(
            *names,
            written(one.claimed),
            spent,
            INFINITE if one.integral is None else written(one.integral),
            _loss(one),
            style=style,
        )
    return table


def _unit_lines(result: Recomputed) -> Iterator[str]:
    """What one unit may have lost at several curators; where there are several runs or repeats, in which."""
    found: dict[str, list[str]] = {}
    for one in result.units:
        if len(one.curators) > 1:
            text = (
                f"{one.unit or 'units'}, all learners: {written(one.apart)} at one curator at most, "
                f"{written(one.shared)} over all {len(one.curators)}"
            )
            found.setdefault(text, []).append(one.world)
    several = len({world for worlds in found.values() for world in worlds}) > 1
    for text, worlds in found.items():
        yield escape(f"{_listed(worlds)}: {text}" if several else text)


def _listed(worlds: Sequence[str]) -> str:
    """Runs and their repeats: "runs/own, repeat 0 to 11"."""
    repeats: dict[str, list[str]] = {}
    for world in worlds:
        run, _, repeat = world.rpartition(", repeat ")
        numbers = repeats.setdefault(run or "ledgers", [])
        if numbers and numbers[-1].split(" to ")[-1] == str(int(repeat or 1) - 1):
            numbers[-1] = f"{numbers[-1].split(' to ')[0]} to {repeat}"
        else:
            numbers.append(repeat)
    return "; ".join(f"{run}, repeat {', '.join(numbers)}" if any(numbers) else run for run, numbers in repeats.items())


def _conditions(result: Recomputed) -> Iterator[str]:
    """What of the sums over all learners holds on a condition, at which curators."""
    found: dict[str, list[str]] = {}
    for one in result.sums:
        for proviso, amount in () if one.learner or one.version else one.provisos.items():
            found.setdefault(proviso, []).append(f"{written(amount)} of {written(one.spent)} at {_plain(one.curator)}")
    for proviso, where in found.items():
        yield f"on a condition: {', '.join(where)}: {escape(proviso)}"


def _loss(one: Sum) -> str:
    return "" if one.loss is None else f"({one.loss.epsilon:.4f}, {one.loss.delta:.2g})"


def _plain(name: str) -> str:
    return escape(printable(name))
