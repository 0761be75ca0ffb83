"""The audit of a query kind as it is installed, with its own questions, its answerer and real noise; no kind is named.

First a search proposes neighbouring data sets. Their records take every kind of value: bounds, values beyond them,
missing values, undeclared levels, every label and the awkward values of the example. There are few records and many,
equal and scattered ones. The exact numbers rank the proposals, since an auditor of invented records may see them. The
best are changed value by value, as long as that helps. The pair that is chosen is judged on draws of its own.

If charges depend on the answers, each answer must be as private as it was charged: for every set S of answers charged
at most e, P(S | D) <= exp(e) P(S | D') (ex-post privacy; Ligett, Neel, Roth, Waggoner and Wu 2017). So for each charge
that occurs, an event is sought among the answers of that charge.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from curator_node.answering import Answerer
from curator_node.kinds import ANSWERERS
from curator_node.mechanisms import NoiseSource, OpenDPNoise
from expril.audit.attack.conformity import strayed_calls, strayed_copies, strayed_draws
from expril.audit.attack.event_search import choose_event
from expril.audit.attack.game import breaks, play
from expril.audit.attack.game_statistics import Rows
from expril.audit.attack.loss_bounds import loss_bound
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import AnswerPath, NoNoise, Numbers
from expril.audit.kinds.exact import enumerate_loss, hinted_loss
from expril.audit.kinds.invented import Neighbours, Record, Unit
from expril.audit.kinds.kind_audit import Enumerated, Example, KindAudit, Law, Value
from expril.audit.results import Attack, KindResult
from protocol.errors import ConfigurationError
from protocol.schema import NumericAttribute
from protocol.strict_toml import suggest

OTHERS = (1, 2, 10, 25)
"""Numbers of units beside the one that differs."""
DRAWN = 40
"""Pairs that are drawn at random for each question."""
CLIMBED = 20
"""Changes that are tried on the best pair."""
CROWD = 512
"""Most units that are all alike; sizes up to this are searched for the one at which the numbers move most."""
VARIED = 3
"""Attributes in which records that are alike otherwise are made different, one at a time."""
SAMPLED = 2_000
"""Draws that are counted if a kind samples its own law."""
FEW = 10
"""Added to each count, so that chance alone moves a ratio by at most about 1/3."""
UNDECLARED = "a level that nobody declared"


@dataclass(frozen=True)
class SearchResult:
    """The best pairs of neighbouring data sets that a search found."""

    pairs: tuple[Neighbours, ...]  # the best first, by exact numbers
    score: float  # `score_of` the first
    tried: int  # number of pairs tried
    others: tuple[Neighbours, ...] = ()  # some of those that were drawn, of all sizes


def search(path: AnswerPath, *, seed: int = 1, keep: int = 1, random_pairs: int | None = None) -> SearchResult:
    """Search for the pairs of data sets whose exact numbers differ most.

    `path`: asks the question once in each call; `seed`: seed of the proposals, not of the noise; `keep`: number of
    pairs to return; `random_pairs`: number of pairs drawn at random, at least `keep`; None takes `DRAWN`.
    """
    rng = np.random.default_rng(seed)
    values = values_of(path.example)
    pairs = [
        _random_pair(path.example, values, rng, index)
        for index in range(DRAWN if random_pairs is None else random_pairs)
    ]
    if random_pairs is None and not path.answerer.kind.looks_back:  # a charge is told by rare answers to few records
        pairs += [*_opposed(path.example, values), *_crowds(path, values)]
    ranking = sorted(((score_of(path, pair), -place) for place, pair in enumerate(pairs)), reverse=True)
    ranked = [(score, pairs[-place]) for score, place in ranking[:keep]]
    best, climbing = ranked[0]
    climbed = CLIMBED if random_pairs is None else random_pairs // 2
    for _ in range(climbed):
        changed = _changed(climbing, values, rng)
        score = score_of(path, changed)
        if score >= best:
            best, climbing = score, changed
    if best > ranked[0][0]:
        ranked.insert(0, (best, climbing))
    others = tuple(pairs[:: -(-len(pairs) // ELSEWHERE)])
    return SearchResult(tuple(pair for _, pair in ranked[:keep]), best, len(pairs) + climbed, others)


def _ends(values: dict[str, tuple[Value, ...]]) -> dict[str, Record]:
    """Records at both ends of what is declared."""
    places = {"lowest": 0, "highest": 1}
    return {end: {name: options[at % len(options)] for name, options in values.items()} for end, at in places.items()}


def _opposed(example: Example, values: dict[str, tuple[Value, ...]]) -> list[Neighbours]:
    """Pairs in which the unit's records are at one end and all others at the other end, but for one attribute.

    In this one they take all kinds of values, so that no two records of a unit need be alike.
    """
    bound, ends, pairs = example.most_records_per_unit, _ends(values), []
    names = list(values)[:VARIED] if bound > 1 else [example.schema.label]
    for (mine, others), name, count in product((("highest", "lowest"), ("lowest", "highest")), names, OTHERS[:3]):
        unit, *rest = (
            tuple({**ends[end], name: values[name][(start + k) % len(values[name])]} for k in range(size))
            for end, start, size in ((mine, 0, bound), *((others, place, 1) for place in range(count)))
        )
        pairs.append(Neighbours(tuple(rest), unit, f"a unit with {mine} values, all others with {others} ones"))
    return pairs


def _crowds(path: AnswerPath, values: dict[str, tuple[Value, ...]]) -> list[Neighbours]:
    """Crowds of units that are all alike, in which one unit more moves the numbers most.

    A crowd's size is doubled, and between two sizes the half is searched in which the numbers move further: what
    happens at one size alone, such as a step that a solver takes from there on, is found without trying all sizes.
    """
    bound, pairs = path.example.most_records_per_unit, []
    for end, record in _ends(values).items():
        unit = (record,) * bound
        moved = _Moves(path, unit)
        steepest = max((moved.steepest(2**power) for power in range(CROWD.bit_length() - 1)), key=moved.between)
        pairs.append(Neighbours((unit,) * steepest[0], unit, f"all alike, with {end} values"))
    return pairs


@dataclass
class _Moves:
    """How far the exact numbers of crowds of different sizes are from each other."""

    path: AnswerPath
    unit: Unit
    answers: dict[int, tuple[Numbers, NoNoise] | None] = field(default_factory=dict)

    def between(self, sizes: tuple[int, int]) -> float:
        """Return the distance of two crowds' numbers, as `score_of`."""
        for size in sizes:
            if size not in self.answers:
                self.answers[size] = _answered(self.path, (self.unit,) * size)
        return distance(*(self.answers[size] for size in sizes))

    def steepest(self, size: int) -> tuple[int, int]:
        """Return two successive sizes, from this to its double, between which the numbers move far."""
        low, high = size, 2 * size
        while high - low > 1:
            halves = (low, (low + high) // 2), ((low + high) // 2, high)
            low, high = max(halves, key=self.between)
        return low, high


def score_of(path: AnswerPath, pair: Neighbours) -> float:
    """Return the `distance` of the exact numbers of two data sets.

    If a kind samples its own law, it is the largest log ratio of a draw's counts on the two sides.
    """
    fewer, more = (_answered(path, units) for units in pair.sets)
    sampled = fewer is not None and more is not None and fewer[1].own_sampler and more[1].own_sampler
    if sampled and path.copies == 1 < path.example.copies:
        return score_of(replace(path, copies=min(path.example.copies, SAMPLED)), pair)
    if sampled and path.copies > 1 and fewer is not None and more is not None and fewer[0].shape == more[0].shape:
        return _likelier(fewer[0], more[0])
    return distance(fewer, more)


def distance(fewer: tuple[Numbers, NoNoise] | None, more: tuple[Numbers, NoNoise] | None) -> float:
    """Return the distance of exact numbers, each in scales of its noise; infinite if only one data set is answered.

    For additive noise this is the loss, for other laws a hint.
    """
    if fewer is None or more is None:
        return 0.0 if fewer is more else math.inf
    (fewer_numbers, fewer_noise), (more_numbers, more_noise) = fewer, more
    if fewer_numbers.shape != more_numbers.shape:
        return math.inf
    if fewer_noise.chosen and len(fewer_noise.chosen) == len(more_noise.chosen) == fewer_numbers.size:
        pairs = zip(fewer_noise.chosen, more_noise.chosen, strict=True)
        return sum(
            hinted_loss(scores, other_scores, law) if law == other_law else math.inf
            for (scores, law), (other_scores, other_law) in pairs
        )
    return float(np.sum(np.abs(fewer_numbers - more_numbers) / _scales(fewer_numbers, fewer_noise, more_noise)))


def _likelier(first: Numbers, second: Numbers) -> float:
    """Return the log of the largest ratio of a row's counts on the two sides, with `FEW` added to each count."""
    rows, places = np.unique(np.vstack([first, second]), axis=0, return_inverse=True)
    sides = np.split(places.ravel(), [len(first)])
    first_counts, second_counts = (np.bincount(side, minlength=len(rows)) + FEW for side in sides)
    return float(np.abs(np.log(first_counts / second_counts)).max())


def _answered(path: AnswerPath, units: tuple[Unit, ...]) -> tuple[Numbers, NoNoise] | None:
    """Exact numbers and the noise that would be added; None if the answerer fails, which a learner would see."""
    try:
        return path.exact(units)
    except Exception:  # noqa: BLE001 - for some records, perhaps
        return None


def _scales(
    numbers: Numbers, fewer_noise: NoNoise, more_noise: NoNoise
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Scale of the noise in each released number; 1 if numbers and draws do not match."""
    scales = [float(law.scale) for exact, law in fewer_noise.calls if law is not None for _ in range(exact.size)]
    same = [law for _, law in fewer_noise.calls] == [law for _, law in more_noise.calls]
    return np.array(scales).reshape(numbers.shape) if same and len(scales) == numbers.size else np.ones(numbers.shape)


def values_of(example: Example) -> dict[str, tuple[Value, ...]]:
    """Return the values that records may take, by attribute, by outcome and for the label."""
    schema = example.schema
    values: dict[str, tuple[Value, ...]] = {}
    for attribute in (*schema.attributes, *schema.outcomes):
        if isinstance(attribute, NumericAttribute):
            declared: tuple[Value, ...] = (*_around(attribute.lower, attribute.upper), None)
        else:
            declared = (*attribute.levels, UNDECLARED, None)
        values[attribute.name] = tuple(dict.fromkeys((*declared, *example.values.get(attribute.name, ()))))
    labels: tuple[Value, ...] = schema.classes if schema.label_bounds is None else _around(*schema.label_bounds)
    values[schema.label] = tuple(dict.fromkeys((*labels, *example.values.get(schema.label, ()))))
    return values


def _around(lower: float, upper: float) -> tuple[float, ...]:
    """Return both bounds, the middle, and values a little and far outside."""
    span = upper - lower
    return (lower, upper, (lower + upper) / 2, float(np.nextafter(lower, -math.inf)), upper + span, lower - 1e6 * span)


def _random_pair(
    example: Example, values: dict[str, tuple[Value, ...]], rng: np.random.Generator, index: int
) -> Neighbours:
    """A random pair; bits of `index` choose whether its units are alike and how many records the unit has."""
    bound, count = example.most_records_per_unit, OTHERS[index % len(OTHERS)]
    alike, same_cell = bool(index & 4), bool(index & 8)
    unit = _unit(values, rng, int(rng.integers(1, 2 * bound + 2)) if index & 16 else bound, same=same_cell)
    if alike:
        units: tuple[Unit, ...] = ((unit[0],),) * count
    else:
        most = bound + 1 if bound > 1 else 1
        units = tuple(_unit(values, rng, int(rng.integers(1, most + 1)), same=False) for _ in range(count))
    about = "all alike" if alike else "scattered"
    return Neighbours(units, unit if bound > 1 else unit[:1], about)


def _unit(values: dict[str, tuple[Value, ...]], rng: np.random.Generator, size: int, *, same: bool) -> Unit:
    records = tuple(_record(values, rng) for _ in range(size))
    return records[:1] * size if same else records


def _record(values: dict[str, tuple[Value, ...]], rng: np.random.Generator) -> Record:
    return {name: options[int(rng.integers(len(options)))] for name, options in values.items()}


def _changed(pair: Neighbours, values: dict[str, tuple[Value, ...]], rng: np.random.Generator) -> Neighbours:
    """The pair with one value of one record replaced, or with one unit more or fewer."""
    if rng.random() < 1 / 4:
        if len(pair.shared) > 1 and rng.random() < 1 / 2:
            return replace(pair, shared=pair.shared[:-1])
        return replace(pair, shared=(*pair.shared, _unit(values, rng, 1, same=False)))
    name = list(values)[int(rng.integers(len(values)))]
    value = values[name][int(rng.integers(len(values[name])))]
    if rng.random() < 1 / 2:
        return replace(pair, unit=_replaced(pair.unit, int(rng.integers(len(pair.unit))), name, value))
    place = int(rng.integers(len(pair.shared)))
    units: Sequence[Unit] = pair.shared
    unit = _replaced(units[place], int(rng.integers(len(units[place]))), name, value)
    return replace(pair, shared=(*units[:place], unit, *units[place + 1 :]))


def _replaced(unit: Unit, place: int, name: str, value: Value) -> Unit:
    return (*unit[:place], {**unit[place], name: value}, *unit[place + 1 :])


ERROR_RATE = 0.001
"""Error rate of one kind's attack; fifty kinds together stay below 5 %."""
SHORT_GAME = 400
"""Draws of each data set, to choose between questions."""
SHORT_COPIES = 50
KEPT = 3
"""Pairs on which a short game is played if they cannot be enumerated."""
ELSEWHERE = 6
"""Pairs beside the best on which a curator is compared with the claimed law, as some faults show on few records."""
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
    noise: Callable[[], NoiseSource] = OpenDPNoise,
    seed: int = 1,
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

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    answerer, examples = examples_of(name, answerers, audits)
    if not examples:
        return _not_audited(
            name, error_rate, "its kind gives no question to attack it with (`KindAudit.examples`)"
        ), None
    for example in examples:
        if why_not := _unanswered(AnswerPath(answerer, example)) or _miscounted(AnswerPath(answerer, example)):
            return _not_audited(name, error_rate, why_not), None
    audit = audits[answerer.kind.name]
    candidates = [candidate_of(AnswerPath(answerer, example, noise=noise), audit, seed=seed) for example in examples]
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
            law = _claimed(path, audit, units)
            if rows and law is not None and (words := strayed_draws(law, np.concatenate(rows))):
                return words
        return ""


def _charged_too_little(candidate: Candidate, audit: KindAudit) -> list[str]:
    """Say which answers lose more than they are charged, by the claimed law; nothing of charges that are planned."""
    path, pair = replace(candidate.path, copies=1), candidate.pair
    if not path.answerer.kind.looks_back or (law := _claimed(path, audit, pair.shared)) is None:
        return []
    losses = {charge: _enumerated(path, audit, pair, charge) for charge in law.charges}
    return [
        f"answers that are charged {charge} lose {loss.loss:.6g} by enumeration"
        for charge, loss in losses.items()
        if loss.loss is not None and loss.passes(charge)
    ]


def _claimed(path: AnswerPath, audit: KindAudit, units: tuple[Unit, ...]) -> Law | None:
    try:
        return audit.claimed_law(path.case(units))
    except Exception:  # noqa: BLE001 - an answerer that fails is the attack's to find
        return None


def _strayed(candidate: Candidate, audit: KindAudit, draws: int) -> str:
    """Say how a curator does not do what its kind claims on the best pair or on others; "" if it may."""
    path = replace(candidate.path, copies=1)
    for pair in (candidate.pair, *candidate.others):
        try:
            if words := strayed_calls(path, audit, pair):
                return words
        except Exception:  # noqa: BLE001, S112 - an answerer that fails is the attack's to find
            continue
    number = min(draws, path.example.draws or draws) // OF_DRAWS
    for pair in candidate.others:
        law = _claimed(path, audit, pair.sets[1])
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


def candidate_of(path: AnswerPath, audit: KindAudit, *, seed: int = 1) -> Candidate:
    """Choose the pair of data sets that a question tells apart best, and a bound that a short game proves on it.

    Exact numbers rank the pairs. Without an exact loss the ranking is only a hint. Then another pair is taken if a
    short game on it proves more than is claimed.
    """
    result = search(path, seed=seed, keep=KEPT, random_pairs=path.example.pairs)
    enumerated = _enumerated(path, audit, result.pairs[0])
    pairs = result.pairs if enumerated.loss is None else result.pairs[:1]
    calls = SHORT_COPIES if path.example.company is None else SHORT_GAME  # several curators' turns take their time
    few = replace(path, copies=min(path.example.copies, calls))
    short = [attack_pair(few, pair, draws=SHORT_GAME, error_rate=0.05).lower_bound for pair in pairs]
    claimed, best = float(path.claimed), int(np.argmax(short))
    best = best if short[best] > claimed else 0
    leak = math.inf if math.isinf(result.score) else max(short[best], enumerated.loss or 0.0)
    many = replace(path, copies=path.example.copies)
    return Candidate(many, pairs[best], result.tried, result.others, enumerated, leak / claimed)


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
    except Exception as error:  # noqa: BLE001 - an answerer that fails is the attack's to find
        return Enumerated.unknown(f"its answerer failed on invented records ({type(error).__name__})")


def _unanswered(path: AnswerPath) -> str:
    """Say why a question cannot be attacked; "" if it is answered on one plain record."""
    record = {name: values[0] for name, values in values_of(path.example).items()}
    try:
        path.exact(((record,),))
    except Exception as error:  # noqa: BLE001 - with any error, an audit that goes on would prove nothing
        return (
            f"its question on {path.example.about} gets no answer on one plain record ({type(error).__name__}: {error})"
        )
    return ""


def _miscounted(path: AnswerPath) -> str:
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
