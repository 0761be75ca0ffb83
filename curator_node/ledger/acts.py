"""What a steward does with a ledger: bind a key to an enrolled learner, decide on a study, go on after a halt."""

from fractions import Fraction

from curator_node.ledger.account import Account
from curator_node.ledger.chain import Chain
from curator_node.ledger.checks import load
from curator_node.ledger.errors import BoundElsewhereError
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.storing import LedgerStore
from curator_node.ledger.studies import ZERO, Restored, StudyKey
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.entries import Entry, EntryKind
from protocol.messages import NOBODY
from protocol.rationals import GRID, amount, shorten, total_of


class StewardedChain(Chain):
    """A chain with the acts of its steward."""

    def enrol(self, key: bytes, name: str, now: int) -> bool:
        """Bind a key to an enrolled learner, for ever, with what it has spent; whether it was not bound before.

        Raises:
            BoundElsewhereError: it is bound to another name; nothing is changed.
        """
        return self.append(lambda account: self._binding(account, key, name, now), now)

    def decide_on(
        self, key: StudyKey, request: bytes, now: int, *, approve: bool, cost: Fraction, until: int, note: str = ""
    ) -> None:
        """Enter the steward's word on a proposal that waits; a yes holds for this cost, and for the records of now.

        Args:
            key: its study.
            request: its digest; no other proposal is meant.
            now: the time.
            approve: otherwise it is declined, for good.
            cost: the most that the study may be charged, as the steward read it.
            until: when an approved proposal is accepted no more.
            note: why; kept in the ledger, and never sent.

        Raises:
            ConfigurationError: it was decided on before, and nothing differs since; or the study is open already; or
                other records are served than when this process last read the ledger.
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

    def resume(self, now: int, *, learner: bytes = NOBODY, restored: Fraction = ZERO, note: str = "") -> list[Restored]:
        """The steward's act after a halt: epsilon that the ledger lost is entered as spent.

        What the positions prove that it was halted for is entered by itself, see `restoring`. What was charged on a
        branch after its newest position is not in it.

        Args:
            now: the time.
            learner: to whom `restored` belongs; zero for nobody in particular.
            restored: what the steward knows to be lost beyond that.
            note: why it is safe to go on.

        Returns:
            What was entered for each suspect; empty where the ledger was not halted.
        """
        found: list[Restored] = []

        def decide(account: Account) -> Entry | None:
            if not account.halted:
                return None
            found[:] = account.restored()
            total = shorten(restored + total_of(item.total for item in found), longest=GRID)
            return self.entry(
                EntryKind.RESUME, now, learner=learner, amount=amount(total), own=amount(restored), note=note
            )

        self.append(decide, now)
        return found

    def _binding(self, account: Account, key: bytes, name: str, now: int) -> Entry | None:
        """The entry that binds a key to a name; None where it is bound so, or there is no name."""
        known = account.name_of(key)
        if not name or known == name:
            return None
        if known:
            raise BoundElsewhereError(key, known, name)
        return self.entry(EntryKind.ENROL, now, learner=key, note=name)


def hand_over(store: LedgerStore, old: SigningKey, new: SigningKey, now: int) -> None:
    """Hand a ledger over to its curator's next key: the old key signs that, and the new one signs that it took over.

    Where it was handed over before, only what is missing is written. No process may be serving under the old key.

    Raises:
        ConfigurationError: the ledger is neither key's.
        LedgerCorruptError, LedgerUnavailableError: it cannot be read or written.
    """
    if load(store).curator == old.public:
        first = Chain(store, key=old, mark=MemoryMark())
        first.append(lambda _: first.entry(EntryKind.HANDOVER, now, learner=new.public), now)
    second = Chain(store, key=new, mark=MemoryMark())
    if not second.account.taken_over:
        second.append(lambda account: second.entry(EntryKind.START, now, note=account.terms), now)
