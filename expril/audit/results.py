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
    """What a mechanism put out on two neighbouring inputs, on one axis."""

    axis: str  # what the numbers are, in words
    values: tuple[float, ...]  # places on the axis, rising: values, or centres of bins
    first: tuple[float, ...]  # share of the draws at each place, for either input; each adds up to at most 1
    second: tuple[float, ...]
    # (lowest, highest) place that counts as the event; None where it is no interval
    event: tuple[float, float] | None = None


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the distinguishing game found against one mechanism."""

    claimed: str  # epsilon, exact, as text: a whole number, a fraction or a decimal
    lower_bound: float  # epsilon that the draws prove at least; 0 where they prove none
    error_rate: float  # chance that `lower_bound` is above the true epsilon, at most
    draws: int  # from each of the two inputs
    neighbours: str  # the two inputs, in words
    event: str  # that tells them apart, in words
    # of draws in the event, of the half on which it was not chosen: (where more, where fewer)
    shares: tuple[float, float]
    spread: Spread | None = None  # both distributions; None where they are not on one axis


class KindResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A shipped mechanism."""

    kind: str  # query kind and what it releases, such as "counts/mass"
    attack: Attack  # the strongest found
    # worst-case loss of the found neighbours by enumeration; None where the kind cannot be enumerated
    exact: float | None
    searched: int  # how many pairs of neighbours were tried
    violation: bool  # whether a bound, or the exact loss, is above the claim
    verdict: str  # one sentence


class ControlResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mechanism that is broken on purpose: an audit that does not catch it is worth nothing."""

    name: str  # short, with underscores
    fault: str  # what is wrong with it, one sentence
    truth: str  # its true epsilon on what was attacked, as text: "infinite", or a number
    attack: Attack  # the strongest found
    caught: bool  # whether the lower bound is above the claim


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test that passes or not: calibration of the noise, the one-run audit, what else has no two neighbours."""

    name: str  # short, with underscores
    question: str  # what is asked, one sentence
    finding: str = msgspec.field(name="found")  # what was measured, one sentence, with numbers
    false_alarm: float  # chance that a correct mechanism fails it
    power: str  # (what would be noticed, with which chance), in words
    passed: bool  # whether all is in order


class StudyAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An attack on whole studies."""

    attack: str  # short, with underscores
    target: str  # what is attacked: "ExPriL", or the other service
    epsilon: str  # that protects a unit over the whole attack, as text; "none" where nothing does
    trials: int  # games played, half with the unit and half without
    gain: float  # true positive rate less false positive rate, measured on trials in which nothing was tuned; -1 to 1
    interval: tuple[float, float]  # in which the gain lies, at 95 %
    bound: float  # the most that the gain may be, (e^epsilon - 1) / (e^epsilon + 1); 1 where nothing protects
    holds: bool  # whether the gain is not proven to be above the bound, at the level of the whole audit (not at 95 %)
    expected: float | None = None  # gain that theory gives this attack; None where it gives none
    # whether the gain is not proven to be below `expected`, at that level: an attack that falls short proves nothing
    reaches: bool = True
    verdict: str  # one sentence


class ColluderLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a sum over curators loses where some of them tell what they know; enumerated."""

    sites: int  # curators n, each of which adds a share of the noise
    assumed: int  # colluders for whom the shares are made: n less so many add up to one whole noise
    colluders: int  # whose shares are known
    unknown: str  # shares that are not, in whole noises, as text
    claimed: str  # epsilon, exact, as text
    loss: float  # the worst

    @property
    def holds(self) -> bool:
        """Whether no more is lost than is claimed, as long as no more collude than was assumed, and more beyond."""
        above = Fraction(self.loss) > Fraction(self.claimed) * (1 + Fraction(1, 10**9))
        return above == (self.colluders > self.assumed)


class BlogGame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The game of Zumel's "A simpler explanation of differential privacy" (2015): 100 zeros against 99 and a one."""

    epsilons: tuple[float, ...]  # rising
    rounds: int  # games at each
    # mean of the one side less the other's, in standard deviations of the answers, at each epsilon, measured
    gaps: tuple[float, ...]
    expected_gaps: tuple[float, ...] = ()  # the same by the law
    # at each epsilon, share of rounds above 1/200: (zeros, with the one), measured
    above: tuple[tuple[float, float], ...]
    expected_above: tuple[tuple[float, float], ...]  # the same by the law
    lower_bounds: tuple[float, ...]  # epsilon that those rounds prove, at each
    # the two distributions without noise, with too little and with enough, as the post draws them
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
    """A whole audit of what is installed."""

    kinds: tuple[KindResult, ...] = ()  # as above; `blog` is None where it was not played
    controls: tuple[ControlResult, ...] = ()
    checks: tuple[Check, ...] = ()
    studies: tuple[StudyAttack, ...] = ()
    colluders: tuple[ColluderLoss, ...] = ()
    blog: BlogGame | None = None
    false_alarm: float = 0.05  # chance that an audit of correct mechanisms finds a violation anywhere, at most
    seconds: float = 0.0  # that it took, by the clock
    versions: Mapping[str, str] = {}  # of this software and of what draws the noise

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
