"""A study is ended at any point and goes on, elsewhere too: the same releases and cost, no question charged twice."""

import contextlib
import os
import shutil
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner_fakes import (
    LEARNER,
    Clock,
    Ellipse,
    EndsAt,
    Entropy,
    NoNoise,
    PowerFailure,
    Scripted,
    account,
    journalled,
    key,
    mass_body,
    open_curator,
    plan_of,
    ring,
    silent_from,
)
from learner_node.carriers.journal import HEAD, Beginning, Decision, Journal, Record, Settings
from learner_node.questions.selection import select
from learner_node.result.deployed import run_study
from learner_node.strategies.base import NumberModel, class_probabilities, train_alone
from learner_node.study.budget import Budget
from learner_node.study.federation import Federation, UnfinishedError
from learner_node.study.learn import learn
from learner_node.study.study import NoCuratorError, Study
from learner_node.study_file import StudyFile
from limits_told import limits_with
from moved_floats import Moved
from protocol.codec import decode, encode
from protocol.envelopes import digest, open_envelope
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.messages import CardRequest, Query
from protocol.record_frames import encode_frame
from protocol.transcript import replay
from secure_fakes import members

PLAN = plan_of(10, 5, 4)
COST = Fraction(1, 10) + Fraction(1, 5) + Fraction(1, 4)
ABOUT = Settings("0.2.0", bytes(32), {})
NAMES = ("basel", "bern")


def attempt(path, curators, carrier, *, clock, plan=PLAN, shift=0.0, lifetime=600, abouts=ABOUT):
    """One process's run of the study; what it found."""
    with Journal(path, abouts, clock=clock, entropy=Entropy()) as journal:
        federation = Federation(
            curators={name: curator.identity for name, curator in curators.items()},
            key=key(LEARNER),
            carrier=journal.through(carrier),
            clock=journal.clock,
            entropy=journal.entropy,
            receipts=journal.receipts,
            resumable=True,
            lifetime=lifetime,
        )
        study = Study(federation)
        with study.closing():
            study.propose(plan, "to test", list(study.read_cards()))
            for number in range(len(plan.queries)):
                study.ask(dict.fromkeys(study.survivors, mass_body(number + shift)))
        return study


def releases(study):
    return [{name: answer.values.tolist() for name, answer in done.answers.items()} for done in study.rounds]


def assert_paid_once(study, curators):
    for name, curator in curators.items():
        assert study.spent(name) == study.spent_at_most(name) == account(curator).total_spent == COST
        assert account(curator).total_reserved == 0
        for session in (study.sessions[name], *study.retired[name]):
            replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.sampled_from([0, 1, 700, 5000])), max_size=6),
    st.integers(0, 40),
)
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_a_process_that_ends_anywhere_is_gone_on_with(tmp_path_factory, failures, cut):
    """Each failure: at which exchange of its process, whether it was served, and seconds until the next process."""
    path = tmp_path_factory.mktemp("study") / "journal"
    clock = Clock()
    curators = {name: open_curator(name, clock=clock) for name in NAMES}
    seen = []
    for at, served, away in failures:
        with contextlib.suppress(PowerFailure):
            attempt(path, curators, EndsAt(Scripted(curators), at, served=served), clock=clock)
        seen.append(path.stat().st_size)
        if cut and seen[-1] > cut + 200:  # the last record was being written
            os.truncate(path, _torn(path, cut))
        clock.now += away
    study = attempt(path, curators, Scripted(curators), clock=clock)
    assert_paid_once(study, curators)
    first = releases(study)
    silent = EndsAt(Scripted(curators), 1, served=False)
    assert releases(attempt(path, curators, silent, clock=clock)) == first, "all of it is in the journal"
    assert len(silent.sent) == 0


def _torn(path, cut):
    """A size that cuts into the journal's last record, and no further."""
    content, place, last = path.read_bytes(), 0, 0
    while place < len(content):
        last = place
        place += HEAD + int.from_bytes(content[place : place + 4], "big")
    return min(len(content), last + cut) if last else len(content)


@pytest.fixture
def curators():
    return {name: open_curator(name) for name in NAMES}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal"


def test_a_journal_is_for_its_owner_and_for_one_process(curators, path):
    attempt(path, curators, Scripted(curators), clock=Clock())
    assert path.stat().st_mode & 0o777 == 0o600
    with (
        Journal(path, ABOUT, clock=Clock(), entropy=Entropy()),
        pytest.raises(ConfigurationError, match="another process runs this study"),
    ):
        Journal(path, ABOUT, clock=Clock(), entropy=Entropy())


def test_another_question_is_not_sent_under_the_same_journal(curators, path):
    with pytest.raises(PowerFailure):
        attempt(path, curators, EndsAt(Scripted(curators), 4, served=True), clock=Clock())
    carrier = Scripted(curators)
    with pytest.raises(ConfigurationError, match="would now ask something else than before"):
        attempt(path, curators, carrier, clock=Clock(), shift=0.5)
    assert carrier.sent == []
    assert_paid_once(attempt(path, curators, carrier, clock=Clock()), curators)


def test_other_settings_are_refused_before_anything_is_sent(curators, path):
    attempt(path, curators, Scripted(curators), clock=Clock())
    with pytest.raises(ConfigurationError, match="other settings, another source or another key"):
        attempt(path, curators, Scripted(curators), clock=Clock(), abouts=Settings("0.2.0", b"1" * 32, {}))


def test_a_torn_last_record_is_dropped_and_a_damaged_one_is_told(curators, path):
    attempt(path, curators, Scripted(curators), clock=Clock())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)
    path.write_bytes(whole + bytes(4096))  # what a power failure may leave of a file that grew
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)
    for place in (0, 3, 5, 9, 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ConfigurationError, match="damaged after 0 bytes"):
            attempt(path, curators, Scripted(curators), clock=Clock())


def test_receipts_are_those_with_which_the_study_began(curators, path):
    federation_receipts = {curators["basel"].identity: b"a receipt"}
    with Journal(path, Settings("1", bytes(32), federation_receipts), clock=Clock(), entropy=Entropy()) as journal:
        assert journal.receipts == federation_receipts
    with Journal(path, Settings("2", bytes(32), {}), clock=Clock(), entropy=Entropy()) as journal:
        assert journal.receipts == federation_receipts


def test_a_study_whose_carrier_cannot_go_on_is_left_open(curators, path):
    class Later(Scripted):
        def exchange(self, requests):
            if len(self.sent) >= 6:
                raise UnfinishedError("later")
            return super().exchange(requests)

    with pytest.raises(UnfinishedError):
        attempt(path, curators, Later(curators), clock=Clock())
    assert all(account(curator).total_reserved for curator in curators.values())
    assert_paid_once(attempt(path, curators, Scripted(curators), clock=Clock()), curators)


def test_a_curator_that_never_answers_is_left_out_and_stays_so(curators, path):
    study = attempt(path, curators, Scripted(curators, {"bern": silent_from(2)}), clock=Clock())
    assert study.survivors == ["basel"]
    again = attempt(path, curators, Scripted(curators), clock=Clock())
    assert (again.survivors, again.left_out) == (study.survivors, study.left_out)


def test_nobody_is_left(tmp_path, curators, path):
    with pytest.raises(NoCuratorError):
        attempt(path, curators, Scripted(curators, dict.fromkeys(NAMES, silent_from(0))), clock=Clock())
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    with pytest.raises(NoCuratorError):
        attempt(copy, curators, Scripted(curators), clock=Clock())


@pytest.mark.parametrize("late", [-1, 0, 1, 4])
def test_a_request_that_comes_after_its_expiry_is_made_anew(tmp_path, late):
    """The card request, the proposal, a query and the close: each waits longer than it is valid."""
    clock = Clock()
    curators = {name: open_curator(name, clock=clock) for name in NAMES}

    class Slow(Scripted):
        def exchange(self, requests):
            if len({data for _, _, data in self.sent}) == 2 * (late + 1):
                clock.now += 700
            return super().exchange(requests)

    study = attempt(tmp_path / "journal", curators, Slow(curators), clock=clock)
    assert_paid_once(study, curators)
    assert [len(each) for each in study.retired.values()] == ([1, 1] if late == 0 else [0, 0])
    assert study.left_out == {}


SOURCE = ring(40, seed=9).drop("sick")
SETTINGS = Settings("0.2.0", bytes(32), {})
CELLS = {"cells": 6, "networks": False}


def records_of(path):
    """What a journal holds."""
    content, found = path.read_bytes(), []
    while content:
        end = HEAD + int.from_bytes(content[:4], "big")
        found.append(decode(content[HEAD:end], Record))
        content = content[end:]
    return found


def write_records(path, records):
    parts = []
    for data in map(encode, records):
        length = len(data).to_bytes(4, "big")
        parts += [length, digest(length)[:4], digest(data)[:8], data]
    path.write_bytes(b"".join(parts))


@dataclass
class World:
    """Curators, a journal, and the study that processes go on with."""

    path: object
    curators: dict
    study: object
    clock: Clock = field(default_factory=Clock)
    entropy: Entropy = field(default_factory=Entropy)

    def __post_init__(self):
        self.carrier = Scripted(self.curators)

    def run(self, carrier=None, settings=SETTINGS):
        """One process."""
        with Journal(self.path, settings, clock=self.clock, entropy=self.entropy) as journal:
            return self.study(self, journal, carrier or self.carrier)

    def federation(self, journal, carrier):
        return journalled(journal, self.curators, carrier)

    @property
    def identities(self):
        return {name: curator.identity for name, curator in self.curators.items()}

    def journey(self, monkeypatch):
        """Process after process, each on a processor of its own, each ended at its second message; what they found."""
        for process in range(60):
            with monkeypatch.context() as patched:
                Moved(patched, process)
                try:
                    return self.run(EndsAt(self.carrier, 2, served=process % 2 == 0))
                except PowerFailure:
                    continue
        raise AssertionError("it never came to its end")


def assert_asked_and_paid_once(world, studies):
    sent = {}
    for name, _, data in world.carrier.sent:
        message = open_envelope(data)[1]
        if not isinstance(message, CardRequest):
            sent.setdefault((name, message.study, message.sequence, type(message)), set()).add(data)
    assert all(len(each) == 1 for each in sent.values()), "one request for each place of a study"
    for name, curator in world.curators.items():
        spent = sum((study.spent(name) for study in studies), Fraction(0))
        assert spent == sum((study.spent_at_most(name) for study in studies), Fraction(0))
        assert account(curator).total_spent == spent > 0
        assert account(curator).total_reserved == 0
    for study in studies:
        for session in study.sessions.values():
            replay(session.transcript.envelopes, session.curator, key(LEARNER).public)


def assert_read_as_asked(world, study):
    """Of counts that every curator answers by itself: each round is read with the very body that was sent."""
    for name, session in study.sessions.items():
        sent = [open_envelope(data)[1] for data in session.transcript.envelopes]
        bodies = [message.body for message in sent if isinstance(message, Query)]
        assert bodies == [encode(done.bodies[name]) for done in study.rounds]
        assert [encode(done.answers[name].body) for done in study.rounds] == bodies


def deployed(world, journal, carrier, **changes):
    told = {"title": "t", "source": "s", "epsilon": 1, "curators": {"basel": "-"}, "options": CELLS, **changes}
    return run_study(
        StudyFile(**told), SOURCE, curators=world.identities, key=key(LEARNER), journal=journal, carrier=carrier
    )


def learnt(world, journal, carrier, **how):
    return learn(world.federation(journal, carrier), SOURCE, **{"budget": Budget(1), **how})


def world_of(tmp_path, study, names=("basel", "bern"), **options):
    return World(tmp_path / "journal", {name: open_curator(name, noise=NoNoise(), **options) for name in names}, study)


def probability(model):
    return model.probability(encode_frame(ring(40, seed=3), open_curator("basel")._dataset.schema))


@pytest.mark.slow
def test_a_study_with_its_validation_is_stopped_at_every_message_and_goes_on_elsewhere(tmp_path, monkeypatch):
    world = world_of(tmp_path, partial(deployed, validate="1/2"))
    found = world.journey(monkeypatch)
    assert_asked_and_paid_once(world, found.studies)
    for study in found.studies:
        assert_read_as_asked(world, study)
    (asked,) = found.validation.study.rounds[0].bodies["basel"].partitions
    assert asked.hypothesis == found.validation.hypothesis
    # Another processor finds all of it in the journal: the model that was validated, and not another one.
    Moved(monkeypatch, 99)
    again = world.run(EndsAt(world.carrier, 2, served=False))
    assert probability(again.learned.final_model).tolist() == probability(found.learned.final_model).tolist()
    assert again.validation.hypothesis == found.validation.hypothesis
    assert again.validation.agreement == found.validation.agreement
    assert again.learned.estimates[""].accuracy == found.learned.estimates[""].accuracy


SEVERAL_TURNS = {
    "paper-c": {"rounds": 2, "epochs": 2, "hidden": [4]},
    "adaptive-cells": {"cells": 6},
    "additive": {"choice_share": "1/3", "chosen": 1, "bins": 4},
    "informative": {"bins": 4},
    "new-features": {"score": True, "hidden": [4], "cells": 6},
}


@pytest.mark.family(1)
@pytest.mark.parametrize(
    "name", [*list(SEVERAL_TURNS)[:-1], pytest.param(*list(SEVERAL_TURNS)[-1:], marks=pytest.mark.slow)]
)
def test_later_questions_of_several_turns_are_those_that_were_decided(tmp_path, monkeypatch, name):
    world = world_of(tmp_path, partial(learnt, strategy=name, options=SEVERAL_TURNS[name]))
    found = world.journey(monkeypatch)
    assert_asked_and_paid_once(world, [found.study])
    assert_read_as_asked(world, found.study)
    Moved(monkeypatch, 99)
    again = world.run(EndsAt(world.carrier, 2, served=False))
    assert probability(again.model()).tolist() == probability(found.model()).tolist()


@pytest.mark.slow
def test_models_of_each_site_go_on_with_questions_of_their_own(tmp_path, monkeypatch):
    world = world_of(tmp_path, partial(deployed, validate="1/2", pooling="site", strategy="adaptive-cells", options={}))
    found = world.journey(monkeypatch)
    assert_asked_and_paid_once(world, found.studies)
    assert_read_as_asked(world, found.learned.study)


@pytest.mark.slow
def test_a_secure_sum_and_its_validation_go_on_elsewhere(tmp_path, monkeypatch):
    world = World(tmp_path / "journal", members(3), partial(deployed, validate="1/2", pooling="secure"))
    found = world.journey(monkeypatch)
    assert_asked_and_paid_once(world, found.studies)
    for study, asked in zip(found.studies, (found.learned, found.validation), strict=True):
        assert study.rounds[0].pooled.body == study.rounds[0].bodies["site 00"]
        assert asked is not None


@pytest.mark.slow
def test_a_selection_goes_on_elsewhere_with_the_networks_that_were_asked_about(tmp_path, monkeypatch):
    candidates = {"all well": Constant(0), "ellipse": Ellipse()}

    def chosen(world, journal, carrier):
        stated = dict.fromkeys(candidates, world.rng.uniform(0.5, 0.6))
        return select(
            world.federation(journal, carrier), candidates, Budget("8"), source=SOURCE, expected=stated, patience=1
        )

    limits = limits_with(query_kinds=("counts", "holdout"))
    world = world_of(tmp_path, chosen, cap="8", limits=limits)
    world.rng = np.random.default_rng(1)
    found = world.journey(monkeypatch)
    assert_asked_and_paid_once(world, [found.study])
    bodies = [done.bodies["basel"] for done in found.study.rounds]
    assert bodies[-1].hypothesis != Constant(0)
    again = world.run(EndsAt(world.carrier, 2, served=False))
    assert [one.agreement for one in again.checked] == [one.agreement for one in found.checked]
    assert [done.bodies["basel"] for done in again.study.rounds] == bodies


WAITS = {"validate": "1/2", "strategy": "paper-c", "options": {"rounds": 1, "epochs": 2, "hidden": [4]}}
"""A network is validated as it is."""


def test_a_validation_that_waits_for_a_steward_goes_on_elsewhere(tmp_path, monkeypatch):
    """What the proposal leads to, model and question, was there before it was sent."""
    world = world_of(tmp_path, partial(deployed, **WAITS), ["basel"])

    class Waiting(Scripted):
        def exchange(self, requests):
            if sum(kind == "StudyProposal" for _, kind, _ in self.sent) == 2:
                raise PowerFailure
            return super().exchange(requests)

    with pytest.raises(PowerFailure):
        world.run(Waiting(world.curators))
    decided = [record.data for record in records_of(world.path) if isinstance(record, Decision)]
    Moved(monkeypatch, 1)
    found = world.run()
    assert_asked_and_paid_once(world, found.studies)
    assert encode(found.validation.study.rounds[0].bodies["basel"]) in decided[-1]
    assert found.validation.hypothesis == found.learned.model().hypothesis


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A journal of a study that ended after its answer, and the curators."""
    world = world_of(tmp_path_factory.mktemp("stopped"), partial(learnt, strategy="cells", options=CELLS), ["basel"])
    world.run()
    records = records_of(world.path)
    last = max(number for number, record in enumerate(records) if isinstance(record, Decision))
    return world, records[:last]


def again_from(world, records, tmp_path, **how):
    """Another process goes on with these records, at the same curators."""
    other = World(tmp_path / "journal", world.curators, world.study)
    write_records(other.path, records)
    return other, partial(other.run, **how)


def as_older(records):
    """As the version before wrote it: it held no decisions."""
    begun, *rest = records
    return [Beginning(1, begun.expril, begun.about, begun.receipts)] + [
        record for record in rest if not isinstance(record, Decision)
    ]


def test_an_older_journal_goes_on_where_floats_are_the_same(stopped, tmp_path):
    world, records = stopped
    other, run = again_from(world, as_older(records), tmp_path)
    found = run()
    assert_asked_and_paid_once(other, [found.study])
    again = run()
    assert probability(again.model()).tolist() == probability(found.model()).tolist()


def test_an_older_journal_is_refused_elsewhere_before_anything_is_sent(stopped, tmp_path, monkeypatch):
    world, records = stopped
    other, run = again_from(world, as_older(records), tmp_path)
    Moved(monkeypatch, 1)
    with pytest.raises(ConfigurationError, match=r"would now ask something else.*on the same machine"):
        run()
    assert other.carrier.sent == []


def test_another_version_goes_on_only_where_it_decides_the_same(stopped, tmp_path, monkeypatch):
    world, records = stopped
    newer = Settings("0.3.0", SETTINGS.about, {})
    _, run = again_from(world, records, tmp_path, settings=newer)
    with monkeypatch.context() as patched:
        Moved(patched, 1)
        with pytest.raises(ConfigurationError, match=r"ExPriL 0\.2\.0 began it: go on with that version; or begin"):
            run()
    assert run().study.spent("basel") == 1


@pytest.mark.parametrize("place", range(4))
def test_what_cannot_be_a_decision_of_this_study_is_refused(stopped, tmp_path, place):
    """Another number of decisions, or other bytes: nothing is sent, and it says what to do."""
    world, records = stopped
    at = next(number for number, record in enumerate(records) if isinstance(record, Decision))
    changed = [
        [*records[:at], *records[at + 1 :]],
        [*records[:at], records[at], *records[at:]],
        [*records[:at], Decision(b""), *records[at + 1 :]],
        [*records[:at], Decision(records[at].data[:-1]), *records[at + 1 :]],
    ][place]
    other, run = again_from(world, changed, tmp_path)
    with pytest.raises(ConfigurationError, match="would now ask something else than before, so nothing was sent"):
        run()
    assert other.carrier.sent == []


NUMBER, THREE = {"classes": (), "label_bounds": (0.0, 10.0)}, {"classes": ("no", "yes", "maybe")}
KINDS = limits_with(query_kinds=("counts", "model", "statistic"))
READ = [
    ("cells", {"cells": 9, "networks": False, "mass_share": "1/4"}, {}),
    ("cells", {"cells": 9}, THREE),
    ("cells", {"cells": 6}, NUMBER),
    ("paper-c", {"rounds": 3, "epochs": 2, "hidden": [4]}, {}),
    ("paper-i", {"rounds": 2, "epochs": 2, "hidden": [4], "reweight": False}, {}),
    ("importance", {"bins": 4, "epochs": 2, "hidden": [4]}, {}),
    ("additive", {"choice_share": "1/3", "chosen": 1, "bins": 4}, {}),
    ("random-subsets", {"features": 1, "bins": 4}, {}),
    ("informative", {"bins": 4}, {}),
    ("varying-bins", {"cells": True, "bins": 5}, {}),
    ("new-features", {"score": True, "hidden": [4], "cells": 5}, {}),
    ("adaptive-cells", {"tree": True, "cells": 5}, {}),
    ("selected-cells", {"features": 1, "cells": 5, "networks": False}, {}),
    ("cells", {"chosen": 1, "cells": 5, "networks": False}, {}),
    ("site-naive-bayes", {"bins": 4}, {}),
    ("site-logistic", {}, {}),
]


@pytest.mark.family(5)
@pytest.mark.parametrize(("name", "options", "label"), READ)
def test_answers_are_read_with_what_was_asked_and_not_with_what_would_be_drawn_now(
    tmp_path, monkeypatch, name, options, label
):
    """Elsewhere everything that is asked would be drawn far off, and nothing else differs: so the same is learnt."""
    frame = ring(200, seed=5)
    if label is NUMBER:
        frame = frame.with_columns(sick=pl.col("x").abs() * 2)
    if label is THREE:
        frame = frame.with_columns(sick=pl.when(pl.col("y") > 1).then(pl.lit("maybe")).otherwise("sick"))
    trained = []

    def train(data, options):
        """Of all networks but the last, which is the model, others come out elsewhere."""
        found = train_alone(data, options)
        trained.append(data)
        return flipped(found) if len(trained) < elsewhere else found

    elsewhere = 0
    study = partial(learnt, strategy=name, options=options, train=train)
    world = World(
        tmp_path / "journal", {"basel": open_curator("basel", frame, noise=NoNoise(), limits=KINDS, **label)}, study
    )
    found = world.run()
    records = records_of(world.path)
    last = max(number for number, record in enumerate(records) if isinstance(record, Decision))
    assert records[last].data, "model and estimate are kept"
    write_records(world.path, records[:last])
    elsewhere = len(trained)
    trained.clear()
    Moved(monkeypatch, 7, by=0.5, features=False)
    again = world.run()
    assert_asked_and_paid_once(world, [again.study])
    assert predicted(again) == predicted(found)


@pytest.mark.parametrize(
    ("name", "options", "label", "last"),
    [
        ("cells", {"question": "squared_error", "cells": 6}, NUMBER, slice(0, 2)),
        ("paper-c", {"rounds": 2, "epochs": 2, "hidden": [4]}, {}, slice(1, 3)),
        ("additive", {"choice_share": "1/3", "chosen": 1, "bins": 4}, {}, slice(0, 2)),
    ],
)
def test_questions_that_are_read_together_are_about_the_same_parts_wherever_each_was_drawn(
    tmp_path, monkeypatch, name, options, label, last
):
    """The process ends with an answer on its disk, before it decided what to ask next."""
    frame = ring(200, seed=5)
    if label is NUMBER:
        frame = frame.with_columns(sick=pl.col("x").abs() * 2)
    curators = {"basel": open_curator("basel", frame, noise=NoNoise(), **label)}
    world = World(tmp_path / "journal", curators, partial(learnt, strategy=name, options=options))

    class Ending(Scripted):
        def exchange(self, requests):
            sequences = [open_envelope(data)[1].sequence for data in requests.values()]
            if sequences == [last.stop]:
                raise PowerFailure
            return super().exchange(requests)

    with pytest.raises(PowerFailure):
        world.run(Ending(world.curators))
    records = records_of(world.path)
    undecided = max(number for number, record in enumerate(records) if isinstance(record, Decision))
    write_records(world.path, records[:undecided])
    Moved(monkeypatch, 7, by=0.5, features=False)
    found = world.run()
    assert_asked_and_paid_once(world, [found.study])
    first, second = [done.bodies["basel"].partitions for done in found.study.rounds[last]]
    assert set(map(encode, second)) <= set(map(encode, first))


def flipped(network):
    return replace(network, layers=tuple((-weights, -biases) for weights, biases in network.layers))


def predicted(learned):
    """What the model says of the source, and what the estimate does."""
    model, estimate = learned.model(), learned.estimates[""]
    said = (
        model.predict_number(learned.source)
        if isinstance(model, NumberModel)
        else class_probabilities(model, learned.source)
    )
    return said.tolist(), estimate.weights.tolist()
