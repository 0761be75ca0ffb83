"""One question to a curator, run by a bare installation away from the checkout: python -I bare_study.py FOLDER.

The folder holds what a steward has: policy.toml, schema.toml, records.csv, curator.pem and ward.ledger; and ann.pem,
the key of the learner. Writes what was released, as JSON.
"""

import json
import secrets
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from curator_node.client_app import make_client_app
from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset
from curator_node.key_files import read_key
from curator_node.ledger.files import open_ledger_file
from curator_node.mechanisms import OpenDPNoise
from curator_node.policy import read_policy
from curator_node.record_files import read_records
from curator_node.steward import read_steward_file
from learner_node.session import Session
from protocol.codec import decode, encode
from protocol.partitions import FeatureBins
from protocol.plans import Plan, PlannedQuery
from protocol.queries.counts import CountsBody, CountsRelease
from protocol.rationals import Rational

folder = Path(sys.argv[1])


def now() -> int:
    return int(time.time())


key = read_key(folder / "curator.pem")
policy = read_policy((folder / "policy.toml").read_text())
steward = read_steward_file((folder / "schema.toml").read_text())
curator = Curator(
    dataset=PrivateDataset(
        read_records(folder / "records.csv"), steward, unit_key=key.derive("unit selection"), cache_bytes=10**6
    ),
    ledger=open_ledger_file(folder / "ward.ledger", key),
    key=key,
    policy=policy,
    clock=now,
    noise=OpenDPNoise(),
)
make_client_app(curator.handle)

session = Session(curator=curator.identity, key=read_key(folder / "ann.pem"), study=secrets.token_bytes(16))


def ask():
    return session.receive(curator.handle(session.pending))


session.request_card(now())
ask()
query = PlannedQuery(kind="counts", release="mass", partitions=1, scale=Rational.of(Fraction(1)))
session.propose(Plan(queries=(query,)), "a bare installation", now())
ask()
ages = FeatureBins(attribute="age", edges=(40.0, 60.0))
session.query("counts", encode(CountsBody(partitions=(ages,), hypothesis=None)), now())
counts = np.frombuffer(decode(ask().body, CountsRelease).counts, "<i8").tolist()
session.close(now())
ask()
sys.stdout.write(json.dumps({"counts": counts, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
