"""One question to a curator, run by a bare installation away from the checkout: python -I bare_study.py FOLDER.

The folder is a site's, as `curator_node.site` says, and holds ann.pem, too: the key of the learner. Writes what was
released, as JSON.
"""

import json
import secrets
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from curator_node.client_app import make_client_app
from curator_node.key_files import read_key
from curator_node.site import now, open_site
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational

folder = Path(sys.argv[1])
curator = open_site(folder)
make_client_app(curator.handle)

session = Session(curator=curator.identity, key=read_key(folder / "ann.pem"), study=secrets.token_bytes(16))


def ask():
    return session.receive(curator.handle(session.pending))


session.request_card(now())
ask()
query = PlannedCounts(release="mass", partitions=1, scale=Rational.of(Fraction(1)))
session.propose(Plan.of([query]), "a bare installation", now())
ask()
ages = FeatureBins(attribute="age", edges=(40.0, 60.0))
session.query("counts", encode(CountsBody(partitions=(ages,), hypothesis=None)), now())
counts = np.frombuffer(decode(ask().body, CountsRelease).counts, "<i8").tolist()
session.close(now())
ask()
sys.stdout.write(json.dumps({"counts": counts, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
