"""The audit of a query kind as it is installed, with its own questions, its answerer and real noise; no kind is named.

A search proposes neighbouring data sets (`expril.audit.attack.neighbours`). The pair that is chosen is judged on draws
of its own.

If charges depend on the answers, each answer must be as private as it was charged: for every set S of answers charged
at most e, P(S | D) <= exp(e) P(S | D') (ex-post privacy; Ligett, Neel, Roth, Waggoner and Wu 2017). So for each charge
that occurs, an event is sought among the answers of that charge.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from curator_node.mechanisms import ExactNoise, NoiseSource
from expril.audit.attack.conformity import strayed_calls, strayed_copies, strayed_draws
from expril.audit.attack.event_search import choose_event
from expril.audit.attack.game import breaks, play
from expril.audit.attack.game_statistics import Rows
from expril.audit.attack.loss_bounds import loss_bound
from expril.audit.attack.neighbours import answered, search, values_of
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import AnswerPath, Numbers
from expril.audit.kinds.exact import enumerate_loss
from expril.audit.kinds.invented import Neighbours, Unit
from expril.audit.kinds.kind_audit import Enumerated, Example, KindAudit, Law
from expril.audit.results import Attack, KindResult
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest

ERROR_RATE = 0.001
"""Error rate of one kind's attack; fifty kinds together stay below 5 %."""
SHORT_GAME = 400
"""Draws of each data set, to choose between questions."""
SHORT_COPIES = 50
STRIDE = 3
"""Where few pairs are searched: a third of all shapes, of each number of units and each kind of unit."""
KEPT = 3
"""Pairs on which a short game is played if they cannot be enumerated."""
OF_DRAWS = 10
"""There it is drawn from so many times less often, and only where it samples a law by itself."""
CLEARLY = 1.1
"""A later question is attacked instead of the first only if it reveals so many times more."""


@dataclass(frozen=True)
class Candidate:
    """A question with the pair of data sets that a search found for it."""

    path: AnswerPath  # asks the question as often as one call can
    pair: Neighbours
    tried: int  # number of pairs searched
    others: tuple[Neighbours, ...]  # further ones
    enumerated: Enumerated  # exact loss of the pair
    leak: float  # larger of exact loss and what a short game proves, over the claim; infinite if an answer fails


Audits = Mapping[str, KindAudit]
"""Kinds that an auditor knows, by name."""
AUDITS: Audits = AUDITED_KINDS.audits


def names_of(kind: str, audits: Audits = AUDITS) -> tuple[str, ...]:
    """The names that an audit of a kind covers: "kind/thing" for each thing that it releases, or "kind"."""
    things = audits[kind].examples() if kind in audits else ()
    return tuple(f"{kind}/{thing}" if thing else kind for thing in things) or (kind,)


def kinds_to_audit(answerers: Mapping[str, Answerer] = ANSWERERS, audits: Audits = AUDITS) -> tuple[str, ...]:
    """Every name that an audit has to cover, including kinds that it cannot attack.

    Left out are kinds that are less private than their cost under any limits; only simulated curators answer them.
    """
    return tuple(name for kind in answerers if _claims(answerers[kind]) for name in names_of(kind, audits))


def _claims(answerer: Answerer) -> bool:
    kind = answerer.kind
    return kind.private(kind.limits())


def chosen_kinds(
    selection: str, answerers: Mapping[str, Answerer] = ANSWERERS, audits: Audits = AUDITS
) -> tuple[str, ...]:
    """The names of a kind, of one of its things, or of "all".

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    names = kinds_to_audit(answerers, audits)
    chosen = tuple(name for name in names if selection in ("all", name, name.partition("/")[0]))
    if selection in answerers and not chosen:
        raise ConfigurationError(
            f"query kind {selection!r} exists in simulations only: it is not as private as it costs"
        )
    if not chosen:
        known_names = list(dict.fromkeys(("all", *answerers, *names)))
        raise ConfigurationError(
            f"unknown query kind {selection!r}{suggest(selection, known_names)}; known: {', '.join(known_names)}"
        )
    return chosen


def examples_of(
    name: str, answerers: Mapping[str, Answerer] = ANSWERERS, audits: Audits = AUDITS
) -> tuple[Answerer, tuple[Example, ...]]:
    """Return the answerer of a name, and questions to attack it with; raises as `chosen_kinds` does."""
    if name not in kinds_to_audit(answerers, audits):
        chosen_kinds(name, answerers, audits)
        raise ConfigurationError(f"{name!r} releases several things; audit one of them by its own name")
    kind, _, thing = name.partition("/")
    return answerers[kind], tuple(audits[kind].examples().get(thing, ())) if kind in audits else ()


def attack_kind(
    name: str,
    *,
    draws: int = 100_000,
    error_rate: float = ERROR_RATE,
    answerers: Mapping[str, Answerer] = ANSWERERS,
    audits: Audits = AUDITS,
    noise: Callable[[], NoiseSource] = ExactNoise,
    seed: int = 1,
    pairs: int | None = None,
) -> tuple[KindResult, Candidate | None]:
    """Attack one thing that a registered kind releases, and compute its exact loss on the attacked data sets.

    Returns the result, and what was attacked; None where nothing could be.

    Args:
        name: one of `kinds_to_audit`.
        draws: draws on each data set.
        error_rate: greatest probability that a private mechanism is called a violation.
        answerers: the registered ones.
        audits: what an auditor knows of their kinds, by name.
        noise: makes a source of noise; by default a curator's own.
        seed: seed of the search's proposals, not of the noise.
        pairs: pairs of data sets that are searched at most for each question; None: as many as its example says.

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    answerer, examples = examples_of(name, answerers, audits)
    if not examples:
        return _not_audited(
            name, error_rate, "its kind gives no question to attack it with (`KindAudit.examples`)"
        ), None
    for example in examples:
        if why_not := unanswered(AnswerPath(answerer, example)) or miscounted(AnswerPath(answerer, example)):
            return _not_audited(name, error_rate, why_not), None
    audit = audits[answerer.kind.name]
    candidates = [
        candidate_of(AnswerPath(answerer, example, noise=noise), audit, seed=seed, pairs=pairs) for example in examples
    ]
    above = [candidate for candidate in candidates if candidate.enumerated.passes(candidate.path.claimed)]
    chosen = (above or candidates)[0]
    for other in (above or candidates)[1:]:
        chosen = other if other.leak > CLEARLY * chosen.leak else chosen
    pile = _Draws()
    attack, enumerated = _strongest(chosen, audit, draws, error_rate, pile)
    attack = structs.replace(attack, neighbours=f"{attack.neighbours}; asked: {chosen.path.example.about}")
    strayed = [*(_strayed(candidate, audit, draws) for candidate in candidates), pile.strayed(chosen, audit)]
    result = KindResult(
        kind=name,
        attack=attack,
        exact=enumerated.loss,
        searched=sum(candidate.tried for candidate in candidates),
        violation=False,
        verdict="",
    )
    unknown = [candidate.enumerated.why_not for candidate in candidates if candidate.enumerated.loss is None]
    alarms = [*result.alarms, *filter(None, strayed), *_charged_too_little(chosen, audit)]
    if unknown:
        alarms.append(f"it is not audited exactly, since {unknown[0]}")
    elif enumerated.passes(Fraction(attack.claimed)) and not alarms:
        alarms.append(f"two computations of its exact loss give {enumerated.loss} and {enumerated.by_table}")
    return structs.replace(result, violation=bool(alarms), verdict=_verdict(attack, enumerated, alarms)), chosen


def audit_kind(name: str, **options: Any) -> KindResult:
    """Return the result of `attack_kind`, whose arguments these are."""
    return attack_kind(name, **options)[0]


@dataclass
class _Draws:
    """The draws of an attack, side by side."""

    sides: tuple[list[Numbers], list[Numbers]] = field(default_factory=lambda: ([], []))

    def outcomes(self, side: int, draw: Callable[[int], Numbers], number: int) -> Numbers:
        """Draw, and keep what was drawn."""
        self.sides[side].append(draw(number))
        return self.sides[side][-1]

    def strayed(self, candidate: Candidate, audit: KindAudit) -> str:
        """Say how the draws do not have the law that the kind claims; "" if they may have it."""
        path = replace(candidate.path, copies=1)
        for rows, units in zip(self.sides, candidate.pair.sets, strict=True):
            law, words = _claimed(path, audit, units)
            if rows and law is not None:
                words = strayed_draws(law, np.concatenate(rows))
            if words:
                return words
        return ""


def _charged_too_little(candidate: Candidate, audit: KindAudit) -> list[str]:
    """Say which answers lose more than they are charged, by the claimed law; nothing of charges that are planned."""
    path, pair = replace(candidate.path, copies=1), candidate.pair
    law, why_not = _claimed(path, audit, pair.shared)
    if not path.answerer.kind.looks_back or law is None:
        return [why_not] if why_not else []
    losses = {charge: _enumerated(path, audit, pair, charge) for charge in law.charges}
    return [
        f"answers that are charged {charge} lose {loss.loss:.6g} by enumeration"
        for charge, loss in losses.items()
        if loss.loss is not None and loss.passes(charge)
    ]


def _claimed(path: AnswerPath, audit: KindAudit, units: tuple[Unit, ...]) -> tuple[Law | None, str]:
    """Return the claimed law, and why it is unknown; "" if the kind claims none, or its answerer fails as well."""
    try:
        return audit.claimed_law(path.case(units)), ""
    except Exception as error:  # noqa: BLE001 - said as an alarm
        if answered(path, units) is None:  # the attack's to find
            return None, ""
        return None, f"its claimed law cannot be computed on some invented records ({type(error).__name__}: {error})"


def _strayed(candidate: Candidate, audit: KindAudit, draws: int) -> str:
    """Say how a curator does not do what its kind claims on the best pair or on others; "" if it may."""
    path = replace(candidate.path, copies=1)
    for pair in (candidate.pair, *candidate.others):
        for units in pair.sets:
            law, words = _claimed(path, audit, units)
            answer = answered(path, units)
            if law is not None and answer is not None:
                words = strayed_calls(law, answer[1].handed)
            if words:
                return words
    number = min(draws, path.example.draws or draws) // OF_DRAWS
    for pair in candidate.others:
        law, _ = _claimed(path, audit, pair.sets[1])
        if law is not None and law.calls is None:
            rows = candidate.path.draws(pair.sets[1], number, path.width(pair))
            if words := strayed_draws(law, rows):
                return words
    return ""


def _strongest(
    chosen: Candidate, audit: KindAudit, draws: int, error_rate: float, pile: "_Draws"
) -> tuple[Attack, Enumerated]:
    """Return the attack on all answers, or on those of one charge if that proves more than this charge.

    The exact loss is of the same answers.
    """
    path, pair = chosen.path, chosen.pair
    share = error_rate / 2 if path.answerer.kind.looks_back else error_rate
    draws = min(draws, path.example.draws or draws)
    of_charges = attack_charges(path, pair, draws=draws, error_rate=share)
    broken = next(filter(breaks, of_charges), None)
    if broken is not None:
        return broken, _enumerated(replace(path, copies=1), audit, pair, Fraction(broken.claimed))
    return attack_pair(path, pair, draws=draws, error_rate=share, pile=pile), chosen.enumerated


def candidate_of(path: AnswerPath, audit: KindAudit, *, seed: int = 1, pairs: int | None = None) -> Candidate:
    """Choose the pair of data sets that a question tells apart best, and a bound that a short game proves on it.

    Exact numbers rank the pairs. Without an exact loss the ranking is only a hint. Then another pair is taken if a
    short game on it proves more than is claimed.
    """
    few = path.example.pairs
    if pairs is None:
        result = search(path, seed=seed, keep=KEPT, random_pairs=few)
    else:
        result = search(path, seed=seed, keep=KEPT, random_pairs=min(pairs, few or pairs), stride=STRIDE)
    enumerated = _enumerated(path, audit, result.pairs[0])
    best_pairs = result.pairs if enumerated.loss is None else result.pairs[:1]
    calls = SHORT_COPIES if path.example.company is None else SHORT_GAME  # several curators' turns take their time
    brief = replace(path, copies=min(path.example.copies, calls))
    if pairs is not None and enumerated.loss is not None:  # a first look: the exact loss ranks the questions alone
        short = [0.0]
    else:
        short = [attack_pair(brief, pair, draws=SHORT_GAME, error_rate=0.05).lower_bound for pair in best_pairs]
    claimed, best = float(path.claimed), int(np.argmax(short))
    best = best if short[best] > claimed else 0
    leak = math.inf if math.isinf(result.score) else max(short[best], enumerated.loss or 0.0)
    many = replace(path, copies=path.example.copies)
    return Candidate(many, best_pairs[best], result.tried, result.others, enumerated, leak / claimed)


def attack_pair(
    path: AnswerPath, pair: Neighbours, *, draws: int, error_rate: float, pile: "_Draws | None" = None
) -> Attack:
    """Play the game on a pair of data sets; the claim is the query's own cost. `pile` keeps the draws."""
    outcomes = partial(path.draws, width=path.width(pair))
    pile = pile or _Draws()
    first, second = (partial(pile.outcomes, side, partial(outcomes, units)) for side, units in enumerate(pair.sets))
    return play(first, second, claimed=path.claimed, draws=draws, error_rate=error_rate, neighbours=pair.words)


def play_pair(
    outcomes: Callable[[tuple[Unit, ...], int], Numbers],
    pair: Neighbours,
    *,
    claimed: Fraction,
    draws: int,
    error_rate: float,
) -> Attack:
    """Play the game on a pair of data sets; `outcomes`: (units, n) -> n outcomes."""
    first, second = (partial(outcomes, units) for units in pair.sets)
    return play(first, second, claimed=claimed, draws=draws, error_rate=error_rate, neighbours=pair.words)


def _enumerated(path: AnswerPath, audit: KindAudit, pair: Neighbours, charge: Fraction | None = None) -> Enumerated:
    try:
        return enumerate_loss(path, audit, pair, charge)
    except ConfigurationError as error:  # a limit of ours
        return Enumerated.unknown(str(error))
    except Exception as error:  # noqa: BLE001 - said as an alarm
        return Enumerated.unknown(
            f"its answerer or its claimed law failed on invented records ({type(error).__name__})"
        )


def unanswered(path: AnswerPath) -> str:
    """Say why a question cannot be attacked; "" if it is answered on one plain record."""
    record = {name: values[0] for name, values in values_of(path.example).items()}
    try:
        path.exact(((record,),))
    except Exception as error:  # noqa: BLE001 - with any error, an audit that goes on would prove nothing
        return (
            f"its question on {path.example.about} gets no answer on one plain record ({type(error).__name__}: {error})"
        )
    return ""


def miscounted(path: AnswerPath) -> str:
    """Say why a question is not asked so often as its example claims; "" if it is."""
    record = {name: values[0] for name, values in values_of(path.example).items()}
    try:
        return strayed_copies(replace(path, copies=path.example.copies), ((record,),))
    except Exception as error:  # noqa: BLE001 - as above
        return f"{path.example.copies} copies of its question get no answer ({type(error).__name__}: {error})"


def _not_audited(name: str, error_rate: float, why_not: str) -> KindResult:
    nothing = Attack(
        claimed="0", lower_bound=0.0, error_rate=error_rate, draws=0, neighbours="none", event="none", shares=(0.0, 0.0)
    )
    text = f"{name} is not audited: {why_not}."
    return KindResult(kind=name, attack=nothing, exact=None, searched=0, violation=True, verdict=text)


def _verdict(attack: Attack, exact: Enumerated, alarms: Sequence[str]) -> str:
    bounds = f"of {float(Fraction(attack.claimed)):.4g} claimed, the draws prove at least {attack.lower_bound:.4g}"
    if alarms:
        return f"Breaks its claim: {'; '.join(dict.fromkeys(alarms))}."
    return f"Holds: {bounds}, and enumeration gives {exact.loss:.4g}."


MOST_CHARGES = 4
"""The most frequent charges are attacked, up to so many."""
LEAST = 100
"""Least answers of a charge, on each data set, from which an event is learned."""


def attack_charges(path: AnswerPath, pair: Neighbours, *, draws: int, error_rate: float) -> tuple[Attack, ...]:
    """Play the game on the answers of each charge, the most frequent first; not for kinds whose charges are planned.

    `draws`: draws on each data set, over all charges. `error_rate`: error rate of all bounds together.
    """
    if not path.answerer.kind.looks_back:
        return ()
    width, half = path.width(pair), draws // 2
    samples = [path.charged_draws(units, draws, width) for units in pair.sets]
    learned = np.concatenate([charges[:half] for _, charges in samples])
    values, counts = np.unique(learned, return_counts=True)
    frequent = values[np.argsort(-counts)][:MOST_CHARGES]
    return tuple(_attack_charge(charge, samples, half, pair, error_rate / len(frequent)) for charge in frequent)


def _attack_charge(
    charge: Fraction,
    samples: Sequence[tuple[Rows, NDArray[np.object_]]],
    half: int,
    pair: Neighbours,
    error_rate: float,
) -> Attack:
    """Choose an event among this charge's answers on the first half of the draws, and count it on the second.

    It is any answer of this charge, or the event that tells these answers apart best, under either input: whichever the
    counts of the first half, of all answers, promise most of.
    """
    charged = [charges == charge for _, charges in samples]
    own_rows = [numbers[:half][mask[:half]] for (numbers, _), mask in zip(samples, charged, strict=True)]
    fewest = min(map(len, own_rows))
    # of all answers, with those of other charges made one: then an event is likelier for its charge's share, too
    beside = min(numbers[:half].min() for numbers, _ in samples) - 1
    joint_rows = [
        np.where(mask[:half, None], numbers[:half], beside) for (numbers, _), mask in zip(samples, charged, strict=True)
    ]
    learned = [joint_rows, *([[rows[:fewest] for rows in own_rows]] if fewest >= LEAST else [])]
    events = [("any answer", charged)]
    for rows in learned:
        choice = choose_event(rows[0], rows[1], error_rate, {})
        if choice is not None:
            holds = [choice.event.holds(numbers) & mask for (numbers, _), mask in zip(samples, charged, strict=True)]
            events.append((choice.event.words(own_rows[choice.side]), holds))

    def bound_of(masks: Sequence[NDArray[np.bool_]], side: int, part: slice) -> float:
        more, fewer = masks[side][part], masks[1 - side][part]
        # from the first half alone, with a draw added, so that neither share is 0
        expected = tuple(float((mask[:half].sum() + 1) / (half + 1)) for mask in (masks[side], masks[1 - side]))
        counts, draws = (int(more.sum()), int(fewer.sum())), (len(more), len(fewer))
        return loss_bound(*counts, draws, error_rate, expected=(expected[0], expected[1]))

    candidates = [(words, masks, side) for words, masks in events for side in (0, 1)]
    words, masks, side = max(candidates, key=lambda candidate: bound_of(candidate[1], candidate[2], slice(half)))
    proven = bound_of(masks, side, slice(half, None))
    shares = tuple(float(masks[place][half:].mean()) for place in (side, 1 - side))
    return Attack(
        claimed=str(charge),
        lower_bound=max(proven, 0.0),
        error_rate=error_rate,
        draws=len(samples[0][0]),
        neighbours=pair.words,
        event=f"charged {charge}, and {words}: likelier under the {('first', 'second')[side]} input",
        shares=(shares[0], shares[1]),
    )
