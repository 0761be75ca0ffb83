"""A property with few examples in the fast suite, and with many in the slow one."""

from types import FunctionType

import pytest
from hypothesis import HealthCheck, given, settings


def at_length(test, examples):
    """The same property as a slow test: over as many examples, drawn anew from the same strategies."""
    held, strategies = test.hypothesis.inner_test, test.hypothesis._given_kwargs
    # A copy: what was decorated once takes no other settings.
    held = FunctionType(held.__code__, held.__globals__, held.__name__, held.__defaults__, held.__closure__)
    asked = settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    longer = asked(given(**strategies)(held))
    longer.pytestmark = [*getattr(test, "pytestmark", []), pytest.mark.slow.mark]
    return longer


def also_at_length(examples):
    """Decorates a property: beside it its module gets `NAME_at_length`, a slow test over as many examples."""

    def add(test):
        test.hypothesis.inner_test.__globals__[f"{test.__name__}_at_length"] = at_length(test, examples)
        return test

    return add


def walks_at_length(machine, **limits):
    """The same state machine as a slow test: more walks, or longer ones."""
    long = settings(deadline=None, suppress_health_check=list(HealthCheck), **limits)
    return pytest.mark.slow(type(f"{machine.__name__}AtLength", (machine.TestCase,), {"settings": long}))
