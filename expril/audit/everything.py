"""A whole audit of what is installed: every release, every broken mechanism, every check, every attack, one result."""

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from expril.audit.blog import play_blog
from expril.audit.calibration import calibrate
from expril.audit.canaries import one_run
from expril.audit.controls.tables import CONTROLS, audit_control
from expril.audit.kinds import audit_kind, kinds_to_audit, path_checks
from expril.audit.kinds.controls import PATH_CONTROLS, audit_path_control
from expril.audit.kinds.shares import colluder_losses
from expril.audit.results import (
    AuditResult,
    BlogGame,
    Check,
    ColluderLoss,
    ControlResult,
    KindResult,
    StudyAttack,
)
from expril.audit.studies.attacks import ATTACKS, attack_study, to_play
from expril.audit.workers import Task, finished

FALSE_ALARMS = 0.05
"""Chance that an audit of correct software finds a violation anywhere, at most."""
OF_RELEASES = 0.6
"""Share of it that releases get."""
DRAWS = 100_000
_LONG = {"membership": 10, "replay": 4}
"""Attack on studies -> seconds of a core, roughly, where they are more than one."""
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
        quick: a tenth of the draws on each release, and of the games on studies: to try things out.
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
        tasks: each gives one or several of the results of `expril.audit.results`.
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
        checks=_once(one for one in results if isinstance(one, Check)),
        studies=tuple(one for one in results if isinstance(one, StudyAttack)),
        colluders=tuple(one for one in results if isinstance(one, ColluderLoss)),
        blog=next((one for one in results if isinstance(one, BlogGame)), None),
        false_alarm=FALSE_ALARMS,
        seconds=round(time.perf_counter() - start, 1),
        versions=versions(),
    )


def _once(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Each check by its name once; where one was made several times, the first that failed, if one did."""
    found: dict[str, Check] = {}
    for one in checks:
        if one.name not in found or (found[one.name].passed and not one.passed):
            found[one.name] = one
    return tuple(found.values())


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
    """The tasks of a whole audit, and how the false alarms are split.

    Three fifths go to releases, in equal parts, and two fifths to all else that can raise one, in equal parts: the
    canaries and each attack on studies. A control is caught or not: it raises no false alarm, and is attacked as
    strictly as a release. Checks whose own rate is 1e-9 get no part.

    Args:
        draws: from each of two inputs, of every mechanism.
        quick: a tenth of the draws on each release, and of the games on studies.
    """
    kinds, studies = kinds_to_audit(), to_play()
    part = FALSE_ALARMS * OF_RELEASES / len(kinds)
    other = FALSE_ALARMS * (1 - OF_RELEASES) / (1 + sum(ATTACKS[name].results for name, _ in studies))
    tasks = [
        Task(name, partial(audit_kind, name, draws=draws // 10 if quick else draws, error_rate=part), 15)
        for name in kinds
    ]
    tasks += [Task(name, partial(audit_path_control, name, draws=draws, error_rate=part), 3) for name in PATH_CONTROLS]
    tasks += [Task(name, partial(audit_control, name, draws=draws, error_rate=part), 3) for name in CONTROLS]
    tasks += [Task("calibration", calibrate, 3), Task("canaries", partial(one_run, error_rate=other), 1)]
    tasks += [Task(f"the path of {name}", partial(path_checks, name), 2) for name in kinds]
    for name, epsilon in studies:
        games = max(2, ATTACKS[name].games // 10) if quick else None
        share = other * ATTACKS[name].results
        work = partial(attack_study, name, epsilon, trials=games, error_rate=share)
        tasks.append(Task(f"{name} at epsilon {epsilon}", work, _LONG.get(name, 1)))
    tasks.append(Task("colluders", colluder_losses, 1))
    tasks.append(Task("the blog's game", play_blog, 1))
    return tasks
