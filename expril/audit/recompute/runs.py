"""A run's folder: its list, files, transcripts, ledgers and report, compared with each other.

Only what is signed is believed. The list is checked for consistency, and compared with the files in the folder and with
keys known from elsewhere. Each transcript is replayed by itself. Each ledger is audited by itself, and then compared
with its curator's transcripts, entry by entry in both directions.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import get_args

import msgspec

from expril.audit.kinds.kind_audit import AuditedKinds
from expril.audit.recompute.bounds import Cards, not_private
from expril.audit.recompute.deployed import TOLD, check_deployed, is_deployed
from expril.audit.recompute.effects import Effect
from expril.audit.recompute.entries import ZERO, Remarks, as_text
from expril.audit.recompute.ledger import Tick, audit_ledger, digest_of, listed_files
from expril.audit.recompute.receipts import differing
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.reports import TOLD_BY_A_RUN, check_report
from expril.audit.recompute.verdicts import (
    HELD,
    LEDGER_NOT_PROVEN,
    Answer,
    AuditedLedger,
    LedgerVerdict,
    RunProof,
    TranscriptVerdict,
    learner_names,
)
from expril.files import read_plain, read_text_file
from protocol.announcements import read_notice
from protocol.envelopes import LABEL, LEARNER_TYPES, digest, open_envelope, open_receipt, request_digest
from protocol.errors import ConfigurationError, ExprilError, printable
from protocol.ledger.entries import EntryKind, ledger_terms
from protocol.messages import Message, Query, Release, StudyAccepted, StudyClosed, StudyProposal
from protocol.rationals import plus
from protocol.run_index import (
    AGAIN,
    COST,
    INDEX,
    LEDGERS,
    LOCAL,
    METRICS,
    MOST_TRANSCRIPT,
    PAGE,
    PREDICTIONS,
    PROGRESS,
    REPORT,
    SCENARIO,
    SIGNATURES,
    STUDY,
    TRANSCRIPTS,
    VALIDATION,
    FirstVersionError,
    Index,
    LedgerEntry,
    Role,
    TranscriptEntry,
    absent_repeats,
    decode_index,
    decode_transcript,
    policy_file,
    unsigned,
)
from protocol.strict_json import MOST_BYTES
from protocol.strict_toml import read_toml
from protocol.transcript import replay
from protocol.transitions import State


def read_exchange(
    folder: Path, keys: Mapping[tuple[Role, str, int], bytes], entry: TranscriptEntry, kinds: AuditedKinds
) -> TranscriptVerdict:
    """Replay one transcript, and check its signatures, order, plan, exact costs, receipts, and its listed head."""
    learner = keys.get(("learner", entry.learner, entry.repeat))
    curator = keys.get(("curator", entry.curator, entry.repeat))
    if learner is None or curator is None:
        who = printable(entry.curator if learner else entry.learner)
        why = f"the run's list has no key of {who} in repeat {entry.repeat}"
        return TranscriptVerdict(entry, complaints=[why])
    verdict = TranscriptVerdict(entry, learner, curator)
    try:
        transcript = decode_transcript(read_plain(folder / TRANSCRIPTS / entry.file, most=MOST_TRANSCRIPT))
        proof = replay(transcript.envelopes, curator, learner, label=entry.label, kinds=kinds)
    except OSError:
        verdict.complaints.append("it is missing or cannot be read")
        return verdict
    except ExprilError as error:
        verdict.complaints.append(printable(str(error), 400))
        return verdict
    verdict.proof = proof
    verdict.remarks += [proof.unproven] if proof.unproven else []
    if entry.label == LABEL and proof.plan is not None and proof.state not in (State.NEW, State.REFUSED):
        verdict.complaints += [
            f"query {number} of its plan is not as private as its cost says, and it is signed as private"
            for number in not_private(proof.plan, kinds)[:1]
        ]
    if transcript.head.hex() != entry.head:
        verdict.complaints.append("the envelopes do not chain to the head in the run's list")
    if (len(transcript.envelopes), proof.state.value) != (entry.envelopes, entry.state):
        verdict.complaints.append("it has another number of envelopes, or another end, than the run's list says")
    newest = -1
    for data in transcript.envelopes:
        envelope, message = open_envelope(data)
        if envelope.type in LEARNER_TYPES:
            verdict.requests[request_digest(message.sender, envelope.type, envelope.payload)] = message
        if isinstance(message, StudyProposal):
            verdict.study, verdict.purpose = message.study, message.purpose
            verdict.carried_receipt = digest(message.newest_receipt) if message.newest_receipt else b""
        if isinstance(message, StudyAccepted | Release | StudyClosed):
            receipt = open_receipt(message.receipt, curator, label=entry.label)
            release = message.body if isinstance(message, Release) else None
            verdict.answers[receipt.request] = Answer(receipt, digest(data), release)
            if receipt.sequence > newest:
                newest, verdict.newest_receipt = receipt.sequence, digest(message.receipt)
    return verdict


Keys = str | list[str]
"""One or several hexadecimal keys.

The pattern is not in the type: msgspec 0.22 may crash at exit for a union of a text with a pattern and a list.
"""
_KEY = re.compile(r"[0-9a-f]{64}")
NOT_PINNED = "keys not pinned: they are the run's own, and say nothing of who held them (--keys FILE)"


class Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public keys known from elsewhere, by name. A curator may have several keys, one for each repeat."""

    curators: dict[str, Keys] = {}
    learners: dict[str, Keys] = {}

    def __post_init__(self) -> None:
        named = {key for role in get_args(Role) for keys in self.of(role).values() for key in keys}
        for key in sorted(named):
            if not _KEY.fullmatch(key):
                raise ValueError(f"{printable(key, 80)!r} is no public key: write its 64 hexadecimal digits")

    def of(self, role: Role) -> dict[str, set[str]]:
        """Return the keys of a role, by name."""
        named = self.curators if role == "curator" else self.learners
        return {name: {keys} if isinstance(keys, str) else set(keys) for name, keys in named.items()}


def read_pins(path: Path) -> Pins:
    """Read a file of public keys.

    Raises:
        ConfigurationError: the file cannot be read, or names no key.
    """
    text = read_text_file(path, "keys file")
    pins = read_toml(text, Pins, where=f"keys file {path.name}")
    if not pins.curators and not pins.learners:
        raise ConfigurationError(f"the keys file {path} names no key: write [curators] and [learners], name = key")
    return pins


def read_witnesses(keys: Iterable[str]) -> set[bytes]:
    """Read public keys of witnesses, as people write them.

    Raises:
        ConfigurationError: a text is no public key.
    """
    public_keys = set()
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(f"--witness {printable(key)} is no public key: write its 64 hexadecimal digits")
        public_keys.add(bytes.fromhex(key))
    return public_keys


def check_keys(index: Index, pins: Pins | None) -> tuple[list[str], list[str]]:
    """Return complaints on keys of the run that differ from pinned ones, and a remark on names without a pinned key."""
    if pins is None:
        return [], [NOT_PINNED]
    complaints, free = [], []
    roles: tuple[Role, ...] = ("curator", "learner")
    for role in roles:
        pinned = pins.of(role)
        strangers = pinned.keys() - set(index.names(role))
        complaints += [f"the run lists no {role} {printable(name)}, whose key is pinned" for name in sorted(strangers)]
        free += [f"{role} {printable(name)}" for name in index.names(role) if name not in pinned]
        for entry in index.participants:
            if entry.role == role and entry.name in pinned and entry.key not in pinned[entry.name]:
                complaints.append(
                    f"the key of {role} {printable(entry.name)} in repeat {entry.repeat} is not the pinned one: "
                    f"{entry.key}"
                )
    return complaints, [f"not pinned: the keys of {', '.join(free)}"] if free else []


def check_first_key(first: bytes, pins: Pins | None) -> tuple[str, str]:
    """Return what is wrong with the first key of a ledger outside of any run, and what was not checked."""
    pinned = {} if pins is None else pins.of("curator")
    if not pinned:
        return (
            "",
            f"nobody checked whose key {first.hex()} is, which opened it: anybody can make a ledger (--keys FILE)",
        )
    if any(first.hex() in keys for keys in pinned.values()):
        return "", ""
    return f"it was opened by key {first.hex()}, which is none of the curators' that are pinned", ""


def check_files(folder: Path, index: Index) -> tuple[list[str], list[str]]:
    """Return complaints on missing, changed and unlisted files. An unlisted file of a foreign kind is only a remark."""
    complaints, remarks = [], []
    there = listed_files(folder)
    for name, listed in index.files.items():
        path = there.pop(name, None)
        if path is None:
            complaints.append(f"{printable(name)} is missing")
        elif path.is_symlink() or not path.is_file():
            complaints.append(f"{printable(name)} is no plain file")
        elif digest_of(path) != listed:
            complaints.append(f"{printable(name)} was changed: its digest is not the one in the run's list")
    for name in there:
        if PurePosixPath(name).parts[0] in (TRANSCRIPTS, LEDGERS):
            complaints.append(f"{printable(name)} is not in the run's list")
        else:
            remarks.append(f"{printable(name)} is not in the run's list, and was not looked at")
    return complaints, remarks


def remarks_on_other_files(folder: Path, index: Index) -> list[str]:
    """Return remarks on files that belong in no list: pages, and what is about single records or this machine."""
    beside = [name for name in (PAGE, f"{LOCAL}/", f"{PROGRESS}/") if (folder / name).exists()]
    if beside:
        return [
            f"no evidence, in no list, and not looked at: {', '.join(beside)}",
            *_remarks_on_predictions(folder, index),
        ]
    return _remarks_on_predictions(folder, index)


def _remarks_on_predictions(folder: Path, index: Index) -> list[str]:
    if (folder / LOCAL / PREDICTIONS).is_dir():
        text = f"{LOCAL}/{PREDICTIONS} tells of single records"
        return [f"{text}: it is in no list, and was not looked at; hand it on to nobody"]
    if AGAIN in index.files:
        return [f"{LOCAL}/{PREDICTIONS} was removed, or not kept: it is in no list, and nothing else needs it"]
    return []


def check_list(index: Index) -> list[str]:
    """Return what a run's list must hold but lacks, and what it holds twice."""
    complaints = []
    by_nature = [STUDY, COST] if is_deployed(index) else [SCENARIO, METRICS, REPORT]
    needed = [*by_nature, *(f"{TRANSCRIPTS}/{entry.file}" for entry in index.transcripts)]
    needed += [f"{LEDGERS}/{entry.file}" for entry in index.ledgers]
    needed += [f"{LEDGERS}/{policy_file(entry.curator)}" for entry in index.ledgers]
    complaints += [f"the run's list has no digest of {printable(name)}" for name in needed if name not in index.files]
    if not index.transcripts:
        complaints.append("the run's list names no transcript: it proves nothing")
    complaints += [
        f"the run's list names {printable(name)} twice"
        for name in (
            *_twice(f"transcript {entry.file}" for entry in index.transcripts),
            *_twice(f"{entry.role} {entry.name} of repeat {entry.repeat}" for entry in index.participants),
            *_twice(
                f"study {entry.study} of {entry.learner} with {entry.curator} in repeat {entry.repeat}"
                for entry in index.transcripts
            ),
            *_twice(f"ledger {entry.file}" for entry in index.ledgers),
            *_twice(f"a ledger of {entry.curator} in repeat {entry.repeat}" for entry in index.ledgers),
        )
    ]
    keys = index.keys()
    repeats_of: defaultdict[tuple[Role, str], set[int]] = defaultdict(set)
    for role, name, repeat in keys:
        repeats_of[role, name].add(repeat)
    complaints += [
        f"the run's list has no {role} {printable(name)} in repeat {numbers}"
        for (role, name), there in repeats_of.items()
        if (numbers := absent_repeats(there, index.repeats))
    ]
    kept = {entry.curator for entry in index.ledgers if entry.repeat == 0}
    complaints += [
        f"the run's list names no ledger of {printable(name)}: a simulation keeps every curator's, of its first repeat"
        for name in index.names("curator")
        if name not in kept and not is_deployed(index)
    ]
    for entry in index.ledgers:
        key = keys.get(("curator", entry.curator, entry.repeat))
        if key is None or key.hex() != entry.key:
            complaints.append(
                f"the run's list names another key for ledger {printable(entry.file)} than for its curator"
            )
    return complaints


def doubled_studies(exchanges: Iterable[TranscriptVerdict]) -> list[str]:
    """Return the studies with two transcripts, which would be counted twice."""
    met: dict[tuple[bytes, bytes, bytes], str] = {}
    complaints = []
    for exchange in exchanges:
        if not exchange.study:
            continue
        file = exchange.entry.file
        before = met.setdefault((exchange.curator, exchange.learner, exchange.study), file)
        if before != file:
            complaints.append(f"{before} and {file} tell one and the same study")
    return complaints


def _miss_validations(exchanges: Sequence[TranscriptVerdict]) -> None:
    """Remark on each accepted plan that announced a validation of which no transcript is here."""
    validated = {(item.curator, item.learner) for item in exchanges if item.entry.study == VALIDATION}
    for exchange in exchanges:
        most = read_notice(exchange.purpose).most
        if most and exchange.answers and (exchange.curator, exchange.learner) not in validated:
            exchange.announces = most
            exchange.remarks.append(
                f"it announces a validation, of at most epsilon {most}, and no transcript of one is here: it came to "
                "no request, or it was left out"
            )


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def read_run(folder: Path, pins: Pins | None, kinds: AuditedKinds, tick: Tick) -> RunProof:
    """Check a run's list, files and transcripts. `hold_run` checks its ledgers and report.

    `pins`: public keys known from elsewhere; None takes the run's own keys, and the result says so. `kinds`: the query
    kinds that can be read; costs and releases of others stay unproven.

    Raises:
        ConfigurationError: the folder holds no run, or a run of ExPriL 0.1.
    """
    proof = RunProof(folder)
    there = [name for name in (REPORT, SCENARIO, TRANSCRIPTS, LEDGERS) if (folder / name).exists()]
    data = _read(folder / TRANSCRIPTS / INDEX)
    if data is None:
        if (folder / PROGRESS).is_dir():
            raise ConfigurationError(
                f"{folder} is a run that was not finished: the same simulate command goes on with it"
            )
        if not there:
            raise ConfigurationError(f"{folder} holds no run: no {TRANSCRIPTS}/{INDEX}, no {REPORT}")
        proof.complaints.append(f"{TRANSCRIPTS}/{INDEX} is missing or cannot be read: nothing in this folder is proven")
        return proof
    try:
        index = decode_index(data, folder)
    except FirstVersionError:
        raise
    except ConfigurationError as error:
        proof.complaints.append(f"{error}; nothing in this folder is proven")
        return proof
    proof.index = index
    proof.complaints += unsigned(index, data, _read(folder / TRANSCRIPTS / SIGNATURES))
    wrong, free = check_keys(index, pins)
    changed, extra = check_files(folder, index)
    proof.complaints += wrong + check_list(index) + changed
    proof.remarks += [*free, *extra]
    keys = index.keys()
    files: set[str] = set()
    for number, entry in enumerate(index.transcripts):
        tick("transcripts", number, len(index.transcripts))
        if entry.file in files:  # however often it is listed, it is read once
            exchange = TranscriptVerdict(entry, complaints=["its file is listed for another exchange before"])
        else:
            exchange = read_exchange(folder, keys, entry, kinds)
        files.add(entry.file)
        proof.transcripts.append(exchange)
    tick("transcripts", len(index.transcripts), len(index.transcripts))
    proof.complaints += doubled_studies(proof.transcripts)
    _miss_validations(proof.transcripts)
    return proof


def cards_of(proof: RunProof, curator: bytes) -> Cards:
    """Return the contribution bound c on a curator's cards, for each study with a proven transcript."""
    return {
        (exchange.learner, exchange.study): exchange.proof.card.most_records_per_unit
        for exchange in proof.transcripts
        if exchange.curator == curator
        and exchange.study
        and exchange.proof is not None
        and exchange.proof.card is not None
    }


MADE_BY = {"StudyProposal": EntryKind.RESERVE, "Query": EntryKind.CHARGE, "StudyClose": EntryKind.CLOSE}


def read_ledger(
    run: RunProof,
    entry: LedgerEntry,
    *,
    kinds: AuditedKinds,
    cards_of: Callable[[bytes], Cards] = lambda curator: {},  # noqa: ARG005
) -> LedgerVerdict:
    """Audit one ledger by itself: its entries, costs, signatures, stored replies, and its head in the run's list.

    A write-ahead log beside it is not read. `cards_of`: curator's public key -> (learner, study) -> contribution bound
    c of its signed card.
    """
    verdict = run.ledger(entry)
    path, curator = run.folder / LEDGERS / entry.file, bytes.fromhex(entry.key)
    try:
        audit = verdict.read = audit_ledger(path, kinds=kinds, cards_of=cards_of, curator=curator)
    except OSError:
        verdict.complaints.append("it is missing or cannot be read")
        return verdict
    except ExprilError as error:
        verdict.complaints.append(printable(str(error), 400))
        return verdict
    verdict.complaints += audit.findings.texts()
    verdict.remarks += audit.unproven
    if (audit.replayed.head.hex(), len(audit.replayed)) != (entry.head, entry.entries):
        verdict.complaints.append("its last entry is not the one in the run's list")
    return verdict


def hold_ledger(verdict: LedgerVerdict, exchanges: Sequence[TranscriptVerdict], index: Index) -> None:
    """Compare a ledger with its curator's transcripts, entry by entry in both directions.

    Findings are added to the verdict on the ledger, and to the verdicts in `exchanges` on its curator's transcripts.
    """
    curator = bytes.fromhex(verdict.entry.key)
    of_curator = [exchange for exchange in exchanges if exchange.curator == curator]
    if not verdict.holds:
        for exchange in of_curator:
            exchange.ledger = LEDGER_NOT_PROVEN
        return
    for exchange in of_curator:
        if exchange.proof is not None:
            _check_receipts(exchange, verdict.audit.replayed)
    names = learner_names(index)
    unread = {exchange.learner for exchange in of_curator if exchange.proof is None}
    for (learner, study), charged in _hold_entries(verdict, of_curator).items():
        who = names.get(learner)
        whose = f"learner {printable(who)}" if who else f"a learner that the run does not list ({learner.hex()})"
        which = "the run has no transcript that proves it" if learner in unread else "the run has no transcript"
        verdict.complaints.append(f"it charges {as_text(charged)} to study {study.hex()} of {whose}, of which {which}")


def hold_lone_ledger(ledger: AuditedLedger, runs: Sequence[RunProof]) -> None:
    """Compare a ledger outside of any run with its curator's transcripts in all runs. Receipts are compared elsewhere.

    A study of which no transcript was given is only a remark, unless its learner announced one that is not here.
    """
    audit = ledger.audit
    of_curator = [item for run in runs for item in run.transcripts if item.curator in audit.curators]
    if audit.replayed.broken or not of_curator:
        return
    names = {key: name for run in runs if run.index for key, name in learner_names(run.index).items()}
    announced = {item.learner: item.entry.file for item in of_curator if item.announces}
    for (learner, study), charged in _hold_entries(ledger, of_curator).items():
        if learner not in names:
            continue
        text = f"it charges {as_text(charged)} to study {study.hex()} of learner {printable(names[learner])}, of which "
        if learner in announced:
            ledger.complaints.append(f"{text}no transcript is here, and {announced[learner]} announces one")
        else:
            ledger.remarks.append(f"{text}no transcript was given")


def _hold_entries(
    ledger: AuditedLedger, of_curator: Sequence[TranscriptVerdict]
) -> dict[tuple[bytes, bytes], Fraction]:
    """Compare a ledger's entries and totals with transcripts; return what it charged to studies without one.

    The keys of what is returned are (learner, study).
    """
    replayed = ledger.audit.replayed
    for exchange in of_curator:
        exchange.ledger = HELD
        if exchange.proof is not None:
            _check_total(exchange, replayed)
    studies = {(exchange.learner, exchange.study): exchange for exchange in of_curator if exchange.study}
    lacking: dict[tuple[bytes, bytes], Fraction] = {}
    for request, effect in replayed.requests.items():
        key = (effect.study.learner, effect.study.study)
        if key in studies:
            _check_effect(request, effect, studies[key], ledger, replayed.remarks)
        else:
            charged = effect.amount if effect.kind is EntryKind.CHARGE else ZERO
            lacking[key] = plus(lacking.get(key, ZERO), charged)
    _check_terms(ledger, replayed.terms, of_curator)
    return lacking


def _check_receipts(exchange: TranscriptVerdict, replayed: Replayed) -> None:
    """Check that each receipt belongs to an entry, and agrees with it."""
    for identity, answer in exchange.answers.items():
        effect = replayed.requests.get(identity)
        request = exchange.requests.get(identity)
        if effect is None or request is None:
            text = "holds no entry for, although a receipt says so"
            exchange.complaints.append(f"the curator's ledger {text}: {_request_text(request, answer)}")
            continue
        wrong = differing(effect, answer.receipt, replayed)
        if MADE_BY.get(type(request).__name__) is not effect.kind:
            wrong.append("the kind")
        if isinstance(request, StudyProposal) and request.plan != effect.study.shape.plan:
            wrong.append("the plan")
        if effect.reply != answer.reply:
            wrong.append("the reply")
        if wrong:
            exchange.complaints.append(
                f"the receipt and ledger entry {effect.index} differ in {', '.join(wrong)}: "
                f"{_request_text(request, answer)}"
            )


def _check_total(exchange: TranscriptVerdict, replayed: Replayed) -> None:
    """Check that the ledger's charges to a study lie between what receipts prove and the most that they allow."""
    proof = exchange.proof
    if proof is None:
        return
    study = replayed.studies.get((exchange.learner, exchange.study))
    charged = exchange.charged = ZERO if study is None else study.spent
    if exchange.remarks:
        exchange.remarks[0] += f"; by the curator's ledger it was charged {as_text(charged)} in all"
    if not proof.epsilon_spent <= charged <= proof.epsilon_at_most:
        most = "" if proof.epsilon_at_most == proof.epsilon_spent else f", and at most {as_text(proof.epsilon_at_most)}"
        exchange.complaints.append(
            f"the ledger charges {as_text(charged)}, the receipts prove {as_text(proof.epsilon_spent)}{most}"
        )


def _check_effect(
    request: bytes, effect: Effect, exchange: TranscriptVerdict, verdict: AuditedLedger, remarks: Remarks
) -> None:
    """Check that an entry's request, and its receipt if it was answered, are in the transcript."""
    file = exchange.entry.file
    amount = f" of {as_text(effect.amount)}" if effect.kind is EntryKind.CHARGE else ""
    origin = f"its entry {effect.index} ({effect.kind}{amount})"
    request_message, proof = exchange.requests.get(request), exchange.proof
    if (
        isinstance(request_message, Query)
        and proof is not None
        and (should := remarks.differing(request, request_message, proof))
    ):
        verdict.complaints.append(
            f"{origin} notes something else than its request in {file} tells: {printable(should, 400)}"
        )
    answer = exchange.answers.get(request)
    if isinstance(request_message, Query) and proof is not None and answer is not None and answer.release is not None:
        should = remarks.unlike_release(request, request_message, answer.release, proof)
        if should:
            verdict.complaints.append(
                f"its entry {effect.answered} notes something else than the release in {file} tells: "
                f"{printable(should, 400)}"
            )
    if request not in exchange.requests:
        verdict.complaints.append(f"{origin} was made by a request that {file} lacks")
    elif request not in exchange.answers:
        sent = "was answered, and the answer" if effect.answered >= 0 else "was not answered, and a receipt"
        verdict.remarks.append(f"{origin} {sent} is not in {file}: this rests on the curator's word")


def _check_terms(verdict: AuditedLedger, there: str, exchanges: Sequence[TranscriptVerdict]) -> None:
    """Check that the ledger's terms fit the cards' privacy unit and the kind of signatures."""
    for exchange in exchanges:
        proof = exchange.proof
        if proof is None or proof.card is None:
            continue
        terms = ledger_terms(proof.card.unit, exchange.entry.label)
        if there != terms:
            verdict.complaints.append(
                f"it was kept for other terms ({printable(there)}) than {exchange.entry.file} shows "
                f"({printable(terms)})"
            )


def _request_text(request: Message | None, answer: Answer) -> str:
    kind = "a request" if request is None else type(request).__name__
    return f"{kind} {answer.receipt.sequence} of study {answer.receipt.study.hex()}"


def hold_run(proof: RunProof, all_cards: Callable[[bytes], Cards], kinds: AuditedKinds, tick: Tick) -> None:
    """Check a run's ledgers, each by itself and against the transcripts, and its report.

    Findings are added to `proof`, which `read_run` made. `all_cards`: curator's public key -> contribution bounds of
    its cards, in all runs that are audited together.
    """
    index, folder = proof.index, proof.folder
    if index is None:
        return
    in_order = {}
    for number, entry in enumerate(index.ledgers):
        tick("ledgers", number, len(index.ledgers))
        verdict = read_ledger(proof, entry, kinds=kinds, cards_of=all_cards)
        hold_ledger(verdict, proof.transcripts, index)
        proof.ledgers.append(verdict)
        if verdict.holds and entry.repeat == 0:
            in_order[entry.curator] = verdict.audit.replayed
    tick("ledgers", len(index.ledgers), len(index.ledgers))
    if is_deployed(index):
        proof.complaints += check_deployed(folder, index, proof.transcripts)
    else:
        proof.complaints += check_report(folder, index, proof.transcripts, in_order)
    with_ledger = {(entry.curator, entry.repeat) for entry in index.ledgers}
    without_ledger = [entry for entry in index.transcripts if (entry.curator, entry.repeat) not in with_ledger]
    if without_ledger:
        proof.remarks.insert(
            0, f"{len(without_ledger)} transcripts have no ledger kept beside them: they rest on receipts alone"
        )
    proof.remarks += [*remarks_on_other_files(folder, index), TOLD if is_deployed(index) else TOLD_BY_A_RUN]


def _read(path: Path) -> bytes | None:
    try:
        return read_plain(path, most=MOST_BYTES)
    except OSError:
        return None
