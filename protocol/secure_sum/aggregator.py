"""The learner's side of a secure sum: it relays messages, adds vectors, and removes masks recovered from shares.

A participant that does not answer a step, or breaks the protocol, is out from then on. The sum covers the participants
whose masked vectors arrived, and can be opened if enough of them remain.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.envelopes import is_signed
from protocol.errors import ExprilError
from protocol.secure_sum import masks, shamir
from protocol.secure_sum.graph import COMPLETE_UP_TO, Graph
from protocol.secure_sum.group import (
    SURVIVORS_TYPE,
    Cards,
    Group,
    KeyCard,
    Verify,
    card_is_signed,
    list_digest,
    round_digest,
    seed_check,
)
from protocol.secure_sum.masks import Words
from protocol.secure_sum.participant import (
    DEALERS,
    SEALED_SHARES,
    Agreements,
    Relayed,
    out_of_reach,
    pair_masks,
    round_graph,
    self_mask,
    survivors_payload,
)

STEPS = ("keys", "shares", "masked", "agreed", "opened")


class SumFailedError(ExprilError):
    """A secure sum cannot be opened. What curators charged is not refunded; asking again is a new query.

    `step` is one of `STEPS`. `out` maps indices to why a participant is out; at the last step, to why its secret is
    unknown.
    """

    kind = "study"

    def __init__(
        self, step: str, remaining: int, needed: int, out: Mapping[int, str], shortage: str = "participants are left"
    ) -> None:
        self.step, self.out = step, dict(out)
        super().__init__(f"the secure sum failed at the step {step!r}: {remaining} {shortage}, {needed} are needed")


class Dealt(NamedTuple):
    """What the learner relays to one participant before it masks its vector."""

    dealers: tuple[int, ...]  # indices of all, ascending
    shares: Relayed  # (dealer, sealed shares) for this participant


@dataclass(frozen=True)
class Opened:
    """An opened sum."""

    values: NDArray[np.int64]  # (length,) int64, the sum over `survivors`, noise included
    survivors: tuple[int, ...]  # indices of the participants in it
    liars: Mapping[int, str]  # index -> why its shares were of no use, though the sum was opened


class Aggregator:
    """One round of one secure sum; call the methods in the order of `STEPS`.

    `out` says, by index, how participants broke the protocol. `stranded` gives, by index, the reason why honest
    participants are out: they need others that are gone.

    Args:
        group: who sums.
        question: 32 bytes that identify the question, as the participants have it.
        length: numbers in the vector.
        verify: checks signatures.
    """

    def __init__(self, group: Group, question: bytes, length: int, verify: Verify = is_signed) -> None:
        self._group, self._question, self._length, self._verify = group, question, length, verify
        self.out: dict[int, str] = {}
        self.stranded: dict[int, str] = {}
        self._cards: dict[int, KeyCard] = {}
        self._joined: tuple[int, ...] = ()
        self._round = b""
        self._dealers: tuple[int, ...] = ()
        self._masked: dict[int, Words] = {}
        self._survivors: tuple[int, ...] = ()

    def take_cards(self, cards: Mapping[int, KeyCard]) -> Cards:
        """Take key cards; return those to relay to all that sent one. Raises SumFailedError if too few are valid."""
        good: dict[int, KeyCard] = {}
        for index, card in sorted(cards.items()):
            if card_is_signed(self._group, self._question, index, card, self._verify):
                good[index] = card
            else:
                self.out[index] = "its key card is not signed by it for this question"
        self._need("keys", len(good), self._group.least)
        self._cards, self._joined = good, tuple(good)
        relayed = tuple(good.items())
        self._round = round_digest(self._group, self._question, relayed)
        self._graph: Graph = round_graph(self._group, self._round, self._joined)
        self._places = {index: place for place, index in enumerate(self._joined)}
        self._neighbours = {
            index: tuple(self._joined[node] for node in self._graph.neighbours(place))
            for index, place in self._places.items()
        }
        return relayed

    def take_shares(self, sealed: Mapping[int, Relayed]) -> dict[int, Dealt]:
        """Take dealers' sealed shares; return what to relay to each dealer. Raises SumFailedError if too few."""
        boxes: dict[int, dict[int, bytes]] = {}
        for index, neighbours in self._neighbours.items():
            shares = sealed.get(index, ())
            right = tuple(holder for holder, _ in shares) == neighbours
            if index in sealed and right and all(len(share) == SEALED_SHARES for _, share in shares):
                boxes[index] = dict(shares)
            elif index in sealed:
                self.out[index] = "it dealt no share, or a wrong one, to some of its neighbours"
        while isolated := out_of_reach(self._graph, self._joined, tuple(boxes), tuple(boxes)):
            for index in isolated:
                del boxes[index]
                self.stranded[index] = "too few of its neighbours dealt"
        self._need("shares", len(boxes), self._group.least)
        self._dealers = tuple(boxes)
        return {
            index: Dealt(
                self._dealers,
                tuple((dealer, boxes[dealer][index]) for dealer in self._neighbours[index] if dealer in boxes),
            )
            for index in self._dealers
        }

    def take_masked(self, masked: Mapping[int, Words]) -> tuple[int, ...]:
        """Take masked vectors; return the survivor list to be signed. Raises SumFailedError if too few came."""
        self._masked = {}
        for index in self._dealers:
            if index in masked and masked[index].shape == (self._length,):
                self._masked[index] = masked[index].astype(np.uint64)
            elif index in masked:
                self.out[index] = f"its masked vector has not {self._length} numbers"
        self._survivors = tuple(self._masked)
        self._need("masked", len(self._survivors), self._group.least)
        self._need_holders("masked", self._survivors)
        return self._survivors

    def take_agreements(self, signatures: Mapping[int, bytes]) -> Agreements:
        """Take signatures on the survivor list; return those to relay. Raises SumFailedError if too few."""
        payload = survivors_payload(self._round, self._dealers, self._survivors)
        signed = self._group.signed(SURVIVORS_TYPE, payload)
        good = []
        for index in self._survivors:
            if index in signatures and self._verify(self._group.participants[index], signatures[index], signed):
                good.append((index, signatures[index]))
            elif index in signatures:
                self.out[index] = "it did not sign the survivor list that it was shown"
        self._need("agreed", len(good), self._group.signatures)
        self._need_holders("agreed", [index for index, _ in good])
        fewest = good[: self._group.signatures]
        isolated = out_of_reach(self._graph, self._joined, self._survivors, [index for index, _ in fewest])
        return tuple(good if isolated else fewest)

    def take_revealed(self, revealed: Mapping[int, Relayed]) -> Opened:
        """Take revealed shares and return the sum. Raises SumFailedError if a secret cannot be recovered.

        It may be called again when more shares have come.
        """
        shares: dict[int, dict[int, bytes]] = {index: {} for index in self._dealers}
        for holder, shares_by_dealer in revealed.items():
            for dealer, share in shares_by_dealer:
                if dealer in shares and (holder == dealer or holder in self._neighbours[dealer]):
                    shares[dealer][self._places[holder] + 1] = share
        dealers_digest = list_digest(DEALERS, self._dealers)
        liars: dict[int, str] = {}
        total: Words = np.add.reduce([self._masked[index] for index in self._survivors])
        for index in self._dealers:
            secret = self._recover(index, shares[index], liars)
            if index in self._masked:
                total -= self_mask(secret, self._round, dealers_digest, self._length)
            else:
                keys = [
                    (other, self._cards[other].masking) for other in self._neighbours[index] if other in self._masked
                ]
                total += pair_masks(secret, index, keys, self._round, dealers_digest, self._length)
        values: NDArray[np.int64] = total.view(np.int64)
        return Opened(values, self._survivors, liars)

    def _recover(self, index: int, shares: Mapping[int, bytes], liars: dict[int, str]) -> bytes:
        """A dealer's secret that matches the commitment on its card."""
        card = self._cards[index]
        threshold = self._graph.threshold(self._places[index])

        def fits(secret: bytes) -> bool:
            if index in self._masked:
                return seed_check(secret) == card.check
            return masks.public_of(secret) == card.masking

        # all of them, so that one that is wrong shows; where graphs are sparse that would cost the square of the degree
        tried = shares if len(self._joined) <= COMPLETE_UP_TO else dict(islice(shares.items(), threshold))
        if len(shares) >= threshold and (secret := _combined(tried)) is not None and fits(secret):
            return secret
        recovered = shamir.recover(shares, threshold, fits)
        if recovered is None:
            # Who lies cannot be told: the dealer, or holders.
            self.out[index] = (
                "its secret cannot be recovered from the shares that came: it dealt wrong ones, or holders gave wrong "
                "ones or none"
            )
            shortage = f"shares of the secret of participant {index} came"
            raise SumFailedError("opened", len(shares), threshold, self.out, shortage)
        secret, wrong = recovered
        liars |= {self._joined[point - 1]: f"its share of a secret of participant {index} is wrong" for point in wrong}
        return secret

    def _need(self, step: str, remaining: int, needed: int) -> None:
        if remaining < needed:
            raise SumFailedError(step, remaining, needed, self.stranded | self.out)

    def _need_holders(self, step: str, present: Collection[int]) -> None:
        """Raise SumFailedError if those present cannot recover some dealer's secrets."""
        if isolated := out_of_reach(self._graph, self._joined, self._dealers, tuple(present)):
            self.stranded |= dict.fromkeys(isolated, "too few of its neighbours are left to give its secrets back")
            first = self._places[isolated[0]]
            remaining = len({self._joined[node] for node in self._graph.holders(first)} & set(present))
            shortage = f"holders of participant {isolated[0]} are left"
            raise SumFailedError(step, remaining, self._graph.threshold(first), self.stranded | self.out, shortage)


def as_words(payload: Sequence[int] | bytes) -> Words:
    """Little-endian words of a masked vector's bytes."""
    return np.frombuffer(bytes(payload), "<u8").astype(np.uint64)


def _combined(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret that all these shares give; None if they give none."""
    points = tuple(sorted(shares))
    try:
        return shamir.Combiner(points).combine([shares[point] for point in points])
    except ValueError:
        return None
