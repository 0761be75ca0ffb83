"""Can a card, or an answer, be true? What a learner can tell of one liar among several curators, and no more.

It is assumed that more curators are honest than not. What cannot be told is not tried: flipped labels, invented
records, a curator that declares ten times what the others do and answers accordingly. A reason is for people to read;
it is made of the cards and of noisy answers alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from protocol.errors import ConfigurationError, printable
from protocol.messages import Card
from protocol.schema import Schema

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
    others = ", ".join(largest[0][:5])
    return chosen, {
        name: f"its card describes {_listed(chosen.differences(card.schema))} differently from {others}"
        for name, card in cards.items()
        if name not in largest[0]
    }


def implausible_cards(cards: Mapping[str, Card], source_size: int) -> dict[str, str]:
    """Curators whose card cannot be true, or whose unit bound costs more than their records bring -> why.

    Noise is scaled to the largest unit bound c, so records N under a bound c bring N / c. Of the groups "all with a
    bound of at most b" the largest is kept that brings at least 1 / `MOST_LOSS` of what the best would; so nobody is
    left out where bounds are within a factor of `MOST_LOSS`, whatever the sizes, and never more than stay. A bound
    above the declared size needs no rule of its own: it costs much and brings little, unless the others' are as large.

    Args:
        cards: of one schema.
        source_size: of the learner's source; stands in for a size that is not declared.
    """
    reasons = {
        name: f"its card declares {card.round_size} records, and nobody holds more than {MOST_RECORDS}"
        for name, card in cards.items()
        if card.round_size is not None and card.round_size > MOST_RECORDS
    }
    left = {name: card for name, card in cards.items() if name not in reasons}
    sizes = weights(left, source_size)
    groups = []
    for bound in sorted({card.most_records_per_unit for card in left.values()}, reverse=True):
        group = [name for name, card in left.items() if card.most_records_per_unit <= bound]
        groups.append((group, sum(sizes[name] for name in group) / bound))
    kept = worth_keeping(groups)
    for name, card in left.items():
        if name not in kept:
            reasons[name] = (
                f"one unit may have {card.most_records_per_unit} records there, and all noise is scaled to the largest "
                "such bound: it costs the study more than its records bring"
            )
    return reasons


def weights(cards: Mapping[str, Card], source_size: int) -> dict[str, int]:
    """Declared sizes where sites are weighed against each other, see `SIZE_INFLUENCE`."""
    sizes = {name: card.round_size or source_size for name, card in cards.items()}
    found = {}
    for name, size in sizes.items():
        others = [other for key, other in sizes.items() if key != name]
        found[name] = min(size, SIZE_INFLUENCE * int(max(source_size, median(others) if others else size)))
    return found


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
