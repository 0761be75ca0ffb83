"""A validation as a study: what is asked and charged, who is left out, and which models can be validated."""

import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from learner_fakes import Ellipse, NoNoise, account, federate, open_curator, ring, silent_from, three
from learner_node.estimator import ExPriLClassifier
from learner_node.models.source import coordinates, standardising_map
from learner_node.questions.score_question import as_hypothesis, bin_count, edge_of, probability_of, validation_bins
from learner_node.questions.validation import validate
from learner_node.strategies.paper import NetworkModel
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError, Study
from limits_told import limits_with
from margins import DEVIATIONS, within_its_error
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS
from protocol.hypotheses import Constant, Mlp
from protocol.messages import Refusal
from protocol.record_frames import encode_frame, encode_labels
from protocol.transcript import replay

SOURCE = ring(120, seed=9).drop("sick")
NAMES = ("basel", "bern", "chur")


def line(schema_source):
    """A network without hidden units: the score is x."""
    records = encode_frame(schema_source, open_curator("basel")._dataset.schema)
    features = standardising_map(records)
    return Mlp.of(features, [(np.array([[1.0, 0.0]], np.float32), np.zeros(1, np.float32))])


def private_of(curators, hypothesis):
    """Exact labels and logits of all private records."""
    labels, logits = [], []
    for name in curators:
        frame = ring(200, seed=len(name))
        schema = curators[name]._dataset.schema
        labels.append(encode_labels(frame["sick"], schema.classes) > 0)
        logits.append(hypothesis.logits(encode_frame(frame, schema)))
    return np.concatenate(labels), np.concatenate(logits)


def surely_ranks(found):
    """By six of the standard errors that it states."""
    return found.auc > 0.5 and not within_its_error(found.auc, 0.5, *found.auc_interval)


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
    curators, _, found = validated
    (planned,) = found.study.kinds.queries(found.study.plan)
    assert planned.sensitivity(1) == 1
    assert planned.scale.fraction == 1
    assert found.epsilon_claimed == 1
    assert found.epsilon_spent == dict.fromkeys(NAMES, Fraction(1))
    for name, session in found.study.sessions.items():
        proof = replay(session.transcript.envelopes, session.curator, session.key.public, label=LABEL)
        assert proof.epsilon_spent == account(curators[name]).total_spent == 1
        assert proof.releases == 1


def test_what_is_told_is_so(validated):
    curators, _, found = validated
    labels, logits = private_of(curators, found.hypothesis)
    assert found.auc_interval[0] <= roc_auc_score(labels, logits) <= found.auc_interval[1]
    assert labels.mean() in found.prevalence
    flagged = logits > 0
    assert labels[flagged].mean() in found.at(0.5).ppv
    assert flagged[labels].mean() in found.at(0.5).sensitivity
    # Its cut was found on 120 records of the source.
    room = DEVIATIONS * np.sqrt(0.16 * (1 / len(SOURCE) + 1 / len(labels)))
    assert found.at("20%").flagged.value == pytest.approx(0.2, abs=room)
    assert list(found.by_site) == list(NAMES)
    assert surely_correlated(found.agreement)
    assert found.positive == "yes"


def test_it_reads_as_a_text_and_as_frames(validated):
    _, _, found = validated
    text = found.to_text()
    for words in ("AUC", "share of 'yes'", "highest 20 %", "Calibration", "By site", "distilled into a network", "0.5"):
        assert words in text
    frame = found.to_frame()
    assert set(frame["site"]) == {"", *NAMES}
    assert frame.filter(pl.col("site") == "").height == len(found.bins.edges)
    assert found.calibration_frame().filter(pl.col("site") == "bern").height == len(found.bins.edges) + 1
    assert repr(found).startswith("<Validation at epsilon 1: AUC ")


@pytest.mark.slow
def test_a_network_is_sent_as_it_is():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    network = line(SOURCE)
    for model in (network, NetworkModel(network)):
        found = validate(federation, model, Budget("1/2"), source=SOURCE)
        assert found.hypothesis is network
        assert found.agreement is None
        assert "distilled" not in found.to_text()
        # x alone says nothing of a ring about the origin.
        assert within_its_error(found.auc, 0.5, *found.auc_interval)


@pytest.mark.slow
def test_a_fitted_classifier_validates_itself_and_the_federation_validates_it():
    curators = three()
    federation = federate(curators, allow_not_private=True)
    model = ExPriLClassifier(federation, epsilon=1, options={"networks": False, "cells": 12}, random_state=0)
    model.fit(SOURCE)
    found = model.validate("1/2")
    assert surely_ranks(found)
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
    found = validate(federation, learned.final_model, Budget("1/2"), source=SOURCE)
    assert surely_ranks(found)


@pytest.mark.slow
def test_who_refuses_or_vanishes_is_left_out_and_charged_nothing():
    curators = three() | {"davos": open_curator("davos", cap="1/10", noise=NoNoise())}
    federation = federate(curators, {"chur": silent_from(0)}, allow_not_private=True)
    found = validate(federation, line(SOURCE), Budget("1/2"), source=SOURCE)
    assert list(found.by_site) == ["basel", "bern"]
    assert found.left_out.keys() == {"chur", "davos"}
    assert "may spend 1/10 in all" in found.left_out["davos"]
    assert "no reply" in found.left_out["chur"]
    assert account(curators["davos"]).total_spent == 0
    assert found.epsilon_spent == {"basel": Fraction(1, 2), "bern": Fraction(1, 2), "chur": 0, "davos": 0}
    assert "Left out: chur" in found.to_text()


def test_a_refusal_of_all_leaves_no_charge_and_says_what_is_left():
    curators = {"basel": open_curator("basel", cap="1/2", noise=NoNoise())}
    federation = federate(curators, allow_not_private=True)
    with pytest.raises(NoCuratorError, match=r"ask for an epsilon of at most 0\.5") as caught:
        validate(federation, line(SOURCE), Budget(1), source=SOURCE)
    assert isinstance(caught.value.study.refusals["basel"][0], Refusal)
    assert account(curators["basel"]).total_spent == 0
    assert account(curators["basel"]).total_reserved == 0


def test_noise_is_scaled_to_the_contribution_bound():
    curators = {name: open_curator(name, noise=NoNoise(), most=most) for name, most in (("basel", 1), ("bern", 3))}
    found = validate(federate(curators, allow_not_private=True), line(SOURCE), Budget("1/2"), source=SOURCE)
    (planned,) = found.study.kinds.queries(found.study.plan)
    assert planned.scale.fraction == 6
    assert found.epsilon_claimed == Fraction(1, 2)
    assert found.epsilon_spent == {"basel": Fraction(1, 6), "bern": Fraction(1, 2)}
    assert "at most 3 records of each patient" in found.to_text()


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
    other = Mlp(features=line(SOURCE).features.__class__(features=()), weights=line(SOURCE).weights)
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
    network = line(SOURCE)
    asked = [edge_of(0.5), edge_of(0.9)]
    bins = validation_bins(network, records, 8, asked)
    assert set(asked) <= set(bins.edges)
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
    found = bin_count(np.full(1000, share), target_size=size, scale=scale, noises=sites)
    assert found == pytest.approx(bins, abs=1)
    assert bin_count(np.full(8, share), target_size=size, scale=scale, noises=sites) == 2


def test_an_edge_is_the_least_logit_at_its_threshold():
    assert edge_of(0.5) == 2.0**-24
    edge = edge_of(0.2)
    assert edge * STEPS * STEPS == round(edge * STEPS * STEPS)
    assert 1 / (1 + np.exp(-edge)) == pytest.approx(0.2, abs=1e-7)


def test_coordinates_agree_with_the_network():
    """The score is the attribute itself: the map's points, weighted 1 and 0."""
    records = encode_frame(SOURCE, open_curator("basel")._dataset.schema)
    network = line(SOURCE)
    assert (network.logits(records) / STEPS**2 == coordinates(network.features, records)[:, 0]).all()
