"""What a steward types: make a ledger, look at it, check it, copy it, go on after a halt."""

import json
from fractions import Fraction

from test_ledger import LEARNERS, THIRTIETH, key_of, spend

from command_line import TERMS, ledger_and_key, run
from curator_fakes import NOW, key
from curator_node.key_files import read_key
from curator_node.ledger.branches import BranchTrace
from curator_node.ledger.places import mark_path, open_ledger_file
from protocol.ledger.entries import Position, Suspect

POLICY = f"""
name = "ward"
cap = 2
[[learners]]
name = "ada"
key = "{key("ann").public.hex()}"
cap = 1
"""


def test_a_ledger_is_made_once_with_its_mark(tmp_path):
    path, pem = ledger_and_key(tmp_path)
    assert path.is_file()
    assert mark_path(path).is_file()
    assert "never made anew" in run("ledger", "create", path, "--key", pem, code=2).output
    path.unlink()
    assert "ward.mark exists" in run("ledger", "create", path, "--key", pem, code=2).output
    assert "no key file" in run("ledger", "create", path, "--key", tmp_path / "x.pem", code=2).output


def test_show_tells_who_spent_what_and_what_is_left(tmp_path):
    path, _ = ledger_and_key(tmp_path, studies=3)
    path.with_name("ward.policy.toml").write_text(POLICY)
    report = json.loads(run("ledger", "show", path, "--json").stdout)
    assert (report["spent"], report["cap"], report["halted"], report["findings"]) == ("1/10", "2", False, [])
    ada = report["learners"][key("ann").public.hex()]
    assert (ada["name"], ada["spent"], ada["left"]) == ("ada", "1/10", "9/10")
    output = run("ledger", "show", path).output
    assert "chain and signatures verified" in output
    assert "ada" in output


def test_verify_checks_every_entry_and_reply_and_may_be_told_the_key(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=2)
    owner = read_key(pem).public.hex()
    assert f"10 entries and 4 stored replies in order, signed by {owner}" in run("ledger", "verify", path).output
    run("ledger", "verify", path, "--curator", owner)
    assert "another key" in run("ledger", "verify", path, "--curator", key("zurich").public.hex(), code=1).output
    assert "64 hexadecimal digits" in run("ledger", "verify", path, "--curator", "1234", code=2).output
    ledger = open_ledger_file(path, read_key(pem))
    with ledger.store._engine.begin() as connection:
        body = ledger.store.rows(4)[0].body
        connection.exec_driver_sql("UPDATE entries SET body = ? WHERE entry_index = 4", (body[:-1] + b"?",))
        connection.exec_driver_sql("DELETE FROM replies WHERE rowid = 1")
    ledger.close()
    for command in ("verify", "show"):
        output = run("ledger", command, path, code=1).output.replace("\n", " ")
        assert "not in order" in output
        assert "entry 4" in output
    report = json.loads(run("ledger", "verify", path, "--json", code=1).stdout)
    assert 4 in [finding["entry"] for finding in report["findings"]]


def test_a_file_that_is_no_ledger_is_one_clear_line(tmp_path):
    (tmp_path / "x.ledger").write_text("hello")
    messages = {"x.ledger": "is not a SQLite ledger", "absent": "no ledger ", ".": "is a folder; name the ledger in it"}
    for command in ("show", "verify"):
        for name, message in messages.items():
            assert message in run("ledger", command, tmp_path / name, code=2).output


def test_backup_copies_a_ledger_that_is_served(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    ledger = open_ledger_file(path, read_key(pem))
    ledger.begin(TERMS, NOW)
    spend(ledger, 2, learner=key("ann").public)
    run("ledger", "backup", path, tmp_path / "copy.ledger")
    ledger.close()
    assert json.loads(run("ledger", "show", tmp_path / "copy.ledger", "--json").stdout)["spent"] == "1/15"
    assert "never overwritten" in run("ledger", "backup", path, tmp_path / "copy.ledger", code=2).output
    assert "not a SQLite ledger" in run("ledger", "backup", pem, tmp_path / "other.ledger", code=2).output


def test_resume_after_a_restored_backup_enters_what_the_mark_knows(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    copy = tmp_path / "copy.ledger"
    run("ledger", "backup", path, copy)
    ledger = open_ledger_file(path, read_key(pem))
    ledger.begin(TERMS, NOW)
    spend(ledger, 2, learner=key("ann").public)
    ledger.settle()
    ledger.close()
    path.write_bytes(copy.read_bytes())
    ledger = open_ledger_file(path, read_key(pem))
    ledger.begin(TERMS, NOW)
    ledger.close()
    assert "HALTED" in run("ledger", "show", path).output
    output = run("ledger", "resume", path, "--key", pem, "--note", "restored the copy").output
    assert "entered as spent over all learners: 1/30, by this curator's own mark" in output
    assert "lower bound" in output
    report = json.loads(run("ledger", "show", path, "--json").stdout)
    assert (report["halted"], report["spent"]) == (False, "1/15")
    assert "is not halted" in run("ledger", "resume", path, "--key", pem, "--note", "again", code=2).output


def test_resume_after_a_receipt_enters_the_learner_s_part_and_what_the_steward_knows_beyond(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    ledger = open_ledger_file(path, read_key(pem))
    newest = ledger.account.next_index - 1
    position = Position(40, bytes(32), "1/2", ancestors=(), named=((newest, ledger.account.head[:8]),))
    ledger.halt(NOW, "by a receipt", trace=BranchTrace(Suspect(position, LEARNERS[1], "1/4")))
    ledger.close()
    other = LEARNERS[2].hex()
    arguments = ("ledger", "resume", path, "--key", pem, "--note", "x")
    assert "go together" in run(*arguments, "--learner", other, code=2).output
    assert "another curator's key" in run(*arguments[:3], "--key", _key(tmp_path), *arguments[5:], code=2).output
    output = run(*arguments, "--learner", other, "--restored", "1/7").output
    assert "entered as spent over all learners: 7/15, by a receipt of" in output.replace("\n", " ")
    report = json.loads(run("ledger", "show", path, "--json").stdout)
    assert report["learners"][LEARNERS[1].hex()]["spent"] == "1/4"
    assert report["learners"][other]["spent"] == "1/7"
    assert Fraction(report["spent"]) == Fraction(1, 2) + Fraction(1, 7)
    assert key_of(1).study != b""
    assert Fraction(report["spent"]) > THIRTIETH


def _key(folder):
    run("keys", folder / "other.pem")
    return folder / "other.pem"
