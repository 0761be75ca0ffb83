"""Ledgers held against transcripts, in both directions, and against their curators' policies."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from curator_node.ledger.account import Account
from curator_node.ledger.checks import CheckedLedger, check, load
from curator_node.ledger.reading import read_ledger_file
from curator_node.ledger.storing import LedgerStore
from curator_node.ledger.studies import StudyKey
from protocol.errors import ExprilError, printable
from protocol.ledger.entries import Entry, EntryKind
from protocol.ledger.terms import ledger_terms
from protocol.messages import NOBODY, Message, StudyProposal
from protocol.rationals import parse_amount, shorten
from simulations.run_index import LEDGERS, Index, LedgerEntry
from simulations.verification.transcripts import Answer, Exchange
from simulations.verification.verdicts import HELD, LEDGER_NOT_PROVEN, NOT_PROVEN, LedgerVerdict

OF_REQUESTS = (EntryKind.RESERVE, EntryKind.CHARGE, EntryKind.CLOSE)
"""Entries that a learner's request made."""
MADE_BY = {"StudyProposal": EntryKind.RESERVE, "Query": EntryKind.CHARGE, "StudyClose": EntryKind.CLOSE}
ZERO = Fraction(0)


def read_ledger(folder: Path, entry: LedgerEntry) -> tuple[LedgerVerdict, CheckedLedger | None]:
    """Check one ledger by itself: places, contents, signatures, stored replies, and the head in the run's list.

    It is read without a log that might lie beside it: nothing is ever written, and what is read is one file.

    Returns:
        The verdict, and the ledger where its chain holds: one that merely lacks replies can still be held against
        transcripts.
    """
    verdict = LedgerVerdict(entry)
    path = folder / LEDGERS / entry.file
    if not path.is_file():
        verdict.why.append("it is missing or cannot be read")
        return verdict, None
    try:
        with read_ledger_file(path, log=False) as store:
            checked = check(store, bytes.fromhex(entry.key))
            whole = _holds(store, bytes.fromhex(entry.key))
    except OSError:
        verdict.why.append("it is missing or cannot be read")
        return verdict, None
    except ExprilError as error:
        verdict.why.append(printable(str(error), 400))
        return verdict, None
    verdict.why += [finding.text for finding in checked.findings]
    verdict.spent = checked.account.total_spent
    if (checked.account.head.hex(), len(checked.entries)) != (entry.head, entry.entries):
        verdict.why.append("its last entry is not the one in the run's list")
    return verdict, checked if whole else None


def _holds(store: LedgerStore, curator: bytes) -> bool:
    """Whether the chain fits together to a last entry that this curator signed."""
    try:
        return curator in {key for _, key in load(store).curators}
    except ExprilError:
        return False


def hold(verdict: LedgerVerdict, checked: CheckedLedger | None, exchanges: Sequence[Exchange], index: Index) -> None:
    """Hold a ledger and its curator's transcripts against each other, entry by entry; what is found goes to `verdict`.

    Args:
        verdict: on the ledger; changed.
        checked: the ledger; None where its chain does not hold.
        exchanges: all of the run; verdicts on those with this ledger's curator are changed.
        index: the run's list, for names.
    """
    curator = bytes.fromhex(verdict.entry.key)
    own = [exchange for exchange in exchanges if exchange.curator == curator]
    if checked is None:
        for exchange in own:
            exchange.verdict.ledger = LEDGER_NOT_PROVEN
        return
    by_request = {entry.request: entry for entry in checked.entries if entry.kind in OF_REQUESTS}
    spent = _study_totals(checked.entries)
    for exchange in own:
        exchange.verdict.ledger = HELD
        if exchange.verdict.proof is None:
            continue
        _check_receipts(exchange, checked.account, by_request, spent)
        _check_total(exchange, checked.account)
        if exchange.verdict.why:
            exchange.verdict.verdict = NOT_PROVEN
    names = {bytes.fromhex(one.key): one.name for one in index.participants if one.role == "learner"}
    studies = {StudyKey(exchange.learner, exchange.study): exchange for exchange in own if exchange.study}
    unread = {exchange.learner for exchange in own if exchange.verdict.proof is None}
    lacking: dict[StudyKey, Fraction] = {}
    for entry in checked.entries:
        if entry.kind not in OF_REQUESTS:
            continue
        key = StudyKey(entry.learner, entry.study)
        if key not in studies:
            charged = parse_amount(entry.amount) if entry.kind is EntryKind.CHARGE else ZERO
            lacking[key] = lacking.get(key, ZERO) + charged
        else:
            _check_entry(entry, studies[key], checked.account, verdict)
    for key, charged in lacking.items():
        who = names.get(key.learner)
        whose = f"learner {printable(who)}" if who else f"a learner that the run does not list ({key.learner.hex()})"
        which = "the run has no transcript that proves it" if key.learner in unread else "the run has no transcript"
        verdict.why.append(f"it charges {charged} to study {key.study.hex()} of {whose}, of which {which}")
    _check_terms(verdict, checked.account, own)
    _tell_of_halts(verdict, checked.entries)


def _study_totals(entries: Sequence[Entry]) -> dict[int, Fraction]:
    """Index of an entry of a study -> what the study had spent by then."""
    totals: dict[StudyKey, Fraction] = {}
    found = {}
    for entry in entries:
        key = StudyKey(entry.learner, entry.study)
        if entry.kind is EntryKind.CHARGE:
            totals[key] = totals.get(key, ZERO) + parse_amount(entry.amount)
        found[entry.index] = totals.get(key, ZERO)
    return found


def _check_receipts(
    exchange: Exchange, account: Account, by_request: dict[bytes, Entry], spent: dict[int, Fraction]
) -> None:
    """Every receipt must be of exactly one entry, and say what the ledger says there."""
    for identity, answer in exchange.answers.items():
        entry = by_request.get(identity)
        request = exchange.requests.get(identity)
        if entry is None or request is None:
            text = "holds no entry for, although a receipt says so"
            exchange.verdict.why.append(f"the curator's ledger {text}: {_what(request, answer)}")
            continue
        differing = _differing(entry, request, answer, account, spent[entry.index])
        if differing:
            exchange.verdict.why.append(
                f"the receipt and ledger entry {entry.index} differ in {', '.join(differing)}: {_what(request, answer)}"
            )


def _differing(entry: Entry, request: Message, answer: Answer, account: Account, by_study: Fraction) -> list[str]:
    receipt = answer.receipt
    charged = parse_amount(entry.amount) if entry.kind is EntryKind.CHARGE else ZERO
    by_learner = shorten(account.spent_at(entry.learner, entry.index), math.ceil)
    told = account.answers.get(entry.request)
    facts = {
        "kind": MADE_BY.get(type(request).__name__) is entry.kind,
        "learner": receipt.learner == entry.learner,
        "study": (receipt.study, receipt.sequence) == (entry.study, entry.sequence),
        "plan": not isinstance(request, StudyProposal) or request.plan == entry.plan,
        "the head": receipt.ledger_head == account.hashes[entry.index],
        "the charge": parse_amount(receipt.charged) == charged,
        "the study's total": parse_amount(receipt.spent_by_study) == by_study,
        "the learner's total": parse_amount(receipt.spent_by_learner) == by_learner,
        "the reply": told is not None and told.reply == answer.reply,
    }
    return [what for what, same in facts.items() if not same]


def _check_total(exchange: Exchange, account: Account) -> None:
    """The ledger's charges to the study against the receipts': equal, or no more than what is said to be unproven."""
    proof = exchange.verdict.proof
    if proof is None:
        return
    study = account.studies.get(StudyKey(exchange.learner, exchange.study))
    charged = ZERO if study is None else study.spent
    if exchange.verdict.unproven:
        exchange.verdict.unproven[0] += f"; by the curator's ledger it was charged {charged} in all"
    if not proof.epsilon_spent <= charged <= proof.epsilon_at_most:
        most = "" if proof.epsilon_at_most == proof.epsilon_spent else f", and at most {proof.epsilon_at_most}"
        exchange.verdict.why.append(f"the ledger charges {charged}, the receipts prove {proof.epsilon_spent}{most}")


def _check_entry(entry: Entry, exchange: Exchange, account: Account, verdict: LedgerVerdict) -> None:
    """Every entry that a request made must have its request, and its receipt where it was answered, in a transcript."""
    file = exchange.verdict.entry.file
    amount = f" of {entry.amount}" if entry.kind is EntryKind.CHARGE else ""
    said = f"its entry {entry.index} ({entry.kind}{amount})"
    if entry.request not in exchange.requests:
        verdict.why.append(f"{said} was made by a request that {file} lacks")
    elif entry.request not in exchange.answers:
        sent = "was answered, and the answer" if entry.request in account.answers else "was not answered, and a receipt"
        verdict.unproven.append(f"{said} {sent} is not in {file}: this rests on the curator's word")


def _check_terms(verdict: LedgerVerdict, account: Account, own: Sequence[Exchange]) -> None:
    """What the charges mean: the unit of the cards, and the kind of signatures."""
    for exchange in own:
        proof = exchange.verdict.proof
        if proof is None or proof.card is None:
            continue
        terms = ledger_terms(proof.card.unit, exchange.verdict.entry.label)
        if account.terms != terms:
            verdict.why.append(
                f"it was kept for other terms ({printable(account.terms)}) than {exchange.verdict.entry.file} shows "
                f"({printable(terms)})"
            )


def _tell_of_halts(verdict: LedgerVerdict, entries: Sequence[Entry]) -> None:
    for entry in entries:
        if entry.kind is EntryKind.RESUME:
            restored = "" if entry.learner == NOBODY else f", of it {entry.own} of learner {entry.learner.hex()[:16]}"
            verdict.unproven.append(
                f"its entry {entry.index} enters {entry.amount} as spent on its steward's word{restored}"
            )


def _what(request: Message | None, answer: Answer) -> str:
    kind = "a request" if request is None else type(request).__name__
    return f"{kind} {answer.receipt.sequence} of study {answer.receipt.study.hex()}"
