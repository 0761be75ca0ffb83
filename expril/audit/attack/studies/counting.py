"""Attacks on what a curator counts.

One study plays many games at once: every victim has its own coin and its own cells, and the noise of each cell is drawn
for itself. So the guesses about different victims are independent, and each victim is protected by all that is charged.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.studies.adversary import Study, counts_in
from expril.audit.attack.studies.curators import Attacked, Opening, policy_text
from expril.audit.attack.studies.games import Guesses, half_in
from expril.audit.attack.studies.tables import Table, table_of
from protocol.envelopes import SigningKey, open_envelope
from protocol.messages import Release

Bools = NDArray[np.bool_]
Guess = Callable[[Attacked, tuple[SigningKey, ...], Table, Fraction, np.random.Generator], Bools]
"""(curator, the adversary's keys, what it knows of the records, epsilon that it may spend, coins for ties) -> (m,),
whether each victim is in."""

RECORDS, BOUND = 5, 3
"""Records of a victim where patients are the privacy unit, and the most that the curator counts of one."""
BATCH = 5_000
"""Victims of one study, at most."""
QUESTIONS = 5
"""Into which averaging divides its budget: odd, so that no vote is a tie."""
ENDLESS = 20
"""It goes on until it has spent its budget so many times, where nobody stops it."""
SYBILS = 21
"""Learners that collude: odd, too."""
RESTARTS, REPEATS = 4, 500
"""Restarts of the curator, and repeats of the request after each."""


def play(
    guess: Guess,
    epsilon: Fraction,
    *,
    games: int,
    records: str,
    opening: Opening,
    learners: int = 1,
    patients: bool = False,
    rng: np.random.Generator,
) -> Guesses:
    """Play an attack on new curators until there are as many games as wanted.

    Args:
        guess: the attack.
        epsilon: cap of each learner and of all together.
        games: at least 2.
        records: whose; see `table_of`.
        opening: opens a curator.
        learners: that the adversary plays.
        patients: whether the victims are patients with several records, and not records.
        rng: throws the coins.
    """
    guessed: list[Bools] = []
    truth: list[Bools] = []
    played = 0
    while games - played >= 2:
        table = table_of(records, min(BATCH, games - played))
        played += len(table.victims)
        inside = half_in(len(table.victims), rng)
        present = rng.random(table.frame.height) < 0.5
        present[table.victims] = inside
        keys = tuple(SigningKey.generate() for _ in range(learners))
        policy = policy_text({f"learner {number}": key for number, key in enumerate(keys)}, epsilon)
        held = table.patients(present, RECORDS, BOUND) if patients else (table.frame.filter(present), table.schema)
        with opening(*held, policy) as curator:
            guessed.append(guess(curator, keys, table, epsilon, rng))
        truth.append(inside)
    return Guesses.of(np.concatenate(guessed), np.concatenate(truth))


def isolation(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """One question, with a cell that only the victim can be in."""
    answer = Study(curator, keys[0], [epsilon]).ask(table.alone())
    return _majority({_of_victims(answer).tobytes(): 1}, rng)


def patients(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Isolation of a patient with more records than are counted."""
    answer = Study(curator, keys[0], [epsilon], bound=BOUND).ask(table.alone())
    return _majority({_of_victims(answer, least=(BOUND + 1) // 2).tobytes(): 1}, rng)


def averaging(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """The same question in study after study, until the curator refuses; then the majority of the answers."""
    answers: Counter[bytes] = Counter()
    while answers.total() < ENDLESS * QUESTIONS:
        study = Study(curator, keys[0], [epsilon / QUESTIONS])
        if not study.accepted:
            break
        answers[_of_victims(study.ask(table.alone())).tobytes()] += 1
    return _majority(answers, rng)


def differencing(
    curator: Attacked,
    keys: tuple[SigningKey, ...],
    table: Table,
    epsilon: Fraction,
    rng: np.random.Generator,  # noqa: ARG001
) -> Bools:
    """Two counts, of the victim with its neighbours and of the neighbours alone; nobody knows how many they are."""
    study = Study(curator, keys[0], [epsilon / 2, epsilon / 2])
    with_victim = study.ask(table.stretches())[: len(table.victims)]
    without = study.ask(table.alone())[: 2 * len(table.victims) : 2]
    larger: Bools = with_victim - without >= 1
    return larger


def sybils(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Every learner asks as much as its own cap allows; then the majority of what they were told together."""
    answers: Counter[bytes] = Counter()
    for key in keys:
        study = Study(curator, key, [epsilon])
        if study.accepted:
            answers[_of_victims(study.ask(table.alone())).tobytes()] += 1
    return _majority(answers, rng)


def replay(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """One signed question, sent again and again, also after restarts; then the majority of the answers."""
    study = Study(curator, keys[0], [epsilon])
    answers = Counter({_of_victims(study.ask(table.alone())).tobytes(): 1})
    replies: Counter[bytes] = Counter()
    for _ in range(RESTARTS):
        curator.restart()
        replies.update(curator.handle(study.sent) for _ in range(REPEATS))
    for reply, times in replies.items():
        if isinstance(open_envelope(reply)[1], Release):
            answers[_of_victims(counts_in(reply)).tobytes()] += times
    return _majority(answers, rng)


def _of_victims(counts: NDArray[np.int64], *, least: int = 1) -> Bools:
    """Of an answer about `Table.alone`: (m,) whether it speaks for the victim, as a count of `least` or more does."""
    spoken: Bools = counts[1:-2:2] >= least
    return spoken


def _majority(votes: Mapping[bytes, int], rng: np.random.Generator) -> Bools:
    """What most answers speak for, victim by victim; a coin decides a tie.

    Args:
        votes: bytes of a vote (m,) of booleans -> how many answers cast it.
        rng: for ties.
    """
    cast = [times * (2 * np.frombuffer(vote, np.bool_).astype(np.int64) - 1) for vote, times in votes.items()]
    balance = np.sum(cast, axis=0)
    decided: Bools = (balance > 0) | ((balance == 0) & (rng.random(balance.shape) < 0.5))
    return decided
