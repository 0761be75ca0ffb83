"""The report, the policies and a deployed study's `cost.json`, held against what transcripts and ledgers prove.

Scores, notes and metrics are computed from records, which no auditor has: of them the list's digests are all there is.

Of a policy an auditor reads caps, limits, and who may ask; what else it says is passed over. What a policy file must be
to be served from is for its curator to check; here it is held against cards and ledgers.
"""

import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import msgspec

from expril.audit.recompute.entries import ZERO, Charge, Study, as_text
from expril.audit.recompute.ledger import read_plain
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.verdicts import TranscriptVerdict
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.kinds import QUERY_KINDS
from protocol.limits import Limits
from protocol.rationals import parse_amount, parse_rational
from protocol.run_index import (
    AGAIN,
    COST,
    FIT,
    GIVEN_UP,
    LEDGERS,
    POLICY_SUFFIX,
    REPORT,
    SCENARIO,
    VALIDATION,
    Index,
)
from simulations.report.budget import STUDIES, BudgetPoint, CuratorReport, exact
from simulations.report.model import RELEASE, LearnerReport, RunReport, decode_report

Written = str | int | float
"""An amount as a person writes it."""


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Learner(msgspec.Struct, frozen=True):
    """One that may ask, with one key or several."""

    name: str
    cap: Written
    key: str = ""
    keys: tuple[_Key, ...] = ()

    def holds(self, key: str) -> bool:
        """Whether a public key, in hexadecimal, is this learner's."""
        return key == self.key or any(entry.key == key for entry in self.keys)


class AuditedPolicy(msgspec.Struct, frozen=True):
    """What of a policy is checked."""

    name: str
    cap: Written  # most epsilon over all learners
    learners: tuple[_Learner, ...] = ()  # learners, enrolled: who may ask
    enrolled: tuple[_Learner, ...] = ()
    limits: Limits = Limits()  # of one query
    least_cost: Written = "1/1000"  # smallest cost of a plan

    @property
    def total_cap(self) -> Fraction:
        """Most epsilon over all learners."""
        return parse_rational(self.cap)

    @property
    def least(self) -> Fraction:
        """Smallest cost of a plan."""
        return parse_rational(self.least_cost)

    def cap_of(self, key: bytes) -> Fraction:
        """Most epsilon of the learner with this public key; zero for a stranger."""
        for learner in (*self.learners, *self.enrolled):
            if learner.holds(key.hex()):
                return parse_rational(learner.cap)
        return Fraction(0)


def read_audited_policy(data: bytes, *, where: str) -> AuditedPolicy:
    """Read a policy.

    Raises:
        ConfigurationError: it cannot be read, or an amount in it is none.
    """
    try:
        policy = msgspec.toml.decode(data, type=AuditedPolicy)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{where} cannot be read as a policy: {printable(str(error))}") from None
    for written in (policy.cap, policy.least_cost, *(one.cap for one in (*policy.learners, *policy.enrolled))):
        try:
            parse_rational(written)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return policy


class _Curator(msgspec.Struct, frozen=True):
    """What of a curator is checked; what else is told of it is for people."""

    spent: str
    at_most: str


class _Cost(msgspec.Struct, frozen=True):
    curators: dict[str, _Curator]


def check_cost(folder: Path, verdicts: Sequence[TranscriptVerdict]) -> list[str]:
    """Where the totals told are not those that the transcripts prove.

    `verdicts`: on its transcripts.
    """
    try:
        told = msgspec.json.decode(read_plain(folder / COST), type=_Cost).curators
        sums = {name: (Fraction(one.spent), Fraction(one.at_most)) for name, one in told.items()}
    except (OSError, msgspec.DecodeError, ValueError, ZeroDivisionError, RecursionError):
        return [f"{COST} cannot be read"]
    proven = dict.fromkeys(sums, (ZERO, ZERO))
    for verdict in verdicts:
        if verdict.proof is not None:
            spent, at_most = proven.get(verdict.entry.curator, (ZERO, ZERO))
            both = spent + verdict.proof.epsilon_spent, at_most + verdict.proof.epsilon_at_most
            proven[verdict.entry.curator] = both
    return [
        f"{COST} says that {printable(name)} charged {as_text(said[0])}, at most {as_text(said[1])}; the "
        f"transcripts prove {as_text(proven[name][0])}, at most {as_text(proven[name][1])}"
        for name, said in sums.items()
        if said != proven[name]
    ]


Ledgers = Mapping[str, Replayed]
"""Curator of the first repeat -> its ledger, where its chain holds."""


def check_report(folder: Path, index: Index, exchanges: Sequence[TranscriptVerdict], ledgers: Ledgers) -> list[str]:
    """What the report says otherwise than the run's list, its transcripts and its ledgers."""
    try:
        report = decode_report(read_plain(folder / REPORT))
        scenario = read_plain(folder / SCENARIO).decode()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [f"{REPORT} or {SCENARIO} cannot be read ({type(error).__name__})"]
    policies, complaints = _policies(folder, index)
    complaints += _check_policies(policies, index, exchanges, ledgers)
    facts = {
        "the title": (report.title, report.created, report.version) == (index.title, index.created, index.expril),
        "the number of repeats": report.repeats == index.repeats,
        "the scenario": report.config_toml == scenario,
        "the learners": [one.learner for one in report.learners] == index.names("learner"),
        "the curators": [one.name for one in report.curators] == index.names("curator"),
        "whether the noise came from a seed": _seeded_fits(report, index, policies),
    }
    wrong = [f"{what} is another than elsewhere in the run" for what, right in facts.items() if not right]
    epsilons = _epsilons(scenario, _changed_epsilon(folder))
    for learner in report.learners:
        wrong += _check_learner(learner, index, exchanges, ledgers, epsilons.get(learner.learner, {}))
    for curator in report.curators:
        wrong += _check_curator(curator, index, exchanges, ledgers.get(curator.name), policies.get(curator.name))
    return complaints + [f"{REPORT}: {text}" for text in wrong]


def _check_learner(
    told: LearnerReport,
    index: Index,
    exchanges: Sequence[TranscriptVerdict],
    ledgers: Ledgers,
    epsilons: Mapping[int, Fraction],
) -> list[str]:
    every = [one for one in exchanges if one.entry.learner == told.learner]
    own = [one for one in every if one.entry.study == FIT]
    wrong = [
        f"{one.entry.file} is of a study that was given up for another, and may have been charged"
        for one in every
        if one.entry.study >= GIVEN_UP and one.proof is not None and one.proof.epsilon_at_most
    ]
    there = {(one.entry.repeat, one.entry.curator) for one in own}
    wrong += [
        f"no transcript of {printable(told.learner)} with {printable(site.curator)} in repeat {repeat}"
        for repeat in range(index.repeats)
        for site in told.sites
        if (repeat, site.curator) not in there
    ]
    for exchange in own:
        proof, entry = exchange.proof, exchange.entry
        if proof is None:
            continue
        said = [one.outcomes.count(RELEASE) for one in told.rounds_answered if one.curator == entry.curator]
        if entry.repeat == 0 and sum(said) > proof.releases:
            wrong.append(
                f"{printable(told.learner)} got {sum(said)} answers of {printable(entry.curator)}, {entry.file} "
                f"holds {proof.releases}"
            )
    return wrong + _check_costs(told, every, ledgers, epsilons)


def _check_costs(
    told: LearnerReport, every: Sequence[TranscriptVerdict], ledgers: Ledgers, epsilons: Mapping[int, Fraction]
) -> list[str]:
    """What a learner's studies claimed and spent, each and together."""
    who = printable(told.learner)
    of = {number: [one for one in every if one.entry.study == number] for number in (FIT, VALIDATION)}
    if not told.studies:  # of an earlier version, which told the model's cost alone
        wrong = _check_cost(who, told.epsilon_claimed, told.epsilon_spent, of[FIT], ledgers, epsilons.get(FIT))
    else:
        wrong = [] if told.studies[0].what == STUDIES[FIT] else [f"{who} tells no cost of its model"]
        for number, what in STUDIES.items():
            cost = next((one for one in told.studies if one.what == what), None)
            if cost is not None:
                own, asked = of[number], epsilons.get(number)
                wrong += _check_cost(f"the {what} of {who}", cost.claimed, cost.spent, own, ledgers, asked)
            elif any(map(_planned, of[number])):
                wrong.append(f"the {what} of {who} has transcripts, and no cost is told")
        wrong += _check_spent(who, told.epsilon_spent, [*of[FIT], *of[VALIDATION]], ledgers)
        claimed, parts = exact(told.epsilon_claimed), [exact(one.claimed) for one in told.studies]
        if not max(parts) <= claimed <= sum(parts):
            wrong.append(f"{who} claimed {told.epsilon_claimed}, its plans cost {as_text(sum(parts, ZERO))}")
    if told.validation is not None:
        claim, spent = told.validation.epsilon_claimed, told.validation.epsilon_spent
        wrong += _check_cost(f"the validation of {who}", claim, spent, of[VALIDATION], ledgers, None)
    return wrong


def _check_cost(
    who: str, claimed: str, spent: str, own: Sequence[TranscriptVerdict], ledgers: Ledgers, asked: Fraction | None
) -> list[str]:
    """What one kind of study claimed, as its plans cost or as its learner was to ask, and spent."""
    wrong = _check_spent(who, spent, own, ledgers)
    planned = max(map(_planned, own), default=ZERO)
    if exact(claimed) not in (planned, *([asked] if asked is not None and asked > planned else [])):
        wrong.append(f"{who} claimed {claimed}, its plans cost {as_text(planned)}")
    return wrong


def _check_spent(who: str, told: str, own: Sequence[TranscriptVerdict], ledgers: Ledgers) -> list[str]:
    """The most that studies spent at one curator, against transcripts, and ledgers where these were kept."""
    least, most = dict[tuple[int, str], Fraction](), dict[tuple[int, str], Fraction]()
    for exchange in own:
        proof, entry = exchange.proof, exchange.entry
        if proof is None:
            continue
        replayed = ledgers.get(entry.curator) if entry.repeat == 0 else None
        charged = None if replayed is None else _spent_on(replayed, exchange)
        where = (entry.repeat, entry.curator)
        least[where] = least.get(where, ZERO) + (proof.epsilon_spent if charged is None else charged)
        most[where] = most.get(where, ZERO) + (proof.epsilon_at_most if charged is None else charged)
    low, high = (max(sums.values(), default=ZERO) for sums in (least, most))
    if low <= exact(told) <= high:
        return []
    proven = as_text(low) if low == high else f"{as_text(low)} to {as_text(high)}"
    return [f"{who} spent {told}, transcripts and ledgers prove {proven}"]


def _check_curator(
    told: CuratorReport,
    index: Index,
    exchanges: Sequence[TranscriptVerdict],
    replayed: Replayed | None,
    policy: AuditedPolicy | None,
) -> list[str]:
    wrong = []
    who = printable(told.name)
    if policy is not None and exact(told.cap) != policy.total_cap:
        wrong.append(f"{who} has a cap of {told.cap}, its policy of {policy.total_cap}")
    for exchange in exchanges:
        proof = exchange.proof
        if exchange.entry.curator == told.name and proof is not None and proof.card is not None:
            unit = proof.card.unit or "record"
            if unit != told.private_unit:
                wrong.append(f"{who} protects {printable(told.private_unit)}, by its card {printable(unit)}")
                break
    names = {bytes.fromhex(one.key): one.name for one in index.participants if one.role == "learner"}
    if replayed is not None and list(told.spent_by_round) != _spent_by_round(replayed.charges, names):
        wrong.append(f"the budget of {who} over time is not its ledger's")
    return wrong


def _planned(exchange: TranscriptVerdict) -> Fraction:
    """Cost of what was proposed, whether it was accepted or not."""
    proof = exchange.proof
    if proof is None or proof.plan is None or proof.card is None:
        return ZERO
    if proof.not_installed:
        return proof.epsilon_claimed
    try:
        return proof.kinds.plan_cost(proof.plan, proof.card.most_records_per_unit)
    except RemoteProtocolError:
        return ZERO


def _changed_epsilon(folder: Path) -> str | None:
    """The epsilon that the command gave every learner instead of the scenario's; None where it gave none."""
    try:
        return str(msgspec.json.decode(read_plain(folder / AGAIN))["changes"]["epsilon"])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return None


def _epsilons(scenario: str, changed: str | None) -> dict[str, dict[int, Fraction]]:
    """Learner -> number of its study -> epsilon that the scenario names, or the command instead."""
    found: dict[str, dict[int, Fraction]] = {}
    try:
        for learner in tomllib.loads(scenario)["learners"]:
            own = found.setdefault(str(learner["name"]), {})
            own[FIT] = parse_rational(changed or learner.get("epsilon", 1))
            if "validate" in learner:
                own[VALIDATION] = parse_rational(learner["validate"])
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, ConfigurationError):
        return found
    return found


def _policies(folder: Path, index: Index) -> tuple[dict[str, AuditedPolicy], list[str]]:
    """Curator of the first repeat -> its policy, and what of them cannot be read."""
    policies, complaints = {}, []
    for name in index.names("curator"):
        file = f"{LEDGERS}/{name}{POLICY_SUFFIX}"
        if "/" in name or file not in index.files:
            complaints.append(f"the run has no policy of {printable(name)}")
            continue
        try:
            policies[name] = read_audited_policy(read_plain(folder / file), where=printable(file))
        except OSError as error:
            complaints.append(f"{printable(file)} cannot be read ({type(error).__name__})")
        except ConfigurationError as error:
            complaints.append(printable(str(error), 400))
    return policies, complaints


def _check_policies(
    policies: Mapping[str, AuditedPolicy], index: Index, exchanges: Sequence[TranscriptVerdict], ledgers: Ledgers
) -> list[str]:
    """Caps against what was spent, and what learners were told (the signed cards) against the policies."""
    complaints = []
    names = {bytes.fromhex(one.key): one.name for one in index.participants if one.role == "learner"}
    for name, policy in policies.items():
        file = f"{LEDGERS}/{printable(name)}{POLICY_SUFFIX}"
        if policy.name != name:
            complaints.append(f"{file} is of another curator ({printable(policy.name)})")
        if name in ledgers:
            complaints += [f"{file}: {text}" for text in _over_caps(policy, ledgers[name], names)]
        differing = set()
        for exchange in exchanges:
            proof, entry = exchange.proof, exchange.entry
            if (entry.curator, entry.repeat) != (name, 0) or proof is None or proof.card is None:
                continue
            card = proof.card
            facts = {
                f"the cap of {printable(entry.learner)}": parse_amount(card.cap) == policy.cap_of(exchange.learner),
                "the limits": _limits_fit(card.limits, policy.limits),
                "the least cost": parse_amount(card.least_cost) == policy.least,
                "the name": card.name == policy.name,
            }
            differing |= {what for what, same in facts.items() if not same}
        complaints += [f"{file}: {what} is another than on the card that it signed" for what in sorted(differing)]
    return complaints


def _limits_fit(told: Limits, written: Limits) -> bool:
    """Whether a card shows what a policy says, as far as the installed kinds tell their defaults."""
    try:
        return told == QUERY_KINDS.settle(written, where=POLICY_SUFFIX)
    except ConfigurationError:
        return (told.multiply_adds, told.message_bytes) == (written.multiply_adds, written.message_bytes)


def _over_caps(policy: AuditedPolicy, replayed: Replayed, names: Mapping[bytes, str]) -> list[str]:
    wrong = []
    if replayed.total > policy.total_cap:
        wrong.append(f"its cap is {policy.total_cap}, its ledger spent {as_text(replayed.total)}")
    for learner in replayed.purses.spent:
        spent = replayed.purses.by_learner(learner, len(replayed))
        if spent > policy.cap_of(learner):
            who = printable(names.get(learner, learner.hex()))
            wrong.append(f"the cap of {who} is {policy.cap_of(learner)}, the ledger charged it {as_text(spent)}")
    return wrong


def _spent_on(replayed: Replayed, exchange: TranscriptVerdict) -> Fraction:
    """What a ledger charges to the study of a transcript."""
    study = replayed.studies.get((exchange.learner, exchange.study))
    return ZERO if study is None else study.spent


def _spent_by_round(charges: Sequence[Charge], names: Mapping[bytes, str]) -> list[BudgetPoint]:
    """What each learner had spent after each query; those of a later study are counted on from the ones before.

    `charges`: of one ledger, in order; `names`: of the learners, by public key; others are "".
    """
    totals: dict[str, Fraction] = {}
    numbers: dict[str, int] = {}
    begun: dict[Study, int] = {}
    points = []
    for one in charges:
        name = names.get(one.study.learner, "")
        totals[name] = totals.get(name, ZERO) + one.amount
        number = begun.setdefault(one.study, numbers.get(name, 0)) + one.sequence
        numbers[name] = max(number, numbers.get(name, 0))
        points.append(BudgetPoint(name, number, as_text(totals[name])))
    return points


def _seeded_fits(report: RunReport, index: Index, policies: Mapping[str, AuditedPolicy]) -> bool:
    """Noise from a seed is signed as not private; what is signed so has such noise, or a policy that is not private."""
    signed = {entry.curator for entry in index.transcripts if entry.label != LABEL}
    if report.seeded_noise:
        return signed == {entry.curator for entry in index.transcripts}
    return all(name in policies and not QUERY_KINDS.private(policies[name].limits) for name in signed)
