"""Records reach the outside through the noise source alone.

The noise source is the test's own: it returns numbers that it chose without looking at what it was given. Then the same
requests against any two sets of records must bring the same bytes, the same ledger, the same remembered refusals and
the same log lines. Nothing else of the proof in `docs/explanation/privacy-guarantee.md` needs the word "records".
"""

import logging
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_fakes import NOW
from curator_node.answering import Answered
from curator_node.kinds import ANSWERERS
from curator_node.records.schema_file import SchemaFile
from expril.audit.contract.curator_run import ScriptedNoise
from expril.audit.generators.values import ATTRIBUTES, HYPOTHESES, PARTITIONS, any_number, any_text
from generators import QUERIES, SEVERAL_CURATORS, queries_of
from protocol.codec import encode
from protocol.envelopes import open_envelope
from protocol.errors import ConfigurationError
from protocol.hypotheses import HYPOTHESIS_KINDS
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.limits import Limits
from protocol.messages import Release
from protocol.partitions import PARTITION_KINDS, FeatureBins
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from served import TIGHT, Served, Told, rules

LABELS = ({"classes": ("no", "yes")}, {"classes": ("a", "b", "é")}, {"label_bounds": (-1.0, 9.0)})
"""Every release kind fits one of them."""
PRIVATE = list(RELEASE_KINDS)


ALL_RECORDS = encode(CountsBody((FeatureBins("x", (0.0,)),), None))


OUTCOMES = (NumericAttribute("days", 0.0, 2.0), CategoricalAttribute("end", ("a", "b")))


@st.composite
def stewards(draw, label):
    """What a steward declares, with or without units."""
    attributes = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=3, unique=True))
    most = draw(st.sampled_from([None, 1, 2]))
    return SchemaFile(
        outcomes=tuple(draw(st.lists(st.sampled_from(OUTCOMES), max_size=2, unique=True))),
        label="y",
        attributes=tuple(attributes),
        unit=None if most is None else "unit",
        most_records_per_unit=most or 1,
        round_size=draw(st.sampled_from([None, 10])),
        **label,
    )


def variables_of(steward):
    return (*steward.attributes, *steward.outcomes)


@st.composite
def rows_of(draw, steward):
    """One to four records of any value: missing, out of bounds, of unknown levels, infinite, of few units."""
    labels = st.sampled_from([*steward.classes]) if steward.classes else st.sampled_from([-1.0, 0.0, 1 / 3, 9.0, 77.0])
    columns = {a.name: any_number if isinstance(a, NumericAttribute) else any_text for a in variables_of(steward)} | {
        "y": labels,
        "unit": st.sampled_from(["p", "q", " q ", "r"]),
    }
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4))


def frame_of(rows, steward):
    types = {a.name: pl.String if isinstance(a, CategoricalAttribute) else pl.Float64 for a in variables_of(steward)}
    label = pl.String if steward.classes else pl.Float64
    return pl.DataFrame(rows, schema={**types, "y": label, "unit": pl.String}, orient="row")


@st.composite
def pairs_of_records(draw, steward):
    """Two data sets: neighbours, strangers, or a few rows and hundreds."""
    rows = draw(rows_of(steward))
    how = draw(st.sampled_from(["neighbours", "strangers", "many", "one class"]))
    if how == "neighbours":
        gone = draw(st.sampled_from(rows))
        other_rows = [r for r in rows if (r["unit"] != gone["unit"] if steward.unit else r is not gone)] or rows[:1]
    elif how == "many":
        other_rows = rows * 150
    elif how == "one class":
        other_rows = [{**row, "y": rows[0]["y"]} for row in rows[:1] * 3]
    else:
        other_rows = draw(rows_of(steward))
    return frame_of(rows, steward), frame_of(other_rows, steward)


SLOTS = st.integers(0, 2)
OPERATIONS = st.one_of(
    st.tuples(st.just("propose"), st.sampled_from(["ann", "bob"]), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    *[st.tuples(st.just("ask"), SLOTS, st.just(""))] * 3,
    st.tuples(st.just("hostile"), SLOTS, st.sampled_from(["cut", "empty", "kind", "sequence", "answers", "late"])),
    st.tuples(st.just("close"), SLOTS, st.just("")),
    st.tuples(st.just("again"), st.integers(0, 20), st.just("")),
    st.tuples(st.just("flip"), st.integers(0, 20), st.integers(0, 10**4)),
    st.tuples(st.just("greedy"), st.sampled_from(["ann", "bob"]), st.sampled_from(["over", "stale", "receipt"])),
    st.tuples(st.just("card"), st.sampled_from(["ann", "eve"]), st.just("")),
    st.tuples(st.just("wait"), st.just(0), st.sampled_from([1, 200, 700, 90_000])),
    *[st.tuples(st.just(step), st.just(0), st.just("")) for step in ("restart", "halt", "resume", "noise")],
    st.tuples(st.just("store"), st.just(0), st.lists(st.sampled_from(["", "before", "after"]), max_size=3)),
)


def act(served, questions, operation):
    """One step of a script; what it does depends on what the curator said before, as an adversary's steps may."""
    action, where, how = operation
    if action == "propose":
        served.asker(where).propose([questions[number % len(questions)] for number in how])
    elif action == "greedy":
        planned, body = questions[0]
        scaled = "scale" in planned.__struct_fields__
        costly = msgspec.structs.replace(planned, scale=Rational(1, 9)) if scaled else planned
        receipt = next((asker.receipt for asker in served.askers if asker.receipt), b"x") if how == "receipt" else b""
        study = served.asker(where)
        study.propose(
            [(costly if how == "over" else planned, body)],
            receipt=receipt,
            **({"expires_at": NOW - 1} if how == "stale" else {}),
        )
    elif action == "card":
        served.asker(where).card()
    elif action in ("again", "flip") and served.sent:
        data = bytearray(served.sent[where % len(served.sent)])
        if action == "flip":
            data[how % len(data)] ^= 1
        served.send(bytes(data))
    elif action in ("ask", "hostile", "close"):
        studies = [asker for asker in served.askers if asker.open or asker.pending]
        if studies:
            study = studies[where % len(studies)]
            CALLS[action](study, how)
    elif action == "wait":
        served.clock.advance(how)
    elif action == "restart":
        served.start()
    elif action == "halt":
        served.ledger.halt(served.clock(), "a test")
    elif action == "resume":
        served.ledger.resume(served.clock(), restored=Fraction(1, 7), note="a test")
    elif action == "store":
        served.faults.failures[:] = how
    elif action == "noise":
        served.noise.failing = True


def hostile(study, how):
    body = study.plan[min(study.sequence, len(study.plan) - 1)][1]
    changes = {
        "cut": {"body": body[:-1]},
        "empty": {"body": b""},
        "kind": {"kind": "no such kind"},
        "sequence": {"sequence": study.sequence + 2},
        "answers": {"answers": b"\x01" * 32},
        "late": {"expires_at": NOW - 1},
    }[how]
    study.pending = b""
    study.ask(**changes)


CALLS = {
    "ask": lambda study, _: study.ask() if study.plan else None,
    "hostile": hostile,
    "close": lambda study, _: study.finish() if not study.pending else study.resend(),
}


def quiet(store, operation):
    """A failing store may stop a halt or a restart; the steward would try again."""
    if operation[0] in ("halt", "resume", "restart"):
        store.failures.clear()


def witnessed(script, questions, frame, steward, path=None, answerers=ANSWERERS):
    """All that anybody can see of one run: bytes in and out, what is kept, log lines, what the noise was asked."""
    heard = Told()
    root = logging.getLogger()
    level = root.level
    root.addHandler(heard)
    root.setLevel(logging.DEBUG)
    served = Served(frame, steward, ScriptedNoise(), rules(**TIGHT), path=path, answerers=answerers)
    try:
        for operation in script:
            quiet(served.faults, operation)
            act(served, questions, operation)
        return {
            "sent": served.sent,
            "got": served.got,
            **dict(zip(("entries", "replies", "refusals", "mark"), served.kept(), strict=True)),
            "log": heard.lines,
            "noise": served.noise.calls,
        }
    finally:
        served.close()
        root.removeHandler(heard)
        root.setLevel(level)


def assert_same(first, second):
    for channel, content in first.items():
        assert content == second[channel], f"the records show in: {channel}"


@st.composite
def cases(draw, label, told):
    """(two data sets, their steward's file, queries to choose from, a script)."""
    steward = draw(stewards(label))
    asked = draw(st.lists(queries_of(steward.schema, **told(steward.schema)), min_size=1, max_size=3))
    script = draw(st.lists(OPERATIONS, min_size=1, max_size=12))
    # Whatever is drawn, the first question is answered.
    script = [("propose", "ann", list(range(len(asked)))), ("ask", 0, ""), ("ask", 0, ""), *script]
    return draw(pairs_of_records(steward)), steward, asked, script


def check(case, *, both_stores):
    frames, steward, questions, script = case
    first, second = (witnessed(script, questions, frame, steward) for frame in frames)
    assert_same(first, second)
    if both_stores:
        folder = Path(mkdtemp())
        try:
            runs = [witnessed(script, questions, f, steward, folder / f"{n}.sqlite") for n, f in enumerate(frames)]
            assert_same(*runs)
        finally:
            shutil.rmtree(folder)
        assert runs[0]["got"] == first["got"], "both stores serve alike"
    return first


def label_for(release):
    """Labels that a release kind can be asked of."""
    fitting = [
        label for label in LABELS if RELEASE_KINDS[release].fits(Schema(attributes=ATTRIBUTES, label="y", **label))
    ]
    assert fitting, f"no label of this test fits {release}: add one to LABELS"
    return st.sampled_from(fitting)


def told_of(sort, name, schema):
    """What of a query is fixed where one of its parts is of this name."""
    if sort == "partition":
        return {"partitions": PARTITIONS[name](schema)}
    if sort == "hypothesis":
        return {"release": "error_correct", "hypotheses": HYPOTHESES[name](schema)}
    return {sort: name}


def cases_of(sort, name):
    """Cases whose queries have a part of this name."""
    labels = {"release": label_for, "hypothesis": lambda _: st.just(LABELS[0])}.get(
        sort, lambda _: st.sampled_from(LABELS)
    )
    return labels(name).flatmap(lambda label: cases(label, lambda schema: told_of(sort, name, schema)))


def test_every_registered_kind_has_a_generator():
    """Partitions and hypotheses are tested here without being named; query kinds are asked by their contract.

    Those that several curators answer together are tested in `test_secure_counts_kept.py`.
    """
    for registered, drawn in ((PARTITION_KINDS, PARTITIONS), (HYPOTHESIS_KINDS, HYPOTHESES)):
        assert registered.keys() == drawn.keys()
    assert QUERY_KINDS.keys() == QUERIES.keys() | SEVERAL_CURATORS
    assert ANSWERERS.keys() == QUERY_KINDS.keys()


FEW = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def explore(strategy, how, *, both_stores):
    """Few cases may all be refused: then more are drawn."""
    answered = 0

    def explored(case):
        nonlocal answered
        seen = check(case, both_stores=both_stores)
        answered += sum(isinstance(open_envelope(reply)[1], Release) for reply in seen["got"])

    for times in (1, 5, 25):
        if not answered:
            settings(how, max_examples=times * how.max_examples)(given(strategy)(explored))()
    assert answered, "no question of this kind was answered: the test would be empty"


RELEASES = [("release", name) for name in PRIVATE]
PARTS = [("partition", name) for name in PARTITION_KINDS]


@pytest.mark.parametrize(("sort", "name"), [*RELEASES, *PARTS, *(("hypothesis", name) for name in HYPOTHESIS_KINDS)])
def test_records_show_in_the_noise_alone(sort, name):
    explore(cases_of(sort, name), FEW, both_stores=False)


@pytest.mark.slow
@pytest.mark.parametrize(("sort", "name"), [*RELEASES, *PARTS])
def test_records_show_in_the_noise_alone_at_length(sort, name):
    explore(cases_of(sort, name), MANY, both_stores=sort == "release")


def test_records_show_in_the_noise_alone_over_both_stores():
    explore(st.sampled_from(PRIVATE).flatmap(lambda name: cases_of("release", name)), FEW, both_stores=True)


@pytest.mark.parametrize(
    ("limits", "planned", "text", "code"),
    [
        (
            {"counts": {"release_kinds": ["paper_ratio"]}},
            {"kind": "counts", "release": "paper_ratio", "partitions": 1, "scale": Rational(30, 1)},
            "unknown release kind 'paper_ratio'",
            RefusalCode.BAD_PLAN,
        ),
        (
            {"statistic": {"methods": ["smooth_laplace"]}},
            {
                "kind": "statistic",
                "method": {"name": "smooth_laplace", "scale": Rational(8, 1), "decay": Rational(1, 8)},
            },
            "unknown method 'smooth_laplace'",
            RefusalCode.MALFORMED,
        ),
        (
            {"blog_holdout": {}},
            {"kind": "blog_holdout", "tolerance": Rational(1, 25), "records": 100},
            "unknown query kind 'blog_holdout'",
            RefusalCode.UNKNOWN_KIND,
        ),
    ],
)
@pytest.mark.parametrize("simulation", [False, True])
def test_what_is_known_to_break_its_claim_is_unknown_to_a_curator(limits, planned, text, code, simulation):
    """Whatever its policy says: simulations, the laboratory and the audit alone register it."""
    steward = SchemaFile(label="y", attributes=ATTRIBUTES[:1], **LABELS[0])
    frame = frame_of([{"x": 1.0, "y": steward.classes[0], "unit": "p"}], steward)
    own = msgspec.structs.replace(rules(limits=Limits(kinds=limits)), simulation=simulation)
    with pytest.raises(ConfigurationError, match=text):
        Served(frame, steward, ScriptedNoise(), own)
    allowed = {kind: {} for kind in limits if kind in QUERY_KINDS} or {"counts": {}}
    served = Served(
        frame,
        steward,
        ScriptedNoise(),
        msgspec.structs.replace(rules(), simulation=simulation, limits=Limits(kinds=allowed)),
    )
    refusal = served.asker("ann").propose([(planned, b"")])
    assert refusal.code == code
    assert served.noise.calls == []


def leaking(how):
    """An answerer that lets the number of records out, in one of the ways that a mistake might."""
    counts = ANSWERERS["counts"]

    def answer(question, dataset, noise):
        size = len(dataset._records)
        if how == "an error" and size > 2:
            raise ValueError
        if how == "a log line":
            logging.getLogger("curator_node").debug("%d records", size)
        if how == "a draw that is not made" and size > 2:
            return counts.answer(question, dataset, ScriptedNoise())
        released = counts.answer(question, dataset, noise).release
        if how == "the length of a reply":
            return Answered(released + bytes(size))
        if how == "the exact counts":
            exact = dataset.exact(question.body, question.turn.planned).ravel().astype("<i8").tobytes()
            return Answered(released[: -len(exact)] + exact)
        if how == "a kept state":
            return Answered(released, bytes(size))
        return Answered(released)

    return replace(counts, answer=answer)


@pytest.mark.parametrize(
    "how",
    ["an error", "a log line", "a draw that is not made", "the length of a reply", "the exact counts", "a kept state"],
)
def test_what_lets_a_record_out_is_noticed(how):
    steward = SchemaFile(label="y", attributes=ATTRIBUTES[:1], classes=("no", "yes"))
    rows = [{"x": 1.0, "y": "no", "unit": "p"}] * 3
    planned = PlannedCounts(release="mass", partitions=1, scale=Rational(4, 1))
    questions = [(planned, ALL_RECORDS)]
    script = [("propose", "ann", [0]), ("ask", 0, "")]
    leaky = {**ANSWERERS, "counts": leaking(how)}
    runs = [witnessed(script, questions, frame_of(r, steward), steward, answerers=leaky) for r in (rows, rows[:2])]
    with pytest.raises(AssertionError, match="the records show in"):
        assert_same(*runs)


def test_the_scripts_reach_every_kind_of_refusal_that_they_can():
    """Power: what is compared is not one refusal over and over."""
    steward = SchemaFile(label="y", attributes=ATTRIBUTES[:1], classes=("no", "yes"), round_size=10)
    frame = frame_of([{"x": 1.0, "y": "no", "unit": "p"}] * 3, steward)
    planned = PlannedCounts(release="mass", partitions=1, scale=Rational(4, 1))
    script = [
        ("propose", "ann", [0, 0]),
        *[("hostile", 0, how) for how in ("cut", "empty", "kind", "answers")],
        ("propose", "bob", [0, 0]),
        ("hostile", 1, "sequence"),
        ("hostile", 1, "late"),
        ("noise", 0, ""),
        ("ask", 1, ""),
        ("ask", 1, ""),
        ("greedy", "bob", "over"),
        ("greedy", "bob", "receipt"),
        ("card", "eve", ""),
        ("flip", 0, 60),
        ("halt", 0, ""),
        ("greedy", "bob", ""),
        ("resume", 0, ""),
        ("wait", 0, 700),
        ("ask", 1, ""),
    ]
    seen = witnessed(script, [(planned, ALL_RECORDS)], frame, steward)
    codes = {getattr(open_envelope(reply)[1], "code", "") for reply in seen["got"]}
    assert codes >= {
        "",
        "malformed",
        "unknown_kind",
        "out_of_order",
        "too_many_requests",
        "expired",
        "unavailable",
        "over_budget",
        "unknown_sender",
        "halted",
        "study_expired",
    }, codes
    assert len(seen["log"]) >= len(codes) - 1
