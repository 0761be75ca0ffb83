"""Whether a computation draws from its seed alone.

Equal seeds need not give equal digits: sums are added in an order that hangs on the processor and on where arrays lie.
That nothing else is drawn is exact.
"""

import random
from contextlib import contextmanager

import numpy as np
import pytest
import torch


def _shared():
    """The states of the generators that a process has by itself."""
    kind, keys, *place = np.random.get_state()  # noqa: NPY002
    return random.getstate(), (kind, keys.tobytes(), *place), torch.get_rng_state().tolist()


@contextmanager
def nothing_unseeded():
    """Fails where a generator is made without a seed, or a shared one is drawn from."""
    make = np.random.default_rng

    def seeded(seed=None):
        assert seed is not None, "a generator without a seed"
        return make(seed)

    before = _shared()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", seeded)
        yield
    assert _shared() == before, "a shared generator was drawn from"
