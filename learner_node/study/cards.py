"""What a learner concludes from cards: which are implausible, what their curators refuse, which records they count.

These checks assume that more curators are honest than not. They do not try to detect what nobody can: flipped labels,
invented records, or a curator that declares ten times as many records as the others and answers accordingly. Reasons
are texts for people, and are computed from cards and noisy answers alone.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from protocol.codec import encode
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Kinds, KindTerms, QueryKind, Question, Turn
from protocol.rationals import parse_amount
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import MOST_SENTINELS, CategoricalAttribute, Schema

if TYPE_CHECKING:
    import polars as pl

ENVELOPE_BYTES = 1024
"""What an envelope adds to a body, at most."""
LONGEST_AMOUNT = 40
"""Longest amount that is printed in full, in characters; no amount that a person wrote is longer."""


def complaint_about_question(body: Any, turn: Turn, card: Card, kinds: Kinds) -> str:
    """Why a curator would refuse a question, naming the limit; "" if it would not."""
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


def same_limits(card: Card, other: Card) -> bool:
    """Whether two cards agree in all that `complaint_about_question` reads."""
    return (card.round_size, card.limits, card.schema) == (other.round_size, other.limits, other.schema)


def _per_record(kind: QueryKind, question: Question) -> tuple[int, int]:
    """Work per record, and work without records. The stated work is linear in the number of records."""
    single, double = (kind.work(question, records) for records in (1, 2))
    return double - single, 2 * single - double


def _too_much_work(needed: int, per_record: int, once: int, card: Card) -> str:
    """Text that states by how much the work is over the limit, and every remedy."""
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
    """Why a curator would refuse a plan whatever budget is left; "" if it would not."""
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
    """Why a plan exceeds the learner's total cap at a curator; "" if it does not. Past spending is unknown here."""
    cost = kinds.plan_cost(plan, card.most_records_per_unit)
    if cost <= parse_amount(card.cap):
        return ""
    return f"the plan costs {cost} there, and this learner may spend {shortened(card.cap)} in all"


def in_words(code: str, field: str, limit: str) -> str:
    """A refusal as a sentence. The curator's own text is made printable."""
    details = ": ".join(printable(part) for part in (field, limit) if part)
    text = EXPLANATIONS[RefusalCode(code)]
    return f"{text} ({details})" if details else text


def shortened(amount: str) -> str:
    """A card's amount, shortened for printing; it may have thousands of digits."""
    return amount if len(amount) <= LONGEST_AMOUNT else f"{amount[:LONGEST_AMOUNT]}... of {len(amount)} characters"


def counted(frame: "pl.DataFrame", unit: str | None, most: int, rng: np.random.Generator) -> "pl.DataFrame":
    """Sample at most `most` records of each privacy unit, uniformly and in their order, as a curator does.

    Args:
        frame: n records.
        unit: column that names the unit. With None each record is a unit, and all are returned.
        most: contribution bound c, at least 1.
        rng: draws the sample.

    Raises:
        polars.exceptions.ColumnNotFoundError: there is no such column.
    """
    if unit is None:
        return frame
    import polars as pl  # noqa: PLC0415 - a study file is read without it

    order = pl.DataFrame({"unit": frame[unit], "place": rng.permutation(frame.height)})
    rank = order.select(pl.col("place").rank("ordinal").over("unit")).to_series()
    return frame.filter(rank <= most)


def population(cards: Mapping[str, Card]) -> str:
    """A sentence on which records the curators count, by their cards; "" if each record is a unit."""
    bounds = sorted({(card.unit, card.most_records_per_unit) for card in cards.values() if card.unit is not None})
    if not bounds:
        return ""
    parts = [f"at most {most} record{'s' if most > 1 else ''} of each {unit}" for unit, most in bounds]
    return f"curators count {', or '.join(parts)}; models and estimates speak of such records"


MOST_RECORDS = 100_000_000
"""Most records that a card may declare. Under the default limits, a curator of so many refuses questions above 500
multiply-adds a record, which is fewer than twenty cells of thirty attributes: such a card could not be used."""
MOST_LOSS = 6
"""Largest factor by which a card may worsen the pooled study before its curator is left out. Six is the largest unit
bound in our data sets (examinations of one pregnancy), so sites with bounds of one to six are always pooled."""
SIZE_INFLUENCE = 10
"""Cap on the weight of a declared size, in multiples of the larger of the learner's source size and the median of the
other sites' sizes. It limits a liar, for whom declaring more is free."""
GROWTH = 4
"""Largest plausible ratio of a count's total to the declared number of records. Rounding to two digits accounts for 5
%; the rest is for records added after the card was written. A lower value would not help: a liar may declare more, too.
"""
FALSE_ALARM = 1e-9
"""Probability, over the noise, that an honest curator's answer is rejected. All plausibility tests use it."""


def common_schema(cards: Mapping[str, Card], fits: Callable[[Schema], bool]) -> tuple[Schema, dict[str, str]]:
    """Return the schema that most cards share, and for each other curator why it is left out.

    The vote counts sites, not records, since a liar would lie about its number of records. A tie is broken if the
    learner's source fits exactly one of the tied schemas.

    Its sentinels are for the learner's own records, whose coding no card knows: of all that the sharing cards declare,
    those that can be no value, and of the others those that every one of these cards declares.

    Args:
        cards: at least one.
        fits: whether the learner's source can be encoded for a schema; called only in a tie.

    Raises:
        ConfigurationError: there is a tie, and the source does not fit exactly one of the tied schemas.
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
        differing, advice = first.differences_in_words(second)
        largest = [party for party in largest if fits(_of_party(party, cards))]
        if len(largest) != 1:
            names = [party[0] for party in parties if len(party) == most]
            raise ConfigurationError(
                f"the cards of {names[0]} and {names[1]} describe {differing} differently; "
                f"ask curators with one schema at a time{advice}"
            )
    chosen = cards[largest[0][0]].schema
    examples = ", ".join(largest[0][:5])
    reasons = {}
    for name, card in cards.items():
        if name not in largest[0]:
            differing, advice = card.schema.differences_in_words(chosen)
            reasons[name] = f"its card describes {differing} differently from {examples}{advice}"
    return _of_party(largest[0], cards), reasons


def _of_party(party: Sequence[str], cards: Mapping[str, Card]) -> Schema:
    """The schema that these curators share, with the sentinels of all of them, as `common_schema` says."""
    shared = [cards[name].schema for name in party]
    schema = shared[0]
    attributes = []
    for attribute in schema.attributes:
        lists = [other.missing or () for partner in shared if (other := partner.find(attribute.name)) is not None]
        declared = Counter(item for sentinels in lists for item in sentinels)
        kept = [
            item
            for item, count in declared.most_common()
            if count == len(lists) or isinstance(attribute, CategoricalAttribute) or not attribute.allows(item)
        ]
        missing = tuple(kept[:MOST_SENTINELS]) or UNSET
        attributes.append(attribute if missing == attribute.missing else replace(attribute, missing=missing))
    return replace(schema, attributes=tuple(attributes))


def implausible_cards(cards: Mapping[str, Card], source_size: int) -> dict[str, str]:
    """Return why each curator is left out whose card is implausible or whose unit bound costs more than it brings.

    Noise is scaled to the largest unit bound c, so N records under bound c are worth N / c. Among the groups "all
    curators with bound at most b", the function keeps the largest that is worth at least 1 / `MOST_LOSS` of the best
    group. So it leaves nobody out if all bounds are within a factor of `MOST_LOSS`, and never leaves out more curators
    than stay.

    `cards` share a schema. `source_size`, of the learner's source, stands in for a size that is not declared.
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
    """Declared sizes, capped as `SIZE_INFLUENCE` says, for weighing sites against each other."""
    sizes = {name: card.round_size or source_size for name, card in cards.items()}
    limited = {}
    for name, size in sizes.items():
        rest = [other for key, other in sizes.items() if key != name]
        limited[name] = min(size, SIZE_INFLUENCE * int(max(source_size, median(rest) if rest else size)))
    return limited


def worth_keeping(groups: Sequence[tuple[list[str], float]]) -> list[str]:
    """Return the largest of nested groups that is worth at least 1 / `MOST_LOSS` of the best.

    `groups` are pairs (members, worth), largest first. Groups that leave out more curators than stay are skipped, so
    that one liar cannot exclude the others.
    """
    if not groups:
        return []
    eligible = [(group, worth) for group, worth in groups if 2 * len(group) >= len(groups[0][0])]
    best = max(worth for _, worth in eligible)
    return next(group for group, worth in eligible if MOST_LOSS * worth >= best)
