"""Receipts of entries that a ledger says it lost: what it entered as spent must cover what they show.

A HALT entry names what was lost, and a RESUME entry restores it. Both are the curator's word alone, and a receipt
shows what was charged. So the word passes only where it says no less than the receipt does.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

from expril.audit.recompute.findings import as_text
from expril.audit.recompute.known import ZERO
from expril.audit.recompute.lost import Told
from expril.audit.recompute.replay import Replayed
from protocol.ledger.entries import STUB
from protocol.messages import NO_DIGEST, NOBODY, Receipt
from protocol.rationals import parse_amount, plus, shorten, total_of


class Admitted:
    """Lost receipts of one ledger, held against its HALT and RESUME entries.

    Args:
        replayed: the ledger.
    """

    def __init__(self, replayed: Replayed) -> None:
        self._replayed = replayed
        self._by_stub: defaultdict[bytes, list[tuple[Told, int]]] = defaultdict(list)
        self._by_request: defaultdict[bytes, list[tuple[Told, int]]] = defaultdict(list)
        for told, index in replayed.admitted:
            for stub in told.listed():
                self._by_stub[stub].append((told, index))
            if told.suspect.request != NO_DIGEST:
                self._by_request[told.suspect.request].append((told, index))
        self._charged: dict[bytes, tuple[bytes, Fraction]] = {}

    def names(self, receipt: Receipt) -> bool:
        """Whether the ledger says that it lost this receipt's entry."""
        return bool(self._naming(receipt))

    def complaint(self, receipt: Receipt) -> str:
        """In what the ledger says less than the receipt; "" where it says as much. Notes what it shows as lost."""
        self._charged[receipt.ledger_head] = receipt.learner, parse_amount(receipt.charged)
        wrong = [self._less(receipt, told, index) for told, index in self._naming(receipt)]
        return "" if "" in wrong else wrong[0]

    def uncovered(self) -> Iterator[str]:
        """What the noted receipts charged, beyond what was restored: of each learner, and over all."""
        purses, restored = self._replayed.purses, self._replayed.restored
        lost: defaultdict[tuple[bytes, ...], Fraction] = defaultdict(Fraction)
        for learner, charged in self._charged.values():
            keys = tuple(sorted(purses.keys_of(learner)))
            lost[keys] = plus(lost[keys], charged)
        for keys, shown in lost.items():
            there = total_of(restored.get(key, ZERO) for key in keys)
            if there < shown:
                yield (
                    f"receipts show that {as_text(shown)} of learner {keys[0].hex()[:16]} was lost, and its RESUME "
                    f"entries restore {as_text(there)} of it"
                )
        shown = total_of(lost.values())
        if (there := restored.get(NOBODY, ZERO)) < shown:
            yield (
                f"receipts show that {as_text(shown)} was lost, and its RESUME entries enter {as_text(there)} as spent"
            )

    def _naming(self, receipt: Receipt) -> list[tuple[Told, int]]:
        return self._by_stub.get(receipt.ledger_head[:STUB], []) + self._by_request.get(receipt.request, [])

    def _less(self, receipt: Receipt, told: Told, resumed: int) -> str:
        shown, position = parse_amount(receipt.spent_by_learner), told.suspect.position
        known = {
            "its HALT entry says that the learner had spent": told.own(self._replayed.purses.keys_of(receipt.learner)),
            f"with what its entry {resumed} restores the learner has spent": shorten(
                self._replayed.purses.by_learner(receipt.learner, resumed), math.ceil
            ),
        }
        if position is not None:
            known["its HALT entry says that all had spent"] = parse_amount(position.total)
        return next(
            (f"{what} {as_text(amount)}, and not {as_text(shown)}" for what, amount in known.items() if amount < shown),
            "",
        )
