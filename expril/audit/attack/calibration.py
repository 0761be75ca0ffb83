"""Exact laws of discrete Laplace noise, and tests of the installed noise with a false-alarm rate of 1e-9.

X has P(k) = (1 - p) / (1 + p) * p^|k|, p = exp(-1/scale). Of n independent draws, exactly:
the number N of non-zero draws is Binomial(n, 2p / (1 + p)); given N, the sum of |X| - 1 over those draws is
NegativeBinomial(N, 1 - p), and the number of positive draws is Binomial(N, 1/2), whatever their sizes.

`choice_check` tests noisy choices likewise, by exact binomial tests of how often each index is chosen. `table_check`
draws nothing: it compares the tables that a curator draws from with the law, to the last bit.
"""

import decimal
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from curator_node.exact_draws import Digit, digits_of
from curator_node.mechanisms import ExactNoise, NoiseSource, Stamp
from expril.audit.results import Check
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares

FALSE_ALARM = 1e-9
"""False-alarm rate of each `suspicious_*` function, and of each check of `calibrate`."""
MISSED_ALARM = 1e-6
"""Greatest probability with which a scale that is wrong by 10 % may pass, by `pass_probability`."""
SCALES = (Fraction(1, 2), Fraction(3), Fraction(30), Fraction(1000, 3))
DRAWS = 20_000
"""Draws at each scale."""
FORKED, FRESH = 8, 2
"""Processes whose first values are compared: forks of this one, and new ones."""
TAILS = (1, 2, 4, 6)
"""Distances from 0, in scales, beyond which draws are counted. About fifty of 20,000 lie beyond the last."""
SHARED = 2
"""Curators that draw shares of one noise."""
LAGS = range(1, 9)
"""Distances in a row of draws at which independence is tested, besides the independence of two calls."""
FIRST_VALUES = 16
PATIENCE = 60
"""Seconds in which a process must draw its first values."""
WIDE = Fraction(2**31)
"""Scale of the first values: two of them are equal with a probability below 2^-32."""
_STAMP = Stamp("auditor", 0, 1)

Draws = NDArray[np.int64]


def decay(scale: Fraction | float) -> float:
    """Return p = exp(-1/scale)."""
    return math.exp(-1 / float(scale))


def nonzero_law(n: int, scale: Fraction | float) -> Any:
    """Return the law of the number of non-zero draws."""
    p = decay(scale)
    return stats.binom(n, 2 * p / (1 + p))


def excess_law(nonzero: int, scale: Fraction | float) -> Any:
    """Return the law of the sum of |X| - 1 over the non-zero draws."""
    return stats.nbinom(nonzero, 1 - decay(scale))


def outside(law: Any, value: float, alarm: float) -> bool:
    """Whether the value lies in one of the two tails of at most `alarm` / 2 each."""
    return bool(law.cdf(value) < alarm / 2 or law.sf(value - 1) < alarm / 2)


def _passes(truth: Any, law: Any, tail: float) -> float:
    """Probability that a value of law `truth` is in neither tail of `law`; each tail has the probability `tail`."""
    return float(truth.cdf(law.isf(tail)) - truth.cdf(law.ppf(tail) - 1))


def suspicious_scale(draws: Draws, scale: Fraction | float, alarm: float = FALSE_ALARM) -> bool:
    """Whether draws are too large or too small for this scale."""
    nonzero = draws[draws != 0]
    excess = int(np.abs(nonzero).sum()) - len(nonzero)
    return outside(nonzero_law(len(draws), scale), len(nonzero), alarm / 2) or outside(
        excess_law(len(nonzero), scale), excess, alarm / 2
    )


def suspicious_centre(draws: Draws | NDArray[np.float64], alarm: float = FALSE_ALARM) -> bool:
    """Whether too many or too few draws are positive."""
    nonzero = draws[draws != 0]
    return outside(stats.binom(len(nonzero), 0.5), int((nonzero > 0).sum()), alarm)


def suspicious_tails(draws: Draws, scale: Fraction | float, alarm: float = FALSE_ALARM) -> bool:
    """Whether too many or too few draws are large, as for noise of another shape, such as bounded noise."""
    law = DiscreteLaplace(Fraction(scale))
    size = np.abs(draws)
    return any(
        outside(stats.binom(len(draws), law.tail(far)), int((size >= far).sum()), alarm / len(TAILS))
        for far in _far(scale)
    )


def _far(scale: Fraction | float) -> list[int]:
    return [math.ceil(Fraction(scale) * many) for many in TAILS]


def suspicious_pairs(first: Draws, second: Draws, scale: Fraction | float, alarm: float = FALSE_ALARM) -> bool:
    """Whether two rows of draws agree in sign, or are equal, too often or too rarely to be independent."""
    nonzero = (first != 0) & (second != 0)
    agree = int((np.sign(first[nonzero]) == np.sign(second[nonzero])).sum())
    return outside(stats.binom(int(nonzero.sum()), 0.5), agree, alarm / 2) or outside(
        stats.binom(len(first), equal_chance(scale)), int((first == second).sum()), alarm / 2
    )


def equal_chance(scale: Fraction | float) -> float:
    """Probability that two independent draws are equal: ((1 - p) / (1 + p))^2 (1 + p^2) / (1 - p^2)."""
    p = decay(scale)
    return ((1 - p) / (1 + p)) ** 2 * (1 + p * p) / (1 - p * p)


def pass_probability(
    n: int, scale: Fraction | float, true_scale: Fraction | float, alarm: float = FALSE_ALARM
) -> float:
    """Upper bound on the probability that n draws at `true_scale` pass `suspicious_scale(., scale)`.

    It is the smaller of two bounds. One is the probability that the number of non-zeros passes. The other is the
    probability that the excess passes at the least plausible number of non-zeros, plus the probability of a smaller
    number.
    """
    tail = alarm / 4
    law, truth = nonzero_law(n, scale), nonzero_law(n, true_scale)
    by_number = _passes(truth, law, tail)
    least = int(truth.ppf(MISSED_ALARM / 100))
    law, truth = excess_law(least, scale), excess_law(least, true_scale)
    return min(by_number, _passes(truth, law, tail) + MISSED_ALARM / 100)


def shift_pass_probability(n: int, scale: Fraction | float, shift: int, alarm: float = FALSE_ALARM) -> float:
    """Upper bound on the probability that n draws, each moved by `shift`, pass `suspicious_centre`.

    A share P(X + shift > 0) / (1 - P(X = -shift)) of the draws that are then not zero is positive. The number of those
    draws is taken at its least plausible value.
    """
    law = DiscreteLaplace(Fraction(scale))
    zero = math.exp(law.log_pmf(shift))
    positive = 1 - law.tail(shift) / 2 if shift > 0 else law.tail(1 - shift) / 2
    least = int(stats.binom(n, 1 - zero).ppf(MISSED_ALARM / 100))
    claimed, truth = stats.binom(least, 0.5), stats.binom(least, positive / (1 - zero))
    return _passes(truth, claimed, alarm / 2) + MISSED_ALARM / 100


def copies_pass_probability(n: int, scale: Fraction | float, share: float, alarm: float = FALSE_ALARM) -> float:
    """Bound the probability that n pairs pass `suspicious_pairs` if in a share of them both draws are the same."""
    equal = equal_chance(scale)
    claimed, truth = stats.binom(n, equal), stats.binom(n, share + (1 - share) * equal)
    return _passes(truth, claimed, alarm / 4)


def bounded_pass_probability(n: int, scale: Fraction | float, alarm: float = FALSE_ALARM) -> float:
    """Bound the probability that n draws pass `suspicious_tails` if the noise never exceeds 5 scales."""
    far = _far(scale)[-1]
    law = stats.binom(n, DiscreteLaplace(Fraction(scale)).tail(far))
    return 0.0 if law.cdf(0) < alarm / len(TAILS) / 2 else 1.0


def shared_pass_probability(n: int, scale: Fraction, alarm: float = FALSE_ALARM) -> float:
    """Bound the probability that n sums pass `suspicious_tails` if their shares are made for one more curator."""
    other = LaplaceShares(scale, Fraction(SHARED, SHARED + 1))
    far = _far(scale)[0]
    near = 2 * math.fsum(np.exp(other.log_pmfs(np.arange(far)))) - math.exp(other.log_pmf(0))
    law, truth = stats.binom(n, DiscreteLaplace(scale).tail(far)), stats.binom(n, 1 - near)
    return _passes(truth, law, alarm / len(TAILS) / 2)


def calibrate(noise: Callable[[], NoiseSource] = ExactNoise) -> tuple[Check, ...]:
    """Test the installed noise: scale, centre, tails, independence, shares, choices, first values of new processes.

    Each check fails for correct noise with a chance of at most 1e-9, computed from the exact laws above.
    """
    alarm = FALSE_ALARM / len(SCALES)
    source = noise()
    draws = {scale: _draw(source, DRAWS, scale) for scale in SCALES}
    again = {scale: _draw(source, DRAWS, scale) for scale in SCALES}
    scales = _listed(SCALES)
    return (
        _check(
            "noise_scale",
            f"Has the installed noise the stated scale, at {scales}?",
            [scale for scale in SCALES if suspicious_scale(draws[scale], scale, alarm)],
            f"a scale off by a tenth: {_most(_missed_scale(alarm))}",
        ),
        _check(
            "noise_centre",
            f"Is it as often above 0 as below, at {scales}?",
            [scale for scale in SCALES if suspicious_centre(draws[scale], alarm)],
            f"a centre off by a tenth of a scale of 30: {_most(shift_pass_probability(DRAWS, 30, 3, alarm))}",
        ),
        _check(
            "noise_tails",
            f"Does it reach as far out as it should, at {scales}?",
            [scale for scale in SCALES if suspicious_tails(draws[scale], scale, alarm)],
            f"noise that never passes five scales: {_most(max(_missed_bound(alarm)))}",
        ),
        _check(
            "noise_independent",
            f"Are numbers up to {LAGS[-1]} places apart, and those of two calls, independent, at {scales}?",
            [scale for scale in SCALES if _dependent(draws[scale], again[scale], scale, alarm)],
            f"a fifth of the numbers repeated from one such place: {_most(_missed_copies(alarm))}",
        ),
        _check(
            "noise_shares",
            f"Do the shares that {SHARED} curators draw add up to such noise, at {scales}?",
            [scale for scale in SCALES if _strange_shares(source, scale, alarm)],
            f"shares made for {SHARED + 1}: {_most(max(shared_pass_probability(DRAWS, s, alarm / 4) for s in SCALES))}",
        ),
        choice_check(noise),
        first_values(noise),
        *((table_check(),) if noise is ExactNoise else ()),
    )


def table_check(digits: Callable[..., tuple[Digit, ...]] = digits_of) -> Check:
    """Compare each bound of the tables that a curator draws from with the sum of the chances below it, to 64 bits.

    `digits`: makes the tables of a scale.
    """
    scales = (*SCALES, WIDE, Fraction(1, 7))
    tables = {(scale, signed): digits(scale, signed=signed) for scale in scales for signed in (False, True)}
    wrong = [scale for (scale, signed), table in tables.items() if _strange_table(table, scale, signed)]
    compared = sum(digit.count for table in tables.values() for digit in table)
    return Check(
        name="noise_tables",
        question=f"Is each bound of the tables that noise is read from right to 64 bits, at {_listed(scales)}?",
        finding=f"No: not at {_listed(dict.fromkeys(wrong))}." if wrong else f"Yes: all {compared} bounds are.",
        false_alarm=0.0,
        power="any other law at these scales: always",
        passed=not wrong,
    )


def _listed(scales: Iterable[Fraction]) -> str:
    return ", ".join(map(str, scales))


def _strange_table(table: tuple[Digit, ...], scale: Fraction, signed: bool) -> bool:
    """Whether digits of these laws do not make up a number of that scale, or a bound of theirs is wrong."""
    rate = 1 / scale
    for place, digit in enumerate(table):
        last, sign = place == len(table) - 1, signed and not place
        if (digit.rate, digit.last, digit.signed) != (rate, last, sign) or digit.bounds(64) != _bounds_of(digit):
            return True
        rate *= digit.size
    return False


def _bounds_of(digit: Digit) -> list[int]:
    """What a digit's bounds must be, from the definition of its law in 80 digits."""
    with decimal.localcontext(decimal.Context(prec=80, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
        p = (-Decimal(digit.rate.numerator) / digit.rate.denominator).exp()
        weights = [p**j for j in range(digit.size)]
        total = sum(weights, p**digit.size / (1 - p) if digit.last else Decimal(0))
        if digit.signed:
            weights = [weight * part / (1 + p) for weight in weights for part in (1, p)]
        # Summed from the far end: no digit is lost where the chances below are close to 1.
        tails = list(accumulate(reversed([*weights[1:], p**digit.size / (1 - p)] if digit.last else weights[1:])))
        return [0, *(2**64 - 1 - int(tail / total * 2**64) for tail in reversed(tails))]


def first_values(noise: Callable[[], NoiseSource] = ExactNoise) -> Check:
    """Check that new processes, and forks of this one, begin with noise of their own.

    A generator whose state a fork copies would repeat its values. The values are compared place by place between all
    processes; correct ones agree with a probability of at most the number of comparisons times P(X = Y).
    """
    source = noise()
    _draw(source, 1, WIDE)  # so that a generator in memory has a state to be copied
    rows = [_draw(source, FIRST_VALUES, WIDE).tolist(), *_of_forked(FORKED, noise)]
    rows += _of_fresh(FRESH) if noise is ExactNoise else []
    repeated = sum(
        first == second
        for place, values in enumerate(rows)
        for earlier in rows[:place]
        for first, second in zip(values, earlier, strict=True)
    )
    compared = len(rows) * (len(rows) - 1) // 2 * FIRST_VALUES
    rate = float(compared / WIDE / 2)  # P(X = Y) is below 1 / (2 scale)
    allowed = 1 if rate > FALSE_ALARM else 0
    return Check(
        name="noise_of_new_processes",
        question="Do a process and its copies, forked or fresh, begin with noise of their own?",
        finding=f"{repeated} of {compared} values were the same in two of {len(rows)} processes; {allowed} may be.",
        false_alarm=rate**2 / 2 if allowed else rate,
        power="a generator whose state is copied, or that is seeded alike: always, all its values repeat",
        passed=repeated <= allowed,
    )


def _of_forked(number: int, noise: Callable[[], NoiseSource]) -> list[list[int]]:
    """Return the first values of so many forks of this process."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return []
    context = multiprocessing.get_context("fork")
    values = []
    for _ in range(number):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_send_first, args=(theirs, noise))
        child.start()
        theirs.close()
        if not ours.poll(PATIENCE):
            child.kill()
            raise ConfigurationError("a copy of this process drew no noise within a minute; run the audit again")
        values.append(list(ours.recv()))
        child.join()
    return values


def _of_fresh(number: int) -> list[list[int]]:
    """Return the first values of so many new processes, with the installed noise."""
    code = (
        "import numpy as np; from fractions import Fraction; from protocol.noise import DiscreteLaplace; "
        "from curator_node.mechanisms import ExactNoise, Stamp; "
        f"law = DiscreteLaplace(Fraction({WIDE.numerator})); zeros = np.zeros({FIRST_VALUES}, np.int64); "
        "print(*ExactNoise().discrete_laplace(zeros, 1, law, Stamp('auditor', 0, 1)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603
        for _ in range(number)
    ]
    return [[int(value) for value in child.communicate(timeout=PATIENCE)[0].split()] for child in children]


def _send_first(pipe: Any, noise: Callable[[], NoiseSource]) -> None:
    pipe.send(_draw(noise(), FIRST_VALUES, WIDE).tolist())
    pipe.close()


def _draw(source: NoiseSource, number: int, scale: Fraction) -> Draws:
    return source.discrete_laplace(np.zeros(number, np.int64), 1, DiscreteLaplace(scale), _STAMP)


def _strange_shares(source: NoiseSource, scale: Fraction, alarm: float) -> bool:
    """Whether sums of shares have another law, or depend on the next sums."""
    shares = source.laplace_shares(2 * SHARED * DRAWS, DiscreteLaplace(scale), SHARED, _STAMP)
    first, second = shares.reshape(2, SHARED, DRAWS).sum(axis=1)
    return (
        suspicious_scale(first, scale, alarm / 4)
        or suspicious_centre(first, alarm / 4)
        or suspicious_tails(first, scale, alarm / 4)
        or suspicious_pairs(first, second, scale, alarm / 4)
    )


def _dependent(first: Draws, second: Draws, scale: Fraction, alarm: float) -> bool:
    pairs = [(first, second), *(_apart(first, lag) for lag in LAGS)]
    return any(
        suspicious_pairs(left_draws, right_draws, scale, alarm / len(pairs)) for left_draws, right_draws in pairs
    )


def _apart(draws: Draws, lag: int) -> tuple[Draws, Draws]:
    """Pair draws that are `lag` places apart. Each draw is in one pair only, so that the pairs are independent."""
    places = np.arange(len(draws) - lag)
    firsts = places[places // lag % 2 == 0]
    return draws[firsts], draws[firsts + lag]


def _missed_scale(alarm: float) -> float:
    return max(
        pass_probability(DRAWS, scale, scale * factor, alarm)
        for scale in SCALES
        for factor in (Fraction(9, 10), Fraction(11, 10))
    )


def _missed_copies(alarm: float) -> float:
    least = min(len(_apart(np.empty(DRAWS, np.int64), lag)[0]) for lag in LAGS)
    return max(copies_pass_probability(least, scale, 0.2, alarm / (len(LAGS) + 1)) for scale in SCALES)


def _missed_bound(alarm: float) -> list[float]:
    return [bounded_pass_probability(DRAWS, scale, alarm) for scale in SCALES]


def _most(missed: float) -> str:
    return f"noticed with a chance of at least 1 - {max(missed, 1e-12):.1g}"


def _check(name: str, question: str, wrong: list[Fraction], power: str) -> Check:
    finding = (
        f"Yes: {DRAWS} draws at each scale fit the exact law."
        if not wrong
        else f"No: {DRAWS} draws do not fit the exact law at {', '.join(map(str, wrong))}."
    )
    return Check(name=name, question=question, finding=finding, false_alarm=FALSE_ALARM, power=power, passed=not wrong)


CHOICES = 6_000
SCORES = np.array([1, 0, 0, 6, -9], np.int64)
LAW = NoisyMax(Fraction(3))
FAULTY = Fraction(6, 5)
"""The check notices a scale that is too wide or too narrow by this factor."""


def choice_check(noise: Callable[[], NoiseSource] = ExactNoise) -> Check:
    """Check how often each index of a few scores is chosen against its exact probability."""
    source = noise()
    choices = [source.choose(SCORES, 1, LAW, _STAMP) for _ in range(CHOICES)]
    counts = np.bincount(choices, minlength=len(SCORES))
    least, most = _bounds()
    strange = len(counts) > len(SCORES) or bool(((counts < least) | (counts > most))[: len(SCORES)].any())
    missed = max(_pass_chance(LAW.scale * factor) for factor in (FAULTY, 1 / FAULTY))
    fits = "do not fit" if strange else "fit"
    return Check(
        name="noise_choice",
        question=f"Has the index of the largest noisy score the exact law, at scale {LAW.scale}?",
        finding=f"{'No' if strange else 'Yes'}: {CHOICES} choices {fits} the chances of all {len(SCORES)} indices.",
        false_alarm=FALSE_ALARM,
        power=f"a scale wrong by a fifth: {_most(missed)}",
        passed=not strange,
    )


def _bounds() -> tuple[np.ndarray, np.ndarray]:
    """Return the least and greatest passing count of each index, at `FALSE_ALARM` for all indices together."""
    chances, rate = LAW.chances(SCORES), FALSE_ALARM / (2 * len(SCORES))
    return stats.binom.ppf(rate, CHOICES, chances), stats.binom.isf(rate, CHOICES, chances)


def _pass_chance(scale: Fraction) -> float:
    """Bound the probability that a source of another scale is not noticed, by its most telling index alone."""
    least, most = _bounds()
    chances = NoisyMax(scale).chances(SCORES)
    inside = stats.binom.cdf(most, CHOICES, chances) - stats.binom.cdf(least - 1, CHOICES, chances)
    return float(inside.min())
