"""Questions of `secure_counts` for an auditor: as few whole noises as a plan allows, and one curator that colludes.

Four curators sum. One colludes with the learner and adds nothing, since the two could subtract what it added. One falls
silent after it dealt its shares. So two noise shares are left, which make one whole noise. The records of one of the
two remaining curators are attacked. Beside the sum the learner sees this curator's masked vector, and removes its self
mask and the masks with the colluder and the silent one. Only the mask with the honest curator is left.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from expril.audit.kinds.counts import CountsAudit, shortest_of
from expril.audit.kinds.exact import Independent, Masked, NoisyNumbers
from expril.audit.kinds.kind_audit import Asking, AuditQuery, Case, Company, Example, Law, Lead, Observation, unpacked
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, SigningKey, digest, statement_bytes
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds.counts import COUNTS, CountsLimits
from protocol.kinds.secure_counts import (
    BODIES,
    MASKED,
    NONCE,
    OPENED,
    RELEASES,
    SECURE_COUNTS,
    SHARES,
    TURNS,
    Agreement,
    AskKeys,
    MaskedCounts,
    Note,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
    question_digest,
)
from protocol.noise_shares import LaplaceShares
from protocol.query_kind import KindTerms, Question, Turn
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema
from protocol.secure_sum import participant, shamir
from protocol.secure_sum.aggregator import Aggregator, as_words
from protocol.secure_sum.group import Cards, Group, KeyCard, list_digest, seed_check
from protocol.secure_sum.masks import Words, public_of
from protocol.secure_sum.participant import DEALERS, Relayed
from protocol.strict_json import decode_json

ATTACKED, HONEST, SILENT, COLLUDER = range(4)
COLLUDERS = DROPOUTS = 1
COPIES = 5000
"""Copies of the question in one query; the five turns of four curators take as long as a hundred copies."""
PAIRS = 4
"""Pairs of sets of records that are tried. The audit of `counts`, which counts by the same code, tries many."""
_KEYS = tuple(SigningKey.from_seed(digest(b"an example of expril, curator %d" % place)) for place in range(4))
_PARTICIPANTS = tuple(sorted(key.public for key in _KEYS))
_INDEX = tuple(_PARTICIPANTS.index(key.public) for key in _KEYS)
"""Place -> index among the participants."""


def _pooled(single: Example) -> Example:
    @lru_cache(maxsize=4)
    def ask(copies: int) -> AuditQuery:
        return AuditQuery(_planned(single, copies), ())

    @lru_cache(maxsize=4)
    def counted(copies: int) -> _Counted:
        (data,) = single.ask(copies).bodies
        turn = Turn(ask(copies).planned)
        body = COUNTS.read_body(data, turn, KindTerms(single.schema, CountsLimits()))
        return _Counted(turn.planned, data, COUNTS.length(Question(turn, body, single.schema)))

    return Example(
        f"{', '.join(single.limits['release_kinds'])} of four curators, of which one colludes and one falls silent: "
        f"{single.about}",
        single.schema,
        ask,
        copies=COPIES,
        most_records_per_unit=single.most_records_per_unit,
        values=single.values,
        limits={**single.limits, "members": [key.hex() for key in _PARTICIPANTS]},
        pairs=PAIRS,
        company=Company(_KEYS[:COLLUDER], lambda asking: _lead(counted(asking.copies), asking)),
    )


class _Counted(NamedTuple):
    """A question that is asked in several copies."""

    planned: PlannedSecureCounts  # as it is planned
    counts: bytes  # the encoded body of the `counts` query
    length: int  # numbers of its answer


def _planned(single: Example, copies: int) -> PlannedSecureCounts:
    counted = single.ask(copies).planned
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
    """Lead the five turns as an honest learner does. Only the use of the answers is an attack.

    The question is always the same, since fresh key cards make each time a new round.
    """
    group, sent = counted.planned.group(LABEL), AskKeys(counted.counts, bytes(NONCE))
    question = question_digest(asking.learner, Turn(counted.planned, asking.query), sent)
    machine = Aggregator(group, question, counted.length)
    colluder = _Colluder(group, question, counted.length, asking.entropy)
    replies = yield dict.fromkeys((ATTACKED, HONEST, SILENT), encode(sent))
    cards = machine.take_cards(_by_index(replies, KeyCard, colluder.card))
    replies = yield dict.fromkeys((ATTACKED, HONEST, SILENT), encode(RelayCards(cards)))
    sealed = {index: reply.shares for index, reply in _by_index(replies, SealedShares, colluder.deal(cards)).items()}
    relayed = machine.take_shares(sealed)
    bodies = {place: RelayShares(*relayed[_INDEX[place]], sent.counts, sent.nonce) for place in (ATTACKED, HONEST)}
    replies = yield {place: encode(body) for place, body in bodies.items()}
    masked = _by_index(replies, MaskedCounts, colluder.mask(*relayed[_INDEX[COLLUDER]]))
    survivors = machine.take_masked({index: as_words(reply.words) for index, reply in masked.items()})
    replies = yield dict.fromkeys((ATTACKED, HONEST), encode(ProposeSurvivors(survivors)))
    agreed = _by_index(replies, Agreement, colluder.agree(survivors))
    agreements = machine.take_agreements({index: reply.signature for index, reply in agreed.items()})
    replies = yield dict.fromkeys((ATTACKED, HONEST), encode(OpenSum(survivors, agreements)))
    revealed = {index: reply.shares for index, reply in _by_index(replies, Revealed, colluder.reveal()).items()}
    opened = machine.take_revealed(revealed)
    unmasked = as_words(masked[_INDEX[ATTACKED]].words) - colluder.known_masks(revealed)
    return Observation(opened.values.reshape(asking.copies, -1), unmasked.view(np.int64).reshape(asking.copies, -1))


def _by_index(replies: Mapping[int, bytes], kind: type[Any], colluder_reply: Any) -> dict[int, Any]:
    """Join the releases of curators, by place, with the colluder's reply; all by index."""
    return {_INDEX[COLLUDER]: colluder_reply, **{_INDEX[place]: decode(data, kind) for place, data in replies.items()}}


class _Colluder:
    """The curator that colludes. It follows the rules, adds zeros, and tells the learner all that it knows."""

    def __init__(self, group: Group, question: bytes, length: int, entropy: Callable[[int], bytes]) -> None:
        self._group, self._length, self._entropy = group, length, entropy
        self.card, self._state = participant.begin(
            group, _KEYS[COLLUDER].public, question, length, entropy=entropy, sign=self._sign
        )

    def deal(self, cards: Cards) -> SealedShares:
        """Return the colluder's answer to turn 1."""
        self._cards = dict(cards)
        dealt, self._state = participant.share(self._group, self._state, cards, entropy=self._entropy)
        return SealedShares(dealt)

    def mask(self, dealers: tuple[int, ...], shares: Relayed) -> MaskedCounts:
        """Return the colluder's answer to turn 2."""
        nothing = np.zeros(self._length, np.int64)
        self._private = self._state.masking
        words, self._state = participant.mask(self._state, dealers, shares, nothing)
        return MaskedCounts(words.astype("<u8").tobytes())

    def agree(self, survivors: tuple[int, ...]) -> Agreement:
        """Return the colluder's answer to turn 3."""
        signature, self._state = participant.agree(self._state, survivors, sign=self._sign)
        return Agreement(signature)

    def reveal(self) -> Revealed:
        """Return the colluder's answer to turn 4."""
        return Revealed(participant.reveal(self._state))

    def known_masks(self, revealed: Mapping[int, Relayed]) -> Words:
        """Add up the attacked vector's masks that follow from the colluder's keys and the revealed shares."""
        state, attacked, silent = self._state, _INDEX[ATTACKED], _INDEX[SILENT]
        dealers = list_digest(DEALERS, state.dealers)
        seed = self._recovered(attacked, revealed, lambda secret: seed_check(secret) == self._cards[attacked].check)
        key = self._recovered(silent, revealed, lambda secret: public_of(secret) == self._cards[silent].masking)
        total: Words = participant.self_mask(seed, state.round, dealers, self._length).copy()
        public = self._cards[attacked].masking
        for index, private in ((state.index, self._private), (silent, key)):
            total -= participant.pair_masks(private, index, [(attacked, public)], state.round, dealers, self._length)
        return total

    def _recovered(self, index: int, revealed: Mapping[int, Relayed], fits: Callable[[bytes], bool]) -> bytes:
        graph, place = self._state.graph(self._group), self._state.joined.index(index)
        shares = {
            self._state.joined.index(holder) + 1: dict(relayed_shares)[index]
            for holder, relayed_shares in revealed.items()
        }
        secret = shamir.recover(shares, graph.threshold(place), fits)
        if secret is None:
            raise ConfigurationError("an example's round cannot be opened")
        return secret[0]

    def _sign(self, type_name: str, payload: bytes) -> bytes:
        return _KEYS[COLLUDER].sign(statement_bytes(LABEL, type_name, payload))


class SecureCountsAudit(CountsAudit):
    """The auditor's half of `secure_counts`: the cost is that of `counts`, and notes say who sums."""

    kind = SECURE_COUNTS
    generator = ""
    excuses: ClassVar[Mapping[str, str]] = {
        "generator": "its turns hold what other curators said, so its examples lead them",
        "oracle": "its counts are those of `counts`, which has one; a curator here adds a share of noise by itself",
    }

    def oracle(self, case: Case) -> Sequence[int] | None:
        """Return None: see `excuses`."""
        return None

    def hostile(self, planned: Any, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return first turns whose counts are hostile to `counts`."""
        sent = decode(bodies[0], AskKeys)
        wrong = super().hostile(planned, (sent.counts,), schema)
        return {name: encode(AskKeys(counts, sent.nonce)) for name, counts in wrong.items()}

    condition = (
        "while at most t of a sum's sites tell the learner all they know; a site whose ledger was put back within the "
        "sum is one of those"
    )

    def check_note(self, note: str, turn: Turn, keys: Collection[bytes]) -> str:
        """Check that the notes of turns 1, 2 and 4 are as `SecureCounts.charge_note` writes them for this plan."""
        planned = turn.planned
        if turn.number not in (SHARES, MASKED, OPENED):
            return "says of a turn what it does not tell" if note else ""
        try:
            entry = decode_json(note, Note, where="the note")
        except ConfigurationError:
            return "does not say who sums"
        group = (len(planned.participants), planned.colluders, planned.dropouts, planned.shares)
        if (entry.sites, entry.colluders, entry.dropouts, entry.shares) != group:
            return f"sums for other sites, colluders, dropouts and shares than the plan's {', '.join(map(str, group))}"
        names_round, names_survivors = (entry.round is not msgspec.UNSET, entry.survivors is not msgspec.UNSET)
        if (names_round, names_survivors) != (turn.number == SHARES, turn.number == OPENED):
            return "does not name the round with the second turn, and those summed over with the last"
        if isinstance(entry.survivors, msgspec.UnsetType):
            return ""
        curator = {place for place, key in enumerate(planned.participants) if key in keys}
        most, survivors = len(planned.participants), set(entry.survivors)
        if list(entry.survivors) != sorted(survivors) or not survivors <= set(range(most)):
            return f"opens a sum over others than the {most} sites of the plan"
        if len(survivors) < (least := planned.shares + planned.colluders):
            return f"opens a sum over {len(survivors)} sites, and the plan needs {least}"
        return "" if curator & survivors else "opens a sum that its curator is not in"

    def joint_action(self, notes: Sequence[str]) -> tuple[str, str] | None:
        """Return the round, and the sites over which it was opened; None if the notes do not say both."""
        try:
            deal, opening = (decode_json(notes[place], Note, where="the note") for place in (SHARES, OPENED))
        except (ConfigurationError, IndexError):
            return None
        if isinstance(deal.round, msgspec.UnsetType) or isinstance(opening.survivors, msgspec.UnsetType):
            return None
        return f"the secure sum {deal.round[:16]}", f"opened over sites {', '.join(map(str, opening.survivors))}"

    def claimed_law(self, case: Case) -> Law:
        """Return the exact sum with one share of noise of each honest curator, and words under a mask.

        The exact numbers are the curators' own. The plan says the scale, and into how many shares a noise is split.
        """
        numbers, planned = case.trace(()).numbers, case.planned
        law, honest = planned.law, (ATTACKED, HONEST)
        share = LaplaceShares(law.scale, Fraction(1, planned.shares))
        total = LaplaceShares(law.scale, Fraction(len(honest), planned.shares))
        drawn = tuple((np.zeros(numbers.size, np.int64), share) for _ in honest)
        return Independent((NoisyNumbers.of(numbers, total, drawn), Masked(numbers.size)), (numbers.size, numbers.size))

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return the shortest question of `counts` for each release kind, asked of four curators."""
        return {"": [_pooled(single) for single in map(shortest_of, RELEASE_KINDS) if single is not None]}

    def view_planned(self, planned: Any, most_records_per_unit: int) -> dict[str, Any]:
        """Show the cost as for `counts`, and who sums, with n, t, u and h as in docs/explanation/secure-sums.md."""
        sites, colluders, dropouts = len(planned.participants), planned.colluders, planned.dropouts
        return super().view_planned(planned, most_records_per_unit) | {
            "n": sites,
            "t": colluders,
            "u": dropouts,
            "h": planned.shares,
            "participants": [key.hex() for key in planned.participants],
            "who": f", over {sites} sites (n), of whom at most {colluders} collude (t) and {dropouts} drop out (u)",
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show what a turn asks or relays; RemoteProtocolError if the bytes are none of the five bodies."""
        body = _one_of(data, BODIES)
        match body:
            case AskKeys():
                return {"turn": "keys", **super().view_question(body.counts, schema)}
            case RelayCards():
                return {"turn": "shares", "cards": [index for index, _ in body.cards]}
            case RelayShares():
                holders = [index for index, _ in body.shares]
                turn = {"turn": "masked", "dealers": list(body.dealers), "shares": holders}
                return turn | super().view_question(body.counts, schema)
            case ProposeSurvivors():
                return {"turn": "agreed", "survivors": list(body.survivors)}
        opening: OpenSum = body
        signed = [index for index, _ in opening.agreements]
        return {"turn": "opened", "survivors": list(opening.survivors), "signed by": signed}

    def view_release(self, data: bytes) -> list[str]:
        """Return masked words as text, nothing for other turns; RemoteProtocolError if the bytes are no release."""
        release = _one_of(data, RELEASES)
        return unpacked(release.words, "Q") if isinstance(release, MaskedCounts) else []


def _one_of(data: bytes, types: tuple[type[Any], ...]) -> Any:
    """Decode bytes as the first type that fits; the types differ in their fields."""
    for struct in types[:-1]:
        try:
            return decode(data, struct)
        except RemoteProtocolError:
            continue
    return decode(data, types[-1])
