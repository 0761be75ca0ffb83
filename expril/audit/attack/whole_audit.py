"""A whole audit of what is installed: releases, broken mechanisms, checks, attacks; `AuditResult.passed` judges it."""

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.attack.calibration import calibrate
from expril.audit.attack.canaries import one_run
from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control
from expril.audit.attack.controls.mechanisms import CONTROLS, audit_control
from expril.audit.attack.handle_checks import path_checks
from expril.audit.attack.kinds import audit_kind, kinds_to_audit
from expril.audit.attack.studies.attacks import ATTACKS, attack_study, to_play
from expril.audit.attack.zumel_game import play_blog
from expril.audit.kinds.exact import colluder_losses
from expril.audit.results import AuditPart, AuditResult, as_object, decode_result
from simulations.campaign.runner import Computed, Progress, installed, run_tasks, says_nothing
from simulations.campaign.store import Store, is_held, read_settings

FALSE_ALARMS = 0.05
"""Chance that an audit of correct software finds a violation anywhere, at most."""
OF_RELEASES = 0.6
"""Share of it that releases get."""
DRAWS = 100_000
CELLS = "unfinished.jsonl"
"""In the folder of an audit that was interrupted."""
_LONG = {"membership": 10, "replay": 4}
"""Attack on studies -> seconds of a core, roughly, where they are more than one."""
LIBRARIES = ("expril", "opendp", "numpy", "scipy", "cryptography")


@dataclass(frozen=True)
class Attempt:
    """One piece of work of an audit."""

    maker: str  # its name, for people and for its cell
    # that another process can import; called without arguments, it gives one or several of the results of
    # `expril.audit.results`
    work: Callable[[], AuditPart | tuple[AuditPart, ...]]
    seconds: float  # of one core, roughly; the longest are begun first, and the progress is told in them

    def __str__(self) -> str:
        """For people."""
        return self.maker


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one piece of work gave, kept as soon as it is known."""

    key: str  # the name of the work
    seconds: float  # that it took
    audit: dict[str, Any] = msgspec.field(name="found")  # of this alone, as `results.as_object` writes it

    @property
    def result(self) -> AuditResult:
        """The audit of this alone."""
        return decode_result(msgspec.json.encode(self.audit))[0]


def audit_everything(
    *,
    draws: int = DRAWS,
    quick: bool = False,
    workers: int = 2,
    tick: Progress = says_nothing,
    cells: Path | None = None,
) -> AuditResult:
    """Do all of it.

    Args:
        draws: from each of two inputs, of every mechanism.
        quick: a tenth of the draws on each release, and of the games on studies: to try things out.
        workers: processes.
        tick: called with (what was finished, core seconds done, core seconds in all), roughly.
        cells: a file that keeps what is done until all of it is, so that an interrupted audit goes on; None keeps
            nothing. What another version of the software began, or with other draws, is begun anew.

    Raises:
        FailedRunsError: some work failed; what was done is kept.
        ConfigurationError: another process works on the cells.
    """
    return play(tasks_of(draws=draws, quick=quick), workers=workers, tick=tick, cells=cells, draws=draws, quick=quick)


def play(
    attempts: Sequence[Attempt],
    *,
    workers: int,
    tick: Progress = says_nothing,
    cells: Path | None = None,
    **settings: object,
) -> AuditResult:
    """Do this work; what it found, in its order.

    Args:
        attempts: all of the work.
        workers: processes.
        tick: as in `audit_everything`.
        cells: likewise.
        settings: what the cells depend on beside the software.
    """
    start = time.perf_counter()
    with ExitStack() as stack:
        store = None if cells is None else stack.enter_context(_store(cells, {**installed(), **settings}))
        finished = {} if store is None else {str(key): cell for key, cell in store.finished.items()}
        before = sum(cell.seconds for cell in finished.values())

        def keep(_attempt: Attempt, cell: Cell) -> None:
            finished[cell.key] = cell
            if store is not None:
                store.add(cell)

        pending = sorted(
            (attempt for attempt in attempts if attempt.maker not in finished), key=lambda attempt: -attempt.seconds
        )
        run_tasks(pending, _computed, keep, jobs=workers, work=lambda attempt: attempt.seconds, progress=tick).check()
    if cells is not None:
        cells.unlink()
    return AuditResult.of(
        (part for attempt in attempts for part in finished[attempt.maker].result.parts),
        false_alarm=FALSE_ALARMS,
        seconds=round(before / workers + time.perf_counter() - start, 1),
        versions=versions(),
    )


def _store(path: Path, settings: dict[str, object]) -> Store[Cell]:
    if path.exists() and not is_held(path) and read_settings(path) != settings:
        path.unlink()
    return Store(path, settings, Cell)


def _computed(attempt: Attempt) -> Computed[Cell]:
    start = time.perf_counter()
    results = attempt.work()
    audit = AuditResult.of(results if isinstance(results, tuple) else (results,))
    return Computed((Cell(attempt.maker, round(time.perf_counter() - start, 1), as_object(audit)),))


def versions() -> dict[str, str]:
    """Of this software, of Python and of what the noise comes from."""
    versions_by_name = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions_by_name[library] = version(library)
        except PackageNotFoundError:
            versions_by_name[library] = "absent"
    return versions_by_name


def tasks_of(*, draws: int, quick: bool) -> list[Attempt]:
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
        Attempt(name, partial(audit_kind, name, draws=draws // 10 if quick else draws, error_rate=part), 15)
        for name in kinds
    ]
    tasks += [
        Attempt(name, partial(audit_path_control, name, draws=draws, error_rate=part), 3) for name in PATH_CONTROLS
    ]
    tasks += [Attempt(name, partial(audit_control, name, draws=draws, error_rate=part), 3) for name in CONTROLS]
    tasks += [Attempt("calibration", calibrate, 3), Attempt("canaries", partial(one_run, error_rate=other), 1)]
    tasks += [Attempt(f"the path of {name}", partial(path_checks, name), 2) for name in kinds]
    for name, epsilon in studies:
        games = max(2, ATTACKS[name].games // 10) if quick else None
        share = other * ATTACKS[name].results
        work = partial(attack_study, name, epsilon, trials=games, error_rate=share)
        tasks.append(Attempt(f"{name} at epsilon {epsilon}", work, _LONG.get(name, 1)))
    tasks.append(Attempt("colluders", colluder_losses, 1))
    tasks.append(Attempt("the blog's game", play_blog, 1))
    return tasks
