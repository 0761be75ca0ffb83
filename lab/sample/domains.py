"""What the paper's experiments draw records from: mixtures of round Gaussians in one or two dimensions.

A target is restricted to a box that holds all but a little of it, since a curator's sampler and the Bernstein mechanism
both need stated bounds: its density is 0 outside, and 1 in all inside.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from protocol.errors import ConfigurationError

Floats = NDArray[np.float64]

RING, WIDE_RING, MIXTURE, RANDOM_2D, RANDOM_1D = "ring", "wide-ring", "mixture", "random-2d", "random-1d"
MODES = 8  # of both rings
RING_RADIUS, RING_VARIANCE = 1.0, 0.01
WIDE_RADIUS, WIDE_VARIANCE = 4.0, 0.5
RANDOM_VARIANCE = 0.01
MOST_RANDOM = 10
RANDOM_2D_MODES = 5
_DEVIATIONS = 5.0
"""Between the centres and the edge of a target's box; of the mixture's wide parts, whose box is stated, 4.1."""


@dataclass(frozen=True)
class Box:
    """Bounds of each coordinate: `low` < `high`."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def dimensions(self) -> int:
        """Number of coordinates, 1 or 2."""
        return len(self.low)

    @property
    def volume(self) -> float:
        """Length or area."""
        return math.prod(high - low for low, high in zip(self.low, self.high, strict=True))

    def edges(self, cells: int) -> list[Floats]:
        """The (cells + 1,) edges of equal intervals of each coordinate."""
        return [np.linspace(low, high, cells + 1) for low, high in zip(self.low, self.high, strict=True)]

    def centres(self, cells: int) -> Floats:
        """(cells ** d, d) middles of the box's cells, the last coordinate fastest."""
        middles = [(edges[1:] + edges[:-1]) / 2 for edges in self.edges(cells)]
        return np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, self.dimensions)

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        """(n,) whether (n, d) points lie inside."""
        return np.asarray(np.all((points >= self.low) & (points <= self.high), axis=1))


@dataclass(frozen=True)
class Target:
    """A mixture of round Gaussians of equal weight, restricted to a box."""

    name: str  # key of the domain, as in `target_of`
    means: Floats  # (m, d)
    variances: Floats  # (m,) of each coordinate
    box: Box  # that of the target; the Bernstein mechanism releases a density on it
    base: Box  # where MBDE's standard Gaussian is restricted to; it contains `box`

    @property
    def inside(self) -> float:
        """The mixture's mass in the box, by which the target is scaled."""
        return float(self._masses(self.box.edges(1)).sum())

    def masses(self, cells: int, box: Box | None = None) -> Floats:
        """(cells ** d,) exact probabilities of the cells of a box, 0 outside of the target's; None takes that one."""
        where = self.box if box is None else box
        edges = [
            np.clip(sides, low, high)
            for sides, low, high in zip(where.edges(cells), self.box.low, self.box.high, strict=True)
        ]
        return np.asarray(self._masses(edges) / self.inside)

    def _masses(self, edges: list[Floats]) -> Floats:
        deviations = np.sqrt(self.variances)[:, None]
        sides = [
            np.diff(ndtr((side - self.means[:, [place]]) / deviations), axis=1) for place, side in enumerate(edges)
        ]
        shapes = "mi->i" if len(sides) == 1 else "mi,mj->ij"
        return np.asarray(np.einsum(shapes, *sides).ravel() / len(self.means))

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, d) independent records; what falls outside of the box is drawn again."""
        parts: list[Floats] = []
        missing = count
        while missing:
            chosen = rng.integers(len(self.means), size=missing)
            noise = rng.standard_normal((missing, self.box.dimensions))
            points = self.means[chosen] + np.sqrt(self.variances[chosen])[:, None] * noise
            parts.append(points[self.box.contains(points)])
            missing = count - sum(map(len, parts))
        return np.concatenate(parts)


def target_of(name: str, seed: int) -> Target:
    """A domain's target: "ring", "wide-ring", "mixture", "random-2d", or "random-1d-m" with m from 1 to 10.

    The seed is of where random Gaussians are placed, uniformly in [0, 1] in each coordinate.

    Raises ConfigurationError: there is no such domain.
    """
    if name == RING:
        return _ring(name, RING_RADIUS, RING_VARIANCE, 4.0)
    if name == WIDE_RING:
        return _ring(name, WIDE_RADIUS, WIDE_VARIANCE, 8.0)
    if name == MIXTURE:
        means, variances = np.array([[0.3], [0.5], [0.7]]), np.array([0.01, 0.1, 0.1])
        return Target(name, means, variances, Box((-1.0,), (2.0,)), _base(1, 4.0))
    if name == RANDOM_2D:
        return _random(name, RANDOM_2D_MODES, 2, seed)
    head, _, modes = name.rpartition("-")
    if head == RANDOM_1D and modes.isdecimal() and 1 <= int(modes) <= MOST_RANDOM:
        return _random(name, int(modes), 1, seed)
    raise ConfigurationError(
        f"there is no domain {name!r}; there are {RING}, {WIDE_RING}, {MIXTURE}, {RANDOM_2D} and {RANDOM_1D}-1 to "
        f"{RANDOM_1D}-{MOST_RANDOM}"
    )


def _base(dimensions: int, reach: float) -> Box:
    return Box((-reach,) * dimensions, (reach,) * dimensions)


def _ring(name: str, radius: float, variance: float, reach: float) -> Target:
    angles = 2 * math.pi * np.arange(MODES) / MODES
    means = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    side = radius + _DEVIATIONS * math.sqrt(variance)
    return Target(name, means, np.full(MODES, variance), _base(2, side), _base(2, reach))


def _random(name: str, modes: int, dimensions: int, seed: int) -> Target:
    means = np.random.default_rng([seed, modes, dimensions]).uniform(size=(modes, dimensions))
    side = _DEVIATIONS * math.sqrt(RANDOM_VARIANCE)
    box = Box((-side,) * dimensions, (1 + side,) * dimensions)
    return Target(name, means, np.full(modes, RANDOM_VARIANCE), box, _base(dimensions, 4.0))
