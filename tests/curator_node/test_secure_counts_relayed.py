"""A learner that relays whatever it likes, in any order, to four curators: what holds in the end."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.ledger.checks import check
from pooled import BODY, Pool
from protocol.kinds.secure_counts import AskKeys, OpenSum, ProposeSurvivors, RelayCards, RelayShares
from protocol.messages import Refusal
from protocol.refusals import RefusalCode
from protocol.secure_sum import shamir

SITES = 4
SUBSETS = [tuple(chosen) for size in range(5) for chosen in combinations(range(SITES), size)]
LARGE = [chosen for chosen in SUBSETS if len(chosen) >= 3]
STEPS = st.tuples(
    st.sampled_from([*range(SITES)]),
    st.sampled_from(["next"] * 8 + ["keys", "cards", "shares", "survivors", "open", "again"]),
    st.sampled_from(LARGE * 3 + SUBSETS),
)


class Relay:
    """What a malicious learner has been told, and what it makes of it."""

    def __init__(self):
        self.pool = Pool(SITES, 1, 1)
        self.told = [{} for _ in range(SITES)]  # by curator: turn -> release
        self.lists = {}  # curator -> (list that it signed, its signature)
        self.asked = [[] for _ in range(SITES)]

    def step(self, index, what, chosen):
        turn = (self.pool.sessions[index].sequence) % 5
        kind = ("keys", "cards", "shares", "survivors", "open")[turn] if what == "next" else what
        if kind == "again":
            self.asked[index] and self.pool.handle[index](self.asked[index][-1])
            return
        body = getattr(self, kind)(index, chosen)
        if self.pool.sessions[index].sequence == 5:
            return
        reply = self.pool.ask(index, body)
        self.asked[index].append(self.pool.sessions[index].transcript.envelopes[-2])
        if isinstance(reply, Refusal):
            assert reply.code != RefusalCode.UNAVAILABLE, "nothing fails that the request could cause"
            return
        assert turn not in self.told[index]
        self.told[index][turn] = reply
        if turn == 3:
            self.lists[index] = (chosen, reply.signature)
        if turn == 4:
            assert body.survivors == self.lists[index][0]

    def keys(self, index, chosen):
        return AskKeys(BODY, self.pool.nonce)

    def cards(self, index, chosen):
        return RelayCards(tuple((other, self.told[other][0]) for other in chosen if 0 in self.told[other]))

    def shares(self, index, chosen):
        dealt = {other: dict(self.told[other][1].shares) for other in chosen if 1 in self.told[other]}
        mine = tuple((other, sealed[index]) for other, sealed in dealt.items() if index in sealed)
        return RelayShares(chosen, mine, BODY, self.pool.nonce)

    def survivors(self, index, chosen):
        return ProposeSurvivors(chosen)

    def open(self, index, chosen):
        signed = [(other, signature) for other, (whom, signature) in sorted(self.lists.items()) if whom == chosen]
        return OpenSum(chosen, tuple(signed))


SCRIPTS = (st.lists(STEPS, min_size=10, max_size=60), st.sampled_from(LARGE))


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(*SCRIPTS)
def test_whatever_is_relayed_no_site_is_opened_and_nothing_is_charged_twice(steps, end):
    play(steps, end)


test_whatever_is_relayed_no_site_is_opened_and_nothing_is_charged_twice_at_length = at_length(
    test_whatever_is_relayed_no_site_is_opened_and_nothing_is_charged_twice, 15
)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(*SCRIPTS)
def test_whatever_is_relayed_no_site_is_opened_at_length(steps, end):
    play(steps, end)


def play(steps, end):
    relay = Relay()
    for index, what, chosen in steps:
        relay.step(index, what, chosen)
    for _ in range(5):  # from here on it tries to get an opening out of what it has
        for index in end:
            relay.step(index, "next", end)
    revealed = Counter()
    for index, told in enumerate(relay.told):
        account = check(relay.pool.stores[index])
        assert account.findings == ()
        charges = [entry for entry in account.entries if entry.kind == "charge"]
        assert len(charges) == len(told)
        assert [entry.amount for entry in charges] == ["0", "0", "1/30", "0", "0"][: len(charges)]
        if 4 in told:
            event("opened")
            dealers = [dealer for dealer, _ in told[4].shares]
            assert len(set(dealers)) == len(dealers)
            revealed.update((dealer, dealer in relay.lists[index][0]) for dealer in dealers)
            assert all(len(share) == shamir.SHARE for _, share in told[4].shares)
    threshold = (SITES + 1) // 2 + 1
    for dealer in range(SITES):
        assert min(revealed[dealer, True], revealed[dealer, False]) < threshold, "both masks of a site were opened"
