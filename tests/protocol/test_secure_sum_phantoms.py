"""A learner that puts key cards of an earlier round in the place of participants that are not there; and other lies.

It asked the same question before, and opened the mask keys of two that fell silent after dealing. So it can make all
masks that the others share with these two. Were the list opened, the sum would hold the noise of five honest
participants, and not of seven.
"""

import secrets

import numpy as np
import pytest

from curator_fakes import key
from protocol.envelopes import LABEL
from protocol.errors import RemoteProtocolError
from protocol.secure_sum import masks, participant, shamir
from protocol.secure_sum.graph import Graph
from protocol.secure_sum.group import Group

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
