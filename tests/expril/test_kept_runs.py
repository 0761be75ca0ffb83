"""Runs that can be kept: repeats survive kills, models and predictions stay, a run is run again from its folder."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from sklearn.metrics import accuracy_score

import expril
from command_line import run
from learner_node.models.files import KINDS
from protocol.envelopes import open_envelope
from protocol.messages import Release
from simulations.campaign.store import Store
from simulations.datasets import load_dataset
from simulations.run_cells import leftovers
from simulations.run_folder import name_newest, of_newest

SCENARIO = """
title = "small"
repeats = 2
seed = 3
noise_seed = 5
[data]
name = "wdbc"
sites = { how = "random", fractions = { north = 0.5, south = 0.5 } }
[[learners]]
name = "ada"
options = { networks = false, cells = 6 }
[[learners]]
name = "grace"
strategy = "paper-c"
epsilon = "1/2"
pooling = "site"
options = { epochs = 1, hidden = [2], rounds = 1 }
"""
KILLED = """
import os, resource, signal, sys
from simulations.campaign.store import Store
from expril.commands.app import app

how, after, *arguments = sys.argv[1:]
add = Store.add

def stop(*_):
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        return
    os.kill(os.getpid(), getattr(signal, how))

def stopped(self, cell):
    # After the other files of the repeat, and before the cell that counts it.
    if cell.key >= int(after):
        stop()
    add(self, cell)

Store.add = stopped
app(arguments, prog_name="expril")
"""


def simulate(*arguments, code=0):
    return run("simulate", *arguments, "--json", code=code)


def run_of(*arguments):
    """The folder of the run that `expril simulate` makes."""
    return Path(json.loads(simulate(*arguments).stdout)["run"])


def killed(how, after, *arguments):
    """The command in a process of its own, which is really ended while it keeps the repeat number `after`."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", KILLED, how, str(after), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenario")
    (folder / "small.toml").write_text(SCENARIO)
    return folder


@pytest.fixture(scope="module")
def undisturbed(place, tmp_path_factory):
    """The folder of a run that nobody disturbed."""
    return run_of(place / "small.toml", "--out", tmp_path_factory.mktemp("whole"))


def partial(out):
    (folder,) = out.glob(".*.partial")
    return folder


def predictions(folder):
    return pl.read_parquet(folder / "local/predictions/*.parquet").sort("repeat", "learner", "row")


def exact_columns(frame):
    return frame.select(cs.exclude(cs.float(), "predicted"))


def first_releases(folder):
    """What every curator released first, transcript by transcript."""
    releases = []
    for entry in json.loads((folder / "transcripts/index.json").read_bytes())["transcripts"]:
        envelopes = msgspec.msgpack.decode((folder / "transcripts" / entry["file"]).read_bytes(), type=list[bytes])
        messages = (open_envelope(data)[1] for data in envelopes)
        releases.append(next(message.body for message in messages if isinstance(message, Release)))
    return releases


def exact(told):
    """A report without its floats, and without how many records a model puts in a bin."""
    if isinstance(told, dict):
        return {name: exact(value) for name, value in told.items() if name not in ("created", "command", "calibration")}
    if isinstance(told, list):
        return [exact(value) for value in told]
    return None if isinstance(told, float) else told


def same(run_, other):
    """All that noise and splits decide is the same to the last bit; keys, signatures and the time differ.

    Models that are trained on it are the same but for rounding, which moves records at the border between the classes.
    """
    first, second = (pl.read_parquet(folder / "metrics.parquet") for folder in (run_, other))
    assert exact_columns(first).equals(exact_columns(second))
    first, second = predictions(run_), predictions(other)
    assert exact_columns(first).equals(exact_columns(second))
    chances = [table.select(cs.float()).to_numpy() for table in (first, second)]
    assert np.abs(chances[0] - chances[1]).mean() < 0.01
    assert (first["predicted"] != second["predicted"]).mean() < 0.05
    assert first_releases(run_) == first_releases(other)
    reports = [json.loads((folder / "report.json").read_bytes()) for folder in (run_, other)]
    assert exact(reports[0]) == exact(reports[1])
    models = [sorted((folder / "models").iterdir()) for folder in (run_, other)]
    assert [path.name for path in models[0]] == [path.name for path in models[1]]


# What a run leaves


@pytest.mark.slow
def test_every_score_can_be_computed_anew_from_the_predictions(undisturbed):
    table = predictions(undisturbed)
    metrics = pl.read_parquet(undisturbed / "metrics.parquet")
    assert set(table.columns) >= {"repeat", "learner", "site", "part", "row", "label", "predicted"}
    assert table["part"].unique().to_list() == ["test"]
    last = metrics.sort("round").group_by("repeat", "learner", "curator").last()
    for row in last.iter_rows(named=True):
        mine = table.filter((pl.col("repeat") == row["repeat"]) & (pl.col("learner") == row["learner"]))
        if row["curator"]:
            mine = mine.filter(pl.col("site") == row["curator"])
        assert row["accuracy"] == pytest.approx(accuracy_score(mine["label"], mine["predicted"]), abs=1e-12)
    dataset = load_dataset("wdbc")
    rows = table["row"].to_numpy()
    assert dataset.frame[dataset.label].to_numpy()[rows].tolist() == table["label"].to_list()
    assert not table.select("repeat", "learner", "row").is_duplicated().any()
    benign, malignant = (table[f"P({name})"].to_numpy() for name in ("benign", "malignant"))
    np.testing.assert_allclose(benign + malignant, 1, atol=1e-12)
    assert np.array_equal(malignant > benign, (table["predicted"] == "malignant").to_numpy())


def test_the_models_of_the_first_repeat_load_and_predict_what_was_predicted(undisturbed):
    table = predictions(undisturbed).filter(pl.col("repeat") == 0)
    frame = load_dataset("wdbc").frame
    for learner, pooled in (("ada", True), ("grace", False)):
        model = expril.load(undisturbed, learner)
        for site in ("north", "south"):
            mine = table.filter((pl.col("learner") == learner) & (pl.col("site") == site))
            values = model.predict_proba(frame[mine["row"]], None if pooled else site)
            # Networks in float32: sums of some dozen products, each rounded to 2^-24.
            np.testing.assert_allclose(values, mine.select("P(benign)", "P(malignant)").to_numpy(), rtol=0, atol=1e-5)
    with pytest.raises(Exception, match="holds several models; say whose"):
        expril.load(undisturbed)
    with pytest.raises(Exception, match="those of ada in repeat 0, grace in repeat 0"):
        expril.load(undisturbed, "ada", repeat=1)


def test_files_of_single_records_are_for_their_owner_alone_and_in_no_list(undisturbed):
    local = [undisturbed / "local", *(undisturbed / "local").rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in local if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in local if path.is_dir()} == {0o700}
    index = json.loads((undisturbed / "transcripts/index.json").read_bytes())
    assert "models/repeat-00000-0-ada.safetensors" in index["files"]
    assert not [name for name in index["files"] if name.startswith(("local", ".progress"))]
    assert not list(undisturbed.rglob("*keys*")), "the learners' keys are gone"
    assert not (undisturbed / ".progress").exists()


def test_audit_run_says_what_is_local_and_stays_content_without_it(undisturbed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(undisturbed, copy)
    assert "tells of single records" in run("audit", "run", copy).output
    shutil.rmtree(copy / "local")
    assert "was removed, or not kept" in run("audit", "run", copy).output
    (copy / "models/repeat-00000-0-ada.safetensors").write_bytes(b"x")
    assert "was changed" in run("audit", "run", copy, code=1).output


@pytest.mark.parametrize(("which", "count"), [("none", 0), pytest.param("all", 4, marks=pytest.mark.slow)])
def test_of_which_repeats_models_are_kept(place, tmp_path, which, count):
    repeats = 2 if count else 1
    result = simulate(place / "small.toml", "--out", tmp_path, "--repeats", repeats, "--models", which)
    assert len(list(Path(json.loads(result.stdout)["run"]).glob("models/*"))) == count


@pytest.mark.slow
def test_a_model_that_no_file_holds_is_said_and_costs_the_run_nothing(place, tmp_path, monkeypatch):
    monkeypatch.delitem(KINDS, "network")
    report = json.loads(simulate(place / "small.toml", "--out", tmp_path, "--repeats", 1).stdout)
    assert "Models of grace are not kept: no file holds their kind." in report["notes"]
    assert [path.name for path in Path(report["run"], "models").iterdir()] == ["repeat-00000-0-ada.safetensors"]


# Interrupted


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(place, undisturbed, tmp_path, how):
    died = killed(how, 1, "simulate", place / "small.toml", "--out", tmp_path)
    unfinished = partial(tmp_path)
    if how == "SIGKILL":
        assert died.returncode == -signal.SIGKILL
    else:
        assert died.returncode == 130, died.stderr
        assert f"interrupted; 1 of 2 repeats are kept in {unfinished}: the same command goes on" in died.stderr
    secret = unfinished / ".progress/learner-keys.json"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    original = (unfinished / "transcripts/00000.msgpack").read_bytes()
    assert "holds 1 of 2 repeats" in str(next(leftovers(tmp_path)))
    assert "was not finished" in run("audit", "run", unfinished, code=2).output
    result = simulate(place / "small.toml", "--out", tmp_path)
    assert f"going on after 1 repeats that are done in {unfinished}" in result.stderr
    folder = Path(json.loads(result.stdout)["run"])
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "latest"}
    assert (folder / "transcripts/00000.msgpack").read_bytes() == original
    same(folder, undisturbed)
    assert "not proven" not in run("audit", "run", folder).output.lower()


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_finished_repeats_stay(place, undisturbed, tmp_path):
    died = killed("full", 1, "simulate", place / "small.toml", "--out", tmp_path)
    assert died.returncode == 2, died.stderr
    assert "Traceback" not in died.stderr
    assert "cannot write the run" in died.stderr
    assert f"1 of 2 repeats are kept in {partial(tmp_path)}" in died.stderr
    folder = run_of(place / "small.toml", "--out", tmp_path)
    same(folder, undisturbed)


@pytest.fixture(scope="module")
def stopped(place, tmp_path_factory):
    """A folder with one finished repeat of two."""
    add, out = Store.add, tmp_path_factory.mktemp("stopped")

    def stop(self, cell):
        add(self, cell)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "add", stop)
        stderr = simulate(place / "small.toml", "--out", out, code=130).stderr
    assert "1 of 2 repeats are kept" in stderr
    return out


@pytest.fixture
def interrupted(stopped, tmp_path):
    """A copy that a test may spoil."""
    return shutil.copytree(stopped, tmp_path / "out")


@pytest.mark.slow
def test_another_order_does_not_go_on_with_it_and_says_that_it_is_there(place, interrupted):
    unfinished = partial(interrupted)
    result = simulate(place / "small.toml", "--out", interrupted, "--repeats", 1)
    assert "going on" not in result.stderr
    assert f"{unfinished} holds 1 of 2 repeats of an interrupted run" in result.stderr
    assert f"rm -r {unfinished} removes them" in result.stderr
    assert unfinished.exists()


@pytest.mark.slow
def test_fresh_begins_anew(place, interrupted, undisturbed):
    result = simulate(place / "small.toml", "--out", interrupted, "--fresh")
    assert "going on" not in result.stderr
    assert "holds 1 of 2 repeats" in result.stderr
    same(Path(json.loads(result.stdout)["run"]), undisturbed)


@pytest.mark.slow
def test_a_damaged_unfinished_run_is_not_gone_on_with(place, interrupted):
    unfinished = partial(interrupted)
    file = unfinished / "transcripts/00001.msgpack"
    data = file.read_bytes()
    file.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
    result = simulate(place / "small.toml", "--out", interrupted)
    assert "going on" not in result.stderr
    assert str(unfinished) in result.stderr
    file.unlink()
    (unfinished / ".progress/repeats.jsonl").write_bytes(b"x")
    result = simulate(place / "small.toml", "--out", interrupted, "--repeats", 1)
    assert (
        f"{unfinished} was left by an interrupted run and holds no finished repeat: rm -r {unfinished}" in result.stderr
    )


@pytest.mark.slow
def test_a_folder_that_a_process_works_on_is_left_alone(place, interrupted):
    import fcntl

    unfinished = partial(interrupted)
    with (unfinished / ".progress/repeats.jsonl").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = simulate(place / "small.toml", "--out", interrupted, "--repeats", 1)
        assert str(unfinished) not in result.stderr
        assert list(leftovers(interrupted)) == []
    assert len(list(leftovers(interrupted))) == 1


@pytest.mark.slow
def test_what_the_interrupted_repeat_had_written_is_forgotten(place, interrupted, undisturbed):
    unfinished = partial(interrupted)
    (unfinished / "transcripts/00099.msgpack").write_bytes(b"half")
    (unfinished / "local/predictions/repeat-00001.parquet").write_bytes(b"half")
    folder = run_of(place / "small.toml", "--out", interrupted)
    same(folder, undisturbed)
    assert "not proven" not in run("audit", "run", folder).output.lower()


# Again, from inside


@pytest.mark.slow
def test_a_run_is_run_again_from_its_folder(undisturbed, tmp_path):
    again = run_of(undisturbed, "--out", tmp_path)
    same(again, undisturbed)
    file = run_of(undisturbed / "scenario.toml", "--out", tmp_path, "--repeats", 1)
    assert json.loads((file / "report.json").read_bytes())["repeats"] == 1
    third = run_of(file, "--out", tmp_path)
    same(third, file)
    assert "--repeats" not in json.loads((third / "report.json").read_bytes())["command"]
    output = simulate(tmp_path, "--out", tmp_path, code=2).output
    assert "is a folder, and no run is in it" in output
    assert (tmp_path / "latest" / "small").resolve() == third.resolve()
    newest = run_of(tmp_path / "latest" / "small", "--out", tmp_path)
    assert newest != third
    assert json.loads((newest / "report.json").read_bytes())["command"] == f"expril simulate {third.name}"
    run("audit", "run", tmp_path / "latest" / "small")


def test_the_newest_run_of_a_title_has_a_name_of_its_own(tmp_path):
    first, second = "own-20261123-160000", "own-20261123-160000-2"
    for name in (first, second, "own-epsilons-20261123-160001", "other-20260101-000000"):
        (tmp_path / name).mkdir()
        name_newest(tmp_path / name)
    links = {link.name: link.resolve().name for link in (tmp_path / "latest").iterdir()}
    assert links == {
        "own": second,
        "own-epsilons": "own-epsilons-20261123-160001",
        "other": "other-20260101-000000",
    }
    assert of_newest(str(tmp_path / "latest/own/")) == str(tmp_path / "own-20261123-160000-2")
    assert of_newest(str(tmp_path / "latest/own/scenario.toml")) == str(
        tmp_path / "own-20261123-160000-2/scenario.toml"
    )
    assert of_newest("docs/tour/own.toml") == "docs/tour/own.toml"


def test_what_lies_in_the_place_of_a_name_is_left_alone(tmp_path):
    (tmp_path / "own-20261123-160000").mkdir()
    (tmp_path / "latest" / "own").mkdir(parents=True)
    (tmp_path / "latest" / "own" / "file").touch()
    name_newest(tmp_path / "own-20261123-160000")
    assert [path.name for path in (tmp_path / "latest").iterdir()] == ["own"]
    assert (tmp_path / "latest" / "own" / "file").is_file()
    assert of_newest(str(tmp_path / "latest/own")) == str(tmp_path / "latest/own")


OWN = """
title = "own"
noise_seed = 1
[data]
path = "sub/people.csv"
schema = "schema.toml"
sites = { how = "site", column = "ward" }
[[learners]]
name = "ada"
options = { networks = false, cells = 3 }
"""
SCHEMA = """
label = "sick"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
lower = 0
upper = 100
"""


@pytest.fixture
def own(tmp_path):
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 200)
    sick = np.where(age > 50, "yes", "no")
    frame = pl.DataFrame({"age": age, "sick": sick, "ward": rng.choice(["a", "b"], 200)})
    frame.write_csv(home / "sub/people.csv")
    (home / "schema.toml").write_text(SCHEMA)
    (home / "own.toml").write_text(OWN)
    return home


@pytest.mark.slow
def test_records_of_ones_own_are_found_again_and_never_copied_or_named(own, tmp_path):
    first = run_of(own / "own.toml", "--out", tmp_path / "runs")
    (own / "own.toml").unlink()
    (own / "schema.toml").unlink()
    result = simulate(first, "--out", tmp_path / "again")
    same(Path(json.loads(result.stdout)["run"]), first)
    same(run_of(json.loads(result.stdout)["run"], "--out", tmp_path), first)
    for path in first.rglob("*"):
        if path.is_file() and "local" not in path.parts:
            assert str(tmp_path).encode() not in path.read_bytes(), path
            assert b"home" not in path.read_bytes(), path
    rows = predictions(first)
    frame = pl.read_csv(own / "sub/people.csv")
    assert frame["sick"].to_numpy()[rows["row"].to_numpy()].tolist() == rows["label"].to_list()
    # moved
    (own / "sub").rename(own / "elsewhere")
    output = simulate(first, "--out", tmp_path, code=2).output
    assert "sub/people.csv, are not where they were" in output
    assert "--base FOLDER" in output
    (own / "elsewhere").rename(own / "sub")
    simulate(first, "--out", tmp_path, "--base", own)
    frame.with_columns(pl.col("age") + 0.5).write_csv(own / "sub/people.csv")
    result = json.loads(simulate(first, "--out", tmp_path).stdout)
    assert f"sub/people.csv has changed since {first.name} was made: this run has other records." in result["notes"]


@pytest.mark.slow
def test_a_run_without_its_local_folder_says_how_its_records_are_found(own, tmp_path):
    first = run_of(own / "own.toml", "--out", tmp_path / "runs")
    shutil.rmtree(first / "local")
    assert "--base FOLDER" in simulate(first, "--out", tmp_path, code=2).output
    simulate(first, "--out", tmp_path, "--base", own)
