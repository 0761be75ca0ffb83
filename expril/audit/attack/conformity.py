"""Whether a registered answerer releases what its kind claims: its calls for noise, its draws, and its copies.

The exact loss of a question is that of the claimed law. It says nothing of a curator that draws from another. So three
things are compared with the law: what the curator's code asks of its source of noise, where it asks for noise of a law
that the library knows; the draws of an attack, sorted into cells whose chances the law gives; and the copies of a
question, each of which must have its own noise and its own part of the cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from expril.audit.kinds.answer_path import AnswerPath, NoNoise, Numbers
from expril.audit.kinds.invented import Unit
from expril.audit.kinds.kind_audit import Cells, Handed, Law, NoiseLaw
from protocol.noise import NoisyMax
from protocol.noise_shares import LaplaceShares

FALSE_ALARM = 1e-9
"""Chance that the draws of a right answerer are said to have another law than the claimed one."""
MOST_PAIRED = 8
"""Sortings of which neighbouring copies are compared."""


def strayed_calls(law: Law, calls: Sequence[Handed]) -> str:
    """Say where a curator's calls for noise are other ones than its kind claims on these records; "" if nowhere."""
    if law.calls is None or _flat(calls) == _flat(law.calls):
        return ""
    if _words(calls) != _words(law.calls):
        return f"its curator asks for noise {_words(calls)}, and its kind claims {_words(law.calls)}"
    return "its curator hands other exact numbers to its source of noise than its kind claims"


def _flat(calls: Sequence[Handed]) -> list[object]:
    """Return the calls, number by number; a choice stays whole."""
    parts: list[object] = []
    for exact, law in calls:
        values = exact.ravel().tolist()
        parts += [(tuple(values), law)] if isinstance(law, NoisyMax) else [(value, law) for value in values]
    return parts


def _words(calls: Sequence[Handed]) -> str:
    """Laws and how many numbers have them, in words."""
    sizes: dict[NoiseLaw | None, int] = {}
    for exact, law in calls:
        sizes[law] = sizes.get(law, 0) + (1 if isinstance(law, NoisyMax) else exact.size)
    return " and ".join(f"{size} times {_law_words(law)}" for law, size in sizes.items()) or "never"


def _law_words(law: NoiseLaw | None) -> str:
    if law is None:
        return "of a continuous law"
    share = f", a share of {law.shape}" if isinstance(law, LaplaceShares) else ""
    return f"of scale {law.scale}{share}"


def strayed_copies(path: AnswerPath, units: tuple[Unit, ...]) -> str:
    """Say why one call does not ask its question so often as its example claims; "" if it does.

    `path`: asks the question as often as one call can.
    """
    single, copies = replace(path, copies=1), path.copies
    if copies == 1:
        return ""
    bound = path.example.most_records_per_unit
    cost, total = (asking.kinds.cost(asking.planned, bound) for asking in (single, path))
    if total != copies * cost:
        return (
            f"{copies} copies of its question cost {total}, and one costs {cost}: a draw is not charged what one costs"
        )
    (numbers, noise), (all_numbers, all_noise) = (asking.exact(units) for asking in (single, path))
    if all_numbers.shape != (copies, numbers.shape[1]):
        return f"{copies} copies of its question release {all_numbers.size} numbers, and one releases {numbers.size}"
    draws, expected = _count(all_noise), copies * _count(noise)
    if draws != expected:
        return f"{copies} copies of its question draw noise {draws} times, and {expected} times would give each its own"
    return ""


def _count(noise: NoNoise) -> int:
    """The number of independent draws that were asked for."""
    return sum(1 if isinstance(law, NoisyMax) else exact.size for exact, law in noise.handed)


def strayed_draws(law: Law, rows: Numbers) -> str:
    """Say in which way draws (n, k) do not have the claimed law; "" if they may have it.

    Each cell's count has a binomial law, whose tails are exact; all cells share the rate of false alarms. So do pairs
    of neighbouring draws, which come from one call: of independent ones, known many are on the same side of the middle.
    """
    if not rows.size:
        return ""
    tests: list[tuple[str, float, float, float]] = []
    for place, cells in enumerate(law.cells(rows)):
        tests += _of_cells(cells)
        tests += _of_neighbours(cells) if place < MOST_PAIRED else []
    if not tests:
        return ""
    about, chance, share, expected = min(tests, key=lambda test: test[1])
    if chance * len(tests) > FALSE_ALARM:
        return ""
    shares = f"{about}, in {share:.4f} of them and by the law in {expected:.4f}"
    return f"its draws do not have the law that its kind claims: {shares}"


def _tail(count: NDArray[np.int64], draws: int, chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided chances of counts so far from what is expected."""
    chances = np.clip(chances, 0.0, 1.0)
    tails = np.minimum(binom.cdf(count, draws, chances), binom.sf(count - 1, draws, chances))
    doubled: NDArray[np.float64] = np.minimum(1.0, 2 * tails)
    return doubled


def _of_cells(cells: Cells) -> Iterator[tuple[str, float, float, float]]:
    draws, most = len(cells.places), len(cells.chances)
    outside = (cells.places < 0) | (cells.places >= most)
    if outside.any():
        yield f"{cells.about} is none that can be", 0.0, float(outside.mean()), 0.0
        return
    counts = np.bincount(cells.places, minlength=most)
    for cell, tail in enumerate(_tail(counts, draws, cells.chances)):
        words = f"{cells.about} falls into cell {cell + 1} of {len(counts)}"
        yield words, float(tail), counts[cell] / draws, float(cells.chances[cell])


def _of_neighbours(cells: Cells) -> Iterator[tuple[str, float, float, float]]:
    if not ((cells.places >= 0) & (cells.places < len(cells.chances))).all():
        return
    above = np.cumsum(cells.chances) > 0.5  # the upper cells, of about half the chance
    upper = float(cells.chances[above].sum())
    sides = above[cells.places[: len(cells.places) // 2 * 2]].reshape(-1, 2)
    if not len(sides):
        return
    alike, expected = int((sides[:, 0] == sides[:, 1]).sum()), upper**2 + (1 - upper) ** 2
    tail = _tail(np.array([alike]), len(sides), np.array([expected]))[0]
    yield f"{cells.about} is on the same side in two neighbours", float(tail), alike / len(sides), expected
