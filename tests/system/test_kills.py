"""kill -9 of a real curator process at random moments of many studies: what was charged and answered stays so."""

import random
import threading
import time
from collections import Counter
from fractions import Fraction

import pytest

from curator_fakes import frame_of, key, mass_body, message_of, planned
from curator_node.ledger.checks import check
from curator_node.ledger.store import DatabaseStore, sqlite_url
from curator_node.site import create_site, now
from curator_process import PATIENCE, CuratorProcess, Nursery
from learner_node.study.session import Session
from protocol.messages import Refusal, Release, StudyAccepted
from protocol.plans import Plan
from protocol.refusals import RefusalCode

SCALE = 30
CAP = Fraction(4)
SCHEMA = """
label = "sick"
classes = ["no", "yes"]
round_size = 100
attributes = [
  {kind = "numeric", name = "age", lower = 0, upper = 120},
  {kind = "numeric", name = "dose", lower = -5, upper = 5},
  {kind = "categorical", name = "sex", levels = ["f", "m"]},
]
"""


def made_site(folder, learners=("ann", "bob"), cap=CAP):
    """A site's folder on disk with 40 invented records; its public key."""
    entries = "".join(f'\n[[learners]]\nname = "{n}"\nkey = "{key(n).public.hex()}"\ncap = "{cap}"\n' for n in learners)
    policy = f'name = "basel"\ncap = "{cap}"\nopen_studies = 100\nrefusals_per_day = 100000\n{entries}'
    rows = [(f"p{n}", float(n), n / 10 - 2, "fm"[n % 2], ("no", "yes")[n % 3 == 0]) for n in range(40)]
    return create_site(folder, policy=policy, schema=SCHEMA, records=frame_of(rows))


def exported(folder, identity):
    """The ledger of a site's folder, every entry checked anew."""
    store = DatabaseStore(sqlite_url(folder / "curator.ledger"))
    try:
        return check(store, identity)
    finally:
        store.close()


class Learner:
    """Asks a curator that may die at any moment, again until it is answered, and keeps all replies."""

    def __init__(self, curator, identity, dice):
        self.curator, self.identity, self.dice = curator, identity, dice
        self.replies: dict[bytes, set[bytes]] = {}
        self.releases = 0
        self.proven = Fraction(0)
        self.outcomes = Counter()

    def send(self, data):
        """Until there is an answer; a coin decides whether the curator is killed while it works."""
        while True:
            killer = None
            if self.dice.random() < 0.3:
                killer = threading.Timer(self.dice.uniform(0, 0.015), self.curator.kill)
                killer.start()
            try:
                reply = self.curator.exchange(data)
            except ConnectionError:
                self.curator.start()
                continue
            finally:
                if killer:
                    killer.join()
            self.replies.setdefault(data, set()).add(reply)
            return reply

    def study(self, number):
        """One study of two questions; some are closed early, some never."""
        session = Session(curator=self.identity, key=key("ann"), study=number.to_bytes(16, "big"), lifetime=3600)
        session.propose(Plan.of([planned(SCALE), planned(SCALE)]), "kills", now())
        accepted = session.receive(self.send(session.pending))
        self.outcomes[accepted.code if isinstance(accepted, Refusal) else "accepted"] += 1
        if not isinstance(accepted, StudyAccepted):
            return
        for _ in range(self.dice.choice((1, 2, 2, 2))):
            session.query("counts", mass_body(40.0, 60.0), now())
            if self.dice.random() < 0.2:
                self.send(session.pending)  # a reply that a relay lost
            self.releases += isinstance(session.receive(self.send(session.pending)), Release)
        if self.dice.random() < 0.9:
            session.close(now())
            session.receive(self.send(session.pending))
        self.proven += session.spent


@pytest.fixture(scope="module")
def nursery():
    """Loads the libraries once for all lives of all tests."""
    with Nursery() as running:
        yield running


@pytest.mark.processes
@pytest.mark.parametrize("studies", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_of_many_studies(nursery, tmp_path, studies):
    folder = tmp_path / "site"
    identity = made_site(folder)
    dice = random.Random(studies)
    curator = CuratorProcess(nursery, folder).start()
    learner = Learner(curator, identity, dice)
    for number in range(1, studies + 1):
        learner.study(number)
    for data in dice.sample(list(learner.replies), len(learner.replies) // 4):
        learner.send(data)  # long afterwards, and after more deaths
    curator.kill()
    ledger = exported(folder, identity)
    assert curator.lives > studies / 4, "the test kills"
    assert not ledger.findings
    for replies in learner.replies.values():
        refused = {isinstance(message_of(reply), Refusal) for reply in replies}
        assert len(refused) == 1, "what was answered is never refused, and the other way round"
        assert refused == {True} or len(replies) == 1, "a question has one answer: no second noise"
    assert ledger.account.spent[key("ann").public] == learner.proven == Fraction(learner.releases, SCALE)
    assert ledger.account.total_spent <= CAP
    assert learner.outcomes["accepted"] > 0
    if studies == 200:
        assert learner.outcomes[RefusalCode.OVER_BUDGET] > 0, "the cap was reached"


@pytest.mark.slow
def test_eight_learners_hammer_a_curator_near_its_cap(nursery, tmp_path):
    """The sum charged is exactly what was answered, and never above the cap."""
    folder, names = tmp_path / "site", [f"ann{n}" for n in range(8)]
    identity = made_site(folder, names, cap=Fraction(1))
    answered = Counter()

    def hammer(name):
        for number in range(1, 5):
            session = Session(curator=identity, key=key(name), study=number.to_bytes(16, "big"), lifetime=3600)
            session.propose(Plan.of([planned(SCALE)]), "hammer", now())
            if isinstance(session.receive(curator.exchange(session.pending)), Refusal):
                continue
            session.query("counts", mass_body(40.0, 60.0), now())
            answered[name] += isinstance(session.receive(curator.exchange(session.pending)), Release)

    curator = CuratorProcess(nursery, folder).start()
    threads = [threading.Thread(target=hammer, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    curator.kill()
    ledger = exported(folder, identity)
    assert not ledger.findings
    assert sum(answered.values()) == SCALE, "32 questions at 1/30, and a cap of 1"
    assert ledger.account.total_spent == Fraction(sum(answered.values()), SCALE) == 1


@pytest.mark.slow
def test_kill_9_while_eight_learners_share_commits(nursery, tmp_path):
    """Whatever a group of charges or answers had reached, each learner gets the one answer that it was charged for."""
    folder, names = tmp_path / "site", [f"ann{n}" for n in range(8)]
    identity = made_site(folder, names)
    curator, dice = CuratorProcess(nursery, folder).start(), random.Random(8)
    proven, killed, done = {}, threading.Event(), threading.Event()

    def send(data):
        while True:
            try:
                return curator.exchange(data)
            except ConnectionError:
                time.sleep(0.005)

    def ask(name):
        proven[name] = Fraction(0)
        for number in range(1, 4):
            assert number < 3 or killed.wait(PATIENCE)  # however fast this machine is
            session = Session(curator=identity, key=key(name), study=number.to_bytes(16, "big"), lifetime=3600)
            session.receive(send(session.propose(Plan.of([planned(SCALE)] * 4), "kills", now())))
            for _ in range(4):
                first = send(session.query("counts", mass_body(40.0, 60.0), now()))
                assert isinstance(session.receive(first), Release)
                assert send(session.transcript.envelopes[-2]) == first
            proven[name] += session.spent

    def kill():
        while not done.wait(dice.uniform(0.05, 0.3)):
            curator.kill()
            curator.start()
            if curator.lives > 2:
                killed.set()

    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    killer = threading.Thread(target=kill)
    for thread in (*threads, killer):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    killer.join()
    curator.kill()
    ledger = exported(folder, identity)
    assert curator.lives > 2, "the test kills"
    assert not ledger.findings
    assert list(proven.values()) == [Fraction(12, SCALE)] * 8
    assert {key(name).public: spent for name, spent in proven.items()} == ledger.account.spent
