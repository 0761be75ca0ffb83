"""A whole audit: tasks over processes, the split of false alarms, the command with its table, files and exit status."""

import json
import os
from functools import partial
from multiprocessing.reduction import ForkingPickler

import pytest

from audit_results import audit, blog, check, control, kind, study
from command_line import run as typed
from expril.audit.attack import whole_audit as everything
from expril.audit.attack.whole_audit import FALSE_ALARMS, Attempt, play, tasks_of
from expril.audit.results import read_result
from protocol.errors import ConfigurationError
from simulations.campaign.runner import FailedRunsError
from simulations.campaign.store import Store


def results_of(results):
    return results


def tasks_for(*results):
    return [Attempt(str(place), partial(results_of, part), float(place + 1)) for place, part in enumerate(results)]


def fails():
    raise ConfigurationError("nothing to attack")


def test_results_are_in_the_order_of_the_tasks_whatever_finishes_first():
    first, second = kind("a"), kind("b")
    ticks = []
    result = play(
        tasks_for((study(), study(epsilon="10")), first, (check(),), second, control(), blog()),
        workers=1,
        tick=lambda label, finished, total: ticks.append((label, finished, total)),
    )
    assert result.kinds == (first, second)
    assert len(result.studies) == 2
    assert (len(result.checks), len(result.controls), result.blog is not None) == (1, 1, True)
    assert ticks[0] == ("", 0.0, 21.0)
    assert ticks[-1][1:] == (21.0, 21.0)
    assert result.versions["opendp"][0].isdigit()
    assert result.false_alarm == FALSE_ALARMS


def pid():
    return kind(str(os.getpid()))


@pytest.mark.slow
def test_two_processes_share_the_work():
    result = play([Attempt(str(n), pid, 1.0) for n in range(4)], workers=2)
    assert len(result.kinds) == 4
    assert str(os.getpid()) not in {part.kind for part in result.kinds}


def test_what_fails_is_named_and_what_was_done_is_kept(tmp_path):
    cells = tmp_path / "cells.jsonl"
    good = tasks_for(kind("a"), kind("b"))
    with pytest.raises(FailedRunsError, match="nothing to attack"):
        play([*good, Attempt("bad", fails, 2.0)], workers=1, cells=cells)
    finished = []
    result = play(
        [*tasks_for(kind("x"), kind("y")), Attempt("bad", partial(results_of, kind("c")), 2.0)],
        workers=1,
        cells=cells,
        tick=lambda label, *_: finished.append(label),
    )
    assert [part.kind for part in result.kinds] == ["a", "b", "c"]
    assert finished == ["", "bad"]
    assert not cells.exists()


def test_other_draws_or_other_software_begin_anew(tmp_path, monkeypatch):
    cells = tmp_path / "cells.jsonl"
    bad = Attempt("bad", fails, 2.0)
    for settings, source in (({"draws": 1}, "one"), ({"draws": 2}, "one"), ({"draws": 2}, "other")):
        monkeypatch.setattr(everything, "installed", lambda source=source: {"source": source})
        finished = []
        with pytest.raises(FailedRunsError):
            play(
                [*tasks_for(kind("a")), bad],
                workers=1,
                cells=cells,
                tick=lambda label, *_, finished=finished: finished.append(label),
                **settings,
            )
        assert "0" in finished


def test_what_another_audit_works_on_is_left_to_it(tmp_path):
    cells = tmp_path / "cells.jsonl"
    with Store(cells, {"draws": 1}, everything.Cell):
        before = cells.read_bytes()
        with pytest.raises(ConfigurationError, match="another process works on"):
            play(tasks_for(kind("a")), workers=1, cells=cells, draws=2)
        assert cells.read_bytes() == before


def test_the_parts_of_false_alarms_add_up_to_the_budget():
    tasks = tasks_of(draws=100_000, quick=False)
    assert len({task.maker for task in tasks}) == len(tasks)
    rates = {}
    for task in tasks:
        if isinstance(task.work, partial):
            rates.setdefault(task.work.func, []).append(task.work.keywords.get("error_rate"))
    alarming = [*rates[everything.audit_kind], *rates[everything.one_run], *rates[everything.attack_study]]
    assert sum(alarming) == pytest.approx(FALSE_ALARMS)
    strictness = set(rates[everything.audit_control] + rates[everything.audit_path_control])
    assert strictness == set(rates[everything.audit_kind])
    assert len(rates[everything.audit_kind]) == len(everything.kinds_to_audit())
    assert len(rates[everything.audit_path_control]) == len(everything.PATH_CONTROLS)
    assert len(rates[everything.audit_control]) == len(everything.CONTROLS)


def test_every_task_can_be_sent_to_another_process():
    for task in tasks_of(draws=2000, quick=True):
        ForkingPickler.dumps(task.work)


def test_a_check_that_was_made_twice_is_told_once_and_its_failure_is_not_lost():
    result = play(tasks_for(check(), check(passed=False), check()), workers=1)
    assert [part.passed for part in result.checks] == [False]


# The command


@pytest.fixture
def run(tmp_path, monkeypatch):
    def command(result, *options, code):
        parts = (result.kinds, result.controls, result.checks, result.studies, *filter(None, (result.blog,)))
        monkeypatch.setattr(everything, "tasks_of", lambda **asked: tasks_for(*parts))
        return typed("audit", "all", "--workers", 1, "--out", tmp_path / "out", *options, code=code)

    return command


def test_all_in_order_exits_with_0_and_writes_a_page_and_json(run, tmp_path):
    finished = run(audit(), code=0)
    for part in (*audit().kinds, *audit().controls, *audit().checks):
        assert (part.kind if hasattr(part, "kind") else part.name.replace("_", " ")) in finished.stdout
    assert "No attack found more privacy loss than is claimed." in finished.stdout
    assert read_result(tmp_path / "out" / "audit.json")[0].kinds == audit().kinds
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "expril audit all" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kinds": (kind(violation=True, bound=0.5),)}, "VIOLATION"),
        ({"controls": (control(caught=False, bound=0.1),)}, "MISSED"),
        ({"checks": (check(passed=False),)}, "FAILED"),
        ({"studies": (study(gain=0.9, holds=False),)}, "ABOVE BOUND"),
        ({"studies": (study(reaches=False),)}, "SHORT"),
    ],
)
def test_what_is_not_in_order_exits_with_1(run, change, said):
    assert said in run(audit(**change), code=1).stdout


def test_json_for_a_gate(run):
    finished = run(audit(), "--json", code=0)
    ticks = json.loads(finished.stdout)
    assert [part["kind"] for part in ticks["kinds"]] == [part.kind for part in audit().kinds]
    assert all(part["caught"] for part in ticks["controls"])
    assert json.loads(run(audit(kinds=(kind(violation=True, bound=1.0),)), "--json", code=1).stdout)["passed"] is False


def test_wrong_use_exits_with_2(run):
    run(audit(), "--draws", "7", code=2)
    run(audit(), "--drawz", "7", code=2)
