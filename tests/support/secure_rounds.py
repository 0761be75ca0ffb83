"""Rounds of secure sums for tests: curators whose entropy is fixed, with true signatures or with quick ones."""

import hashlib
import random

import numpy as np

from protocol.envelopes import SigningKey, is_signed
from protocol.secure_sum import masks, participant
from protocol.secure_sum.aggregator import Aggregator
from protocol.secure_sum.graph import Graph
from protocol.secure_sum.group import Group

QUESTION = hashlib.sha256(b"a question").digest()
LENGTH = 3
LABEL = "a test"


def entropy_of(*names):
    """Bytes that depend on the names alone."""
    return random.Random(repr(names)).randbytes


class QuickKey:
    """An identity whose signature is a hash: nobody in these tests forges one, and it costs a microsecond."""

    def __init__(self, name):
        self.public = hashlib.sha256(repr(name).encode()).digest()

    def sign(self, data):
        return hashlib.sha512(self.public + data).digest()


def quick_verify(public, signature, data):
    return signature == hashlib.sha512(public + data).digest()


def true_key(name):
    return SigningKey.from_seed(hashlib.sha256(repr(name).encode()).digest())


def quick_exchange(private, publics):
    """In place of `masks.exchange`: as symmetric, and quick; no secret."""
    own = masks.public_of(private)
    return [hashlib.sha256(min(own, public) + max(own, public)).digest() for public in publics]


def circulant(seed, size, colluders, dropouts):
    """In place of `graph_of`: everybody's neighbours are the three on both sides of a ring."""
    steps = np.subtract.outer(np.arange(size), np.arange(size)) % size
    return Graph(size, colluders, (np.minimum(steps, size - steps) <= 3) & (steps > 0))


def hermit(seed, size, colluders, dropouts):
    """In place of `graph_of`: participant 0 has four neighbours, everybody else has everybody else."""
    joined = ~np.eye(size, dtype=bool)
    joined[0, 5:] = joined[5:, 0] = False
    return Graph(size, colluders, joined)


class Curators:
    """n curators, by rising identity key; the state of each, and what it would answer to each step."""

    def __init__(self, sites, colluders, dropouts, *, true=False, length=LENGTH, question=QUESTION, salt=0):
        make, self.verify = (true_key, is_signed) if true else (QuickKey, quick_verify)
        self.keys = sorted((make(name) for name in range(sites)), key=lambda key: key.public)
        self.group = Group(tuple(key.public for key in self.keys), colluders, dropouts, LABEL)
        self.length, self.question, self.salt = length, question, salt
        numbers = np.random.default_rng(sites)
        self.values = numbers.integers(-(2**40), 2**40, (sites, length))
        self.states = {}

    def signer(self, index):
        return lambda type_name, payload: self.keys[index].sign(self.group.signed(type_name, payload))

    def aggregator(self):
        return Aggregator(self.group, self.question, self.length, self.verify)

    def begin(self, index):
        card, self.states[index] = participant.begin(
            self.group,
            self.keys[index].public,
            self.question,
            self.length,
            entropy=entropy_of("begin", index, self.salt),
            sign=self.signer(index),
        )
        return card

    def share(self, index, cards):
        participant.check_cards(self.group, self.states[index], cards, self.verify)
        answer, self.states[index] = participant.share(
            self.group, self.states[index], cards, entropy=entropy_of("share", index, self.salt)
        )
        return answer

    def mask(self, index, dealers, shares):
        participant.check_shares(self.group, self.states[index], dealers, shares)
        answer, self.states[index] = participant.mask(self.states[index], dealers, shares, self.values[index])
        return answer

    def agree(self, index, survivors):
        participant.check_survivors(self.group, self.states[index], survivors)
        answer, self.states[index] = participant.agree(self.states[index], survivors, sign=self.signer(index))
        return answer

    def reveal(self, index, survivors, agreements):
        participant.check_opening(self.group, self.states[index], survivors, agreements, self.verify)
        return participant.reveal(self.states[index])

    def total(self, who):
        return self.values[list(who)].sum(axis=0)


def lead(curators, stays=None, spoil=None):
    """A whole round: (aggregator, opened sum).

    Args:
        curators: `Curators`.
        stays: step 0 to 4 -> who answers it; everybody by default.
        spoil: (step, answers by index) -> the answers that the learner gets; as they are by default.
    """
    stays = stays or [range(curators.group.sites)] * 5
    spoil = spoil or (lambda step, answers: answers)
    machine = curators.aggregator()
    cards = machine.take_cards(spoil(0, {index: curators.begin(index) for index in stays[0]}))
    joined = [index for index, _ in cards if index in stays[1]]
    dealt = machine.take_shares(spoil(1, {index: curators.share(index, cards) for index in joined}))
    masked = {index: curators.mask(index, *dealt[index]) for index in dealt if index in stays[2]}
    survivors = machine.take_masked(spoil(2, masked))
    signed = {index: curators.agree(index, survivors) for index in survivors if index in stays[3]}
    agreements = machine.take_agreements(spoil(3, signed))
    revealed = {index: curators.reveal(index, survivors, agreements) for index in signed if index in stays[4]}
    return machine, machine.take_revealed(spoil(4, revealed))
