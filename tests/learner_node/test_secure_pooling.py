"""Secure pooling from the learner's side: plans, what is opened, who is left, costs, the law of summed noise."""

import contextlib
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, kve
from scipy.stats import nbinom

from learner_fakes import (
    ENTROPY,
    LEARNER,
    Clock,
    EndsAt,
    Entropy,
    PowerFailure,
    Scripted,
    account,
    federate,
    garbage_from,
    journalled,
    key,
    late,
    mass_body,
    open_curator,
    quotes,
    rewrites,
    ring,
    silent_from,
)
from learner_node.carriers.journal import Journal, Settings
from learner_node.estimator import ExPriLClassifier
from learner_node.models.label_model.likelihood import noise_log_pmf
from learner_node.questions.validation import validate
from learner_node.study.budget import Budget
from learner_node.study.cards import FALSE_ALARM
from learner_node.study.doubts import StudyWarning
from learner_node.study.learn import learn
from learner_node.study.plan import ATTEMPTS, secure_pool, strangers
from learner_node.study.pooling import Pooling, SecurePool
from learner_node.study.study import NoCuratorError, Study
from margins import surely_above
from moved_floats import Moved
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError
from protocol.kinds.secure_counts import MaskedCounts, Revealed
from protocol.limits import Limits
from protocol.messages import CardRequest, Query, Release, StudyClose, StudyProposal
from protocol.noise import DiscreteLaplace
from protocol.secure_sum import participant
from protocol.transcript import replay
from protocol.transitions import State
from secure_fakes import ScriptedNoise, limits_with, members, names_of, secure_plan
from secure_rounds import hermit

SOURCE = ring(60, seed=99).drop("sick")
EDGES = (-1.0, 0.0, 0.5)
COST = Fraction(1, 10)
FIFTY = pytest.param(50, 6, 5, marks=pytest.mark.slow)
FAST = {"networks": False}
HOW = {"strategy": "cells", "options": FAST, "budget": Budget(1)}


def exact(curators, edges=EDGES):
    """Records by bin of `x`, all of these curators together, counted by numpy; the last bin is of missing values."""
    frames = [ring(60, seed=int(name.split()[1])) for name in curators]
    values = np.concatenate([frame["x"].to_numpy() for frame in frames])
    return [*np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1).tolist(), 0]


def ask(curators, plan, scripts=None, bodies=1, names=None):
    """A study of this plan, closed in the end."""
    study = Study(federate(curators, scripts))
    study.read_cards()
    with study.closing():
        study.propose(plan, "to test", list(names or curators))
        for _ in range(bodies):
            study.ask(dict.fromkeys(study.survivors, mass_body(*EDGES)))
    return study


def assert_proven(study, curators, cost=COST):
    for name, curator in curators.items():
        session = study.sessions[name]
        assert account(curator).total_spent == study.spent(name) == cost
        assert account(curator).total_reserved == 0
        assert replay(session.transcript.envelopes, curator.identity, key(LEARNER).public).epsilon_spent == cost


@pytest.mark.parametrize(("count", "colluders", "dropouts"), [(2, 1, 0), (3, 1, 0), (4, 1, 1), (10, 2, 2), FIFTY])
def test_the_opened_sum_is_the_exact_one_where_no_noise_is_added(count, colluders, dropouts):
    curators = members(count)
    study = ask(curators, secure_plan(curators, 10, colluders=colluders, dropouts=dropouts))
    (done,) = study.rounds
    (answer,) = study.pooled(study.survivors)
    assert answer.values[:, 0].tolist() == exact(curators)
    assert done.took_part == tuple(study.survivors) == tuple(curators)
    assert (answer.sites, answer.noises) == (count, count / (count - colluders - dropouts))
    assert set(map(tuple, study.outcomes.values())) == {("release",)}
    assert study.questions == 1
    assert_proven(study, curators)


def test_a_share_of_each_curator_is_in_the_sum():
    curators = members(4, noise=ScriptedNoise(7))
    study = ask(curators, secure_plan(curators, 10))
    assert (study.rounds[0].pooled.values[:, 0] - exact(curators)).tolist() == [28] * 5


def test_the_noise_of_the_sum_has_the_variance_of_its_shares():
    """False alarms 1e-9. Power: the variance of the shares, 4/3 of one noise, is told from that of 1 and of 4.

    Of 6000 independent values the mean square scatters by sqrt((kurtosis - 1) / 6000) of itself. The kurtosis of m
    noises is 3 + (3 + 1/v) / m < 6; 6.5 deviations are 1.2e-10 of a normal law on both sides, and 10 allow for the
    tails: 29 % of it, where 4/3 and 1 are 33 % apart.
    """
    curators = {
        name: open_curator(name, ring(60, seed=n), limits=limits_with(names_of(4)), round_size=500)
        for n, name in enumerate(names_of(4))
    }
    edges = tuple(np.linspace(-3.9, 3.9, 5999))
    study = Study(federate(curators))
    study.propose(secure_plan(curators, 10), "to test", list(study.read_cards()))
    answer = study.ask(dict.fromkeys(study.survivors, mass_body(*edges))).pooled
    noise = answer.values[:, 0] - exact(curators, edges)
    one = DiscreteLaplace(Fraction(10)).variance()
    assert answer.noise_variance == pytest.approx(4 / 3 * one)
    bound = 10 * np.sqrt(5 / len(noise))
    assert np.mean(noise**2) == pytest.approx(4 / 3 * one, rel=bound)
    assert bound < 1 / 3
    assert FALSE_ALARM == 1e-9


@pytest.mark.family(2)
@pytest.mark.parametrize("bad", [silent_from, garbage_from])
@pytest.mark.parametrize("turn", range(1, 6))
def test_one_that_falls_silent_at_any_turn_is_tolerated(bad, turn):
    """Its records are counted where its masked vector came; alive it is no more."""
    curators = members(5)
    plan = secure_plan(curators, 10, 10, dropouts=1)
    study = ask(curators, plan, {"site 03": bad(turn)}, bodies=2)
    rest = [name for name in curators if name != "site 03"]
    first, second = study.rounds
    counted = list(curators) if turn > 3 else rest
    assert list(first.took_part) == counted
    assert first.pooled.values[:, 0].tolist() == exact(counted)
    assert first.pooled.noises == len(counted) / 3
    assert study.survivors == rest == list(second.took_part)
    assert second.pooled.values[:, 0].tolist() == exact(rest)
    assert study.outcomes["site 03"] == [{silent_from: "no reply", garbage_from: "bad reply"}[bad]]
    assert ("it is in a sum" in study.left_out["site 03"]) == (turn > 3)
    assert [answer.sites for answer in study.pooled(rest)] == [len(counted), 4]
    asked = [message for to, message, _ in study._federation.carrier.sent if to == "site 03" and message == "Query"]
    assert len(asked) <= 2 * turn + 1, "no later turn is asked there"
    assert_proven(study, {name: curators[name] for name in rest}, 2 * COST)


@pytest.mark.family(1)
@pytest.mark.parametrize("turn", range(1, 6))
def test_one_that_falls_silent_too_many_ends_the_study_with_what_it_costs(turn):
    curators = members(3)
    with pytest.raises(NoCuratorError, match="secure sum") as caught:
        ask(curators, secure_plan(curators, 10), {"site 01": silent_from(turn)})
    told = str(caught.value)
    assert "site 01: no reply" in told
    charged = turn > 2
    assert ("nothing was charged" in told) == (not charged)
    for name in ("site 00", "site 02"):
        assert account(curators[name]).total_spent == COST * charged
        assert account(curators[name]).total_reserved == 0
    assert caught.value.study.outcomes["site 00"] == ["release"]


def test_a_sum_with_too_few_curators_is_not_begun():
    curators = members(4)
    with pytest.raises(NoCuratorError, match="was not begun: 3 of 4 curators are left, and 4 are needed"):
        ask(curators, secure_plan(curators, 10), {"site 02": silent_from(0)})
    assert {account(curator).total_spent for curator in curators.values()} == {0}


def test_a_late_curator_is_asked_again_with_the_same_bytes_and_charged_once():
    curators = members(3)
    study = ask(curators, secure_plan(curators, 10), {"site 01": late()})
    assert study.rounds[0].pooled.values[:, 0].tolist() == exact(curators)
    sent = study._federation.carrier.bytes_sent("site 01", "Query")
    assert (len(sent), len(set(sent))) == (10, 5)
    assert study.asked_again["site 01"] == 7  # proposal, five turns, close
    assert_proven(study, curators)


def changed(of, change):
    def rewritten(said):
        try:
            body = decode(said.body, of)
        except Exception:  # noqa: BLE001 - another turn's
            return said
        return msgspec.structs.replace(said, body=encode(change(body)))

    return rewritten


def test_who_answers_with_a_wrong_length_or_wrong_shares_is_named_and_out():
    """The curator signs a receipt for what it says: the lie is in the release, so receipts must be of it, too."""
    curators = members(5)
    plan = secure_plan(curators, 10, dropouts=1)
    for cut in (1, 8):
        lie = changed(MaskedCounts, lambda body, cut=cut: MaskedCounts(body.words[:-cut]))
        study = ask(curators, plan, {"site 02": rewrites("site 02", Release, lie)})
        assert "site 02" not in study.survivors
        assert list(study.rounds[0].took_part) == [name for name in curators if name != "site 02"]
    lie = changed(Revealed, lambda body: Revealed(tuple((at, b"\1" * len(share)) for at, share in body.shares)))
    study = ask(curators, plan, {"site 02": rewrites("site 02", Release, lie)})
    assert "site 02" not in study.survivors


def test_curators_that_sum_are_asked_one_question():
    curators = members(2)
    study = Study(federate(curators))
    study.propose(secure_plan(curators, 10), "to test", list(study.read_cards()))
    with pytest.raises(ConfigurationError, match="one question"):
        study.ask({"site 00": mass_body(0.0), "site 01": mass_body(0.5)})


def test_a_sum_that_cannot_be_true_names_all_that_may_be_wrong():
    curators = members(3, noise=ScriptedNoise(100_000))
    with pytest.raises(NoCuratorError, match="Which of site 00, site 01, site 02 is wrong cannot be told"):
        ask(curators, secure_plan(curators, 10))


@pytest.mark.family(2)
@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("at", [3, 4, 5, 6, 7])
def test_a_process_that_ends_within_a_round_is_gone_on_with_and_the_sum_is_paid_once(tmp_path, at, served):
    """Exchange 1 is of the cards, 2 of the plan, 3 to 7 of the turns."""
    curators = members(3)
    plan = secure_plan(curators, 10)

    def attempt(carrier):
        about = Settings("0", bytes(32), {})
        with Journal(tmp_path / "journal", about, clock=Clock(), entropy=Entropy()) as journal:
            study = Study(journalled(journal, curators, carrier))
            with study.closing():
                study.propose(plan, "to test", list(study.read_cards()))
                study.ask(dict.fromkeys(study.survivors, mass_body(*EDGES)))
            return study

    first, second = EndsAt(Scripted(curators), at, served=served), EndsAt(Scripted(curators), 0, served=False)
    with contextlib.suppress(PowerFailure):
        attempt(first)
    study = attempt(second)
    assert first.sent[-1] == second.sent[0], "the same bytes"
    assert study.rounds[0].pooled.values[:, 0].tolist() == exact(curators)
    assert_proven(study, curators)


# How curators are pooled, by their cards


def pooled(curators, scripts=None, *, colluders=None, dropouts=None, **changes):
    how = HOW | {"pooling": Pooling("secure", colluders=colluders, dropouts=dropouts)} | changes
    return learn(federate(curators, scripts), SOURCE, **how)


def cards_of(curators):
    study = Study(federate(curators))
    return study.read_cards()


def test_curators_that_do_not_list_each_other_are_left_out_with_a_reason():
    names = names_of(5)
    curators = members(5)
    curators["site 01"] = open_curator("site 01", limits=limits_with(names[1:]), noise=ScriptedNoise())
    curators["site 02"] = open_curator("site 02", noise=ScriptedNoise())
    curators["site 04"] = open_curator("site 04", limits=limits_with([]), noise=ScriptedNoise())
    assert strangers(Pooling("secure"), cards_of(curators)) == {
        "site 02": "its policy allows no secure sums",
        "site 04": "it and site 00, site 01, site 03 do not list each other as members of a secure sum",
        "site 01": "it and site 00 do not list each other as members of a secure sum",
    }
    found = pooled(curators)
    assert found.study.survivors == ["site 00", "site 03"]
    assert found.study.left_out.keys() == {"site 01", "site 02", "site 04"}


def test_a_card_that_asks_for_too_many_colluders_keeps_nobody_else_from_summing():
    names = names_of(4)
    curators = members(4)
    others = [bytes([number]).hex() * 32 for number in range(1, 9)]
    listed = [key(name).public.hex() for name in names]
    curators["site 01"] = open_curator(
        "site 01",
        limits=Limits(kinds={"counts": {}, "secure_counts": {"members": listed + others, "least_colluders": 9}}),
        noise=ScriptedNoise(),
    )
    why = "its policy asks to assume 9 colluders, too many among 4 curators"
    assert strangers(Pooling("secure"), cards_of(curators)) == {"site 01": why}
    found = pooled(curators)
    assert found.study.left_out == {"site 01": f"left out: {why}"}


def test_a_plan_assumes_as_many_colluders_as_each_policy_asks_for():
    names = names_of(6)
    curators = members(6)
    wary = open_curator("site 05", limits=limits_with(names, least_colluders=3), noise=ScriptedNoise())
    pool = secure_pool(Pooling("secure"), cards_of(curators | {"site 05": wary}))
    assert (pool.colluders, pool.dropouts, pool.shares) == (3, 1, 2)
    found = pooled(curators | {"site 05": wary}, colluders=2)
    assert "at least 3 colluders" in found.study.left_out["site 05"]


@pytest.mark.parametrize(
    ("count", "colluders", "dropouts"),
    [(2, 1, 0), (3, 1, 0), (4, 1, 0), (5, 1, 1), (9, 1, 1), (10, 2, 2), (50, 6, 10), (100, 11, 20), (1000, 101, 200)],
)
def test_the_usual_pool_has_twice_the_noise_of_one_at_most(count, colluders, dropouts):
    pool = SecurePool.of(number.to_bytes(32, "big") for number in range(count))
    assert (pool.colluders, pool.dropouts) == (colluders, dropouts)
    assert 1 < count / pool.shares <= 2


def test_colluders_and_dropouts_need_secure_sums():
    with pytest.raises(ConfigurationError, match='colluders = 2 needs pooling = "secure"'):
        learn(federate({}), SOURCE, Budget(1), strategy="cells", pooling=Pooling(colluders=2))
    for wrong in ({"colluders": 0}, {"colluders": 1.5}, {"colluders": "one"}, {"dropouts": -1}, {"dropouts": True}):
        ((name, value),) = wrong.items()
        with pytest.raises(ConfigurationError, match=f"{name} must be a whole number from . on, not {value!r}"):
            Pooling("secure", **wrong)
    with pytest.raises(ConfigurationError, match="pooling must be one of"):
        Pooling(["secure"])
    with pytest.raises(ConfigurationError, match="1 curators cannot sum securely"):
        SecurePool.of([bytes(32)])
    with pytest.raises(ConfigurationError, match="more participants than"):
        SecurePool.of([bytes(32), b"\1" * 32], colluders=2)


# What is learnt


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("cells", FAST),
        ("cells", {"mass_share": "1/5", **FAST}),
        ("additive", {"choice_share": "1/4", "chosen": 1}),
        ("adaptive-cells", {}),
    ],
)
def test_every_strategy_of_counts_learns_from_secure_sums(strategy, options):
    curators = members(3, size=300)
    told = []
    progress = lambda what, done, total: told.append((done, total))  # noqa: E731
    found = pooled(curators, strategy=strategy, options=options, progress=progress)
    questions = len(found.study.plan.queries)
    assert told == [(number, questions) for number in range(questions + 1)]
    assert all(done.pooled.noises == 1.5 for done in found.study.rounds)
    private = [ring(300, seed=number) for number in range(3)]
    model = found.model()
    right = np.concatenate([_right(model, found.schema, frame) for frame in private])
    assert surely_above(right, max(np.mean(np.concatenate([frame["sick"] == "no" for frame in private])), 0.5))
    assert_proven(found.study, curators, Fraction(1))


def _right(model, schema, frame):
    from protocol.record_frames import encode_frame, encode_labels

    said = model.probability(encode_frame(frame, schema)) > 0.5
    return said == (encode_labels(frame["sick"], schema.classes) > 0)


@pytest.mark.slow
def test_an_estimator_learns_and_validates_securely():
    curators = members(4, size=300, cap="3")
    study = ExPriLClassifier(federate(curators), options=FAST, pooling="secure", random_state=1)
    with pytest.warns(StudyWarning, match="allows no dropout"):
        fitted = study.fit(SOURCE)
    assert fitted.learned_.study.rounds[0].pooled.noises == 4 / 3
    assert fitted.accuracy_estimate_ is not None
    found = fitted.validate(1)
    assert found.curators == tuple(curators)
    assert found.by_site == {}
    assert "by 4 curators" in found.to_text()
    assert found.study.rounds[0].pooled.sites == 4
    rows = np.concatenate([ring(300, seed=number)["sick"].to_numpy() for number in range(4)])
    assert float(np.mean(rows == "yes")) in found.prevalence


def test_a_strategy_that_asks_twice_goes_on_with_those_that_are_left():
    curators = members(6, size=200)
    options = {"choice_share": "1/4", "chosen": 1}
    found = pooled(curators, {"site 05": silent_from(8)}, strategy="additive", options=options)
    assert [done.pooled.sites for done in found.study.rounds] == [6, 5]
    assert found.model() is not None
    assert "it is in a sum" in found.study.left_out["site 05"]


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
    study = pooled(curators).study
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
    study = pooled(curators, scripts).study
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
    study = pooled(curators, {"site 02": quotes("site 02", "1/2")}).study
    assert study.survivors == ["site 00", "site 01", "site 03"]
    assert "broke the protocol" in study.left_out["site 02"]
    assert account(curators["site 02"]).total_spent == 0


def test_one_curator_alone_makes_no_sum_and_nobody_is_said_to_be_silent_that_was_not():
    curators = with_poor(2, "site 01")
    with pytest.raises(NoCuratorError, match="was not begun: 1 of 2 curators are left") as caught:
        pooled(curators)
    assert "nothing was charged" in str(caught.value)
    assert "site 00: it answered all that it was asked" in str(caught.value)
    assert "no reply" not in str(caught.value)
    assert account(curators["site 00"]).total_spent == account(curators["site 00"]).total_reserved == 0


def test_told_dropouts_that_fit_no_smaller_plan_are_used_for_those_that_refuse():
    """With t = 2 and u = 1 four cannot sum, as five can of whom one is gone."""
    curators = members(5)
    study = pooled(curators, {"site 00": silent_from(0)}, colluders=2, dropouts=1).study
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
    study = pooled(curators, scripts).study
    assert len(study.retired["site 11"]) == ATTEMPTS - 1
    assert study.survivors == names_of(12)[ATTEMPTS:]
    assert len(study.kinds.queries(study.plan)[0].participants) == 12 - ATTEMPTS + 1


@pytest.mark.slow
def test_a_validation_is_drafted_again_too():
    curators = with_poor(3, "site 02", cap="3/2")
    fitted = pooled({name: curators[name] for name in ("site 00", "site 01")})
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
            return learn(journalled(journal, curators, carrier), SOURCE, **HOW, pooling=Pooling("secure"))

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

    study = ask(curators, secure_plan(curators, 10, dropouts=1), {"site 03": loses_the_masked_turn})
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

    study = ask(curators, secure_plan(curators, 10, dropouts=1), {"site 03": loses_replies})
    assert "site 03" not in study.rounds[0].took_part
    assert study.spent("site 03") == account(curators["site 03"]).total_spent == Fraction(1, 10)
    proof = replay(study.sessions["site 03"].transcript.envelopes, curators["site 03"].identity, key(LEARNER).public)
    assert (proof.releases, proof.epsilon_spent) == (3, Fraction(1, 10))


def test_who_could_not_go_on_without_others_is_not_said_to_have_lied(monkeypatch):
    """Two of the four neighbours of the first participant never deal."""
    monkeypatch.setattr(participant, "graph_of", hermit)
    curators = members(12, size=20)
    by_seat = sorted(curators, key=lambda name: curators[name].identity)
    study = ask(curators, secure_plan(curators, 10, dropouts=5), dict.fromkeys(by_seat[1:3], silent_from(2)))
    assert set(study.rounds[0].took_part) == set(by_seat[3:])
    assert study.left_out[by_seat[0]] == (
        "left out: it could not go on in a secure sum: too few of its neighbours dealt"
    )
    assert "no reply" in study.left_out[by_seat[1]]
    assert account(curators[by_seat[0]]).total_spent == 0


SUMS = [(0.3, 1.5), (2.0, 4 / 3), (10.0, 100 / 69), (30.0, 10 / 6), (7.0, 41.25), (0.2, 1.5)]
"""Scale, and number of noises s / h: of 3, 4, 100 and 10 curators, and of 25 classes; and one with next to no noise."""


def direct(scale, noises, reach):
    """P(0 ... reach) by summing over the smaller of two negative binomial variables (scipy's)."""
    success = -np.expm1(-1.0 / max(scale, 0.05))
    law = nbinom(noises, success).pmf(np.arange(60 * reach))
    return np.array([law[k:] @ law[: len(law) - k] for k in range(reach + 1)])


@pytest.mark.parametrize(("scale", "noises"), SUMS)
def test_the_law_is_that_of_a_difference_of_negative_binomials(scale, noises):
    expected = direct(scale, noises, 300)
    found = noise_log_pmf(np.arange(301), scale, noises)
    likely = expected > 1e-200
    assert_allclose(found[likely], np.log(expected[likely]), rtol=0, atol=1e-9)
    assert np.isfinite(found).all()
    assert (found == noise_log_pmf(-np.arange(301), scale, noises)).all()


@pytest.mark.parametrize(("scale", "noises"), [(2.0, 4 / 3), (10.0, 1.5), (30.0, 7.25)])
def test_it_adds_up_to_one_and_has_the_variance_of_its_number(scale, noises):
    values = np.arange(-20_000, 20_001)
    law = np.exp(noise_log_pmf(values, scale, noises))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law @ values.astype(float) ** 2 == pytest.approx(DiscreteLaplace(Fraction(scale)).variance(noises), rel=1e-9)


@pytest.mark.parametrize("whole", [1, 2, 5])
def test_it_goes_over_into_that_of_whole_numbers(whole):
    values = np.array([0, 1, 5, 40, 400])
    beside = noise_log_pmf(values, 6.0, whole + 1e-10)
    assert_allclose(beside, noise_log_pmf(values, 6.0, whole), rtol=0, atol=1e-7)


@pytest.mark.parametrize("scale", [1e3, 1e4, 1e6, 2.0**32])
def test_a_large_scale_has_the_law_of_continuous_noise(scale):
    """Its density is a Bessel function's: |x/2|^(m-1/2) K_(m-1/2)(|x|) / (sqrt(pi) Gamma(m)), x in scales."""
    noises, x = 4 / 3, np.array([0.05, 0.5, 1.0, 3.0, 12.0])
    values = np.rint(x * scale).astype(np.int64)
    x = values / scale
    order = noises - 0.5
    density = order * np.log(x / 2) + np.log(kve(order, x)) - x - 0.5 * np.log(np.pi) - gammaln(noises)
    assert_allclose(noise_log_pmf(values, scale, noises), density - np.log(scale), rtol=0, atol=1e-6)


@pytest.mark.parametrize("noises", [1.05, 4 / 3, 41.25])
@pytest.mark.parametrize("rate", [1e-3, 1e-9])
def test_the_bound_of_fractional_noise_is_passed_no_more_often_than_it_says(noises, rate):
    bound = DiscreteLaplace(Fraction(6)).bound(rate, noises)
    values = np.arange(int(bound) + 1, 40 * int(bound))
    passed = np.exp(noise_log_pmf(values, 6.0, noises)).sum()
    assert rate / 100 < passed <= rate


def test_what_no_noise_reaches_is_ever_less_likely_and_finite():
    far = noise_log_pmf(np.array([10**6, 10**8, 10**12]), 1.0, 1.5)
    assert np.isfinite(far).all()
    assert (np.diff(far) < 0).all()
    assert far[1] / far[0] == pytest.approx(100, rel=0.01)
