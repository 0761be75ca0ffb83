"""The references of the two kinds of files are complete, have the true defaults, and their examples load."""

import inspect
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from curator_node.daemon import log
from curator_node.daemon.health import Status
from curator_node.policy import EnrolledKey, EnrolledLearner, LearnerPolicy, Policy, read_policy
from curator_node.records.schema_file import SchemaFile, read_schema_file
from learner_node.strategies import STRATEGIES
from learner_node.strategies.additive import AdditiveStrategy
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.cells_number import CellsNumberStrategy
from learner_node.strategies.importance import ImportanceStrategy
from learner_node.strategies.options import PaperOptions, attributes_chosen
from learner_node.strategies.perspectives import (
    AdaptiveCellsStrategy,
    InformativeStrategy,
    NewFeaturesStrategy,
    RandomSubsetsStrategy,
    VaryingBinsStrategy,
)
from learner_node.study_file import Link, Question, StudyFile, read_study
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsLimits
from protocol.kinds.holdout import HoldoutLimits
from protocol.kinds.model import ModelLimits
from protocol.kinds.models import METHODS as MODEL_METHODS
from protocol.kinds.sample import SampleLimits
from protocol.kinds.secure_counts import SecureCountsLimits
from protocol.kinds.statistic import StatisticLimits
from protocol.kinds.statistics.methods import METHODS as STATISTIC_METHODS
from protocol.limits import Limits
from protocol.partitions import PARTITION_KINDS
from protocol.plug_ins import PlugIn
from protocol.rationals import parse_rational
from protocol.schema import CategoricalAttribute, NumericAttribute, TimeToEvent
from protocol.strict_toml import convert
from simulations.carriers import direct
from simulations.carriers.stages import here
from simulations.datasets import DATASETS, SITE_SPLITS
from simulations.records import load_records
from simulations.repeats import run_repeat
from simulations.scenario import (
    FAULTS,
    CuratorScenario,
    Data,
    Fault,
    LearnerScenario,
    Parts,
    Scenario,
    Sites,
    load_scenario,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCENARIOS = (DOCS / "researcher" / "scenarios.md").read_text(encoding="utf-8")
ASKED = (DOCS / "learner" / "strategies.md").read_text(encoding="utf-8")
POLICY = (DOCS / "steward" / "policy.md").read_text(encoding="utf-8")
DAEMON = (DOCS / "administrator" / "daemon.md").read_text(encoding="utf-8")
LEARNER = (DOCS / "learner" / "learner.md").read_text(encoding="utf-8")
REQUIRED, NESTED = "required", "its defaults"

STRUCTS = [
    (SCENARIOS, "Top level", Scenario),
    (SCENARIOS, "`[data]`", Data),
    (SCENARIOS, "`[data.sites]`", Sites),
    (SCENARIOS, "`[data.parts]`", Parts),
    (SCENARIOS, "`[[curators]]`", CuratorScenario),
    (SCENARIOS, "`[curators.limits]`", Limits),
    (SCENARIOS, "`[curators.limits.kinds.counts]`", CountsLimits),
    (SCENARIOS, "`[[learners]]`", LearnerScenario),
    (SCENARIOS, "`[[faults]]`", Fault),
    (POLICY, "The schema file", SchemaFile),
    (POLICY, "A numeric attribute", NumericAttribute),
    (POLICY, "A categorical attribute", CategoricalAttribute),
    (POLICY, "Outcomes and a time to an event", TimeToEvent),
    (POLICY, "The policy file", Policy),
    (POLICY, "A learner", LearnerPolicy),
    (POLICY, "An enrolled learner", EnrolledLearner),
    (POLICY, "A key of an enrolled learner", EnrolledKey),
    (POLICY, "Plug-ins", PlugIn),
    (POLICY, "Limits of one question", Limits),
    (POLICY, "Limits of counts", CountsLimits),
    (POLICY, "Limits of secure sums", SecureCountsLimits),
    (POLICY, "Limits of models that the curator fits", ModelLimits),
    (POLICY, "Limits of statistics", StatisticLimits),
    (POLICY, "Limits of a reusable holdout", HoldoutLimits),
    (POLICY, "Limits of synthetic records", SampleLimits),
    (LEARNER, "Keys of the study", StudyFile),
    (LEARNER, "A question of one kind", Question),
    (LEARNER, "`[superlink]`", Link),
]
OPTIONS = [
    (SCENARIOS, "`cells`", CellsStrategy),
    (SCENARIOS, "`cells` of many attributes", attributes_chosen),
    (SCENARIOS, "`cells` with a numeric label", CellsNumberStrategy),
    (SCENARIOS, "`paper-c` and `paper-i`", PaperOptions),
    (ASKED, "`additive`", AdditiveStrategy),
    (ASKED, "`adaptive-cells`", AdaptiveCellsStrategy),
    (ASKED, "`new-features`", NewFeaturesStrategy),
    (ASKED, "`varying-bins`", VaryingBinsStrategy),
    (ASKED, "`random-subsets`", RandomSubsetsStrategy),
    (ASKED, "`informative`", InformativeStrategy),
    (ASKED, "`importance`", ImportanceStrategy),
]


def section(page, title):
    """The text under one heading, up to the next of any level."""
    return re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", outside_blocks(page), re.DOTALL | re.MULTILINE)[1]


def section_with_code(page, title):
    return page.split(f"# {title}\n")[1]


def outside_blocks(page):
    """The page without its code, whose comments look like headings."""
    return re.sub(r"```.*?```", "", page, flags=re.DOTALL)


def rows(page, title):
    """Key -> (type, default, meaning) of the section's table."""
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", section(page, title), re.MULTILINE)
    assert len(dict(lines)) == len(lines)
    return {key: [cell.strip() for cell in rest.split("|")] for key, rest in lines}


def blocks(page):
    return re.findall(r"```toml\n(.*?)```", page, re.DOTALL)


def written(default):
    """A default as the tables have it, from the code."""
    if default in (inspect.Parameter.empty, msgspec.NODEFAULT):
        return REQUIRED
    if isinstance(default, msgspec.Struct):
        return NESTED
    if default is msgspec.UNSET:
        return None
    return list(default) if isinstance(default, tuple) else default


def read(cell):
    """A default as the tables have it, from the page."""
    if cell in (REQUIRED, NESTED):
        return cell
    return None if cell == "none" else tomllib.loads(f"x = {cell.strip('`')}")["x"]


def default_of(field):
    made = field.default_factory is not msgspec.NODEFAULT
    return field.default_factory() if made else field.default


@pytest.mark.parametrize(("page", "title", "struct"), STRUCTS, ids=lambda value: getattr(value, "__name__", None))
def test_every_key_has_a_row_with_its_true_default(page, title, struct):
    expected = {field.encode_name: written(default_of(field)) for field in msgspec.structs.fields(struct)}
    if struct.__struct_config__.tag_field:
        expected[struct.__struct_config__.tag_field] = REQUIRED
    assert {key: read(cells[1]) for key, cells in rows(page, title).items()} == expected


@pytest.mark.parametrize(("page", "title", "options"), OPTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_option_of_a_strategy_has_a_row_with_its_true_default(page, title, options):
    parameters = inspect.signature(options).parameters.values()
    expected = {item.name: written(item.default) for item in parameters}
    assert {key: read(cells[1]) for key, cells in rows(page, title).items()} == expected


def test_every_word_that_a_key_may_hold_is_in_its_row():
    for title, key, words in (
        ("`[[learners]]`", "strategy", STRATEGIES),
        ("`[[faults]]`", "kind", FAULTS),
        ("`[data.sites]`", "how", SITE_SPLITS),
        ("`[data]`", "name", DATASETS),
    ):
        assert set(re.findall(r'"([\w-]+)"', rows(SCENARIOS, title)[key][0])) == set(words)


def test_every_kind_of_partition_has_a_row_and_a_section():
    page = (DOCS / "learner" / "partitions.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == PARTITION_KINDS.keys()
    for kind in PARTITION_KINDS:
        assert len(section(page, f"`{kind}`").strip()) > 200


def test_a_word_of_the_glossary_stands_on_several_pages():
    """A word that fewer pages need is explained there."""
    glossary = DOCS / "reference" / "glossary.md"
    pages = [path.read_text(encoding="utf-8").lower() for path in DOCS.rglob("*.md") if path != glossary]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", glossary.read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for row in rows for word in row.split(", ") if row != "word"]
    stems = {word: word.removesuffix("y").lower() for word in words}
    assert not {word for word, stem in stems.items() if sum(stem in page for page in pages) < 3}
    assert len(words) < 70


@pytest.mark.parametrize("page", [SCENARIOS, POLICY], ids=["scenarios", "policy"])
def test_every_key_is_in_an_example(page):
    shown = set()

    def walk(value):
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)
        shown.update(value if isinstance(value, dict) else ())

    for block in blocks(page):
        walk(tomllib.loads(block))
    for other, title, struct in STRUCTS:
        if other is page:
            missing = {field.encode_name for field in msgspec.structs.fields(struct)} - shown
            assert not missing, f"{title}: no example of {missing}"


CLAUSES = ["Law", "Kept", "Charged", "Fork"]
METHODS_OF = {"model": MODEL_METHODS, "statistic": STATISTIC_METHODS}


def test_every_kind_and_every_method_has_a_contract_on_its_page():
    """The theorem names each kind; its page says by which law it answers, what it keeps and charges, and of forks."""
    page = (DOCS / "explanation" / "privacy-guarantee.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", section(page, "The contract"), re.MULTILINE)
    assert sorted(name for name, _ in lines) == sorted(QUERY_KINDS)
    for name, cells in lines:
        kind = QUERY_KINDS[name]
        *_, keeps, link = (cell.strip() for cell in cells.split("|"))
        target = re.fullmatch(r"\[[\w ]+\]\(([\w-]+\.md)#contract\)", link)[1]
        contract = section((DOCS / "explanation" / target).read_text(encoding="utf-8"), "Contract")
        assert f"`{name}`" in contract
        assert (keeps == "nothing") == (kind.state_bytes == 0)
        assert re.findall(r"^\* \*\*(\w+)\.\*\*", contract, re.MULTILINE) == CLAUSES
        assert ("**Kept.** Nothing." in contract) == (kind.state_bytes == 0)
        told = re.findall(r"^ +\| `(\w+)` \|", contract, re.MULTILINE)
        assert sorted(told) == sorted(METHODS_OF.get(name, ()))


def test_every_event_and_every_field_of_the_health_page_is_told():
    def words(title):
        return set(re.findall(r"`(\w+)`", section(DAEMON, title)))

    for event in log.Event.__subclasses__():
        fields = {field.name for field in msgspec.structs.fields(event)} - {"time"}
        assert fields | {event.__struct_config__.tag} <= words("Log")
    assert {field.name for field in msgspec.structs.fields(Status)} <= words("Health")


def whole(page, *keys):
    """The one example that has all of these keys at its top level."""
    found = [block for block in blocks(page) if tomllib.loads(block).keys() >= set(keys)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("block", blocks(SCENARIOS), ids=lambda text: text.splitlines()[0])
def test_every_example_of_a_scenario_loads(block):
    around = {"title": "x", "data": {"name": "heart", "sites": {"how": "site"}}, "learners": [{"name": "ada"}]}
    assert isinstance(convert(around | tomllib.loads(block), Scenario, where="example"), Scenario)


def test_the_files_of_the_new_tables_load():
    schema, scenario = blocks((DOCS / "results" / "new-tables.md").read_text(encoding="utf-8"))
    assert len(read_schema_file(schema, where="schema").attributes) == 19
    told = convert(tomllib.loads(scenario), Scenario, where="scenario")
    spent = sum(parse_rational(learner.epsilon) + parse_rational(learner.validate) for learner in told.learners)
    assert spent <= min(parse_rational(told.curator(site).cap) for site in told.data.sites.fractions)


@pytest.mark.parametrize("block", blocks(LEARNER), ids=lambda text: text.splitlines()[0])
def test_every_example_of_a_study_loads(block):
    assert read_study(block.encode(), where="example").curators


@pytest.mark.slow
def test_the_whole_scenario_runs_where_the_page_says(tmp_path):
    path = tmp_path / "wards.toml"
    path.write_text(whole(SCENARIOS, "title", "data", "learners"), encoding="utf-8")
    scenario, _, _ = load_scenario(str(path))
    repeat = run_repeat(scenario, load_records(scenario, DOCS / "tour"), 0, stage=here(direct.carry))
    found = {outcome.learner.name: outcome for outcome in repeat.outcomes}
    assert {name: list(outcome.learned.models) for name, outcome in found.items()} == {
        "ada": [""],
        "grace": ["internal", "surgery"],
        "kay": [""],
    }
    assert found["kay"].study.outcomes == {"internal": ["release"] * 3}
    assert not any(outcome.failure for outcome in found.values())


ATTRIBUTE = "[[attributes]]\nname = 'x'\nkind = 'numeric'\nlower = 0\nupper = 1\n"


def test_the_stewards_whole_files_load():
    policy = read_policy(whole(POLICY, "cap", "learners"))
    assert [learner.name for learner in policy.learners] == ["ada", "grace"]
    assert QUERY_KINDS.private(policy.limits)
    assert read_schema_file(whole(POLICY, "label", "attributes")).unit == "patient"
    sums = read_policy("name = 'a'\ncap = 1\n" + blocks(section_with_code(POLICY, "Limits of secure sums"))[0])
    assert len(QUERY_KINDS.limits(sums.limits, "secure_counts").members) == 3
    followed = blocks(section_with_code(POLICY, "Outcomes and a time to an event"))[0]
    schema = read_schema_file("label = 'y'\nclasses = ['no', 'yes']\n" + ATTRIBUTE + followed).schema
    assert (schema.causes, len(schema.time_to_event.ends)) == (("relapse", "death"), 20)
    assert len(blocks(POLICY)) == 11


@pytest.mark.parametrize(
    ("title", "kind", "key", "value"),
    [
        ("Limits of models that the curator fits", "model", "methods", ("naive_bayes", "forest")),
        ("Limits of statistics", "statistic", "methods", ("exponential", "aggregate_median")),
        ("Limits of a reusable holdout", "holdout", "turns", 1_000),
        ("Limits of synthetic records", "sample", "records", 1_000),
    ],
)
def test_the_table_of_a_kind_that_is_off_by_default_turns_it_on(title, kind, key, value):
    policy = read_policy("name = 'a'\ncap = 1\n" + blocks(section_with_code(POLICY, title))[0])
    assert getattr(QUERY_KINDS.limits(policy.limits, kind), key) == value
    assert QUERY_KINDS.private(policy.limits)
