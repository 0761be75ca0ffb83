"""A curator's daemon as a process, over TLS, at a real SuperLink."""

from fractions import Fraction

import pytest

from curator_fakes import Learner, key, plan_of
from deployed import Daemon, Remote, Run, ledger_of, make_site, now
from protocol.messages import Card, Release, StudyAccepted, StudyClosed
from superlink import superlink, wait_for  # noqa: F401


@pytest.fixture
def daemon(tmp_path, superlink):  # noqa: F811
    folder = make_site(tmp_path / "ward", superlink)
    with Daemon(folder) as running:
        yield running


def test_a_study_over_tls_from_card_to_close(daemon, superlink):  # noqa: F811
    with Run(superlink) as run:
        (node,) = run.nodes()
        learner = Learner(Remote(run, node, daemon.identity()), clock=now)
        assert isinstance(learner.card(), Card)
        assert isinstance(learner.propose(plan_of(30, 30)), StudyAccepted)
        assert isinstance(learner.query(), Release)
        assert isinstance(learner.query(), Release)
        assert isinstance(learner.close(), StudyClosed)
    told = [each for each in daemon.events if each["event"] == "request"]
    assert [each["reply"] for each in told] == ["card", "study_accepted", "release", "release", "study_closed"]
    assert [each["epsilon"] for each in told] == ["", "1/15", "1/30", "1/30", "0"]
    assert {each["learner"] for each in told} == {"ann"}
    assert daemon.stop() == 0
    assert daemon.events[-1] == {"event": "stopped", "time": daemon.events[-1]["time"], "unfinished": 0}
    assert ledger_of(daemon.folder).account.spent == {key("ann").public: Fraction(1, 15)}
