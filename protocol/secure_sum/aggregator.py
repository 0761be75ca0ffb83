"""The learner's side of a secure sum: it relays, adds up, and takes away the masks that it is given the shares of.

A participant that did not answer a step, or whose answer breaks the protocol, is out from then on. The sum can be
opened while enough are left; it is the sum over those whose masked vector came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.envelopes import is_signed
from protocol.errors import ExprilError
from protocol.secure_sum import masks, shamir
from protocol.secure_sum.cards import Cards, KeyCard, card_is_signed, list_digest, round_digest, seed_check
from protocol.secure_sum.group import SURVIVORS_TYPE, Group, Verify
from protocol.secure_sum.masks import Words
from protocol.secure_sum.participant import (
    DEALERS,
    SEALED_SHARES,
    Agreements,
    Relayed,
    pair_mask,
    round_graph,
    self_mask,
    survivors_payload,
)

STEPS = ("keys", "shares", "masked", "agreed", "opened")


class SumFailedError(ExprilError):
    """A secure sum cannot be opened. Whoever was charged stays charged; asking again is a new query.

    Attributes:
        step: one of `STEPS`.
        out: index -> why this participant is out.
    """

    kind = "study"

    def __init__(self, step: str, left: int, needed: int, out: Mapping[int, str]) -> None:
        self.step, self.out = step, dict(out)
        super().__init__(
            f"the secure sum failed at the step {step!r}: {left} participants are left, {needed} are needed"
        )


class Dealt(NamedTuple):
    """What one participant is relayed for its masked vector.

    Attributes:
        dealers: all of them, ascending.
        shares: (dealer, sealed shares) for this participant.
    """

    dealers: tuple[int, ...]
    shares: Relayed


@dataclass(frozen=True)
class Opened:
    """An opened sum.

    Attributes:
        values: (length,) int64, the sum over `survivors`, noise included.
        survivors: indices of the participants in it.
        liars: index -> why its shares were of no use, though the sum was opened.
    """

    values: NDArray[np.int64]
    survivors: tuple[int, ...]
    liars: Mapping[int, str]


class Aggregator:
    """One round of one secure sum; its methods are called in the order of `STEPS`.

    Args:
        group: who sums.
        question: 32 bytes that stand for all that is asked, as the participants have it.
        length: numbers in the vector.
        verify: of signatures.

    Attributes:
        out: index -> why this participant is out.
    """

    def __init__(self, group: Group, question: bytes, length: int, verify: Verify = is_signed) -> None:
        self._group, self._question, self._length, self._verify = group, question, length, verify
        self.out: dict[int, str] = {}
        self._cards: Cards = ()
        self._joined: tuple[int, ...] = ()
        self._round = b""
        self._dealers: tuple[int, ...] = ()
        self._masked: dict[int, Words] = {}
        self._survivors: tuple[int, ...] = ()

    def take_cards(self, cards: Mapping[int, KeyCard]) -> Cards:
        """Key cards that came -> those to relay to everybody who sent one; SumFailedError where too few are right."""
        good = []
        for index, card in sorted(cards.items()):
            if card_is_signed(self._group, self._question, index, card, self._verify):
                good.append((index, card))
            else:
                self.out[index] = "its key card is not signed by it for this question"
        self._need("keys", len(good), self._group.least)
        self._cards, self._joined = tuple(good), tuple(index for index, _ in good)
        self._round = round_digest(self._group, self._question, self._cards)
        self._graph = round_graph(self._group, self._round, self._joined)
        return self._cards

    def take_shares(self, sealed: Mapping[int, Relayed]) -> dict[int, Dealt]:
        """Sealed shares by dealer -> what to relay to each dealer; SumFailedError where too few dealt."""
        boxes: dict[int, dict[int, bytes]] = {}
        for index in self._joined:
            neighbours = self._neighbours(index)
            shares = sealed.get(index, ())
            right = [holder for holder, _ in shares] == neighbours
            if index in sealed and right and all(len(share) == SEALED_SHARES for _, share in shares):
                boxes[index] = dict(shares)
            elif index in sealed:
                self.out[index] = "it dealt no share, or a wrong one, to some of its neighbours"
        self._need("shares", len(boxes), self._group.least)
        self._dealers = tuple(boxes)
        return {
            index: Dealt(
                self._dealers,
                tuple((dealer, boxes[dealer][index]) for dealer in self._neighbours(index) if dealer in boxes),
            )
            for index in self._dealers
        }

    def take_masked(self, masked: Mapping[int, Words]) -> tuple[int, ...]:
        """Masked vectors -> the survivor list, to be signed by each on it; SumFailedError where too few came."""
        for index in self._dealers:
            if index in masked and masked[index].shape == (self._length,):
                self._masked[index] = masked[index].astype(np.uint64)
            elif index in masked:
                self.out[index] = f"its masked vector has not {self._length} numbers"
        self._survivors = tuple(self._masked)
        self._need("masked", len(self._survivors), self._group.least)
        return self._survivors

    def take_agreements(self, signatures: Mapping[int, bytes]) -> Agreements:
        """Signatures on the survivor list -> those to relay to everybody who signed; SumFailedError where too few."""
        payload = survivors_payload(self._round, self._dealers, self._survivors)
        signed = self._group.signed(SURVIVORS_TYPE, payload)
        good = []
        for index in self._survivors:
            if index in signatures and self._verify(self._group.participants[index], signatures[index], signed):
                good.append((index, signatures[index]))
            elif index in signatures:
                self.out[index] = "it did not sign the survivor list that it was shown"
        self._need("agreed", len(good), self._group.signatures)
        return tuple(good[: self._group.signatures])

    def take_revealed(self, revealed: Mapping[int, Relayed]) -> Opened:
        """Shares by who revealed them -> the sum; SumFailedError where a secret cannot be recovered."""
        shares: dict[int, dict[int, bytes]] = {}
        places = {index: place for place, index in enumerate(self._joined)}
        for holder, given in revealed.items():
            for dealer, share in given:
                if len(share) == shamir.SHARE and dealer in places:
                    shares.setdefault(dealer, {})[places[holder] + 1] = share
        seen = list_digest(DEALERS, self._dealers)
        liars: dict[int, str] = {}
        total: Words = np.add.reduce([self._masked[index] for index in self._survivors])
        cards = dict(self._cards)
        for index in self._survivors:
            seed = self._recover(index, shares.get(index, {}), liars)
            total = total - self_mask(seed, self._round, seen, self._length)
        for index in sorted(set(self._dealers) - set(self._survivors)):
            key = self._recover(index, shares.get(index, {}), liars)
            for other in self._neighbours(index):
                if other in self._masked:
                    pair = pair_mask(key, cards[other].masking, self._round, seen, (index, other), self._length)
                    total = total - pair if other < index else total + pair
        values: NDArray[np.int64] = total.view(np.int64)
        return Opened(values, self._survivors, liars)

    def _recover(self, index: int, shares: Mapping[int, bytes], liars: dict[int, str]) -> bytes:
        """The secret of a participant that its card vouches for."""
        card = dict(self._cards)[index]
        survived = index in self._masked
        place = self._joined.index(index)
        holders = {node + 1 for node in self._graph.holders(place)}
        mine = {point: share for point, share in shares.items() if point in holders}
        threshold = self._graph.threshold(place)

        def fits(secret: bytes) -> bool:
            return seed_check(secret) == card.check if survived else masks.public_of(secret) == card.masking

        found = shamir.recover(mine, threshold, fits)
        if found is None:
            self.out[index] = "too few shares of its secret came, or it dealt wrong ones"
            raise SumFailedError("opened", len(mine), threshold, self.out)
        secret, wrong = found
        liars |= {self._joined[point - 1]: f"its share of a secret of participant {index} is wrong" for point in wrong}
        return secret

    def _neighbours(self, index: int) -> list[int]:
        return [self._joined[node] for node in self._graph.neighbours(self._joined.index(index))]

    def _need(self, step: str, left: int, needed: int) -> None:
        if left < needed:
            raise SumFailedError(step, left, needed, self.out)


def as_words(payload: Sequence[int] | bytes) -> Words:
    """Little-endian words of a masked vector's bytes."""
    return np.frombuffer(bytes(payload), "<u8").astype(np.uint64)
