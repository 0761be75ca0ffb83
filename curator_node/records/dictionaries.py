"""Reads a data dictionary: a table with one row for each column of some records, which says what the column means.

Two forms are told apart by their columns: the data dictionary that REDCap exports (with the headings of its page or of
its API), and a plain table with a column of names beside others that are recognised by their usual headings. A
dictionary is public. What it says is taken at its word, and what is not understood stays open.
"""

import csv
import datetime as dt
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from expril.files import read_text_file
from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated
from protocol.schema import MISSING_TEXTS, MOST_MAGNITUDE

Bound = float | dt.date
Kind = Literal["numeric", "categorical", "date", ""]
"""Of a column; "" is not known."""
Role = Literal["label", "unit", "record", ""]
"""Of a column that is no attribute; "record" is REDCap's number of a record."""


@dataclass(frozen=True)
class Entry:
    """What is known of one column before anybody looks into it."""

    name: str
    kind: Kind = ""
    levels: tuple[str, ...] = ()  # as the records have them; empty if not known
    meanings: Mapping[str, str] = field(default_factory=dict)  # level -> what it stands for
    lower: Bound | None = None  # None is not known
    upper: Bound | None = None
    units: str = ""
    likely_units: str = ""  # a text that may be the units, or a remark
    description: str = ""
    missing: tuple[str, ...] = ()  # texts that stand for a missing value
    role: Role = ""
    left_out: str = ""  # why it is no attribute; "" if it is one
    notes: tuple[str, ...] = ()  # what a person should look at, in words


@dataclass(frozen=True)
class Dictionary:
    """A data dictionary."""

    form: Literal["REDCap", "plain"]
    entries: tuple[Entry, ...]  # in order; names differ
    unused: tuple[str, ...] = ()  # headings of columns that say nothing to us

    def find(self, name: str) -> Entry | None:
        """The entry of a column of the records; letters' case counts only where two entries differ in nothing else."""
        near = self._by_name.get(name) or self._by_folded_name.get(name.casefold(), [])
        return replace(near[0], name=name) if len(near) == 1 else None

    @cached_property
    def _by_name(self) -> dict[str, list[Entry]]:
        return {entry.name: [entry] for entry in self.entries}

    @cached_property
    def _by_folded_name(self) -> dict[str, list[Entry]]:
        table: dict[str, list[Entry]] = {}
        for entry in self.entries:
            table.setdefault(entry.name.casefold(), []).append(entry)
        return table


def read_dictionary(path: Path, columns: Collection[str] = ()) -> Dictionary:
    """Read a data dictionary: CSV in UTF-8, separated by commas, semicolons or tabs; cells may hold line breaks.

    Args:
        path: of the file.
        columns: names of the records' columns. Of a plain table whose column of names has none of them, another column
            that has some is taken for it.

    Raises:
        ConfigurationError: there is no such file, it is no such table, no column gives the names, or two rows are about
            one name.
    """
    if path.suffix.lower() in (".xlsx", ".xls", ".ods") and path.is_file():
        raise ConfigurationError(f'the data dictionary {path} is a workbook; save its sheet as "CSV UTF-8"')
    text = read_text_file(path, "data dictionary").lstrip("\r\n\ufeff")
    heading, *rows = _cells(text, path) or [[]]
    keys = [_key(title) for title in heading]
    table = [_row(keys, cells) for cells in rows]
    if "field_type" in keys and _REDCAP_NAMES & {*keys} and _REDCAP_MARKS & {*keys}:
        entries, used = _read_redcap(table), _REDCAP_USED
        form: Literal["REDCap", "plain"] = "REDCap"
    else:
        headings = _recognised(keys)
        headings |= {"name": _name_heading(table, headings.get("name", []), columns)}
        if not headings["name"]:
            raise ConfigurationError(
                f"the data dictionary {path} has no column of names; head it with name or variable, and give each "
                "column of the records a row"
            )
        entries, used, form = (
            _read_plain(table, headings),
            {key for names in headings.values() for key in names},
            "plain",
        )
    named = tuple(entry for entry in entries if entry.name)
    if not named:
        raise ConfigurationError(f"the data dictionary {path} names no column; give each column of the records a row")
    names = {name.casefold() for name in columns}
    twice = first_repeated(entry.name for entry in named if not names or entry.name.casefold() in names)
    if twice:
        raise ConfigurationError(
            f"the data dictionary {path} has two rows about {twice!r}; give each column of the records one row, with "
            "all of its levels in one cell"
        )
    unused = tuple(title.strip() for title, key in zip(heading, keys, strict=True) if key and key not in used)
    return Dictionary(form, tuple({entry.name: entry for entry in reversed(named)}.values())[::-1], unused)


def _cells(text: str, path: Path) -> list[list[str]]:
    """The rows that are not blank, without outer spaces."""
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator))
    except csv.Error:
        raise ConfigurationError(
            f"the data dictionary {path} cannot be read as csv: a field is broken, or very long; export it again"
        ) from None
    return [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]


def _row(keys: list[str], cells: list[str]) -> dict[str, str]:
    """One row by headings. Levels may go on in the cells after theirs, under no heading, as in dbGaP's dictionaries."""
    row: dict[str, str] = {}
    last = ""
    for key, cell in zip_longest(keys, cells, fillvalue=""):
        last = key or last
        if key:
            row.setdefault(key, cell)
        elif cell and last in _HEADINGS["levels"]:
            row[last] += f"\n{cell}"
    return row


def _key(title: str) -> str:
    """A heading as it is looked up: small letters, digits, and underscores for all else."""
    return re.sub(r"[\W_]+", "_", title.casefold()).strip("_")


# --- a plain table -------------------------------------------------------------------------------------------------

_HEADINGS = {
    "name": (
        *("name", "variable", "variable_name", "varname", "var_name", "var", "column", "column_name", "field"),
        *("field_name", "attribute", "attribute_name", "feature", "data_element", "element_name", "elementname"),
        *("column_or_row_name", "sas_name", "variable_id"),
    ),
    "kind": (
        *("kind", "type", "data_type", "datatype", "dtype", "variable_type", "value_type", "valuetype", "field_type"),
        *("class", "measurement_level", "level_of_measurement", "scale", "role"),
    ),
    "levels": (
        *("levels", "codes", "choices", "categories", "coded_values", "value_labels", "codes_and_labels", "coding"),
        *("values_and_labels", "permissible_values", "permitted_values", "allowed_values", "possible_values"),
        *("response_options", "options", "enumeration", "enum", "values", "range", "valid_range", "value_range"),
        *("valuerange", "allowed_range", "range_categories"),
    ),
    "lower": ("lower", "lower_bound", "lower_limit", "min", "minimum", "min_value", "minimum_value", "logical_min"),
    "upper": ("upper", "upper_bound", "upper_limit", "max", "maximum", "max_value", "maximum_value", "logical_max"),
    "units": ("units", "unit", "unit_of_measurement", "units_of_measurement", "unit_of_measure", "measurement_unit"),
    "description": (
        *("label", "variable_label", "title", "long_name", "column_or_row_long_name", "description", "definition"),
        *("variable_description", "vardesc", "field_label", "meaning", "question", "desc", "explanation", "sas_label"),
        *("elementdescription", "english_text"),
    ),
    "missing": (
        *("missing", "missing_values", "missing_codes", "missing_code", "missing_value", "missing_value_codes"),
        *("codes_for_missing_data", "na_values", "null_values", "na", "no_data_value", "nodatavalue", "sentinel"),
    ),
    "role": ("role", "usage", "use"),
    "identifier": ("identifier", "identifying", "direct_identifier", "phi", "pii", "personal"),
}
"""What a column of the table says -> the headings it goes by, the likelier first."""

_SEVERAL = ("kind", "levels", "description")
"""Of these a table may have several columns, such as a code book's kind beside a database's type."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        (
            *("numeric", "number", "numerical", "num", "integer", "int", "int64", "int32", "bigint", "smallint"),
            *("float", "float64", "float32", "double", "decimal", "real", "continuous", "count", "quantitative"),
            *("interval", "ratio", "discrete", "percent", "percentage"),
        ),
        "numeric",
    ),
    **dict.fromkeys(
        (
            *("categorical", "category", "categorial", "factor", "nominal", "ordinal", "enum", "enumeration", "coded"),
            *("binary", "boolean", "bool", "logical", "dichotomous", "encoded_value", "categorical_single", "choice"),
            *("radio", "dropdown", "yesno", "truefalse", "text", "string", "str", "object", "character", "char"),
            *("varchar", "nvarchar", "utf8"),
        ),
        "categorical",
    ),
    **dict.fromkeys(("date", "datetime", "timestamp", "date_time", "datetime64"), "date"),
}
_NO_ATTRIBUTE = {
    **dict.fromkeys(("id", "identifier", "key", "primary_key", "uuid", "index"), "an identifier, says the dictionary"),
    **dict.fromkeys(("free_text", "freetext", "notes", "note", "memo", "comment", "comments"), "free text"),
    **dict.fromkeys(("time", "time_of_day"), "a time of day, for which there is no kind of attribute"),
    **dict.fromkeys(("file", "image", "blob", "binary_object", "compound"), "no single value"),
    "categorical_multiple": "several levels at a time; make a column for each",
}
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("label", "target", "outcome", "response", "dependent", "class", "endpoint"), "label"),
    **dict.fromkeys(("unit", "privacy_unit", "patient", "subject"), "unit"),
}
_YES = {"y", "yes", "true", "1", "x"}
_NO = {"", "n", "no", "false", "0", "none", "n_a", "na"}


def _recognised(keys: list[str]) -> dict[str, list[str]]:
    """What is said -> the headings that say it: one, but for `_SEVERAL`."""
    columns = {}
    for meaning, headings in _HEADINGS.items():
        present = [heading for heading in headings if heading in keys]
        if present:
            columns[meaning] = present if meaning in _SEVERAL else present[:1]
    return columns


def _name_heading(table: list[dict[str, str]], usual: list[str], columns: Collection[str]) -> list[str]:
    """The heading of the column of names: the usual one, unless another column has names of the records and it none."""
    names = {name.casefold() for name in columns}

    def hits(key: str) -> int:
        return sum(row.get(key, "").casefold() in names for row in table)

    best = max(table[0] if table else [], key=hits, default="")
    return usual if not best or not hits(best) or (usual and hits(usual[0])) else [best]


def _read_plain(table: list[dict[str, str]], headings: dict[str, list[str]]) -> list[Entry]:
    return [
        _plain_entry({meaning: _cell_text(meaning, row, keys) for meaning, keys in headings.items()}) for row in table
    ]


def _cell_text(meaning: str, row: dict[str, str], keys: list[str]) -> str:
    """What a row says, from the column that says it, or of several from those that say something."""
    texts = list(dict.fromkeys(text for key in keys if (text := row.get(key, ""))))
    if meaning == "kind":
        apt = (text for text in texts if _kind_in(text, bounded=False) or _key(text) in _NO_ATTRIBUTE)
        return next(apt, next((text for key in keys if key != "role" and (text := row.get(key, ""))), ""))
    if meaning == "levels":
        return next((text for text in texts if all(label for _, label in split_levels(text))), "".join(texts[:1]))
    return ": ".join(texts)


def _plain_entry(row: dict[str, str]) -> Entry:
    word = _key(row.get("kind", ""))
    entry = Entry(
        name=row.get("name", ""),
        kind=_kind_in(row.get("kind", ""), bounded=bool(row.get("lower") or row.get("upper"))),
        units="" if _key(row.get("units", "")) in _NO else row.get("units", ""),
        description=_one_line(row.get("description", "")),
        role=_ROLES.get(_key(row.get("role", "")), ""),
        left_out=_why_left_out(row, word),
    )
    if word and not entry.kind and not entry.left_out:
        entry = replace(entry, notes=(f"the dictionary gives the kind {_one_line(row['kind'])!r}",))
    entry = _with_missing(entry, row.get("missing", ""))
    entry = _with_bounds(entry, row.get("lower", ""), row.get("upper", ""))
    return _with_values(entry, row.get("levels", ""))


def _kind_in(text: str, *, bounded: bool) -> Kind:
    """The kind that a dictionary means; "integer, encoded value" is a code, unless bounds are given."""
    words = [re.sub(r"(?:_\d+)+$", "", _key(part)) for part in (text, *text.split(","))]
    kinds = [_KINDS[word] for word in words if word in _KINDS]
    if not kinds:  # such as "categorical int", or "numeric (mg/dl)"
        kinds = sorted((_KINDS[word] for word in _key(text).split("_") if word in _KINDS), reverse=True)
    if bounded and "numeric" in kinds:
        return "numeric"
    return kinds[-1] if kinds else ""


def _why_left_out(row: dict[str, str], word: str) -> str:
    role = _key(row.get("role", ""))
    if _key(row.get("identifier", "")) not in _NO or {"id", "identifier", "key"} & set(role.split("_")):
        return _NO_ATTRIBUTE["id"]
    if role in {"other", "ignore", "ignored", "unused", "none", "metadata", "provenance"}:
        return f"of the role {row['role']!r}, says the dictionary"
    return _NO_ATTRIBUTE.get(word, "")


def _with_missing(entry: Entry, text: str) -> Entry:
    """The entry with codes of missing values; "no" and "yes" only say whether there are any."""
    if _key(text) in _NO | (_YES - {"1"}):
        return entry
    codes = tuple(code for code, _ in split_levels(text) if code not in MISSING_TEXTS)
    return replace(entry, missing=tuple(dict.fromkeys(codes)))


def _with_values(entry: Entry, text: str) -> Entry:
    """The entry with what the cell of its values says: a range, or levels."""
    bounds = _RANGE.fullmatch(text)
    if bounds and entry.kind in ("numeric", "date", ""):
        if entry.lower is None and entry.upper is None:
            entry = _with_bounds(entry, bounds[1], bounds[2])
        return replace(entry, kind=entry.kind or ("numeric" if isinstance(entry.lower, float) else ""))
    levels = split_levels(text)
    if len(levels) == 1 and text.count("/") == 1 and entry.kind != "numeric":  # as in yes/no
        levels = split_levels(text.replace("/", ";"))
    if not levels:
        return replace(entry, kind=entry.kind or ("numeric" if isinstance(entry.lower, float) else ""))
    if entry.kind == "date":
        return replace(entry, notes=(*entry.notes, f"the dictionary gives the values {_one_line(text)!r}"))
    if entry.kind == "numeric":
        return _numeric_with_values(entry, levels, text)
    return with_levels(entry, levels)


def _numeric_with_values(entry: Entry, levels: list[tuple[str, str]], text: str) -> Entry:
    """A number whose values are listed: a code, if they are explained and no bounds are given; else still a number."""
    bounded = entry.lower is not None or entry.upper is not None
    if not bounded and len(levels) > 1 and all(meaning for _, meaning in levels):
        return with_levels(replace(entry, kind="categorical"), levels)
    numbers = [number for code, _ in levels if code not in entry.missing and (number := _number(code)) is not None]
    if not bounded and len(numbers) == len(levels) > 1 and min(numbers) < max(numbers):
        entry = replace(entry, lower=min(numbers), upper=max(numbers))
        return replace(entry, notes=(*entry.notes, "the dictionary lists the values; if they are codes: categorical"))
    return replace(entry, notes=(*entry.notes, f"the dictionary gives the values {_one_line(text)!r}"))


def with_levels(entry: Entry, levels: list[tuple[str, str]]) -> Entry:
    """The entry as a categorical one, without levels that mean missing."""
    codes = dict.fromkeys(code for code, _ in levels if code not in (*MISSING_TEXTS, *entry.missing))
    meanings = {code: meaning for code, meaning in levels if meaning and code in codes and meaning != code}
    doubtful = [code for code, meaning in meanings.items() if _UNSURE.search(meaning) or _UNSURE.fullmatch(code)]
    doubtful += [code for code in codes if code not in meanings and _UNSURE.fullmatch(code)]
    notes = entry.notes
    if doubtful and len(doubtful) < len(codes):
        listed = ", ".join(doubtful)
        notes = (*notes, f"if {listed} means a missing value, take it from the levels and declare it: missing = [...]")
    return replace(entry, kind="categorical", levels=tuple(codes), meanings=meanings, notes=notes)


_UNSURE = re.compile(
    r"unknown|missing|not (?:known|recorded|applicable|answered|done)|refused|don.t know", re.IGNORECASE
)
"""Meanings of a code that stands for no answer."""


def _with_bounds(entry: Entry, lower: str, upper: str) -> Entry:
    """The entry with bounds as the dictionary writes them; what is no number or date is told in a note."""
    bounds: list[Bound | None] = []
    notes = list(entry.notes)
    for key, text in (("lower", lower), ("upper", upper)):
        bound = _date(text) if entry.kind == "date" else _number(text)
        bounds.append(bound)
        if bound is None and _key(text) not in _NO:
            notes.append(f"the dictionary gives {_one_line(text)!r} for {key}")
    first, last = bounds
    if first is not None and last is not None and not first < last:  # type: ignore[operator]  # of one type
        notes.append(f"the dictionary gives bounds that do not rise: {lower} and {upper}")
        first = last = None
    return replace(entry, lower=first, upper=last, notes=tuple(notes))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) <= MOST_MAGNITUDE and "_" not in text else None


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text[:10])
    except ValueError:
        return None


_SIGNED = r"[-+−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DAY = r"\d{4}-\d{2}-\d{2}"
_RANGE = re.compile(rf"[\[(]?\s*({_DAY}|{_SIGNED})\s*(?:-|–|—|to|\.\.\.?|::|,|;)\s*({_DAY}|{_SIGNED})\s*[\])]?")
"""A range in one cell: 0-100, 0 to 100, [0, 100], 0..100. A list of two numbers reads the same."""
_CODED = re.compile(r"\s*([-+.\w]+)\s*[=:]\s*(.*)", re.DOTALL)


def split_levels(text: str) -> list[tuple[str, str]]:
    """Levels with their meanings ("" where none is given), from one cell of a dictionary.

    Levels are separated by line breaks, |, semicolons or commas: the first of these that occurs. A meaning follows its
    code after =, a colon, or, where bars or line breaks separate, a comma: ``1, male | 2, female``. Before a code with
    = or a colon also a slash separates. A list as Python prints it is read as well.
    """
    text = text.strip().removeprefix("[").removesuffix("]")
    if re.fullmatch(rf"(?:{_QUOTED}|nan|None|[\s,])+", text) and re.search(_QUOTED, text):
        return [(_one_line(item.strip(" \"'")), "") for item in re.findall(_QUOTED, text)]
    if _CODED.match(text):
        items = re.split(r"[,;/|\n](?=\s*[-+.\w]+\s*[=:])", text)  # a meaning may hold a comma
    else:
        separator = next((sign for sign in ("\n", "|", ";") if sign in text), ",")
        items = text.split(separator) if separator != "," else next(csv.reader([text], skipinitialspace=True), [])
    items = [stripped for item in items if (stripped := item.strip().strip("\"'").strip())]
    coded = [match for item in items if (match := _CODED.fullmatch(item))]
    if len(coded) == len(items):
        return [(match[1], _one_line(match[2])) for match in coded]
    pairs = [tuple(part.strip() for part in item.split(",", 1)) for item in items]
    if all(len(pair) == 2 and re.fullmatch(r"[-+.\w]+", pair[0]) for pair in pairs):
        return [(code, _one_line(meaning)) for code, meaning in pairs]
    return [(_one_line(item), "") for item in items]


_QUOTED = r"""(?:'[^']*'|"[^"]*")"""


def _one_line(text: str) -> str:
    """The text without mark-up, as one printable line."""
    plain = re.sub(r"<[a-zA-Z/!][^<>]*>", " ", text)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())


# --- REDCap --------------------------------------------------------------------------------------------------------

_REDCAP_NAMES = {"variable_field_name", "field_name"}
_CHOICES = ("choices_calculations_or_slider_labels", "select_choices_or_calculations", "choices_or_calculations")
_VALIDATION = "text_validation_type_or_show_slider_number"
_REDCAP_MARKS = {*_CHOICES, _VALIDATION}
_REDCAP_USED = {
    *_REDCAP_NAMES,
    *_REDCAP_MARKS,
    *(
        "field_type",
        "field_label",
        "field_note",
        "text_validation_min",
        "text_validation_max",
        "identifier",
        "form_name",
    ),
    # These say when and how a field is shown, and nothing of what it holds.
    *(
        "section_header",
        "branching_logic",
        "branching_logic_show_field_only_if",
        "required_field",
        "custom_alignment",
        "question_number",
    ),
    *("question_number_surveys_only", "matrix_group_name", "matrix_ranking", "field_annotation"),
}
_FREE = {"notes": "free text", "file": "a file", "descriptive": "no value, but a text on the form"}
_NUMBERS = re.compile(r"integer|number(?:_\ddp)?(?:_comma_decimal)?|int|float")
_DATES = re.compile(r"date(?:_(?:ymd|mdy|dmy))?|datetime(?:_seconds)?_(?:ymd|mdy|dmy)")
_UNITS = re.compile(r"[^\W\d][\w/%^.²³µ° -]{0,24}|%|°C|°F")
"""A field's note that may be its unit of measurement: a word or two, as in mm Hg or beats/min."""
_PERSONAL = re.compile(r"email|phone.*|zipcode|postalcode.*|ssn|.*mrn.*")


def _read_redcap(table: list[dict[str, str]]) -> list[Entry]:
    entries: list[Entry] = []
    for row in table:
        name = row.get("variable_field_name") or row.get("field_name", "")
        if name:
            entries += _redcap_entries(name, row, first=not entries)
    forms = dict.fromkeys(form for row in table if (form := row.get("form_name", "")))
    names = {entry.name for entry in entries}
    status = "REDCap's own: whether a form is complete"
    entries += [Entry(f"{form}_complete", left_out=status) for form in forms if f"{form}_complete" not in names]
    return entries


REDCAP_COLUMNS = re.compile(
    r"redcap_(?:event_name|repeat_instrument|repeat_instance|data_access_group|survey_identifier)|\w+_timestamp"
)
"""Columns that REDCap adds to an export, and that no dictionary names."""


def _redcap_entries(name: str, row: dict[str, str], *, first: bool) -> Iterator[Entry]:
    """The columns of one field: several of a checkbox, one of any other."""
    kind, validation = row.get("field_type", "").casefold(), row.get(_VALIDATION, "").casefold()
    choices = next((row[key] for key in _CHOICES if row.get(key)), "")
    note = _one_line(row.get("field_note", ""))
    description = _one_line(row.get("field_label", "")) + (f" ({note})" if note else "")
    entry = Entry(name, description=description, likely_units=note if _UNITS.fullmatch(note) else "")
    if row.get("identifier", "").casefold() in _YES:
        entry = replace(entry, left_out=_NO_ATTRIBUTE["id"])
    if first:
        entry = replace(entry, role="record", left_out="the number of the record, REDCap's first field")
    if kind == "checkbox":
        for code, meaning in _redcap_choices(choices):
            box = re.sub(r"\W", "_", code.casefold(), flags=re.ASCII)
            yield replace(
                entry,
                name=f"{name}___{box}",
                kind="categorical",
                levels=("0", "1"),
                meanings={"0": "not checked", "1": "checked"},
                description=f"{description}: {meaning}".strip(": "),
            )
        return
    bounds = (row.get("text_validation_min", ""), row.get("text_validation_max", ""))
    if "comma_decimal" in validation:
        bounds = (bounds[0].replace(",", "."), bounds[1].replace(",", "."))
        entry = replace(entry, notes=("the records have a decimal comma, which is not read; write points there",))
    yield _redcap_entry(entry, kind, validation, choices, bounds)


def _redcap_entry(entry: Entry, kind: str, validation: str, choices: str, bounds: tuple[str, str]) -> Entry:
    if kind in ("radio", "dropdown", "select"):
        return with_levels(replace(entry, kind="categorical"), _redcap_choices(choices))
    if kind in ("yesno", "truefalse"):
        no, yes = ("No", "Yes") if kind == "yesno" else ("False", "True")
        return with_levels(entry, [("0", no), ("1", yes)])
    if kind == "slider":
        ends = [end or usual for end, usual in zip(bounds, ("0", "100"), strict=True)]
        return _with_bounds(replace(entry, kind="numeric"), *ends)
    if kind == "calc":
        return replace(entry, kind="numeric", notes=("REDCap computes it",))
    if kind == "sql":
        return replace(entry, kind="categorical", notes=("REDCap takes its levels from a database",))
    if kind == "text" and _NUMBERS.fullmatch(validation):
        return _with_bounds(replace(entry, kind="numeric"), *bounds)
    if kind == "text" and _DATES.fullmatch(validation):
        return _with_bounds(replace(entry, kind="date"), *bounds)
    return replace(entry, left_out=entry.left_out or _why_redcap_leaves_out(kind, validation))


def _why_redcap_leaves_out(kind: str, validation: str) -> str:
    if kind != "text":
        return _FREE.get(kind, f"of a type that is not known here: {kind or 'none'}")
    if not validation:
        return "free text: it has no validation, such as number"
    if _PERSONAL.fullmatch(validation):
        return f"of the validation {validation}, which tells who somebody is"
    if validation.startswith("time"):
        return _NO_ATTRIBUTE["time"]
    return f"text of the validation {validation}"


def _redcap_choices(text: str) -> list[tuple[str, str]]:
    """Codes and labels: ``1, Male | 2, Female``; a label may hold commas, and each may stand on a line of its own."""
    pairs = [item.partition(",") for item in re.split(r"[|\n]", text)]
    return [(code.strip(), _one_line(label)) for code, _, label in pairs if code.strip()]
