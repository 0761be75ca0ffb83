"""All that is given together: runs, exports, receipts, witnessed heads. One result for terminal, JSON and page."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from expril.audit.recompute.bounds import Cards
from expril.audit.recompute.evidence import UnreadableError, is_ledger
from expril.audit.recompute.ledger import audit_ledger
from expril.audit.recompute.listing import Pins, pin_ledger
from expril.audit.recompute.meaning import SIMULATED
from expril.audit.recompute.outcome import DELTA, AuditedLedger, Recomputed
from expril.audit.recompute.receipts import (
    HeldReceipt,
    hold_receipts,
    hold_witnessed,
    places_of,
    read_receipt_file,
)
from expril.audit.recompute.remarks import InCommon
from expril.audit.recompute.runs import Tick, cards_of, hold_run, read_run
from expril.audit.recompute.summing import add_sums
from expril.audit.recompute.verdicts import RunProof
from protocol.envelopes import NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError, printable
from protocol.kinds import QUERY_KINDS
from protocol.ledger.checkpoints import CheckpointError, read_checkpoint, witnesses_of
from protocol.query_kind import Kinds
from protocol.run_index import TRANSCRIPTS
from simulations.run_folder import epsilon_runs


def recompute(
    *paths: Path,
    pins: Pins | None = None,
    receipts: Sequence[Path] = (),
    witnessed: Sequence[Path] = (),
    witnesses: Collection[bytes] | None = None,
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
        witnesses: public keys of witnesses, known from elsewhere; None takes all, and says so.
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
                name = run.curator_name(entry.curator, entry.repeat)
                world, file = run.world(entry.repeat), f"{run.folder}/ledgers/{entry.file}"
                result.ledgers.append(AuditedLedger(file, name, world, audit, held=True))
    told = [one for run in result.runs for one in _receipts_of(run)]
    for path in alone:
        _audit_alone(path, result, [*held, *told], all_cards, pins=pins, kinds=kinds, every=every_signature, tick=tick)
    _cross_check(result, held, checkpoints, witnesses)
    add_sums(result, kinds)
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
    pins: Pins | None,
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
        if audit.replayed.label == NOT_PRIVATE_LABEL:
            audit.unproven.append(SIMULATED)
        if audit.replayed.keys:
            wrong, open_ = pin_ledger(audit.replayed.keys[0][1], pins)
            if wrong:
                audit.findings.add(0, wrong)
            audit.unproven += [open_] if open_ else []
        known_as = {
            bytes.fromhex(one.key): (run.curator_name(one.name, one.repeat), run.world(one.repeat))
            for run in result.runs
            for one in (run.index.participants if run.index else ())
            if one.role == "curator"
        }
        stranger = (audit.replayed.curator.hex()[:16] or "?", "")
        name, world = next((known_as[key] for key in audit.curators if key in known_as), stranger)
        result.ledgers.append(AuditedLedger(str(path), name, world, audit))


def _cross_check(
    result: Recomputed, held: Sequence[HeldReceipt], checkpoints: dict[str, str], witnesses: Collection[bytes] | None
) -> None:
    """Hold all receipts and heads against all ledgers, and ledgers of one curator against each other."""
    used: set[str] = set()
    for one in result.ledgers:
        audit = one.audit
        own = next((run for run in result.runs if any(audit is each for each in run.audits.values())), None)
        told = [each for run in result.runs for each in _receipts_of(run, proven=run is own)]
        before = len(audit.findings), len(audit.unproven)
        hold_receipts(audit, [*told, *held])
        used |= {each.source for each in held if each.receipt.curator in audit.curators}
        used |= hold_witnessed(audit, checkpoints, witnesses)
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
    result.complaints += _told_differently(result.ledgers)


def _two_histories(one: AuditedLedger, other: AuditedLedger) -> Iterator[str]:
    first, second = one.audit.replayed, other.audit.replayed
    if not first.keys or not second.keys or first.keys[0] != second.keys[0]:
        return
    for index, (here, there) in enumerate(zip(first.hashes, second.hashes, strict=False)):
        if here != there:
            yield f"{one.file} and {other.file} are of one curator and differ from entry {index} on: two ledgers"
            return


def _told_differently(ledgers: Sequence[AuditedLedger]) -> Iterator[str]:
    """What several ledgers note of one and the same thing, and not alike."""
    first: dict[str, tuple[AuditedLedger, InCommon]] = {}
    for one in ledgers:
        for told in one.audit.replayed.remarks.in_common():
            other, known = first.setdefault(told.what, (one, told))
            if known.how != told.how:
                yield (
                    f"{told.what} was {known.how} by {other.file} (entry {known.entry}), and {told.how} by {one.file} "
                    f"(entry {told.entry}): whoever led it had two of them signed, or one of these curators lies"
                )


def _receipts_of(run: RunProof, *, proven: bool = False) -> Iterator[HeldReceipt]:
    for exchange in run.exchanges:
        file = exchange.verdict.entry.file
        for answer in exchange.answers.values():
            yield HeldReceipt(f"a receipt in {run.folder / TRANSCRIPTS / file}", answer.receipt, proven=proven)


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
