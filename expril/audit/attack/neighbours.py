"""The search for neighbouring data sets whose answers differ most; no kind is named.

Records take every kind of value: bounds, values beyond them, missing values, undeclared levels, every label and the
awkward values of the example. There are few records and many, equal and scattered ones. The exact numbers rank the
proposals, since an auditor of invented records may see them. The best pair is changed value by value, as long as that
helps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from expril.audit.kinds.answer_path import AnswerPath, NoNoise, Numbers
from expril.audit.kinds.exact import hinted_loss
from expril.audit.kinds.invented import Neighbours, Record, Unit
from expril.audit.kinds.kind_audit import Example, Value
from protocol.schema import NumericAttribute

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
ELSEWHERE = 6
"""Pairs beside the best on which a curator is compared with the claimed law, as some faults show on few records."""
UNDECLARED = "a level that nobody declared"


@dataclass(frozen=True)
class SearchResult:
    """The best pairs of neighbouring data sets that a search found."""

    pairs: tuple[Neighbours, ...]  # the best first, by exact numbers
    score: float  # `score_of` the first
    tried: int  # number of pairs tried
    others: tuple[Neighbours, ...] = ()  # some of those that were drawn, of all sizes


def search(
    path: AnswerPath, *, seed: int = 1, keep: int = 1, random_pairs: int | None = None, stride: int = 1
) -> SearchResult:
    """Search for the pairs of data sets whose exact numbers differ most.

    `path`: asks the question once in each call; `seed`: seed of the proposals, not of the noise; `keep`: number of
    pairs to return; `random_pairs`: number of pairs drawn at random, at least `keep`; None takes `DRAWN`; `stride`: of
    their shapes, each so many steps after the last, so that a few pairs take many.
    """
    rng = np.random.default_rng(seed)
    values = values_of(path.example)
    pairs = [
        random_pair(path.example, values, rng, stride * index)
        for index in range(DRAWN if random_pairs is None else random_pairs)
    ]
    if random_pairs is None and not path.answerer.kind.looks_back:  # a charge is told by rare answers to few records
        pairs += [*_opposed(path.example, values), *_crowds(path, values)]
    many = _sampling(path, _answers(path, pairs[0]))
    ranking = sorted(((score_of(path, pair, many), -place) for place, pair in enumerate(pairs)), reverse=True)
    ranked = [(score, pairs[-place]) for score, place in ranking[:keep]]
    best, climbing = ranked[0]
    climbed = CLIMBED if random_pairs is None else random_pairs // 2
    for _ in range(climbed):
        changed = _changed(climbing, values, rng)
        score = score_of(path, changed, many)
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
                self.answers[size] = answered(self.path, (self.unit,) * size)
        return distance(*(self.answers[size] for size in sizes))

    def steepest(self, size: int) -> tuple[int, int]:
        """Return two successive sizes, from this to its double, between which the numbers move far."""
        low, high = size, 2 * size
        while high - low > 1:
            halves = (low, (low + high) // 2), ((low + high) // 2, high)
            low, high = max(halves, key=self.between)
        return low, high


Answers = tuple[tuple[Numbers, NoNoise] | None, ...]
"""What each data set of a pair makes a kind compute; None where that failed."""


def _answers(path: AnswerPath, pair: Neighbours) -> Answers:
    return tuple(answered(path, units) for units in pair.sets)


def _all_sample(answers: Answers) -> bool:
    return all(answer is not None and answer[1].own_sampler for answer in answers)


def _sampling(path: AnswerPath, answers: Answers) -> AnswerPath | None:
    """Return the path that asks as often as draws are counted, if the kind samples its own law; else None."""
    copies = min(path.example.copies, SAMPLED)
    return replace(path, copies=copies) if copies > 1 and _all_sample(answers) else None


def score_of(path: AnswerPath, pair: Neighbours, many: AnswerPath | None = None) -> float:
    """Return the `distance` of the exact numbers of two data sets.

    If a kind samples its own law, it is the largest log ratio of a draw's counts on the two sides. `many`: the path by
    which these draws are asked for, if that is known; it is asked first.
    """
    if many is None:
        answers = _answers(path, pair)
        many = _sampling(path, answers)
        if many is None:
            return distance(*answers)
    draws = _answers(many, pair)
    if not _all_sample(draws):
        return distance(*_answers(path, pair))
    fewer, more = (answer[0] for answer in draws if answer is not None)
    return _likelier(fewer, more) if fewer.shape == more.shape else math.inf


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


def answered(path: AnswerPath, units: tuple[Unit, ...]) -> tuple[Numbers, NoNoise] | None:
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


def random_pair(
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
