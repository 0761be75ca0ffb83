"""ExPriL's curator under test: one JSON object per line in, one per line out; see conformance/README.md.

It is a program, so nothing imports it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from curator_node.ledger.exports import export_ledger
from curator_node.ledger.places import create_ledger_file, open_ledger_file
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import Site, assemble_site, hold_records
from expril_under_test.learner import serve
from protocol.envelopes import SigningKey
from protocol.limits import Limits
from protocol.schema import NumericAttribute

Json = Mapping[str, Any]
LEDGER = "curator.ledger"


class Sites:
    """The curators of all folders that were opened, and the time that each was told last."""

    def __init__(self) -> None:
        self._open: dict[str, Site] = {}
        self._now = 0

    def answer(self, line: Json) -> Json:
        """The answer to one line."""
        self._now = line.get("now", self._now)
        folder = line["folder"]
        match line["do"]:
            case "open":
                if folder in self._open:
                    self._open.pop(folder).close()
                self._open[folder] = self._site(Path(folder))
                return {"curator": self._open[folder].identity.hex()}
            case "handle":
                return {"reply": self._open[folder].handle(bytes.fromhex(line["request"])).hex()}
            case "export":
                store = self._open[folder].ledger.store
                return {"export": export_ledger(store).hex()}
        return {"unsupported": str(line["do"])}

    def _site(self, folder: Path) -> Site:
        settings = json.loads((folder / "site.json").read_text(encoding="utf-8"))
        key = SigningKey.from_seed(bytes.fromhex(settings["seed"]))
        described = settings["schema"] | {"round_size": settings["round_size"]}
        steward = msgspec.convert(described, SchemaFile)
        kinds = {name: {"release_kinds": settings["release_kinds"]} for name in settings["kinds"]}
        policy = Policy(
            name=settings["name"],
            cap=settings["cap"],
            learners=msgspec.convert(settings["learners"], tuple[LearnerPolicy, ...]),
            limits=Limits(kinds=kinds),
            message_seconds=settings["message_seconds"],
            reservation_seconds=settings["reservation_seconds"],
        )
        types = [
            (item.name, pl.Float64 if isinstance(item, NumericAttribute) else pl.String) for item in steward.attributes
        ]
        frame = pl.DataFrame(settings["records"], schema=[*types, (steward.label, pl.String)], orient="row")
        if not (folder / LEDGER).is_file():
            create_ledger_file(folder / LEDGER, key, now=self._now)
        ledger = open_ledger_file(folder / LEDGER, key)
        return assemble_site(
            hold_records(frame, steward, policy, key), policy, key=key, ledger=ledger, clock=lambda: self._now
        )


if __name__ == "__main__":
    serve(Sites().answer)
