"""Noise: what a number of ours costs beside OpenDP's vector call; what a share of noise costs; what their time tells.

Whole noise and choices are compared with OpenDP's, in turn: the same question to both sources, for several scales and
sizes of the vector. Shares are compared with the simplest exact sampler of the same law. It is rejection: of geometric
numbers k it keeps those that pass the coins (j - 1 + r) / j, j = 1 .. k, which turns their law into the negative
binomial of shape r; one number at a time, in Python's integers.
All times are processor time: one thread draws, and waits for nothing.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from scipy import stats

from benchmarks.common import Result, at_most, median, spread
from curator_node.exact_draws import digits_of, draw_laplace, draw_shares
from curator_node.mechanisms import ExactNoise, NoiseSource, Stamp
from curator_node.opendp_noise import OpenDPNoise
from protocol.noise import DiscreteLaplace, NoisyMax

SIZE, REPEATS = 1000, 9
SCALES = (Fraction(1, 2**32), Fraction(1, 7), Fraction(1), Fraction(30), Fraction(1000, 3), Fraction(10**6), 2**32)
PARTS = (1, 2, 8, 50, 1000)
LIMIT = 20
WHOLE = (Fraction(1, 2), Fraction(3), Fraction(30), Fraction(1000, 3), Fraction(10**6), Fraction(2**32))
SIZES = (1, 100, 10_000)
A_THIRD = 1 / 3
REJECTED = ((Fraction(30), 8, 50), (Fraction(1000, 3), 8, 10), (Fraction(30), 50, 50))
"""Scale, parts and how many shares one measurement of the rejection sampler draws."""
STAMP = Stamp("benchmark", 0, 1)


def run() -> list[Result]:
    """See the module."""
    return [
        *_whole(),
        *_choices(),
        *_tables(),
        *_shares(),
        *_beside_rejection(),
        *_beside_whole_noise(),
        *_what_time_tells(),
    ]


def _whole() -> list[Result]:
    rows = []
    for scale in WHOLE:
        for size in SIZES:
            ours, theirs = _interleaved([_asking(each, scale, size) for each in (ExactNoise(), OpenDPNoise())], REPEATS)
            name = f"a number of noise over OpenDP's vector call, scale {_text(scale)}, {size} at once"
            ratio, note = (
                min(ours) / min(theirs),
                f"{min(ours) / size * 1e6:.3g} us over {min(theirs) / size * 1e6:.3g}",
            )
            # One number alone is a call's own cost: it is told, and no target was set for it.
            one = Result(name, ratio, "times", note=note)
            rows.append(one if size == 1 else at_most(name, ratio, A_THIRD, "times", note=note))
    return rows


def _asking(source: NoiseSource, scale: Fraction, size: int) -> Callable[[], object]:
    """One call of a source for so many numbers."""
    zeros, law = np.zeros(size, np.int64), DiscreteLaplace(scale)
    return lambda: source.discrete_laplace(zeros, 1, law, STAMP)


def _choices() -> list[Result]:
    rows, law = [], NoisyMax(Fraction(30))
    for size in (5, 1_000):
        scores = np.arange(size)

        def choose(source: NoiseSource, scores: np.ndarray = scores) -> Callable[[], object]:
            return lambda: source.choose(scores, 1, law, STAMP)

        ours, theirs = _interleaved([choose(ExactNoise()), choose(OpenDPNoise())], REPEATS)
        note = f"{min(ours) * 1e6:.3g} us over {min(theirs) * 1e6:.3g} us"
        rows.append(Result(f"a choice among {size} over OpenDP's", min(ours) / min(theirs), "times", note=note))
    return rows


def _tables() -> list[Result]:
    """The first draw of a scale makes its tables."""
    slowest = 0.0
    for scale in WHOLE:

        def first(scale: Fraction = scale) -> object:
            digits_of.cache_clear()
            return draw_laplace(1, scale)

        slowest = max(slowest, min(_seconds(first) for _ in range(REPEATS)))
    return [Result("the first draw of a scale, the slowest of six", slowest * 1e3, "ms", note="later ones find tables")]


def _text(scale: Fraction | int) -> str:
    return "2^-32" if scale < Fraction(1, 100) else "2^32" if scale == 2**32 else str(scale)


def _drawing(scale: Fraction | int, parts: int, size: int = SIZE) -> Callable[[], object]:
    return lambda: draw_shares(size, Fraction(scale), parts)


def _seconds(task: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    task()
    return time.process_time() - start


def _interleaved(tasks: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Processor times of several tasks, run in turn; the first run of each does not count."""
    rounds = [[_seconds(task) for task in tasks] for _ in range(repeats + 1)]
    return [list(durations) for durations in zip(*rounds[1:], strict=True)]


def _shares() -> list[Result]:
    times_of = {}
    for scale in SCALES:
        times = _interleaved([_drawing(scale, parts) for parts in PARTS], REPEATS)
        times_of[scale] = [median(durations) * 1e6 / SIZE for durations in times]
    slowest = max(max(durations) for durations in times_of.values())
    rows = [
        at_most(
            "a share, at the slowest scale and number of parts",
            slowest,
            LIMIT,
            "us",
            note=f"vectors of {SIZE}; scales 2^-32 to 2^32, 1 to 1000 parts",
        )
    ]
    for scale, durations in times_of.items():
        note = f"median over 1, 2, 8, 50 and 1000 parts; {REPEATS} repeats each"
        rows.append(
            Result(f"a share, scale {_text(scale)}", median(durations), "us", spread=spread(durations), note=note)
        )
    return rows


def _rejected(parts: int, scale: Fraction) -> int:
    """One negative binomial of shape 1 / parts, by rejection."""
    while True:
        k = 0
        while _exponential(scale.denominator, scale.numerator):
            k += 1
            if secrets.randbelow(k * parts) >= (k - 1) * parts + 1:
                break
        else:
            return k


def _exponential(numerator: int, denominator: int) -> bool:
    """A coin of exp(-numerator / denominator), of at most 1 (Canonne, Kamath and Steinke 2020)."""
    k = 1
    while secrets.randbelow(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _beside_rejection() -> list[Result]:
    rows = []
    for scale, parts, size in REJECTED:

        def rejection(scale: Fraction = scale, parts: int = parts, size: int = size) -> list[int]:
            return [_rejected(parts, scale) - _rejected(parts, scale) for _ in range(size)]

        ours, theirs = _interleaved([_drawing(scale, parts), rejection], 5)
        times = median(theirs) / size * SIZE / median(ours)
        rows.append(
            Result(
                f"a share, times faster than by rejection, scale {scale}, {parts} parts",
                times,
                "times",
                note=f"rejection takes {median(theirs) / size * 1e6:.0f} us a share, one number at a time",
            )
        )
    return rows


def _beside_whole_noise() -> list[Result]:
    rows, zeros = [], np.zeros(SIZE, np.int64)
    for scale in (Fraction(1, 7), Fraction(30), Fraction(10**6)):
        law = DiscreteLaplace(scale)

        def opendp(law: DiscreteLaplace = law) -> object:
            return OpenDPNoise().discrete_laplace(zeros, 1, law, STAMP)

        ours, theirs = _interleaved([_drawing(scale, 8), opendp], REPEATS)
        rows.append(
            Result(
                f"a share of 8, over OpenDP's whole noise, scale {scale}",
                median(ours) / median(theirs),
                "times",
                note=f"OpenDP takes {median(theirs) / SIZE * 1e6:.1f} us a number",
            )
        )
    return rows


def _what_time_tells() -> list[Result]:
    rows = []
    for name, size, draws, draw in (
        ("number of noise", 1, 3000, lambda size: draw_laplace(size, Fraction(30))),
        ("numbers of noise", SIZE, 600, lambda size: draw_laplace(size, Fraction(30))),
        ("share", 1, 3000, lambda size: draw_shares(size, Fraction(30), 8)),
        ("shares", SIZE, 600, lambda size: draw_shares(size, Fraction(30), 8)),
    ):
        sizes, times = [], []
        for _ in range(draws):
            start = time.thread_time_ns()
            values = draw(size)
            times.append(time.thread_time_ns() - start)
            sizes.append(int(np.abs(values).sum()))
        rows.append(
            Result(
                f"rank correlation of the time and the size of {size} {name}",
                float(stats.spearmanr(times, sizes).statistic),
                "",
                note=f"{draws} draws at scale 30, shares of 8 parts; by chance it stays below {3 / draws**0.5:.2f}",
            )
        )
    return rows
