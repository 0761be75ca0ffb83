"""The seam for query kinds, shown with one that is not shipped: `tests/support/toy`, one file a room.

It takes two messages a query, keeps a state between them, charges by what was released, and survives `kill -9`.
"""

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from curator_fakes import (
    NOW,
    ZeroNoise,
    key,
    ledger_over,
    mass_body,
    message_of,
    numbers,
    planned,
    policy,
)
from curator_node.kinds import ANSWERERS
from curator_node.ledger.checks import check
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.ledger.store import DatabaseStore, MemoryStore, sqlite_url
from curator_node.ledger.studies import StudyKey, state_key
from curator_node.mechanisms import ExactNoise
from curator_node.policy import read_policy
from learner_node.kinds import READERS
from learner_node.study.federation import Federation
from learner_node.study.session import Session
from learner_node.study.study import NoCuratorError, Study
from protocol.codec import decode, encode
from protocol.envelopes import open_envelope
from protocol.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plans import MOST_TURNS, Plan
from protocol.query_kind import Kinds
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.transcript import replay
from simulations.carriers.direct import DirectCarrier
from toy.answerer import TOY_ANSWERER
from toy.curators import TABLE, toy_curator
from toy.kind import TOY, PlannedToy, ToyBody, ToyRelease
from toy.reader import LED_READER, TOY_READER

ROOT = Path(__file__).resolve().parents[2]
KINDS = Kinds(COUNTS, TOY)
EACH = Fraction(1, 10)
"""What a draw costs here, for a unit of one record."""
ASK, GO_ON = encode(ToyBody(above=29.5)), encode(ToyBody(above=None))


def plan_of(*levels):
    """One toy query for each level, below which its second turn is free."""
    return Plan.of(PlannedToy(scale=Rational(10, 1), level=level, turns=2) for level in levels)


class Asker:
    """A learner with one study at a curator that may be another process after a restart."""

    def __init__(self, curator, plan=None, *, handle=None, name="ann", study=b"toys"):
        self.handle = handle or curator.handle
        self.session = Session(
            curator=key("basel").public, key=key(name), study=study.ljust(16, b"-"), kinds=KINDS, lifetime=3000
        )
        self.session.request_card(NOW)
        self.send()
        self.session.propose(plan or plan_of(5), "toys", NOW)
        self.accepted = self.send()

    def send(self):
        return self.session.receive(self.handle(self.session.pending))

    def ask(self, body, kind="toy"):
        self.session.query(kind, body, NOW)
        return self.send()

    def number(self, body):
        reply = self.ask(body)
        assert isinstance(reply, Release), reply
        return decode(reply.body, ToyRelease).number

    def close(self):
        self.session.close(NOW)
        return self.send()

    def proof(self, kinds=KINDS):
        return replay(self.session.transcript.envelopes, key("basel").public, self.session.key.public, kinds=kinds)

    @property
    def place(self):
        return StudyKey(self.session.key.public, self.session.study)


@pytest.mark.parametrize(("level", "charges"), [(6, [EACH, 0]), (5, [EACH, EACH])])
def test_two_turns_are_charged_by_what_was_released(level, charges):
    store = MemoryStore()
    asker = Asker(toy_curator(store), plan_of(level))
    assert Fraction(asker.accepted.cost) == 2 * EACH  # the most that it can cost is reserved
    assert (asker.number(ASK), asker.number(GO_ON)) == (5, 50)
    closed = asker.close()
    account = ledger_over(store).account
    assert [Fraction(row.amount) for row in check(store).entries if row.kind == "charge"] == charges
    assert asker.session.spent == account.total_spent == asker.proof().epsilon_spent == sum(charges)
    assert Fraction(closed.refunded) == 2 * EACH - sum(charges)
    assert account.reserved[asker.session.key.public] == 0
    assert asker.proof().unproven == ""
    assert check(store).findings == ()


def test_the_free_turn_releases_what_was_kept_and_the_paid_one_draws_anew():
    noise = ZeroNoise()
    asker = Asker(toy_curator(noise=noise), plan_of(6, 5))
    assert [asker.number(body) for body in (ASK, GO_ON, ASK, GO_ON)] == [5, 50, 5, 50]
    assert [stamp.sequence for *_, stamp in noise.calls] == [1, 3, 4]
    assert [int(exact[0]) for exact, *_ in noise.calls] == [50, 50, 50]


def test_a_toy_query_shares_a_plan_with_counts_and_an_earlier_query_is_not_its_past():
    first, toy, last = planned(20), PlannedToy(scale=Rational(10, 1), level=6, turns=2), planned(40)
    asker = Asker(toy_curator(), Plan.of([first, toy, last, toy]))
    assert sum(numbers(asker.ask(mass_body(), "counts"))) == 60
    assert [asker.number(ASK), asker.number(GO_ON)] == [5, 50]
    assert sum(numbers(asker.ask(mass_body(), "counts"))) == 60
    assert [asker.number(ASK), asker.number(GO_ON)] == [5, 50]
    asker.close()
    assert asker.session.spent == asker.proof().epsilon_spent == Fraction(1, 20) + Fraction(1, 40) + 2 * EACH


def test_turns_come_in_order_and_a_repeat_is_the_same_answer():
    curator = toy_curator(noise=ExactNoise())
    asker = Asker(curator)
    early = asker.ask(GO_ON)
    assert (early.code, early.field) == (RefusalCode.BAD_QUERY, "body.above")
    asker.session.query("toy", ASK, NOW)
    request = asker.session.pending
    reply = curator.handle(request)
    assert curator.handle(request) == reply
    asker.session.receive(reply)
    late = asker.ask(ASK)
    assert (late.code, late.field) == (RefusalCode.BAD_QUERY, "body.above")
    wrong = asker.ask(mass_body(), "counts")
    assert wrong.code == RefusalCode.NOT_IN_PLAN
    assert curator.handle(request) == reply
    asker.number(GO_ON)
    assert asker.ask(GO_ON).code == RefusalCode.NOT_IN_PLAN


# the state


@pytest.mark.parametrize("how", ["missing", "changed"])
def test_a_state_that_is_missing_or_different_is_refused_and_never_rebuilt(how):
    store = MemoryStore()
    asker = Asker(toy_curator(store), plan_of(5))
    asker.number(ASK)
    place = state_key(asker.place, "toy")
    if how == "missing":
        del store._replies[place]
    else:
        store._replies[place] = encode((51, 29.5))
    (finding,) = check(store).findings
    assert how in finding.text
    assert check(store).entries[finding.index].kind == "answered"
    curator = toy_curator(store)
    asker.handle = curator.handle
    before = len(check(store).entries)
    refusal = asker.ask(GO_ON)
    assert refusal.code == RefusalCode.STATE_GONE
    assert refusal.final
    assert refusal.rules_out
    assert len(check(store).entries) == before  # nothing was charged
    assert store.reply(place) != encode((50, 29.5))
    assert Fraction(asker.close().refunded) == EACH
    assert asker.proof().epsilon_spent == EACH


def test_a_state_that_is_lost_after_the_charge_leaves_the_answer_gone_for_good():
    store = MemoryStore()
    asker = Asker(toy_curator(store), plan_of(5))
    asker.number(ASK)

    def dies(question, records, noise):
        raise MemoryError

    dying = toy_curator(store, answerers={**TABLE, "toy": answering_with(TOY_ANSWERER, dies)})
    asker.session.query("toy", GO_ON, NOW)
    request = asker.session.pending
    assert message_of(dying.handle(request)).code == RefusalCode.UNAVAILABLE
    kept = store._replies.pop(state_key(asker.place, "toy"))
    refusal = message_of(toy_curator(store).handle(request))
    assert refusal.code == RefusalCode.ANSWER_GONE
    store._replies[state_key(asker.place, "toy")] = kept
    assert message_of(toy_curator(store).handle(request)).code == RefusalCode.ANSWER_GONE  # remembered


def answering_with(answerer, answer):
    return type(answerer)(answerer.kind, answer)


def test_states_count_among_what_is_kept_and_go_with_the_replies_of_their_study():
    store = MemoryStore()
    asker = Asker(toy_curator(store))
    asker.number(ASK)
    account = ledger_over(store).account
    place = state_key(asker.place, "toy")
    assert account.kept_bytes == sum(map(len, store._replies.values()))
    assert account.states[asker.place, "toy"].size == len(store._replies[place])
    asker.number(GO_ON)
    asker.close()
    ledger = ledger_over(store)
    ledger.make_room(10**9, 10**9, NOW)
    assert ledger.account.kept_bytes == 0
    assert place not in store._replies
    assert check(store).findings == ()


def test_two_studies_keep_their_own_states():
    store = MemoryStore()
    curator = toy_curator(store)
    ann, bob = Asker(curator, name="ann"), Asker(curator, name="bob")
    assert (ann.number(ASK), bob.number(encode(ToyBody(above=69.5)))) == (5, 1)
    assert (ann.number(GO_ON), bob.number(GO_ON)) == (50, 10)


def test_no_entry_but_an_answer_to_a_query_may_hold_a_state():
    store = MemoryStore()
    asker = Asker(toy_curator(store))
    ledger = ledger_over(store)
    (reserve,) = [entry for entry in check(store).entries if entry.kind == "reserve"]
    forged = ledger.entry(
        "answered", NOW, learner=asker.place.learner, study=asker.place.study, request=reserve.request, state=bytes(32),
        state_size=1,
    )  # fmt: skip
    with pytest.raises(Exception, match="keeps a state where no query is answered"):
        ledger.account.check(forged)


# a release that was lost


@pytest.mark.parametrize("level", [5, 6])
def test_a_release_that_was_lost_is_recovered_after_the_close_free_or_not(level):
    curator = toy_curator()
    asker = Asker(curator, plan_of(level))
    asker.number(ASK)
    asker.session.query("toy", GO_ON, NOW)
    curator.handle(asker.session.pending)  # charged and answered, and the answer never came
    asker.close()
    session = asker.session
    assert session.unanswered
    release = session.receive(curator.handle(session.unanswered))
    assert decode(release.body, ToyRelease).number == 50
    assert session.spent == asker.proof().epsilon_spent == EACH * (2 if level == 5 else 1)
    assert asker.proof().unproven == ""


@pytest.mark.parametrize("level", [5, 6])
def test_a_release_that_comes_after_a_refused_close_decides_what_the_next_turn_costs(level):
    curator = toy_curator()
    asker = Asker(curator, plan_of(level))
    asker.session.query("toy", ASK, NOW)
    curator.handle(asker.session.pending)  # charged and answered, and the answer never came
    asker.session.close(NOW - 10**6)
    assert asker.send().code == RefusalCode.EXPIRED
    asker.session.receive(curator.handle(asker.session.unanswered))
    assert asker.number(GO_ON) == 50
    asker.close()
    assert asker.session.spent == asker.proof().epsilon_spent == EACH * (2 if level == 5 else 1)
    assert asker.proof().unproven == ""


def test_a_free_question_that_was_never_charged_is_let_go_after_the_close():
    curator = toy_curator()
    asker = Asker(curator, plan_of(6))
    asker.number(ASK)
    asker.session.query("toy", GO_ON, NOW)  # and it never arrived
    asker.close()
    refusal = asker.session.receive(curator.handle(asker.session.unanswered))
    assert isinstance(refusal, Refusal)
    assert asker.session.unanswered == b""
    assert asker.session.spent == asker.proof().epsilon_spent == EACH


# learners


def test_a_study_with_two_curators_asks_turn_by_turn():
    curators = {name: key(name).public for name in ("basel",)}
    curator = toy_curator()
    federation = Federation(
        curators=curators,
        key=key("ann"),
        carrier=DirectCarrier({curator.identity: curator.handle}),
        clock=lambda: NOW,
        entropy=lambda size: b"s" * size,
        readers={**READERS, "toy": TOY_READER},
    )
    study = Study(federation)
    study.read_cards()
    study.propose(plan_of(6), "toys", ["basel"])
    assert study.ask({"basel": ToyBody(above=29.5)}).answers == {"basel": 5}
    assert study.ask({"basel": ToyBody(above=None)}).answers == {"basel": 50}
    assert study.pooled(["basel"]) == [5, 50]
    study.close()
    assert study.outcomes == {"basel": ["release", "release"]}
    assert study.spent("basel") == study.spent_at_most("basel") == EACH


def test_a_learner_may_lead_both_turns_as_one_question():
    """Bern falls silent in the second turn: it is in the sum, and asked no more; the next sum has too few."""
    curators = {name: toy_curator(name=name) for name in ("basel", "bern")}

    def bern(data):
        if open_envelope(data)[1].sequence > 1:
            raise ConnectionError
        return curators["bern"].handle(data)

    federation = Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=key("ann"),
        carrier=DirectCarrier({curators["basel"].identity: curators["basel"].handle, curators["bern"].identity: bern}),
        clock=lambda: NOW,
        entropy=lambda size: b"s" * size,
        readers={**READERS, "toy": LED_READER},
    )
    study = Study(federation)
    study.propose(plan_of(6, 6), "toys", list(study.read_cards()))
    assert study.questions == 2
    done = study.ask(dict.fromkeys(curators, ToyBody(above=29.5)))
    assert (done.pooled, done.took_part, done.answers) == (100, ("basel", "bern"), {})
    assert study.survivors == ["basel"]
    assert study.outcomes == {"basel": ["release"], "bern": ["no reply"]}
    assert study.pooled(["basel"]) == [100]
    with pytest.raises(NoCuratorError, match="too few toys to sum"):
        study.ask({"basel": ToyBody(above=29.5)})
    assert study.outcomes["basel"] == ["release", "release"]
    study.close()
    assert {study.spent(name) for name in curators} == {EACH, 2 * EACH}


def test_a_curator_that_broke_a_led_query_s_protocol_is_left_out_of_what_follows():
    class Negative(ZeroNoise):
        def discrete_laplace(self, exact, l1, law, stamp):
            return -exact

    curators = {"basel": toy_curator(), "bern": toy_curator(name="bern", noise=Negative())}
    federation = Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=key("ann"),
        carrier=DirectCarrier({curator.identity: curator.handle for curator in curators.values()}),
        clock=lambda: NOW,
        entropy=lambda size: b"s" * size,
        readers={**READERS, "toy": LED_READER},
    )
    study = Study(federation)
    study.propose(plan_of(6), "toys", list(study.read_cards()))
    done = study.ask(dict.fromkeys(curators, ToyBody(above=29.5)))
    assert done.took_part == ("basel", "bern")
    assert study.survivors == ["basel"]
    assert study.outcomes == {"basel": ["release"], "bern": ["left out"]}
    assert study.fate("bern") == "left out: its toys are broken"


# plans and limits


def test_a_plan_is_read_strictly_by_its_kinds():
    plan = plan_of(5)
    assert [(head.kind, head.turns) for head in plan.heads] == [("toy", 2)]
    assert plan.places == ((0, 0), (0, 1))
    assert [turn.number for turn in KINDS.turns(plan)] == [0, 1]
    for wrong, code in [
        ({"kind": "toy", "scale": [10, 1], "level": 5}, RefusalCode.BAD_PLAN),
        ({"kind": "toy", "scale": [10, 1], "level": 5, "turns": 3}, RefusalCode.BAD_PLAN),
        ({"kind": "toy", "scale": [10, 1], "level": 5, "turns": 2, "more": 1}, RefusalCode.MALFORMED),
        ({"kind": "toy", "scale": [10, 2], "level": 5, "turns": 2}, RefusalCode.MALFORMED),
        ({"kind": "toys", "scale": [10, 1], "level": 5, "turns": 2}, RefusalCode.UNKNOWN_KIND),
        ({"kind": "counts", "release": "mass", "partitions": 1, "scale": [10, 1], "turns": 2}, RefusalCode.MALFORMED),
    ]:
        with pytest.raises(RemoteProtocolError) as caught:
            KINDS.plan_cost(Plan.of([wrong]), 1)
        assert caught.value.code == code, wrong
    with pytest.raises(ValueError, match="turns"):
        Plan.of([{"kind": "toy", "turns": MOST_TURNS}, {"kind": "toy"}])


def test_limits_are_the_kinds_own_and_a_policy_names_what_it_allows():
    curator = toy_curator(rules=policy(limits=Limits(kinds={"toy": {"highest_level": 3}})))
    asker = Asker(curator, plan_of(5))
    assert (asker.accepted.code, asker.accepted.field) == (RefusalCode.OVER_LIMIT, "plan.queries[0].level")
    assert asker.session.card.limits.kinds == {"toy": {"highest_level": 3}}
    assert asker.session.card.relation == "add or remove one toy"
    text = 'name = "basel"\ncap = 1\n[limits.kinds.toy]\nhighest_levl = 3\n'
    with pytest.raises(ConfigurationError, match=r"highest_levl.*did you mean 'highest_level'"):
        read_policy(text, kinds=KINDS)
    with pytest.raises(ConfigurationError, match="unknown query kind 'toy'"):
        read_policy(text)
    unasked = Asker(toy_curator(rules=policy()))
    assert unasked.accepted.code == RefusalCode.KIND_NOT_ALLOWED  # none is allowed unless its policy says so


def test_the_table_of_kinds_is_fixed_when_it_is_made():
    with pytest.raises(TypeError):
        KINDS["other"] = TOY
    with pytest.raises(TypeError):
        ANSWERERS["toy"] = TOY_ANSWERER
    with pytest.raises(TypeError):
        READERS["toy"] = TOY_READER


# a kind that is no longer installed


def test_a_ledger_opens_without_its_kind_and_its_transcript_is_unproven_in_part():
    store = MemoryStore()
    asker = Asker(toy_curator(store), plan_of(5))
    asker.number(ASK)
    plain = toy_curator(store, rules=policy(cap=10), answerers=ANSWERERS)
    asker.handle = plain.handle
    assert check(store).findings == ()
    refusal = asker.ask(GO_ON)
    assert refusal.code == RefusalCode.UNKNOWN_KIND
    assert Fraction(asker.close().refunded) == EACH
    for kinds, unproven in ((KINDS, ""), (QUERY_KINDS, "query kind not installed: unproven")):
        proof = asker.proof(kinds)
        assert proof.epsilon_spent == EACH
        assert proof.unproven.startswith(unproven)
        assert bool(proof.unproven) == bool(unproven)


def test_without_its_kind_a_transcript_still_shows_wrong_sums():
    asker = Asker(toy_curator(), plan_of(5))
    asker.number(ASK)
    asker.number(GO_ON)
    proof = asker.proof(QUERY_KINDS)
    assert (proof.epsilon_claimed, proof.epsilon_spent, proof.epsilon_at_most) == (2 * EACH, 2 * EACH, 2 * EACH)
    asker.session.close(NOW)
    assert asker.proof(QUERY_KINDS).epsilon_spent == 2 * EACH
    with pytest.raises(LocalProtocolError):
        asker.session.query("toy", GO_ON, NOW)


# kill -9

SERVE = """
import sys
from pathlib import Path
from curator_fakes import key
from curator_node.ledger.places import open_ledger_file
from curator_node.mechanisms import ExactNoise
from toy.curators import toy_curator
curator = toy_curator(ledger=open_ledger_file(Path(sys.argv[1]), key("basel")), noise=ExactNoise())
print("ready", flush=True)
for line in sys.stdin:
    print(curator.handle(bytes.fromhex(line)).hex(), flush=True)
"""


class Served:
    """A curator in a process of its own."""

    def __init__(self, file):
        paths = [ROOT, ROOT / "tests" / "support"]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVE, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        )
        assert self.process.stdout.readline() == "ready\n"

    def handle(self, data):
        self.process.stdin.write(data.hex() + "\n")
        self.process.stdin.flush()
        return bytes.fromhex(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_it_survives_kill_9_between_its_messages(tmp_path):
    file = tmp_path / "basel.ledger"
    create_ledger_file(file, key("basel"), now=NOW)
    served = Served(file)
    asker = Asker(None, plan_of(100, 100), handle=served.handle)
    tens = asker.number(ASK)
    served.kill()
    served = Served(file)
    asker.handle = served.handle
    assert asker.number(GO_ON) // 10 == tens  # what the killed process had kept: a fresh draw would differ
    assert asker.number(ASK) is not None
    served.kill()
    served = Served(file)
    asker.handle = served.handle
    asker.session.query("toy", GO_ON, NOW)
    request = asker.session.pending
    reply = served.handle(request)
    served.kill()  # between the answer and its arrival
    served = Served(file)
    assert served.handle(request) == reply
    asker.handle = served.handle
    asker.session.receive(reply)
    closed = asker.close()
    served.kill()
    assert Fraction(closed.refunded) == 2 * EACH
    proof = asker.proof()
    assert (proof.epsilon_spent, proof.unproven) == (2 * EACH, "")
    store = DatabaseStore(sqlite_url(file))
    try:
        assert check(store).findings == ()
    finally:
        store.close()
    ledger = open_ledger_file(file, key("basel"))
    assert ledger.account.total_spent == 2 * EACH
    ledger.close()
