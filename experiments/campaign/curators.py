"""Real curators over records that a simulation holds, called directly: a round takes less time than a carrier would."""

import secrets
import warnings
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from curator_node.curator import Curator
from curator_node.dataset import PrivateDataset, StewardWarning
from curator_node.ledger import Ledger, memory_ledger
from curator_node.mechanisms import NoiseSource, OpenDPNoise
from curator_node.policy import LearnerPolicy, Policy
from curator_node.steward import StewardFile
from protocol.envelopes import SigningKey
from protocol.limits import Limits
from protocol.queries.counts import COUNTS
from protocol.rationals import MOST
from protocol.release_kinds import RELEASE_KINDS
from simulations.carriers.direct import now

CACHE_BYTES = 2**28


@dataclass(frozen=True)
class OpenCurator:
    """A curator that answers from records, and its ledger, for a harness's eyes only."""

    curator: Curator
    ledger: Ledger

    def spent(self, learner: SigningKey) -> Fraction:
        """Exact epsilon that a learner spent here."""
        return self.ledger.account.spent.get(learner.public, Fraction(0))


def open_dataset(frame: pl.DataFrame, steward: StewardFile) -> PrivateDataset:
    """The private records; what their steward would be warned of (constant attributes, values outside) is not said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StewardWarning)
        return PrivateDataset(frame, steward, unit_key=secrets.token_bytes(32), cache_bytes=CACHE_BYTES)


def open_curator(
    dataset: PrivateDataset,
    learner: SigningKey,
    *,
    name: str,
    noise: NoiseSource | None = None,
    simulation: bool = False,
    printed: bool = False,
) -> OpenCurator:
    """A curator with an empty ledger and room for whatever this learner asks.

    Args:
        dataset: the records it answers from.
        learner: who may ask.
        name: of the curator.
        noise: None takes OpenDP's, from the operating system's randomness.
        simulation: it signs as not private.
        printed: it also answers by the paper's mechanism, whose claim is wrong.
    """
    kinds = [key for key, kind in RELEASE_KINDS.items() if kind.private or printed]
    policy = Policy(
        name=name,
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=MOST),),
        limits=Limits(kinds={COUNTS.name: {"release_kinds": kinds}}),
        simulation=simulation,
    )
    key = SigningKey.generate()
    ledger = memory_ledger(key)
    curator = Curator(
        dataset=dataset,
        ledger=ledger,
        key=key,
        policy=policy,
        clock=now,
        noise=OpenDPNoise() if noise is None else noise,
    )
    return OpenCurator(curator, ledger)
