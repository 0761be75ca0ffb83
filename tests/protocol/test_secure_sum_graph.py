"""The graph of a round: what it is, and that the chance that it does not protect is below what it says."""

import hashlib
import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import binom

from protocol.errors import ConfigurationError
from protocol.secure_sum import graph as graphs
from protocol.secure_sum.graph import COMPLETE_UP_TO, FAILURE_BITS, WORD, Graph, graph_of, settled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "secure-sums-graph.md"
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
    """Rows of the table in docs/secure-sums-graph.md."""
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
