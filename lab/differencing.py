"""What differences of counts tell of one person, from services that suppress and round, and from noisy answers.

An attacker knows a person's exact day of birth and that the person's record is counted. The attacker wants one bit of
it, as likely yes as no, and asks how many records have the bit in ranges of days that end just before or just after the
person's. docs/explanation/differencing.md tells the story; this module plays it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.scores.values import wilson

Floats = NDArray[np.float64]
RECORDS = 2_000
LEAST = 10
"""What the two services do not show, and to what the second rounds."""
STARTS = 40
"""Starts of ranges in the attack by many differences; each asks two counts."""
STRICT = 3.5


@dataclass(frozen=True)
class Suppressing:
    """Shows no count below ten, and rounds to a multiple of `step`."""

    name: str
    step: int = 1
    bound: float | None = None  # largest share of right guesses that is proven possible; None without a proof

    def answers(self, counts: NDArray[np.int64], questions: int, generator: np.random.Generator) -> Floats:  # noqa: ARG002 - as `Noisy` has it
        """Counts, rounded half up; NaN where suppressed."""
        rounded = np.floor(counts / self.step + 0.5) * self.step
        return np.where(counts < LEAST, np.nan, rounded)


@dataclass(frozen=True)
class Noisy:
    """Adds discrete Laplace noise; all questions of one attack share epsilon. A question asked again costs nothing.

    An answer is sticky: the same question gets the same answer.
    """

    epsilon: float

    @property
    def name(self) -> str:
        """What a reader knows."""
        return f"noisy answers, epsilon {self.epsilon:g}"

    @property
    def bound(self) -> float:
        """e^epsilon / (1 + e^epsilon): no attack on answers of cost epsilon guesses a fair bit more often."""
        return exp(self.epsilon) / (1 + exp(self.epsilon))

    def answers(self, counts: NDArray[np.int64], questions: int, generator: np.random.Generator) -> Floats:
        """Counts and noise, of which `questions` share epsilon."""
        return counts + NoiseLaw(questions / self.epsilon).simulate(generator, counts.shape)


Service = Suppressing | Noisy


@dataclass(frozen=True)
class Target:
    """One person's place in the sorted records, and the bit."""

    bits: NDArray[np.int64]  # (n,), of all records, sorted by day of birth
    place: int

    @property
    def bit(self) -> int:
        """What the attacker wants."""
        return int(self.bits[self.place])

    def pairs(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact counts of the bit from each start up to the person, without and with: (starts, 2)."""
        below = np.concatenate([[0], np.cumsum(self.bits)])
        return np.stack([below[self.place] - below[starts], below[self.place + 1] - below[starts]], axis=1)


Attack = Callable[[Service, Target, np.random.Generator], int]


def _guess(evidence: float, threshold: float, generator: np.random.Generator) -> int:
    """Yes above the threshold, no below, a coin where nothing was shown or at the threshold itself."""
    if np.isnan(evidence) or evidence == threshold:
        return int(generator.integers(2))
    return int(evidence > threshold)


def person_alone(service: Service, target: Target, generator: np.random.Generator) -> int:
    """Ask for the count of the person's day alone: one question."""
    answer = service.answers(np.array([target.bit]), 1, generator)[0]
    return _guess(float(answer), 0.5, generator)


def single_difference(service: Service, target: Target, generator: np.random.Generator) -> int:
    """Subtract two counts, with and without the person: two questions."""
    before, after = service.answers(target.pairs(np.array([0])), 2, generator)[0]
    return _guess(float(after - before), 0.5, generator)


def many_differences(service: Service, target: Target, generator: np.random.Generator) -> int:
    """Subtract pairs of counts from many starts. One step of a rounded count betrays the person."""
    starts = np.arange(min(STARTS, target.place))
    answers = service.answers(target.pairs(starts), 2 * len(starts), generator)
    differences = answers[:, 1] - answers[:, 0]
    answered = differences[~np.isnan(differences)]
    if not len(answered):
        return int(generator.integers(2))
    # of exact or rounded counts no difference means no; of noisy ones the mean is nearer to 0 or to 1
    threshold = 0.5 if isinstance(service, Noisy) else 1e-9
    return _guess(float(answered.mean()), threshold, generator)


def same_question(service: Service, target: Target, generator: np.random.Generator) -> int:
    """Ask the same difference 40 times and average: sticky answers do not differ, so it is one difference."""
    answers = np.repeat(service.answers(target.pairs(np.array([0])), 2, generator), STARTS, axis=0)
    return _guess(float((answers[:, 1] - answers[:, 0]).mean()), 0.5, generator)


ATTACKS: dict[str, Attack] = {
    "the person alone": person_alone,
    "one difference": single_difference,
    f"{STARTS} differences": many_differences,
    f"one difference, asked {STARTS} times": same_question,
}
SERVICES: tuple[Service, ...] = (
    Suppressing("suppressed below 10"),
    Suppressing("suppressed below 10, rounded to 10", LEAST),
    Noisy(3.0),
    Noisy(1.0),
    Noisy(0.1),
)


@dataclass(frozen=True)
class Outcome:
    """How often one attack on one service was right."""

    service: str
    attack: str
    right: float
    low: float  # 95 %, Wilson's
    high: float
    bound: float | None
    strict_low: float  # the lower end at 99.95 %: the best attack is right as often as the bound says

    @property
    def within(self) -> bool:
        """Whether what was measured does not contradict the bound."""
        return self.bound is None or self.strict_low <= self.bound


def play(targets: int, seed: int) -> list[Outcome]:
    """Every attack on every service, on as many persons. The world is drawn anew for each."""
    outcomes = []
    for service in SERVICES:
        for name, attack in ATTACKS.items():
            generator = np.random.default_rng(seed)
            hits = 0
            for _ in range(targets):
                target = Target(generator.integers(0, 2, RECORDS), int(generator.integers(RECORDS // 2, RECORDS)))
                hits += attack(service, target, generator) == target.bit
            right = hits / targets
            low, high = wilson(right, targets)
            strict_low = wilson(right, targets, STRICT)[0]
            outcomes.append(Outcome(service.name, name, right, low, high, service.bound, strict_low))
    return outcomes


def chart(outcomes: Sequence[Outcome]) -> str:
    """An SVG: each attack's share of right guesses with its interval, by service, and the bound as a line."""
    left, top, step, width = 330, 46, 20, 360
    rows = []
    y = top
    colours = ("#3b6ea8", "#b5651d", "#4f8a4f", "#8a4f7d")

    def x(share: float) -> float:
        return left + (share - 0.4) / 0.6 * width

    for service in dict.fromkeys(outcome.service for outcome in outcomes):
        rows.append(f'<text x="8" y="{y + 4}" font-weight="bold">{service}</text>')
        y += step
        group = [outcome for outcome in outcomes if outcome.service == service]
        bottom = y + step * (len(group) - 1) + 8
        if group[0].bound is not None:
            at = x(group[0].bound)
            rows.append(f'<path d="M{at:.1f} {y - 10}V{bottom}" stroke="#a00" stroke-width="2"/>')
        for colour, outcome in zip(colours, group, strict=True):
            rows.append(f'<text x="24" y="{y + 4}">{outcome.attack}</text>')
            rows.append(f'<path d="M{x(outcome.low):.1f} {y}H{x(outcome.high):.1f}" stroke="{colour}"/>')
            rows.append(f'<circle cx="{x(outcome.right):.1f}" cy="{y}" r="4" fill="{colour}"/>')
            y += step
        y += 10
    grid = [
        f'<path d="M{x(share):.1f} {top - 12}V{y - 10}" stroke="#ddd"/>'
        f'<text x="{x(share):.1f}" y="{top - 18}" text-anchor="middle">{100 * share:.0f} %</text>'
        for share in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    ]
    title = '<text x="8" y="16">Guesses of one bit of a person that are right; red: the most that epsilon allows</text>'
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y}" width="720" height="{y}" {style}>'
        f'<rect width="720" height="{y}" fill="#fff"/>{title}{"".join(grid)}{"".join(rows)}</svg>\n'
    )
