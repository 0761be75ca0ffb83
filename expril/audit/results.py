"""What the parts of an attack found, and its verdict: `AuditResult.passed`. One form for tables, JSON and the page."""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from protocol.errors import ConfigurationError, printable
from protocol.kinds import QUERY_KINDS

DRAWS = 100_000
"""From each of two inputs, of an audit that may be relied on."""


class Spread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a mechanism put out on two neighbouring inputs, on one axis.

    Attributes:
        axis: what the numbers are, in words.
        values: places on the axis, rising: values, or centres of bins.
        first, second: share of the draws at each place, for either input; each adds up to at most 1.
        event: (lowest, highest) place that counts as the event; None where it is no interval.
    """

    axis: str
    values: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]
    event: tuple[float, float] | None = None


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the distinguishing game found against one mechanism.

    Attributes:
        claimed: epsilon, exact, as text: a whole number, a fraction or a decimal.
        lower_bound: epsilon that the draws prove at least; 0 where they prove none.
        error_rate: chance that `lower_bound` is above the true epsilon, at most.
        draws: from each of the two inputs.
        neighbours: the two inputs, in words.
        event: that tells them apart, in words.
        shares: of draws in the event, of the half on which it was not chosen: (where more, where fewer).
        spread: both distributions; None where they are not on one axis.
    """

    claimed: str
    lower_bound: float
    error_rate: float
    draws: int
    neighbours: str
    event: str
    shares: tuple[float, float]
    spread: Spread | None = None


class KindResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A shipped mechanism.

    Attributes:
        kind: query kind and what it releases, such as "counts/mass".
        attack: the strongest found.
        exact: worst-case loss of the found neighbours by enumeration; None where the kind cannot be enumerated.
        searched: how many pairs of neighbours were tried.
        violation: whether a bound, or the exact loss, is above the claim.
        verdict: one sentence.
    """

    kind: str
    attack: Attack
    exact: float | None
    searched: int
    violation: bool
    verdict: str


class ControlResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mechanism that is broken on purpose: an audit that does not catch it is worth nothing.

    Attributes:
        name: short, with underscores.
        fault: what is wrong with it, one sentence.
        truth: its true epsilon on what was attacked, as text: "infinite", or a number.
        attack: the strongest found.
        caught: whether the lower bound is above the claim.
    """

    name: str
    fault: str
    truth: str
    attack: Attack
    caught: bool


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test that passes or not: calibration of the noise, the one-run audit, what else has no two neighbours.

    Attributes:
        name: short, with underscores.
        question: what is asked, one sentence.
        finding: what was measured, one sentence, with numbers.
        false_alarm: chance that a correct mechanism fails it.
        power: (what would be noticed, with which chance), in words.
        passed: whether all is in order.
    """

    name: str
    question: str
    finding: str = msgspec.field(name="found")
    false_alarm: float
    power: str
    passed: bool


class StudyAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An attack on whole studies.

    Attributes:
        attack: short, with underscores.
        target: what is attacked: "ExPriL", or the other service.
        epsilon: that protects a unit over the whole attack, as text; "none" where nothing does.
        trials: games played, half with the unit and half without.
        gain: true positive rate less false positive rate, measured on trials in which nothing was tuned; -1 to 1.
        interval: in which the gain lies, at 95 %.
        bound: the most that the gain may be, (e^epsilon - 1) / (e^epsilon + 1); 1 where nothing protects.
        holds: whether the gain is not proven to be above the bound, at the level of the whole audit (not at 95 %).
        expected: gain that theory gives this attack; None where it gives none.
        reaches: whether the gain is not proven to be below `expected`, at that level: an attack that falls short proves
            nothing.
        verdict: one sentence.
    """

    attack: str
    target: str
    epsilon: str
    trials: int
    gain: float
    interval: tuple[float, float]
    bound: float
    holds: bool
    expected: float | None = None
    reaches: bool = True
    verdict: str


class ColluderLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a sum over curators loses where some of them tell what they know; enumerated.

    Attributes:
        sites: curators n, each of which adds a share of the noise.
        assumed: colluders for whom the shares are made: n less so many add up to one whole noise.
        colluders: whose shares are known.
        unknown: shares that are not, in whole noises, as text.
        claimed: epsilon, exact, as text.
        loss: the worst.
    """

    sites: int
    assumed: int
    colluders: int
    unknown: str
    claimed: str
    loss: float

    @property
    def holds(self) -> bool:
        """Whether no more is lost than is claimed, as long as no more collude than was assumed, and more beyond."""
        above = Fraction(self.loss) > Fraction(self.claimed) * (1 + Fraction(1, 10**9))
        return above == (self.colluders > self.assumed)


class BlogGame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The game of Zumel's "A simpler explanation of differential privacy" (2015): 100 zeros against 99 and a one.

    Attributes:
        epsilons: rising.
        rounds: games at each.
        gaps: mean of the one side less the other's, in standard deviations of the answers, at each epsilon, measured.
        expected_gaps: the same by the law.
        above: at each epsilon, share of rounds above 1/200: (zeros, with the one), measured.
        expected_above: the same by the law.
        lower_bounds: epsilon that those rounds prove, at each.
        spreads: the two distributions without noise, with too little and with enough, as the post draws them.
    """

    epsilons: tuple[float, ...]
    rounds: int
    gaps: tuple[float, ...]
    expected_gaps: tuple[float, ...] = ()
    above: tuple[tuple[float, float], ...]
    expected_above: tuple[tuple[float, float], ...]
    lower_bounds: tuple[float, ...]
    spreads: Mapping[str, Spread]


AuditPart = KindResult | ControlResult | Check | StudyAttack | ColluderLoss | BlogGame


def whole_draws(name: str, most: int) -> int:
    """Draws that an audit of this version takes of a kind: as many as asked, or fewer where an answer takes long.

    Args:
        name: of the kind, or "kind/thing"; one that this version does not know takes all.
        most: draws of the other kinds.
    """
    kind, _, thing = name.partition("/")
    examples = QUERY_KINDS[kind].examples().get(thing, ()) if kind in QUERY_KINDS else ()
    return min([most, *(example.draws or most for example in examples)])


class AuditResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole audit of what is installed.

    Attributes:
        kinds, controls, checks, studies, colluders, blog: as above; `blog` is None where it was not played.
        false_alarm: chance that an audit of correct mechanisms finds a violation anywhere, at most.
        seconds: that it took, by the clock.
        versions: of this software and of what draws the noise.
    """

    kinds: tuple[KindResult, ...] = ()
    controls: tuple[ControlResult, ...] = ()
    checks: tuple[Check, ...] = ()
    studies: tuple[StudyAttack, ...] = ()
    colluders: tuple[ColluderLoss, ...] = ()
    blog: BlogGame | None = None
    false_alarm: float = 0.05
    seconds: float = 0.0
    versions: Mapping[str, str] = {}

    @classmethod
    def of(cls, results: Iterable[AuditPart], **more: Any) -> "AuditResult":
        """An audit of these results, in their order; each check by its name once, and as failed if it failed once."""
        parts = list(results)
        checks: dict[str, Check] = {}
        for part in parts:
            if isinstance(part, Check) and (part.name not in checks or (checks[part.name].passed and not part.passed)):
                checks[part.name] = part
        return cls(
            kinds=tuple(part for part in parts if isinstance(part, KindResult)),
            controls=tuple(part for part in parts if isinstance(part, ControlResult)),
            checks=tuple(checks.values()),
            studies=tuple(part for part in parts if isinstance(part, StudyAttack)),
            colluders=tuple(part for part in parts if isinstance(part, ColluderLoss)),
            blog=next((part for part in parts if isinstance(part, BlogGame)), None),
            **more,
        )

    @property
    def parts(self) -> tuple[AuditPart, ...]:
        """All results."""
        blog = () if self.blog is None else (self.blog,)
        return (*self.kinds, *self.controls, *self.checks, *self.studies, *self.colluders, *blog)

    @property
    def quick(self) -> bool:
        """Whether a release was attacked with fewer draws than an audit has that may be relied on."""
        return any(row.attack.draws < whole_draws(row.kind, DRAWS) for row in self.kinds)

    @property
    def passed(self) -> bool:
        """Whether all is in order.

        No violation, every control caught, every check passed, no attack above its bound or short of its theory, no sum
        over sites that loses more than is claimed while no more collude than it assumes.
        """
        return (
            not any(row.violation for row in self.kinds)
            and all(row.caught for row in self.controls)
            and all(row.passed for row in self.checks)
            and all(row.holds and row.reaches for row in self.studies)
            and all(row.holds for row in self.colluders)
        )


FORMAT = "expril audit 1"
_OF_KINDS = ("kind", "claimed", "lower_bound", "exact", "violation", "verdict")
_OF_CONTROLS = ("name", "caught", "claimed", "lower_bound", "truth", "fault")


def as_object(result: AuditResult, *, created: str = "", pictures: bool = True) -> dict[str, Any]:
    """An audit as plain JSON.

    Kinds and controls say at first sight what they claim and what was proven; `attack` has the rest. Numbers that JSON
    has none of, such as an event without an upper end, are written as texts.

    Args:
        result: of the audit.
        created: when, as ISO 8601.
        pictures: whether distributions are in it; it can be read back only with them.
    """
    plain = _finite(msgspec.to_builtins(result))
    if not pictures:
        for row in (*plain["kinds"], *plain["controls"]):
            del row["attack"]["spread"]
        if plain["blog"]:
            del plain["blog"]["spreads"]
    return {
        "format": FORMAT,
        "created": created,
        "passed": result.passed,
        **plain,
        "kinds": [_lifted(row, _OF_KINDS) for row in plain["kinds"]],
        "controls": [_lifted(row, _OF_CONTROLS) for row in plain["controls"]],
    }


def write_result(result: AuditResult, path: Path, *, created: str = "") -> None:
    """Write `audit.json`."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(as_object(result, created=created)), indent=1) + b"\n")


def read_result(path: Path) -> tuple[AuditResult, str]:
    """Read `audit.json`; the audit, and when it was made.

    Raises:
        ConfigurationError: it cannot be read, or is none.
    """
    try:
        return decode_result(path.read_bytes())
    except (OSError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} is no result of an audit: {error}; make one: expril audit all") from None


def decode_result(data: bytes) -> tuple[AuditResult, str]:
    """As `read_result`, from bytes.

    Raises:
        ConfigurationError: they hold no audit.
    """
    try:
        fields = msgspec.json.decode(data)
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise ConfigurationError(f"its format is not {FORMAT!r}")
        created, passed = fields.pop("created"), fields.pop("passed")
        for row in (*fields["kinds"], *fields["controls"]):
            for name in ("claimed", "lower_bound"):
                if row.pop(name) != row["attack"][name]:
                    raise ConfigurationError(f"it says two things of {name}")
        result = msgspec.convert(_numbers(fields), AuditResult)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(printable(str(error), 200)) from None
    if passed != result.passed:
        raise ConfigurationError("it says whether it passed, and that does not follow from its lines")
    return result, str(created)


def _lifted(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    every = {**row, **{name: row["attack"][name] for name in ("claimed", "lower_bound")}}
    return {**{name: every[name] for name in names}, **{name: every[name] for name in row if name not in names}}


def _finite(value: Any) -> Any:
    """JSON has no infinity: an end of an event that is none is written as text."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _numbers(value: Any) -> Any:
    """Inverse of `_finite`."""
    if isinstance(value, dict):
        return {
            name: item if name in _TEXTS and isinstance(item, str) else _numbers(item) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


_TEXTS = {field.encode_name for field in msgspec.structs.fields(Attack) if field.type is str} | {"versions"}
