"""A run to audit, and somebody who holds a copy of its folder and wants it to say something else."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from expril.audit.recompute import recompute
from expril.commands.app import app
from learner_node.result.listing import listed_digests, save_index
from protocol.envelopes import SigningKey
from protocol.run_index import INDEX, LOCAL, SIGNATURES, TRANSCRIPTS, Index
from protocol.transcript import Transcript, replay
from simulations.records import load_records
from simulations.run import Run, run_scenario
from simulations.run_cells import UnfinishedRun
from simulations.run_order import NONE, Order, choose
from simulations.scenario import load_scenario


def make_run(base: Path, *, repeats: int, change: tuple[str, str] = ("", "")) -> tuple[Path, Run]:
    """A run of wdbc-faults, whose learners train little; its folder, and what only its learners hold.

    `change` replaces the first text of the scenario by the second, once.
    """
    text = load_scenario("wdbc-faults")[1]
    assert change[0] in text
    text = text.replace(*change, 1)
    text = text.replace('strategy = "cells"', 'strategy = "cells"\noptions = { networks = false }').replace(
        'strategy = "paper-c"', 'strategy = "paper-c"\noptions = { epochs = 1, hidden = [2] }'
    )
    return make_run_of(text.replace("repeats = 3", f"repeats = {repeats}"), base)


def make_run_of(text: str, base: Path) -> tuple[Path, Run]:
    """A run of a scenario's text; as `make_run`."""
    base.mkdir(parents=True, exist_ok=True)
    (base / "own.toml").write_text(text)
    chosen = choose(str(base / "own.toml"), {})
    order = Order(chosen, load_records(chosen.scenario, chosen.folder), "expril simulate own.toml", models=NONE)
    with UnfinishedRun(base, order) as made:
        run = run_scenario(order, made)
        shutil.rmtree(made.path / LOCAL)
        run.save(made.path)
    return made.path, run


class Forger:
    """Changes a copy of a run; `index` is the list as plain JSON.

    Args:
        folder: of the honest run.
        copy: where to make the copy.
    """

    def __init__(self, folder: Path, copy: Path) -> None:
        self.folder = copy
        shutil.copytree(folder, copy)
        self.index = json.loads(self.path(INDEX).read_bytes())

    def path(self, name: str) -> Path:
        return self.folder / TRANSCRIPTS / name

    def transcripts(self, **wanted) -> list[dict]:
        """Lines of the list, by repeat, learner and curator."""
        return [one for one in self.index["transcripts"] if all(one[key] == value for key, value in wanted.items())]

    def remove(self, lines: list[dict]) -> None:
        """Transcripts together with their lines."""
        for line in lines:
            self.path(line["file"]).unlink()
            self.index["transcripts"].remove(line)

    def envelopes(self, line: dict) -> list[bytes]:
        return msgspec.msgpack.decode(self.path(line["file"]).read_bytes())

    def rewrite(self, line: dict, envelopes: list[bytes]) -> None:
        self.path(line["file"]).write_bytes(msgspec.msgpack.encode(envelopes))

    def report(self, change) -> None:
        path = self.folder / "report.json"
        told = json.loads(path.read_bytes())
        change(told)
        path.write_bytes(json.dumps(told).encode())

    def save_list(self) -> None:
        """The list as it was changed, with nothing else made to fit it."""
        self.path(INDEX).write_bytes(json.dumps(self.index).encode())

    def relist(self, signers: dict[str, SigningKey] | None = None) -> None:
        """Make the whole list fit what lies there: digests, heads, numbers, states; sign it with `signers`, if any."""
        keys = {(one["role"], one["name"], one["repeat"]): one["key"] for one in self.index["participants"]}
        for line in self.index["transcripts"]:
            transcript = Transcript()
            for envelope in self.envelopes(line):
                transcript.append(envelope)
            line["head"], line["envelopes"] = transcript.head.hex(), len(transcript.envelopes)
            who = (bytes.fromhex(keys[role, line[role], line["repeat"]]) for role in ("curator", "learner"))
            try:
                line["state"] = replay(transcript.envelopes, *who, label=line["label"]).state.value
            except Exception:  # noqa: BLE001 - what does not replay has no end to write down
                line["state"] = "closed"
        self.index["files"] = listed_digests(self.folder)
        kept = self.path(SIGNATURES).read_bytes() if self.path(SIGNATURES).exists() else None
        save_index(msgspec.convert(self.index, Index), signers or {}, self.folder)
        if signers is None and kept is not None:
            self.path(SIGNATURES).write_bytes(kept)
        elif signers is None:
            self.path(SIGNATURES).unlink()


def exit_code(*paths):
    """Of `expril audit run`."""
    result = CliRunner().invoke(app, ["audit", "run", "--json", *map(str, paths)])
    assert "Traceback" not in result.output
    return result.exit_code


def said(*paths):
    """What an audit of these finds wrong."""
    return "\n".join(recompute(*paths, delta=None).wrong)


def leaves(value, place=()):
    """(place, value) of every leaf of a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*place, number))
    else:
        yield place, value


def replaced(value, place, leaf):
    """A copy of a JSON value with another leaf at a place."""
    copy = json.loads(json.dumps(value))
    at = copy
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = leaf
    return copy


def other(leaf):
    """Other values of a leaf's kind, those first that are likely to be read."""
    if isinstance(leaf, bool):
        return [not leaf]
    if isinstance(leaf, int):
        return [leaf + 1]
    if isinstance(leaf, float):
        return [leaf / 2]
    if leaf is None:
        return []
    try:
        return [str(Fraction(leaf) / 10), str(Fraction(leaf) * 2)]
    except ValueError:
        return [f"{leaf}x", ""]
