"""A study through a folder: real sites answer files, strangers leave what they like in it, nothing else is touched."""

import os
import shutil
from fractions import Fraction

import pytest

from curator_node.curator import Curator
from curator_node.daemon.folder import ANSWERED, IGNORED, REFUSED, answer_folder
from curator_node.ledger import Ledger
from curator_node.site import Site
from learner_fakes import LEARNER, NOW, Clock, Entropy, account, key, mass_body, open_curator, plan_of
from learner_node.carriers.folder import FolderCarrier
from learner_node.carriers.journal import Journal, Settings
from learner_node.carriers.waiting import WaitingCarrier
from learner_node.study.federation import Federation, UnfinishedError
from learner_node.study.study import NoCuratorError, Study
from protocol.codec import MOST_ENVELOPE_BYTES
from protocol.envelopes import digest
from protocol.errors import ConfigurationError
from protocol.transcript import replay

PLAN = plan_of(10, 5)
COST = Fraction(3, 10)
THIRTY_DAYS = 30 * 86_400


def site_of(curator: Curator) -> Site:
    ledger: Ledger = curator._ledger
    return Site(curator, ledger)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


class World:
    def __init__(self, tmp_path, **options):
        self.clock = Clock()
        self.curators = {name: open_curator(name, clock=self.clock, **options) for name in ("basel", "bern")}
        self.folder, self.journal = tmp_path / "post", tmp_path / "journal"
        self.names = {curator.identity: name for name, curator in self.curators.items()}

    def learn(self, *, without=(), lifetime=3600):
        """One run of the learner's command."""
        settings = Settings("1", bytes(32), {})
        keys = [self.curators[name].identity for name in without]
        with Journal(self.journal, settings, clock=self.clock, entropy=Entropy()) as journal:
            folder = FolderCarrier(self.folder, self.names, without=keys)
            held = WaitingCarrier(folder, self.names, waits=lambda refusal: True, without=keys)
            federation = Federation(
                curators={name: identity for identity, name in self.names.items()},
                key=key(LEARNER),
                carrier=journal.through(held),
                clock=journal.clock,
                entropy=journal.entropy,
                resumable=True,
                lifetime=lifetime,
            )
            study = Study(federation)
            with study.closing():
                study.propose(PLAN, "by post", list(study.read_cards()))
                for number in range(len(PLAN.queries)):
                    study.ask(dict.fromkeys(study.survivors, mass_body(float(number))))
            return study

    def answer(self, *names):
        return {name: list(answer_folder(self.folder, site_of(self.curators[name]))) for name in names}

    def requests(self, name):
        return self.folder / self.curators[name].identity.hex() / "requests"

    def replies(self, name):
        return self.folder / self.curators[name].identity.hex() / "replies"


def test_a_study_by_post(world):
    trips = 0
    while True:
        try:
            study = world.learn()
        except UnfinishedError:
            trips += 1
            world.clock.now += 40 * 60  # messages are valid for an hour
            for told in world.answer("basel", "bern").values():
                assert [each.what for each in told] == [ANSWERED]
            assert world.answer("basel") == {"basel": []}, "everything has its reply"
        else:
            break
    assert trips == 5  # cards, proposals, two questions, closes
    for name, curator in world.curators.items():
        assert study.spent(name) == account(curator).total_spent == COST
        replay(study.sessions[name].transcript.envelopes, curator.identity, key(LEARNER).public)


def test_what_lies_too_long_is_asked_anew_and_paid_once(world):
    study = None
    for trip in range(30):
        try:
            study = world.learn(lifetime=600)
            break
        except UnfinishedError:
            world.answer("basel")
            world.clock.now += 700 * (trip % 3 == 1)
            world.answer("bern")
    assert study.left_out == {}
    for name, curator in world.curators.items():
        assert study.spent(name) == account(curator).total_spent == COST


def test_one_that_never_answers_is_gone_on_without(world):
    with pytest.raises(UnfinishedError, match="from basel, bern"):
        world.learn()
    world.answer("basel")
    with pytest.raises(UnfinishedError, match="from bern"):
        world.learn()
    for _ in range(4):
        with pytest.raises(UnfinishedError, match="from basel"):
            world.learn(without=["bern"])
        world.answer("basel")
    assert world.learn(without=["bern"]).survivors == ["basel"]


def test_a_steward_who_stopped_the_curator_answers_again_later(world):
    with pytest.raises(UnfinishedError):
        world.learn()
    world.answer("basel", "bern")
    with pytest.raises(UnfinishedError):
        world.learn()
    ledger = world.curators["basel"]._ledger
    ledger.halt(NOW, "a moment")
    assert [(each.what, each.why) for each in world.answer("basel", "bern")["basel"]] == [(REFUSED, "halted")]
    with pytest.raises(UnfinishedError, match="basel: this curator has stopped until its steward acts; then the same"):
        world.learn()
    ledger.resume(NOW, note="go on")
    assert [each.what for each in world.answer("basel")["basel"]] == [ANSWERED]
    with pytest.raises(UnfinishedError, match="no reply yet"):
        world.learn()


def test_lifetimes_are_the_policy_s(world):
    """A month is refused where the policy says an hour, and the refusal says what it allows."""
    with pytest.raises(UnfinishedError):
        world.learn(lifetime=THIRTY_DAYS)
    told = world.answer("basel", "bern")["basel"]
    assert [(each.what, each.why, each.limit) for each in told] == [
        (REFUSED, "not_yet_valid", "an expiry at most 3600 seconds ahead")
    ]
    with pytest.raises(UnfinishedError, match="an expiry at most 3600 seconds ahead"):
        world.learn(lifetime=THIRTY_DAYS)


def test_what_strangers_leave_is_named_and_not_read(world, tmp_path):
    with pytest.raises(UnfinishedError):
        world.learn()
    requests = world.requests("basel")
    (honest,) = requests.iterdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"a canary")
    (requests / "notes.txt").write_text("hello")
    (requests / f"{'a' * 64}.envelope").write_bytes(b"not its digest")
    (requests / f"{digest(b'a canary').hex()}.envelope").symlink_to(secret)
    with (requests / f"{'b' * 64}.envelope").open("wb") as huge:
        huge.truncate(300_000_000)
    (requests / f"{'c' * 64}.envelope").mkdir()
    os.mkfifo(requests / f"{'d' * 64}.envelope")
    rubbish = requests / f"{digest(b'rubbish').hex()}.envelope"
    rubbish.write_bytes(b"rubbish")
    told = {each.file: (each.what, each.why) for each in world.answer("basel")["basel"]}
    assert told.pop(honest.name) == (ANSWERED, "card")
    assert told.pop(rubbish.name) == (REFUSED, "malformed")
    assert told.pop("notes.txt") == (IGNORED, "not the name of a request")
    assert {what for what, _ in told.values()} == {IGNORED}
    why = {name[0]: text for name, (_, text) in told.items()}
    assert "300000000 bytes; this curator reads at most 16777216" in why["b"]
    assert why["d"] == why["c"] == "not a plain file"
    assert sorted(path.name for path in world.replies("basel").iterdir()) == sorted([honest.name, rubbish.name])


@pytest.mark.parametrize("part", ["", "requests", "replies"])
def test_links_are_never_followed(world, tmp_path, part):
    with pytest.raises(UnfinishedError):
        world.learn()
    own = world.requests("basel").parent
    elsewhere = tmp_path / "elsewhere"
    if part == "replies":
        elsewhere.mkdir()
    else:
        shutil.move(own / part if part else own, elsewhere)
    (own / part if part else own).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(ConfigurationError):
        world.answer("basel")
    assert sorted(elsewhere.rglob("*")) == before


def test_a_reply_that_is_a_link_is_replaced_and_its_target_left_alone(world, tmp_path):
    with pytest.raises(UnfinishedError):
        world.learn()
    (request,) = world.requests("basel").iterdir()
    target = tmp_path / "target"
    target.write_bytes(b"as it was")
    world.replies("basel").mkdir()
    (world.replies("basel") / request.name).symlink_to(target)
    world.answer("basel")
    assert target.read_bytes() == b"as it was"
    assert not (world.replies("basel") / request.name).is_symlink()


def test_replies_of_a_stranger_are_no_replies(world):
    with pytest.raises(UnfinishedError):
        world.learn()
    world.answer("basel", "bern")
    (reply,) = world.replies("basel").iterdir()
    (other,) = world.replies("bern").iterdir()
    reply.write_bytes(other.read_bytes())
    with pytest.raises(UnfinishedError):
        world.learn()  # bern's card came; basel's is rubbish, asked again, and the study goes on without it
    (world.journal).unlink()
    reply.write_bytes(b"\0" * (MOST_ENVELOPE_BYTES + 1))
    with pytest.raises(UnfinishedError, match="no reply yet from basel"):
        world.learn()


def test_nothing_for_this_curator(world, tmp_path):
    with pytest.raises(ConfigurationError, match=r"no folder .*post"):
        world.answer("basel")
    world.folder.mkdir()
    with pytest.raises(ConfigurationError, match="holds no requests for this curator"):
        world.answer("basel")


def test_nobody_is_left(world):
    with pytest.raises(NoCuratorError, match="no curator sent its card"):
        world.learn(without=["basel", "bern"])
