"""The one-run audit: invented records (canaries) are in or out by fair coins and are guessed from one answer.

Steinke, Nasr and Jagielski (2023, "Privacy auditing with one (1) training run"): the coins are many independent games
within a single run, and a differentially private mechanism cannot let too many guesses be right. Here the run is one
`counts` answer of a real curator, and each canary has a cell of its own.
"""

import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betainc, expit

from curator_node.mechanisms import NoiseSource
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import now, temporary_site
from expril.audit.attack.controls.parts import HalfNoise
from expril.audit.results import Check
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.messages import Refusal, Release
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.schema import NumericAttribute

CANARIES, GUESSED = 10_000, Fraction(9, 10)
"""Canaries of a default run, and the share of them that is guessed, where the answer is clearest."""
LARGEST = 30.0
"""Greatest lower bound that is computed."""
_STEP = 0.05
_SEEN = 0.99


def chance_of_guesses(correct: int, guesses: int, canaries: int, epsilon: float, delta: float = 0.0) -> float:
    """Upper bound on the probability of so many correct guesses or more, for an (epsilon, delta)-DP mechanism.

    Let W be binomial(guesses, e^epsilon / (1 + e^epsilon)). The bound is P(W >= correct) for delta = 0 (Proposition
    5.1), else P(W >= correct) + 2 m delta max over i of P(correct - i <= W < correct) / i, for m canaries and i from 1
    to m (Theorem 5.2; numbers as in arXiv 2305.08846).

    `correct`: number of right guesses; `guesses`: at most one for each canary; no guess is made of the others;
    `canaries`: m, each in by a fair coin of its own; `epsilon`: 0 or more; `delta`: 0 to 1.
    """
    accuracy = float(expit(epsilon))

    def at_least(count: NDArray[np.int64]) -> NDArray[np.float64]:
        inside = np.clip(count, 1, guesses)
        tail = betainc(inside, guesses - inside + 1, accuracy)
        return np.where(count <= 0, 1.0, np.where(count > guesses, 0.0, tail))

    chance = float(at_least(np.array([correct]))[0])
    if delta:
        steps = np.arange(1, canaries + 1)
        between = at_least(correct - steps) - chance
        chance += 2 * canaries * delta * float((between / steps).max())
    return min(chance, 1.0)


def epsilon_at_least(correct: int, guesses: int, canaries: int, *, error_rate: float, delta: float = 0.0) -> float:
    """A lower bound on epsilon that is above the truth with a probability of at most `error_rate`.

    `chance_of_guesses` rules out every epsilon below it. Larger ones need no test: an (epsilon, delta)-DP mechanism is
    also DP at every larger epsilon.

    Raises:
        ConfigurationError: not 0 <= correct <= guesses <= canaries.
    """
    if not 0 <= correct <= guesses <= canaries or not canaries:
        raise ConfigurationError(
            f"{correct} correct of {guesses} guesses at {canaries} canaries cannot be; count them in this order"
        )

    def ruled_out(epsilon: float) -> bool:
        return chance_of_guesses(correct, guesses, canaries, epsilon, delta) <= error_rate

    low = 0.0
    while low < LARGEST and ruled_out(low + _STEP):
        low += _STEP
    if not ruled_out(low):
        return 0.0
    high = low + _STEP
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


def guess(noisy: NDArray[np.int64], guesses: int) -> NDArray[np.int64]:
    """Guess from (m,) counts: 1 (canary in) for the largest, -1 (canary out) for the smallest, 0 for those between.

    `noisy`: (m,) released counts. `guesses`: number of guesses that are not 0, half of each sign.
    """
    order = np.argsort(noisy, kind="stable")
    guessed = np.zeros(len(noisy), np.int64)
    guessed[order[: guesses // 2]] = -1
    guessed[order[len(noisy) - (guesses - guesses // 2) :]] = 1
    return guessed


def one_run(
    *,
    canaries: int = CANARIES,
    epsilon: Fraction = Fraction(1),
    error_rate: float,
    seed: int | None = None,
    broken: Callable[[], NoiseSource] = HalfNoise,
) -> Check:
    """Guess the canaries of a curator as it is shipped, and of one with too little noise.

    The check passes if the curator's lower bound is at most epsilon and the broken one's is above it.

    `canaries`: their number m. `epsilon`: the charge for the curator's one answer. `error_rate`: greatest probability
    that a private curator fails. `seed`: seed of the coins, not of the noise; None takes fresh entropy. `broken`: makes
    the noise source that must be caught.
    """
    coins = np.random.default_rng(seed)
    guesses = round(canaries * GUESSED)
    right_counts = [_right_guesses(canaries, epsilon, guesses, coins, noise) for noise in (None, broken())]
    bounds = [epsilon_at_least(correct, guesses, canaries, error_rate=error_rate) for correct in right_counts]
    texts = [
        f"{bound:.3f} ({correct / guesses:.1%} of {guesses:,} guesses right)"
        for correct, bound in zip(right_counts, bounds, strict=True)
    ]
    return Check(
        name="one_run_canaries",
        question=f"May {canaries:,} canaries in one answer be guessed better than epsilon {epsilon} allows?",
        finding=f"Epsilon is at least {texts[0]}; of a curator with half the noise, at least {texts[1]}.",
        false_alarm=error_rate,
        power=_power(guesses, epsilon, error_rate),
        passed=Fraction(bounds[0]) <= epsilon < Fraction(bounds[1]),
    )


def _power(guesses: int, epsilon: Fraction, error_rate: float) -> str:
    counts = np.arange(guesses + 1)
    chances = betainc(np.maximum(counts, 1), guesses - np.maximum(counts, 1) + 1, float(expit(float(epsilon))))
    needed = int(counts[(chances <= error_rate) & (counts > 0)].min())
    larger = np.arange(float(epsilon), LARGEST, 0.01)
    noticed = betainc(needed, guesses - needed + 1, expit(larger)) >= _SEEN
    return (
        f"{needed:,} right guesses of {guesses:,} are needed: a true epsilon of {larger[noticed][0]:.2f}, where guesses"
        f" are as good as it allows, is noticed with a probability of {_SEEN:.0%}"
    )


def _right_guesses(
    canaries: int, epsilon: Fraction, guesses: int, coins: np.random.Generator, noise: NoiseSource | None
) -> int:
    inside = coins.integers(0, 2, canaries).astype(bool)
    guessed = guess(_answer(np.flatnonzero(inside), canaries, epsilon, noise), guesses)
    return int((guessed == np.where(inside, 1, -1)).sum())


def _answer(places: NDArray[np.int64], cells: int, epsilon: Fraction, noise: NoiseSource | None) -> NDArray[np.int64]:
    """Return (cells,) counts that a curator releases who holds one record in each of `places`."""
    key = SigningKey.generate()
    policy = Policy(
        name="canaries",
        cap=str(epsilon),
        learners=(LearnerPolicy(name="auditor", key=key.public.hex(), cap=str(epsilon)),),
    )
    steward = SchemaFile(
        label="label",
        classes=("no", "yes"),
        attributes=(NumericAttribute(name="place", lower=0.0, upper=float(cells)),),
        round_size=1000,
    )
    labels = np.where(places % 2, "yes", "no")
    frame = pl.DataFrame({"place": places + 0.5, "label": labels})
    site = temporary_site(frame, steward, policy, noise=noise)
    planned = PlannedCounts(release="mass", partitions=1, scale=Rational.of(1 / epsilon))
    body = CountsBody(
        partitions=(FeatureBins(attribute="place", edges=tuple(map(float, range(1, cells)))),), hypothesis=None
    )
    session = Session(curator=site.identity, key=key, study=secrets.token_bytes(16))
    requests: tuple[Callable[[], bytes], ...] = (
        lambda: session.propose(Plan.of([planned]), "one-run audit", now()),
        lambda: session.query(planned.kind, encode(body), now()),
    )
    body_of_release = b""
    for request in requests:
        reply = session.receive(site.handle(request()))
        if isinstance(reply, Refusal):
            raise ConfigurationError(f"the curator of the canaries refused: {reply.explanation} Take fewer canaries")
        body_of_release = reply.body if isinstance(reply, Release) else b""
    release: CountsRelease = decode(body_of_release, CountsRelease, field="release")
    counts = np.frombuffer(release.counts, "<i8")
    return counts[:cells].astype(np.int64)
