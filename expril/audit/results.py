"""The results of an audit by attack and its verdict (`AuditResult.passed`), in one form for tables, JSON and the page.

`audit.json` holds them with all that the page shows, so that the page can be written again from it.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import msgspec

from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import AGREEMENT, ROUNDING
from expril.files import read_plain
from protocol.errors import ConfigurationError
from protocol.strict_json import MOST_BYTES, UNREADABLE, decode_json, in_short

Amount = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{1,300}(\.[0-9]{1,300}(e-?[0-9]{1,3})?|e-?[0-9]{1,3}|/0*[1-9][0-9]{0,300})?\Z")
]
"""A number from 0 as exact text: 2, 0.5, 1e-06 or 1/30. Its digits are bounded: nothing takes long to read."""
AmountOrWord = Annotated[str, msgspec.Meta(pattern=r"^([0-9]{1,300}(\.[0-9]{1,300}|/0*[1-9][0-9]{0,300})?|none)\Z")]
"""A number as exact text, or that there is none."""

DRAWS = 100_000
"""Draws from each of two inputs, in an audit that may be relied on."""


class Spread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The distributions of one statistic on two neighbouring inputs."""

    axis: str  # the statistic, in words
    values: tuple[float, ...]  # places on the axis, rising: values, or centres of bins
    first: tuple[float, ...]  # share of the draws at each place; `first` and `second` add up to at most 1 each
    second: tuple[float, ...]
    event: tuple[float, float] | None = None  # lowest and highest place in the event; None if it is no interval


class Attack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of the distinguishing game against one mechanism."""

    claimed: Amount  # epsilon, exact, as text: a whole number, a fraction or a decimal
    delta: Amount = "0"  # claimed with it, exact, as text
    lower_bound: float  # on epsilon at that delta, proven by the draws; 0 if they prove nothing
    error_rate: float  # greatest probability that `lower_bound` is above the true epsilon
    draws: int  # from each of the two inputs
    neighbours: str  # the two inputs, in words
    event: str  # in words
    shares: tuple[float, float]  # of draws in the event, on the half that proves: (larger, smaller)
    spread: Spread | None = None  # both distributions; None if they are not on one axis


class KindResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The results of an audit for one shipped mechanism."""

    kind: str  # query kind and what it releases, such as "counts/mass"
    attack: Attack  # the strongest
    exact: float | None  # loss of the attacked neighbours by the claimed law; None: they are not audited exactly
    searched: int  # number of pairs of neighbours tried
    violation: bool  # whether anything is wrong, of `alarms` or of what was found besides
    verdict: str  # one sentence

    @property
    def alarms(self) -> tuple[str, ...]:
        """What its own numbers say against it, in words. No number is cut off before it is compared."""
        claimed, bound = Fraction(self.attack.claimed), self.attack.lower_bound
        alarms = []
        if math.isinf(bound) or Fraction(bound) > claimed:
            alarms.append(f"of {self.attack.claimed} claimed, the draws prove at least {bound:.4g}")
        if self.exact is None:
            return tuple(alarms)
        if math.isinf(self.exact) or Fraction(self.exact) > claimed * (1 + Fraction(ROUNDING)):
            alarms.append(f"enumeration gives {self.exact:.12g} of {self.attack.claimed} claimed")
        if bound > self.exact * (1 + ROUNDING) + AGREEMENT:
            alarms.append(f"the draws prove at least {bound:.4g}, and the law that it claims loses {self.exact:.4g}")
        return tuple(alarms)


class LossCurve(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The loss of one question of a kind as its noise widens: at several epsilons, in rising order."""

    kind: str  # query kind and what it releases
    epsilons: tuple[Amount, ...]  # claimed, exact, as text
    exact: tuple[float, ...]  # worst-case loss at each, by the claimed law
    proven: tuple[float | None, ...]  # lower bound by draws at each; None where nothing was drawn

    @property
    def holds(self) -> bool:
        """Whether no exact loss and no proven bound is above its claim, but for rounding."""
        claims = [Fraction(text) for text in self.epsilons]  # fractions and floats, infinite ones too, compare exactly
        exact = all(loss <= claim * (1 + Fraction(ROUNDING)) for claim, loss in zip(claims, self.exact, strict=True))
        return exact and all(bound is None or bound <= claim for claim, bound in zip(claims, self.proven, strict=True))


class ControlResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result for a mechanism that is broken on purpose. An audit that misses it proves nothing."""

    name: str  # short, with underscores
    fault: str  # one sentence
    truth: str  # true epsilon between the attacked inputs, as text: "infinite", or a number
    attack: Attack  # the strongest
    caught: bool  # whether the lower bound is above the claim


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test without two neighbouring inputs: calibration of the noise, the one-run audit, the path of an answer."""

    name: str  # short, with underscores
    question: str  # one sentence
    finding: str = msgspec.field(name="found")  # the measurement, one sentence with numbers
    false_alarm: float  # probability that a correct mechanism fails
    power: str  # a fault that would be noticed, and its probability, in words
    passed: bool


class StudyAttack(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of an attack on whole studies."""

    attack: str  # short, with underscores
    target: str  # "ExPriL", or another service
    epsilon: AmountOrWord  # protects a unit over the whole attack, as text; "none" if nothing protects it
    trials: int  # games, half with the unit and half without
    gain: float  # true positive rate less false positive rate, of trials in which nothing was tuned; -1 to 1
    interval: tuple[float, float]  # of the gain, at 95 %
    bound: float  # greatest gain under epsilon, (e^epsilon - 1) / (e^epsilon + 1); 1 without protection
    holds: bool  # False if the gain is proven to be above the bound, at the level of the whole audit (not at 95 %)
    expected: float | None = None  # gain in theory; None if there is no theory
    reaches: bool = True  # False if the gain is proven to be below `expected`, at that level: it then proves nothing
    verdict: str  # one sentence


class ColluderLoss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The loss of a sum over curators some of which collude, by enumeration."""

    sites: int  # curators n, each of which adds a share of the noise
    assumed: int  # colluders for whom the shares are made: the shares of n - assumed curators add up to one noise
    colluders: int  # curators whose shares are known
    unknown: Amount  # sum of the unknown shares, as a fraction of one noise, as text
    claimed: Amount  # epsilon, exact, as text
    loss: float  # worst case

    @property
    def holds(self) -> bool:
        """Whether theory holds: the loss exceeds the claim if, and only if, more sites collude than assumed."""
        above = self.loss > Fraction(self.claimed) * (1 + Fraction(1, 10**9))
        return above == (self.colluders > self.assumed)


class BlogGame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The game of Zumel's "A simpler explanation of differential privacy" (2015): 100 zeros against 99 and a one."""

    epsilons: tuple[float, ...]  # rising
    rounds: int  # games at each epsilon
    gaps: tuple[float, ...]  # difference of the two means in standard deviations of the answers, at each epsilon
    expected_gaps: tuple[float, ...] = ()  # by the law
    above: tuple[tuple[float, float], ...]  # share of rounds above 1/200 at each epsilon: (zeros, with the one)
    expected_above: tuple[tuple[float, float], ...]  # by the law
    lower_bounds: tuple[float, ...]  # on epsilon, proven by the rounds at each epsilon
    spreads: Mapping[str, Spread]  # without noise, with too little and with enough, as the post draws them


AuditPart = KindResult | LossCurve | ControlResult | Check | StudyAttack | ColluderLoss | BlogGame


def whole_draws(name: str, most: int) -> int:
    """Return the draws that an audit of this version takes of a kind: `most`, or fewer if its answers are slow.

    `name`: "kind" or "kind/thing". `most`: draws of fast kinds, and of kinds that this version does not know.
    """
    kind, _, thing = name.partition("/")
    audit = AUDITED_KINDS.audits.get(kind)
    examples = audit.examples().get(thing, ()) if audit else ()
    return min([most, *(example.draws or most for example in examples)])


class AuditResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole audit of what is installed."""

    kinds: tuple[KindResult, ...] = ()  # as above; `blog` is None where it was not played
    curves: tuple[LossCurve, ...] = ()
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
        """Make an audit of these results, in order. Checks of the same name become one, which fails if any fails."""
        parts = list(results)
        checks: dict[str, Check] = {}
        for part in parts:
            if isinstance(part, Check) and (part.name not in checks or (checks[part.name].passed and not part.passed)):
                checks[part.name] = part
        return cls(
            kinds=tuple(part for part in parts if isinstance(part, KindResult)),
            curves=tuple(part for part in parts if isinstance(part, LossCurve)),
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
        return (*self.kinds, *self.curves, *self.controls, *self.checks, *self.studies, *self.colluders, *blog)

    @property
    def quick(self) -> bool:
        """Whether a release was attacked with too few draws for the audit to be relied on."""
        return any(row.attack.draws < whole_draws(row.kind, DRAWS) for row in self.kinds)

    @property
    def passed(self) -> bool:
        """Whether all is in order.

        There is no violation, at no epsilon, every control is caught, every check passed, every attack on studies stays
        below its bound and reaches its theory, and sums over sites lose more than is claimed only if too many collude.
        """
        return (
            not any(row.violation for row in self.kinds)
            and all(row.holds for row in self.curves)
            and all(row.caught for row in self.controls)
            and all(row.passed for row in self.checks)
            and all(row.holds and row.reaches for row in self.studies)
            and all(row.holds for row in self.colluders)
        )


def of_claim(claimed: str, value: float) -> float:
    """Return a loss in units of its claim; infinite if the claim is 0 and the loss is not."""
    amount = float(Fraction(claimed))
    return value / amount if amount else math.inf if value else 0.0


FORMAT = "expril audit 1"
_OF_KINDS = ("kind", "claimed", "lower_bound", "exact", "violation", "verdict")
_OF_CONTROLS = ("name", "caught", "claimed", "lower_bound", "truth", "fault")


def as_object(result: AuditResult, *, created: str = "", pictures: bool = True) -> dict[str, Any]:
    """An audit as plain JSON.

    The claim and the proven bound of kinds and controls stand first, and again in `attack`. Infinite numbers, such as
    the upper end of an event, are written as texts.

    `created`: time as ISO 8601. `pictures`: whether to include the distributions, without which the audit cannot be
    read back.
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
    """Read `audit.json`: the audit, and the time when it was made.

    Raises:
        ConfigurationError: the file cannot be read, or holds no audit.
    """
    try:
        return decode_result(read_plain(path, most=MOST_BYTES))
    except (OSError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} is no result of an audit: {error}; make one: expril audit all") from None


def decode_result(data: bytes) -> tuple[AuditResult, str]:
    """Read the bytes of `audit.json` as `read_result` does.

    Raises:
        ConfigurationError: the bytes hold no audit.
    """
    try:
        fields = decode_json(data, where="it")
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise ConfigurationError(f"its format is not {FORMAT!r}")
        created, passed = fields.pop("created"), fields.pop("passed")
        for row in (*fields["kinds"], *fields["controls"]):
            for name in ("claimed", "lower_bound"):
                if row.pop(name) != row["attack"][name]:
                    raise ConfigurationError(f"it says two things of {name}")
        result = msgspec.convert(_numbers(fields), AuditResult)
        follows = passed == result.passed
    except UNREADABLE as error:
        raise ConfigurationError(in_short(error)) from None
    if not follows:
        raise ConfigurationError("it says whether it passed, and that does not follow from its lines")
    return result, str(created)


def _lifted(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    every = {**row, **{name: row["attack"][name] for name in ("claimed", "lower_bound")}}
    return {**{name: every[name] for name in names}, **{name: every[name] for name in row if name not in names}}


def _finite(value: Any) -> Any:
    """Return the value with infinite numbers as texts, as JSON has no infinity."""
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


_TEXTS = {field.encode_name for field in msgspec.structs.fields(Attack) if field.type in (str, Amount)} | {"versions"}
