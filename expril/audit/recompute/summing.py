"""All that was spent, by curator, learner, version and unit, of ledgers and of transcripts without one."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.known import ZERO, Price, Study
from expril.audit.recompute.outcome import AuditedLedger, Recomputed
from expril.audit.recompute.sums import NO_ZCDP, Sum, ledger_sums, unit_sums
from expril.audit.recompute.verdicts import Exchange, RunProof
from protocol.envelopes import LABEL
from protocol.messages import Query
from protocol.query_kind import Kinds
from protocol.rationals import parse_amount

NO_LIBRARY = '(epsilon, delta) is not computed: a part is not installed (dp_accounting): pip install "expril[audit]"'


def add_sums(result: Recomputed, kinds: Kinds) -> None:
    """By curator, learner, version and unit; and (epsilon, delta), where the library is there."""
    names = {
        bytes.fromhex(one.key): one.name
        for run in result.runs
        for one in (run.index.participants if run.index else ())
        if one.role == "learner"
    }
    there: set[bytes] = set()
    for one in result.ledgers:
        there |= one.audit.curators
        if not any(_tells_more(other, one, result.ledgers) for other in result.ledgers):
            one.sums = ledger_sums(one.curator, one.world, one.audit.replayed, one.audit.bounds, names)
    for run in result.runs:
        result.transcript_sums += _transcript_sums(run, there, kinds)
    result.units = unit_sums(result.sums)
    if result.delta is None:
        return
    try:
        from expril.audit.recompute.losses import add_losses  # noqa: PLC0415 - dp-accounting is an extra
    except ModuleNotFoundError:
        result.remarks.append(NO_LIBRARY)
        return
    add_losses(result.sums, kinds, result.delta)
    result.remarks.append(NO_ZCDP)


def _tells_more(other: AuditedLedger, one: AuditedLedger, ledgers: Sequence[AuditedLedger]) -> bool:
    """Whether one ledger is the beginning of another that was given, or the same once more: it is not counted twice."""
    long, short = other.audit.replayed, one.audit.replayed
    if other is one or not short.hashes or len(long) < len(short):
        return False
    begins = long.hashes[len(short) - 1] == short.head
    return begins and (len(long) > len(short) or ledgers.index(other) < ledgers.index(one))


def _transcript_sums(run: RunProof, there: set[bytes], kinds: Kinds) -> list[Sum]:
    """By repeat, curator and learner, then all learners, where no ledger is given: what receipts prove."""
    places: dict[bytes, tuple[int, int]] = {}
    made: dict[tuple[bytes, str], Sum] = {}
    bounds = Bounds(kinds)
    for exchange in run.exchanges:
        proof, entry = exchange.verdict.proof, exchange.verdict.entry
        if exchange.curator in there or proof is None or proof.card is None:
            continue
        unit = "each record" if proof.card.unit is None else f'column "{proof.card.unit}"'
        curator = run.curator_name(entry.curator, entry.repeat)
        places.setdefault(exchange.curator, (entry.repeat, len(places)))
        for who in (entry.learner, ""):
            one = made.setdefault((exchange.curator, who), Sum(curator, run.world(entry.repeat), unit, who))
            one.spend(proof.epsilon_spent, more=proof.epsilon_at_most - proof.epsilon_spent)
            for paid in _integrals(exchange, bounds):
                one.integrate(paid)
            for proviso, amount in _on_conditions(exchange, bounds):
                one.provide(proviso, amount)
            if who:
                one.keys = tuple(dict.fromkeys((*one.keys, exchange.learner.hex())))
            if proof.epsilon_claimed and proof.plan is not None:
                study = _study_of(exchange, proof.epsilon_claimed, bounds)
                private = entry.label == LABEL and not study.shape.not_private
                one.accept(study, proof.card.most_records_per_unit if private else None)
    return [one for _, one in sorted(made.items(), key=lambda item: (places[item[0][0]], not item[0][1], item[0][1]))]


def _on_conditions(exchange: Exchange, bounds: Bounds) -> Iterator[tuple[str, Fraction]]:
    """(condition, amount) of each charge that receipts show and that holds on a condition only."""
    proof = exchange.verdict.proof
    if proof is None or proof.plan is None:
        return
    shape = bounds.shape(proof.plan)
    for identity, answer in exchange.answers.items():
        receipt = answer.receipt
        if isinstance(exchange.requests.get(identity), Query) and 1 <= receipt.sequence <= len(shape.places):
            proviso, amount = shape.provisos[shape.places[receipt.sequence - 1][0]], parse_amount(receipt.charged)
            if proviso and amount:
                yield proviso, amount


def _integrals(exchange: Exchange, bounds: Bounds) -> Iterator[Fraction | None]:
    """What queries cost under integral privacy that receipts show as charged; all of the plan, where some may be."""
    proof = exchange.verdict.proof
    if proof is None or proof.plan is None:
        return
    shape = bounds.shape(proof.plan)
    if proof.epsilon_at_most != proof.epsilon_spent:
        yield from shape.integrals
        return
    receipts = (
        answer.receipt
        for identity, answer in exchange.answers.items()
        if isinstance(exchange.requests.get(identity), Query)
    )
    places = {one.sequence for one in receipts if one.charged != "0" and 1 <= one.sequence <= len(shape.places)}
    yield from (shape.integrals[query] for query in sorted({shape.places[place - 1][0] for place in places}))


def _study_of(exchange: Exchange, cost: Fraction, bounds: Bounds) -> Study:
    proof = exchange.verdict.proof
    assert proof is not None and proof.plan is not None  # noqa: S101, PT018 - as the caller has seen
    shape = bounds.shape(proof.plan)
    return Study(exchange.learner, exchange.study, -1, shape, Price((cost,), (ZERO, cost)), 0, (), b"")
