"""What the cells of the study of sites say: accuracies, noise, traffic, and what became of sums with silent sites."""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from scipy.stats import chi2

from expril.report.provenance import Provenance
from lab.averages import Interval
from lab.cells import by_seed, differences, epsilon_order, grouped
from lab.sites.accuracy import LOCAL, QUESTIONS, SECURE, Studied
from lab.sites.rounds import Ask, Round, one_noise
from learner_node.study.pooling import PoolingName
from protocol.secure_sum.aggregator import STEPS

NOISE_COVERAGE = 0.999
"""Of the interval of a variance, which is held against a bound at every number of sites."""


class Point(msgspec.Struct, frozen=True):
    """A problem's accuracy in percent, at one epsilon and number of sites."""

    problem: str  # key of `QUESTIONS`
    epsilon: str  # exact text
    sites: int  # n
    local: Interval | None  # each site adds noise of its own; None where it was not run
    secure: Interval | None  # summed securely; None where it was not run, as with one site
    gain: Interval | None  # the second less the first, over the runs that both have; None where they share none
    auc_gain: Interval | None  # the same of the area under the ROC curve


class Opened(msgspec.Struct, frozen=True):
    """The noise of what was opened over so many sites, nobody silent."""

    sites: int  # n, t, u and h
    colluders: int
    dropouts: int
    shares: int
    bound: float  # n / h, the most that the variance may be, in variances of one noise
    measured: float  # mean square of opened numbers less exact ones, in the same unit
    low: float  # ends of its interval, of normal approximation: the noise's own kurtosis is known
    high: float
    numbers: int  # that were opened
    local: float  # the same where each site adds noise of its own; 0 where it was not measured

    @property
    def broken(self) -> bool | None:
        """Whether the variance is above its bound; None where the bound is within the interval, as it should be."""
        return True if self.low > self.bound else None if self.high > self.bound else False


class Traffic(msgspec.Struct, frozen=True):
    """Bytes that one site sends and receives for one question of so many numbers."""

    sites: int  # n
    numbers: int  # of the question
    local: float  # where each site adds noise of its own
    secure: float  # summed securely, all turns together
    turns: tuple[tuple[float, float], ...]  # (to the site, from the site) of each turn of it


class Fate(msgspec.Struct, frozen=True):
    """What became of a secure sum from a step of which on some sites were silent."""

    sites: int  # n
    dropouts: int  # u, tolerated by the plan
    silent: int  # how many were
    step: str  # from which of `STEPS` on
    rounds: int  # how often it was tried
    opened: int  # how often it was opened
    failed_at: str  # the step at which it failed, of `STEPS`; "" where it was opened
    summed: int  # sites in the sum
    charged: int  # sites whose ledger was charged
    noise: float  # sites in the sum over h: the variance of an opened number, in variances of one noise


class Findings(msgspec.Struct, frozen=True):
    """Everything that a report shows."""

    points: tuple[Point, ...]  # in the order of `QUESTIONS`, by epsilon downwards, by sites
    opened: tuple[Opened, ...]  # by sites
    traffic: tuple[Traffic, ...]
    fates: tuple[Fate, ...]  # by dropouts that the plan tolerates, step and how many are silent
    provenance: Provenance | None = None  # None before anything was computed


def findings(cells: Mapping[str, Sequence[Any]], provenance: Provenance | None = None) -> Findings:
    """All that these cells show, whatever is still missing."""
    rounds: Sequence[Round] = cells["rounds"]
    return Findings(_points(cells["studies"]), _opened(rounds), _traffic(rounds), _fates(rounds), provenance)


def _points(studies: Sequence[Studied]) -> tuple[Point, ...]:
    groups = grouped(
        by_seed(studies), lambda study: (study.problem, study.epsilon, study.sites), list(QUESTIONS), epsilon_order, int
    )
    return tuple(_point(key, grouped(held, lambda study: study.pooling)) for key, held in groups.items())


def _point(key: tuple[str, str, int], ways: Mapping[PoolingName, Sequence[Studied]]) -> Point:
    local, secure = (ways.get(way, ()) for way in (LOCAL, SECURE))
    accuracy, auc = attrgetter("accuracy"), attrgetter("auc")
    return Point(
        *key,
        local=Interval.of_any(map(accuracy, local)),
        secure=Interval.of_any(map(accuracy, secure)),
        gain=Interval.of_any(differences(secure, local, accuracy)),
        auc_gain=Interval.of_any(differences(secure, local, auc)),
    )


def _usual(rounds: Sequence[Round], pooling: PoolingName) -> dict[int, list[Round]]:
    """Rounds of the usual plan in which nobody was silent, by sites."""
    held = sorted(rounds, key=lambda one: (one.ask.sites, one.seed))
    usual = (each for each in held if not each.ask.silent and each.ask.dropouts is None and each.opened)
    return grouped((each for each in usual if each.ask.pooling == pooling), lambda each: each.ask.sites)


def _opened(rounds: Sequence[Round]) -> tuple[Opened, ...]:
    local = _usual(rounds, LOCAL)
    return tuple(_noise(sites, held, local.get(sites, [])) for sites, held in _usual(rounds, SECURE).items())


def _noise(sites: int, rounds: Sequence[Round], local: Sequence[Round]) -> Opened:
    shares, colluders = rounds[0].shares, rounds[0].colluders
    numbers = sum(each.ask.numbers for each in rounds)
    measured = _square(rounds)
    # A sum of n shares of shape 1 / h has the excess kurtosis of one noise, 3 at these scales, times h / n.
    error = math.sqrt((2 + 3 * shares / sites) / numbers)
    deviations = math.sqrt(float(chi2.ppf(NOISE_COVERAGE, 1)))
    return Opened(
        sites=sites,
        colluders=colluders,
        dropouts=sites - colluders - shares,
        shares=shares,
        bound=sites / shares,
        measured=measured,
        low=measured * max(0.0, 1 - deviations * error),
        high=measured * (1 + deviations * error),
        numbers=numbers,
        local=_square(local) if local else 0.0,
    )


def _square(rounds: Sequence[Round]) -> float:
    """Mean square of the noise in their numbers, in variances of one noise."""
    numbers = [each.ask.numbers for each in rounds]
    return float(np.average([each.noise for each in rounds], weights=numbers)) / one_noise()


def _traffic(rounds: Sequence[Round]) -> tuple[Traffic, ...]:
    local = _usual(rounds, LOCAL)
    found = []
    for sites, held in _usual(rounds, SECURE).items():
        turns = tuple(
            (float(np.mean([each.sent[turn] for each in held])), float(np.mean([each.received[turn] for each in held])))
            for turn in range(len(STEPS))
        )
        plain = [sum(each.sent) + sum(each.received) for each in local.get(sites, [])]
        found.append(
            Traffic(
                sites=sites,
                numbers=held[0].ask.numbers,
                local=float(np.mean(plain)) if plain else 0.0,
                secure=sum(sum(turn) for turn in turns),
                turns=turns,
            )
        )
    return tuple(found)


def _fates(rounds: Sequence[Round]) -> tuple[Fate, ...]:
    lossy = (each for each in rounds if each.ask.pooling == SECURE and each.ask.dropouts is not None)
    found = [_fate(ask, held) for ask, held in grouped(lossy, lambda each: each.ask).items()]
    return tuple(sorted(found, key=lambda fate: (fate.sites, fate.dropouts, STEPS.index(fate.step), fate.silent)))


def _fate(ask: Ask, rounds: Sequence[Round]) -> Fate:
    last = max(rounds, key=lambda each: each.seed)
    return Fate(
        sites=ask.sites,
        dropouts=ask.dropouts or 0,
        silent=ask.silent,
        step=ask.step,
        rounds=len(rounds),
        opened=sum(each.opened for each in rounds),
        failed_at="" if last.opened else STEPS[last.last],
        summed=last.summed,
        charged=last.charged,
        noise=last.summed / last.shares,
    )
