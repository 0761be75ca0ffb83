"""The carrier over a SuperLink, with a run that is played: whose a node is, relays, dead nodes, runs that are lost."""

import itertools

import pytest

from learner_fakes import LEARNER, NOW, key, open_curator
from learner_node.carriers import superlink
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import Arrival, AwayError, RunLostError, SuperLinkError
from learner_node.study.session import Session
from protocol.envelopes import open_envelope, seal
from protocol.messages import NOBODY, Card

ME = key(LEARNER)


class PlayedRun:
    """Nodes that answer at once, by number; None is a node that fails."""

    used_up = False

    def __init__(self, nodes, *, ends=None):
        self.there, self.ends = dict(nodes), ends
        self.lost, self.pushed, self.names = False, [], itertools.count(1)
        self.waiting = {}

    def nodes(self):
        return set(self.there)

    def push(self, envelopes, *, ttl):
        names = []
        for node, data in envelopes:
            self.pushed.append((node, data))
            if self.ends is not None and len(self.pushed) > self.ends:
                raise RunLostError
            name = str(next(self.names))
            handle = self.there[node]
            if handle is not silent:
                self.waiting[name] = None if handle is None else handle(data)
            names.append(name)
        return names

    def pull(self, messages):
        return [Arrival(name, self.waiting.pop(name)) for name in messages if name in self.waiting]

    def finish(self):
        pass

    def drop(self):
        pass


def silent(data):
    """Never answers."""


@pytest.fixture
def curators():
    return {name: open_curator(name) for name in ("basel", "bern")}


class Passing:
    """Time that passes where somebody sleeps, and nowhere else: how slow this machine is decides nothing."""

    now = 1_000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def play(monkeypatch, curators):
    """A carrier over runs that are played one after the other, and card requests to all curators."""
    monkeypatch.setattr(superlink, "time", Passing())
    monkeypatch.setattr(superlink, "TRY_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(superlink, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(superlink, "PROBE_SECONDS", 0.05)

    def made(*runs, timeout=5.0, patience=0.5):
        left = list(runs)

        def start(link):
            run = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(run, Exception):
                raise run
            return run

        monkeypatch.setattr(superlink, "start_run", start)
        keys = [curator.identity for curator in curators.values()]
        carrier = SuperLinkCarrier(None, ME, keys, timeout=timeout, patience=patience, clock=lambda: NOW)
        carrier._link = type("Link", (), {"address": "here:1"})
        return carrier

    return made


def cards(curators):
    sessions = {c.identity: Session(curator=c.identity, key=ME, study=b"s" * 16) for c in curators.values()}
    return {identity: session.request_card(NOW) for identity, session in sessions.items()}


def read(replies):
    return {identity: open_envelope(data)[1] for identity, data in replies.items()}


def test_each_node_says_whose_it_is_and_gets_its_own_requests(curators, play):
    run = PlayedRun({1: curators["basel"].handle, 2: curators["bern"].handle, 3: None, 4: silent})
    requests = cards(curators)
    replies = read(play(run).exchange(requests))
    assert {identity: card.name for identity, card in replies.items()} == {
        curators["basel"].identity: "basel",
        curators["bern"].identity: "bern",
    }
    wanted = [(node, data) for node, data in run.pushed if data in requests.values()]
    assert sorted(node for node, _ in wanted) == [1, 2]
    probes = [open_envelope(data)[1] for _, data in run.pushed if data not in requests.values()]
    assert {probe.recipient for probe in probes} == {NOBODY}


def test_a_stranger_s_node_is_asked_by_name_and_gets_no_request(curators, play):
    stranger = open_curator("chur")
    run = PlayedRun({1: stranger.handle, 2: curators["bern"].handle})
    requests = cards(curators)
    replies = play(run, timeout=0.5).exchange(requests)
    assert replies.keys() == {curators["bern"].identity}
    assert requests[curators["basel"].identity] not in [data for _, data in run.pushed]


def test_a_curator_with_a_new_key_is_found_under_the_one_that_the_learner_knows(curators, play):
    """It signs as whom it is asked for; otherwise as its newest."""
    basel, newest = curators["basel"], open_curator("newest")

    def rotated(data):
        known = open_envelope(data)[1].recipient == basel.identity
        return (basel if known else newest).handle(data)

    replies = play(PlayedRun({1: rotated, 2: curators["bern"].handle})).exchange(cards(curators))
    assert {card.name for card in read(replies).values()} == {"basel", "bern"}


def test_a_node_that_says_to_be_another_s_is_not_believed(curators, play):
    def liar(data):
        reply = open_envelope(open_curator("chur").handle(data))[1]
        return seal(reply, key("chur")) if isinstance(reply, Card) else b"rubbish"

    replies = play(PlayedRun({1: liar, 2: curators["bern"].handle}), timeout=0.3).exchange(cards(curators))
    assert replies.keys() == {curators["bern"].identity}


def test_a_second_node_of_a_curator_is_tried_where_the_first_is_a_relay_that_holds_back(curators, play):
    basel = curators["basel"]

    def holds_back(data):
        return basel.handle(data) if open_envelope(data)[1].recipient == NOBODY else None

    run = PlayedRun({1: holds_back, 2: basel.handle, 3: curators["bern"].handle})
    assert len(play(run).exchange(cards(curators))) == 2


def test_a_run_that_is_lost_is_started_anew_and_the_same_is_sent_again(curators, play):
    handles = {1: curators["basel"].handle, 2: curators["bern"].handle}
    first, second = PlayedRun(handles, ends=3), PlayedRun(handles)
    requests = cards(curators)
    assert len(play(first, second).exchange(requests)) == 2
    assert set(requests.values()) <= {data for _, data in second.pushed}


def test_runs_that_are_always_lost_are_given_up(curators, play):
    with pytest.raises(SuperLinkError, match="gives up every run"):
        play(RunLostError()).exchange(cards(curators))


def test_a_superlink_that_is_away_is_given_up_after_the_patience(curators, play):
    with pytest.raises(SuperLinkError, match="cannot be reached"):
        play(AwayError(), patience=0.05).exchange(cards(curators))
    run = PlayedRun({1: curators["basel"].handle, 2: curators["bern"].handle})
    assert len(play(AwayError(), run).exchange(cards(curators))) == 2
