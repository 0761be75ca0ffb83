"""Bytes that are nearly a value of the protocol: what a hostile peer would try first.

It stands apart, since bodies, releases and partitions are all tried with the same.
"""

import msgspec

from protocol.codec import encode

UNLAWFUL = ("empty", "cut", "too long", "nothing")
"""Mutations that are no struct of any type."""


def mutations(data: bytes) -> dict[str, bytes]:
    """Return what an encoded struct may be turned into, by what is wrong with it; some may be lawful all the same."""
    changed = {"empty": b"", "cut": data[:-1], "too long": data + b"\x00", "nothing": b"\xc0", "no field": b"\x80"}
    content = msgspec.msgpack.decode(data)
    if isinstance(content, dict):
        changed["an unknown field"] = encode({**content, "zz": 1})
        for name in content:
            rest = {key: value for key, value in content.items() if key != name}
            changed[f"no {name}"] = encode(rest)
            for word, value in (("nothing", None), ("-1", -1), ("NaN", float("nan")), ("text", "\x00"), ("list", [[]])):
                changed[f"{word} as {name}"] = encode({**content, name: value})
    return changed
