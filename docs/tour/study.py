"""Both sides of a study in one file: two wards with ledgers on disk, and a learner with scikit-learn's verbs.

In real life the two halves run on different machines, with a carrier between them. Run: python docs/tour/study.py
"""

import secrets
import tempfile
import time
from pathlib import Path

import polars as pl

from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset
from curator_node.ledger.files import create_ledger_file, open_ledger_file
from curator_node.mechanisms import OpenDPNoise
from curator_node.policy import read_policy
from curator_node.record_files import read_records
from curator_node.steward import read_steward_file
from learner_node.estimator import ExPriLClassifier
from learner_node.study import Federation, NoCuratorError
from protocol.envelopes import SigningKey
from simulations.carriers.direct import DirectCarrier

HERE = Path(__file__).parent
records = read_records(HERE / "records.csv")
steward = read_steward_file((HERE / "schema.toml").read_text())


def now() -> int:
    return int(time.time())


# The curator's half: a steward opens each ward with a key, a policy and a ledger of its own.
def open_curator(ward: str, learner_key: str, folder: Path) -> Curator:
    policy = read_policy(f"""
        name = "{ward}"
        cap = 2                     # epsilon over all learners, for ever
        [[learners]]
        name = "ada"
        key = "{learner_key}"
        cap = 1                     # and of this one
    """)
    key = SigningKey.generate()
    ledger = folder / f"{ward}.ledger"
    create_ledger_file(ledger, key, now=now())  # once: a ledger that is absent later was lost
    private = records.filter((pl.col("ward") == ward) & (pl.col("patient") >= "p0150"))
    return Curator(
        dataset=PrivateDataset(private, steward, unit_key=key.derive("unit selection"), cache_bytes=policy.cache_bytes),
        ledger=open_ledger_file(ledger, key),
        key=key,
        policy=policy,
        clock=now,
        noise=OpenDPNoise(),
    )


# The learner's half: unlabelled source records, a key, the curators' public keys, and a way to reach them.
with tempfile.TemporaryDirectory() as folder:
    ada = SigningKey.generate()
    wards = {ward: open_curator(ward, ada.public.hex(), Path(folder)) for ward in ("internal", "surgery")}
    federation = Federation(
        curators={name: ward.identity for name, ward in wards.items()},
        key=ada,
        carrier=DirectCarrier({ward.identity: ward.handle for ward in wards.values()}),
        clock=now,
        entropy=secrets.token_bytes,
    )
    source = records.filter(pl.col("patient") < "p0150").drop("readmitted")

    model = ExPriLClassifier(federation, epsilon="3/4", purpose="Who comes back within a month?").fit(source)

    print("classes", model.classes_, "- claimed", model.epsilon_claimed_, "- spent", model.epsilon_spent_)
    print(model.predict_proba(source).round(2)[:3])

    # The source's attributes, weighted and labelled like the private records. No patient, no ward.
    file = Path(folder) / "synthetic.csv"
    model.write_synthetic(file)
    header, first, *_ = file.read_text().splitlines()
    print(header, first, sep="\n")

    # Every fit is a new study: a second one does not fit what is left, and is refused before anything is charged.
    try:
        model.fit(source)
    except NoCuratorError as refusal:
        print("refused:", refusal)
