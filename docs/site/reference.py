"""What the reference takes from the program: a page that says `<!-- from the program: NAME -->` gets it there."""

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec
import typer.main
from msgspec import inspect as types

import expril
from curator_node.daemon.settings import DaemonSettings
from curator_node.policy import Policy
from curator_node.records.databases import Source
from curator_node.records.schema_file import SchemaFile
from expril.commands.app import app as expril_commands
from lab.__main__ import app as lab_commands
from learner_node.study_file import StudyFile
from protocol.kinds import QUERY_KINDS
from protocol.refusals import EXPLANATIONS, RETRIABLE
from simulations.scenario import Scenario

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FILES = {
    "policy.toml": (Policy, "../steward/policy.md#the-policy-file"),
    "schema.toml": (SchemaFile, "../steward/policy.md#the-schema-file"),
    "source.toml": (Source, "../steward/records.md"),
    "daemon.toml": (DaemonSettings, "../administrator/daemon.md#daemontoml"),
    "study.toml": (StudyFile, "../learner/learner.md#keys-of-the-study"),
    "A scenario": (Scenario, "../researcher/scenarios.md"),
}
"""File that people write -> its root and the page that explains its keys."""
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Warns|Example):$")


# --- tables


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown; a line break or a bar in a cell stays in it."""
    lines = [head, ("---",) * len(head), *rows]
    cells = ([linked(cell).replace("\n", " ").replace("|", "\\|") for cell in row] for row in lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells) + "\n"


def linked(text: str) -> str:
    """Names of pages of docs as links from the reference, which show the page's title."""
    return re.sub(r"(?<![\w/`])docs/([\w/-]+\.(?:md|ipynb)(?:#[\w-]+)?)", r"[](../\1)", text)


def code(text: str) -> str:
    """The text as code in a line."""
    return f"`{text}`" if text else ""


# --- refusals


def refusals() -> str:
    """Every code, the sentence that comes with it, and whether it may pass."""
    rows = [
        (code(refusal.value), told, "yes" if refusal in RETRIABLE else "no") for refusal, told in EXPLANATIONS.items()
    ]
    return table(("code", "what is wrong, and what to do", "may pass"), rows)


# --- commands


def commands() -> str:
    """Every command of both programs, with all arguments and options."""
    return "".join(
        _command(names, leaf)
        for name, program in (("expril", expril_commands), ("expril-lab", lab_commands))
        for names, leaf in _leaves((name,), typer.main.get_command(program))
    )


def _leaves(names: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield names, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _leaves((*names, name), inner)


def _command(names: tuple[str, ...], command: click.Command) -> str:
    path = " ".join(names)
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    rows = []
    for parameter in command.get_params(context):
        if "--help" in parameter.opts or getattr(parameter, "hidden", False):
            continue
        record = parameter.get_help_record(context) or (parameter.name or "", "")
        rows.append((code(record[0].strip()), record[1].strip().replace("\\[", "[")))
    told = prose(inspect.cleandoc(command.help or ""))
    return f"## {path}\n\n```text\n{usage}\n```\n\n{told}\n\n" + (table(("option", "meaning"), rows) if rows else "")


# --- keys of files


def keys() -> str:
    """Every key of every file that people write: type and default, from the types that read it."""
    text = ""
    for name, (root, page) in FILES.items():
        text += f"## {name}\n\nWhat each key means: []({page}).\n\n"
        extra = [kind.limits for kind in QUERY_KINDS.values()] if root in (Policy, Scenario) else []
        for struct in _structs(root, []) + extra:
            info = types.type_info(struct)
            tag = [(code(info.tag_field), code(f'"{info.tag}"'), "required")] if info.tag_field else []
            rows = [(code(field.encode_name), _type(field.type), _default(field)) for field in info.fields]
            text += f"### {struct.__name__} ({name})\n\n" + table(("key", "type", "default"), tag + rows)
    return text


def _structs(root: type, seen: list[type]) -> list[type]:
    if root in seen:
        return seen
    seen.append(root)
    for field in types.type_info(root).fields:
        for inner in _inner(field.type):
            _structs(inner, seen)
    return seen


def _inner(told: types.Type) -> Iterator[type]:
    if isinstance(told, types.StructType):
        yield told.cls
    for name in ("types", "item_types"):
        for each in getattr(told, name, ()):
            yield from _inner(each)
    for name in ("item_type", "key_type", "value_type", "type"):
        each = getattr(told, name, None)
        if isinstance(each, types.Type):
            yield from _inner(each)


PLAIN = {
    types.StrType: "text",
    types.IntType: "whole number",
    types.FloatType: "number",
    types.BoolType: "true or false",
    types.AnyType: "any",
    types.DateTimeType: "date and time",
    types.DateType: "date",
}
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "max_length": "of length up to"}


def _type(told: types.Type) -> str:
    if isinstance(told, types.Metadata):
        return _type(told.type)
    if isinstance(told, types.UnionType):
        names = dict.fromkeys(_type(each) for each in told.types if not isinstance(each, types.NoneType))
        return "amount" if set(names) == {"text", "whole number", "number"} else " or ".join(names)
    if isinstance(told, types.LiteralType):
        return ", ".join(code(f'"{value}"' if isinstance(value, str) else f"{value}") for value in told.values)
    if isinstance(told, types.StructType):
        return f"table {told.cls.__name__}"
    if isinstance(told, types.DictType):
        return f"table of {_type(told.value_type)}"
    if isinstance(told, (types.ListType, types.VarTupleType, types.SetType, types.FrozenSetType)):
        return f"list of {_type(told.item_type)}"
    if isinstance(told, types.TupleType):
        return "list of " + ", ".join(_type(each) for each in told.item_types)
    name = PLAIN.get(type(told)) or getattr(getattr(told, "cls", None), "__name__", "") or type(told).__name__
    bounds = [f"{word} {value}" for key, word in BOUNDS.items() if (value := getattr(told, key, None)) is not None]
    return " ".join([name, ", ".join(bounds)]).strip()


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    return "none" if value in (None, msgspec.UNSET, msgspec.NODEFAULT) else code(msgspec.json.encode(value).decode())


# --- Python


def python() -> str:
    """Every public name: signature, docstring, and the public methods and properties of a class."""
    text = ""
    for name in expril.NAMES:
        thing = getattr(expril, name)
        text += f"## {name}\n\n{_signature(name, thing)}{prose(inspect.getdoc(thing) or '')}\n\n"
        for inner, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
            if inner.startswith("_") or not _own(member):
                continue
            head = f"### {name}.{inner}\n\n"
            call = _signature(inner, member) if callable(member) else ""
            text += f"{head}{call}{prose(inspect.getdoc(member) or '')}\n\n"
    return text


def _own(member: object) -> bool:
    """Whether it is a method or property of ours, with a docstring of its own."""
    made = member.fget if isinstance(member, property) else member
    module = getattr(made, "__module__", None) or ""
    return (isinstance(member, property) or inspect.isroutine(member)) and module.split(".")[0] in ROOMS


ROOMS = {"protocol", "curator_node", "learner_node", "simulations", "expril"}


QUALIFIED = re.compile(r"\b(?:[a-z_][\w]*\.)+(?=[A-Za-z])|<class '|'>")
"""What stands before a type's own name."""


def _signature(name: str, thing: object) -> str:
    try:
        told = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    shown = f"{name}{told}"
    if len(shown) > 100:
        parameters = "".join(f"    {each},\n" for each in told.parameters.values())
        back = str(told.replace(parameters=())).removeprefix("()")
        shown = f"{name}(\n{parameters}){back}"
    return f"```python\n{QUALIFIED.sub('', shown)}\n```\n\n"


def prose(docstring: str) -> str:
    """A docstring in Google's form as Markdown: the names of a section become a list."""
    lines, inside = [], False
    for line in docstring.replace("\b", "").replace("\f", "").splitlines():
        if found := SECTION.match(line):
            inside = True
            lines += ["", f"**{found[1]}**", ""]
        elif inside and line.strip() and not line.startswith(" "):
            inside = False
            lines += ["", line]
        elif inside and (item := re.match(r"^    (\*{0,2}\w[\w.]*)( \([^)]*\))?: (.*)", line)):
            lines.append(f"* `{item[1]}`: {item[3]}")
        elif inside:
            lines.append("  " + line.strip() if line.strip() else "")
        else:
            lines.append(line)
    spans = "\n".join(lines).split("`")
    return linked("`".join(span if number % 2 else span.replace("<", "&lt;") for number, span in enumerate(spans)))


GENERATED = {"refusals": refusals, "commands": commands, "keys": keys, "python": python}


def insert(_app: "Sphinx", _docname: str, source: list[str]) -> None:
    """Put what a page asks for in its place; a name that there is not fails."""
    source[0] = re.sub(r"<!-- from the program: (\w+) -->", lambda found: GENERATED[found[1]](), source[0])


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect."""
    app.connect("source-read", insert)
    app.connect(
        "env-get-outdated", lambda *_: [f"reference/{name}" for name in GENERATED]
    )  # the program may have changed
    return {"parallel_read_safe": True}
