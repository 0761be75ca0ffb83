"""What an unfinished run's repeats gave, as one file: JSON-like data of known types, no pickle.

The file is read back into equal values, to the last bit of every number, so that a run that was interrupted ends with
the same report as one that was not.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, get_origin

import msgspec
import numpy as np

from curator_node.policy import Policy
from protocol.envelopes import SigningKey
from protocol.run_index import PROGRESS, Role
from protocol.transcript import Transcript
from simulations.gathered import Gathered
from simulations.harness import Evidence, Exchanged
from simulations.report.budget import CuratorReport
from simulations.report.clinical_model import RecordCounts
from simulations.scoring import Tally

STATE = "state.msgpack"
FORMAT = 3


class KeptTranscript(msgspec.Struct, frozen=True):
    """Whose transcript it is, how its study ended, and its head; its place in the list is that of its file."""

    who: Exchanged
    state: str
    head: bytes


class State(msgspec.Struct, frozen=True):
    """What the file holds: see `Gathered` and `Evidence`, whose values these are.

    Attributes:
        format: `FORMAT`.
        fingerprint, command, repeats: of the order.
    """

    format: int
    fingerprint: str
    command: str
    repeats: int
    done: int
    tallies: dict[str, Tally]
    rows: list[dict[str, Any]]
    curators: tuple[CuratorReport, ...]
    notes: list[str]
    counts: tuple[RecordCounts, ...]
    positive: str
    measure: str
    transcripts: list[KeptTranscript]
    keys: list[tuple[Role, str, int, bytes]]
    labels: dict[str, str]
    policies: dict[str, Policy]
    ledgers: dict[str, tuple[bytes, int]]


def state_of(gathered: Gathered, fingerprint: str, command: str, repeats: int) -> bytes:
    """The bytes of the file."""
    evidence = gathered.evidence
    state = State(
        format=FORMAT,
        fingerprint=fingerprint,
        command=command,
        repeats=repeats,
        done=gathered.done,
        tallies=gathered.tallies,
        rows=gathered.rows,
        curators=gathered.curators,
        notes=gathered.notes,
        counts=gathered.counts,
        positive=gathered.positive,
        measure=gathered.measure,
        transcripts=[
            KeptTranscript(key, evidence.states[key], transcript.head)
            for key, transcript in evidence.transcripts.items()
        ],
        keys=[(*who, key) for who, key in evidence.keys.items()],
        labels=evidence.labels,
        policies=evidence.policies,
        ledgers=evidence.ledgers,
    )
    return msgspec.msgpack.encode(state, enc_hook=_plain)


def read_state(folder: Path) -> State | None:
    """The state of a run in the making; None where it has none, or none that this version reads."""
    try:
        state = msgspec.msgpack.decode((folder / PROGRESS / STATE).read_bytes(), type=State, dec_hook=_typed)
    except (OSError, msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return None
    return state if state.format == FORMAT else None


def restored(state: State, signers: Mapping[str, SigningKey], transcripts: dict[Exchanged, Transcript]) -> Gathered:
    """What a state was made of."""
    evidence = Evidence(
        dict(signers),
        transcripts=transcripts,
        states={one.who: one.state for one in state.transcripts},
        keys={(role, name, repeat): key for role, name, repeat, key in state.keys},
        labels=state.labels,
        policies=state.policies,
        ledgers=state.ledgers,
    )
    return Gathered(
        evidence=evidence,
        tallies={name: _tally(tally) for name, tally in state.tallies.items()},
        done=state.done,
        rows=state.rows,
        curators=state.curators,
        notes=state.notes,
        counts=state.counts,
        positive=state.positive,
        measure=state.measure,
    )


def _tally(read: Tally) -> Tally:
    """With the defaults of a new one, which no file has."""
    fresh = Tally()
    for one in fields(Tally):
        value, default = getattr(read, one.name), getattr(fresh, one.name)
        if isinstance(default, defaultdict):
            default.update(value)
        else:
            setattr(fresh, one.name, value)
    return fresh


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    raise NotImplementedError(f"{type(value).__name__} is nothing that an unfinished run can keep")


def _typed(kind: Any, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    if kind is np.ndarray or get_origin(kind) is np.ndarray:
        dtype, shape, data = value
        return np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()
    raise NotImplementedError(kind)
