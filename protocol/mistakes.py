"""Errors in files that people write, explained in words: which table, which key, and what to write there.

msgspec says "Expected `float`, got `str` - at `$.attributes[0].lower`". A person reads "attribute 'age': lower must be
a number, not text; write it without quotes". This module rewrites every message of msgspec about a user's file.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from protocol.shared_types import shared_type

Path = tuple[str | int, ...]
"""Keys and list indices, outermost first."""

_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a time",
    "date": "a date",
}
_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$?(?P<path>[^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_RANGE = re.compile(r"Expected `(?P<wanted>[^`]+)` (?P<sign>[<>]=?) (?P<bound>\S+)")
_LENGTH = re.compile(r"Expected `(?P<wanted>str|array|object)` of length (?P<sign>[<>]=) (?P<bound>\d+)")
_COUNT = re.compile(r"Expected `array` of length (?P<bound>\d+), got (?P<got>\d+)")
_PATTERN = re.compile(r"Expected `str` matching regex (?P<pattern>.*)", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_CHOICE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_SIGNS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_FORMS = {
    r"'^[0-9a-f]{64}\\Z'": "a public key, 64 hexadecimal digits in small letters",
    r"'^[0-9]{4}-[0-9]{2}-[0-9]{2}\\Z'": "a date, such as 2015-01-31",
    r"'^[^\\s/]+:[0-9]{1,5}\\Z'": '"host:port"',
}
"""What each regular expression stands for; the keys are as msgspec shows them."""


def first_repeated(names: Iterable[str]) -> str:
    """The first name that occurs a second time; "" if all names differ."""
    before: set[str] = set()
    for name in names:
        if name in before:
            return name
        before.add(name)
    return ""


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """A suggestion to append to an error, with the nearest of `words`; "" if none is near."""
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def in_words(error: msgspec.ValidationError, data: Any, kind: Any) -> str:
    """Explain msgspec's error about `data`, which is not of type `kind`: the place, and what to write there."""
    match = _PLACE.search(str(error))
    text = str(error)[: match.start()] if match else str(error)
    path, kind = _walk(_STEP.findall(match["path"]) if match else [], data, kind)
    sentence = _sentence(text, path, data, kind)
    if sentence is None:  # of a struct's own check
        place = where_is(path, data)
        return text if not place or text.startswith(place) else f"{place}: {text}"
    if match and match["key"]:
        return f"{_join(where_is(path, data), 'a name in it')} {sentence}"
    if text.startswith("Object missing"):
        place = "" if sentence.startswith("the table") else where_is(path, data)
        return f"{place}: {sentence}" if place else sentence
    place, name = where_is(path[:-1], data), where_is(path, data)
    key = name.removeprefix(place).removeprefix(": ").removeprefix(", ").removeprefix(".")
    return f"{_join(place, key)} {sentence}" if key else f"it {sentence}"


def where_is(path: Sequence[str | int], data: Any) -> str:
    """Describe a place in a file: "attribute 'age'", "data.sites", "learner 'ada', options"; "" for the whole file."""
    words: list[str] = []
    keys: list[str] = []
    for step in path:
        data = _inside(data, step)
        if isinstance(step, str):
            keys.append(step)
            continue
        last = keys.pop() if keys else "item"
        words += [".".join(keys)] * bool(keys)
        words.append(_item(last, step, data))
        keys = []
    return ", ".join([*words, *[".".join(keys)] * bool(keys)])


def options_of(kind: Any) -> list[Any]:
    """The members of a union, without annotations; only `kind` itself if it is no union."""
    if get_origin(kind) is Annotated:
        return options_of(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [option for member in get_args(kind) for option in options_of(member)]
    return [kind]


def structs_of(kind: Any) -> list[type[msgspec.Struct]]:
    """The structs among the members of a union."""
    return [option for option in options_of(kind) if isinstance(option, type) and issubclass(option, msgspec.Struct)]


def _item(plural: str, number: int, data: Any) -> str:
    """Name an item of a list: by its "name" key if it has one, else by its number."""
    if not isinstance(data, dict):
        return f"{plural}, item {number + 1}"
    singular = plural[:-2] if plural.endswith("sses") else plural.removesuffix("s")
    name = data.get("name")
    return f"{singular} {name!r}" if isinstance(name, str) and name else f"{singular} number {number + 1}"


def _join(place: str, name: str) -> str:
    return f"{place}: {name}" if place else name


def _inside(data: Any, step: str | int) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _walk(steps: list[tuple[str, str]], data: Any, kind: Any) -> tuple[Path, Any]:
    """The full path of msgspec's error, with the table's key in place of its [...], and the type expected there."""
    path: list[str | int] = []
    for name, number in steps:
        if name:
            tags = [option for option in structs_of(kind) if _tagged(option, data)] or structs_of(kind)
            fields = {field.encode_name: field.type for option in tags for field in msgspec.structs.fields(option)}
            step: str | int = name
            kind = fields.get(name, Any)
        elif number == "...":
            kind = next((get_args(option)[1] for option in options_of(kind) if get_origin(option) is dict), Any)
            step = next((key for key, item in (data or {}).items() if not _converts(item, kind)), "")
        else:
            step = int(number)
            inner = next((get_args(option) for option in options_of(kind) if get_origin(option) in (list, tuple)), ())
            kind = inner[min(step, len(inner) - 1)] if inner and inner[-1] is not ... else (inner or (Any,))[0]
        path.append(step)
        data = _inside(data, step)
    return tuple(path), kind


def _tagged(struct: type[msgspec.Struct], data: Any) -> bool:
    tag = struct.__struct_config__.tag_field
    return bool(tag) and _inside(data, str(tag)) == struct.__struct_config__.tag


def _converts(item: Any, kind: Any) -> bool:
    try:
        msgspec.convert(item, shared_type(kind), strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _sentence(text: str, path: Path, data: Any, kind: Any) -> str | None:
    """Rewrite msgspec's sentence as words that follow a key's name; None if ExPriL wrote the sentence itself."""
    if match := _TYPE.fullmatch(text):
        return _of_type(match["wanted"].split(" | "), match["got"], path)
    if match := _RANGE.fullmatch(text):
        bound = match["bound"].removesuffix(".0")
        return f"must be {_WORDS.get(match['wanted'], match['wanted'])}, {_SIGNS[match['sign']]} {bound}"
    if match := _LENGTH.fullmatch(text):
        return _of_length(match["wanted"], match["sign"], int(match["bound"]))
    if match := _COUNT.fullmatch(text):
        return f"must be a list of {match['bound']}, not of {match['got']}"
    if match := _PATTERN.fullmatch(text):
        return f"must be {_FORMS.get(match['pattern'], 'of the form ' + match['pattern'])}"
    if match := _MISSING.fullmatch(text):
        return _of_missing(match["name"], path, kind)
    if match := _CHOICE.fullmatch(text):
        choices = [
            str(word) for option in options_of(kind) if get_origin(option) is Literal for word in get_args(option)
        ]
        value = _value(data, path)
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        return f"must be {' or '.join(map(repr, choices)) or 'another'}, not {match['value']}{near}"
    if text.startswith("Expected `"):  # by a rule that no file of today has
        return _QUOTED.sub(lambda quoted: _WORDS.get(quoted[1], quoted[1]), text.replace("Expected", "must be", 1))
    return None


def _value(data: Any, path: Path) -> Any:
    for step in path:
        data = _inside(data, step)
    return data


def _of_type(expected: list[str], actual: str, path: Path) -> str:
    types = [option for option in expected if option != "null" and not (option == "int" and "float" in expected)]
    actual_words = "one with decimals" if actual == "float" and "int" in types else _WORDS.get(actual, actual)
    sentence = f"must be {' or '.join(_WORDS.get(option, option) for option in types)}, not {actual_words}"
    if actual == "str" and not {"str", "array", "object"} & set(types):
        return f"{sentence}; write it without quotes"
    if actual in ("int", "float", "bool", "date", "datetime") and types == ["str"]:
        return f"{sentence}; put it in quotes"
    if types == ["array"] and actual == "object" and path:
        return f"{sentence}; write [[{path[-1]}]], in two pairs of brackets, before each of its tables"
    if types == ["array"]:
        example = '["..."]' if actual == "str" else "[1, 2]"
        return f"{sentence}; put it in brackets, as in {example}"
    if types == ["object"] and path:
        if any(isinstance(step, int) for step in path):
            return f"{sentence}; write {path[-1]} = {{ key = value }}"
        return f"{sentence}; write [{'.'.join(map(str, path))}] on a line of its own, and its keys below"
    return sentence


def _of_length(expected: str, sign: str, bound: int) -> str:
    if expected == "str":
        return "must not be empty" if sign == ">=" and bound == 1 else f"must have {_SIGNS[sign]} {bound} characters"
    return f"must have {_SIGNS[sign]} {bound} {'entry' if bound == 1 else 'entries'}"


def _of_missing(name: str, path: Path, kind: Any) -> str:
    structs = structs_of(kind)
    tags = [repr(option.__struct_config__.tag) for option in structs if option.__struct_config__.tag_field == name]
    if tags:
        return f"the key {name} is missing; write {name} = {' or '.join(tags)}".replace("'", '"')
    fields = {field.encode_name: field.type for option in structs for field in msgspec.structs.fields(option)}
    options = options_of(fields.get(name, Any))
    full = ".".join(map(str, (*path, name))) if all(isinstance(step, str) for step in path) else name
    for option in options:
        inner = get_args(option) if get_origin(option) in (list, tuple) else ()
        if inner and structs_of(inner[0]):
            return f"the table [[{full}]] is missing; write at least one{_with(structs_of(inner[0]))}"
        if structs_of(option):
            return f"the table [{full}] is missing; write it{_with(structs_of(option))}"
        if get_origin(option) is dict:
            return f"the table [{full}] is missing; write it"
        if inner:
            return f"the key {name} is missing; write {name} = [...]"
    example_value = '"..."' if str in options and not {int, float} & set(options) else "..."
    meant = ", a number" if {int, float} & set(options) else ""
    return f"the key {name} is missing; write {name} = {example_value}{meant}"


def _with(structs: list[type[msgspec.Struct]]) -> str:
    """The keys that a table needs, for each type that it may have."""
    tags = dict.fromkeys(
        str(option.__struct_config__.tag_field) for option in structs if option.__struct_config__.tag_field
    )
    needed = [[field.encode_name for field in msgspec.structs.fields(option) if field.required] for option in structs]
    common = [*tags, *(name for name in needed[0] if all(name in names for names in needed))]
    return f" with the key{'s' * (len(common) > 1)} {' and '.join(common)}" if common else ""
