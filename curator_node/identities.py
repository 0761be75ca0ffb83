"""The keys with which a curator signs replies and receipts: its current key and, for some time, former ones.

Reply and receipt are signed with the key to which the request was addressed, so a learner need not know of a rotation.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from curator_node.ledger import Account, AnswerGoneError, Ledger, Owed, StudyKey
from curator_node.ledger.branches import BranchTrace, holds
from curator_node.ledger.sealing import Sealer
from protocol.codec import decode
from protocol.envelopes import (
    LEARNER_TYPES,
    Envelope,
    SigningKey,
    digest,
    open_envelope,
    open_receipt,
    seal,
    seal_receipt,
    statement_bytes,
)
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import Suspect
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Message, Receipt
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
        """The signed receipt of a request that took effect. It shows the chain as it was at that request's entry.

        Args:
            account: sum of the ledger's entries, that entry included.
            owed: the request that took effect.
            request: digest of the request.
            now: the time.
            release: digest of the release, if the request was charged.
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
        """Halt the ledger if it lacks the entry of a learner's newest receipt and the steward has not acknowledged it.

        Args:
            data: the receipt; empty where the learner has none.
            ledger: the curator's.
            now: the time.

        Raises:
            RemoteProtocolError: LEDGER_ROLLED_BACK; or another code if this curator did not sign the receipt.
        """
        if not data:
            return
        try:
            branch = self.lost_branch(data, ledger)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(error.code, "newest_receipt") from None
        if branch is not None:
            learner = branch.suspect.learner.hex()
            note = (
                f"the ledger lacks the entry, or the answer, of a receipt of learner {learner}: rolled back or edited"
            )
            ledger.halt(now, note, trace=branch)
            ledger.settle()
            raise RemoteProtocolError(RefusalCode.LEDGER_ROLLED_BACK)

    def standing(self, account: Account, key: StudyKey, now: int) -> bytes:
        """A signed receipt, made for the steward, of where the ledger stands for a study or a learner.

        Its request and its charge are zero. It names the newest entry, and what was spent up to that entry.

        Args:
            account: sum of the ledger's entries.
            key: the learner and the study; the study `NO_STUDY` stands for all of the learner's.
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

    def lost_branch(self, data: bytes, ledger: Ledger) -> BranchTrace | None:
        """The lost branch that a receipt proves, since its entry or its reply is missing.

        None if nothing is missing, or if the steward has acknowledged it. A receipt is sent inside a stored reply, so
        the reply was lost if the store has none to the request, or another one.

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
        branch = BranchTrace(suspect, receipt=digest(data))
        waits = any(branch.is_same(suspect) for suspect in account.suspects)
        return branch if waits or not account.knows(branch) else None


def _is_kept(data: bytes, receipt: Receipt, ledger: Ledger) -> bool:
    """Whether the stored reply to a receipt's request holds that receipt; True also if the reply is gone."""
    if receipt.request not in ledger.account.answers:
        return False
    try:
        _, reply = open_envelope(ledger.reply(receipt.request))
    except AnswerGoneError:
        return True
    return getattr(reply, "receipt", b"") == data


@dataclass(frozen=True)
class FormerKey:
    """A key that a curator had before."""

    key: SigningKey  # the private key
    until: int  # when requests to it are answered no more
    leaked: bool = False  # whether somebody else may have it: then a receipt under it proves nothing any more


@dataclass(frozen=True)
class Keys:
    """All keys of a curator."""

    current: SigningKey  # signs the ledger's entries, and whatever is not addressed to an earlier one
    former: tuple[FormerKey, ...] = ()  # the oldest first

    @property
    def newest_first(self) -> tuple[SigningKey, ...]:
        """All keys, the current one first."""
        return (self.current, *(former.key for former in reversed(self.former)))

    @property
    def first(self) -> SigningKey:
        """The oldest key.

        The choice of a unit's records and the mark's key are derived from it, since they must never change.
        """
        return self.former[0].key if self.former else self.current


class Identities:
    """Signs for a curator.

    Args:
        keys: the curator's.
        label: under which it signs.
        entropy: n -> n random bytes, for nonces.

    Attributes:
        current: the public key that signs for itself.
        label: under which the curator signs.
    """

    def __init__(self, keys: Keys, label: str, entropy: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self.current = keys.current.public
        self.label = label
        every = (keys.current, *(former.key for former in keys.former))
        self._keys = {key.public: key for key in every}
        self._receipts = {key.public: Receipts(key, Sealer(key, entropy), label) for key in every}
        self._until = {former.key.public: former.until for former in keys.former}
        self._leaked = {former.key.public for former in keys.former if former.leaked}

    def serves(self, identity: bytes, now: int) -> bool:
        """Whether requests to a public key are answered at a time."""
        return identity == self.current or now < self._until.get(identity, 0)

    def served(self, now: int) -> tuple[bytes, ...]:
        """Every public key to which requests are answered at a time, the current one first."""
        return tuple(key for key in self._keys if self.serves(key, now))

    def header(self, data: bytes, message: Message | None, expires_at: int) -> dict[str, Any]:
        """The header of a reply; `message` is None where the request's sender is not verified.

        Args:
            data: the request's envelope.
            message: the request.
            expires_at: of the reply.
        """
        addressed = message.recipient if message else self._named_in(data)
        return {
            "study": message.study if message else NO_STUDY,
            "sender": addressed if addressed in self._keys else self.current,
            "recipient": message.sender if message else NOBODY,
            "sequence": message.sequence if message else 0,
            "answers": digest(data),
            "expires_at": expires_at,
        }

    def say(self, identity: bytes, type_name: str, payload: bytes) -> bytes:
        """The signature of one of the curator's keys over `statement_bytes`, under its label."""
        return self._keys[identity].sign(statement_bytes(self.label, type_name, payload))

    def seal(self, message: Message) -> bytes:
        """Sign a reply, under the key that it names as its sender."""
        return seal(message, self._keys[message.sender], label=self.label)

    def receipt(
        self, request: Message, account: Account, owed: Owed, identity: bytes, now: int, *, release: bytes = NO_DIGEST
    ) -> bytes:
        """Write the receipt of a request that took effect, signed by the key to which it was addressed."""
        return self._receipts[request.recipient].write(account, owed, identity, now, release=release)

    def check(self, data: bytes, ledger: Ledger, now: int) -> None:
        """Do `Receipts.check` with the key that signed the receipt. A receipt under a leaked key proves nothing."""
        issuer = self._issuer(data)
        if issuer not in self._leaked:
            self._receipts[issuer].check(data, ledger, now)

    def _issuer(self, data: bytes) -> bytes:
        """The curator that a receipt names. Nothing is verified."""
        try:
            issuer = decode(decode(data, Envelope, field="receipt").payload, Receipt, field="receipt").curator
        except RemoteProtocolError:
            return self.current
        return issuer if issuer in self._keys else self.current

    def _named_in(self, data: bytes) -> bytes:
        """The recipient that an envelope names, or else the current key. Nothing is verified."""
        if len(self._keys) == 1:
            return self.current
        try:
            return open_envelope(data, types=LEARNER_TYPES)[1].recipient
        except RemoteProtocolError:
            return self.current
