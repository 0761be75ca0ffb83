"""The table of attacks on whole studies (`ATTACKS`), and how each is played and judged."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from expril.audit.attack.studies import counting
from expril.audit.attack.studies.games import INVENTED, Opening, Terms, judged, on_disk
from expril.audit.results import StudyAttack
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.strict_toml import suggest

EXPRIL, ROUNDED = "ExPriL", "rounded counts"
EPSILONS = ("0.1", "1", "10")
FALSE_ALARM = 0.05
"""Greatest probability that all attacks together find a correct curator wrong, by default."""


@dataclass(frozen=True)
class StudyAttackKind:
    """An attack on whole studies."""

    play: Callable[[str, Terms], tuple[StudyAttack, ...]]  # (name, terms) -> a result for each attacked target
    games: int  # default
    does: str  # one sentence
    knows: str  # the adversary's knowledge, one sentence
    results: int = 1  # number of results of `play`
    bounded: bool = True  # whether epsilon bounds the gain; an attack on another service is played once


def attack_study(
    name: str,
    epsilon: str | Fraction,
    *,
    trials: int | None = None,
    error_rate: float | None = None,
    records: str = INVENTED,
    opening: Opening | None = None,
    seed: int | None = None,
) -> tuple[StudyAttack, ...]:
    """Play one attack at one epsilon.

    Args:
        name: key of `ATTACKS`.
        epsilon: most that curators charge over the whole attack; unused if no epsilon bounds the attack.
        trials: games in which the adversary guesses; None takes the attack's default.
        error_rate: probability that a result finds a correct curator wrong; None takes this attack's share of 5 % over
            all attacks.
        records: "invented", or a data set of `simulations.datasets`.
        opening: opens the curators to attack; None opens real ones.
        seed: of the coins that choose whose records are in, never of noise; None takes fresh coins.

    Raises:
        ConfigurationError: no such attack, epsilon or records, or too few games.
        DataUnavailableError: the data set's files are neither here nor can they be fetched.
    """
    check_name(name)
    kind = ATTACKS[name]
    games = kind.games if trials is None else trials
    if games < 2:
        raise ConfigurationError(f"{games} games are too few: play at least 2, one of them with the record")
    rate = false_alarm_share(name, to_play()) if error_rate is None else error_rate
    rng = np.random.default_rng(seed)
    return kind.play(name, Terms(parse_rational(epsilon), games, records, opening, rate, rng))


def check_name(name: str) -> None:
    """Raise ConfigurationError, with a suggestion, where no attack has that name."""
    if name not in ATTACKS:
        raise ConfigurationError(f"no attack is called {name!r}{suggest(name, list(ATTACKS))}")


def to_play(names: Iterable[str] = (), epsilons: Sequence[str] = EPSILONS) -> tuple[tuple[str, str], ...]:
    """The calls of `attack_study` as (name, epsilon); without names, those of all attacks.

    An attack that no epsilon bounds is played once.

    Raises:
        ConfigurationError: an unknown name, or no epsilon.
    """
    chosen = tuple(names) or tuple(ATTACKS)
    for name in chosen:
        check_name(name)
    if not epsilons:
        raise ConfigurationError("no epsilon to play at; name one, such as 1")
    return tuple(
        (name, epsilon) for name in chosen for epsilon in (epsilons if ATTACKS[name].bounded else epsilons[:1])
    )


def false_alarm_share(name: str, calls: Iterable[tuple[str, str]], *, false_alarm: float = FALSE_ALARM) -> float:
    """The share of the false-alarm rate for one call of the attack, by its number of results (Bonferroni).

    `calls`: all calls, from `to_play`; `false_alarm`: of all calls together.
    """
    return false_alarm * ATTACKS[name].results / sum(ATTACKS[attack].results for attack, _ in calls)


def _on_counts(
    name: str, terms: Terms, *, guess: counting.Guess, gain: Callable[[Fraction], float], **how: Any
) -> tuple[StudyAttack, ...]:
    """Play an attack of `counting` and compare it with its theory; `how` goes to `counting.play`."""
    guesses = counting.play(guess, terms, **how)
    expected = gain(terms.epsilon)
    return (judged(name, EXPRIL, guesses, epsilon=terms.epsilon, error_rate=terms.error_rate, expected=expected),)


def _membership(name: str, terms: Terms) -> tuple[StudyAttack, ...]:
    from expril.audit.attack.studies.membership import play_membership  # noqa: PLC0415 - loads what learns

    guesses_by_target = play_membership(terms)
    share = terms.error_rate / len(guesses_by_target)
    return tuple(
        judged(f"{name}_{target}", EXPRIL, guesses, epsilon=terms.epsilon, error_rate=share)
        for target, guesses in guesses_by_target.items()
    )


def _rounded(name: str, terms: Terms) -> tuple[StudyAttack, ...]:  # noqa: ARG001
    guesses, questions = counting.play_rounded(terms)
    remark = f"it takes {questions / guesses.games:.0f} questions a victim"
    rate = terms.error_rate
    return (judged("differencing", ROUNDED, guesses, epsilon=None, error_rate=rate, expected=1.0, remark=remark),)


ATTACKS: dict[str, StudyAttackKind] = {
    "isolation": StudyAttackKind(
        partial(_on_counts, guess=counting.isolation, gain=counting.gain_of_one),
        games=20_000,
        does="One question whose partition has a cell that the victim alone can be in.",
        knows="A value that the victim alone has.",
    ),
    "patients": StudyAttackKind(
        partial(
            _on_counts,
            guess=counting.patients,
            gain=partial(counting.gain_of_several, bound=counting.BOUND),
            patients=True,
        ),
        games=5_000,
        does=f"Isolation of a patient with {counting.RECORDS} records, of whom the curator counts {counting.BOUND}.",
        knows="A value that the victim's records alone have.",
    ),
    "averaging": StudyAttackKind(
        partial(_on_counts, guess=counting.averaging, gain=partial(counting.gain_of_votes, answers=counting.QUESTIONS)),
        games=5_000,
        does="The same isolating question in study after study, until the curator refuses; the majority decides.",
        knows="A value that the victim alone has.",
    ),
    "differencing": StudyAttackKind(
        partial(_on_counts, guess=counting.differencing, gain=counting.gain_of_difference),
        games=12_000,
        does="Two counts that differ by the victim alone, one subtracted from the other.",
        knows="Criteria that fit the victim and its neighbours, and such as fit the neighbours; not how many they are.",
    ),
    "sybils": StudyAttackKind(
        partial(_on_counts, guess=counting.sybils, gain=counting.gain_of_one, learners=counting.SYBILS),
        games=12_000,
        does=f"{counting.SYBILS} learners ask the isolating question, each up to its own cap, and share the answers.",
        knows="A value that the victim alone has, and the keys of all these learners.",
    ),
    "replay": StudyAttackKind(
        partial(_on_counts, guess=counting.replay, gain=counting.gain_of_one, opening=on_disk),
        games=3_000,
        does=(
            f"One signed question, sent {counting.RESTARTS * counting.REPEATS:,} times again and over "
            f"{counting.RESTARTS} restarts of the curator; the majority of the answers decides."
        ),
        knows="A value that the victim alone has, and when the curator restarts.",
    ),
    "membership": StudyAttackKind(
        _membership,
        games=36,
        does="A likelihood ratio, by shadow studies, on the released hypothesis and on the synthetic data.",
        knows="Every other record, the victim's, the learner's source, its seed and its options.",
        results=2,
    ),
    "rounded_counts": StudyAttackKind(
        _rounded,
        games=1_000,
        does="The two counts of differencing, asked of a service that suppresses below 10 and rounds to tens.",
        knows="The criteria of differencing, and 25 patients who are there.",
        bounded=False,
    ),
}
"""Name -> attack."""
