"""Attacks on counts: isolation of records and of patients, averaging, differencing, Sybil learners, replay.

One study plays many games at once. Every victim has its own coin and its own cells, and each cell has independent
noise. So the guesses about different victims are independent, and all that is charged protects each victim.

The adversary's learner is made from the protocol alone, and breaks its rules where that pays.

The gain of these attacks on a correct curator is known exactly, as each is a test between two known distributions. An
answer is b + X with b = 1 if the victim is in, and P(X = k) = (1 - p) / (1 + p) p^|k|, p = exp(-epsilon).

For comparison, differencing is also played on `CountService`, a simulation of what many hospitals' count services do
today: counts below 10 are suppressed, others are rounded to tens, without noise, budget or ledger. Counts below five,
six or ten are hidden in practice (Baldwin, "A Novel Method for Calculating Aggregate Counts While Censoring Small Cells
in Multi-site Studies", 2014).
"""

import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from curator_node.site import now
from expril.audit.attack.studies.games import (
    Attacked,
    Guesses,
    Opening,
    Table,
    Terms,
    half_in,
    in_memory,
    policy_text,
    table_of,
)
from protocol.codec import decode, encode
from protocol.envelopes import SigningKey, digest, open_envelope, seal
from protocol.errors import ConfigurationError
from protocol.kinds.counts import COUNTS, CountsBody, CountsRelease, PlannedCounts
from protocol.messages import NO_DIGEST, Query, Release, StudyAccepted, StudyProposal
from protocol.partitions import Partition
from protocol.plans import Plan
from protocol.rationals import Rational

LIFETIME = 600
"""Seconds until a request expires."""


class CountingStudy:
    """One study of one learner that counts records, whose questions may be sent again.

    `accepted`: whether the curator accepted the plan; `sent`: the newest question's envelope.
    """

    def __init__(self, curator: Attacked, key: SigningKey, costs: Sequence[Fraction], *, bound: int = 1) -> None:
        """Propose a count of the cells of one partition at each of these costs, for `bound` records a unit."""
        self._curator, self._key = curator, key
        self._study, self._last, self._sequence = secrets.token_bytes(16), NO_DIGEST, 0
        self.sent = b""
        planned = (PlannedCounts(release="mass", partitions=1, scale=Rational.of(bound / cost)) for cost in costs)
        proposal = StudyProposal(**self._header(), plan=Plan.of(planned), purpose="", newest_receipt=b"")
        reply = curator.handle(seal(proposal, key))
        self.accepted = isinstance(open_envelope(reply)[1], StudyAccepted)
        self._last = digest(reply)

    def ask(self, partition: Partition) -> NDArray[np.int64]:
        """Ask the plan's next question: (cells,) noisy counts.

        Raises:
            ConfigurationError: the curator refuses, so that there is nothing to attack.
        """
        self._sequence += 1
        body = encode(CountsBody(partitions=(partition,), hypothesis=None))
        self.sent = seal(Query(**self._header(), kind=COUNTS.name, body=body), self._key)
        reply = self._curator.handle(self.sent)
        self._last = digest(reply)
        return counts_in(reply)

    def _header(self) -> dict[str, Any]:
        return {
            "study": self._study,
            "sender": self._key.public,
            "recipient": self._curator.identity,
            "sequence": self._sequence,
            "answers": self._last,
            "expires_at": now() + LIFETIME,
        }


def counts_in(reply: bytes) -> NDArray[np.int64]:
    """(cells,) counts in the reply to a question.

    Raises:
        ConfigurationError: it was refused.
    """
    message = open_envelope(reply)[1]
    if not isinstance(message, Release):
        code = getattr(message, "code", type(message).__name__)
        raise ConfigurationError(f"the attacked curator answers a question with {code!r} in place of counts")
    return np.frombuffer(decode(message.body, CountsRelease).counts, "<i8").astype(np.int64)


def gain_of_one(epsilon: Fraction) -> float:
    """Gain of one count of the victim alone, guessing "in" from 1 upwards: P(X >= 0) - P(X >= 1) = (1 - p) / (1 + p).

    That is tanh(epsilon / 2), the greatest gain of any attack.
    """
    return math.tanh(float(epsilon) / 2)


def gain_of_several(epsilon: Fraction, bound: int) -> float:
    """Gain of one count to which the victim adds `bound`, with noise scaled by it, guessing "in" from the middle.

    The likelihood ratio is 1 or more from bound / 2 upwards. With p = exp(-epsilon / bound) and h the first whole
    number from there on, the gain is P(X >= h - bound) - P(X >= h), where P(X >= k) = p^k / (1 + p) for k >= 1.
    """
    p, half = math.exp(-float(epsilon) / bound), (bound + 1) // 2
    above = p**half / (1.0 + p)
    missed = p ** (bound - half + 1) / (1.0 + p)
    return 1.0 - missed - above


def gain_of_votes(epsilon: Fraction, answers: int) -> float:
    """Gain of the majority of an odd number of counts of the victim alone, which share epsilon.

    The likelihood ratio of an answer is exp(epsilon / answers) from 1 upwards and its inverse below, so no use of the
    same answers gains more (Neyman and Pearson 1933). A vote is right with chance 1 / (1 + p).
    """
    right = 1.0 / (1.0 + math.exp(-float(epsilon) / answers))
    return float(binom.sf(answers // 2, answers, right) - binom.sf(answers // 2, answers, 1.0 - right))


def gain_of_difference(epsilon: Fraction) -> float:
    """Gain of two counts at epsilon / 2 that differ by the victim alone, guessing "in" if they differ by 1 or more.

    The difference is b + X - X', so the gain is P(X - X' = 0) = sum_k P(X = k)^2.
    """
    p = math.exp(-float(epsilon) / 2)
    return ((1.0 - p) / (1.0 + p)) ** 2 * (1.0 + p * p) / (1.0 - p * p)


Bools = NDArray[np.bool_]
Guess = Callable[[Attacked, tuple[SigningKey, ...], Table, Fraction, np.random.Generator], Bools]
"""(curator, the adversary's keys, the table that it knows, epsilon that it may spend, coins for ties) -> (m,) whether
each victim is in."""

RECORDS, BOUND = 5, 3
"""Records of a victim if patients are the privacy unit, and the most that the curator counts of each patient."""
BATCH = 5_000
"""Most victims of one study."""
QUESTIONS = 5
"""Averaging divides its budget among so many questions: an odd number, so that no vote is a tie."""
ENDLESS = 20
"""If nobody stops it, averaging ends when it has spent its budget so many times."""
SYBILS = 21
"""Learners that collude, an odd number."""
RESTARTS, REPEATS = 4, 500
"""Restarts of the curator, and repeats of the request after each."""


def play(
    guess: Guess, terms: Terms, *, opening: Opening = in_memory, learners: int = 1, patients: bool = False
) -> Guesses:
    """Play an attack on new curators for so many games.

    `terms`: of the games; the epsilon is the cap of each learner and of all together; `opening`: opens a curator if the
    terms have no opening; `learners`: number of learners that the adversary plays; `patients`: whether victims are
    patients with several records, and not single records.
    """
    rng, games = terms.rng, terms.games
    guessed: list[Bools] = []
    truth: list[Bools] = []
    played = 0
    while games - played >= 2:
        table = table_of(terms.records, min(BATCH, games - played))
        played += len(table.victims)
        inside = half_in(len(table.victims), rng)
        present = rng.random(table.frame.height) < 0.5
        present[table.victims] = inside
        keys = tuple(SigningKey.generate() for _ in range(learners))
        policy = policy_text({f"learner {number}": key for number, key in enumerate(keys)}, terms.epsilon)
        table_and_schema = (
            table.patients(present, RECORDS, BOUND) if patients else (table.frame.filter(present), table.schema)
        )
        with (terms.opening or opening)(*table_and_schema, policy) as curator:
            guessed.append(guess(curator, keys, table, terms.epsilon, rng))
        truth.append(inside)
    return Guesses.of(np.concatenate(guessed), np.concatenate(truth))


def isolation(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """One question, with a cell that only the victim can be in."""
    answer = CountingStudy(curator, keys[0], [epsilon]).ask(table.isolating_bins())
    return _majority({_of_victims(answer).tobytes(): 1}, rng)


def patients(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Isolate a patient with more records than are counted."""
    answer = CountingStudy(curator, keys[0], [epsilon], bound=BOUND).ask(table.isolating_bins())
    return _majority({_of_victims(answer, least=(BOUND + 1) // 2).tobytes(): 1}, rng)


def averaging(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Ask the same question in study after study until the curator refuses; guess as the majority of answers."""
    answers: Counter[bytes] = Counter()
    while answers.total() < ENDLESS * QUESTIONS:
        study = CountingStudy(curator, keys[0], [epsilon / QUESTIONS])
        if not study.accepted:
            break
        answers[_of_victims(study.ask(table.isolating_bins())).tobytes()] += 1
    return _majority(answers, rng)


def differencing(
    curator: Attacked,
    keys: tuple[SigningKey, ...],
    table: Table,
    epsilon: Fraction,
    rng: np.random.Generator,  # noqa: ARG001
) -> Bools:
    """Subtract the count of the neighbours, whose number is unknown, from that of the victim with them."""
    study = CountingStudy(curator, keys[0], [epsilon / 2, epsilon / 2])
    with_victim = study.ask(table.stretch_bins())[: len(table.victims)]
    without = study.ask(table.isolating_bins())[: 2 * len(table.victims) : 2]
    larger: Bools = with_victim - without >= 1
    return larger


def sybils(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Let every learner ask up to its own cap; guess as the majority of all answers."""
    answers: Counter[bytes] = Counter()
    for key in keys:
        study = CountingStudy(curator, key, [epsilon])
        if study.accepted:
            answers[_of_victims(study.ask(table.isolating_bins())).tobytes()] += 1
    return _majority(answers, rng)


def replay(
    curator: Attacked, keys: tuple[SigningKey, ...], table: Table, epsilon: Fraction, rng: np.random.Generator
) -> Bools:
    """Send one signed question again and again, also after restarts; guess as the majority of the answers."""
    study = CountingStudy(curator, keys[0], [epsilon])
    answers = Counter({_of_victims(study.ask(table.isolating_bins())).tobytes(): 1})
    replies: Counter[bytes] = Counter()
    for _ in range(RESTARTS):
        curator.restart()
        replies.update(curator.handle(study.sent) for _ in range(REPEATS))
    for reply, times in replies.items():
        if isinstance(open_envelope(reply)[1], Release):
            answers[_of_victims(counts_in(reply)).tobytes()] += times
    return _majority(answers, rng)


def _of_victims(counts: NDArray[np.int64], *, least: int = 1) -> Bools:
    """(m,) whether the count in each victim's own bin, of `Table.isolating_bins`, is `least` or more."""
    votes: Bools = counts[1:-2:2] >= least
    return votes


def _majority(votes: Mapping[bytes, int], rng: np.random.Generator) -> Bools:
    """(m,) majority of the votes for each victim; a coin decides a tie.

    `votes`: bytes of an (m,) boolean vote -> number of answers that cast it; `rng`: for ties.
    """
    cast = [times * (2 * np.frombuffer(vote, np.bool_).astype(np.int64) - 1) for vote, times in votes.items()]
    balance = np.sum(cast, axis=0)
    decided: Bools = (balance > 0) | ((balance == 0) & (rng.random(balance.shape) < 0.5))
    return decided


SUPPRESSED_BELOW, ROUNDED_TO = 10, 10
KNOWN = 25
"""Patients that the adversary knows to be there, such as those that it enrolled itself."""
ROUNDED_BATCH = 500

Range = tuple[float, float]


class CountService:
    """Counts patients by criteria, for anybody and without limit.

    `values`: (n,) of one attribute, for all patients that are in.
    """

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._values = np.sort(values[~np.isnan(values)])

    def count(self, ranges: Sequence[Range]) -> int | None:
        """Number of patients whose value is in one of some disjoint half-open ranges.

        It is rounded to tens, halves up; None for fewer than 10.
        """
        ends = np.searchsorted(self._values, np.asarray(ranges, np.float64), side="left")
        exact = int((ends[:, 1] - ends[:, 0]).sum())
        if exact < SUPPRESSED_BELOW:
            return None
        return (exact + ROUNDED_TO // 2) // ROUNDED_TO * ROUNDED_TO


def play_rounded(terms: Terms) -> tuple[Guesses, int]:
    """Play differencing on count services in so many games; return the guesses and the number of questions.

    Raises:
        ConfigurationError: the records have too few victims to know some and to attack others.
    """
    games, records, rng = terms.games, terms.records, terms.rng
    guessed: list[bool] = []
    truth: list[NDArray[np.bool_]] = []
    questions_asked = 0
    while games - len(guessed) >= 2 or not truth:
        table = table_of(records, KNOWN + min(ROUNDED_BATCH, games - len(guessed)))
        if len(table.victims) < KNOWN + 2:
            raise ConfigurationError(f"too few records of {records} can be told apart; attack other records")
        inside = half_in(len(table.victims) - KNOWN, rng)
        present = rng.random(table.frame.height) < 0.5
        present[table.victims] = np.concatenate([np.ones(KNOWN, np.bool_), inside])
        service = CountService(table.frame.filter(present)[table.attribute].to_numpy())
        for victim in range(KNOWN, len(table.victims)):
            guess, questions = rounded_differencing(service, table, victim)
            guessed.append(guess)
            questions_asked += questions
        truth.append(inside)
    return Guesses.of(np.array(guessed), np.concatenate(truth)), questions_asked


def rounded_differencing(service: CountService, table: Table, victim: int) -> tuple[bool, int]:
    """Compare two counts that differ by the victim alone, both padded with the same known patients.

    Known patients are added to the neighbours one by one until the displayed count moves. Without the last of them the
    exact count lies just below the edge between two displayed counts, so that the victim would move it over.

    Returns:
        Whether the victim is in, and the number of questions.
    """
    enrolled = list(zip(table.starts[:KNOWN].tolist(), table.ends[:KNOWN].tolist(), strict=True))
    crowd = [(float(table.ends[victim - 1]), float(table.starts[victim]))]
    displayed = service.count(crowd)
    for number, patient in enumerate(enrolled):
        padded = service.count([*crowd, patient])
        if padded != displayed:
            with_victim = service.count([*crowd, (float(table.starts[victim]), float(table.ends[victim]))])
            return with_victim != displayed, number + 3
        crowd.append(patient)
        displayed = padded
    return False, len(enrolled) + 1
