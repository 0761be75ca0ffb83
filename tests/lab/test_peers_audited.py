"""The game on somebody else's models, and what is said where they are absent."""

import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.__main__ import app
from lab.peers import PeerUnavailableError, audited
from lab.peers.audited import PEER_GAMES, audit_peer
from lab.peers.environment import peers_python


def test_without_the_peers_environment_nothing_is_played(monkeypatch, tmp_path):
    monkeypatch.setenv("EXPRIL_PEERS", str(tmp_path / "none"))
    with pytest.raises(PeerUnavailableError, match="EXPRIL_PEERS"):
        audit_peer("naive-bayes-counts", draws=400)
    told = CliRunner().invoke(app, ["peers", "--json"])
    assert told.exit_code == 0
    assert "not there" in json.loads(told.stdout)["skipped"]
    assert "skipped" in CliRunner().invoke(app, ["peers"]).output


def test_a_release_that_tells_the_number_of_records_is_broken(monkeypatch):
    def counts(_family, task):
        rng = np.random.default_rng(len(task.train))
        first = rng.integers(0, len(task.train) + 1, len(task.test))
        return np.stack([np.full(len(first), len(task.train)), first], axis=1).astype(float)

    monkeypatch.setattr(audited, "rows_in_environment", counts)
    assert audit_peer("naive-bayes-counts", draws=400).broken
    found = audit_peer("logistic-n", draws=400)
    assert found.broken
    assert not found.expected


@pytest.mark.slow
def test_their_naive_bayes_tells_the_number_of_records():
    """Bound: with 200 outcomes of 200 against 0 at an error rate of 0.001, ln(0.96 / 0.04) is above 1."""
    try:
        peers_python()
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    try:
        found = audit_peer("naive-bayes-counts", draws=400)
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    assert found.broken
    assert found.attack.lower_bound > 1
    assert Fraction(found.attack.claimed) == 1
    assert len([game for game in PEER_GAMES.values() if not game.fault]) == 1
