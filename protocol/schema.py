"""The schema of records: attributes, levels, bounds and label. The curator's steward writes it, and it is public."""

import math
import re
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import msgspec

from protocol.errors import printable
from protocol.mistakes import first_repeated

MOST_MAGNITUDE = 1e15
"""Largest magnitude of bounds, offsets and factors, so that no later product overflows."""

MOST_CLASSES = 256
"""Most classes: a class index fits one byte."""

MISSING_TEXTS = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null")
"""Texts that mean a missing value in every column, letter by letter. A schema declares others: `missing`."""
LATER_MISSING_TEXTS = ("N/A", "n/a")
"""Of these, what cards and models of earlier versions may have as a level; there it still is one."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Description = Annotated[str, msgspec.Meta(max_length=2000)]
Units = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Day = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
MOST_SENTINELS = 100
"""Most values of an attribute that may be declared missing."""


def day_number(text: str) -> int | None:
    """Days from 1970-01-01 to a day that is written as 2015-01-31, before it negative; None if the text is no day."""
    match = _DAY.match(text)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (year and 1 <= month <= 12 and 1 <= day <= lengths[month - 1]):
        return None
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + sum(lengths[: month - 1]) + day - 1 - EPOCH


EPOCH = 719_162
"""Days from 0001-01-01 to 1970-01-01, by today's calendar, which ISO 8601 extends to the past."""
FIRST_DAY, LAST_DAY = -EPOCH, 2_932_896
"""Numbers of 0001-01-01 and 9999-12-31, of `day_number`."""


class NumericAttribute(msgspec.Struct, frozen=True, tag="numeric", tag_field="kind", forbid_unknown_fields=True):
    """A number with public bounds. Values outside them are moved to the nearer bound, missing ones excepted."""

    name: Name
    lower: float
    upper: float
    description: Description = ""
    units: Units | msgspec.UnsetType = msgspec.UNSET  # unit of measurement
    # The column holds dates, and the value is the number of days since this one, with a fraction for the time of day.
    days_since: Day | msgspec.UnsetType = msgspec.UNSET
    # Sentinels, which mean missing, within the bounds or not: numbers, or texts that are no number; of dates, texts.
    missing: Annotated[tuple[float | Name, ...], msgspec.Meta(min_length=1, max_length=MOST_SENTINELS)] | (
        msgspec.UnsetType
    ) = msgspec.UNSET

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "lower", float(self.lower))
        msgspec.structs.force_setattr(self, "upper", float(self.upper))
        finite = math.isfinite(self.lower) and math.isfinite(self.upper)
        if not finite or max(abs(self.lower), abs(self.upper)) > MOST_MAGNITUDE or self.lower >= self.upper:
            raise ValueError(f"attribute {self.name!r} needs lower < upper, both within +-{MOST_MAGNITUDE:g}")
        where = f"attribute {self.name!r}"
        if self.days_since:
            if self.units:
                raise ValueError(f"{where} counts days, since it has days_since; take units out")
            start = day_number(self.days_since)
            if start is None:
                raise ValueError(f"{where}: days_since must be a day of the calendar, such as 2015-01-31")
            if self.lower < FIRST_DAY - start or self.upper > LAST_DAY - start:
                raise ValueError(f"{where}: lower and upper are days since {self.days_since}, in the years 1 to 9999")
        _check_units(self.units, f"{where}: units")
        if self.missing:
            sentinels = tuple(item if isinstance(item, str) else float(item) for item in self.missing)
            _check_sentinels(sentinels, f"{where}: missing", numbers=True, dates=bool(self.days_since))
            msgspec.structs.force_setattr(self, "missing", sentinels)

    @property
    def measure(self) -> str:
        """What the value is counted in, for people, such as "mm Hg" or "days since 2015-01-01"; "" if not declared."""
        return f"days since {self.days_since}" if self.days_since else self.units or ""

    def allows(self, sentinel: float | str) -> bool:
        """Whether a sentinel lies within the bounds, so that elsewhere it may be a value."""
        if isinstance(sentinel, str):
            start, day = day_number(self.days_since or ""), day_number(sentinel[:10])
            return start is not None and day is not None and self.lower <= day - start <= self.upper
        return self.lower <= sentinel <= self.upper


class CategoricalAttribute(
    msgspec.Struct, frozen=True, tag="categorical", tag_field="kind", forbid_unknown_fields=True
):
    """One of a few declared levels; any other value counts as "other", missing ones excepted."""

    name: Name
    levels: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=1000)]
    description: Description = ""
    # sentinels: further texts that mean missing
    missing: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MOST_SENTINELS)] | (
        msgspec.UnsetType
    ) = msgspec.UNSET

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError(
                f"attribute {self.name!r} declares the level {first_repeated(self.levels)!r} twice; write it once"
            )
        check_texts(self.levels, f"attribute {self.name!r}: level", LATER_MISSING_TEXTS)
        if self.missing:
            where = f"attribute {self.name!r}: missing"
            _check_sentinels(self.missing, where)
            levels = [text for text in self.missing if text in self.levels]
            if levels:
                raise ValueError(f"{where}: {levels[0]!r} is also a level; it can be one of them")


Attribute = NumericAttribute | CategoricalAttribute

MOST_OUTCOMES = 100
"""Most outcomes of a schema."""
MOST_BINS = 1_000
"""Most bins of a time to an event."""


class TimeToEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long each record was followed, and what ended that: an event of some cause, or censoring.

    Times count from a public origin, such as the day of the diagnosis. Bin j of `ends` holds the times t with
    end[j-1] < t <= end[j]; the first one holds 0, too. Times after the last end, the horizon, are censored there.
    """

    time: Name  # a numeric outcome: when the record left, by an event or censored
    event: Name  # the label, or a categorical outcome: why it left
    censored: Name  # level of `event` that means that nothing had happened by then; all other levels are causes
    entry: Name | None = None  # a numeric outcome: when the record came under observation; None: at time 0
    # Ends of the bins in the unit of `time`, rising, above 0, the horizon last. Or
    edges: Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_BINS)] = ()
    bins: Annotated[int, msgspec.Meta(ge=1, le=MOST_BINS)] | None = None  # number of bins of equal width
    horizon: float | None = None  # end of the last bin

    def __post_init__(self) -> None:
        where = "time_to_event"
        msgspec.structs.force_setattr(self, "edges", tuple(map(float, self.edges)))
        if self.horizon is not None:
            msgspec.structs.force_setattr(self, "horizon", float(self.horizon))
        if bool(self.edges) == (self.bins is not None):
            raise ValueError(f"{where} needs either edges or bins, one of the two: the public ends of its bins")
        if self.bins is not None and self.horizon is None:
            raise ValueError(f"{where}: bins need a horizon, the end of the last one")
        ends = self.ends
        if not all(map(math.isfinite, ends)) or ends[0] <= 0 or any(b <= a for a, b in pairwise(ends)):
            raise ValueError(f"{where}: ends of bins must be finite and strictly increasing, the first above 0")
        if self.horizon is not None and ends[-1] != self.horizon:
            beyond = "do not reach the horizon" if ends[-1] < self.horizon else "reach beyond the horizon"
            raise ValueError(f"{where}: the bins end at {ends[-1]:g} and {beyond}, {self.horizon:g}; end them there")
        names = [name for name in (self.time, self.event, self.entry) if name is not None]
        if len(set(names)) != len(names):
            raise ValueError(f"{where}: time, event and entry must be different columns")

    @property
    def ends(self) -> tuple[float, ...]:
        """Ends of the bins, rising, above 0; the last one is the horizon."""
        if self.bins is None:
            return self.edges
        horizon = self.horizon or 0.0
        return (*(horizon * number / self.bins for number in range(1, self.bins)), horizon)


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The attributes of a record and its label: a class, or a number."""

    # in order; names are unique and differ from the label's
    attributes: Annotated[tuple[Attribute, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    label: Name  # name of the label column
    # 2 to 256 class names, class 0 first; of two, the second is the positive one. Empty for a number.
    classes: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_CLASSES)] = ()
    # (lower, upper) of a label that is a number; labels outside move to the nearer bound. None for classes.
    label_bounds: tuple[float, float] | None = None
    label_units: Units | None = None  # unit of measurement of a label that is a number
    # Further columns that tables count, and that no hypothesis, feature map or source reads; their names differ from
    # all of the above.
    outcomes: Annotated[tuple[Attribute, ...], msgspec.Meta(max_length=MOST_OUTCOMES)] = ()
    time_to_event: TimeToEvent | None = None  # which of them are a time and its event

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) != len(names):
            raise ValueError(
                f"two attributes have the same name, {first_repeated(names)!r}; each column is declared once"
            )
        all_names = names + [outcome.name for outcome in self.outcomes]
        if len(set(all_names)) != len(all_names):
            raise ValueError(
                f"two attributes or outcomes have the same name, {first_repeated(all_names)!r}; each column is "
                "declared once, as one of them"
            )
        if self.label in all_names[len(names) :]:
            raise ValueError(f"the label {self.label!r} is also listed as an outcome; take it out of the outcomes")
        if self.label in names:
            raise ValueError(f"the label {self.label!r} is also listed as an attribute; take it out of the attributes")
        if bool(self.classes) == (self.label_bounds is not None):
            raise ValueError("a label needs either classes or label_bounds, one of the two")
        if self.label_bounds is not None:
            # As a numeric attribute's: finite, rising, within what no later product overflows.
            bounds = NumericAttribute(self.label, *self.label_bounds)
            msgspec.structs.force_setattr(self, "label_bounds", (bounds.lower, bounds.upper))
        elif len(self.classes) < 2:
            raise ValueError("classes must name at least two")
        if self.label_units is not None and self.label_bounds is None:
            raise ValueError("label_units are of a label that is a number; take them out, or write label_bounds")
        _check_units(self.label_units, "label_units")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"two classes have the same name, {first_repeated(self.classes)!r}; write it once")
        check_texts(self.classes, "class", LATER_MISSING_TEXTS)
        if self.time_to_event is not None:
            self._check_time_to_event(self.time_to_event)

    def _check_time_to_event(self, spec: TimeToEvent) -> None:
        where = "time_to_event"
        for key, name in (("time", spec.time), ("entry", spec.entry)):
            if name is None:
                continue
            outcome = self._outcome_by_name.get(name)
            if not isinstance(outcome, NumericAttribute):
                problem = f"{where}: {key} must name a numeric outcome, and {name!r} is none; declare it so"
                raise ValueError(problem)  # noqa: TRY004 - msgspec wants a ValueError
            if outcome.lower < 0:
                raise ValueError(f"{where}: a time is never negative; declare {name!r} with lower = 0")
            if outcome.upper <= spec.ends[-1] and key == "time":
                # A later event would move to the bound and count as one within the last bin.
                raise ValueError(
                    f"{where}: {name!r} counts up to {outcome.upper:g}, not beyond the horizon {spec.ends[-1]:g}; "
                    "raise its upper bound, or lower the horizon"
                )
        if spec.event == self.label:
            event: Attribute | None = self.variable(self.label)
        else:
            event = self._outcome_by_name.get(spec.event)
        if not isinstance(event, CategoricalAttribute):
            problem = f"{where}: event must name a categorical outcome or a label of classes; {spec.event!r} is neither"
            raise ValueError(problem)  # noqa: TRY004 - msgspec wants a ValueError
        if spec.censored not in event.levels:
            raise ValueError(
                f"{where}: censored must be a level of {spec.event!r}, and {spec.censored!r} is not declared; its "
                f"levels are {', '.join(map(repr, event.levels[:20]))}"
            )
        if len(event.levels) < 2:
            raise ValueError(f"{where}: {spec.event!r} has no level but the censored one; declare a cause")

    def find(self, name: str) -> Attribute | None:
        """The attribute of that name, or None. Outcomes and label are none."""
        return self._by_name.get(name)

    def variable(self, name: str) -> Attribute | None:
        """What tables count by that name: an attribute, an outcome, or the label; None if there is none.

        The label is returned as a categorical attribute whose levels are its classes, or as a numeric one.
        """
        if name != self.label:
            return self.find(name) or self._outcome_by_name.get(name)
        if self.label_bounds is None:
            return CategoricalAttribute(self.label, self.classes)
        return NumericAttribute(self.label, *self.label_bounds, units=self.label_units or msgspec.UNSET)

    @property
    def causes(self) -> tuple[str, ...]:
        """Levels of the event that are not the censored one, in order; () without a time to an event."""
        spec = self.time_to_event
        event = None if spec is None else self.variable(spec.event)
        if spec is None or not isinstance(event, CategoricalAttribute):
            return ()
        return tuple(level for level in event.levels if level != spec.censored)

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def _outcome_by_name(self) -> dict[str, Attribute]:
        return {outcome.name: outcome for outcome in self.outcomes}

    @cached_property
    def level_codes(self) -> dict[str, dict[str, int]]:
        """The code of each declared level of each categorical attribute. The table is made once."""
        return {
            attribute.name: {level: code for code, level in enumerate(attribute.levels)}
            for attribute in self.attributes
            if isinstance(attribute, CategoricalAttribute)
        }

    def measure(self, name: str) -> str:
        """What an attribute, an outcome or the label is counted in, such as "mm Hg"; "" if that is not declared."""
        if name == self.label:
            return self.label_units or ""
        attribute = self.variable(name)
        return attribute.measure if isinstance(attribute, NumericAttribute) else ""

    def differences(self, other: "Schema") -> list[str]:
        """Names whose meaning differs between the two schemas; empty if none does.

        Descriptions do not count. Sentinels do not either: they say how one site writes a missing value.
        """
        names: list[str] = []
        for key in ("attributes", "outcomes"):
            mine, theirs = ({a.name: meaning(a) for a in getattr(s, key)} for s in (self, other))
            names += [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        names = list(dict.fromkeys(names))
        if self.time_to_event != other.time_to_event:
            names.append("time_to_event")
        if any(getattr(self, key) != getattr(other, key) for key in _LABEL_KEYS):
            names.append(self.label)
        return names

    def differences_in_words(self, other: "Schema") -> tuple[str, str]:
        """The first five names of `differences`, with both units where these differ; then what to do about units.

        Either schema may come from a peer: the texts are made printable.
        """
        names = self.differences(other)
        texts, advice = [], ""
        for name in names:
            text = repr(printable(name, 50))
            units = self.measure(name), other.measure(name)
            if self.declares(name) and other.declares(name) and units[0] != units[1]:
                first, second = (repr(printable(unit, 50)) if unit else "no units" for unit in units)
                text += f" (in {first}, not {second})"
                advice = "values in different units are never pooled: the stewards agree on one, letter by letter"
            texts.append(text)
        return ", ".join(texts[:5]), f"; {advice}, and convert" if advice else ""

    def declares(self, name: str) -> bool:
        """Whether the name is an attribute's, an outcome's or the label's."""
        return self.variable(name) is not None


_LABEL_KEYS = ("label", "classes", "label_bounds", "label_units")


def meaning(attribute: Attribute) -> Attribute:
    """The attribute without its description and sentinels, which mean nothing for an encoded value."""
    return msgspec.structs.replace(attribute, description="", missing=msgspec.UNSET)


def check_texts(texts: tuple[str, ...], field: str, allowed: tuple[str, ...] = ()) -> None:
    """Raise ValueError for a text that no record can match: records' texts are trimmed, and some mean missing.

    `allowed` are texts that mean missing unless they are declared.
    """
    for text in texts:
        if text != text.strip():
            raise ValueError(f"{field} {text!r} can never occur, as it has outer spaces; take them out")
        if text in MISSING_TEXTS and text not in allowed:
            raise ValueError(
                f"{field} {text!r} can never occur, as this text means a missing value; take it out, or write another "
                "text for it in the schema and in the records"
            )


def _check_units(units: str | msgspec.UnsetType | None, field: str) -> None:
    if units and (units != units.strip() or not units.isprintable()):
        raise ValueError(f"{field} must be printable, without outer spaces; write them as on a form, such as mm Hg")


def _check_sentinels(
    sentinels: tuple[float | str, ...], field: str, *, numbers: bool = False, dates: bool = False
) -> None:
    """Raise ValueError for a sentinel that no record can match, or that stands twice."""
    if len(set(sentinels)) != len(sentinels):
        twice = next(item for item in sentinels if sentinels.count(item) > 1)
        raise ValueError(f"{field} names {twice!r} twice; write it once")
    for item in sentinels:
        if isinstance(item, str):
            if item != item.strip():
                raise ValueError(f"{field}: {item!r} can never occur, as it has outer spaces; take them out")
            number = None if dates or not numbers or item in MISSING_TEXTS else number_in(item)
            if number is not None and math.isfinite(number):
                raise ValueError(f"{field}: the column holds numbers; write {item} without quotes")
        elif dates:
            raise ValueError(f"{field}: the column holds dates, not numbers; write a date such as 1900-01-01")
        else:
            number = item
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{field} must hold finite numbers; NaN is missing in any case, and infinity is an error")


def number_in(text: str) -> float | None:
    """The number that records have in a text, NaN and infinity among them; None if it is a word to their reader.

    Python alone reads digits of other scripts and underscores.
    """
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None
