"""The audit of `statistic`: what is shipped holds and attains its claim; local sensitivity and rows' blocks are caught.

Right mechanisms are attacked at an error rate of 1e-9. Noise is numpy's: 2,000 draws of it take no time.
"""

from dataclasses import replace

import pytest

from curator_node.answerers import ANSWERERS
from curator_node.estimators.heavy_tails import draw_rounded
from simulations.audit.game import breaks
from simulations.audit.kinds import audit_kind, audit_path_control, broken_statistics
from simulations.audit.kinds import search as searching
from simulations.audit.kinds.attack import attack_pair
from simulations.audit.kinds.broken import QuickNoise
from simulations.audit.kinds.invented import held

DRAWS = 2_000


@pytest.mark.parametrize(("name", "exact"), [("statistic/quantile", 0.0), ("statistic/aggregate", 1.0)])
def test_what_is_shipped_holds_and_attains_what_it_claims(monkeypatch, name, exact):
    monkeypatch.setattr(searching, "DRAWN", 8)
    monkeypatch.setattr(searching, "CLIMBED", 4)
    result = audit_kind(name, draws=DRAWS, error_rate=1e-9, noise=QuickNoise)
    assert not result.violation, result
    assert result.attack.claimed == "1"
    print(result)
    assert result.exact == pytest.approx(exact, abs=1e-9)
