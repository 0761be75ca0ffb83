"""The checklist as a page, and the few lines that a stranger reads first."""

from itertools import groupby

from expril.audit.package.checklist import BLOCKS, OUTSIDE, ROWS, Row
from expril.report.document import Document, Section, Text
from expril.report.numbers import count
from expril.report.table import Cell, Column, Table

README = """\
What this is: a claim of differential privacy with all that proves it. To check it takes no data and no network,
and the check says what still rests on somebody's word.

Check it on any machine with ExPriL and its extras "simulations" and "audit":

    expril audit check-package THIS_FOLDER --key KEY

KEY is the packager's public key, from elsewhere than this folder: {key}

deployment.yaml    the entry for a registry of deployments: who, what, epsilon
checklist.html     what an evaluator asks (NIST SP 800-226), and where each answer is proven
audit.html         the attack on every release, for people; audit.json for machines
exact.json         losses of the releases, by enumeration
false-alarms.json  how often the attack accuses correct software, measured
ledger.json        what each curator spent, recomputed; claim.json the claim itself
facts.json         what only people know, in their words
evidence/          signed messages and ledger exports, from which ledger.json is recomputed
manifest.json      hashes of all files; manifest.sig its signature
"""


def checklist_document() -> Document:
    """The checklist: a section for each block of the pyramid, and of each question where it is proven."""
    rows = sorted(ROWS, key=lambda row: -BLOCKS.index(row.block))
    outside = sum(row.proof == OUTSIDE for row in ROWS)
    columns: list[Column[Row]] = [
        Column("question", lambda row: row.question, names=True),
        Column("answer", lambda row: row.answer),
        Column("proven by", lambda row: Cell("outside", tone="warn") if row.proof == OUTSIDE else row.proof),
    ]
    reading = (
        "Each block of the pyramid is worth no more than those below it: a small epsilon protects nobody whose records "
        "are on an open disk. tests/…::name is a test, and docs/…#section a text, of the version of ExPriL that the "
        "manifest names. “Outside” is for whoever runs the deployment."
    )
    return Document(
        kind="ExPriL claim package",
        subject="Checklist",
        headline="What an evaluator asks, and where it is proven",
        summary=(
            f"{count(len(ROWS), 'question')} along the pyramid of NIST SP 800-226, from its top down.",
            f"{len(ROWS) - outside} lead to a test or a proof, {outside} are outside of what software can answer.",
        ),
        sections=[
            *(
                Section(block, [Table.of(block, columns, list(group))])
                for block, group in groupby(rows, key=lambda row: row.block)
            ),
            Section("How to read this", [Text(reading)]),
        ],
    )


def readme(key: str) -> str:
    """`README.txt` of a package.

    Args:
        key: the packager's public key, hexadecimal.
    """
    return README.format(key=key)
