"""A whole audit of what is installed: every release, every broken mechanism, every check, every attack, one result."""

import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from simulations.audit.controls import CONTROLS, audit_control
from simulations.audit.kinds import audit_kind, kinds_to_audit
from simulations.audit.results import AuditResult, BlogGame, Check, ControlResult, KindResult, StudyAttack
from simulations.audit.workers import Task, finished

FALSE_ALARMS = 0.05
"""Chance that an audit of correct software finds a violation anywhere, at most."""
DRAWS = 100_000
LIBRARIES = ("expril", "opendp", "numpy", "scipy", "cryptography")
Tick = Callable[[str, float, float], None]


def audit_everything(
    *,
    draws: int = DRAWS,
    quick: bool = False,
    workers: int = 2,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> AuditResult:
    """Do all of it.

    Args:
        draws: from each of two inputs, of every mechanism.
        quick: fewer trials of attacks on studies, and no game of the blog: for trying things out.
        workers: processes.
        tick: called with (what was finished, core seconds done, core seconds in all), roughly.
    """
    return run_tasks(tasks_of(draws=draws, quick=quick), workers=workers, tick=tick)


def run_tasks(
    tasks: Sequence[Task],
    *,
    workers: int,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> AuditResult:
    """Do these tasks; what they found, in their order.

    Args:
        tasks: each gives one or several of the results of `simulations.audit.results`.
        workers: processes.
        tick: as in `audit_everything`.
    """
    start = time.perf_counter()
    total, done = sum(task.seconds for task in tasks), 0.0
    found: dict[int, object] = {}
    tick("", 0.0, total)
    for place, result in finished(tasks, workers):
        found[place] = result
        done += tasks[place].seconds
        tick(tasks[place].name, done, total)
    results = [one for place in sorted(found) for one in _each(found[place])]
    return AuditResult(
        kinds=tuple(one for one in results if isinstance(one, KindResult)),
        controls=tuple(one for one in results if isinstance(one, ControlResult)),
        checks=tuple(one for one in results if isinstance(one, Check)),
        studies=tuple(one for one in results if isinstance(one, StudyAttack)),
        blog=next((one for one in results if isinstance(one, BlogGame)), None),
        false_alarm=FALSE_ALARMS,
        seconds=round(time.perf_counter() - start, 1),
        versions=versions(),
    )


def _each(result: object) -> Sequence[object]:
    return result if isinstance(result, tuple) else (result,)


def versions() -> dict[str, str]:
    """Of this software, of Python and of what the noise comes from."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


def tasks_of(*, draws: int, quick: bool) -> list[Task]:
    """The tasks of a whole audit, and how the false alarms are split: an equal part for all that can raise one.

    A control is caught or not: it raises no false alarm, and is attacked with the part of a shipped kind.

    Args:
        draws: from each of two inputs, of every mechanism.
        quick: fewer of them.
    """
    kinds = kinds_to_audit()
    part = FALSE_ALARMS / len(kinds)
    each = {"draws": draws // 10 if quick else draws, "error_rate": part}
    tasks = [Task(name, partial(audit_kind, name, **each), 15) for name in kinds]
    tasks += [Task(name, partial(audit_control, name, **each), 3) for name in CONTROLS]
    return tasks
