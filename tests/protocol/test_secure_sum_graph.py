"""The graph of a round, its theorem by linear algebra, its chances; and Shamir's shares."""

import hashlib
import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import binom

from at_length import at_length
from protocol.errors import ConfigurationError
from protocol.secure_sum import graph as graphs
from protocol.secure_sum import shamir
from protocol.secure_sum.graph import COMPLETE_UP_TO, FAILURE_BITS, WORD, Graph, graph_of, settled
from protocol.secure_sum.shamir import SECRET, SHARE, Combiner, P, recover, split, split_each

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "secure-sums-graph.md"
UNIT = Fraction(1, 2**256)
SPARSE = [(101, 1, 1), (150, 7, 0), (200, 2, 2), (300, 30, 30), (1000, 10, 10), (1000, 100, 0)]


def seed_of(text):
    return hashlib.sha256(str(text).encode()).digest()


def graph_from(joined, local_colluders=1):
    """A graph of any symmetric matrix."""
    joined = np.asarray(joined, dtype=bool)
    return Graph(len(joined), local_colluders, joined)


@st.composite
def small_graphs(draw):
    size = draw(st.integers(2, 9))
    joined = np.zeros((size, size), dtype=bool)
    for i, j in itertools.combinations(range(size), 2):
        joined[i, j] = joined[j, i] = draw(st.booleans())
    return graph_from(joined, draw(st.integers(0, 4)))


# what it is


@pytest.mark.parametrize("size", [2, 3, 10, COMPLETE_UP_TO])
def test_up_to_a_hundred_everybody_is_joined_to_everybody(size):
    graph = graph_of(seed_of(size), size, 1, 0)
    assert graph.local_colluders == 1
    for index in (0, size - 1):
        assert graph.neighbours(index) == tuple(other for other in range(size) if other != index)
        assert graph.holders(index) == tuple(range(size))
        assert graph.threshold(index) == (size + 1) // 2 + 1
    assert settled(size, 1, 0).failure_log2 is None


@pytest.mark.parametrize(("size", "colluders", "dropouts"), SPARSE)
def test_above_it_is_sparse_symmetric_and_follows_from_the_seed(size, colluders, dropouts):
    graph = graph_of(seed_of(1), size, colluders, dropouts)
    assert 0.1 < graph.joined.mean() < 0.9
    np.testing.assert_array_equal(graph.joined, graph.joined.T)
    assert not graph.joined.diagonal().any()
    graph_of.cache_clear()
    np.testing.assert_array_equal(graph.joined, graph_of(seed_of(1), size, colluders, dropouts).joined)
    assert (graph.joined != graph_of(seed_of(2), size, colluders, dropouts).joined).any()
    for index in (0, size // 2, size - 1):
        assert graph.neighbours(index) == tuple(np.flatnonzero(graph.joined[:, index]))
        assert graph.holders(index) == tuple(sorted((*graph.neighbours(index), index)))
    with pytest.raises(ValueError, match="read-only"):
        graph.joined[0, 1] = True


def test_every_machine_makes_the_same_graph():
    """The bits below the diagonal of one graph, and what it was settled with."""
    assert settled(200, 2, 2) == (1553958016, 2, -108)
    joined = graph_of(bytes(range(32)), 200, 2, 2).joined
    below = np.packbits(joined[np.tri(200, k=-1, dtype=bool)]).tobytes()
    assert hashlib.sha256(below).hexdigest() == "6e537afb6fda36e2fcc3cda25cf5dcf0b7c1a3340494d1e6ba3c727128e37078"


@pytest.mark.parametrize(("size", "colluders", "dropouts"), SPARSE)
def test_edges_are_as_many_as_they_should_be(size, colluders, dropouts):
    """All edges of 20 graphs, and each degree: outside of exact binomial bounds with a chance of 1e-9 each.

    A probability that is off by 1 / 50 is found for certain where there are 300 participants or more.
    """
    rate = settled(size, colluders, dropouts).edge_probability / WORD
    degrees = np.array([graph_of(seed_of(k), size, colluders, dropouts).joined.sum(axis=1) for k in range(20)])
    low, high = binom.interval(1 - 1e-9, 20 * size * (size - 1) // 2, rate)
    assert low <= degrees.sum() // 2 <= high
    low, high = binom.interval(1 - 1e-9 / degrees.size, size - 1, rate)
    assert low <= degrees.min()
    assert degrees.max() <= high


# thresholds


@given(small_graphs())
def test_no_secret_opens_twice(graph):
    """Where each honest holder gives a share of one of two secrets, and local colluders of both, one stays closed."""
    for node in range(graph.size):
        holders, threshold, liars = len(graph.holders(node)), graph.threshold(node), graph.local_colluders
        assert threshold > min(liars, holders - 1)
        for colluding in range(min(liars, holders - 1) + 1):
            for given_to_one in range(holders - colluding + 1):
                one, other = given_to_one + colluding, holders - given_to_one
                assert min(one, other) < threshold


@given(small_graphs(), st.data())
def test_those_that_lack_holders_are_told(graph, data):
    nodes, present = (data.draw(st.sets(st.integers(0, graph.size - 1))) for _ in range(2))
    lacking = [node for node in sorted(nodes) if len(present & set(graph.holders(node))) < graph.threshold(node)]
    assert graph.lacking(nodes, sorted(present)) == tuple(lacking)


@given(small_graphs(), st.data())
def test_two_thresholds_of_holders_have_an_honest_other_in_common(graph, data):
    """One holder is the node itself: of dealers that it was shown; of signers, who were shown other dealers, not."""
    node = data.draw(st.integers(0, graph.size - 1))
    neighbours, threshold = graph.neighbours(node), graph.threshold(node)
    if len(neighbours) >= threshold:
        dealers = data.draw(st.sets(st.sampled_from(neighbours), min_size=threshold - 1))
        signers = data.draw(st.sets(st.sampled_from(neighbours), min_size=threshold))
        assert len(dealers & signers) > graph.local_colluders


# the bounds


@given(st.integers(0, 60), st.integers(1, WORD - 1))
def test_binomial_chances_are_rounded_up_by_next_to_nothing(trials, word):
    rate = Fraction(word, WORD)
    for k, chance in enumerate(graphs._binomial(trials, word)):
        exact = math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        assert exact <= chance * UNIT <= exact * (1 + 4 * trials * UNIT * 2**64) + (trials + 1) * 2**40 * UNIT


@pytest.mark.parametrize("dropouts", [0, 1])
def test_the_chance_to_fall_apart_is_bounded_on_all_graphs_of_six(dropouts):
    """Five honest participants and one that colludes, every graph, everybody whom the learner may leave out."""
    pairs = list(itertools.combinations(range(6), 2))
    counts = Counter()
    for edges in itertools.product((False, True), repeat=len(pairs)):
        present = list(itertools.compress(pairs, edges))
        degrees = Counter(itertools.chain.from_iterable(present))
        if any(apart(left, present, degrees) for left in itertools.combinations(range(5), 5 - dropouts)):
            counts[len(present)] += 1
    for percent in (60, 80, 90, 99):
        word = percent * WORD // 100
        rate = Fraction(word, WORD)
        exact = sum(count * rate**edges * (1 - rate) ** (len(pairs) - edges) for edges, count in counts.items())
        bound = graphs._apart(word, 6, 1, dropouts, 1) * UNIT
        assert 0 < exact <= bound
    assert bound < 100 * exact


def apart(nodes, edges, degrees):
    """Whether nodes fall apart, each with its threshold of holders in its part, or colluding (one)."""
    parts = {node: {node} for node in nodes}
    for one, other in edges:
        if one in parts and other in parts and parts[one] is not parts[other]:
            parts[one] |= parts[other]
            for node in parts[other]:
                parts[node] = parts[one]
    thresholds = {node: (degrees[node] + 1 + 1) // 2 + 1 for node in nodes}
    return all(len(parts[node]) < len(nodes) and thresholds[node] <= len(parts[node]) + 1 for node in nodes)


@given(st.integers(1, 40), st.integers(101, 400), st.floats(0.01, 0.99))
@settings(max_examples=30)
def test_more_colluders_next_to_somebody_than_the_bound_are_too_unlikely(colluders, size, rate):
    word = int(rate * WORD)
    local, crowded = graphs._local_bound(word, size, colluders)
    exact = Fraction(word, WORD)
    terms = [math.comb(colluders, k) * exact**k * (1 - exact) ** (colluders - k) for k in range(colluders + 1)]
    assert size * sum(terms[local + 1 :]) <= crowded * UNIT <= Fraction(1, 2 ** (FAILURE_BITS + 1))
    if local:
        assert size * sum(terms[local:]) * (1 + Fraction(1, 2**60)) > Fraction(1, 2 ** (FAILURE_BITS + 1))


def failure_of(size, colluders, dropouts, rate, local):
    """Binary logarithms of three chances, in floats and by other formulas than the code's."""
    crowded = math.log2(size) + binom.logsf(local, colluders, rate) / math.log(2) if local < colluders else -math.inf
    honest, left = size - colluders, size - colluders - dropouts
    part = np.arange(1, left // 2 + 1)
    ways = gammaln(honest + 1) - gammaln(part + 1) - gammaln(left - part + 1) - gammaln(dropouts + 1)
    cuts = np.logaddexp.accumulate((ways + part * (left - part) * np.log1p(-rate))[::-1])[::-1]
    few = np.where(part > 1, math.log(size) + binom.logcdf(2 * part + local - 4, size - 1, rate), -np.inf)
    apart = np.logaddexp(cuts, few).min() / math.log(2)
    gone = np.arange(dropouts + 1)
    short = size * np.sum(binom.pmf(gone, dropouts, rate) * binom.cdf(gone + local + 1, size - 1 - dropouts, rate))
    return crowded, float(apart), float(np.log2(max(short, 1e-300)))


@pytest.mark.parametrize(("size", "colluders", "dropouts"), SPARSE)
def test_the_sparsest_graph_is_settled_on_that_protects_and_opens(size, colluders, dropouts):
    word, local, said = settled(size, colluders, dropouts)
    crowded, apart, short = failure_of(size, colluders, dropouts, word / WORD, local)
    assert np.logaddexp2(crowded, apart) <= said <= -FAILURE_BITS
    assert short <= -20
    assert said - np.logaddexp2(crowded, apart) < 3
    degree = round(word * (size - 1) / WORD)
    assert degree % 4 == 0
    fewer = (degree - 4) * WORD // (size - 1)
    local, _ = graphs._local_bound(fewer, size, colluders)
    crowded, apart, short = failure_of(size, colluders, dropouts, fewer / WORD, local)
    assert apart > -FAILURE_BITS - 2 or short > -20


@pytest.mark.slow
def test_more_colluders_or_dropouts_never_take_fewer_edges():
    for size in (120, 250):
        for colluders, dropouts in itertools.product((1, 5, 12), (0, 4, 11)):
            here = settled(size, colluders, dropouts)
            assert here.edge_probability <= settled(size, colluders + 3, dropouts).edge_probability
            assert here.edge_probability <= settled(size, colluders, dropouts + 3).edge_probability


@pytest.mark.parametrize(("size", "colluders", "dropouts"), [(101, 30, 30), (101, 98, 1), (150, 149, 0)])
def test_where_no_sparser_graph_will_do_it_is_complete(size, colluders, dropouts):
    assert settled(size, colluders, dropouts) == (WORD, colluders, None)
    assert graph_of(bytes(32), size, colluders, dropouts).joined.sum() == size * (size - 1)


@pytest.mark.parametrize(("size", "colluders", "dropouts"), SPARSE)
def test_random_dropouts_as_many_as_tolerated_leave_everybody_enough_holders(size, colluders, dropouts):
    """200 draws: one fails with a chance of 200 / 2^20 at most, were the bound sharp; the seeds are fixed."""
    generator = np.random.default_rng(1)
    for k in range(10):
        graph = graph_of(seed_of(k), size, colluders, dropouts)
        for _ in range(20):
            assert graph.lacking(range(size), generator.permutation(size)[dropouts:]) == ()


@pytest.mark.parametrize(
    ("size", "colluders", "dropouts"), [(3, 1, 1), (10, 0, 1), (10, 2, 4), (200, 1, -1), (1, 1, 0)]
)
def test_what_cannot_be_tolerated_is_refused_with_what_to_change(size, colluders, dropouts):
    with pytest.raises(ConfigurationError, match="colluders must be at least 1, and participants more than"):
        graph_of(bytes(32), size, colluders, dropouts)


def test_a_seed_is_a_digest():
    with pytest.raises(ValueError, match="32 bytes"):
        graph_of(bytes(31), 3, 1, 0)


def table_of_the_page():
    """Rows of the table in docs/explanation/secure-sums-graph.md."""
    for size in (101, 200, 500, 1000):
        for percent in (1, 10, 20):
            few = size * percent // 100
            word, local, failure = settled(size, few, few)
            degree = word * (size - 1) / WORD
            chance = "never" if failure is None else f"2^{failure}"
            threshold = (round(degree) + 1 + local) // 2 + 1
            yield f"| {size:,} | {few} | {few} | {word / WORD:.3f} | {degree:.0f} | {local} | {threshold} | {chance} |"


def test_the_page_shows_what_is_settled_on():
    assert "\n".join(table_of_the_page()) in PAGE.read_text(encoding="utf-8")


class Seen:
    """What the learner showed whom in a round of n cards; the first `colluders` collude.

    Attributes:
        graph: of the round.
        absent: whose cards are old; their mask keys are known.
        lists: dealers that each honest participant masked for.
        dealers, survivors: that are opened.
    """

    def __init__(self, draw):
        self.dropouts = draw(st.integers(0, 2))
        self.colluders = draw(st.integers(1, 2))
        self.n = draw(st.integers(2 * self.dropouts + self.colluders + 1, 8))
        joined = ~np.eye(self.n, dtype=bool)
        missing = st.lists(st.sampled_from(list(itertools.combinations(range(self.n), 2))), max_size=self.n)
        for one, other in draw(st.just([]) | missing):
            joined[one, other] = joined[other, one] = False
        self.graph = Graph(self.n, int(joined[:, : self.colluders].sum(axis=1).max()), joined)
        honest = range(self.colluders, self.n)
        self.absent = draw(st.sets(st.sampled_from(honest), max_size=self.dropouts))
        self.honest = [node for node in honest if node not in self.absent]
        two = [self.some(draw) for _ in range(2)]
        self.lists = {node: draw(st.sampled_from(two)) for node in self.honest}
        self.dealers = two[0]
        self.survivors = frozenset(draw(st.sampled_from([self.dealers, self.dealers & self.some(draw)])))

    def some(self, draw):
        """All but as many as tolerated."""
        left_out = draw(st.sets(st.integers(0, self.n - 1), max_size=self.dropouts))
        return frozenset(range(self.n)) - left_out

    def signers(self):
        """Those that sign, colluders with them; None where the rules let nobody open this."""
        for node, dealers in self.lists.items():
            if node in dealers and self.graph.lacking([node], dealers):
                return None  # it would not have masked
        if len(self.survivors) < self.n - self.dropouts or self.graph.lacking(self.survivors, self.survivors):
            return None
        told = {node for node in self.honest if self.lists[node] == self.dealers}
        signers = self.survivors & (told | set(range(self.colluders)))
        if len(signers) < self.n - self.dropouts or self.graph.lacking(self.survivors, signers):
            return None
        return signers

    def unknown_masks(self):
        """(masks, honest participants): how often each unknown mask is added to whose vector."""
        masks = {}
        for place, node in enumerate(self.honest):
            dealers = self.lists[node]
            if node not in dealers:
                continue  # it masked nothing
            if node not in self.survivors:
                masks[node] = [(place, 1)]
            for other in self.graph.neighbours(node):
                known = other < self.colluders or other in self.absent
                opened = {node, other} & (self.dealers - self.survivors)
                if other in dealers and not known and not opened:
                    masks.setdefault((*sorted((node, other)), dealers), []).append((place, 1 if node < other else -1))
        rows = np.zeros((len(masks), len(self.honest)))
        for row, told in zip(rows, masks.values(), strict=True):
            for place, sign in told:
                row[place] += sign
        return rows

    def parts(self):
        """Participants that masked for the opened list and are on it, in the parts that edges connect."""
        left = {node for node in self.honest if self.lists[node] == self.dealers and node in self.survivors}
        while left:
            part, todo = set(), [min(left)]
            while todo:
                node = todo.pop()
                part.add(node)
                todo += [other for other in self.graph.neighbours(node) if other in left - part]
            left -= part
            yield part


def rank(rows):
    return int(np.linalg.matrix_rank(rows)) if rows.size else 0


@given(st.data())
@settings(max_examples=15)
def test_all_that_can_be_worked_out_is_sums_over_whole_parts(data):
    seen = Seen(data.draw)
    signers = seen.signers()
    assume(signers is not None)
    unknown = seen.unknown_masks()
    parts = list(seen.parts())
    weights = np.array([[node in part for node in seen.honest] for part in parts], dtype=float)
    # Whatever cancels all unknown masks is a combination of the parts' sums, and of vectors that were never made.
    unmade = np.array([[node == each for node in seen.honest] for each in seen.honest if each not in seen.lists[each]])
    allowed = np.vstack([weights, unmade.astype(float)]) if unmade.size else weights
    cancelling = len(seen.honest) - rank(unknown)
    _, _, basis = np.linalg.svd(unknown) if unknown.size else (None, None, np.eye(len(seen.honest)))
    nothing_left = basis[len(seen.honest) - cancelling :]
    assert rank(np.vstack([allowed, nothing_left])) == rank(allowed)
    # One part, with enough shares of the noise; or each part is as the second event of the proof says.
    if len(parts) == 1:
        assert len(parts[0]) >= seen.n - seen.colluders - seen.dropouts
    for part in parts if len(parts) > 1 else []:
        for node in part:
            own = len(part & set(seen.graph.holders(node)))
            assert own >= seen.graph.threshold(node) - seen.graph.local_colluders
    if seen.graph.joined.sum() == seen.n * (seen.n - 1):
        assert len(parts) == 1


test_all_that_can_be_worked_out_is_sums_over_whole_parts_at_length = at_length(
    test_all_that_can_be_worked_out_is_sums_over_whole_parts, 150
)


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


@settings(max_examples=8)
@given(
    st.lists(st.integers(1, 2**16) | st.integers(1, 2**10), min_size=50, max_size=55, unique=True),
    st.lists(st.integers(0, P - 1) | st.sampled_from((0, P - 1)), min_size=39, max_size=39),
    st.lists(SECRETS, min_size=1, max_size=3),
)
def test_many_shares_at_once_are_those_of_each_point_alone(points, drawn, secrets):
    def entropy(size):
        return b"".join((number << 8 * SHARE - 257).to_bytes(SHARE) for number in drawn).ljust(size, b"\0")

    shares = split_each(secrets, points, 40, entropy)
    for secret, row in zip(secrets, shares, strict=True):
        polynomial = (int.from_bytes(secret), *drawn)
        for point, share in zip(points, row, strict=True):
            value = sum(number * pow(point, power, P) for power, number in enumerate(polynomial)) % P
            assert int.from_bytes(share) == value
        assert Combiner(points[:40]).combine(row[:40]) == secret


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
