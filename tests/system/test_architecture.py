"""The layout is the architecture: which way imports point, where outside libraries live, what must never appear."""

import ast
import graphlib
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from curator_node.kinds import ANSWERERS
from learner_node.kinds import READERS
from protocol.hypotheses import HYPOTHESIS_KINDS
from protocol.kinds import QUERY_KINDS
from protocol.partitions import PARTITION_KINDS
from trees import FILES, PACKAGES, ROOMS, ROOT, Modules, all_imports, circles, imported_by, nodes_of, place, room_of

pytestmark = pytest.mark.usefixtures("parsed")

SIDES = {"protocol", "curator_node", "learner_node", "simulations", "expril.files", "expril.packages"}
ALLOWED = {
    "protocol": {"protocol"},
    "expril.files": {"protocol"},
    "expril.packages": {"protocol"},
    "expril.report": {"expril.report", "expril.files"},
    "curator_node": {"protocol", "curator_node", "expril.files", "expril.packages"},
    "learner_node": {"protocol", "learner_node", "expril.report", "expril.files", "expril.packages"},
    "simulations": {*SIDES, "expril.report"},
    "expril.audit": {*SIDES, "expril.report", "expril.audit"},
    "expril.commands": {*SIDES, "expril.report", "expril.audit", "expril.commands"},
    "expril": {"expril.commands"},
    "lab": {*SIDES, "expril.report", "expril.audit", "expril.commands", "expril", "lab"},
    "expril_under_test": {"protocol", "curator_node", "learner_node", "expril_under_test"},
    "expril_conformance": {"expril_conformance"},
}
"""Room -> those that it may import."""
PINNED = {
    "sqlalchemy": {
        "curator_node/ledger/engines.py",
        "curator_node/ledger/store.py",
        "curator_node/ledger/tables.py",
        "curator_node/ledger/upgrades.py",
        "curator_node/ledger/migrations/versions/r0001_as_expril_0_2.py",
        "curator_node/ledger/migrations/versions/r0002_held_proposals.py",
        "curator_node/records/databases.py",
    },
    "alembic": {
        "curator_node/ledger/upgrades.py",
        "curator_node/ledger/migrations/env.py",
        "curator_node/ledger/migrations/versions/r0001_as_expril_0_2.py",
        "curator_node/ledger/migrations/versions/r0002_held_proposals.py",
    },
    "opendp": {"curator_node/opendp_noise.py", "lab/peers/marginals.py", "lab/peers/opendp_releases.py"},
    "torch": {
        "learner_node/models/network_training.py",
        "lab/peers/opacus_models.py",
        "lab/peers/opacus_releases.py",
    },
    "opacus": {"lab/peers/opacus_models.py", "lab/peers/opacus_releases.py"},
    "diffprivlib": {"lab/peers/diffprivlib_models.py", "lab/peers/diffprivlib_releases.py"},
    "nvflare": {"lab/peers/nvflare_releases.py"},
    "snsql": {"lab/peers/smartnoise_releases.py"},
    "cryptography": {
        "conformance/expril_conformance/wire.py",
        "protocol/envelopes.py",
        "protocol/secure_sum/graph.py",
        "protocol/secure_sum/masks.py",
        "curator_node/daemon/calls.py",
        "curator_node/daemon/node_key.py",
        "curator_node/ledger/sealing.py",
        "simulations/carriers/superlink.py",
    },
    "flwr": {
        "curator_node/client_app.py",
        "curator_node/daemon/fleet.py",
        "learner_node/carriers/flower.py",
        "learner_node/carriers/superlink_run.py",
        "simulations/carriers/in_process.py",
        "simulations/carriers/ray_engine.py",
        "lab/peers/flower_releases.py",
    },
    "httpx": {"curator_node/daemon/calls.py", "curator_node/daemon/fleet.py", "learner_node/carriers/superlink_run.py"},
    "pooch": {"simulations/datasets/files.py"},
    "fastexcel": {"simulations/datasets/ctg.py"},
    "safetensors": {"protocol/hypotheses.py", "learner_node/models/files.py"},
    "hypothesis": {
        "expril/audit/contract/duties.py",
        "expril/audit/contract/kinds.py",
        "expril/audit/contract/partitions.py",
        "expril/audit/generators/queries.py",
        "expril/audit/generators/values.py",
    },
    "pytest": {"conformance/expril_conformance/__main__.py", "expril/audit/contract/suites.py"},
    "mbi": {"lab/peers/marginals.py"},
    "ray": {"simulations/campaign/cluster.py", "simulations/carriers/ray_engine.py"},
    "jinja2": {"expril/report/template.py"},
    "jsonschema": {"expril/audit/package/deployment.py"},
    "yaml": {"expril/audit/package/deployment.py"},
    "dp_accounting": {"expril/audit/recompute/losses.py"},
}
PATH = (
    "report",
    "datasets",
    "scenario",
    "records",
    "seeded_noise",
    "carriers",
    "repeats",
    "references",
    "scoring",
    "notes",
    "run_folder",
    "run_page",
    "run_order",
    "run_cells",
    "run",
)
"""A scenario's way from its file to its report; each of these imports only earlier ones."""
IMPURE = {"time", "datetime", "os", "random", "secrets", "socket", "pathlib", "subprocess", "requests", "uuid"}
NEVER = {"pickle", "dill", "cloudpickle", "marshal", "shelve"}
MODULES = Modules()


@cache
def modules(path: Path) -> set[str]:
    """Full names of what a file imports, or imports from: "a.b" for `import a.b`, "a.b" and "a.b.c" for `from a.b
    import c`."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@cache
def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


def test_imports_point_the_right_way():
    assert ALLOWED.keys() == set(ROOMS)
    inside = {name: set(map(room_of, used)) for name, used in all_imports(MODULES).items()}
    wrong = {name: found - ALLOWED[room_of(name)] for name, found in inside.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_no_two_rooms_may_import_each_other():
    assert circles({room: others - {room} for room, others in ALLOWED.items()}) == set()
    assert set(map(room_of, MODULES)) == set(ROOMS)


def test_a_scenario_s_way_to_its_report_never_turns_back():
    for path in FILES:
        package, *inside = path.relative_to(ROOT).with_suffix("").parts
        if package == "simulations" and inside[0] in PATH:
            used = {name.split(".")[1] for name in modules(path) if name.startswith("simulations.")} & set(PATH)
            assert all(PATH.index(name) <= PATH.index(inside[0]) for name in used), (path, used)


def test_what_is_reported_comes_from_outside_of_curators():
    """Deployed curators can run a scenario: its repeats import nothing that is inside of a curator, or opens one."""
    inside = {f"curator_node.{name}" for name in ("curator", "dataset", "site", "ledger.Ledger", "ledger.book")}
    outside = ("repeats", "scoring", "notes", "run", "run_folder", "run_cells")
    for name in outside:
        assert not modules(ROOT / "simulations" / f"{name}.py") & inside, name


def test_what_recomputes_imports_neither_side():
    """An auditor runs no code of the curator that kept a ledger, and none of a learner."""
    for path in (ROOT / "expril" / "audit" / "recompute").rglob("*.py"):
        assert not imports(path) & {"curator_node", "learner_node"}, path


def test_curators_are_put_together_in_one_place():
    makers = {
        place(path)
        for folder in (*PACKAGES, "benchmarks", "docs", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if "Curator(" in path.read_text(encoding="utf-8")
        and any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Curator"
            for node in nodes_of(path)
        )
    }
    assert makers == {"curator_node/site.py"}


def test_an_outside_library_lives_in_its_named_files():
    users = {library: {place(path) for path in FILES if library in imports(path)} for library in PINNED}
    assert users == PINNED


def test_the_protocol_reads_no_clock_disk_network_or_randomness():
    for path in FILES:
        if path.relative_to(ROOT).parts[0] == "protocol":
            assert not imports(path) & IMPURE, path


def test_a_curator_draws_nothing_from_a_generator_of_numpy():
    """`DiscreteLaplace.simulate` is for simulations and for invented records."""
    for path in FILES:
        if path.relative_to(ROOT).parts[0] == "curator_node":
            used = {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
            assert not used & {"simulate", "random"}, path


def test_what_flower_promises_to_nobody_is_named_in_one_file():
    public = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.simulation"}
    for path in FILES:
        for node in nodes_of(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}"] if isinstance(node, ast.ImportFrom) else []
            assert all(name in public for name in names if name.split(".")[0] == "flwr"), (path, names)


def test_no_code_can_come_from_bytes():
    for path in FILES:
        assert not imports(path) & NEVER, path
        calls = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
        named = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert not named & {"eval", "exec", "compile", "__import__"}, path


def test_query_kinds_are_served_and_read_on_both_sides():
    assert QUERY_KINDS.keys() == ANSWERERS.keys() == READERS.keys()


def test_registered_kinds_carry_their_wire_name():
    for table in (PARTITION_KINDS, HYPOTHESIS_KINDS):
        for name, kind in table.items():
            assert kind.__struct_config__.tag == name


@pytest.mark.slow
def test_the_curator_never_imports_torch():
    import subprocess

    code = "import curator_node.curator, curator_node.client_app, sys; print('torch' in sys.modules)"
    # flwr itself may import torch lazily; ours must not.
    ours = [path for path in FILES if path.relative_to(ROOT).parts[0] in ("curator_node", "protocol")]
    assert not any("torch" in imports(path) for path in ours)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def test_files_stay_small_enough_to_read_in_one_go():
    long = {place(path): count for path in FILES if (count := len(path.read_text().splitlines())) > 700}
    assert long == {}


COLLECTIONS = {"list", "set", "frozenset", "tuple", "dict", "Sequence", "Mapping"}


def members(node):
    """Of a union, as it is written."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return members(node.left) + members(node.right)
    return [node]


def patterned(node):
    """Whether a type is written as a text with a pattern."""
    return ast.unparse(node).startswith("Annotated[str") and "pattern=" in ast.unparse(node)


def freed_twice(nodes, aliases):
    """Unions of a text with a pattern and a collection, which msgspec 0.22 frees in the wrong order."""
    return [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.BinOp)
        and any(patterned(each) or ast.unparse(each) in aliases for each in members(node))
        and any(isinstance(each, ast.Subscript) and ast.unparse(each.value) in COLLECTIONS for each in members(node))
    ]


def test_no_type_is_one_that_msgspec_frees_twice():
    """A process that has read such a type may die when it ends, after all was done."""
    told = "Key = Annotated[str, Meta(pattern='a')]\nx: Key | None\ny: int | list[Key]\nz: Key | None | list[Key]"
    assert freed_twice(ast.walk(ast.parse(told)), {"Key"})[0] == "Key | None | list[Key]"
    assert len(freed_twice(ast.walk(ast.parse(told)), {"Key"})) == 1
    assigned = [node for path in FILES for node in nodes_of(path) if isinstance(node, ast.Assign)]
    aliases = {ast.unparse(node.targets[0]) for node in assigned if patterned(node.value)}
    assert len(aliases) > 3
    assert {place(path): found for path in FILES if (found := freed_twice(nodes_of(path), aliases))} == {}


def test_no_module_imports_itself_through_others():
    """When it is loaded, that is: what stands in a function or is for type checkers is read by the next test."""
    used = {name: imported_by(tree.body, MODULES) - {name} for name, tree in MODULES.items()}
    sorter = graphlib.TopologicalSorter(used)
    sorter.prepare()  # CycleError names the circle
    assert sorter.is_active()


def test_no_circle_is_closed_by_any_import():
    """Those in functions and those for type checkers, too: who reads one module must read the others."""
    assert circles(all_imports(MODULES)) == set()


def test_a_circle_is_seen_wherever_its_import_stands():
    """Power: in a function, and for type checkers, and through a package; what only leads to a circle is none."""
    one, two, three, other = sorted(MODULES)[:4]
    for hidden in (f"def f():\n    from {one} import x", f"if TYPE_CHECKING:\n    import {one}"):
        back = imported_by(ast.walk(ast.parse(hidden)), MODULES)
        assert circles({one: {two}, two: {three}, three: back, other: {one}}) == {frozenset({one, two, three})}
    assert circles({one: {two, three}, two: {three}, three: set(), other: {one}}) == set()
    package, inner = "protocol.kinds", "protocol.kinds.counts"
    assert imported_by(ast.parse("from protocol.kinds import counts").body, MODULES) == {package, inner}


def test_no_package_imports_a_private_name_of_another():
    private = [
        (name, node.module, alias.name)
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        for alias in node.names
        if alias.name.startswith("_") or any(part.startswith("_") for part in node.module.split("."))
    ]
    assert private == []


def test_the_seeded_and_idealised_noise_switches_stay_off():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "idealized-numerics" not in text, path


PLANNING = {ROOT / "learner_node" / "study" / "plan.py"}
"""What a study begins with is counts."""
CORE = [
    *(ROOT / "protocol" / f"{name}.py" for name in ("plans", "query_kind", "limits", "messages", "spending")),
    *(ROOT / "protocol" / f"{name}.py" for name in ("transcript", "transitions", "envelopes", "refusals", "identity")),
    *(ROOT / "curator_node" / f"{name}.py" for name in ("admission", "answering", "curator", "identities", "policy")),
    *sorted((ROOT / "curator_node" / "ledger").glob("*.py")),
    *sorted(set((ROOT / "learner_node" / "study").glob("*.py")) - PLANNING),
    ROOT / "learner_node" / "questions" / "quote.py",
]
"""What holds for every query kind."""
TABLES = {"protocol.kinds", "curator_node.kinds", "learner_node.kinds"}
OF_ONE_KIND = {"protocol.release_kinds", "protocol.partitions", "protocol.hypotheses", "protocol.noise"}


ORDINARY = {"model"}
"""Names of kinds that are words of other things, too."""


def kinds_in(path):
    """What a file imports of single kinds, and its words that name one."""
    nodes = nodes_of(path)
    modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found = {module for module in modules for table in TABLES if module.startswith(f"{table}.")}
    found |= {module for module in modules for part in OF_ONE_KIND if module == part or module.startswith(f"{part}.")}
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    words -= ORDINARY  # a quoted kind or an imported one is told apart from the word
    words |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    words |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    names = {name for kind in QUERY_KINDS for name in (kind, f"planned{kind}", f"{kind}body", f"{kind}answer")}
    return found | {word for word in words if word.lower() in names}


def test_the_core_names_no_query_kind_and_imports_none():
    found = {place(path): kinds_in(path) for path in CORE}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}


def test_the_core_is_the_core():
    """Power: a file of one kind would be noticed."""
    for name in ("protocol/kinds/counts.py", "learner_node/kinds/counts.py", "curator_node/kinds/counts.py"):
        assert kinds_in(ROOT / name)


def test_what_writes_documents_knows_no_word_of_any_study():
    words = r"learner|curator|epsilon|hospital|patient|accurac|\bstud(?:y|ies)\b|majority|regression|\bsites?\b"
    for path in sorted((ROOT / "expril" / "report").iterdir()):
        if path.is_file():
            assert not re.findall(words, path.read_text(encoding="utf-8"), re.IGNORECASE), path.name


NAMELESS = {
    *(
        "found",
        "told",
        "one",
        "each",
        "known",
        "own",
        "asked",
        "held",
        "led",
        "whole",
        "said",
        "seen",
        "wanted",
        "made",
    ),
    *("both", "another", "alone", "together", "gathered", "scored", "shown", "given", "taken", "it", "these", "those"),
    *("them", "some", "such", "came", "went", "got"),
}
"""Participles and pronouns that say nothing of what they hold."""
SERIALISED = {("protocol/kinds/statistic.py", "asked"), ("simulations/report/model.py", "held")}


def bound_names(nodes):
    """Of variables, arguments, functions and classes."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def test_names_are_nouns_of_what_they_hold():
    names = {(place(path), name) for path in FILES for name in bound_names(nodes_of(path)) if not name.isupper()}
    bound = {(file, name.strip("_").lower()) for file, name in names}
    assert {pair for pair in bound if pair[1] in NAMELESS} == SERIALISED
    assert set(bound_names(ast.walk(ast.parse("for each in x: pass")))) == {"each"}


def test_modules_are_nouns_of_what_they_hold():
    assert not {name for name in MODULES if name.rpartition(".")[2] in NAMELESS}


CRUMB = 100
WHOLE = {"__init__", "__main__", "env"}


def test_a_short_module_of_one_importer_says_why_it_is_one():
    """A module below 100 lines has several importers, a row in a table of kinds, or more than one line of reason."""
    used = all_imports(MODULES)
    crumbs = set()
    for path in FILES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("conformance.")
        importers = {other for other, names in used.items() if name in names and other != name}
        text = path.read_text(encoding="utf-8")
        if (
            path.stem not in WHOLE
            and not {"migrations", "kinds"} & set(name.split("."))
            and len(text.splitlines()) < CRUMB
            and len(importers) < 2
        ):
            reason = ast.get_docstring(ast.parse(text)) or ""
            if "\n" not in reason:
                crumbs.add(name)
    assert crumbs == set()
