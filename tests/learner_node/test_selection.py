"""Model selection by a holdout: what is asked, charged, chosen and owned up to; and what a reader makes of answers."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from learner_fakes import Ellipse, NoNoise, account, federate, open_curator, ring, silent_from
from learner_node.kinds import READERS
from learner_node.kinds.holdout import HoldoutAnswer
from learner_node.models.source import standardising_map
from learner_node.questions.selection import plan_holdout, select
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.study.budget import Budget
from learner_node.study.study import NoCuratorError
from limits_told import limits_with
from margins import FALSE_ALARM
from protocol.codec import encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import holdout
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease
from protocol.query_kind import Question, Turn
from protocol.record_frames import encode_frame, encode_labels

NAMES = ("basel", "bern", "chur")
SOURCE = ring(120, seed=9).drop("sick")
YES, NO = Constant(1), Constant(0)


def curators(names=NAMES, *, noise=None, **options):
    limits = limits_with(query_kinds=("counts", "holdout"))
    return {name: open_curator(name, noise=noise or NoNoise(), limits=limits, **options) for name in names}


def share_right(asked, hypothesis):
    """Of all private records, and by curator."""
    found = {}
    for name, one in asked.items():
        frame = ring(200, seed=len(name))
        schema = one._dataset.schema
        right = hypothesis.predict(encode_frame(frame, schema)) == encode_labels(frame["sick"], schema.classes)
        found[name] = float(right.mean())
    return float(np.mean(list(found.values()))), found


def line():
    """A network without hidden units, that needs no distillation: sick where x is above 0."""
    schema = open_curator("basel")._dataset.schema
    features = standardising_map(encode_frame(SOURCE, schema))
    return Mlp.of(features, [(np.array([[1.0, 0.0]], np.float32), np.zeros(1, np.float32))])


CANDIDATES = {"all well": NO, "line": line(), "all sick": YES}


def test_right_expectations_cost_one_instance_that_never_ends():
    asked = curators(cap="8")
    stated = {name: share_right(asked, each)[0] for name, each in CANDIDATES.items()}
    order = sorted(stated, key=lambda name: -stated[name])
    found = select(federate(asked), CANDIDATES, Budget("8"), source=SOURCE, expected=stated, answers=2, threshold=40)
    assert found.best == order[0]
    assert found.model is CANDIDATES[order[0]]
    assert found.accuracy == pytest.approx(stated[order[0]], abs=0.001)
    assert [one.name for one in found.checked] == order
    assert all(tuple(one.close) == NAMES for one in found.checked)
    assert found.epsilon_claimed == 8
    assert found.epsilon_spent == dict.fromkeys(NAMES, 4)
    assert found.instances == {}
    for name in NAMES:
        assert account(asked[name]).total_spent == 4  # the rest was refunded
    assert "off by about 40 records" in found.to_text()


@pytest.mark.slow
def test_a_model_that_is_no_network_is_asked_about_as_one_and_the_report_says_how_near_it_is():
    asked = curators(("basel",))
    found = select(
        federate(asked), {"ellipse": Ellipse()}, Budget("1"), source=SOURCE, expected={"ellipse": 0}, threshold=1
    )
    (one,) = found.checked
    ellipse = Ellipse().probability(encode_frame(SOURCE, asked["basel"]._dataset.schema)) > 0.5
    majority = max(ellipse.mean(), 1 - ellipse.mean())
    assert binom.sf(round(one.agreement.same_class * 120) - 1, 120, majority) < FALSE_ALARM
    assert one.counts["basel"].accuracy == pytest.approx(share_right(asked, found.hypothesis)[0])


def test_wrong_expectations_are_put_right_by_counts_until_the_instances_are_used_up():
    asked = curators(cap="8")
    truth, by_site = share_right(asked, NO)
    found = select(
        federate(asked),
        CANDIDATES,
        Budget("8"),
        source=SOURCE,
        expected={"all well": 0.05, "line": 0.98, "all sick": 0.97},
        answers=1,
        threshold=10,
        patience=3,
    )
    assert [one.name for one in found.checked] == ["all well"]
    assert found.unchecked == ("line", "all sick")
    assert found.best == "all well"
    (one,) = found.checked
    assert one.accuracy == pytest.approx(truth)
    assert {name: answer.accuracy for name, answer in one.counts.items()} == by_site
    assert found.instances == dict.fromkeys(NAMES, 1)
    assert found.left_out == {}
    text = found.to_text()
    assert "Nothing was asked of line, all sick." in text
    assert "basel 8 (1 of 1 instances ended)" in text


def test_a_curator_that_is_used_up_is_asked_no_more_and_the_others_go_on():
    """At one curator "all well" is as expected and at the others it is not."""
    asked = curators(("basel", "bern"), cap="8")
    _, by_site = share_right(asked, NO)
    assert abs(by_site["basel"] - by_site["bern"]) * 200 > 8
    stated = {"all well": by_site["bern"], "all sick": 1 - by_site["bern"]}
    candidates = {"all well": NO, "all sick": YES}
    found = select(federate(asked), candidates, Budget("8"), source=SOURCE, expected=stated, answers=1, threshold=4)
    first, second = found.checked
    assert (tuple(first.close), tuple(first.counts)) == (("bern",), ("basel",))
    assert (tuple(second.close), dict(second.counts)) == (("bern",), {})
    assert found.left_out == {}


def test_what_counts_tell_of_a_site_is_expected_of_the_next_candidate_there():
    """One threshold for all, and two sites that differ by more: each is put right once, not for each candidate."""
    asked = curators(("basel", "bern"), cap="8")
    _, by_site = share_right(asked, NO)
    again = {f"again {n}": NO for n in range(5)}
    found = select(federate(asked), again, Budget("8"), source=SOURCE, expected=dict.fromkeys(again, 0.3), threshold=2)
    first, *others = found.checked
    assert set(first.counts) == {"basel", "bern"}
    for one in others:
        assert one.close == pytest.approx(by_site, abs=0.001)
        assert one.accuracy == pytest.approx(first.accuracy, abs=0.001)
    assert found.instances == {"basel": 1, "bern": 1}


def test_rounds_stop_where_they_get_no_better():
    asked = curators(cap="8")
    rounds = {f"round {n}": NO if n == 1 else YES for n in range(5)}
    stated = dict.fromkeys(rounds, 0.99)
    found = select(
        federate(asked), rounds, Budget("8"), source=SOURCE, expected=stated, answers=5, threshold=5, patience=2
    )
    assert [one.name for one in found.checked] == ["round 0", "round 1", "round 2", "round 3"]
    assert found.best == "round 1"
    assert found.unchecked == ("round 4",)


def test_who_falls_silent_or_does_not_allow_it_is_named_and_the_others_answer():
    asked = curators(cap="8") | {"davos": open_curator("davos", noise=NoNoise())}
    federation = federate(asked, {"bern": silent_from(2)})
    stated = {"all well": 0.6, "line": 0.6, "all sick": 0.6}
    found = select(federation, CANDIDATES, Budget("8"), source=SOURCE, expected=stated, answers=3, threshold=200)
    assert set(found.left_out) == {"bern", "davos"}
    assert "does not allow this kind" in found.left_out["davos"]
    assert [len(one.close) for one in found.checked] == [3, 2, 2]
    with pytest.raises(NoCuratorError):
        select(
            federate({"davos": asked["davos"]}), {"a": YES}, Budget("1"), source=SOURCE, expected={"a": 0.5}, answers=1
        )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"expected": {}}, "brings no estimate of its accuracy"),
        ({"expected": {"a": 1.01}}, "must lie between 0 and 1"),
        ({"expected": {"a": float("nan")}}, "must lie between 0 and 1"),
        ({"expected": {"a": -0.1}}, "must lie between 0 and 1"),
        ({"expected": {"a": 0.5, "b": 0.5}}, "no candidate: 'b'"),
        ({"candidates": {}}, "at least one candidate"),
        ({"answers": 2}, "answers is 2"),
        ({"answers": 0}, "answers is 0"),
        ({"resolution": 0}, "resolution is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"threshold": -1}, "threshold is -1"),
        ({"source": None}, "pass source"),
        ({"candidates": {"a": object()}}, "cannot be validated"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_charged(changes, text):
    asked = curators(("basel",))
    told = {"candidates": {"a": YES}, "budget": Budget(1), "source": SOURCE, "expected": {"a": 0.5}, "answers": 1}
    with pytest.raises(ConfigurationError, match=text):
        select(federate(asked), **{**told, **changes})
    assert account(asked["basel"]).total_spent == 0


def test_an_estimate_of_a_study_is_an_expectation():
    asked = curators(("basel",))
    estimate = AccuracyEstimate(0.625, 0.5, 0.7, 0.6, 0.5, 0.7, 0.1, 0.7, 0.6, 0.8, 0.1)
    found = select(federate(asked), {"a": NO}, Budget("1"), source=SOURCE, expected={"a": estimate}, answers=1)
    assert found.checked[0].expected == 0.625


@pytest.mark.parametrize("c", [1, 3])
def test_a_planned_holdout_costs_what_was_told(c):
    for epsilon in (Fraction(1, 3), Fraction(2)):
        plan = plan_holdout(epsilon, 40, 4, c)
        assert holdout.HOLDOUT.cost(plan, c) == epsilon
        assert plan.threshold > 0


# the reader


def answer_of(plan, instance, counts, estimate=1):
    body, turn = HoldoutBody(YES, estimate), Turn(plan, 0, 0)
    return READERS["holdout"].read(encode(HoldoutRelease(instance, counts)), Question(turn, body, None))


def test_answers_of_several_are_added_up_where_counts_came_and_counted_where_they_were_close():
    plan = plan_holdout(Fraction(1), 4, 2, 1, resolution=4)
    answers = [answer_of(plan, 1, None), answer_of(plan, 2, (30, 70)), answer_of(plan, 1, (-3, 43))]
    assert [one.last for one in answers] == [False, True, False]
    pooled = READERS["holdout"].pool(answers)
    assert (pooled.close, pooled.told, pooled.errors, pooled.correct, pooled.last) == (1, 2, 27, 113, False)
    assert pooled.accuracy == 113 / 140
    low, high = pooled.accuracy_interval
    assert 0 <= low < pooled.accuracy < high <= 1
    nobody = READERS["holdout"].pool(answers[:1])
    assert (nobody.accuracy, nobody.accuracy_error, nobody.accuracy_interval) == (None, None, None)
    assert answer_of(plan, 1, (-5, 5)).accuracy is None


def test_intervals_hold_95_of_100_times():
    """3,000 sets of 400 records and noises: outside more often than 8 % or less than 2 % at a chance below 1e-9."""
    rng = np.random.default_rng(3)
    plan = plan_holdout(Fraction(1, 4), 4, 1, 1)
    held = 0
    for _ in range(3000):
        right = int(rng.binomial(400, 0.8))
        noisy = np.array([400 - right, right]) + plan.count_law.simulate(rng, (2,))
        answer = HoldoutAnswer(Fraction(1), 0, 1, int(noisy[0]), int(noisy[1]), plan.count_law.scale, 1, last=True)
        low, high = answer.accuracy_interval
        held += low <= 0.8 <= high
    assert 0.92 * 3000 < held < 0.98 * 3000


def test_counts_that_cannot_be_true_are_complained_about():
    plan = plan_holdout(Fraction(1), 4, 2, 1)
    complaint = READERS["holdout"].complaint
    assert complaint(answer_of(plan, 1, (30, 70)), 100) == ""
    assert complaint(answer_of(plan, 1, None), 100) == ""
    assert "declares 100" in complaint(answer_of(plan, 1, (30, 10**6)), 100)
    assert "which no curator holds" in complaint(answer_of(plan, 1, (-(10**6), 70)), None)


def test_a_release_of_more_instances_than_planned_is_malformed():
    with pytest.raises(RemoteProtocolError, match="at most 2"):
        answer_of(plan_holdout(Fraction(1), 4, 2, 1), 3, None)
