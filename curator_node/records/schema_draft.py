"""Drafts a schema file from the columns of some records and their data dictionary, for a steward to finish.

What neither says is left as "?", which `read_schema_file` refuses. No value of a record is read, unless the records are
said to be public.
"""

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

from curator_node.records.dictionaries import REDCAP_COLUMNS, Dictionary, Entry, read_dictionary
from curator_node.records.files import read_columns, read_records
from curator_node.records.public_values import with_values
from curator_node.records.schema_file import OPEN
from protocol.errors import ConfigurationError
from protocol.mistakes import did_you_mean
from protocol.schema import MOST_CLASSES, MOST_SENTINELS, number_in

MOST_NAME, MOST_LEVELS, MOST_DESCRIPTION, MOST_UNITS = 200, 1000, 2000, 100
"""As the schema has them."""
FIRST_DAY = dt.date(2000, 1, 1)
"""From which dates are counted, unless the steward writes another day."""
_NEGATIVE = frozenset(
    {"0", "no", "n", "false", "negative", "absent", "alive", "survived", "none", "control", "healthy", "not checked"}
)
"""Classes, or meanings of them, that are the negative one."""


@dataclass(frozen=True)
class Draft:
    """A drafted schema file, and what is left to do."""

    text: str  # of the file, TOML
    attributes: tuple[str, ...]  # names, in the order of the records
    columns: int  # how many the records have
    need_kind: tuple[str, ...]
    need_bounds: tuple[str, ...]
    need_levels: tuple[str, ...]
    label_needs: str  # what is to be written about the label, in words; "" if nothing
    label_note: str  # what to look at, in words; "" if nothing
    unit_note: str  # the same, of the privacy unit
    left_out: dict[str, str]  # column of the records -> why it is no attribute
    undocumented: tuple[str, ...]  # columns that the dictionary does not name; they are left out
    absent: tuple[str, ...]  # of the dictionary, and not among the columns
    unused: tuple[str, ...]  # headings of the dictionary that say nothing here

    @property
    def finished(self) -> bool:
        """Whether nothing is left open."""
        return not (self.need_kind or self.need_bounds or self.need_levels or self.label_needs)


def draft_schema(
    records: Path,
    dictionary: Path | None = None,
    *,
    label: str | None = None,
    unit: str | None = None,
    public: bool = False,
) -> Draft:
    """Draft a schema file.

    Args:
        records: a CSV or Parquet file, or a source file (.toml) of a database. Of each, only the names of the columns
            are read, unless the records are public.
        dictionary: a data dictionary, as `read_dictionary` reads it.
        label: the label column; None takes the one that the dictionary calls so, or leaves it open.
        unit: the column of the privacy unit; None takes the one that the dictionary calls so, or none.
        public: the records are public: what the dictionary leaves open is taken from their values.

    Raises:
        ConfigurationError: as `read_columns`, `read_dictionary` and, where the records are public, `read_records`; no
            column has the name of the label or unit; or no column is left for an attribute.
    """
    columns = read_columns(records)
    book = None if dictionary is None else read_dictionary(dictionary, columns)
    entries = _entries(columns, book, dictionary)
    label = _role(entries, "label", label, records)
    unit = _role(entries, "unit", unit, records)
    if label is not None and label == unit:
        raise ConfigurationError(f"{label!r} cannot be both the label and the unit; name two columns")
    if public:
        frame = read_records(records)
        entries = [
            entry if entry.left_out or entry.name == unit else with_values(entry, frame[entry.name])
            for entry in entries
        ]
    entries = [_within_limits(entry) for entry in entries]
    of_label = next((replace(entry, left_out="") for entry in entries if entry.name == label), None)
    entries = [
        replace(entry, left_out="another outcome, says the dictionary")
        if entry.role == "label" and entry.name != label and not entry.left_out
        else entry
        for entry in entries
    ]
    attributes = [entry for entry in entries if not entry.left_out and entry.name not in (label, unit)]
    if not attributes:
        raise ConfigurationError(
            f"no column of {records} is left for an attribute; the dictionary leaves out every one"
        )
    left_out = {entry.name: entry.left_out for entry in entries if entry.left_out and entry.name not in (label, unit)}
    needs, note = _of_label(of_label)
    head = _head(records, dictionary, book, left_out, public=public)
    hint = next((entry.name for entry in entries if entry.role == "record"), "")
    lines = [*head, "", *_label_lines(of_label), "", *_unit_lines(unit, hint)]
    for entry in attributes:
        lines += ["", *_attribute_lines(entry)]
    names = {name.casefold() for name in columns}
    expected = () if book is None else (entry for entry in book.entries if not _comes_of_itself(entry))
    return Draft(
        text="\n".join(lines) + "\n",
        attributes=tuple(entry.name for entry in attributes),
        columns=len(columns),
        need_kind=tuple(entry.name for entry in attributes if not entry.kind),
        need_bounds=tuple(entry.name for entry in attributes if _lacks_bounds(entry)),
        need_levels=tuple(entry.name for entry in attributes if _lacks_levels(entry)),
        label_needs=needs,
        label_note=note,
        unit_note=_of_unit(unit, columns),
        left_out=left_out,
        undocumented=tuple(name for name, reason in left_out.items() if reason == _UNDOCUMENTED),
        absent=tuple(entry.name for entry in expected if entry.name.casefold() not in names),
        unused=() if book is None else book.unused,
    )


_UNDOCUMENTED = "not in the dictionary"


def _comes_of_itself(entry: Entry) -> bool:
    return entry.name.endswith("_complete") and entry.left_out.startswith("REDCap")


def _entries(columns: Sequence[str], book: Dictionary | None, path: Path | None) -> list[Entry]:
    """What is known of each column, in order."""
    entries = [_entry(name, place, book) for place, name in enumerate(columns, start=1)]
    if book is not None and all(entry.left_out in (_UNDOCUMENTED, "without a name") for entry in entries):
        # Not a name of either is quoted: the first line of a file without names is a record.
        raw = ", as in REDCap's export of raw data" if book.form == "REDCap" else ""
        raise ConfigurationError(
            f"none of the {len(columns)} columns is in the data dictionary {path}; check that it is the dictionary of "
            f"these records, and that their first line holds the names that it has{raw}"
        )
    return entries


def _entry(name: str, place: int, book: Dictionary | None) -> Entry:
    if not name.strip():
        return Entry(f"column {place}", left_out="without a name")
    if len(name) > MOST_NAME:
        return Entry(name, left_out=f"its name has more than {MOST_NAME} characters")
    if book is None:
        return Entry(name)
    entry = book.find(name)
    if entry is not None:
        return entry
    if book.form == "REDCap" and REDCAP_COLUMNS.fullmatch(name):
        return Entry(name, left_out="a column that REDCap adds to an export")
    return Entry(name, left_out=_UNDOCUMENTED)


def _role(entries: Iterable[Entry], role: str, name: str | None, records: Path) -> str | None:
    """The column of that role, named by the caller or by the dictionary."""
    if name is None:
        # What names patients is an identifier, so no attribute, and yet the unit.
        named = [entry.name for entry in entries if entry.role == role and (role == "unit" or not entry.left_out)]
        return named[0] if len(named) == 1 else None
    names = [entry.name for entry in entries]
    if name not in names:
        raise ConfigurationError(f"{records} has no column {name!r} for the {role}{did_you_mean(name, names)}")
    return name


def _within_limits(entry: Entry) -> Entry:
    """The entry as far as a schema can hold it."""
    units = entry.units if len(entry.units) <= MOST_UNITS and entry.units.isprintable() else ""
    entry = replace(entry, units=units, description=entry.description[:MOST_DESCRIPTION])
    levels = [level for level in entry.levels if len(level) <= MOST_NAME]
    if len(levels) > MOST_LEVELS:
        return replace(entry, levels=(), notes=(*entry.notes, f"more than {MOST_LEVELS} levels in the dictionary"))
    if len(levels) < len(entry.levels):
        return replace(entry, levels=(), notes=(*entry.notes, f"a level of more than {MOST_NAME} characters"))
    return entry


def _lacks_bounds(entry: Entry) -> bool:
    return entry.kind in ("numeric", "date") and (entry.lower is None or entry.upper is None)


def _lacks_levels(entry: Entry) -> bool:
    return entry.kind == "categorical" and not entry.levels


# --- the text ------------------------------------------------------------------------------------------------------


def _head(
    records: Path, dictionary: Path | None, book: Dictionary | None, left_out: dict[str, str], *, public: bool
) -> list[str]:
    """The comments that the file begins with."""
    source = f"the columns of {records.name}"
    if book is not None and dictionary is not None:
        form = "REDCap's data dictionary" if book.form == "REDCap" else "the data dictionary"
        source += f" and {form} {dictionary.name}"
    lines = [f"A schema drafted from {source}."]
    if public:
        lines += [
            "The records were said to be public: what is marked so was read from their values. Knowledge is better.",
        ]
    else:
        lines += [
            "No value of a record was read. Write what is open from knowledge - code book, devices, what a living",
            "patient can have - and never from the records.",
        ]
    lines += [
        'Put a number or a text for each "?". All but comments is published on the card. docs/steward/schema.md helps.'
    ]
    if left_out:
        lines += ["", "Columns that are left out, and why; to have one, write its [[attributes]] below:"]
        for reason in dict.fromkeys(left_out.values()):
            names = ", ".join(name for name, why in left_out.items() if why == reason)
            lines += wrap(f"{reason}: {names}", 100, initial_indent="  ", subsequent_indent="    ")
    return [_comment(line) for line in lines]


def _comment(text: str) -> str:
    """A comment of one line; what a reader or an editor would take for a line's end is a space."""
    return f"# {''.join(letter if letter.isprintable() else ' ' for letter in text)}".rstrip()


def _text(text: str) -> str:
    """A TOML string; TOML takes JSON's escapes, and wants DEL escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _long_list(key: str, items: Sequence[str]) -> str:
    """A key with a list, on several lines where it is long."""
    line = f"{key} = {_list(items)}"
    if len(line) <= _LINE:
        return line
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > _LINE:
            lines.append("")
        lines[-1] += f"  {item}," if not lines[-1] else f" {item},"
    return "\n".join([f"{key} = [", *lines, "]"])


_LINE = 110
"""Most characters of a line of levels."""


def _value(bound: float | dt.date | None) -> str:
    """A bound as TOML has it, or the sign of an open one."""
    if bound is None:
        return _text(OPEN)
    if isinstance(bound, dt.date):
        return bound.isoformat()
    return str(int(bound)) if bound.is_integer() else repr(bound)


def _of_label(entry: Entry | None) -> tuple[str, str]:
    """What is to be written about the label, and what to look at; both in words, or empty."""
    if entry is None:
        return (
            "the label is not named: use --label, or write it with classes or label_bounds, and drop its attribute",
            "",
        )
    if not entry.kind:
        return f"the label {entry.name!r} needs classes, or label_bounds if it is a number", ""
    if entry.kind == "date":
        return f"the label {entry.name!r} is a date, says the dictionary; a label is a class or a number", ""
    if entry.kind == "numeric":
        return (f"the label {entry.name!r} needs label_bounds", "") if _lacks_bounds(entry) else ("", "")
    if not 2 <= len(entry.levels) <= MOST_CLASSES:
        return f"the label {entry.name!r} needs classes", ""
    if len(entry.levels) > 2:
        return "", ""
    positive = _classes(entry)[-1]
    meaning = f" ({entry.meanings[positive]})" if positive in entry.meanings else ""
    return (
        "",
        f"{positive!r}{meaning} is taken for the positive class of {entry.name!r}; swap the two if it is the other",
    )


def _of_unit(unit: str | None, columns: Sequence[str]) -> str:
    """What to look at, in words, about the privacy unit; "" if nothing."""
    repeated = [name for name in columns if name in ("redcap_event_name", "redcap_repeat_instance")]
    if unit is not None or not repeated:
        return ""
    return f"the column {repeated[0]} says that a patient has several records; name the patient's column with --unit"


def _classes(entry: Entry) -> tuple[str, ...]:
    """The levels of a label; of two, the one that sounds negative comes first."""
    levels = entry.levels

    def negative(level: str) -> bool:
        return bool({level.casefold(), entry.meanings.get(level, level).casefold()} & _NEGATIVE)

    return levels[::-1] if len(levels) == 2 and negative(levels[1]) and not negative(levels[0]) else levels


def _label_lines(entry: Entry | None) -> Iterator[str]:
    if entry is None:
        yield f"label = {_text(OPEN)}  # the column to learn; take it from the attributes below"
        yield f"classes = {_list([_text(OPEN)] * 2)}  # or, if it is a number: label_bounds = [0, 100]"
        return
    yield from map(_comment, _explained(entry))
    yield f"label = {_text(entry.name)}"
    if entry.kind == "categorical" or not entry.kind:
        if 2 <= len(entry.levels) <= MOST_CLASSES:
            second = "  # the second is the positive class: swap the two if it is the other" * (len(entry.levels) == 2)
            yield _long_list("classes", [_text(level) for level in _classes(entry)]) + second
        else:
            number = "" if entry.kind else "; or, if it is a number: label_bounds = [0, 100]"
            yield f"classes = {_list([_text(OPEN)] * 2)}  # of two, the second is the positive class{number}"
        return
    numbers = [bound if isinstance(bound, float) else None for bound in (entry.lower, entry.upper)]
    yield f"label_bounds = {_list(map(_value, numbers))}"
    if entry.units:
        yield f"label_units = {_text(entry.units)}"


def _explained(entry: Entry) -> list[str]:
    """What is known of a column in words: of a label, whose description no key holds."""
    meanings = "; ".join(f"{level} = {meaning}" for level, meaning in entry.meanings.items())
    described = f"{entry.description} ({meanings})" if meanings and entry.description else entry.description or meanings
    return [*([described] if described else []), *entry.notes]


def _unit_lines(unit: str | None, hint: str) -> Iterator[str]:
    if unit is not None:
        yield f"unit = {_text(unit)}  # whose privacy is protected: all records with one value of this column"
        yield "most_records_per_unit = 1  # where a unit has more records, so many of them count"
    else:
        yield "# Whose privacy is protected, where a patient may have several records: the column that names patients."
        yield f"# unit = {_text(hint or 'patient')}"
        yield "# most_records_per_unit = 3"
    yield "# round_size = 5000  # a round figure from last year's report, never an exact count"


def _attribute_lines(entry: Entry) -> Iterator[str]:
    yield "[[attributes]]"
    yield f"name = {_text(entry.name)}"
    yield from map(_comment, entry.notes)
    if not entry.kind:
        yield f'kind = {_text(OPEN)}  # "numeric" with lower and upper, or "categorical" with levels'
        yield "# lower = 0"
        yield "# upper = 100"
        yield '# levels = ["no", "yes"]'
    elif entry.kind == "categorical":
        yield 'kind = "categorical"'
        yield _long_list("levels", [_text(level) for level in entry.levels or [OPEN]])
    else:
        yield 'kind = "numeric"'
        if entry.kind == "date":
            yield f"days_since = {FIRST_DAY.isoformat()}  # a date counts as the days since this one; bounds are dates"
        yield f"lower = {_value(entry.lower)}"
        yield f"upper = {_value(entry.upper)}"
        if entry.kind == "numeric" and (entry.units or entry.likely_units):
            yield f"units = {_text(entry.units)}" if entry.units else f"# units = {_text(entry.likely_units)}"
    sentinels = _sentinels(entry)
    if sentinels and entry.kind:
        yield f"missing = {_list(sentinels)}"
    description = _description(entry)
    if description:
        yield f"description = {_text(description)}"


def _sentinels(entry: Entry) -> list[str]:
    """Texts that mean missing, as the schema has them: of a numeric attribute, numbers where they are some."""
    texts = [text for text in dict.fromkeys(entry.missing) if 0 < len(text) <= MOST_NAME and text not in entry.levels]
    if entry.kind != "numeric":
        return [_text(text) for text in texts][:MOST_SENTINELS]
    numbers = [(text, number_in(text)) for text in texts]
    values = [
        _text(text) if number is None else _value(number)
        for text, number in numbers
        if number is None or math.isfinite(number)  # NaN is missing in any case, and infinity is refused in records
    ]
    return list(dict.fromkeys(values))[:MOST_SENTINELS]


def _description(entry: Entry) -> str:
    """The description with what the levels stand for; the latter only as far as it fits."""
    meanings = "; ".join(f"{level} = {meaning}" for level, meaning in entry.meanings.items())
    text = f"{entry.description} ({meanings})" if entry.description and meanings else entry.description or meanings
    return text if len(text) <= MOST_DESCRIPTION else entry.description
