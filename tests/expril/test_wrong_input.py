"""Wrong input is one plain sentence, an exit status, and nothing half written; with --json, an object for machines."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import polars as pl
import pytest

import command_line
from absent import in_one_process
from curator_node.ledger.places import create_ledger_file
from expril.commands import terminal
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from run_forger import make_run
from simulations.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "docs" / "tour"
EXPRIL = [sys.executable, "-m", "expril"]


run = partial(command_line.run, code=2)


def complaint(*arguments, code=2):
    """The one sentence of a command that refuses; with --json the same in an object."""
    stderr = run(*arguments, code=code).stderr.strip()
    assert len(stderr.splitlines()) == 1
    if "--json" not in arguments and arguments[0] in ("simulate", "quote"):
        report = json.loads(run(*arguments, "--json", code=code).stdout)
        assert report.keys() == {"error", "kind"}
        assert stderr.removeprefix("error ") == report["error"]
    return stderr


def process(*arguments, **options):
    """The command in a process of its own, as a shell starts it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.run([*EXPRIL, *map(str, arguments)], capture_output=True, check=False, env=env, **options)


@pytest.fixture
def tour(tmp_path):
    """A copy of the tour's files that a test may spoil."""
    for name in ("own.toml", "schema.toml", "records.csv"):
        shutil.copyfile(TOUR / name, tmp_path / name)
    return tmp_path


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# text files


SPOILT = {
    "utf-16": (lambda text: text.encode("utf-16"), "is UTF-16 text, not UTF-8; save it as UTF-8 text"),
    "utf-16 without a mark": (lambda text: text.encode("utf-16-le"), "is UTF-16 text, not UTF-8"),
    "latin-1": (lambda text: f"{text}# \xe4\n".encode("latin-1"), "holds text that is not UTF-8 in line"),
    "binary": (lambda _: bytes(range(256)) * 4, "is a binary file, no text; check that it is the right file"),
    "no toml": (lambda text: f"{text}\n[".encode(), "is not valid TOML"),
    "unknown key": (lambda text: f"titel = 1\n{text}".encode(), "unknown key 'titel'"),
}


@pytest.mark.family(4)
@pytest.mark.parametrize("fault", SPOILT)
@pytest.mark.parametrize("name", ["own.toml", "schema.toml"])
def test_a_text_file_in_another_encoding_is_named_with_what_to_do(tour, name, fault):
    spoil, message = SPOILT[fault]
    path = tour / name
    path.write_bytes(spoil(path.read_text()))
    before = listing(tour)
    for command in (["simulate", "own.toml"], ["quote", "own.toml"]):
        with contextlib.chdir(tour):
            text = complaint(*command)
        assert message in text
        assert name in text
    if name == "own.toml":
        assert message in complaint("scenarios", path)
    else:
        assert message in complaint("quote", tour / "records.csv", "--schema", path)
    assert listing(tour) == before


def test_a_byte_order_mark_is_no_fault(tour):
    for name in ("own.toml", "schema.toml", "records.csv"):
        path = tour / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    printed = run("scenarios", tour / "own.toml", code=0).stdout
    assert printed == (TOUR / "own.toml").read_text()
    from simulations.records import load_records
    from simulations.scenario import load_scenario

    scenario, _, folder = load_scenario(str(tour / "own.toml"))
    assert load_records(scenario, folder).dataset.frame.height == 600


@pytest.mark.parametrize("what", ["policy", "keys"])
def test_a_stewards_and_an_auditors_files_are_read_the_same_way(tmp_path, what):
    create_ledger_file(tmp_path / "a.ledger", SigningKey.generate(), now=0)
    path = tmp_path / "file.toml"
    arguments = ["ledger", "show", tmp_path / "a.ledger", "--policy", path]
    if what == "keys":
        arguments = ["audit", "run", tmp_path, "--keys", path]
    path.write_bytes("name = 'Spit\xe4l'\n".encode("latin-1"))
    assert "holds text that is not UTF-8 in line 1; save it as UTF-8 text" in complaint(*arguments)
    path.unlink()
    assert f"no {what} file {path}" in complaint(*arguments)
    path.mkdir()
    assert f"{path} is a folder, not a {what} file; name the file in it" in complaint(*arguments)


def test_a_scenario_that_is_absent_or_a_folder(tmp_path):
    assert "is a folder, and no run is in it: name a scenario" in complaint("simulate", tmp_path)
    assert "is a folder, not a scenario; name the file in it" in complaint("quote", tmp_path)
    assert "did you mean 'wdbc'" in complaint("simulate", "wdcb")


# records


CSVS = {
    "utf-16": (lambda text: text.encode("utf-16"), 'it is UTF-16 text, not UTF-8; save the table as "CSV UTF-8"'),
    "latin-1": (lambda text: text.replace("surgery", "chir\xe9", 1).encode("latin-1"), "is not UTF-8, in row "),
    "a spreadsheet": (lambda _: b"\xd0\xcf\x11\xe0\xa1\xb1" * 99, "it is a binary file, no text; save the table"),
    "ragged": (lambda text: text.replace("\np03", "\nmore,p03", 1).encode(), "another number of fields than in the"),
    "semicolons": (lambda text: text.replace(",", ";").encode(), "separate columns by commas"),
    "twice": (lambda text: text.replace("systolic", "age").encode(), "'age' more than once; give each a name"),
    "empty": (lambda _: b"", "is empty; export the table again"),
    "no rows": (lambda text: text.splitlines()[0].encode(), "has no rows; export the table again"),
    "no header": (lambda text: text.split("\n", 1)[1].encode(), "does the first row hold the column names?"),
    "infinity": (lambda text: text.replace(",80,", ",inf,", 1).encode(), "column 'age' holds infinity"),
    "too large": (lambda text: text.replace(",80,", ",1e999,", 1).encode(), "column 'age' holds infinity"),
    "text": (lambda text: text.replace(",80,", ",eighty,", 1).encode(), "is declared numeric but holds text in row 1"),
    "another class": (lambda text: text.replace(",yes\n", ",maybe\n", 1).encode(), "classes 'no' and 'yes' in row 1"),
    "no label": (lambda text: text.replace(",yes\n", ",\n", 1).encode(), "'readmitted' is empty in row 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", CSVS)
def test_a_wrong_csv_is_named_with_its_row_and_no_value(tour, fault):
    spoil, message = CSVS[fault]
    path = tour / "records.csv"
    path.write_bytes(spoil(path.read_text()))
    before = listing(tour)
    text = complaint("simulate", tour / "own.toml", "--out", tour / "runs")
    assert message in text
    assert "records.csv" in text
    assert not any(value in text for value in ("eighty", "maybe", "1e999", "p0572", "chir"))
    assert listing(tour) == before


def test_a_parquet_file_that_is_none(tour):
    (tour / "records.parquet").write_bytes((tour / "records.csv").read_bytes())
    (tour / "own.toml").write_text((tour / "own.toml").read_text().replace("records.csv", "records.parquet"))
    assert "it is another kind of file, or damaged; export the table again" in complaint("simulate", tour / "own.toml")


def test_records_that_are_absent_or_a_folder(tour):
    (tour / "records.csv").unlink()
    assert f"no file {tour / 'records.csv'}; check its name" in complaint("simulate", tour / "own.toml")
    (tour / "records.csv").mkdir()
    assert "is a folder; name a file in it" in complaint("simulate", tour / "own.toml")
    (tour / "schema.toml").unlink()
    assert f"no schema file {tour / 'schema.toml'}; check its name" in complaint("simulate", tour / "own.toml")


@pytest.mark.parametrize(
    ("old", "new", "classes", "likeness"),
    [
        (",no\n", ",No\n", '["no", "yes"]', ". It is the class 'no', but for upper and lower case"),
        (",no\n", ",n.o\n", '["no", "yes"]', ". It is the class 'no', but for spaces and signs"),
        (
            ",no\n",
            ",0.0\n",
            '["0", "yes"]',
            ". It is the class '0', but for how the number is written, as 1 and 1.0 are",
        ),
        (",no\n", ",never\n", '["no", "yes"]', "merge_label in [data] gives them other names"),
    ],
)
def test_how_a_label_differs_from_a_class_is_told_to_who_owns_the_records(tour, old, new, classes, likeness):
    records, schema = tour / "records.csv", tour / "schema.toml"
    records.write_text(records.read_text().replace(old, new, 1))
    schema.write_text(schema.read_text().replace('["no", "yes"]', classes))
    assert complaint("simulate", tour / "own.toml").endswith(likeness)


def test_a_record_without_a_site_is_named_by_its_row(tour):
    path = tour / "records.csv"
    header, first, second, *rest = path.read_text().splitlines()
    place = header.split(",").index("ward")
    spoilt = [",".join("" if at == place else field for at, field in enumerate(second.split(",")))]
    path.write_text("\n".join([header, first, *spoilt, *rest, ""]))
    assert "site column 'ward' is empty in row 2, header not counted" in complaint("simulate", tour / "own.toml")


def test_a_table_where_a_file_of_toml_is_wanted_is_told_with_what_to_run(tour):
    path = tour / "records.csv"
    for command in (["simulate", path], ["scenarios", path]):
        assert f"is told by: expril quote {path} --schema schema.toml" in complaint(*command)
    assert "is a table of records, which needs its steward's schema: --schema FILE" in complaint("quote", path)
    assert "expril learner init FOLDER makes one to fill in" in complaint("learner", "run", path)


def with_the_site_as_attribute(tour):
    schema = tour / "schema.toml"
    schema.write_text(
        f"{schema.read_text()}\n[[attributes]]\nname = 'ward'\nkind = 'categorical'\nlevels = ['internal', 'surgery']\n"
    )
    return tour / "own.toml"


def test_what_may_bring_less_than_it_costs_is_warned_of_before_a_scenario_runs(tour):
    from simulations.records import doubts_of, load_records
    from simulations.scenario import load_scenario

    file = tour / "own.toml"
    text = file.read_text()

    def doubts():
        scenario, _, folder = load_scenario(str(file))
        return doubts_of(scenario, load_records(scenario, folder))

    (refused,) = doubts()
    assert refused.startswith("learner 'grace': its plan costs 0.5, more than is left at surgery (0.25), which will")
    text = text.replace("cap = 1\n", "cap = 2\n")
    file.write_text(text)
    assert doubts() == []
    with_the_site_as_attribute(tour)
    file.write_text(text.replace('name = "ada"', 'name = "ada"\noptions = { cells = 4000 }\npooling = "secure"', 1))
    site, cells, secure = doubts()
    assert site.startswith("the site column 'ward' is an attribute, too")
    assert cells.startswith("learner 'ada': 4000 cells are more than the ")
    assert secure.startswith("learner 'ada': a secure sum of ")


def test_what_each_learner_finds_left_is_reckoned_after_those_before_it(tour):
    from simulations.records import doubts_of, load_records
    from simulations.scenario import load_scenario

    file = tour / "own.toml"
    start = file.read_text().split("[[curators]]")[0]

    def doubts(curators, *learners):
        file.write_text(start + curators + "".join(f"\n[[learners]]\n{keys}\n" for keys in learners))
        scenario, _, folder = load_scenario(str(file))
        return doubts_of(scenario, load_records(scenario, folder))

    first, second = 'name = "ada"\nepsilon = 1\nvalidate = 1', 'name = "grace"\nepsilon = 1'
    assert doubts("", first) == []
    (doubt,) = doubts("", first, second)
    assert "'grace': its plan costs 1, more than is left at internal, surgery (0)" in doubt
    (doubt,) = doubts('[[curators]]\nname = "*"\ncap = 9\nlearner_cap = "3/2"\n', first, second)
    assert "'ada': its validation costs 1, more than is left at internal, surgery (0.5)" in doubt
    low = '[[curators]]\nname = "surgery"\ncap = "1/2"\n'
    for doubt in doubts(low, first + "\nall_or_none = true", second):  # so ada spends nothing at the other ward
        assert "its plan costs 1, more than is left at surgery (0.5)" in doubt
    bigger = second.replace("1", "2")
    doubt, second_doubt = doubts(low, first, bigger)
    assert "'ada': its plan" in doubt
    assert "'grace': its plan costs 2, more than is left at internal, surgery (as little as 0)" in second_doubt


def test_levels_that_the_file_spells_otherwise_and_a_validation_of_a_number_are_told_before_anything_runs(tour):
    from simulations.quote_source import read_quoted
    from simulations.records import doubts_of, load_records
    from simulations.scenario import load_scenario

    schema, own = tour / "schema.toml", tour / "own.toml"
    own.write_text(own.read_text().replace("cap = 1\n", "cap = 2\n"))
    schema.write_text(schema.read_text().replace('["female", "male"]', '["Female", "Male"]'))
    scenario, _, folder = load_scenario(str(own))
    (told,) = doubts_of(scenario, load_records(scenario, folder))
    assert told.startswith("more than a tenth of the values of 'sex' are no declared level")
    for source, given in ((str(own), None), (str(tour / "records.csv"), schema)):
        assert read_quoted(source, schema=given, learner="").doubts == (told,)
    number = 'label = "age"\nlabel_bounds = [0, 120]'
    schema.write_text(
        schema.read_text()
        .replace('label = "readmitted"', number)
        .replace("classes =", "# ")
        .replace('"age"\nkind', '"x"\nkind')
    )
    table = tour / "records.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header + ",x", *(row + ",1" for row in rows), ""]))
    own.write_text(own.read_text().replace('epsilon = "3/4"', 'epsilon = "3/4"\nvalidate = "1/4"'))
    assert "learner 'ada': validate is for a label of two classes" in complaint("simulate", own)


def test_a_split_by_site_without_its_column_says_which_key_is_missing(tour):
    scenario = tour / "own.toml"
    scenario.write_text(scenario.read_text().replace('column = "ward"\n', ""))
    assert 'how = "site" needs column, the column of the records that names the site' in complaint("simulate", scenario)


def test_a_quote_reads_the_table_too_and_says_the_same_of_its_site_column(tour):
    from simulations.quote_source import read_quoted

    assert read_quoted(str(tour / "own.toml"), schema=None, learner="").doubts == ()
    (site,) = read_quoted(str(with_the_site_as_attribute(tour)), schema=None, learner="").doubts
    assert site.startswith("the site column 'ward' is an attribute, too")


@pytest.mark.slow
def test_the_command_quotes_and_warns_of_the_site_column(tour):
    scenario = with_the_site_as_attribute(tour)
    result = run("quote", scenario, "--problems", 3, "--epsilons", 1, "--option", "networks=false", code=0)
    assert "warning the site column 'ward' is an attribute, too" in " ".join(result.stderr.split())


def test_a_site_that_is_too_small_is_named_with_its_units_and_what_to_do(tour):
    path = tour / "records.csv"
    path.write_text(path.read_text() + "p9001,attic,50,male,never,120,no\n")
    message = complaint("simulate", tour / "own.toml", "--out", tour / "runs")
    assert "site attic has 1 patient" in message
    assert 'small = "merge"' in message


# numbers


HUGE = 10**23


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--seed", HUGE],
        ["simulate", "--seed", -1],
        ["simulate", "--repeats", 0],
        ["simulate", "--repeats", HUGE],
        ["simulate", "--repeats", 100_001],
        ["quote", "--seed", HUGE],
        ["simulate", "--seed", "one"],
        ["simulate", "--sead", 1],
        ["simulated"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_an_option_that_cannot_be_is_one_sentence(arguments):
    message = complaint(*arguments)
    assert message.startswith("error ")
    assert "--help" in message
    assert json.loads(run(*arguments, "--json").stdout)["kind"] == "usage"


@pytest.mark.parametrize("key", ["seed", "noise_seed"])
def test_a_seed_of_a_scenario_is_one_that_every_library_takes(tour, key):
    text = (tour / "own.toml").read_text().replace("seed = 1\n", "")
    for value, code in ((terminal.MOST_SEED, 0), (terminal.MOST_SEED + 1, 2), (HUGE, 2), (-1, 2)):
        (tour / "own.toml").write_text(f"{key} = {value}\n{text}")
        output = run("scenarios", tour / "own.toml", code=code).output
        assert code == 0 or f"{key} must be a whole number" in output
    assert Scenario.__struct_fields__


@pytest.mark.parametrize("epsilons", ["nonsense", "0", "-1", "1e9", "inf", "1,,", "1/0"])
def test_an_epsilon_that_is_none(epsilons):
    assert "write 1, 0.3 or 1/30" in complaint("quote", "wdbc", f"--epsilons={epsilons}")


def test_an_epsilon_that_was_likely_mistyped_wants_confirmation(tour):
    message = complaint("quote", "--epsilons", "1,100")
    assert "an epsilon of 100 or more protects nothing, and 100 was asked for" in message
    assert "confirm it with --large-epsilon" in message
    text = (tour / "own.toml").read_text()
    (tour / "own.toml").write_text(text.replace('epsilon = "3/4"', "epsilon = 100", 1))
    assert "confirm it with large_epsilon = true" in complaint("simulate", tour / "own.toml")
    (tour / "own.toml").write_text(text.replace('epsilon = "3/4"', "epsilon = 100\nlarge_epsilon = true", 1))
    assert "large_epsilon" in run("scenarios", tour / "own.toml", code=0).stdout
    assert "99.9" in run("scenarios", _with_epsilon(tour, text, "99.9"), code=0).stdout


def _with_epsilon(folder, text, epsilon):
    (folder / "own.toml").write_text(text.replace('epsilon = "3/4"', f"epsilon = {epsilon}", 1))
    return folder / "own.toml"


# disks


def limited(size):
    """As a full disk does, a limit on the size of files fails a write; Python ignores the signal."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_key_and_no_half_ledger(tmp_path):
    (tmp_path / "there").mkdir()
    run("keys", tmp_path / "there" / "own.pem", code=0)
    before = listing(tmp_path)
    for arguments, size in (
        (["keys", "there/other.pem"], 64),
        (["ledger", "create", "there/own.ledger", "--key", "there/own.pem"], 3000),
    ):
        result = process(*arguments, cwd=tmp_path, preexec_fn=limited(size))
        assert result.returncode == 2
        assert b"nothing of it was kept" in result.stderr
        assert result.stderr.count(b"\n") == 1
        assert listing(tmp_path) == before


@pytest.mark.slow
def test_a_full_disk_in_a_simulation_is_one_sentence(tour):
    process_result = process("simulate", "own.toml", "--repeats", 1, cwd=tour, preexec_fn=limited(20_000))
    assert process_result.returncode == 2
    assert b"Traceback" not in process_result.stderr
    assert process_result.stderr.decode().splitlines()[-1].startswith(("error", "note"))


@pytest.mark.parametrize("number", terminal._FULL)
def test_a_full_disk_anywhere_is_one_sentence(number, monkeypatch, tmp_path):
    def fail(*_args, **_options):
        raise OSError(number, os.strerror(number), "report.html")

    monkeypatch.setattr("simulations.run_page.rewrite_page", fail)
    message = f"report.html: {terminal._FULL[number]}; free some space, or write to another folder"
    assert complaint("report", tmp_path) == f"error {message}"
    assert terminal.fault_of(OSError(number, "", "report.html")) == terminal.Fault("disk", message)


NOT_ALMIGHTY = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
"""Root may write anywhere; without this capability it may not."""
MAY_NOT = pytest.mark.skipif(bool(NOT_ALMIGHTY) and not shutil.which("setpriv"), reason="root may write anywhere")


@pytest.fixture(scope="module")
def medium(tmp_path_factory):
    """A run on a medium that nobody can write."""
    folder, _ = make_run(tmp_path_factory.mktemp("medium"), repeats=1)
    paths = [folder, *folder.rglob("*")]
    modes = [(path, path.stat().st_mode) for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path, mode in modes:
        path.chmod(mode)


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [folder, *folder.rglob("*")]}


@pytest.mark.slow
@MAY_NOT
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_evidence_is_read_from_a_medium_that_cannot_be_written(medium, tmp_path):
    before = snapshot(medium)
    ledger, key = medium / "ledgers" / "north.ledger", tmp_path / "own.pem"
    run("keys", key, code=0)
    reads = {
        ("verify", medium): "north.ledger",
        ("ledger", "show", ledger): "spent and left",
        ("ledger", "verify", ledger): "in order",
        ("transcript", "show", medium): "receipt",
        ("ledger", "backup", ledger, tmp_path / "copy.ledger"): str(tmp_path),
    }
    writes = {
        ("report", medium): "you may not read or write there; choose another folder, or copy it to one of your own",
        ("keys", medium / "own.pem"): "nothing of it was kept",
        ("ledger", "create", medium / "own.ledger", "--key", key): "nothing of it was kept",
        ("ledger", "backup", ledger, medium / "copy"): "nothing of it was kept",
        ("simulate", "wdbc", "--repeats", 1, "--out", medium / "runs"): "cannot make the run folder",
    }
    outcomes = in_one_process(*reads, *writes, before=NOT_ALMIGHTY)[0]
    for (call, expected), (code, out, err) in zip((reads | writes).items(), outcomes, strict=True):
        assert (code, expected in out + err) == (0 if call in reads else 2, True), (call, out, err)
        assert call in reads or err.count("\n") == 1
    assert snapshot(medium) == before
    assert "in order" in run("ledger", "verify", tmp_path / "copy.ledger", code=0).output


def test_a_page_is_replaced_whole(tmp_path, monkeypatch):
    from expril import files

    page = tmp_path / "report.html"
    files.replace_text(page, "old")
    monkeypatch.setattr(os, "fsync", lambda _file: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match=r"report\.html"):
        files.replace_text(page, "new")
    assert (page.read_text(), listing(tmp_path)) == ("old", ["report.html"])


# terminals, pipes, interrupts


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [["scenarios", "wdbc"], pytest.param(["scenarios"], marks=pytest.mark.slow)])
def test_a_reader_that_goes_away_is_no_error(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*EXPRIL, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (terminal.NOBODY_READS, b"")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_terminal_will_do(encoding, tmp_path):
    env = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    name = os.fsdecode(b"caf\xe9.toml")
    (tmp_path / name).write_text("no transcript")
    result = process("scenarios", env=env)
    assert (result.returncode, result.stderr) == (0, b"")
    result = process("transcript", "show", name, "--json", env=env, cwd=tmp_path)
    assert result.returncode == 2
    assert b"Traceback" not in result.stderr
    assert os.fsencode(json.loads(result.stdout.decode(encoding))["error"]).startswith(b"caf\xe9.toml")


def test_signs_that_a_terminal_lacks_are_written_in_another_way():
    from expril.commands.terminal import tolerate_any_terminal

    tolerate_any_terminal()
    assert "0.95 ± 0.01, R² ≥ Spitäl".encode("ascii", "expril") == b"0.95 +- 0.01, R2 >= Spit?l"
    assert "caf\udce9".encode("utf-8", "expril") == b"caf?"


@pytest.mark.parametrize("place", ["simulations.run_order.load_scenario", "expril.commands.terminal.bars"])
def test_an_interrupt_is_one_line(place, monkeypatch, tmp_path):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    monkeypatch.setattr("expril.commands.researcher.bars", terminal.bars)
    output = run("simulate", "wdbc", "--out", tmp_path, "--json", code=terminal.INTERRUPTED)
    assert len(output.stderr.splitlines()) == 1
    assert json.loads(output.stdout)["kind"] == "interrupted"


def test_an_interrupt_while_the_program_loads_is_one_line():
    code = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'expril.commands.researcher': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from expril.__main__ import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "scenarios"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (result.returncode, result.stdout) == (128 + signal.SIGINT, "")
    assert result.stderr == "interrupted; nothing of this command was kept\n"


# machines


OF_THE_COMMAND = {"usage", "disk", "memory", "installation", "interrupted"}


def test_the_document_has_every_kind_of_error_and_no_other():
    written = re.compile(r'^    kind(?:: ClassVar\[str\])? = "(\w+)"(?:  #.*)?$', re.MULTILINE)
    files = [path for room in ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab")
             for path in (ROOT / room).rglob("*.py")]  # fmt: skip
    kinds = {kind for path in files for kind in written.findall(path.read_text(encoding="utf-8"))} | OF_THE_COMMAND
    assert {error.kind for error in ExprilError.__subclasses__()} <= kinds
    table = (ROOT / "docs" / "reference" / "errors.md").read_text().split("| kind |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == kinds


def test_what_is_no_mistake_of_the_user_keeps_its_traceback():
    assert terminal.fault_of(ZeroDivisionError()) is None
    assert terminal.fault_of(ModuleNotFoundError(name="torch")) is None
    assert terminal.fault_of(ModuleNotFoundError(name="torch"), part="learner").kind == "installation"
    assert terminal.fault_of(MemoryError()).kind == "memory"
    assert "read-only disk" in terminal.fault_of(OSError(30, "Read-only file system", "/cd")).text


def test_the_estimators_refuse_infinity_and_a_large_epsilon_that_is_not_confirmed():
    from protocol.errors import ConfigurationError
    from simulations.local import SimulatedExPriLClassifier

    table = pl.DataFrame({"x": [float(number) for number in range(40)]})
    labels = [int(number > 20) for number in range(40)]
    study = SimulatedExPriLClassifier(epsilon=100, bounds=(0, 40), options={"cells": 2, "networks": False})
    with pytest.raises(ConfigurationError, match=r"100 was asked for; .* confirm it with large_epsilon=True"):
        study.fit(table, labels)
    study.set_params(large_epsilon=True).fit(table, labels)
    spoilt = table.with_columns(x=pl.when(pl.col("x") == 7).then(float("inf")).otherwise("x"))
    for call in (lambda: study.predict_proba(spoilt), lambda: study.set_params(epsilon=1).fit(spoilt, labels)):
        with pytest.raises(ConfigurationError, match=r"column .x. holds infinity.*in row 8"):
            call()


def test_a_column_that_is_missing_throughout_or_a_level_that_never_occurs_is_told_and_no_error(tour):
    """A steward's business: the curator warns it, and a simulation, which owns all records, goes on."""
    from curator_node.records.dataset import StewardWarning
    from simulations.carriers import direct
    from simulations.carriers.stages import here
    from simulations.records import load_records
    from simulations.repeats import run_repeat
    from simulations.scenario import load_scenario

    frame = pl.read_csv(tour / "records.csv", infer_schema=False)
    frame.with_columns(systolic=pl.lit(""), smoker=pl.lit("never")).write_csv(tour / "records.csv")
    scenario, _, folder = load_scenario(str(tour / "own.toml"))
    ada = msgspec.structs.replace(scenario.learners[0], options={"networks": False})
    scenario = msgspec.structs.replace(scenario, learners=(ada,))
    repeat = run_repeat(scenario, load_records(scenario, folder), 0, stage=here(direct.carry))
    assert repeat.outcomes[0].learned is not None
    from simulations.records import split_records

    site = split_records(scenario, load_records(scenario, folder), 0)["surgery"]
    from curator_node.records.dataset import PrivateDataset

    with pytest.warns(StewardWarning, match="'systolic' is missing in every record"):
        PrivateDataset(site.private, site.steward, unit_key=bytes(32), cache_bytes=10**6)
