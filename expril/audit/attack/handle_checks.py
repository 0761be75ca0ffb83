"""Checks that a curator sends what the audit attacks: `handle` calls the registered answerer and has its law."""

import inspect
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import stats

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.curator import Curator
from curator_node.kinds import ANSWERERS
from curator_node.ledger import memory_ledger
from curator_node.mechanisms import ExactNoise, NoiseSource
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.dataset import PrivateDataset
from curator_node.site import assemble_site
from expril.audit.attack.kinds import AUDITS, Audits, examples_of, names_of
from expril.audit.attack.neighbours import search
from expril.audit.kinds.answer_path import AnswerPath, Numbers, collect, lead_of
from expril.audit.kinds.invented import Neighbours, Unit, dataset_of, plain_record
from expril.audit.kinds.kind_audit import Asking, Example, Lead, Observation
from expril.audit.results import Check
from learner_node.study.session import Session
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plans import Plan
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.rationals import MOST

FALSE_ALARM = 1e-9
"""False-alarm rate of each check."""
HANDLED_DRAWS = 4_000
"""Draws that are taken through `handle`, of each data set."""
COPIES = 100
"""Most copies of a question in one query: many short queries test `handle` better than few long ones."""
SEARCHED = 8
"""Pairs of data sets that are searched for one that the question tells apart."""
FEW_CALLS = 5
"""Queries of a question to several curators, whose turns are slow."""
MOST_CALLS = 200
"""Most queries that are sent for the draws."""
LIFETIME = 86_400
"""Seconds until a message expires: slow machines finish, too."""
SENTINEL = b"the sentinel's own bytes, which no answerer releases"


@dataclass(frozen=True)
class Served:
    """A curator that serves invented records."""

    identity: bytes  # public key
    curator: Curator
    dataset: PrivateDataset  # this very object and `noise` were given to the curator
    noise: NoiseSource


@dataclass(frozen=True)
class Service:
    """The curators that an example needs, and a learner whom their policies admit."""

    curators: tuple[Served, ...]  # the first has the attacked records
    learner: SigningKey
    example: Example  # the question
    kind: QueryKind  # of the question
    kinds: Kinds  # all that the curators answer

    def observe(self, copies: int, times: int) -> list[Observation]:
        """Ask the question so many times; return the numbers in the signed and verified releases.

        A single curator is asked in one study. Several curators are asked in a new study each time, as a query may end
        before its last turn there.

        Raises:
            ConfigurationError: a curator refused.
        """
        single_study = self.example.company is None
        sessions = self._sessions(copies, times if single_study else 1)
        observations = []
        for query in range(times):
            if query and not single_study:
                for place, session in enumerate(sessions):
                    session.close(int(time.time()))
                    self._send(sessions, place)
                sessions = self._sessions(copies, 1)
            answer = partial(self._answer, sessions)
            observations.append(collect(self._lead(copies, query if single_study else 0), answer))
        return observations

    def first(self) -> bytes:
        """Return the bytes that the first curator releases in the first turn; raises as `observe` does."""
        return self._answer(self._sessions(1, 1), 0, 0, next(self._lead(1, 0))[0])

    def _lead(self, copies: int, query: int) -> Lead:
        return lead_of(self.kind, self.example, Asking(copies, query, self.learner.public, secrets.token_bytes))

    def _sessions(self, copies: int, times: int) -> list[Session]:
        plan, now = Plan.of([self.example.ask(copies).planned] * times), int(time.time())
        study = secrets.token_bytes(16)
        sessions = [
            Session(curator=served.identity, key=self.learner, study=study, kinds=self.kinds, lifetime=LIFETIME)
            for served in self.curators
        ]
        for place, session in enumerate(sessions):
            session.request_card(now)
            self._send(sessions, place)
            session.propose(plan, "an audit of the mechanism", now)
            self._send(sessions, place)
        return sessions

    def _answer(self, sessions: list[Session], number: int, place: int, body: bytes) -> bytes:  # noqa: ARG002
        sessions[place].query(self.kind.name, body, int(time.time()))
        return self._send(sessions, place)

    def _send(self, sessions: list[Session], place: int) -> bytes:
        session = sessions[place]
        reply = session.receive(self.curators[place].curator.handle(session.pending))
        if isinstance(reply, Refusal):
            raise ConfigurationError(f"the audit's own curator refused {reply.field or 'a request'}: {reply.code}")
        return reply.body if isinstance(reply, Release) else b""


def serve(example: Example, units: tuple[Unit, ...], answerers: Mapping[str, Answerer], kind: str) -> Service:
    """Open curators as sites do, with ledgers in memory. The first holds the units, the others a plain record each."""
    learner = SigningKey.generate()
    keys = (SigningKey.generate(),) if example.company is None else example.company.curators
    policy = Policy(
        name="audit",
        cap=str(MOST),
        learners=(LearnerPolicy(name="auditor", key=learner.public.hex(), cap=str(MOST)),),
        limits=Limits(kinds={kind: dict(example.limits)}),
        message_seconds=LIFETIME,
    )
    served: list[Served] = []
    for key in keys:
        dataset, noise = dataset_of(((plain_record(example.schema),),) if served else units, example), ExactNoise()
        site = assemble_site(dataset, policy, key=key, ledger=memory_ledger(key), noise=noise, answerers=answerers)
        served.append(Served(site.identity, site.curator, dataset, noise))
    kinds = Kinds(*(answerer.kind for answerer in answerers.values()))
    return Service(tuple(served), learner, example, kinds[kind], kinds)


def path_checks(
    name: str, *, answerers: Mapping[str, Answerer] = ANSWERERS, audits: Audits = AUDITS
) -> tuple[Check, ...]:
    """`same_law` for one of `kinds_to_audit`, and `sentinel` too for the first name of a kind.

    A name without a question has no check.

    Raises:
        ConfigurationError: nothing of that name is registered.
    """
    answerer, examples = examples_of(name, answerers, audits)
    if not examples:
        return ()
    path = AnswerPath(answerer, examples[0])
    pair = search(path, random_pairs=path.example.pairs or SEARCHED).pairs[0]
    copies = min(examples[0].copies, COPIES if examples[0].company is None else HANDLED_DRAWS // FEW_CALLS)
    law = same_law(name, replace(path, copies=copies), pair)
    return (
        (sentinel(name, examples[0], pair, answerers), law)
        if name == names_of(answerer.kind.name, audits)[0]
        else (law,)
    )


def sentinel(name: str, example: Example, pair: Neighbours, answerers: Mapping[str, Answerer] = ANSWERERS) -> Check:
    """Check that `handle` calls the registered answerer with the curator's records and noise, and signs its bytes."""
    kind = name.partition("/")[0]
    planned, calls = example.ask(1).planned, []

    def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
        calls.append((question.turn, dataset, noise))
        return Answered(SENTINEL, answerers[kind].answer(question, dataset, noise).state)

    service = serve(example, pair.shared, {**answerers, kind: replace(answerers[kind], answer=answer)}, kind)
    released, served = service.first(), service.curators[0]
    own_objects = len(calls) == 1 and calls[0][1] is served.dataset and calls[0][2] is served.noise
    turn = bool(calls) and calls[0][0] == Turn(planned)
    default = inspect.signature(assemble_site).parameters["answerers"].default is ANSWERERS
    passed = released == SENTINEL and own_objects and turn and default
    facts = {
        "its bytes were signed and sent": released == SENTINEL,
        "it was called once, for the planned turn": len(calls) == 1 and turn,
        "it got the curator's own records and noise": own_objects,
        "a site opens with the registered table": default,
    }
    findings = "; ".join(f"{fact}: {'yes' if holds else 'NO'}" for fact, holds in facts.items())
    return Check(
        name=f"handle_calls_the_answerer_of_{kind}",
        question=f"Does a curator's `handle` call the answerer of {kind} that is registered, and sign what it returns?",
        finding=f"With a sentinel in its place: {findings}.",
        false_alarm=0.0,
        power="another answerer, other records, other noise or changed bytes for the questions asked here: always",
        passed=passed,
    )


def same_law(name: str, path: AnswerPath, pair: Neighbours) -> Check:
    """Check that the releases of `handle` have the law of the answerer's, and that copies in a query are independent.

    The tests are exact given the pooled counts. If two samples have one law, the number of the first sample's draws
    above a pooled quantile is hypergeometric. If neighbours in one release are independent, so is the number of pairs
    of which both are above it.
    """
    kind = path.answerer.kind
    calls = min(-(-HANDLED_DRAWS // path.copies), MOST_CALLS)
    chances = []
    total = 0
    for units in pair.sets:
        service = serve(path.example, units, {kind.name: path.answerer}, kind.name)
        handled = np.concatenate([np.hstack(observation) for observation in service.observe(path.copies, calls)])
        total += len(handled)
        direct = path.draws(units, len(handled), handled.shape[1])
        chances += _differences(handled, direct)
        if path.copies > 1:
            chances += _dependences(handled)
    least = min(chances, default=1.0)
    alarm = FALSE_ALARM / max(len(chances), 1)
    return Check(
        name=f"handle_has_the_law_of_{name.replace('/', '_')}",
        question=f"Do {2 * calls} signed answers of a curator to {name} have the law of its answerer's, and the copies "
        "within one release noise of their own?",
        finding=f"{total} draws through `handle` and as many of the answerer: the least of {len(chances)} chances of "
        f"such a difference is {least:.2g}, and {alarm:.1g} is allowed.",
        false_alarm=FALSE_ALARM,
        power=f"a quartile of the answers that lies elsewhere, by a share of {_noticed(total // 2, alarm):.2g}: 0.999",
        passed=least >= alarm,
    )


def _differences(first: Numbers, second: Numbers) -> list[float]:
    """For each column and quartile, the p-value of the two samples' difference if both have one law."""
    pooled = np.concatenate([first, second])
    chances = []
    for column in range(pooled.shape[1]):
        for level in np.unique(np.quantile(pooled[:, column], (0.25, 0.5, 0.75))):
            above = pooled[:, column] >= level
            chances.append(_chance(int(above[: len(first)].sum()), len(pooled), int(above.sum()), len(first)))
    return chances


def _dependences(numbers: Numbers) -> list[float]:
    """For each column, the p-value of how often neighbours are both above the median if they are independent."""
    chances = []
    for column in range(numbers.shape[1]):
        above = numbers[:, column] >= np.median(numbers[:, column])
        first, second = above[: len(above) // 2 * 2 : 2], above[1::2]
        chances.append(_chance(int((first & second).sum()), len(first), int(first.sum()), int(second.sum())))
    return chances


def _chance(count: int, total: int, marked: int, sample: int) -> float:
    """Two-sided p-value of a hypergeometric count: twice the smaller tail, at most 1."""
    law = stats.hypergeom(total, marked, sample)
    return float(min(1.0, 2 * min(law.cdf(count), law.sf(count - 1))))


def _noticed(draws: int, alarm: float) -> float:
    """Return the difference of shares near one half that two samples of so many draws show with probability 0.999."""
    far = stats.norm.isf(alarm / 2) + stats.norm.isf(0.001)
    return float(far * math.sqrt(1 / (2 * draws)))
