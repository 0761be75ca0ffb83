"""A validation is announced in the proposal before it, and names the study that it follows: what the steward reads."""

import re
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from curator_fakes import Clock, Learner, key, ledger_over, open_curator, plan_of, policy, steward_file
from curator_node.ledger import StudyKey
from curator_node.ledger.store import MemoryStore
from curator_node.policy import EnrolledKey, EnrolledLearner
from curator_node.steward.approval import as_object, summary, waiting_proposals
from protocol.announcements import LONGEST, Notice, announcing, read_notice, validating
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.messages import NO_STUDY, StudyAccepted
from protocol.rationals import MOST, written

RULES = policy(approval="manual", cap=2, learner_cap=1, held_studies=9)
STUDY = bytes(range(16))


# --- the words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", ["", " a score ", "two\nlines", "it [ends] so]", announcing("a", Fraction(1, 3))])
def test_what_is_announced_is_read_again_and_the_learner_s_own_words_stand_in_front(purpose):
    for most in (Fraction(1), Fraction(1, 4), Fraction(MOST, MOST - 1), Fraction(7, 30)):
        told = announcing(purpose, most)
        assert told.startswith(purpose)
        assert len(told) - len(purpose) <= LONGEST
        assert read_notice(told) == Notice(most=most)
    told = validating(purpose, STUDY)
    assert told.startswith(purpose)
    assert len(told) - len(purpose) <= LONGEST
    assert read_notice(told) == Notice(study=STUDY)


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


# --- the page ---------------------------------------------------------------------------------------------


class Ward:
    """A curator whose steward reads each proposal."""

    def __init__(self, rules=RULES):
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
        found = waiting_proposals(ledger, self.rules, self.clock())
        proposal = next(each for each in found if each.message.study == learner.session.study)
        terms = (ledger, self.rules, steward_file(), QUERY_KINDS)
        return dict(summary(proposal, *terms)), as_object(proposal, *terms)

    def page_of(self, study, purpose):
        return self.page(self.propose(study, purpose, 2))

    def accept(self, learner):
        ledger = ledger_over(self.store)
        found = waiting_proposals(ledger, self.rules, self.clock())
        for held in self.store.pending(self.clock()):
            study = StudyKey(learner.session.key.public, learner.session.study)
            until = self.clock() + 99
            (cost,) = (each.cost(QUERY_KINDS, steward_file()) for each in found if each.pending == held)
            ledger.decide_on(study, held.request, self.clock(), approve=True, cost=cost, until=until)
        assert isinstance(learner.ask(), StudyAccepted)
        return learner


def test_the_first_page_says_what_both_cost_and_that_it_binds_nobody():
    ward = Ward()
    told, machine = ward.page_of(b"1", announcing("a score", Fraction(1, 4)))
    assert "at most 0.25 of epsilon; both together at most 0.75." in told["then"]
    assert "binds nobody" in told["then"]
    assert "after" not in told
    assert machine["announces"] == {"epsilon": "1/4", "together": "3/4"}
    assert machine["validates"] is None
    assert machine["summary"] == told


def test_every_key_for_programs_is_told_and_no_other():
    page = (Path(__file__).parents[2] / "docs" / "enrolment.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    _, machine = Ward().page_of(b"1", announcing("a score", Fraction(1, 4)))
    assert [name for row in rows for name in re.findall(r"\w+", row)] == list(machine)


def test_both_together_may_be_more_than_is_left():
    ward = Ward()
    told, _ = ward.page_of(b"1", announcing("", Fraction(3, 4)))
    assert "both together at most 1.25, which is more than the 1 that is left" in told["then"]


def test_a_proposal_that_announces_nothing_has_no_such_line():
    ward = Ward()
    told, machine = ward.page_of(b"1", "a score")
    assert not told.keys() & {"then", "after"}
    assert (machine["announces"], machine["validates"]) == (None, None)


@pytest.mark.parametrize(("scale", "more"), [(4, False), (8, False), (3, True)])
def test_the_second_page_holds_the_cost_against_what_was_announced(scale, more):
    ward = Ward()
    first = ward.accept(ward.propose(b"1", announcing("a score", Fraction(1, 4)), 2))
    second = ward.propose(b"2", validating("Validation.", first.session.study), scale)
    told, machine = ward.page(second)
    assert f"study {first.session.study.hex()[:8]}, which announced one of at most 0.25" in told["after"]
    assert f"at most {written(Fraction(1, scale))}: {'MORE' if more else 'no more'} than that" in told["after"]
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
    told, machine = ward.page(third)
    assert "0.25 with other validations of it: no more than that" in told["after"]
    assert (machine["validates"]["before"], machine["validates"]["more"]) == ("1/8", False)


def test_a_study_that_announced_none_or_is_another_learner_s_is_said_to_be_so():
    ward = Ward()
    silent = ward.accept(ward.propose(b"1", "a score", 8))
    told, machine = ward.page(ward.propose(b"2", validating("", silent.session.study), 8))
    assert "which announced no validation; it costs at most 0.125" in told["after"]
    assert (machine["validates"]["announced"], machine["validates"]["more"]) == (None, True)
    for study, name in ((silent.session.study, "bob"), (STUDY, "ann")):
        told, machine = ward.page(ward.propose(b"3", validating("", study), 8, name=name))
        assert "this ledger holds no such study of that learner" in told["after"]
        assert not machine["validates"]["known"]


def test_a_learner_s_next_key_may_validate_what_its_last_one_asked():
    entries = tuple(EnrolledKey(key(name).public.hex()) for name in ("ann", "ann2"))
    ward = Ward(msgspec.structs.replace(RULES, learners=(), enrolled=(EnrolledLearner("ann", 1, entries),)))
    first = ward.accept(ward.propose(b"1", announcing("", Fraction(1, 4)), 2))
    told, _ = ward.page(ward.propose(b"2", validating("", first.session.study), 4, name="ann2"))
    assert "which announced one of at most 0.25" in told["after"]


def test_a_page_of_a_purpose_that_is_hostile_shows_no_more_than_it_says():
    ward = Ward()
    evil = announcing(announcing("\x1b[2J", Fraction(1)), Fraction(1, 9))
    told, machine = ward.page_of(b"1", evil)
    assert machine["announces"]["epsilon"] == "1/9"
    assert all(text.isprintable() for text in told.values())


def test_a_plan_that_cannot_be_read_any_more_does_not_hide_the_others():
    ward = Ward()
    ward.propose(b"1", announcing("", Fraction(1, 4)), 2)
    ledger = ledger_over(ward.store)
    (proposal,) = waiting_proposals(ledger, ward.rules, ward.clock())
    told = as_object(proposal, ledger, ward.rules, steward_file(), type(QUERY_KINDS)())
    assert (told["epsilon"], told["announces"], told["summary"]) == (None, None, {})
    assert "decline it" in told["unreadable"]
    with pytest.raises(ConfigurationError):
        summary(proposal, ledger, ward.rules, steward_file(), type(QUERY_KINDS)())


def test_nothing_of_it_is_reserved_or_binds_the_ledger():
    ward = Ward()
    first = ward.accept(ward.propose(b"1", announcing("", Fraction(1, 100)), 2))
    assert ward.curator._ledger.account.total_reserved == Fraction(1, 2)
    ward.accept(ward.propose(b"2", validating("", first.session.study), 2))
    assert ward.curator._ledger.account.total_reserved == 1
