"""What is added up of plans, of a ledger and of caps; and that records behave as the factors of their kinds suppose."""

from fractions import Fraction

import numpy as np
import pytest

from curator_fakes import (
    NOW,
    Learner,
    dataset,
    error_body,
    key,
    ledger_over,
    mass_body,
    open_curator,
    planned,
    policy,
    steward_file,
)
from curator_node.kinds.sample import points_of
from curator_node.steward.exposure import exposure, exposure_rows, factors_of, most_odds, odds_spent
from protocol.codec import encode
from protocol.grids import BaseLaw, NumberAxis
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout
from protocol.limits import Limits
from protocol.odds import NOTHING, Odds, PrivacyUnit, at_most
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.paper_ratio import SIMULATED_KINDS
from toy.curators import RULES as TOY_RULES
from toy.kind import TOY, PlannedToy

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


def test_a_query_that_is_charged_in_parts_counts_by_its_parts():
    """Of two instances of a holdout one was begun."""
    scales = dict.fromkeys(("threshold_scale", "comparison_scale"), Rational(4000, 1))
    holdout = PlannedHoldout(turns=3, answers=2, resolution=100, threshold=5, count_scale=Rational(40, 1), **scales)
    odds_of_query = QUERY_KINDS.odds(holdout, UNIT)
    assert odds_of_query == odds("1/5", "1/4", "1/4")
    curator = open_curator(rules=policy(limits=Limits(kinds={"holdout": {}})))
    learner = Learner(curator)
    learner.propose(Plan.of([holdout]))
    learner.query(encode(HoldoutBody(Constant(predicted=1), 30)), kind="holdout")
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


# --- what the factors of kinds suppose of records -------------------------------------------------------------------

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
