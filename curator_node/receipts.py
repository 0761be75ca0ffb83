"""What a curator signs about its ledger, and what it reads from a receipt that comes back."""

import math

from curator_node.ledger import Account, Owed
from curator_node.ledger.entries import Suspect
from curator_node.ledger.sealing import Sealer
from protocol.envelopes import SigningKey, open_receipt, seal_receipt
from protocol.messages import NO_DIGEST, Receipt
from protocol.rationals import amount, parse_amount, shorten


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

    def suspect(self, data: bytes, account: Account) -> Suspect | None:
        """What a receipt proves to be missing from the chain; None where the chain holds it, or it was acknowledged.

        Raises:
            RemoteProtocolError: this curator did not sign the receipt.
        """
        receipt = open_receipt(data, self._key.public, label=self._label)
        position = self._sealer.open(receipt.position, receipt.request)
        if account.knows(position):
            return None
        return Suspect(position, receipt.learner, amount(parse_amount(receipt.spent_by_learner)))
