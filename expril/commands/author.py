"""The commands of an author of extensions: query kinds, partitions and strategies in a package of their own.

They stand apart from those of researchers, since they need Hypothesis, which no other command does.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import Json, bars, exit_unless, plain_errors, print_json


def conformance(
    kind: Annotated[str, typer.Argument(help="A query kind, ours or an installed package's.", metavar="KIND")],
    write_vectors: Annotated[
        Path | None, typer.Option(help="Only write the kind's bytes, as they are now, into this file.")
    ] = None,
    json_: Json = False,
) -> None:
    """Ask a query kind for all that it owes: one line for each duty, with what to do where it is not kept.

    Exit status: 0 all is kept; 1 a duty is broken or was not given; 2 there is no such kind.
    """
    with plain_errors(part="simulations"):
        from expril.audit.contract.subjects import kind_subject

        subject = kind_subject(kind)
        from expril.audit.contract.duties import judge
        from expril.audit.contract.kinds import DUTIES
        from expril.audit.contract.vectors import vectors_of

        if write_vectors is not None:
            from expril.files import write_new

            text = vectors_of(subject.answerer, subject.examples)
            write_new(write_vectors, text.encode(), rule="pinned bytes are never overwritten", public=True)
            return
        verdicts = []
        with bars(json_) as tick:
            for number, duty in enumerate(DUTIES):
                tick(duty.name, number, len(DUTIES))
                verdicts.append(judge(duty, subject, subject.audit.excuses))
        if json_:
            print_json(
                {
                    "kind": kind,
                    "kept": all(verdict.kept for verdict in verdicts),
                    "duties": [
                        {"duty": verdict.duty, "status": verdict.status, "text": verdict.text} for verdict in verdicts
                    ],
                }
            )
        else:
            sys.stdout.write("".join(f"{verdict.line}\n" for verdict in verdicts))
        exit_unless(all(verdict.kept for verdict in verdicts))


def new(
    sort: Annotated[
        str,
        typer.Argument(help="What the package adds: kind, partition or strategy.", metavar="kind|partition|strategy"),
    ],
    name: Annotated[str, typer.Argument(help="Its name on the wire, or in study files.", metavar="NAME")],
    out: Annotated[Path | None, typer.Option(help="The folder to make. [expril-NAME]")] = None,
) -> None:
    """Write an installable package of a new query kind, partition or strategy, with tests that call the contract.

    Its tests pass once its one function is filled in; until then they say which.

    Exit status: 0 it was written; 2 the name is none or is in use, or a file is there already.
    """
    with plain_errors():
        from expril.audit.contract.new_packages import write_package

        folder = out or Path(f"expril-{name.replace('_', '-')}")
        files = write_package(sort, name, folder)
        sys.stdout.write("".join(f"{path}\n" for path in files))
