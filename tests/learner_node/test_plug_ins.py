"""What a learner asks of packages of others: strategies and kinds by name, and a question without a strategy."""

import importlib
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from curator_fakes import NOW, ROWS, frame_of, key, policy, steward_file
from curator_node.site import temporary_site
from expril.packages import offering
from learner_node import strategies
from learner_node.plug_ins import named_package, with_named, with_package
from learner_node.questions.plain_question import ask_plainly, body_of, presented
from learner_node.strategies import check_options, make_strategy
from learner_node.strategies.base import SourceEstimate, checked_result
from learner_node.study.budget import Budget
from learner_node.study.decisions import wire_type
from learner_node.study.federation import Federation
from learner_node.study.learn import learn
from learner_node.study_file import Question, read_study
from plug_in_wheels import installed
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.kinds.counts import COUNTS, CountsBody
from protocol.limits import Limits
from protocol.partitions import FeatureBins
from protocol.plug_ins import Group
from protocol.transcript import replay
from simulations.carriers.direct import DirectCarrier, direct_federation
from simulations.kinds import SIMULATED_ANSWERERS
from simulations.scenario import CuratorScenario
from toy.curators import toy_curator
from toy.kind import TOY
from toy.partition import ToyDecades

CODE = """
from toy.kind import TOY
from toy.reader import TOY_READER
from toy.partition import ToyDecades
from toy.strategy import DecadesStrategy
"""
OFFERS = {
    Group.KINDS: {"toy": "{}:TOY"},
    Group.READERS: {"toy": "{}:TOY_READER"},
    Group.PARTITIONS: {"toy_decades": "{}:ToyDecades"},
    Group.STRATEGIES: {"toy-decades": "{}:DecadesStrategy"},
}
ASKED = Question("toy", {"scale": [10, 1], "level": 100, "turns": 2}, ({"above": 29.5}, {}))
STUDY = """
title = "Toys"
epsilon = "1/5"
[curators]
ward = "{}"
[question]
kind = "toy"
{}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The toy's learner's half, installed under a module's name of its own."""
    module = f"toy_of_{tmp_path.name}"
    offers = {group: {name: to.format(module) for name, to in names.items()} for group, names in OFFERS.items()}
    installed(tmp_path, "expril-toy", "1.0", {f"{module}/__init__.py": CODE}, offers)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    strategies._plug_in.cache_clear()
    yield module
    strategies._plug_in.cache_clear()


def toys(**more):
    curator = toy_curator()
    return Federation(
        curators={"ward": curator.identity},
        key=key("ann"),
        carrier=DirectCarrier({curator.identity: curator.handle}),
        clock=lambda: NOW,
        **more,
    )


def test_a_strategy_and_a_kind_are_found_by_name_and_nothing_else_is(package):
    assert named_package(strategy="cells", kind="counts") is None
    assert named_package(strategy="nonsense", kind="nonsense") is None
    assert named_package(strategy="toy-decades").name == "expril-toy"
    check_options("toy-decades", {"count": 3})
    assert make_strategy("toy-decades", {"count": 3}).partition == ToyDecades("age", 3)
    with pytest.raises(ConfigurationError, match="takes no option 'cuont'"):
        check_options("toy-decades", {"cuont": 3})
    equipped = with_named(toys(), kind="toy")
    assert equipped.kinds["toy"] is TOY
    assert ToyDecades in equipped.kinds["counts"].partition.__args__
    assert "toy" not in toys().kinds
    assert COUNTS.partition is toys().kinds["counts"].partition


def test_without_its_package_a_strategy_is_unknown():
    strategies._plug_in.cache_clear()
    with pytest.raises(ConfigurationError, match="unknown strategy 'toy-decades'"):
        check_options("toy-decades", {})
    with pytest.raises(ConfigurationError, match="unknown query kind 'toy'"):
        ask_plainly(toys(), ASKED, Budget("1/5"))


def test_a_question_without_a_strategy_is_asked_turn_by_turn(package):
    answers = ask_plainly(toys(), ASKED, Budget("1/5"))
    assert (answers.pooled, answers.answers) == ((5, 50), {"ward": (5, 50)})
    assert answers.epsilon_claimed == Fraction(1, 5)
    assert answers.study.spent("ward") == Fraction(1, 10)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "toi"}, "did you mean 'toy'"),
        ({"planned": {"scale": [10, 1], "levl": 3}}, "levl"),
        ({"planned": {"scale": [10, 1], "level": 3}}, "turns: 2"),
        ({"body": {"above": 1.0}}, "body has 1; write a list of 2 tables"),
        ({"body": ({"above": "x"}, {})}, "question.body"),
        ({"planned": {"scale": [1, 1], "level": 3, "turns": 2}}, "costs 2, and epsilon is 1/5"),
        ({"body": ({}, {})}, "a number in the first turn"),
    ],
)
def test_a_wrong_question_costs_nothing_and_says_what_is_wrong(package, change, why):
    federation = toys()
    readers = with_package(federation.readers, named_package(kind="toy"))
    with pytest.raises(ConfigurationError, match=why):
        ask_plainly(toys(readers=readers), msgspec.structs.replace(ASKED, **change), Budget("1/5"))


def test_a_studys_file_asks_a_question_or_a_model():
    ward = key("basel").public.hex()
    study = read_study(STUDY.format(ward, "").encode(), where="STUDY.toml")
    assert not study.asks_model
    assert study.question.bodies == ({},)
    for more, why in (('[[analyses]]\nkind = "counts"', "asked alone"),):
        with pytest.raises(ConfigurationError, match=why):
            read_study(STUDY.format(ward, more).encode(), where="STUDY.toml")
    with pytest.raises(ConfigurationError, match="strategy is of a model"):
        read_study(('strategy = "paper-c"\n' + STUDY.format(ward, "")).encode(), where="STUDY.toml")


def test_counts_are_asked_with_partitions_of_others_and_read_again():
    wider = COUNTS.with_partitions([ToyDecades])
    written = {"partitions": [{"type": "toy_decades", "attribute": "age", "count": 3}]}
    body = body_of(Question("counts", {}, written), wider, 0)
    assert body == CountsBody((ToyDecades("age", 3),), None)
    again = decode(encode(body), wire_type(body))
    assert (again.partitions, isinstance(again, CountsBody), encode(again)) == (body.partitions, True, encode(body))
    plain = CountsBody((FeatureBins("age", (1.0,)),), Constant(predicted=1))
    assert wire_type(plain) is CountsBody
    with pytest.raises(ConfigurationError, match="toy_decades"):
        body_of(Question("counts", {}, written), COUNTS, 0)


def test_a_question_of_a_shipped_kind_finds_the_package_of_its_partition(package):
    named = offering(["toy_decades"], Group.PARTITIONS)
    site = temporary_site(frame_of(ROWS), steward_file(), policy(cap=10, plug_ins=named, simulation=True))
    written = {"partitions": [{"type": "toy_decades", "attribute": "age", "count": 9}]}
    asked = Question("counts", {"release": "mass", "partitions": 1, "scale": [10, 1]}, written)
    answers = ask_plainly(direct_federation({"ward": site}, key("ann")), asked, Budget("1/10"))
    assert len(answers.pooled[0].values) == 10
    for odd in (
        {"partitions": 1},
        {"partitions": [1]},
        {"partitions": [{"type": 1}]},
        {"partitions": [{"type": "none"}]},
    ):
        with pytest.raises(ConfigurationError, match="body: "):
            ask_plainly(toys(), msgspec.structs.replace(asked, body=odd), Budget("1/10"))


def test_a_simulation_names_the_packages_of_its_strategies_and_kinds(package):
    """Its curators answer the strategy's partition, and so does whoever reads the study with the package."""
    (named,) = offering(["toy-decades"], Group.STRATEGIES)
    assert CuratorScenario("ward", limits=Limits(kinds={"counts": {}})).policy([], plug_ins=(named,)).plug_ins == (
        named,
    )
    rules = policy(cap=10, plug_ins=(named,), simulation=True)
    site = temporary_site(frame_of(ROWS), steward_file(), rules, answerers=SIMULATED_ANSWERERS)
    source = frame_of(ROWS).drop("patient", "sick")
    federation = direct_federation({"ward": site}, key("ann"))
    learned = learn(federation, source, Budget(1), strategy="toy-decades", options={"count": 9})
    assert learned.model().probability(learned.source).shape == (len(ROWS),)
    session = learned.study.sessions["ward"]
    transcript = session.transcript.envelopes
    assert replay(transcript, session.curator, key("ann").public, kinds=session.kinds).unproven == ""
    assert "toy_decades" in replay(transcript, session.curator, key("ann").public).unproven


# what a strategy returns, and how an answer is shown


class Guess:
    def probability(self, records):
        return np.full(len(records), 0.5)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "ended with nothing"),
        (Guess(), "ended with a Guess"),
        ((None, None), "a tuple of 2"),
        ((Guess(), None), "a model and nothing"),
        ((Guess(), Guess()), "a model and a Guess"),
    ],
)
def test_a_strategy_that_returns_no_model_or_estimate_is_told_so(result, why):
    with pytest.raises(ConfigurationError, match=why):
        checked_result(result)


def test_a_strategy_that_returns_both_is_taken():
    pair = Guess(), SourceEstimate(np.ones(2), np.ones(2))
    assert checked_result(pair) == pair


def test_any_answer_is_shown_field_by_field():
    @dataclass
    class Answer:
        counts: np.ndarray
        scale: Fraction
        raw: bytes

    answer = Answer(np.arange(2), Fraction(1, 3), b"\x01")
    assert presented([answer, {"x": (1, None)}]) == [{"counts": [0, 1], "scale": "1/3", "raw": "01"}, {"x": [1, None]}]
    assert presented(ASKED)["planned"]["scale"] == [10, 1]
