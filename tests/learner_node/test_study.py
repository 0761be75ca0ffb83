"""Studies with curators that die, refuse, lie and come late: who counts, what is spent, and that all is closed."""

import copy
import re
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest

from learner_fakes import (
    LEARNER,
    NOW,
    NoNoise,
    account,
    federate,
    garbage_from,
    halts_at,
    key,
    late,
    mass_body,
    open_curator,
    plan_of,
    quotes,
    rewrites,
    ring,
    silent_from,
    three,
)
from learner_node.strategies import STRATEGIES
from learner_node.strategies.options import PaperOptions
from learner_node.strategies.paper import PaperStrategy
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError, Study
from limits_told import limits_with
from obedient_curator import ObedientCurator
from protocol.codec import encode
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, digest, open_envelope, open_receipt, seal, seal_receipt
from protocol.errors import ConfigurationError
from protocol.kinds.counts import CountsRelease
from protocol.messages import Card, Refusal, Release, StudyAccepted
from protocol.schema import NumericAttribute
from protocol.transcript import replay
from simulations.kinds import SIMULATED_ANSWERERS, SIMULATED_READERS

PLAN = plan_of(10, 10, 5)
COST = Fraction(2, 5)
NAMES = ("basel", "bern", "chur")
SOURCE = ring(60, seed=9).drop("sick")


def run(federation, plan=PLAN, bodies=None):
    """A whole study at the level of `Study`, closed at the end."""
    study = Study(federation)
    try:
        names = list(study.read_cards())
        study.propose(plan, "to test", names)
        for number in range(len(plan.queries)):
            body = mass_body(float(number))
            study.ask(dict.fromkeys(study.survivors, body))
    finally:
        study.close()
    return study


def assert_settled(study, curators, *, silent=()):
    """Nothing is left reserved, receipts say what ledgers say, and transcripts replay."""
    for name, curator in curators.items():
        if name in silent:
            continue
        assert account(curator).total_reserved == 0
        assert study.spent(name) == account(curator).total_spent
        session = study.sessions[name]
        proof = replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)
        assert proof.epsilon_spent == study.spent(name)


@pytest.fixture
def curators():
    return three()


def test_every_curator_answers_every_round(curators):
    study = run(federate(curators))
    assert study.survivors == list(NAMES)
    assert study.outcomes == {name: ["release"] * 3 for name in NAMES}
    assert {study.spent(name) for name in NAMES} == {COST}
    assert_settled(study, curators)


@pytest.mark.parametrize("bad", [silent_from, garbage_from])
@pytest.mark.parametrize("sequence", [-1, 0, 1, 2, 3])
def test_a_curator_that_falls_silent_or_talks_rubbish_is_left_out_and_the_rest_goes_on(bad, sequence, curators):
    study = run(federate(curators, {"bern": bad(sequence)}))
    assert study.survivors == ["basel", "chur"]
    answered = max(0, sequence - 1)
    failed = {silent_from: "no reply", garbage_from: "bad reply"}[bad]
    assert study.outcomes["bern"] == ["release"] * answered + ([failed] if sequence >= 0 else [])
    assert study.spent("bern") == sum((Fraction(1, s) for s in (10, 10, 5)[:answered]), Fraction(0))
    assert account(curators["bern"]).total_spent == study.spent("bern")
    assert [sorted(done.answers) for done in study.rounds[answered:]] == [["basel", "chur"]] * (3 - answered)
    assert_settled(study, curators, silent=["bern"])


def test_a_late_reply_is_asked_for_again_with_the_same_bytes_and_charged_once(curators):
    federation = federate(curators, {"bern": late()})
    study = run(federation)
    assert study.survivors == list(NAMES)
    for kind, messages in (("StudyProposal", 1), ("Query", 3), ("StudyClose", 1)):
        sent = federation.carrier.bytes_sent("bern", kind)
        assert len(sent) == 2 * messages
        assert len(set(sent)) == messages
    assert study.spent("bern") == COST
    assert_settled(study, curators)


def test_a_reply_that_comes_after_the_round_is_paid_for_and_kept_but_not_counted(curators):
    study = run(federate(curators, {"bern": late(times=2)}))
    assert study.survivors == ["basel", "chur"]
    # the lost acceptance arrives when the study is closed, which frees what it had reserved
    assert study.spent("bern") == 0
    assert_settled(study, curators)


def test_a_release_that_was_lost_is_collected_before_the_close(curators):
    lose = late(times=2)

    def from_query_2(message, data, handle):
        return lose(message, data, handle) if getattr(message, "sequence", 0) == 2 else handle(data)

    study = run(federate(curators, {"bern": from_query_2}))
    assert study.outcomes["bern"] == ["release", "no reply"]
    assert "bern" not in study.rounds[1].answers
    assert study.spent("bern") == account(curators["bern"]).total_spent == Fraction(1, 5)
    assert_settled(study, curators)


def test_a_curator_that_refuses_the_plan_is_left_out():
    curators = three() | {"bern": open_curator("bern", cap="1/10")}
    study = run(federate(curators))
    assert study.survivors == ["basel", "chur"]
    assert study.outcomes["bern"] == ["refusal:over_budget"]
    assert_settled(study, curators)


def test_a_curator_that_refuses_in_round_2_counts_in_no_round_of_the_sum(curators):
    federation = federate(curators, {"bern": halts_at(curators["bern"], 2)})
    learned = learn(federation, SOURCE, Budget(1), strategy="paper-c", options={"rounds": 2})
    study = learned.study
    assert study.outcomes["bern"] == ["release", "refusal:halted"]
    assert study.survivors == ["basel", "chur"]
    assert "bern" in study.rounds[0].answers
    assert study.spent("bern") == Fraction(1, 3)
    assert_settled(study, curators)


def test_pooled_sums_are_over_those_that_answered_all_rounds(monkeypatch):
    seen = []

    class Spy(PaperStrategy):
        def run(self, problem):
            asking = super().run(problem)
            step = next(asking)
            while True:
                answers = yield step
                seen.append([(answer.sites, answer.values.sum()) for answer in answers])
                try:
                    step = asking.send(answers)
                except StopIteration as end:
                    return end.value

    monkeypatch.setitem(STRATEGIES, "spy", lambda **options: Spy(PaperOptions(**options), cumulative=True))
    curators = {name: open_curator(name, ring(50 * (i + 1)), noise=NoNoise()) for i, name in enumerate(NAMES)}
    federation = federate(curators, {"chur": silent_from(2)})
    learn(federation, SOURCE, Budget(1), strategy="spy", options={"rounds": 1})
    assert seen[0] == [(3, 2 * 300.0)]  # two attributes, 50 + 100 + 150 records
    assert [sites for sites, _ in seen[1]] == [2, 2]
    assert seen[1][0] == (2, 2 * 150.0)


def test_a_curator_that_quotes_another_cost_is_left_out_and_closed(curators):
    study = run(federate(curators, {"bern": quotes("bern", "1/100")}))
    assert study.survivors == ["basel", "chur"]
    assert study.outcomes["bern"] == ["bad reply"]
    assert account(curators["bern"]).total_reserved == 0
    assert study.spent("bern") == 0


def _tampered(change, label=LABEL):
    """A curator that signs a release of its own making, with a receipt that fits it."""

    def script(message, data, handle):
        reply = open_envelope(handle(data))[1]
        if not isinstance(reply, Release):
            return handle(data)
        receipt = open_receipt(reply.receipt, reply.sender, label=label)
        reply, receipt = change(reply, receipt)
        receipt = msgspec.structs.replace(receipt, release=digest(reply.body))
        sealed = seal_receipt(receipt, key("bern"), label=label)
        return seal(msgspec.structs.replace(reply, receipt=sealed), key("bern"), label=label)

    return script


def _body(counts):
    return lambda reply, receipt: (
        msgspec.structs.replace(reply, body=encode(CountsRelease(counts=counts, ratios=b""))),
        receipt,
    )


@pytest.mark.parametrize(
    "change",
    [
        _body(b""),
        _body(bytes(8 * 100)),
        lambda reply, receipt: (msgspec.structs.replace(reply, body=b"rubbish"), receipt),
        lambda reply, receipt: (msgspec.structs.replace(reply, kind="other"), receipt),
        lambda reply, receipt: (reply, msgspec.structs.replace(receipt, charged="1/7")),
    ],
    ids=["empty", "of another shape", "no body", "of another kind", "overcharged"],
)
def test_a_signed_release_that_makes_no_sense_is_left_out(change, curators):
    study = run(federate(curators, {"bern": _tampered(change)}))
    assert study.survivors == ["basel", "chur"]
    assert study.outcomes["bern"] == ["bad reply"]
    assert account(curators["bern"]).total_reserved == 0
    assert account(curators["bern"]).total_spent == Fraction(1, 10)
    assert study.spent("bern") == Fraction(1, 10)


def test_ratios_that_are_no_numbers_are_left_out():
    curators = {
        name: open_curator(
            name, simulation=True, limits=limits_with(release_kinds=("paper_ratio",)), answerers=SIMULATED_ANSWERERS
        )
        for name in NAMES
    }
    plan = plan_of(10, release="paper_ratio")

    def poison(reply, receipt):
        ratios = np.full(3, np.nan).astype("<f8").tobytes()
        return msgspec.structs.replace(reply, body=encode(CountsRelease(counts=b"", ratios=ratios))), receipt

    study = run(
        federate(
            curators, {"bern": _tampered(poison, NOT_PRIVATE_LABEL)}, allow_not_private=True, readers=SIMULATED_READERS
        ),
        plan,
    )
    assert study.survivors == ["basel", "chur"]
    assert study.outcomes["bern"] == ["bad reply"]


def test_unavailable_is_asked_again_and_noted_when_it_stays(curators):
    tries = []

    def unavailable_once(message, data, handle):
        tries.append(data)
        return handle(data) if tries.count(data) > 1 else _refuse(data, "unavailable")

    study = run(federate(curators, {"bern": unavailable_once}))
    assert study.survivors == list(NAMES)
    assert len(tries) == 2 * 6
    study = run(federate(three(), {"bern": lambda message, data, handle: _refuse(data, "unavailable")}))
    assert study.survivors == ["basel", "chur"]


def _refuse(data, code, **changes):
    asked = open_envelope(data)[1]
    header = {"study": asked.study, "sender": key("bern").public, "recipient": asked.sender, "expires_at": NOW}
    texts = {"explanation": "", "field": "", "limit": "", "remaining": "", "scale_factor": ""} | changes
    return seal(Refusal(**header, sequence=asked.sequence, answers=digest(data), code=code, **texts), key("bern"))


# Refusals that may pass, and a relay that keeps what it carried. The curators answer zeros and obey the protocol.


def obedient(**options):
    return {name: ObedientCurator(name=name, **options) for name in NAMES}


def assert_known(study, curators):
    """Every site's true charge is proven, the transcript says the same, and nothing stays open."""
    for name, curator in curators.items():
        assert study.spent(name) == curator.spent == study.spent_at_most(name)
        proof = replay(study.sessions[name].transcript.envelopes, curator.identity, key(LEARNER).public)
        assert (proof.epsilon_spent, proof.unproven) == (curator.spent, "")
        assert all(held.closed for held in curator.studies.values())


def test_a_refusal_that_passes_is_asked_again_with_the_same_bytes():
    curators, tries = obedient(), []

    def halted_at_first(message, data, handle):
        tries.append(data)
        curators["bern"].halted = tries.count(data) == 1
        return handle(data)

    study = run(federate(curators, {"bern": halted_at_first}))
    assert study.survivors == list(NAMES)
    assert study.outcomes["bern"] == ["release"] * 3
    assert study.asked_again["bern"] == 5  # a card is not refused by one that is halted
    assert_known(study, curators)


def test_a_kept_refusal_costs_the_round_but_hides_no_release():
    """The relay shows the steward's pause of once instead of the second release, however often it is asked."""
    curators, kept = obedient(), []

    def relay(message, data, handle):
        if getattr(message, "kind", "") != "counts" or message.sequence != 2:
            return handle(data)
        if not kept:
            curators["bern"].halted = True
            kept.append(handle(data))
            curators["bern"].halted = False
        release = handle(data)
        closed = any(held.closed for held in curators["bern"].studies.values())
        return release if closed else kept[0]

    study = run(federate(curators, {"bern": relay}))
    assert study.outcomes["bern"] == ["release", "refusal:halted"]
    assert study.survivors == ["basel", "chur"]
    assert curators["bern"].spent == Fraction(1, 5)
    assert study.fate("bern") == "this curator has stopped until its steward acts"
    assert_known(study, curators)
    sent = study._federation.carrier.bytes_sent("bern", "Query")
    assert len(set(sent)) == 2
    kinds = [type(open_envelope(data)[1]) for data in study.sessions["bern"].transcript.envelopes]
    assert kinds[-1] is Release


def test_a_query_that_was_never_answered_is_counted_at_most():
    curators = obedient()
    study = run(federate(curators, {"bern": silent_from(2)}))
    assert study.survivors == ["basel", "chur"]
    assert (study.spent("bern"), study.spent_at_most("bern")) == (Fraction(1, 10), Fraction(1, 5))
    assert study.sessions["bern"].state == "closing"
    study._federation.carrier.scripts.clear()
    study.close()
    assert study.sessions["bern"].state == "closed"
    assert_known(study, curators)


def test_a_proposal_that_waits_is_accepted_at_the_close_and_closed():
    curators = obedient()
    refusals = []

    def halted_twice(message, data, handle):
        if "Proposal" in type(message).__name__ and len(refusals) < 2:
            curators["bern"].halted = True
            refusals.append(handle(data))
            curators["bern"].halted = False
            return refusals[-1]
        return handle(data)

    study = run(federate(curators, {"bern": halted_twice}))
    assert study.outcomes["bern"] == ["refusal:halted"]
    assert study.survivors == ["basel", "chur"]
    assert [each.code for each in study.refusals["bern"]] == ["halted"]
    assert_known(study, curators)


def test_a_lost_answer_costs_the_round_and_is_proven_by_the_close():
    curators = obedient()

    def forgets(message, data, handle):
        reply = handle(data)
        if getattr(message, "kind", "") != "counts" or message.sequence != 2:
            return reply
        curators["bern"].forget()
        return handle(data)

    study = run(federate(curators, {"bern": forgets}))
    assert study.outcomes["bern"] == ["release", "refusal:answer_gone"]
    assert study.spent("bern") == curators["bern"].spent == Fraction(1, 5)
    assert_known(study, curators)


def test_a_release_of_before_is_no_answer_to_the_close():
    curators, kept = obedient(), {}

    def swaps(message, data, handle):
        if getattr(message, "sequence", 0) == 2 and getattr(message, "kind", ""):
            kept["release"] = handle(data)
            return None
        if type(message).__name__ == "StudyClose" and "swapped" not in kept:
            kept["swapped"] = True
            return kept["release"]
        return handle(data)

    study = run(federate(curators, {"bern": swaps}))
    assert study.outcomes["bern"] == ["release", "no reply"]
    assert_known(study, curators)


def test_what_version_1_says_is_named():
    old = lambda message, data, handle: seal(open_envelope(handle(data))[1], key("bern"), label="expril/1")  # noqa: E731
    with pytest.raises(
        NoCuratorError, match=r"version 1 of the protocol.*update ExPriL; verify runs of that time with ExPriL 0"
    ):
        run(federate({"bern": ObedientCurator(name="bern")}, {"bern": old}))


def test_when_all_refuse_the_error_says_what_became_of_each_and_what_to_do():
    curators = {
        "basel": open_curator("basel", cap="1/5"),
        "bern": open_curator("bern"),
        "chur": open_curator("chur"),
        "davos": open_curator("davos"),
        "engelberg": open_curator("engelberg"),
    }
    scripts = {
        "bern": halts_at(curators["bern"], 0),
        "chur": silent_from(0),
        "davos": garbage_from(0),
        "engelberg": silent_from(-1),
    }
    with pytest.raises(NoCuratorError) as caught:
        run(federate(curators, scripts))
    text = str(caught.value)
    assert "no curator accepted the plan" in text
    assert "basel: the plan costs more than is left; ask for an epsilon of at most 0.2 (scales times 2)" in text
    assert "ask for an epsilon of at most 0.2 (scales times 2)" in text
    assert "bern: this curator has stopped until its steward acts" in text
    assert "chur: no reply; see that it runs and can be reached" in text
    assert "davos: its replies broke the protocol" in text
    assert "engelberg: no reply" in text
    assert set(caught.value.study.sessions) == set(curators)
    assert all(account(curator).total_reserved == 0 for curator in curators.values())


def test_a_refusal_cannot_print_to_the_learners_terminal():
    def rude(message, data, handle):
        if isinstance(open_envelope(data)[1], Card) or (message.sequence == 0 and "Proposal" in type(message).__name__):
            return _refuse(data, "bad_plan", explanation="\x1b[2Jcome here", limit="\x1b[31mred" + "r" * 999)
        return handle(data)

    with pytest.raises(NoCuratorError) as caught:
        run(federate({"bern": open_curator("bern")}, {"bern": rude}))
    assert "\x1b" not in str(caught.value)
    assert "come here" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_an_unknown_learner_is_told_to_ask_for_its_key_to_be_added():
    curators = {"bern": open_curator("bern")}
    stranger = replace(federate(curators), key=key("bob"))
    with pytest.raises(NoCuratorError, match=r"ask the curator's steward"):
        Study(stranger).read_cards()


def test_no_curator_sends_its_card():
    with pytest.raises(NoCuratorError, match=r"no curator sent its card.*no reply"):
        Study(federate(three(), dict.fromkeys(NAMES, silent_from(-1)))).read_cards()
    with pytest.raises(NoCuratorError, match="names no curator"):
        Study(federate({})).read_cards()


def test_when_the_last_curator_falls_silent_the_study_is_closed(curators):
    scripts = {"basel": garbage_from(2), "bern": garbage_from(2), "chur": halts_at(curators["chur"], 2)}
    with pytest.raises(NoCuratorError, match="no curator answered every round"):
        run(federate(curators, scripts))
    assert account(curators["chur"]).total_reserved == 0
    assert account(curators["chur"]).total_spent == Fraction(1, 10)


class _FailsError(Exception):
    pass


@pytest.mark.parametrize("answered", [0, 1, 2])
def test_a_strategy_that_fails_leaves_nothing_reserved(monkeypatch, answered, curators):
    """Before its first question, before its second, or after its last answer."""

    class Fails(PaperStrategy):
        def run(self, problem):
            asking, answers = super().run(problem), None
            for _ in range(answered):
                answers = yield asking.send(answers)
            raise _FailsError

    monkeypatch.setitem(STRATEGIES, "fails", lambda **options: Fails(PaperOptions(**options), cumulative=True))
    with pytest.raises(_FailsError):
        learn(federate(curators), SOURCE, Budget(1), strategy="fails", options={"rounds": 1})
    assert all(account(curator).total_reserved == 0 for curator in curators.values())
    assert {account(curator).total_spent for curator in curators.values()} == {Fraction(answered, 2)}


def test_a_carrier_that_fails_once_leaves_nothing_reserved(curators):
    federation = federate(curators)
    exchange, calls = federation.carrier.exchange, []

    def fails_at_the_second_query(requests):
        calls.append(requests)
        replies = exchange(requests)
        if len(calls) == 4:
            raise _FailsError
        return replies

    federation.carrier.exchange = fails_at_the_second_query
    with pytest.raises(_FailsError):
        run(federation)
    assert all(account(curator).total_reserved == 0 for curator in curators.values())


def test_receipts_are_kept_and_a_rolled_back_ledger_is_noticed(curators):
    federation = federate(curators)
    run(federation)
    assert set(federation.receipts) == {curator.identity for curator in curators.values()}
    fresh = {**curators, "bern": open_curator("bern", noise=NoNoise())}
    again = federate(fresh, receipts=federation.receipts)
    study = run(again)
    assert study.outcomes["bern"] == ["refusal:ledger_rolled_back"]
    assert study.survivors == ["basel", "chur"]


def test_two_names_for_one_curator_are_refused():
    curator = open_curator("bern")
    federation = federate({"bern": curator})
    with pytest.raises(ConfigurationError, match="same public key"):
        Study(replace(federation, curators={"bern": curator.identity, "berne": curator.identity}))


def test_a_federation_is_a_handle():
    federation = federate(three())
    assert copy.deepcopy(federation) is copy.copy(federation) is federation
    assert repr(federation) == "Federation(basel, bern, chur)"


# What a card says is checked before anything is asked.


def _untouched(curators):
    assert all(account(curator).studies == {} for curator in curators.values())


NOT_ALLOWED = r"would refuse.*does not allow this kind \(plan\.queries\[0\]\.release:"
OVER = [
    (limits_with(cells=5), "cells", {"cells": 6}, "would refuse this study: .*at most 5 cells"),
    (limits_with(message_bytes=1200), "cells", {"cells": 30}, "would refuse.* a message"),
    (limits_with(multiply_adds=100), "cells", {}, "would refuse.* multiply-adds"),
    (limits_with(partitions=1), "paper-c", {}, r"would refuse.*\[0\]\.partitions: at most 1 partitions\)"),
    (limits_with(release_kinds=("mass",)), "cells", {}, rf"{NOT_ALLOWED} mass\)"),
    (limits_with(parameters=1100), "paper-c", {}, "network 2-32-32-1 of about .* too large"),
]
EVERYWHERE = [
    (limits_with(), "paper-c", {"hidden": [5000]}, "network 2-5000-1 .* too large"),
    (limits_with(), "paper-c", {"printed": True}, r"would refuse.*\(plan\.queries\.release: mass, signed_error"),
]


@pytest.mark.parametrize(("limits", "strategy", "options", "text"), OVER + EVERYWHERE)
@pytest.mark.parametrize("pooling", ["sum", "site"])
def test_a_question_over_every_cards_limits_is_a_local_error(limits, strategy, options, text, pooling):
    curators = {name: open_curator(name, limits=limits) for name in ("basel", "bern")}
    with pytest.raises(ConfigurationError, match=text):
        learn(federate(curators), SOURCE, Budget(1), strategy=strategy, options=options, pooling=Pooling(pooling))
    _untouched(curators)


@pytest.mark.family(1)
@pytest.mark.parametrize(("limits", "strategy", "options", "text"), OVER)
@pytest.mark.parametrize("pooling", ["sum", "site"])
def test_a_question_over_one_cards_limits_is_asked_of_the_others(limits, strategy, options, text, pooling):
    curators = {"basel": open_curator("basel"), "bern": open_curator("bern", limits=limits)}
    study = learn(
        federate(curators), SOURCE, Budget(1), strategy=strategy, options=options, pooling=Pooling(pooling)
    ).study
    assert study.survivors == ["basel"]
    assert study.left_out.keys() == {"bern"}
    assert re.match(f"left out: .*{text}", study.left_out["bern"])
    assert study.outcomes["bern"] == ["left out"]
    _untouched({"bern": curators["bern"]})


def test_the_rule_for_cells_keeps_to_the_tightest_card():
    curators = {"basel": open_curator("basel"), "bern": open_curator("bern", limits=limits_with(cells=4))}
    learned = learn(federate(curators), SOURCE, Budget(1), strategy="cells")
    assert learned.study.rounds[0].bodies["basel"].partitions[0].cell_count(learned.schema) == 4


def test_a_later_question_over_a_limit_is_not_sent():
    curators = three() | {"bern": open_curator("bern", limits=limits_with(cells=3))}
    federation = federate(curators)
    study = Study(federation)
    study.propose(PLAN, "", list(study.read_cards()))
    study.ask(dict.fromkeys(NAMES, mass_body(0.0)))
    study.ask(dict.fromkeys(NAMES, mass_body(0.0, 1.0, 2.0)))
    study.close()
    assert study.survivors == ["basel", "chur"]
    assert len(federation.carrier.bytes_sent("bern", "Query")) == 1
    assert_settled(study, curators)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"budget": Budget("1/2000")}, "costs 1/2000 there, less than"),
        ({"budget": Budget(Fraction(987654319, 10**9)), "strategy": "paper-c"}, "more than 32 bits"),
        ({"strategy": "cels"}, "did you mean 'cells'"),
        ({"options": {"cells": 0}}, "from 1 to"),
        ({"options": {"cells": 2.5}}, "whole number"),
        ({"options": {"cell": 2}}, "cell"),
        ({"strategy": "paper-i", "options": {"rounds": 0}}, "from 1 to 999"),
        ({"strategy": "paper-i", "options": {"rounds": 1000}}, "from 1 to 999"),
        ({"strategy": "paper-i", "options": {"hidden": [0]}}, "from 1 to"),
        ({"strategy": "paper-i", "options": {"bins": -1}}, "from 1 to"),
    ],
)
def test_a_wrong_argument_is_a_local_error(arguments, text, curators):
    with pytest.raises(ConfigurationError, match=text):
        learn(federate(curators), SOURCE, **{"strategy": "cells", "budget": Budget(1), **arguments})
    _untouched(curators)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: Budget("nan"), "not a positive rational"),
        (lambda: Budget(0), "must be positive"),
        (lambda: Budget(1, "p" * 1001), "1001 characters; at most 1000 fit"),
        (lambda: Budget(1, validation=-1), "must be positive"),
        (lambda: Pooling("mean"), "pooling must be one of sum, site"),
    ],
)
def test_a_wrong_budget_or_pooling_is_a_local_error(wrong, text):
    with pytest.raises(ConfigurationError, match=text):
        wrong()


def test_cards_that_describe_an_attribute_differently_are_named():
    other = (NumericAttribute(name="x", lower=-4, upper=4), NumericAttribute(name="y", lower=-400, upper=400))
    curators = {"basel": open_curator("basel"), "bern": open_curator("bern", attributes=other)}
    with pytest.raises(ConfigurationError, match="the cards of basel and bern describe 'y' differently"):
        learn(federate(curators), SOURCE, Budget(1), strategy="cells")
    _untouched(curators)


def test_a_card_that_lies_about_the_contribution_bound_shows_in_the_quoted_cost():
    # the curator charges for c = 3 and says 1 on its card
    curators = three() | {"bern": open_curator("bern", most=3)}
    lie = rewrites("bern", Card, lambda card: msgspec.structs.replace(card, most_records_per_unit=1))
    study = run(federate(curators, {"bern": lie}))
    assert study.survivors == ["basel", "chur"]
    assert account(curators["bern"]).total_spent == account(curators["bern"]).total_reserved == 0


def test_the_costliest_curator_pays_epsilon_and_others_less():
    curators = three() | {"bern": open_curator("bern", most=3, noise=NoNoise())}
    learned = learn(federate(curators), SOURCE, Budget("1/3"), strategy="cells")
    assert learned.epsilon_claimed == learned.study.spent("bern") == Fraction(1, 3)
    assert learned.study.spent("basel") == Fraction(1, 9)
    assert_settled(learned.study, curators)


def test_one_model_per_site_and_none_for_the_dead(curators):
    learned = learn(
        federate(curators, {"bern": silent_from(1)}),
        SOURCE,
        Budget(1),
        strategy="cells",
        options={"networks": False},
        pooling=Pooling("site"),
    )
    assert set(learned.models) == set(learned.estimates) == {"basel", "chur"}
    assert learned.model("basel") is not learned.model("chur")
    for absent in ("bern", ""):
        with pytest.raises(NoCuratorError):
            learned.model(absent)


def test_source_records_must_fit_the_cards(curators):
    for source, text in (
        (SOURCE.drop("x"), "lack the declared column"),
        (SOURCE[:1], "at least two"),
        (pl.DataFrame({"x": ["a", "b"], "y": [0, 1]}), "holds text"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            learn(federate(curators), source, Budget(1), strategy="cells")
    _untouched(curators)


def test_a_lying_quote_of_everyone_closes_everyone(curators):
    with pytest.raises(NoCuratorError, match="broke the protocol"):
        learn(federate(curators, {name: quotes(name, "1/100") for name in NAMES}), SOURCE, Budget(1), strategy="cells")
    assert all(account(curator).total_reserved == 0 for curator in curators.values())


def test_an_acceptance_is_what_a_curator_signs(curators):
    study = run(federate(curators))
    assert all(isinstance(study.sessions[name].accepted, StudyAccepted) for name in NAMES)
