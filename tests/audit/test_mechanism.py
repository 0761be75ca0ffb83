"""The audit of installed query kinds: what is right passes, what is wrong is caught; losses by enumeration.

Right mechanisms are attacked at an error rate of 1e-9, so that no test cries wolf. Wrong ones lose so much more than
they claim that bounds at 1 % pass the claims by six deviations or more. Noise is numpy's but where a test says
otherwise: exact noise takes its time.
"""

import ast
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from audit_results import kind as kind_result
from curator_fakes import Learner as FakeLearner
from curator_fakes import altered, dataset, mass_body, open_curator, planned, policy
from curator_node.answering import Answered, Answerer
from curator_node.kinds import ANSWERERS
from curator_node.kinds.model import MODEL
from curator_node.kinds.sample import density_of
from curator_node.ledger.store import MemoryStore
from curator_node.mechanisms import ExactNoise
from expril.audit.attack import handle_checks as checks
from expril.audit.attack import neighbours as searching
from expril.audit.attack.conformity import strayed_calls, strayed_copies, strayed_draws
from expril.audit.attack.controls import parts as broken
from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control, paper_ratio_loss
from expril.audit.attack.controls.parts import QuickNoise, rows_that_blas_changed, walk_truth
from expril.audit.attack.game import breaks, play
from expril.audit.attack.handle_checks import path_checks
from expril.audit.attack.kinds import (
    attack_charges,
    attack_pair,
    audit_kind,
    chosen_kinds,
    examples_of,
    kinds_to_audit,
)
from expril.audit.attack.neighbours import score_of, search, values_of
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import FAILED, AnswerPath, NoNoise
from expril.audit.kinds.exact import (
    MOST_CHOICES,
    NoisyChoice,
    Table,
    choice_loss,
    enumerate_loss,
    laplace_table,
    loss_by_definition,
    loss_of_shift,
    loss_of_vectors,
)
from expril.audit.kinds.invented import Neighbours, dataset_of, plain_record, table_of
from expril.audit.kinds.kind_audit import AGREEMENT
from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.sums import as_words, ledger_sums
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds.counts import CountsRelease
from protocol.kinds.model import ModelRelease
from protocol.kinds.models import METHODS
from protocol.kinds.sample import PlannedSample, SampleBody
from protocol.limits import Limits
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.plans import Plan
from protocol.query_kind import QueryKind, Turn
from protocol.rationals import Rational
from protocol.release_kinds import RELEASE_KINDS
from toy import answerer as toy
from toy.answerer import TOY_ANSWERER
from toy.audit import KNOWN, TOY_AUDIT, ToyLaw, ask
from toy.curators import TABLE
from toy.kind import Toy, ToyBody, ToyRelease

COUNTS = ANSWERERS["counts"]
AUDITS = KNOWN.audits
NAMES = chosen_kinds("counts")
SURE, STRICT = 1e-9, 0.01
ROOT = Path(__file__).parents[2]
OF_NO_KIND = (
    "attack/kinds",
    "attack/neighbours",
    "attack/handle_checks",
    "kinds/exact",
    "kinds/invented",
    "kinds/answer_path",
)


def examples(name):
    return AUDITS["counts"].examples()[name.partition("/")[2]]


def shorten(patch):
    """A short search: what is tested is found at once."""
    patch.setattr(searching, "DRAWN", 8)
    patch.setattr(searching, "CLIMBED", 4)


@lru_cache
def best_pair(name, place):
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        return search(AnswerPath(COUNTS, examples(name)[place]))


def asks_otherwise(path, audit, pair):
    """What is said first of a curator's calls for noise on either set of records."""
    said = (strayed_calls(audit.claimed_law(path.case(units)), path.exact(units)[1].handed) for units in pair.sets)
    return next(filter(None, said), "")


@pytest.fixture
def briefly(monkeypatch):
    shorten(monkeypatch)


def with_answer(answer, kind="counts"):
    """Tables with another answerer, asked the first question of each name alone."""
    first = {name: questions[:1] for name, questions in AUDITS[kind].examples().items()}
    return {
        "answerers": {**TABLE, kind: replace(TABLE[kind], answer=answer)},
        "audits": {**AUDITS, kind: altered(AUDITS[kind], examples=lambda: first)},
    }


# what has to be audited


def test_every_private_release_kind_is_audited_and_no_other():
    assert tuple(f"counts/{name}" for name in RELEASE_KINDS) == NAMES
    names = kinds_to_audit()
    assert tuple(name for name in names if name.partition("/")[0] == "counts") == NAMES
    assert {name.partition("/")[0] for name in names} == set(ANSWERERS)
    assert kinds_to_audit(TABLE, AUDITS) == (*kinds_to_audit(), "toy")
    assert all(examples(name) for name in NAMES)


def test_a_name_a_kind_or_all():
    assert chosen_kinds("all") == kinds_to_audit()
    assert chosen_kinds("counts") == NAMES
    assert chosen_kinds("counts/mass") == ("counts/mass",)
    with pytest.raises(ConfigurationError, match=r"unknown query kind 'count'.*did you mean 'counts'.*counts/mass"):
        chosen_kinds("count")
    with pytest.raises(ConfigurationError, match="releases several things"):
        audit_kind("counts")
    with pytest.raises(ConfigurationError, match=r"known: all, counts, secure_counts, .*toy"):
        audit_kind("counts/paper_ratio", answerers=TABLE)


def test_a_kind_without_questions_is_a_violation():
    answerers = {"toy": TOY_ANSWERER}
    silent = {"toy": altered(TOY_AUDIT, examples=dict)}
    partly = {"toy": altered(TOY_AUDIT, examples=lambda: {"new": ()})}
    for audits, name in ((silent, "toy"), ({}, "toy"), (partly, "toy/new")):
        assert kinds_to_audit(answerers, audits) == (name,)
        result = audit_kind(name, answerers=answerers, audits=audits)
        assert result.violation
        assert "is not audited" in result.verdict
        assert path_checks(name, answerers=answerers, audits=audits) == ()


@pytest.mark.slow
def test_a_kind_that_claims_no_law_is_a_violation(briefly):
    lawless = altered(
        AUDITS["counts"], claimed_law=lambda case: None, examples=lambda: {"mass": examples("counts/mass")}
    )
    result = audit_kind("counts/mass", draws=400, error_rate=SURE, audits={"counts": lawless}, noise=QuickNoise)
    assert result.violation
    assert result.exact is None
    assert "not audited exactly" in result.verdict


@pytest.mark.slow
def test_a_law_that_fails_beside_the_best_pair_is_an_alarm(briefly):
    best = best_pair("counts/mass", 0).pairs[0]
    sizes = {sum(map(len, units)) for units in best.sets}

    def law(case):
        if case.frame.height not in sizes:
            raise ZeroDivisionError("no such law")
        return AUDITS["counts"].claimed_law(case)

    first = {"mass": examples("counts/mass")[:1]}
    failing = altered(AUDITS["counts"], claimed_law=law, examples=lambda: first)
    result = audit_kind("counts/mass", draws=400, error_rate=SURE, audits={"counts": failing}, noise=QuickNoise)
    assert result.violation
    assert result.exact is not None
    assert "claimed law cannot be computed on some invented records (ZeroDivisionError: no such law)" in result.verdict


def test_a_bound_above_the_exact_loss_is_an_alarm_below_the_claim():
    proven = kind_result("counts/mass", exact=0.2, claimed="1", bound=0.9)
    assert proven.alarms == ("the draws prove at least 0.9, and the law that it claims loses 0.2",)
    assert kind_result("counts/mass", exact=0.9, claimed="1", bound=0.9).alarms == ()
    assert len(kind_result("counts/mass", exact=1.1, claimed="1", bound=1.2).alarms) == 3


def test_a_question_that_nobody_answers_is_a_violation():
    """Both sets of records would fail alike, and the game would tell nothing."""

    def failing(question, dataset, noise):
        raise MemoryError

    (example,) = TOY_AUDIT.examples()[""]
    refused = replace(example, ask=lambda copies: replace(example.ask(copies), bodies=(b"no body",)))
    asking = altered(TOY_AUDIT, examples=lambda: {"": (refused,)})
    for answerer, audit in ((replace(TOY_ANSWERER, answer=failing), TOY_AUDIT), (TOY_ANSWERER, asking)):
        result = audit_kind("toy", answerers={"toy": answerer}, audits={"toy": audit})
        assert result.violation
        assert "gets no answer" in result.verdict


def test_the_audit_names_no_query_kind():
    for name in OF_NO_KIND:
        tree = ast.parse((ROOT / "expril" / "audit" / f"{name}.py").read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        words |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        words |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        for kind in ANSWERERS:
            assert not {word for word in words if word.lower() == kind or f".{kind}" in word}, name
        assert not {word for word in words if word.startswith("protocol.kinds")}, name


# questions, records, and what is released


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_search_finds_records_that_attain_the_claim_exactly(name):
    for place, example in enumerate(examples(name)):
        path, result = AnswerPath(COUNTS, example), best_pair(name, place)
        exact = enumerate_loss(path, AUDITS["counts"], result.pairs[0])
        assert result.score == pytest.approx(1, abs=1e-12)
        assert exact.loss == pytest.approx(1, abs=1e-9)
        assert exact.by_table == pytest.approx(1, abs=1e-9)
        assert not exact.passes(path.claimed)
        assert exact.passes(path.claimed * (1 - Fraction(1, 10**11)))  # power


def test_the_search_tries_all_that_a_record_can_be():
    example = examples("counts/mass")[0]
    values = values_of(example)
    assert {None, -4.0, 4.0, 1.0} < set(values["x"])
    assert min(values["y"][:-1] or (), key=lambda v: v if v is not None else 0) < 0.0
    assert {None, "a", "neither"} < set(values["s"])
    assert set(values["outcome"]) == {"no", "yes"}
    label = values_of(examples("counts/label_total")[0])["outcome"]
    assert min(label) < -1.0
    assert max(label) > 9.0


def test_the_other_units_keep_their_names_and_their_places():
    example = examples("counts/class_counts")[1]
    (one,) = [record] = [dict.fromkeys(("x", "y", "s"), None) | {"outcome": example.schema.classes[0]}]
    pair = Neighbours(((record,), (record, record)), (record, record), "")
    fewer, more = (table_of(units, example.schema) for units in pair.sets)
    assert fewer["unit"].to_list() == ["1", "0", "0"]
    assert more["unit"].to_list() == ["2", "2", "1", "0", "0"]
    assert more[2:].equals(fewer)
    assert "3 other records" in pair.words
    assert one["x"] is None
    with pytest.raises(ConfigurationError, match="empty"):
        table_of((), example.schema)


def test_an_answer_that_fails_is_a_draw():
    def failing(question, dataset, noise):
        raise MemoryError

    path = AnswerPath(replace(COUNTS, answer=failing), examples("counts/mass")[0], 3)
    pair = best_pair("counts/mass", 0).pairs[0]
    assert (path.draws(pair.shared, 7, 2) == FAILED).all()
    assert score_of(path, pair) == 0  # for all records alike
    partly_failing = AnswerPath(replace(COUNTS, answer=fails_for_many), path.example)
    assert score_of(partly_failing, replace(pair, shared=pair.shared[:1] * 10)) == np.inf


# right and wrong mechanisms


@pytest.mark.slow
def test_a_right_mechanism_holds(briefly):
    result = audit_kind("counts/squared_error", draws=8_000, error_rate=SURE, noise=QuickNoise)
    assert not result.violation, result
    assert result.attack.lower_bound > 0.4  # and the attack has found it
    assert result.exact == pytest.approx(1, abs=1e-9)
    assert result.searched > 2 * (8 + 4)  # of two questions, beside crowds and opposite ends
    assert result.verdict.startswith("Holds")


def half_the_noise(question, dataset, noise):
    class Half:
        def discrete_laplace(self, exact, l1, law, stamp):
            return noise.discrete_laplace(exact, l1, replace(law, scale=law.scale / 2), stamp)

    return COUNTS.answer(question, dataset, Half())


def one_noise_for_all(question, dataset, noise):
    class Shared:
        def discrete_laplace(self, exact, l1, law, stamp):
            return exact + noise.discrete_laplace(np.zeros(1, np.int64), l1, law, stamp)

    return COUNTS.answer(question, dataset, Shared())


def fails_for_many(question, dataset, noise):
    if len(dataset._records) > 10:
        raise ValueError
    return COUNTS.answer(question, dataset, noise)


@pytest.mark.family(2)
@pytest.mark.parametrize("answer", [half_the_noise, pytest.param(fails_for_many, marks=pytest.mark.slow)])
def test_a_wrong_answerer_of_counts_is_caught(answer, briefly):
    result = audit_kind("counts/mass", draws=4_000, error_rate=STRICT, **with_answer(answer), noise=QuickNoise)
    assert result.violation, result


@pytest.mark.slow
def test_a_cell_without_noise_in_each_copy_is_caught(briefly):
    """Where a release is not just noisy numbers there is nothing to enumerate, and the draws tell."""

    def answer(question, dataset, noise):
        release = decode(COUNTS.answer(question, dataset, noise).release, CountsRelease)
        bare = decode(COUNTS.answer(question, dataset, NoNoise()).release, CountsRelease)
        counts, exact = (np.frombuffer(body.counts, "<i8").copy() for body in (release, bare))
        counts[::3] = exact[::3]
        return Answered(encode(CountsRelease(counts=counts.tobytes(), ratios=b"")))

    result = audit_kind("counts/mass", draws=4_000, error_rate=STRICT, **with_answer(answer), noise=QuickNoise)
    assert result.violation
    assert result.attack.lower_bound > 3


def test_too_little_noise_is_seen_in_what_a_curator_asks_for(briefly):
    """The exact loss is that of the claimed law, whatever the curator does."""
    result = audit_kind("counts/mass", draws=400, error_rate=SURE, **with_answer(half_the_noise), noise=QuickNoise)
    assert result.violation
    assert result.exact == pytest.approx(1, abs=1e-9)
    assert "asks for noise 3 times of scale 1, and its kind claims 3 times of scale 2" in result.verdict


@pytest.mark.slow
def test_a_curator_that_hides_too_little_noise_is_seen_in_its_draws(briefly):
    """Its calls for noise are as claimed, and what it releases is not: power 1 - 1e-9 and more at 4,000 draws."""

    def answer(question, dataset, noise):
        class Hidden:
            def discrete_laplace(self, exact, l1, law, stamp):
                noisy = noise.discrete_laplace(exact, l1, law, stamp)
                return exact + (noisy - exact) // 2

        return COUNTS.answer(question, dataset, Hidden())

    result = audit_kind("counts/mass", draws=4_000, error_rate=SURE, **with_answer(answer), noise=QuickNoise)
    assert result.violation
    assert "draws do not have the law that its kind claims" in result.verdict


# an example that claims copies which are not released: a kind 30 times too cheap would hold


def counting(question, dataset, noise):
    """The number of ages above the threshold, once, however often it is asked."""
    count = np.array([np.count_nonzero(dataset.records.numeric[:, 0] > question.body.above)])
    noisy = noise.discrete_laplace(count, 1, question.turn.planned.law, question.stamp)
    return Answered(encode(ToyRelease(int(noisy[0]))))


def one_copy_only(question, dataset, noise):
    release = decode(COUNTS.answer(question, dataset, noise).release, CountsRelease)
    return Answered(encode(CountsRelease(counts=release.counts[:24], ratios=b"")))


def test_copies_that_are_claimed_and_not_released_are_refused():
    """A draw of one number was compared with a twentieth of the claim, and every draw failed on both sides alike."""
    example = replace(TOY_AUDIT.examples()[""][0], ask=one_turn, copies=20)
    answerers = {"toy": Answerer(kind_of(Fraction(1, 60)), counting)}
    result = audit_kind(
        "toy", draws=1_000, answerers=answerers, audits={"toy": altered(TOY_AUDIT, examples=lambda: {"": (example,)})}
    )
    assert result.violation
    assert "20 copies of its question cost 1/30, and one costs 1/30" in result.verdict


@pytest.mark.parametrize(
    ("answer", "told"),
    [(one_noise_for_all, "draw noise 1 times, and"), (one_copy_only, "copies of its question get no answer")],
)
def test_copies_have_their_own_noise_and_their_own_numbers(answer, told):
    result = audit_kind("counts/mass", draws=1_000, error_rate=SURE, **with_answer(answer), noise=QuickNoise)
    assert result.violation
    assert told in result.verdict


def test_copies_whose_noise_is_the_same_are_seen_in_their_draws():
    """Each copy is handed to the source of noise, and all of them get what the first one gets."""

    def answer(question, dataset, noise):
        class Shared:
            def discrete_laplace(self, exact, l1, law, stamp):
                noisy = noise.discrete_laplace(exact, l1, law, stamp)
                return exact + np.resize((noisy - exact)[:3], exact.shape)

        return COUNTS.answer(question, dataset, Shared())

    path = AnswerPath(replace(COUNTS, answer=answer), examples("counts/mass")[0], 2, noise=QuickNoise)
    assert strayed_copies(path, ((plain_record(path.example.schema),),)) == ""
    law = AUDITS["counts"].claimed_law(replace(path, copies=1).case(best_pair("counts/mass", 0).pairs[0].shared))
    rows = path.draws(best_pair("counts/mass", 0).pairs[0].shared, 2_000, 3)
    assert "on the same side in two neighbours" in strayed_draws(law, rows)
    right = replace(path, answerer=COUNTS).draws(best_pair("counts/mass", 0).pairs[0].shared, 2_000, 3)
    assert strayed_draws(law, right) == ""


@pytest.mark.slow
def test_a_kind_of_two_turns_is_audited_by_the_same_code(briefly):
    result = audit_kind("toy", draws=1_000, error_rate=SURE, answerers=TABLE, audits=AUDITS, noise=QuickNoise)
    assert not result.violation, result
    assert result.attack.claimed == "2"
    assert result.exact == pytest.approx(2, abs=1e-9)


def test_the_toys_law_is_that_of_its_answers_charge_by_charge():
    first, second = (ToyLaw(exact, Fraction(2)) for exact in (1, 2))
    assert first.charges == (Fraction(1, 2), Fraction(1))
    losses = [first.loss(second, charge) for charge in (*first.charges, None)]
    assert [loss.loss for loss in losses] == pytest.approx([1 / 2, 1, 1], abs=1e-9)
    assert [loss.by_table for loss in losses] == pytest.approx([1 / 2, 1, 1], abs=1e-9)


def second_turn_bare(question, dataset, noise):
    return toy.answer(question, dataset, noise if question.turn.number == 0 else NoNoise())


def second_turn_drawn_anew_for_nothing(question, dataset, noise):
    if question.turn.number == 0:
        return toy.answer(question, dataset, noise)
    _, above = decode(question.state, tuple[int, float])
    return Answered(encode(ToyRelease(toy._draw(question, dataset, noise, above))))


@pytest.mark.slow
@pytest.mark.parametrize("answer", [second_turn_bare, second_turn_drawn_anew_for_nothing])
def test_a_wrong_answerer_of_a_new_kind_is_caught(answer, briefly):
    result = audit_kind("toy", draws=2_000, error_rate=STRICT, **with_answer(answer, "toy"), noise=QuickNoise)
    assert result.violation, result
    assert "draws do not have the law that its kind claims" in result.verdict


@pytest.mark.slow
def test_the_attack_by_charge_proves_an_answer_that_was_charged_too_little(briefly):
    """Among those charged 1, a whole answer is drawn anew. The whole cost allows that, and this charge does not."""
    (question, *_) = AUDITS["toy"].examples()[""]
    answerer = replace(TABLE["toy"], answer=second_turn_drawn_anew_for_nothing)
    path = AnswerPath(answerer, question, noise=QuickNoise)
    pair = search(path).pairs[0]
    for _ in range(2):
        found = attack_charges(path, pair, draws=16_000, error_rate=STRICT)
        assert max(attack.lower_bound for attack in found if attack.claimed == "1") > 1


# the curator's own path, with real noise


@pytest.mark.parametrize("name", [pytest.param("counts/mass", marks=pytest.mark.slow), "toy"])
def test_a_curator_releases_what_was_attacked(name, briefly, monkeypatch):
    monkeypatch.setattr(checks, "HANDLED_DRAWS", 1_000)
    monkeypatch.setattr(checks, "MOST_CALLS", 20)
    sentinel, law = path_checks(name, answerers=TABLE, audits=AUDITS)
    assert sentinel.passed, sentinel
    assert law.passed, law
    assert law.false_alarm == SURE


def test_a_curator_that_calls_another_answerer_is_noticed(monkeypatch):
    honest = checks.assemble_site

    def elsewhere(*parts, answerers, **more):
        return honest(*parts, answerers=ANSWERERS, **more)

    monkeypatch.setattr(checks, "assemble_site", elsewhere)
    path = AnswerPath(COUNTS, examples("counts/mass")[0])
    check = checks.sentinel("counts/mass", path.example, best_pair("counts/mass", 0).pairs[0])
    assert not check.passed
    assert "sent: NO" in check.finding


def test_a_curator_with_another_law_is_noticed(monkeypatch):
    """Power: its own noise has three times the scale of the attacked one."""
    monkeypatch.setattr(checks, "HANDLED_DRAWS", 1_000)
    path = AnswerPath(COUNTS, examples("counts/mass")[0], 100, noise=lambda: QuickNoise(Fraction(1, 3)))
    assert not checks.same_law("counts/mass", path, best_pair("counts/mass", 0).pairs[0]).passed


def test_copies_that_share_noise_are_noticed(monkeypatch):
    monkeypatch.setattr(checks, "HANDLED_DRAWS", 1_000)
    path = AnswerPath(replace(COUNTS, answer=one_noise_for_all), examples("counts/mass")[0], 50)
    assert not checks.same_law("counts/mass", path, best_pair("counts/mass", 0).pairs[0]).passed


# what is broken on purpose

QUICK = "forgotten_contribution_bound"


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PATH_CONTROLS]
)
def test_every_broken_curator_is_caught(name):
    # 0.03 is claimed there, and 0.71 true: the only one that needs all draws for six deviations.
    result = audit_path_control(name, draws=100_000 if name == "paper_ratio_n1" else 20_000, error_rate=0.001)
    assert result.caught, result
    assert result.truth
    assert result.fault.rstrip(")").endswith(".")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES])
def test_what_is_shipped_holds_with_real_noise(name):
    draws = 30_000 if name == "counts/outcome_counts" else 100_000  # its bound is 0.95 then, and each draw is dear
    result = audit_kind(name, draws=draws, error_rate=SURE)
    assert not result.violation, result
    assert result.attack.lower_bound > 0.85


def test_an_unknown_control_is_told():
    with pytest.raises(ConfigurationError, match="did you mean 'forgotten_d'"):
        audit_path_control("forgoten_d")


def test_the_paper_s_ratio_loses_what_is_printed_in_the_table():
    """PRIVACY.md, section 1; and by the density itself, on a grid of outputs and both atoms."""
    assert paper_ratio_loss(0, 30) == np.inf
    for n, loss in ((1, 0.7098), (2, 0.4277), (5, 0.2101), (10, 0.1256), (34, 0.0614), (170, 0.0390)):
        assert paper_ratio_loss(n, 30) == pytest.approx(loss, abs=5e-5)

    def density(n, errors, c):
        return n / 60 * np.exp(-abs(n * c - errors) / 30)

    grid = np.linspace(1e-6, 1 - 1e-6, 2001)
    for n in (1, 2, 5):
        ratios = [
            np.log(density(n + 1, errors + more, grid) / density(n, errors, grid)).max()
            for errors in range(n + 1)
            for more in (0, 1)
        ]
        assert max(ratios) == pytest.approx(paper_ratio_loss(n, 30), abs=1e-3)


def test_what_is_unstable_is_exact_in_what_is_shipped():
    """The same network, on the records that the control found: no other record's prediction moves."""
    control = PATH_CONTROLS["blas_evaluation"].attack.__closure__
    (path,) = [cell.cell_contents for cell in control if isinstance(cell.cell_contents, AnswerPath)]
    pair = search(replace(path, copies=1)).pairs[0]
    assert score_of(replace(path, copies=1), pair) >= 3
    assert score_of(replace(path, copies=1, hold=dataset_of), pair) == 1


def test_rows_are_compared_with_themselves_when_one_is_removed():
    """Power and calm: a product that hangs on the number of rows, and one that does not."""

    def steady(points, weight):
        return (points.astype(np.float64) * weight[:, 0]).sum(axis=1, keepdims=True)

    assert rows_that_blas_changed(steady)[0] == 0
    changed, compared = rows_that_blas_changed(lambda points, weight: steady(points, weight) + len(points))
    assert changed == compared > 100


def test_turns_carry_their_numbers():
    turns = []

    def answer(question, dataset, noise):
        turns.append(question.turn)
        return toy.answer(question, dataset, noise)

    path = AnswerPath(replace(TOY_ANSWERER, answer=answer), TOY_AUDIT.examples()[""][0])
    path.exact(((plain_record(path.example.schema),),))
    assert turns == [Turn(path.planned, 0, number) for number in (0, 1)]
    assert path.claimed == 2


def choosing(question, dataset, noise):
    """How many of three ages are above the threshold, chosen among 0 to 2 by closeness."""
    ages = dataset.records.numeric[:, 0]
    count = int(np.count_nonzero(ages > question.body.above))
    scores = -np.abs(np.arange(3) - count)
    chosen = noise.choose(scores.astype(np.int64), 1, NoisyMax(question.turn.planned.scale.fraction), question.stamp)
    return Answered(encode(ToyRelease(chosen)))


def one_turn(copies):
    asked = ask(copies)
    return replace(asked, planned=msgspec.structs.replace(asked.planned, turns=1), bodies=(encode(ToyBody(29.5)),))


def kind_of(factor):
    """A claim of `factor` times the true loss, 2."""

    class Choice(Toy):
        state_bytes = 0
        charge = QueryKind.charge

        def check_planned(self, planned):
            pass

        def cost(self, planned, most_records_per_unit):
            return factor * NoisyMax(planned.scale.fraction).loss(most_records_per_unit)

    return Choice()


def law_of_a_choice(case):
    """By the scores that the curator hands over; the plan says the scale."""
    return NoisyChoice(case.trace(()).handed[0], NoisyMax(case.planned.scale.fraction))


TOY_AUDITS = {
    "toy": altered(
        TOY_AUDIT,
        examples=lambda: {"": (replace(TOY_AUDIT.examples()[""][0], ask=one_turn),)},
        claimed_law=law_of_a_choice,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "violation"), [(1, False), (Fraction(1, 2), True)])
def test_a_kind_that_chooses_is_enumerated(factor, violation):
    answerers = {"toy": Answerer(kind_of(Fraction(factor)), choosing)}
    result = audit_kind("toy", draws=1_000, error_rate=SURE, answerers=answerers, audits=TOY_AUDITS, noise=ExactNoise)
    assert result.exact is not None
    assert 1 < result.exact <= 2
    assert result.violation is violation


def test_both_ways_agree_with_each_other():
    rng = np.random.default_rng(3)
    for _ in range(20):
        first = rng.integers(-20, 20, 12)
        second = first + rng.integers(-2, 3, 12)
        law = NoisyMax(Fraction(7, 3))
        loss = choice_loss(first, second, law)
        assert loss.defined == pytest.approx(loss.tabled, abs=1e-9)
        assert loss.loss <= float(law.loss(2))


def test_too_many_choices_are_not_enumerated():
    many = np.zeros(MOST_CHOICES + 1, np.int64)
    with pytest.raises(ConfigurationError, match="offer fewer"):
        choice_loss(many, many, NoisyMax(Fraction(1)))


def test_a_kind_for_simulations_alone_is_not_audited_as_one():
    kind = altered(kind_of(Fraction(1)), private=lambda limits: False)
    answerers = {"toy": Answerer(kind, choosing)}
    assert kinds_to_audit(answerers) == ()
    with pytest.raises(ConfigurationError, match="in simulations only"):
        audit_kind("toy", answerers=answerers)


LEAST = {"logistic_regression": 0.35, "linear_svm": 0.9, "kernel_svm": 0.9}
"""Slopes of losses are below 1 at finite weights, and tolerance and rounding are paid for; all others attain 1."""


def enumerated(name, place):
    """Exact loss of one of a method's questions, on the records that a short search finds."""
    path = AnswerPath(MODEL, AUDITED_KINDS.audits["model"].examples()[name][place])
    exact = enumerate_loss(path, AUDITS["model"], search(path, random_pairs=24).pairs[0])
    assert path.claimed == 1
    assert exact.loss is not None, exact.why_not
    assert not exact.passes(path.claimed), exact
    return exact.loss


@pytest.mark.family(2)
@pytest.mark.parametrize("name", METHODS)
def test_a_short_question_tells_nearly_as_much_as_its_claim_and_no_more(name):
    assert enumerated(name, 0) >= LEAST.get(name, 1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_wide_question_tells_no_more_than_its_claim(name):
    assert enumerated(name, 1) > 0.1


def with_sensitivity(changed):
    """A curator whose noise is for another sensitivity."""

    def answer(question, dataset, noise):
        class Other(QuickNoise):
            def discrete_laplace(self, exact, l1, law, stamp):
                return noise.discrete_laplace(exact, l1, DiscreteLaplace(law.scale * changed(question, l1) / l1), stamp)

        return MODEL.answer(question, dataset, Other())

    return answer


def looks_at_exact_sums(question, dataset, noise):
    """k-means whose centres are made of the exact sums: every iteration tells of all records' moves."""

    class Peeking(NoNoise):
        def discrete_laplace(self, exact, l1, law, stamp):
            noisy = noise.discrete_laplace(exact, l1, law, stamp)
            released.append(noisy.reshape(len(question.body.models), 1, -1))
            return exact

    released = []
    MODEL.answer(question, dataset, Peeking())
    numbers = np.concatenate(released, axis=1).ravel()
    return Answered(encode(ModelRelease(numbers.astype("<i8").tobytes())))


@pytest.mark.parametrize(
    ("name", "place", "answer"),
    [
        ("naive_bayes", 0, with_sensitivity(lambda _, l1: l1 / 2)),
        ("forest", 1, with_sensitivity(lambda question, l1: l1 / question.turn.planned.method.trees)),
        pytest.param("k_means", 1, looks_at_exact_sums, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_curator_is_caught_without_a_draw(name, place, answer):
    path = AnswerPath(replace(MODEL, answer=answer), AUDITED_KINDS.audits["model"].examples()[name][place])
    pairs = search(path, random_pairs=24, keep=5).pairs
    losses = [enumerate_loss(path, AUDITS["model"], pair) for pair in pairs]
    strayed = asks_otherwise(path, AUDITS["model"], pairs[0])
    assert strayed or any(loss.passes(Fraction(1)) for loss in losses), losses
    assert strayed == "" if name == "k_means" else "asks for noise" in strayed


FEW = 2_000


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("statistic/quantile", 0.8), ("statistic/aggregate", 1 - 1e-9)])
def test_what_is_shipped_holds_and_is_enumerated(monkeypatch, name, least):
    """A choice among eight points comes close to its claim of 1; the mean of blocks attains it."""
    monkeypatch.setattr(searching, "DRAWN", 8)
    result = audit_kind(name, draws=FEW, error_rate=1e-9, noise=QuickNoise)
    assert not result.violation, result
    assert (result.attack.claimed, result.attack.draws) == ("1", FEW)
    assert least <= result.exact <= 1 + 1e-12


def test_noise_by_local_sensitivity_is_caught():
    result = audit_path_control("local_sensitivity", draws=FEW, error_rate=1e-6)
    assert result.caught
    assert result.truth == "infinite"
    path, (one, two) = broken.local_path(), broken.local_pair().sets
    assert path.claimed == 1
    assert set(path.draws(two, FEW, 1).ravel().tolist()) == {3}
    assert len(set(path.draws(one, FEW, 1).ravel().tolist())) == broken.AXIS_STEPS + 1


def test_local_sensitivity_is_as_far_as_one_record_moves_a_median():
    """3 alone falls to 0 when nobody is left, or a lower one comes; 3 and 3 stay."""
    for values, moved in (([3], 3), ([3, 3], 0), ([0, 7], 7), ([2, 5, 5], 3)):
        assert broken.local_sensitivity(np.bincount(values, minlength=8)) == moved


def test_blocks_of_rows_are_caught_and_lose_what_is_told():
    result = audit_path_control("blocks_by_row", draws=20_000, error_rate=1e-6)
    assert result.caught
    assert 3 < result.attack.lower_bound < broken.rows_truth() == 4
    path = replace(broken.rows_path(), copies=1)
    (first, noise), (second, _) = (path.exact(units)[1].handed[0] for units in broken.rows_pair().sets)
    assert loss_of_vectors(first, second, [noise.scale]).loss == pytest.approx(4, abs=1e-9)
    assert asks_otherwise(path, AUDITS["statistic"], broken.rows_pair())


def test_what_is_shipped_holds_on_the_same_records():
    """The same questions and pairs of neighbours, with the registered answerer and a curator's own blocks."""
    smooth = replace(broken.local_path(), answerer=broken.rows_path().answerer)
    blocks = replace(broken.rows_path(), hold=dataset_of)
    for path, pair in ((smooth, broken.local_pair()), (blocks, broken.rows_pair())):
        assert not breaks(attack_pair(path, pair, draws=FEW, error_rate=1e-9))
    assert enumerate_loss(replace(blocks, copies=1), AUDITS["statistic"], broken.rows_pair()).loss <= 1


def records(x, s, count):
    return (({"x": x, "s": s, "outcome": "no"},),) * count


@pytest.mark.slow
def test_the_audit_searches_neighbours_and_it_holds():
    """The best pair's true loss is 0.42 (below): the attack finds a good part of it, and more with a chance of 1e-9."""
    result = audit_kind("sample", error_rate=SURE)
    assert not result.violation
    assert 0.2 < result.attack.lower_bound <= result.exact < 1


NEIGHBOURS = records(-2.0, "a", 1), (*records(2.0, "a", 1), *records(-2.0, "a", 1))
ENDS = tuple(one for x in (-1.4, -0.9, -0.4, 0.1, 0.6, 1.1, 1.9) for one in records(x, "b", 50))
"""In every of eight cells but the first."""
FAR = {
    "neighbours": NEIGHBOURS,
    "one cell and all others": (records(-2.0, "a", 400), ENDS),
    "none that counts": (records(None, "a", 1), records(2.0, "c", 30)),
}


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("which", [0, 1])
def test_it_holds_between_any_two_sets_of_records(which, far):
    """The claim is epsilon of one record, whatever the sets: nothing is scaled by how many records differ."""
    answerer, examples = examples_of("sample")
    path = AnswerPath(answerer, examples[which], examples[which].copies)
    first, second = FAR[far]
    game = play(
        partial(path.draws, first, width=3 if which else 1),
        partial(path.draws, second, width=3 if which else 1),
        claimed=path.claimed,
        draws=50_000,
        error_rate=1e-9,
        neighbours=far,
    )
    assert path.claimed == 1
    assert not breaks(game)
    # The game would see a claim broken: it proves a good part of what is true, 0.42 and 0.66.
    if which == 0 and far != "none that counts":
        assert game.lower_bound > (0.12 if far == "neighbours" else 0.3)


def exact_loss(which, first, second):
    """Largest log ratio over all records of the grid."""
    _, examples = examples_of("sample")
    planned = examples[which].ask(1).planned
    laws = []
    for units in (first, second):
        there = dataset_of(units, examples[which])
        laws.append(density_of(planned, there, there.schema).masses())
    return float(np.abs(np.log(laws[0] / laws[1])).max())


@pytest.mark.slow
def test_enumeration_of_what_is_learnt_stays_within_epsilon():
    """Over every pair of these sets, from the densities themselves."""
    sets = [units for pair in FAR.values() for units in pair]
    losses = [exact_loss(which, one, other) for which in (0, 1) for one in sets for other in sets]
    assert max(losses) <= 1
    # One record more turns a cell's exponent from one end to the other; other sets turn more of them.
    assert 0.4 < exact_loss(0, *NEIGHBOURS) < 0.43
    assert max(losses) > 0.65


def test_a_walk_in_place_of_exact_draws_is_caught():
    result = audit_path_control("metropolis_hastings", draws=20_000, error_rate=1e-6)
    assert result.caught
    assert 1 < result.attack.lower_bound < walk_truth()
    assert result.truth == f"{walk_truth():.4g}"


# the ledger's column


def replayed(store):
    found = Replayed(Bounds(AUDITED_KINDS))
    for row in store.rows(0):
        assert found.feed(row.body)
    assert not found.findings.texts()
    return found


def integrals(store, names=None):
    found = replayed(store)
    sums = ledger_sums("basel", "", found, found.bounds, names or {})
    return {one.learner: as_words(one.integral) for one in sums if not one.version}


def sampled(records, epsilon):
    axes = (NumberAxis("age", 18, 90, 8), LevelAxis("sick"))
    told = {"learner": "naive_bayes", "examples": 20, "rounds": 1}
    return PlannedSample(records=records, epsilon=Rational.of(epsilon), axes=axes, **told)


def test_an_audit_finds_the_same_sum_as_the_curator_and_infinity_after_a_count():
    store = MemoryStore()
    rules = policy(cap=3, limits=Limits(kinds={"counts": {}, "sample": {}}))
    curator = open_curator(store, rules=rules, records=dataset(most=3))
    ann, bob = (FakeLearner(curator, name) for name in ("ann", "bob"))
    for learner, queries in (
        (ann, [sampled(20, Fraction(1, 40)), sampled(7, Fraction(1, 70)), planned(30)]),
        (bob, [sampled(1, Fraction(1, 3))]),
    ):
        learner.card()
        learner.propose(Plan.of(queries))
    names = {ann.session.key.public: "ann", bob.session.key.public: "bob"}
    assert set(integrals(store, names).values()) == {"0"}
    ann.query(encode(SampleBody()), kind="sample")
    bob.query(encode(SampleBody()), kind="sample")
    ann.query(encode(SampleBody()), kind="sample")
    told = integrals(store, names)
    assert sorted(told.values()) == ["1/3", "14/15", "3/5"]
    ann.query(mass_body(), kind="counts")
    told = integrals(store, names)
    assert sorted(told.values()) == ["1/3", "infinite", "infinite"]
    assert told[""] == "infinite"


SCALES = st.builds(Fraction, st.integers(1, 60), st.integers(1, 20)).filter(lambda scale: scale >= Fraction(1, 20))


@settings(max_examples=40, deadline=None)
@given(SCALES, st.integers(-12, 12))
def test_a_shift_loses_its_size_over_the_scale(scale, shift):
    """From tables of the product's law, and from the definition in decimals; the closed form is used by neither."""
    claim = float(DiscreteLaplace(scale).loss(abs(shift)))
    found = loss_of_shift(laplace_table(scale, shift), shift)
    assert found.first == pytest.approx(claim, abs=AGREEMENT)
    assert found.second == pytest.approx(claim, abs=AGREEMENT)
    assert found.beyond < 1e-30
    assert loss_by_definition(scale, shift) == pytest.approx(claim, rel=1e-14, abs=1e-300)


@settings(max_examples=25, deadline=None)
@given(SCALES, st.lists(st.integers(-3, 3), min_size=1, max_size=4))
def test_a_vector_loses_its_l1_distance_and_never_more_than_the_claim(scale, moved):
    """Not by more than a float can tell."""
    found = loss_of_vectors(np.zeros(len(moved), np.int64), np.array(moved), [scale] * len(moved))
    claim = DiscreteLaplace(scale).loss(sum(map(abs, moved)))
    assert found.loss == pytest.approx(float(claim), rel=1e-12, abs=1e-300)
    assert found.by_table == pytest.approx(float(claim), abs=AGREEMENT)
    assert not found.passes(claim)
    if any(moved):
        assert found.passes(claim * (1 - Fraction(1, 10**11)))
        assert found.passes(claim / 2)


def test_the_enumerated_loss_is_that_of_the_stated_scale():
    scale = Fraction(1000, 3)
    assert Fraction(float(scale)) < scale
    found = loss_of_vectors(np.zeros(1, np.int64), np.ones(1, np.int64), [scale]).loss
    assert found == pytest.approx(3 / 1000, rel=2**-52)


def test_vectors_of_mixed_scales_add_up():
    found = loss_of_vectors(np.array([0, 5, 7]), np.array([1, 5, 4]), [Fraction(2), Fraction(1), Fraction(6)])
    assert found.loss == pytest.approx(1 / 2 + 3 / 6, rel=1e-14)


def test_a_law_with_a_gap_loses_everything():
    gap = Table(0, np.array([0.5, 0.0, 0.5]), 0.0)
    assert loss_of_shift(gap, 1).worst == np.inf
    uneven = Table(0, np.array([0.2, 0.3, 0.5]), 0.0)
    found = loss_of_shift(uneven, 1)
    assert (found.first, found.second) == (pytest.approx(np.log(5 / 3)), 0.0)
    back = loss_of_shift(uneven, -1)
    assert (back.first, back.second) == (0.0, pytest.approx(np.log(5 / 3)))
    with pytest.raises(ConfigurationError, match="widen it"):
        loss_of_shift(uneven, 3)


def test_what_is_too_wide_is_refused():
    with pytest.raises(ConfigurationError, match="too wide"):
        laplace_table(Fraction(10**6), 1)
    with pytest.raises(ConfigurationError, match="loses too much"):
        laplace_table(Fraction(1, 100), 8)


# a sum over sites: PRIVACY.md, section 5


def share(shape, scale, reach):
    """NB(shape) - NB(shape), success 1 - exp(-1 / scale)."""
    law = stats.nbinom(shape, -np.expm1(-1 / scale))
    half = Table(0, law.pmf(np.arange(reach)), float(law.sf(reach - 1)))
    return half.minus(half)


def test_shares_of_all_sites_add_up_to_the_law_of_one():
    reach, scale, sites = 150, 3.0, 3
    total = each = share(1 / sites, scale, reach)
    for _ in range(sites - 1):
        total = total.plus(each)
    law = DiscreteLaplace(Fraction(3))
    middle = -total.lowest
    for k in range(-40, 41):
        assert total.chances[middle + k] == pytest.approx(np.exp(law.log_pmf(k)), rel=1e-9)
    near = Table(-40, total.chances[middle - 40 : middle + 41], 0.0)
    assert loss_of_shift(near, 1).worst == pytest.approx(1 / 3, abs=AGREEMENT)


@pytest.mark.parametrize(("known", "factor"), [(0.8, 3.06), (0.5, 13.6)])
def test_a_known_share_multiplies_the_loss(known, factor):
    """At scale 30: shape 0.8 loses 3.06 times the claim, shape 0.5 13.6 times. (Figures of PRIVACY.md.)"""
    table = share(known, 30.0, 1500)
    middle = -table.lowest
    near = Table(-400, table.chances[middle - 400 : middle + 401], 0.0)
    assert loss_of_shift(near, 1).worst * 30 == pytest.approx(factor, abs=0.06)
