"""What the code computes, as plain data: bytes on the wire, scores of scenarios, numbers of learners.

`python tests/support/held_numbers.py [FILE ...]` writes it to tests/system/held, all files or those named.
A change there is a change of behaviour: say why in the commit.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

import learner_fakes
from curator_fakes import Clock, CountingEntropy, hold, key, ledger_over, policy, steward_file
from curator_node.site import assemble_site
from experiments.campaign.store import Task
from experiments.learning.runner import compute as compute_comparison
from experiments.paper.experiments import Setup
from experiments.paper.runner import Chunk
from experiments.paper.runner import compute as compute_reproduction
from learner_fakes import ring
from learner_node.estimator import ExPriLClassifier
from learner_node.quote import quote
from learner_node.regressor import ExPriLRegressor
from learner_node.strategies import STRATEGIES
from learner_node.study import Federation, Study
from limits_told import limits_with
from protocol.codec import encode
from protocol.envelopes import NOT_PRIVATE_LABEL, SigningKey, open_envelope, open_receipt
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.limits import Limits
from protocol.messages import Card, Query, Release, StudyAccepted, StudyClosed, StudyProposal
from protocol.partitions import FeatureBins, NearestCentre, ProductBins, ProjectionBins, ScoreBins, TreeLeaves
from protocol.plans import Plan
from protocol.queries.counts import CountsBody, PlannedCounts
from protocol.rationals import Rational
from protocol.records import encode_frame
from protocol.release_kinds import RELEASE_KINDS
from protocol.transcript import replay
from simulations.carriers.direct import DirectCarrier
from simulations.local import SimulatedExPriLClassifier
from simulations.records import load_records
from simulations.run import run_scenario, summary
from simulations.scenario import builtin_scenarios, load_scenario
from simulations.seeded_noise import SeededNoise

FOLDER = Path(__file__).parents[1] / "system" / "held"
NOISE_SEED = 7
DIGITS = 10
"""Decimals that are kept of a float."""


# --- bytes of a counts study ------------------------------------------------------------------------------

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
EVERY_RELEASE_KIND = limits_with(release_kinds=RELEASE_KINDS)
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
    labels = {"classes": [CLASSES[int(age) % 3] for age in ages], "number": (doses + ages / 64).tolist()}
    sick = labels.get(name, np.where(doses > ages / 64, "yes", "no").tolist())
    steward = steward_file(most=1 + (name == "patients"), round_size=60)
    if name == "classes":
        steward = msgspec.structs.replace(steward, classes=CLASSES)
    if name == "number":
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
    )
    federation = Federation(
        curators={"basel": curator.identity},
        key=key("ann"),
        carrier=DirectCarrier({curator.identity: curator.handle}),
        clock=Clock(),
        entropy=CountingEntropy(),
        allow_not_private=True,
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
        proof = replay(session.transcript.envelopes, session.curator, session.key.public, label=NOT_PRIVATE_LABEL)
        amounts = {"claimed": str(proof.epsilon_claimed), "spent": str(proof.epsilon_spent)}
        studies[name] = {**amounts, "state": proof.state.value, "messages": messages}
    return {"limits": limits, "cards": cards, "studies": studies}


# --- scores of scenarios ----------------------------------------------------------------------------------


HELD = [name for name in builtin_scenarios() if not name.startswith(("readmission", "heart-validated"))]
"""The others take minutes, or ask nothing that these do not."""
CURVES = ("roc", "roc_ceiling", "calibration", "operating_points")
"""Many numbers that say what the scores beside them say."""


def scenario(name):
    """What one repeat of a built-in scenario gives. Keys are told: a unit's kept records hang on its curator's key."""
    chosen, text, folder = load_scenario(name)
    chosen = msgspec.structs.replace(chosen, noise_seed=NOISE_SEED, repeats=1)
    keys = (SigningKey.from_seed(number.to_bytes(32, "big")) for number in itertools.count(1))
    with mock.patch.object(SigningKey, "generate", side_effect=keys), threadpool_limits(1):
        run = run_scenario(chosen, load_records(chosen, folder), text=text, command="", version="", created="")
    found = summary(run.report, "")
    curves = {learner.learner: [point.accuracy for point in learner.curve] for learner in run.report.learners}
    learners = {each.pop("learner"): each for each in found["learners"]}
    for learner, each in learners.items():
        each["curve"] = curves[learner]
        each["pooled"] = {key: value for key, value in each["pooled"].items() if key not in CURVES}
        each["sites"] = {site.pop("curator"): site for site in each["sites"]}
    return plain({"measure": found["measure"], "further": found["further"], "learners": learners})


def scenarios():
    """By name."""
    return {name: scenario(name) for name in HELD}


# --- numbers of learners ----------------------------------------------------------------------------------

POINTS = pl.DataFrame({"x": [0.0, 1.0, -1.2, 1.6, -1.9, 0.2], "y": [0.0, 0.5, 0.3, 1.6, -0.4, 1.45]})
OF_NUMBERS = {"site-linear"}
"""Strategies that take no classes."""
FITS = {
    **{name: (name, {}) for name in STRATEGIES if name not in OF_NUMBERS},
    "cells, signed": ("cells", {"same_population": True}),
    "cells, no networks": ("cells", {"networks": False, "mass_share": "1/4"}),
    "varying-bins, cells": ("varying-bins", {"cells": True}),
    "new-features, score": ("new-features", {"score": True, "hidden": [4]}),
    "adaptive-cells, tree": ("adaptive-cells", {"tree": True}),
    "paper-c, printed": ("paper-c", {"printed": True, "rounds": 1}),
}


def radius(frame):
    return np.hypot(frame["x"], frame["y"])


def simulated(strategy, options, labels):
    """A simulated classifier of `labels`, two curators with seeded noise."""
    model = SimulatedExPriLClassifier(
        strategy=strategy,
        options=options,
        epsilon=2,
        random_state=0,
        n_curators=2,
        bounds=(-4, 4),
        source_fraction=0.5,
        noise_seed=NOISE_SEED,
    )
    frame = ring(300, seed=1)
    return model.fit(frame.drop("sick"), labels(frame))


def fit(name):
    """A strategy's model at fixed points, and what it says of itself."""
    strategy, options = FITS[name]
    model = simulated(strategy, options, lambda frame: frame["sick"].to_numpy())
    expected = model.accuracy_estimate_
    return {
        **budget(model),
        "probability": model.predict_proba(POINTS)[:, 1],
        "weight": model.estimates_[""].weights.sum(),
        "expected": None if expected is None else asdict(expected),
    }


def budget(model):
    spent = {name: str(epsilon) for name, epsilon in model.epsilon_spent_.items()}
    return {"claimed": str(model.epsilon_claimed_), "spent": spent, "outcomes": model.study_.outcomes}


def three_classes():
    """Rings about the origin."""
    model = simulated("cells", {}, lambda frame: np.digitize(radius(frame), [1.0, 1.7]))
    return {**budget(model), "probability": model.predict_proba(POINTS), "synthetic": synthetic(model)}


def number():
    """The distance from the origin, asked of two curators with seeded noise."""
    curators = {
        name: learner_fakes.open_curator(
            name,
            ring(300, seed=seed).with_columns(sick=(pl.col("x") ** 2 + pl.col("y") ** 2).sqrt()),
            noise=SeededNoise(NOISE_SEED, name),
            simulation=True,
            classes=(),
            label_bounds=(0.0, 3.0),
            round_size=300,
        )
        for seed, name in enumerate(("basel", "bern"))
    }
    federation = learner_fakes.federate(curators, allow_not_private=True)
    model = ExPriLRegressor(federation, epsilon=2, random_state=0)
    model.fit(ring(120, seed=3).drop("sick"))
    errors = {name: asdict(error) for name, error in model.errors_.items()}
    return {**budget(model), "number": model.predict(POINTS), "errors": errors, "synthetic": synthetic(model)}


def site_models():
    """One model a curator, and the synthetic data of both together."""
    curators = {
        name: learner_fakes.open_curator(
            name, ring(300, seed=seed), noise=SeededNoise(NOISE_SEED, name), simulation=True, round_size=300
        )
        for seed, name in enumerate(("basel", "bern"))
    }
    federation = learner_fakes.federate(curators, allow_not_private=True)
    model = ExPriLClassifier(federation, pooling="site", epsilon="3/2", random_state=0)
    model.fit(ring(120, seed=3).drop("sick"))
    probability = {name: model.predict_proba(POINTS, name)[:, 1] for name in (None, *curators)}
    return {**budget(model), "probability": {str(k): v for k, v in probability.items()}, "synthetic": synthetic(model)}


def synthetic(model):
    """The first rows of a synthetic data set, and its columns' sums."""
    frame = model.synthetic_data()
    numeric = frame.select(pl.selectors.float())
    return {"head": frame.head(4).to_dict(as_series=False), "sums": numeric.sum().row(0, named=True)}


def quoted():
    """Rows of a quote at two epsilons, but for ranges: they are rounded outwards, which a last digit may move."""
    source = encode_frame(ring(60), learner_fakes.steward().schema)
    rows = quote(source, epsilons=[Fraction(1), Fraction(1, 3)], sites=2, target_size=400, problems=3, seed=3)
    told = [asdict(row) for row in rows]
    for row in told:
        for score in ("accuracy", "auc"):
            kept = row["simulated"][score].items()
            row["simulated"][score] = {name: value for name, value in kept if not name.endswith(("low", "high"))}
    return [row.pop("precision") | row for row in told]


def table2():
    """The first run of the paper's data set C; accuracies in percent of 5000 records."""
    (cell,) = compute_reproduction(Chunk("table2", "C", Setup.of("C", noise_seed=NOISE_SEED), (0,), 0)).cells
    return cell.values


def comparison():
    """A cell of the comparison. Its noise has no seed, but at its "inf" no draw differs from 0."""
    outcome = compute_comparison(Task("wdbc", "cells-smooth", "inf", 5000))
    return {"measures": msgspec.to_builtins(outcome.measures), "spent": outcome.spent, "extras": outcome.extras}


LEARNERS: dict[str, Callable] = {
    **{name: lambda name=name: fit(name) for name in FITS},
    "three classes": three_classes,
    "number": number,
    "site models": site_models,
    "quote": quoted,
    "table 2": table2,
    "comparison": comparison,
}


def learner(name):
    """One entry of `LEARNERS`."""
    with threadpool_limits(1):
        return plain(LEARNERS[name]())


def learners():
    """By name."""
    return {name: learner(name) for name in LEARNERS}


# --- files ------------------------------------------------------------------------------------------------


def plain(value):
    """JSON's own types; floats rounded, fractions as text."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return round(float(value), DIGITS) + 0.0
    return str(value) if isinstance(value, Fraction) else value


FILES: dict[str, Callable] = {"wire": wire, "scenarios": scenarios, "learners": learners}


def held(name):
    """What was recorded."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    for file in sys.argv[1:] or FILES:
        text = json.dumps(FILES[file](), indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{file}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{FOLDER / file}.json\n")
