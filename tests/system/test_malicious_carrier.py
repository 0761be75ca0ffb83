"""Two studies over one relay that replays, reorders, duplicates, swaps and crosses: real sites, real sessions.

Whatever it brings, no study takes an answer that is not the answer to its own question, and nobody pays twice.
"""

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from learner_fakes import LEARNER, Clock, Entropy, NoNoise, account, key, mass_body, open_curator, plan_of
from learner_node.study.federation import Federation
from learner_node.study.study import NoCuratorError, Study
from protocol.envelopes import open_envelope
from protocol.messages import Release
from protocol.transcript import replay

PLAN = plan_of(10, 5)
COST = Fraction(3, 10)
NAMES = ("basel", "bern")
TRICKS = ("honest", "honest", "drop", "old reply", "another's reply", "old request", "twice", "late")


class Relay:
    """Keeps all that it ever saw; what it does next, Hypothesis says."""

    def __init__(self, curators, tricks):
        self.curators = {curator.identity: curator for curator in curators.values()}
        self.tricks = list(tricks)
        self.requests = {identity: [] for identity in self.curators}
        self.replies = []
        self.releases = Counter()

    def exchange(self, requests):
        brought = {}
        for identity, data in requests.items():
            reply = self.trick(identity, data)
            if reply is not None:
                brought[identity] = reply
        trick = self.tricks.pop() if self.tricks else ("honest", 0)
        if trick[0] == "another's reply" and len(brought) == 2:
            first, second = brought
            brought[first], brought[second] = brought[second], brought[first]
        return brought

    def trick(self, identity, data):
        what, number = self.tricks.pop() if self.tricks else ("honest", 0)
        earlier = self.requests[identity]
        if what == "old request" and earlier:
            return self.carry(identity, earlier[number % len(earlier)])
        if what == "drop":
            return None
        reply = self.carry(identity, data)
        if what == "twice":
            assert self.carry(identity, data) == reply, "a repeat gets the stored bytes"
        if what == "late":
            return None
        if what in ("old reply", "another's reply"):
            return self.replies[number % len(self.replies)]
        return reply

    def carry(self, identity, data):
        self.requests[identity].append(data)
        reply = self.curators[identity].handle(data)
        if reply not in self.replies and isinstance(open_envelope(reply)[1], Release):
            self.releases[identity] += 1
        self.replies.append(reply)
        return reply


def ask(study, name, what):
    """The next step of a study, where it still goes on."""
    try:
        if what == 0:
            study.read_cards()
        elif what == 1:
            study.propose(PLAN, name, list(study.cards))
        else:
            study.ask(dict.fromkeys(study.survivors, mass_body(float(what))))
    except NoCuratorError:
        return False
    return True


def honest():
    """What an honest relay brings, by curator: without noise it is the counts."""
    curators = {name: open_curator(name, noise=NoNoise()) for name in NAMES}
    study = federated(curators, Relay(curators, []))
    for what in range(4):
        assert ask(study, "honest", what)
    return [{name: answer.values.tolist() for name, answer in done.answers.items()} for done in study.rounds]


def federated(curators, relay):
    return Study(
        Federation(
            curators={name: curator.identity for name, curator in curators.items()},
            key=key(LEARNER),
            carrier=relay,
            clock=Clock(),
            entropy=ENTROPY,
            attempts=3,
        )
    )


ENTROPY = Entropy()
TRUE = honest()


tricks = st.lists(st.tuples(st.sampled_from(TRICKS), st.integers(0, 30)), max_size=80)


@given(tricks)
@settings(max_examples=8, deadline=None)
def test_a_relay_brings_nobody_a_wrong_answer_and_makes_nobody_pay_twice(tricks):
    curators = {name: open_curator(name, noise=NoNoise()) for name in NAMES}
    relay = Relay(curators, tricks)
    studies = [federated(curators, relay) for _ in range(2)]
    going = dict.fromkeys(range(2), True)
    for what in range(4):
        for number, study in enumerate(studies):
            going[number] = going[number] and ask(study, f"study {number}", what)
    for study in studies:
        for told, done in zip(TRUE, study.rounds, strict=False):
            for name, answer in done.answers.items():
                assert answer.values.tolist() == told[name]
    relay.tricks.clear()  # at last it does its work
    for study in studies:
        for _ in range(4):
            study.close()
    for name, curator in curators.items():
        total = account(curator).total_spent
        assert total <= 2 * COST
        assert sum(study.spent(name) for study in studies) <= total
        assert total <= sum(study.spent_at_most(name) for study in studies)
        for study in studies:
            session = study.sessions[name]
            if session.card is not None:
                proof = replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)
                assert proof.epsilon_spent == session.spent


test_a_relay_at_length = at_length(test_a_relay_brings_nobody_a_wrong_answer_and_makes_nobody_pay_twice, 80)
