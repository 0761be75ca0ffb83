"""The attack on installed query kinds: how long it takes, how close to the claim it gets, and what it catches."""

import os
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.common import Result, at_least, at_most
from expril.audit.attack.calibration import calibrate
from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control
from expril.audit.attack.handle_checks import path_checks
from expril.audit.attack.kinds import audit_kind, kinds_to_audit

DRAWS = 100_000


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the processor seconds of this process that it took."""
    start = time.process_time()
    return task(), time.process_time() - start


def run() -> list[Result]:
    names = kinds_to_audit()
    kinds, attacking = timed(lambda: [audit_kind(name, draws=DRAWS) for name in names])
    checks, checking = timed(lambda: [check for name in names for check in path_checks(name)] + [*calibrate()])
    controls, controlling = timed(lambda: [audit_path_control(name, draws=DRAWS) for name in PATH_CONTROLS])
    attacks = [entry.attack for entry in kinds]
    shares = {entry.kind: entry.attack.lower_bound / float(Fraction(entry.attack.claimed)) for entry in kinds}
    weakest = min(shares, key=lambda name: shares[name])
    margins = {entry.name: entry.attack.lower_bound - float(Fraction(entry.attack.claimed)) for entry in controls}
    closest = min(margins, key=lambda name: margins[name])
    off = max(abs((entry.exact or 0.0) - float(Fraction(entry.attack.claimed))) for entry in kinds)
    tried = sum(entry.searched for entry in kinds)
    return [
        at_most(
            "all kinds attacked", attacking, 90, "s", note=f"of one core; {DRAWS} draws from either set of records"
        ),
        Result("their curators' path and the noise checked", checking, "s", note="of one core"),
        Result("all broken curators attacked", controlling, "s", note="of one core"),
        Result("pairs of neighbours searched", tried, "pairs"),
        at_least("least share of a claim that draws prove", shares[weakest], 0.85, "", note=weakest),
        at_most("furthest exact loss from its claim", off, 1e-9, ""),
        at_most("kinds flagged", sum(entry.violation for entry in kinds), 0, ""),
        at_most("checks failed", sum(not entry.passed for entry in checks), 0, ""),
        at_least("broken curators caught", sum(entry.caught for entry in controls), len(controls), ""),
        at_least("least margin above a control's claim", margins[closest], 0, "", note=closest),
        Result(
            "draws in all", sum(2 * game.draws for game in (*attacks, *(entry.attack for entry in controls))), "draws"
        ),
    ]
