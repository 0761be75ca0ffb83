"""A scenario: one TOML file that says whose records, which curators, which learners, and what goes wrong.

What happens when it runs is in `federation` (one repeat), `harness` (all of them) and `run` (their report).
"""

from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from curator_node.policy import LearnerPolicy, Policy, Written, check_rational, settled_limits
from expril.files import read_text_file
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Threshold, read_thresholds
from learner_node.strategies import DEFAULT_STRATEGY, check_options
from learner_node.study.budget import Budget
from learner_node.study.doubts import is_large, require_confirmed
from learner_node.study.pooling import POOLINGS, SUM, Pooling
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.limits import Limits
from protocol.mistakes import first_repeated
from protocol.rationals import parse_rational, written_exactly
from protocol.strict_toml import convert, read_toml, suggest
from simulations.scenario_data import ANY, Data, Name, check_one_of, fits, is_table

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""What every library takes as a seed."""
FAULTS = ("refuse", "vanish", "late")
"""Kinds of faults."""

if TYPE_CHECKING:
    from learner_node.study.pooling import PoolingName
else:
    PoolingName = str  # checked by hand: msgspec's error on a Literal names no allowed value


class CuratorScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's policy where it differs from the default.

    Attributes:
        name: its site, or a pattern such as "ward *"; "*" stands for every site without another entry.
        cap: most epsilon over all learners.
        learner_cap: most epsilon of each learner; None: the cap.
        learner_caps: learner -> its own, instead of `learner_cap`.
        round_size: declared number of records; None declares none. It is never counted: the card tells it to learners.
        open_studies, studies, reservation_seconds, least_cost, least_query_cost, limits: as in a policy file.
    """

    name: Name
    cap: Written = 2
    learner_cap: Written | None = None
    learner_caps: dict[Name, Written] = {}
    round_size: int | None = None
    open_studies: int = 4
    studies: int = 1_000
    reservation_seconds: int = 86_400
    least_cost: Written = "1/1000"
    least_query_cost: Written = "1/10000"
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        try:
            if self.learner_cap is not None:
                check_rational(self.learner_cap, "learner_cap")
            for learner, cap in self.learner_caps.items():
                check_rational(cap, f"learner_caps.{learner}")
            policy = convert(msgspec.to_builtins(self.policy([])), Policy, where=f"curator {self.name!r}")
            settled_limits(policy, QUERY_KINDS, where=f"curator {self.name!r}")
        except ConfigurationError as error:
            raise ValueError(str(error)) from None

    def cap_of(self, learner: str) -> Written:
        """Most epsilon of one learner."""
        return self.learner_caps.get(learner, self.cap if self.learner_cap is None else self.learner_cap)

    def policy(self, learners: list[LearnerPolicy], *, name: str | None = None) -> Policy:
        """The policy file that this stands for."""
        return Policy(
            name=name or self.name,
            cap=self.cap,
            learners=tuple(learners),
            limits=self.limits,
            open_studies=self.open_studies,
            studies=self.studies,
            reservation_seconds=self.reservation_seconds,
            least_cost=self.least_cost,
            least_query_cost=self.least_query_cost,
            simulation=True,
        )


class LearnerScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner and its plan.

    Attributes:
        name: its name.
        epsilon: to spend at each curator.
        strategy: a name of `learner_node.strategies`.
        options: of the strategy.
        pooling: "sum" for one model, "site" for one per curator, "secure" for one model from securely opened sums.
        colluders, dropouts: with "secure", as in `learner_node.study.learn.learn`; None takes the usual ones.
        all_or_none: its studies are opened at all curators that it asks, or at none.
        source: sites whose unlabelled records it holds; empty: all.
        curators: whom it asks; empty: all.
        purpose: what it tells the stewards.
        large_epsilon: confirms an epsilon of 100 or more, which protects nothing.
        validate: epsilon of a second study, which asks the same curators how good the model is; None asks nothing.
        recalibrate: whether its answers recalibrate the model, too; at no further cost.
    """

    name: Name
    epsilon: Written = 1
    strategy: str = DEFAULT_STRATEGY
    options: dict[str, Any] = {}
    pooling: PoolingName = SUM
    colluders: Annotated[int, msgspec.Meta(ge=1)] | None = None
    dropouts: Annotated[int, msgspec.Meta(ge=0)] | None = None
    all_or_none: bool = False
    source: tuple[Name, ...] = ()
    curators: tuple[Name, ...] = ()
    purpose: str = ""
    large_epsilon: bool = False
    validate: Written | None = None
    recalibrate: bool = False

    @property
    def budget(self) -> Budget:
        """Epsilon of its study and of the validation, exact, and the purpose."""
        return Budget(self.epsilon, self.purpose, validation=self.validate)

    @property
    def pool(self) -> Pooling:
        """How answers become models; ConfigurationError where the three keys do not fit each other."""
        return Pooling(self.pooling, self.colluders, self.dropouts)

    def __post_init__(self) -> None:
        if self.recalibrate and self.validate is None:
            raise ValueError(
                'recalibrate needs the answers of a validation; add validate = "1/4", or leave recalibrate out'
            )
        check_one_of("pooling", self.pooling, POOLINGS)
        try:
            self.pool  # noqa: B018 - the error
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        for key, epsilon in (("epsilon", self.epsilon), ("validate", self.validate)):
            try:
                exact = [] if epsilon is None else [parse_rational(epsilon)]
                if not self.large_epsilon:
                    require_confirmed(exact, how="large_epsilon = true")
            except ConfigurationError as error:
                raise ValueError(f"{key}: {error}") from None
        try:
            check_options(self.strategy, self.options)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that goes wrong at a curator.

    Attributes:
        curator: where.
        kind: "refuse" (its steward halts it), "vanish" (no reply any more) or "late" (one reply misses the
            timeout; the repeat of the request gets it).
        round: from which query on (1 is the first; 0 the proposal).
    """

    curator: Name
    kind: str
    round: Annotated[int, msgspec.Meta(ge=0)] = 1

    def __post_init__(self) -> None:
        check_one_of("kind", self.kind, FAULTS)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario file.

    Attributes:
        title, description: for the report.
        data: whose records.
        curators: policies; empty: defaults for every site.
        learners: at least one.
        faults: what goes wrong.
        repeats: independent repetitions (splits, curators' keys, ledgers and noise are new each time; a
            learner keeps its key).
        seed: of splits and the learners' own choices; never of noise.
        thresholds: where probabilities of two classes become decisions, see `learner_node.scores.thresholds`.
        noise_seed: if given, noise comes from this seed, nothing is private, and every report says so.
    """

    title: Name
    data: Data
    learners: Annotated[tuple[LearnerScenario, ...], msgspec.Meta(min_length=1)]
    description: str = ""
    curators: tuple[CuratorScenario, ...] = ()
    faults: tuple[Fault, ...] = ()
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    seed: Seed = 0
    thresholds: tuple[Threshold, ...] = DEFAULT_THRESHOLDS
    noise_seed: Seed | None = None

    def __post_init__(self) -> None:
        for what, names in (("learner", self.learners), ("curator", self.curators)):
            if again := first_repeated(item.name for item in names):
                raise ValueError(f"two {what}s have the same name, {again!r}; give each a name of its own")
        if any(fault.curator == ANY for fault in self.faults):
            raise ValueError("a fault needs the name of one curator, not '*'")
        try:
            read_thresholds(self.thresholds)
        except ConfigurationError as error:
            raise ValueError(f"thresholds: {error}") from None
        known = {learner.name for learner in self.learners}
        for curator in self.curators:
            for name in curator.learner_caps.keys() - known:
                raise ValueError(
                    f"curator {curator.name}: learner_caps names no learner {name!r}{suggest(name, sorted(known))}"
                )

    def curator(self, site: str) -> CuratorScenario:
        """The curator entry of a site: its own, else the longest pattern that fits."""
        fitting = [curator for curator in self.curators if fits(site, curator.name)]
        return max(fitting, key=lambda entry: (entry.name == site, len(entry.name)), default=CuratorScenario(name=site))


@dataclass(frozen=True)
class AtEpsilon:
    """A scenario at another epsilon, and what its user must know of it."""

    scenario: Scenario
    notes: tuple[str, ...]


def read_epsilons(written: str) -> tuple[str, ...]:
    """Epsilons of a list such as "0.1,0.3,1/2", from the smallest on.

    Raises:
        ConfigurationError: one is no positive rational, or is there twice.
    """
    values: dict[Fraction, str] = {}
    for text in (part.strip() for part in written.split(",")):
        try:
            value = parse_rational(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"--epsilon {written}: {error}") from None
        if value in values:
            raise ConfigurationError(f"--epsilon {written}: {text} is there twice")
        values[value] = text
    return tuple(text for _, text in sorted(values.items()))


def at_epsilon(scenario: Scenario, epsilon: str) -> AtEpsilon:
    """The scenario where every learner has this epsilon.

    A cap that would refuse it is raised to what the learners may need: `epsilon` and its validation for each, and their
    sum for all. What was raised is in the notes, since a real curator's cap does not follow.
    """
    each = parse_rational(epsilon)
    needs = {
        learner.name: each + (0 if learner.validate is None else parse_rational(learner.validate))
        for learner in scenario.learners
    }
    total, most = sum(needs.values(), Fraction(0)), max(needs.values())
    raised, curators = [], []
    written = list(scenario.curators)
    if not any(curator.name == "*" for curator in written):
        written.append(CuratorScenario(name="*"))
    for curator in written:
        changes: dict[str, Any] = {}
        if parse_rational(curator.cap) < total:
            changes["cap"] = str(total)
        if curator.learner_cap is not None and parse_rational(curator.learner_cap) < most:
            changes["learner_cap"] = str(most)
        low = {
            name: str(needs[name]) for name, cap in curator.learner_caps.items() if parse_rational(cap) < needs[name]
        }
        if low:
            changes["learner_caps"] = curator.learner_caps | low
        if changes:
            raised.append("any other site" if curator.name == "*" else curator.name)
        if changes or curator in scenario.curators:
            curators.append(msgspec.structs.replace(curator, **changes))
    # Whoever asked for a large one has confirmed it on the command line.
    large = {"large_epsilon": True} if is_large(each) else {}
    learners = tuple(msgspec.structs.replace(learner, epsilon=epsilon, **large) for learner in scenario.learners)
    changed = msgspec.structs.replace(scenario, learners=learners, curators=tuple(curators))
    note = (
        f"For epsilon {epsilon} caps were raised to what the learners may need, {written_exactly(total)} in all and "
        f"{written_exactly(most)} each, at {', '.join(raised)}: a real curator's cap does not follow."
    )
    return AtEpsilon(changed, (note,) if raised else ())


def builtin_scenarios() -> dict[str, str]:
    """Name -> TOML text of the scenarios that come with the package."""
    folder = resources.files("simulations") / "scenarios"
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return {item.name.removesuffix(".toml"): item.read_text(encoding="utf-8") for item in files}


def load_scenario(name: str) -> tuple[Scenario, str, Path]:
    """A built-in scenario by name, or a file by path.

    Returns:
        The scenario, its TOML text, and the folder that relative paths start from.

    Raises:
        ConfigurationError: no such scenario (with a suggestion), or an error in it (which key, what instead).
    """
    known = builtin_scenarios()
    path = Path(name)
    if name in known:
        text, folder, where = known[name], Path.cwd(), f"scenario {name}"
    elif is_table(name):
        raise ConfigurationError(
            f"{name} is a table of records, and a scenario is a TOML file that names one: under [data], path = "
            f'"{path.name}" and schema = "schema.toml" (docs/scenarios.md has a whole one). What a study on them '
            f"would cost is told by: expril quote {name} --schema schema.toml"
        )
    elif path.is_dir() or path.is_file():
        text, folder, where = read_text_file(path, "scenario"), path.resolve().parent, f"scenario {path.name}"
    else:
        raise ConfigurationError(f"no scenario or file {name!r}{suggest(name, list(known))}")
    return read_toml(text, Scenario, where=where), text, folder
