"""A curator's side of secure sums, with real curators: what is charged when, what is refused, what is kept.

The learner here lies at every turn. What it and the relay may learn in the end is the subject of tests of
`protocol.secure_sum`; that every lie is refused, and changes nothing, is the subject of this file.
"""

import json
from collections import Counter
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from at_length import also_at_length
from command_line import run
from curator_fakes import (
    NOW,
    Learner,
    ZeroNoise,
    frame_of,
    hold,
    key,
    ledger_over,
    message_of,
    open_curator,
    policy,
    steward_file,
    toml,
)
from curator_node.key_files import read_key
from curator_node.ledger.checks import check
from curator_node.ledger.store import MemoryStore
from curator_node.ledger.studies import StudyKey
from curator_node.ledger.view import read
from curator_node.policy import read_policy
from curator_node.records.schema_file import SCHEMA
from curator_node.site import KEY, POLICY, assemble_site
from curator_node.steward.approval import summary, waiting_proposals
from curator_node.steward.check import check_site
from curator_node.steward.keyring import rotate
from curator_node.steward.new_site import init_site
from pooled import BODY, ERRORS, KIND, ROWS, Pool, body_of, names, planned_of, pool_with_file, request_like, rules_of
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.kinds.secure_counts import (
    SECURE_COUNTS,
    AskKeys,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
    SecureCountsLimits,
)
from protocol.limits import Limits
from protocol.messages import Refusal, StudyClosed
from protocol.partitions import CrossBins, FeatureBins, Range
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.secure_sum import shamir
from protocol.secure_sum.aggregator import SumFailedError, as_words
from protocol.secure_sum.group import make_card, seed_check
from protocol.secure_sum.participant import State, survivors_payload

EPSILON = Fraction(1, 30)
TURNS = ("keys", "shares", "masked", "agreed", "opened")


def ledger_of(pool, index):
    return check(pool.stores[index])


def charges(pool, index):
    return [Fraction(entry.amount) for entry in ledger_of(pool, index).entries if entry.kind == "charge"]


def stored(pool, index):
    """All that a refusal must not change."""
    store = pool.stores[index]
    return store.rows(0), dict(store._replies)


def state_of(pool, index):
    """What the curator keeps, opened with its own key."""
    session = pool.sessions[index]
    study = StudyKey(session.key.public, session.study)
    return pool.curators[index]._state(study, KIND)


def assert_refused(pool, index, body, field, code=RefusalCode.BAD_QUERY):
    """A lie is refused for a reason, changes nothing, and the true request is answered afterwards."""
    before = stored(pool, index)
    refusal = pool.ask(index, body)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (code, field), refusal
    assert stored(pool, index) == before


@pytest.mark.family(2)
@pytest.mark.parametrize(
    ("n", "colluders", "dropouts"), [(2, 1, 0), (3, 1, 0), (3, 2, 0), (4, 1, 1), (10, 2, 1), (10, 1, 4)]
)
def test_the_sum_is_that_of_all_counts_and_costs_each_what_one_query_costs(n, colluders, dropouts):
    rows = lambda index: [(f"p{k}", 10.0 * k, 0.0, "f", "no") for k in range(index + 1)]  # noqa: E731
    pool = Pool(n, colluders, dropouts, rows=rows)
    opened = pool.run()
    assert opened.survivors == tuple(range(n))
    np.testing.assert_array_equal(opened.values, pool.exact())
    for index in range(n):
        assert charges(pool, index) == [0, 0, EPSILON, 0, 0]
        assert ledger_of(pool, index).findings == ()
        assert ledger_of(pool, index).account.total_spent == EPSILON


@pytest.mark.slow
def test_fifty_curators_sum_though_five_fall_silent():
    """Two after they dealt, three more when the list was signed."""
    pool = Pool(50, 5, 5, rows=lambda index: [(f"p{k}", 10.0 * k, 0.0, "f", "no") for k in range(index + 1)])
    pool.keys()
    pool.shares()
    pool.masked([index for index in range(50) if index not in (7, 31)])
    pool.agreed()
    opened = pool.opened([index for index in pool.survivors if index not in (0, 12, 49)])
    assert len(opened.survivors) == 48
    np.testing.assert_array_equal(opened.values, pool.exact(who=pool.survivors))
    assert sum(charges(pool, 7)) == 0
    assert sum(charges(pool, 0)) == EPSILON


@pytest.mark.parametrize("release", ["mass", "error_correct", "signed_error", "class_counts"])
def test_whatever_is_counted_may_be_summed(release):
    pool = Pool(3, queries=(planned_of(3, release=release),))
    body = ERRORS if release in ("error_correct", "signed_error") else BODY
    np.testing.assert_array_equal(pool.run(body).values, pool.exact(body))


def test_each_draws_a_share_of_the_one_noise():
    pool = Pool(5, 2, 1)
    pool.run()
    for noise in pool.noises:
        ((size, parts, law, stamp),) = noise.calls
        assert (size, parts, law.scale, stamp.sequence) == (len(pool.exact()), 2, 30, 3)


def test_the_share_is_drawn_before_the_records_are_counted():
    """How long it takes to draw then tells nothing of the noise beside the count."""
    pool, order = Pool(3).until(2), []
    curator = pool.curators[0]

    class Watched:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            if name in ("exact", "count", "laplace_shares"):
                order.append(name)
            return getattr(self.inner, name)

    curator._dataset, curator._noise = Watched(curator._dataset), Watched(curator._noise)
    pool.masked()
    assert order == ["laplace_shares", "exact"]


def test_a_study_asks_several_sums_and_each_round_is_a_new_one():
    pool = Pool(3, queries=(planned_of(3), planned_of(3)))
    first = pool.run()
    cards = pool.cards
    second = pool.run(query=1)
    np.testing.assert_array_equal(first.values, second.values)
    assert all(one.masking != other.masking for (_, one), (_, other) in zip(cards, pool.cards, strict=True))
    assert charges(pool, 0) == [0, 0, EPSILON, 0, 0] * 2


@pytest.mark.parametrize("step", TURNS[1:])
def test_a_dropout_at_any_step_costs_it_what_it_was_charged_and_the_others_go_on(step):
    """One of four falls silent before it answers this turn, and all later ones."""
    pool = Pool(4, 1, 1, rows=lambda index: [ROWS[index]])
    left, silent = (0, 1, 3), 2
    for name in TURNS[:-1]:
        getattr(pool, name)(left if TURNS.index(name) >= TURNS.index(step) else None)
    opened = pool.opened(left)
    counted = left if step in ("shares", "masked") else range(4)
    assert opened.survivors == tuple(counted)
    np.testing.assert_array_equal(opened.values, pool.exact(who=counted))
    assert sum(charges(pool, silent)) == (0 if step in ("shares", "masked") else EPSILON)
    assert all(sum(charges(pool, index)) == EPSILON for index in left)


def test_the_ledger_says_who_summed_and_over_whom_it_was_opened():
    pool = Pool(4, 1, 1)
    pool.run_without_vector(2)
    notes = [entry.note for entry in ledger_of(pool, 0).entries if entry.kind == "charge"]
    sizes = {"sites": 4, "colluders": 1, "dropouts": 1, "shares": 2}
    assert [notes[0], notes[3]] == ["", ""]
    of_round = json.loads(notes[1])
    assert {key: of_round[key] for key in sizes} == sizes
    others = [entry.note for entry in ledger_of(pool, 3).entries if entry.kind == "charge"]
    assert others[1] == notes[1]  # all who sum together name the same round
    assert SECURE_COUNTS.note_words(notes[1]) == f"deals shares among 4 sites; the secure sum {of_round['round'][:16]}"
    assert json.loads(notes[2]) == sizes
    assert json.loads(notes[4]) == {**sizes, "survivors": [0, 1, 3]}
    assert SECURE_COUNTS.note_words(notes[2]) == (
        "a secure sum over 4 sites (n), at most 1 of them colluding (t), 1 dropping out (u); the noise of one is made "
        "of 2 shares (h)"
    )
    assert SECURE_COUNTS.note_words(notes[4]) == (
        "helped to open the sum over 3 of 4 sites; not among them, counted from 0 in the plan: 2"
    )
    for other in ("", "a purpose", "{}", notes[2][:-1]):
        assert SECURE_COUNTS.note_words(other) == other


def test_nothing_is_charged_before_the_masked_vector_and_a_failed_round_stays_charged():
    pool = Pool(3).until(2)
    assert ledger_of(pool, 0).account.total_spent == 0
    pool.masked()
    pool.sessions[0].close(NOW)
    closed = message_of(pool.handle[0](pool.sessions[0].pending))
    assert closed.refunded == "0"
    assert ledger_of(pool, 0).account.total_spent == EPSILON


def test_a_curator_whose_budget_is_spent_refuses_the_sum_and_keeps_its_keys():
    pool = Pool(3, rules=rules_of(3, cap="1/30")).until(2)
    pool.restart(0, rules_of(3, cap="1/40"))
    before = stored(pool, 0)
    refusal = pool.ask(0, pool.next_body(0, 2))
    assert refusal.code == RefusalCode.OVER_BUDGET
    assert stored(pool, 0) == before
    assert pool.noises[0].calls == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"participants": "stranger"}, "participants"),
        ({"participants": "unsorted"}, ""),
        ({"participants": "doubled"}, ""),
        ({"participants": "one"}, ""),
        ({"colluders": 1}, "colluders"),
        ({"colluders": 2, "dropouts": 1}, ""),
        ({"colluders": 4}, ""),
    ],
)
def test_a_plan_that_a_curator_does_not_sum_by_is_refused(wrong, field):
    """Of four members, with two colluders assumed at least."""
    members = tuple(key(name).public for name in names(4))
    lists = {
        "stranger": tuple(sorted((*members[:3], key("ann").public))),
        "unsorted": (members[1], members[0], *members[2:]),
        "doubled": (members[0], *members),
        "one": members[:1],
    }
    parts = {"colluders": 2, "dropouts": 0, "participants": members, **wrong}
    parts["participants"] = lists.get(parts["participants"], parts["participants"])
    pool = Pool(4, queries=(planned_of(4, **parts),), rules=rules_of(4, least_colluders=2), propose=False)
    refusal = pool.propose(0)
    assert isinstance(refusal, Refusal)
    if field:
        assert (refusal.code, refusal.field) == (RefusalCode.OVER_LIMIT, f"plan.queries[0].{field}")
    else:
        assert (refusal.code, refusal.field) == (RefusalCode.BAD_PLAN, "plan.queries.participants")
    assert ledger_of(pool, 0).account.studies == {}


def test_a_release_that_is_not_private_is_never_summed():
    pool = Pool(3, queries=(planned_of(3, release="paper_ratio"),), propose=False)
    refusal = pool.propose(0)
    assert (refusal.code, refusal.field) == (RefusalCode.BAD_PLAN, "plan.queries.release")


def test_a_curator_that_is_no_participant_takes_no_part():
    """It is a member by its policy, but not of this plan."""
    pool = Pool(4, queries=(planned_of(4, participants=sorted(key(name).public for name in names(4)[:3])),))
    assert_refused(pool, 3, AskKeys(BODY, pool.nonce), "plan.queries.participants", RefusalCode.BAD_PLAN)
    pool.sessions, pool.names = pool.sessions[:3], pool.names[:3]
    pool.keys(range(3))


def test_the_kind_is_off_unless_a_policy_names_it():
    pool = Pool(3, rules=policy(cap=10), propose=False)
    refusal = pool.propose(0)
    assert refusal.code == RefusalCode.KIND_NOT_ALLOWED
    assert KIND not in pool.card.limits.kinds
    nobody = Pool(3, rules=policy(cap=10, limits=Limits(kinds={KIND: {}})), propose=False)
    assert nobody.propose(0).field == "plan.queries[0].participants", "without members nobody sums"


def test_the_card_says_with_whom_a_curator_sums():
    pool = Pool(3, rules=rules_of(3, least_colluders=2), queries=(planned_of(3, 2),))
    limits = pool.card.limits.kinds[KIND]
    assert limits["members"] == [key(name).public.hex() for name in pool.names]
    assert limits["least_colluders"] == 2


def test_a_member_that_the_steward_takes_out_ends_the_open_sums_with_it():
    pool = Pool(3).until(2)
    members = tuple(key(name).public.hex() for name in pool.names[:2])
    pool.restart(0, rules_of(3, members=members))
    assert_refused(pool, 0, pool.next_body(0, 2), "plan.participants", RefusalCode.OVER_LIMIT)


def signed_card(pool, index, question=None):
    """A card that the participant signed, though not the one that it gave for this round."""
    sign = lambda type_name, payload: key(pool.names[index]).sign(pool.machine._group.signed(type_name, payload))  # noqa: E731
    card = dict(pool.cards)[index]
    asked = pool.machine._question if question is None else question
    return make_card(pool.machine._group, asked, (card.sealing, card.masking, seed_check(b"s" * 32)), sign)


def with_card(pool, index, card):
    return RelayCards(tuple((other, card if other == index else own) for other, own in pool.cards))


def test_cards_that_are_not_all_of_this_question_are_refused():
    pool = Pool(4, 1, 1).until(1)
    cards, own = pool.cards, dict(pool.cards)
    swapped = msgspec.structs.replace(own[2], masking=own[1].masking)
    wrong = {
        "cards[2]": [
            with_card(pool, 2, swapped),  # a relay sits between
            with_card(pool, 2, own[1]),  # another participant's
            with_card(pool, 2, signed_card(pool, 2, b"another question".ljust(32))),
            with_card(pool, 2, msgspec.structs.replace(own[2], signature=bytes(64))),
        ],
        "cards": [
            with_card(pool, 0, signed_card(pool, 0)),  # stale: it signed that one once, and has no key of it
            RelayCards(cards[1:]),  # without its own
            RelayCards(cards[:2]),  # below h + t
            RelayCards((cards[1], cards[0], *cards[2:])),
            RelayCards((cards[0], *cards)),
            RelayCards((*cards[:3], (7, own[3]))),  # nobody's index
        ],
    }
    for field, bodies in wrong.items():
        for body in bodies:
            assert_refused(pool, 0, body, f"body.{field}")
    assert_refused(pool, 0, b"\xc0", "body", RefusalCode.MALFORMED)
    assert_refused(pool, 0, AskKeys(BODY, pool.nonce), "body", RefusalCode.MALFORMED)
    pool.shares()
    pool.masked()
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact())


def test_a_card_of_an_earlier_round_does_not_fit_the_next():
    pool = Pool(3, queries=(planned_of(3), planned_of(3)))
    pool.run()
    stale = dict(pool.cards)
    pool.keys(query=1)
    assert_refused(pool, 0, with_card(pool, 1, stale[1]), "body.cards[1]")
    assert_refused(pool, 0, with_card(pool, 0, stale[0]), "body.cards")


def test_masked_vectors_are_given_for_the_question_that_was_signed_alone():
    pool = Pool(4, 1, 1).until(2)
    body = pool.relay(0)
    changed = {
        "body.counts": [
            msgspec.structs.replace(body, nonce=b"another nonce..."),
            msgspec.structs.replace(body, counts=body_of(40.0, 60.0)),
        ],
        "body.dealers": [
            msgspec.structs.replace(body, dealers=body.dealers[:2], shares=body.shares[:1]),  # below h + t
            msgspec.structs.replace(body, dealers=body.dealers[1:]),  # without itself
            msgspec.structs.replace(body, dealers=body.dealers[::-1]),
            msgspec.structs.replace(body, dealers=(*body.dealers, 9)),
        ],
        "body.shares": [
            msgspec.structs.replace(body, shares=body.shares[:-1]),  # a dealer without a share
            msgspec.structs.replace(body, shares=body.shares[::-1]),
            msgspec.structs.replace(body, shares=((0, body.shares[0][1]), *body.shares)),
            msgspec.structs.replace(body, shares=(*body.shares, body.shares[-1])),
        ],
    }
    for field, bodies in changed.items():
        for wrong in bodies:
            assert_refused(pool, 0, wrong, field)
    longer = msgspec.structs.replace(body, counts=body_of(30.0, 40.0, 60.0))
    assert_refused(pool, 0, longer, "body.counts")
    assert pool.noises[0].calls == []
    assert isinstance(pool.ask(0, body), msgspec.Struct)
    assert charges(pool, 0) == [0, 0, EPSILON]


def test_a_share_that_does_not_open_keeps_nobody_from_answering():
    """A malicious peer cannot make an honest curator fail after its charge: its share counts as one that never came."""
    pool = Pool(4, 1, 1, rows=lambda index: [ROWS[index]]).until(2)
    for index, dealt in pool.dealt.items():
        broken = tuple((dealer, bytes(len(share)) if dealer == 3 else share) for dealer, share in dealt.shares)
        pool.dealt[index] = dealt._replace(shares=broken)
    pool.masked()
    assert charges(pool, 0) == [0, 0, EPSILON]
    held = decode(state_of(pool, 0), State).shares
    assert [dealer for dealer, _ in held] == [0, 1, 2]
    pool.agreed()
    for index in range(4):
        assert isinstance(pool.ask(index, OpenSum(pool.survivors, pool.agreements)), msgspec.Struct)


def test_shares_that_a_relay_gives_to_another_recipient_open_for_nobody():
    pool = Pool(4, 1, 1).until(2)
    shares = {index: dict(dealt.shares) for index, dealt in pool.dealt.items()}
    shares[0][3], shares[1][3] = shares[1][3], shares[0][3]
    for index, dealt in pool.dealt.items():
        pool.dealt[index] = dealt._replace(shares=tuple(shares[index].items()))
    pool.masked()
    assert [dealer for dealer, _ in decode(state_of(pool, 0), State).shares] == [0, 1, 2]
    assert [dealer for dealer, _ in decode(state_of(pool, 2), State).shares] == [0, 1, 2, 3]
    pool.agreed()
    with pytest.raises(SumFailedError):  # two of four shares are no threshold; nobody is told a wrong sum
        pool.opened()


def test_a_peer_whose_key_is_of_small_order_keeps_nobody_from_answering():
    pool = Pool(3).until(1)
    group = pool.machine._group
    sign = lambda type_name, payload: key(pool.names[2]).sign(group.signed(type_name, payload))  # noqa: E731
    pool.cards = (
        *pool.cards[:2],
        (2, make_card(group, pool.machine._question, (bytes(32), bytes(32), bytes(32)), sign)),
    )
    for index in (0, 1):
        dealt = pool.ask(index, RelayCards(pool.cards))
        assert isinstance(dealt, msgspec.Struct), dealt
    before = pool.sessions[0].sequence
    shares = tuple((dealer, b"x" * 94) for dealer in (1, 2))
    masked = pool.ask(0, RelayShares((0, 1, 2), shares, BODY, pool.nonce))
    assert isinstance(masked, msgspec.Struct), masked
    assert pool.sessions[0].sequence == before + 1


def test_survivor_lists_below_h_and_t_are_not_signed():
    pool = Pool(4, 1, 1).until(3)
    for survivors in ((0, 1), (1, 2, 3), (0, 1, 9), (1, 0, 2, 3), (0, 0, 1, 2), ()):
        assert_refused(pool, 0, ProposeSurvivors(survivors), "body.survivors")
    assert pool.ask(0, ProposeSurvivors((0, 1, 2))) is not None


def test_only_dealers_survive():
    pool = Pool(4, 1, 1).until(1)
    pool.shares((0, 1, 2))
    pool.masked()
    assert_refused(pool, 0, ProposeSurvivors((0, 1, 2, 3)), "body.survivors")


def test_a_second_list_is_refused_before_and_after_a_restart():
    """That is why no two sums of one round are opened: their difference would be one curator's counts."""
    pool = Pool(4, 1, 1).until(3)
    pool.ask(0, ProposeSurvivors((0, 1, 2, 3)))
    sent = pool.sessions[0].transcript.envelopes[-2]
    second = request_like(ProposeSurvivors((0, 1, 2)), sent)
    for _ in range(2):
        refusal = message_of(pool.handle[0](second))
        assert refusal.code == RefusalCode.CHANGED_CONTENT
        pool.restart(0)
    assert message_of(pool.handle[0](sent)).sender == pool.curators[0].identity
    assert pool.handle[0](sent) == pool.sessions[0].transcript.envelopes[-1], "the same list: the same bytes"
    assert_refused(pool, 0, ProposeSurvivors((0, 1, 2)), "body", RefusalCode.MALFORMED)
    lists = [decode(state_of(pool, 0), State).survivors]
    assert lists == [(0, 1, 2, 3)]


def test_a_list_is_opened_by_its_signatures_alone():
    pool = Pool(10, 2, 1).until(4)
    good, survivors = pool.agreements, pool.survivors
    assert len(good) == pool.machine._group.signatures < len(survivors)
    last = good[-1][0]
    payload = survivors_payload(pool.machine._round, pool.machine._dealers, survivors)
    group = pool.machine._group

    def signed(index, what, type_name="secure_sum_survivors"):
        return (index, key(pool.names[index]).sign(group.signed(type_name, what)))

    other_list = survivors_payload(pool.machine._round, pool.machine._dealers, survivors[:-1])
    other_round = survivors_payload(bytes(32), pool.machine._dealers, survivors)
    stranger = (last, key("mallory").sign(group.signed("secure_sum_survivors", payload)))
    wrong = {
        "body.agreements": [good[:-1], (*good[:-1], good[-2]), good[::-1], (*good[:-1], (11, good[-1][1]))],
        f"body.agreements[{last}]": [
            (*good[:-1], stranger),
            (*good[:-1], (last, good[-2][1])),
            (*good[:-1], signed(last, other_list)),
            (*good[:-1], signed(last, other_round)),
            (*good[:-1], signed(last, payload, "secure_sum_card")),
        ],
    }
    for field, lists in wrong.items():
        for agreements in lists:
            assert_refused(pool, 0, OpenSum(survivors, agreements), field)
    assert_refused(pool, 0, OpenSum(survivors[:-1], good), "body.survivors")  # a list that it did not sign
    np.testing.assert_array_equal(pool.opened().values, pool.exact())


def test_both_shares_of_one_site_cannot_be_asked_for():
    """The list says of each dealer whether it survived; a second list would have to be another answer to this turn."""
    pool = Pool(4, 1, 1).until(4)
    state = decode(state_of(pool, 0), State)
    revealed = pool.ask(0, OpenSum(pool.survivors, pool.agreements))
    dealers = [dealer for dealer, _ in revealed.shares]
    assert dealers == sorted(set(dealers))
    assert all(both.endswith(dict(revealed.shares)[dealer]) for dealer, both in state.shares)
    sent = pool.sessions[0].transcript.envelopes[-2]
    again = request_like(OpenSum((0, 1, 2), pool.agreements), sent)
    for _ in range(2):
        assert message_of(pool.handle[0](again)).code == RefusalCode.CHANGED_CONTENT
        pool.restart(0)


# --- A turn that was charged is answered or refused for good: whatever steward, noise and records do meanwhile.

BY_SEX = (FeatureBins(attribute="sex", edges=()),)
SEX_BODY = encode(CountsBody(partitions=BY_SEX, hypothesis=None))


def restart(pool, index, *, levels=None, noise=None):
    """Another process over the same ledger; its steward may have given "sex" other levels."""
    steward = steward_file()
    if levels is not None:
        changed = [
            msgspec.structs.replace(each, levels=levels) if each.name == "sex" else each for each in steward.attributes
        ]
        steward = msgspec.structs.replace(steward, attributes=tuple(changed))
    name = pool.names[index]
    site = assemble_site(
        hold(frame_of(ROWS), steward),
        pool.rules,
        key=key(name),
        ledger=ledger_over(pool.stores[index], name),
        clock=lambda: NOW,
        noise=noise or ZeroNoise(),
    )
    pool.curators[index] = site.curator


def dealt_pool():
    """Four curators that are to be asked for masked counts by sex."""
    pool = Pool(4, 1, 1)
    pool.keys(body=SEX_BODY)
    pool.shares()
    return pool


class BrokenNoise(ZeroNoise):
    """A curator that is killed between charge and answer."""

    def laplace_shares(self, size, law, parts, stamp):
        raise MemoryError


class GivenNoise(ZeroNoise):
    """Shares that no law would draw."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def laplace_shares(self, size, law, parts, stamp):
        return np.full(size, self.share, np.int64)


@pytest.mark.parametrize("levels", [("f",), ("f", "m", "y", "z")])
def test_a_schema_that_changed_within_a_round_is_noticed_before_the_charge(levels):
    """Its vector would have another length than it said in the first turn. The others open their sum without it."""
    pool = dealt_pool()
    restart(pool, 0, levels=levels)
    before = pool.stores[0].rows(0)
    first = pool.ask(0, pool.relay(0))
    for reply in (first, message_of(pool.handle[0](pool.sessions[0].transcript.envelopes[-2]))):
        assert (reply.code, reply.field, reply.final) == (RefusalCode.TERMS_CHANGED, "body.counts", True)
    assert pool.stores[0].rows(0) == before
    assert charges(pool, 0) == [0, 0]
    pool.masked(who=[1, 2, 3])
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact(SEX_BODY, who=[1, 2, 3]))


def test_a_schema_that_changed_between_charge_and_answer_ends_in_a_final_refusal():
    """It is charged once, and the learner knows; that the old schema is put back brings no answer that was refused."""
    pool = dealt_pool()
    restart(pool, 0, noise=BrokenNoise())
    assert pool.ask(0, pool.relay(0)).code == RefusalCode.UNAVAILABLE
    assert charges(pool, 0) == [0, 0, EPSILON]
    restart(pool, 0, levels=("f", "m", "y"))
    session = pool.sessions[0]
    sent = session.pending
    for _ in range(2):
        reply = message_of(pool.handle[0](sent))
        assert (reply.code, reply.field) == (RefusalCode.ANSWER_GONE, "body.counts")
        assert reply.final
        assert not reply.rules_out
        restart(pool, 0)
    assert charges(pool, 0) == [0, 0, EPSILON]
    assert check(pool.stores[0]).findings == ()
    session.receive(pool.handle[0](sent))
    assert session.spending.at_most * 30 == 1
    session.close(NOW)
    assert isinstance(session.receive(pool.handle[0](session.pending)), StudyClosed)
    assert session.spending.proven * 30 == 1


def test_a_turn_that_failed_after_its_charge_is_answered_by_the_same_request():
    pool = dealt_pool()
    restart(pool, 0, noise=BrokenNoise())
    assert pool.ask(0, pool.relay(0)).code == RefusalCode.UNAVAILABLE
    restart(pool, 0)
    words = {0: as_words(pool.send(0).words)}
    words |= {index: as_words(pool.ask(index, pool.relay(index)).words) for index in (1, 2, 3)}
    pool.survivors = pool.machine.take_masked(words)
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact(SEX_BODY))
    assert charges(pool, 0) == [0, 0, EPSILON, 0, 0]


@pytest.mark.parametrize("share", [2**63 - 1, -(2**63)])
def test_count_and_share_beyond_64_bits_wrap(share):
    pool = Pool(3, noise=lambda: GivenNoise(share))
    wrapped = (3 * share + pool.exact(SEX_BODY).astype(object) + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(pool.run(SEX_BODY).values.astype(object), wrapped)


TWO_CLASSES = [name for name, kind in RELEASE_KINDS.items() if kind.fits(steward_file().schema)]


@pytest.mark.parametrize("release", TWO_CLASSES)
def test_every_release_kind_has_the_length_that_was_said_before_the_charge(release):
    pool = Pool(3, queries=(planned_of(3, release=release),))
    hypothesis = Constant(predicted=1) if RELEASE_KINDS[release].wants_hypothesis else None
    body = encode(CountsBody(partitions=BY_SEX, hypothesis=hypothesis))
    opened = pool.run(body)
    assert not isinstance(opened, Refusal)
    np.testing.assert_array_equal(opened.values, pool.exact(body))


def test_a_table_that_reads_the_label_is_summed_under_the_release_that_may_read_it():
    sick, within = FeatureBins("sick", ()), (Range(FeatureBins("age", (30.0,)), (1,)),)
    body = encode(CountsBody((CrossBins((sick, FeatureBins("sex", ())), within),), None))
    pool = Pool(3, queries=(planned_of(3, release="outcome_counts"),))
    opened = pool.run(body)
    np.testing.assert_array_equal(opened.values, pool.exact(body))
    assert opened.values.size == 4 * 4 + 1
    with pytest.raises(RemoteProtocolError, match="attributes alone with this release"):
        Pool(3, queries=(planned_of(3, release="mass"),)).run(body)


# --- A learner that relays whatever it likes, in any order, to four curators: what holds in the end.

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


@also_at_length(200)
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=10, max_size=60), end=st.sampled_from(LARGE))
def test_whatever_is_relayed_no_site_is_opened_and_nothing_is_charged_twice(steps, end):
    relay = Relay()
    for index, step, chosen in steps:
        relay.step(index, step, chosen)
    for _ in range(5):  # from here on it tries to get an opening out of what it has
        for index in end:
            relay.step(index, "next", end)
    revealed = Counter()
    for index, releases in enumerate(relay.told):
        account = check(relay.pool.stores[index])
        assert account.findings == ()
        charges = [entry for entry in account.entries if entry.kind == "charge"]
        assert len(charges) == len(releases)
        assert [entry.amount for entry in charges] == ["0", "0", "1/30", "0", "0"][: len(charges)]
        if 4 in releases:
            event("opened")
            dealers = [dealer for dealer, _ in releases[4].shares]
            assert len(set(dealers)) == len(dealers)
            revealed.update((dealer, dealer in relay.lists[index][0]) for dealer in dealers)
            assert all(len(share) == shamir.SHARE for _, share in releases[4].shares)
    threshold = (SITES + 1) // 2 + 1
    for dealer in range(SITES):
        assert min(revealed[dealer, True], revealed[dealer, False]) < threshold, "both masks of a site were opened"


# --- With whom a curator sums: its policy, what its steward is told, and pooled charges in words.

ONE, OTHER, THIRD = (key(name).public.hex() for name in ("one", "other", "third"))


def read_members(text):
    read = read_policy(f'name = "ward"\ncap = 1\n[limits.kinds.{KIND}]\n{text}', where="policy.toml")
    return QUERY_KINDS.limits(read.limits, KIND)


def test_a_policy_names_the_members_and_how_few_colluders_a_plan_may_assume():
    limits = read_members(f'members = ["{ONE}", "{OTHER}", "{THIRD}"]\nleast_colluders = 2\ncells = 50')
    assert (limits.members, limits.least_colluders, limits.cells) == ((ONE, OTHER, THIRD), 2, 50)
    assert read_members("") == SecureCountsLimits()
    assert SecureCountsLimits().least_colluders == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'members = ["{ONE}"]', "one curator alone is no secure sum; add the public keys of the others"),
        (f'members = ["{ONE}", "{OTHER}", "{ONE}"]', f"{ONE[:16]} stands there twice; write each curator's key once"),
        (f'members = ["{ONE}", "ward 2"]', r"members\[1\]: 'ward 2' is not 64 lower-case hexadecimal digits"),
        (f'members = ["{ONE}", "{OTHER.upper()}"]', "lower-case hexadecimal digits, as expril keys prints a key"),
        (f'members = ["{ONE}", "{"0" * 64}"]', r"members\[1\]: this is no public key that anybody could hold"),
        (f'members = ["{ONE}", "{OTHER}"]\nleast_colluders = 2', "least_colluders: at most 1 of 2 members"),
        (f'members = ["{ONE}", "{OTHER}"]\nleast_colluders = 0', "at least 1"),
        ('release_kinds = ["paper_ratio"]', "unknown release kind 'paper_ratio'"),
        (f'member = ["{ONE}"]', "unknown key 'member'; did you mean 'members'?"),
    ],
)
def test_a_wrong_list_is_an_error_that_says_what_to_do(text, says):
    with pytest.raises(ConfigurationError, match=f"policy.toml, limits.kinds.secure_counts: .*{says}"):
        read_members(text)


def test_a_curator_that_serves_adopts_another_list():
    pool = Pool(3, propose=False)
    two = tuple(key(name).public.hex() for name in pool.names[:2])
    pool.curators[0].adopt(rules_of(3, members=two))
    refusal = pool.propose(0)
    assert (refusal.code, refusal.field) == (RefusalCode.OVER_LIMIT, "plan.queries[0].participants")
    with pytest.raises(ConfigurationError, match="no secure sum"):
        pool.curators[0].adopt(rules_of(3, members=two[:1]))
    pool.curators[0].adopt(rules_of(3))
    assert pool.curators[0].policy == rules_of(3)


@pytest.fixture
def new_folder(tmp_path):
    path = tmp_path / "ward"
    init_site(path, "basel")
    (path / SCHEMA).write_text(toml(steward_file(round_size=4)))
    frame_of(ROWS).write_parquet(path / "records.parquet")
    return path


def findings_on_members(new_folder, *members, least=1):
    kinds = {"counts": {}, KIND: {"members": list(members), "least_colluders": least}}
    (new_folder / POLICY).write_text(toml(policy(limits=Limits(kinds=kinds))))
    report = check_site(new_folder)
    return [
        (finding.level, finding.text)
        for finding in report.findings
        if "secure sum" in finding.text or "members" in finding.text
    ]


def test_the_check_says_with_whom_a_curator_sums(new_folder):
    public = read_key(new_folder / KEY).public.hex()
    (fine,) = findings_on_members(new_folder, ONE, public, OTHER, least=2)
    assert fine[0] == "fine"
    assert f"secure sums with 2 other curators ({ONE[:16]}, {OTHER[:16]}), of whom a plan assumes at least 2" in fine[1]
    (lacking, _) = findings_on_members(new_folder, ONE, OTHER)
    assert lacking[0] == "look"
    assert f"lacks this curator's own key {public}, so no secure sum with it is accepted; add it" in lacking[1]
    (empty,) = findings_on_members(new_folder)
    assert empty[0] == "look"
    assert "is empty, so no secure sum is accepted" in empty[1]
    (new_folder / POLICY).write_text(toml(policy()))
    assert not [finding for finding in check_site(new_folder).findings if "secure" in finding.text]


def test_the_check_finds_a_former_key_beside_the_present_one(new_folder):
    """One curator would pass for two: a plan that assumes one colluder would assume half of it."""
    former = read_key(new_folder / KEY).public.hex()
    public = rotate(new_folder, now=NOW, overlap=86_400).hex()
    (look, _) = findings_on_members(new_folder, former, public, ONE)
    assert look[0] == "look"
    assert f"holds a former key of this curator beside its own ({former[:16]}): one would pass for two" in look[1]


def test_a_steward_who_approves_reads_on_what_the_cost_rests():
    rules = msgspec.structs.replace(rules_of(4), approval="manual", approval_seconds=1000)
    pool = Pool(4, 1, 1, rules=rules, propose=False)
    assert pool.propose(0).code == RefusalCode.AWAITING_APPROVAL
    ledger = ledger_over(pool.stores[0], pool.names[0])

    def page_at(proposals_ledger):
        (proposal,) = waiting_proposals(proposals_ledger, rules, NOW)
        return dict(summary(proposal, ledger, rules, steward_file(), QUERY_KINDS))

    assert page_at(ledger)["provided"] == (
        "summed with 3 other sites under the noise of one. The cost holds while at most 1 of them tell the learner all "
        "they know, while no ledger is put back before the sum is done (another site's counts as one of those; this "
        "one's leaves its own records a share of the noise alone), and while the cryptography is not broken"
    )
    store = MemoryStore()
    Learner(open_curator(store, rules=rules)).propose()
    assert "provided" not in page_at(ledger_over(store))


def test_the_ledger_is_shown_in_words(tmp_path):
    file = tmp_path / "site.ledger"
    pool, ledger = pool_with_file(file, 4, 1, 1)
    pool.run()
    ledger.close()
    output = " ".join(run("ledger", "show", file).output.split())
    for words in ("a secure sum over 4 sites (n)", "2 shares (h)", "helped to open the sum over 4 of 4 sites"):
        assert words in output
    notes = [entry["note"] for entry in read(file).as_object()["entries"] if entry["kind"] == "charge"]
    assert notes[2] == '{"colluders": 1, "dropouts": 1, "shares": 2, "sites": 4}', "for machines as it is written"
