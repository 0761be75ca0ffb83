"""What a steward hands out or makes beside a ledger: exports, receipts, marks; and the same commands with a URL."""

import json

import msgspec
import pytest
from test_ledger import LEARNERS, key_of, spend

from command_line import TERMS, ledger_and_key, run
from curator_fakes import NOW, key
from curator_node.identities import Receipts
from curator_node.key_files import read_key
from curator_node.ledger.exports import is_export, read_export
from curator_node.ledger.places import open_ledger_file
from curator_node.ledger.sealing import Sealer
from protocol.codec import decode, encode
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError
from protocol.ledger.exports import decode_export, encode_export, read_block
from protocol.messages import Receipt

ANN = key("ann").public


def go_on(where, pem, number, mark=None):
    """A process serves another study."""
    ledger = open_ledger_file(where, read_key(pem), mark=mark)
    ledger.begin(TERMS, NOW)
    halted = ledger.account.halted
    if not halted:
        spend(ledger, number, learner=ANN)
    ledger.settle()
    ledger.close()
    return halted


# --- exports ----------------------------------------------------------------------------------------------


def test_an_export_is_shown_and_verified_without_the_database(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=2)
    assert "ward.export: 10 entries" in run("ledger", "export", path).output.replace("\n", "")
    file = tmp_path / "ward.export"
    assert is_export(file)
    run("ledger", "export", path, "--out", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    path.unlink()
    owner = read_key(pem).public.hex()
    assert f"10 entries and 4 stored replies in order, signed by {owner}" in run("ledger", "verify", file).output
    assert json.loads(run("ledger", "show", file, "--json").stdout)["spent"] == "1/15"
    assert "another key" in run("ledger", "verify", file, "--curator", "11" * 32, code=1).output
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_an_export_that_was_changed_is_found(tmp_path):
    path, _ = ledger_and_key(tmp_path, studies=2)
    file = tmp_path / "ward.export"
    run("ledger", "export", path)
    export = decode_export(file.read_bytes())
    (block,) = export.blocks
    pairs = read_block(block).pairs
    body, signature = pairs[4]
    changes = {
        "entry 4": ([*pairs[:4], (body[:-1] + b"?", signature), *pairs[5:]], export.replies),
        "reply of ledger entry": (pairs, export.replies[1:]),
        "was changed": (pairs, ((export.replies[0][0], bytes(32)), *export.replies[1:])),
        "belong to no entry": (pairs, ((bytes(32), bytes(32)), *export.replies)),
        "ledger entry 1": ([pairs[0], *pairs[2:]], export.replies),
    }
    for message, (entries, replies) in changes.items():
        file.write_bytes(encode_export(entries, replies))
        assert message in run("ledger", "verify", file, code=1).output.replace("\n", " ")
        assert message in run("audit", "run", file, code=1).output.replace("\n", " ")
    data = encode_export(pairs, export.replies)
    for content in (
        data + b"x",
        data[:-1],
        encode(msgspec.structs.replace(export, replies=export.replies[::-1])),
        encode(msgspec.structs.replace(export, blocks=())),
        encode(msgspec.structs.replace(export, blocks=(block, msgspec.structs.replace(block, digest=bytes(32))))),
    ):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match="was changed"):
            read_export(file)
        assert "changed" in run("ledger", "verify", file, code=2).output
        assert "changed" in run("audit", "run", file, code=1).output
    file.write_bytes(data.replace(b"export 2", b"export 1"))
    assert "format 1" in run("ledger", "verify", file, code=2).output
    assert "format 1" in run("audit", "run", file, code=2).output


# --- receipts ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_receipt_says_where_the_ledger_stands_and_is_held_against_it(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=2)
    study, out = key_of(1).study.hex(), tmp_path / "a.receipt"
    output = run("ledger", "receipt", path, "--key", pem, "--study", study, "--out", out).output
    assert "has spent 1/15, and 1/30 of it by this study" in output.replace("\n", " ")
    run("ledger", "receipt", path, "--key", pem, "--learner", ANN.hex())
    run("ledger", "export", path)
    for receipt in (out, tmp_path / "ward.receipt"):
        for where in (path, tmp_path / "ward.export"):
            run("ledger", "verify", where, "--receipt", receipt)
    old = tmp_path / "old.export"
    run("ledger", "export", path, "--out", old)
    go_on(path, pem, 3)
    run("ledger", "receipt", path, "--key", pem, "--learner", ANN.hex(), "--out", tmp_path / "new")
    run("ledger", "verify", path, "--receipt", out, "--receipt", tmp_path / "new")
    assert "lacks the entry" in run("ledger", "verify", old, "--receipt", tmp_path / "new", code=1).output
    (tmp_path / "new").write_bytes(out.read_bytes()[:-1] + b"x")
    assert "no receipt" in run("ledger", "verify", old, "--receipt", tmp_path / "new", code=2).output


def test_a_receipt_of_what_the_ledger_does_not_know_is_refused(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    arguments = ("ledger", "receipt", path, "--key", pem, "--out", tmp_path / "r")
    for options, message in (
        ((), "name a study"),
        (("--study", "12"), "32 hexadecimal digits"),
        (("--study", "12" * 16), "no such study"),
        (("--learner", LEARNERS[1].hex()), "no study of this learner"),
    ):
        assert message in run(*arguments, *options, code=2).output
    other = tmp_path / "other.pem"
    run("keys", other)
    wrong = run("ledger", "receipt", path, "--key", other, "--learner", ANN.hex(), "--out", tmp_path / "r", code=2)
    assert "another curator's key" in wrong.output.replace("\n", " ")
    assert not (tmp_path / "r").exists()


def test_a_steward_s_receipt_that_a_learner_shows_halts_only_a_ledger_that_lost_it(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    owner = read_key(pem)
    run("ledger", "backup", path, tmp_path / "old")
    go_on(path, pem, 2)
    out = tmp_path / "r"
    run("ledger", "receipt", path, "--key", pem, "--learner", ANN.hex(), "--out", out)
    receipts = Receipts(owner, Sealer(owner, bytes), LABEL)
    for file, rolled_back in ((path, False), (tmp_path / "old", True)):
        ledger = open_ledger_file(file, owner, mark=tmp_path / "unused")
        suspect = receipts.lost_branch(out.read_bytes(), ledger)
        assert (suspect is not None) == rolled_back
        ledger.close()
    assert suspect.suspect.learner == ANN
    envelope = msgspec.msgpack.decode(out.read_bytes())
    assert decode(envelope["payload"], Receipt).charged == "0"


# --- marks ------------------------------------------------------------------------------------------------


def test_a_further_process_gets_a_mark_that_starts_at_the_newest_entry(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    mark = tmp_path / "second.mark"
    output = run("ledger", "mark", path, "--key", pem, "--mark", mark, "--beside", tmp_path / "ward.mark").output
    assert "starts at entry 5 (answered" in output.replace("\n", " ")
    assert not go_on(path, pem, 2, mark=mark)
    assert not go_on(path, pem, 3)
    assert "never made anew" in run("ledger", "mark", path, "--key", pem, "--mark", mark, "--confirm", code=2).output
    third = tmp_path / "third.mark"
    result = run("ledger", "mark", path, "--key", pem, "--mark", third, code=130).output
    assert "no copy was restored" in result.replace("\n", " ")
    assert not third.exists()
    run("ledger", "mark", path, "--key", pem, "--mark", third, "--confirm")
    assert not go_on(path, pem, 4, mark=third)


def test_no_mark_is_made_beside_one_that_knows_more_than_the_ledger(tmp_path):
    path, pem = ledger_and_key(tmp_path, studies=1)
    run("ledger", "backup", path, tmp_path / "old")
    go_on(path, pem, 2)
    path.unlink()
    (tmp_path / "old").rename(path)
    arguments = ("ledger", "mark", path, "--key", pem, "--mark", tmp_path / "second.mark")
    refused = run(*arguments, "--beside", tmp_path / "ward.mark", code=2)
    assert "it was rolled back" in refused.output.replace("\n", " ")
    (tmp_path / "empty").write_bytes(b"")
    assert "proves nothing" in run(*arguments, "--beside", tmp_path / "empty", code=2).output.replace("\n", " ")
    assert go_on(path, pem, 3), "its own mark finds it, too"
    assert "is halted" in run(*arguments, "--confirm", code=2).output
    assert not (tmp_path / "second.mark").exists()


# --- a database's URL -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_command_takes_a_url_and_tells_no_password(tmp_path, postgres):
    url, pem, mark = postgres.new_url(), tmp_path / "curator.pem", tmp_path / "mark"
    name = f"postgresql+psycopg://expril@/test{postgres._databases}"
    run("keys", pem)
    arguments = ("--key", pem, "--mark", mark)
    outputs = [run("ledger", "create", url, "--key", pem, code=2), run("ledger", "create", url, *arguments)]
    assert outputs[-1].output == f"{name}\n"
    go_on(url, pem, 1, mark=mark)
    outputs += [
        run("ledger", "verify", url),
        run("ledger", "show", url),
        run("ledger", "export", url, "--out", tmp_path / "e"),
        run("ledger", "export", url, code=2),
        run("ledger", "receipt", url, "--key", pem, "--learner", ANN.hex(), "--out", tmp_path / "r"),
        run("ledger", "mark", url, "--key", pem, "--mark", tmp_path / "m", "--beside", mark),
        run("ledger", "upgrade", url),
        run("ledger", "backup", url, tmp_path / "b", code=2),
        run("ledger", "resume", url, "--key", pem, "--note", "x", code=2),
        run("ledger", "create", url, *arguments[:2], "--mark", tmp_path / "n", code=2),
        run("ledger", "show", url.replace(postgres.password, "guessed-it"), code=2),
        run("ledger", "show", "nosuch://expril:guessed-it@host/x", code=2),
    ]
    assert "pg_dump --format=custom" in outputs[9].output.replace("\n", " ")
    assert f"{name} is not halted" in outputs[10].output.replace("\n", " ")
    run("ledger", "verify", tmp_path / "e", "--receipt", tmp_path / "r")
    output = "".join(result.output for result in outputs)
    assert postgres.password not in output
    assert "guessed-it" not in output
    assert "nothing is beside a database" in output
    assert f"{name}: 6 entries and 2 stored replies in order" in output
