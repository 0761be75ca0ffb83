"""What the commands of learners and stewards share on identity cards: options, drafts, files."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import err

if TYPE_CHECKING:
    from protocol.identity import IdentityCard, Role

DAY = 86_400
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The file to make. [standard output]")]
Name = Annotated[str, typer.Option(help="The holder's name, as the other side will read it.")]
Organisation = Annotated[str, typer.Option(help="The holder's organisation.")]
Contact = Annotated[str, typer.Option(help="How to reach the holder.")]
Days = Annotated[int, typer.Option(help="Days for which the card is valid; 0 for no end.", min=0, max=36_600)]


def drafted(role: "Role", name: str, organisation: str, contact: str, key: bytes, valid_days: int) -> "IdentityCard":
    """A card of these texts; ConfigurationError names the option whose text a card cannot hold."""
    from protocol.identity import MOST_NAME, IdentityCard, check_said

    check_said("--name", name, least=1, most=MOST_NAME)
    check_said("--organisation", organisation)
    check_said("--contact", contact)
    now = int(time.time())
    return IdentityCard(
        role=role,
        name=name,
        organisation=organisation,
        contact=contact,
        key=key,
        issued=now,
        until=now + valid_days * DAY if valid_days else 0,
    )


def read_card(path: Path) -> "IdentityCard":
    """The card in a file; ConfigurationError if the file holds none."""
    from expril.files import read_text_file
    from protocol.identity import read_identity

    return read_identity(read_text_file(path, "card file", remedy="ask its holder for it"), where=str(path))


def hand_out(card: "IdentityCard", text: str, out: Path | None) -> None:
    """Write the card to a file or to standard output, and its fingerprint to standard error."""
    if out is None:
        sys.stdout.write(text)
    else:
        from expril.files import write_new

        write_new(out, text.encode(), rule="a card is never overwritten", public=True)
    err.print(f"fingerprint {card.fingerprint}", highlight=False, soft_wrap=True)
