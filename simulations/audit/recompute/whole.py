"""All that is given together: runs, exports, receipts, witnessed heads. One result for terminal, JSON and page."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, printable
from protocol.kinds import Kinds
from protocol.ledger.checkpoints import CheckpointError, read_checkpoint, witnesses_of
from protocol.queries import QUERY_KINDS
from simulations.audit.recompute.bounds import Bounds, Cards
from simulations.audit.recompute.evidence import UnreadableError, is_ledger
from simulations.audit.recompute.known import ZERO, Price, Study
from simulations.audit.recompute.ledger import LedgerAudit, audit_ledger
from simulations.audit.recompute.listing import Pins
from simulations.audit.recompute.receipts import (
    HeldReceipt,
    hold_receipts,
    hold_witnessed,
    places_of,
    read_receipt_file,
)
from simulations.audit.recompute.runs import Tick, cards_of, hold_run, read_run
from simulations.audit.recompute.sums import NO_ZCDP, Sum, UnitSum, ledger_sums, unit_sums
from simulations.audit.recompute.transcripts import Exchange
from simulations.audit.recompute.verdicts import RunProof
from simulations.run_index import epsilon_runs

DELTA = 1e-6
NO_LIBRARY = '(epsilon, delta) is not computed: a part is not installed (dp_accounting): pip install "expril[audit]"'


@dataclass(eq=False)
class AuditedLedger:
    """A ledger's part of a result.

    Attributes:
        file: for people.
        curator: name in the run, or the first digits of its key.
        world: the run and repeat that it belongs to; "" where no run that was given knows its curator.
        audit: what it proves.
        held: whether findings on it are told with its run already.
        sums: what was spent; empty where it is the beginning of another ledger that was given.
    """

    file: str
    curator: str
    world: str
    audit: LedgerAudit
    held: bool = False
    sums: list[Sum] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        """For machines."""
        audit, replayed = self.audit, self.audit.replayed
        return {
            "file": self.file,
            "curator": self.curator,
            "keys": [key.hex() for _, key in replayed.keys],
            "terms": replayed.terms,
            "unit": replayed.unit,
            "c": audit.bounds.bound,
            "head": replayed.head.hex(),
            "entries": audit.entries,
            "counted": len(replayed),
            "signatures_checked": audit.checked,
            "spent": str(replayed.total),
            "halted": replayed.halted,
            "data": [{"entry": index, "version": version} for index, version in replayed.data],
            "findings": [{"entry": one.index, "text": one.text} for one in audit.findings],
            "unproven": list(audit.unproven),
            "unwitnessed": None if audit.unwitnessed is None else list(audit.unwitnessed),
            "covered_by": audit.covered_by or None,
            "sums": [one.as_object() for one in self.sums],
        }


@dataclass
class Recomputed:
    """What was recomputed from transcripts, receipts and ledgers alone.

    Attributes:
        delta: of each accepted plan; None where no (epsilon, delta) was asked for.
        runs: folders of runs.
        ledgers: of these runs, and those that were given by themselves.
        sums: of curators whose ledger is not here, by what transcripts prove.
        units: by privacy unit, over curators.
        complaints: what is wrong beyond a run and a ledger.
        remarks: what is not computed or not proven, beyond a run and a ledger.
        unread: what could not be read at all.
    """

    delta: float | None = DELTA
    runs: list[RunProof] = field(default_factory=list)
    ledgers: list[AuditedLedger] = field(default_factory=list)
    transcript_sums: list[Sum] = field(default_factory=list)
    units: list[UnitSum] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def sums(self) -> list[Sum]:
        """By curator, learner, version; where `learner` or `version` is "", over all."""
        return [*(one for ledger in self.ledgers for one in ledger.sums), *self.transcript_sums]

    @property
    def wrong(self) -> list[str]:
        """Everything that is not proven, with its place."""
        return [
            *self.complaints,
            *(f"{run.folder}: {text}" for run in self.runs for text in run.wrong),
            *(f"{one.file}: {text}" for one in self.ledgers if not one.held for text in one.audit.findings.texts()),
        ]

    @property
    def unproven(self) -> list[str]:
        """Everything that is left open although nothing is wrong."""
        return [
            *(text for run in self.runs for text in run.unproven),
            *(f"{one.file}: {text}" for one in self.ledgers if not one.held for text in one.audit.unproven),
            *self.remarks,
        ]

    @property
    def unwitnessed(self) -> list[str]:
        """Entries of which nothing outside of the curators' hands speaks."""
        return [
            f"{one.file}: entries {one.audit.unwitnessed[0]}..{one.audit.unwitnessed[1]} rest on the curator's word"
            + (f"; those before are covered by {one.audit.covered_by}" if one.audit.covered_by else "")
            for one in self.ledgers
            if one.audit.unwitnessed is not None
        ]

    @property
    def proven(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def as_object(self) -> dict[str, Any]:
        """For machines; amounts are exact, as text."""
        return {
            "proven": self.proven,
            "delta": self.delta,
            "wrong": self.wrong,
            "unproven": self.unproven,
            "unwitnessed": self.unwitnessed,
            "sums": [one.as_object() for one in self.sums],
            "units": [one.as_object() for one in self.units],
            "runs": [run.as_object() for run in self.runs],
            "ledgers": [one.as_object() for one in self.ledgers],
            "unread": self.unread,
        }


def recompute(
    *paths: Path,
    pins: Pins | None = None,
    receipts: Sequence[Path] = (),
    witnessed: Sequence[Path] = (),
    delta: float | None = DELTA,
    every_signature: bool = False,
    kinds: Kinds = QUERY_KINDS,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Recomputed:
    """Recompute what was spent, from what was signed.

    Args:
        paths: folders of runs, or of runs at several epsilons; exports of ledgers, SQLite ledgers.
        pins: public keys known from elsewhere; None takes the runs' own, and says so.
        receipts: files with receipts that learners hold.
        witnessed: files with heads that witnesses co-signed.
        delta: of each accepted plan, in (0, 1); None computes no (epsilon, delta).
        every_signature: check all signatures of long ledgers, too.
        kinds: the query kinds that can be read.
        tick: called with (what, done, total).

    Raises:
        ConfigurationError: a file of receipts or heads is none, or delta is out of its range.
    """
    if delta is not None and not 0 < delta < 1:
        raise ConfigurationError("--delta must lie between 0 and 1, such as 1e-6")
    result = Recomputed(delta)
    held = [read_receipt_file(path) for path in receipts]
    checkpoints = _read_checkpoints(witnessed, result)
    alone = _read_all(paths, pins, kinds, tick, result)

    def all_cards(curator: bytes) -> Cards:
        return {study: bound for run in result.runs for study, bound in cards_of(run, curator).items()}

    for run in result.runs:
        hold_run(run, all_cards, kinds, tick)
        for entry in run.index.ledgers if run.index else ():
            audit = run.audits.get(entry.file)
            if audit is not None:
                name = _curator_name(run, entry.curator, entry.repeat)
                world, file = _world(run, entry.repeat), f"{run.folder}/ledgers/{entry.file}"
                result.ledgers.append(AuditedLedger(file, name, world, audit, held=True))
    told = [one for run in result.runs for one in _receipts_of(run)]
    for path in alone:
        _audit_alone(path, result, [*held, *told], all_cards, kinds=kinds, every=every_signature, tick=tick)
    _cross_check(result, held, checkpoints)
    _add_sums(result, kinds)
    return result


def _read_all(paths: Iterable[Path], pins: Pins | None, kinds: Kinds, tick: Tick, result: Recomputed) -> list[Path]:
    """Read all runs; the paths that are ledgers."""
    alone = []
    for path in paths:
        try:
            if is_ledger(path):
                alone.append(path)
                continue
            for each in epsilon_runs(path).values() or [path]:
                result.runs.append(read_run(each, pins, kinds, tick))
        except ConfigurationError as error:
            result.unread.append(str(error))
    return alone


def _audit_alone(
    path: Path,
    result: Recomputed,
    receipts: Sequence[HeldReceipt],
    all_cards: Callable[[bytes], Cards],
    *,
    kinds: Kinds,
    every: bool,
    tick: Tick,
) -> None:
    """Audit a ledger that was given by itself."""
    try:
        audit = audit_ledger(
            path,
            kinds=kinds,
            cards_of=all_cards,
            named=lambda replayed: places_of(replayed, receipts).values(),
            every_signature=every,
            tick=tick,
        )
    except UnreadableError as error:
        result.complaints.append(printable(str(error), 400))
    except ConfigurationError as error:
        result.unread.append(str(error))
    except OSError as error:
        result.unread.append(f"{path} cannot be read: {error.strerror}")
    else:
        known_as = {
            bytes.fromhex(one.key): (_curator_name(run, one.name, one.repeat), _world(run, one.repeat))
            for run in result.runs
            for one in (run.index.participants if run.index else ())
            if one.role == "curator"
        }
        stranger = (audit.replayed.curator.hex()[:16] or "?", "")
        name, world = next((known_as[key] for key in audit.curators if key in known_as), stranger)
        result.ledgers.append(AuditedLedger(str(path), name, world, audit))


def _cross_check(result: Recomputed, held: Sequence[HeldReceipt], checkpoints: dict[str, str]) -> None:
    """Hold all receipts and heads against all ledgers, and ledgers of one curator against each other."""
    used: set[str] = set()
    for one in result.ledgers:
        audit = one.audit
        own = next((run for run in result.runs if any(audit is each for each in run.audits.values())), None)
        told = [each for run in result.runs for each in _receipts_of(run, proven=run is own)]
        before = len(audit.findings), len(audit.unproven)
        hold_receipts(audit, [*told, *held])
        used |= {each.source for each in held if each.receipt.curator in audit.curators}
        used |= hold_witnessed(audit, checkpoints)
        if own is not None:
            verdict = next(each for each in own.ledgers if own.audits.get(each.entry.file) is audit)
            verdict.why += [each.text for each in audit.findings[before[0] :]]
            verdict.unproven += audit.unproven[before[1] :]
    for source in (*(each.source for each in held), *checkpoints):
        if source not in used:
            result.remarks.append(f"{source} is of no ledger that was given: it was not compared")
    for place, one in enumerate(result.ledgers):
        for other in result.ledgers[place + 1 :]:
            result.complaints += _two_histories(one, other)


def _two_histories(one: AuditedLedger, other: AuditedLedger) -> Iterator[str]:
    first, second = one.audit.replayed, other.audit.replayed
    if not first.keys or not second.keys or first.keys[0] != second.keys[0]:
        return
    for index, (here, there) in enumerate(zip(first.hashes, second.hashes, strict=False)):
        if here != there:
            yield f"{one.file} and {other.file} are of one curator and differ from entry {index} on: two ledgers"
            return


def _receipts_of(run: RunProof, *, proven: bool = False) -> Iterator[HeldReceipt]:
    for exchange in run.exchanges:
        file = exchange.verdict.entry.file
        for answer in exchange.answers.values():
            yield HeldReceipt(f"a receipt in {run.folder}/{file}", answer.receipt, proven=proven)


def _add_sums(result: Recomputed, kinds: Kinds) -> None:
    """By curator, learner, version and unit; and (epsilon, delta), where the library is there."""
    names = {
        bytes.fromhex(one.key): one.name
        for run in result.runs
        for one in (run.index.participants if run.index else ())
        if one.role == "learner"
    }
    there: set[bytes] = set()
    for one in result.ledgers:
        there |= one.audit.curators
        if not any(_tells_more(other, one, result.ledgers) for other in result.ledgers):
            one.sums = ledger_sums(one.curator, one.world, one.audit.replayed, one.audit.bounds, names)
    for run in result.runs:
        result.transcript_sums += _transcript_sums(run, there, kinds)
    result.units = unit_sums(result.sums)
    if result.delta is None:
        return
    try:
        from simulations.audit.recompute.losses import add_losses  # noqa: PLC0415 - dp-accounting is an extra
    except ModuleNotFoundError:
        result.remarks.append(NO_LIBRARY)
        return
    add_losses(result.sums, kinds, result.delta)
    result.remarks.append(NO_ZCDP)


def _tells_more(other: AuditedLedger, one: AuditedLedger, ledgers: Sequence[AuditedLedger]) -> bool:
    """Whether one ledger is the beginning of another that was given, or the same once more: it is not counted twice."""
    long, short = other.audit.replayed, one.audit.replayed
    if other is one or not short.hashes or len(long) < len(short):
        return False
    begins = long.hashes[len(short) - 1] == short.head
    return begins and (len(long) > len(short) or ledgers.index(other) < ledgers.index(one))


def _transcript_sums(run: RunProof, there: set[bytes], kinds: Kinds) -> list[Sum]:
    """By learner, then all learners, of curators whose ledgers are not given: what receipts prove."""
    made: dict[tuple[bytes, str], Sum] = {}
    bounds = Bounds(kinds)
    for exchange in run.exchanges:
        proof, entry = exchange.verdict.proof, exchange.verdict.entry
        if exchange.curator in there or proof is None or proof.card is None:
            continue
        unit = "each record" if proof.card.unit is None else f'column "{proof.card.unit}"'
        curator = _curator_name(run, entry.curator, entry.repeat)
        for who in (entry.learner, ""):
            one = made.setdefault((exchange.curator, who), Sum(curator, _world(run, entry.repeat), unit, who))
            one.spend(proof.epsilon_spent, more=proof.epsilon_at_most - proof.epsilon_spent)
            if who:
                one.keys = tuple(dict.fromkeys((*one.keys, exchange.learner.hex())))
            if proof.epsilon_claimed and proof.plan is not None:
                study = _study_of(exchange, proof.epsilon_claimed, bounds)
                one.accept(study, proof.card.most_records_per_unit if entry.label == LABEL else None)
    return [one for _, one in sorted(made.items(), key=lambda item: (item[0][0], not item[0][1], item[0][1]))]


def _study_of(exchange: Exchange, cost: Fraction, bounds: Bounds) -> Study:
    proof = exchange.verdict.proof
    assert proof is not None and proof.plan is not None  # noqa: S101, PT018 - as the caller has seen
    shape = bounds.shape(proof.plan)
    return Study(exchange.learner, exchange.study, -1, shape, Price((cost,), (ZERO, cost)), 0, (), b"")


def _world(run: RunProof, repeat: int) -> str:
    return f"{run.folder}, repeat {repeat}"


def _curator_name(run: RunProof, name: str, repeat: int) -> str:
    several = run.index is not None and run.index.repeats > 1
    return f"{printable(name)}, repeat {repeat}" if several else printable(name)


def _read_checkpoints(paths: Sequence[Path], result: Recomputed) -> dict[str, str]:
    """File -> text of the witnessed heads whose signatures fit; what is wrong with others is a complaint.

    Raises:
        ConfigurationError: one is none.
    """
    found = {}
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
            witnesses_of(read_checkpoint(text, where=str(path)))
            found[str(path)] = text
        except CheckpointError as error:
            result.complaints.append(f"{path} says nothing: {error}")
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(f"{path} is no witnessed head; expril audit witness writes one") from None
    return found
