"""Flower's internal names, as the pinned version has them."""

import subprocess
import sys

from protocol import flower_internals


def test_every_internal_name_of_flower_is_where_it_was():
    assert flower_internals.moved() == {}, "Flower moved these: adapt protocol/flower_internals.py"


def test_a_name_that_moved_is_named(monkeypatch):
    gone = {"HttpPost": "flwr.nowhere", "NoSuchName": "flwr.common.serde"}
    monkeypatch.setattr(flower_internals, "WHERE", {**flower_internals.WHERE, **gone})
    assert flower_internals.moved() == gone


def test_nothing_of_flower_loads_before_it_is_used():
    code = "import protocol.flower_internals, sys; print([n for n in sys.modules if n.startswith('flwr')])"
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip() == "[]"
    )
