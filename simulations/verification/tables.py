"""What an audit found, as tables for the terminal."""

import math
from collections import Counter

from rich import box
from rich.markup import escape
from rich.table import Table

from protocol.errors import printable
from protocol.rationals import shorten
from simulations.verification.verdicts import RunProof

PROOF_WIDTH = 120
"""Columns that these tables need."""


def proof_tables(proof: RunProof) -> list[Table]:
    """What each transcript and each ledger of a run proves, under which curator's key, and how many do."""
    counted = Counter(item.verdict for item in proof.transcripts)
    caption = f"{len(proof.transcripts)} transcripts: " + ", ".join(
        f"{count} {what}" for what, count in counted.items()
    )
    transcripts = Table(title=escape(str(proof.folder)), box=box.SIMPLE_HEAD, caption=caption)
    for name in ("repeat", "learner", "curator", "key", "verdict", "claimed", "spent", "releases", "study", "ledger"):
        transcripts.add_column(name, no_wrap=True)
    keys = {} if proof.index is None else proof.index.keys()
    for item in proof.transcripts:
        told = ("", "", "", "")
        if item.proof is not None:
            spent = str(item.proof.epsilon_spent)
            if item.proof.epsilon_at_most != item.proof.epsilon_spent:
                spent += f" to {item.proof.epsilon_at_most}"
            told = (str(item.proof.epsilon_claimed), spent, str(item.proof.releases), str(item.proof.state))
        entry = item.entry
        key = keys.get(("curator", entry.curator, entry.repeat))
        names = (_plain(entry.learner), _plain(entry.curator), key.hex()[:8] if key else "?")
        transcripts.add_row(str(entry.repeat), *names, item.verdict, *told, item.ledger)
    ledgers = Table(box=box.SIMPLE_HEAD)
    for name in ("ledger", "key", "verdict", "entries", "spent over all learners"):
        ledgers.add_column(name, no_wrap=True)
    for kept in proof.ledgers:
        spent = "?" if kept.spent is None else str(shorten(kept.spent, math.ceil))
        ledgers.add_row(_plain(kept.entry.file), kept.entry.key[:8], kept.verdict, str(kept.entry.entries), spent)
    return [transcripts, ledgers] if proof.ledgers else [transcripts]


def _plain(name: str) -> str:
    return escape(printable(name))
