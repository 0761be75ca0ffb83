"""A secure sum: its faults one by one, every pattern of dropouts, and one encoding of every message."""

import contextlib
import copy
import random
from itertools import chain, combinations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.kinds.secure_counts import (
    BODIES,
    RELEASES,
    Agreement,
    AskKeys,
    MaskedCounts,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    Revealed,
    SealedShares,
)
from protocol.secure_sum import masks, participant, shamir
from protocol.secure_sum.aggregator import STEPS, SumFailedError
from protocol.secure_sum.group import Group, KeyCard, make_card, seed_check
from protocol.secure_sum.participant import GONE, Neighbour, State, encode_state
from secure_rounds import QUESTION, Curators, circulant, entropy_of, hermit, lead, quick_exchange
from secure_world import World

UNKNOWN = (
    "its secret cannot be recovered from the shares that came: it dealt wrong ones, or holders gave wrong ones or none"
)


def refused(field):
    return pytest.raises(RemoteProtocolError, match=rf"bad_query: body\.{field}")


@pytest.fixture
def curators():
    """Four, true signatures: t = u = 1."""
    return Curators(4, 1, 1, true=True)


@pytest.fixture
def cards(curators):
    return curators.aggregator().take_cards({index: curators.begin(index) for index in range(4)})


@pytest.fixture
def dealt(curators, cards):
    machine = curators.aggregator()
    machine.take_cards(dict(cards))
    curators.machine = machine
    return machine.take_shares({index: curators.share(index, cards) for index in range(4)})


@pytest.fixture
def survivors(curators, dealt):
    masked = {index: curators.mask(index, *dealt[index]) for index in range(4)}
    return curators.machine.take_masked(masked)


@pytest.fixture
def agreements(curators, survivors):
    signed = {index: curators.agree(index, survivors) for index in survivors}
    return tuple(signed.items())


# key cards


def test_a_stranger_takes_no_part():
    curators = Curators(4, 1, 1)
    with refused("participants"):
        participant.begin(curators.group, bytes(32), QUESTION, 3, entropy=entropy_of(0), sign=curators.signer(0))


@pytest.mark.parametrize("name", ["sealing", "masking", "check"])
def test_a_relay_that_swaps_a_key_is_refused_and_its_card_is_left_out(name, curators, cards):
    swapped = msgspec.structs.replace(cards[2][1], **{name: bytes(31) + b"\x09"})
    with refused(r"cards\[2\]"):
        curators.share(0, (*cards[:2], (2, swapped), cards[3]))
    machine = curators.aggregator()
    assert machine.take_cards({**dict(cards), 2: swapped}) == (cards[0], cards[1], cards[3])
    assert machine.out == {2: "its key card is not signed by it for this question"}


@pytest.mark.parametrize("other", ["question", "group", "signer", "participant"])
def test_a_stale_or_foreign_card_is_refused(other, curators, cards):
    """Of an earlier question, of a group with other numbers, by another key, or of somebody else."""
    group, question, signer = curators.group, QUESTION, 2
    if other == "question":
        question = bytes(32)
    elif other == "group":
        group = Group(group.participants, 2, 0, group.label)
    elif other == "signer":
        signer = 3
    card = cards[2][1]
    foreign = make_card(group, question, (card.sealing, card.masking, card.check), curators.signer(signer))
    with refused(r"cards\[2\]"):
        curators.share(0, (*cards[:2], (2, foreign if other != "participant" else cards[3][1]), cards[3]))


def test_what_one_curator_of_a_process_has_checked_excuses_no_other_bytes(curators, cards):
    forged = msgspec.structs.replace(cards[2][1], signature=cards[3][1].signature)
    for index in (0, 1):
        participant.check_cards(curators.group, curators.states[index], cards)
        with refused(r"cards\[2\]"):
            participant.check_cards(curators.group, curators.states[index], (*cards[:2], (2, forged), cards[3]))


def test_a_curator_wants_its_own_newest_card(curators, cards):
    curators.salt = 1
    curators.begin(0)
    with refused("cards: this curator's own card"):
        curators.share(0, cards)
    with refused("cards: this curator's own card"):
        curators.share(0, cards[1:])


@pytest.mark.parametrize(
    "wrong", [lambda c: c[:2], lambda c: c[::-1], lambda c: (*c, c[3]), lambda c: (*c[:3], (4, c[3][1]))]
)
def test_lists_of_cards_that_are_too_short_or_out_of_order_are_refused(wrong, curators, cards):
    with refused("cards"):
        curators.share(0, wrong(cards))


@pytest.mark.parametrize("kind", ["zeros", "copied"])
def test_a_colluder_with_copied_keys_or_keys_of_small_order_learns_nothing_more(kind):
    world = World(5, 1, 1)
    honest = [world.begin(index) for index in (1, 2, 3, 4)]
    world.collude(0, kind, honest[0].card)
    cards = tuple((index, each[0]) for index, each in world.cards.items())
    for session in honest:
        world.share(session, cards)
    for session in honest:
        world.mask(session, (0, 1, 2, 3, 4))
    for session in honest:
        world.agree(session, (0, 1, 2, 3, 4))
    assert world.known() == set()
    for session in honest:
        world.reveal(session, session.survivors, world.agreements(session, session.survivors))
    world.check()
    assert len(world.exposed()) == 1


# shares and masked vectors


def test_dealers_are_checked(curators, dealt):
    dealers, shares = dealt[0]
    for wrong in [(0, 1), (1, 2, 3), (0, 2, 1, 3), (0, 1, 2, 4)]:
        with refused("dealers"):
            curators.mask(0, wrong, shares)
    for wrong in [shares[:2], shares[::-1], (*shares, shares[0])]:
        with refused("shares"):
            curators.mask(0, dealers, wrong)


def test_shares_of_another_round_do_not_open_and_whose_secret_is_missing_is_said():
    curators, foreign = Curators(4, 1, 1), {}
    lead(Curators(4, 1, 1, salt=7), spoil=lambda step, answers: foreign.update({step: answers}) or answers)
    with pytest.raises(SumFailedError) as failed:
        lead(curators, spoil=lambda step, answers: {**answers, 2: foreign[1][2]} if step == 1 else answers)
    assert failed.value.step == "opened"
    assert failed.value.out == {2: UNKNOWN}
    assert 2 not in dict(curators.states[0].shares)


def test_whose_shares_do_not_fit_its_card_is_named():
    """Its shares are of another seed than its card says."""
    curators = Curators(4, 1, 1)
    states = curators.states

    def spoil(step, answers):
        if step == 0:
            states[1] = msgspec.structs.replace(states[1], seed=bytes(32))
        return answers

    with pytest.raises(SumFailedError) as failed:
        lead(curators, spoil=spoil)
    assert failed.value.out == {1: UNKNOWN}


def test_of_two_nobody_is_said_to_lie_whether_the_dealer_or_the_holder_did():
    """Both look alike to a learner, so the holder's lie must not be laid at the dealer's door."""
    failures = []
    for liar in ("dealer", "holder"):
        curators = Curators(2, 1, 0)
        states = curators.states

        def spoil(step, answers, liar=liar, states=states):
            if (liar, step) == ("dealer", 0):
                states[1] = msgspec.structs.replace(states[1], seed=bytes(32))
            if (liar, step) == ("holder", 4):
                return {**answers, 0: tuple((dealer, bytes(len(share))) for dealer, share in answers[0])}
            return answers

        with pytest.raises(SumFailedError) as failed:
            lead(curators, spoil=spoil)
        failures.append((failed.value.step, list(failed.value.out.values())))
    assert failures == [("opened", [UNKNOWN])] * 2


def test_wrong_shares_of_a_holder_are_named_and_the_sum_still_opens():
    """Ten participants: up to (10 - 6) / 2 of a secret's ten shares may be wrong."""
    curators = Curators(10, 1, 2)

    def spoil(step, answers):
        if step == 4:
            answers[3] = tuple((dealer, bytes(shamir.SHARE)) for dealer, _ in answers[3])
            answers[5] = tuple((dealer, share[:-1]) for dealer, share in answers[5])
            answers[6] = (*answers[6], (11, b""), (3, answers[6][3][1]))
        return answers

    _, opened = lead(curators, spoil=spoil)
    assert set(opened.liars) == {3, 5}
    assert "its share of a secret of participant" in opened.liars[3]
    np.testing.assert_array_equal(opened.values, curators.total(range(10)))


def test_who_deals_to_too_few_or_shares_of_a_wrong_length_is_out():
    curators = Curators(6, 1, 2)

    def spoil(step, answers):
        if step == 1:
            answers[2] = answers[2][1:]
            answers[4] = tuple((holder, share[1:]) for holder, share in answers[4])
        return answers

    machine, opened = lead(curators, spoil=spoil)
    assert machine.out == dict.fromkeys((2, 4), "it dealt no share, or a wrong one, to some of its neighbours")
    assert opened.survivors == (0, 1, 3, 5)
    np.testing.assert_array_equal(opened.values, curators.total((0, 1, 3, 5)))


def test_a_masked_vector_of_a_wrong_length_leaves_its_sender_out():
    curators = Curators(4, 1, 1)
    machine, opened = lead(curators, spoil=lambda step, told: {**told, 1: told[1][1:]} if step == 2 else told)
    assert machine.out == {1: "its masked vector has not 3 numbers"}
    np.testing.assert_array_equal(opened.values, curators.total((0, 2, 3)))
    with pytest.raises(ValueError, match="its length was said to be 3"):
        participant.mask(curators.states[0], (), (), np.zeros(2, np.int64))


def test_masks_of_different_lists_of_dealers_do_not_cancel():
    """What is opened then is noise of 64 bits in every number."""
    curators = Curators(4, 1, 1)
    machine = curators.aggregator()
    cards = machine.take_cards({index: curators.begin(index) for index in range(4)})
    dealt = machine.take_shares({index: curators.share(index, cards) for index in range(4)})
    among = (0, 1, 2)
    stray = curators.mask(0, among, tuple(pair for pair in dealt[0].shares if pair[0] in among))
    machine.take_masked({0: stray} | {index: curators.mask(index, *dealt[index]) for index in (1, 2, 3)})
    everybody = (0, 1, 2, 3)
    machine.take_agreements({index: curators.agree(index, everybody) for index in (1, 2, 3)})
    agreements = tuple(
        (index, curators.signer(index)("secure_sum_survivors", survivors_of(curators, index))) for index in (1, 2, 3)
    )
    revealed = {index: curators.reveal(index, everybody, agreements) for index in (1, 2, 3)}
    opened = machine.take_revealed(revealed).values
    assert (np.abs(opened.astype(float)) > 2**45).any()


def survivors_of(curators, index):
    state = curators.states[index]
    return participant.survivors_payload(state.round, state.dealers, state.survivors)


# one list


def test_survivor_lists_are_checked(curators, survivors):
    for wrong in [(0, 1), (1, 2, 3), (0, 2, 1, 3), (0, 0, 1, 2), (0, 1, 2, 4)]:
        with refused("survivors"):
            curators.agree(0, wrong)


def test_a_curator_signs_one_list_only(curators, survivors):
    curators.agree(0, (0, 1, 2))
    for again in [(0, 1, 2), survivors]:
        with refused("turn"):
            curators.agree(0, again)


def test_signatures_on_different_lists_open_nothing(curators, survivors):
    """The learner shows (0, 1, 2) to two of them and (0, 1, 2, 3) to the other two: three of four must sign one."""
    few = {index: curators.agree(index, (0, 1, 2)) for index in (0, 1)}
    all_four = {index: curators.agree(index, survivors) for index in (2, 3)}
    mixed = tuple((few | all_four).items())
    for index, own in [(0, (0, 1, 2)), (2, survivors)]:
        with refused("agreements"):
            curators.reveal(index, own, mixed[:3])
        with refused("survivors: the list that this curator signed"):
            curators.reveal(index, (1, 2, 3), mixed[:3])
    with refused("agreements: at least 3"):
        curators.reveal(0, (0, 1, 2), mixed[:2])


def test_agreements_are_checked(curators, survivors, agreements):
    forged = (*agreements[1:3], (3, agreements[2][1]))
    for wrong in [
        agreements[:2],
        (agreements[0],) * 3,
        agreements[::-1],
        forged,
        (*agreements[:2], (4, agreements[2][1])),
    ]:
        with refused("agreements"):
            curators.reveal(0, survivors, wrong)
    assert curators.reveal(0, survivors, agreements[1:]) == curators.reveal(0, survivors, agreements[:3])


def test_a_signature_that_the_learner_gets_wrong_is_left_out(curators):
    def spoil(step, answers):
        return {**answers, 1: answers[0]} if step == 3 else answers

    machine, opened = lead(curators, spoil=spoil)
    assert machine.out == {1: "it did not sign the survivor list that it was shown"}
    np.testing.assert_array_equal(opened.values, curators.total(range(4)))


def test_of_no_dealer_are_both_shares_revealed(curators, survivors):
    """Having opened with everybody, a learner asks again as if participant 1 had dropped out."""
    signed = tuple((index, curators.agree(index, survivors)) for index in survivors)
    revealed = dict(curators.reveal(0, survivors, signed))
    both = dict(curators.states[0].shares)[1]
    assert revealed[1] == both[shamir.SHARE :]
    with refused("survivors"):
        curators.reveal(0, (0, 2, 3), signed)
    with refused("turn"):
        curators.agree(0, (0, 2, 3))
    dropped = Curators(4, 1, 1)
    answers = []
    lead(dropped, [range(4), range(4), (0, 2, 3), (0, 2, 3), (0, 2, 3)], lambda _, told: answers.append(told) or told)
    both = dict(dropped.states[0].shares)
    assert dict(answers[4][0]) == {index: both[index][:33] if index == 1 else both[index][33:] for index in range(4)}


@pytest.mark.parametrize("step", range(4))
def test_no_step_is_taken_out_of_order_or_with_another_group(step, curators, agreements, dealt, cards, survivors):
    calls = [
        lambda each: each.share(0, cards),
        lambda each: each.mask(0, *dealt[0]),
        lambda each: each.agree(0, survivors),
        lambda each: each.reveal(0, survivors, agreements),
    ]
    for number, call in enumerate(calls):
        curators.states[0] = msgspec.structs.replace(curators.states[0], step=step + 1)
        if number != step:
            with refused("turn"):
                call(curators)
    curators.group = Group(curators.group.participants, 2, 0, curators.group.label)
    with refused("turn"):
        calls[step](curators)


def test_a_replayed_round_is_another_round():
    """The same question to the same curators: other keys, so other masks, and signatures that do not carry over."""
    first, second, told = Curators(4, 1, 1), Curators(4, 1, 1, salt=1), {}
    lead(first, spoil=told.setdefault)
    machine, again = second.aggregator(), {}
    cards = machine.take_cards({index: second.begin(index) for index in range(4)})
    dealt = machine.take_shares({index: second.share(index, cards) for index in range(4)})
    for index in range(4):
        again[index] = second.mask(index, *dealt[index])
        second.agree(index, (0, 1, 2, 3))
        assert not (again[index] == told[2][index]).any()
    with refused(r"agreements\[1\]"):
        second.reveal(0, (0, 1, 2, 3), tuple(told[3].items()))


# sparse graphs


def test_a_curator_that_was_shown_other_dealers_than_the_rest_is_not_singled_out(monkeypatch):
    """Twelve in a ring. Participant 6 is told of dealers among whom only participant 5 is its neighbour; to all others
    5 is said to have dropped out. Its one pair mask would follow from the key that they reveal of 5, its self mask from
    the shares of its seed: it refuses such a list.
    """
    monkeypatch.setattr(participant, "graph_of", circulant)
    world = World(12, 1, 5)
    world.collude(0)
    honest = [world.begin(index) for index in range(1, 12)]
    cards = tuple((index, each[0]) for index, each in world.cards.items())
    for session in honest:
        world.share(session, cards)
    everybody, victim = tuple(range(12)), honest[5]
    with refused("dealers: enough neighbours of this curator"):
        world.mask(victim, (0, 1, 2, 5, 6, 10, 11))
    monkeypatch.setattr(participant, "out_of_reach", lambda *_: [])
    world.mask(victim, (0, 1, 2, 5, 6, 10, 11))
    monkeypatch.undo()
    monkeypatch.setattr(participant, "graph_of", circulant)
    for session in honest:
        if session is not victim:
            world.mask(session, everybody)
    survivors = tuple(index for index in everybody if index != 5)
    for session in honest:
        if session.index not in (5, 6):
            world.agree(session, survivors)
    for session in honest:
        if session.index not in (5, 6):
            world.reveal(session, survivors, world.agreements(session, survivors))
    assert frozenset({victim}) in world.exposed(), "without the refusal its vector would be open"


def test_a_list_that_too_few_neighbours_of_a_survivor_signed_is_not_opened(monkeypatch):
    """Twelve in a ring, seven signatures are enough by number; of the seven holders of 6, five must have signed."""
    monkeypatch.setattr(participant, "graph_of", circulant)
    curators = Curators(12, 1, 5)
    machine = curators.aggregator()
    cards = machine.take_cards({index: curators.begin(index) for index in range(12)})
    dealt = machine.take_shares({index: curators.share(index, cards) for index in range(12)})
    survivors = machine.take_masked({index: curators.mask(index, *dealt[index]) for index in range(12)})
    signed = {index: curators.agree(index, survivors) for index in survivors}
    few = tuple((index, signed[index]) for index in (0, 1, 2, 3, 4, 9, 10, 11))
    with refused("agreements: enough neighbours of each survivor"):
        curators.reveal(0, survivors, few)
    with pytest.raises(SumFailedError):
        machine.take_agreements(dict(few))
    relayed = machine.take_agreements(signed)
    assert len(relayed) == 12, "the first seven alone are not enough"
    assert curators.reveal(0, survivors, relayed)


# what is kept, and how it looks


def test_a_secret_leaves_the_state_when_no_step_needs_it_any_more():
    curators = Curators(4, 1, 1)
    seen = {}

    def spoil(step, answers):
        seen[step] = curators.states[0]
        return answers

    lead(curators, spoil=spoil)
    assert [GONE in (state.sealing, state.masking, state.seed) for state in seen.values()] == [
        False,
        True,
        True,
        True,
        True,
    ]
    assert seen[1].sealing == seen[2].masking == seen[2].seed == GONE
    assert seen[2].neighbours == ()


def test_a_state_shows_no_secret_as_text_and_neither_does_an_error():
    curators = Curators(4, 1, 1)
    states = []
    lead(curators, spoil=lambda _, told: states.append(dict(curators.states)) or told)
    for state in [each for step in states for each in step.values()]:
        text = f"{state!r} {state} {[state]} {state.neighbours}"
        for secret in [state.sealing, state.masking, state.seed, *(both for _, both in state.shares)]:
            for part in (secret, secret[:8], secret[-8:]):
                assert repr(part)[2:-1] not in text
                assert part.hex() not in text
        assert len(text) < 400
        assert decode(encode_state(state), State) == state


def test_a_card_vouches_for_the_seed_and_not_for_another():
    assert seed_check(bytes(32)) != seed_check(bytes(31) + b"1")
    assert len(seed_check(bytes(32))) == 32


INDEX = st.integers(0, 999)
INDICES = st.lists(INDEX, max_size=4).map(tuple)
KEY32, NONCE, SIGNATURE, FREE = (
    st.binary(min_size=size, max_size=most) for size, most in [(32, 32), (16, 16), (64, 64), (0, 40)]
)
CARD = st.builds(KeyCard, KEY32, KEY32, KEY32, SIGNATURE)


def lists_of(value):
    return st.lists(st.tuples(INDEX, value), max_size=3).map(tuple)


RELAYS = lists_of(st.binary(min_size=1, max_size=200))
NEIGHBOURS = st.lists(st.builds(Neighbour, INDEX, KEY32, KEY32), max_size=2).map(tuple)
SHAPES = {
    AskKeys: (FREE, NONCE),
    RelayCards: (lists_of(CARD),),
    RelayShares: (INDICES, RELAYS, FREE, NONCE),
    ProposeSurvivors: (INDICES,),
    OpenSum: (INDICES, lists_of(SIGNATURE)),
    KeyCard: (KEY32, KEY32, KEY32, SIGNATURE),
    SealedShares: (RELAYS,),
    MaskedCounts: (FREE,),
    Agreement: (SIGNATURE,),
    Revealed: (RELAYS,),
    State: (INDEX, INDEX, KEY32, KEY32, INDEX, *[KEY32] * 3, CARD, FREE, INDICES, NEIGHBOURS, RELAYS, INDICES, INDICES),
}


def test_every_body_and_release_is_tried():
    assert {*BODIES, *RELEASES} <= set(SHAPES)


@settings(max_examples=10)
@given(data=st.data())
@pytest.mark.parametrize("kind", SHAPES)
def test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does(kind, data):
    value = data.draw(st.builds(kind, *SHAPES[kind]))
    sent = encode(value)
    assert decode(sent, kind) == value
    place, bit = data.draw(st.integers(0, len(sent) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(sent)
    changed[place] ^= 1 << bit
    for other in (bytes(changed), sent + b"\0", sent[:-1]):
        assert reading(other, kind) in (None, other)


test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does_at_length = at_length(
    test_what_is_sent_or_kept_reads_back_alike_and_nothing_else_does, 25
)


def reading(data, kind):
    """What the value that was read is written as; None where it is malformed."""
    with contextlib.suppress(RemoteProtocolError):
        return encode(decode(data, kind))
    return None


GROUPS = [
    (sites, colluders, dropouts)
    for sites in range(2, 7)
    for dropouts in range(sites)
    for colluders in range(1, sites)
    if sites > 2 * dropouts + colluders
]


def fails_at(group, counts):
    """The first step, of those that have been, with too few left: from the rules' text alone.

    At most u may be gone when the survivor list is signed, and more than half of holders and colluders together give a
    secret back; holders are all who sent a key card.
    """
    sites, colluders, dropouts = group
    for step, left in zip(STEPS, counts, strict=False):
        enough = left > (counts[0] + colluders) / 2 if step == "opened" else sites - left <= dropouts
        if not enough:
            return step
    return None


def subsets(of):
    return chain.from_iterable(combinations(of, size) for size in range(len(of) + 1))


def outcome(take, answers):
    """(what it gives, None), or (None, the failure)."""
    try:
        return take(answers), None
    except SumFailedError as error:
        return None, error


class Every:
    """Walks all patterns; a step with the same past is taken once, since states are values.

    A pattern says for each participant the step with which it falls silent, or that it never does: 6^n patterns.
    """

    def __init__(self, group):
        self.group, self.covered, self.opened = group, 0, 0
        self.curators = Curators(*group)
        self.exact = {}

    def walk(self):
        everybody = range(self.group[0])
        cards = {index: self.curators.begin(index) for index in everybody}
        self.step(0, everybody, self.curators.aggregator(), cards, self.curators.states, ())
        return self

    def step(self, number, before, machine, answers, states, counts):
        """Give each subset of the answers to a copy of the machine, and go on with who gave them."""
        for stay in subsets(before):
            trial = copy.copy(machine)
            trial.out = {}
            told = (*counts, len(stay))
            failure = fails_at(self.group, told)
            take = (trial.take_cards, trial.take_shares, trial.take_masked, trial.take_agreements)[number]
            relayed, error = outcome(take, {index: answers[index] for index in stay})
            if error is not None:
                assert error.step == failure, (stay, told)
                self.covered += (5 - number) ** len(stay)
                continue
            assert failure is None, (stay, told)
            (self.deal, self.mask, self.agree, self.reveal)[number](stay, trial, relayed, dict(states), told)

    def use(self, states, method, stay, *args):
        self.curators.states = states
        return {index: getattr(self.curators, method)(index, *args) for index in stay}

    def deal(self, stay, machine, cards, states, counts):
        answers = self.use(states, "share", stay, cards)
        self.step(1, stay, machine, answers, self.curators.states, counts)

    def mask(self, stay, machine, dealt, states, counts):
        assert machine.out == {}
        self.curators.states = states
        answers = {index: self.curators.mask(index, *dealt[index]) for index in stay}
        self.step(2, stay, machine, answers, states, counts)

    def agree(self, stay, machine, survivors, states, counts):
        assert survivors == stay
        answers = self.use(states, "agree", stay, survivors)
        self.sums = {}
        self.survivors = survivors
        self.step(3, stay, machine, answers, states, counts)

    def reveal(self, stay, machine, agreements, states, counts):
        shares = self.use(states, "reveal", stay, self.survivors, agreements)
        for last in subsets(stay):
            if last not in self.sums:  # what signatures were relayed changes nothing of what is revealed
                self.sums[last] = self.open(machine, {index: shares[index] for index in last})
            assert self.sums[last] == (fails_at(self.group, (*counts, len(last))) is None), (last, counts)
            self.covered += 1
            self.opened += self.sums[last]

    def open(self, machine, shares):
        opened, error = outcome(machine.take_revealed, shares)
        if error is not None:
            assert error.step == "opened"
            return False
        assert opened.survivors == self.survivors
        assert opened.liars == {}
        np.testing.assert_array_equal(opened.values, self.curators.total(self.survivors))
        return True


@pytest.mark.family(8)
@pytest.mark.parametrize("group", GROUPS)
def test_every_pattern_of_dropouts_gives_the_sum_of_the_survivors_or_the_failure_of_the_rules(group):
    every = Every(group).walk()
    assert every.covered == 6 ** group[0]
    assert every.opened > 0


@pytest.mark.family(1)
@pytest.mark.parametrize(
    ("group", "seed"),
    [((100, 5, 10), 1), ((100, 33, 33), 2), ((150, 5, 15), 3), pytest.param((150, 15, 45), 4, marks=pytest.mark.slow)],
)
def test_random_dropouts_of_many_participants(group, seed, monkeypatch):
    """Complete graph at 100, sparse at 150: as many as tolerated fall silent, some at each step."""
    monkeypatch.setattr(masks, "exchange", quick_exchange)
    draw = random.Random(seed)
    sites, _, dropouts = group
    gone = draw.sample(range(sites), dropouts)
    stays, left = [], list(range(sites))
    for number in range(5):
        left = [index for index in left if index not in gone[number * dropouts // 5 : (number + 1) * dropouts // 5]]
        stays.append(left)
    curators = Curators(*group)
    machine, opened = lead(curators, stays)
    assert opened.survivors == tuple(stays[2])
    assert machine.out == {}
    np.testing.assert_array_equal(opened.values, curators.total(stays[2]))


@pytest.mark.parametrize(("step", "name"), [(1, "shares"), (2, "masked"), (3, "agreed")])
def test_in_a_sparse_round_nobody_is_left_out_of_reach(step, name, monkeypatch):
    """Two of the four neighbours of participant 0 fall silent, of five that a round of twelve tolerates."""
    monkeypatch.setattr(participant, "graph_of", hermit)
    curators = Curators(12, 1, 5)
    few = [index for index in range(12) if index not in (1, 2)]
    stays = [range(12)] * step + [few] * (5 - step)
    if name == "shares":  # in time: the sum goes on without it
        machine, opened = lead(curators, stays)
        assert (machine.out, machine.stranded) == ({}, {0: "too few of its neighbours dealt"})
        assert opened.survivors == tuple(few[1:])
        np.testing.assert_array_equal(opened.values, curators.total(few[1:]))
        return
    with pytest.raises(SumFailedError) as failed:
        lead(curators, stays)
    assert failed.value.step == name
    assert failed.value.out == {0: "too few of its neighbours are left to give its secrets back"}
    assert str(failed.value).endswith("3 holders of participant 0 are left, 4 are needed")


@pytest.mark.family(2)
@pytest.mark.parametrize("group", [(2, 1, 0), (3, 1, 0), (4, 1, 1), (10, 2, 3), (50, 3, 8)])
def test_with_true_signatures(group):
    curators = Curators(*group, true=True)
    _, opened = lead(curators)
    np.testing.assert_array_equal(opened.values, curators.total(range(group[0])))


def test_the_sum_opens_when_more_shares_have_come():
    curators = Curators(4, 1, 1)
    given = {}
    machine, first = lead(curators, spoil=lambda step, answers: given.update(answers) or answers)
    few = {index: given[index] for index in (0, 1)}
    with pytest.raises(SumFailedError, match="'opened': 2 shares of the secret of participant 0 came, 3 are needed"):
        machine.take_revealed(few)
    np.testing.assert_array_equal(machine.take_revealed(given).values, first.values)
