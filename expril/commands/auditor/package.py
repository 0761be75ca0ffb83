"""The commands around claim packages: `expril audit package` and `expril audit check-package`."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.auditor import audit_app
from expril.commands.terminal import BAD, Json, bars, exit_unless, plain_errors, print_json, say, work_bar


@audit_app.command("package")
def audit_package(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs, exports of ledgers, SQLite ledgers.", metavar="RUN_OR_EXPORT..."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to make.")] = Path("claim"),
    key: Annotated[Path | None, typer.Option(help="Your private key (PEM), which signs the package.")] = None,
    facts: Annotated[Path | None, typer.Option(help="TOML of what only people know; --template writes one.")] = None,
    audit: Annotated[
        Path | None, typer.Option(help="audit.json of expril audit all. [played now, two minutes]")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The registry's deployments-schema.yaml, to hold the entry against.")
    ] = None,
    receipt: Annotated[list[Path] | None, typer.Option(help="A receipt to put in; may be repeated.")] = None,
    witnessed: Annotated[list[Path] | None, typer.Option(help="A head that a witness co-signed; likewise.")] = None,
    template: Annotated[Path | None, typer.Option(help="Write a template of the facts file there, and end.")] = None,
    json_: Json = False,
) -> None:
    """Put a claim into one signed folder, with all that proves it: registry entry, checklist, attack, losses, evidence.

    No record enters it, and nothing of a run's local/. Exit status: 0; 1 the audit in it did not pass; 2 the evidence
    does not prove its sums, a fact is missing, or a file is wrong: then nothing is written.
    """
    with plain_errors(part="simulations"):
        from protocol.errors import ConfigurationError

        if template is not None:
            from expril.audit.package.facts import TEMPLATE
            from expril.files import write_new

            write_new(template, TEMPLATE.encode(), rule="a file of facts is never overwritten", public=True)
            sys.stdout.write(f"{template}\n")
            return
        missing = [
            name
            for name, value in (("RUN_OR_EXPORT", paths), ("--key KEY.pem", key), ("--facts FACTS.toml", facts))
            if not value
        ]
        if not paths or key is None or facts is None:
            raise ConfigurationError(f"a package needs {', '.join(missing)}; facts: --template FACTS.toml writes one")
        from curator_node.key_files import read_key
        from expril.audit.attack.whole_audit import audit_everything
        from expril.audit.package.facts import read_facts
        from expril.audit.package.writer import write_package
        from expril.audit.results import read_result

        own, told, now = read_key(key), read_facts(facts), datetime.now(UTC).isoformat(timespec="seconds")
        if audit is None:
            with work_bar(json_) as work:
                result = audit_everything(tick=work), now
        else:
            result = read_result(audit)
        with bars(json_) as tick:
            written = write_package(
                paths,
                out,
                key=own,
                facts=told,
                audit=result,
                schema=schema,
                created=now,
                receipts=receipt or (),
                witnessed=witnessed or (),
                tick=tick,
            )
        if json_:
            print_json(written.as_object())
        else:
            sys.stdout.write(
                f"{written.folder}: epsilon {written.epsilon}, {written.files} files, signed by {own.public.hex()}\n"
            )
            if not written.validated:
                say("note", "deployment.yaml was not held against the registry's schema; --schema names it")
            say("unproven", *written.open)
        if not result[0].passed:
            say("note", "the audit in this package did not pass, and who checks it will see that")
        exit_unless(result[0].passed)


@audit_app.command("check-package")
def audit_check_package(
    folder: Annotated[Path, typer.Argument(help="A claim package.")],
    key: Annotated[str, typer.Option(help="The packager's public key, from elsewhere than the package.")] = "",
    keys: Annotated[
        Path | None, typer.Option(help="TOML with public keys from elsewhere: [curators] and [learners], name = key.")
    ] = None,
    json_: Json = False,
) -> None:
    """Check a claim package: offline, without data, without trust. Nothing is written.

    Every file is hashed, the signature checked, the evidence replayed, epsilon recomputed and held against
    deployment.yaml, the losses enumerated anew; and it is said what rests on whose word.

    Exit status: 0 all that can be checked fits; 1 something does not, and it is named; 2 there is no package.
    """
    with plain_errors(part="simulations"):
        from curator_node.ledger.view import public_key
        from expril.audit.package.checker import check_package
        from expril.audit.recompute import read_pins

        wanted = public_key(key, "--key").hex() if key else ""
        with bars(json_) as tick:
            found = check_package(folder, key=wanted, pins=None if keys is None else read_pins(keys), tick=tick)
        if json_:
            print_json(found.as_object())
        else:
            for text in found.holds:
                sys.stdout.write(f"holds  {text}\n")
            say("WRONG ", *found.wrong, style=BAD)
            say("rests ", *found.rests)
            epsilon = "" if found.epsilon is None else f"epsilon {found.epsilon}; "
            verdict = "something in this package does not fit" if found.wrong else "all that can be checked fits"
            sys.stdout.write(f"{epsilon}{verdict}\n")
        exit_unless(not found.wrong)
