"""What the vectors are made of: keys, schemas, questions, and one study with whatever may be wrong in it."""

from msgspec import msgpack, structs

from protocol.codec import encode
from protocol.envelopes import (
    LABEL,
    SigningKey,
    digest,
    request_digest,
    seal,
    seal_receipt,
)
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.limits import Limits
from protocol.messages import (
    NO_DIGEST,
    SEALED_BYTES,
    TYPE_NAMES,
    Card,
    CardRequest,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
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
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent
from protocol.transcript import Transcript

CURATOR_SEED, LEARNER_SEED = b"\x01" * 32, b"\x02" * 32
CURATOR, LEARNER = SigningKey.from_seed(CURATOR_SEED), SigningKey.from_seed(LEARNER_SEED)
SUCCESSOR_SEED = b"\x03" * 32
SUCCESSOR = SigningKey.from_seed(SUCCESSOR_SEED)
SEEDS = {"first": LEARNER_SEED, "successor": SUCCESSOR_SEED, "curator": CURATOR_SEED}
STUDY = bytes(range(16))
SCHEMA = Schema(
    (NumericAttribute("age", 0.0, 120.0, "years"), CategoricalAttribute("sex", ("f", "m"))), "sick", ("no", "yes")
)
MAP = FeatureMap((NumericFeature("age", 50.0, 0.0625, 40.0), CategoricalFeature("sex", ("f", "m"), 1.0, "f")))
SHORT_MAP = FeatureMap(MAP.features[:1])
PLAN = Plan.of(
    (
        PlannedCounts(release="mass", partitions=2, scale=Rational(30, 1)),
        PlannedCounts(release="signed_error", partitions=1, scale=Rational(1000, 3)),
    )
)
# 0.weight (1, 4) and 0.bias (1,), written out: the safetensors writer may order or pad a header as it likes.
WEIGHTS_HEADER = (
    b'{"0.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    b'"0.weight":{"dtype":"F32","shape":[1,4],"data_offsets":[4,20]}}'
)
WEIGHTS = (
    len(WEIGHTS_HEADER).to_bytes(8, "little")
    + WEIGHTS_HEADER
    + bytes.fromhex("0000003f" + "0000803f" + "000080bf" + "00000040" + "000000c0")
)


def int32s(*numbers):
    """Little-endian int32, written out."""
    return b"".join(number.to_bytes(4, "little", signed=True) for number in numbers)


TREE = TreeLeaves(MAP, int32s(0, -2560, -1, 1) + int32s(1, 1, -3, -2))
"""Younger than 40; then women, and the others."""
BODIES = {
    "mass": CountsBody((FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ())), None),
    "signed_error": CountsBody(
        (NearestCentre(MAP, bytes(16) + b"\x00\x10\x00\x00" * 4),), Mlp(features=MAP, weights=WEIGHTS)
    ),
    "constant": CountsBody((FeatureBins("age", ()),), Constant(1)),
    "product_bins": CountsBody((ProductBins(FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ())),), None),
    "score_bins": CountsBody((ScoreBins(Mlp(features=MAP, weights=WEIGHTS), (-1.5, 2.0**-24)),), None),
    "projection_bins": CountsBody(
        (ProjectionBins(MAP, int32s(4096, 0, 0, 0) + int32s(1, -2, 3, -262144), ((-0.25, 0.5), ())),), None
    ),
    "tree_leaves": CountsBody((TREE,), None),
    "cross_bins": CountsBody(
        (
            CrossBins((FeatureBins("age", (30.0, 60.5)), FeatureBins("sex", ()))),
            CrossBins((FeatureBins("sex", ()),), (Range(FeatureBins("age", (30.0, 60.5)), (1, 2)),)),
        ),
        None,
    ),
}
OTHER_LABELS = {
    "classes": Schema(SCHEMA.attributes, "stage", ("i", "ii", "iii")),
    "number": Schema(SCHEMA.attributes, "days", label_bounds=(0.0, 365.0)),
}
DECLARED = {
    "units": Schema(
        (NumericAttribute("bp", 0.0, 300.0, units="mm Hg"),), "days", label_bounds=(0.0, 365.0), label_units="days"
    ),
    "missing": Schema(
        (
            NumericAttribute("weight", 0.0, 300.0, missing=(0.0, 999.0, -1.5, "not done")),
            CategoricalAttribute("sex", ("f", "m"), missing=("unknown", "999")),
        ),
        "sick",
        ("no", "yes"),
    ),
    "days_since": Schema(
        (NumericAttribute("born", -36_525.0, 0.5, days_since="2015-01-01", missing=("1900-01-01", "unknown")),),
        "sick",
        ("no", "yes"),
    ),
}
"""Schemas with units, sentinels and dates."""
FOLLOWED = {
    "label": Schema(
        SCHEMA.attributes,
        "sick",
        ("no", "yes"),
        outcomes=(NumericAttribute("days", 0.0, 400.0, units="days"),),
        time_to_event=TimeToEvent("days", "sick", "no", edges=(30.0, 90.0, 365.0)),
    ),
    "entry": Schema(
        SCHEMA.attributes,
        "sick",
        ("no", "yes"),
        outcomes=(
            NumericAttribute("days", 0.0, 400.0),
            NumericAttribute("entry", 0.0, 400.0),
            CategoricalAttribute("end", ("alive", "relapse", "death"), missing=("lost",)),
        ),
        time_to_event=TimeToEvent("days", "end", "alive", entry="entry", bins=10, horizon=365.0),
    ),
}
"""Schemas with outcomes and a time to an event."""
OUTCOME_QUERY = (
    PlannedCounts(release="outcome_counts", partitions=2, scale=Rational(20, 1)),
    CountsBody(
        (
            CrossBins((FeatureBins("entry", (30.0,)), FeatureBins("days", (30.0, 365.0)), FeatureBins("end", ()))),
            CrossBins(
                (FeatureBins("sick", ()), FeatureBins("sex", ())),
                (Range(FeatureBins("age", (18.0,)), (1,)), Range(FeatureBins("end", ()), (0, 2))),
            ),
        ),
        None,
    ),
)
"""A query of the schema "entry": entry by exit by its cause, and the label by sex among some."""
OTHER_QUERIES = {
    "class_counts": (
        "classes",
        PlannedCounts(release="class_counts", partitions=1, scale=Rational(1, 1)),
        CountsBody((FeatureBins("age", (30.0,)),), None),
    ),
    "label_total": (
        "number",
        PlannedCounts(release="label_total", partitions=1, scale=Rational(1000, 1), steps=1000),
        CountsBody((FeatureBins("age", (30.0,)),), None),
    ),
    "squared_error": (
        "number",
        PlannedCounts(release="squared_error", partitions=1, scale=Rational(640, 1), steps=64),
        CountsBody((FeatureBins("age", ()),), Constant(0), most_squared_error=2**20),
    ),
    "error_sums": (
        "number",
        PlannedCounts(release="error_sums", partitions=1, scale=Rational(640, 1), steps=64),
        CountsBody((FeatureBins("age", ()),), Mlp(features=MAP, weights=WEIGHTS), most_squared_error=2**20),
    ),
}
_SETTLED = QUERY_KINDS.settle(Limits(), where="the vectors")
CARD_KINDS = ("mass", "signed_error", "error_correct", "class_counts", "label_total", "squared_error", "error_sums")
"""Release kinds of the card in the vectors. Later ones have vectors of their own, so that its bytes stay."""
LIMITS = structs.replace(
    _SETTLED,
    kinds={
        name: {**kind, "release_kinds": list(CARD_KINDS)} if "release_kinds" in kind else kind
        for name, kind in _SETTLED.kinds.items()
    },
)
NUMBERS = (7, -3, 0, 1, 2**40, -(2**40), 5, -1)
RELEASE = CountsRelease(counts=b"".join(n.to_bytes(8, "little", signed=True) for n in NUMBERS), ratios=b"")


class Exchange:
    """Both sides of one study, in order.

    `faults`: number of an envelope from 0 -> what differs from an honest one: "message" and "receipt" have other
    fields, "key" and "receipt_key" sign, "label" is signed under.
    """

    def __init__(self, faults=()):
        self.transcript = Transcript()
        self.faults = dict(faults)
        self.last_reply = NO_DIGEST
        self.spent = "0"
        self.messages = []

    def ask(self, kind, sequence, /, **fields):
        message = kind(
            study=STUDY,
            sender=LEARNER.public,
            recipient=CURATOR.public,
            sequence=sequence,
            answers=self.last_reply,
            expires_at=1_800_000_600,
            **fields,
        )
        self._append(message, LEARNER)
        self.asked = message

    def answer(self, kind, /, **fields):
        header = {
            "study": STUDY,
            "sender": CURATOR.public,
            "recipient": LEARNER.public,
            "sequence": self.asked.sequence,
            "answers": digest(self.transcript.envelopes[-1]),
            "expires_at": 1_800_000_600,
        }
        if kind in (StudyAccepted, Release, StudyClosed):
            receipt = structs.replace(self.receipt(kind, fields), **self.fault.get("receipt", {}))
            fields["receipt"] = seal_receipt(receipt, self.fault.get("receipt_key", CURATOR))
        self._append(kind(**header, **fields), CURATOR)
        if kind not in (Card, Refusal):
            self.last_reply = digest(self.transcript.envelopes[-1])

    def receipt(self, kind, fields):
        released = kind is Release
        self.spent = "1/15" if released else self.spent
        return Receipt(
            curator=CURATOR.public,
            learner=LEARNER.public,
            study=STUDY,
            sequence=self.asked.sequence,
            request=request_digest(LEARNER.public, TYPE_NAMES[type(self.asked)], encode(self.asked)),
            release=digest(fields["body"]) if released else NO_DIGEST,
            charged="1/15" if released else "0",
            spent_by_study=self.spent,
            spent_by_learner=self.spent,
            ledger_head=digest(b"head"),
            position=b"\x07" * SEALED_BYTES,
            issued_at=1_800_000_000,
        )

    @property
    def fault(self):
        return self.faults.get(len(self.messages), {})

    def _append(self, message, key):
        fault = self.fault
        message = structs.replace(message, **fault.get("message", {}))
        self.messages.append(message)
        self.transcript.append(seal(message, fault.get("key", key), label=fault.get("label", LABEL)))


def study(faults=()):
    exchange = Exchange(faults)
    exchange.ask(CardRequest, 0)
    exchange.answer(
        Card,
        name="basel",
        schema=SCHEMA,
        unit=None,
        most_records_per_unit=1,
        relation="add or remove one privacy unit",
        round_size=1000,
        limits=LIMITS,
        cap="1",
        least_cost="1/1000",
    )
    exchange.ask(StudyProposal, 0, plan=PLAN, purpose="known answer", newest_receipt=b"")
    exchange.answer(StudyAccepted, cost="209/3000", reserved_until=1_800_086_400)
    exchange.ask(Query, 1, kind="counts", body=encode(BODIES["mass"]))
    exchange.answer(Release, kind="counts", body=encode(RELEASE))
    exchange.ask(Query, 2, kind="counts", body=encode(BODIES["signed_error"]))
    exchange.answer(
        Refusal,
        code=RefusalCode.HALTED.value,
        explanation=EXPLANATIONS[RefusalCode.HALTED],
        field="",
        limit="",
        remaining="2791/3000",
        scale_factor="",
    )
    exchange.ask(StudyClose, 3)
    exchange.answer(StudyClosed, refunded="3/1000")
    return exchange


def good(name, read, given, taken):
    """A vector that is taken: what is read, what is given for it, and what a reader finds."""
    return {"name": name, "read": read, "given": _written(given), "taken": _written(taken)}


def bad(name, read, given, rule, twin, fault, code=None):
    """A vector that a rule refuses. `twin` names the good vector beside it; `code` is a curator's refusal code."""
    told = {"name": name, "read": read, "given": _written(given), "fault": fault, "rule": rule, "twin": twin}
    return told if code is None else told | {"code": str(code)}


def plain(data):
    """What MessagePack bytes say, for JSON."""
    return _written(msgpack.decode(data))


def _written(value):
    """Bytes in hexadecimal, and all else as it is."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {_written(key): _written(inner) for key, inner in value.items()}
    return [_written(inner) for inner in value] if isinstance(value, list | tuple) else value
