"""A property with few examples in the fast suite, and with many in the slow one."""

from types import FunctionType

import pytest
from hypothesis import HealthCheck, given, settings


def at_length(test, examples, *drawn):
    """The same property as a slow test: over as many examples, drawn anew from the strategies."""
    held = test.hypothesis.inner_test
    # A copy: what was decorated once takes no other settings.
    held = FunctionType(held.__code__, held.__globals__, held.__name__, held.__defaults__, held.__closure__)
    asked = settings(deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    return pytest.mark.slow(asked(given(*drawn)(held)))
