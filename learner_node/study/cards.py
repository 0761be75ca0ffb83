"""What a learner reads off cards: whether they can be true, what their curators refuse, which records they count.

It is assumed that more curators are honest than not. What nobody can detect is not tried: flipped labels, invented
records, a curator that declares ten times what the others do and answers accordingly. Reasons are for people to read.
They are made of cards and of noisy answers alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from protocol.codec import encode
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, QueryKind, Question, Turn
from protocol.rationals import parse_amount
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import Schema

if TYPE_CHECKING:
    import polars as pl

ENVELOPE_BYTES = 1024
"""What an envelope adds to a body, at most."""
LONGEST_AMOUNT = 40
"""Characters of an amount that are printed: enough for any that a person wrote."""


def complaint_about_question(body: Any, turn: Turn, card: Card, kinds: Kinds) -> str:
    """Why a curator would refuse a question; the reason names the limit."""
    data = encode(body)
    if len(data) + ENVELOPE_BYTES > card.limits.message_bytes:
        return f"the question takes {len(data)} bytes, its limit is {card.limits.message_bytes} a message"
    name = turn.planned.kind
    try:
        kind = kinds.kind(name)
        checked = kind.read_body(data, turn, KindTerms(card.schema, kinds.limits(card.limits, name)))
    except RemoteProtocolError as error:
        return in_words(error.code, error.field, error.limit)
    question = Question(turn, checked, card.schema)
    needed = kind.work(question, card.round_size)
    if needed > card.limits.multiply_adds:
        per_record, once = _per_record(kind, question)
        return _too_much_work(needed, per_record, once, card)
    return ""


def _per_record(kind: QueryKind, question: Question) -> tuple[int, int]:
    """Work of a question for one record, and for none: stated work grows evenly with the records."""
    single, double = (kind.work(question, records) for records in (1, 2))
    return double - single, 2 * single - double


def _too_much_work(needed: int, per_record: int, once: int, card: Card) -> str:
    """What is too much, and each way out of it."""
    most = card.limits.multiply_adds
    fits = (most - once) // per_record if per_record and once < most else 0
    cost = f"the question takes {needed:,} multiply-adds, its limit is {most:,}; ask about fewer cells or attributes"
    if card.round_size is None and fits:
        return (
            f"{cost}, or have its steward declare round_size, up to {fits:,}: it declares none, so "
            f"{ASSUMED_ROUND_SIZE:,} records are assumed"
        )
    return f"{cost}, or have its steward raise limits.multiply_adds in the policy"


def complaint_about_plan(plan: Plan, card: Card, kinds: Kinds) -> str:
    """Why a curator would refuse a plan, whatever is left of its budget."""
    try:
        cost = kinds.plan_cost(plan, card.most_records_per_unit)
        for index, planned in enumerate(kinds.queries(plan)):
            terms = KindTerms(card.schema, kinds.limits(card.limits, planned.kind))
            kinds.kind(planned.kind).check_allowed(planned, terms, f"plan.queries[{index}]")
    except RemoteProtocolError as error:
        return in_words(error.code, error.field, error.limit)
    if cost < parse_amount(card.least_cost):
        return f"the plan costs {cost} there, less than the {shortened(card.least_cost)} that it accounts for"
    return ""


def complaint_about_cap(plan: Plan, card: Card, kinds: Kinds) -> str:
    """Whether a plan is over all that the learner may ever spend there. How much is left is not known."""
    cost = kinds.plan_cost(plan, card.most_records_per_unit)
    if cost <= parse_amount(card.cap):
        return ""
    return f"the plan costs {cost} there, and this learner may spend {shortened(card.cap)} in all"


def in_words(code: str, field: str, limit: str) -> str:
    """A refusal as a sentence; what a curator wrote in it is made printable."""
    details = ": ".join(printable(part) for part in (field, limit) if part)
    text = EXPLANATIONS[RefusalCode(code)]
    return f"{text} ({details})" if details else text


def shortened(amount: str) -> str:
    """An amount of a card, which may have thousands of digits."""
    return amount if len(amount) <= LONGEST_AMOUNT else f"{amount[:LONGEST_AMOUNT]}... of {len(amount)} characters"


def counted(frame: "pl.DataFrame", unit: str | None, most: int, rng: np.random.Generator) -> "pl.DataFrame":
    """Records as a curator would count them: `most` of each unit that has more, at random, in their order.

    Args:
        frame: n records.
        unit: column that names the unit; None: each record is one, and all count.
        most: contribution bound c, at least 1.
        rng: which are taken.

    Raises:
        polars.exceptions.ColumnNotFoundError: no such column.
    """
    if unit is None:
        return frame
    import polars as pl  # noqa: PLC0415 - a study file is read without it

    order = pl.DataFrame({"unit": frame[unit], "place": rng.permutation(frame.height)})
    rank = order.select(pl.col("place").rank("ordinal").over("unit")).to_series()
    return frame.filter(rank <= most)


def population(cards: Mapping[str, Card]) -> str:
    """What a learner can know, in words, of the records that the curators count; "" where each record is a unit."""
    bounds = sorted({(card.unit, card.most_records_per_unit) for card in cards.values() if card.unit is not None})
    if not bounds:
        return ""
    parts = [f"at most {most} record{'s' if most > 1 else ''} of each {unit}" for unit, most in bounds]
    return f"curators count {', or '.join(parts)}; models and estimates speak of such records"


MOST_RECORDS = 100_000_000
"""No card may declare more records. Under the default limits a curator of so many refuses any question that takes more
than 500 multiply-adds a record, which is fewer than twenty cells of thirty attributes: no true one could be asked."""
MOST_LOSS = 6
"""A card may make the pooled study this many times worse before it is left out. Six is the largest unit bound of our
own data sets (examinations of one pregnancy), so bounds of one to six always go together."""
SIZE_INFLUENCE = 10
"""Where sites are weighed against each other a declared size counts for at most this many times the larger of the
learner's source and the median of the others' sizes: it costs a liar nothing to declare more."""
GROWTH = 4
"""An answer may be of this many times the records that the card declares. Two digits are off by at most 5 %; the rest
is for records that came after the card was written. A lower value would spare little: a liar may declare more, too."""
FALSE_ALARM = 1e-9
"""Probability, over the noise, that one answer of an honest curator is thrown away; the rate of all our tests."""


def common_schema(cards: Mapping[str, Card], fits: Callable[[Schema], bool]) -> tuple[Schema, dict[str, str]]:
    """The schema that most of the cards agree on, and why each of the others is left out.

    Sites are counted, not records: the number of records is what a liar would lie about. Where two schemas have as
    many sites nobody can say who is wrong, unless the learner's own source records fit one of them alone.

    Args:
        cards: at least one.
        fits: whether the learner's source can be encoded for a schema; asked only where two have as many sites.

    Raises:
        ConfigurationError: as many sites say one thing as another, and the source fits both or neither.
    """
    parties: list[list[str]] = []
    for name, card in cards.items():
        for party in parties:
            if not cards[party[0]].schema.differences(card.schema):
                party.append(name)
                break
        else:
            parties.append([name])
    most = max(map(len, parties))
    largest = [party for party in parties if len(party) == most]
    if len(largest) > 1:
        first, second = (cards[party[0]].schema for party in largest[:2])
        differing = _listed(first.differences(second))
        largest = [party for party in largest if fits(cards[party[0]].schema)]
        if len(largest) != 1:
            names = [party[0] for party in parties if len(party) == most]
            raise ConfigurationError(
                f"the cards of {names[0]} and {names[1]} describe {differing} differently; "
                "ask curators with one schema at a time"
            )
    chosen = cards[largest[0][0]].schema
    examples = ", ".join(largest[0][:5])
    return chosen, {
        name: f"its card describes {_listed(chosen.differences(card.schema))} differently from {examples}"
        for name, card in cards.items()
        if name not in largest[0]
    }


def implausible_cards(cards: Mapping[str, Card], source_size: int) -> dict[str, str]:
    """Curators whose card cannot be true, or whose unit bound costs more than their records bring -> why.

    Noise is scaled to the largest unit bound c, so N records under a bound c are worth N / c. Of the groups "all with a
    bound of at most b" the largest is kept that is worth at least 1 / `MOST_LOSS` of the best. So nobody is left out
    where bounds are within a factor of `MOST_LOSS`, and never more than stay.

    Args:
        cards: of one schema.
        source_size: of the learner's source; stands in for a size that is not declared.
    """
    reasons = {
        name: f"its card declares {card.round_size} records, and nobody holds more than {MOST_RECORDS}"
        for name, card in cards.items()
        if card.round_size is not None and card.round_size > MOST_RECORDS
    }
    plausible = {name: card for name, card in cards.items() if name not in reasons}
    sizes = weights(plausible, source_size)
    groups = []
    for bound in sorted({card.most_records_per_unit for card in plausible.values()}, reverse=True):
        group = [name for name, card in plausible.items() if card.most_records_per_unit <= bound]
        groups.append((group, sum(sizes[name] for name in group) / bound))
    keep = worth_keeping(groups)
    for name, card in plausible.items():
        if name not in keep:
            reasons[name] = (
                f"one unit may have {card.most_records_per_unit} records there, and all noise is scaled to the largest "
                "such bound: it costs the study more than its records bring"
            )
    return reasons


def weights(cards: Mapping[str, Card], source_size: int) -> dict[str, int]:
    """Declared sizes where sites are weighed against each other, see `SIZE_INFLUENCE`."""
    sizes = {name: card.round_size or source_size for name, card in cards.items()}
    limited = {}
    for name, size in sizes.items():
        rest = [other for key, other in sizes.items() if key != name]
        limited[name] = min(size, SIZE_INFLUENCE * int(max(source_size, median(rest) if rest else size)))
    return limited


def worth_keeping(groups: Sequence[tuple[list[str], float]]) -> list[str]:
    """Of nested groups with what each is worth, largest first, the first that is worth 1 / `MOST_LOSS` of the best.

    Groups that leave out more curators than stay are passed over: one liar must not be able to leave out the others.
    """
    if not groups:
        return []
    eligible = [(group, worth) for group, worth in groups if 2 * len(group) >= len(groups[0][0])]
    best = max(worth for _, worth in eligible)
    return next(group for group, worth in eligible if MOST_LOSS * worth >= best)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(printable(name, 50)) for name in list(names)[:5])
