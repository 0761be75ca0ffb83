"""A dry run for the steward: checks a site's folder, and says what would stop the curator. It writes and sends nothing.

It is for the steward's eyes only: it may name numbers of records, which no learner is ever told.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from curator_node.admission import check_planned
from curator_node.answering import check_size
from curator_node.budgets import Standing, standing_of
from curator_node.daemon.node_key import read_node_key
from curator_node.daemon.settings import (
    DAEMON,
    NODE_KEY,
    NODE_PUBLIC,
    DaemonSettings,
    inside,
    ledger_of,
    read_settings,
)
from curator_node.identities import Keys
from curator_node.ledger.checks import check as check_ledger
from curator_node.ledger.marks import read_mark
from curator_node.ledger.places import mark_path, place_text, read_store
from curator_node.plug_ins import kinds_of, plugged, remarks_on
from curator_node.policy import Policy, doubts_about
from curator_node.records.dataset import unit_names
from curator_node.records.files import read_records
from curator_node.records.schema_file import SchemaFile, read_schema_of
from curator_node.site import KEY, LEDGER, hold_records, now, policy_of, records_of
from curator_node.steward.keyring import check_keys_of, read_keys
from expril.packages import installed_packages
from protocol.codec import encode
from protocol.envelopes import LABEL
from protocol.errors import ExprilError, RemoteProtocolError
from protocol.feature_map import CategoricalFeature, Feature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.secure_counts import SECURE_COUNTS, SecureCountsLimits
from protocol.ledger.entries import ledger_terms
from protocol.messages import NOBODY
from protocol.partitions import NearestCentre
from protocol.query_kind import Kinds, KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.record_frames import UnknownClassError
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Attribute, NumericAttribute, Schema, TimeToEvent

CELLS = (30, 100, 300, 1000)
SECONDS = 1e-10
"""Time of one unit of work, on one core."""


class TypicalQuestion(NamedTuple):
    """A question of the default strategy, and whether policy and schema allow it."""

    release: str  # what is counted in its cells
    cells: int  # how many
    seconds: float  # that its work is stated as, of one core
    size: int  # of its message, in bytes
    refused: str  # why it would be, in words; empty where it would not


def typical_questions(steward: SchemaFile, policy: Policy, kinds: Kinds) -> list[TypicalQuestion]:
    """The questions of the default strategy for several numbers of cells, each at the cost of the whole cap."""
    return [
        _typical_question(release, cells, steward, policy, kinds)
        for release in _releases(steward.schema)
        for cells in CELLS
    ]


def _releases(schema: Schema) -> tuple[str, ...]:
    if schema.label_bounds is not None:
        return ("label_total", "squared_error", "error_sums")
    return ("error_correct",) if len(schema.classes) == 2 else ("class_counts",)


def _typical_question(release: str, cells: int, steward: SchemaFile, policy: Policy, kinds: Kinds) -> TypicalQuestion:
    schema = steward.schema
    features = FeatureMap(tuple(_feature(attribute) for attribute in schema.attributes))
    partition = NearestCentre(features=features, centres=bytes(4 * features.width * cells))
    needs_hypothesis = RELEASE_KINDS[release].wants_hypothesis
    body = CountsBody(partitions=(partition,), hypothesis=Constant(predicted=1) if needs_hypothesis else None)
    data = encode(body)
    scale = Fraction(steward.most_records_per_unit) / (policy.total_cap or 1)
    planned = PlannedCounts(release=release, partitions=1, scale=Rational.of(scale.limit_denominator(2**31)))
    work, refused = 0, ""
    try:
        check_planned(planned, 1, kinds, policy, steward, "plan")
        kind = kinds.kind(planned.kind)
        turn, terms = Turn(planned), KindTerms(schema, kinds.limits(policy.limits, planned.kind))
        work = kind.work(Question(turn, kind.read_body(data, turn, terms), schema), steward.round_size)
        if work > policy.limits.multiply_adds:
            refused = "more work than limits.multiply_adds allows; declare round_size in the schema, or raise the limit"
    except RemoteProtocolError as error:
        refused = ": ".join(part for part in (EXPLANATIONS[RefusalCode(error.code)], error.limit) if part)
    if len(data) > policy.limits.message_bytes:
        refused = refused or "a longer message than limits.message_bytes allows"
    return TypicalQuestion(release, cells, work * SECONDS, len(data), refused)


def _feature(attribute: Attribute) -> Feature:
    if isinstance(attribute, NumericAttribute):
        middle = (attribute.lower + attribute.upper) / 2
        return NumericFeature(attribute.name, middle, 1 / max(attribute.upper - attribute.lower, 1e-9), middle)
    return CategoricalFeature(attribute.name, attribute.levels, 1.0, attribute.levels[0])


T = TypeVar("T")
Level = Literal["stop", "look", "fine"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    # "stop" where the curator would not start or answer, "look" for the steward to think about, else "fine"
    level: Level
    about: str  # policy, schema, records, keys, ledger, approval, superlink
    text: str  # a sentence


@dataclass
class SiteCheck:
    """The results of all checks of a site."""

    findings: list[Finding] = field(default_factory=list)  # in the order in which things were checked
    questions: list[TypicalQuestion] = field(default_factory=list)  # what the default strategy would ask
    standing: Standing | None = None  # of ledger and policy; None where one of them cannot be read

    @property
    def stopped(self) -> bool:
        """Whether the curator would not start, or would refuse whatever is asked."""
        return any(finding.level == "stop" for finding in self.findings)

    def say(self, level: Level, about: str, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(level, about, text))

    @contextmanager
    def stops(self, about: str) -> Iterator[None]:
        """Turn an error within into a finding that stops the curator."""
        try:
            yield
        except ExprilError as error:
            self.say("stop", about, error_text(error))

    def read(self, about: str, make: Callable[[], T]) -> T | None:
        """The result of `make`; None, and a finding that stops the curator, if it raises."""
        try:
            return make()
        except ExprilError as error:
            self.say("stop", about, error_text(error))
            return None


def error_text(error: ExprilError) -> str:
    """The text of an error, with parts from a record that only the steward may read."""
    return f"{error}{error.likeness}" if isinstance(error, UnknownClassError) else str(error)


def check_site(folder: Path, probe: Callable[[DaemonSettings], str] | None = None) -> SiteCheck:
    """Check a site's folder.

    Args:
        folder: the site's.
        probe: asks whether the SuperLink of the settings answers, and returns "" or why not; None asks nobody.
    """
    report = SiteCheck()
    policy = report.read("policy", lambda: policy_of(folder))
    steward = report.read("schema", lambda: read_schema_of(folder))
    keys = report.read("keys", lambda: _keys(report, folder))
    settings = None
    if (folder / DAEMON).exists():
        settings = report.read("superlink", lambda: read_settings(folder))
    else:
        text = f"no {DAEMON}: no daemon can serve it; expril curator answer REQUESTS --site {folder} answers a folder"
        report.say("look", "superlink", text)
    if policy is not None:
        _policy(report, policy)
    if steward is not None:
        _schema(report, steward.schema)
    if policy is not None and keys is not None:
        _members(report, policy, keys)
    with report.stops("records"):
        path = records_of(folder)
        if policy is not None and steward is not None and keys is not None:
            _records(report, path, steward, policy, keys)
    if policy is not None and steward is not None:
        report.questions = typical_questions(steward, policy, kinds_of(policy))
        _questions(report, policy)
    if keys is not None:
        with report.stops("ledger"):
            _ledger(report, folder, settings, keys, policy, steward)
    if settings is not None and policy is not None:
        _waiting(report, settings, policy)
    if settings is not None:
        _superlink(report, folder, settings, probe)
    return report


def _keys(report: SiteCheck, folder: Path) -> Keys:
    keys = read_keys(folder)
    for path in (folder / KEY, folder / NODE_KEY):
        if path.is_file() and path.stat().st_mode & 0o077:
            report.say("look", "keys", f"others on this machine may read {path}; chmod 600 {path}")
    if folder.stat().st_mode & 0o007:
        report.say("look", "keys", f"everybody on this machine may look into {folder}; chmod 700 {folder}")
    report.say("fine", "keys", f"the curator signs as {keys.current.public.hex()}")
    return keys


def _policy(report: SiteCheck, policy: Policy) -> None:
    for plug_in in policy.plug_ins:
        offers = installed_packages()[plug_in.package].summary
        report.say("fine", "policy", f"plug-in {plug_in.package} {plug_in.version}, as the policy names it: {offers}")
    for doubt in (*doubts_about(policy), *remarks_on(policy)):
        report.say("look", "policy", doubt)
    if policy.simulation:
        report.say("look", "policy", "simulation = true is for simulations: what is answered need not be private")
    today = now()
    caps_of = {learner.name: policy.cap_of(key) for key, learner in policy.keys.items() if policy.admits(key, today)}
    remedy = "let a learner in by its card, with expril curator enrol"
    if not policy.keys:  # a new site
        report.say("fine", "policy", f"nobody may ask yet: {remedy}")
        return
    if not caps_of:
        report.say("look", "policy", f"nobody may ask any more: every key has ended, or was revoked; {remedy}")
        return
    caps = sum(caps_of.values(), Fraction(0))
    shared = "" if caps <= policy.total_cap else ": first come, first served, and a study may be cut off midway"
    report.say(
        "look" if shared else "fine",
        "policy",
        f"{len(caps_of)} may ask; their caps add up to {caps}, and the cap over all is {policy.total_cap}{shared}",
    )


def _members(report: SiteCheck, policy: Policy, keys: Keys) -> None:
    """Check the members of secure sums that the policy names."""
    name, kinds = SECURE_COUNTS.name, kinds_of(policy)
    if name not in kinds.allowed(policy.limits):
        return
    limits: SecureCountsLimits = kinds.limits(policy.limits, name)
    own_key, place = keys.current.public.hex(), f"limits.kinds.{name}.members"
    other_keys = [key for key in limits.members if key != own_key]
    if not limits.members:
        text = "is empty, so no secure sum is accepted; write every curator's public key there, this one's among them"
        report.say("look", "policy", f"{place} {text}")
        return
    if own_key not in limits.members:
        text = f"lacks this curator's own key {own_key}, so no secure sum with it is accepted; add it"
        report.say("look", "policy", f"{place} {text}")
    former = {former_key.key.public.hex() for former_key in keys.former} & set(other_keys)
    if former and own_key in limits.members:
        text = (
            f"holds a former key of this curator beside its own ({min(former)[:16]}): one would pass for two; remove it"
        )
        report.say("look", "policy", f"{place} {text}")
    names = ", ".join(key[:16] for key in other_keys)
    report.say(
        "fine",
        "policy",
        f"secure sums with {len(other_keys)} other curators ({names}), of whom a plan assumes at least "
        f"{limits.least_colluders} to collude with the learner",
    )


def _schema(report: SiteCheck, schema: Schema) -> None:
    """Say what the card tells of units, dates and missing values, for the steward to compare with the records."""
    numbers = [attribute for attribute in schema.attributes if isinstance(attribute, NumericAttribute)]
    dates = [attribute for attribute in numbers if attribute.days_since]
    levels = len(schema.attributes) - len(numbers)
    kinds = {"numbers": len(numbers) - len(dates), "dates": len(dates), "levels": levels}
    counts = ", ".join(f"{count} of {kind}" for kind, count in kinds.items() if count)
    report.say("fine", "schema", f"attributes: {counts}; the label is {schema.label!r}")
    if schema.outcomes:
        names = ", ".join(outcome.name for outcome in schema.outcomes)
        report.say("fine", "schema", f"outcomes, which tables count and no model reads: {names}")
    if schema.time_to_event is not None:
        report.say("fine", "schema", _time_to_event(schema, schema.time_to_event))
    numbers += [outcome for outcome in schema.outcomes if isinstance(outcome, NumericAttribute)]
    measured: dict[str, list[str]] = {}
    for name in [*(attribute.name for attribute in numbers), *([schema.label] if schema.label_bounds else [])]:
        measured.setdefault(schema.measure(name), []).append(name)
    bare = measured.pop("", [])
    texts = [f"{measure} ({', '.join(names)})" for measure, names in measured.items()]
    texts += [f"none declared ({', '.join(bare)})"] if bare else []
    if measured:
        report.say("fine", "schema", f"units: {'; '.join(texts)}")
    elif bare:
        text = "no number has units; declare them, so that nobody pools mg with g: units = ..."
        report.say("fine", "schema", text)
    sentinels = [
        f"{attribute.name} ({', '.join(_sentinel(item) for item in attribute.missing)})"
        for attribute in (*schema.attributes, *schema.outcomes)
        if attribute.missing
    ]
    if sentinels:
        report.say("fine", "schema", f"missing are also: {'; '.join(sentinels)}")


def _time_to_event(schema: Schema, followed: TimeToEvent) -> str:
    end = f"{followed.ends[-1]:g} {schema.measure(followed.time)}".strip()
    start = f"{followed.entry!r}, and before it nobody is at risk" if followed.entry else "time 0"
    return (
        f"time to an event: from {start}, to {followed.time!r}; {followed.event!r} says why it ended: "
        f"{', '.join(map(repr, schema.causes))}, or {followed.censored!r} for nothing by then; "
        f"{len(followed.ends)} bins up to {end}"
    )


def _sentinel(item: float | str) -> str:
    return repr(item) if isinstance(item, str) else f"{item:.15g}"


def _records(report: SiteCheck, path: Path, steward: SchemaFile, policy: Policy, keys: Keys) -> None:
    frame = read_records(path)
    dataset = hold_records(frame, steward, policy, keys.first)
    total = counted = len(frame)
    if steward.unit is None:
        report.say("fine", "records", f"{path}: {total} records; each is a privacy unit by itself")
    else:
        sizes = Counter(unit_names(frame[steward.unit]))
        units, bound = len(sizes), steward.most_records_per_unit
        counted = sum(min(size, bound) for size in sizes.values())
        dropped = total - counted
        report.say(
            "look" if dropped * 10 > total else "fine",
            "records",
            f"{path}: {total} records of {units} units of {steward.unit!r}; at most {bound} of a unit count, so "
            f"{counted} are kept and {dropped} ({dropped / total:.1%}) are not",
        )
    if steward.round_size == counted and counted % 10:
        text = "round_size is the exact number of records that count, and every learner reads it; round it"
        report.say("look", "records", text)
    answerers = plugged(policy)
    check_size(kinds_of(policy).settle(policy.limits, where="policy"), answerers, len(dataset.records))
    for warning in dataset.warnings:
        report.say("look", "records", warning)


def _questions(report: SiteCheck, policy: Policy) -> None:
    refused = [question for question in report.questions if question.refused]
    if len(refused) == len(report.questions):
        report.say("look", "policy", "every question of the default strategy would be refused; see the table")
    longest = max(question.size for question in report.questions)
    if longest > policy.limits.message_bytes:
        report.say("look", "policy", f"limits.message_bytes is below the {longest} bytes of the longest of them")


def _ledger(
    report: SiteCheck,
    folder: Path,
    settings: DaemonSettings | None,
    keys: Keys,
    policy: Policy | None,
    steward: SchemaFile | None,
) -> None:
    url = None if settings is None else ledger_of(settings)
    mark_setting = None if settings is None else inside(folder, settings.mark)
    where = url or folder / LEDGER
    with read_store(where) as store:
        checked = check_ledger(store)
    account, name = checked.account, place_text(where)
    check_keys_of(account, keys)
    for finding in checked.findings:
        report.say("stop", "ledger", f"{name}: {finding.text}")
    if account.halted:
        report.say("stop", "ledger", f"{name} is halted; expril ledger resume, once you know why")
    if steward is not None and policy is not None and not policy.simulation:
        terms = ledger_terms(steward.unit, LABEL)
        if account.terms not in ("", terms):
            report.say("stop", "ledger", f"{name} was kept for other terms ({account.terms}); now: {terms}")
    mark = mark_setting or mark_path(folder / LEDGER)
    marked = read_mark(mark, keys.first.derive("ledger mark")) if mark.is_file() else None
    if marked is None:
        report.say("stop", "ledger", f"the mark {mark} is missing or damaged: the curator would halt until you resume")
    elif not all(account.knows(branch) for branch in marked.branches(b"", account.hashes)):
        report.say("stop", "ledger", f"{name} lacks the entry that {mark} names: it was rolled back, or replaced")
    if policy is None:
        return
    report.standing = standing_of(account, policy, kinds_of(policy))
    names = {entry.name for entry in policy.keys.values()}
    strangers = [learner for learner in account.spent if learner not in policy.keys and learner != NOBODY]
    gone = [learner for learner in strangers if account.name_of(learner) not in names]
    if gone:
        report.say(
            "look", "ledger", f"{len(gone)} learners of the ledger are in no policy; what they spent stays spent"
        )
    budget = f"spent {report.standing.spent} of {report.standing.cap}, left {report.standing.left}"
    report.say("fine", "ledger", f"{name}: entries to {report.standing.entry}, {budget}")
    for learner, standing in report.standing.learners.items():
        if standing.left == "0":
            report.say("look", "ledger", f"{learner} has nothing left to ask for")


def _waiting(report: SiteCheck, settings: DaemonSettings, policy: Policy) -> None:
    """Check that the steward hears of proposals if approval is manual."""
    if policy.approval != "manual":
        return
    if not settings.waiting_command:
        text = f"approval is manual and {DAEMON} has no waiting_command: look at `expril curator studies` yourself"
        report.say("look", "approval", text)
    elif not os.access(settings.waiting_command[0], os.X_OK) or Path(settings.waiting_command[0]).is_dir():
        report.say("look", "approval", f"waiting_command of {DAEMON}: no program {settings.waiting_command[0]}")
    else:
        report.say("fine", "approval", f"{settings.waiting_command[0]} is run when a study begins to wait")


def _superlink(
    report: SiteCheck, folder: Path, settings: DaemonSettings, probe: Callable[[DaemonSettings], str] | None
) -> None:
    with report.stops("keys"):
        read_node_key(folder / NODE_KEY)
    if settings.insecure:
        report.say(
            "look", "superlink", f"{DAEMON} says insecure = true: nothing between daemon and SuperLink is hidden"
        )
    if probe is None:
        return
    with report.stops("superlink"):
        reason = probe(settings)
        if reason:
            remedy = f"or send {folder / NODE_PUBLIC} to who keeps it"
            report.say(
                "look", "superlink", f"{settings.superlink}: {reason}; the daemon tries again for ever, {remedy}"
            )
        else:
            report.say("fine", "superlink", f"{settings.superlink} answers")
