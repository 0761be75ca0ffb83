"""The commands of a steward who writes a schema: `expril schema ...`.

They are apart from those of a curator's folder, since a schema is agreed on before there is one.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import Json, plain_errors, print_json, say

if TYPE_CHECKING:
    from curator_node.records.schema_draft import Draft

schema_app = typer.Typer(no_args_is_help=True, help="A schema file: draft it.")

MOST_NAMES = 8
"""Most names of columns in one line; the file names the others."""


@schema_app.command("draft")
def schema_draft(
    records: Annotated[Path, typer.Argument(help="The records: CSV, Parquet, or a database's source file (.toml).")],
    dictionary: Annotated[
        Path | None, typer.Option(help="The data dictionary: REDCap's, or a CSV with a row for each column.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column to learn. [as the dictionary says]")] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that names the patient, where one may have several records.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The records are public: read their values, for what is open otherwise.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The file to write; it is never overwritten.")] = Path("schema.toml"),
    json_: Json = False,
) -> None:
    """Draft a schema from the names of the columns and the data dictionary. No value is read, unless --public.

    What neither says is left as "?" in the file. A curator does not start before each of them is replaced.
    """
    with plain_errors():
        from curator_node.records.schema_draft import draft_schema
        from expril.files import write_new

        draft = draft_schema(records, dictionary, label=label, unit=unit, public=public)
        write_new(out, draft.text.encode(), rule="a schema is never overwritten; choose another --out", public=True)
        if json_:
            print_json(
                {
                    "file": str(out),
                    "columns": draft.columns,
                    "attributes": draft.attributes,
                    "need_kind": draft.need_kind,
                    "need_bounds": draft.need_bounds,
                    "need_levels": draft.need_levels,
                    "label_needs": draft.label_needs,
                    "label_note": draft.label_note,
                    "unit_note": draft.unit_note,
                    "left_out": draft.left_out,
                    "not_in_dictionary": draft.undocumented,
                    "not_in_records": draft.absent,
                    "not_used": draft.unused,
                }
            )
        else:
            _show(draft, out)


def _show(draft: "Draft", out: Path) -> None:
    open_ = {"bounds": draft.need_bounds, "levels": draft.need_levels, "a kind": draft.need_kind}
    needs = ", ".join(f"{len(names)} need{'s' * (len(names) == 1)} {need}" for need, names in open_.items())
    size = f"{_count(len(draft.attributes), 'attribute')} of {_count(draft.columns, 'column')}"
    sys.stdout.write(f"{out}: {size}; {needs}\n")
    if draft.label_needs:
        sys.stdout.write(f"{draft.label_needs}\n")
    if draft.finished:
        sys.stdout.write("nothing is open; read it through, as all but comments is published\n")
    else:
        sys.stdout.write('replace each "?" in it; expril curator check FOLDER names those left in a site\'s folder\n')
    for note in filter(None, (draft.label_note, draft.unit_note)):
        say("look", note)
    reasons = {name: reason for name, reason in draft.left_out.items() if name not in draft.undocumented}
    for reason in dict.fromkeys(reasons.values()):
        say("left out", f"{_names([name for name, why in reasons.items() if why == reason])}: {reason}")
    if draft.undocumented:
        say("left out", f"{_names(draft.undocumented)}: not in the dictionary")
    if draft.absent:
        say("look", f"in the dictionary, and not among the columns: {_names(draft.absent)}")
    if draft.unused:
        say("look", f"columns of the dictionary that were not used: {_names(draft.unused)}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _names(names: "tuple[str, ...] | list[str]") -> str:
    listed = ", ".join(names[:MOST_NAMES])
    return f"{listed} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else listed
