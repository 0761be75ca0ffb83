"""One cell of the study: a method's density for one domain, epsilon and repeat, and what is measured of it."""

import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from lab.cells import TaskCell
from lab.peers.environment import rows_in_environment
from lab.peers.task import PeerTask
from lab.sample import methods
from lab.sample.domains import Box, Target, target_of
from lab.sample.methods import Lattice
from lab.sample.theory import Theory, check_theory, coverage, negative_log_likelihood
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

Floats = NDArray[np.float64]

MBDE, ONE_BATCH, DPB, DPGAN = "mbde", "mbde-one-batch", "dpb", "dpgan"
REPEATS = 4  # as in the paper
RECORDS = 10_000  # of the target, for every method
CELLS = {1: 800, 2: 160}  # of each coordinate, by dimensions
MAP_CELLS = 64  # of each coordinate of a density that is kept for a figure
LATTICES = {1: (20, 40, 80), 2: (10, 20, 30)}  # degrees, by dimensions. The paper gives none.
USUAL = {1: Lattice(40), 2: Lattice(20)}
"""As plain as the paper has it: the operator once, shifted; in the middle of the degrees."""
ORDERS = (1, 3)
GAN_DELTA = 0.1  # as in the paper: far too large for a guarantee
GAN_POINTS = 10_000
GAN_SETTINGS = "2,000 steps of the critic, batches of 128, delta 0.1"


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A density that a method offers, and its measures."""

    name: str  # what tells it from the method's others; "" where it is the only one
    nll: float  # -E_P[log Q] in nats
    coverage: float  # P's mass of the densest region that holds 0.95 of Q
    printed: float  # P's mass of the least dense one, as the formula is printed


class Picture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A density of two dimensions over the target's box, coarse."""

    peak: float  # the largest density shown
    shades: bytes  # deflated, one byte a cell: the density in 255ths of the peak, the last coordinate fastest

    @classmethod
    def of(cls, masses: Floats, box: Box) -> "Picture":
        """The picture of (n * n,) probabilities of a box's cells; n and `MAP_CELLS` are multiples of one another."""
        side = round(len(masses) ** 0.5)
        cells = masses.reshape(side, side)
        coarse = _rebinned(cells, MAP_CELLS) * (MAP_CELLS**2 / box.volume)
        peak = float(coarse.max())
        return cls(peak, zlib.compress(np.rint(coarse / peak * 255).astype(np.uint8).tobytes(), 9))

    @property
    def share(self) -> Floats:
        """(MAP_CELLS, MAP_CELLS) densities as shares of the peak; the first coordinate is the row."""
        return np.asarray(np.frombuffer(zlib.decompress(self.shades), np.uint8).reshape(MAP_CELLS, -1) / 255)


class Sampled(TaskCell, frozen=True):
    """One cell.

    Epsilon is of one sampled record and integral with MBDE, of the whole density with DPB, of the whole training, with
    delta, with DPGAN. The seed is of the target's places, the records and the method's own choices and, as this is a
    simulation, noise.
    """

    problem: str = msgspec.field(name="domain")
    maker: str = msgspec.field(name="method")
    variants: tuple[Variant, ...]  # at least one
    entropy: float  # of the target, -E_P[log P]: the least negative log-likelihood
    base: float  # negative log-likelihood of Q_0
    theory: Theory | None = None  # of MBDE alone
    picture: Picture | None = None  # of the first variant, in two dimensions
    seconds: float = 0.0
    settings: str = ""  # of the method, in words: what was chosen by the records, and how much was trained


def compute_cell(task: Task) -> Sampled:
    """One cell. Raises ConfigurationError: no such domain; PeerUnavailableError: DPGAN's environment is not there."""
    target = target_of(task.problem, task.seed)
    box, cells = target.box, CELLS[target.box.dimensions]
    records = records_of(task.problem, task.seed)
    output = _METHODS[task.maker](target, records, task)
    masses = target.masses(cells)
    on_base = target.masses(cells, target.base)
    return Sampled(
        *task,
        output.variants,
        entropy=negative_log_likelihood(masses, masses, box.volume / len(masses)),
        base=negative_log_likelihood(
            on_base, methods.base_masses(target.base, cells), target.base.volume / len(masses)
        ),
        theory=output.theory,
        picture=output.picture,
        settings=output.settings,
    )


@lru_cache(maxsize=1)
def records_of(domain: str, seed: int) -> Floats:
    """(n, d) records of a repeat, the same for every method and epsilon."""
    return target_of(domain, seed).draw(RECORDS, np.random.default_rng([seed, zlib.crc32(domain.encode())]))


class _Output(msgspec.Struct):
    variants: tuple[Variant, ...]
    settings: str
    theory: Theory | None = None
    picture: Picture | None = None


def _variant(name: str, target: Target, box: Box, model: Floats) -> Variant:
    """Measure (n,) probabilities of the cells of a box."""
    cells = round(len(model) ** (1 / box.dimensions))
    masses = target.masses(cells, box)
    covered = coverage(masses, model)
    likelihood = negative_log_likelihood(masses, model, box.volume / len(model))
    return Variant(name, likelihood, covered.dense, covered.printed)


def _rng(task: Task) -> np.random.Generator:
    """The generator of a method's choices and noise; no two cells share it."""
    return np.random.default_rng([task.seed, zlib.crc32(f"{task.problem} {task.maker} {task.epsilon}".encode())])


def _mbde(target: Target, records: Floats, task: Task) -> _Output:
    dimensions = target.base.dimensions
    cells = CELLS[dimensions]
    training = methods.ONE_BATCH if task.maker == ONE_BATCH else methods.TRAINING[dimensions]
    learnt = methods.learn(target.base, cells, records, parse_rational(task.epsilon), task.seed, training)
    masses = target.masses(cells, target.base)
    theory = check_theory(masses, methods.base_masses(target.base, cells), learnt.classifiers, learnt.thetas)
    return _Output(
        (_variant("", target, target.base, learnt.masses),),
        learnt.settings,
        theory,
        _on_target(target, learnt.masses) if dimensions == 2 else None,
    )


def _on_target(target: Target, masses: Floats) -> Picture:
    """The part of a density on the base's box that the target's box shows."""
    side = round(len(masses) ** 0.5)
    density = masses.reshape(side, side) * (len(masses) / target.base.volume)
    at = np.floor(
        (target.box.centres(MAP_CELLS) - target.base.low)
        / (np.array(target.base.high) - np.array(target.base.low))
        * side
    ).astype(np.int64)
    visible = density[at[:, 0], at[:, 1]] * target.box.volume / MAP_CELLS**2
    return Picture.of(visible, target.box)


@lru_cache(maxsize=1)
def _bandwidth(domain: str, seed: int) -> float:
    """The bandwidth by cross-validation on the records of a repeat, equal at every epsilon."""
    return methods.choose_bandwidth(_unit(target_of(domain, seed), records_of(domain, seed)))


def _unit(target: Target, records: Floats) -> Floats:
    """Records in the unit cube, by the bounds of the target's box."""
    low, high = np.array(target.box.low), np.array(target.box.high)
    return np.asarray((records - low) / (high - low))


def lattices(dimensions: int) -> Iterator[Lattice]:
    """The lattices that are tried, the usual one first."""
    usual = USUAL[dimensions]
    yield usual
    for k in LATTICES[dimensions]:
        for order in ORDERS:
            for cut in (False, True):
                if (lattice := Lattice(k, order, cut)) != usual:
                    yield lattice


def _dpb(target: Target, records: Floats, task: Task) -> _Output:
    dimensions = target.box.dimensions
    cells, epsilon = CELLS[dimensions], float(parse_rational(task.epsilon))
    bandwidth = _bandwidth(task.problem, task.seed)
    rng, unit = _rng(task), _unit(target, records)
    variants, picture = [], None
    for lattice in lattices(dimensions):
        model = methods.release(unit, bandwidth, lattice, epsilon, cells, rng)
        variants.append(_variant(str(lattice), target, target.box, model))
        if picture is None and dimensions == 2:
            picture = Picture.of(model, target.box)
    return _Output(tuple(variants), f"bandwidth {bandwidth:.4f} of the box's side", None, picture)


def _dpgan(target: Target, records: Floats, task: Task) -> _Output:
    """The density of a generator is not known: a kernel estimate of its points stands for it."""
    cells = CELLS[target.box.dimensions]
    points = gan_points(target.box, records, float(parse_rational(task.epsilon)), task.seed)
    unit = _unit(target, np.clip(points, target.box.low, target.box.high))
    bandwidth = methods.choose_bandwidth(unit)
    places = np.minimum((unit * cells).astype(np.int64), cells - 1)
    counts = np.zeros((cells,) * target.box.dimensions)
    np.add.at(counts, tuple(places.T), 1.0)
    density = gaussian_filter(counts, bandwidth * cells, mode="nearest").ravel()
    model = methods.as_probabilities(density / density.mean(), cut=True)
    picture = Picture.of(model, target.box) if target.box.dimensions == 2 else None
    return _Output((_variant("", target, target.box, model),), GAN_SETTINGS, None, picture)


def gan_points(box: Box, records: Floats, epsilon: float, seed: int) -> Floats:
    """(GAN_POINTS, d) points of a generator trained on (n, d) records in the box, in the peers' environment.

    Raises PeerUnavailableError: there is no peers' environment, or it lacks Opacus; PeerFailedError: training failed.
    """
    low, high = np.array(box.low), np.array(box.high)
    task = PeerTask(
        peer="dpgan",
        epsilon=epsilon,
        delta=GAN_DELTA,
        seed=seed,
        train=records,
        labels=np.zeros(len(records), np.int64),
        test=np.tile(low, (GAN_POINTS, 1)),
        lower=low,
        upper=high,
        source=low[None, :],
        columns=tuple(f"x{place}" for place in range(box.dimensions)),
    )
    return rows_in_environment("gans", task)


def _rebinned(cells: Floats, count: int) -> Floats:
    """(count, count) sums of (n, n) probabilities: each cell's is shared out by where its middle parts lie."""
    side = len(cells)
    fine = int(np.lcm(side, count))
    spread = np.kron(cells, np.full((fine // side,) * 2, (side / fine) ** 2)) if fine != side else cells
    return np.asarray(spread.reshape(count, fine // count, count, fine // count).sum(axis=(1, 3)))


_METHODS: dict[str, Callable[[Target, Floats, Task], _Output]] = {
    MBDE: _mbde,
    ONE_BATCH: _mbde,
    DPB: _dpb,
    DPGAN: _dpgan,
}
