"""Networks: training against torch's own differentiation and optimiser; the ensemble that fits the cells' answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit, rel_entr
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from learner_node.models import network_training
from learner_node.models.label_model import Observation, cell_networks, fit_with_cell_posterior
from learner_node.models.label_model.cell_networks import CellNetworks, train_cell_networks
from learner_node.models.label_model.expectation_propagation import CellPosterior, NormalPosterior, NormalSites
from learner_node.models.label_model.likelihood import PROBIT, SIGNAL_NODES, SiteTable
from learner_node.models.networks import (
    WEIGHT_LIMIT,
    TrainedNetwork,
    TrainingOptions,
    TrainingSet,
    train_network,
    train_networks,
)
from learner_node.strategies.cells import CellsModel
from margins import rounding_of_network, surely_above, surely_ahead


def rings(n, seed):
    """Two classes that no line separates."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, (np.sum(X**2, axis=1) < 0.5).astype(float)


def torch_twin(network):
    modules = []
    for W, b in network.layers:
        linear = torch.nn.Linear(W.shape[1], W.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(W))
            linear.bias.copy_(torch.tensor(b))
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def first_network(inputs, hidden, generator):
    """The network before the first step."""
    layers = []
    for columns, rows in zip((inputs, *hidden), (*hidden, 1), strict=True):
        W, b = torch.empty(rows, columns), torch.empty(rows)
        network_training._draw(W, b, generator)
        layers.append((W.numpy(), b.numpy()))
    return TrainedNetwork(tuple(layers))


def same(first, second):
    pairs = zip(first.layers, second.layers, strict=True)
    return all(np.array_equal(W, V) and np.array_equal(b, c) for (W, b), (V, c) in pairs)


def flat(network):
    return np.concatenate([array.ravel() for layer in network.layers for array in layer]).astype(float)


def apart(first, second):
    """How far two networks are apart, in all weights together."""
    return np.linalg.norm(flat(first) - flat(second))


# AdamW moves a weight by the rate a step, whatever the size of its gradient. Rounding decides only where a gradient is
# below a millionth of its terms, as in one of some 100,000 steps of a weight; elsewhere it moves a millionth of a step.
# Another batch, rate or order changes all weights by a share of the way, and no decay, where 0.1 is asked, by 3 %.
SMALL_PART = 0.01


def way(network, rate, steps):
    """About how far so many steps carry all weights of a network."""
    return rate * steps * np.sqrt(len(flat(network)))


@pytest.fixture(scope="module")
def ring_network():
    X, y = rings(2000, seed=0)
    return train_network(X, y, hidden=(32, 32), seed=1)


def test_learns_a_nonlinear_problem(ring_network):
    X, y = rings(2000, seed=5)
    line = LogisticRegression().fit(*rings(2000, seed=0))
    assert surely_ahead((ring_network.logits(X) > 0) == y, line.predict(X) == y)
    assert surely_above((ring_network.logits(X) > 0) == y, 0.95)  # all can be right


def test_layers_have_the_stated_shapes_and_types(ring_network):
    assert [W.shape for W, _ in ring_network.layers] == [(32, 2), (32, 32), (1, 32)]
    assert [b.shape for _, b in ring_network.layers] == [(32,), (32,), (1,)]
    assert all(array.dtype == np.float32 for layer in ring_network.layers for array in layer)


def test_numpy_evaluation_equals_torch():
    X, y = rings(100, seed=2)
    network = train_network(X, y, hidden=(8, 5), epochs=2, seed=3)
    with torch.no_grad():
        expected = torch_twin(network)(torch.tensor(X, dtype=torch.float32))[:, 0].numpy()
    assert network.logits(X).dtype == np.float32
    bound = 2 * rounding_of_network([(W.T, b) for W, b in network.layers], X)[:, 0]
    assert bound.max() < 1e-4
    assert (np.abs(network.logits(X) - expected) <= bound).all()


@pytest.mark.parametrize("hidden", [(), (7,), (6, 4, 3)])
def test_training_equals_autograd_and_torch_adamw(hidden):
    """The same first weights, batches and rates through torch's own machinery."""
    rng = np.random.default_rng(4)
    X, y, w = rng.normal(size=(50, 3)), rng.uniform(size=50), rng.gamma(1, 1, 50)
    epochs, batch_size, rate, decay = 5, 20, 3e-3, 0.1
    options = {"epochs": epochs, "batch_size": batch_size, "learning_rate": rate, "weight_decay": decay}
    mine = train_network(X, y, hidden=hidden, weights=w, seed=9, **options)
    generator = torch.Generator().manual_seed(9)
    twin = torch_twin(first_network(3, hidden, generator))
    optimiser = torch.optim.AdamW(twin.parameters(), lr=rate, weight_decay=decay)
    tensors = [torch.tensor(a, dtype=torch.float32) for a in (X, y, w / w.mean())]
    sizes, step = [16, 17, 17], 0
    for _ in range(epochs):
        order = torch.randperm(50, generator=generator)
        for rows in order.split(sizes):
            Xb, yb, wb = (tensor[rows] for tensor in tensors)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(twin(Xb)[:, 0], yb, weight=wb)
            optimiser.zero_grad()
            loss.backward()
            optimiser.param_groups[0]["lr"] = rate * max(0.02, 1 - step / (epochs * 3))
            optimiser.step()
            step += 1
    linears = [module for module in twin if isinstance(module, torch.nn.Linear)]
    theirs = TrainedNetwork(tuple((one.weight.detach().numpy(), one.bias.detach().numpy()) for one in linears))
    assert apart(mine, theirs) < SMALL_PART * way(mine, rate, step)


def mixed_sets():
    """Seven sets of three shapes, with soft labels, and weights in some."""
    rng = np.random.default_rng(8)
    shapes = [(90, 3), (60, 3), (90, 3), (90, 5), (90, 3), (60, 3), (90, 3)]
    return [
        TrainingSet(rng.normal(size=(n, d)), rng.uniform(size=n), rng.gamma(1, 1, n) if seed % 2 else None, seed)
        for seed, (n, d) in enumerate(shapes)
    ]


def alone(training_set, options):
    names = ("hidden", "epochs", "batch_size", "learning_rate", "weight_decay")
    fields = {name: getattr(options, name) for name in names}
    return train_network(training_set.X, training_set.y, weights=training_set.weights, seed=training_set.seed, **fields)


@pytest.mark.parametrize("hidden", [(), (7,), (16, 1, 16), (32, 32)])
def test_networks_trained_together_equal_those_trained_alone(hidden):
    """Mixed shapes, in the order of the sets; matrix libraries may round slices of a batch differently."""
    options = TrainingOptions(hidden, epochs=3, batch_size=25, learning_rate=3e-3)
    sets = mixed_sets()
    for training_set, network in zip(sets, train_networks(sets, options), strict=True):
        steps = options.epochs * -(-len(training_set.y) // options.batch_size)
        assert apart(network, alone(training_set, options)) < SMALL_PART * way(network, options.learning_rate, steps)


def test_whole_trainings_together_and_alone_predict_the_same():
    """A training enlarges a rounding, but what is left is far from what another seed makes of the same records."""
    options = TrainingOptions((32, 32), epochs=40, batch_size=64, learning_rate=3e-3)
    X, y = rings(400, seed=3)
    sets = [TrainingSet(X, y, None, seed) for seed in range(4)]
    together = [network.logits(X) for network in train_networks(sets, options)]
    for place, training_set in enumerate(sets):
        off = np.linalg.norm(together[place] - alone(training_set, options).logits(X))
        assert off < 0.1 * min(
            np.linalg.norm(together[place] - other) for other in together[:place] + together[place + 1 :]
        )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_neither_group_size_nor_companions_nor_order_matter(size, monkeypatch):
    options = TrainingOptions((8, 4), epochs=3, batch_size=25, learning_rate=3e-3)
    sets = mixed_sets()
    expected = train_networks(sets, options)
    monkeypatch.setattr(network_training, "group_size", lambda *_: size)
    together = train_networks(sets, options)
    backwards = train_networks(sets[:2:-1], options)[::-1]
    for first, second in [*zip(expected, together, strict=True), *zip(expected[3:], backwards, strict=True)]:
        assert apart(first, second) < SMALL_PART * way(first, 3e-3, 3 * 3)


def test_no_sets_give_no_networks():
    assert train_networks([], TrainingOptions((4,))) == []


def test_groups_fit_the_cache_and_the_memory():
    small, large = TrainingOptions((32, 32), batch_size=64), TrainingOptions((16, 256, 256, 16), batch_size=64)
    assert network_training.group_size(5000, 25, small) >= 16
    assert 2 <= network_training.group_size(2500, 22, large) <= 4
    assert network_training.group_size(10**6, 25, small) == 1
    assert network_training.group_size(10, 25, TrainingOptions((4096, 4096))) == 1


def test_a_bad_set_is_named_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(network_training, "NetworkGroup", None)
    sets = mixed_sets()
    sets[4] = TrainingSet(sets[4].X, sets[4].y + 1, None, 0)
    with pytest.raises(ValueError, match="set 4: y must lie between"):
        train_networks(sets, TrainingOptions((4,)))


def test_soft_labels_recover_calibrated_probabilities():
    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, (4000, 1))
    truth = 0.1 + 0.8 / (1 + np.exp(-4 * X[:, 0]))
    network = train_network(X, truth, hidden=(32,), seed=0)
    probabilities = expit(network.logits(X).astype(float))
    # Of the relative entropy that one probability for all would leave, less than a hundredth is left.
    left, all_of_it = (
        np.mean(rel_entr(truth, said) + rel_entr(1 - truth, 1 - said)) for said in (probabilities, truth.mean())
    )
    assert left < 0.01 * all_of_it


def test_weights_act_like_duplicated_records():
    rng = np.random.default_rng(7)
    X, y, copies = rng.normal(size=(40, 2)), rng.integers(0, 2, 40).astype(float), rng.integers(0, 4, 40)
    options = {"hidden": (8,), "epochs": 30, "batch_size": 1000, "learning_rate": 1e-3, "seed": 2}
    weighted = train_network(X, y, weights=copies, **options)
    duplicated = train_network(np.repeat(X, copies, axis=0), np.repeat(y, copies), **options)
    unweighted = train_network(X, y, **options)
    assert apart(weighted, duplicated) < SMALL_PART * apart(weighted, unweighted)


def test_scale_of_the_weights_does_not_matter():
    X, y = rings(60, seed=1)
    w = np.linspace(0, 1, 60)
    first = train_network(X, y, hidden=(4,), weights=w, epochs=2, seed=0)
    assert same(first, train_network(X, y, hidden=(4,), weights=1024 * w, epochs=2, seed=0))


def test_equal_seeds_give_equal_networks_and_others_do_not():
    X, y = rings(200, seed=3)
    first, again, other = (train_network(X, y, hidden=(8,), epochs=3, seed=seed) for seed in (4, 4, 5))
    assert same(first, again)
    assert not same(first, other)


def test_global_generator_and_thread_count_are_untouched():
    X, y = rings(50, seed=3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    train_network(X, y, hidden=(4,), epochs=2, seed=0)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("flush", [True, False])
def test_denormal_numbers_are_treated_as_before(flush):
    X, y = rings(50, seed=3)
    if not torch.set_flush_denormal(flush):
        pytest.skip("this processor cannot flush denormal numbers")
    train_network(X, y, hidden=(4,), epochs=1, seed=0)
    try:
        assert (float(torch.tensor(1e-40)) == 0) == flush
    finally:
        torch.set_flush_denormal(False)


def test_thread_count_is_restored_after_an_error(monkeypatch):
    def fail(*_):
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    threads = torch.get_num_threads()
    X, y = rings(50, seed=3)
    monkeypatch.setattr(network_training.NetworkGroup, "train", fail)
    with pytest.raises(KeyboardInterrupt):
        train_network(X, y, hidden=(4,), seed=0)
    assert torch.get_num_threads() == threads


def test_parameters_stay_inside_the_limit_of_the_curators():
    X, y = rings(100, seed=3)
    network = train_network(X, y, hidden=(4,), epochs=20, learning_rate=30.0, seed=0)
    largest = max(np.abs(array).max() for layer in network.layers for array in layer)
    assert largest == WEIGHT_LIMIT == 64


def test_inputs_are_left_alone():
    X, y = (array.astype(np.float32) for array in rings(30, seed=3))
    copies = X.copy(), y.copy()
    train_network(X, y, hidden=(4,), epochs=1, seed=0)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(y, copies[1])


ERRORS = {
    "X must have shape": {"X": np.zeros(10)},
    "n, d >= 1": {"X": np.zeros((10, 0))},
    "X must be finite": {"X": np.full((10, 2), np.nan)},
    "finite in single precision": {"X": np.full((10, 2), 1e300)},
    "y must have shape": {"y": np.zeros((10, 1))},
    "y must be finite": {"y": np.full(10, np.nan)},
    "y must lie between": {"y": np.full(10, 1.5)},
    "weights must have shape": {"weights": np.ones(3)},
    "weights must be finite": {"weights": np.full(10, np.inf)},
    "weights must not be negative": {"weights": -np.ones(10)},
    "nor all 0": {"weights": np.zeros(10)},
    "at least one unit": {"hidden": (4, 0)},
    "epochs and batch_size": {"epochs": 0},
    "must be at least 1, got": {"batch_size": 0},
    "learning_rate must be finite": {"learning_rate": 0.0},
    "weight_decay must be finite": {"weight_decay": -1.0},
}


@pytest.mark.parametrize("message", ERRORS)
def test_bad_arguments_are_refused(message):
    arguments = {"X": np.zeros((10, 2)), "y": np.zeros(10), "hidden": (4,), "seed": 0} | ERRORS[message]
    X, y = arguments.pop("X"), arguments.pop("y")
    with pytest.raises(ValueError, match=message):
        train_network(X, y, **arguments)


@pytest.mark.parametrize("shape", [(3,), (3, 5)])
def test_evaluation_refuses_other_shapes(shape, ring_network):
    with pytest.raises(ValueError, match="X must have shape"):
        ring_network.logits(np.zeros(shape))


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


def test_a_step_of_the_ensemble_is_that_of_automatic_differentiation():
    """Gradients of random networks; those of a cell a network is not trained on are 0."""
    rng = np.random.default_rng(2)
    table = -5.0 * (SIGNAL_NODES - rng.uniform(-1, 1, (6, 1))) ** 2
    training = np.arange(NETWORKS)[:, None] != np.arange(6) % NETWORKS
    inputs, table = rng.standard_normal((18, 3)).astype(np.float32), table.astype(np.float32)
    initial = cell_networks._initial(3, np.linspace(-0.5, 0.5, NETWORKS), rng)
    flat, shapes = np.concatenate([values.ravel() for values in initial]), [values.shape for values in initial]
    layers, gradients = (cell_networks._views(vector, shapes) for vector in (flat, np.empty_like(flat)))
    loss = cell_networks._backward(layers, inputs.reshape(6, 3, 3), table, training, gradients)
    tensors = [[torch.tensor(values, requires_grad=True) for values in pair] for pair in layers]
    values = torch.tensor(inputs).expand(NETWORKS, -1, -1)
    for index, (weight, bias) in enumerate(tensors):
        values = torch.baddbmm(bias, values, weight)
        values = torch.relu(values) if index < len(tensors) - 1 else torch.tanh(values)
    position = (values.view(NETWORKS, 6, 3).mean(dim=2) + 1.0) * (0.5 * (len(SIGNAL_NODES) - 1))
    node, rows = position.detach().long(), torch.arange(6)
    lower, upper = (torch.tensor(table)[rows, node + step] for step in (0, 1))
    fraction = position - node
    theirs = -((lower * (1 - fraction) + upper * fraction) * torch.tensor(training)).sum() / 6
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-5)
    for pair, mine in zip(tensors, gradients, strict=True):
        for tensor, gradient in zip(pair, mine, strict=True):
            wanted = tensor.grad.numpy()
            assert np.abs(gradient - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_the_ensembles_optimiser_is_that_of_torch_in_one_cycle():
    """The same gradients at each of the 120 steps; the last rates are a ten-thousandth of the first."""
    rng = np.random.default_rng(3)
    mine = rng.standard_normal(40).astype(np.float32)
    parameter = torch.tensor(mine, requires_grad=True)
    optimiser, theirs = cell_networks._AdamW(mine), torch.optim.AdamW([parameter], lr=2e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(theirs, 2e-2, total_steps=120, pct_start=0.1)
    start = mine.copy()
    for _ in range(120):
        gradient = rng.standard_normal(40).astype(np.float32)
        optimiser.step(gradient)
        parameter.grad = torch.tensor(gradient)
        theirs.step()
        schedule.step()
        assert np.abs(mine - parameter.detach().numpy()).max() < 1e-4 * np.abs(mine - start).max()


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
