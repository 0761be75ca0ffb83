"""The process that trains peers: with fakes that misbehave, and, where the environment is there, the real one."""

import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from test_peers import accuracy, make_task

from lab.peers import PEERS, PeerFailedError, PeerUnavailableError, peer_versions, run_peer
from lab.peers import environment as peers_environment
from lab.peers import worker as peers_worker
from lab.peers.environment import PYTHON_VARIABLE, Worker, peers_python
from lab.peers.task import Release

SECRET = "0.123456789"
OUTSIDE = [name for name, kind in PEERS.items() if kind.family]
ANSWERING = """
import json, sys
import numpy as np
for line in sys.stdin:
    request = json.loads(line)
    with np.load(request["arrays"], allow_pickle=False) as arrays:
        np.savez(request["answer"], {probability})
    print(json.dumps({{"seconds": 0.5}}), flush=True)
"""


def fake(script: str, timeout_seconds: float = 30.0) -> Worker:
    return Worker([sys.executable, "-c", script], timeout_seconds)


def ask(worker: Worker, peer: str = "dp-logistic"):
    try:
        return worker.run("diffprivlib", make_task(peer))
    finally:
        worker.close()


def real_peer(peer: str, **changes):
    try:
        peers_python()
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    return make_task(peer, delta=1e-6 if PEERS[peer].delta == "positive" else 0.0, **changes)


# -- fakes ---------------------------------------------------------------------------------------------------------


def test_a_worker_is_reused_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    worker = fake(ANSWERING.format(probability='arrays["test"][:, 0]'))
    try:
        for seed in range(3):
            task = make_task("dp-logistic", seed=seed)
            results = worker.run("diffprivlib", task)
            assert np.array_equal(results.probability, task.test[:, 0])
            assert results.seconds == 0.5
            assert [path.name for folder in tmp_path.iterdir() for path in folder.iterdir()] == []
        assert worker.alive
    finally:
        worker.close()
    worker.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit(3)", "dp-logistic: its process broke off"),
        ("input(); raise SystemExit(3)", r"broke off \(EOFError, exit "),
        ("input(); print('not json', flush=True); input()", "broke off .JSONDecodeError"),
        (
            'input(); print(\'{"error": "ValueError", "place": "x.py:3"}\', flush=True); input()',
            "failed: ValueError at x",
        ),
        ("input(); print('{\"seconds\": 1}', flush=True); input()", "its answer cannot be read"),
        (ANSWERING.format(probability="np.zeros(3)"), "no probability for each of 200 records"),
        (ANSWERING.format(probability="np.full(200, np.nan)"), "no probability for each of 200 records"),
        (ANSWERING.format(probability="np.full(200, 1.5)"), "no probability for each of 200 records"),
        (ANSWERING.format(probability="np.array([{}] * 200)"), "its answer cannot be read"),
    ],
)
def test_a_process_that_misbehaves_is_a_clear_error(script, words):
    with pytest.raises(PeerFailedError, match=words):
        ask(fake(script))


def test_a_process_that_never_answers_is_ended():
    worker = fake("import sys; sys.stdin.read()", timeout_seconds=0.2)
    with pytest.raises(PeerFailedError, match=r"no answer in 0\.2 s; its process was ended"):
        worker.run("diffprivlib", make_task("dp-logistic"))
    assert not worker.alive
    worker.close()


def test_a_missing_library_says_how_to_install_it():
    with pytest.raises(PeerUnavailableError, match=r"environment has no diffprivlib\. `make peers`"):
        ask(fake('input(); print(\'{"missing": "diffprivlib"}\', flush=True); input()'))


def test_a_python_that_cannot_start_says_how_to_install_one(tmp_path):
    with pytest.raises(PeerUnavailableError, match=rf"cannot be started.*{PYTHON_VARIABLE}"):
        Worker([str(tmp_path / "python")])


def test_without_an_environment_a_peer_says_what_to_do_and_versions_leave_it_out(tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(PeerUnavailableError, match="`make peers`"):
        run_peer(make_task("dp-logistic"))
    assert peer_versions() == {}


def test_a_dead_process_is_replaced(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.touch()
    started = []

    def start(command, **_):
        started.append(command)
        once = 'input(); print(\'{"versions": {"a": "1"}}\', flush=True)'
        return fake(once if len(started) == 1 else f"{once}; input()")

    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.setattr(peers_environment, "Worker", start)
    monkeypatch.setattr(peers_environment, "_WORKERS", {})
    assert peers_environment.environment_versions() == {"a": "1"}
    (first,) = peers_environment._WORKERS.values()
    first._process.wait(30)
    assert peers_environment.environment_versions() == {"a": "1"}
    (second,) = peers_environment._WORKERS.values()
    second.close()
    assert len(started) == 2
    assert started[0][0] == str(python)


# -- the worker's side ---------------------------------------------------------------------------------------------


def request_for(tmp_path, task):
    np.savez(tmp_path / "task.npz", **{name: getattr(task, name) for name in peers_worker.ARRAYS})
    scalars = {name: getattr(task, name) for name in ("peer", "epsilon", "delta", "seed", "columns")}
    paths = {"arrays": str(tmp_path / "task.npz"), "answer": str(tmp_path / "answer.npz")}
    return json.dumps({"family": "fake", "task": scalars, **paths}) + "\n"


def serve(monkeypatch, lines, model):
    monkeypatch.setattr(peers_worker, "FAMILIES", {"fake": lambda: ({"dp-logistic": model}, {"fake": "7"})})
    replies = io.StringIO()
    peers_worker.serve(io.StringIO(lines), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def test_a_worker_gives_the_model_the_task_as_it_was(tmp_path, monkeypatch):
    task, seen = make_task("dp-logistic"), []

    def model(given):
        seen.append(given)
        return given.test[:, 1]

    replies = serve(monkeypatch, request_for(tmp_path, task) * 2, model)
    assert [reply.keys() for reply in replies] == [{"seconds"}, {"seconds"}]
    for name in vars(task):
        assert np.array_equal(getattr(seen[0], name), getattr(task, name)), name
    assert np.array_equal(np.load(tmp_path / "answer.npz")["arr_0"], task.test[:, 1])


def test_a_release_gets_records_setting_and_number_of_draws(tmp_path, monkeypatch):
    np.savez(tmp_path / "task.npz", records=np.array([[1.0, 2.0]]))
    paths = {"arrays": str(tmp_path / "task.npz"), "answer": str(tmp_path / "answer.npz")}
    release = {"name": "dp-logistic", "setting": {"epsilon": 2.0, "seed": "unset"}, "draws": 3}

    def model(records, setting, draws):
        assert setting["seed"] == "unset"
        return np.tile(records * setting["epsilon"], (draws, 1))

    (reply,) = serve(monkeypatch, json.dumps({"family": "fake", "release": release, **paths}) + "\n", model)
    assert reply.keys() == {"seconds"}
    assert np.array_equal(np.load(tmp_path / "answer.npz")["arr_0"], [[2.0, 4.0]] * 3)


def test_rows_of_another_number_than_asked_are_an_error():
    worker = fake(ANSWERING.format(probability="np.zeros((2, 1))"))
    try:
        assert worker.rows("fake", Release("r", 2), np.zeros((1, 1))).shape == (2, 1)
        with pytest.raises(PeerFailedError, match=r"r gave \(2, 1\) numbers, not 3 rows"):
            worker.rows("fake", Release("r", 3), np.zeros((1, 1)))
    finally:
        worker.close()


def test_each_environment_has_its_own_variable_and_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPRIL_AUDITED", str(tmp_path / "none"))
    with pytest.raises(PeerUnavailableError, match=r"`make audited`.*requirements-audited\.txt.*EXPRIL_AUDITED"):
        peers_environment.AUDITED_ENVIRONMENT.python()


def test_arrays_of_an_answer_keep_their_order(tmp_path, monkeypatch):
    task = make_task("dp-logistic")
    serve(monkeypatch, request_for(tmp_path, task), lambda given: (given.test, given.labels))
    arrays = np.load(tmp_path / "answer.npz")
    assert np.array_equal(arrays["arr_0"], task.test)
    assert np.array_equal(arrays["arr_1"], task.labels)


def test_a_failure_tells_its_kind_and_place_and_nothing_of_the_records(tmp_path, monkeypatch):
    def model(_task):
        raise ValueError(f"bad record {SECRET}")

    (reply,) = serve(monkeypatch, request_for(tmp_path, make_task("dp-logistic")), model)
    assert reply["error"] == "ValueError"
    assert "test_peers_environment.py" in reply["place"]
    assert SECRET not in json.dumps(reply)


def test_an_absent_library_is_named_and_an_absent_file_is_an_error(tmp_path, monkeypatch):
    def model(_task):
        raise ModuleNotFoundError("no", name="mbi")

    line = request_for(tmp_path, make_task("dp-logistic"))
    assert serve(monkeypatch, line, model) == [{"missing": "mbi"}]
    (tmp_path / "task.npz").unlink()
    (reply,) = serve(monkeypatch, line, model)
    assert reply["error"] == "FileNotFoundError"


def test_versions_leave_out_what_is_not_installed(monkeypatch):
    (reply,) = serve(monkeypatch, '{"versions": true}\n', None)
    assert reply["versions"]["fake"] == "7"

    def absent():
        raise ImportError

    monkeypatch.setattr(peers_worker, "FAMILIES", {"absent": absent})
    assert peers_worker.answer({"versions": True})["versions"].keys() == {"python"}


# -- the real environment ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("peer", OUTSIDE)
def test_a_peer_learns_an_easy_rule_and_repeats_itself(peer):
    """At epsilon 100 noise is small; naive Bayes and random trees see only part of the rule. Settings are fixed."""
    task = real_peer(peer, epsilon=100.0)
    assert accuracy(task) > 0.8
    if PEERS[peer].family == "marginals":
        return  # their noise is OpenDP's, from the operating system
    assert np.array_equal(run_peer(task).probability, run_peer(task).probability)
    assert not np.array_equal(run_peer(task).probability, run_peer(replace(task, seed=4)).probability)


@pytest.mark.slow
def test_the_real_environment_tells_its_versions_and_survives_a_failure():
    task = real_peer("dp-logistic")
    with pytest.raises(PeerFailedError, match="dp-logistic failed: ValueError at "):
        run_peer(replace(task, labels=np.zeros(900, dtype=np.int64)))  # diffprivlib wants both classes
    assert run_peer(task).probability.shape == (200,)
    assert {"peers/diffprivlib", "peers/opacus", "peers/scikit-learn", "peers/torch"} <= peer_versions().keys()


@pytest.mark.slow
def test_opacus_bounds_our_exact_accounting_from_above_and_closely():
    """Opacus's accountant of privacy loss distributions, for the noise that `gaussian` calls enough for epsilon 1."""
    import subprocess

    from lab.peers.preparation import noise_multiplier

    real_peer("opacus-mlp")
    code = (
        "from opacus.accountants import PRVAccountant; a = PRVAccountant(); "
        f"a.history = [({noise_multiplier(1.0, 1e-6, 100)!r}, 1.0, 100)]; print(a.get_epsilon(1e-6))"
    )
    done = subprocess.run([peers_python(), "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert 1.0 <= float(done.stdout) < 1.03
