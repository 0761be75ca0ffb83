"""Encodes values of known types as plain JSON and named arrays, and decodes them: no pickle, no code.

Encoding and decoding follow the expected type alone (a dataclass by its fields' types), so a file cannot name a type. A
field may be a bool, an int, a float, a text, an array with a dtype (`NDArray[np.float64]`), a dataclass, a msgspec
struct (or tagged ones), a tuple or a `dict[str, ...]` of those, or None.
"""

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from hashlib import sha256
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.refusals import RefusalCode

Arrays = dict[str, NDArray[Any]]
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Texts for floats that JSON lacks."""
_PLAIN: tuple[type, ...] = (bool, int, str)


def take_apart(value: Any, kind: Any, arrays: Arrays) -> Any:
    """Encode a value as plain JSON; its arrays are added to `arrays`, equal ones once.

    Raises TypeError: the type is not supported, or the value has another one.
    """
    if value is None and _may_be_none(kind):
        return None
    kind = _without_none(kind)
    origin = get_origin(kind)
    if origin is np.ndarray:
        return _put_array(np.asarray(value), kind, arrays)
    if origin is tuple:
        return [take_apart(item, of, arrays) for item, of in zip(value, _places(kind, len(value)), strict=True)]
    if origin is dict and get_args(kind)[0] is str:
        return {str(name): take_apart(item, get_args(kind)[1], arrays) for name, item in value.items()}
    if _is_struct(kind):
        return msgspec.json.decode(msgspec.json.encode(msgspec.convert(value, kind)))
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {item.name: take_apart(getattr(value, item.name), hints[item.name], arrays) for item in fields(kind)}
    if kind is float:
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if kind in _PLAIN:
        return kind(value)
    raise TypeError(f"{kind} is no type that is kept in a file")


def put_together(plain: Any, kind: Any, arrays: Arrays) -> Any:
    """Decode a value that `take_apart` wrote.

    A field that is missing from the JSON takes its default, since it was added to the class after the file was written.

    Raises:
        ValueError, TypeError, KeyError: the JSON or an array is not of that type.
    """
    if plain is None and _may_be_none(kind):
        return None
    kind = _without_none(kind)
    origin = get_origin(kind)
    if origin is np.ndarray:
        return _get_array(plain, kind, arrays)
    if origin is tuple:
        items = _of(plain, list)
        return tuple(put_together(item, of, arrays) for item, of in zip(items, _places(kind, len(items)), strict=True))
    if origin is dict and get_args(kind)[0] is str:
        return {name: put_together(item, get_args(kind)[1], arrays) for name, item in _of(plain, dict).items()}
    if _is_struct(kind):
        return msgspec.convert(plain, kind)
    if is_dataclass(kind):
        return _put_fields(_of(plain, dict), kind, arrays)
    if kind is float:
        return NOT_FINITE[plain] if isinstance(plain, str) else float(_of(plain, int | float))
    if kind in _PLAIN:
        return _of(plain, kind)
    raise TypeError(f"{kind} is no type that is kept in a file")


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array, row by row."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON text of a value, and its arrays."""

    plain: bytes
    arrays: dict[str, _Array]


def pack(value: Any, kind: Any) -> bytes:
    """Encode a value as MessagePack around JSON and arrays; equal values give equal bytes.

    Raises TypeError: as `take_apart`.
    """
    arrays: Arrays = {}
    plain = msgspec.json.encode(take_apart(value, kind, arrays))
    packed = {name: _Array(array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
    return encode(_Packed(plain, packed))


def unpack(data: bytes, kind: Any) -> Any:
    """Decode what `pack` wrote. Raises RemoteProtocolError: the bytes are not of that type."""
    try:
        packed = decode(data, _Packed, limit=len(data))
        arrays = {
            name: np.frombuffer(array.data, np.dtype(array.dtype)).reshape(array.shape).copy()
            for name, array in packed.arrays.items()
        }
        return put_together(msgspec.json.decode(packed.plain), kind, arrays)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError):
        raise RemoteProtocolError(RefusalCode.MALFORMED, "value") from None


def _put_fields(plain: dict[str, Any], kind: Any, arrays: Arrays) -> Any:
    hints = get_type_hints(kind)
    declared = {field_.name: field_ for field_ in fields(kind)}
    if strangers := plain.keys() - declared.keys():
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(strangers))}")
    values = {name: put_together(value, hints[name], arrays) for name, value in plain.items()}
    for name, field_ in declared.items():
        if name not in values and field_.default is MISSING and field_.default_factory is MISSING:
            raise KeyError(name)
    return kind(**values)


def _put_array(array: NDArray[Any], kind: Any, arrays: Arrays) -> dict[str, str]:
    """Store an array in its memory order, since a matrix product's last bit may depend on that order."""
    dtype = _dtype(kind)
    if array.dtype.hasobject or (dtype is not None and array.dtype != dtype):
        raise TypeError(f"an array of {array.dtype} where {dtype} is declared")
    by_column = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    laid = np.ascontiguousarray(array.T if by_column else array).reshape(
        array.shape[::-1] if by_column else array.shape
    )
    name = sha256(repr((laid.dtype.str, laid.shape)).encode() + laid.tobytes()).hexdigest()[:32]
    arrays[name] = laid
    return {"array": name, "by": "column" if by_column else "row"}


def _get_array(plain: Any, kind: Any, arrays: Arrays) -> NDArray[Any]:
    stored = _of(plain, dict)
    array = arrays[_of(stored["array"], str)]
    dtype = _dtype(kind)
    if dtype is not None and array.dtype != dtype:
        raise TypeError(f"an array of {array.dtype} where {dtype} is declared")
    return {"row": array, "column": array.T}[stored["by"]]


def _dtype(kind: Any) -> np.dtype[Any] | None:
    """The dtype of `NDArray[...]`; None if any is allowed."""
    (scalar,) = get_args(get_args(kind)[1]) or (Any,)
    return None if scalar is Any or scalar is np.generic else np.dtype(scalar)


def _places(kind: Any, count: int) -> tuple[Any, ...]:
    """The type of each item of a tuple of `count` items."""
    declared = get_args(kind)
    return declared[:1] * count if len(declared) == 2 and declared[1] is Ellipsis else declared


def _may_be_none(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)


def _without_none(kind: Any) -> Any:
    if not _may_be_none(kind):
        return kind
    rest = tuple(option for option in get_args(kind) if option is not type(None))
    return Union[rest]  # noqa: UP007 - of a tuple


def _is_struct(kind: Any) -> bool:
    """Whether the type is a msgspec struct or a union of tagged ones."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return all(isinstance(member, type) and issubclass(member, msgspec.Struct) for member in members)


def _of(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{type(value).__name__} where {cast('Any', kind)} is declared")
    return value
