"""A plan of secure sums that not all curators accept: drafted again for those that do, before anything is charged."""

import contextlib
from fractions import Fraction

import pytest

from learner_fakes import (
    ENTROPY,
    LEARNER,
    Clock,
    EndsAt,
    PowerFailure,
    Scripted,
    account,
    federate,
    journalled,
    key,
    mass_body,
    open_curator,
    quotes,
    ring,
    silent_from,
)
from learner_node.carriers.journal import Journal, Settings
from learner_node.questions.validation import validate
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.plan import ATTEMPTS
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError, Study
from moved_floats import Moved
from protocol.messages import CardRequest, Query, StudyClose, StudyProposal
from protocol.secure_sum import participant
from protocol.transcript import replay
from protocol.transitions import State
from secure_fakes import ScriptedNoise, limits_with, members, names_of, secure_plan
from secure_rounds import hermit

SOURCE = ring(60, seed=99).drop("sick")
FAST = {"networks": False}
HOW = {"strategy": "cells", "options": FAST, "budget": Budget(1)}
SECURE = {"pooling": Pooling("secure")}


def with_poor(count, *poor, cap="1/2"):
    """Members of whom some have less left for this learner than a study costs; their cards do not tell."""
    curators = members(count)
    for name in poor:
        curators[name] = open_curator(
            name,
            ring(60, seed=int(name.split()[1])),
            limits=limits_with(names_of(count)),
            noise=ScriptedNoise(),
            cap="2",
        )
        spend = Study(federate({name: curators[name], "other": open_curator("other")}))
        _spend(spend, curators[name], name, Fraction(cap))
    return curators


def _spend(study, curator, name, left):
    from learner_fakes import plan_of

    study.read_cards()
    with study.closing():
        study.propose(plan_of(1 / (2 - left)), "before", [name])
        study.ask({name: mass_body(0.0)})
    assert account(curator).total_spent == 2 - left


def assert_kept(study, curators, spent):
    """All that was said is proven, nothing is reserved, and what was given up cost nothing."""
    for name, curator in curators.items():
        assert account(curator).total_reserved == 0
        for session in study.retired[name]:
            proof = replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)
            assert (proof.state, proof.epsilon_at_most) == (State.CLOSED, 0)
        proof = replay(study.sessions[name].transcript.envelopes, curator.identity, key(LEARNER).public)
        assert proof.epsilon_spent == study.spent(name) == spent.get(name, 0)


def retired(study):
    return {name: len(each) for name, each in study.retired.items()}


def test_a_plan_that_one_refuses_is_drafted_again_for_the_rest_in_other_sessions():
    curators = with_poor(3, "site 01")
    study = learn(federate(curators), SOURCE, **HOW, **SECURE).study
    assert study.survivors == ["site 00", "site 02"]
    assert study.left_out == {
        "site 01": "the plan costs more than is left; ask for an epsilon of at most 0.5 (scales times 2)"
    }
    assert study.kinds.queries(study.plan)[0].participants == tuple(
        sorted(curators[name].identity for name in study.survivors)
    )
    assert retired(study) == {"site 00": 1, "site 01": 0, "site 02": 1}
    assert study.retired["site 00"][0].study != study.sessions["site 00"].study
    assert_kept(study, curators, {"site 00": 1, "site 02": 1})


@pytest.mark.parametrize("at", [0, -1])
def test_one_that_does_not_answer_the_proposal_is_left_out_and_tolerated_dropouts_are_kept(at):
    """At -1 it is silent only from the second card on: between two attempts."""
    curators = members(7)
    seen = []

    def until_the_second_card(message, data, handle):
        seen.append(data) if isinstance(message, CardRequest) else None
        return handle(data) if len(set(seen)) < 2 else None

    scripts = {"site 03": silent_from(0)}
    if at:
        scripts["site 04"] = until_the_second_card
    study = learn(federate(curators, scripts), SOURCE, **HOW, **SECURE).study
    rest = [name for name in curators if name not in scripts]
    planned = study.kinds.queries(study.plan)[0]
    assert study.survivors == rest
    assert (len(planned.participants), planned.dropouts) == (len(rest), 1)
    assert "no reply" in study.left_out["site 03"]
    assert ("its card changed, or did not come" in study.left_out.get("site 04", "")) == bool(at)
    assert study.rounds[0].pooled.noises == len(rest) / (len(rest) - 2)
    assert_kept(study, {name: curators[name] for name in rest}, dict.fromkeys(rest, 1))


def test_one_that_accepted_at_another_cost_is_left_out_too():
    curators = members(4)
    study = learn(federate(curators, {"site 02": quotes("site 02", "1/2")}), SOURCE, **HOW, **SECURE).study
    assert study.survivors == ["site 00", "site 01", "site 03"]
    assert "broke the protocol" in study.left_out["site 02"]
    assert account(curators["site 02"]).total_spent == 0


def test_one_curator_alone_makes_no_sum_and_nobody_is_said_to_be_silent_that_was_not():
    curators = with_poor(2, "site 01")
    with pytest.raises(NoCuratorError, match="was not begun: 1 of 2 curators are left") as caught:
        learn(federate(curators), SOURCE, **HOW, **SECURE)
    assert "nothing was charged" in str(caught.value)
    assert "site 00: it answered all that it was asked" in str(caught.value)
    assert "no reply" not in str(caught.value)
    assert account(curators["site 00"]).total_spent == account(curators["site 00"]).total_reserved == 0


def test_told_dropouts_that_fit_no_smaller_plan_are_used_for_those_that_refuse():
    """With t = 2 and u = 1 four cannot sum, as five can of whom one is gone."""
    curators = members(5)
    study = learn(
        federate(curators, {"site 00": silent_from(0)}),
        SOURCE,
        **HOW,
        pooling=Pooling("secure", colluders=2, dropouts=1),
    ).study
    assert retired(study) == dict.fromkeys(curators, 0)
    assert study.rounds[0].took_part == tuple(names_of(5)[1:])


def test_attempts_are_bounded():
    """One more refuses each time: it is not asked more than `ATTEMPTS` times, and tolerated dropouts come in."""
    curators = members(12, size=20)
    proposals = {}

    def gone_after(times):
        def script(message, data, handle):
            mine = proposals.setdefault(times, set())
            if isinstance(message, StudyProposal):
                mine.add(data)
            return None if len(mine) > times else handle(data)

        return script

    scripts = {name: gone_after(number) for number, name in enumerate(names_of(ATTEMPTS))}
    study = learn(federate(curators, scripts), SOURCE, **HOW, **SECURE).study
    assert len(study.retired["site 11"]) == ATTEMPTS - 1
    assert study.survivors == names_of(12)[ATTEMPTS:]
    assert len(study.kinds.queries(study.plan)[0].participants) == 12 - ATTEMPTS + 1


@pytest.mark.slow
def test_a_validation_is_drafted_again_too():
    curators = with_poor(3, "site 02", cap="3/2")
    fitted = learn(federate({name: curators[name] for name in ("site 00", "site 01")}), SOURCE, **HOW, **SECURE)
    found = validate(
        federate(curators, {"site 02": silent_from(0)}),
        fitted.model(),
        Budget(1),
        source=SOURCE,
        pooling=Pooling("secure"),
    )
    assert found.curators == ("site 00", "site 01")
    assert retired(found.study) == {"site 00": 1, "site 01": 1, "site 02": 0}
    assert "no reply" in found.left_out["site 02"]


@pytest.mark.family(2)
@pytest.mark.parametrize("at", range(2, 9))
def test_a_process_that_ends_between_two_attempts_is_gone_on_with_elsewhere(tmp_path, monkeypatch, at):
    """Exchange 1 is of the cards, 2 and 3 of the plan, 4 of it once more, 5 closes, 6 is of the cards, 7 of a plan."""
    curators = members(3)

    def attempt(carrier):
        with Journal(tmp_path / "journal", Settings("0", bytes(32), {}), clock=Clock(), entropy=ENTROPY) as journal:
            return learn(journalled(journal, curators, carrier), SOURCE, **HOW, **SECURE)

    def ends_at(at):
        return EndsAt(Scripted(curators, {"site 02": silent_from(0)}), at)

    first = ends_at(at)
    with pytest.raises(PowerFailure):
        attempt(first)
    second = ends_at(0)
    Moved(monkeypatch, at)
    found = attempt(second)
    size = len(second.sent) and len(
        {data for _, _, data in second.inner.sent} & {data for _, _, data in first.inner.sent}
    )
    assert size, "the last exchange is sent again, the same bytes"
    assert found.study.survivors == ["site 00", "site 01"]
    assert_kept(found.study, {name: curators[name] for name in found.study.survivors}, {"site 00": 1, "site 01": 1})
    with contextlib.suppress(PowerFailure):
        assert attempt(ends_at(1)).study.survivors == found.study.survivors, "all of it is in the journal"


@pytest.mark.slow
def test_a_turn_of_a_sum_that_is_over_is_not_sent_again_and_costs_nothing():
    """The masked turn never reached it; all else does."""
    curators = members(5)
    asked = []

    def loses_the_masked_turn(message, data, handle):
        if isinstance(message, Query) and message.sequence == 3:
            asked.append(data)
            return None
        return handle(data)

    study = Study(federate(curators, {"site 03": loses_the_masked_turn}))
    study.read_cards()
    with study.closing():
        study.propose(secure_plan(curators, 10, dropouts=1), "to test", list(curators))
        study.ask(dict.fromkeys(study.survivors, mass_body(0.0)))
    assert len(asked) == study._federation.attempts
    assert account(curators["site 03"]).total_spent == account(curators["site 03"]).total_reserved == 0
    assert study.sessions["site 03"].state is State.CLOSED
    assert study.spent_at_most("site 03") == 0


@pytest.mark.slow
def test_a_release_of_a_sum_that_was_lost_and_charged_is_recovered_after_the_closing():
    curators = members(5)
    closed = []

    def loses_replies(message, data, handle):
        reply = handle(data)
        closed.append(message) if isinstance(message, StudyClose) else None
        return None if isinstance(message, Query) and message.sequence == 3 and not closed else reply

    study = Study(federate(curators, {"site 03": loses_replies}))
    study.read_cards()
    with study.closing():
        study.propose(secure_plan(curators, 10, dropouts=1), "to test", list(curators))
        study.ask(dict.fromkeys(study.survivors, mass_body(0.0)))
    assert "site 03" not in study.rounds[0].took_part
    assert study.spent("site 03") == account(curators["site 03"]).total_spent == Fraction(1, 10)
    proof = replay(study.sessions["site 03"].transcript.envelopes, curators["site 03"].identity, key(LEARNER).public)
    assert (proof.releases, proof.epsilon_spent) == (3, Fraction(1, 10))


def test_who_could_not_go_on_without_others_is_not_said_to_have_lied(monkeypatch):
    """Two of the four neighbours of the first participant never deal."""
    monkeypatch.setattr(participant, "graph_of", hermit)
    curators = members(12, size=20)
    by_seat = sorted(curators, key=lambda name: curators[name].identity)
    study = Study(federate(curators, dict.fromkeys(by_seat[1:3], silent_from(2))))
    study.read_cards()
    with study.closing():
        study.propose(secure_plan(curators, 10, dropouts=5), "to test", list(curators))
        study.ask(dict.fromkeys(study.survivors, mass_body(0.0)))
    assert set(study.rounds[0].took_part) == set(by_seat[3:])
    assert study.left_out[by_seat[0]] == (
        "left out: it could not go on in a secure sum: too few of its neighbours dealt"
    )
    assert "no reply" in study.left_out[by_seat[1]]
    assert account(curators[by_seat[0]]).total_spent == 0
