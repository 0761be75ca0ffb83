"""What the curators of a package spent on one unit, over all its runs and ledgers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from expril.audit.package.evidence import Replay
from expril.audit.recompute import Recomputed
from expril.audit.recompute.runs import is_deployed
from expril.audit.recompute.sums import Sum
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.kinds import QUERY_KINDS
from protocol.ledger.terms import ledger_terms
from protocol.plans import Plan

REPEATED = (
    "The evidence holds repeats of one simulation. Nothing shows that they had different people, so their figures are "
    "added up."
)
SIMULATED = "This was a simulation: whoever ran it held all records and all keys, and no hospital was asked."
EACH = ledger_terms(None, LABEL).partition(":")[2].partition(";")[0].strip()
"""What a ledger says where each record is a unit."""


class CuratorSpent(NamedTuple):
    """What one curator was recomputed to have spent."""

    name: str
    claimed: Fraction  # cost of all accepted plans, exact
    spent: Fraction  # over all learners, at most, exact
    learners: dict[str, Fraction]  # name -> spent by it at most, exact
    unit: str  # privacy unit, in words
    unit_details: str  # and its bound
    note: str = ""  # what else is to be said of this figure; "" for nothing
    # what a unit may have been charged beside it at other curators, where it may be at one now and at another then
    elsewhere: Fraction = Fraction(0)


@dataclass(frozen=True, eq=False)
class _Part:
    """What was spent at one curator in one world."""

    told: Sum  # over all learners and versions
    run: str  # of the world; "" for ledgers given by themselves
    ties: frozenset[str]  # keys of the curator and names of its records: parts that share one are of one curator

    @property
    def name(self) -> str:
        """Of the curator, whatever the repeat."""
        return self.told.curator.rpartition(", repeat ")[0] or self.told.curator


def spent_by_curators(proof: Replay, *, one_curator_each: bool) -> tuple[CuratorSpent, ...]:
    """What each curator spent, over all runs and ledgers.

    Parts of one curator, by its key or by its records' name, add up. So do the repeats of one simulation, curator by
    curator: each deals the same people anew, as far as anybody sees.

    `proof`: the evidence, replayed; `one_curator_each`: whether every unit is at one curator.

    Raises:
        ConfigurationError: nothing was spent anywhere, or something is not private as claimed, or not installed.
    """
    check_private(proof)
    parts = _parts(proof.result)
    if not any(part.told.at_most for part in parts):
        raise ConfigurationError("nothing was spent there: there is no claim to hand over")
    repeated = {run for run in {part.run for part in parts} if run and len(_repeats(parts, run)) > 1}
    curators = _joined(
        parts, lambda part: part.ties | ({f"{part.run}, {part.name}"} if part.run in repeated else set())
    )
    simulated = {str(run.folder) for run in proof.result.runs if run.index and not is_deployed(run.index)}
    names: set[str] = set()
    found = []
    for each in curators:
        runs = sorted({part.run for part in each} & repeated)
        notes = (SIMULATED if simulated & {part.run for part in each} else "", REPEATED if runs else "")
        one = _curator(each, proof.result, " ".join(filter(None, notes)), names)
        if one_curator_each and runs:
            most = sum((_largest(world) for run in runs for world in _repeats(parts, run)), Fraction(0))
            own = sum((part.told.at_most for part in each if part.run in runs), Fraction(0))
            one = one._replace(elsewhere=most - own)
        found.append(one)
    return tuple(found)


def _repeats(parts: Sequence[_Part], run: str) -> list[list[_Part]]:
    """The parts of a run, world by world."""
    worlds: dict[str, list[_Part]] = {}
    for part in parts:
        if part.run == run:
            worlds.setdefault(part.told.world, []).append(part)
    return list(worlds.values())


def _largest(parts: Sequence[_Part]) -> Fraction:
    """The most that one curator spent in a world."""
    return max(sum((part.told.at_most for part in each), Fraction(0)) for each in _joined(parts, lambda p: p.ties))


def check_private(proof: Replay) -> None:
    """Refuse what was signed as not private, and plans whose releases are not private, or are of unknown kinds.

    Raises:
        ConfigurationError: as said.
    """
    result = proof.result
    labels = {entry.label for run in result.runs if run.index for entry in run.index.transcripts}
    labels |= {one.audit.replayed.label for one in result.ledgers if one.audit.replayed.label}
    if labels - {LABEL}:
        raise ConfigurationError(
            "this was signed as not private (noise from a seed, or a release that is not private as claimed): there is "
            "no claim to hand over"
        )
    for plan in {tuple(bytes(query) for query in plan.queries): plan for plan, _ in proof.plans}.values():
        if why := not_private(plan):
            raise ConfigurationError(f"{why}: there is no claim to hand over")


def not_private(plan: Plan) -> str:
    """Why a plan proves no privacy; "" where it does."""
    missing = QUERY_KINDS.missing(plan)
    if missing:
        return f"a plan asks for {printable(', '.join(missing))}, which is not installed here"
    try:
        queries = QUERY_KINDS.queries(plan)
    except RemoteProtocolError as error:
        return f"a plan cannot be read ({printable(str(error))})"
    bad = next((one for one in queries if not QUERY_KINDS.private_planned(one)), None)
    if bad is None:
        return ""
    return f"a plan asks for {printable(_asked(bad))}, which is not private as claimed"


def _asked(planned: object) -> str:
    kind = str(getattr(planned, "kind", ""))
    release = getattr(planned, "release", "")
    return f"{kind}/{release}" if release else kind


def _parts(result: Recomputed) -> list[_Part]:
    known: dict[int, set[str]] = {}
    for ledger in result.ledgers:
        ties = {key.hex() for key in ledger.audit.curators}
        ties |= {f"records {version}" for _, version in ledger.audit.replayed.data if version}
        known |= {id(one): ties for one in ledger.sums}
    keys: dict[tuple[str, str], str] = {}
    runs: dict[str, str] = {}
    for run in result.runs:
        for one in run.index.participants if run.index else ():
            runs[run.world(one.repeat)] = str(run.folder)
            if one.role == "curator":
                keys[run.world(one.repeat), run.curator_name(one.name, one.repeat)] = one.key
    found = []
    for told in result.sums:
        if not told.learner and not told.version:
            key = keys.get((told.world, told.curator))
            ties = known.get(id(told), set()) | ({key} if key else set())
            found.append(_Part(told, runs.get(told.world, ""), frozenset(ties)))
    return found


def _joined(parts: Sequence[_Part], ties_of: Callable[[_Part], Iterable[str]]) -> list[list[_Part]]:
    """Parts that share a tie, directly or over others, together; in their order."""
    groups: list[tuple[set[str], list[_Part]]] = []
    for part in parts:
        ties, members = set(ties_of(part)), [part]
        apart = []
        for group in groups:
            if group[0] & ties:
                ties |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (ties, members)]
    return sorted((members for _, members in groups), key=lambda members: parts.index(members[0]))


def _curator(parts: Sequence[_Part], result: Recomputed, note: str, names: set[str]) -> CuratorSpent:
    first = parts[0]
    name = first.name
    if name in names:
        keys = sorted(tie for part in parts for tie in part.ties if not tie.startswith("records "))
        name = f"{name} ({(keys or [str(len(names))])[0][:16]})"
    names.add(name)
    learners: dict[str, Fraction] = {}
    for part in parts:
        for one in result.sums:
            if one.world == part.told.world and one.curator == part.told.curator and one.learner and not one.version:
                learners[one.learner] = learners.get(one.learner, Fraction(0)) + one.at_most
    bounds = {(one.world, one.curator): one.audit.bounds.bound for one in result.ledgers}
    return CuratorSpent(
        name=name,
        claimed=sum((part.told.claimed for part in parts), Fraction(0)),
        spent=sum((part.told.at_most for part in parts), Fraction(0)),
        learners=learners,
        unit="; ".join(dict.fromkeys(part.told.unit for part in parts)),
        unit_details=" ".join(
            dict.fromkeys(
                _bounded(part.told.unit, bounds.get((part.told.world, part.told.curator)) or _bound_of(part.told))
                for part in parts
            )
        ),
        note=" ".join(dict.fromkeys([note, *_conditions(parts)])).strip(),
    )


def _conditions(parts: Sequence[_Part]) -> Iterator[str]:
    """What of it holds on a condition."""
    for part in parts:
        for proviso, amount in part.told.provisos.items():
            yield f"Of what {part.name} spent, {amount} was {proviso}."


def _bound_of(one: Sum) -> int | None:
    known = {bound for _, bound in one.members}
    return known.pop() if len(known) == 1 else None


def _bounded(unit: str, bound: int | None) -> str:
    if unit == EACH:
        return "A unit is one record."
    counted = f"at most {bound} of them are counted" if bound else "of which a bounded number is counted"
    return f"A unit is all records with one value of {unit}; {counted}, chosen by a keyed hash of that unit alone."
