"""A whole audit of what is installed: releases, broken mechanisms, checks, attacks; `AuditResult.passed` judges it."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.attack.calibration import calibrate
from expril.audit.attack.canaries import one_run
from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control
from expril.audit.attack.controls.mechanisms import CONTROLS, audit_control
from expril.audit.attack.handle_checks import path_checks
from expril.audit.attack.kinds import kinds_to_audit
from expril.audit.attack.loss_curves import kind_and_curve
from expril.audit.attack.studies.attacks import ATTACKS, attack_study, to_play
from expril.audit.attack.zumel_game import play_blog
from expril.audit.kinds.exact import loss_of_shares
from expril.audit.kinds.kind_audit import AGREEMENT
from expril.audit.results import AuditPart, AuditResult, ColluderLoss, as_object, decode_result
from expril.report import provenance
from protocol.errors import ConfigurationError
from simulations.campaign.runner import Computed, Progress, installed, run_tasks, says_nothing
from simulations.campaign.store import Store, is_held, read_settings

FALSE_ALARMS = 0.05
"""Greatest probability that an audit of correct software finds a violation anywhere."""
OF_RELEASES = 0.6
"""Share of it for the attacks on releases."""
DRAWS = 100_000
QUICK_SHARE = 100
"""A quick look takes so many times fewer draws."""
LEAST_DRAWS = 1_000
QUICK_PAIRS = 10
"""Pairs of data sets that a quick look tries for each question, at most."""
CELLS = "unfinished.jsonl"
"""File in the folder of an audit that was interrupted."""
_LONG = {"membership": 10, "replay": 4}
"""Attack on studies -> seconds of one core, roughly; 1 for the others."""
LIBRARIES = ("expril", "opendp", "numpy", "scipy", "cryptography")

AT = Fraction(30)
"""Scale of the noise in the table of colluders; the claim is its inverse."""
SITES = (3, 5, 10, 50)
"""Numbers of sites in the table of colluders."""


@dataclass(frozen=True)
class Attempt:
    """One piece of work of an audit."""

    maker: str  # name, for people and as the key of the cell
    work: Callable[[], AuditPart | tuple[AuditPart, ...]]  # another process can import it
    seconds: float  # of one core, roughly: the longest begin first, and they measure the progress

    def __str__(self) -> str:
        """For people."""
        return self.maker


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one piece of work, stored as soon as it is finished."""

    key: str  # `Attempt.maker`
    seconds: float  # taken
    audit: dict[str, Any] = msgspec.field(name="found")  # of this work alone, from `results.as_object`

    @property
    def result(self) -> AuditResult:
        """The audit of this work alone."""
        return decode_result(msgspec.json.encode(self.audit))[0]


def audit_everything(
    *,
    draws: int = DRAWS,
    quick: bool = False,
    thorough: bool = False,
    workers: int = 2,
    tick: Progress = says_nothing,
    cells: Path | None = None,
) -> AuditResult:
    """Do the whole audit.

    Args:
        draws: of each of two inputs, for every mechanism.
        quick: a first look. Every release is attacked with few draws on the best of few pairs of data sets, and its
            exact loss is computed there. All else is left out.
        thorough: draw each release at other epsilons, too. It takes about twice the time.
        workers: processes.
        tick: called with (finished work, core seconds done, core seconds in all), roughly.
        cells: file of finished work, with which an interrupted audit goes on; it is removed at the end. None keeps
            nothing. Cells of another version of the software, or of other draws, are discarded.

    Raises:
        FailedRunsError: some work failed; the finished work is kept.
        ConfigurationError: another process works on the cells.
    """
    chosen = {"draws": draws, "quick": quick, "thorough": thorough}
    return play(
        tasks_of(draws=draws, quick=quick, thorough=thorough), workers=workers, tick=tick, cells=cells, **chosen
    )


def play(
    attempts: Sequence[Attempt],
    *,
    workers: int,
    tick: Progress = says_nothing,
    cells: Path | None = None,
    **settings: object,
) -> AuditResult:
    """Do this work and give its results in order; `settings` is what the cells depend on beside the software.

    The other arguments are those of `audit_everything`.
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
    """Versions of this software, of Python and of the libraries that draw the noise."""
    return provenance.versions(libraries=LIBRARIES)


def tasks_of(*, draws: int, quick: bool, thorough: bool = False) -> list[Attempt]:
    """The tasks of a whole audit, with the false-alarm rate split among them; the arguments are `audit_everything`'s.

    Three fifths of the rate go to the releases in equal parts, two fifths to the canaries and the attacks on studies
    in equal parts. A control raises no false alarm; it is attacked as strictly as a release. Checks with a rate of
    1e-9 of their own get no part.
    """
    kinds, studies = kinds_to_audit(), to_play()
    part = FALSE_ALARMS * OF_RELEASES / len(kinds)
    other = FALSE_ALARMS * (1 - OF_RELEASES) / (1 + sum(ATTACKS[name].results for name, _ in studies))
    options: dict[str, Any] = {"draws": draws, "thorough": thorough}
    if quick:
        options |= {"draws": max(LEAST_DRAWS, draws // QUICK_SHARE), "pairs": QUICK_PAIRS}
    tasks = [
        Attempt(name, partial(kind_and_curve, name, **options, error_rate=part), 30 if thorough else 15)
        for name in kinds
    ]
    if quick:
        return [*tasks, Attempt("colluders", colluder_losses, 1)]
    tasks += [
        Attempt(name, partial(audit_path_control, name, draws=draws, error_rate=part), 3) for name in PATH_CONTROLS
    ]
    tasks += [Attempt(name, partial(audit_control, name, draws=draws, error_rate=part), 3) for name in CONTROLS]
    tasks += [Attempt("calibration", calibrate, 3), Attempt("canaries", partial(one_run, error_rate=other), 1)]
    tasks += [Attempt(f"the path of {name}", partial(path_checks, name), 2) for name in kinds]
    for name, epsilon in studies:
        share = other * ATTACKS[name].results
        work = partial(attack_study, name, epsilon, error_rate=share)
        tasks.append(Attempt(f"{name} at epsilon {epsilon}", work, _LONG.get(name, 1)))
    tasks.append(Attempt("colluders", colluder_losses, 1))
    tasks.append(Attempt("the blog's game", play_blog, 1))
    return tasks


def colluder_losses(scale: Fraction = AT, sites: Sequence[int] = SITES) -> tuple[ColluderLoss, ...]:
    """Tabulate losses in units of the claim by number of colluders, for shares that assume one of them and none."""
    losses = []
    for count in sites:
        for assumed in (0, 1):
            parts = count - assumed
            for colluders in sorted({1, 2, count // 2, count - 1}):
                shape = Fraction(count - colluders, parts)
                enumerated = loss_of_shares(scale, shape, 1)
                if (
                    enumerated.loss is None
                    or enumerated.by_table is None
                    or abs(enumerated.loss - enumerated.by_table) > AGREEMENT
                ):
                    raise ConfigurationError(f"two ways to enumerate shares of {parts} do not agree")
                losses.append(
                    ColluderLoss(
                        sites=count,
                        assumed=assumed,
                        colluders=colluders,
                        unknown=str(shape),
                        claimed=str(1 / scale),
                        loss=enumerated.loss,
                    )
                )
    return tuple(losses)
