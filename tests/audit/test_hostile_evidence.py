"""Evidence is anybody's: whatever a file holds, the command that reads it ends soon, in bounds, with one sentence.

Each hostile file has the name of its attack. None of them needs a key. The fuzz changes honest files of every kind.
"""

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from curator_node.ledger.exports import export_ledger, read_export
from curator_node.ledger.places import read_ledger_file
from expril.audit.recompute import read_pins, recompute
from expril.audit.recompute.reports import read_audited_policy
from expril.audit.recompute.statements import differing_leaves
from expril.audit.transcript_view import read_transcript_view
from expril.commands.app import app
from gates import bounded
from protocol.codec import encode
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import GENESIS, Entry, EntryKind, entry_hash
from protocol.ledger.exports import START, encode_export
from protocol.rationals import parse_amount
from protocol.run_index import COST, INDEX, STUDY, TRANSCRIPTS, absent_repeats, decode_index, decode_transcript
from protocol.strict_json import decode_json
from protocol.strict_toml import parse_toml
from simulations.report.model import decode_report
from simulations.run_folder import EPSILONS, epsilon_runs
from trees import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MOST_SECONDS = 20
"""Of processor, for any command on any of these files: the honest ones take less than one."""
NUMBERS = {
    "an integer of 5,000 digits": "9" * 5000,
    "a hexadecimal integer of 50,000 digits": "0x" + "f" * 50_000,
    "an exponent that never ends": "1e400000000",
    "a negative exponent that never ends": "1e-400000000",
    "an exponent that cannot be printed": "1e400000",
    "a denominator of 4,000 digits": "1/" + "7" * 4000,
    "two million decimals": "0." + "1" * 2_000_000,
    "a division by zero": "1/0",
    "no number": "nan",
    "an infinite number": "inf",
    "a negative number": "-1",
    "an underscore": "1_0",
}
NESTED = "[" * 200_000
ARRAY_OF_4E9, NESTED_PACK = b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000


def command(*arguments):
    """Exit status and output of a command that ends in bounds, and without a traceback."""
    with bounded(MOST_SECONDS):
        result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)[:500]
    assert result.exit_code in (0, 1, 2), result.output[-500:]
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def honest(honest_run):
    return honest_run[0]


@pytest.fixture
def run(honest, tmp_path):
    """A copy to change."""
    return shutil.copytree(honest, tmp_path / "run")


@pytest.fixture
def deployed(run):
    """The same, as the folder of a deployed study."""
    index = json.loads((run / TRANSCRIPTS / INDEX).read_bytes())
    for name in ("scenario.toml", "report.json", "metrics.parquet"):
        index["files"].pop(name)
        (run / name).unlink()
    curators = {one["curator"]: {"spent": "1", "at_most": "1"} for one in index["transcripts"]}
    index["files"] |= {STUDY: "0" * 64, COST: "0" * 64}
    (run / STUDY).write_text("")
    (run / COST).write_text(json.dumps({"curators": curators}))
    (run / TRANSCRIPTS / INDEX).write_text(json.dumps(index))
    return run


# By name: numbers


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_cost_that_is_unsigned(number):
    for stated in (number, [number], {number: number}):
        (complaint,) = differing_leaves(decode_json(json.dumps({"spent": stated}), where=COST), {"spent": Fraction(1)})
        assert len(complaint) < 1000
        assert complaint.endswith("the evidence gives 1")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_an_amount_in_a_report(number, honest):
    report = json.loads((honest / "report.json").read_bytes())
    report["learners"][0]["epsilon_spent"] = number
    with pytest.raises(ConfigurationError, match=r"the report is damaged"):
        decode_report(json.dumps(report).encode())


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("quote", ["", '"'], ids=["bare", "quoted"])
def test_a_cap_in_a_policy(number, quote):
    if (number, quote) == ("1_0", ""):
        return  # TOML writes ten so, too
    with pytest.raises(ConfigurationError, match="policy"):
        read_audited_policy(f'name = "n"\ncap = {quote}{number}{quote}'.encode(), where="the policy")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_an_epsilon_in_a_list_of_runs(number, tmp_path):
    for epsilons in ([number], ["1", number]):
        (tmp_path / EPSILONS).write_text(json.dumps({"epsilons": epsilons}))
        with pytest.raises(ConfigurationError, match=r"is damaged|cannot be read"):
            epsilon_runs(tmp_path)


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_an_amount_of_the_protocol(number):
    with pytest.raises(ValueError, match="no amount"):
        parse_amount(number)


@pytest.mark.parametrize("number", [number for number in NUMBERS.values() if number != "-1"])
def test_a_bare_number_in_json(number):
    with pytest.raises(ConfigurationError, match="is damaged"):
        decode_json(f'{{"x": {number}}}', dict[str, int], where="the file")


# By name: forms


FORMS = {
    "50,000 brackets": "x = " + "[" * 50_000,
    "a key of 20,000 dots": "a." * 20_000 + "a = 1",
    "a key of 20,000 quoted parts": '"a".' * 20_000 + "a = 1",
    "a date that is none": "x = 2020-99-99",
    "braces": "x = " + "{a=" * 5000,
    "no end of a text": 'x = "' + '\\"' * 500_000,
    "too long": "#" * 2**20 + "\nx = 1",
    "a text without end over lines": 'x = """' + '""' * 400_000,
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_toml_in_bounds(text):
    with bounded(MOST_SECONDS), pytest.raises(ConfigurationError, match="is not valid TOML"):
        parse_toml(text, where="the file")


def test_honest_toml_is_not_refused():
    """Dots and brackets in texts and comments are no nesting; long texts are no numbers."""
    text = "\n".join(
        [
            "# " + "." * 300 + "[" * 300,
            f'a = "{"." * 300}{"[" * 300}"',
            f"b = '''{'.' * 300}\n[[[[{'x' * 1000}'''",
            f'c = """{"." * 300} "quoted" \\" {"[" * 100}"""',
            f"d = [{', '.join(['0.25'] * 5000)}]",
            "[e.f.g.h]",
            "x = { y = { z = [[1, 2], [3]] } }",
        ]
    )
    table = parse_toml(text, where="the file")
    assert len(table["d"]) == 5000
    assert table["e"]["f"]["g"]["h"]["x"]["y"]["z"] == [[1, 2], [3]]


def test_a_policy_of_five_thousand_learners_is_read():
    learners = "".join(f'[[learners]]\nname = "ward {at}"\nkey = "{at:064x}"\ncap = "1/2"\n' for at in range(5000))
    assert len(read_audited_policy(f'name = "n"\ncap = 2\n{learners}'.encode(), where="p").learners) == 5000


def test_a_list_of_many_transcripts_is_read(honest):
    """Its size is what there is: ten thousand exchanges, a hundred repeats."""
    index = json.loads((honest / TRANSCRIPTS / INDEX).read_bytes())
    line = index["transcripts"][0]
    index["transcripts"] = [line | {"file": f"{at:05d}.msgpack", "repeat": at // 100} for at in range(10_000)]
    assert len(decode_index(json.dumps(index).encode(), "here").transcripts) == 10_000


@pytest.mark.parametrize(
    ("there", "repeats", "text"),
    [
        ((0, 1), 2, ""),
        ((0,), 2, "1"),
        ((), 100_000, "0 to 99999"),
        ((0, 3, 7), 9, "1 to 2 and 4 more"),
        ((1,), 2, "0"),
        ((0, 5), 2, "1"),
    ],
)
def test_absent_repeats_are_told_as_a_range(there, repeats, text):
    assert absent_repeats(there, repeats) == text


def test_a_hundred_thousand_repeats_cost_what_is_there(run):
    path = run / TRANSCRIPTS / INDEX
    path.write_text(path.read_text().replace('"repeats": 1', '"repeats": 100000'))
    code, output = command("audit", "run", run)
    assert code == 1
    assert "in repeat 1 to 99999" in output


def test_one_transcript_that_is_listed_again_and_again_is_read_once(run):
    path = run / TRANSCRIPTS / INDEX
    index = json.loads(path.read_bytes())
    index["transcripts"] += [index["transcripts"][0] | {"study": 7 + at} for at in range(3000)]
    path.write_text(json.dumps(index))
    (proof,) = recompute(run, delta=None).runs
    assert sum("listed for another exchange" in text for one in proof.transcripts for text in one.complaints) == 3000


LISTS = {
    "odd names": ["../../../../etc", "a\x00b", "x" * 5000],
    "a hundred thousand entries": ["1"] * 100_000,
    "nested": NESTED,
}


@pytest.mark.parametrize("epsilons", LISTS.values(), ids=LISTS)
def test_a_list_of_epsilons(epsilons, run):
    text = epsilons if isinstance(epsilons, str) else json.dumps({"epsilons": epsilons})
    (run / EPSILONS).write_text(text)
    assert command("audit", "run", run)[0] in (1, 2)
    code, output = command("report", run)
    assert (code, "is damaged" in output) == (2, True)


BROKEN = {
    "report.json": {"nested": NESTED.encode(), "empty": b"", "a number": b"1e999999999"},
    "scenario.toml": {
        "an epsilon of 5,000 digits": b"[[learners]]\nname = 1\nepsilon = " + b"9" * 5000,
        "no number": b"[[learners]]\nname = 'ada'\nepsilon = nan",
        "no text": b"\xff\xfe\x00",
    },
    "again.json": {"digits": b'{"changes": {"epsilon": ' + b"9" * 5000 + b"}}", "nested": NESTED.encode()},
    "transcripts/index.json": {"nested": NESTED.encode(), "a text": b'"x"', "empty": b""},
    "transcripts/signatures.json": {"nested": NESTED.encode(), "digits": b"[" + b"9" * 5000 + b"]"},
    "transcripts/00000.msgpack": {"an array of 4e9": ARRAY_OF_4E9, "nested": NESTED_PACK, "empty": b""},
    "ledgers/north.ledger": {
        "a broken database": b"SQLite format 3\0" + b"\xff" * 5000,
        "an export of 4e9 blocks": START + b"\xa6blocks" + ARRAY_OF_4E9,
        "an export of a block of 4e9 bytes": START
        + b"\xa6blocks\x91\x92\xc4\x20"
        + bytes(32)
        + b"\xc6\xff\xff\xff\xff",
    },
    "ledgers/north.policy.toml": {"brackets": b"x = " + b"[" * 50_000, "digits": b"cap = " + b"9" * 5000},
}


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, contents in BROKEN.items() for what in contents])
def test_a_hostile_file_of_a_run(name, what, run):
    (run / name).write_bytes(BROKEN[name][what])
    assert command("audit", "run", run)[0] in ((0,) if name == "again.json" else (1, 2))  # it is in no list
    assert command("report", run)[0] in (0, 2)
    assert command("transcript", "show", run)[0] in (0, 2)


@pytest.mark.parametrize("name", ["../../../../../etc/passwd", "a\x00b", "x" * 5000, "..", "/etc/passwd"])
def test_a_list_with_odd_names(name, run):
    path = run / TRANSCRIPTS / INDEX
    index = json.loads(path.read_bytes())
    index["files"][name] = "0" * 64
    index["ledgers"][0]["curator"] = index["participants"][0]["name"] = name
    if re.fullmatch(r"[^/\\\x00]{1,255}", name):
        index["transcripts"][0]["file"] = index["ledgers"][0]["file"] = name
    path.write_text(json.dumps(index))
    assert command("audit", "run", run)[0] == 1


DATABASES = {
    "a view without end": """create table entries (entry_index integer primary key, body blob, signature blob);
        create view replies as with recursive n (request) as (select x'00' union all select x'00' from n)
        select request, request as reply from n""",
    "entries that are a view": """create view entries as with recursive n (entry_index) as
        (select 0 union all select entry_index + 1 from n) select entry_index, x'00' as body, x'00' as signature from n;
        create table replies (request blob, reply blob)""",
    "a computed column": """create table entries (entry_index integer primary key,
        body blob generated always as (zeroblob(900000000)) virtual, signature blob);
        create table replies (request blob, reply blob);
        insert into entries (entry_index) values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)""",
    "rows of nothing": """create table entries (entry_index integer primary key, body blob, signature blob);
        create table replies (request blob, reply blob); insert into entries values (0, x'', x'')""",
    "a name that SQLite knows": "create table entries (x); create table replies (y)",
}


@pytest.mark.parametrize("script", DATABASES.values(), ids=DATABASES)
def test_a_hostile_database(script, run):
    path = run / "ledgers/north.ledger"
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    assert command("audit", "run", run)[0] == 1
    for reader in (("audit", "run"), ("ledger", "show"), ("ledger", "verify")):
        assert command(*reader, path)[0] in (1, 2)


@pytest.mark.parametrize("entries", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_ledger_that_hands_over_and_halts_again_and_again(entries, tmp_path):
    """Nobody's key is needed for a chain of hashes; its cost was the square of its length."""
    pairs, previous = [], GENESIS
    for index in range(entries):
        kind = EntryKind.OPEN if not index else EntryKind.HANDOVER if index % 2 else EntryKind.HALT
        key = index.to_bytes(32, "big") if kind is not EntryKind.HALT else bytes(32)
        body = encode(Entry(index=index, previous=previous, nonce=bytes(16), kind=kind, at=0, learner=key))
        pairs.append((body, bytes(64)))
        previous = entry_hash(body)
    (tmp_path / "x.export").write_bytes(encode_export(pairs, []))
    with bounded(MOST_SECONDS):
        result = recompute(tmp_path / "x.export", delta=None)
    assert len(result.lone_ledgers[0].audit.replayed) == entries
    assert command("ledger", "verify", tmp_path / "x.export")[0] == 1


def test_a_pipe_in_place_of_a_file_is_not_waited_for(run):
    for name in ("ledgers/north.ledger", "transcripts/00000.msgpack", "report.json", "transcripts/signatures.json"):
        (run / name).unlink()
        os.mkfifo(run / name)
    assert command("audit", "run", run)[0] == 1
    os.mkfifo(run / "pipe")
    pipe = run / "pipe"
    for arguments in (("audit", "run", pipe), ("ledger", "show", pipe), ("audit", "evidence", pipe)):
        assert command(*arguments)[0] == 2
    for option in ("--receipt", "--witnessed", "--keys"):
        assert command("audit", "run", run, option, pipe)[0] == 2


def test_a_file_that_is_longer_than_any_is_not_read(run, tmp_path):
    """A hole of a terabyte takes no room on a disk, and would take all of the memory."""
    for name in ("transcripts/00000.msgpack", "report.json", "ledgers/north.policy.toml"):
        os.truncate(run / name, 2**40)
    assert command("audit", "run", run)[0] == 1
    os.truncate(run / "ledgers/north.ledger", 2**40)
    (tmp_path / "x.export").write_bytes(START)
    os.truncate(tmp_path / "x.export", 2**40)
    for arguments in (("audit", "run"), ("ledger", "show"), ("ledger", "verify"), ("transcript", "show")):
        assert command(*arguments, tmp_path / "x.export")[0] in (1, 2)


def test_a_deployed_studys_cost_that_never_ends(deployed):
    path = deployed / COST
    assert command("audit", "run", deployed)[0] == 1
    path.write_text(path.read_text().replace('"spent": "1"', '"spent": "1e400000000"'))
    code, output = command("audit", "run", deployed)
    assert code == 1
    assert "spent is 1e400000000, and the evidence gives" in output


GARBAGE = {
    "an array of 4e9": ARRAY_OF_4E9,
    "empty": b"",
    "the beginning of an export": START,
    "an export of 4e9 blocks": START + b"\xa6blocks" + ARRAY_OF_4E9,
    "nested MessagePack": NESTED_PACK,
    "nested JSON": NESTED.encode(),
    "zeros": bytes(100_000),
    "a key of 5,000 digits": b"[curators]\nnorth = " + b"9" * 5000,
    "a nested key": b"[curators]\nnorth = " + b"[" * 50_000,
    "a key of 20,000 dots": b"a." * 20_000 + b"a = 1",
}
READERS = {
    "run": ("audit", "run"),
    "package": ("audit", "check-package"),
    "transcript": ("transcript", "show"),
    "evidence": ("audit", "evidence"),
    "ledger": ("ledger", "show"),
    "verified ledger": ("ledger", "verify"),
    "report": ("report",),
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage_in_front_of_every_reader(content, tmp_path, honest):
    path = tmp_path / "garbage"
    path.write_bytes(content)
    for reader in READERS.values():
        assert command(*reader, path)[0] in (1, 2)
    for option in ("--receipt", "--witnessed", "--keys"):
        assert command("audit", "run", tmp_path / "nothing", option, path)[0] == 2
    assert command("curator", "enrol", tmp_path / "ward", path, "--cap", "1", "--fingerprint", "x")[0] == 2


# Any change of an honest file


HOSTILE = [text.encode() for text in NUMBERS.values() if len(text) < 100_000]
HOSTILE += [
    b"[" * 5000,
    b"\x91" * 5000,
    ARRAY_OF_4E9,
    b"\xc6\xff\xff\xff\xff",
    b"a\x00b",
    b"x" * 5000,
    b"18446744073709551616",
    b"null",
    b"{}",
]


@st.composite
def changed(draw, content: bytes) -> bytes:
    """The content after one to three flips, cuts, copies of a part to elsewhere, and numbers that are hostile."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        how = draw(st.sampled_from(("flip", "cut", "copy", "number", "insert")))
        if how == "flip" and data:
            data[place] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del data[place : place + draw(st.integers(1, 200_000))]
        elif how == "copy":
            start = draw(st.integers(0, max(len(data) - 1, 0)))
            data[place:place] = data[start : start + draw(st.integers(1, 300))]
        elif how == "number" and (found := re.search(rb"[0-9]+(?:[./][0-9]+)?", data[place:])):
            data[place + found.start() : place + found.end()] = draw(st.sampled_from(HOSTILE))
        else:
            data[place:place] = draw(st.sampled_from(HOSTILE))
    return bytes(data)


class Reader:
    """Readers of one kind of file, with honest content."""

    def __init__(self, honest, base):
        self.base = base
        with read_ledger_file(honest / "ledgers/north.ledger") as store, store.snapshot():
            export = export_ledger(store)
        read = lambda name: (honest / name).read_bytes()  # noqa: E731
        cost = json.dumps({"curators": {"north": {"spent": "1/2", "at_most": "1"}}}).encode()
        self.kinds = {
            "index": (read("transcripts/index.json"), lambda data: decode_index(data, "here")),
            "report": (read("report.json"), decode_report),
            "transcript": (read("transcripts/00000.msgpack"), decode_transcript),
            "shown transcript": (read("transcripts/00000.msgpack"), self.of_file(read_transcript_view)),
            "policy": (read("ledgers/north.policy.toml"), lambda data: read_audited_policy(data, where="p")),
            "scenario": (read("scenario.toml"), self.of_file(lambda path: parse_toml(path.read_text(), where="s"))),
            "cost": (
                cost,
                lambda data: list(
                    differing_leaves(
                        decode_json(data, where=COST),
                        {"curators": {"north": {"spent": Fraction(1), "at_most": Fraction(1)}}},
                    )
                ),
            ),
            "epsilons": (
                b'{"epsilons": ["0.1", "1/3", "1"]}',
                self.of_file(lambda path: epsilon_runs(path.parent), EPSILONS),
            ),
            "keys": (b'[curators]\nnorth = "%s"' % (b"a" * 64), self.of_file(read_pins)),
            "export": (export, self.of_file(lambda path: recompute(path, delta=None))),
            "read export": (export, self.of_file(read_export)),
            "ledger": (read("ledgers/north.ledger"), self.of_file(lambda path: recompute(path, delta=None))),
        }

    def of_file(self, reader, name="file"):
        def read(data):
            path = self.base / name
            path.write_bytes(data)
            return reader(path)

        return read


@pytest.fixture(scope="module")
def readers(honest, tmp_path_factory):
    return Reader(honest, tmp_path_factory.mktemp("files"))


def fuzz(readers, kind, data):
    content, read = readers.kinds[kind]
    refused = suppress(ExprilError, OSError, UnicodeDecodeError if kind == "scenario" else ExprilError)
    with bounded(MOST_SECONDS), refused:
        read(data.draw(changed(content)))


KINDS = (
    "index",
    "report",
    "transcript",
    "shown transcript",
    "policy",
    "scenario",
    "cost",
    "epsilons",
    "keys",
    "export",
    "read export",
    "ledger",
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_changed_file_is_refused_or_read(readers, kind, data):
    fuzz(readers, kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_many_changed_files_are_refused_or_read(readers, kind, data):
    fuzz(readers, kind, data)


PLACES = (
    *("transcripts/index.json", "transcripts/signatures.json", "transcripts/00000.msgpack", "report.json"),
    *("scenario.toml", "ledgers/north.policy.toml", "ledgers/north.ledger"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_run_with_a_changed_file_is_audited_to_its_end(name, honest, tmp_path_factory, data):
    run = tmp_path_factory.getbasetemp() / "changed"
    if not run.exists():
        shutil.copytree(honest, run)
    content = (honest / name).read_bytes()
    try:
        (run / name).write_bytes(data.draw(changed(content)))
        command("audit", "run", run)
        command("report", run)
        command("transcript", "show", run)
    finally:
        (run / name).write_bytes(content)


SAMPLE = {
    "cost.json": b'{"curators": {"north": {"spent": "1e400000000", "at_most": "1"}}}',
    "report.json": NESTED.encode(),
    "ledgers/north.policy.toml": b"a." * 20_000 + b"a = 1",
    "transcripts/00000.msgpack": ARRAY_OF_4E9,
    "epsilons.json": json.dumps({"epsilons": ["1"] * 100_000}).encode(),
    "ledgers/north.ledger": b"SQLite format 3\0" + b"\xff" * 5000,
}
MOST_MEMORY = 4 * 2**30
"""Address space, of which the libraries take a half."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_process_of_little_memory_ends_in_time(name, run):
    (run / name).write_bytes(SAMPLE[name])
    for arguments in (("audit", "run", run), ("report", run)):
        done = subprocess.run(
            [sys.executable, "-m", "expril", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)),
        )
        assert done.returncode in (0, 1, 2), done.stderr[-500:]
        assert "Traceback" not in done.stderr
