"""The audit of all inputs together: runs, ledgers, receipts, witnessed checkpoints.

Its one result is shown on the terminal, as JSON and as a page. What was spent is summed by curator, learner, version of
the records and privacy unit, from ledgers, and from transcripts of curators whose ledger is missing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.recompute.bounds import Bounds, Cards
from expril.audit.recompute.entries import ZERO, InCommon, Price, Study
from expril.audit.recompute.folders import find_runs
from expril.audit.recompute.ledger import SIMULATED, Tick, UnreadableError, audit_ledger, is_ledger, quiet
from expril.audit.recompute.losses import add_losses
from expril.audit.recompute.receipts import HeldReceipt, hold_receipts, hold_witnessed, read_receipt_file
from expril.audit.recompute.runs import Pins, cards_of, check_first_key, hold_lone_ledger, hold_run, read_run
from expril.audit.recompute.sums import NO_ZCDP, Sum, ledger_sums, unit_sums
from expril.audit.recompute.verdicts import DELTA, AuditedLedger, Recomputed, RunProof, TranscriptVerdict, learner_names
from expril.files import MOST_TEXT, read_plain
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError, printable
from protocol.ledger.checkpoints import CheckpointError, read_checkpoint, witnesses_of
from protocol.messages import Query
from protocol.rationals import parse_amount
from protocol.run_index import TRANSCRIPTS


def recompute(
    *paths: Path,
    pins: Pins | None = None,
    receipts: Sequence[Path] = (),
    witnessed: Sequence[Path] = (),
    witnesses: Collection[bytes] | None = None,
    delta: float | None = DELTA,
    every_signature: bool = False,
    kinds: AuditedKinds = AUDITED_KINDS,
    tick: Tick = quiet,
) -> Recomputed:
    """Recompute what was spent, from what was signed.

    `paths`: folders of runs, or of runs at several epsilons; exports of ledgers, SQLite ledgers; `pins`: public keys
    known from elsewhere; None takes the runs' own keys, and the result says so. `receipts`: files with receipts that
    learners hold. `witnessed`: files with checkpoints that witnesses co-signed. `witnesses`: public keys of witnesses,
    known from elsewhere; None takes every witness, and the result says so. `delta`: of each accepted plan, in (0, 1);
    None computes no (epsilon, delta). `every_signature`: check all signatures of long ledgers, too.

    Raises:
        ConfigurationError: a file holds no receipt or no checkpoint, or delta is out of its range.
    """
    if delta is not None and not 0 < delta < 1:
        raise ConfigurationError("--delta must lie between 0 and 1, such as 1e-6")
    result = Recomputed(delta)
    held_receipts = [read_receipt_file(path) for path in receipts]
    checkpoints = _read_checkpoints(witnessed, result)
    lone_paths = _read_all(paths, pins, kinds, tick, result)

    def all_cards(curator: bytes) -> Cards:
        return {study: bound for run in result.runs for study, bound in cards_of(run, curator).items()}

    for run in result.runs:
        hold_run(run, all_cards, kinds, tick)
    run_receipts = [receipt for run in result.runs for receipt in _receipts_of(run)]
    for path in lone_paths:
        all_receipts = [*held_receipts, *run_receipts]
        _audit_lone_ledger(
            path, result, all_receipts, all_cards, pins=pins, kinds=kinds, every=every_signature, tick=tick
        )
    _cross_check(result, held_receipts, checkpoints, witnesses)
    add_sums(result, kinds)
    return result


def _read_all(
    paths: Iterable[Path], pins: Pins | None, kinds: AuditedKinds, tick: Tick, result: Recomputed
) -> list[Path]:
    """Read all runs, and return the paths of ledgers."""
    lone_paths, folders = [], dict[Path, Path]()
    for path in paths:
        try:
            if is_ledger(path):
                lone_paths.append(path)
                continue
        except ConfigurationError as error:
            result.unread.append(str(error))
            continue
        below = find_runs(path)
        result.complaints += below.complaints
        result.remarks += below.remarks
        for folder in below.runs:
            folders.setdefault(folder.resolve(), folder)
    for folder in folders.values():
        try:
            result.runs.append(read_run(folder, pins, kinds, tick))
        except ConfigurationError as error:
            result.unread.append(str(error))
    return lone_paths


def _audit_lone_ledger(
    path: Path,
    result: Recomputed,
    receipts: Sequence[HeldReceipt],
    all_cards: Callable[[bytes], Cards],
    *,
    pins: Pins | None,
    kinds: AuditedKinds,
    every: bool,
    tick: Tick,
) -> None:
    """Audit a ledger outside of any run, and add it to the result."""
    try:
        audit = audit_ledger(
            path,
            kinds=kinds,
            cards_of=all_cards,
            named={held_receipt.receipt.ledger_head for held_receipt in receipts},
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
            wrong, open_ = check_first_key(audit.replayed.keys[0][1], pins)
            if wrong:
                audit.findings.add(0, wrong)
            audit.unproven += [open_] if open_ else []
        known_as = {
            bytes.fromhex(participant.key): (
                run.curator_name(participant.name, participant.repeat),
                run.world(participant.repeat),
            )
            for run in result.runs
            for participant in (run.index.participants if run.index else ())
            if participant.role == "curator"
        }
        stranger = (audit.replayed.curator.hex()[:16] or "?", "")
        name, world = next((known_as[key] for key in audit.curators if key in known_as), stranger)
        result.lone_ledgers.append(AuditedLedger(str(path), name, world, audit, remarks=audit.unproven))


def _cross_check(
    result: Recomputed,
    held_receipts: Sequence[HeldReceipt],
    checkpoints: dict[str, str],
    witnesses: Collection[bytes] | None,
) -> None:
    """Compare all receipts and checkpoints with all ledgers, and ledgers of one curator with each other."""
    used: set[str] = set()
    for ledger in result.ledgers:
        audit = ledger.audit
        run_receipts = [item for run in result.runs for item in _receipts_of(run, proven=ledger in run.ledgers)]
        before = len(audit.findings), len(audit.unproven)
        hold_receipts(audit, [*run_receipts, *held_receipts])
        used |= {item.source for item in held_receipts if item.receipt.curator in audit.curators}
        used |= hold_witnessed(audit, checkpoints, witnesses)
        if ledger in result.lone_ledgers:
            ledger.complaints = audit.findings.texts()
            hold_lone_ledger(ledger, result.runs)
        else:
            ledger.complaints += [item.text for item in audit.findings[before[0] :]]
            ledger.remarks += audit.unproven[before[1] :]
    for source in (*(item.source for item in held_receipts), *checkpoints):
        if source not in used:
            result.remarks.append(f"{source} is of no ledger that was given: it was not compared")
    for place, ledger in enumerate(result.ledgers):
        for other in result.ledgers[place + 1 :]:
            result.complaints += _two_histories(ledger, other)
    result.complaints += _unlike_notes(result.ledgers)


def _two_histories(ledger: AuditedLedger, other: AuditedLedger) -> Iterator[str]:
    first, second = ledger.audit.replayed, other.audit.replayed
    if not first.keys or not second.keys or first.keys[0] != second.keys[0]:
        return
    for index, (here, there) in enumerate(zip(first.hashes, second.hashes, strict=False)):
        if here != there:
            yield f"{ledger.file} and {other.file} are of one curator and differ from entry {index} on: two ledgers"
            return


def _unlike_notes(ledgers: Sequence[AuditedLedger]) -> Iterator[str]:
    """Return a sentence for each joint action that ledgers note differently."""
    first: dict[str, tuple[AuditedLedger, InCommon]] = {}
    for ledger in ledgers:
        for joint in ledger.audit.replayed.remarks.in_common():
            other, earlier = first.setdefault(joint.action, (ledger, joint))
            if earlier.how != joint.how:
                yield (
                    f"{joint.action} was {earlier.how} by {other.file} (entry {earlier.entry}), and {joint.how} by "
                    f"{ledger.file} (entry {joint.entry}): whoever led it had two of them "
                    "signed, or one of these curators lies"
                )


def _receipts_of(run: RunProof, *, proven: bool = False) -> Iterator[HeldReceipt]:
    for exchange in run.transcripts:
        file = exchange.entry.file
        for answer in exchange.answers.values():
            yield HeldReceipt(f"a receipt in {run.folder / TRANSCRIPTS / file}", answer.receipt, proven=proven)


def _read_checkpoints(paths: Sequence[Path], result: Recomputed) -> dict[str, str]:
    """Return the texts of checkpoints with fitting signatures, by file. Others become complaints.

    Raises:
        ConfigurationError: a file is no checkpoint.
    """
    texts = {}
    for path in paths:
        try:
            text = read_plain(path, most=MOST_TEXT).decode()
            witnesses_of(read_checkpoint(text, where=str(path)))
            texts[str(path)] = text
        except CheckpointError as error:
            result.complaints.append(f"{path} says nothing: {error}")
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(f"{path} is no witnessed head; expril audit witness writes one") from None
    return texts


NO_LIBRARY = '(epsilon, delta) is not computed: a part is not installed (dp_accounting): pip install "expril[audit]"'


def add_sums(result: Recomputed, kinds: AuditedKinds) -> None:
    """Sum by curator, learner, version and unit, and compute (epsilon, delta) if dp-accounting is installed."""
    names = {key: name for run in result.runs if run.index for key, name in learner_names(run.index).items()}
    there: set[bytes] = set()
    for ledger in result.ledgers:
        audit = ledger.audit
        there |= audit.curators
        if not any(_goes_on_from(other, ledger, result.ledgers) for other in result.ledgers):
            ledger.sums = ledger_sums(ledger.curator, ledger.world, audit.replayed, audit.bounds, names)
    for run in result.runs:
        result.transcript_sums += _transcript_sums(run, there, kinds)
    result.units = unit_sums(result.sums)
    if result.delta is None:
        return
    try:
        add_losses(result.sums, kinds, result.delta)
    except ModuleNotFoundError:
        result.remarks.append(NO_LIBRARY)
        return
    result.remarks.append(NO_ZCDP)


def _goes_on_from(other: AuditedLedger, ledger: AuditedLedger, ledgers: Sequence[AuditedLedger]) -> bool:
    """Whether `other` begins with all of `ledger`, or equals it and came earlier, so that `ledger` is not counted."""
    long, short = other.audit.replayed, ledger.audit.replayed
    if other is ledger or not short.hashes or len(long) < len(short):
        return False
    begins = long.hashes[len(short) - 1] == short.head
    return begins and (len(long) > len(short) or ledgers.index(other) < ledgers.index(ledger))


def _transcript_sums(run: RunProof, there: set[bytes], kinds: AuditedKinds) -> list[Sum]:
    """Sum what receipts prove for curators without a ledger: by repeat, curator and learner, then over learners."""
    places: dict[bytes, tuple[int, int]] = {}
    rows: dict[tuple[bytes, str], Sum] = {}
    bounds = Bounds(kinds)
    for exchange in run.transcripts:
        proof, entry = exchange.proof, exchange.entry
        if exchange.curator in there:
            continue
        curator = run.curator_name(entry.curator, entry.repeat)
        places.setdefault(exchange.curator, (entry.repeat, len(places)))
        for who in (entry.learner, ""):
            row = rows.setdefault((exchange.curator, who), Sum(curator, run.world(entry.repeat), "", who))
            if proof is None or proof.card is None:
                row.spend(ZERO, at_most=exchange.at_most)
                continue
            row.unit = "each record" if proof.card.unit is None else f'column "{proof.card.unit}"'
            row.spend(proof.epsilon_spent, at_most=exchange.at_most)
            for paid in _integrals(exchange, bounds):
                row.integrate(paid)
            for proviso, amount in _on_conditions(exchange, bounds):
                row.provide(proviso, amount)
            if who:
                row.keys = tuple(dict.fromkeys((*row.keys, exchange.learner.hex())))
            if proof.epsilon_claimed and proof.plan is not None:
                study = _study_of(exchange, proof.epsilon_claimed, bounds)
                private = entry.label == LABEL and not study.shape.not_private
                row.accept(study, proof.card.most_records_per_unit if private else None)
    return [row for _, row in sorted(rows.items(), key=lambda item: (places[item[0][0]], not item[0][1], item[0][1]))]


def _on_conditions(exchange: TranscriptVerdict, bounds: Bounds) -> Iterator[tuple[str, Fraction]]:
    """Return (condition, amount) of each charge in a receipt that holds on a condition only."""
    proof = exchange.proof
    if proof is None or proof.plan is None:
        return
    shape = bounds.shape(proof.plan)
    for identity, answer in exchange.answers.items():
        receipt = answer.receipt
        if isinstance(exchange.requests.get(identity), Query) and 1 <= receipt.sequence <= len(shape.places):
            proviso, amount = shape.provisos[shape.places[receipt.sequence - 1][0]], parse_amount(receipt.charged)
            if proviso and amount:
                yield proviso, amount


def _integrals(exchange: TranscriptVerdict, bounds: Bounds) -> Iterator[Fraction | None]:
    """Return costs under integral privacy of the queries with receipts; of the whole plan if more may be charged."""
    proof = exchange.proof
    if proof is None or proof.plan is None:
        return
    shape = bounds.shape(proof.plan)
    if proof.most_charged != proof.epsilon_spent:
        yield from shape.integrals
        return
    receipts = (
        answer.receipt
        for identity, answer in exchange.answers.items()
        if isinstance(exchange.requests.get(identity), Query)
    )
    places = {
        receipt.sequence
        for receipt in receipts
        if receipt.charged != "0" and 1 <= receipt.sequence <= len(shape.places)
    }
    yield from (shape.integrals[query] for query in sorted({shape.places[place - 1][0] for place in places}))


def _study_of(exchange: TranscriptVerdict, cost: Fraction, bounds: Bounds) -> Study:
    proof = exchange.proof
    assert proof is not None and proof.plan is not None  # noqa: S101, PT018 - as the caller has seen
    shape = bounds.shape(proof.plan)
    return Study(exchange.learner, exchange.study, -1, shape, Price((cost,), (ZERO, cost)), 0, (), b"")
