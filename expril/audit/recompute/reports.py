"""A simulation's report and policies, compared with what transcripts and ledgers prove.

Every field of a report is computed anew, or is in `TOLD`: scores, notes and metrics are computed from records, which no
auditor has, so only their digests are checked, with the run's list. In a policy an auditor reads caps, limits and who
may ask, and compares these with cards and ledgers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.recompute.effects import Charge
from expril.audit.recompute.entries import ZERO, Study, as_text
from expril.audit.recompute.replay import Replayed
from expril.audit.recompute.sums import add, bound_text
from expril.audit.recompute.verdicts import TranscriptVerdict, learner_names
from expril.files import MOST_TEXT, read_plain
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.limits import Limits
from protocol.rationals import parse_amount, parse_rational
from protocol.run_index import (
    AGAIN,
    FIT,
    GIVEN_UP,
    LEDGERS,
    POLICY_SUFFIX,
    REPORT,
    SCENARIO,
    VALIDATION,
    Index,
    absent_repeats,
    policy_file,
)
from protocol.schema import Schema
from protocol.strict_json import MOST_BYTES, UNREADABLE, decode_json, in_short
from protocol.strict_toml import decode_text, parse_toml
from simulations.report.budget import ANALYSES, STUDIES, BudgetPoint, CuratorReport, exact
from simulations.report.model import RELEASE, LearnerReport, RunReport, load_report

Written = str | int | float
"""An amount as a person writes it in a policy."""


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Learner(msgspec.Struct, frozen=True):
    """A learner who may ask, with one key or several."""

    name: str
    cap: Written
    key: str = ""
    keys: tuple[_Key, ...] = ()

    def holds(self, key: str) -> bool:
        """Whether this hexadecimal public key is the learner's."""
        return key == self.key or any(entry.key == key for entry in self.keys)


class AuditedPolicy(msgspec.Struct, frozen=True):
    """The parts of a policy that are checked."""

    name: str
    cap: Written  # most epsilon over all learners
    learners: tuple[_Learner, ...] = ()  # learners, enrolled: who may ask
    enrolled: tuple[_Learner, ...] = ()
    limits: Limits = Limits()  # of one query
    least_cost: Written = "1/1000"  # smallest cost of a plan

    @property
    def total_cap(self) -> Fraction:
        """The cap on epsilon over all learners."""
        return parse_rational(self.cap)

    @property
    def least(self) -> Fraction:
        """The smallest cost that a plan may have."""
        return parse_rational(self.least_cost)

    def cap_of(self, key: bytes) -> Fraction:
        """Return the cap on epsilon of the learner with this public key; zero for a stranger."""
        for learner in (*self.learners, *self.enrolled):
            if learner.holds(key.hex()):
                return parse_rational(learner.cap)
        return Fraction(0)


def read_audited_policy(data: bytes, *, where: str) -> AuditedPolicy:
    """Read a policy.

    Raises:
        ConfigurationError: the policy cannot be read, or holds an invalid amount.
    """
    try:
        policy = msgspec.convert(parse_toml(decode_text(data, where=where), where=where), AuditedPolicy)
    except UNREADABLE as error:
        raise ConfigurationError(f"{where} cannot be read as a policy: {in_short(error)}") from None
    for written in (policy.cap, policy.least_cost, *(learner.cap for learner in (*policy.learners, *policy.enrolled))):
        try:
            parse_rational(written)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return policy


TOLD = {
    "command": "the command",
    "description": "the description, beyond the scenario's",
    "carrier": "the carrier",
    "notes": "notes",
    "records": "numbers of records",
    "further": "scores",
    "learners.pooled": "scores",
    "learners.sites": "scores",
    "learners.curve": "scores",
    "learners.joining": "scores",
    "learners.parts": "parts of models",
    "learners.analyses": "results of analyses",
    "learners.validation": "results of validations, but not their epsilons",
    "learners.left_out": "why curators were left out",
    "learners.rounds_answered.outcomes": "what became of single questions, within the number of signed answers",
    "learners.studies.failed": "repeats that failed",
}
"""Fields of a report that nobody can compute anew -> what they are, for people. What is below them is told, too."""
RECOMPUTED = ("learners.validation.epsilon_claimed", "learners.validation.epsilon_spent", "learners.sites.curator")
"""Fields below those that are computed anew nevertheless."""
TOLD_BY_A_RUN = (
    f"told by the learners, and not computed anew: {', '.join(dict.fromkeys(TOLD.values()))}; metrics, models and "
    "epsilons of the scenario"
)
"""What is shown of a simulation's run and rests on its learners' word."""

USUAL = {"strategy": "cells", "pooling": "sum"}
"""Settings of a learner whose scenario does not write them."""

Ledgers = Mapping[str, Replayed]
"""Curator of the first repeat -> its ledger; only ledgers whose chain holds."""


def check_report(folder: Path, index: Index, exchanges: Sequence[TranscriptVerdict], ledgers: Ledgers) -> list[str]:
    """Return where the report differs from the run's list, its transcripts and its ledgers."""
    try:
        report = load_report(folder / REPORT)
        scenario = decode_text(read_plain(folder / SCENARIO, most=MOST_TEXT), where=SCENARIO)
        settings = parse_toml(scenario, where=SCENARIO)
    except OSError as error:
        return [f"{REPORT} or {SCENARIO} cannot be read ({type(error).__name__})"]
    except ConfigurationError as error:
        return [f"{REPORT} or {SCENARIO} cannot be read: {error}"]
    policies, complaints = _policies(folder, index)
    complaints += _check_policies(policies, index, exchanges, ledgers)
    schemas = [item.proof.card.schema for item in exchanges if item.proof is not None and item.proof.card is not None]
    facts = {
        "the title": (report.title, report.created, report.version) == (index.title, index.created, index.expril),
        "the number of repeats": report.repeats == index.repeats,
        "the scenario": report.config_toml == scenario,
        "the learners": [entry.learner for entry in report.learners] == index.names("learner"),
        "the curators": [entry.name for entry in report.curators] == index.names("curator"),
        "whether the noise came from a seed": _seeded_fits(report, index, policies),
        "the description": report.description.startswith(" ".join(str(settings.get("description", "")).split())),
        "the label": not schemas or any(_label_fits(report, schema) for schema in schemas),
    }
    wrong = [f"{fact} is another than elsewhere in the run" for fact, right in facts.items() if not right]
    epsilons = _epsilons(settings, _changed_epsilon(folder))
    for learner in report.learners:
        wrong += _check_learner(learner, index, exchanges, ledgers, epsilons.get(learner.learner, {}))
        wrong += _check_settings(learner, settings)
    for curator in report.curators:
        wrong += _check_curator(curator, index, exchanges, ledgers.get(curator.name), policies.get(curator.name))
    return complaints + [f"{REPORT}: {text}" for text in wrong]


def _check_learner(
    reported: LearnerReport,
    index: Index,
    exchanges: Sequence[TranscriptVerdict],
    ledgers: Ledgers,
    epsilons: Mapping[int, Fraction],
) -> list[str]:
    every = [exchange for exchange in exchanges if exchange.entry.learner == reported.learner]
    fits = [exchange for exchange in every if exchange.entry.study == FIT]
    wrong = [
        f"{exchange.entry.file} is of a study that was given up for another, and may have been charged"
        for exchange in every
        if exchange.entry.study >= GIVEN_UP and exchange.proof is not None and exchange.proof.epsilon_at_most
    ]
    repeats_with: defaultdict[str, set[int]] = defaultdict(set)
    for exchange in fits:
        repeats_with[exchange.entry.curator].add(exchange.entry.repeat)
    curators = dict.fromkeys(
        site.curator for site in (reported.rounds_answered if reported.is_of_analyses else reported.sites)
    )
    wrong += [
        f"no transcript of {printable(reported.learner)} with {printable(rounds.curator)} in repeat 0"
        for rounds in reported.rounds_answered
        if 0 not in repeats_with[rounds.curator] and rounds.curator not in curators
    ]
    wrong += [
        f"no transcript of {printable(reported.learner)} with {printable(curator)} in repeat {numbers}"
        for curator in curators
        if (numbers := absent_repeats(repeats_with[curator], index.repeats))
    ]
    answered: Counter[str] = Counter()
    for rounds in reported.rounds_answered:
        answered[rounds.curator] += rounds.outcomes.count(RELEASE)
    for exchange in fits:
        proof, entry = exchange.proof, exchange.entry
        if proof is not None and entry.repeat == 0 and answered[entry.curator] > proof.releases:
            wrong.append(
                f"{printable(reported.learner)} got {answered[entry.curator]} answers of {printable(entry.curator)}, "
                f"{entry.file} holds {proof.releases}"
            )
    return wrong + _check_costs(reported, every, ledgers, epsilons)


def _label_fits(report: RunReport, schema: Schema) -> bool:
    """Whether a report tells the label of a card. Earlier versions told less."""
    measure = "accuracy" if schema.label_bounds is None else "R²"
    positive = schema.classes[1] if len(schema.classes) == len("01") else ""
    stated = report.measure, report.label, report.units, tuple(report.classes), report.positive
    of_card = measure, schema.label, schema.measure(schema.label), tuple(schema.classes), positive
    return stated == of_card or (stated[:4] == (measure, "", "", ()) and report.positive in ("", positive))


def _check_settings(reported: LearnerReport, settings: Mapping[str, Any]) -> list[str]:
    """Return where a learner's strategy, pooling and purpose are others than its scenario's."""
    for learner in settings.get("learners", ()):
        if learner.get("name") == reported.learner:
            strategy = ANALYSES if "analyses" in learner else learner.get("strategy", USUAL["strategy"])
            expected = {
                "strategy": strategy,
                "pooling": learner.get("pooling", USUAL["pooling"]),
                "purpose": learner.get("purpose", ""),
            }
            who = printable(reported.learner)
            return [
                f"the {name} of {who} is another than the scenario's"
                for name, value in expected.items()
                if getattr(reported, name) not in (value, *([""] if name == "purpose" else []))
            ]
    return []


def _check_costs(
    reported: LearnerReport, every: Sequence[TranscriptVerdict], ledgers: Ledgers, epsilons: Mapping[int, Fraction]
) -> list[str]:
    """Return where the report's costs of a learner's studies, each and together, differ from what is proven."""
    who = printable(reported.learner)
    of = {number: [exchange for exchange in every if exchange.entry.study == number] for number in (FIT, VALIDATION)}
    if not reported.studies:  # of an earlier version, which told the model's cost alone
        wrong = _check_cost(who, reported.epsilon_claimed, reported.epsilon_spent, of[FIT], ledgers, epsilons.get(FIT))
    else:
        names = STUDIES | {FIT: ANALYSES} if reported.is_of_analyses else STUDIES
        wrong = [] if reported.studies[0].what == names[FIT] else [f"{who} tells no cost of its {names[FIT]}"]
        for number, name in names.items():
            cost = next((study for study in reported.studies if study.what == name), None)
            if cost is not None:
                exchanges, epsilon = of[number], epsilons.get(number)
                wrong += _check_cost(f"the {name} of {who}", cost.claimed, cost.spent, exchanges, ledgers, epsilon)
            elif any(item.planned for item in of[number]):
                wrong.append(f"the {name} of {who} has transcripts, and no cost is told")
        wrong += _check_spent(who, reported.epsilon_spent, [*of[FIT], *of[VALIDATION]], ledgers)
        claimed, parts = exact(reported.epsilon_claimed), [exact(study.claimed) for study in reported.studies]
        if not max(parts) <= claimed <= sum(parts):
            wrong.append(f"{who} claimed {reported.epsilon_claimed}, its plans cost {as_text(sum(parts, ZERO))}")
    if reported.validation is not None:
        claim, spent = reported.validation.epsilon_claimed, reported.validation.epsilon_spent
        wrong += _check_cost(f"the validation of {who}", claim, spent, of[VALIDATION], ledgers, None)
    return wrong


def _check_cost(
    who: str,
    claimed: str,
    spent: str,
    exchanges: Sequence[TranscriptVerdict],
    ledgers: Ledgers,
    epsilon: Fraction | None,
) -> list[str]:
    """Return where the claim of a kind of study is neither its plans' cost nor its epsilon, or its spending wrong."""
    wrong = _check_spent(who, spent, exchanges, ledgers)
    planned = max((item.planned for item in exchanges), default=ZERO)
    if exact(claimed) not in (planned, *([epsilon] if epsilon is not None and epsilon > planned else [])):
        wrong.append(f"{who} claimed {claimed}, its plans cost {as_text(planned)}")
    return wrong


def _check_spent(who: str, reported: str, exchanges: Sequence[TranscriptVerdict], ledgers: Ledgers) -> list[str]:
    """Return where the reported most that studies spent at one curator differs from what is proven."""
    least, most = dict[tuple[int, str], Fraction](), dict[tuple[int, str], Fraction | None]()
    for exchange in exchanges:
        proof, entry = exchange.proof, exchange.entry
        if proof is None:
            continue
        replayed = ledgers.get(entry.curator) if entry.repeat == 0 else None
        charged = None if replayed is None else _spent_on(replayed, exchange)
        where = (entry.repeat, entry.curator)
        least[where] = least.get(where, ZERO) + (proof.epsilon_spent if charged is None else charged)
        most[where] = add(most.get(where, ZERO), exchange.at_most if charged is None else charged)
    low, bounds = max(least.values(), default=ZERO), [amount for amount in most.values() if amount is not None]
    high = max(bounds, default=ZERO) if len(bounds) == len(most) else None
    if low <= exact(reported) and (high is None or exact(reported) <= high):
        return []
    proven = as_text(low) if low == high else f"{as_text(low)} to {bound_text(high)}"
    return [f"{who} spent {reported}, transcripts and ledgers prove {proven}"]


def _check_curator(
    reported: CuratorReport,
    index: Index,
    exchanges: Sequence[TranscriptVerdict],
    replayed: Replayed | None,
    policy: AuditedPolicy | None,
) -> list[str]:
    wrong = []
    who = printable(reported.name)
    if policy is not None and exact(reported.cap) != policy.total_cap:
        wrong.append(f"{who} has a cap of {reported.cap}, its policy of {policy.total_cap}")
    for exchange in exchanges:
        proof = exchange.proof
        if exchange.entry.curator == reported.name and proof is not None and proof.card is not None:
            unit = proof.card.unit or "record"
            if unit != reported.private_unit:
                wrong.append(f"{who} protects {printable(reported.private_unit)}, by its card {printable(unit)}")
                break
    names = learner_names(index)
    if replayed is not None and list(reported.spent_by_round) != _spent_by_round(replayed.charges, names):
        wrong.append(f"the budget of {who} over time is not its ledger's")
    return wrong


def _changed_epsilon(folder: Path) -> str | None:
    """Return the epsilon that the command set for every learner instead of the scenario's; None if it set none."""
    try:
        return str(decode_json(read_plain(folder / AGAIN, most=MOST_BYTES), where=AGAIN)["changes"]["epsilon"])
    except (OSError, ConfigurationError, *UNREADABLE):
        return None


def _epsilons(settings: Mapping[str, Any], changed: str | None) -> dict[str, dict[int, Fraction]]:
    """Map each learner and number of its study to the epsilon of the scenario, or the command's if it set one."""
    epsilons: dict[str, dict[int, Fraction]] = {}
    try:
        for learner in settings["learners"]:
            of_learner = epsilons.setdefault(str(learner["name"]), {})
            of_learner[FIT] = parse_rational(changed or learner.get("epsilon", 1))
            if "validate" in learner:
                of_learner[VALIDATION] = parse_rational(learner["validate"])
    except (ConfigurationError, *UNREADABLE):
        return epsilons
    return epsilons


def _policies(folder: Path, index: Index) -> tuple[dict[str, AuditedPolicy], list[str]]:
    """Read the policies by curator of the first repeat; also return complaints on those that cannot be read."""
    policies, complaints = {}, []
    for name in index.names("curator"):
        file = f"{LEDGERS}/{policy_file(name)}"
        if file not in index.files:
            complaints.append(f"the run has no policy of {printable(name)}")
            continue
        try:
            data = read_plain(folder / file, most=MOST_TEXT)
            policies[name] = read_audited_policy(data, where=printable(file))
        except OSError as error:
            complaints.append(f"{printable(file)} cannot be read ({type(error).__name__})")
        except ConfigurationError as error:
            complaints.append(printable(str(error), 400))
    return policies, complaints


def _check_policies(
    policies: Mapping[str, AuditedPolicy], index: Index, exchanges: Sequence[TranscriptVerdict], ledgers: Ledgers
) -> list[str]:
    """Return where spending exceeds a policy's caps, or a signed card differs from its policy."""
    complaints = []
    names = learner_names(index)
    for name, policy in policies.items():
        file = f"{LEDGERS}/{policy_file(printable(name))}"
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
            differing |= {fact for fact, same in facts.items() if not same}
        complaints += [f"{file}: {fact} is another than on the card that it signed" for fact in sorted(differing)]
    return complaints


def _limits_fit(on_card: Limits, written: Limits) -> bool:
    """Whether a card shows the limits of a policy. Defaults are known for installed kinds only."""
    try:
        return on_card == AUDITED_KINDS.settle(written, where=POLICY_SUFFIX)
    except ConfigurationError:
        return (on_card.multiply_adds, on_card.message_bytes) == (written.multiply_adds, written.message_bytes)


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
    """Return the amount that a ledger charges to the study of a transcript."""
    study = replayed.studies.get((exchange.learner, exchange.study))
    return ZERO if study is None else study.spent


def _spent_by_round(charges: Iterable[Charge], names: Mapping[bytes, str]) -> list[BudgetPoint]:
    """Return what each learner had spent after each query, by a ledger's charges. Studies' queries are numbered on.

    `names`: the learners' names by public key; other learners are named "".
    """
    totals: dict[str, Fraction] = {}
    numbers: dict[str, int] = {}
    begun: dict[Study, int] = {}
    points = []
    for charge in charges:
        name = names.get(charge.study.learner, "")
        totals[name] = totals.get(name, ZERO) + charge.amount
        number = begun.setdefault(charge.study, numbers.get(name, 0)) + charge.sequence
        numbers[name] = max(number, numbers.get(name, 0))
        points.append(BudgetPoint(name, number, as_text(totals[name])))
    return points


def _seeded_fits(report: RunReport, index: Index, policies: Mapping[str, AuditedPolicy]) -> bool:
    """Whether all transcripts of a run with seeded noise, and else only those of policies without privacy, say so."""
    signed = {entry.curator for entry in index.transcripts if entry.label != LABEL}
    if report.seeded_noise:
        return signed == {entry.curator for entry in index.transcripts}
    try:
        return all(name in policies and not AUDITED_KINDS.private(policies[name].limits) for name in signed)
    except RemoteProtocolError:
        return False  # a policy allows a kind that is not installed here
