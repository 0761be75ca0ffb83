"""The contract of query kinds: ours keep it, and what breaks a duty is told by that duty's name."""

import doctest
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from command_line import run
from curator_fakes import altered
from curator_node.answering import Answered
from curator_node.kinds import ANSWERERS
from expril.audit.contract.duties import BROKEN, EXCUSED, HELD, NOT_GIVEN, judge
from expril.audit.contract.kinds import DUTIES, KindSubject
from expril.audit.contract.pages import HEADINGS, faults_of_page
from expril.audit.contract.partitions import PARTITION_DUTIES, PartitionSubject
from expril.audit.contract.strategies import STRATEGY_DUTIES, StrategySubject
from expril.audit.contract.subjects import kind_subject
from expril.audit.contract.suites import KindContract
from expril.audit.contract.vectors import count_vectors, vectors_of
from expril.audit.generators.values import PARTITIONS
from expril.audit.kinds.counts import CountsAudit
from expril.audit.kinds.kind_audit import KindAudit
from learner_node.kinds import READERS
from learner_node.strategies.additive import AdditiveStrategy
from oracles import oracle_cell
from protocol.codec import decode
from protocol.errors import ConfigurationError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS, CountsBody, CountsRelease
from protocol.partitions import (
    PARTITION_KINDS,
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    ScoreBins,
    TreeLeaves,
)
from protocol.schema import NumericAttribute
from toy.answerer import TOY_ANSWERER
from toy.audit import ToyAudit
from toy.reader import TOY_READER

ROOT = Path(__file__).resolve().parents[2]
DUTY = {duty.name: duty for duty in DUTIES}
QUICK = {"vector", "page"}
WORDS = "\n\nWords that say what there is to say.\n\n"
PAGE = "# `kind`: what it is\n\n" + "".join(f"## {heading}{WORDS}" for heading in HEADINGS)
PAGE = PAGE.replace("## Law", "```\n1\n```\n\n## Law")


@pytest.mark.parametrize(
    ("kind", "duty"),
    [
        pytest.param(kind, duty, marks=() if duty in QUICK else pytest.mark.slow)
        for kind in QUERY_KINDS
        for duty in DUTY
    ],
)
def test_our_kinds_keep_it(kind, duty):
    subject = kind_subject(kind)
    verdict = judge(DUTY[duty], subject, subject.audit.excuses)
    assert verdict.kept, verdict.line
    if verdict.status == EXCUSED:
        assert kind in ("secure_counts", "sample", "model")


BEYOND = FeatureMap((NumericFeature("no such attribute", 0.0, 1.0, 0.0),))
BESIDE = FeatureBins("no such attribute", ())
HOSTILE = {
    "feature_bins": BESIDE,
    "product_bins": ProductBins(BESIDE, BESIDE),
    "cross_bins": CrossBins((BESIDE,)),
    "nearest_centre": NearestCentre.of(BEYOND, np.zeros((1, 1))),
    "score_bins": ScoreBins(Mlp.of(BEYOND, [(np.ones((1, 1)), np.zeros(1))]), ()),
    "projection_bins": ProjectionBins.of(BEYOND, np.ones((1, 1)), ((),)),
    "tree_leaves": TreeLeaves.of(BEYOND, np.array([[0, 0, -1, -2]])),
}


@pytest.mark.parametrize("duty", PARTITION_DUTIES, ids=lambda duty: duty.name)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "feature_bins" else pytest.mark.slow) for name in PARTITION_KINDS]
)
def test_our_partitions_keep_theirs(name, duty):
    hostile = {"an attribute of no card": HOSTILE[name]}
    subject = PartitionSubject(PARTITION_KINDS[name], PARTITIONS[name], oracle_cell, lambda schema: hostile)
    verdict = judge(duty, subject, {})
    assert verdict.status == HELD, verdict.line


@pytest.mark.parametrize("duty", STRATEGY_DUTIES, ids=lambda duty: duty.name)
def test_a_strategy_of_ours_keeps_its_own(duty):
    verdict = judge(duty, StrategySubject(AdditiveStrategy), {})
    assert verdict.status == HELD, verdict.line


class TestToy(KindContract):
    """A kind of two turns that charges by what it released, by the class that a package's tests use."""

    @property
    def subject(self):
        audit = ToyAudit()
        return KindSubject(audit, TOY_ANSWERER, TOY_READER, PAGE, (vectors_of(TOY_ANSWERER, _examples(audit)),))


def _examples(audit):
    return tuple(example for examples in audit.examples().values() for example in examples)


@pytest.mark.parametrize("page", ["kind", "partition", "strategy"])
def test_what_a_page_for_authors_shows_is_true(page):
    text = (ROOT / "docs" / "extending" / f"{page}.md").read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"^```python\n(>>> .*?)^```", text, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(shown, {}, page, None, None)
    assert test.examples
    told = []
    assert doctest.DocTestRunner().run(test, out=told.append).failed == 0, "".join(told)
    duties = {"kind": DUTIES, "partition": PARTITION_DUTIES, "strategy": STRATEGY_DUTIES}[page]
    table = text[text.index("## The contract") :]
    assert re.findall(r"^\| ([a-z -]+) \|", table, re.MULTILINE)[1:] == [duty.name for duty in duties]


# what breaks a duty is told


class FewExamples(CountsAudit):
    def examples(self):
        return {name: examples[:1] for name, examples in super().examples().items() if name in ("mass", "class_counts")}


def subject_with(*, audit=None, reader=READERS["counts"], page=PAGE, vectors=(), **changes):
    """`counts` with another kind, answer, or half."""
    return KindSubject(audit or FewExamples(), replace(ANSWERERS["counts"], **changes), reader, page, vectors)


def answering(change):
    """An answerer of counts whose exact numbers, stated sensitivity or bytes are changed."""

    def answer(question, dataset, noise):
        return change(question, dataset, noise, ANSWERERS["counts"].answer)

    return answer


class Changed:
    """A source of noise that hands on something else."""

    def __init__(self, noise, change):
        self.noise, self.change = noise, change

    def discrete_laplace(self, exact, l1, law, stamp):
        return self.noise.discrete_laplace(*self.change(exact, l1), law, stamp)


def handing(change):
    return answering(lambda question, dataset, noise, usual: usual(question, dataset, Changed(noise, change)))


def longer(question, dataset, noise, usual):
    release = usual(question, dataset, noise).release
    return Answered(release, bytes(len(dataset.records)))


def by_place(question, dataset, noise, usual):
    numbers = np.nan_to_num(dataset.records.numeric[:, 0])
    moved = int(np.abs(numbers * np.arange(len(numbers))).sum() * 64) % 97
    return usual(question, dataset, Changed(noise, lambda exact, l1: (exact + moved, l1)))


class CountedTwice(FewExamples):
    def oracle(self, case):
        return [2 * number for number in super().oracle(case)]


class ClaimsCopies(FewExamples):
    """Its examples claim 20 copies, and release one: a price 20 times too low would go unnoticed."""

    def examples(self):
        return {
            name: tuple(replace(example, copies=20, ask=lambda _, ask=example.ask: ask(1)) for example in examples)
            for name, examples in super().examples().items()
        }


class Lawless(FewExamples):
    def claimed_law(self, case):
        return None


def unchecked(data, turn, terms):
    return decode(data, CountsBody)


def tenth(planned, most_records_per_unit):
    return COUNTS.cost(planned, most_records_per_unit) / 10


BROKEN_BY = {
    "generator": subject_with(kind=altered(COUNTS, cost=lambda planned, c: 0.5)),
    "hostile bodies": subject_with(kind=altered(COUNTS, read_body=unchecked)),
    "cost": subject_with(kind=altered(COUNTS, cost=tenth)),
    "sensitivity": subject_with(answer=handing(lambda exact, l1: (3 * exact, l1))),
    "non-interference": subject_with(kind=altered(COUNTS, state_bytes=10**6), answer=answering(longer)),
    "crafted numbers": subject_with(answer=answering(by_place)),
    "oracle": subject_with(audit=CountedTwice()),
    "exact law": subject_with(audit=ClaimsCopies()),
    "reader": subject_with(reader=replace(READERS["counts"], complaint=lambda answer, round_size: None)),
    "vector": subject_with(
        kind=altered(COUNTS, cost=tenth), vectors=(vectors_of(ANSWERERS["counts"], _examples(FewExamples())),)
    ),
    "page": subject_with(page=PAGE.replace("## Proof\n", "## Remarks\n")),
}


@pytest.mark.family(3)
@pytest.mark.parametrize("duty", DUTY)
def test_what_breaks_a_duty_is_told_by_its_name(duty):
    verdict = judge(DUTY[duty], BROKEN_BY[duty], {})
    assert verdict.status == BROKEN, verdict.line
    assert not verdict.text.startswith("its code fails"), verdict.line


@pytest.mark.parametrize(
    ("duty", "subject"),
    [
        ("generator", KindSubject(KindAudit(), ANSWERERS["counts"])),
        ("exact law", KindSubject(KindAudit(), ANSWERERS["counts"])),
        ("exact law", subject_with(audit=Lawless())),
        ("reader", subject_with(reader=None)),
        ("vector", subject_with()),
        ("page", subject_with(page="")),
    ],
)
def test_what_was_not_given_is_asked_for(duty, subject):
    verdict = judge(DUTY[duty], subject, {})
    assert verdict.status == NOT_GIVEN, verdict.line
    assert "docs/" in verdict.text
    assert judge(DUTY[duty], subject, {duty: "none"}).kept


def test_an_excuse_does_not_cover_what_is_broken():
    assert judge(DUTY["page"], BROKEN_BY["page"], {"page": "none"}).status == BROKEN


# partitions and strategies that break theirs


class Shifted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="shifted"):
    """Bins whose cells hang on the other records, and which take any attribute."""

    attribute: str

    def check(self, schema, field):
        schema.find(self.attribute).lower  # noqa: B018 - fails where there is none

    def cell_count(self, schema):
        return 2

    def multiply_adds(self):
        return 1.5

    def multiply_adds_once(self):
        return 1

    def cells(self, records):
        values = np.nan_to_num(records.column(self.attribute))
        return (values > values[:1].sum()).astype(np.intp) + 1


def of_any_number(schema):
    numbers = [attribute.name for attribute in schema.attributes if isinstance(attribute, NumericAttribute)]
    return st.sampled_from(numbers).map(Shifted) if numbers else st.nothing()


@pytest.mark.parametrize("duty", PARTITION_DUTIES, ids=lambda duty: duty.name)
def test_a_partition_that_breaks_its_duties_is_told_each(duty):
    wrong = PartitionSubject(Shifted, of_any_number, lambda *_: 0, lambda _: {"no card": Shifted("no such attribute")})
    assert judge(duty, wrong, {}).status == BROKEN
    assert judge(duty, PartitionSubject(Shifted), {}).status == NOT_GIVEN


class Endless(AdditiveStrategy):
    """Asks on where every planned question is answered, at another price than told."""

    def plan(self, problem):
        return problem.counts_plan([("error_correct", 3, Fraction(1, 2))])

    def run(self, problem):
        while True:
            yield CountsBody((FeatureBins("x", ()),) * 3, Constant(1)), None


class Nothing(AdditiveStrategy):
    """Returns nothing in the end."""

    def run(self, problem):
        yield CountsBody((FeatureBins("x", ()),) * 3, Constant(1)), None


@pytest.mark.parametrize(
    ("strategy", "duty", "told"),
    [
        (Endless, "price", "costs 1/2 where 1 is given"),
        (Endless, "estimate", "return (model, estimate) there"),
        (Endless, "model", "it returns no model"),
        (Nothing, "estimate", "must return a pair"),
    ],
)
def test_a_strategy_that_breaks_a_duty_is_told_what_to_do(strategy, duty, told):
    (verdict,) = (judge(each, StrategySubject(strategy), {}) for each in STRATEGY_DUTIES if each.name == duty)
    assert verdict.status == BROKEN
    assert told in verdict.text


# the parts


def test_a_page_of_the_form_and_what_it_may_lack():
    assert faults_of_page(PAGE) == []
    for wrong, told in [
        (PAGE.replace("# `kind`", "# kind"), "begin with"),
        (PAGE.replace("## Cost\n", "## Price\n"), '"Cost" is missing'),
        (PAGE.replace("```\n1\n```", ""), "no worked example"),
        (
            PAGE.replace(f"## Proof{WORDS}", "## Proof\n\n| a |\n\n"),
            '"Proof" is no sentence',
        ),
        (
            PAGE.replace("## Proof", "## X").replace("## Neighbours", "## Proof").replace("## X", "## Neighbours"),
            "order",
        ),
    ]:
        assert told in " ".join(faults_of_page(wrong)), told


def test_vectors_are_those_of_examples_and_never_drift():
    text = vectors_of(ANSWERERS["counts"], _examples(FewExamples()))
    assert count_vectors(COUNTS, text) == 6  # a plan, a body and a release of either
    content = json.loads(text)
    assert Fraction(content[0]["cost"]) == 1
    release = decode(bytes.fromhex(content[0]["releases"][0]), CountsRelease)
    assert sum(np.frombuffer(release.counts, "<i8")) == 2  # one record, in either of two partitions
    drifted = bytes.fromhex(content[0]["planned"]).replace(b"mass", b"mess").hex()
    with pytest.raises(Exception, match="another name"):
        count_vectors(COUNTS, json.dumps([{**content[0], "planned": drifted}]))


@pytest.mark.slow
def test_the_command_prints_a_line_for_each_duty_and_writes_vectors(tmp_path):
    printed = run("conformance", "holdout").stdout.splitlines()
    assert [line.split(None, 1)[1].partition(":")[0] for line in printed] == list(DUTY)
    assert {line.split()[0] for line in printed} == {HELD}
    file = tmp_path / "vectors.json"
    run("conformance", "holdout", "--write-vectors", file)
    assert count_vectors(QUERY_KINDS["holdout"], file.read_text()) > 0
    run("conformance", "holdout", "--write-vectors", file, code=2)


def test_an_unknown_kind_is_told_with_the_right_one():
    with pytest.raises(ConfigurationError, match="did you mean 'counts'"):
        kind_subject("countz")
