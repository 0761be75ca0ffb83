"""The pages of a package that are the same for every reader: its checklist, and the README."""

from collections.abc import Sequence
from itertools import groupby

from expril.audit.package.requirements import (
    HEALTH_DATA,
    MET,
    NOT_MET,
    OUTSIDE,
    PART,
    PYRAMID,
    PackageFacts,
    Row,
    health_data_rows,
    pyramid_rows,
)
from expril.report.document import Document, Section, Text
from expril.report.numbers import count
from expril.report.table import Cell, Column, Table, Tone

NIST, TEHDAS2 = "NIST SP 800-226", "TEHDAS2, milestone 7.4, appendix B (consultation draft)"
"""The sources of the two lists."""


def as_objects(facts: PackageFacts) -> list[dict[str, str]]:
    """Return the rows of both lists as plain JSON values, each with its source."""
    lists = ((NIST, pyramid_rows(facts)), (TEHDAS2, health_data_rows(facts)))
    return [{"source": source, **row._asdict()} for source, rows in lists for row in rows]


README = """\
What this is: a claim of differential privacy with all that proves it. To check it takes no data and no network,
and the check says what still rests on somebody's word.

Check it on any machine with ExPriL and its extras "simulations" and "audit":

    expril audit check-package THIS_FOLDER --key KEY

KEY is the packager's public key, from elsewhere than this folder: {key}

deployment.yaml    the entry for a registry of deployments: who, what, epsilon
checklist.html     what an evaluator asks (NIST SP 800-226, TEHDAS2), and how it is shown; checklist.json for machines
audit.html         the attack on every release, for people; audit.json for machines
exact.json         losses of the releases, by enumeration
false-alarms.json  how often the attack accuses correct software, measured
ledger.json        what each curator spent, recomputed; claim.json the claim itself
facts.json         what only people know, in their words
evidence/          signed messages and ledger exports, from which ledger.json is recomputed
manifest.json      hashes of all files; manifest.sig its signature
"""


def checklist_document(facts: PackageFacts) -> Document:
    """Make the checklist of a package: both lists, with a section for each block."""
    pyramid = sorted(pyramid_rows(facts), key=lambda row: -PYRAMID.index(row.block))
    health = sorted(health_data_rows(facts), key=lambda row: HEALTH_DATA.index(row.block))
    pyramid_reading = (
        "Each block of the pyramid is worth no more than those below it: a small epsilon protects nobody whose records "
        "are on an open disk."
    )
    health_reading = (
        "The identifiers are those of the consultation draft, and the questions are in our words. Requirements on "
        "organisations alone are left out, but for those of federated computing. No certification is claimed."
    )
    reading = (
        "A command shows what its row says, on the package or on a curator. docs/…#section is a text of the version of "
        "ExPriL that the manifest names. “Outside” is for whoever runs the deployment."
    )
    simulated = "The evidence is of a simulation: nobody's hospital was asked. " if facts.simulated else ""
    return Document(
        kind="ExPriL claim package",
        subject="Checklist",
        headline="What an evaluator asks, and how it is shown",
        summary=(
            f"{simulated}The answers are made from this package: {facts.spent}.",
            _summary("NIST SP 800-226", pyramid),
            _summary("the European Health Data Space (TEHDAS2)", health),
        ),
        sections=[
            Section("NIST SP 800-226, from the pyramid's top down", [Text(pyramid_reading)]),
            *_sections(pyramid),
            Section("Secure processing environments: TEHDAS2", [Text(health_reading)]),
            *_sections(health),
            Section("How to read this", [Text(reading)]),
        ],
    )


def _summary(source: str, rows: Sequence[Row]) -> str:
    counts = {status: sum(row.status == status for row in rows) for status in (MET, PART, NOT_MET, OUTSIDE)}
    parts = ", ".join(f"{number} {status}" for status, number in counts.items() if number)
    return f"{count(len(rows), 'question')} of {source}: {parts}."


def _sections(rows: Sequence[Row]) -> list[Section]:
    tones: dict[str, Tone] = {MET: "good", OUTSIDE: "", PART: "warn", NOT_MET: "bad"}
    columns: list[Column[Row]] = [
        Column(
            "question", lambda row: f"{row.identifier}: {row.question}" if row.identifier else row.question, names=True
        ),
        Column("status", lambda row: Cell(row.status, tone=tones[row.status])),
        Column("answer", lambda row: row.answer),
        Column("shown by", lambda row: row.proof or "–"),
    ]
    return [
        Section(block, [Table.of(block, columns, list(group))])
        for block, group in groupby(rows, key=lambda row: row.block)
    ]


def readme(key: str) -> str:
    """Return the text of a package's `README.txt`.

    `key`: the packager's public key, hexadecimal.
    """
    return README.format(key=key)
