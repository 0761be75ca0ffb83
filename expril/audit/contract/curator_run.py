"""A real curator over invented records, whose noise is scripted: it never looks at what it is given.

All that a learner and the curator's ledger see of a run can then be compared between two sets of records. Keys, clock
and nonces are fixed, and everybody can read them here.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answerer
from curator_node.ledger import Ledger, create_ledger
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from curator_node.mechanisms import Stamp
from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import assemble_site
from expril.audit.kinds.invented import Unit, dataset_of
from expril.audit.kinds.kind_audit import Example
from protocol.envelopes import SigningKey, digest, open_envelope, seal
from protocol.limits import Limits
from protocol.messages import NO_DIGEST, Message, Query, Refusal, Release, StudyAccepted, StudyClose, StudyProposal
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.plans import Plan

CURATOR, LEARNER = (SigningKey.from_seed(name.ljust(32, b".")) for name in (b"a contract's curator", b"its learner"))
NOW = 1_800_000_000
STUDY = b"a contract's one"
MOST = 1_000_000


class ScriptedNoise:
    """A noise source that never looks: its numbers follow from how it is asked alone, and it keeps how it was asked.

    Attributes:
        calls: name, sizes, stated sensitivity and law of each call, in order.
        handed: exact numbers or scores of each call, in order; empty where noise is drawn before there are any.
        failing: whether the next call raises ArithmeticError.
    """

    seeded = False

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.handed: list[NDArray[np.int64]] = []
        self.failing = False

    def discrete_laplace(
        self, exact: NDArray[np.int64], l1: int, law: DiscreteLaplace, stamp: Stamp
    ) -> NDArray[np.int64]:
        """Return numbers that do not depend on the exact ones; what saturates an int64 may be among them."""
        self._note("discrete_laplace", exact.shape, exact.dtype.str, l1, law, stamp, exact=exact)
        noise = self._generator().integers(-99, 99, exact.shape)
        return np.where(noise == 0, np.int64(2**63 - 1), noise)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """Return shares of noise."""
        self._note("laplace_shares", size, law, parts, stamp)
        return self._generator().integers(-99, 99, size)

    def laplace(self, size: int, scale: Any, stamp: Stamp) -> NDArray[np.float64]:
        """Return continuous noise."""
        self._note("laplace", size, scale, stamp)
        return self._generator().laplace(size=size)

    def choose(self, scores: NDArray[np.int64], moved: int, law: NoisyMax, stamp: Stamp) -> int:
        """Return a place that does not depend on the scores."""
        self._note("choose", scores.shape, scores.dtype.str, moved, law, stamp, exact=scores)
        return int(self._generator().integers(len(scores)))

    def randomness(self, stamp: Stamp) -> Callable[[int], bytes]:
        """Return bytes for a kind's own sampler."""
        self._note("randomness", stamp)
        return self._generator().bytes

    @property
    def own_sampler(self) -> bool:
        """Whether a kind adds noise by itself: what it releases then depends on records, whatever it was given."""
        return any(call[0] not in ("discrete_laplace", "choose") for call in self.calls)

    def _note(self, *call: Any, exact: NDArray[np.int64] | None = None) -> None:
        self.calls.append(call)
        self.handed.append(np.zeros(0, np.int64) if exact is None else exact.copy())
        if self.failing:
            self.failing = False
            raise ArithmeticError("scripted")

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(list(hashlib.sha256(repr(self.calls[-1]).encode()).digest()))


class _Nonces:
    """Nonces that never repeat, the same at every curator that does the same."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")


@dataclass
class CuratorRun:
    """One study of one learner at one curator that serves invented records."""

    answerer: Answerer
    example: Example  # the question
    units: tuple[Unit, ...]  # the records
    noise: ScriptedNoise = field(default_factory=ScriptedNoise)
    replies: list[bytes] = field(default_factory=list)  # what came back, in order
    sequence: int = 0
    last: bytes = NO_DIGEST

    def __post_init__(self) -> None:
        nonces, mark = _Nonces(), MemoryMark()
        self.store = MemoryStore()
        company = self.example.company
        self.key = CURATOR if company is None else company.curators[0]
        create_ledger(self.store, self.key, mark, now=NOW, entropy=nonces)
        self.ledger = Ledger(self.store, key=self.key, mark=mark, entropy=nonces)
        learner = LearnerPolicy(name="ann", key=LEARNER.public.hex(), cap=MOST)
        kind = self.answerer.kind.name
        policy = Policy(
            name="basel",
            cap=MOST,
            learners=(learner,),
            limits=Limits(kinds={kind: dict(self.example.limits)}),
            least_cost="1/1000000000",
            least_query_cost="1/1000000000",
            refusals_per_study=MOST,
            refusals_per_day=MOST,
        )
        self.site = assemble_site(
            dataset_of(self.units, self.example),
            policy,
            key=self.key,
            ledger=self.ledger,
            clock=lambda: NOW,
            noise=self.noise,
            entropy=nonces,
            answerers={kind: self.answerer},
        )

    @property
    def traces(self) -> tuple[int, int]:
        """How many entries the ledger has, and how often noise was asked for."""
        return len(self.store.rows(0)), len(self.noise.calls)

    @property
    def entries(self) -> Sequence[Any]:
        """The ledger's entries, as they are stored."""
        return self.store.rows(0)

    def propose(self, planned: Any) -> Message:
        """Propose a study of one query."""
        return self._send(StudyProposal(**self._header(0), plan=Plan.of([planned]), purpose="", newest_receipt=b""))

    def ask(self, kind: str, body: bytes) -> Message:
        """Ask the next turn."""
        return self._send(Query(**self._header(self.sequence + 1), kind=kind, body=body))

    def close(self) -> Message:
        """Close the study."""
        return self._send(StudyClose(**self._header(self.sequence + 1)))

    def run_study(self, planned: Any, bodies: Sequence[bytes]) -> list[Message]:
        """Run a study from proposal to close; return what came back until something was refused."""
        messages = [self.propose(planned)]
        for body in bodies:
            if not isinstance(messages[-1], Refusal):
                messages.append(self.ask(planned.kind, body))
        if not isinstance(messages[-1], Refusal):
            messages.append(self.close())
        return messages

    def _header(self, sequence: int) -> dict[str, Any]:
        return {
            "study": STUDY,
            "sender": LEARNER.public,
            "recipient": self.key.public,
            "sequence": sequence,
            "answers": self.last,
            "expires_at": NOW + 600,
        }

    def _send(self, message: Message) -> Message:
        reply = self.site.handle(seal(message, LEARNER))
        self.replies.append(reply)
        answer = open_envelope(reply)[1]
        if isinstance(answer, StudyAccepted | Release):
            self.sequence, self.last = answer.sequence, digest(reply)
        return answer
