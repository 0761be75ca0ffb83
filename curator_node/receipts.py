"""What a curator signs about its ledger, and what it reads from a receipt that comes back."""

import math

from curator_node.ledger import Account, AnswerGoneError, Ledger, Owed, StudyKey
from curator_node.ledger.branches import Lost, holds
from curator_node.ledger.sealing import Sealer
from protocol.envelopes import SigningKey, digest, open_envelope, open_receipt, seal_receipt
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import Suspect
from protocol.messages import NO_DIGEST, Receipt
from protocol.rationals import amount, parse_amount, shorten
from protocol.refusals import RefusalCode


class Receipts:
    """Writes and reads a curator's receipts.

    Args:
        key: the curator's.
        sealer: encrypts positions.
        label: under which the curator signs.
    """

    def __init__(self, key: SigningKey, sealer: Sealer, label: str) -> None:
        self._key = key
        self._sealer = sealer
        self._label = label

    def write(self, account: Account, owed: Owed, request: bytes, now: int, *, release: bytes = NO_DIGEST) -> bytes:
        """The signed receipt of a request that took effect: the chain as it was at that request's entry.

        Args:
            account: the ledger's sum, which holds that entry.
            owed: what took effect.
            request: its digest.
            now: the time.
            release: digest of what is released; then the amount owed was a charge.
        """
        receipt = Receipt(
            curator=self._key.public,
            learner=owed.key.learner,
            study=owed.key.study,
            sequence=owed.sequence,
            request=request,
            release=release,
            charged=amount(owed.amount) if release != NO_DIGEST else "0",
            spent_by_study=amount(account.studies[owed.key].spent),
            spent_by_learner=amount(shorten(account.spent_at(owed.key.learner, owed.index), math.ceil)),
            ledger_head=account.hashes[owed.index],
            position=self._sealer.seal(account.position(owed.index), request),
            issued_at=now,
        )
        return seal_receipt(receipt, self._key, label=self._label)

    def check(self, data: bytes, ledger: Ledger, now: int) -> None:
        """Halt where a learner's newest receipt is of an entry that this ledger lacks and its steward has not seen.

        Args:
            data: the receipt; empty where the learner has none.
            ledger: the curator's.
            now: the time.

        Raises:
            RemoteProtocolError: LEDGER_ROLLED_BACK, or this curator did not sign the receipt.
        """
        if not data:
            return
        try:
            lost = self.lost(data, ledger)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(error.code, "newest_receipt") from None
        if lost is not None:
            learner = lost.suspect.learner.hex()
            note = (
                f"the ledger lacks the entry, or the answer, of a receipt of learner {learner}: rolled back or edited"
            )
            ledger.halt(now, note, lost=lost)
            ledger.settle()
            raise RemoteProtocolError(RefusalCode.LEDGER_ROLLED_BACK)

    def standing(self, account: Account, key: StudyKey, now: int) -> bytes:
        """A signed receipt of where the ledger stands, at the steward's word: for a study, or a learner as a whole.

        Its request is zero, and so is its charge: it names the newest entry, and what was spent up to it.

        Args:
            account: the ledger's sum.
            key: whose and which; a study of `NO_STUDY` means all of the learner's.
            now: the time.
        """
        study = account.studies.get(key)
        newest = account.next_index - 1
        receipt = Receipt(
            curator=self._key.public,
            learner=key.learner,
            study=key.study,
            sequence=0 if study is None else study.sequence,
            request=NO_DIGEST,
            release=NO_DIGEST,
            charged="0",
            spent_by_study="0" if study is None else amount(study.spent),
            spent_by_learner=amount(shorten(account.spent_at(key.learner, newest), math.ceil)),
            ledger_head=account.head,
            position=self._sealer.seal(account.position(newest), NO_DIGEST),
            issued_at=now,
        )
        return seal_receipt(receipt, self._key, label=self._label)

    def lost(self, data: bytes, ledger: Ledger) -> Lost | None:
        """What a receipt proves the ledger to have lost: its entry, or its answer; None where neither, or acknowledged.

        A receipt leaves inside a stored reply. So where its request has no reply, or another one, the reply was lost.

        Raises:
            RemoteProtocolError: this curator did not sign the receipt.
        """
        receipt = open_receipt(data, self._key.public, label=self._label)
        position = self._sealer.open(receipt.position, receipt.request)
        account = ledger.account
        if holds(position, account.hashes) and (receipt.request == NO_DIGEST or _is_kept(data, receipt, ledger)):
            return None  # the steward's, of where the ledger stands, has no reply
        spent = amount(parse_amount(receipt.spent_by_learner))
        suspect = Suspect(position, receipt.learner, spent, receipt.request)
        lost = Lost(suspect, receipt=digest(data))
        waits = any(lost.is_same(each) for each in account.suspects)
        return lost if waits or not account.knows(lost) else None


def _is_kept(data: bytes, receipt: Receipt, ledger: Ledger) -> bool:
    """Whether a receipt is that of its request's reply; a reply that is gone cannot be compared."""
    if receipt.request not in ledger.account.answers:
        return False
    try:
        _, reply = open_envelope(ledger.reply(receipt.request))
    except AnswerGoneError:
        return True
    return getattr(reply, "receipt", b"") == data
