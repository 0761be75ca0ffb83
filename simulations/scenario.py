"""A scenario: a TOML file that names the records, curators, learners and faults; `run` runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from curator_node.policy import LearnerPolicy, Policy, Written, check_rational, settled_limits
from curator_node.records.schema_file import SchemaFile, read_schema_file
from expril.files import read_text_file
from expril.packages import loaded_kinds, named_packages, offering
from learner_node.analyses.parts import OF_MODELS, check_no_model, read_parts
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Threshold, read_thresholds
from learner_node.strategies import DEFAULT_STRATEGY, check_options
from learner_node.study.budget import Budget
from learner_node.study.doubts import is_large, require_confirmed
from learner_node.study.pooling import POOLINGS, SITE, SUM, Pooling
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.mistakes import did_you_mean, first_repeated
from protocol.plug_ins import Group, PlugIn
from protocol.query_kind import Kinds
from protocol.rationals import parse_rational, written_exactly
from protocol.strict_toml import convert, read_toml, suggest
from simulations.datasets import DATASETS, SITE_SPLITS
from simulations.paper_ratio import SIMULATED_KINDS

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
SMALL_SITES = ("refuse", "leave out", "merge")
"""Allowed treatments of a site with too few units."""
TABLES = (".csv", ".parquet", ".pq")
"""Suffixes of files with records."""
PARTS = 3
"""Number of parts (private, source, test), each of which needs a unit."""
ANY = "*"
"""Pattern for any site, or any level of the label, that is not named elsewhere."""


class Sites(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How records are split over curators."""

    # "site" (a column says), "random" (`fractions` or `count`), or "shift" (`attribute`, `names`, `probabilities`)
    how: str
    column: Name | None = None  # of the site; a built-in data set knows its own, which this replaces
    fractions: dict[Name, Share] | None = None  # site -> share
    count: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None  # of equal sites, named by `pattern`
    # in which "{}" stands for the number of a site
    pattern: Annotated[str, msgspec.Meta(min_length=2, max_length=80)] = "site {}"
    attribute: Name | None = None  # the higher, the likelier the first of `names`
    names: tuple[Name, Name] | None = None  # the two sites of a shifted split
    # of the first site at the lowest and highest value of the attribute
    probabilities: tuple[float, float] = (0.1, 0.9)
    # whether a privacy unit may have records at several sites ("site" only). Each curator then protects its own part,
    # and costs add up
    units_move: bool = False
    # a site of the column with fewer units is small
    least_units: Annotated[int, msgspec.Meta(ge=PARTS, le=1_000_000)] = PARTS
    small: str = "refuse"  # what becomes of small sites: "refuse", "leave out" or "merge" (into one, named `merged`)
    merged: Name = "small sites"  # name of the site of merged ones

    def __post_init__(self) -> None:
        if self.how not in SITE_SPLITS:
            raise ValueError(f"unknown way {self.how!r} to split sites{suggest(self.how, list(SITE_SPLITS))}")
        check_one_of("small", self.small, SMALL_SITES)
        if self.how == "random" and bool(self.fractions) == (self.count is not None):
            raise ValueError(
                "a random split needs fractions, such as {north = 0.5, south = 0.5}, or a count of equal sites; "
                "one of the two"
            )
        if self.pattern.count("{}") != 1:
            raise ValueError(f"pattern {self.pattern!r} needs one {{}} where the number of the site goes")
        if self.how == "shift" and (self.attribute is None or self.names is None):
            raise ValueError("a shifted split needs attribute and names")
        if self.how != "site" and (self.units_move or self.small != "refuse" or self.least_units != PARTS):
            raise ValueError('units_move, small and least_units are for sites of a column (how = "site")')

    def options(self) -> dict[str, Any]:
        """Arguments for `split_sites`."""
        if self.how == "random":
            return {"fractions": self.fractions or self._equal()}
        if self.how == "shift":
            return {"attribute": self.attribute, "sites": self.names, "probabilities": self.probabilities}
        return {"units_move": self.units_move}

    def _equal(self) -> dict[str, float]:
        """Equal shares for sites whose names have leading zeros, so that they sort as numbers."""
        count = self.count or 1
        numbers = [str(number).zfill(len(str(count))) for number in range(1, count + 1)]
        return dict.fromkeys((self.pattern.replace("{}", number) for number in numbers), 1 / count)


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of each site's records: private to its curator, public without labels, and for tests."""

    private: Share = 0.5
    source: Share = 0.25
    test: Share = 0.25


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[data]` table: the records, and their split over sites and parts."""

    sites: Sites  # how they are split over curators
    name: str | None = None  # a built-in data set; else
    path: str | None = None  # a CSV or Parquet file, relative to the scenario, with
    schema: str | None = None  # its steward's schema file
    unit: bool = True  # protect whole privacy units (the schema's unit column); False: each row is a unit
    # contribution bound, instead of the schema's; a unit with more records counts with these
    most_records_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**20)] | None = None
    first_record: bool = False  # keep the first record of each unit alone, in the order of the file
    # class -> levels of the label column that become it, in the order of the classes; "*" stands for all levels that
    # are named nowhere
    merge_label: dict[Name, tuple[Name, ...]] = {}
    parts: Parts = Parts()  # how each site is split

    def __post_init__(self) -> None:
        if not self.unit and (self.most_records_per_unit is not None or self.first_record):
            raise ValueError("most_records_per_unit and first_record need units; leave out unit = false")
        levels = [level for merged in self.merge_label.values() for level in merged]
        if self.merge_label and (len(self.merge_label) < 2 or not all(self.merge_label.values())):
            raise ValueError("merge_label needs two classes or more, each with its levels")
        if len(set(levels)) != len(levels):
            raise ValueError(
                f"merge_label names the level {first_repeated(levels)!r} twice; a level belongs to one class"
            )
        if (self.name is None) == (self.path is None):
            raise ValueError("name a built-in data set or give a path, one of the two")
        if self.name is not None and self.name not in DATASETS:
            raise ValueError(f"unknown data set {self.name!r}{suggest(self.name, list(DATASETS))}")
        if self.path is not None and self.schema is None:
            raise ValueError("records of one's own need a schema file beside their path")
        if self.path is not None and self.sites.how == "site" and self.sites.column is None:
            raise ValueError('sites: how = "site" needs column, the column of the records that names the site')


def read_schema(path: Path) -> SchemaFile:
    """Read a steward's schema file. Raises ConfigurationError, which names the file and the error in it."""
    return read_schema_file(read_text_file(path, "schema file"), where=f"schema file {path.name}")


def is_table(source: str) -> bool:
    """Whether the file name is one of a file with records."""
    return Path(source).suffix.lower() in TABLES


def check_one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ValueError, with the nearest allowed value, if a key's value is not allowed."""
    if value not in allowed:
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not {value!r}{did_you_mean(value, allowed)}")


def fits(site: str, pattern: str) -> bool:
    """Whether a site has that name or matches the pattern ("*": any letters)."""
    return site == pattern or (ANY in pattern and fnmatchcase(site, pattern.replace("[", "[[]").replace("?", "[?]")))


def matching(patterns: Sequence[str], sites: Sequence[str]) -> list[str]:
    """Sites that match the patterns, in the patterns' order; all sites without a pattern.

    Raises ConfigurationError: a name or pattern matches no site.
    """
    strangers = [pattern for pattern in patterns if not any(fits(site, pattern) for site in sites)]
    if strangers:
        raise ConfigurationError(f"unknown site(s) {', '.join(strangers)}; the sites are {', '.join(sites)}")
    if not patterns:
        return list(sites)
    return list(dict.fromkeys(site for pattern in patterns for site in sites if fits(site, pattern)))


Seed = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A seed that every library accepts."""
FAULTS = ("refuse", "vanish", "late")
"""Kinds of faults."""

if TYPE_CHECKING:
    from learner_node.analyses.part import Part
    from learner_node.study.pooling import PoolingName
else:
    PoolingName = str  # checked by hand: msgspec's error on a Literal names no allowed value


class CuratorScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings in which a curator's policy differs from the default."""

    name: Name  # its site, or a pattern such as "ward *"; "*" stands for every site without another entry
    cap: Written = 2  # most epsilon over all learners
    learner_cap: Written | None = None  # most epsilon of each learner; None: the cap
    learner_caps: dict[Name, Written] = {}  # learner -> its own, instead of `learner_cap`
    # declared number of records; None declares none. It is never counted: the card tells it to learners
    round_size: int | None = None
    # open_studies, studies, reservation_seconds, least_cost, least_query_cost, limits: as in a policy file
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
            kinds = SIMULATED_KINDS
            for package in named_packages(policy.plug_ins, simulation=True):
                kinds = Kinds(*kinds.values(), *loaded_kinds(package, kinds).values())
            settled_limits(policy, kinds, where=f"curator {self.name!r}")
        except ConfigurationError as error:
            raise ValueError(str(error)) from None

    def cap_of(self, learner: str) -> Written:
        """Most epsilon that one learner may spend."""
        return self.learner_caps.get(learner, self.cap if self.learner_cap is None else self.learner_cap)

    def policy(
        self, learners: list[LearnerPolicy], *, name: str | None = None, plug_ins: tuple[PlugIn, ...] = ()
    ) -> Policy:
        """The full policy file, with these plug-ins and those whose query kinds the limits name."""
        kinds = () if isinstance(self.limits.kinds, msgspec.UnsetType) else self.limits.kinds.keys()
        plug_ins = (*plug_ins, *offering([kind for kind in kinds if kind not in SIMULATED_KINDS], Group.KINDS))
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
            plug_ins=tuple(dict.fromkeys(plug_ins)),
            simulation=True,
        )


class LearnerScenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One learner and its plan."""

    name: Name
    epsilon: Written = 1  # to spend at each curator
    strategy: str = DEFAULT_STRATEGY  # a name of `learner_node.strategies`
    options: dict[str, Any] = {}
    # "sum" for one model, "site" for one per curator, "secure" for one model from securely opened sums
    pooling: PoolingName = SUM
    # colluders, dropouts: with "secure", as in `learner_node.study.learn.learn`; None takes the usual ones
    colluders: Annotated[int, msgspec.Meta(ge=1)] | None = None
    dropouts: Annotated[int, msgspec.Meta(ge=0)] | None = None
    all_or_none: bool = False  # its studies are opened at all curators that it asks, or at none
    source: tuple[Name, ...] = ()  # sites whose unlabelled records it holds; empty: all
    curators: tuple[Name, ...] = ()  # whom it asks; empty: all
    purpose: str = ""  # what it tells the stewards
    large_epsilon: bool = False  # confirms an epsilon of 100 or more, which protects nothing
    # epsilon of a second study, which asks the same curators how good the model is; None asks nothing
    validate: Written | None = None
    recalibrate: bool = False  # whether its answers recalibrate the model, too; at no further cost
    # tables of `learner_node.analyses.parts`, which it asks instead of a model; it needs no source then
    analyses: tuple[dict[str, Any], ...] = ()

    @property
    def parts(self) -> "tuple[Part, ...]":
        """Its analyses; empty where it learns a model.

        Raises ConfigurationError: one of them has an error. They are read here and not before, since that loads what
        computes.
        """
        return read_parts(self.analyses, where=f"learner {self.name!r}") if self.analyses else ()

    def joins(self, sites: Sequence[str]) -> bool:
        """Whether it makes one model of several curators, if these are the sites that it asks."""
        return len(sites) > 1 and self.pooling != SITE

    @property
    def budget(self) -> Budget:
        """The exact epsilons of its study and validation, and the purpose."""
        return Budget(self.epsilon, self.purpose, validation=self.validate)

    @property
    def pool(self) -> Pooling:
        """How answers become models. Raises ConfigurationError if the three pooling keys contradict each other."""
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
            if self.analyses:
                check_no_model({key: getattr(self, key) or OF_MODELS[key] for key in OF_MODELS})
        except ConfigurationError as error:
            raise ValueError(str(error)) from None


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A deliberate failure of a curator."""

    curator: Name
    # "refuse" (its steward halts it), "vanish" (no reply any more) or "late" (one reply misses the timeout; the repeat
    # of the request gets it)
    kind: str
    round: Annotated[int, msgspec.Meta(ge=0)] = 1  # from which query on (1 is the first; 0 the proposal)

    def __post_init__(self) -> None:
        check_one_of("kind", self.kind, FAULTS)


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario file."""

    title: Name
    data: Data
    learners: Annotated[tuple[LearnerScenario, ...], msgspec.Meta(min_length=1)]  # at least one
    description: str = ""
    curators: tuple[CuratorScenario, ...] = ()  # policies; empty: defaults for every site
    faults: tuple[Fault, ...] = ()
    # independent repetitions (splits, curators' keys, ledgers and noise are new each time; a learner keeps its key)
    repeats: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    seed: Seed = 0  # of splits and the learners' own choices; never of noise
    # where probabilities of two classes become decisions, see `learner_node.scores.thresholds`
    thresholds: tuple[Threshold, ...] = DEFAULT_THRESHOLDS
    # whether each learner also learns from all but one of its sites, for each site: one more study a site and repeat
    leave_one_out: bool = False
    noise_seed: Seed | None = None  # if given, noise comes from this seed, nothing is private, and every report says so

    def __post_init__(self) -> None:
        for role, items in (("learner", self.learners), ("curator", self.curators)):
            if again := first_repeated([item.name for item in items]):
                raise ValueError(f"two {role}s have the same name, {again!r}; give each a name of its own")
        if any(fault.curator == ANY for fault in self.faults):
            raise ValueError("a fault needs the name of one curator, not '*'")
        try:
            read_thresholds(self.thresholds)
        except ConfigurationError as error:
            raise ValueError(f"thresholds: {error}") from None
        if self.leave_one_out and all(learner.pooling == SITE for learner in self.learners):
            raise ValueError(
                'leave_one_out needs a learner that makes one model of several curators; pooling = "site" keeps their '
                "answers apart"
            )
        if any(learner.analyses for learner in self.learners):
            if not all(learner.analyses for learner in self.learners):
                raise ValueError(
                    "some learners ask analyses and some a model; write a scenario for each, since a model needs "
                    "records for source and tests, and of analyses every record is private"
                )
            if self.leave_one_out:
                raise ValueError("leave_one_out is of models; leave it out of a scenario of analyses")
        learners = {learner.name for learner in self.learners}
        for curator in self.curators:
            for name in curator.learner_caps.keys() - learners:
                raise ValueError(
                    f"curator {curator.name}: learner_caps names no learner {name!r}{suggest(name, sorted(learners))}"
                )

    @property
    def asks_analyses(self) -> bool:
        """Whether its learners ask analyses instead of models. Then all records are private."""
        return bool(self.learners[0].analyses)

    def curator(self, site: str) -> CuratorScenario:
        """A site's curator entry: its own, else the longest matching pattern's."""
        fitting = [curator for curator in self.curators if fits(site, curator.name)]
        return max(fitting, key=lambda entry: (entry.name == site, len(entry.name)), default=CuratorScenario(name=site))


@dataclass(frozen=True)
class AtEpsilon:
    """A scenario at another epsilon, and notes for its user."""

    scenario: Scenario
    notes: tuple[str, ...]


def read_epsilons(written: str) -> tuple[str, ...]:
    """Parse a list such as "0.1,0.3,1/2" and sort it.

    Raises ConfigurationError: one is no positive rational, or occurs twice.
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
    """The scenario with this epsilon for every learner.

    Caps that would refuse it are raised to what the learners may need: `epsilon` and the validation's for each, and
    their sum for all. The notes state this, since a real curator's cap would not change.
    """
    value = parse_rational(epsilon)
    needs = {
        learner.name: value + (0 if learner.validate is None else parse_rational(learner.validate))
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
    # A large one was confirmed on the command line.
    large = {"large_epsilon": True} if is_large(value) else {}
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
        ConfigurationError: there is no such scenario, or it has an error; the text says what to write instead.
    """
    builtin = builtin_scenarios()
    path = Path(name)
    if name in builtin:
        text, folder, where = builtin[name], Path.cwd(), f"scenario {name}"
    elif is_table(name):
        raise ConfigurationError(
            f"{name} is a table of records, and a scenario is a TOML file that names one: under [data], path = "
            f'"{path.name}" and schema = "schema.toml" (docs/researcher/scenarios.md has a whole one). What a study on '
            f"them would cost is told by: expril quote {name} --schema schema.toml"
        )
    elif path.is_dir() or path.is_file():
        text, folder, where = read_text_file(path, "scenario"), path.resolve().parent, f"scenario {path.name}"
    else:
        raise ConfigurationError(f"no scenario or file {name!r}{suggest(name, list(builtin))}")
    return read_toml(text, Scenario, where=where), text, folder
