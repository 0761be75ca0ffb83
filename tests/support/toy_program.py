"""What a steward, a learner and an auditor do with an installed toy package: `python -P FILE ACT FOLDER`.

The path is safe (-P), so that the package that is installed is used, and not the one that lies beside this file.
"""

import json
import sys
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from curator_node.key_files import write_key
from curator_node.site import create_site, open_site
from expril.commands.app import app

FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
SITE, LEARNER = FOLDER / "ward", FOLDER / "ann"
SCHEMA = """
label = "sick"
classes = ["no", "yes"]
attributes = [{name = "age", kind = "numeric", lower = 0, upper = 120}]
round_size = 60
"""
POLICY = """
name = "ward"
cap = 10
learners = [{{name = "ann", key = "{learner}", cap = 10}}]
{plug_ins}
[limits.kinds]
counts = {{}}
toy = {{}}
"""
STUDY = """
title = "Toys"
epsilon = "{epsilon}"
folder = "post"
lifetime_seconds = 3_600
{more}
[curators]
ward = "{ward}"
"""
QUESTION = """
[question]
kind = "toy"
planned = {scale = [10, 1], level = 100, turns = 2}
body = [{above = 29.5}, {}]
"""
BY_STRATEGY = """
source = "source.csv"
strategy = "toy-decades"
options = {count = 9}
"""


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, (arguments, result.exit_code, result.output, result.exception)
    return result.output


def policy(learner, *, named=True):
    plug_ins = run("curator", "plug-ins", "expril-toy") if named else ""
    text = POLICY.format(learner=learner, plug_ins=plug_ins)
    return text if named else text.replace("toy = {}", "")


def write_policy(*, named=True):
    learner = (LEARNER / "public").read_text()
    (SITE / "policy.toml").write_text(policy(learner, named=named))


def ask(name, epsilon, more, tail=""):
    """A study over a folder, to its end; the result's object and folder."""
    file, out = LEARNER / f"{name}.toml", LEARNER / name
    ward = (LEARNER / "ward").read_text()
    file.write_text(STUDY.format(epsilon=epsilon, more=more, ward=ward) + tail)
    for _ in range(10):
        result = CliRunner().invoke(app, ["learner", "ask", str(file), "--out", str(out), "--json"])
        if result.exit_code != 3:
            break
        run("curator", "answer", LEARNER / "post", "--site", SITE)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout), out


def use():
    """A new site; both studies; and what an auditor says with the package."""
    learner = write_key(LEARNER / "learner.pem")
    (LEARNER / "public").write_text(learner)
    frame = pl.DataFrame({"age": [20.0 + n for n in range(60)], "sick": ["no"] * 30 + ["yes"] * 30})
    frame.drop("sick").write_csv(LEARNER / "source.csv")
    identity = create_site(SITE, policy=policy(learner), schema=SCHEMA, records=frame)
    (LEARNER / "ward").write_text(identity.hex())
    assert "plug-in expril-toy 1.0" in run("curator", "check", SITE)
    toys, asked = ask("toys", "1/5", "", QUESTION)
    tens, number = toys["pooled"]
    assert number // 10 == tens  # below the level, the second turn is what was kept
    assert abs(number - 50) < 300  # false alarm e^-30, by the Laplace law of scale 10
    assert toys["cost"]["curators"]["ward"]["spent"] == "1/10"
    learnt, fit = ask("decades", "1", BY_STRATEGY)
    assert learnt["cost"]["curators"]["ward"]["spent"] == "1"
    proven = json.loads(run("audit", "run", asked, fit, SITE / "curator.ledger", "--plug-in", "expril-toy", "--json"))
    assert proven["wrong"] == []
    assert not [text for text in proven["unproven"] if "not installed" in text]
    from expril.audit.attack.kinds import attack_kind, chosen_kinds
    from expril.audit.plug_ins import tables_for

    tables = tables_for("toy")
    assert chosen_kinds("toy", *tables) == ("toy",)
    result, _ = attack_kind("toy", draws=400, error_rate=1e-9, answerers=tables.answerers, audits=tables.audits)
    assert not result.violation, result.verdict


def refuse():
    """Another version is installed than the policy names: nothing is answered until the steward names it."""
    assert "and version 2.0 is installed" in run("curator", "check", SITE, code=1).replace("\n", " ")
    (LEARNER / "post" / "x").write_bytes(b"")
    assert "version 2.0" in run("curator", "answer", LEARNER / "post", "--site", SITE, code=2).replace("\n", " ")
    write_policy()
    assert "plug-in expril-toy 2.0" in run("curator", "check", SITE)
    open_site(SITE).close()


def read():
    """The package is gone: its site opens without it, and what it answered is read and left unproven."""
    assert "is not installed" in run("curator", "check", SITE, code=1).replace("\n", " ")
    write_policy(named=False)
    run("curator", "check", SITE)
    ledger = json.loads(run("ledger", "show", SITE / "curator.ledger", "--json"))
    assert [len(entry["packages"]) for entry in ledger["plug_ins"]] == [1, 1]
    assert ledger["findings"] == []
    view = json.loads(run("audit", "run", LEARNER / "toys", LEARNER / "decades", SITE / "curator.ledger", "--json"))
    assert view["wrong"] == []
    assert any("not installed" in text for text in view["unproven"])
    assert json.loads(run("transcript", "show", LEARNER / "toys", "--json"))


if __name__ == "__main__":
    {"use": use, "refuse": refuse, "read": read}[sys.argv[1]]()
