"""The ensemble of networks that is trained on the likelihood of the cells' answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.cluster import KMeans

from learner_node.models.label_model import Observation, fit_with_cell_posterior
from learner_node.models.label_model.cell_networks import CellNetworks, train_cell_networks
from learner_node.models.label_model.expectation_propagation import CellPosterior, NormalPosterior, NormalSites
from learner_node.models.label_model.likelihood import PROBIT, SIGNAL_NODES, SiteTable
from learner_node.strategies.cells import CellsModel
from margins import rounding_of_network, surely_above

NETWORKS = 4


def stripes(points):
    """A label that no straight line tells: bands of x0 + x1."""
    return np.sin(3.0 * (points[:, 0] + points[:, 1])) > 0


@pytest.fixture(scope="module")
def answered():
    """Source points, the posterior after exact counts of 4000 records in 60 cells, and test points."""
    rng = np.random.default_rng(5)
    source, target, test = (rng.uniform(-1.7, 1.7, (size, 2)) for size in (900, 4000, 2000))
    kmeans = KMeans(60, n_init=1, random_state=0).fit(source)
    counts = np.zeros((60, 2))
    np.add.at(counts, (kmeans.predict(target), stripes(target).astype(int)), 1)
    _, posterior = fit_with_cell_posterior(source, Observation(kmeans.labels_, counts, 0.5), seed=1)
    return source, posterior, test


@pytest.fixture(scope="module")
def trained(answered):
    source, posterior, _ = answered
    return train_cell_networks(source, posterior, seed=0)


def judged(table):
    """A cell posterior of which only the table and the cells are real; its process foretells one half everywhere."""
    size = len(table)
    nothing, flat = np.empty(0), NormalSites(np.zeros(size), np.zeros(size))
    return CellPosterior(
        cells=np.arange(4 * size, dtype=np.int64) % size,
        table=SiteTable(table, np.ones_like(table)),
        mass=np.ones(size),
        mass_variance=np.ones(size),
        log_evidence=0.0,
        kernels=((1.0, nothing, NormalPosterior(flat, np.zeros(size), np.ones(size), 0.0, nothing, nothing)),),
        dimensions=2,
    )


def test_networks_learn_from_cell_averages_alone(answered, trained):
    source, posterior, test = answered
    networks = trained
    signal = networks.signal(test)
    # More than half of what a coin leaves is made good, though no record has a label.
    assert surely_above((signal > 0) == stripes(test), 0.75)
    means = np.bincount(posterior.cells, weights=networks.signal(source)) / np.bincount(posterior.cells)
    # Odds of e^100 to one against one share for all cells.
    fitted = posterior.log_likelihood(0.5 * (1.0 + means))
    assert fitted > posterior.log_likelihood(np.full(len(means), 0.5)) + 100


@pytest.mark.slow
def test_the_ensemble_is_a_function_of_its_arguments(answered):
    source, posterior, test = answered
    first = train_cell_networks(source, posterior, seed=3).signal(test)
    assert (first == train_cell_networks(source, posterior, seed=3).signal(test)).all()
    assert (first != train_cell_networks(source, posterior, seed=4).signal(test)).any()
    assert (np.abs(first) <= 1).all()


def test_a_signal_does_not_depend_on_what_it_is_computed_with(answered, trained):
    (*_, test), networks = answered, trained
    together = networks.signal(test)
    bound = 2 * rounding_of_signal(networks, test)
    assert bound.max() < 0.01
    assert (np.abs(networks.signal(test[:1]) - together[:1]) <= bound[:1]).all()
    assert (np.abs(networks.signal(test[::-1]) - together[::-1]) <= bound[::-1]).all()


def rounding_of_signal(networks, points):
    """The hyperbolic tangent passes on no more than it gets; 1e-6 are its own roundings and those of the mean."""
    each = [
        rounding_of_network([(weights[number], bias[number]) for weights, bias in networks.layers], points)
        for number in range(len(networks.layers[0][0]))
    ]
    return np.mean(each, axis=0)[:, 0] + 1e-6


@pytest.mark.slow
def test_every_cell_is_unseen_by_one_network_of_four():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((48, 3))
    table = -5.0 * (SIGNAL_NODES - rng.uniform(-1, 1, (12, 1))) ** 2
    before = train_cell_networks(features, judged(table), seed=0)
    for cell in (0, 7, 11):
        other = table.copy()
        other[cell] = other[cell, ::-1]
        after = train_cell_networks(features, judged(other), seed=0)
        moved = np.sqrt(
            sum(
                np.sum((old.astype(float) - new).reshape(NETWORKS, -1) ** 2, axis=1)
                for one, two in zip(before.layers, after.layers, strict=True)
                for old, new in zip(one, two, strict=True)
            )
        )
        # Rounding may tell even equal trainings apart, by less than another answer does.
        assert (moved < 0.5 * np.median(moved)).sum() == 1


def test_the_signal_is_the_mean_of_the_networks_computed_by_hand():
    rng = np.random.default_rng(1)
    shapes = ((2, 3, 4), (2, 1, 4)), ((2, 4, 1), (2, 1, 1))
    layers = tuple(tuple(rng.standard_normal(shape).astype(np.float32) for shape in pair) for pair in shapes)
    point = rng.standard_normal((1, 3))
    each = []
    for number in range(2):
        hidden = [
            max(0.0, sum(point[0, i] * layers[0][0][number, i, j] for i in range(3)) + layers[0][1][number, 0, j])
            for j in range(4)
        ]
        each.append(np.tanh(sum(hidden[j] * layers[1][0][number, j, 0] for j in range(4)) + layers[1][1][number, 0, 0]))
    networks = CellNetworks(layers, 0.5)
    assert networks.signal(point) == pytest.approx([np.mean(each)], abs=rounding_of_signal(networks, point)[0])


@pytest.mark.slow
def test_torch_is_left_as_it_was(answered):
    source, posterior, _ = answered
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    train_cell_networks(source, posterior, seed=0)
    assert torch.get_num_threads() == threads
    assert (torch.random.get_rng_state() == state).all()
    assert float(torch.tensor(1e-40)) != 0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_networks_are_averaged_by_their_weight(share):
    class Certain:
        """A label model that is sure of class 0 everywhere."""

        def probability(self, points):
            return np.zeros(len(points))

    # tanh(9) is 1 to seven digits: networks that are sure of class 1.
    networks = CellNetworks(((np.zeros((2, 3, 1), np.float32), np.full((2, 1, 1), 9.0, np.float32)),), share)
    found = CellsModel(None, Certain(), networks).unshifted(np.zeros((4, 3)))
    assert found == pytest.approx(np.full(4, share), abs=1e-6)


def counted(share_of, *, records=6000, cells=40, epsilon=2.0, seed=0):
    """Source points and the posterior after noisy counts of records of which `share_of(points)` have label 1."""
    rng = np.random.default_rng(seed)
    source, target = (rng.uniform(-1.7, 1.7, (size, 2)) for size in (500, records))
    kmeans = KMeans(cells, n_init=1, random_state=0).fit(source)
    counts = np.zeros((cells, 2))
    np.add.at(counts, (kmeans.predict(target), (rng.random(records) < share_of(target)).astype(int)), 1)
    counts += np.round(rng.laplace(0, 1 / epsilon, counts.shape))
    _, posterior = fit_with_cell_posterior(source, Observation(kmeans.labels_, counts, 1 / epsilon), seed=1)
    return source, posterior


@pytest.mark.slow
@pytest.mark.family(4)
@pytest.mark.parametrize("share", [0.02, 0.08, 0.15, 0.21, 0.34, 0.8, 0.98])
def test_no_network_says_one_thing_everywhere(share):
    """At prevalences at which tanh saturated in the first steps: each varies, and says neither class for certain.

    The weak signal moves probits by a deviation of .4; a network that died says the same number at all records.
    """
    source, posterior = counted(lambda x: norm.cdf(norm.ppf(share) * 1.08 + 0.4 * x[:, 0]), seed=int(100 * share))
    networks = train_cell_networks(source, posterior, seed=0)
    for number in range(NETWORKS):
        alone = CellNetworks(tuple((w[number : number + 1], b[number : number + 1]) for w, b in networks.layers), 1.0)
        said = alone.signal(source)
        assert np.ptp(said) > 0.02
        assert np.abs(said.mean()) < 0.999


def told(process, truth, *, size=12, precision=50.0):
    """As `judged`, of cells whose answers tell the true shares, while the process foretells others."""
    table = -precision * (SIGNAL_NODES - (2.0 * truth[:, None] - 1.0)) ** 2
    latent = norm.ppf(process) / PROBIT
    flat, narrow = NormalSites(np.zeros(size), np.zeros(size)), np.full(size, 1e-8)
    kernel = NormalPosterior(flat, latent, narrow, 0.0, np.empty(0), np.empty(0))
    return replace(judged(table), kernels=((1.0, np.empty(0), kernel),))


@pytest.mark.slow
def test_networks_weigh_more_where_the_process_foretells_cells_worse():
    """Cells along a line that a network follows: a process that says one half of all, and one that says the truth."""
    rng = np.random.default_rng(0)
    features = np.sort(rng.standard_normal((48, 1)), axis=0)[np.arange(48).reshape(12, 4).T.ravel()]
    truth = np.linspace(0.1, 0.9, 12)
    blind, right = (train_cell_networks(features, told(said, truth), seed=0) for said in (np.full(12, 0.5), truth))
    assert 0.0 <= right.weight < 0.3
    assert 0.3 < blind.weight <= 1.0
