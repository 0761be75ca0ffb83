"""A model query for a person's eyes: its settings, its sensitivity and scale, its released numbers. No check here."""

import struct
from typing import Any

import msgspec

from protocol.codec import decode
from protocol.kinds import model
from protocol.kinds.model import ModelBody, ModelRelease, PlannedModel
from protocol.schema import Schema


def planned(query: PlannedModel, most_records_per_unit: int) -> dict[str, Any]:
    """What its noise is made of; a contribution bound of 0 stands for one that is not known."""
    told: dict[str, Any] = {
        "method": query.name,
        "settings": msgspec.to_builtins(query.method),
        "models": query.models,
        "cost": str(query.epsilon.fraction),
        "c": most_records_per_unit or None,
    }
    if most_records_per_unit:
        moved = model.sensitivity(query, most_records_per_unit)
        told["formula"] = f"scale = sensitivity / epsilon = {moved} / ({query.epsilon.fraction})"
    return told


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG001
    """How many models, different ones among them; raises RemoteProtocolError where it is no body."""
    body = decode(data, ModelBody)
    return {"models": len(body.models), "different": len(set(body.models))}


def released(data: bytes) -> list[str]:
    """The released numbers as text; raises RemoteProtocolError where it is no release."""
    numbers = decode(data, ModelRelease).numbers
    return [str(one[0]) for one in struct.iter_unpack("<q", numbers[: len(numbers) // 8 * 8])]
