"""A malicious learner with its colluders: it asks honest curators anything in any order, and puts together all it sees.

`World` keeps what each honest curator sent and what the learner can work out of it: shares that reached a colluder or
were revealed, the secrets that enough of them give back, and then, by brute force, whose vectors add up to something of
which no mask is left.
"""

from dataclasses import dataclass, field

import numpy as np

from protocol.secure_sum import participant, shamir
from protocol.secure_sum.group import make_card, seed_check
from secure_rounds import LENGTH, QUESTION, Curators, entropy_of

KEY, SEED = "mask key", "seed"


@dataclass(eq=False)
class Honest:
    """One round of an honest curator, from its key card on; a curator may be asked for several."""

    index: int
    card: object
    state: participant.State
    secrets: dict
    cards: dict = field(default_factory=dict)
    round: bytes = b""
    dealers: tuple = ()
    survivors: tuple = ()
    masked: bool = False
    revealed: bool = False


class World:
    def __init__(self, sites, colluders, dropouts):
        self.curators = Curators(sites, colluders, dropouts)
        self.group = self.curators.group
        self.colluders = range(colluders)
        self.sessions = []
        self.cards = {index: [] for index in range(sites)}
        self.own = {}
        self.sealed = {}
        self.signatures = {}
        self.points = {}

    # what is asked of honest curators: each step raises what the curator refuses with

    def begin(self, index):
        card, state = self._begin(index, len(self.sessions))
        self.sessions.append(Honest(index, card, state, {KEY: state.masking, SEED: state.seed}))
        self.cards[index].append(card)
        return self.sessions[-1]

    def share(self, session, cards):
        participant.check_cards(self.group, session.state, cards, self.curators.verify)
        sealed, session.state = participant.share(
            self.group, session.state, cards, entropy=entropy_of("share", session.index, session.card)
        )
        session.cards, session.round = dict(cards), session.state.round
        self.sealed[session.round, session.index] = dict(sealed)
        for index, card in cards:
            if card in self.own and (session.round, index) not in self.sealed:
                dealt, after = participant.share(
                    self.group, self.own[card], cards, entropy=entropy_of("collude", index)
                )
                self.sealed[session.round, index] = dict(dealt)
                self.own[session.round, index] = after

    def mask(self, session, dealers, spoilt=()):
        """`spoilt`: dealers whose shares are replaced by other bytes."""
        among = [other.index for other in session.state.neighbours if other.index in dealers]
        shares = tuple(
            (
                index,
                bytes(94) if index in spoilt else self.sealed.get((session.round, index), {}).get(session.index, b"x"),
            )
            for index in among
        )
        participant.check_shares(self.group, session.state, dealers, shares)
        _, session.state = participant.mask(session.state, dealers, shares, np.zeros(LENGTH, np.int64))
        session.dealers, session.masked = dealers, True

    def agree(self, session, survivors):
        participant.check_survivors(self.group, session.state, survivors)
        signature, session.state = participant.agree(session.state, survivors, sign=self.curators.signer(session.index))
        session.survivors = survivors
        self.signatures.setdefault((session.round, session.dealers, survivors), {})[session.index] = signature

    def agreements(self, session, survivors):
        """All signatures on that list, as this curator would check them; colluders sign everything."""
        payload = participant.survivors_payload(session.round, session.dealers, survivors)
        signed = dict(self.signatures.get((session.round, session.dealers, survivors), {}))
        for index in set(self.colluders) & set(survivors):
            signed[index] = self.curators.signer(index)("secure_sum_survivors", payload)
        return tuple(sorted(signed.items()))

    def reveal(self, session, survivors, agreements):
        participant.check_opening(self.group, session.state, survivors, agreements, self.curators.verify)
        session.revealed = True
        for dealer, share in participant.reveal(session.state):
            kind = SEED if dealer in session.state.survivors else KEY
            self._learn(session.round, dealer, kind, list(session.cards).index(session.index) + 1, share)

    # what colluders do

    def collude(self, index, kind="fresh", copied=None):
        """Another key card of a colluder: lawful, with the keys of an honest card, or with keys of small order."""
        if kind == "fresh":
            card, state = self._begin(index, len(self.cards[index]))
            self.own[card] = state
        else:
            keys = (bytes(32), bytes(32)) if kind == "zeros" else (copied.sealing, copied.masking)
            check = seed_check(bytes(32))
            card = make_card(self.group, QUESTION, (*keys, check), self.curators.signer(index))
        self.cards[index].append(card)
        return card

    # what follows from all that was seen

    def known(self):
        """(session, kind) of each secret that can be worked out."""
        for round_ in {session.round for session in self.sessions if session.round}:
            self._read_colluders(round_)
        found = set()
        for session in filter(lambda each: each.round, self.sessions):
            place = list(session.cards).index(session.index)
            threshold = session.state.graph(self.group).threshold(place)
            for kind, secret in session.secrets.items():
                shares = self.points.get((session.round, session.index, kind), {})
                recovered = shamir.recover(shares, threshold, lambda each, secret=secret: each == secret)
                assert (recovered is not None) == (len(shares) >= threshold)
                if recovered:
                    found.add((session, kind))
        return found

    def exposed(self):
        """Sets of honest sessions whose masked vectors, added up, keep no unknown mask: the least ones.

        A mask of which only one bearer is at hand keeps that bearer out; one that two bear, with opposite signs, holds
        them together; so do chains of these. All sums without masks are sums of the sets that are left.
        """
        known = self.known()
        bearers = [session for session in self.sessions if session.masked]
        kept_out = {session for session in bearers if (session, SEED) not in known}
        joined = {session: {session} for session in bearers}
        for session in bearers:
            for other in session.dealers:
                if other not in self._neighbours(session) or other in self.colluders or (session, KEY) in known:
                    continue
                partner = self._session(other, session.cards[other])
                if (partner, KEY) in known:
                    continue
                if partner.masked and (partner.round, partner.dealers) == (session.round, session.dealers):
                    merged = joined[session] | joined[partner]
                    for each in merged:
                        joined[each] = merged
                else:
                    kept_out.add(session)
        return {frozenset(each) for each in joined.values() if not each & kept_out}

    def check(self):
        """Nothing is exposed but one sum a round, over all honest survivors of its one list, h at least."""
        known = self.known()
        for session in self.sessions:
            assert not {(session, KEY), (session, SEED)} <= known, "both secrets of one curator"
        opened = {}
        for session in self.sessions:
            if session.revealed:
                one = (session.dealers, session.survivors)
                assert opened.setdefault(session.round, one) == one, "two lists of one round"
        for each in self.exposed():
            (round_,) = {session.round for session in each}
            dealers, survivors = opened[round_]
            assert {session.dealers for session in each} == {dealers}
            assert {session.index for session in each} == set(survivors) - set(self.colluders), "a part of the sum"
            assert len(each) >= self.group.shares, "fewer noise shares than one noise"

    def _begin(self, index, salt):
        return participant.begin(
            self.group,
            self.group.participants[index],
            QUESTION,
            LENGTH,
            entropy=entropy_of("begin", index, salt),
            sign=self.curators.signer(index),
        )

    def _session(self, index, card):
        return next(each for each in self.sessions if each.index == index and each.card == card)

    def _neighbours(self, session):
        joined = list(session.cards)
        graph = session.state.graph(self.group)
        return {joined[node] for node in graph.neighbours(joined.index(session.index))}

    def _read_colluders(self, round_):
        """Shares that honest curators dealt to colluders: a colluder goes through the next step to open them."""
        for index in self.colluders:
            if (round_, index) not in self.own:
                continue
            state = self.own[round_, index]
            shares = [
                (other.index, self.sealed[round_, other.index][index])
                for other in state.neighbours
                if (round_, other.index) in self.sealed
            ]
            _, after = participant.mask(state, state.joined, shares, np.zeros(LENGTH, np.int64))
            for dealer, both in after.shares:
                point = state.joined.index(index) + 1
                self._learn(round_, dealer, KEY, point, both[: shamir.SHARE])
                self._learn(round_, dealer, SEED, point, both[shamir.SHARE :])

    def _learn(self, round_, dealer, kind, point, share):
        self.points.setdefault((round_, dealer, kind), {})[point] = share
