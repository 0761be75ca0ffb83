"""What a validation's recalibration gains where risks are wrong, and loses where they are right.

`python -m lab.recalibrations --repeats 20` prints a table. The true risks of a population are known: logits are
normal about a centre that gives the prevalence. The model says other ones, logit P = (truth - m) / slope + m + shift, m
their mean, so an intercept and a slope mend them. Differences are paired: the recalibrated model less the same model as
it is, in the population's expected log loss and Brier score, times 1,000, with their standard errors over the repeats.
"""

import argparse
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from learner_node.recalibration import LEAST_FACTOR, recalibrate
from learner_node.scored import bin_count
from protocol.noise import DiscreteLaplace

Floats = NDArray[np.float64]

POPULATION, SOURCE, SITES = 20_000, 1_000, 3
STRENGTH = 1.0
"""Deviation of the true logits: an AUC of about .76."""
SIZES = ((400, Fraction(1, 4)), (1_000, Fraction(1)))
"""Private records at all sites together, and epsilon of the validation."""
PREVALENCES = (0.05, 0.3)
WRONG = ((0.0, 1.0), (-0.4, 1.0), (-0.8, 1.0), (0.0, 0.6), (0.3, 1.5))
"""Shift of the model's logits, and the slope that they need."""
RULES = (("always", 0.0), ("Bayes factor > 1", LEAST_FACTOR), ("> 3", 3.0))


@dataclass(frozen=True)
class Trial:
    """One answer: differences of the scores if it recalibrates, its factor, and what its intervals hold."""

    log_loss: float
    brier: float
    factor: float
    slope_held: bool
    intercept_held: bool


def trial(
    rng: np.random.Generator, size: int, epsilon: Fraction, prevalence: float, shift: float, slope: float
) -> Trial:
    """Draw a population, private records and an answer, and recalibrate by it."""
    spread = STRENGTH * rng.standard_normal(POPULATION)
    truth = spread + brentq(lambda centre: expit(centre + spread).mean() - prevalence, -12.0, 12.0)
    mean = float(truth.mean())
    said = (truth - mean) / slope + mean + shift
    source, own = said[rng.choice(POPULATION, SOURCE)], rng.choice(POPULATION, size)
    count = bin_count(expit(source), target_size=size, scale=float(1 / epsilon), noises=SITES)
    edges = np.unique(np.quantile(source, np.arange(1, count) / count))
    cells = 2 * np.searchsorted(edges, said[own]) + (rng.random(size) < expit(truth[own]))
    counts = np.bincount(cells, minlength=2 * len(edges) + 2).reshape(-1, 2)
    noisy = counts + DiscreteLaplace(1 / epsilon).simulate(rng, (SITES, *counts.shape)).sum(axis=0)
    found = recalibrate(
        noisy.astype(np.float64), expit(source), np.searchsorted(edges, source), scale=float(1 / epsilon), noises=SITES
    )
    risks, raw, mapped = expit(truth), expit(said), found.mapped(expit(said))
    intercept = mean - slope * (mean + shift)
    return Trial(
        _log_loss(risks, mapped) - _log_loss(risks, raw),
        _brier(risks, mapped) - _brier(risks, raw),
        found.factor,
        slope in found.slope,
        intercept in found.intercept,
    )


def row(size: int, epsilon: Fraction, prevalence: float, shift: float, slope: float, repeats: int) -> str:
    """A line of the table; its seed is made of the setting."""
    rng = np.random.default_rng(
        [size, epsilon.denominator, round(100 * prevalence), round(10 * shift + 100), round(10 * slope)]
    )
    trials = [trial(rng, size, epsilon, prevalence, shift, slope) for _ in range(repeats)]
    cells = [f"{size:,}", str(epsilon), f"{prevalence:g}", f"{shift:+g}", f"{slope:g}"]
    for _, least in RULES:
        on = np.array([one.factor > least for one in trials])
        cells.append(f"{on.mean():.2f}")
        for name in ("log_loss", "brier"):
            gains = 1000.0 * np.where(on, [getattr(one, name) for one in trials], 0.0)
            cells.append(f"{gains.mean():+.2f} ± {gains.std(ddof=1) / np.sqrt(repeats):.2f}")
    cells += [
        f"{np.mean([one.slope_held for one in trials]):.2f}",
        f"{np.mean([one.intercept_held for one in trials]):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _log_loss(risks: Floats, said: Floats) -> float:
    return float(-np.mean(xlogy(risks, said) + xlogy(1.0 - risks, 1.0 - said)))


def _brier(risks: Floats, said: Floats) -> float:
    return float(np.mean(risks * (1.0 - said) ** 2 + (1.0 - risks) * said**2))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    heads = ["records", "epsilon", "prevalence", "shift", "slope"]
    heads += [f"{name}: {what}" for name, _ in RULES for what in ("on", "log loss", "Brier")]
    heads += ["slope held", "intercept held"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")  # noqa: T201
    for (size, epsilon), prevalence, (shift, slope) in product(SIZES, PREVALENCES, WRONG):
        print(row(size, epsilon, prevalence, shift, slope, repeats), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
