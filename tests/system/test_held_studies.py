"""A steward reads each proposal: the learner is told who is waited for, and goes on once the steward has spoken."""

from fractions import Fraction

import pytest

from curator_node.admission import undecided_proposals
from curator_node.ledger import StudyKey
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import temporary_site
from learner_fakes import LEARNER, Clock, Entropy, NoNoise, Scripted, account, key, mass_body, plan_of, ring, steward
from learner_node.carriers import waiting as held
from learner_node.carriers.journal import Journal, Settings
from learner_node.carriers.waiting import WaitingCarrier
from learner_node.study.federation import Federation, UnfinishedError
from learner_node.study.study import Study
from protocol.envelopes import digest, open_envelope

PLAN = plan_of(10, 5)
COST = Fraction(3, 10)
DAY = 86_400


class World:
    """basel's steward reads each proposal, bern's does not."""

    def __init__(self, tmp_path):
        self.clock, self.path = Clock(), tmp_path / "journal"
        self.sites = {
            name: self.site(name, approval) for name, approval in (("basel", "manual"), ("bern", "automatic"))
        }
        self.curators = {name: site.curator for name, site in self.sites.items()}
        self.carrier = Scripted(self.curators)

    def site(self, name, approval):
        known = (LearnerPolicy(name=LEARNER, key=key(LEARNER).public.hex(), cap="2"),)
        policy = Policy(name=name, cap="2", learners=known, approval=approval)
        return temporary_site(ring(200), steward(), policy, key=key(name), clock=self.clock, noise=NoNoise())

    def run(self, *, without=(), poll=False, told=lambda text: None):
        names = {site.identity: name for name, site in self.sites.items()}
        keys = [self.sites[name].identity for name in without]
        with Journal(self.path, Settings("1", bytes(32), {}), clock=self.clock, entropy=Entropy()) as journal:
            carrier = WaitingCarrier(self.carrier, names, without=keys, poll=poll, notify=told)
            federation = Federation(
                curators={name: site.identity for name, site in self.sites.items()},
                key=key(LEARNER),
                carrier=journal.through(carrier),
                clock=journal.clock,
                entropy=journal.entropy,
                resumable=True,
            )
            study = Study(federation)
            with study.closing():
                study.propose(PLAN, "to be read", list(study.read_cards()))
                for number in range(len(PLAN.queries)):
                    study.ask(dict.fromkeys(study.survivors, mass_body(float(number))))
            return study

    def decide(self, *, approve):
        ledger, now = self.sites["basel"].ledger, self.clock()
        (waiting,) = undecided_proposals(ledger, now)
        study = StudyKey(waiting.learner, open_envelope(waiting.envelope)[1].study)
        ledger.decide_on(study, waiting.request, now, approve=approve, cost=COST, until=now + DAY)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_proposal_waits_for_days_and_is_accepted_as_it_was(world):
    for _ in range(3):
        with pytest.raises(UnfinishedError, match=r"^basel: the proposal waits for this curator's steward"):
            world.run()
        world.clock.now += DAY // 4
    world.decide(approve=True)
    study = world.run()
    assert study.left_out == {}
    assert [account(curator).total_spent for curator in world.curators.values()] == [COST, COST]
    sent = world.carrier.bytes_sent("basel", "StudyProposal")
    assert len({digest(data) for data in sent}) == 1


def test_a_declined_study_goes_on_with_the_others(world):
    with pytest.raises(UnfinishedError):
        world.run()
    world.decide(approve=False)
    study = world.run()
    assert study.survivors == ["bern"]
    assert study.left_out == {"basel": "the steward has declined this study; ask the steward why"}


def test_one_may_go_on_without_whose_steward_is_away(world):
    with pytest.raises(UnfinishedError):
        world.run()
    assert world.run(without=["basel"]).survivors == ["bern"]


def test_a_command_may_wait_itself(world, monkeypatch):
    said = []

    def sleep(seconds):
        world.clock.now += 60
        if world.clock.now % 300 == 0:
            world.decide(approve=True)

    monkeypatch.setattr(held.time, "sleep", sleep)
    assert world.run(poll=True, told=said.append).left_out == {}
    assert len(said) == 1
