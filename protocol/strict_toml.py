"""TOML of a user into a typed value, with errors that name the key and suggest the right one."""

import difflib
import tomllib
from typing import Any, TypeVar, get_args

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
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from None
    return convert(data, kind, where=where)


def convert(data: Any, kind: type[T], *, where: str) -> T:
    """As `read_toml`, from data that is parsed already."""
    _check_keys(data, kind, where)
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def suggest(word: str, known: list[str]) -> str:
    """A suggestion to append to an error: the nearest known word, or all of them where nothing is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"


def _check_keys(data: Any, kind: Any, where: str) -> None:
    """Walk `data` beside `kind` and raise on the first key that no field has."""
    if isinstance(data, list | tuple):
        inner = get_args(kind)
        for index, item in enumerate(data):
            if inner:
                _check_keys(item, inner[0], f"{where}[{index}]")
        return
    if not isinstance(data, dict):
        return
    structs = [k for k in (kind, *get_args(kind)) if isinstance(k, type) and issubclass(k, msgspec.Struct)]
    if not structs:
        inner = get_args(kind)
        for key, item in data.items():
            if len(inner) == 2:
                _check_keys(item, inner[1], f"{where}.{key}")
        return
    tagged = [s for s in structs if s.__struct_config__.tag_field and _tag_matches(s, data)]
    struct = tagged[0] if tagged else structs[0]
    info = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    known = [*info, *([struct.__struct_config__.tag_field] if struct.__struct_config__.tag_field else [])]
    for key, item in data.items():
        if key not in known:
            raise ConfigurationError(f"{where}: unknown key {key!r}{suggest(key, known)}")
        if key in info:
            _check_keys(item, info[key], f"{where}.{key}")


def _tag_matches(struct: type[msgspec.Struct], data: dict[str, Any]) -> bool:
    config = struct.__struct_config__
    return config.tag_field is not None and data.get(config.tag_field) == config.tag
