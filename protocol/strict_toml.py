"""Users' TOML files are read into typed values here; errors name the key and suggest the right one."""

import codecs
import re
import tomllib
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from protocol.errors import ConfigurationError, printable
from protocol.mistakes import Path, did_you_mean, in_words, options_of, structs_of, where_is
from protocol.shared_types import shared_type

T = TypeVar("T")
SAVE_AS_UTF8 = "save it as UTF-8 text"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_SAMPLE = 4096
MOST_CHARACTERS = 2**20
"""Most characters of a TOML text: a policy of eight thousand learners has fewer. The parser takes 5 microseconds and
200 bytes of memory for each."""
MOST_NESTED = 16
"""Most brackets inside each other, and parts of one dotted key."""
MOST_TOKEN = 256
"""Most characters of a number or a key outside of quotes."""
_QUOTED = re.compile(  # without its end, too, so that every character is looked at once
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|"(?:[^"\\\n]++|\\[^\n])*+"?'
    r"|'''(?:[^']++|'(?!''))*+(?:''')?|'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_BETWEEN = re.compile(r"[=,\[\]{}\n]")
_BRACKET = re.compile(r"[\[\]{}]")


def decode_text(content: bytes, *, where: str) -> str:
    """Decode a user's text file as UTF-8, without a byte order mark; `where` names it in errors.

    Raises:
        ConfigurationError: the bytes are UTF-16, another encoding than UTF-8 (the error names the line), or no text at
            all.
    """
    fault = text_fault(content)
    if fault is not None:
        line = "" if fault.start is None else f" in line {content.count(10, 0, fault.start) + 1}"
        raise ConfigurationError(f"{where} {fault.problem}{line}; {fault.remedy}")
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")


class TextFault(NamedTuple):
    """Why bytes are not UTF-8 text; the bytes are not quoted."""

    problem: str  # words that follow "the file"
    remedy: str  # what to do
    start: int | None = None  # index of the first wrong byte; None if all are wrong


def text_fault(content: bytes) -> TextFault | None:
    """Why the bytes are not UTF-8 text; None if they are, with or without a byte order mark."""
    if content.startswith(_UTF16_MARKS) or _looks_like_utf16(content):
        return TextFault("is UTF-16 text, not UTF-8", SAVE_AS_UTF8)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        if _CONTROL.search(content) is None:
            return TextFault("holds text that is not UTF-8", SAVE_AS_UTF8, error.start)
        return TextFault("is a binary file, no text", "check that it is the right file")
    return None


def _looks_like_utf16(content: bytes) -> bool:
    """Whether every other byte is zero, as in UTF-16 text of mostly ASCII letters without a byte order mark."""
    start = content[:_SAMPLE]
    return max(start[::2].count(0), start[1::2].count(0)) > len(start) // 4 > 0


def read_toml(text: str, kind: type[T], *, where: str) -> T:
    """Parse TOML as `kind`, a msgspec Struct with `forbid_unknown_fields`; `where` names the text in errors.

    Raises ConfigurationError: the text is not TOML, a key is unknown (a similar one is suggested) or missing, or a
    value is wrong.
    """
    return convert(parse_toml(text, where=where), kind, where=where)


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    """Parse TOML into plain tables, for `convert`. Raises ConfigurationError: the text is too long, or is not TOML."""
    if excess := _excess(text):
        raise ConfigurationError(f"{where} is not valid TOML: {excess}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError, ArithmeticError) as error:  # TOMLDecodeError, or a date that is none
        why = "nested too deeply" if isinstance(error, RecursionError) else printable(str(error))
        raise ConfigurationError(f"{where} is not valid TOML: {why}") from None


def _excess(text: str) -> str:
    """What would make a parser slow or hungry: "" if nothing does. Quoted texts and comments do not count."""
    if len(text) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS} characters"
    bare = _QUOTED.sub('""', text)
    depth = deepest = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    tokens = [token.strip() for token in _BETWEEN.split(bare)]
    if deepest > MOST_NESTED or any(token.count(".") >= MOST_NESTED for token in tokens):
        return "nested too deeply"
    return f"a number or key has more than {MOST_TOKEN} characters" if max(map(len, tokens)) > MOST_TOKEN else ""


def convert(data: Any, kind: type[T], *, where: str) -> T:
    """Convert parsed data to `kind`; raises as `read_toml`."""
    _check_keys(data, kind, data, (), where)
    try:
        return msgspec.convert(data, shared_type(kind), strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {in_words(error, data, kind)}") from None
    except (ArithmeticError, ValueError):  # a number too long to be compared or printed
        raise ConfigurationError(f"{where}: a number in it is far too large") from None


def suggest(word: str, words: list[str]) -> str:
    """A suggestion to append to an error: the nearest of `words`, or all of them if none is near."""
    near = did_you_mean(word, words)
    return near or f"; known: {', '.join(sorted(words)) or 'none'}"


def _check_keys(data: Any, kind: Any, document: Any, path: Path, where: str) -> None:
    """Walk through `data` and `kind` together; raise ConfigurationError at the first unknown key or tag."""
    options = options_of(kind)
    if isinstance(data, list | tuple):
        inner = next((get_args(option) for option in options if get_origin(option) in (list, tuple)), ())
        for index, item in enumerate(data if inner else ()):
            _check_keys(item, inner[0], document, (*path, index), where)
    elif isinstance(data, dict):
        structs = structs_of(kind)
        if structs:
            _check_struct(data, structs, document, path, where)
            return
        values = next((get_args(option)[1] for option in options if get_origin(option) is dict), None)
        for key, item in data.items():
            _check_keys(item, values, document, (*path, key), where)


def _check_struct(
    data: dict[str, Any], structs: list[type[msgspec.Struct]], document: Any, path: Path, where: str
) -> None:
    tags = {s.__struct_config__.tag: s for s in structs if s.__struct_config__.tag_field}
    tag_field = next((s.__struct_config__.tag_field for s in structs if s.__struct_config__.tag_field), None)
    tag = data.get(tag_field) if tag_field else None
    here = ": ".join(part for part in (where, where_is(path, document)) if part)
    if isinstance(tag, str):
        if tag not in tags:
            raise ConfigurationError(f"{here}: {tag_field} = {tag!r}{suggest(tag, [str(name) for name in tags])}")
        structs = [tags[tag]]
    info = {field.encode_name: field.type for struct in structs for field in msgspec.structs.fields(struct)}
    keys = [*info, *([tag_field] if tag_field else [])]
    for key, item in data.items():
        if key not in keys:
            raise ConfigurationError(f"{here}: unknown key {key!r}{suggest(key, keys)}")
        if key in info:
            _check_keys(item, info[key], document, (*path, key), where)
