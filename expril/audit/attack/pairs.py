"""The search for the two neighbouring sets of records that a question tells apart best.

Candidates are drawn from what records can be: bounds, values beyond them, missing ones, levels that nobody declared,
every label, and the awkward values of the example; few records and many, alike and scattered. The exact numbers screen
them, which an auditor of invented records may see; the best are changed value by value, as long as that helps. Chance
only proposes: what is chosen is judged on draws of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from expril.audit.kinds.answer_path import AnswerPath, NoNoise, Numbers
from expril.audit.kinds.exact import hinted_loss
from expril.audit.kinds.invented import Neighbours, Record, Unit
from protocol.examples import Example, Value
from protocol.schema import NumericAttribute

OTHERS = (1, 2, 10, 25)
"""How many units stay."""
DRAWN = 40
"""Pairs that are drawn at random, of each question."""
CLIMBED = 20
"""Changes that are tried on the best of them."""
SAMPLED = 2_000
"""Draws that are counted, where a kind samples a law of its own."""
FEW = 10
"""Added to each count: chance alone then moves a ratio by about 1/3 at most."""
UNDECLARED = "a level that nobody declared"


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        pairs: the best by exact numbers, the best first.
        score: of the first, see `score_of`.
        tried: how many pairs.
    """

    pairs: tuple[Neighbours, ...]
    score: float
    tried: int


def search(path: AnswerPath, *, seed: int = 1, keep: int = 1, drawn: int | None = None) -> Found:
    """The pairs of sets that the question's exact numbers tell apart best.

    Args:
        path: asks the question once a call.
        seed: of the proposals; the noise has none.
        keep: how many pairs are wanted.
        drawn: pairs that are drawn at random, at least `keep`; None takes `DRAWN`.
    """
    rng = np.random.default_rng(seed)
    values = values_of(path.example)
    pairs = [_drawn(path.example, values, rng, index) for index in range(DRAWN if drawn is None else drawn)]
    scored = sorted(((score_of(path, pair), -place) for place, pair in enumerate(pairs)), reverse=True)
    ranked = [(score, pairs[-place]) for score, place in scored[:keep]]
    best, climbing = ranked[0]
    climbed = CLIMBED if drawn is None else drawn // 2
    for _ in range(climbed):
        changed = _changed(climbing, values, rng)
        score = score_of(path, changed)
        if score >= best:
            best, climbing = score, changed
    if best > ranked[0][0]:
        ranked.insert(0, (best, climbing))
    return Found(tuple(pair for _, pair in ranked[:keep]), best, len(pairs) + climbed)


def score_of(path: AnswerPath, pair: Neighbours) -> float:
    """How far apart the exact numbers are, each in scales of its own noise; infinite where only one answer comes.

    For noise in each number this is the loss; for anything else it is a hint. Where a kind samples a law of its own, it
    is how much likelier one of many draws is on one side, by their numbers.
    """
    fewer, more = (_answered(path, units) for units in pair.both)
    if fewer is None or more is None:
        return 0.0 if fewer is more else math.inf
    (first, one), (second, two) = fewer, more
    if one.own_sampler and two.own_sampler and path.copies == 1 < path.example.copies:
        return score_of(replace(path, copies=min(path.example.copies, SAMPLED)), pair)
    if first.shape != second.shape:
        return math.inf
    if one.chosen and len(one.chosen) == len(two.chosen) == first.size:
        pairs = zip(one.chosen, two.chosen, strict=True)
        return sum(hinted_loss(own, other, law) if law == its else math.inf for (own, law), (other, its) in pairs)
    if one.own_sampler and path.copies > 1:
        return _likelier(first, second)
    return float(np.sum(np.abs(first - second) / _scales(first, one, two)))


def _likelier(first: Numbers, second: Numbers) -> float:
    """Logarithm of the largest ratio of how often a row came on either side; few of them count as no ratio."""
    rows, places = np.unique(np.vstack([first, second]), axis=0, return_inverse=True)
    sides = np.split(places.ravel(), [len(first)])
    one, two = (np.bincount(side, minlength=len(rows)) + FEW for side in sides)
    return float(np.abs(np.log(one / two)).max())


def _answered(path: AnswerPath, units: tuple[Unit, ...]) -> tuple[Numbers, NoNoise] | None:
    """Exact numbers and what was drawn; None where the answerer fails, as whoever asks would see."""
    try:
        return path.exact(units)
    except Exception:  # noqa: BLE001 - for some records, perhaps
        return None


def _scales(numbers: Numbers, one: NoNoise, two: NoNoise) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Scale of the noise in each released number; 1 where numbers and draws do not match."""
    scales = [float(law.scale) for exact, law in one.drawn if law is not None for _ in range(exact.size)]
    same = [law for _, law in one.drawn] == [law for _, law in two.drawn]
    return np.array(scales).reshape(numbers.shape) if same and len(scales) == numbers.size else np.ones(numbers.shape)


def values_of(example: Example) -> dict[str, tuple[Value, ...]]:
    """Of each attribute and of the label: what a record is given."""
    schema = example.schema
    values: dict[str, tuple[Value, ...]] = {}
    for attribute in schema.attributes:
        if isinstance(attribute, NumericAttribute):
            own: tuple[Value, ...] = (*_around(attribute.lower, attribute.upper), None)
        else:
            own = (*attribute.levels, UNDECLARED, None)
        values[attribute.name] = tuple(dict.fromkeys((*own, *example.values.get(attribute.name, ()))))
    labels: tuple[Value, ...] = schema.classes if schema.label_bounds is None else _around(*schema.label_bounds)
    values[schema.label] = tuple(dict.fromkeys((*labels, *example.values.get(schema.label, ()))))
    return values


def _around(lower: float, upper: float) -> tuple[float, ...]:
    """Bounds, the middle, and what lies outside, by a little and by far."""
    span = upper - lower
    return (lower, upper, (lower + upper) / 2, float(np.nextafter(lower, -math.inf)), upper + span, lower - 1e6 * span)


def _drawn(example: Example, values: dict[str, tuple[Value, ...]], rng: np.random.Generator, index: int) -> Neighbours:
    """A pair at random: how many stay, whether they are all alike, and whether the unit is like them."""
    bound, count = example.most_records_per_unit, OTHERS[index % len(OTHERS)]
    alike, same_cell = bool(index & 4), bool(index & 8)
    unit = _unit(values, rng, int(rng.integers(1, bound + 2)) if index & 16 else bound, same=same_cell)
    if alike:
        others: tuple[Unit, ...] = ((unit[0],),) * count
    else:
        others = tuple(_unit(values, rng, int(rng.integers(1, bound + 1)), same=False) for _ in range(count))
    about = "all alike" if alike else "scattered"
    return Neighbours(others, unit if bound > 1 else unit[:1], about)


def _unit(values: dict[str, tuple[Value, ...]], rng: np.random.Generator, size: int, *, same: bool) -> Unit:
    records = tuple(_record(values, rng) for _ in range(size))
    return records[:1] * size if same else records


def _record(values: dict[str, tuple[Value, ...]], rng: np.random.Generator) -> Record:
    return {name: options[int(rng.integers(len(options)))] for name, options in values.items()}


def _changed(pair: Neighbours, values: dict[str, tuple[Value, ...]], rng: np.random.Generator) -> Neighbours:
    """The pair with one value of one record replaced, of the unit or of another, or with one unit more or fewer."""
    if rng.random() < 1 / 4:
        if len(pair.others) > 1 and rng.random() < 1 / 2:
            return replace(pair, others=pair.others[:-1])
        return replace(pair, others=(*pair.others, _unit(values, rng, 1, same=False)))
    name = list(values)[int(rng.integers(len(values)))]
    value = values[name][int(rng.integers(len(values[name])))]
    if rng.random() < 1 / 2:
        return replace(pair, unit=_replaced(pair.unit, int(rng.integers(len(pair.unit))), name, value))
    place = int(rng.integers(len(pair.others)))
    units: Sequence[Unit] = pair.others
    unit = _replaced(units[place], int(rng.integers(len(units[place]))), name, value)
    return replace(pair, others=(*units[:place], unit, *units[place + 1 :]))


def _replaced(unit: Unit, place: int, name: str, value: Value) -> Unit:
    return (*unit[:place], {**unit[place], name: value}, *unit[place + 1 :])
