"""What a steward types to begin a schema; and SUPPORT2 from its dictionary to a curator and a simulation."""

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from test_schema_draft import fill

from command_line import run
from curator_node.records.schema_file import read_schema_file
from protocol.errors import ConfigurationError
from simulations.datasets.dataset import SCHEMAS
from simulations.datasets.files import DATA_DIRECTORY_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "steward" / "schema.md").read_text(encoding="utf-8")
HEADER = (
    ",age,death,sex,hospdead,slos,d.time,dzgroup,dzclass,num.co,edu,income,scoma,charges,totcst,totmcst,avtisst,race,sps,"
    "aps,surv2m,surv6m,hday,diabetes,dementia,ca,prg2m,prg6m,dnr,dnrday,meanbp,wblc,hrt,resp,temp,pafi,alb,bili,crea,sod,"
    "ph,glucose,bun,urine,adlp,adls,sfdm2,adlsc\n"
)
"""The first line of support2.csv, which is all that is read of it."""
BUILT_IN = {
    attribute["name"]: attribute
    for attribute in tomllib.loads((SCHEMAS / "support2.toml").read_text(encoding="utf-8"))["attributes"]
}
BOUNDS = {name: (a["lower"], a["upper"]) for name, a in BUILT_IN.items() if a["kind"] == "numeric" and name != "scoma"}
CODES = {
    "sex": ["female", "male"],
    "race": ["white", "black", "asian", "hispanic", "other"],
    "ca": ["no", "yes", "metastatic"],
    "income": BUILT_IN["income"]["levels"],
    "dzgroup": BUILT_IN["dzgroup"]["levels"],
}
"""Attribute -> its levels in the order of REDCap's codes, which begin at 1, or at 0 for sex and cancer."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "support2.csv").write_text(HEADER + "1,unreadable")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def joined(text):
    return " ".join(text.split())


def test_the_page_shows_what_the_command_does(here):
    command = next(block for block in blocks("sh") if "support2.csv" in block).split()
    done = run(*command[1:])
    output, refusal = blocks("text")
    assert joined(done.stdout + done.stderr) == joined(output)
    draft = (here / "schema.toml").read_text()
    assert draft.startswith(blocks("toml")[0])
    with pytest.raises(ConfigurationError) as caught:
        read_schema_file(draft)
    assert joined(f"error {caught.value}") == joined(refusal).replace("schema file schema.toml", "schema file")
    shown = blocks("csv")[0].splitlines()
    assert set(shown) <= set((ROOT / "docs" / "schema" / "dictionary.csv").read_text().splitlines())


def test_a_draft_is_never_written_over_another(here):
    run("schema", "draft", "support2.csv")
    before = (here / "schema.toml").read_bytes()
    assert "never overwritten" in run("schema", "draft", "support2.csv", "--label", "age", code=2).output
    assert (here / "schema.toml").read_bytes() == before
    assert "no folder nowhere" in run("schema", "draft", "support2.csv", "--out", "nowhere/s.toml", code=2).output


def test_for_machines_all_that_is_left_to_do_is_one_object(here):
    options = ("--dictionary", "docs/schema/dictionary.csv", "--json")
    done = json.loads(run("schema", "draft", "support2.csv", *options).stdout)
    assert done["need_bounds"] == list(BOUNDS)
    assert (done["need_levels"], done["need_kind"], done["label_needs"]) == ([], [], "")
    assert done["left_out"]["death"].startswith("of the role 'other'")
    wrong = json.loads(run("schema", "draft", "support2.csv", "--label", "dead", "--json", code=2).stdout)
    assert wrong["kind"] == "input"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.csv", None, "no file no.csv"),
        ("records.xlsx", "PK", "records are read from .csv or .parquet"),
        ("records.parquet", "a,b\n", "cannot be read as parquet"),
        ("source.toml", "url = 'sqlite:///no.db'\nquery = 'SELECT 1'\n", "no file"),
        ("source.toml", "url = 'sqlite:///no.db'\n", "query or query_file"),
    ],
)
def test_records_that_cannot_be_read_are_told_in_one_sentence(here, name, content, message):
    if content is not None:
        (here / name).write_text(content)
    assert message in run("schema", "draft", name, code=2).output


@pytest.mark.processes
def test_its_help_loads_no_library_of_tables():
    code = (
        "import sys; from expril.commands.app import app\n"
        "try: app(['schema', 'draft', '--help'], prog_name='expril')\n"
        "except SystemExit: print(sorted({'polars', 'numpy', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"


def redcap_rows(rows):
    """Rows of SUPPORT2 as REDCap would export them raw: codes, names without dots, its own columns."""
    for number, row in enumerate(rows, start=1):
        coded = {"record_id": number, "mrn": f"M{number}", "enrolled": "1990-01-01", "enrolment_complete": 2}
        for name in (*BUILT_IN, "hospdead"):
            text = row[name]
            if name in CODES and text:
                text = CODES[name].index(text) + (name not in ("sex", "ca"))
            coded[name.replace(".", "_")] = text
        yield coded


@pytest.fixture
def patients(here):
    """SUPPORT2's rows, each a dictionary of texts."""
    path = Path(os.environ.get(DATA_DIRECTORY_VARIABLE) or ROOT.parent / "shared" / "data") / "support2.csv"
    if not path.is_file():
        pytest.skip(f"set {DATA_DIRECTORY_VARIABLE} to a folder with support2.csv")
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert ",".join(rows[0]) + "\n" == HEADER
    return rows


def write_rows(path, rows):
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


SCENARIO = """\
title = "drafted"
repeats = 1
seed = 1
[data]
path = "records.csv"
schema = "schema.toml"
merge_label = { survived = ["0"], died = ["1"] }
[data.sites]
SITES
[[curators]]
name = "*"
[[learners]]
name = "ada"
options = { networks = false }
"""


@pytest.mark.parametrize("dictionary", ["dictionary.csv", "redcap.csv"])
def test_a_drafted_schema_with_bounds_opens_a_curator(here, patients, dictionary):
    """The network is not there; of schema and records there is nothing even to look at."""
    draft_and_fill(here, patients, dictionary)
    ward = here / "ward"
    run("curator", "init", ward, "--name", "ward", "--schema", here / "schema.toml")
    (here / "records.csv").rename(ward / "records.csv")
    done = json.loads(run("curator", "check", ward, "--json", code=1).stdout)
    assert {finding["about"] for finding in done["findings"] if finding["level"] == "stop"} == {"superlink"}
    findings = [finding for finding in done["findings"] if finding["about"] in ("records", "schema")]
    assert {finding["level"] for finding in findings} == {"fine"}
    assert "9105 records" in " ".join(finding["text"] for finding in findings)


def test_a_check_names_all_that_is_open(here):
    run("curator", "init", "ward", "--name", "ward")
    (here / "ward" / "schema.toml").unlink()
    run("schema", "draft", "support2.csv", "--dictionary", "docs/schema/dictionary.csv", "--out", "ward/schema.toml")
    done = json.loads(run("curator", "check", "ward", "--json", code=1).stdout)
    (finding,) = (finding for finding in done["findings"] if finding["about"] == "schema")
    assert finding["level"] == "stop"
    assert f"19 attributes need bounds ({', '.join(BOUNDS)})" in finding["text"]


def test_a_check_of_a_schema_alone_asks_for_the_folder(here):
    run("schema", "draft", "support2.csv")
    assert "name the site's folder" in run("curator", "check", "schema.toml", code=2).output


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", ["dictionary.csv", "redcap.csv"])
def test_a_drafted_schema_with_bounds_runs_a_simulation(here, patients, dictionary):
    """Its AUC is far above chance: attributes are what they are drafted as."""
    draft_and_fill(here, patients, dictionary)
    # The disease classes have slashes in their names; REDCap's export has no such column.
    sites = 'how = "site"\ncolumn = "dzclass"' if dictionary == "dictionary.csv" else 'how = "random"\ncount = 4'
    (here / "scenario.toml").write_text(SCENARIO.replace("SITES", sites))
    run("simulate", "scenario.toml", "--out", "runs")
    frame = pl.read_parquet(here / "runs" / "latest" / "drafted" / "metrics.parquet")
    assert frame.filter(pl.col("curator").is_null() | (pl.col("curator") == ""))["auc"].min() > 0.65


def draft_and_fill(folder, rows, dictionary):
    """Write records.csv and schema.toml, as the command drafts it and with the built-in bounds."""
    path, bounds = folder / "records.csv", BOUNDS
    if dictionary == "redcap.csv":
        rows = redcap_rows(rows)
        bounds = {name.replace(".", "_"): pair for name, pair in BOUNDS.items()}
    write_rows(path, rows)
    options = ("--dictionary", f"docs/schema/{dictionary}", "--label", "hospdead")
    done = run("schema", "draft", path, *options)
    assert "27 attributes" in done.output
    assert "19 need bounds, 0 need levels, 0 need a kind" in done.output
    schema = folder / "schema.toml"
    assert (
        "is unfinished: 19 attributes need bounds"
        in run("curator", "init", folder / "early", "--name", "w", "--schema", schema, code=2).output
    )
    schema.write_text(fill(schema.read_text(), bounds))
