"""The audit of `statistic`: what is shipped holds; noise by local sensitivity and blocks of rows are caught.

Right mechanisms are attacked at an error rate of 1e-9. Noise is numpy's. Wrong ones prove more than they claim by far:
what one set of records gives in each draw comes of the other in a third of them, and 4 is lost where 1 is claimed.
"""

from dataclasses import replace

import numpy as np
import pytest

from expril.audit.attack import kinds as searching
from expril.audit.attack.controls import parts as broken
from expril.audit.attack.controls.curators import audit_path_control
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.attack.game import breaks
from expril.audit.attack.kinds import attack_pair, audit_kind
from expril.audit.kinds.exact import enumerate_loss
from expril.audit.kinds.invented import held

FEW = 2_000


@pytest.mark.parametrize(("name", "least"), [("statistic/quantile", 0.8), ("statistic/aggregate", 1 - 1e-9)])
def test_what_is_shipped_holds_and_is_enumerated(monkeypatch, name, least):
    """A choice among eight points comes close to its claim of 1; the mean of blocks attains it."""
    monkeypatch.setattr(searching, "DRAWN", 8)
    result = audit_kind(name, draws=FEW, error_rate=1e-9, noise=QuickNoise)
    assert not result.violation, result
    assert (result.attack.claimed, result.attack.draws) == ("1", FEW)
    assert least <= result.exact <= 1 + 1e-12


def test_noise_by_local_sensitivity_is_caught():
    result = audit_path_control("local_sensitivity", draws=FEW, error_rate=1e-6)
    assert result.caught
    assert result.truth == "infinite"
    path, (one, two) = broken.local_path(), broken.local_pair().both
    assert path.claimed == 1
    assert set(path.draws(two, FEW, 1).ravel().tolist()) == {3}
    assert len(set(path.draws(one, FEW, 1).ravel().tolist())) == broken.AXIS_STEPS + 1


def test_local_sensitivity_is_as_far_as_one_record_moves_a_median():
    """3 alone falls to 0 when nobody is left, or a lower one comes; 3 and 3 stay."""
    for values, moved in (([3], 3), ([3, 3], 0), ([0, 7], 7), ([2, 5, 5], 3)):
        assert broken.local_sensitivity(np.bincount(values, minlength=8)) == moved


def test_blocks_of_rows_are_caught_and_lose_what_is_told():
    result = audit_path_control("blocks_by_row", draws=20_000, error_rate=1e-6)
    assert result.caught
    assert 3 < result.attack.lower_bound < broken.rows_truth() == 4
    path = replace(broken.rows_path(), copies=1)
    assert enumerate_loss(path, broken.rows_pair()).loss == pytest.approx(4, abs=1e-9)


def test_what_is_shipped_holds_on_the_same_records():
    """The same questions and pairs of neighbours, with the registered answerer and a curator's own blocks."""
    smooth = replace(broken.local_path(), answerer=broken.rows_path().answerer)
    blocks = replace(broken.rows_path(), hold=held)
    for path, pair in ((smooth, broken.local_pair()), (blocks, broken.rows_pair())):
        assert not breaks(attack_pair(path, pair, draws=FEW, error_rate=1e-9))
    assert enumerate_loss(replace(blocks, copies=1), broken.rows_pair()).loss <= 1
