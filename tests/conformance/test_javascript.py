"""The learner in JavaScript asks a real curator, and verifies the curator's ledger."""

import json
import re
import shutil
import time
from fractions import Fraction
from pathlib import Path

import pytest

from curator_fakes import frame_of, steward_file, toml
from curator_node.daemon.folder import answer_folder
from curator_node.ledger.exports import export_ledger
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SCHEMA
from curator_node.site import POLICY, open_site
from curator_node.steward.new_site import init_site
from expril_conformance import wire
from expril_conformance.example import AGE, LEARNER, POSITIVE, SEX, planned, records
from expril_conformance.program import Program

JAVASCRIPT = Path(__file__).resolve().parents[2] / "conformance" / "javascript"
NODE = shutil.which("node")
QUERIES = [
    (planned("mass", 2, 4), {"partitions": [AGE, SEX], "hypothesis": None}),
    (planned("class_counts", 1, 4), {"partitions": [AGE], "hypothesis": None}),
    (planned("error_correct", 1, 4), {"partitions": [SEX], "hypothesis": POSITIVE}),
]
COST = Fraction(2, 4) + Fraction(1, 4) + Fraction(1, 4)


def test_it_is_short_and_needs_node_alone():
    lines = [line.strip() for path in JAVASCRIPT.glob("*.mjs") for line in path.read_text().splitlines()]
    code = [line for line in lines if line and not line.startswith(("//", "/*", "*"))]
    assert 0 < len(code) <= 600
    imports = re.findall(r" from '(.*?)'", "\n".join(lines))
    assert all(name.startswith(("./", "node:")) for name in imports)


@pytest.fixture
def curator(tmp_path):
    """A site of the suite's records."""
    folder = tmp_path / "basel"
    init_site(folder, "basel")
    learner = LearnerPolicy(name="ann", key=LEARNER.public.hex(), cap=2)
    (folder / POLICY).write_text(toml(Policy(name="basel", cap=3, learners=(learner,))))
    (folder / SCHEMA).write_text(toml(steward_file(round_size=1000)))
    frame_of([("p", age, 0.0, sex, sick) for age, sex, sick in records()]).write_parquet(folder / "records.parquet")
    with open_site(folder) as opened:
        yield opened


def study(folder, curator, name, newest_receipt=""):
    """The file that tells the learner what to ask."""
    folder.mkdir()
    told = {
        "seed": LEARNER.seed.hex(),
        "study": name.hex(),
        "curator": curator.identity.hex(),
        "label": wire.LABEL,
        "lifetime": 600,
        "plan": wire.encode({"queries": [query for query, _ in QUERIES]}).hex(),
        "purpose": "counts by age and sex",
        "queries": [{"kind": "counts", "body": wire.encode(body).hex()} for _, body in QUERIES],
        "newest_receipt": newest_receipt,
    }
    (folder / "study.json").write_text(json.dumps(told))


def ask(program, folder, curator):
    """Trips of the folder until the study is closed; what the learner said last."""
    for _ in range(2 * len(QUERIES) + 4):
        status = program.ask("step", folder=str(folder), now=int(time.time()))
        assert not status["refused"], status["why"]
        if not status["waits"]:
            return status
        list(answer_folder(folder, curator))
    raise AssertionError(status)


def heads_of(folder, curator):
    """What the receipts of a study say: the head of the ledger, by request."""
    replies = [wire.opened(path.read_bytes(), curator.identity) for path in folder.glob("*/replies/*.envelope")]
    found = [wire.opened(reply.fields["receipt"], curator.identity).fields for reply in replies if reply.type != "card"]
    return {receipt["request"]: receipt["ledger_head"] for receipt in found}


def entries_of(export):
    """The hashes of a ledger's entries that have an effect, by request."""
    pairs = [pair for _, pairs in wire.decode(export)["blocks"] for pair in wire.decode(pairs)]
    entries = [(wire.decode(body), wire.digest(b"expril/2 ledger entry" + body)) for body, _ in pairs]
    return {entry["request"]: head for entry, head in entries if entry["kind"] in ("reserve", "charge", "close")}


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not installed: apt-get install nodejs")
def test_a_study_and_the_ledger_that_it_left(curator, tmp_path):
    program = Program(f"{NODE} {JAVASCRIPT / 'learner-under-test.mjs'}")
    key = curator.identity.hex()
    try:
        study(tmp_path / "first", curator, b"a first study...")
        first = ask(program, tmp_path / "first", curator)
        study(tmp_path / "second", curator, b"a second study..", first["newest_receipt"])
        second = ask(program, tmp_path / "second", curator)
        data = export_ledger(curator.ledger.store)
        export = program.ask("read", read="export", given={"bytes": data.hex(), "curator": key})["taken"]
    finally:
        program.stop()
    for status in (first, second):
        assert (status["state"], status["claimed"], status["spent"]) == ("closed", str(COST), str(COST))
        assert [len(numbers) for numbers in status["answers"]] == [8, 8, 8]
    account = curator.export().account
    assert (export["entries"], export["head"]) == (account.next_index, account.head.hex())
    assert export["total"] == str(account.total_spent) == str(2 * COST)
    assert export["spent"] == {LEARNER.public.hex(): str(2 * COST)}
    assert heads_of(tmp_path / "first", curator) | heads_of(tmp_path / "second", curator) == entries_of(data)
