"""Several analyses asked in one plan: how epsilon is split, what is asked, what comes back, and by which law."""

import contextlib
from fractions import Fraction
from math import inf, nan

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_fakes import RawTables
from learner_fakes import (
    ATTRIBUTES,
    Clock,
    EndsAt,
    Entropy,
    NoNoise,
    PowerFailure,
    Scripted,
    account,
    federate,
    journalled,
    open_curator,
    ring,
    silent_from,
)
from learner_node.analyses.asking import analyse
from learner_node.analyses.parts import PART_KINDS, read_parts
from learner_node.analyses.plan import read_table, split
from learner_node.analyses.regression import Covariate, Regression
from learner_node.analyses.results import Analyses, WrittenAnalyses, read_analyses, written_analyses
from learner_node.carriers.journal import Journal, Settings
from learner_node.kinds.counts import CountsAnswer
from learner_node.result.analyses_folder import table_files
from learner_node.study.budget import Budget
from learner_node.study.pooling import Pooling
from protocol.codec import encode
from protocol.envelopes import digest, open_envelope
from protocol.errors import ConfigurationError
from protocol.kinds.counts import CountsBody
from protocol.limits import Limits
from protocol.partitions.cross_bins import Range
from protocol.partitions.feature_bins import FeatureBins
from protocol.rationals import MOST, Rational, parse_rational
from protocol.schema import Schema
from secure_fakes import members, names_of

SCHEMA = Schema(ATTRIBUTES, "sick", ("no", "yes"))
EDGES = (-1.0, 0.0, 1.0)


def exact(name, edges=EDGES):
    """Counts by bin of `x` at a curator, the last bin of missing values."""
    values = ring(200, seed=len(name))["x"].to_numpy()
    return [*np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1).tolist(), 0]


def curators(names=("north", "south east"), **options):
    return {name: open_curator(name, noise=NoNoise(), **options) for name in names}


def test_all_parts_are_one_plan_and_each_reads_its_own_tables():
    sites = curators()
    federation = federate(sites)
    parts = [RawTables("first", (("x",), ("y",))), RawTables("second", (("x", "y"),), weight=3)]
    study = analyse(federation, parts, Budget(1, "why"))
    assert study.epsilon_claimed == 1
    assert study.epsilon_spent == {"north": 1, "south east": 1}
    assert [study.epsilon_of(name) for name in ("first", "second")] == [Fraction(1, 4), Fraction(3, 4)]
    first, second = study.answers["first"], study.answers["second"]
    assert first.pooled[0].values.tolist() == np.add(exact("north"), exact("south east")).tolist()
    assert first.by_site["north"][0].values.tolist() == exact("north")
    assert second.pooled[0].values.sum(axis=1).tolist() == first.pooled[0].values.tolist()
    # c = 1, an eighth for each of the first part's tables; one noise of each curator
    assert (first.pooled[0].noise.scale, first.pooled[0].noise.draws) == (8, 2)
    assert (first.by_site["north"][1].noise.scale, first.by_site["north"][1].noise.draws) == (8, 1)
    assert second.pooled[0].noise.scale == pytest.approx(4 / 3)
    assert len(study.study.rounds) == 2
    assert "first (epsilon 0.25)" in study.to_text()
    assert [part["epsilon"] for part in study.to_builtins()["analyses"]] == ["1/4", "3/4"]


@given(
    weights=st.lists(st.integers(1, 10**6) | st.sampled_from(["1/3", "0.37", "1/999983"]), min_size=1, max_size=6),
    counts=st.lists(st.integers(1, 5), min_size=6, max_size=6),
    epsilon=st.fractions(Fraction(1, 10), 10, max_denominator=10**6),
    most=st.integers(1, 100),
)
def test_costs_never_exceed_epsilon_and_always_fit_the_wire(weights, counts, epsilon, most):
    parts = [
        RawTables(f"part {number}", (("x",),) * count, weight=weight)
        for number, (weight, count) in enumerate(zip(weights, counts, strict=False))
    ]
    total = sum(parse_rational(part.weight) for part in parts)
    least = min(epsilon * parse_rational(part.weight) / total / len(part.tables) for part in parts)
    if least < Fraction(1, 10**6):
        return
    tables = split(parts, SCHEMA, epsilon, most)
    assert epsilon - Fraction(sum(counts), 10**6) <= sum(tables.costs) <= epsilon
    for row in tables.epsilons:
        for value in row:
            Rational.of(most / value)
            assert value.denominator <= MOST


@pytest.mark.parametrize(
    ("epsilon", "most", "weights"),
    [(10, 500, ("0.37", 1, "1/999983")), (3, 1_000, ("0.37", 1, "1/999983")), (2, 1, ("7/65537", "9/65521"))],
)
def test_costs_fit_the_wire_at_curators_of_a_smaller_bound_too(epsilon, most, weights):
    parts = [RawTables(f"part {number}", (("x",),), weight=weight) for number, weight in enumerate(weights)]
    tables = split(parts, SCHEMA, parse_rational(epsilon), most)
    for smaller in {most, max(1, most - 1), 1}:
        spent = Fraction(0)
        for row in tables.epsilons:
            spent += sum(row) * smaller / most
            Rational.of(spent)


def test_an_answer_beyond_all_counts_is_read_as_the_largest_number(monkeypatch):
    question = RawTables("a", (("x",),)).questions(SCHEMA)[0]
    values = np.array([[2.0**63], [-(2.0**63)], [0.0], [1.0], [2.0]])
    body = CountsBody((question.partition,), None)
    table = read_table(question, CountsAnswer(body, values, (5,), "mass", Fraction(1)), 0, SCHEMA, 1)
    assert table.values.tolist() == [2.0**53, -(2.0**53), 0, 1, 2]


class Tabled:
    """A result of one table."""

    def __init__(self, frames):
        self.frames = frames

    def to_frames(self):
        return self.frames


def test_files_of_tables_have_names_of_their_own_and_no_formula(tmp_path):
    frame = pl.DataFrame(
        {"=name": ["=cmd|'/c calc'!A0", "-1", "-1 to 0", "a;=b", None], "x": [1.0, nan, inf, -2.0, 0.0]}
    )
    names = ["../up", "a/b", "A/b", "\u6f22" * 200, "q" * 3000, "q" * 3001, "a", "a-t"]
    parts = tuple(RawTables(name, (("x",),)) for name in names)
    study = Analyses(parts, {}, SCHEMA, (), Pooling("sum"), Fraction(1), {}, {}, "")
    results = {name: Tabled({"t": frame}) for name in names} | {
        "a": Tabled({"t-t": frame}),
        "a-t": Tabled({"t": frame}),
    }
    vars(study)["results"] = results
    files = table_files(study)
    assert len({name.casefold() for name in files}) == len(names)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert (tmp_path / name).resolve().parent == tmp_path
    assert files["---up-t.csv"].decode().splitlines() == [
        "'=name,x",
        "'=cmd|'/c calc'!A0,1.0",
        "-1,",
        "'-1 to 0,",
        "a;'=b,-2.0",
        ",0.0",
    ]


def test_an_epsilon_too_small_for_so_many_tables_is_refused_before_anything_is_asked():
    sites = curators()
    parts = [RawTables("rare", (("x",),), weight=1), RawTables("much", (("y",),), weight=4_000_000_000)]
    with pytest.raises(ConfigurationError, match="too small for 2 tables"):
        analyse(federate(sites), parts, Budget("1/10"))
    assert all(account(curator).total_spent == 0 for curator in sites.values())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "no analysis"),
        ([RawTables("a", (("x",),)), RawTables("a", (("y",),))], "two analyses have the name 'a'"),
        ([RawTables("a", (("x",),), weight=0)], "analysis 'a': weight"),
        ([RawTables("a", ())], "analysis 'a': it asks for no table"),
        ([RawTables("a", (("z",),))], "analysis 'a': the schema has no variable 'z'"),
        ([Regression("a", "logistic", (Covariate("z"),), "sick")], "^analysis 'a': (?!analysis)"),
    ],
)
def test_what_cannot_be_asked_is_said_and_nothing_is_charged(parts, words):
    sites = curators()
    with pytest.raises(ConfigurationError, match=words):
        analyse(federate(sites), parts, Budget(1))
    assert all(account(curator).total_spent == account(curator).total_reserved == 0 for curator in sites.values())


def test_only_a_sum_is_opened_and_its_law_is_that_of_those_who_brought_their_share():
    sites = members(5)
    silent = names_of(5)[-1]
    # 1 proposal, then keys, shares and masked: it falls silent when its counts are due.
    federation = federate(sites, {silent: silent_from(3)})
    parts = [RawTables("both", (("x",), ("y",)))]
    study = analyse(federation, parts, Budget(1), pooling=Pooling("secure", dropouts=1))
    answers = study.answers["both"]
    assert answers.secure
    assert answers.by_site == {}
    assert study.curators == tuple(names_of(5)[:-1])
    # shares add up to one noise at h = 5 - 1 - 1 curators, and 4 brought theirs
    assert {(table.noise.scale, table.noise.draws, table.sites) for table in answers.pooled} == {(2, 4 / 3, 4)}
    assert answers.pooled[0].values.sum() == 4 * 60
    assert silent in study.left_out
    assert len(study.study.turns) == 5  # one query for both tables


def test_stewards_read_what_each_part_counts():
    sites = curators()
    federation = federate(sites)
    analyse(federation, [RawTables("ages", (("x",), ("y",)))], Budget(1, "Who are they?"))
    (data,) = federation.carrier.bytes_sent("north", "StudyProposal")
    assert open_envelope(data)[1].purpose == "Who are they?\nages: How many there are by x, y."
    analyse(federate(sites), [RawTables(f"{number} {'x' * 90}", (("x",),)) for number in range(20)], Budget(1))


def test_a_curator_that_would_refuse_is_left_out_and_the_others_are_asked():
    sites = curators() | {
        "shy": open_curator("shy", limits=Limits(kinds={"counts": {"release_kinds": ["class_counts"]}}))
    }
    study = analyse(federate(sites), [RawTables("a", (("x",),))], Budget(1))
    assert study.curators == ("north", "south east")
    assert "it would refuse this study" in study.left_out["shy"]
    assert account(sites["shy"]).total_spent == 0


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_study_that_was_cut_off_goes_on_and_pays_once(tmp_path, at):
    sites = curators()
    parts = [RawTables("a", (("x",),)), RawTables("b", (("x", "y"),), weight=2)]
    settings = Settings("1", digest(b"analyses"), {})
    for number in (at, 0):
        carrier = EndsAt(Scripted(sites), number)
        with (
            contextlib.suppress(PowerFailure),
            Journal(tmp_path / "journal", settings, clock=Clock(), entropy=Entropy()) as journal,
        ):
            study = analyse(journalled(journal, sites, carrier), parts, Budget(1))
    assert study.answers["a"].by_site["north"][0].values.tolist() == exact("north")
    assert all(account(curator).total_spent == 1 for curator in sites.values())


def test_a_file_of_raw_tables_gives_the_same_results(monkeypatch):
    monkeypatch.setitem(PART_KINDS, "raw", "analysis_fakes:RawTables")
    parts = [RawTables("a", (("x",),), weight="1/3"), RawTables("b", (("x", "y"),))]
    study = analyse(federate(curators()), parts, Budget(1))
    data = encode(written_analyses(study))
    again = read_analyses(msgspec.msgpack.decode(data, type=WrittenAnalyses))
    assert again.to_builtins() == study.to_builtins()
    assert again.to_text() == study.to_text()
    assert again.parts == study.parts
    assert again.answers["a"].by_site["north"][0].noise == study.answers["a"].by_site["north"][0].noise


def test_parts_are_read_from_tables_of_a_file(monkeypatch):
    monkeypatch.setitem(PART_KINDS, "raw", "analysis_fakes:RawTables")
    table = {"kind": "raw", "name": "a", "tables": [["x"]], "weight": 2}
    assert read_parts([table], where="STUDY.toml") == (RawTables("a", (("x",),), weight=2),)
    for changed, words in (
        ({"kind": "rav"}, "kind must be one of .*raw"),
        ({"wieght": 1}, "wieght"),
        ({"tables": 3}, "tables"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            read_parts([table | changed], where="STUDY.toml")
    with pytest.raises(ConfigurationError, match="two analyses have the name 'a'"):
        read_parts([table, table], where="STUDY.toml")


def test_tables_of_the_label_are_asked_apart_with_a_filter_and_what_is_outside_of_it():
    sites = curators()
    within = (Range(FeatureBins("y", (0.0,)), (0,)),)
    parts = [RawTables("all", (("x",),)), RawTables("by label", (("sick", "x"),), within=within)]
    study = analyse(federate(sites), parts, Budget(1))
    assert [query.planned.release for query in study.study.turns] == ["mass", "outcome_counts"]
    (table,) = study.answers["by label"].by_site["north"]
    frame = ring(200, seed=len("north"))
    inside = frame.filter(frame["y"] < 0)
    assert [axis.variable for axis in table.axes] == ["sick", "x"]
    assert table.over(0).values.tolist() == [
        *(inside.filter(inside["sick"] == name).height for name in ("no", "yes")),
        0,
        0,
    ]
    assert table.outside == 200 - inside.height
