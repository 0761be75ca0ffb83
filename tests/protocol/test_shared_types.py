"""What several threads decode at once for the first time: msgspec by itself crashes the process."""

import ast
import os
import subprocess
import sys

import pytest

from protocol.shared_types import shared_type
from trees import FILES, ROOT, nodes_of, place

TYPES = 100
"""Without the lock the process crashes at one of the first eleven types (12 runs of 12)."""
THREADS = f"""
import sys, threading
from typing import Union
import msgspec
from protocol.codec import decode, encode
sys.setswitchinterval(1e-6)
for number in range({TYPES}):
    fields = [(f"f{{place}}", int | str | None) for place in range(6)]
    parts = [msgspec.defstruct(f"Part{{number}}x{{k}}", fields, frozen=True, tag=f"part{{k}}") for k in range(8)]
    union = Union[tuple(parts)]
    whole = msgspec.defstruct(f"Whole{{number}}", [("a", union), ("b", tuple[union, ...])], frozen=True)
    value = whole(parts[0](1, 2, 3, 4, 5, 6), (parts[3](1, 2, 3, 4, 5, "x"),))
    data, start, read = encode(value), threading.Barrier(4), []
    def work():
        start.wait()
        read.append(decode(data, whole))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [value] * 4
"""


def test_threads_that_meet_a_type_for_the_first_time_all_read_it():
    line = [sys.executable, "-c", THREADS]
    done = subprocess.run(
        line, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_type_that_nobody_can_decode_is_told():
    with pytest.raises(TypeError):
        shared_type(dict[tuple[int, str] | list[int], int] | dict[str, int])
    assert shared_type(tuple[int, ...]) == tuple[int, ...]


def typed(call: ast.Call) -> ast.expr | None:
    """The type that a call of msgspec decodes, if it names one."""
    if not isinstance(call.func, ast.Attribute) or not ast.unparse(call.func).startswith("msgspec."):
        return None
    if call.func.attr == "Decoder" and call.args:
        return call.args[0]
    if call.func.attr == "convert":
        return call.args[1]
    named = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
    return named[0] if call.func.attr == "decode" and named else None


def test_what_a_curator_decodes_is_known_to_all_threads():
    """What a module decodes while it is imported is exempt, as are containers of plain values."""
    wrong = []
    plain = ("shared_type(", "dict[str, str]", "tuple[msgspec.Raw, ...]")
    for path in FILES:
        if not place(path).startswith(("protocol/", "curator_node/")) or path.name == "shared_types.py":
            continue
        for function in (node for node in nodes_of(path) if isinstance(node, ast.FunctionDef)):
            kinds = [typed(call) for call in ast.walk(function) if isinstance(call, ast.Call)]
            texts = [ast.unparse(kind) for kind in kinds if kind is not None]
            wrong += [f"{place(path)}: {text}" for text in texts if not text.startswith(plain)]
    assert wrong == []
