"""TOML of a user into a typed value, with errors that name the key and suggest the right one."""

import difflib
import tomllib
from collections.abc import Sequence
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from protocol.errors import ConfigurationError

T = TypeVar("T")


def read_toml(text: str, kind: type[T], *, where: str) -> T:
    """Parse `text` as `kind` (a msgspec Struct).

    Args:
        text: the TOML.
        kind: a Struct type with `forbid_unknown_fields`.
        where: what the text is ("policy file basel.toml"), for the error.

    Raises:
        ConfigurationError: not TOML, a misspelt key (with a suggestion), a missing key or a wrong value.
    """
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{where} is not valid TOML: nested too deeply") from None
    return convert(data, kind, where=where)


def convert(data: Any, kind: type[T], *, where: str) -> T:
    """As `read_toml`, from data that is parsed already."""
    _check_keys(data, kind, where)
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The nearest known word, to append to an error; empty where none is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def suggest(word: str, known: list[str]) -> str:
    """A suggestion to append to an error: the nearest known word, or all of them where nothing is near."""
    near = did_you_mean(word, known)
    return near or f"; known: {', '.join(sorted(known))}"


def _check_keys(data: Any, kind: Any, where: str) -> None:
    """Walk `data` beside `kind` and raise on the first key that no field has, or tag that no struct has."""
    options = _options(kind)
    if isinstance(data, list | tuple):
        inner = next((get_args(option) for option in options if get_origin(option) in (list, tuple)), ())
        for index, item in enumerate(data if inner else ()):
            _check_keys(item, inner[0], f"{where}[{index}]")
    elif isinstance(data, dict):
        structs = [option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct)]
        if structs:
            _check_struct(data, structs, where)
            return
        values = next((get_args(option)[1] for option in options if get_origin(option) is dict), None)
        for key, item in data.items():
            _check_keys(item, values, f"{where}.{key}")


def _check_struct(data: dict[str, Any], structs: list[type[msgspec.Struct]], where: str) -> None:
    tags = {s.__struct_config__.tag: s for s in structs if s.__struct_config__.tag_field}
    tag_field = next((s.__struct_config__.tag_field for s in structs if s.__struct_config__.tag_field), None)
    tag = data.get(tag_field) if tag_field else None
    if isinstance(tag, str):
        if tag not in tags:
            raise ConfigurationError(f"{where}: {tag_field} = {tag!r}{suggest(tag, [str(known) for known in tags])}")
        structs = [tags[tag]]
    info = {field.encode_name: field.type for struct in structs for field in msgspec.structs.fields(struct)}
    known = [*info, *([tag_field] if tag_field else [])]
    for key, item in data.items():
        if key not in known:
            raise ConfigurationError(f"{where}: unknown key {key!r}{suggest(key, known)}")
        if key in info:
            _check_keys(item, info[key], f"{where}.{key}")


def _options(kind: Any) -> list[Any]:
    """The members of a union, without annotations; `kind` itself where it is none."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [option for member in get_args(kind) for option in _options(member)]
    return [kind]
