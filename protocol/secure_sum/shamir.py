"""Shamir's shares of a 32-byte secret: any `threshold` of them recover it; fewer reveal nothing (Shamir 1979).

A secret is the constant term of a polynomial over the integers modulo a prime, with uniform further coefficients; the
share at point x is the polynomial's value there. The prime exceeds every 32-byte number, so any 32 bytes can be a
secret.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, combinations
from math import comb, prod
from operator import mul

import numpy as np

SECRET = 32
"""Bytes of a secret."""
SHARE = 33
"""Bytes of a share: a number below P, most significant byte first."""
P = 2**256 + 297
"""The least prime above 2^256: the field must hold every 32-byte secret, and two points must differ in it."""
MOST_POINTS = 2**16
TRIES = 1024
"""Most subsets of shares that `recover` tries."""

_MANY = 2000
"""Points times threshold from which many values at once are faster than one by one."""
_WORD, _WORDS = 32, 9
"""Bits of a word, and words of a number below P: eight, and one for its last bit and for what carries leave."""

_SPARE = 8 * SHARE - P.bit_length()  # bits of 33 bytes beyond those of P


def split(secret: bytes, points: Sequence[int], threshold: int, entropy: Callable[[int], bytes]) -> list[bytes]:
    """Shares of a secret, one a point, in the points' order.

    Args:
        secret: 32 bytes.
        points: distinct, 1 to 2^16.
        threshold: number of shares that recover the secret, 1 to the number of points.
        entropy: n -> n secret, uniform bytes.

    Raises:
        ValueError: an argument is out of range.
    """
    return split_each((secret,), points, threshold, entropy)[0]


def split_each(
    secrets: Sequence[bytes], points: Sequence[int], threshold: int, entropy: Callable[[int], bytes]
) -> list[list[bytes]]:
    """As `split`, of several secrets over the same points: one list of shares a secret."""
    for secret in secrets:
        if len(secret) != SECRET:
            raise ValueError(f"a secret has {SECRET} bytes, this one {len(secret)}")
    _check_points(points)
    if not 1 <= threshold <= len(points):
        raise ValueError(f"a threshold of {threshold} does not suit {len(points)} shares")
    polynomials = [[int.from_bytes(secret), *_coefficients(threshold - 1, entropy)] for secret in secrets]
    values = (
        _values(polynomials, points)
        if threshold * len(points) >= _MANY
        else [[_value(polynomial, point) for point in points] for polynomial in polynomials]
    )
    return [[value.to_bytes(SHARE) for value in row] for row in values]


class Combiner:
    """Recovers secrets from shares at fixed points; the weights are computed once.

    The secret is the sum of weight times share, with the weights of Lagrange's interpolation at 0: for point x the
    product over the other points y of y / (y - x).

    Args:
        points: distinct, 1 to 2^16, as many as the threshold was.

    Raises:
        ValueError: there is no point, or they are not distinct or out of range.
    """

    def __init__(self, points: Sequence[int]) -> None:
        _check_points(points)
        self._points = tuple(points)

    def combine(self, shares: Sequence[bytes]) -> bytes:
        """The secret, 32 bytes, of one share a point, in the points' order.

        Raises:
            ValueError: a share is missing, too long or not below P, or together they give no 32 bytes. Wrong shares
                may also give a wrong secret: compare it with a commitment.
        """
        if len(shares) != len(self._points):
            raise ValueError(f"{len(self._points)} shares are needed, not {len(shares)}")
        total = _at_zero(self._points, [_number(share) for share in shares])
        if total >> 8 * SECRET:
            raise ValueError(f"these shares give a number of more than {SECRET} bytes: at least one is wrong")
        return total.to_bytes(SECRET)


def recover(
    shares: Mapping[int, bytes], threshold: int, fits: Callable[[bytes], bool]
) -> tuple[bytes, tuple[int, ...]] | None:
    """The secret that fits a commitment, though some of the shares may be wrong.

    It tries the first `threshold` shares, and looks at no others if these fit. Else it decodes all shares, which finds
    the secret if at most (shares - threshold) / 2 are wrong (Gao 2003). If that fails, it tries all sets of `threshold`
    shares, if there are at most `TRIES` of them.

    Args:
        shares: by point, 1 to 2^16. One that is no number below P counts as wrong.
        threshold: the threshold with which the secret was split.
        fits: whether a secret is the one that was committed to; called at most `TRIES` + 2 times.

    Returns:
        The secret, and the points, ascending, of the wrong shares among those looked at; None if no secret fits.

    Raises:
        ValueError: a point or the threshold is out of range.
    """
    if threshold < 1:
        raise ValueError(f"a threshold of {threshold} is below 1")
    _check_points(tuple(shares) or (1,))
    values = {point: int.from_bytes(shares[point]) for point in sorted(shares) if _in_field(shares[point])}
    if len(values) < threshold:
        return None
    malformed = tuple(sorted(shares.keys() - values.keys()))
    first = tuple(values)[:threshold]
    if secret := _fitting(_at_zero(first, [values[point] for point in first]), fits):
        return secret, malformed
    for polynomial in _candidates(values, threshold):
        if secret := _fitting(_value(polynomial, 0), fits):
            wrong = (point for point, value in values.items() if value != _value(polynomial, point))
            return secret, tuple(sorted((*malformed, *wrong)))
    return None


def _fitting(number: int, fits: Callable[[bytes], bool]) -> bytes | None:
    """The number as a secret if it fits, else None."""
    if number >> 8 * SECRET:
        return None
    secret = number.to_bytes(SECRET)
    return secret if fits(secret) else None


def _candidates(values: Mapping[int, int], threshold: int) -> Iterator[list[int]]:
    """Polynomials of at most `threshold` coefficients through some of the values, the likeliest first."""
    if (decoded := _decoded(values, threshold)) is not None:
        yield decoded
    if comb(len(values), threshold) <= TRIES:
        for chosen in combinations(values, threshold):
            yield _through((point, values[point]) for point in chosen)


def _decoded(values: Mapping[int, int], threshold: int) -> list[int] | None:
    """The polynomial through all but at most (values - threshold) / 2 of the values; None if there is none.

    This is Gao's decoder of Reed-Solomon codes. Euclid's algorithm runs on the polynomial with a root at every point
    and the interpolating polynomial, and stops below degree (values + threshold) / 2. The result is the remainder
    divided by its cofactor.
    """
    before, now = [1], _through(values.items())
    for point in values:
        before = _times(before, [-point, 1])
    cofactor_before: list[int] = []
    cofactor = [1]
    while 2 * (len(now) - 1) >= len(values) + threshold:
        quotient, rest = _divided(before, now)
        before, now = now, rest
        cofactor_before, cofactor = cofactor, _minus(cofactor_before, _times(quotient, cofactor))
    polynomial, rest = _divided(now, cofactor)
    return None if rest or len(polynomial) > threshold else polynomial


def _through(values: Iterable[tuple[int, int]]) -> list[int]:
    """The polynomial of least degree through (point, value) pairs, by Newton's interpolation.

    All polynomials below are lists of numbers below P, lowest power first, whose last entry is not 0.
    """
    polynomial: list[int] = []
    rooted = [1]
    for point, value in values:
        step = (value - _value(polynomial, point)) * pow(_value(rooted, point), -1, P)
        polynomial = _minus(polynomial, [-step * number for number in rooted])
        rooted = _times(rooted, [-point, 1])
    return polynomial


def _value(polynomial: Sequence[int], point: int) -> int:
    """Value at a point, by Horner's rule; reduced once, since points are small."""
    total = 0
    for number in reversed(polynomial):
        total = total * point + number
    return total % P


def _values(polynomials: Sequence[Sequence[int]], points: Sequence[int]) -> list[list[int]]:
    """Values of polynomials with equally many coefficients, at least one, at points: one list a polynomial.

    Horner's rule runs on all of them at once, in 32-bit words of which each lies in 63 bits and a sign. Carries are
    left alone while the points' powers stay below 2^28, and then passed on by one word each, which keeps every word
    below 2^34. What leaves the last word comes back modulo P.
    """
    span = 28 // max(points).bit_length()
    mask = 2**_WORD - 1
    numbers = b"".join(
        [number.to_bytes(4 * _WORDS, "little") for row in zip(*polynomials, strict=True) for number in row]
    )
    words = np.frombuffer(numbers, "<u4").reshape(-1, len(polynomials), _WORDS, 1).swapaxes(1, 2).astype(np.int64)
    factors = np.array(points, np.int64)
    total = np.zeros((_WORDS, len(polynomials), len(points)), np.int64)
    carries = np.empty_like(total)

    def carry() -> None:
        np.right_shift(total, _WORD, out=carries)
        np.bitwise_and(total, mask, out=total)
        total[1:] += carries[:-1]
        folded = carries[-1] * (P - 2**256)  # 2^(32 * 9) is -297 * 2^32 modulo P
        total[1] -= folded & mask
        total[2] -= folded >> _WORD

    for power in reversed(range(len(words))):
        np.multiply(total, factors, out=total)
        np.add(total, words[power], out=total)
        if power % span == 0:
            carry()
    for place in range(_WORDS - 1):
        total[place + 1] += total[place] >> _WORD
        total[place] &= mask
    low, size = total[:-1].transpose(1, 2, 0).astype("<u4").tobytes(), 4 * (_WORDS - 1)
    values = [
        (int.from_bytes(low[place * size : (place + 1) * size], "little") + (top << 8 * size)) % P
        for place, top in enumerate(total[-1].ravel().tolist())
    ]
    return [values[at : at + len(points)] for at in range(0, len(values), len(points))]


def _minus(left: Sequence[int], right: Sequence[int]) -> list[int]:
    longer = [0] * max(len(left), len(right))
    for power, number in enumerate(left):
        longer[power] = number
    for power, number in enumerate(right):
        longer[power] -= number
    return _trimmed(longer)


def _times(left: Sequence[int], right: Sequence[int]) -> list[int]:
    product = [0] * (len(left) + len(right))
    for power, number in enumerate(left):
        for other, factor in enumerate(right):
            product[power + other] += number * factor
    return _trimmed(product)


def _divided(left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
    """Quotient and remainder of polynomials; the divisor is not 0."""
    rest = list(left)
    quotient = [0] * max(len(left) - len(right) + 1, 0)
    inverse = pow(right[-1], -1, P)
    for shift in reversed(range(len(quotient))):
        quotient[shift] = factor = rest[shift + len(right) - 1] * inverse % P
        for power, number in enumerate(right):
            rest[shift + power] = (rest[shift + power] - factor * number) % P
    return _trimmed(quotient), _trimmed(rest)


def _trimmed(polynomial: Sequence[int]) -> list[int]:
    """The polynomial modulo P, without leading zeros."""
    numbers = [number % P for number in polynomial]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _at_zero(points: tuple[int, ...], values: Sequence[int]) -> int:
    """Value at 0 of the polynomial of least degree through (point, value) pairs."""
    total: int = sum(map(mul, _weights_at_zero(points), values))
    return total % P


@lru_cache(maxsize=256)
def _weights_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at 0: for x the product over all points, divided by x times the product of all y - x.

    Products over small differences are reduced once, and one inversion modulo P serves all (Montgomery 1987).
    """
    apart = np.array(points, np.int64) - np.array(points, np.int64)[:, None]
    np.fill_diagonal(apart, points)
    width = 62 // max(points).bit_length()  # differences whose product stays in a word
    padded = np.pad(apart, ((0, 0), (0, -len(points) % width)), constant_values=1)
    products = padded.reshape(len(points), -1, width).prod(axis=2)
    bottoms = [prod(row) % P for row in products.tolist()]
    before = list(accumulate(bottoms, lambda left, right: left * right % P, initial=1))
    inverse = pow(before.pop(), -1, P) * prod(points) % P
    weights = []
    for bottom, product in zip(reversed(bottoms), reversed(before), strict=True):
        weights.append(inverse * product % P)
        inverse = inverse * bottom % P
    return tuple(reversed(weights))


def _coefficients(count: int, entropy: Callable[[int], bytes]) -> list[int]:
    """Independent uniform numbers below P: draws of 257 random bits, about half of which are below P and used."""
    numbers: list[int] = []
    while len(numbers) < count:
        missing = count - len(numbers)
        drawn = entropy(2 * SHARE * missing)
        tries = (int.from_bytes(drawn[at : at + SHARE]) >> _SPARE for at in range(0, 2 * SHARE * missing, SHARE))
        numbers += [number for number in tries if number < P][:missing]
    return numbers


def _number(share: bytes) -> int:
    if not _in_field(share):
        raise ValueError(f"a share is {SHARE} bytes of a number below 2^256 + 297")
    return int.from_bytes(share)


def _in_field(share: bytes) -> bool:
    return len(share) == SHARE and int.from_bytes(share) < P


def _check_points(points: Sequence[int]) -> None:
    if not points or not all(1 <= point <= MOST_POINTS for point in points) or len(set(points)) < len(points):
        raise ValueError(f"the points of shares are distinct numbers from 1 to {MOST_POINTS}, at least one")
