"""The label model against exact sums, quadrature, closed forms, and a problem with a known answer."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import dlaplace, gamma, norm, poisson, skellam, t
from sklearn.cluster import KMeans

from learner_node.models.label_model import (
    LabelModel,
    Observation,
    cell_count_rule,
    fit_label_model,
    fit_with_cell_posterior,
    gaussian_process,
)
from learner_node.models.label_model.expectation_propagation import approximate_posterior, fit_sites, tilted_moments
from learner_node.models.label_model.likelihood import (
    PROBIT,
    SIGNAL_NODES,
    MassPrior,
    at_latent_nodes,
    expected_share,
    fit_mass_prior,
    noise_log_pmf,
    signed_site_table,
    site_table,
)
from learner_node.models.label_model.random_features import average_over_cells, draw_frequencies, stationary_features
from margins import DEVIATIONS, surely_above, surely_ahead
from protocol.noise import DiscreteLaplace

# --- the noise law


def convolved_noise(scale, noises, reach=400):
    """P(sum = k) for k in [-reach, reach], by convolving scipy's law with itself."""
    one = dlaplace(1.0 / scale).pmf(np.arange(-4 * reach, 4 * reach + 1))
    law = one
    for _ in range(noises - 1):
        law = np.convolve(law, one, mode="same")
    return law[3 * reach : 5 * reach + 1]


@pytest.mark.parametrize(("scale", "noises"), [(1.0, 1), (0.3, 2), (1.0, 3), (4.0, 4), (10.0, 7)])
def test_noise_law_is_the_convolution_of_discrete_laplace_laws(scale, noises):
    values = np.arange(-400, 401)
    expected = convolved_noise(scale, noises)
    log_pmf = noise_log_pmf(values, scale, noises)
    likely = expected > 1e-12
    # Convolutions add 3,201 positive numbers, so they are true to as many roundings; logarithms up to 1e4 to 1e-11.
    assert_allclose(log_pmf[likely], np.log(expected[likely]), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("scale", "noises"), [(0.5, 1), (2.0, 4), (30.0, 2), (5.0, 60)])
def test_noise_law_is_normalised_and_has_the_stated_variance(scale, noises):
    values = np.arange(-4000, 4001)
    law = np.exp(noise_log_pmf(values, scale, noises))
    assert law.sum() == pytest.approx(1.0, abs=1e-10)
    assert law @ values.astype(float) ** 2 == pytest.approx(DiscreteLaplace(Fraction(scale)).variance(noises), rel=1e-9)


def test_without_noise_all_mass_is_at_zero():
    assert_allclose(np.exp(noise_log_pmf(np.array([-1, 0, 1]), 0.0, 3)), [0.0, 1.0, 0.0], atol=1e-7)


# --- signed counts


@pytest.mark.parametrize(("scale", "noises", "mass"), [(1.0, 1, 40.0), (10.0, 1, 25.0), (2.0, 3, 60.0)])
def test_signed_table_is_the_law_of_a_difference_of_poisson_counts_plus_noise(scale, noises, mass):
    reach = 400
    values = np.arange(-reach, reach + 1)
    noise = convolved_noise(scale, noises, reach)
    prior = MassPrior(np.array([mass]), np.array([1e7]))
    for signal in (-0.8, 0.0, 0.4):
        node = int(np.argmin(np.abs(SIGNAL_NODES - signal)))
        share = 0.5 * (1.0 + SIGNAL_NODES[node])
        law = np.convolve(skellam(mass * share, mass * (1.0 - share)).pmf(values), noise, mode="same")
        asked = [difference for difference in range(-90, 91, 15) if law[reach + difference] > 1e-3]
        assert len(asked) > 2
        for difference in asked:
            table = signed_site_table(np.array([float(difference)]), prior, scale=scale, noises=noises)
            # The normal stands in for skewed and discrete counts.
            assert table.log_likelihood[0, node] == pytest.approx(np.log(law[reach + difference]), abs=0.3)
            assert table.mass[0, node] == mass


def test_a_signed_count_far_from_its_law_is_finite_and_pulls_to_its_side():
    prior = MassPrior(np.array([5.0, 5.0]), np.array([3.0, 3.0]))
    table = signed_site_table(np.array([1e6, -1e6]), prior, scale=0.0, noises=2)
    assert np.isfinite(table.log_likelihood).all()
    assert table.log_likelihood[0, -1] > table.log_likelihood[0, 0]
    assert table.log_likelihood[1, 0] > table.log_likelihood[1, -1]
    assert (table.mass == 5.0).all()


def test_signed_counts_of_one_population_teach_what_pairs_teach():
    rng = np.random.default_rng(11)
    source, target, test = (rng.uniform(-2, 2, (size, 2)) for size in (600, 3000, 2000))
    cells, asked = (np.floor((points + 2) * 2).astype(int) @ [8, 1] for points in (source, target))
    differences = np.bincount(asked, weights=np.where(target[:, 0] > 0.3, 1.0, -1.0), minlength=64)
    seen = Observation.of_signed(cells, differences, np.full(600, 5.0), spread=0.02, scale=1.0, noises=1)
    assert seen.counts.sum() == pytest.approx(3000.0)
    model, posterior = fit_with_cell_posterior(source, seen, seed=0)
    # Each cell's likelier label is right for 0.95 of all: the border cuts an eighth of the cells at three fifths. Six
    # standard errors of 2,000 test records are 0.03.
    assert np.mean((model.latent(test) > 0) == (test[:, 0] > 0.3)) > 0.95 - 0.03
    assert model.source_mass == pytest.approx(np.full(600, 5.0))
    assert (posterior.mass_variance > 0).all()


# --- the site table


def direct_site(counts, prior_mean, prior_shape, scale, noises, signal):
    """P(answer | f) and E[M | answer, f] by a double sum over true counts inside an adaptive integral."""
    true_counts = np.arange(120)
    noise = [np.exp(noise_log_pmf(count - true_counts, scale, noises)) for count in counts]
    share = 0.5 * (1 + signal)
    density = gamma(prior_shape, scale=prior_mean / prior_shape).pdf

    def integrand(mass):
        label0 = poisson.pmf(true_counts, mass * (1 - share)) @ noise[0]
        label1 = poisson.pmf(true_counts, mass * share) @ noise[1]
        return density(mass) * label0 * label1

    kwargs = {"points": [1e-3, prior_mean], "limit": 200, "epsabs": 0.0, "epsrel": 1e-6}
    evidence = quad(integrand, 0, 60, **kwargs)[0]
    return np.log(evidence), quad(lambda mass: mass * integrand(mass), 0, 60, **kwargs)[0] / evidence


@pytest.mark.parametrize(
    ("counts", "mean", "shape", "scale", "noises"),
    [
        ((3, 7), 8.0, 4.0, 1.0, 1),
        ((-2, 5), 6.0, 2.0, 2.0, 3),
        pytest.param((0, 0), 4.0, 3.0, 1.0, 1, marks=pytest.mark.slow),
        pytest.param((12, -4), 5.0, 10.0, 3.0, 2, marks=pytest.mark.slow),
        ((2, 9), 10.0, 6.0, 0.0, 1),
    ],
)
def test_site_table_is_the_double_sum_over_counts_and_noise(counts, mean, shape, scale, noises):
    prior = MassPrior(np.array([mean]), np.array([shape]))
    table = site_table(np.array([counts], dtype=float), prior, scale=scale, noises=noises)
    nodes = [4, 40, 57]
    expected = np.array([direct_site(counts, mean, shape, scale, noises, SIGNAL_NODES[node]) for node in nodes])
    assert_allclose(table.log_likelihood[0, nodes], expected[:, 0], atol=0.02)
    assert_allclose(table.mass[0, nodes], expected[:, 1], rtol=0.02)


@pytest.mark.parametrize(("scale", "noises"), [(1.0, 1), (3.0, (5, 1)), (0.0, 1)])
def test_swapping_two_counts_mirrors_their_site_table(scale, noises):
    """Double precision: some hundred roundings of 1e-16 of logarithms up to 1e3 leave 1e-11."""
    rng = np.random.default_rng(0)
    counts = np.rint(rng.gamma(1, 20, (400, 2)) + rng.laplace(0, 3, (400, 2)))
    prior = MassPrior(rng.gamma(2, 20, 400), rng.uniform(1, 50, 400))
    table = site_table(counts, prior, scale=scale, noises=noises)
    mirror = site_table(
        counts[:, ::-1], prior, scale=scale, noises=noises[::-1] if isinstance(noises, tuple) else noises
    )
    assert_allclose(mirror.log_likelihood[:, ::-1], table.log_likelihood, rtol=1e-9, atol=1e-9)
    assert_allclose(mirror.mass[:, ::-1], table.mass, rtol=1e-9)


def test_normal_and_poisson_branches_agree_at_the_border():
    counts = np.array([[900.0, 1960.0]])
    shares = []
    for mean in (2700.0, 2900.0):  # the quadrature ends below and above 3,000
        prior = MassPrior(np.array([mean]), np.array([300.0]))
        log_likelihood = site_table(counts, prior, scale=10.0, noises=1).log_likelihood[0]
        shares.append(SIGNAL_NODES[np.argmax(log_likelihood)])
    assert shares[0] == pytest.approx(shares[1], abs=0.026)
    assert shares[0] == pytest.approx(1060 / 2860, abs=0.026)


def test_mass_prior_follows_a_region_that_the_source_underrates():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(200, 1))
    source = np.full(200, 20.0)
    truth = np.where(centres[:, 0] > 0, 40.0, 5.0)
    totals = rng.poisson(truth) + rng.normal(0, 2, 200)
    prior = fit_mass_prior(source, totals, centres, total=totals.sum(), variance=4.0)
    # Errors of both rates are at most 6.7 records, of one total, while the rates are 17.5 from their mean: were the
    # totals taken as they are, 17.5 / sqrt(17.5^2 + 26.5) = 0.96 were expected, and 0.05 less is ten standard errors.
    assert np.corrcoef(prior.mean, truth)[0, 1] > 0.91


# --- expectation propagation


def normal_tables(observations, variances):
    return -0.5 * (SIGNAL_NODES - observations[:, None]) ** 2 / variances[:, None]


def answer_tables():
    """Two sites far from normal: one cell nearly pure and one with little to say."""
    prior = MassPrior(np.array([12.0, 5.0]), np.array([5.0, 2.0]))
    return site_table(np.array([[0.0, 11.0], [4.0, 2.0]]), prior, scale=1.0, noises=1).log_likelihood


def test_normal_likelihoods_give_the_closed_form():
    observations, variances = np.array([0.1, -0.15, 0.05]), np.array([0.02, 0.03, 0.04])
    covariance = np.array([[0.05, 0.03, 0.01], [0.03, 0.06, 0.02], [0.01, 0.02, 0.04]])
    posterior = approximate_posterior(covariance, normal_tables(observations, variances), tolerance=1e-6)
    total = covariance + np.diag(variances)
    gain = covariance @ np.linalg.inv(total)
    evidence = (
        -0.5 * observations @ np.linalg.solve(total, observations)
        - 0.5 * np.linalg.slogdet(total)[1]
        + 0.5 * np.sum(np.log(variances))
    )
    # Linear interpolation widens the tables by a share of at most 0.025^2 / 6 / variance.
    assert_allclose(posterior.mean, gain @ observations, atol=2e-3)
    assert_allclose(posterior.variance, np.diag(covariance - gain @ covariance), rtol=1e-2)
    assert posterior.log_evidence == pytest.approx(evidence, abs=0.02)


def test_tilted_moments_are_those_of_quadrature():
    tables = answer_tables()
    tables -= tables.max(axis=1, keepdims=True)
    for mean, deviation in ((0.2, 0.8), (-2.5, 0.4), (0.9, 0.01), (0.0, 30.0), (9.0, 0.5)):
        log_mass, first, variance = tilted_moments(tables, np.full(2, mean), np.full(2, deviation**2))
        for cell in range(2):
            nodes = np.linspace(mean - 12 * deviation, mean + 12 * deviation, 400_001)
            weight = norm.pdf(nodes, mean, deviation) * np.exp(
                np.interp(np.clip(nodes, -1, 1), SIGNAL_NODES, tables[cell])
            )
            weight *= nodes[1] - nodes[0]
            expected = weight @ nodes / weight.sum()
            assert log_mass[cell] == pytest.approx(np.log(weight.sum()), abs=2e-3)
            assert first[cell] == pytest.approx(expected, abs=2e-3 * deviation)
            spread = weight @ (nodes - expected) ** 2 / weight.sum()
            assert variance[cell] == pytest.approx(spread, rel=1e-2)


# Exponents of up to 50 in single precision, whose roundings are 6e-8 each, move masses by up to 3e-6 of themselves.
# Moments in deviations move by as much, and the fixed point of two sites by little more: ten times that is asked.
SINGLE = 3e-5


def test_mirrored_tables_have_mirrored_moments():
    tables = answer_tables()
    tables -= tables.max(axis=1, keepdims=True)
    for mean, deviation in ((0.2, 0.8), (-2.5, 0.4), (0.9, 0.01), (0.0, 30.0), (9.0, 0.5)):
        square = np.full(2, deviation**2)
        log_mass, first, variance = tilted_moments(tables, np.full(2, mean), square)
        mirror = tilted_moments(tables[:, ::-1], np.full(2, -mean), square)
        assert_allclose(mirror[0], log_mass, rtol=SINGLE, atol=SINGLE)
        assert_allclose(mirror[1], -first, atol=SINGLE * deviation)
        assert_allclose(mirror[2], variance, rtol=SINGLE)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_mirrored_tables_have_a_mirrored_posterior(correlation):
    covariance = np.array([[0.6, 0.6 * correlation], [0.6 * correlation, 0.6]])
    posterior = approximate_posterior(covariance, answer_tables(), tolerance=1e-8)
    mirror = approximate_posterior(covariance, answer_tables()[:, ::-1], tolerance=1e-8)
    assert_allclose(mirror.mean, -posterior.mean, atol=SINGLE)
    assert_allclose(mirror.variance, posterior.variance, rtol=SINGLE)
    assert mirror.log_evidence == pytest.approx(posterior.log_evidence, abs=SINGLE)


def test_one_cell_is_exact():
    for covariance in (0.1, 1.0):
        posterior = approximate_posterior(np.array([[covariance]]), answer_tables()[1:], tolerance=1e-8)
        nodes = np.linspace(-9, 9, 200_001)
        weight = norm.pdf(nodes, 0, covariance**0.5) * np.exp(np.interp(nodes, SIGNAL_NODES, answer_tables()[1]))
        weight *= nodes[1] - nodes[0]
        mean = weight @ nodes / weight.sum()
        assert posterior.mean[0] == pytest.approx(mean, abs=2e-3)
        assert posterior.variance[0] == pytest.approx(weight @ (nodes - mean) ** 2 / weight.sum(), rel=1e-2)
        assert posterior.log_evidence == pytest.approx(np.log(weight.sum()), abs=5e-3)


def two_cells_by_quadrature(covariance, tables):
    """Log evidence, means and variances of two cells' signals, on a grid of both that is fine from -1 to 1."""
    tail = np.linspace(1, 6 * np.sqrt(covariance.max()), 121)[1:]
    nodes = np.concatenate([-tail[::-1], np.linspace(-1, 1, 161), tail])
    a, b = np.meshgrid(nodes, nodes, indexing="ij")
    precision = np.linalg.inv(covariance)
    log_weight = -0.5 * (precision[0, 0] * a**2 + 2 * precision[0, 1] * a * b + precision[1, 1] * b**2)
    log_weight -= np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
    log_weight += np.interp(a, SIGNAL_NODES, tables[0]) + np.interp(b, SIGNAL_NODES, tables[1])
    top = log_weight.max()
    weight = np.exp(log_weight - top) * np.outer(np.gradient(nodes), np.gradient(nodes))
    evidence = weight.sum()
    mean = np.array([(weight * a).sum(), (weight * b).sum()]) / evidence
    variance = np.array([(weight * a**2).sum(), (weight * b**2).sum()]) / evidence - mean**2
    return np.log(evidence) + top, mean, variance


# At 0.95 the cells contradict one another: a site that would widen the posterior is held flat instead. Tolerances are
# the method's own: its fixed point moves by a rounding of single precision, times 1,000 at most where a site is flat.
@pytest.mark.parametrize(("correlation", "tolerance"), [(0.0, 0.01), (0.5, 0.05), (0.95, 0.25)])
def test_two_cells_are_close_to_quadrature(correlation, tolerance):
    covariance = np.array([[0.6, 0.6 * correlation], [0.6 * correlation, 0.6]])
    tables = answer_tables()
    posterior = approximate_posterior(covariance, tables, tolerance=1e-8)
    log_evidence, mean, variance = two_cells_by_quadrature(covariance, tables)
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=0.02)
    assert_allclose(posterior.mean, mean, atol=0.02)
    assert_allclose(posterior.variance, variance, rtol=tolerance)


# --- features and the mixture


def test_random_features_have_the_stated_kernel():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(50, 3))
    rows = stationary_features(features @ draw_frequencies(3, 0))
    # In single precision, whose roundings are 6e-8 each: pairwise sums take some 24, a matrix product's one for a term.
    assert_allclose(np.sum(rows**2, axis=1), 1.0, rtol=2e-6)
    phases = (features + 5.0) @ draw_frequencies(3, 0)
    other = stationary_features(phases)
    # Stationary. A phase is rounded to single precision, and so is each of 1,000 additions.
    bound = (1000 + 4 * np.abs(phases).max()) * 2.0**-24
    assert bound < 1e-3
    assert_allclose(rows @ rows.T, other @ other.T, atol=bound)


@pytest.mark.parametrize(("mean", "deviation"), [(0.3, 0.5), (1.4, 0.2), (-3.0, 1.0), (0.0, 1e-4)])
def test_expected_share_of_a_normal_latent(mean, deviation):
    nodes = np.linspace(mean - 10 * deviation, mean + 10 * deviation, 200_001)
    weight = norm.pdf(nodes, mean, deviation) * (nodes[1] - nodes[0])
    expected = weight @ norm.cdf(PROBIT * nodes)
    assert expected_share(np.array([mean]), np.array([deviation**2]))[0] == pytest.approx(expected, abs=1e-6)


def test_rows_at_latent_nodes_are_those_of_their_shares():
    """Of a straight line and of a parabola, which is at most an eighth of a step's square above its chords."""
    moved = at_latent_nodes(np.stack([SIGNAL_NODES, SIGNAL_NODES**2]))
    signal = 2 * norm.cdf(PROBIT * SIGNAL_NODES) - 1
    assert_allclose(moved[0], signal, atol=1e-12)
    above = moved[1] - signal**2
    assert above.min() > -1e-12
    assert above.max() < (SIGNAL_NODES[1] - SIGNAL_NODES[0]) ** 2 / 4 + 1e-12


# --- the whole


def fit(features, cells, counts, *, scale, noises, seed):
    """The model of one answered partition."""
    return fit_label_model(features, [Observation(cells, counts, scale, noises)], seed=seed)


def noisy_cells(source, target, labels, *, epsilon, noises, seed, size=None):
    """k-means cells of the source and the target's noisy counts in them."""
    rng = np.random.default_rng(seed)
    size = size or cell_count_rule(len(source), len(target), epsilon, noises)
    means = KMeans(size, n_init=1, random_state=seed).fit(source)
    counts = np.zeros((size, 2))
    np.add.at(counts, (means.predict(target), labels), 1)
    ratio = np.exp(-epsilon)
    for _ in range(noises):
        counts += rng.geometric(1 - ratio, counts.shape) - rng.geometric(1 - ratio, counts.shape)
    return means.labels_, counts


def ring_problem(seed, n_source=900, epsilon=1.0, noises=1, size=None):
    """Label 1 with probability 0.9 inside a ring and 0.1 outside of it; 1,500 target records."""
    rng = np.random.default_rng(seed)

    def draw(n):
        x = rng.normal(size=(n, 2))
        inside = np.abs(np.hypot(*x.T) - 1.2) < 0.5
        return x, (rng.random(n) < np.where(inside, 0.9, 0.1)).astype(int)

    source, _ = draw(n_source)
    target, test = draw(1500), draw(4000)
    return source, *noisy_cells(source, *target, epsilon=epsilon, noises=noises, seed=seed, size=size), *test


def prior_problem(seed, epsilon):
    """Labels of a latent drawn from the model's own prior at length-scale 1 and amplitude 1."""
    rng = np.random.default_rng(seed)
    weights, level = rng.normal(size=1000), np.sqrt(gaussian_process.CONSTANT) * rng.normal()
    frequencies = draw_frequencies(2, seed + 1000)

    def draw(n):
        x = rng.normal(size=(n, 2))
        latent = stationary_features(x @ frequencies) @ weights + level
        return x, (rng.random(n) < norm.cdf(PROBIT * latent)).astype(int)

    source, _ = draw(600)
    target, test = draw(1000), draw(2000)
    return source, *noisy_cells(source, *target, epsilon=epsilon, noises=1, seed=seed), *test


@pytest.mark.parametrize("noises", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_learns_a_ring_and_its_probabilities(noises):
    source, cells, counts, test, labels = ring_problem(3, noises=noises)
    model = fit(source, cells, counts, scale=1.0, noises=noises, seed=0)
    probability = model.probability(test)
    majority = max(labels.mean(), 1 - labels.mean())
    # Nearer to the best possible, 0.9, than to the majority's share.
    assert surely_above((model.latent(test) > 0) == labels, 0.5 * (majority + 0.9))
    # Its probabilities cost less log loss than one share for all, and less than to be sure of its labels.
    sure = np.where(probability > 0.5, 0.99, 0.01)
    for other in (np.full(len(labels), labels.mean()), sure):
        assert surely_ahead(np.log(np.abs(1 - labels - probability)), np.log(np.abs(1 - labels - other)))
    # Noises of variance below 2 in two counts of each cell; within the used cells shrunken masses are a little off.
    deviations = DEVIATIONS * np.sqrt(2 * len(counts) * 2 * noises)
    assert model.total == pytest.approx(1500, abs=deviations)
    assert model.source_mass.sum() == pytest.approx(1500, abs=deviations)


def test_exact_counts_need_no_noise():
    source, cells, counts, test, labels = ring_problem(4, epsilon=50.0)
    model = fit(source, cells, counts, scale=0.0, noises=1, seed=0)
    # Labels are flipped with chance 0.1, so three quarters of the way from a coin to the best is 0.8.
    assert surely_above((model.latent(test) > 0) == labels, 0.8)
    assert model.total == 1500


@pytest.mark.slow
def test_evidence_prefers_the_scale_that_was_used():
    source, cells, counts, *_ = ring_problem(5)
    evidence = [fit(source, cells, counts, scale=scale, noises=1, seed=0).log_evidence for scale in (0.1, 1.0, 10.0)]
    # At odds of 1e9 to 1, as 250 cells tell; sweeps end where they move it by less than 0.01.
    assert evidence[1] > max(evidence[0], evidence[2]) + np.log(1e9)


def test_same_arguments_same_model_and_no_argument_is_changed():
    source, cells, counts, test, _ = ring_problem(6, n_source=150)
    copies = source.copy(), cells.copy(), counts.copy()
    first, second = (fit(source, cells, counts, scale=1.0, noises=1, seed=7) for _ in range(2))
    assert np.array_equal(first.probability(test[:500]), second.probability(test[:500]))
    assert np.array_equal(first.source_mass, second.source_mass)
    assert first.log_evidence == second.log_evidence
    for array, copy in zip((source, cells, counts), copies, strict=True):
        assert np.array_equal(array, copy)


# Two computations of one model are equal only up to what its sweeps leave open: they end once no cell's mean moves by
# more than a fifth of its deviation, and the largest deviation of each problem below is 0.6 or more. A rounding, which
# depends on the processor's kernels, may end them one sweep apart. Masses move less than signals do.
ONE_SWEEP = 0.2 * 0.6


def test_swapping_the_labels_mirrors_the_model():
    source, cells, counts, test, _ = ring_problem(8, n_source=150)
    model = fit(source, cells, counts, scale=1.0, noises=1, seed=7)
    mirror = fit(source, cells, counts[:, ::-1], scale=1.0, noises=1, seed=7)
    assert np.abs(model.latent(test[:500])).max() > 5 * ONE_SWEEP
    assert_allclose(mirror.latent(test[:500]), -model.latent(test[:500]), atol=ONE_SWEEP)
    assert_allclose(mirror.probability(test[:500]), 1 - model.probability(test[:500]), atol=ONE_SWEEP)
    assert_allclose(mirror.source_mass, model.source_mass, rtol=ONE_SWEEP)


def test_noises_of_the_two_labels_may_differ_in_number():
    source, cells, counts, test, _ = ring_problem(8, n_source=150)
    model = fit(source, cells, counts, scale=3.0, noises=(2, 2), seed=7)
    assert np.array_equal(
        model.latent(test[:500]), fit(source, cells, counts, scale=3.0, noises=2, seed=7).latent(test[:500])
    )
    model = fit(source, cells, counts, scale=3.0, noises=(5, 1), seed=7)
    mirror = fit(source, cells, counts[:, ::-1], scale=3.0, noises=(1, 5), seed=7)
    assert_allclose(mirror.latent(test[:500]), -model.latent(test[:500]), atol=ONE_SWEEP)
    wrong = fit(source, cells, counts, scale=3.0, noises=(1, 5), seed=7)
    assert np.abs(wrong.latent(test[:500]) - model.latent(test[:500])).max() > 2 * ONE_SWEEP


def test_empty_cells_are_left_out():
    source, cells, counts, test, _ = ring_problem(9, n_source=150)
    padded = np.zeros((len(counts) * 2, 2))
    padded[1::2] = counts
    plain = fit(source, cells, counts, scale=1.0, noises=1, seed=0)
    sparse = fit(source, 2 * cells + 1, padded, scale=1.0, noises=1, seed=0)
    assert_allclose(sparse.latent(test[:500]), plain.latent(test[:500]))
    assert_allclose(sparse.source_mass, plain.source_mass)


def assert_sound(model: LabelModel, features):
    far = np.concatenate([features, 1e9 * features, np.zeros((1, features.shape[1]))])
    probability, latent = model.probability(far), model.latent(far)
    assert np.all((probability >= 0) & (probability <= 1))
    assert np.all(np.abs(latent) <= 1.5)
    assert np.all((model.source_mass >= 0) & np.isfinite(model.source_mass))
    assert np.isfinite(model.log_evidence)
    assert 1 <= model.total < np.inf


@settings(max_examples=12)
@given(data=st.data())
def test_hostile_counts_never_fail(data):
    check_hostile_counts(data)


@pytest.mark.slow
@given(data=st.data())
def test_many_hostile_counts_never_fail(data):
    check_hostile_counts(data)


def check_hostile_counts(data):
    size = data.draw(st.sampled_from([1, 2, 3, 12]))
    n = data.draw(st.integers(2, 30))
    wild = st.one_of(
        st.sampled_from([0.0, -1.0, 1.0, 1e5, -1e5, 1e15, -1e15, 2990.0, 3010.0]),
        st.floats(-1e300, 1e300, allow_subnormal=False),
        st.floats(-50, 50, allow_subnormal=False),
    )
    counts = data.draw(arrays(np.float64, (size, 2), elements=wild))
    cells = data.draw(arrays(np.int64, n, elements=st.integers(0, size - 1)))
    features = np.random.default_rng(0).normal(size=(n, 2)) * data.draw(st.sampled_from([0.0, 1.0, 1e200]))
    scale = data.draw(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 100.0, 1e9]))
    noises = data.draw(st.sampled_from([1, 4]))
    with warnings.catch_warnings(), np.errstate(divide="raise", over="raise", invalid="raise"):
        warnings.simplefilter("error")
        model = fit(features, cells, counts, scale=scale, noises=noises, seed=0)
        assert_sound(model, np.clip(features, -1e3, 1e3))


def test_identical_cells_that_contradict_one_another():
    counts = np.array([[0.0, 2990.0], [2990.0, 2990.0], [2990.0, 0.0]])
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        model = fit(np.zeros((4, 2)), np.array([0, 1, 1, 2]), counts, scale=0, noises=1, seed=0)
    assert_sound(model, np.zeros((1, 2)))


@pytest.mark.parametrize("kind", ["negative", "one label", "zeros", "twins"])
def test_degenerate_problems_of_many_cells(kind):
    rng = np.random.default_rng(0)
    features = np.zeros((300, 3)) if kind == "twins" else rng.normal(size=(300, 3))
    cells = np.arange(300) % 100
    counts = {
        "negative": np.full((100, 2), -7.0),
        "one label": np.column_stack([np.zeros(100), rng.poisson(20, 100)]),
        "zeros": np.zeros((100, 2)),
        "twins": rng.poisson(5, (100, 2)).astype(float),
    }[kind]
    model = fit(features, cells, counts, scale=1.0, noises=1, seed=0)
    assert_sound(model, features)
    if kind == "one label":
        # Of 20 records or so of a cell, none has label 0: Laplace's rule says 21 / 22, and neighbours agree.
        assert model.probability(features).min() > 0.9


@pytest.mark.slow
def test_a_thousand_cells_and_many_records():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 5))
    cells = np.arange(4000) % 1000
    counts = rng.poisson([3.0, 6.0], (1000, 2)).astype(float)
    model = fit(features, cells, counts, scale=1.0, noises=1, seed=0)
    assert_sound(model, features)
    # Of 9,000 records and 2,000 noises of variance 1.8 the share has a standard error of 0.0068: six of them.
    assert model.probability(features).mean() == pytest.approx(2 / 3, abs=DEVIATIONS * 0.0068)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_probabilities_are_calibrated_where_the_prior_is_true(epsilon):
    """Label less probability has mean 0, alone and times the probability, over 20 problems.

    A problem's errors go together, so the sums of 20 problems are compared with their own spread: Student's law of 19
    degrees, false alarm 1e-9. Of the slope of labels on probabilities the standard error is 0.025 at epsilon 0.2 and
    0.01 at 1, so slopes below 0.7 and above 1.4 are found. Where labels are taken for probabilities it is 0.58.
    """
    mean, slope, right = [], [], []
    for seed in range(20):
        source, cells, counts, test, labels = prior_problem(seed, epsilon)
        predicted = fit(source, cells, counts, scale=1 / epsilon, noises=1, seed=seed).probability(test)
        mean.append(np.mean(labels - predicted))
        slope.append(np.mean((labels - predicted) * (predicted - 0.5)))
        right.append(np.mean((predicted > 0.5) == labels))
    for errors in (mean, slope):
        assert abs(np.mean(errors)) < t(19).isf(0.25e-9) * np.std(errors, ddof=1) / np.sqrt(20)
    # A constant is right for half of the labels of drawn problems.
    assert np.mean(right) - 0.5 > t(19).isf(1e-9) * np.std(right, ddof=1) / np.sqrt(20)


# --- many records, many kernels


def test_large_cells_are_averaged_from_a_sample_of_each():
    """Means of 666 of 2,000 records: within 6 deviations (false alarm 1e-7 for 60 numbers)."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60_000, 2)) + np.arange(60_000)[:, None] % 30
    coarse, fine = np.arange(60_000) % 30, np.arange(60_000) % 3000 + 30
    averages = average_over_cells(features, (coarse, fine), draw_frequencies(2, 0), (1.0,))
    assert averages.counts[:30].tolist() == [20_000 // 30] * 30
    assert averages.counts[30:].tolist() == [16] * 3000
    assert np.abs(averages.centres[:30] - np.arange(30)[:, None]).max() < 6 / np.sqrt(20_000 // 30)
    # Squares of cosines and sines add up to one for each record, and to less for a mean.
    squares = np.sum(averages.stationary[1.0].astype(float) ** 2, axis=1)
    assert squares.max() <= 1.0 + 668 * 2.0**-23


def test_few_records_are_all_averaged():
    rng = np.random.default_rng(0)
    features, cells = rng.normal(size=(500, 2)), np.arange(500) % 7
    averages = average_over_cells(features, (cells,), draw_frequencies(2, 0), (1.0,))
    rows = stationary_features(features @ draw_frequencies(2, 0))
    for cell in range(7):
        assert_allclose(averages.centres[cell], features[cells == cell].mean(axis=0))
        # 72 additions in single precision of numbers up to 0.3, whose mean they are: at most 72 * 6e-8 * 0.3.
        assert_allclose(averages.stationary[1.0][cell], rows[cells == cell].mean(axis=0), atol=1.3e-6)


def test_a_hopeless_kernel_is_given_up_before_it_converges():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 1))
    covariance = np.exp(-0.5 * (points - points.T) ** 2) + 1e-6 * np.eye(60)
    tables = -0.5 * (SIGNAL_NODES - 0.5 * np.tanh(points)) ** 2 / 0.05
    whole = fit_sites(covariance, tables)
    assert not whole.given_up
    given_up = fit_sites(covariance, tables, start=whole.sites, least_evidence=whole.log_evidence + 100)
    assert given_up.given_up
    assert given_up.log_evidence < whole.log_evidence + 1
    kept = fit_sites(covariance, tables, start=whole.sites, least_evidence=whole.log_evidence - 1)
    assert not kept.given_up
    # Both ended where a sweep moved it by less than 0.01, and the next moves it by less.
    assert kept.log_evidence == pytest.approx(whole.log_evidence, abs=0.02)


# --- several observations


def test_a_model_of_two_cells_is_prior_times_likelihood_by_quadrature(monkeypatch):
    """Each kernel's evidence and posterior on a grid of both signals, the kernels averaged by their evidence.

    Sweeps end once the evidence moves by less than 0.01 and a mean by less than a fifth of its deviation; a step is a
    fifth of the one before. That is what is asked, besides what `test_two_cells_are_close_to_quadrature` asks.
    """
    monkeypatch.setattr(gaussian_process, "LENGTH_SCALES", (1.0,))
    monkeypatch.setattr(gaussian_process, "_AVERAGED_KERNELS", 9)
    monkeypatch.setattr(gaussian_process, "SMALLEST_WEIGHT", 0.0)
    monkeypatch.setattr(gaussian_process, "_LEAST_AMPLITUDE", 0.25)
    rng = np.random.default_rng(4)
    source, test = rng.normal(size=(6, 2)), rng.normal(size=(200, 2))
    cells = np.arange(6) % 2
    counts = np.array([[21.0, 9.0], [4.0, 28.0]])
    model, posterior = fit_with_cell_posterior(source, Observation(cells, counts, 1.0), seed=5)
    likelihood, average = posterior.table, (cells == np.arange(2)[:, None]) / np.bincount(cells)[:, None]
    evidence, signal, mass = [], [], []
    for linear in gaussian_process.LINEAR_WEIGHTS:
        for amplitude in (0.25, 1.0, 4.0):
            rows, asked = (
                np.hstack(
                    [
                        np.sqrt(amplitude) * stationary_features(each @ draw_frequencies(2, 5)),
                        np.sqrt(amplitude * linear / 2) * each,
                        np.full((len(each), 1), np.sqrt(gaussian_process.CONSTANT)),
                    ]
                )
                for each in (source, test)
            )
            centres = average @ rows
            within = average @ np.sum(rows**2, axis=1) - np.sum(centres**2, axis=1)
            covariance = centres @ centres.T + np.diag(within / np.bincount(cells) + 1e-6)
            log_evidence, mean, variance = two_cells_by_quadrature(
                covariance, at_latent_nodes(likelihood.log_likelihood)
            )
            evidence.append(log_evidence)
            signal.append(np.clip(asked @ centres.T @ np.linalg.solve(covariance, mean), -1.5, 1.5))
            density = norm.pdf(SIGNAL_NODES, np.clip(mean, -1, 1)[:, None], np.sqrt(variance)[:, None])
            mass.append(np.sum(density * at_latent_nodes(likelihood.mass), axis=1) / density.sum(axis=1))
    weight = np.exp(np.array(evidence) - max(evidence))
    assert model.total == counts.sum()
    assert model.log_evidence == pytest.approx(np.log(weight.mean()) + max(evidence), abs=0.02 + 0.01)
    found, wanted = model.latent(test), weight @ signal / weight.sum()
    assert np.abs(wanted).max() > 0.5
    assert_allclose(found, wanted, atol=0.02 + 0.04)  # the deviations are below 1
    mass = weight @ mass / weight.sum() / np.bincount(cells)
    assert_allclose(model.source_mass, mass[cells], rtol=0.02 + 0.04)


def test_partitions_add_what_each_alone_does_not_show():
    """Bins of either attribute together tell the ring's corners; a partition of four cells alone does not."""
    source, _, _, test, labels = ring_problem(4, n_source=600, epsilon=50.0)
    rng = np.random.default_rng(0)
    target, truth = test[:3000], labels[:3000]
    observations = []
    for direction in ((1, 0), (0, 1), (1, 1), (1, -1)):
        edges = np.quantile(source @ direction, np.linspace(0, 1, 13)[1:-1])
        pairs = np.zeros((12, 2))
        np.add.at(pairs, (np.searchsorted(edges, target @ direction), truth), 1)
        pairs += rng.geometric(1 - np.exp(-0.25), pairs.shape) - rng.geometric(1 - np.exp(-0.25), pairs.shape)
        observations.append(Observation(np.searchsorted(edges, source @ direction), pairs, 4.0))
    alone, model = (fit_label_model(source, chosen, seed=0) for chosen in (observations[:1], observations))
    right = [(fitted.latent(test[3000:]) > 0) == labels[3000:] for fitted in (alone, model)]
    assert surely_ahead(right[1], right[0])
    assert_sound(model, source)
    # 24 noises of variance 32 in a total, which are more than in the mean of four.
    assert model.total == pytest.approx(3000, abs=DEVIATIONS * np.sqrt(24 * 32))
    assert model.source_mass.sum() == pytest.approx(3000, abs=DEVIATIONS * np.sqrt(24 * 32))


def test_the_order_of_observations_does_not_matter():
    source, cells, counts, test, _ = ring_problem(6, n_source=150)
    halves = Observation((source[:, 0] > 0).astype(int), np.array([[90.0, 40.0], [50.0, 80.0]]), 3.0, 2)
    first = fit_label_model(source, [Observation(cells, counts, 1.0), halves], seed=1)
    second = fit_label_model(source, [halves, Observation(cells, counts, 1.0)], seed=1)
    assert_allclose(second.latent(test[:500]), first.latent(test[:500]), atol=ONE_SWEEP)
    assert_allclose(second.source_mass, first.source_mass, rtol=ONE_SWEEP)
    assert second.total == pytest.approx(first.total)


def test_a_noisy_observation_of_the_same_cells_changes_little_and_moves_the_total_little():
    source, cells, counts, test, _ = ring_problem(6, n_source=150)
    rubbish = np.rint(np.random.default_rng(0).laplace(0, 1000.0, counts.shape))
    plain = fit(source, cells, counts, scale=1.0, noises=1, seed=1)
    both = fit_label_model(source, [Observation(cells, counts, 1.0), Observation(cells, rubbish, 1000.0)], seed=1)
    # A millionth of the weight: what moves beside is what sweeps leave open, of a probability half as much.
    assert_allclose(both.probability(test), plain.probability(test), atol=0.5 * ONE_SWEEP)
    assert both.total == pytest.approx(plain.total, rel=0.01)


# --- arguments


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(4)}, "shape"),
        ({"features": np.zeros((1, 2)), "cells": np.zeros(1, int)}, "two source records"),
        ({"features": np.full((4, 2), np.nan)}, "finite"),
        ({"cells": np.zeros(3, int)}, "cells"),
        ({"cells": np.zeros(4)}, "integers"),
        ({"cells": np.array([0, 1, 2, 0])}, r"\[0, 2\)"),
        ({"counts": np.zeros((2, 3))}, "counts"),
        ({"counts": np.full((2, 2), np.inf)}, "finite"),
        ({"scale": -1.0}, "scale"),
        ({"scale": np.nan}, "scale"),
        ({"noises": 0}, "noises"),
        ({"noises": (1, 0)}, "noises"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {
        "features": np.zeros((4, 2)),
        "cells": np.array([0, 0, 1, 1]),
        "counts": np.ones((2, 2)),
        "scale": 1.0,
        "noises": 1,
        "seed": 0,
    }
    with pytest.raises(ValueError, match=message):
        fit(**(arguments | change))


def test_a_fit_needs_an_observation():
    with pytest.raises(ValueError, match="at least one observation"):
        fit_label_model(np.eye(4), [], seed=0)


def test_features_of_another_width_are_refused():
    model = fit(np.eye(4), np.array([0, 0, 1, 1]), np.ones((2, 2)), scale=1.0, noises=1, seed=0)
    with pytest.raises(ValueError, match="shape"):
        model.latent(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="finite"):
        model.probability(np.full((3, 4), np.inf))


@pytest.mark.parametrize(
    ("n_source", "n_target", "epsilon", "noises", "expected"),
    [
        (2500, 2400, 1.0, 1, 400),
        (2500, 5000, 1.0, 1, 500),
        (5000, 6000, 0.1, 4, 50),
        (500, 500, 0.01, 1, 5),
        (30, 9, 1e9, 1, 10),
        (2, 2, 1.0, 1, 1),
    ],
)
def test_cell_count_rule(n_source, n_target, epsilon, noises, expected):
    assert cell_count_rule(n_source, n_target, epsilon, noises) == expected
    assert cell_count_rule(n_source, n_target, epsilon, noises, most=4) <= 4


@pytest.mark.parametrize(
    "arguments", [(1, 9, 1.0, 1), (9, 0, 1.0, 1), (9, 9, 0.0, 1), (9, 9, 1.0, 0), (9, 9, float("nan"), 1)]
)
def test_cell_count_rule_refuses(arguments):
    with pytest.raises(ValueError, match="need"):
        cell_count_rule(*arguments)
