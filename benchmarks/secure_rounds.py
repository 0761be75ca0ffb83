"""A whole round of a secure sum, both sides of it, with all messages encoded; alone, or over several processes."""

import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.envelopes import SigningKey
from protocol.kinds.secure_counts import (
    Agreement,
    MaskedCounts,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
)
from protocol.secure_sum import participant
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.secure_sum.group import Group, KeyCard, Verify
from protocol.secure_sum.participant import is_signed_once

QUESTION, NONCE = bytes(32), bytes(16)
Answers = dict[int, bytes]


class Curators:
    """Some of the participants of a group; each step takes and gives encoded bodies and releases.

    Args:
        group: who sums.
        keys: by index, of those that are here.
        length: numbers in the vector; participant i has i in each.
        verify: of signatures; those of one process check each once for equal bytes.
    """

    def __init__(self, group: Group, keys: Mapping[int, bytes], length: int, verify: Verify = is_signed_once) -> None:
        self._group, self._length, self._verify = group, length, verify
        self._keys = {index: SigningKey.from_seed(seed) for index, seed in keys.items()}
        self._states: dict[int, participant.State] = {}

    def step(self, number: int, bodies: Mapping[int, bytes]) -> Answers:
        """Answers of those here to whom there is a body."""
        return {index: self._answer(number, index, bodies[index]) for index in self._keys if index in bodies}

    def _answer(self, number: int, index: int, body: bytes) -> bytes:
        def sign(type_name: str, payload: bytes) -> bytes:
            return self._keys[index].sign(self._group.signed(type_name, payload))

        group, verify, state = self._group, self._verify, self._states.get(index)
        answer: Any
        if state is None:
            identity = group.participants[index]
            answer, after = participant.begin(group, identity, QUESTION, self._length, entropy=os.urandom, sign=sign)
        elif number == 1:
            cards = decode(body, RelayCards).cards
            participant.check_cards(group, state, cards, verify)
            dealt, after = participant.share(group, state, cards, entropy=os.urandom)
            answer = SealedShares(dealt)
        elif number == 2:
            relayed = decode(body, RelayShares)
            participant.check_shares(group, state, relayed.dealers, relayed.shares)
            values = np.full(self._length, index, np.int64)
            words, after = participant.mask(state, relayed.dealers, relayed.shares, values)
            answer = MaskedCounts(words.astype("<u8").tobytes())
        elif number == 3:
            survivors = decode(body, ProposeSurvivors).survivors
            participant.check_survivors(group, state, survivors)
            signature, after = participant.agree(state, survivors, sign=sign)
            answer = Agreement(signature)
        else:
            opening = decode(body, OpenSum)
            participant.check_opening(group, state, opening.survivors, opening.agreements, verify)
            answer, after = Revealed(participant.reveal(state)), state
        self._states[index] = after
        return encode(answer)


class Spread:
    """The same over processes: each has a part of the participants."""

    def __init__(self, group: Group, keys: Mapping[int, bytes], length: int, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._workers = []
        for part in range(processes):
            ours, theirs = context.Pipe()
            own_keys = {index: key for index, key in keys.items() if index % processes == part}
            worker = context.Process(target=_serve, args=(theirs, group, own_keys, length), daemon=True)
            worker.start()
            self._workers.append((ours, worker))

    def step(self, number: int, bodies: Mapping[int, bytes]) -> Answers:
        """As of `Curators`."""
        for pipe, _ in self._workers:
            pipe.send((number, bodies))
        answers: Answers = {}
        for pipe, _ in self._workers:
            answers |= pipe.recv()
        return answers

    def close(self) -> None:
        """Stop the processes."""
        for pipe, worker in self._workers:
            pipe.send(None)
            worker.join()


def _serve(pipe: Any, group: Group, keys: Mapping[int, bytes], length: int) -> None:
    curators = Curators(group, keys, length)
    while (request := pipe.recv()) is not None:
        pipe.send(curators.step(*request))


def group_of(sites: int, colluders: int, dropouts: int) -> tuple[Group, dict[int, bytes]]:
    """A group with fresh identity keys, and their seeds by index."""
    seeds = [os.urandom(32) for _ in range(sites)]
    seeds.sort(key=lambda seed: SigningKey.from_seed(seed).public)
    public = tuple(SigningKey.from_seed(seed).public for seed in seeds)
    return Group(public, colluders, dropouts, "a benchmark"), dict(enumerate(seeds))


class Traffic:
    """Bytes that one participant is sent and sends: the largest over the participants of their sums over the steps."""

    def __init__(self) -> None:
        self._bytes: dict[int, int] = {}

    def count(self, messages: Mapping[int, bytes]) -> None:
        """Add what each is sent, or sends."""
        for index, message in messages.items():
            self._bytes[index] = self._bytes.get(index, 0) + len(message)

    @property
    def most(self) -> int:
        """Of any participant."""
        return max(self._bytes.values())


def run_round(
    group: Group, curators: Curators | Spread, length: int, *, silent: Iterable[int] = ()
) -> tuple[NDArray[np.int64], tuple[int, ...], Traffic]:
    """A round; `silent` fall silent after they have dealt. The sum, the survivors and the traffic."""
    traffic, machine = Traffic(), Aggregator(group, QUESTION, length)

    def ask(number: int, bodies: dict[int, bytes]) -> Answers:
        answers = curators.step(number, bodies)
        traffic.count(bodies)
        traffic.count(answers)
        return answers

    everybody: Sequence[int] = range(group.sites)
    replies = ask(0, dict.fromkeys(everybody, b""))
    cards = machine.take_cards({index: decode(data, KeyCard) for index, data in replies.items()})
    replies = ask(1, dict.fromkeys(replies, encode(RelayCards(cards))))
    dealt = machine.take_shares({index: decode(data, SealedShares).shares for index, data in replies.items()})
    bodies = {index: encode(RelayShares(*dealt[index], b"", NONCE)) for index in dealt if index not in set(silent)}
    replies = ask(2, bodies)
    survivors = machine.take_masked(
        {index: as_words(decode(data, MaskedCounts).words) for index, data in replies.items()}
    )
    replies = ask(3, dict.fromkeys(survivors, encode(ProposeSurvivors(survivors))))
    agreements = machine.take_agreements({index: decode(data, Agreement).signature for index, data in replies.items()})
    replies = ask(4, dict.fromkeys(replies, encode(OpenSum(survivors, agreements))))
    opened = machine.take_revealed({index: decode(data, Revealed).shares for index, data in replies.items()})
    return opened.values, opened.survivors, traffic
