"""Every byte of counts studies, one of each release kind: messages and receipts are those in study_bytes.json.

Keys, clock, nonces and noise are told, and a curator computes with whole numbers, so any processor gives the same.
`PYTHONPATH=tests/support:. python tests/system/test_study_bytes.py` writes the file. A change there is a change of
behaviour: say why in the commit.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from curator_fakes import Clock, CountingEntropy, hold, key, ledger_over, policy, steward_file
from curator_node.site import assemble_site
from learner_node.study.federation import Federation
from learner_node.study.study import Study
from limits_told import limits_with
from protocol.codec import encode
from protocol.envelopes import NOT_PRIVATE_LABEL, open_envelope, open_receipt
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.limits import Limits
from protocol.messages import Card, Query, Release, StudyAccepted, StudyClosed, StudyProposal
from protocol.partitions import (
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, TimeToEvent
from protocol.transcript import replay
from simulations.carriers.direct import DirectCarrier
from simulations.kinds import SIMULATED_ANSWERERS, SIMULATED_READERS
from simulations.paper_ratio import SIMULATED_KINDS, PrintedCountsLimits
from simulations.seeded_noise import SeededNoise

HELD = Path(__file__).with_name("study_bytes.json")
NOISE_SEED = 7

MAP = FeatureMap(
    features=(
        NumericFeature(attribute="age", offset=60.0, factor=1 / 32, imputation=50.0),
        NumericFeature(attribute="dose", offset=0.0, factor=0.5, imputation=0.0),
        CategoricalFeature(attribute="sex", levels=("m",), factor=1.0, imputation="m"),
    )
)
AGE, SEX = FeatureBins("age", (30.0, 60.0)), FeatureBins("sex", ())
NETWORK = Mlp.of(
    MAP,
    [
        (np.linspace(-1, 1, 2 * MAP.width, dtype=np.float32).reshape(2, MAP.width), np.array([0.25, 0], np.float32)),
        (np.array([[1, -0.5]], np.float32), np.array([-0.125], np.float32)),
    ],
)
CENTRES = NearestCentre.of(MAP, np.linspace(-1, 1, 3 * MAP.width).reshape(3, MAP.width))
PROJECTION = ProjectionBins.of(MAP, np.linspace(-1, 1, MAP.width)[None], ((-0.25, 0.5),))
TREE = TreeLeaves.of(MAP, np.array([[0, -1024, -1, 1], [1, 1, -3, -2]]))
EVERY_RELEASE_KIND = limits_with(release_kinds=PrintedCountsLimits.installed)
CLASSES, BOUNDS = ("none", "some", "much"), (-2.0, 6.0)


@dataclass(frozen=True)
class Asked:
    """One query of a plan; one without partitions is planned and never asked."""

    release: str
    partitions: tuple = ()
    hypothesis: object = None
    scale: Fraction = Fraction(3)
    steps: int = 1
    most_squared_error: int | None = None

    @property
    def planned(self):
        return PlannedCounts(self.release, max(1, len(self.partitions)), Rational.of(self.scale), self.steps)

    @property
    def body(self):
        return CountsBody(self.partitions, self.hypothesis, self.most_squared_error)


STUDIES = {
    "two classes": [
        Asked("mass", (AGE, SEX)),
        Asked("signed_error", (CENTRES, TREE), NETWORK, Fraction(7, 2)),
        Asked("error_correct", (ProductBins(AGE, SEX), PROJECTION, ScoreBins(NETWORK, (-0.5, 0.5))), Constant(1)),
    ],
    "paper ratio": [Asked("paper_ratio", (AGE,), NETWORK), Asked("paper_ratio", (AGE, SEX), None)],
    "patients": [Asked("mass", (AGE,)), Asked("error_correct", (SEX,), Constant(1), Fraction(10)), Asked("mass")],
    "classes": [Asked("class_counts", (AGE, SEX)), Asked("class_counts", (TREE,)), Asked("mass", (CENTRES,))],
    "number": [
        Asked("label_total", (AGE, SEX), scale=Fraction(3000), steps=1000),
        Asked("squared_error", (SEX,), NETWORK, Fraction(192), 64, 2**20),
    ],
    "outcomes": [
        Asked(
            "outcome_counts",
            (
                CrossBins((FeatureBins("followed", (100.0, 300.0)), FeatureBins("end", ()), SEX)),
                CrossBins((FeatureBins("sick", ()),), (Range(AGE, (1, 2)), Range(FeatureBins("end", ()), (0,)))),
            ),
        ),
        Asked("mass", (CrossBins((AGE, SEX), (Range(SEX, (1, 3)),)),)),
    ],
    "errors of a number": [Asked("error_sums", (SEX,), NETWORK, Fraction(192), 64, 2**20)],
}


def held_records(name):
    """A steward's file, and 60 records: two of each patient, with gaps and values beyond the bounds."""
    rng = np.random.default_rng(5)
    ages, doses = rng.integers(-20, 260, 60) / 2, rng.integers(-88, 88, 60) / 16
    columns = {
        "patient": [f"p{i // 2}" for i in range(60)],
        "age": [None if i % 11 == 0 else age for i, age in enumerate(ages.tolist())],
        "dose": [None if i % 13 == 0 else dose for i, dose in enumerate(doses.tolist())],
        "sex": [("f", "m", None)[i % 7 % 3] for i in range(60)],
    }
    numbers = dict.fromkeys(("number", "errors of a number"), (doses + ages / 64).tolist())
    labels = {"classes": [CLASSES[int(age) % 3] for age in ages], **numbers}
    sick = labels.get(name, np.where(doses > ages / 64, "yes", "no").tolist())
    steward = steward_file(most=1 + (name == "patients"), round_size=60)
    if name == "outcomes":
        columns |= {
            "followed": (ages * 3 + doses).tolist(),
            "end": [("alive", "dead", "elsewhere", None)[int(age) % 7 % 4] for age in ages],
        }
        outcomes = NumericAttribute("followed", 0.0, 365.0), CategoricalAttribute("end", ("alive", "dead"))
        followed = TimeToEvent("followed", "end", "alive", edges=(100.0, 300.0))
        steward = msgspec.structs.replace(steward, outcomes=outcomes, time_to_event=followed)
    if name == "classes":
        steward = msgspec.structs.replace(steward, classes=CLASSES)
    if name in numbers:
        steward = msgspec.structs.replace(steward, classes=(), label_bounds=BOUNDS)
    return steward, pl.DataFrame({**columns, "sick": sick})


def run_study(name):
    """One study over direct calls: every key, clock, nonce and noise is told."""
    asked = STUDIES[name]
    steward, frame = held_records(name)
    limits = EVERY_RELEASE_KIND if name == "paper ratio" else Limits()
    curator = assemble_site(
        hold(frame, steward),
        policy(("ann",), cap=8, simulation=True, limits=limits),
        key=key("basel"),
        ledger=ledger_over(entropy=CountingEntropy()),
        clock=Clock(),
        noise=SeededNoise(NOISE_SEED, "basel"),
        entropy=CountingEntropy(),
        answerers=SIMULATED_ANSWERERS,
    )
    federation = Federation(
        curators={"basel": curator.identity},
        key=key("ann"),
        carrier=DirectCarrier({curator.identity: curator.handle}),
        clock=Clock(),
        entropy=CountingEntropy(),
        allow_not_private=True,
        readers=SIMULATED_READERS,
    )
    study = Study(federation)
    study.read_cards()
    study.propose(Plan.of(each.planned for each in asked), "held", ["basel"])
    for each in asked:
        if each.partitions:
            study.ask({"basel": each.body})
    study.close()
    return study.sessions["basel"]


def told(message):
    """The parts of a message that say something; its header is in the digest of the payload."""
    match message:
        case StudyProposal():
            return {"plan": shown(encode(message.plan))}
        case StudyAccepted():
            return {"cost": message.cost, "reserved_until": message.reserved_until, "receipt": receipt(message)}
        case Query():
            return {"kind": message.kind, "body": shown(message.body)}
        case Release():
            return {"kind": message.kind, "body": shown(message.body), "receipt": receipt(message)}
        case StudyClosed():
            return {"refunded": message.refunded, "receipt": receipt(message)}
    return {}


def receipt(message):
    """What a receipt says of the budget."""
    said = open_receipt(message.receipt, key("basel").public, label=NOT_PRIVATE_LABEL)
    return [said.charged, said.spent_by_study, said.spent_by_learner]


def shown(data):
    """Bytes as text: in hexadecimal, or their digest where there are many."""
    return data.hex() if len(data) <= 100 else f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"


def wire():
    """The messages of each study. Cards apart, and their limits apart again: no other message depends on them."""
    cards, limits, studies = {}, {}, {}
    for name in STUDIES:
        session = run_study(name)
        messages = []
        for data in session.transcript.envelopes:
            envelope, message = open_envelope(data)
            if isinstance(message, Card):
                cards[name] = json.loads(msgspec.json.encode(message))
                limits["paper ratio" if name == "paper ratio" else "all others"] = cards[name].pop("limits")
            else:
                digest = hashlib.sha256(envelope.payload).hexdigest()
                messages.append({"type": envelope.type, "payload": digest, **told(message)})
        proof = replay(
            session.transcript.envelopes,
            session.curator,
            session.key.public,
            label=NOT_PRIVATE_LABEL,
            kinds=SIMULATED_KINDS,
        )
        amounts = {"claimed": str(proof.epsilon_claimed), "spent": str(proof.epsilon_spent)}
        studies[name] = {**amounts, "state": proof.state.value, "messages": messages}
    return {"limits": limits, "cards": cards, "studies": studies}


def parts(messages):
    """Each part under a name of its own, so that a failure says which changed."""
    studies = {f"study, {name}": study for name, study in messages["studies"].items()}
    cards = {f"card, {name}": card for name, card in messages["cards"].items()}
    return {**studies, **cards, "limits": messages["limits"]}


def test_every_release_kind_is_held():
    assert {each.release for asked in STUDIES.values() for each in asked} == {*RELEASE_KINDS, "paper_ratio"}


def test_studies_say_the_same_bytes():
    then, now = parts(json.loads(HELD.read_text(encoding="utf-8"))), parts(wire())
    assert then.keys() == now.keys()
    for name in then:
        assert now[name] == then[name], name


if __name__ == "__main__":
    HELD.write_text(json.dumps(wire(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"{HELD}\n")
