"""`audit.json`: an audit for machines, with all that its page shows, so that the page can be written again."""

import math
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.results import Attack, AuditResult
from protocol.errors import ConfigurationError, printable

FORMAT = "expril audit 1"
_OF_KINDS = ("kind", "claimed", "lower_bound", "exact", "violation", "verdict")
_OF_CONTROLS = ("name", "caught", "claimed", "lower_bound", "truth", "fault")


def as_object(result: AuditResult, *, created: str = "", pictures: bool = True) -> dict[str, Any]:
    """An audit as plain JSON.

    Kinds and controls say at first sight what they claim and what was proven; `attack` has the rest. Numbers that JSON
    has none of, such as an event without an upper end, are written as texts.

    Args:
        result: of the audit.
        created: when, as ISO 8601.
        pictures: whether distributions are in it; it can be read back only with them.
    """
    plain = _finite(msgspec.to_builtins(result))
    if not pictures:
        for one in (*plain["kinds"], *plain["controls"]):
            del one["attack"]["spread"]
        if plain["blog"]:
            del plain["blog"]["spreads"]
    return {
        "format": FORMAT,
        "created": created,
        "passed": result.passed,
        **plain,
        "kinds": [_lifted(one, _OF_KINDS) for one in plain["kinds"]],
        "controls": [_lifted(one, _OF_CONTROLS) for one in plain["controls"]],
    }


def write_result(result: AuditResult, path: Path, *, created: str = "") -> None:
    """Write `audit.json`."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(as_object(result, created=created)), indent=1) + b"\n")


def read_result(path: Path) -> tuple[AuditResult, str]:
    """Read `audit.json`; the audit, and when it was made.

    Raises:
        ConfigurationError: it cannot be read, or is none.
    """
    try:
        return decode_result(path.read_bytes())
    except (OSError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} is no result of an audit: {error}; make one: expril audit all") from None


def decode_result(data: bytes) -> tuple[AuditResult, str]:
    """As `read_result`, from bytes.

    Raises:
        ConfigurationError: they hold no audit.
    """
    try:
        told = msgspec.json.decode(data)
        if not isinstance(told, dict) or told.pop("format", None) != FORMAT:
            raise ConfigurationError(f"its format is not {FORMAT!r}")
        created, passed = told.pop("created"), told.pop("passed")
        for one in (*told["kinds"], *told["controls"]):
            for name in ("claimed", "lower_bound"):
                if one.pop(name) != one["attack"][name]:
                    raise ConfigurationError(f"it says two things of {name}")
        result = msgspec.convert(_numbers(told), AuditResult)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(printable(str(error), 200)) from None
    if passed != result.passed:
        raise ConfigurationError("it says whether it passed, and that does not follow from its lines")
    return result, str(created)


def _lifted(one: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    every = {**one, **{name: one["attack"][name] for name in ("claimed", "lower_bound")}}
    return {**{name: every[name] for name in names}, **{name: every[name] for name in one if name not in names}}


def _finite(value: Any) -> Any:
    """JSON has no infinity: an end of an event that is none is written as text."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _numbers(value: Any) -> Any:
    """Inverse of `_finite`."""
    if isinstance(value, dict):
        return {
            name: each if name in _TEXTS and isinstance(each, str) else _numbers(each) for name, each in value.items()
        }
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return float(value) if value in ("inf", "-inf") else value


_TEXTS = {field.encode_name for field in msgspec.structs.fields(Attack) if field.type is str} | {"versions"}
