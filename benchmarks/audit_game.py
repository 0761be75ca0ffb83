"""The distinguishing game: which broken mechanisms it catches, and how often it raises a false alarm."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.common import Result, at_least, at_most
from expril.audit.attack.canaries import one_run
from expril.audit.attack.controls.mechanisms import CLEAN, CONTROLS, audit_control
from expril.audit.attack.game import play

DRAWS, REPEATS = 100_000, 5
AUDITS, AUDIT_DRAWS, FALSE_ALARMS, MOST_FLAGGED = 200, 10_000, 0.05, 18
WORKERS = 2


def caught(name: str, seed: int) -> tuple[bool, float]:
    """Whether a control is caught at a shipped kind's error rate, and how far its bound lies above the claim."""
    result = audit_control(name, draws=DRAWS, error_rate=0.001, seed=seed)
    return result.caught, result.attack.lower_bound - float(Fraction(result.attack.claimed))


def flagged(seed: int) -> list[str]:
    """Names of the correct mechanisms that one audit at 5 % flags."""
    rate = FALSE_ALARMS / len(CLEAN)
    return [
        name
        for number, name in enumerate(CLEAN)
        if audit_control(name, draws=AUDIT_DRAWS, error_rate=rate, seed=1_000 * seed + number).caught
    ]


def game_of_32(seed: int) -> float:
    """Processor seconds of a game on 100,000 outcomes of 32 numbers from either input, without drawing them."""
    generator = np.random.default_rng(seed)
    halves = [generator.laplace(0, 1, (2, DRAWS // 2, 32)) for _ in range(2)]
    halves[1][:, :, 5] += 1
    streams = [iter(half) for half in halves]
    start = time.process_time()
    play(
        lambda _: next(streams[0]), lambda _: next(streams[1]), claimed="1", error_rate=0.05, neighbours="", draws=DRAWS
    )
    return time.process_time() - start


def run() -> list[Result]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(WORKERS) as pool:
        names = [name for name in CONTROLS for _ in range(REPEATS)]
        games = list(pool.map(caught, names, [*range(REPEATS)] * len(CONTROLS)))
        audits = list(pool.map(flagged, range(AUDITS), chunksize=5))
    missed = {
        name: sum(not hit for game, (hit, _) in zip(names, games, strict=True) if game == name) for name in CONTROLS
    }
    margins = {
        name: min(above for game, (_, above) in zip(names, games, strict=True) if game == name) for name in CONTROLS
    }
    closest = min(margins, key=lambda name: margins[name])
    alarms = [name for audit in audits for name in audit]
    names_of_alarms = ", ".join(alarms) or "none"
    seconds = [game_of_32(seed) for seed in range(5)]
    canaries = partial(one_run, error_rate=0.001)
    passed = sum(canaries(seed=seed).passed for seed in range(20))
    return [
        at_least(
            f"broken controls flagged in all of {REPEATS} games of {DRAWS:,} draws each",
            sum(not count for count in missed.values()),
            13,
            "controls",
            note=f"of {len(CONTROLS)}, at an error rate of 0.001; the closest is {closest}, at least"
            f" {margins[closest]:.2f} above its claim",
        ),
        at_most(
            f"audits of eleven correct stand-ins flagged, of {AUDITS} at 5 %",
            sum(map(bool, audits)),
            MOST_FLAGGED,
            "audits",
            note=f"{len(CLEAN)} mechanisms an audit, {AUDIT_DRAWS:,} draws each; flagged: {names_of_alarms}",
        ),
        at_most(
            "one game, 100,000 outcomes of 32 floats from either input, processor time",
            sorted(seconds)[2],
            3.0,
            "s",
            spread=(min(seconds), max(seconds)),
        ),
        at_least("one-run canaries: passed, with the broken curator caught, of 20", passed, 20, "runs"),
    ]
