"""The commands of a steward about learners, their keys and their studies; and about the curator's own card and key."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from expril.commands.identity_cards import DAY, Contact, Days, Organisation, Out, drafted, hand_out, read_card
from expril.commands.steward.site import Folder, curator_app
from expril.commands.terminal import Json, plain_errors, print_json, print_table
from expril.report.table import text_table
from protocol.errors import ConfigurationError, printable

if TYPE_CHECKING:
    from curator_node.policy import EnrolledKey
    from curator_node.records.schema_file import SchemaFile
    from curator_node.steward.desk import Desk
    from protocol.identity import IdentityCard
    from protocol.query_kind import Kinds

_FACTORS = (
    "By these factors a study's answers may change the odds of what anybody believes of one patient, or whatever is "
    "protected: whether it is among the records; of one that is known to be, its label; anything else about it."
)
screen = Console()
LedgerOption = Annotated[str, typer.Option("--ledger", help="A SQLite ledger, or a database's URL. [the site's own]")]
Overlap = Annotated[int, typer.Option(help="Days for which the old key is answered, too.", min=0, max=366)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Study = Annotated[str, typer.Argument(help="First digits of the study's identity.")]


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


@curator_app.command("enrol")
def curator_enrol(
    folder: Folder,
    card: Annotated[Path, typer.Argument(help="The learner's card.")],
    cap: Annotated[str, typer.Option(help="Most epsilon that it may ever spend here, such as 1 or 3/10.")] = "",
    name: Annotated[str, typer.Option(help="The learner's name here, for ever. [the one on the card]")] = "",
    fingerprint: Annotated[str, typer.Option(help="The fingerprint as the holder read it out. [asked for]")] = "",
    overlap: Overlap = 30,
    add: Annotated[
        bool, typer.Option("--add", help="Add a key to an enrolled learner, for which no old key vouches.")
    ] = False,
    ledger: LedgerOption = "",
) -> None:
    """Let a learner ask, once its fingerprint is compared. Its budget belongs to its name, whatever its keys."""
    with plain_errors():
        from curator_node.steward.desk import open_desk
        from curator_node.steward.enrolment import plan_enrolment
        from protocol.identity import compare_fingerprints, same_fingerprint

        identity, now = read_card(card), int(time.time())
        _tell(("card", _described(identity)), ("fingerprint", identity.fingerprint))
        planned = plan_enrolment(folder, identity, now=now, name=name, cap=cap, overlap=overlap * DAY, add=add)
        with open_desk(folder, ledger) as desk:
            spent = desk.ledger.account.spent_by(identity.key, planned.learner.name)
            _tell(
                ("enrolled as", planned.learner.name),
                ("cap", f"{planned.learner.cap}, of which {spent} is spent"),
                ("it may", _may_learn(desk, planned.learner.cap)),
                ("old key", f"may sign until {planned.ends.until:%Y-%m-%d %H:%M} UTC" if planned.ends else ""),
            )
            spoken = fingerprint or typer.prompt("fingerprint, as its holder reads it out to you")
            sys.stdout.write(compare_fingerprints(spoken, identity.fingerprint))
            if not same_fingerprint(spoken, identity.fingerprint):
                raise ConfigurationError(
                    "that is another fingerprint: have it read out once more, and if it stays so, the card is not its "
                    "holder's; nothing was changed"
                )
            desk.ledger.enrol(identity.key, planned.learner.name, now)
            written = planned.write()
        sys.stdout.write(f"{written}\n")


@curator_app.command("revoke")
def curator_revoke(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The learner's name.")],
    key: Annotated[str, typer.Option(help="First digits of a public key. [all of its keys]")] = "",
) -> None:
    """Revoke a learner's keys: messages signed with them are a stranger's. What was spent stays spent."""
    with plain_errors():
        from curator_node.steward.enrolment import revoke

        ended = revoke(folder, name, now=int(time.time()), key=key)
        sys.stdout.write("".join(f"revoked {key_hex}\n" for key_hex in ended) or "revoked before\n")


@curator_app.command("rotate")
def curator_rotate(
    folder: Folder,
    overlap: Overlap = 30,
    leaked: Annotated[
        bool, typer.Option("--leaked", help="Somebody else may have the old key; it is answered no more.")
    ] = False,
    ledger: LedgerOption = "",
    mark: Annotated[Path | None, typer.Option(help="The mark of the serving process. [the site's own]")] = None,
) -> None:
    """Give the curator a new key, under which its ledger goes on. Stop the serving process first.

    After a crash the same command finishes the work.
    """
    with plain_errors(on_interrupt="what was begun is ended by the same command"):
        from curator_node.steward.desk import places_of
        from curator_node.steward.keyring import rotate

        where, own_mark = places_of(folder, ledger, mark)
        now = int(time.time())
        public = rotate(folder, now=now, overlap=overlap * DAY, leaked=leaked, ledger=where, mark=own_mark)
        sys.stdout.write(f"curator {public.hex()}\n")


@curator_app.command("learners")
def curator_learners(folder: Folder, ledger: LedgerOption = "") -> None:
    """Show who may ask: caps, what is spent and left, and every key with its fingerprint."""
    with plain_errors():
        from curator_node.budgets import standing_of
        from curator_node.policy import EnrolledLearner
        from curator_node.steward.desk import open_desk
        from protocol.identity import fingerprint
        from protocol.rationals import written

        with open_desk(folder, ledger) as desk:
            standing, now = standing_of(desk.ledger.account, desk.policy), int(time.time())
        rows, listed = [], set()
        for key, learner in desk.policy.keys.items():
            budget = standing.learners[learner.name]
            sums = (learner.name, *map(written, (budget.cap, budget.spent, budget.reserved, budget.left)))
            entries = learner.keys if isinstance(learner, EnrolledLearner) else ()
            entry = next((enrolled for enrolled in entries if enrolled.key == key.hex()), None)
            row = ("",) * len(sums) if learner.name in listed else sums
            rows.append((*row, fingerprint("learner", key), _may_sign(entry, now)))
            listed.add(learner.name)
        headings = ("learner", "cap", "spent", "set aside", "left", "fingerprint of its key", "may sign")
        print_table(text_table("", headings, rows))


def _may_sign(entry: "EnrolledKey | None", now: int) -> str:
    if entry is None:
        return "yes"
    if entry.revoked:
        return f"no: revoked {entry.revoked:%Y-%m-%d}"
    if entry.until and not entry.valid(now):
        return f"no: until {entry.until:%Y-%m-%d}" if entry.until.timestamp() <= now else "not yet"
    return f"until {entry.until:%Y-%m-%d}" if entry.until else "yes"


@curator_app.command("studies")
def curator_studies(folder: Folder, ledger: LedgerOption = "", json_: Json = False) -> None:
    """Show the studies that wait for the steward's decision, if the policy has approval = "manual"."""
    with plain_errors():
        from curator_node.steward.approval import as_object, readable, waiting_proposals
        from curator_node.steward.desk import open_desk
        from curator_node.steward.exposure import factors_of
        from protocol.rationals import written

        with open_desk(folder, ledger) as desk:
            now = int(time.time())
            proposals = waiting_proposals(desk.ledger, desk.policy, now)
            if json_:
                kinds, steward = _terms(desk)
                summaries = [as_object(proposal, desk.ledger, desk.policy, steward, kinds) for proposal in proposals]
                print_json({"studies": summaries})
                return
            rows = []
            for proposal in proposals:
                kinds, steward = _terms(desk)
                when = (_utc(at) for at in (proposal.pending.received_at, proposal.pending.expires_at))
                cost, unreadable = readable(proposal, kinds, steward)
                terms = ["?"] * 4
                if not unreadable:
                    terms = [written(cost), *factors_of(kinds.plan_odds(proposal.message.plan, steward.protected))]
                study, purpose = proposal.message.study.hex()[:8], printable(proposal.message.purpose)
                rows.append((study, proposal.name or "?", *when, *terms, purpose))
        times, factors = ("since (UTC)", "until (UTC)"), ("is it there", "its label", "the rest")
        headings = ("study", "learner", *times, "epsilon", *factors, "purpose")
        if rows:
            print_table(text_table("", headings, rows, wraps=["purpose"], note=_FACTORS))
        else:
            sys.stdout.write("no study waits\n")


@curator_app.command("approve")
def curator_approve(
    folder: Folder,
    study: Study,
    yes: Yes = False,
    note: Annotated[str, typer.Option(help="Kept in the ledger, never sent.")] = "",
    ledger: LedgerOption = "",
) -> None:
    """Approve a study, after reading in plain words who asks, why, what, and at what cost."""
    with plain_errors():
        _decide(folder, study, approve=True, yes=yes, note=note, ledger=ledger)


@curator_app.command("decline")
def curator_decline(
    folder: Folder,
    study: Study,
    reason: Annotated[str, typer.Option(help="Kept in the ledger, never sent; tell the learner yourself.")],
    yes: Yes = False,
    ledger: LedgerOption = "",
) -> None:
    """Decline a study for good; its learner may propose another."""
    with plain_errors():
        _decide(folder, study, approve=False, yes=yes, note=reason, ledger=ledger)


def _decide(folder: Path, study: str, *, approve: bool, yes: bool, note: str, ledger: str) -> None:
    from curator_node.steward.approval import find_proposal, readable, summary, waiting_proposals
    from curator_node.steward.desk import open_desk

    with open_desk(folder, ledger) as desk:
        now = int(time.time())
        proposal = find_proposal(waiting_proposals(desk.ledger, desk.policy, now), study)
        kinds, steward = _terms(desk)
        cost, why = readable(proposal, kinds, steward)
        if approve and why:
            raise ConfigurationError(why)
        _tell(*([("asks", why)] if why else summary(proposal, desk.ledger, desk.policy, steward, kinds)))
        word = "approve" if approve else "decline"
        if not yes and not typer.confirm(f"{word} this study?"):
            sys.stdout.write("nothing was decided\n")
            return
        desk.ledger.decide_on(
            proposal.key,
            proposal.pending.request,
            now,
            approve=approve,
            cost=cost,
            until=now + desk.policy.approval_seconds,
            note=note,
        )
        if not approve:
            desk.ledger.store.release(proposal.pending.request)
    sys.stdout.write(f"{word}d\n")


def _terms(desk: "Desk") -> "tuple[Kinds, SchemaFile]":
    """The query kinds that the curator can answer, and the site's schema file."""
    from curator_node.plug_ins import kinds_of
    from curator_node.records.schema_file import SCHEMA, read_schema_file
    from expril.files import read_text_file

    path = desk.folder / SCHEMA
    return kinds_of(desk.policy), read_schema_file(read_text_file(path, "schema file"), where=str(path))


def _may_learn(desk: "Desk", cap: object) -> str:
    """The odds that a learner's whole budget may change, in words; "" if the schema is not written yet."""
    from curator_node.steward.exposure import most_odds
    from protocol.odds import at_most
    from protocol.rationals import parse_rational

    try:
        kinds, steward = _terms(desk)
    except ConfigurationError:
        return ""
    unit = steward.protected
    change = at_most(parse_rational(str(cap)), most_odds(desk.policy, unit, kinds), unit)
    return f"change {change}, by all its answers together"


def _described(card: "IdentityCard") -> str:
    end = f"until {_utc(card.until)}" if card.until else "without an end"
    holder = ", ".join(text for text in (card.name, card.organisation, card.contact) if text)
    return f"{holder}; issued {_utc(card.issued)}, valid {end}"


def _tell(*lines: tuple[str, str]) -> None:
    for label, text in lines:
        if text:
            screen.print(f"{label:<12} {escape(text)}", highlight=False, soft_wrap=True)


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
