"""The ledger: a durable privacy filter (it refuses) and odometer (it reports), in exact rationals.

Every decision is taken on the newest account of a hash-chained list of entries (`chain`). So caps hold across processes
and machines that share a store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from curator_node.ledger.account import Account
from curator_node.ledger.chain import Chain, LaterError, create_ledger
from curator_node.ledger.checks import load
from curator_node.ledger.errors import (
    AnswerGoneError,
    BoundElsewhereError,
    HaltedError,
    InsufficientBudgetError,
    NotApprovedError,
    StateGoneError,
    StoreFullError,
    TooManyStudiesError,
)
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import LedgerStore, MemoryStore
from curator_node.ledger.studies import ZERO, LostSpending, Owed, StudyAccount, StudyKey, state_key
from protocol.envelopes import SigningKey, digest
from protocol.errors import ConfigurationError, LocalProtocolError
from protocol.ledger.entries import Entry, EntryKind
from protocol.messages import NOBODY
from protocol.plans import Plan
from protocol.rationals import GRID, amount, shorten, total_of
from protocol.transitions import State


@dataclass(frozen=True)
class Caps:
    """What a learner may do."""

    learner: Fraction  # most epsilon of the learner at hand
    total: Fraction  # most epsilon over all learners
    open_studies: int = 10**9  # most studies that it may have open
    studies: int = 10**9  # most studies that it may ever propose
    name: str = ""  # of the enrolled learner, over all whose keys the caps hold; "" for a key alone
    approval: bool = False  # whether a study needs its steward's word


@dataclass(frozen=True)
class Reservation:
    """The reservation that a proposal asks for; `costs` are the most that each planned query may be charged."""

    key: StudyKey
    plan: Plan
    costs: tuple[Fraction, ...]
    request: bytes
    expires_at: int
    purpose: str = ""


def memory_ledger(key: SigningKey) -> "Ledger":
    """A new ledger in memory, for tests and simulations."""
    store, mark = MemoryStore(), MemoryMark()
    create_ledger(store, key, mark, now=0)
    return Ledger(store, key=key, mark=mark)


class Ledger(Chain):
    """A chain on which epsilon is reserved, charged and refunded, and replies are kept."""

    def remaining(self, learner: bytes, caps: Caps) -> Fraction:
        """Epsilon that a learner may still reserve; see `Account.remaining`."""
        return self.account.remaining(learner, caps.learner, caps.total, caps.name)

    def reserve(self, proposal: Reservation, caps: Caps, now: int) -> StudyAccount:
        """Set a plan's cost aside from the learner's own cap; idempotent by request digest.

        A new key is first bound to its learner's name.

        Raises:
            HaltedError: the ledger is halted.
            BoundElsewhereError: the key is another enrolled learner's; nothing is changed.
            NotApprovedError: everything else is in order, but the steward has declined it, has not approved it, or has
                approved it at another cost, on other terms or for other records; nothing is changed.
            InsufficientBudgetError: the cost exceeds what is left; nothing is changed.
            TooManyStudiesError: the learner has as many as it may; nothing is changed.
            LocalProtocolError: another request has reserved this study; nothing is changed.
        """
        learner, study = proposal.key
        cost = sum(proposal.costs, ZERO)

        def decide(account: Account) -> Entry | None:
            if self.took_effect(proposal.request):
                return None
            if proposal.key in account.studies:
                raise LocalProtocolError("the study is reserved already")
            if account.halted:
                raise HaltedError
            if account.open_of(learner, caps.name) >= caps.open_studies:
                raise TooManyStudiesError(f"at most {caps.open_studies} open")
            if account.studies_of(learner, caps.name) >= caps.studies:
                raise TooManyStudiesError(f"at most {caps.studies} ever")
            remaining = self.remaining(learner, caps)
            if cost > remaining:
                raise InsufficientBudgetError(cost, remaining)
            decision = account.decisions.get(proposal.request)
            if decision is not None and not decision.approved:
                raise NotApprovedError(declined=True)
            allowed = decision is not None and decision.allows(now)
            if decision is not None and allowed and not decision.covers(cost, account.under):
                raise NotApprovedError(declined=False)
            if caps.approval and not allowed:
                raise NotApprovedError(declined=False)
            binding = self._binding(account, learner, caps.name, now)
            return binding or self.entry(
                EntryKind.RESERVE,
                now,
                learner=learner,
                study=study,
                amount=amount(cost),
                request=proposal.request,
                expires_at=proposal.expires_at,
                plan=proposal.plan,
                costs=tuple(map(amount, proposal.costs)),
                note=proposal.purpose,
            )

        while self.append(decide, now) and not self.took_effect(proposal.request):
            pass  # the key was bound; the reservation comes next
        return self.account.studies[proposal.key]

    def charge(
        self,
        key: StudyKey,
        sequence: int,
        cost: Fraction,
        request: bytes,
        now: int,
        caps: Caps | None = None,
        *,
        note: str = "",
    ) -> None:
        """Charge the next query of an open study; idempotent by request digest.

        `caps` are those of today, which may be lower than when the plan was accepted; None checks the reservation only.
        `note` is the query kind's description of the request for readers of the ledger.

        Raises:
            HaltedError: the ledger is halted.
            InsufficientBudgetError: the charge exceeds what is left of a cap, since other learners have spent from the
                total cap or a cap was lowered; nothing is changed.
            LocalProtocolError: the study is not open, this is not its next query, or it costs more than was reserved
                for it; nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            if self.took_effect(request):
                return None
            study = account.studies[key]
            if account.halted:
                raise HaltedError
            if study.state is not State.OPEN or study.sequence + 1 != sequence or sequence > len(study.places):
                raise LocalProtocolError("the study is not waiting for this query")
            if cost > study.left_for(sequence):
                raise LocalProtocolError("the query costs more than was reserved for it")
            if caps is not None:
                own_left = caps.learner - account.spent_by(key.learner, caps.name)
                total_left = caps.total - account.total_spent
                if cost > (remaining := min(own_left, total_left)):
                    raise InsufficientBudgetError(cost, max(remaining, ZERO))
                if self.pending:
                    own_keys = account.keys_of(key.learner, caps.name)
                    own_sum = sum((charge for learner, charge in self.pending if learner in own_keys), cost)
                    if own_sum > own_left or sum((charge for _, charge in self.pending), cost) > total_left:
                        raise LaterError  # decided once the others are charged
            return self._study_entry(EntryKind.CHARGE, now, key, sequence, cost, request, note)

        self.append(decide, now, group=key)

    def close_study(self, key: StudyKey, sequence: int, request: bytes, now: int) -> None:
        """Close a study and refund the unused part of its reservation; idempotent by request digest.

        Raises:
            LocalProtocolError: the study has ended, or a later query was charged; nothing is changed.
        """

        def decide(account: Account) -> Entry | None:
            if self.took_effect(request):
                return None
            study = account.studies[key]
            if study.ended or sequence <= study.sequence:
                raise LocalProtocolError("the study is not open, or has gone on")
            return self._study_entry(EntryKind.CLOSE, now, key, sequence, study.reserved, request)

        self.append(decide, now)

    def answer(
        self,
        request: bytes,
        make: Callable[[Owed], bytes],
        now: int,
        *,
        state: tuple[str, bytes] | None = None,
        note: str = "",
    ) -> bytes:
        """Answer a request that took effect: store its one signed reply together with the entry of the reply's digest.

        If another process answered first, its reply is returned and this one is dropped. `make` makes the signed reply.
        `state` is the query kind and the state that its answerer keeps of the study; it is stored with the reply.

        Raises:
            AnswerGoneError: the request was answered before, and the reply is gone.
        """
        if request not in self.account.owed:
            self.refresh(now)
        owed = self.account.owed.get(request)
        if owed is None:
            return self.reply(request)
        reply = make(owed)
        stored = [(request, reply)]
        more: dict[str, Any] = {}
        if state is not None:
            stored.append((state_key(owed.key, state[0]), state[1]))
            more = {"state": digest(state[1]), "state_size": len(state[1])}

        def decide(account: Account) -> Entry | None:
            if request in account.answers:
                return None
            return self.entry(
                EntryKind.ANSWERED,
                now,
                learner=owed.key.learner,
                study=owed.key.study,
                sequence=owed.sequence,
                request=request,
                reply=digest(reply),
                size=len(reply),
                note=note,
                **more,
            )

        ours = self.append(decide, now, replies=stored, group=owed.key)
        return reply if ours else self.reply(request)

    def took_effect(self, request: bytes) -> bool:
        """Whether a request has taken effect."""
        return self.account.took_effect(request)

    def answered(self, request: bytes) -> bool:
        """Whether a request has taken effect and is owed no reply, because it has one or its reply is gone."""
        return self.took_effect(request) and request not in self.account.owed

    def reply(self, request: bytes) -> bytes:
        """The stored reply to an answered request. It is checked against its digest in the chain.

        Raises:
            AnswerGoneError: the reply was evicted, or the store lost or changed it. Its noise is never drawn again.
            OvertakenError: the reply is missing, and this process has not read all entries.
        """
        if request in self.account.lost_requests:
            raise AnswerGoneError(self.account.lost_requests[request], evicted=False)
        answer = self.account.answers[request]
        if request in self.account.evicted:
            raise AnswerGoneError(answer.index, evicted=True)
        stored = self.store.reply(request)
        if stored is None or digest(stored) != answer.reply:
            self.check_read_all()
            raise AnswerGoneError(answer.index, evicted=False)
        return stored

    def replies(self, key: StudyKey) -> list[tuple[int, bytes]]:
        """(sequence, stored reply) of a study's charged and answered requests, in order; raises as `reply` does."""
        account = self.account
        # Of one that has ended they may be kept no more: all its answers are looked for, and what is gone is said
        answered = list(account.answers) if account.studies[key].ended else account.stored_requests.get(key, ())
        owed = ((request, account.answers[request].owed) for request in answered)
        charged = ((request, item.sequence) for request, item in owed if item.key == key and item.charged)
        return sorted((sequence, self.reply(request)) for request, sequence in charged)

    def state(self, key: StudyKey, kind: str) -> bytes:
        """The state that the answerer of a query kind last kept of a study; empty if it has kept none.

        Raises:
            StateGoneError: the store lost or changed the state, or a lost branch may have used it.
            OvertakenError: another state is stored, and this process has not read all entries.
        """
        newest = self.account.states.get((key, kind))
        if newest is None:
            return b""
        stored = self.store.reply(state_key(key, kind)) if newest.usable else None
        if stored is None or digest(stored) != newest.state:
            self.check_read_all()
            raise StateGoneError(newest.index)
        return stored

    def make_room(self, size: int, most: int, now: int) -> None:
        """Drop replies of ended studies, oldest end first, until `size` bytes more fit into `most`.

        Raises:
            StoreFullError: open studies need all replies that are left.
        """

        def decide(account: Account) -> Entry | None:
            if account.kept_bytes + size <= most:  # another process has made room meanwhile
                return None
            ended = next((key for key in account.stored_requests if account.studies[key].ended), None)
            if ended is None:
                raise StoreFullError("open studies need all replies that are kept")
            return self.entry(EntryKind.EVICT, now, learner=ended.learner, study=ended.study)

        while self.account.kept_bytes + size > most:
            self.append(decide, now)

    def expire(self, now: int) -> None:
        """Refund every expired reservation among the entries that this process has read."""
        with self.lock:
            due = self.account.overdue(now)
        for key in due:
            self.append(lambda account, key=key: self._expiry(account, key, now), now)  # type: ignore[misc]

    def serve_data(self, version: str, now: int) -> None:
        """Enter which snapshot of the records is served from now on, unless it is the last one entered."""

        def decide(account: Account) -> Entry | None:
            served = bool(account.data) and account.data[-1][1] == version
            return None if served else self.entry(EntryKind.DATA, now, note=version)

        self.append(decide, now)
        self.settle()

    def use_plug_ins(self, plug_ins: str, now: int) -> None:
        """Enter which packages of others are in use from now on, unless they are those last entered."""

        def decide(account: Account) -> Entry | None:
            return None if account.under[2] == plug_ins else self.entry(EntryKind.PLUG_INS, now, note=plug_ins)

        self.append(decide, now)

    def enrol(self, key: bytes, name: str, now: int) -> bool:
        """Bind a key and its spending to an enrolled learner for ever. Returns whether it was not bound before.

        Raises:
            BoundElsewhereError: the key is bound to another name; nothing is changed.
        """
        return self.append(lambda account: self._binding(account, key, name, now), now)

    def decide_on(
        self, key: StudyKey, request: bytes, now: int, *, approve: bool, cost: Fraction, until: int, note: str = ""
    ) -> None:
        """Enter the steward's decision on a waiting proposal. An approval holds for this cost and the present records.

        `request` is the proposal's digest. Without `approve` the proposal is declined for good. `cost` is the most that
        the study may be charged, as the steward read it. The approval ends at `until`. `note` says why, and is never
        sent.

        Raises:
            ConfigurationError: the same decision holds already; or the study is open already; or other records are
                served than when this process last read the ledger.
        """
        under = self.account.under

        def decide(account: Account) -> Entry:
            before = account.decisions.get(request)
            if account.took_effect(request) or key in account.studies:
                raise ConfigurationError(f"study {key.study.hex()} was accepted already")
            if before is not None and not before.approved:
                raise ConfigurationError(f"study {key.study.hex()} was declined; the learner may propose a new one")
            if approve and account.under != under:
                raise ConfigurationError("other records are served since you read the proposal; read it again")
            if before is not None and approve and before.allows(now) and before.covers(cost, account.under):
                raise ConfigurationError(f"study {key.study.hex()} was approved already")
            kind, end = (EntryKind.APPROVE, until) if approve else (EntryKind.DECLINE, 0)
            return self.entry(
                kind,
                now,
                learner=key.learner,
                study=key.study,
                amount=amount(cost),
                request=request,
                expires_at=end,
                note=note,
            )

        self.append(decide, now)

    def resume(
        self, now: int, *, learner: bytes = NOBODY, restored: Fraction = ZERO, note: str = ""
    ) -> list[LostSpending]:
        """End a halt for the steward: epsilon that the ledger lost is entered as spent.

        The spending that suspected branches prove is entered automatically (`lost_spending`). Charges after a branch's
        newest known position are not in it. `restored` is the further epsilon that the steward knows to be lost, spent
        by `learner` (zero for nobody in particular). `note` says why it is safe to go on.

        Returns:
            The spending entered for each suspected branch; empty if the ledger was not halted.
        """
        spendings: list[LostSpending] = []

        def decide(account: Account) -> Entry | None:
            if not account.halted:
                return None
            spendings[:] = account.lost_spending()
            total = shorten(restored + total_of(item.total for item in spendings), longest=GRID)
            return self.entry(
                EntryKind.RESUME, now, learner=learner, amount=amount(total), learner_amount=amount(restored), note=note
            )

        self.append(decide, now)
        return spendings

    def _expiry(self, account: Account, key: StudyKey, now: int) -> Entry | None:
        study = account.studies[key]
        if study.ended:
            return None
        return self._study_entry(EntryKind.EXPIRE, now, key, study.sequence, study.reserved)

    def _study_entry(
        self,
        kind: EntryKind,
        now: int,
        key: StudyKey,
        sequence: int,
        cost: Fraction,
        request: bytes = bytes(32),
        note: str = "",
    ) -> Entry:
        return self.entry(
            kind,
            now,
            learner=key.learner,
            study=key.study,
            sequence=sequence,
            amount=amount(cost),
            request=request,
            note=note,
        )

    def _binding(self, account: Account, key: bytes, name: str, now: int) -> Entry | None:
        """The entry that binds a key to a name; None if it is bound to it, or the name is empty."""
        bound_name = account.name_of(key)
        if not name or bound_name == name:
            return None
        if bound_name:
            raise BoundElsewhereError(key, bound_name, name)
        return self.entry(EntryKind.ENROL, now, learner=key, note=name)


def hand_over(store: LedgerStore, old: SigningKey, new: SigningKey, now: int) -> None:
    """Hand a ledger over to its curator's next key. The old key signs the handover, and the new key signs the takeover.

    An interrupted handover is completed. No process may be serving under the old key.

    Raises:
        ConfigurationError: the ledger belongs to neither key.
        LedgerCorruptError, LedgerUnavailableError: the ledger cannot be read or written.
    """
    if load(store).curator == old.public:
        first = Chain(store, key=old, mark=MemoryMark())
        first.append(lambda _: first.entry(EntryKind.HANDOVER, now, learner=new.public), now)
    second = Chain(store, key=new, mark=MemoryMark())
    if not second.account.taken_over:
        second.append(lambda account: second.entry(EntryKind.START, now, note=account.terms), now)
