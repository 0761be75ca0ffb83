"""A malicious learner with t colluders, which asks honest curators for their steps in any order with any lists."""

import contextlib
import random
import secrets
from collections import Counter

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from at_length import walks_at_length
from curator_fakes import key
from protocol.envelopes import LABEL
from protocol.errors import RemoteProtocolError
from protocol.secure_sum import masks, participant, shamir
from protocol.secure_sum.graph import Graph, graph_of
from protocol.secure_sum.group import Group
from secure_rounds import circulant
from secure_world import KEY, SEED, World

COMPLETE = [(3, 1, 0), (4, 1, 1), (5, 2, 1), (6, 1, 2), (6, 3, 1)]
RING = [(9, 1, 2), (12, 1, 4)]
"""Twelve of degree six: what is left of them after five have gone holds together."""


class Learner(RuleBasedStateMachine):
    """Each rule asks curators that are ready for a step, with one of two lists; the end takes the rest along."""

    groups, graph = COMPLETE, None

    @initialize(data=st.data())
    def start(self, data):
        self.plain = participant.graph_of
        participant.graph_of = self.graph or self.plain
        self.world = World(*data.draw(st.sampled_from(self.groups)))
        self.everybody = range(self.world.group.sites)
        for index in self.everybody:
            (self.world.collude if index in self.world.colluders else self.world.begin)(index)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            self.finish()
            self.world.check()
        finally:
            participant.graph_of = self.plain

    @rule(data=st.data(), index=st.integers(0, 20))
    def another_card(self, data, index):
        index %= len(self.everybody)
        if index in self.world.colluders:
            kind = data.draw(st.sampled_from(["fresh", "zeros", "copied"]))
            self.world.collude(index, kind, data.draw(st.sampled_from(self.world.sessions)).card)
        elif len(self.world.cards[index]) < 2:
            self.world.begin(index)

    @rule(data=st.data())
    def share(self, data):
        lists = [
            [(index, data.draw(st.sampled_from(self.world.cards[index]))) for index in self.few(data)] for _ in "ab"
        ]
        for session, cards in self.each(data, 1, lists):
            self.attempt(self.world.share, session, own_card_in(session, cards))

    @rule(data=st.data(), spoilt=st.sets(st.integers(0, 20), max_size=1))
    def mask(self, data, spoilt):
        for session, dealers in self.each(data, 2, [self.few(data), self.few(data)]):
            self.attempt(self.world.mask, session, tuple(sorted(set(dealers) & set(session.cards))), spoilt)

    @rule(data=st.data())
    def agree(self, data):
        for session, survivors in self.each(data, 3, [self.few(data), self.few(data)]):
            self.attempt(self.world.agree, session, tuple(sorted(set(survivors) & set(session.dealers))))

    @rule(data=st.data())
    def reveal(self, data):
        """With the list that the curator signed, or another, and some of the signatures."""
        for session, other in self.each(data, 4, [None, self.few(data)]):
            survivors = session.survivors if other is None else other
            signed = self.world.agreements(session, survivors)
            self.attempt(self.world.reveal, session, survivors, signed[data.draw(st.integers(0, 2)) :])

    def few(self, data):
        """Everybody, but for as many as u."""
        gone = data.draw(st.sets(st.integers(0, len(self.everybody) - 1), max_size=self.world.group.dropouts))
        return tuple(index for index in self.everybody if index not in gone)

    def each(self, data, step, lists):
        for session in self.world.sessions:
            if session.state.step == step and data.draw(st.integers(0, 4)):
                yield session, lists[data.draw(st.integers(0, 2)) == 2]

    def attempt(self, method, *args):
        with contextlib.suppress(RemoteProtocolError):
            method(*args)

    def finish(self):
        """Whoever is left is asked what most others were; then everybody reveals what it can be made to."""
        cards = [(index, each[0]) for index, each in self.world.cards.items()]
        for session in self.at(1):
            self.attempt(self.world.share, session, own_card_in(session, cards))
        for session in self.at(2):
            told = Counter(each.dealers for each in self.world.sessions if each.round == session.round and each.masked)
            for dealers in [*dict(told.most_common()), tuple(session.cards)]:
                self.attempt(self.world.mask, session, dealers)
        for session in self.at(3):
            told = Counter(
                each.survivors
                for each in self.world.sessions
                if (each.round, each.dealers) == (session.round, session.dealers) and each.survivors
            )
            for survivors in [*dict(told.most_common()), session.dealers]:
                self.attempt(self.world.agree, session, survivors)
        for session in self.at(4):
            for _, _, survivors in self.world.signatures:
                self.attempt(self.world.reveal, session, survivors, self.world.agreements(session, survivors))

    def at(self, step):
        return [session for session in self.world.sessions if session.state.step == step]


def own_card_in(session, cards):
    return tuple(sorted({**dict(cards), session.index: session.card}.items()))


class RingLearner(Learner):
    groups, graph = RING, staticmethod(circulant)


TestComplete = Learner.TestCase
TestComplete.settings = settings(max_examples=15, stateful_step_count=10)
TestCompleteAtLength = walks_at_length(Learner, max_examples=40, stateful_step_count=10)
TestRing = RingLearner.TestCase
TestRing.settings = settings(max_examples=15, stateful_step_count=10)


def lawful(world, dealers=None, survivors=None, until=5):
    """A round in which colluders take part by the rules; some are then left out."""
    for index in world.colluders:
        world.collude(index)
    for index in range(len(world.colluders), world.group.sites):
        world.begin(index)
    cards = tuple((index, each[-1]) for index, each in world.cards.items())
    dealers = dealers or tuple(range(world.group.sites))
    survivors = survivors or dealers
    for session in world.sessions:
        world.share(session, cards)
    for session in world.sessions:
        if session.index in dealers:
            world.mask(session, dealers)
    for session in world.sessions:
        if session.index in survivors:
            world.agree(session, survivors)
    for session in world.sessions:
        if session.index in survivors:
            world.reveal(session, survivors, world.agreements(session, survivors))
    return world


def test_of_a_lawful_round_the_sum_over_the_honest_survivors_is_exposed_and_no_more():
    world = lawful(World(6, 1, 2), survivors=(0, 1, 3, 5))
    ((exposed),) = world.exposed()
    assert sorted(session.index for session in exposed) == [1, 3, 5]
    assert {(session.index, kind) for session, kind in world.known()} == {
        (1, SEED),
        (3, SEED),
        (5, SEED),
        (2, KEY),
        (4, KEY),
    }
    world.check()


def attack(group, seed):
    """A learner that shows two lists of everything, at random, and then opens whatever signatures allow."""
    draw, world = random.Random(seed), World(*group)
    everybody = range(group[0])

    def few():
        gone = draw.sample(everybody, draw.choice([0, 0, draw.randint(0, group[2])]) + (draw.random() < 0.1))
        return tuple(index for index in everybody if index not in gone)

    def ask(step, method, lists):
        often = draw.choice([1.0, 1.0, 0.9, 0.6])
        for session in [each for each in world.sessions if each.state.step == step]:
            with contextlib.suppress(RemoteProtocolError):
                method(session, lists[draw.random() > often])

    for index in everybody:
        for _ in range(draw.choice([1, 1, 1, 2])):
            (world.collude if index in world.colluders else world.begin)(index)
    cards = [[(index, draw.choice(world.cards[index])) for index in few()] for _ in "ab"]
    ask(1, lambda session, cards: world.share(session, own_card_in(session, cards)), cards)
    ask(2, lambda session, among: world.mask(session, tuple(sorted({*among} & {*session.cards}))), [few(), few()])
    ask(3, lambda session, among: world.agree(session, tuple(sorted({*among} & {*session.dealers}))), [few(), few()])
    for _, _, survivors in list(world.signatures):
        ask(4, lambda session, among: world.reveal(session, among, world.agreements(session, among)), [survivors] * 2)
    return world


def opened_by(group, seeds):
    """Raises at the first breach; else how many of the learners got a sum."""
    opened = 0
    for seed in seeds:
        world = attack(group, seed)
        world.check()
        opened += bool(world.exposed())
    return opened


@pytest.mark.family(2)
@pytest.mark.parametrize("group", COMPLETE)
def test_learners_that_show_two_lists_of_everything_get_one_whole_sum_or_nothing(group):
    assert opened_by(group, range(30)) > 0


@pytest.mark.parametrize("group", RING)
def test_so_they_do_in_a_sparse_graph(group, monkeypatch):
    monkeypatch.setattr(participant, "graph_of", circulant)
    assert opened_by(group, range(15)) > 0


@pytest.mark.parametrize(
    ("group", "breach", "changed"),
    [
        ((5, 1, 1), "two lists", {"signatures": property(lambda group: 1), "out_of_reach": lambda *_: []}),
        ((5, 1, 0), "fewer noise shares", {"least": property(lambda group: group.sites - group.dropouts - 1)}),
        ((5, 1, 1), "both secrets", {"threshold": lambda graph, node: 1}),
    ],
)
def test_without_a_threshold_the_same_learners_win(group, breach, changed, monkeypatch):
    """So the tests above would notice."""
    owners = {"signatures": Group, "least": Group, "threshold": Graph, "out_of_reach": participant}
    for name, without in changed.items():
        monkeypatch.setattr(owners[name], name, without)
    monkeypatch.setattr(participant, "graph_of", lambda seed, size, colluders, _: graph_of(seed, size, colluders, 0))
    with pytest.raises(AssertionError, match=breach):
        opened_by(group, range(300))


@pytest.mark.parametrize("by_majority", [False, True])
def test_a_card_of_an_earlier_round_cannot_stand_for_a_curator(by_majority, monkeypatch):
    """The learner asks the same question twice. In the first round 5 falls silent, and its mask key is opened; in the
    second the learner relays 5's old card, and says that 5 survived and 4 did not. More than (n + t) / 2 sign, but
    only three of them are honest, and their sum would have three shares of noise, of four that make one noise.
    """
    world = lawful(World(6, 1, 1), survivors=(0, 1, 2, 3, 4))
    assert (world.sessions[4], KEY) in world.known()
    again = [world.begin(index) for index in (1, 2, 3, 4)]
    cards = own_card_in(again[0], [(index, each[-1]) for index, each in world.cards.items()])
    if by_majority:
        monkeypatch.setattr(Group, "signatures", property(lambda group: (group.sites + group.colluders) // 2 + 1))
    for session in again:
        world.share(session, cards)
    for session in again[:3]:
        world.mask(session, (0, 1, 2, 3, 4, 5))
    for session in again[:3]:
        world.agree(session, (0, 1, 2, 3, 5))
    signed = world.agreements(again[0], (0, 1, 2, 3, 5))
    if by_majority:
        for session in again[:3]:
            world.reveal(session, session.survivors, signed)
        with pytest.raises(AssertionError, match="a part of the sum"):
            world.check()
    else:
        with pytest.raises(RemoteProtocolError, match="agreements: at least 5"):
            world.reveal(again[0], again[0].survivors, signed)
        world.check()


NAMES = sorted((f"site {number}" for number in range(10)), key=lambda name: key(name).public)
GROUP = Group(tuple(key(name).public for name in NAMES), 1, 2, LABEL)
QUESTION, LENGTH = bytes(32), 4


class Round:
    """A round of some participants, and cards of others that are not there."""

    def __init__(self, present, stale=()):
        begun = {
            index: participant.begin(
                GROUP, GROUP.participants[index], QUESTION, LENGTH, entropy=secrets.token_bytes, sign=self.signer(index)
            )
            for index in present
        }
        self.states = {index: state for index, (_, state) in begun.items()}
        self.cards = tuple(sorted([(index, card) for index, (card, _) in begun.items()] + list(stale)))
        self.joined = tuple(index for index, _ in self.cards)
        dealt = {}
        for index in present:
            participant.check_cards(GROUP, self.states[index], self.cards)
            told, self.states[index] = participant.share(
                GROUP, self.states[index], self.cards, entropy=secrets.token_bytes
            )
            dealt[index] = dict(told)
        self.dealt = dealt

    @staticmethod
    def signer(index):
        return lambda name, payload: key(NAMES[index]).sign(GROUP.signed(name, payload))

    def mask(self, who):
        for index in who:
            others = [other for other in self.joined if other != index]
            junk = bytes(participant.SEALED_SHARES)
            shares = tuple((other, self.dealt.get(other, {}).get(index, junk)) for other in others)
            participant.check_shares(GROUP, self.states[index], self.joined, shares)
            zeros = np.zeros(LENGTH, np.int64)
            _, self.states[index] = participant.mask(self.states[index], self.joined, shares, zeros)

    def reveal(self, who, survivors):
        """index of the dealer -> point -> share."""
        signed = []
        for index in who:
            participant.check_survivors(GROUP, self.states[index], survivors)
            signature, self.states[index] = participant.agree(self.states[index], survivors, sign=self.signer(index))
            signed.append((index, signature))
        revealed = {}
        for index in who:
            participant.check_opening(GROUP, self.states[index], survivors, tuple(signed))
            for dealer, share in participant.reveal(self.states[index]):
                revealed.setdefault(dealer, {})[self.joined.index(index) + 1] = share
        return revealed


def test_a_learner_cannot_let_old_cards_stand_for_participants_that_are_not_there():
    assert (GROUP.shares, GROUP.least) == (7, 8)
    before = Round(range(10))
    before.mask(range(8))
    revealed = before.reveal(range(8), tuple(range(8)))
    stale = [before.cards[8], before.cards[9]]
    for index, card in stale:
        found = shamir.recover(revealed[index], 6, lambda secret, card=card: masks.public_of(secret) == card.masking)
        assert found is not None  # from here on it makes this one's masks with anybody
    now = Round(range(6), stale)
    now.mask(range(6))
    with pytest.raises(RemoteProtocolError, match=r"body\.agreements: at least 8"):
        now.reveal(range(6), now.joined)


def test_cards_whose_graph_leaves_a_participant_alone_are_refused(monkeypatch):
    """Above 100 participants; so unlikely that the graph is put in place here."""

    def alone(seed, size, colluders, dropouts):
        joined = ~np.eye(size, dtype=bool)
        joined[0] = joined[:, 0] = False
        return Graph(size, colluders, joined)

    monkeypatch.setattr(participant, "graph_of", alone)
    with pytest.raises(RemoteProtocolError, match=r"body\.cards: cards whose graph"):
        Round(range(10))
