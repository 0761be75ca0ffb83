"""Shamir's shares: any threshold of them give the secret back, fewer are uniform, wrong ones are found."""

import hashlib
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.secure_sum import shamir
from protocol.secure_sum.shamir import SECRET, SHARE, Combiner, P, recover, split

SECRETS = st.binary(min_size=SECRET, max_size=SECRET) | st.sampled_from([bytes(SECRET), b"\xff" * SECRET])


def entropy_of(seed):
    """Bytes that look random, the same for the same seed."""
    counter = itertools.count()

    def entropy(size):
        return hashlib.shake_256(f"{seed} {next(counter)}".encode()).digest(size)

    return entropy


@st.composite
def dealt(draw, most=12):
    points = draw(st.lists(st.integers(1, 2**16), min_size=1, max_size=most, unique=True))
    threshold = draw(st.integers(1, len(points)))
    secret = draw(SECRETS)
    return (
        secret,
        threshold,
        dict(zip(points, split(secret, points, threshold, entropy_of(draw(st.integers()))), strict=True)),
    )


def is_prime(number):
    """Miller and Rabin with the first forty primes; a composite of this size passes with a chance below 4^-40."""
    if number % 2 == 0:
        return False
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    bases = [base for base in range(2, 174) if all(base % other for other in range(2, base))]
    assert len(bases) == 40
    for base in bases:
        powers = [pow(base, odd << k, number) for k in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def test_the_field_has_a_prime_order_and_holds_every_secret():
    assert is_prime(P)
    assert not any(is_prime(number) for number in range(2**256, P))
    assert int.from_bytes(b"\xff" * SECRET) < P
    assert P.bit_length() <= 8 * SHARE


@given(dealt(), st.randoms(use_true_random=False))
def test_any_threshold_of_shares_give_the_secret_back(case, random):
    secret, threshold, shares = case
    points = random.sample(sorted(shares), random.randint(threshold, len(shares)))
    assert Combiner(points).combine([shares[point] for point in points]) == secret
    assert recover({point: shares[point] for point in points}, threshold, secret.__eq__) == (secret, ())


@given(st.integers(0, P - 1), st.integers(2, 6), st.integers())
def test_shares_are_values_of_a_polynomial_with_the_drawn_coefficients(number, threshold, seed):
    """Against Lagrange's formula in plain fractions modulo P."""
    secret = (number % 2**256).to_bytes(SECRET)
    points = list(range(1, threshold + 4))
    values = [int.from_bytes(share) for share in split(secret, points, threshold, entropy_of(seed))]
    for chosen in itertools.combinations(range(len(points)), threshold):
        for at, value in [(0, int.from_bytes(secret)), *zip(points, values, strict=True)]:
            total = 0
            for i in chosen:
                top = bottom = 1
                for j in chosen:
                    if i != j:
                        top, bottom = top * (at - points[j]), bottom * (points[i] - points[j])
                total += values[i] * top * pow(bottom, -1, P)
            assert total % P == value


def test_fewer_shares_than_the_threshold_fit_every_secret():
    """Two shares of three: for any other secret, there is exactly one polynomial through both."""
    shares = split(b"\x07" * SECRET, [1, 2, 3], 3, entropy_of(0))
    for other in (bytes(SECRET), b"\x09" * SECRET):
        known = {1: int.from_bytes(shares[0]), 2: int.from_bytes(shares[1])}
        zero = int.from_bytes(other)
        # f(x) = zero + a x + b x^2 through both points, solved for a and b
        second = (known[2] - 2 * known[1] + zero) * pow(2, -1, P) % P
        first = (known[1] - zero - second) % P
        assert all((zero + first * x + second * x * x) % P == value for x, value in known.items())


def test_coefficients_are_uniform_below_the_prime():
    """With a secret of zeros and the threshold 2, the share at 1 is the coefficient.

    Chi-square of 8 equal cells over 4,000 draws: above 56.0 with a chance of 1e-9. Coefficients of one bit less fill
    half of the cells, and are found for certain.
    """
    draws = 4000
    entropy = entropy_of("uniform")
    numbers = [int.from_bytes(split(bytes(SECRET), [1, 2], 2, entropy)[0]) for _ in range(draws)]
    assert max(numbers) < P
    cells = Counter(number * 8 // P for number in numbers)
    assert sum((cells[cell] - draws / 8) ** 2 / (draws / 8) for cell in range(8)) < 56.0


def test_bits_that_are_no_number_below_the_prime_are_drawn_again():
    asked = []

    def entropy(size):
        """Numbers of 257 bits: the greatest, P, P - 1, then zeros."""
        asked.append(size)
        spare = 8 * SHARE - 257
        greatest = (2**257 - 1, P) if len(asked) == 1 else (P - 1, 0)
        return b"".join((number << spare).to_bytes(SHARE) for number in greatest)

    (share,) = split(bytes(SECRET), [1], 1, entropy)
    assert (share, asked) == (bytes(SHARE), [])
    first, second = split(bytes(SECRET), [1, 2], 2, entropy)
    assert asked == [2 * SHARE] * 2
    assert int.from_bytes(first) == P - 1
    assert int.from_bytes(second) == P - 2


@given(dealt(most=9), st.randoms(use_true_random=False))
def test_wrong_shares_are_found_and_told(case, random):
    secret, threshold, shares = case
    wrong = random.sample(sorted(shares), random.randint(0, len(shares) - threshold))
    lies = [bytes(SHARE), b"\xff" * SHARE, b"short", P.to_bytes(SHARE)]
    for point in wrong:
        value = int.from_bytes(shares[point])
        lie = random.choice([*lies, ((value + random.randint(1, 9)) % P).to_bytes(SHARE)])
        shares[point] = lie if lie != shares[point] else b"\x00" * 32 + b"\x01"
    wrong = {point for point in wrong if shares[point]}
    found = recover(shares, threshold, secret.__eq__)
    assert found is not None
    assert found[0] == secret
    assert set(found[1]) <= wrong
    least = sorted(point for point, share in shares.items() if len(share) == SHARE and int.from_bytes(share) < P)
    if wrong & set(least[:threshold]):
        assert set(found[1]) == wrong


@pytest.mark.parametrize(("shares", "threshold", "lies"), [(100, 56, 22), (60, 40, 10), (30, 16, 7)])
def test_decoding_finds_half_as_many_lies_as_there_are_spare_shares(shares, threshold, lies):
    secret = bytes(range(SECRET))
    points = range(1, shares + 1)
    told = dict(zip(points, split(secret, points, threshold, entropy_of(1)), strict=True))
    for point in points[:lies]:
        told[point] = bytes(SHARE)
    assert recover(told, threshold, secret.__eq__) == (secret, tuple(points[:lies]))


def test_lies_that_agree_with_each_other_do_not_pass_for_the_secret():
    """Five of nine lie together: their polynomial is the likelier one, but its secret was not committed to."""
    secret, other = b"\x01" * SECRET, b"\x02" * SECRET
    shares = dict(zip(range(1, 10), split(secret, range(1, 10), 4, entropy_of(2)), strict=True))
    shares |= dict(zip(range(1, 6), split(other, range(1, 6), 4, entropy_of(3)), strict=True))
    assert recover(shares, 4, secret.__eq__) == (secret, (1, 2, 3, 4, 5))
    assert recover(shares, 4, b"another".__eq__) is None


def test_tries_are_bounded():
    shares = dict(zip(range(1, 31), split(bytes(SECRET), range(1, 31), 16, entropy_of(4)), strict=True))
    tried = []
    assert recover(shares, 16, lambda secret: bool(tried.append(secret))) is None
    assert len(tried) <= 2
    few = {point: shares[point] for point in range(1, 18)}
    assert recover(few, 16, lambda secret: bool(tried.append(secret))) is None
    assert len(tried) <= 2 + 2 + 17


def test_too_few_shares_give_nothing():
    shares = dict(zip([1, 2, 3], split(bytes(SECRET), [1, 2, 3], 3, entropy_of(5)), strict=True))
    assert recover({1: shares[1], 2: shares[2]}, 3, bytes(SECRET).__eq__) is None
    assert recover({}, 1, bytes(SECRET).__eq__) is None
    assert recover({**shares, 3: b"\xff" * SHARE}, 3, bytes(SECRET).__eq__) is None


def test_combining_refuses_what_is_no_share():
    shares = split(b"\xff" * SECRET, [1, 2], 2, entropy_of(6))
    combiner = Combiner([1, 2])
    for wrong in ([shares[0]], [shares[0], b""], [shares[0], P.to_bytes(SHARE)], [shares[0], shares[1] + b"\x00"]):
        with pytest.raises(ValueError, match="share"):
            combiner.combine(wrong)
    # f(0) = 2 f(1) - f(2): 2^256 is a number of the field, but no secret
    with pytest.raises(ValueError, match="at least one is wrong"):
        combiner.combine([(2**255).to_bytes(SHARE), bytes(SHARE)])


@pytest.mark.parametrize(
    ("secret", "points", "threshold"),
    [
        (bytes(31), [1], 1),
        (bytes(33), [1], 1),
        (bytes(32), [], 1),
        (bytes(32), [0, 1], 1),
        (bytes(32), [1, 1], 1),
        (bytes(32), [2**16 + 1], 1),
        (bytes(32), [1, 2], 0),
        (bytes(32), [1, 2], 3),
    ],
)
def test_a_secret_is_not_split_in_a_way_that_cannot_be_meant(secret, points, threshold):
    with pytest.raises(ValueError, match=r"secret|points|threshold"):
        split(secret, points, threshold, entropy_of(7))


def test_a_threshold_of_none_and_points_out_of_range_are_no_questions():
    for shares, threshold in (({1: bytes(SHARE)}, 0), ({0: bytes(SHARE)}, 1), ({2**16 + 1: bytes(SHARE)}, 1)):
        with pytest.raises(ValueError, match=r"threshold|points"):
            shamir.recover(shares, threshold, bytes(SECRET).__eq__)
    with pytest.raises(ValueError, match="points"):
        Combiner([])
