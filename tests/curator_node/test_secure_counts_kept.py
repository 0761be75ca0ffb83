"""What a curator keeps of a secure sum: one charge and one answer a turn, whatever is killed; no secret in any file."""

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np
import pytest

from curator_fakes import NOW, CountingEntropy, dataset, key, ledger_over, message_of
from curator_node.admission import ENVELOPE_ROOM
from curator_node.identities import FormerKey
from curator_node.ledger import Ledger
from curator_node.ledger.checks import check, load
from curator_node.ledger.ledger import hand_over
from curator_node.ledger.marks import Marked, MemoryMark
from curator_node.ledger.places import create_ledger_file
from curator_node.ledger.sealing import StateSealer
from curator_node.ledger.store import DatabaseStore, MemoryStore, backup, sqlite_url
from curator_node.ledger.studies import StudyKey, state_key
from curator_node.site import assemble_site
from killed_curator import KilledCurator
from pooled import BODY, KIND, ROWS, Pool, names, new_mark, planned_of, pool_with_file, request_like, rules_of, site_of
from protocol.codec import decode, encode
from protocol.envelopes import digest, open_envelope, seal
from protocol.kinds.secure_counts import (
    SECURE_COUNTS,
    AskKeys,
    OpenSum,
    ProposeSurvivors,
    RelayCards,
    SecureCountsLimits,
)
from protocol.ledger.entries import STATE_SEAL_BYTES
from protocol.messages import Refusal, Release
from protocol.query_kind import KindTerms, Question, Turn
from protocol.refusals import RefusalCode
from protocol.secure_sum import shamir
from protocol.secure_sum.group import MOST_PARTICIPANTS, KeyCard
from protocol.secure_sum.participant import SHARES, Neighbour, State, encode_state

STUDY = StudyKey(key("ann").public, b"pooled".ljust(16, b"-"))
PLACE = state_key(STUDY, KIND)


def opened_state(pool, index, sealed):
    sealer = StateSealer([key(pool.names[index])], CountingEntropy())
    return sealer.open(sealed, STUDY, KIND)


def other_body(pool, turn):
    """Another question of the same turn, which a malicious learner would like to have answered as well."""
    return (
        lambda: AskKeys(BODY, b"another nonce..."),
        lambda: RelayCards(pool.cards[:3]),
        lambda: msgspec.structs.replace(pool.relay(0), dealers=(0, 1, 2), shares=pool.relay(0).shares[:2]),
        lambda: ProposeSurvivors((0, 1, 2)),
        lambda: OpenSum((0, 1, 2), pool.agreements),
    )[turn]()


def charged(entries):
    return [(entry.sequence, entry.amount) for entry in entries if entry.kind == "charge"]


@pytest.mark.slow
def test_kill_9_at_every_write_of_every_turn(tmp_path):
    """After the charge, and after the answer is stored: one charge a turn, one answer, and no other list."""
    pool = Pool(4, 1, 1, propose=False)
    file = tmp_path / "site.ledger"
    create_ledger_file(file, key(pool.names[0]), now=NOW)
    kills = []
    with KilledCurator(pool.names[0], 4, file) as curator:

        def handle(data):
            if message_of(data).sequence == 0:
                return curator.handle(data)
            for entry in ("charge", "answered"):
                with pytest.raises(ConnectionError):
                    curator.handle(data, dies_after=entry)
                kills.append(entries_in(file))
            reply = curator.handle(data)
            assert digest(reply) == kills[-1][-1].reply, "what was stored before the kill"
            second = curator.handle(request_like(other_body(pool, len(kills) // 2 - 1), data))
            assert message_of(second).code == RefusalCode.CHANGED_CONTENT
            return reply

        pool.handle[0] = handle
        pool.accepted = [pool.propose(index) for index in range(4)]
        np.testing.assert_array_equal(pool.run().values, pool.exact())
    assert [len(charged(entries)) for entries in kills] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [amount for _, amount in charged(entries_in(file))] == ["0", "0", "1/30", "0", "0"]
    with closing(DatabaseStore(sqlite_url(file))) as store:
        assert check(store).findings == ()
        assert check(store).account.total_spent * 30 == 1


def entries_in(file):
    with closing(DatabaseStore(sqlite_url(file))) as store:
        return check(store).entries


@pytest.mark.parametrize("turn", range(5))
def test_a_charge_without_an_answer_is_answered_after_a_restart_once_charged(turn):
    """As it is where memory runs out, or the disk is full between the two writes."""
    pool = Pool(4, 1, 1).until(turn)
    session, curator = pool.sessions[0], pool.curators[0]
    answerer = curator._answerers[KIND]

    def die(question, records, noise):
        raise MemoryError

    curator._answerers[KIND] = replace(answerer, answer=die)
    assert pool.ask(0, pool.next_body(0, turn)).code == RefusalCode.UNAVAILABLE
    pool.restart(0)
    sent = session.pending
    assert not isinstance(pool.send(0), Refusal)
    assert len(charged(check(pool.stores[0]).entries)) == turn + 1
    assert pool.handle[0](sent) == session.transcript.envelopes[-1]


def twin_of(pool):
    """Another process of the first curator over the same store."""
    ledger = Ledger(pool.stores[0], key=key(pool.names[0]), mark=new_mark(pool.stores[0]))
    return site_of(pool.names[0], None, pool.rules, ledger=ledger)


@pytest.mark.parametrize("turn", range(5))
def test_of_two_processes_that_answer_one_turn_one_is_heard(turn):
    """The second answers while the first computes: the first drops its own answer, its keys and its noise."""
    pool = Pool(4, 1, 1).until(turn)
    store, twin = pool.stores[0], twin_of(pool)
    first = pool.curators[0]
    answerer, replies = first._answerers[KIND], []

    def late(question, records, noise):
        replies.append(twin.handle(pool.sessions[0].pending))
        return answerer.answer(question, records, noise)

    first._answerers[KIND] = replace(answerer, answer=late)
    assert not isinstance(pool.ask(0, pool.next_body(0, turn)), Refusal)
    first._answerers[KIND] = answerer
    sent, got = pool.sessions[0].transcript.envelopes[-2:]
    assert replies == [got]
    for curator in (first, twin):
        assert curator.handle(sent) == got
        another = request_like(other_body(pool, turn), sent)
        assert message_of(curator.handle(another)).code == RefusalCode.CHANGED_CONTENT
    assert len(charged(check(store).entries)) == turn + 1
    assert check(store).findings == ()


def test_a_round_goes_on_between_two_processes():
    pool = Pool(3)
    twin = twin_of(pool)
    turns = iter([twin, pool.curators[0]] * 3)
    pool.handle[0] = lambda data: next(turns).handle(data)
    np.testing.assert_array_equal(pool.run().values, pool.exact())


class Overtaken:
    """A store of which another process hears before the first look at a reply or a state."""

    def __init__(self, store, before):
        self._store, self._before = store, [before]

    def __getattr__(self, name):
        return getattr(self._store, name)

    def reply(self, request):
        while self._before:
            self._before.pop()()
        return self._store.reply(request)


@pytest.mark.parametrize("turn", range(1, 5))
def test_a_state_that_another_process_replaced_is_not_gone(turn):
    """Another process answers between the look at the ledger and the one at the state. The study goes on."""
    pool = Pool(4, 1, 1).until(turn)
    twin, body = twin_of(pool), pool.next_body(0, turn)
    pool.sessions[0].query(KIND, encode(body), NOW)
    sent, answered = pool.sessions[0].pending, []
    pool.stores[0] = Overtaken(pool.stores[0], lambda: answered.append(twin.handle(sent)))
    ledger = Ledger(pool.stores[0], key=key(pool.names[0]), mark=new_mark(pool.stores[0]._store))
    late = site_of(pool.names[0], None, pool.rules, ledger=ledger)
    refused = message_of(late.handle(request_like(other_body(pool, turn), sent)))
    assert isinstance(message_of(answered[0]), Release)
    assert refused.code in (RefusalCode.CHANGED_CONTENT, RefusalCode.OUT_OF_ORDER)
    assert late.handle(sent) == answered[0]
    assert check(pool.stores[0]).findings == ()


def test_of_many_lists_at_once_one_is_signed(tmp_path):
    """Threads of two processes over one SQLite file, each with a list of its own."""
    pool, file = Pool(6, 1, 2, propose=False), tmp_path / "site.ledger"
    own = key(pool.names[0])
    create_ledger_file(file, own, now=NOW)
    with ExitStack() as opened:

        def served():
            mark = MemoryMark()
            store = DatabaseStore(sqlite_url(file))
            opened.callback(store.close)
            mark.write(Marked(load(store).position(len(store.rows(0)) - 1)))
            return site_of(pool.names[0], None, pool.rules, ledger=Ledger(store, key=own, mark=mark))

        pool.curators[0] = served()
        pool.accepted = [pool.propose(index) for index in range(6)]
        pool.until(3)
        curators = [pool.curators[0], served()]
        lists = [(0, *others) for size in (3, 4, 5) for others in combinations(range(1, 6), size)]
        pool.sessions[0].query(KIND, encode(ProposeSurvivors(lists[0])), NOW)
        requests = [request_like(ProposeSurvivors(each), pool.sessions[0].pending) for each in lists]
        with ThreadPoolExecutor(8) as threads:
            replies = list(threads.map(lambda turn: curators[turn[0] % 2].handle(turn[1]), enumerate(requests)))
        heard = [message_of(reply) for reply in replies]
        signed = [each for each in heard if isinstance(each, Release)]
        refused = {each.code for each in heard if isinstance(each, Refusal)}
        assert len(signed) == 1
        assert refused <= {RefusalCode.CHANGED_CONTENT, RefusalCode.OUT_OF_ORDER}
        assert len(charged(entries_in(file))) == 4


def secrets_of(state):
    """What must be in no file: its keys as far as they are still kept, and the shares of mask keys, as all survive."""
    own = [state.sealing, state.masking, state.seed, *(other.opening for other in state.neighbours)]
    return [secret for secret in own if any(secret)] + [both[: shamir.SHARE] for _, both in state.shares]


@pytest.mark.parametrize("journal", ["wal", "checkpointed"])
def test_no_secret_of_a_round_is_in_any_file_or_log(tmp_path, caplog, journal):
    """Searched in the raw bytes of the database, its log and the mark, after every turn."""
    caplog.set_level(logging.DEBUG)
    pool, ledger = pool_with_file(tmp_path / "site.ledger", 4, 1, 1)
    secrets, unmasked = [], np.asarray(pool.exact(who=[0])).astype("<i8").tobytes()
    for turn in range(5):
        pool.step(turn)
        sealed = ledger.store.reply(PLACE)
        state = opened_state(pool, 0, sealed)
        if turn < 4:
            secrets += secrets_of(decode(state, State))
        else:
            assert state == b"", "the keys of the round are gone"
            assert len(sealed) == STATE_SEAL_BYTES
        pool.ask(0, b"\xc0")  # a refusal is kept, too
        if journal == "checkpointed":
            with sqlite3.connect(tmp_path / "site.ledger") as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.close()
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert any(name.endswith(".ledger-wal") for name in files)
        assert sealed in b"".join(files.values()), "power: what is kept would be seen"
        for name, content in files.items():
            assert not [secret for secret in secrets if secret in content], (turn, name)
            assert unmasked not in content, (turn, name)
    assert len(set(secrets)) == 3 + 3 + 4, "three keys, a key for each neighbour, a share of each"
    told = caplog.text + "".join(map(repr, caplog.records))
    assert not [secret for secret in secrets if secret.hex() in told or repr(secret) in told]
    ledger.close()


def test_former_states_are_in_no_copy_that_is_made_after_the_round(tmp_path):
    """Nor in the file once its curator has stopped: who later gets the curator's key takes no mask off."""
    file, early, late = (tmp_path / name for name in ("site.ledger", "early.ledger", "late.ledger"))
    pool, ledger = pool_with_file(file, 10, 1, 2)
    pieces = []
    for turn in range(5):
        pool.step(turn)
        sealed = ledger.store.reply(PLACE)
        pieces.append([sealed[start : start + 32] for start in range(0, len(sealed) - 31, 32)])
        if turn == 2:
            backup(file, early)
    backup(file, late)
    ledger.close()
    assert any(piece in early.read_bytes() for piece in pieces[2]), "power: a copy of that time has it"
    for path in (late, file):
        content = path.read_bytes()
        assert [sum(piece in content for piece in each) for each in pieces[:4]] == [0] * 4, path.name
    assert len(pieces[1]) > 30
    assert not (tmp_path / "site.ledger-wal").exists()


def test_what_is_kept_fits_the_room_that_was_made_for_it():
    """At ten sites as it is, and at the most sites as it could be."""
    pool = Pool(10, 1, 2)
    kind = SECURE_COUNTS
    for turn in range(5):
        pool.step(turn)
        envelope = pool.sessions[0].transcript.envelopes[-1]
        body = kind.read_body(
            pool.asked_body(0), Turn(pool.planned, 0, turn), KindTerms(pool.card.schema, SecureCountsLimits())
        )
        release = kind.release_bytes(Question(Turn(pool.planned, 0, turn), body, pool.card.schema))
        assert len(message_of(envelope).body) <= release
        assert len(envelope) <= ENVELOPE_ROOM + release
        sealed = pool.stores[0].reply(PLACE)
        assert check(pool.stores[0]).account.states[STUDY, KIND].size == len(sealed)
    card = KeyCard(bytes(32), bytes(32), bytes(32), bytes(64))
    every = tuple(range(MOST_PARTICIPANTS))
    neighbours = tuple(Neighbour(index, bytes(32), bytes(32)) for index in every)
    held = tuple((index, bytes(SHARES)) for index in every)
    keys = (bytes(32), bytes(32), 2**40, bytes(32), bytes(32), bytes(32))
    largest = State(4, 999, *keys, card, bytes(32), every, neighbours, held, every, every)
    assert len(encode_state(largest)) < SECURE_COUNTS.state_bytes


def test_a_state_that_was_put_back_is_not_used_again():
    """Its digest is in the chain: an older one of the same round would let a second list be signed."""
    pool = Pool(4, 1, 1).until(3)
    older = pool.stores[0]._replies[PLACE]
    pool.agreed()
    pool.stores[0]._replies[PLACE] = older
    refusal = pool.ask(0, OpenSum(pool.survivors, pool.agreements))
    assert refusal.code == RefusalCode.STATE_GONE


def change_key(pool, new):
    """The first curator goes on under another key, and answers for its old one."""
    old = key(pool.names[0])
    hand_over(pool.stores[0], old, new, NOW)
    ledger = Ledger(pool.stores[0], key=new, mark=MemoryMark())
    ledger.settle()
    parts = {"key": new, "former": (FormerKey(old, NOW + 100),), "ledger": ledger, "clock": lambda: NOW}
    pool.curators[0] = assemble_site(dataset(ROWS), pool.rules, noise=pool.noises[0], **parts).curator


def test_a_round_goes_on_while_the_curator_changes_its_key():
    """It is asked, and signs, under the key that the plan names."""
    pool = Pool(3).until(2)
    change_key(pool, key("the next key"))
    pool.masked()
    pool.agreed()
    np.testing.assert_array_equal(pool.opened().values, pool.exact())


def test_a_curator_with_two_keys_in_one_plan_goes_on_as_whom_it_began():
    """Otherwise one round would get a signature of a participant that took no part in it."""
    new = max((key(f"next {number}") for number in range(50)), key=lambda each: each.public)
    participants = sorted([*(key(name).public for name in names(3)), new.public])
    rules = rules_of(3, members=tuple(public.hex() for public in participants))
    pool = Pool(3, queries=(planned_of(4, 1, 1, participants=participants),), rules=rules)
    change_key(pool, new)
    pool.keys()
    session = pool.sessions[0]
    session.query(KIND, encode(RelayCards(pool.cards)), NOW)
    _, message = open_envelope(session.pending)
    other = seal(msgspec.structs.replace(message, recipient=new.public), key("ann"))
    _, refusal = open_envelope(pool.handle[0](other))
    assert (refusal.code, refusal.field) == (RefusalCode.BAD_QUERY, "recipient")
    assert pool.send(0).shares


class Compensating:
    """A noise source whose share makes up for other records: counts and share together are always the same."""

    seeded = False

    def __init__(self):
        self.total, self.asked = None, []

    def laplace_shares(self, size, law, parts, stamp):
        self.asked.append((size, law, parts, stamp))
        return self.total


TABLES = {
    "one record": ROWS[:1],
    "one class": [row for row in ROWS if row[4] == "yes"],
    "all missing": [("p1", None, None, None, "no"), ("p2", None, None, None, "yes")],
    "hundreds": ROWS * 150,
    "strangers": [("q", 119.0, -5.0, "x", "yes"), ("r", 1.0, 5.0, None, "no")],
}


def played(rows):
    """All that leaves a curator and is kept over a whole round with lies, repeats and restarts in between."""
    pool = Pool(4, 1, 1, propose=False)
    store, noise, entropy, seen = MemoryStore(), Compensating(), CountingEntropy(), []
    parts = {"noise": noise, "rows": rows, "entropy": entropy}

    def restart():
        ledger = ledger_over(store, pool.names[0], entropy)
        pool.curators[0] = site_of(pool.names[0], None, pool.rules, ledger=ledger, **parts)

    def handle(data):
        seen.append((data, pool.curators[0].handle(data)))
        return seen[-1][1]

    restart()
    for index in range(1, 4):
        pool.curators[index] = site_of(
            pool.names[index], pool.stores[index], pool.rules, noise=pool.noises[index], entropy=CountingEntropy()
        )
    pool.handle[0] = handle
    pool.accepted = [pool.propose(index) for index in range(4)]
    exact = dataset(rows).exact(pool.checked(BODY), pool.planned).ravel()
    noise.total = 10**6 - exact
    for turn in range(5):
        if turn:
            pool.ask(0, b"\xc0")
        pool.step(turn)
        sent = pool.sessions[0].transcript.envelopes[-2]
        handle(sent)
        handle(request_like(other_body(pool, turn), sent))
        restart()
    return seen, store.rows(0), store._replies, store._refusals, noise.asked


@pytest.mark.family(2)
@pytest.mark.parametrize("table", TABLES)
def test_records_show_in_the_sum_of_count_and_share_alone(table):
    """Where both together are the same, everything else is, byte for byte: no check, refusal, state or log differs."""
    first, second = played(ROWS), played(TABLES[table])
    releases = [message_of(reply) for _, reply in first[0] if isinstance(message_of(reply), Release)]
    assert len(releases) >= 5
    assert first == second


def test_a_record_more_is_seen_where_nothing_makes_up_for_it():
    """Power of the test above."""
    pools = [Pool(3, rows=lambda index, rows=rows: rows) for rows in (ROWS, ROWS[:-1])]
    sums = [pool.run().values for pool in pools]
    assert (sums[0] != sums[1]).any()


def test_a_round_does_not_go_on_after_its_ledger_was_put_back():
    """On the lost branch another list was signed: a second one would open two sums of one round."""
    pool = Pool(4, 1, 1).until(3)
    store = pool.stores[0]
    rows, replies = len(store.rows(0)), dict(store._replies)
    pool.ask(0, ProposeSurvivors((0, 1, 2, 3)))
    signed = pool.sessions[0].transcript.envelopes[-2]
    del store._rows[rows:]
    store._replies = replies  # the copy of before; the mark is the newest
    pool.restart(0)
    ledger = pool.curators[0]._ledger
    second = request_like(ProposeSurvivors((0, 1, 2)), signed)
    assert message_of(pool.handle[0](second)).code in (RefusalCode.STATE_GONE, RefusalCode.HALTED)
    ledger.resume(NOW, note="restored from the copy")
    before = len(store.rows(0))
    for request in (signed, request_like(ProposeSurvivors((0, 1, 3)), signed)):
        refusal = message_of(pool.handle[0](request))
        assert (refusal.code, refusal.final) == (RefusalCode.STATE_GONE, True)
    assert len(store.rows(0)) == before
    assert check(store).findings == ()
    again = Pool(4, 1, 1, stores=pool.stores, study=b"another")
    np.testing.assert_array_equal(again.run().values, pool.exact())
