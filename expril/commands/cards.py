"""The commands that make identity cards, by which a learner and a curator know each other."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.learner import learner_app
from expril.commands.steward.site import Folder, curator_app
from expril.commands.terminal import err, plain_errors
from protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from protocol.identity import IdentityCard, Role

DAY = 86_400
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The file to make. [standard output]")]
Name = Annotated[str, typer.Option(help="The holder's name, as the other side will read it.")]
Organisation = Annotated[str, typer.Option(help="The holder's organisation.")]
Contact = Annotated[str, typer.Option(help="How to reach the holder.")]
Days = Annotated[int, typer.Option(help="Days for which the card is valid; 0 for no end.", min=0, max=36_600)]


@learner_app.command("card")
def learner_card(
    key: Annotated[Path, typer.Argument(help="The learner's private key (PEM); expril keys makes one.")],
    name: Name,
    organisation: Organisation = "",
    contact: Contact = "",
    valid_days: Days = 0,
    out: Out = None,
) -> None:
    """Make the card that a curator enrols, a signed text to mail, and print the fingerprint to read out."""
    with plain_errors():
        from curator_node.key_files import read_key
        from protocol.identity import write_identity

        signing_key = read_key(key)
        card = drafted("learner", name, organisation, contact, signing_key.public, valid_days)
        hand_out(card, write_identity(card, signing_key), out)


@learner_app.command("rotate")
def learner_rotate(
    key: Annotated[Path, typer.Argument(help="The old private key (PEM); the file stays as it is.")],
    new: Annotated[Path, typer.Argument(help="Where to write the new private key (PEM).")],
    card: Annotated[Path, typer.Option(help="The card of the old key.")],
    valid_days: Days = 0,
    out: Out = None,
) -> None:
    """Make a new key, and a card in which the old key vouches for it. Not after the old key leaked."""
    with plain_errors(on_interrupt="a new key that was written stays; remove it before you try again"):
        import msgspec

        from curator_node.key_files import read_key, write_key
        from protocol.identity import MOST_SUCCESSIONS, succession, write_identity

        old_key, old_card, now = read_key(key), read_card(card), int(time.time())
        if old_card.key != old_key.public or old_card.role != "learner":
            raise ConfigurationError(f"{card} is not the card of the learner's key {key}")
        write_key(new)
        new_key = read_key(new)
        chain = (*old_card.successions, succession(old_key, new_key.public, "learner", now))[-MOST_SUCCESSIONS:]
        until = now + valid_days * DAY if valid_days else 0
        new_card = msgspec.structs.replace(old_card, key=new_key.public, issued=now, until=until, successions=chain)
        hand_out(new_card, write_identity(new_card, new_key), out)


@curator_app.command("card")
def curator_card(
    folder: Folder,
    name: Annotated[str, typer.Option(help="The curator's name. [the policy's]")] = "",
    organisation: Organisation = "",
    contact: Contact = "",
    valid_days: Days = 0,
    out: Out = None,
) -> None:
    """Make the card that learners pin, for which former keys vouch, and print the fingerprint to read out."""
    with plain_errors():
        from curator_node.steward import keyring
        from curator_node.steward.enrolment import read_policy_of
        from protocol.identity import write_identity

        named = name or read_policy_of(folder, kinds=None).name
        draft = drafted("curator", named, organisation, contact, bytes(32), valid_days)
        card, signing_key = keyring.curator_card(folder, draft)
        hand_out(card, write_identity(card, signing_key), out)


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
