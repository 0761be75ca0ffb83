"""Selection and validation by holdout: what is asked, charged and chosen, who is left out, how answers are read."""

import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from learner_fakes import Ellipse, NoNoise, account, federate, open_curator, ring, silent_from, three
from learner_node.estimator import ExPriLClassifier
from learner_node.kinds import READERS
from learner_node.kinds.holdout import HoldoutAnswer
from learner_node.models.source import coordinates, standardising_map
from learner_node.questions.score_question import as_hypothesis, bin_count, edge_of, probability_of, validation_bins
from learner_node.questions.selection import plan_holdout, select
from learner_node.questions.validation import validate
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.strategies.paper import NetworkModel
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError, Study
from limits_told import limits_with
from margins import DEVIATIONS, FALSE_ALARM, within_its_error
from protocol.codec import encode
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import STEPS
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import holdout
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease
from protocol.messages import Refusal
from protocol.query_kind import Question, Turn
from protocol.record_frames import encode_frame, encode_labels
from protocol.transcript import replay

NAMES = ("basel", "bern", "chur")
SOURCE = ring(120, seed=9).drop("sick")
YES, NO = Constant(1), Constant(0)


def curators(names=NAMES, *, noise=None, **options):
    limits = limits_with(query_kinds=("counts", "holdout"))
    return {name: open_curator(name, noise=noise or NoNoise(), limits=limits, **options) for name in names}


def share_right(sites, hypothesis):
    """Of all private records, and by curator."""
    shares = {}
    for name, curator in sites.items():
        frame = ring(200, seed=len(name))
        schema = curator._dataset.schema
        right = hypothesis.predict(encode_frame(frame, schema)) == encode_labels(frame["sick"], schema.classes)
        shares[name] = float(right.mean())
    return float(np.mean(list(shares.values()))), shares


def line():
    """A network without hidden units, that needs no distillation: the score is x."""
    schema = open_curator("basel")._dataset.schema
    features = standardising_map(encode_frame(SOURCE, schema))
    return Mlp.of(features, [(np.array([[1.0, 0.0]], np.float32), np.zeros(1, np.float32))])


CANDIDATES = {"all well": NO, "line": line(), "all sick": YES}


def test_right_expectations_cost_one_instance_that_never_ends():
    sites = curators(cap="8")
    stated = {name: share_right(sites, hypothesis)[0] for name, hypothesis in CANDIDATES.items()}
    order = sorted(stated, key=lambda name: -stated[name])
    selection = select(
        federate(sites), CANDIDATES, Budget("8"), source=SOURCE, expected=stated, answers=2, threshold=40
    )
    assert selection.best == order[0]
    assert selection.model is CANDIDATES[order[0]]
    assert selection.accuracy == pytest.approx(stated[order[0]], abs=0.001)
    assert [candidate.name for candidate in selection.checked] == order
    assert all(tuple(candidate.close) == NAMES for candidate in selection.checked)
    assert selection.epsilon_claimed == 8
    assert selection.epsilon_spent == dict.fromkeys(NAMES, 4)
    assert selection.instances == {}
    for name in NAMES:
        assert account(sites[name]).total_spent == 4  # the rest was refunded
    assert "off by about 40 records" in selection.to_text()


@pytest.mark.slow
def test_a_model_that_is_no_network_is_asked_about_as_one_and_the_report_says_how_near_it_is():
    sites = curators(("basel",))
    selection = select(
        federate(sites), {"ellipse": Ellipse()}, Budget("1"), source=SOURCE, expected={"ellipse": 0}, threshold=1
    )
    (candidate,) = selection.checked
    ellipse = Ellipse().probability(encode_frame(SOURCE, sites["basel"]._dataset.schema)) > 0.5
    majority = max(ellipse.mean(), 1 - ellipse.mean())
    assert binom.sf(round(candidate.agreement.same_class * 120) - 1, 120, majority) < FALSE_ALARM
    assert candidate.counts["basel"].accuracy == pytest.approx(share_right(sites, selection.hypothesis)[0])


def test_wrong_expectations_are_put_right_by_counts_until_the_instances_are_used_up():
    sites = curators(cap="8")
    truth, by_site = share_right(sites, NO)
    selection = select(
        federate(sites),
        CANDIDATES,
        Budget("8"),
        source=SOURCE,
        expected={"all well": 0.05, "line": 0.98, "all sick": 0.97},
        answers=1,
        threshold=10,
        patience=3,
    )
    assert [candidate.name for candidate in selection.checked] == ["all well"]
    assert selection.unchecked == ("line", "all sick")
    assert selection.best == "all well"
    (candidate,) = selection.checked
    assert candidate.accuracy == pytest.approx(truth)
    assert {name: answer.accuracy for name, answer in candidate.counts.items()} == by_site
    assert selection.instances == dict.fromkeys(NAMES, 1)
    assert selection.left_out == {}
    text = selection.to_text()
    assert "Nothing was asked of line, all sick." in text
    assert "basel 8 (1 of 1 instances ended)" in text


def test_a_curator_that_is_used_up_is_asked_no_more_and_the_others_go_on():
    """At one curator "all well" is as expected and at the others it is not."""
    sites = curators(("basel", "bern"), cap="8")
    _, by_site = share_right(sites, NO)
    assert abs(by_site["basel"] - by_site["bern"]) * 200 > 8
    stated = {"all well": by_site["bern"], "all sick": 1 - by_site["bern"]}
    candidates = {"all well": NO, "all sick": YES}
    selection = select(federate(sites), candidates, Budget("8"), source=SOURCE, expected=stated, answers=1, threshold=4)
    first, second = selection.checked
    assert (tuple(first.close), tuple(first.counts)) == (("bern",), ("basel",))
    assert (tuple(second.close), dict(second.counts)) == (("bern",), {})
    assert selection.left_out == {}


def test_what_counts_tell_of_a_site_is_expected_of_the_next_candidate_there():
    """One threshold for all, and two sites that differ by more: each is put right once, not for each candidate."""
    sites = curators(("basel", "bern"), cap="8")
    _, by_site = share_right(sites, NO)
    again = {f"again {n}": NO for n in range(5)}
    selection = select(
        federate(sites), again, Budget("8"), source=SOURCE, expected=dict.fromkeys(again, 0.3), threshold=2
    )
    first, *others = selection.checked
    assert set(first.counts) == {"basel", "bern"}
    for candidate in others:
        assert candidate.close == pytest.approx(by_site, abs=0.001)
        assert candidate.accuracy == pytest.approx(first.accuracy, abs=0.001)
    assert selection.instances == {"basel": 1, "bern": 1}


def test_rounds_stop_where_they_get_no_better():
    sites = curators(cap="8")
    rounds = {f"round {n}": NO if n == 1 else YES for n in range(5)}
    stated = dict.fromkeys(rounds, 0.99)
    selection = select(
        federate(sites), rounds, Budget("8"), source=SOURCE, expected=stated, answers=5, threshold=5, patience=2
    )
    assert [candidate.name for candidate in selection.checked] == ["round 0", "round 1", "round 2", "round 3"]
    assert selection.best == "round 1"
    assert selection.unchecked == ("round 4",)


def test_who_falls_silent_or_does_not_allow_it_is_named_and_the_others_answer():
    sites = curators(cap="8") | {"davos": open_curator("davos", noise=NoNoise())}
    federation = federate(sites, {"bern": silent_from(2)})
    stated = {"all well": 0.6, "line": 0.6, "all sick": 0.6}
    selection = select(federation, CANDIDATES, Budget("8"), source=SOURCE, expected=stated, answers=3, threshold=200)
    assert set(selection.left_out) == {"bern", "davos"}
    assert "does not allow this kind" in selection.left_out["davos"]
    assert [len(candidate.close) for candidate in selection.checked] == [3, 2, 2]
    with pytest.raises(NoCuratorError):
        select(
            federate({"davos": sites["davos"]}), {"a": YES}, Budget("1"), source=SOURCE, expected={"a": 0.5}, answers=1
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
    sites = curators(("basel",))
    told = {"candidates": {"a": YES}, "budget": Budget(1), "source": SOURCE, "expected": {"a": 0.5}, "answers": 1}
    with pytest.raises(ConfigurationError, match=text):
        select(federate(sites), **{**told, **changes})
    assert account(sites["basel"]).total_spent == 0


def test_an_estimate_of_a_study_is_an_expectation():
    sites = curators(("basel",))
    estimate = AccuracyEstimate(0.625, 0.5, 0.7, 0.6, 0.5, 0.7, 0.1, 0.7, 0.6, 0.8, 0.1)
    selection = select(federate(sites), {"a": NO}, Budget("1"), source=SOURCE, expected={"a": estimate}, answers=1)
    assert selection.checked[0].expected == 0.625


@pytest.mark.parametrize("c", [1, 3])
def test_a_planned_holdout_costs_what_was_told(c):
    for epsilon in (Fraction(1, 3), Fraction(2)):
        plan = plan_holdout(epsilon, 40, 4, c)
        assert holdout.HOLDOUT.cost(plan, c) == epsilon
        assert plan.threshold > 0


def test_a_range_of_accuracies_takes_less_noise_for_the_same_cost():
    full, narrow, half = (plan_holdout(Fraction(1), 40, 4, 2, stated=ends) for ends in ((0, 1), (0.3, 0.7), (0.5, 0.5)))
    for plan, of_full in ((narrow, Fraction(7, 10)), (half, Fraction(1, 2))):
        assert holdout.HOLDOUT.cost(plan, 2) == 1
        assert plan.threshold_scale.fraction == of_full * full.threshold_scale.fraction
        assert plan.comparison_scale.fraction == of_full * full.comparison_scale.fraction
        assert plan.count_scale == full.count_scale
        assert plan.threshold == pytest.approx(float(of_full) * full.threshold, abs=1)
    assert (full.least_estimate, full.most_estimate) == (0, None)
    for wrong in ((0.6, 0.5), (-0.1, 0.5), (0.5, 1.1)):
        with pytest.raises(ConfigurationError, match="two accuracies of 0 to 1"):
            plan_holdout(Fraction(1), 40, 4, 2, stated=wrong)


def test_what_may_be_asked_is_what_is_expected_and_a_margin():
    sites = curators(("basel",))
    selection = select(federate(sites), {"a": NO, "b": YES}, Budget("1"), source=SOURCE, expected={"a": 0.6, "b": 0.35})
    assert selection.planned.estimates == (250, 750)
    assert selection.planned.most_moved == 750


# the reader


def answer_of(plan, instance, counts, estimate=1):
    body, turn = HoldoutBody(YES, estimate), Turn(plan, 0, 0)
    return READERS["holdout"].read(encode(HoldoutRelease(instance, counts)), Question(turn, body, None))


def test_answers_of_several_are_added_up_where_counts_came_and_counted_where_they_were_close():
    plan = plan_holdout(Fraction(1), 4, 2, 1, resolution=4)
    answers = [answer_of(plan, 1, None), answer_of(plan, 2, (30, 70)), answer_of(plan, 1, (-3, 43))]
    assert [answer.last for answer in answers] == [False, True, False]
    pooled = READERS["holdout"].pool(answers)
    assert (pooled.close, pooled.releases, pooled.errors, pooled.correct, pooled.last) == (1, 2, 27, 113, False)
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


def private_of(curators, hypothesis):
    """Exact labels and logits of all private records."""
    labels, logits = [], []
    for name in curators:
        frame = ring(200, seed=len(name))
        schema = curators[name]._dataset.schema
        labels.append(encode_labels(frame["sick"], schema.classes) > 0)
        logits.append(hypothesis.logits(encode_frame(frame, schema)))
    return np.concatenate(labels), np.concatenate(logits)


def surely_ranks(validation):
    """By six of the standard errors that it states."""
    return validation.auc > 0.5 and not within_its_error(validation.auc, 0.5, *validation.auc_interval)


def surely_correlated(agreement):
    """Half of the variance of the ranks at the least, by six standard errors of Fisher's z of 120 records."""
    return np.arctanh(agreement.rank_correlation) > np.arctanh(np.sqrt(0.5)) + DEVIATIONS / np.sqrt(len(SOURCE) - 3)


@pytest.fixture(scope="module")
def validated():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    return (
        curators,
        federation,
        validate(federation, Ellipse(), Budget(1, purpose="why"), source=SOURCE, thresholds=[0.5, "20%"]),
    )


def test_one_question_of_sensitivity_one_is_charged_exactly(validated):
    curators, _, validation = validated
    (planned,) = validation.study.kinds.queries(validation.study.plan)
    assert planned.sensitivity(1) == 1
    assert planned.scale.fraction == 1
    assert validation.epsilon_claimed == 1
    assert validation.epsilon_spent == dict.fromkeys(NAMES, Fraction(1))
    for name, session in validation.study.sessions.items():
        proof = replay(session.transcript.envelopes, session.curator, session.key.public, label=LABEL)
        assert proof.epsilon_spent == account(curators[name]).total_spent == 1
        assert proof.releases == 1


def test_what_is_told_is_so(validated):
    curators, _, validation = validated
    labels, logits = private_of(curators, validation.hypothesis)
    assert validation.auc_interval[0] <= roc_auc_score(labels, logits) <= validation.auc_interval[1]
    assert labels.mean() in validation.prevalence
    flagged = logits > 0
    assert labels[flagged].mean() in validation.at(0.5).ppv
    assert flagged[labels].mean() in validation.at(0.5).sensitivity
    # Its cut was found on 120 records of the source.
    room = DEVIATIONS * np.sqrt(0.16 * (1 / len(SOURCE) + 1 / len(labels)))
    assert validation.at("20%").flagged.value == pytest.approx(0.2, abs=room)
    assert list(validation.by_site) == list(NAMES)
    assert surely_correlated(validation.agreement)
    assert validation.positive == "yes"


def test_it_reads_as_a_text_and_as_frames(validated):
    _, _, validation = validated
    text = validation.to_text()
    for words in ("AUC", "share of 'yes'", "highest 20 %", "Calibration", "By site", "distilled into a network", "0.5"):
        assert words in text
    frame = validation.to_frame()
    assert set(frame["site"]) == {"", *NAMES}
    assert frame.filter(pl.col("site") == "").height == len(validation.bins.edges)
    assert validation.calibration_frame().filter(pl.col("site") == "bern").height == len(validation.bins.edges) + 1
    assert repr(validation).startswith("<Validation at epsilon 1: AUC ")


@pytest.mark.slow
def test_a_network_is_sent_as_it_is():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    network = line()
    for model in (network, NetworkModel(network)):
        validation = validate(federation, model, Budget("1/2"), source=SOURCE)
        assert validation.hypothesis is network
        assert validation.agreement is None
        assert "distilled" not in validation.to_text()
        # x alone says nothing of a ring about the origin.
        assert within_its_error(validation.auc, 0.5, *validation.auc_interval)


@pytest.mark.slow
def test_a_fitted_classifier_validates_itself_and_the_federation_validates_it():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    model = ExPriLClassifier(federation, epsilon=1, options={"networks": False, "cells": 12}, random_state=0)
    model.fit(SOURCE)
    validation = model.validate("1/2")
    assert surely_ranks(validation)
    again = validate(federation, model, Budget("1/4"))
    assert surely_ranks(again)
    assert {account(curator).total_spent for curator in curators.values()} == {Fraction(7, 4)}
    alone = pickle.loads(pickle.dumps(model))
    with pytest.raises(ConfigurationError, match="no federation: set the attribute"):
        alone.validate("1/4")


@pytest.mark.slow
def test_models_of_sites_are_validated_as_their_mixture():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    options = {"networks": False, "cells": 12}
    learned = learn(federation, SOURCE, Budget(1), strategy="cells", options=options, pooling=Pooling("site"))
    validation = validate(federation, learned.final_model, Budget("1/2"), source=SOURCE)
    assert surely_ranks(validation)


@pytest.mark.slow
def test_who_refuses_or_vanishes_is_left_out_and_charged_nothing():
    curators = three() | {"davos": open_curator("davos", cap="1/10", noise=NoNoise())}
    federation = federate(curators, {"chur": silent_from(0)}, allow_not_private=True)
    validation = validate(federation, line(), Budget("1/2"), source=SOURCE)
    assert list(validation.by_site) == ["basel", "bern"]
    assert validation.left_out.keys() == {"chur", "davos"}
    assert "may spend 1/10 in all" in validation.left_out["davos"]
    assert "no reply" in validation.left_out["chur"]
    assert account(curators["davos"]).total_spent == 0
    assert validation.epsilon_spent == {"basel": Fraction(1, 2), "bern": Fraction(1, 2), "chur": 0, "davos": 0}
    assert "Left out: chur" in validation.to_text()


def test_a_refusal_of_all_leaves_no_charge_and_says_what_is_left():
    curators = {"basel": open_curator("basel", cap="1/2", noise=NoNoise())}
    federation = federate(curators, allow_not_private=True)
    with pytest.raises(NoCuratorError, match=r"ask for an epsilon of at most 0\.5") as caught:
        validate(federation, line(), Budget(1), source=SOURCE)
    assert isinstance(caught.value.study.refusals["basel"][0], Refusal)
    assert account(curators["basel"]).total_spent == 0
    assert account(curators["basel"]).total_reserved == 0


def test_noise_is_scaled_to_the_contribution_bound():
    curators = {name: open_curator(name, noise=NoNoise(), most=most) for name, most in (("basel", 1), ("bern", 3))}
    validation = validate(federate(curators, allow_not_private=True), line(), Budget("1/2"), source=SOURCE)
    (planned,) = validation.study.kinds.queries(validation.study.plan)
    assert planned.scale.fraction == 6
    assert validation.epsilon_claimed == Fraction(1, 2)
    assert validation.epsilon_spent == {"basel": Fraction(1, 6), "bern": Fraction(1, 2)}
    assert "at most 3 records of each patient" in validation.to_text()


@pytest.mark.family(6)
@pytest.mark.parametrize(
    ("model", "how", "words"),
    [
        (Constant(predicted=1), {}, "nothing to validate"),
        (object(), {}, "a object cannot be validated: pass a fitted ExPriLClassifier"),
        (Ellipse(), {"source": None}, "pass source"),
        (Ellipse(), {"thresholds": [1.5]}, "1.5 is no threshold"),
        (Ellipse(), {"bins": 1}, "whole number of at least 2"),
        (Ellipse(), {"budget": Budget("1/10000")}, "no curator is left to ask"),
    ],
)
def test_what_cannot_be_validated_is_said_before_anything_is_charged(model, how, words):
    curators = three()
    arguments = {"source": SOURCE, "budget": Budget(1)} | how
    with pytest.raises(ConfigurationError, match=words):
        validate(federate(curators, allow_not_private=True), model, **arguments)
    assert {account(curator).total_spent for curator in curators.values()} == {0}


def test_two_classes_are_needed():
    frame = ring(200).with_columns(sick=pl.Series(["no", "yes", "maybe", "no"] * 50))
    curators = {"basel": open_curator("basel", frame, classes=("no", "yes", "maybe"), noise=NoNoise())}
    with pytest.raises(ConfigurationError, match="two classes; the label 'sick' is one of 3 classes"):
        validate(federate(curators, allow_not_private=True), Ellipse(), Budget(1), source=SOURCE)


def test_a_network_for_other_records_is_refused_by_the_learner_itself():
    other = Mlp(features=line().features.__class__(features=()), weights=line().weights)
    with pytest.raises(ConfigurationError, match="does not fit the curators' card"):
        validate(federate(three(), allow_not_private=True), other, Budget(1), source=SOURCE)


@pytest.mark.slow
def test_a_distilled_network_is_as_large_as_the_limits_allow():
    records = encode_frame(SOURCE, open_curator("basel")._dataset.schema)
    sizes = {}
    for name, limits in (
        ("roomy", None),
        ("small", limits_with(parameters=2_000)),
        ("tiny", limits_with(parameters=500)),
    ):
        study = Study(federate({"basel": open_curator("basel", limits=limits)}))
        network, agreement = as_hypothesis(Ellipse(), records, study.read_cards(), seed=0)
        sizes[name] = network.parameter_count()
        assert surely_correlated(agreement), name
    assert sizes["tiny"] <= sizes["small"] <= 2_000 < sizes["roomy"]


def test_bins_are_even_in_both_classes_and_end_at_the_thresholds():
    records = encode_frame(SOURCE, open_curator("basel")._dataset.schema)
    network = line()
    sites = [edge_of(0.5), edge_of(0.9)]
    bins = validation_bins(network, records, 8, sites)
    assert set(sites) <= set(bins.edges)
    assert len(bins.edges) == 7
    probability = probability_of(network, records)
    # From the edge of 1/2 on lies exactly what the hypothesis calls class 1.
    above = bins.cells(records) > bins.edges.index(edge_of(0.5))
    assert (above == network.predict(records)).all()
    assert (probability[above] > 0.5).all()
    assert validation_bins(network, records, 2, []).cells(records).max() == 1


@pytest.mark.parametrize(
    ("share", "size", "scale", "sites", "bins"),
    [(0.5, 100, 10.0, 4, 4), (0.5, 3000, 1.0, 4, 30), (0.1, 3000, 3.0, 1, 24), (0.001, 3000, 3.0, 1, 4)],
)
def test_the_number_of_bins_follows_noise_and_the_rarer_class(share, size, scale, sites, bins):
    validation = bin_count(np.full(1000, share), target_size=size, scale=scale, noises=sites)
    assert validation == pytest.approx(bins, abs=1)
    assert bin_count(np.full(8, share), target_size=size, scale=scale, noises=sites) == 2


def test_an_edge_is_the_least_logit_at_its_threshold():
    assert edge_of(0.5) == 2.0**-24
    edge = edge_of(0.2)
    assert edge * STEPS * STEPS == round(edge * STEPS * STEPS)
    assert 1 / (1 + np.exp(-edge)) == pytest.approx(0.2, abs=1e-7)


def test_coordinates_agree_with_the_network():
    """The score is the attribute itself: the map's points, weighted 1 and 0."""
    records = encode_frame(SOURCE, open_curator("basel")._dataset.schema)
    network = line()
    assert (network.logits(records) / STEPS**2 == coordinates(network.features, records)[:, 0]).all()
