"""Ledgers held against transcripts, in both directions, and against their curators' policies."""

from collections.abc import Callable, Sequence
from fractions import Fraction

from expril.audit.recompute.bounds import Cards
from expril.audit.recompute.known import ZERO, Made, as_text
from expril.audit.recompute.ledger import audit_ledger
from expril.audit.recompute.reading import Remarks
from expril.audit.recompute.receipts import differing
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.verdicts import HELD, LEDGER_NOT_PROVEN, Answer, LedgerVerdict, RunProof, TranscriptVerdict
from protocol.errors import ExprilError, printable
from protocol.ledger.entries import EntryKind
from protocol.ledger.terms import ledger_terms
from protocol.messages import Message, Query, StudyProposal
from protocol.query_kind import Kinds
from protocol.rationals import plus
from protocol.run_index import LEDGERS, Index, LedgerEntry

MADE_BY = {"StudyProposal": EntryKind.RESERVE, "Query": EntryKind.CHARGE, "StudyClose": EntryKind.CLOSE}


def read_ledger(
    run: RunProof,
    entry: LedgerEntry,
    *,
    kinds: Kinds,
    cards_of: Callable[[bytes], Cards] = lambda curator: {},  # noqa: ARG005
) -> LedgerVerdict:
    """Audit one ledger by itself: places, contents, costs, signatures, stored replies, and the head in the run's list.

    It is read without a log that might lie beside it: nothing is ever written, and what is read is one file.

    Args:
        run: to which it belongs.
        entry: which.
        kinds: the query kinds that can be read.
        cards_of: curator's public key -> (learner, study) -> bound c of its signed card.
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


def hold(verdict: LedgerVerdict, exchanges: Sequence[TranscriptVerdict], index: Index) -> None:
    """Hold a ledger and its curator's transcripts against each other, entry by entry; what is found goes to `verdict`.

    Args:
        verdict: on the ledger; changed.
        exchanges: all of the run; verdicts on those with this ledger's curator are changed.
        index: the run's list, for names.
    """
    curator = bytes.fromhex(verdict.entry.key)
    own = [exchange for exchange in exchanges if exchange.curator == curator]
    if not verdict.holds:
        for exchange in own:
            exchange.ledger = LEDGER_NOT_PROVEN
        return
    replayed = verdict.audit.replayed
    for exchange in own:
        exchange.ledger = HELD
        if exchange.proof is None:
            continue
        _check_receipts(exchange, replayed)
        _check_total(exchange, replayed)
    names = {bytes.fromhex(one.key): one.name for one in index.participants if one.role == "learner"}
    studies = {(exchange.learner, exchange.study): exchange for exchange in own if exchange.study}
    unread = {exchange.learner for exchange in own if exchange.proof is None}
    lacking: dict[tuple[bytes, bytes], Fraction] = {}
    for request, made in replayed.requests.items():
        key = (made.study.learner, made.study.study)
        if key in studies:
            _check_made(request, made, studies[key], verdict, replayed.remarks)
        else:
            charged = made.amount if made.kind is EntryKind.CHARGE else ZERO
            lacking[key] = plus(lacking.get(key, ZERO), charged)
    for (learner, study), charged in lacking.items():
        who = names.get(learner)
        whose = f"learner {printable(who)}" if who else f"a learner that the run does not list ({learner.hex()})"
        which = "the run has no transcript that proves it" if learner in unread else "the run has no transcript"
        verdict.complaints.append(f"it charges {as_text(charged)} to study {study.hex()} of {whose}, of which {which}")
    _check_terms(verdict, replayed.terms, own)


def _check_receipts(exchange: TranscriptVerdict, replayed: Replayed) -> None:
    """Every receipt must be of exactly one entry, and say what the ledger says there."""
    for identity, answer in exchange.answers.items():
        made = replayed.requests.get(identity)
        request = exchange.requests.get(identity)
        if made is None or request is None:
            text = "holds no entry for, although a receipt says so"
            exchange.complaints.append(f"the curator's ledger {text}: {_what(request, answer)}")
            continue
        wrong = differing(made, answer.receipt, replayed)
        if MADE_BY.get(type(request).__name__) is not made.kind:
            wrong.append("the kind")
        if isinstance(request, StudyProposal) and request.plan != made.study.shape.plan:
            wrong.append("the plan")
        if made.reply != answer.reply:
            wrong.append("the reply")
        if wrong:
            exchange.complaints.append(
                f"the receipt and ledger entry {made.index} differ in {', '.join(wrong)}: {_what(request, answer)}"
            )


def _check_total(exchange: TranscriptVerdict, replayed: Replayed) -> None:
    """The ledger's charges to the study against the receipts': equal, or no more than what is said to be unproven."""
    proof = exchange.proof
    if proof is None:
        return
    study = replayed.studies.get((exchange.learner, exchange.study))
    charged = ZERO if study is None else study.spent
    if exchange.remarks:
        exchange.remarks[0] += f"; by the curator's ledger it was charged {as_text(charged)} in all"
    if not proof.epsilon_spent <= charged <= proof.epsilon_at_most:
        most = "" if proof.epsilon_at_most == proof.epsilon_spent else f", and at most {as_text(proof.epsilon_at_most)}"
        exchange.complaints.append(
            f"the ledger charges {as_text(charged)}, the receipts prove {as_text(proof.epsilon_spent)}{most}"
        )


def _check_made(
    request: bytes, made: Made, exchange: TranscriptVerdict, verdict: LedgerVerdict, remarks: Remarks
) -> None:
    """Every entry that a request made must have its request, and its receipt where it was answered, in a transcript."""
    file = exchange.entry.file
    amount = f" of {as_text(made.amount)}" if made.kind is EntryKind.CHARGE else ""
    said = f"its entry {made.index} ({made.kind}{amount})"
    asked, proof = exchange.requests.get(request), exchange.proof
    if isinstance(asked, Query) and proof is not None and (should := remarks.differing(request, asked, proof)):
        verdict.complaints.append(
            f"{said} notes something else than its request in {file} tells: {printable(should, 400)}"
        )
    answer = exchange.answers.get(request)
    if isinstance(asked, Query) and proof is not None and answer is not None and answer.release is not None:
        should = remarks.unlike_release(request, asked, answer.release, proof)
        if should:
            verdict.complaints.append(
                f"its entry {made.answered} notes something else than the release in {file} tells: "
                f"{printable(should, 400)}"
            )
    if request not in exchange.requests:
        verdict.complaints.append(f"{said} was made by a request that {file} lacks")
    elif request not in exchange.answers:
        sent = "was answered, and the answer" if made.answered >= 0 else "was not answered, and a receipt"
        verdict.remarks.append(f"{said} {sent} is not in {file}: this rests on the curator's word")


def _check_terms(verdict: LedgerVerdict, there: str, own: Sequence[TranscriptVerdict]) -> None:
    """What the charges mean: the unit of the cards, and the kind of signatures."""
    for exchange in own:
        proof = exchange.proof
        if proof is None or proof.card is None:
            continue
        terms = ledger_terms(proof.card.unit, exchange.entry.label)
        if there != terms:
            verdict.complaints.append(
                f"it was kept for other terms ({printable(there)}) than {exchange.entry.file} shows "
                f"({printable(terms)})"
            )


def _what(request: Message | None, answer: Answer) -> str:
    kind = "a request" if request is None else type(request).__name__
    return f"{kind} {answer.receipt.sequence} of study {answer.receipt.study.hex()}"
