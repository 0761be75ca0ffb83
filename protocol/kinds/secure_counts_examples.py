"""Questions of `secure_counts` for an auditor: as few whole noises as a plan allows, and one curator that colludes.

Four curators sum. One colludes with the learner and adds nothing: whatever it added, they would take away again. One
falls silent after it dealt its shares. So two noise shares are left, which make one whole noise. The records of one of
the two that answer are attacked. Beside the sum the learner sees that curator's masked vector, and takes off every
mask that is known: its self mask, and those with the two others. The one with the honest curator is left.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from protocol.codec import decode, encode
from protocol.envelopes import LABEL, SigningKey, digest, statement_bytes
from protocol.errors import ConfigurationError
from protocol.examples import Asked, Asking, Company, Example, Lead, Seen
from protocol.kinds.counts import CountsLimits, length, read_body
from protocol.kinds.counts_examples import shortest_of
from protocol.kinds.secure_counts import (
    NONCE,
    TURNS,
    Agreement,
    AskKeys,
    MaskedCounts,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
    question_digest,
)
from protocol.query_kind import Turn
from protocol.release_kinds import RELEASE_KINDS
from protocol.secure_sum import participant, shamir
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.secure_sum.group import Cards, Group, KeyCard, list_digest, seed_check
from protocol.secure_sum.masks import Words, public_of
from protocol.secure_sum.participant import DEALERS, Relayed

ATTACKED, HONEST, SILENT, COLLUDER = range(4)
COLLUDERS = DROPOUTS = 1
COPIES = 5000
"""Questions of one query: the five turns of four curators cost as much as a hundred questions."""
PAIRS = 4
"""Sets of records that are tried: `counts`, which counts by the same code, tries many."""
_KEYS = tuple(SigningKey.from_seed(digest(b"an example of expril, curator %d" % place)) for place in range(4))
_PARTICIPANTS = tuple(sorted(key.public for key in _KEYS))
_INDEX = tuple(_PARTICIPANTS.index(key.public) for key in _KEYS)
"""Place -> index among the participants."""


def examples() -> Sequence[Example]:
    """The shortest question of `counts` for each release kind, over four curators."""
    private = (name for name, kind in RELEASE_KINDS.items() if kind.private)
    return [_pooled(alone) for alone in map(shortest_of, private) if alone is not None]


def _pooled(alone: Example) -> Example:
    @lru_cache(maxsize=4)
    def ask(copies: int) -> Asked:
        return Asked(_planned(alone, copies), ())

    @lru_cache(maxsize=4)
    def counted(copies: int) -> _Counted:
        (data,) = alone.ask(copies).bodies
        turn = Turn(ask(copies).planned)
        body = read_body(data, turn, alone.schema, CountsLimits())
        return _Counted(turn.planned, data, length(body, turn, alone.schema))

    return Example(
        f"{', '.join(alone.limits['release_kinds'])} of four curators, of which one colludes and one falls silent: "
        f"{alone.about}",
        alone.schema,
        ask,
        copies=COPIES,
        most_records_per_unit=alone.most_records_per_unit,
        values=alone.values,
        limits={**alone.limits, "members": [key.hex() for key in _PARTICIPANTS]},
        pairs=PAIRS,
        company=Company(_KEYS[:COLLUDER], lambda asking: _lead(counted(asking.copies), asking)),
    )


class _Counted(NamedTuple):
    """A question over some copies.

    Attributes:
        planned: as it is planned.
        counts: the encoded body of the `counts` query.
        length: numbers of its answer.
    """

    planned: PlannedSecureCounts
    counts: bytes
    length: int


def _planned(alone: Example, copies: int) -> PlannedSecureCounts:
    counted = alone.ask(copies).planned
    return PlannedSecureCounts(
        release=counted.release,
        partitions=counted.partitions,
        scale=counted.scale,
        steps=counted.steps,
        turns=TURNS,
        participants=_PARTICIPANTS,
        colluders=COLLUDERS,
        dropouts=DROPOUTS,
    )


def _lead(counted: _Counted, asking: Asking) -> Lead:
    """The five turns, as a lawful learner leads them: it is what it does with the answers that is the attack.

    The question is always the same, since fresh key cards make it another round each time.
    """
    group, sent = counted.planned.group(LABEL), AskKeys(counted.counts, bytes(NONCE))
    question = question_digest(asking.learner, Turn(counted.planned, asking.query), sent)
    machine = Aggregator(group, question, counted.length)
    colluder = _Colluder(group, question, counted.length, asking.entropy)
    told = yield dict.fromkeys((ATTACKED, HONEST, SILENT), encode(sent))
    cards = machine.take_cards(_by_index(told, KeyCard, colluder.card))
    told = yield dict.fromkeys((ATTACKED, HONEST, SILENT), encode(RelayCards(cards)))
    sealed = {index: each.shares for index, each in _by_index(told, SealedShares, colluder.deal(cards)).items()}
    relayed = machine.take_shares(sealed)
    bodies = {place: RelayShares(*relayed[_INDEX[place]], sent.counts, sent.nonce) for place in (ATTACKED, HONEST)}
    told = yield {place: encode(body) for place, body in bodies.items()}
    masked = _by_index(told, MaskedCounts, colluder.mask(*relayed[_INDEX[COLLUDER]]))
    survivors = machine.take_masked({index: as_words(each.words) for index, each in masked.items()})
    told = yield dict.fromkeys((ATTACKED, HONEST), encode(ProposeSurvivors(survivors)))
    agreed = _by_index(told, Agreement, colluder.agree(survivors))
    agreements = machine.take_agreements({index: each.signature for index, each in agreed.items()})
    told = yield dict.fromkeys((ATTACKED, HONEST), encode(OpenSum(survivors, agreements)))
    revealed = {index: each.shares for index, each in _by_index(told, Revealed, colluder.reveal()).items()}
    opened = machine.take_revealed(revealed)
    left = as_words(masked[_INDEX[ATTACKED]].words) - colluder.known_masks(revealed)
    return Seen(opened.values.reshape(asking.copies, -1), left.view(np.int64).reshape(asking.copies, -1))


def _by_index(told: Mapping[int, bytes], kind: type[Any], own: Any) -> dict[int, Any]:
    """What curators released, by place, and what the colluder says beside them -> all of it, by index."""
    return {_INDEX[COLLUDER]: own, **{_INDEX[place]: decode(data, kind) for place, data in told.items()}}


class _Colluder:
    """The curator that colludes: it takes part by the rules, with nothing to add, and tells all that it knows."""

    def __init__(self, group: Group, question: bytes, length: int, entropy: Callable[[int], bytes]) -> None:
        self._group, self._length, self._entropy = group, length, entropy
        self.card, self._state = participant.begin(
            group, _KEYS[COLLUDER].public, question, length, entropy=entropy, sign=self._sign
        )

    def deal(self, cards: Cards) -> SealedShares:
        """Its answer to turn 1."""
        self._cards = dict(cards)
        dealt, self._state = participant.share(self._group, self._state, cards, entropy=self._entropy)
        return SealedShares(dealt)

    def mask(self, dealers: tuple[int, ...], shares: Relayed) -> MaskedCounts:
        """Its answer to turn 2."""
        nothing = np.zeros(self._length, np.int64)
        self._private = self._state.masking
        words, self._state = participant.mask(self._state, dealers, shares, nothing)
        return MaskedCounts(words.astype("<u8").tobytes())

    def agree(self, survivors: tuple[int, ...]) -> Agreement:
        """Its answer to turn 3."""
        signature, self._state = participant.agree(self._state, survivors, sign=self._sign)
        return Agreement(signature)

    def reveal(self) -> Revealed:
        """Its answer to turn 4."""
        return Revealed(participant.reveal(self._state))

    def known_masks(self, revealed: Mapping[int, Relayed]) -> Words:
        """All masks of the attacked curator's vector that follow from its own keys and from what was revealed."""
        state, attacked, silent = self._state, _INDEX[ATTACKED], _INDEX[SILENT]
        seen = list_digest(DEALERS, state.dealers)
        seed = self._recovered(attacked, revealed, lambda secret: seed_check(secret) == self._cards[attacked].check)
        key = self._recovered(silent, revealed, lambda secret: public_of(secret) == self._cards[silent].masking)
        total: Words = participant.self_mask(seed, state.round, seen, self._length).copy()
        public = self._cards[attacked].masking
        for index, private in ((state.index, self._private), (silent, key)):
            total -= participant.pair_masks(private, index, [(attacked, public)], state.round, seen, self._length)
        return total

    def _recovered(self, index: int, revealed: Mapping[int, Relayed], fits: Callable[[bytes], bool]) -> bytes:
        graph, place = self._state.graph(self._group), self._state.joined.index(index)
        shares = {self._state.joined.index(holder) + 1: dict(given)[index] for holder, given in revealed.items()}
        found = shamir.recover(shares, graph.threshold(place), fits)
        if found is None:
            raise ConfigurationError("an example's round cannot be opened")
        return found[0]

    def _sign(self, type_name: str, payload: bytes) -> bytes:
        return _KEYS[COLLUDER].sign(statement_bytes(LABEL, type_name, payload))
