"""The audit of a query kind as it is installed: its questions, its answerer, real noise; no kind is named.

Charges may depend on what was released: then each answer must be as private as it was charged. Of every set S of
answers that were charged at most e, P(S | D) <= exp(e) P(S | D') must hold (ex-post privacy; Ligett, Neel, Roth,
Waggoner and Wu 2017). So for each charge that occurs, the event is sought among answers of that charge.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from curator_node.mechanisms import NoiseSource, OpenDPNoise
from expril.audit.attack.game import Rows, breaks, loss_bound, play
from expril.audit.attack.game.search import choose_events
from expril.audit.attack.pairs import search, values_of
from expril.audit.kinds.answer_path import AnswerPath
from expril.audit.kinds.exact import Enumerated, enumerate_loss, enumerate_sum
from expril.audit.kinds.invented import Neighbours
from expril.audit.results import Attack, KindResult
from protocol.errors import ConfigurationError
from protocol.examples import Example
from protocol.strict_toml import suggest

ERROR_RATE = 0.001
"""Of one kind's attack: fifty of them stay below 5 %."""
SHORT_GAME = 400
"""Draws from either set of records, to choose between questions."""
SHORT_COPIES = 50
KEPT = 3
"""Pairs on which one is played where they cannot be enumerated."""
CLEARLY = 1.1
"""Another question than the first is attacked only where it tells so much more."""


@dataclass(frozen=True)
class Candidate:
    """A question with the sets of records that a search found for it.

    Attributes:
        path: asks it as often as one call can.
        pair: the sets of records.
        tried: how many were searched.
        enumerated: their exact loss.
        tells: the larger of exact loss and what a short game proves, in claims; infinite where an answer fails.
    """

    path: AnswerPath
    pair: Neighbours
    tried: int
    enumerated: Enumerated
    tells: float


def names_of(answerer: Answerer) -> tuple[str, ...]:
    """What an audit of a kind has to cover: "kind/thing" for each thing that it releases, or "kind"."""
    kind = answerer.kind
    return tuple(f"{kind.name}/{thing}" if thing else kind.name for thing in kind.examples()) or (kind.name,)


def kinds_to_audit(answerers: Mapping[str, Answerer] = ANSWERERS) -> tuple[str, ...]:
    """Every name that an audit has to cover, those that cannot be audited among them.

    Of every registered kind, but for those that are never as private as their cost says, whatever a curator's limits:
    no curator outside a simulation answers them.
    """
    return tuple(name for answerer in answerers.values() if _claims(answerer) for name in names_of(answerer))


def _claims(answerer: Answerer) -> bool:
    kind = answerer.kind
    return kind.private(kind.limits())


def chosen_kinds(wanted: str, answerers: Mapping[str, Answerer] = ANSWERERS) -> tuple[str, ...]:
    """The names of a kind, of one of its things, or of "all".

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    names = kinds_to_audit(answerers)
    found = tuple(name for name in names if wanted in ("all", name, name.partition("/")[0]))
    if wanted in answerers and not found:
        raise ConfigurationError(f"query kind {wanted!r} exists in simulations only: it is not as private as it costs")
    if not found:
        known = ("all", *answerers, *names)
        raise ConfigurationError(
            f"unknown query kind {wanted!r}{suggest(wanted, list(known))}; known: {', '.join(dict.fromkeys(known))}"
        )
    return found


def examples_of(name: str, answerers: Mapping[str, Answerer] = ANSWERERS) -> tuple[Answerer, tuple[Example, ...]]:
    """The answerer of a name, and the questions to attack it with; raises as `chosen_kinds`."""
    if name not in kinds_to_audit(answerers):
        chosen_kinds(name, answerers)
        raise ConfigurationError(f"{name!r} releases several things; audit one of them by its own name")
    kind, _, thing = name.partition("/")
    answerer = answerers[kind]
    known = answerer.kind.numbers is not None
    return answerer, tuple(answerer.kind.examples().get(thing, ())) if known else ()


def audit_kind(
    name: str,
    *,
    draws: int = 100_000,
    error_rate: float = ERROR_RATE,
    answerers: Mapping[str, Answerer] = ANSWERERS,
    noise: Callable[[], NoiseSource] = OpenDPNoise,
    seed: int = 1,
) -> KindResult:
    """Attack one thing that a registered kind releases, and compute its exact loss on what was attacked.

    Args:
        name: of `kinds_to_audit`.
        draws: from either set of records.
        error_rate: chance that a private mechanism is called a violation, at most.
        answerers: the registered ones.
        noise: what makes a source of noise; a curator's own unless told.
        seed: of the search's proposals; the noise has none.

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    answerer, examples = examples_of(name, answerers)
    if not examples:
        return _not_audited(
            name, error_rate, "its kind gives no question to attack it with (`QueryKind.examples` and `numbers`)"
        )
    for example in examples:
        if why_not := _unanswered(AnswerPath(answerer, example)):
            return _not_audited(name, error_rate, why_not)
    candidates = [candidate_of(AnswerPath(answerer, example, noise=noise), seed=seed) for example in examples]
    chosen = candidates[0]
    for other in candidates[1:]:
        chosen = other if other.tells > CLEARLY * chosen.tells else chosen
    attack = _strongest(chosen.path, chosen.pair, draws, error_rate)
    attack = structs.replace(attack, neighbours=f"{attack.neighbours}; asked: {chosen.path.example.about}")
    above = [one for one in candidates if one.enumerated.passes(one.path.claimed)]
    shown = (above or [chosen])[0]
    violation = breaks(attack) or bool(above)
    return KindResult(
        kind=name,
        attack=attack,
        exact=shown.enumerated.loss,
        searched=sum(one.tried for one in candidates),
        violation=violation,
        verdict=_verdict(attack, shown, broken=breaks(attack), above=bool(above)),
    )


def _strongest(path: AnswerPath, pair: Neighbours, draws: int, error_rate: float) -> Attack:
    """The attack on all answers, unless one on those of one charge proves more than was charged."""
    share = error_rate / 2 if path.answerer.kind.looks_back else error_rate
    draws = min(draws, path.example.draws or draws)
    charged = attack_charges(path, pair, draws=draws, error_rate=share)
    return first_broken(charged) or attack_pair(path, pair, draws=draws, error_rate=share)


def candidate_of(path: AnswerPath, *, seed: int = 1) -> Candidate:
    """The sets of records that tell a question apart best, and how well a short game does on them.

    Exact numbers rank the sets. Where there is no exact loss they are but a hint: there, other sets are taken if a
    short game on them proves more than is claimed.
    """
    found = search(path, seed=seed, keep=KEPT, drawn=path.example.pairs)
    enumerated = _enumerated(path, found.pairs[0])
    pairs = found.pairs if enumerated.loss is None else found.pairs[:1]
    calls = SHORT_COPIES if path.example.company is None else SHORT_GAME  # several curators' turns take their time
    few = replace(path, copies=min(path.example.copies, calls))
    short = [attack_pair(few, pair, draws=SHORT_GAME, error_rate=0.05).lower_bound for pair in pairs]
    claimed, best = float(path.claimed), int(np.argmax(short))
    best = best if short[best] > claimed else 0
    tells = math.inf if math.isinf(found.score) else max(short[best], enumerated.loss or 0.0)
    many = replace(path, copies=path.example.copies)
    return Candidate(many, pairs[best], found.tried, enumerated, tells / claimed)


def attack_pair(path: AnswerPath, pair: Neighbours, *, draws: int, error_rate: float) -> Attack:
    """Play the game on two given sets of records; the claim is the query's own cost."""
    first, second = pair.both
    width = path.width(pair)
    return play(
        partial(path.draws, first, width=width),
        partial(path.draws, second, width=width),
        claimed=path.claimed,
        draws=draws,
        error_rate=error_rate,
        neighbours=pair.words,
    )


def _enumerated(path: AnswerPath, pair: Neighbours) -> Enumerated:
    try:
        together = path.example.company is not None and not path.answerer.kind.looks_back
        return enumerate_sum(path, pair) if together else enumerate_loss(path, pair)
    except ConfigurationError as error:  # a limit of ours
        return Enumerated(None, why_not=str(error))
    except Exception as error:  # noqa: BLE001 - an answerer that fails is the attack's to find
        return Enumerated(None, why_not=f"its answerer failed on invented records ({type(error).__name__})")


def _unanswered(path: AnswerPath) -> str:
    """Why nothing would be learned from a question; "" where it is answered on the simplest records."""
    record = {name: values[0] for name, values in values_of(path.example).items()}
    try:
        path.exact(((record,),))
    except Exception as error:  # noqa: BLE001 - whatever it is, an audit that goes on would prove nothing
        return (
            f"its question on {path.example.about} gets no answer on one plain record ({type(error).__name__}: {error})"
        )
    return ""


def _not_audited(name: str, error_rate: float, why_not: str) -> KindResult:
    nothing = Attack(
        claimed="0", lower_bound=0.0, error_rate=error_rate, draws=0, neighbours="none", event="none", shares=(0.0, 0.0)
    )
    text = f"{name} is not audited: {why_not}."
    return KindResult(kind=name, attack=nothing, exact=None, searched=0, violation=True, verdict=text)


def _verdict(attack: Attack, shown: Candidate, *, broken: bool, above: bool) -> str:
    exact, claim = shown.enumerated, float(Fraction(attack.claimed))
    told = f"of {claim:.4g} claimed, the draws prove at least {attack.lower_bound:.4g}"
    if broken:
        return f"Breaks its claim: {told}."
    if above:
        return f"Breaks its claim: enumeration gives {exact.loss:.12g} of {float(shown.path.claimed):.12g} claimed."
    if exact.loss is None:
        return f"Holds against this attack: {told}; it is not enumerated, since {exact.why_not}."
    return f"Holds: {told}, and enumeration gives {exact.loss:.12g}."


MOST_CHARGES = 4
"""Charges that are attacked: the most frequent ones."""
LEAST = 100
"""Answers of a charge, from either set of records, from which an event is learned."""


def attack_charges(path: AnswerPath, pair: Neighbours, *, draws: int, error_rate: float) -> tuple[Attack, ...]:
    """The game on the answers of each charge, most frequent first; none for a kind whose charges are planned.

    Args:
        path: the question.
        pair: the two sets of records.
        draws: from either, all charges together.
        error_rate: of all the bounds together.
    """
    if not path.answerer.kind.looks_back:
        return ()
    width, half = path.width(pair), draws // 2
    drawn = [path.charged_draws(units, draws, width) for units in pair.both]
    learned = np.concatenate([charges[:half] for _, charges in drawn])
    values, counts = np.unique(learned, return_counts=True)
    frequent = values[np.argsort(-counts)][:MOST_CHARGES]
    return tuple(_attack_charge(charge, drawn, half, pair, error_rate / len(frequent)) for charge in frequent)


def first_broken(attacks: tuple[Attack, ...]) -> Attack | None:
    """The first attack that proves more than was charged."""
    return next((attack for attack in attacks if breaks(attack)), None)


def _attack_charge(
    charge: Fraction,
    drawn: Sequence[tuple[Rows, NDArray[np.object_]]],
    half: int,
    pair: Neighbours,
    error_rate: float,
) -> Attack:
    """An event is learned from this charge's answers in the first half, and counted among them in the second."""
    words, bound, shares = f"none among the answers charged {charge}", 0.0, (0.0, 0.0)
    learned = [numbers[:half][charges[:half] == charge] for numbers, charges in drawn]
    fewest = min(map(len, learned))
    events = choose_events(learned[0][:fewest], learned[1][:fewest], error_rate, {}) if fewest >= LEAST else ()
    for side, event in enumerate(events):
        if event is None:
            continue
        held = [event.holds(numbers[half:]) & (charges[half:] == charge) for numbers, charges in drawn]
        more, fewer = held[side], held[1 - side]
        found = loss_bound(int(more.sum()), int(fewer.sum()), (len(more), len(fewer)), error_rate / 2)
        if found > bound:
            bound, shares = found, (float(more.mean()), float(fewer.mean()))
            likelier = ("first", "second")[side]
            words = f"charged {charge}, and {event.words(learned[side])}: likelier under the {likelier} input"
    return Attack(
        claimed=str(charge),
        lower_bound=bound,
        error_rate=error_rate,
        draws=len(drawn[0][0]),
        neighbours=pair.words,
        event=words,
        shares=shares,
    )
