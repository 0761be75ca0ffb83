"""The commands of a steward who runs a curator: `expril curator ...`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.terminal import plain_errors

Folder = Annotated[Path, typer.Argument(help="The site's folder.")]

curator_app = typer.Typer(no_args_is_help=True, help="A curator's daemon: prepare, check, serve, look at.")


@curator_app.command("init")
def curator_init(
    folder: Folder,
    name: Annotated[str, typer.Option(help="The curator's name, as its card shows it.")],
    superlink: Annotated[str, typer.Option(help='The SuperLink, "host:port".')] = "",
    ca: Annotated[Path | None, typer.Option(help="Certificate of the authority that certifies it (PEM).")] = None,
    schema: Annotated[Path | None, typer.Option(help="A schema file; without one, a template is written.")] = None,
) -> None:
    """Make a site's folder: keys, ledger, mark, and the steward's files. Never overwrites anything."""
    with plain_errors(kept="what was made so far is kept; remove it before you try again"):
        from curator_node.new_site import init_site

        made = init_site(folder, name, superlink=superlink, ca=ca, schema=schema)
        steps = "".join(f"  {number}. {step}\n" for number, step in enumerate(made.todo, start=1))
        sys.stdout.write(
            f"curator {made.identity.hex()}\n"
            f"  this public key says who signs; learners ask for it, check it by telephone\n"
            f"node    {made.node}\n"
            f"  this public key only lets the daemon fetch messages from the SuperLink\n"
            f"next\n{steps}"
        )


@curator_app.command("serve")
def curator_serve(
    folder: Folder,
    superlink: Annotated[str | None, typer.Option(help='Another SuperLink than in daemon.toml, "host:port".')] = None,
    ca: Annotated[Path | None, typer.Option(help="Certificate of its authority (PEM).")] = None,
    health_port: Annotated[int | None, typer.Option(help="Port of the health page, on this machine alone.")] = None,
) -> None:
    """Serve until SIGTERM; SIGHUP reads policy and learners anew. One line of JSON an event on standard error."""
    with plain_errors(kept="the ledger holds what was answered"):
        from curator_node.daemon.process import serve
        from curator_node.daemon.settings import read_settings

        changes = {"superlink": superlink, "ca": None if ca is None else str(ca.resolve()), "health_port": health_port}
        serve(folder, read_settings(folder, changes))
