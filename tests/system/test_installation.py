"""What each installation holds: bare for stewards and auditors, extras for learners and researchers.

The wheel itself is built, installed and used in `test_wheel`.
"""

import ast
import inspect
import re
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer
from typer.testing import CliRunner

from absent import OF_ANY_PART, OF_EXTRAS, in_one_process
from every_command import calls, commands, complaint_in, documented, hold, part_of
from expril.commands.app import app
from expril.commands.terminal import PARTS, plain_errors
from learner_node.strategies import CHECKS, STRATEGIES, make_strategy
from learner_node.strategies.cells import CellsClassesStrategy, CellsStrategy
from learner_node.strategies.cells_number import CellsNumberStrategy
from learner_node.strategies.options import PaperOptions, attributes_chosen
from trees import FILES, PACKAGES, ROOT, place, tree_of

pytestmark = pytest.mark.usefixtures("parsed")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {
    "torch": ("learner_node/models/network_training.py", "lab/peers/opacus_models.py", "lab/peers/opacus_releases.py"),
    "sklearn": ("learner_node", "simulations", "expril/audit", "lab"),
    "scipy": ("learner_node", "simulations", "expril/audit", "lab"),
    "jinja2": ("expril/report/template.py",),
    "fastexcel": ("simulations/datasets/ctg.py",),
    "pooch": ("simulations/datasets/files.py",),
}
"""Library -> the packages and modules that may import it."""
SLOW_TO_LOAD = {*HEAVY, "flwr", "opendp"}
DONE_WITHOUT = {"dp_accounting", "opendp"}
"""What commands of every installation use where it is there, and else say so."""
BARE = ("expril.__main__", "simulations.scenario", "expril.report.terminal")
"""Entry points of a bare installation, beside all of protocol and curator_node."""


@cache
def module_path(name):
    base = ROOT.joinpath(*name.split("."))
    found = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
    return found[0] if found else None


def import_nodes(node, inside):
    """Imports that run: those in functions only where `inside`, those for type checkers never."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not inside) or (
            isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        ):
            continue
        else:
            yield from import_nodes(child, inside)


@cache
def imported(path):
    """Full names of all that a file imports, its own packages' modules as well as outside libraries.

    What a command's file imports in functions may come with an extra, where a command of it asks for one.
    """
    return names_of(import_nodes(tree_of(path), inside="plain_errors(part=" not in path.read_text(encoding="utf-8")))


def names_of(nodes):
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def with_parents(name):
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def reached(entries):
    """Module -> how it was reached, for all that these modules import, and what those import."""
    ways = {name: (name,) for entry in entries for name in with_parents(entry)}
    waiting = list(ways)
    while waiting:
        name = waiting.pop()
        path = module_path(name) if name.split(".")[0] in PACKAGES else None
        for other in {part for each in imported(path) for part in with_parents(each)} if path else ():
            if other not in ways and (other.split(".")[0] not in PACKAGES or module_path(other)):
                ways[other] = (*ways[name], other)
                waiting.append(other)
    return ways


def modules_of(package):
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES]
    return [name for name in names if name.split(".")[0] == package]


@pytest.mark.slow
def test_a_heavy_library_is_imported_only_where_its_part_is():
    users = {(name.split(".")[0], place(path)) for path in FILES for name in imported(path)}
    wrong = {
        (library, where)
        for library, where in users
        if library in HEAVY and not any(where == part or where.startswith(f"{part}/") for part in HEAVY[library])
    }
    assert wrong == set()


def test_every_library_of_an_extra_is_pinned_to_its_place():
    assert HEAVY.keys() == set(OF_EXTRAS)


def test_the_bare_installation_reaches_no_heavy_library():
    bare = [*BARE, *modules_of("protocol"), *modules_of("curator_node")]
    ways = reached(bare)
    assert "expril.audit.recompute.runs" in ways  # the walk goes into what commands import
    assert {name: ways[name] for name in HEAVY if name in ways} == {}


def test_a_walk_from_a_learners_strategy_finds_what_it_needs():
    assert {"torch", "scipy", "sklearn"} <= reached(["learner_node.strategies.cells"]).keys()


def extra(name):
    """Distributions of an extra, with those of the extras that it names; and the extras."""
    found, named = set(), {name}
    for requirement in PROJECT["optional-dependencies"][name]:
        inner = re.fullmatch(r"expril\[([\w,]+)\]", requirement)
        if inner:
            for each in inner[1].split(","):
                more, further = extra(each)
                found, named = found | more, named | further
        else:
            found.add(re.match(r"[\w-]+", requirement)[0].lower())
    return found, named


def test_the_modules_of_each_extra_are_those_of_its_distributions():
    modules = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(distribution.lower().replace("_", "-"), set()).add(module)
    before = set()
    for part, own in PARTS.items():
        distributions, named = extra(part)
        added = distributions - {name for other in before for name in extra(other)[0]}
        before |= {part}
        assert named == before
        assert all(modules[name] & own for name in added), part
        assert own <= {module for name in added for module in modules[name]}, part


def test_a_bare_installation_asks_for_nothing_heavy_and_a_developers_for_everything():
    bare = {re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert not bare & {"torch", "scikit-learn", "scipy", "jinja2", "fastexcel", "pooch"}
    assert extra("dev")[1] == PROJECT["optional-dependencies"].keys()


def parameters(maker):
    return {name: each.default for name, each in inspect.signature(maker).parameters.items()}


def test_every_strategy_of_the_table_is_where_it_says_and_takes_the_options_that_are_checked_before():
    """By name and default: what is checked is then what the strategy takes."""
    held = {"cells": (CellsStrategy, CellsClassesStrategy, CellsNumberStrategy, attributes_chosen)}
    held |= dict.fromkeys(("paper-c", "paper-i"), (PaperOptions,))
    for name in STRATEGIES:
        assert callable(make_strategy(name, {}).plan)
        makers = held.get(name, (resolve_name(STRATEGIES[name]),))
        assert {option: default for maker in makers for option, default in parameters(maker).items()} == parameters(
            CHECKS[name]
        )
    assert CHECKS.keys() == STRATEGIES.keys()


@pytest.mark.processes
def test_what_needs_no_data_loads_nothing_slow(tmp_path):
    key, ledger = tmp_path / "curator.pem", tmp_path / "ward.ledger"
    told, loaded = in_one_process(
        ["--help"],
        ["--version"],
        ["simulate", "--help"],
        ["predict", "--help"],
        ["schema", "draft", "--help"],
        ["scenarios"],
        ["scenarios", "wdbc"],
        ["keys", key],
        ["ledger", "create", ledger, "--key", key],
        ["ledger", "show", ledger],
        ["ledger", "verify", ledger],
        ["ledger", "backup", ledger, tmp_path / "copy.ledger"],
    )
    assert [code for code, _, _ in told] == [0] * len(told), told
    assert "sqlalchemy" in loaded
    assert not set(loaded) & SLOW_TO_LOAD


STUDY = 'title = "x"\nsource = "s.csv"\nepsilon = 1\noptions = { OPTION }\n[curators]\nx = "y"\n'


@pytest.fixture
def wrong(tmp_path):
    """A folder of files that people wrote; each is right but for one, which the name of its copy tells."""
    tour = ROOT / "docs" / "tour"
    scenario, schema, records = ((tour / name).read_text() for name in ("own.toml", "schema.toml", "records.csv"))
    files = {
        "schema.toml": schema,
        "records.csv": records,
        "syntax.toml": "a = \n",
        "key.toml": f"titel = 1\n{scenario}",
        "value.toml": scenario.replace('name = "ada"', 'name = "ada"\noptions = { cells = -3 }', 1),
        "together.toml": scenario.replace(
            'name = "ada"', 'name = "ada"\noptions = { same_population = true, mass_share = 0.1 }', 1
        ),
        "option.toml": scenario.replace('name = "ada"', 'name = "ada"\noptions = { cels = 3 }', 1),
        "absent.toml": scenario.replace("schema.toml", "nowhere.toml"),
        "text.toml": scenario.replace("schema.toml", "bad-schema.toml"),
        "bad-schema.toml": schema.replace("lower = 0", 'lower = "0"', 1),
        "no-records.toml": scenario.replace("records.csv", "nowhere.csv"),
        "ragged.toml": scenario.replace("records.csv", "ragged.csv"),
        "ragged.csv": f"{records}1,2\n",
        "model.safetensors": "none",
        "site/policy.toml": 'name = "x"\ncapp = 1\n',
        "site/daemon.toml": 'superlink = "127.0.0.1:9092"\ninsecure = true\n',
        "study.toml": STUDY.replace("OPTION", "cels = 3"),
        "study-value.toml": STUDY.replace("OPTION", "cells = 0"),
    }
    (tmp_path / "site").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.processes
def test_a_wrong_file_is_told_before_what_reads_tables_carries_or_computes_is_loaded(wrong):
    site = wrong / "site"
    told, loaded = in_one_process(
        *(
            [command, wrong / f"{name}.toml"]
            for command in ("simulate", "quote")
            for name in ("syntax", "key", "option", "value", "together")
        ),
        ["simulate", wrong / "absent.toml"],
        ["simulate", wrong / "text.toml"],
        ["simulate", wrong / "records.csv"],
        ["quote", wrong / "records.csv", "--schema", wrong / "bad-schema.toml"],
        ["scenarios", wrong / "key.toml"],
        ["learner", "run", wrong / "study.toml"],
        ["learner", "run", wrong / "study-value.toml"],
        ["learner", "run", wrong / "syntax.toml"],
        ["curator", "serve", site],
        ["curator", "answer", wrong, "--site", site],
        ["audit", "check-package", wrong],
    )
    assert [(code, err.count("\n")) for code, _, err in told] == [(2, 1)] * len(told), told
    found = set(loaded) & {*SLOW_TO_LOAD, "polars", "sqlalchemy", "grpc", "httpx"}
    assert not found


@pytest.mark.processes
def test_wrong_records_are_told_before_what_carries_or_computes_is_loaded(wrong):
    told, loaded = in_one_process(
        ["simulate", wrong / "no-records.toml"],
        ["simulate", wrong / "ragged.toml"],
        ["quote", wrong / "ragged.toml"],
        ["quote", wrong / "ragged.csv", "--schema", wrong / "schema.toml"],
        ["predict", wrong / "model.safetensors", wrong / "ragged.csv", "--out", wrong / "predictions.csv"],
    )
    assert [(code, err.count("\n")) for code, _, err in told] == [(2, 1)] * len(told), told
    assert "polars" in loaded
    found = set(loaded) & {*SLOW_TO_LOAD, "sqlalchemy", "grpc", "httpx"}
    assert not found


def test_a_command_that_asks_for_no_part_reaches_nothing_of_any():
    """The functions of those that a bare installation has, and the functions beside them that they call."""
    bare, used = 0, set()
    for path in (ROOT / "expril" / "commands").rglob("*.py"):
        functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        told = {name: ast.unparse(function) for name, function in functions.items()}
        waiting = [name for name in told if "plain_errors(" in told[name] and "plain_errors(part=" not in told[name]]
        bare += len(waiting)
        while waiting:
            if function := functions.pop(waiting.pop(), None):
                used |= names_of(import_nodes(function, inside=True))
                waiting += [node.id for node in ast.walk(function) if isinstance(node, ast.Name)]
    ways = reached(used)
    assert {name: ways[name] for name in OF_ANY_PART if name in ways}.keys() <= DONE_WITHOUT
    assert bare > 25


def test_every_command_says_at_once_which_part_it_lacks_and_the_readme_says_the_same(monkeypatch):
    """A fake of the search for modules; the slow tests really take them away."""
    table, asked = documented(), {}
    monkeypatch.setattr("expril.commands.terminal.find_spec", lambda name: None)
    for call in calls(Path("nowhere")):
        if part_of(call, table):
            done = CliRunner().invoke(app, list(map(str, call)))
            asked[call] = complaint_in(done.exit_code, done.stdout, done.stderr)
    assert {call: part_of(call, table) for call, named in asked.items() if not named <= part_of(call, table)} == {}
    assert len(asked) > 10


def test_every_command_is_called_by_these_tests(tmp_path):
    lines = [" ".join(map(str, call)) for call in calls(tmp_path)]
    assert {name for name in commands() if not any(f"{line} ".startswith(f"{name} ") for line in lines)} == set()


@pytest.mark.slow
def test_a_bare_installation_has_no_command_that_ends_in_a_traceback(tmp_path):
    given = calls(tmp_path)
    told, loaded = in_one_process(*given, blocked=OF_ANY_PART)
    hold(told, given)
    assert not set(loaded) & OF_ANY_PART
    assert any("install expril[postgresql]" in err for _, _, err in told)


@pytest.mark.slow
def test_a_learners_installation_has_none_either(tmp_path):
    given = calls(tmp_path)
    told, _ = in_one_process(*given, blocked=OF_ANY_PART - PARTS["learner"])
    hold(told, given, there={"learner"})
    assert told[[call[0] for call in given].index("quote")][0] == 0


@pytest.mark.slow
def test_the_default_scenario_needs_what_make_demo_installs_and_a_strategy_says_what_more_it_needs(tmp_path):
    scenario = (ROOT / "simulations" / "scenarios" / "wdbc.toml").read_text(encoding="utf-8")
    (tmp_path / "paper.toml").write_text(scenario.replace('strategy = "cells"', 'strategy = "paper-c"'))
    blocked = OF_ANY_PART - PARTS["learner"] - PARTS["simulations"]
    assert {"torch", "opendp"} < blocked
    out = ("--repeats", "1", "--out", tmp_path / "runs")
    told, _ = in_one_process(["simulate", "wdbc", *out], ["simulate", tmp_path / "paper.toml", *out], blocked=blocked)
    assert told[0][0] == 0, told[0]
    assert complaint_in(*told[1]) == {"simulations", "networks"}


def complaint(capsys, part, missing):
    with pytest.raises(typer.Exit) as left, plain_errors(part=part):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
    assert left.value.exit_code == 2
    return re.search(r"expril\[([\w,]+)\]", capsys.readouterr().err)[1]


def test_the_larger_part_is_named_of_what_the_command_and_the_library_need(capsys):
    assert complaint(capsys, "learner", "pooch") == "simulations"
    assert complaint(capsys, "learner", "scipy.stats") == "learner"
    assert complaint(capsys, "simulations", "scipy") == "simulations"
    assert complaint(capsys, "learner", "torch.nn") == "learner,networks"
    assert complaint(capsys, "simulations", "ray") == "simulations,ray"


@pytest.mark.parametrize(("part", "missing"), [("", "torch"), ("learner", "protocol.misspelt"), ("learner", None)])
def test_a_module_that_no_part_brings_is_our_fault_and_shows(part, missing):
    with pytest.raises(ModuleNotFoundError), plain_errors(part=part):
        raise ModuleNotFoundError("x", name=missing)
