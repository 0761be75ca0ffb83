"""Attacks on whole studies, with more games than `expril audit studies` plays by default; and what the default takes.

A gain is met where it is proven neither above what epsilon allows nor below what theory gives the attack: 5 % false
alarms over all of them. Two processes play side by side.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.common import Result, at_most
from expril.audit.attack.studies.attacks import ATTACKS, attack_study, false_alarm_share, to_play
from expril.audit.results import StudyAttack

GAMES = {
    "isolation": 50_000,
    "patients": 20_000,
    "averaging": 12_500,
    "differencing": 50_000,
    "sybils": 50_000,
    "replay": 5_000,
    "membership": 120,
    "rounded_counts": 5_000,
}
DEFAULT_SECONDS = 45.0


def run() -> list[Result]:
    """See the module."""
    calls = sorted(to_play(), key=lambda call: call[0] != "membership")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        longer = list(workers.map(_longer, calls))
        default = sum(workers.map(_default, calls))
    attacks = sorted((attack for results in longer for attack in results), key=lambda attack: attack.target)
    took = at_most("the default bench", default, DEFAULT_SECONDS, "s", note="processor time, imports among it")
    return [*map(_result, attacks), took]


def _longer(call: tuple[str, str]) -> tuple[StudyAttack, ...]:
    name, epsilon = call
    return attack_study(name, epsilon, trials=GAMES[name], error_rate=false_alarm_share(name, to_play()))


def _default(call: tuple[str, str]) -> float:
    start = time.process_time()
    attack_study(*call)
    return time.process_time() - start


def _result(attack: StudyAttack) -> Result:
    theory = "" if attack.expected is None else f"theory {attack.expected:.4f}; "
    return Result(
        name=f"{attack.attack} on {attack.target}, epsilon {attack.epsilon}",
        value=attack.gain,
        unit="gain",
        target=f"<= {attack.bound:.4f}",
        met=attack.holds and attack.reaches,
        spread=attack.interval,
        note=f"{theory}{attack.trials} games, 95 % interval",
    )


assert GAMES.keys() == ATTACKS.keys()
