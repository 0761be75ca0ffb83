"""The command of a curator that accepts no connection: `expril curator answer`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import Json, plain_errors, print_json


def curator_answer(
    folder: Annotated[Path, typer.Argument(help="The folder that requests came in.")],
    site: Annotated[Path, typer.Option(help="The site's folder.")],
    mark: Annotated[
        Path | None, typer.Option(help="This command's own mark, where a daemon serves from the same ledger.")
    ] = None,
    json_: Json = False,
) -> None:
    """Answer every request in a folder that has no reply yet; replies lie beside the requests, to be brought back.

    A request is answered once; a steward's refusal that may pass is looked at anew. What is no request is named and
    left alone. Exit status: 0, or 2 where the site cannot be opened or the folder holds nothing for it.
    """
    with plain_errors(kept="the ledger and the folder hold what was answered; the same command goes on"):
        from dataclasses import asdict

        from curator_node.daemon.settings import DAEMON, inside, ledger_of, read_settings
        from curator_node.enrolment import check_written

        settings = read_settings(site) if (site / DAEMON).is_file() else None
        if site.is_dir():
            check_written(site)
        from curator_node.folder import answer_folder
        from curator_node.site import open_site

        ledger = None if settings is None else ledger_of(settings)
        mark = mark or (None if settings is None else inside(site, settings.mark))
        with open_site(site, ledger=ledger, mark=mark) as opened:
            told = []
            for each in answer_folder(folder, opened):
                told.append(asdict(each))
                if not json_:
                    limit = f" ({each.limit})" if each.limit else ""
                    sys.stdout.write(f"{each.what:<9} {each.file[:16]} {each.why}{limit}\n")
        if json_:
            print_json({"files": told})
        elif not told:
            sys.stdout.write("nothing new\n")
