"""The steward's dry run: it says what would stop a curator, and changes nothing."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib

import msgspec
import pytest

from curator_fakes import ROWS, frame_of, policy, steward_file, toml
from curator_fakes import key as curator_key
from curator_node.daemon.settings import DAEMON, DaemonSettings
from curator_node.policy import read_policy
from curator_node.records.schema_file import SCHEMA
from curator_node.site import KEY, LEDGER, POLICY, open_site
from curator_node.steward.check import check_site
from curator_node.steward.enrolment import LEARNERS
from curator_node.steward.new_site import daemon_template, init_site, policy_template
from protocol.errors import ConfigurationError
from simulations.carriers.superlink import make_certificates


@pytest.fixture
def folder(tmp_path):
    """A site that would serve."""
    path = tmp_path / "ward"
    (tmp_path / "link").mkdir()
    init_site(path, "basel", superlink="127.0.0.1:9", ca=make_certificates(tmp_path / "link"))
    (path / POLICY).write_text(toml(policy(learner_cap="1/2")))
    (path / SCHEMA).write_text(toml(steward_file(unit=True, round_size=5)))
    frame_of(ROWS).write_parquet(path / "records.parquet")
    return path


def contents(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir()}


def findings_at(folder, level, **options):
    return {
        (finding.about, finding.text) for finding in check_site(folder, **options).findings if finding.level == level
    }


def test_a_site_that_would_serve_is_checked_without_a_trace(folder):
    before = contents(folder)
    report = check_site(folder, lambda settings: "")
    assert contents(folder) == before
    assert not report.stopped
    texts = " ".join(item.text for item in report.findings)
    assert "5 records of 4 units of 'patient'; at most 1 of a unit count, so 4 are kept and 1 (20.0%) are not" in texts
    assert "2 may ask; their caps add up to 1" in texts
    assert report.standing.learners["ann"].left == "1/2"
    assert {item.release for item in report.questions} == {"error_correct"}
    assert not any(item.refused for item in report.questions)


def test_a_learner_whose_keys_were_taken_back_is_not_counted_among_those_who_may_ask(folder):
    key = f'[[keys]]\nkey = "{curator_key("eve").public.hex()}"\n'
    (folder / LEARNERS).mkdir()
    file = folder / LEARNERS / "eve.toml"
    file.write_text(f'name = "eve"\ncap = "1/4"\n{key}')
    assert any(text.startswith("3 may ask; their caps add up to 5/4") for _, text in findings_at(folder, "look"))
    file.write_text(f'name = "eve"\ncap = "1/4"\n{key}revoked = 2026-11-01T00:00:00Z\n')
    assert any(text.startswith("2 may ask; their caps add up to 1,") for _, text in findings_at(folder, "fine"))


def test_a_new_site_in_which_nobody_may_ask_is_in_order_and_one_in_which_nobody_may_any_more_is_looked_at(folder):
    (folder / POLICY).write_text(toml(policy(())))
    report = check_site(folder, lambda settings: "")
    assert not report.stopped
    assert not any("may ask" in text for _, text in findings_at(folder, "look"))
    (folder / LEARNERS).mkdir()
    key = f'[[keys]]\nkey = "{curator_key("eve").public.hex()}"\nrevoked = 2026-11-01T00:00:00Z\n'
    (folder / LEARNERS / "eve.toml").write_text(f'name = "eve"\ncap = "1/4"\n{key}')
    assert any("nobody may ask any more" in text for _, text in findings_at(folder, "look"))


def test_an_exact_number_of_records_is_not_published_unseen(folder):
    steward = steward_file(round_size=5)
    (folder / SCHEMA).write_text(toml(steward))
    assert any("round_size is the exact number" in text for _, text in findings_at(folder, "look"))
    (folder / SCHEMA).write_text(toml(msgspec.structs.replace(steward, round_size=6)))
    assert not any("round_size is the exact number" in text for _, text in findings_at(folder, "look"))


@pytest.mark.parametrize(
    ("name", "content", "about", "text"),
    [
        (POLICY, "cap = ", "policy", "not valid TOML"),
        (SCHEMA, "label = 'sick'", "schema", "attributes"),
        (KEY, "x", "keys", "PEM"),
        ("node.pem", "x", "keys", "OpenSSH"),
        (DAEMON, 'superlink = "x"', "superlink", "host:port"),
        (LEDGER, "x", "ledger", "not a SQLite ledger"),
        ("curator.mark", "x", "ledger", "missing or damaged"),
        ("records.parquet", "x", "records", "cannot be read"),
    ],
)
def test_each_file_that_is_wrong_stops_it_and_is_named(folder, name, content, about, text):
    (folder / name).write_text(content)
    stops = findings_at(folder, "stop")
    assert any(where == about and text in told for where, told in stops), stops


def test_a_ledger_that_was_rolled_back_is_found(folder):
    old = (folder / LEDGER).read_bytes()
    open_site(folder).close()
    (folder / LEDGER).write_bytes(old)
    for leftover in folder.glob(f"{LEDGER}-*"):
        leftover.unlink()
    assert any("rolled back" in text for _, text in findings_at(folder, "stop"))


def test_a_halted_ledger_and_another_unit_are_found(folder):
    with open_site(folder) as site:
        site.halt("by hand")
    (folder / SCHEMA).write_text(toml(steward_file(round_size=5)))
    stops = " ".join(text for _, text in findings_at(folder, "stop"))
    assert "is halted" in stops
    assert "was kept for other terms" in stops


def test_what_to_look_at_is_said(folder):
    (folder / KEY).chmod(0o644)
    limits = {"multiply_adds": 1, "message_bytes": 100}
    lavish = msgspec.convert({**msgspec.to_builtins(policy(cap=200)), "limits": limits}, type(policy()))
    (folder / POLICY).write_text(toml(lavish))
    looks = " ".join(text for _, text in findings_at(folder, "look", probe=lambda settings: "nobody answers"))
    for part in ("others on this machine may read", "protects nothing", "first come, first served", "nobody answers"):
        assert part in looks
    assert "every question of the default strategy would be refused" in looks


@pytest.mark.parametrize(
    ("written", "level", "text"),
    [
        ("", "look", "no waiting_command"),
        ('waiting_command = ["/absent/tell"]', "look", "no program /absent/tell"),
        ('waiting_command = ["/"]', "look", "no program /"),
        ('waiting_command = ["/bin/sh", "tell"]', "fine", "/bin/sh is run when a study begins to wait"),
    ],
)
def test_who_is_told_of_a_study_that_waits(folder, written, level, text):
    assert not any(about == "approval" for about, _ in findings_at(folder, "look"))
    (folder / POLICY).write_text(toml(policy(approval="manual")))
    (folder / DAEMON).write_text(f"{(folder / DAEMON).read_text()}\n{written}\n")
    assert any(about == "approval" and text in words for about, words in findings_at(folder, level))


def test_what_the_templates_offer_loads_and_changes_nothing_but_the_cap_of_nobody(tmp_path):
    """A line of a template that is taken in as it stands is no mistake."""
    text = policy_template("basel")
    uncommented = re.sub(r"^# (?=[a-z_]+ = )(?!members|least_colluders|name|key|cap)", "", text, flags=re.MULTILINE)
    assert read_policy(uncommented) == msgspec.structs.replace(read_policy(text), approval="manual")
    settings = tomllib.loads(re.sub(r"^# (?=waiting_command)", "", daemon_template("link:1", 9), flags=re.MULTILINE))
    assert msgspec.convert(settings, DaemonSettings).waiting_command[0].startswith("/")


def test_a_new_site_s_template_stops_it_until_it_is_written(tmp_path):
    init_site(tmp_path / "new", "basel")
    report = check_site(tmp_path / "new")
    assert report.stopped
    assert {finding.about for finding in report.findings if finding.level == "stop"} == {"schema", "records"}
    assert ("fine", "nobody may ask yet") in [
        (finding.level, finding.text.partition(":")[0]) for finding in report.findings
    ]


def test_init_overwrites_nothing_and_makes_all_or_nothing(folder, tmp_path):
    before = contents(folder)
    with pytest.raises(ConfigurationError, match="there already"):
        init_site(folder, "basel")
    assert contents(folder) == before
    assert folder.stat().st_mode & 0o777 == 0o700
    for wrong in ({"superlink": "no port"}, {"schema": tmp_path / "none"}, {"ca": tmp_path / "none"}):
        with pytest.raises(ConfigurationError):
            init_site(tmp_path / "other", "basel", **wrong)
        assert not (tmp_path / "other").exists() or not list((tmp_path / "other").iterdir())


@pytest.mark.slow
def test_the_command_says_it_and_exits_with_1_where_something_would_stop_it(folder):
    command = [sys.executable, "-m", "expril", "curator", "check", str(folder), "--json"]
    process = subprocess.run(command, capture_output=True, check=False, text=True)
    report = json.loads(process.stdout)
    assert process.returncode == 0, process.stdout
    assert not report["stopped"]
    assert any("nobody answers" in finding["text"] for finding in report["findings"])
    (folder / "curator.mark").unlink()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
