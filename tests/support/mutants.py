"""Modules with one line changed, for tests that an audit notices it."""

import inspect
import sys
from types import ModuleType


def changed(module: ModuleType, old: str, new: str) -> ModuleType:
    """A copy of a module with one piece of its source replaced; AssertionError where the piece is not there once."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{module.__name__} no longer has this line once: {old}"
    copy = ModuleType(module.__name__)
    copy.__file__ = module.__file__
    before = sys.modules[module.__name__]
    try:
        sys.modules[module.__name__] = copy  # dataclasses look up their module
        exec(compile(source.replace(old, new), module.__file__ or "", "exec"), copy.__dict__)
    finally:
        sys.modules[module.__name__] = before
    return copy
