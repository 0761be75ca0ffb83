"""A study that a steward must approve: held, never charged, accepted by the same bytes; what its page adds up."""

import re
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest

from curator_fakes import (
    NOW,
    Clock,
    FlakyStore,
    Learner,
    dataset,
    error_body,
    key,
    ledger_over,
    mass_body,
    message_of,
    open_curator,
    plan_of,
    planned,
    policy,
    steward_file,
)
from curator_node import admission
from curator_node.curator import Curator
from curator_node.kinds.sample import points_of
from curator_node.ledger import StudyKey
from curator_node.ledger.checks import check, load
from curator_node.ledger.store import MemoryStore, PendingProposal
from curator_node.policy import EnrolledKey, EnrolledLearner
from curator_node.steward.approval import as_object, find_proposal, summary, waiting_proposals
from curator_node.steward.exposure import exposure, exposure_rows, factors_of, most_odds, odds_spent
from protocol.announcements import LONGEST, Notice, announcing, read_notice, validating
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.grids import BaseLaw, NumberAxis
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.ledger.entries import EntryKind, LedgerCorruptError
from protocol.limits import Limits
from protocol.messages import NO_STUDY, Refusal, Release, StudyAccepted
from protocol.odds import NOTHING, Odds, PrivacyUnit, at_most
from protocol.plans import Plan
from protocol.rationals import MOST, Rational, written
from protocol.refusals import RefusalCode
from protocol.transcript import replay
from simulations.paper_ratio import SIMULATED_KINDS
from toy.curators import RULES as TOY_RULES
from toy.kind import TOY, PlannedToy

RULES = policy(approval="manual", approval_seconds=1000, message_seconds=700, held_studies=2)


@pytest.fixture
def curator(store, clock):
    return open_curator(store, rules=RULES, clock=clock)


def decide(store, clock, study="", *, approve=True, seconds=1000, steward=None, rules=RULES):
    """The steward's word, by another process."""
    ledger = ledger_over(store)
    proposals = waiting_proposals(ledger, rules, clock())
    proposal = find_proposal(proposals, study) if study else proposals[0]
    cost, until = proposal.cost(QUERY_KINDS, steward or steward_file()), clock() + seconds
    ledger.decide_on(proposal.key, proposal.pending.request, clock(), approve=approve, cost=cost, until=until)
    return proposal


def waiting_learner(curator, clock, name="ann", study=b"", plan=None):
    learner = Learner(curator, name, clock=clock, study=study)
    learner.card()
    reply = learner.propose(plan)
    assert (reply.code, reply.final) == (RefusalCode.AWAITING_APPROVAL, False)
    return learner


def test_a_held_proposal_changes_no_budget_and_is_accepted_by_the_same_bytes(curator, store, clock):
    before = store.rows(0)[:]
    learner = waiting_learner(curator, clock)
    for _ in range(3):
        assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    assert store.rows(0) == before
    assert len(store.pending(clock())) == 1
    decide(store, clock)
    assert isinstance(learner.ask(), StudyAccepted)
    assert store.pending(clock()) == []
    assert isinstance(learner.query(), Release)
    kinds = [entry.kind for entry in check(store).entries]
    assert kinds == ["open", "start", "approve", "enrol", "reserve", "answered", "charge", "answered"]
    assert not check(store).findings
    learner.query()
    learner.close()
    proof = replay(learner.session.transcript.envelopes, curator.identity, key("ann").public)
    assert set(proof.refusals) == {"awaiting_approval"}
    assert proof.epsilon_spent == Fraction(1, 15)


def test_what_came_in_time_is_accepted_after_its_own_expiry_and_no_later_than_the_steward_said(curator, store, clock):
    early, late = waiting_learner(curator, clock), waiting_learner(curator, clock, "bob")
    clock.advance(900)
    assert early.ask().code == RefusalCode.AWAITING_APPROVAL
    decide(store, clock, b"ann".hex())
    decide(store, clock, b"bob".hex(), seconds=50)
    curator = late.curator = early.curator = open_curator(store, rules=RULES, clock=clock)
    clock.advance(49)
    assert isinstance(early.ask(), StudyAccepted)
    clock.advance(60)
    assert late.ask().code == RefusalCode.EXPIRED


def test_a_proposal_that_no_steward_looked_at_expires(curator, store, clock):
    learner = waiting_learner(curator, clock)
    clock.advance(1000)
    assert learner.ask().code == RefusalCode.EXPIRED
    assert waiting_proposals(ledger_over(store), RULES, clock()) == []


def test_one_that_came_too_late_is_never_held(curator, store, clock):
    learner = Learner(curator, clock=clock)
    learner.session.propose(plan_of(30), "late", clock() - 700)
    assert learner.ask().code == RefusalCode.EXPIRED
    assert store.pending(clock()) == []


def test_a_declined_proposal_is_refused_for_good_and_another_may_come(curator, store, clock):
    learner = waiting_learner(curator, clock)
    decide(store, clock, approve=False)
    sent = learner.session.pending
    assert learner.ask().code == RefusalCode.DECLINED
    for again in (curator, open_curator(store, rules=RULES, clock=clock)):
        assert message_of(again.handle(sent)).code == RefusalCode.DECLINED
    waiting_learner(curator, clock, study=b"another")
    ledger = ledger_over(store)
    request = next(iter(ledger.account.decisions))
    with pytest.raises(ConfigurationError, match="was declined"):
        ledger.decide_on(StudyKey(b"x" * 32, b"y" * 16), request, NOW, approve=True, cost=Fraction(1), until=9)


def test_a_policy_that_asks_nobody_any_more_still_keeps_to_a_no(curator, store, clock):
    learner = waiting_learner(curator, clock)
    decide(store, clock, approve=False)
    curator.adopt(policy())
    assert learner.ask().code == RefusalCode.DECLINED
    assert isinstance(Learner(curator, "bob", clock=clock).propose(), StudyAccepted)


def test_what_would_not_be_accepted_is_not_held(curator, store, clock):
    assert Learner(curator, clock=clock).propose(plan_of("1/2")).code == RefusalCode.OVER_BUDGET
    assert Learner(curator, clock=clock, study=b"2").propose(plan_of(10**6)).code == RefusalCode.BELOW_LEAST_COST
    assert store.pending(clock()) == []


def test_what_waits_is_bounded_in_number_over_all_keys_and_in_bytes(store, monkeypatch, clock):
    entries = tuple(EnrolledKey(key(name).public.hex()) for name in ("ann", "ann2"))
    rules = msgspec.structs.replace(RULES, learners=(), enrolled=(EnrolledLearner("ann", 1, entries),))
    curator = open_curator(store, rules=rules, clock=clock)
    first = waiting_learner(curator, clock)
    waiting_learner(curator, clock, "ann2")
    full = Learner(curator, "ann2", clock=clock, study=b"3")
    reply = full.propose()
    assert (reply.code, reply.final) == (RefusalCode.TOO_MANY_REQUESTS, False)
    assert first.ask().code == RefusalCode.AWAITING_APPROVAL
    decide(store, clock)
    assert full.ask().code == RefusalCode.AWAITING_APPROVAL
    monkeypatch.setattr(admission, "MOST_HELD_BYTES", 100)
    assert Learner(curator, "ann", clock=clock, study=b"4").propose().code == RefusalCode.OVER_LIMIT


def test_the_budget_is_looked_at_again_when_the_study_is_accepted(curator, store, clock):
    learners = [waiting_learner(curator, clock, study=bytes([number + 1]), plan=plan_of("3/2")) for number in range(2)]
    for _ in learners:
        decide(store, clock)
    assert isinstance(learners[0].ask(), StudyAccepted)
    assert learners[1].ask().code == RefusalCode.OVER_BUDGET
    assert load(store).reserved_by(key("ann").public) == Fraction(2, 3)


def test_curators_that_share_a_ledger_hold_and_accept_together(store, clock):
    first, second = (open_curator(store, rules=RULES, clock=clock) for _ in range(2))
    learner = waiting_learner(first, clock)
    learner.curator = second
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    decide(store, clock)
    sent = learner.session.pending
    assert isinstance(learner.ask(), StudyAccepted)
    assert first.handle(sent) == learner.session.transcript.envelopes[-1]


def test_a_store_that_fails_holds_nothing_and_the_same_bytes_are_held_later():
    class Full(FlakyStore):
        def hold(self, proposal, now):
            return self._write(lambda: self.inner.hold(proposal, now))

    flaky, clock = Full(), Clock()
    curator = open_curator(flaky, rules=RULES, clock=clock)
    flaky.full = True
    learner = Learner(curator, clock=clock)
    assert learner.propose().code == RefusalCode.UNAVAILABLE
    flaky.full = False
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL


def test_a_steward_decides_once(curator, store, clock):
    learner = waiting_learner(curator, clock)
    proposal = decide(store, clock)
    decision = {"approve": True, "cost": Fraction(1, 15), "until": clock() + 9}
    ledger = ledger_over(store)
    with pytest.raises(ConfigurationError, match="approved already"):
        ledger.decide_on(proposal.key, proposal.pending.request, clock(), **decision)
    again = {"request": proposal.pending.request, "expires_at": clock() + 9}
    with pytest.raises(LedgerCorruptError, match="decides again"):
        ledger.account.check(ledger.entry(EntryKind.APPROVE, clock(), amount="1/15", **again))
    ledger.account.check(ledger.entry(EntryKind.APPROVE, clock(), amount="1/16", **again))
    assert isinstance(learner.ask(), StudyAccepted)
    for approve in (True, False):
        with pytest.raises(ConfigurationError, match="accepted already"):
            ledger_over(store).decide_on(
                proposal.key, proposal.pending.request, clock(), **(decision | {"approve": approve})
            )
    for kind in (EntryKind.APPROVE, EntryKind.DECLINE):
        for request in (proposal.pending.request, bytes(32)):
            with pytest.raises(LedgerCorruptError):
                ledger.account.check(curator._ledger.entry(kind, clock(), request=request))


@pytest.mark.parametrize("most", [1, 5])
def test_another_price_than_the_approved_one_asks_again(store, most):
    """1/10 was approved; the steward changes the bound on a patient's records, and 1/30 or 1/6 would be reserved."""
    clock, before, after = Clock(), steward_file(most=3, unit=True), steward_file(most=most, unit=True)
    learner = waiting_learner(open_curator(store, rules=RULES, clock=clock, records=dataset(most=3, unit=True)), clock)
    proposal = decide(store, clock, steward=before)
    assert waiting_proposals(ledger_over(store), RULES, clock()) == []
    learner.curator, rung = open_curator(store, rules=RULES, clock=clock, records=dataset(most=most, unit=True)), []
    learner.curator.waits = rung.append
    for _ in range(2):
        assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    assert rung == [learner.session.study], "the steward is told once that it waits again"
    assert load(store).total_reserved == 0
    ledger = ledger_over(store)
    (again,) = waiting_proposals(ledger, RULES, clock())
    changes = dict(summary(again, ledger, RULES, after, QUERY_KINDS))["changed"]
    assert changes.startswith("since it was approved, 2027-01-15 ")
    assert f"it cost at most 0.2 by then, and costs {Fraction(most, 15)} now" in changes
    assert again.pending.request == proposal.pending.request
    decide(store, clock, b"ann".hex(), steward=after)
    assert isinstance(learner.ask(), StudyAccepted)
    assert load(store).total_reserved == Fraction(most, 15)


def test_other_records_than_at_the_approval_ask_again(curator, store, clock):
    learner = waiting_learner(curator, clock)
    decide(store, clock)
    ledger = ledger_over(store)
    ledger.serve_data("0" * 32, clock())
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    (again,) = waiting_proposals(ledger, RULES, clock())
    assert "other records are served now" in dict(summary(again, ledger, RULES, steward_file(), QUERY_KINDS))["changed"]
    decide(store, clock)
    assert isinstance(learner.ask(), StudyAccepted)
    assert "changed" not in read(RULES, steward_file())


def test_an_approval_that_no_steward_needs_any_more_still_binds_its_price(store, clock):
    learner = waiting_learner(open_curator(store, rules=RULES, clock=clock, records=dataset(unit=True)), clock)
    decide(store, clock)
    learner.curator = open_curator(store, rules=policy(), clock=clock, records=dataset(most=3, unit=True))
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL


def test_what_waits_once_more_is_held_anew_where_it_was_held_no_longer(curator, store, clock):
    """The approval lasts longer than the waiting before it."""
    learner = waiting_learner(curator, clock)
    clock.advance(900)
    decide(store, clock)
    clock.advance(500)
    assert store.pending(clock()) == []
    ledger_over(store).serve_data("0" * 32, clock())
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    assert [proposal.message.study for proposal in waiting_proposals(ledger_over(store), RULES, clock())] == [
        b"ann".ljust(16, b"-")
    ]


def test_a_steward_who_read_of_other_records_reads_again(curator, store, clock):
    """Minutes may pass between reading and saying yes."""
    waiting_learner(curator, clock)
    ledger = ledger_over(store)
    (proposal,) = waiting_proposals(ledger, RULES, clock())
    ledger_over(store).serve_data("0" * 32, clock())
    yes = {"approve": True, "cost": Fraction(1, 15), "until": clock() + 9}
    with pytest.raises(ConfigurationError, match="read it again"):
        ledger.decide_on(proposal.key, proposal.pending.request, clock(), **yes)
    ledger.decide_on(proposal.key, proposal.pending.request, clock(), **yes)


def test_a_ledger_of_an_older_program_that_reserved_another_price_is_still_read(curator, store, clock):
    """The rule is asked where a study is reserved. What stands in a chain stands there; the auditor names it."""
    waiting_learner(curator, clock)
    proposal, ledger = decide(store, clock), ledger_over(store)
    older = ledger.entry(
        EntryKind.RESERVE,
        clock(),
        learner=proposal.key.learner,
        study=proposal.key.study,
        amount="1/5",
        costs=("1/10", "1/10"),
        plan=proposal.message.plan,
        request=proposal.pending.request,
        expires_at=clock() + 9,
    )
    ledger.append(lambda _: older, clock())
    assert load(store).total_reserved == Fraction(1, 5)
    assert isinstance(open_curator(store, rules=RULES, clock=clock), Curator)


def test_a_no_after_a_yes_holds_until_the_study_is_accepted(curator, store, clock):
    learner = waiting_learner(curator, clock)
    proposal = decide(store, clock)
    no = {"approve": False, "cost": Fraction(1, 15), "until": 0}
    ledger_over(store).decide_on(proposal.key, proposal.pending.request, clock(), **no)
    assert learner.ask().code == RefusalCode.DECLINED


def test_the_steward_never_reads_another_proposal_than_the_one_that_is_accepted():
    """Whoever can write to the database may not have one plan read and another approved."""
    store, clock = MemoryStore(), Clock()
    curator = open_curator(store, rules=RULES, clock=clock)
    dear = waiting_learner(curator, clock, plan=plan_of("3/2"))
    waiting_learner(curator, clock, study=b"cheap", plan=plan_of(300))
    costly, cheap = store.pending(clock())
    if costly.envelope != dear.session.pending:
        costly, cheap = cheap, costly
    for forged in (cheap.envelope, b"junk", cheap.envelope[:-1]):
        store._proposals[costly.request] = PendingProposal(costly.request, costly.learner, forged, NOW, NOW + 9)
        with pytest.raises(ConfigurationError, match="database was changed"):
            waiting_proposals(ledger_over(store), RULES, clock())


def read(rules, steward, purpose="a score", plan=None):
    store, clock = MemoryStore(), Clock()
    curator = open_curator(store, rules=rules, clock=clock)
    learner = Learner(curator, clock=clock)
    learner.session.propose(plan or plan_of(3, 6), purpose, clock())
    assert isinstance(learner.ask(), Refusal)
    ledger = ledger_over(store)
    (proposal,) = waiting_proposals(ledger, rules, clock())
    return dict(summary(proposal, ledger, rules, steward, QUERY_KINDS))


def test_the_summary_says_who_why_what_and_at_what_cost_in_numbers():
    entry = EnrolledLearner("ann", 2, (EnrolledKey(key("ann").public.hex()),), "University of B", "ann@example.org")
    rules = msgspec.structs.replace(RULES, learners=(), enrolled=(entry,), cap=3)
    page = read(rules, steward_file(unit=True))
    assert page["who"].startswith("ann (University of B, ann@example.org), key ")
    assert page["why"] == "a score"
    assert page["asks"] == (
        "2 questions: 1 x counts of the records in each group of 1 grouping of all records, each number right within 9 "
        "records in 19 of 20 cases; scale 3 of mass (kind counts); 1 x counts of the records in each group of 1 "
        "grouping of all records, each number right within 18 records in 19 of 20 cases; scale 6 of mass (kind counts)"
    )
    assert "age, dose, sex" in page["about"]
    assert "sick" in page["about"]
    assert page["costs"].startswith("at most 0.5 of the budget")
    assert " for 1 day once accepted" in page["costs"]
    assert "budget of 2: 1.5 (0 spent before, 0 set aside" in page["leaves"]
    assert "over all learners of 3: 2.5" in page["leaves"]
    assert "one patient, all its records together," in page["learns"]


def test_the_page_tells_the_factor_of_a_label_that_a_plan_attains():
    """Attack `error_correct`: of a patient who is known to be there the label tells e^(2 epsilon), not e^epsilon."""
    planned = PlannedCounts("error_correct", 1, Rational(4, 1))
    page = read(RULES, steward_file(unit=True), plan=Plan.of([planned, planned]))
    # Errors and correct records of its cell, 1 and 0 or 0 and 1, in either question: far out their chances differ most.
    attained = 2 * 2 * (planned.law.log_pmf(100) - planned.law.log_pmf(101))
    assert attained == pytest.approx(1)
    assert page.get("its label", page["learns"]).count("2.72 (e^1) by this study") == 1
    assert page["is it there"].startswith("whether a patient is among the records: 1.65 (e^0.5) by this study; ")
    assert "its label sick" in page["its label"]
    assert "part of the rest" in page["its label"]
    assert "anything else about it: 2.72 (e^1) by this study" in page["the rest"]
    assert "2.72 (e^1) at most ever" in page["is it there"]
    assert "7.39 (e^2) at most ever" in page["its label"]
    assert "other sites that hold records of the same patient" in page["not in it"]
    assert "relatives" in page["not in it"]
    assert page["asks"].startswith("2 questions: 2 x counts of the records that a model gets wrong")
    assert "part of the rest" not in read(RULES, steward_file())["its label"]


def test_the_summary_shows_no_control_character_of_a_learner():
    page = read(RULES, steward_file(), purpose="\x1b[2Jan\nother line\u202e")
    assert all(text.isprintable() for text in page.values())
    assert page["why"] == "?[2Jan?other line?"


def test_a_study_is_found_by_its_first_digits(curator, store, clock):
    for study in (b"aa", b"ab"):
        waiting_learner(curator, clock, study=study)
    proposals_ = waiting_proposals(ledger_over(store), RULES, clock())
    assert find_proposal(proposals_, "6161").message.study.startswith(b"aa")
    for wrong in ("61", "ff", ""):
        with pytest.raises(ConfigurationError, match="those that wait: "):
            find_proposal(proposals_, wrong)


# A validation is announced in the proposal before it, and names the study that it follows: what the steward reads


GENEROUS = policy(approval="manual", cap=2, learner_cap=1, held_studies=9)
STUDY = bytes(range(16))


@pytest.mark.parametrize("purpose", ["", " a score ", "two\nlines", "it [ends] so]", announcing("a", Fraction(1, 3))])
def test_what_is_announced_is_read_again_and_the_learner_s_own_words_stand_in_front(purpose):
    for most in (Fraction(1), Fraction(1, 4), Fraction(MOST, MOST - 1), Fraction(7, 30)):
        text = announcing(purpose, most)
        assert text.startswith(purpose)
        assert len(text) - len(purpose) <= LONGEST
        assert read_notice(text) == Notice(most=most)
    text = validating(purpose, STUDY)
    assert text.startswith(purpose)
    assert len(text) - len(purpose) <= LONGEST
    assert read_notice(text) == Notice(study=STUDY)


@pytest.mark.parametrize(
    "purpose",
    [
        "",
        "a validation follows, of at most epsilon 1/4",
        "x [expril: a validation follows, of at most epsilon 2/8]",
        "x [expril: a validation follows, of at most epsilon 0]",
        "x [expril: a validation follows, of at most epsilon 1/0]",
        "x [expril: a validation follows, of at most epsilon 01]",
        "x [expril: a validation follows, of at most epsilon -1]",
        "x [expril: a validation follows, of at most epsilon 9999999999]",
        f"x [expril: a validation follows, of at most epsilon {'9' * 5000}]",
        "x[expril: a validation follows, of at most epsilon 1]",
        "x [expril: a validation follows, of at most epsilon 1] ",
        "x [expril: a validation follows, of at most epsilon 1]\n",
        "x [expril: a validation follows, of at most epsilon ١]",
        "x [expril: it validates the model of study 00]",
        f"x [expril: it validates the model of study {STUDY.hex().upper()}]",
    ],
)
def test_anything_else_announces_nothing(purpose):
    assert read_notice(purpose) == Notice()
    assert read_notice(purpose).study == NO_STUDY


class Ward:
    """A curator whose steward reads each proposal."""

    def __init__(self, rules=GENEROUS):
        self.store, self.clock, self.rules = MemoryStore(), Clock(), rules
        self.curator = open_curator(self.store, rules=rules, clock=self.clock)

    def propose(self, study, purpose, *scales, name="ann"):
        learner = Learner(self.curator, name, clock=self.clock, study=study)
        learner.session.propose(plan_of(*scales), purpose, self.clock())
        learner.ask()
        return learner

    def page(self, learner):
        """The rows, and the object for programs, of one that waits."""
        ledger = ledger_over(self.store)
        proposals = waiting_proposals(ledger, self.rules, self.clock())
        proposal = next(candidate for candidate in proposals if candidate.message.study == learner.session.study)
        terms = (ledger, self.rules, steward_file(), QUERY_KINDS)
        return dict(summary(proposal, *terms)), as_object(proposal, *terms)

    def page_of(self, study, purpose):
        return self.page(self.propose(study, purpose, 2))

    def accept(self, learner):
        decide(self.store, self.clock, seconds=99, rules=self.rules)
        assert isinstance(learner.ask(), StudyAccepted)
        return learner


def test_the_first_page_says_what_both_cost_and_that_it_binds_nobody():
    ward = Ward()
    page, machine = ward.page_of(b"1", announcing("a score", Fraction(1, 4)))
    assert "at most 0.25 of epsilon; both together at most 0.75." in page["then"]
    assert "binds nobody" in page["then"]
    assert "after" not in page
    assert machine["announces"] == {"epsilon": "1/4", "together": "3/4"}
    assert machine["validates"] is None
    assert machine["summary"] == page


def test_every_key_for_programs_is_told_and_no_other():
    page = (Path(__file__).parents[2] / "docs" / "steward" / "enrolment.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    _, machine = Ward().page_of(b"1", announcing("a score", Fraction(1, 4)))
    assert [name for row in rows for name in re.findall(r"\w+", row)] == list(machine)


def test_both_together_may_be_more_than_is_left():
    ward = Ward()
    page, _ = ward.page_of(b"1", announcing("", Fraction(3, 4)))
    assert "both together at most 1.25, which is more than the 1 that is left" in page["then"]


def test_a_proposal_that_announces_nothing_has_no_such_line():
    ward = Ward()
    page, machine = ward.page_of(b"1", "a score")
    assert not page.keys() & {"then", "after"}
    assert (machine["announces"], machine["validates"]) == (None, None)


@pytest.mark.parametrize(("scale", "more"), [(4, False), (8, False), (3, True)])
def test_the_second_page_holds_the_cost_against_what_was_announced(scale, more):
    ward = Ward()
    first = ward.accept(ward.propose(b"1", announcing("a score", Fraction(1, 4)), 2))
    second = ward.propose(b"2", validating("Validation.", first.session.study), scale)
    page, machine = ward.page(second)
    assert f"study {first.session.study.hex()[:8]}, which announced one of at most 0.25" in page["after"]
    assert f"at most {written(Fraction(1, scale))}: {'MORE' if more else 'no more'} than that" in page["after"]
    assert machine["validates"] == {
        "study": first.session.study.hex(),
        "known": True,
        "announced": "1/4",
        "before": "0",
        "more": more,
    }


def test_several_validations_of_one_study_are_added_up_by_what_they_cost():
    """One that is open counts with what it may cost; one that has ended, with what it was charged."""
    ward = Ward()
    first = ward.accept(ward.propose(b"1", announcing("a score", Fraction(1, 4)), 2))
    words = validating("", first.session.study)
    second = ward.accept(ward.propose(b"2", words, 8, 8))
    third = ward.propose(b"3", words, 8)
    assert "0.375 with other validations of it: MORE than that" in ward.page(third)[0]["after"]
    second.query()
    second.close()
    page, machine = ward.page(third)
    assert "0.25 with other validations of it: no more than that" in page["after"]
    assert (machine["validates"]["before"], machine["validates"]["more"]) == ("1/8", False)


def test_a_study_that_announced_none_or_is_another_learner_s_is_said_to_be_so():
    ward = Ward()
    silent = ward.accept(ward.propose(b"1", "a score", 8))
    page, machine = ward.page(ward.propose(b"2", validating("", silent.session.study), 8))
    assert "which announced no validation; it costs at most 0.125" in page["after"]
    assert (machine["validates"]["announced"], machine["validates"]["more"]) == (None, True)
    for study, name in ((silent.session.study, "bob"), (STUDY, "ann")):
        page, machine = ward.page(ward.propose(b"3", validating("", study), 8, name=name))
        assert "this ledger holds no such study of that learner" in page["after"]
        assert not machine["validates"]["known"]


def test_a_learner_s_next_key_may_validate_what_its_last_one_asked():
    entries = tuple(EnrolledKey(key(name).public.hex()) for name in ("ann", "ann2"))
    ward = Ward(msgspec.structs.replace(GENEROUS, learners=(), enrolled=(EnrolledLearner("ann", 1, entries),)))
    first = ward.accept(ward.propose(b"1", announcing("", Fraction(1, 4)), 2))
    page, _ = ward.page(ward.propose(b"2", validating("", first.session.study), 4, name="ann2"))
    assert "which announced one of at most 0.25" in page["after"]


def test_a_page_of_a_purpose_that_is_hostile_shows_no_more_than_it_says():
    ward = Ward()
    evil = announcing(announcing("\x1b[2J", Fraction(1)), Fraction(1, 9))
    page, machine = ward.page_of(b"1", evil)
    assert machine["announces"]["epsilon"] == "1/9"
    assert all(text.isprintable() for text in page.values())


def test_a_plan_that_cannot_be_read_any_more_does_not_hide_the_others():
    ward = Ward()
    ward.propose(b"1", announcing("", Fraction(1, 4)), 2)
    ledger = ledger_over(ward.store)
    (proposal,) = waiting_proposals(ledger, ward.rules, ward.clock())
    page = as_object(proposal, ledger, ward.rules, steward_file(), type(QUERY_KINDS)())
    assert (page["epsilon"], page["announces"], page["summary"]) == (None, None, {})
    assert "decline it" in page["unreadable"]
    with pytest.raises(ConfigurationError):
        summary(proposal, ledger, ward.rules, steward_file(), type(QUERY_KINDS)())


def test_nothing_of_it_is_reserved_or_binds_the_ledger():
    ward = Ward()
    first = ward.accept(ward.propose(b"1", announcing("", Fraction(1, 100)), 2))
    assert ward.curator._ledger.account.total_reserved == Fraction(1, 2)
    ward.accept(ward.propose(b"2", validating("", first.session.study), 2))
    assert ward.curator._ledger.account.total_reserved == 1


# --- What is added up of plans, of a ledger and of caps; and that records behave as the factors of their kinds suppose.

UNIT = steward_file().protected
PLAN = Plan.of([planned(10), planned(5, release="error_correct")])


def odds(presence, label, attribute):
    return Odds(*map(Fraction, (presence, label, attribute)))


def asked_of(learner, *bodies, plan=PLAN):
    learner.propose(plan)
    for body in bodies:
        learner.query(body)
    return learner


def test_a_study_alone_with_what_came_before_and_at_most_ever():
    """By hand: masses cost ann 1/10, bob masses and errors 3/10 of a cap of 2, and 1/7 was entered after a halt."""
    rules = policy(cap=2)
    curator = open_curator(rules=rules)
    asked_of(Learner(curator, "ann"), mass_body())
    asked_of(Learner(curator, "bob"), mass_body(), error_body())
    ledger = curator._ledger
    ledger.halt(NOW, "stop")
    ledger.resume(NOW, learner=key("ann").public, restored=Fraction(1, 7))

    def exposure_of(**told):
        return exposure(ledger.account, rules, UNIT, QUERY_KINDS, **told)

    ann, bob = odds("1/10", 0, "2/10") + odds("1/7", "2/7", "2/7"), odds("3/10", "2/5", "3/5")
    study = odds("1/3", 0, "2/3")
    told = exposure_of(learner=key("ann").public, name="ann", plan=Plan.of([planned(3)]))
    assert (told.study, told.learner, told.everybody) == (study, study + ann, study + ann + bob)
    remaining = Fraction(2) - Fraction(1, 10) - Fraction(1, 7) - Fraction(3, 10)
    assert told.ever == ann + bob + odds(1, 2, 2) * remaining
    other = exposure_of(learner=key("eve").public)
    assert (other.study, other.learner, other.everybody) == (NOTHING, NOTHING, ann + bob)


def test_what_may_be_asked_and_what_was_accepted_bound_what_is_left():
    masses = Limits(kinds={"counts": {"release_kinds": ["mass"]}})
    rules_of_counts = policy(limits=Limits(kinds={"counts": {}}))
    curator = open_curator(rules=rules_of_counts)
    account = curator._ledger.account
    assert exposure(account, policy(limits=masses), UNIT, QUERY_KINDS).ever == odds(1, 0, 2)
    assert exposure(account, rules_of_counts, UNIT, QUERY_KINDS).ever == odds(1, 2, 2)
    learner = asked_of(Learner(curator), mass_body())  # errors were accepted, and may still be asked
    assert exposure(account, policy(limits=masses), UNIT, QUERY_KINDS).ever == odds(1, "9/5", 2)
    learner.close()
    assert exposure(account, policy(limits=masses), UNIT, QUERY_KINDS).ever == odds(1, 0, 2)


@pytest.mark.parametrize(("between", "presence"), [((0, None), "1/5"), ((30, 70), "31/200"), ((50, 50), "1/8")])
def test_a_query_that_is_charged_in_parts_counts_by_its_parts(between, presence):
    """Of two instances of a holdout one was begun. A range of accuracies lowers the charge; a change tells the same."""
    scales = dict.fromkeys(("threshold_scale", "comparison_scale"), Rational(4000, 1))
    least, most = between
    holdout = PlannedHoldout(
        turns=3,
        answers=2,
        resolution=100,
        threshold=5,
        count_scale=Rational(40, 1),
        least_estimate=least,
        most_estimate=most,
        **scales,
    )
    odds_of_query = QUERY_KINDS.odds(holdout, UNIT)
    assert odds_of_query == odds(presence, "1/4", "1/4")
    assert QUERY_KINDS.cost(holdout, 1) == Fraction(presence)
    curator = open_curator(rules=policy(limits=Limits(kinds={"holdout": {}})))
    learner = Learner(curator)
    learner.propose(Plan.of([holdout]))
    learner.query(encode(HoldoutBody(Constant(predicted=1), max(30, least))), kind="holdout")
    assert odds_spent(curator._ledger.account, QUERY_KINDS, UNIT) == odds_of_query * Fraction(1, 2)


def test_the_worst_is_taken_of_what_is_not_known():
    """A kind that is not installed, one that says nothing, and a query whose price has changed."""
    curator = open_curator()
    asked_of(Learner(curator), mass_body())
    account = curator._ledger.account
    assert odds_spent(account, QUERY_KINDS, UNIT) == odds("1/10", 0, "1/5")
    assert odds_spent(account, type(QUERY_KINDS)(), UNIT) == odds("1/10", "1/5", "1/5")
    assert odds_spent(account, QUERY_KINDS, PrivacyUnit(2)) == odds("1/10", "1/5", "1/5")
    kinds = type(QUERY_KINDS)(TOY)
    toy = PlannedToy(scale=Rational(4, 1), level=0, turns=2)
    assert kinds.odds(toy, UNIT) == odds("1/2", 1, 1)
    assert most_odds(TOY_RULES, UNIT, kinds) == odds(1, 2, 2)  # counts are allowed, too, and not installed


def test_what_is_not_private_has_no_limit_and_the_page_says_so():
    rules = policy(limits=Limits(kinds={"counts": {"release_kinds": ["paper_ratio"]}}), simulation=True)
    exposures = exposure(
        ledger_over().account, rules, UNIT, SIMULATED_KINDS, plan=Plan.of([planned(release="paper_ratio")])
    )
    assert (exposures.study, exposures.learner, exposures.everybody, exposures.ever) == (None,) * 4
    assert dict(exposure_rows(exposures, UNIT))["its label"].count("without any limit") == 4
    assert factors_of(exposures.study) == ("no limit",) * 3
    assert at_most(Fraction(1), most_odds(rules, UNIT, SIMULATED_KINDS), UNIT).startswith("without any limit")


def test_hostile_denominators_stop_no_page():
    account = ledger_over().account
    account.total_spent = sum((Fraction(1, 10**40 + 2 * n + 1) for n in range(300)), Fraction(0))
    exposures = exposure(account, policy(), UNIT, QUERY_KINDS, plan=PLAN)
    assert exposures.everybody.presence > Fraction(3, 10)
    assert all(len(text) < 3000 for _, text in exposure_rows(exposures, UNIT))


SICK = ("p9", 50.0, 1.0, "f", "yes")
WELL = (*SICK[:4], "no")
REST = tuple((f"p{n}", 20.0 + n, 0.0, "m", "no") for n in range(8))


def test_a_named_unit_stays_in_its_block_and_a_changed_record_without_a_name_does_not():
    named = [dataset((*REST, record), unit=True).blocks(10**6, b"x")[-1] for record in (SICK, WELL)]
    assert named[0] == named[1]
    blocks = [dataset((*REST, record)).blocks(10**6, b"x") for record in (SICK, WELL)]
    assert blocks[0][-1] != blocks[1][-1]
    assert (blocks[0][:-1] == blocks[1][:-1]).all()


def test_a_sample_without_the_label_reads_none():
    base = BaseLaw.of((NumberAxis("age", 18, 90, 24, 50, 20),), steward_file().schema)
    first, second = (points_of(dataset((*REST, record)), base) for record in (SICK, WELL))
    assert (first == second).all()


@pytest.mark.parametrize("records", [2, 3])
def test_labels_choose_among_more_records_than_count(records):
    """Why the page says that the label of such a unit is part of the rest; of others no attribute moves."""
    chosen = set()
    for labels in np.ndindex(*(2,) * records):
        ages = (30.0, 40.0, 50.0)[:records]
        of_unit = tuple(("p9", age, 0.0, "f", ("no", "yes")[y]) for age, y in zip(ages, labels, strict=True))
        chosen.add(tuple(dataset((*REST, *of_unit), most=2).records.column("age")[len(REST) :]))
    assert (len(chosen) > 1) == (records > 2)
