"""Results of an audit that nobody did: as the parts of one return them."""

import math

from expril.audit.attack.controls.curators import PATH_CONTROLS
from expril.audit.attack.controls.mechanisms import CONTROLS
from expril.audit.attack.kinds import kinds_to_audit
from expril.audit.package.facts import Facts
from expril.audit.package.requirements import PackageFacts
from expril.audit.results import (
    Attack,
    AuditResult,
    BlogGame,
    Check,
    ColluderLoss,
    ControlResult,
    KindResult,
    LossCurve,
    Spread,
    StudyAttack,
)

FACTS = Facts(
    name="Demonstration",
    intended_use="To show it.",
    records="One image.",
    region="USA",
    publication_date="2026-11-22",
    authors=("A",),
    looked_before="nothing",
    one_curator_each=True,
)
"""Of a package that somebody shows around."""
HOSTILE = '<script>alert("x")</script>&\u202e'


def laplace(centre, scale, places):
    """Shares of a discrete Laplace law."""
    q = math.exp(-1 / scale)
    return tuple((1 - q) / (1 + q) * q ** abs(place - centre) for place in places)


def spread(shift=1.0, scale=3.0, event=(1.0, math.inf)):
    places = tuple(float(place) for place in range(-25, 27))
    return Spread("released count", places, laplace(shift, scale, places), laplace(0.0, scale, places), event)


def attack(claimed="1/3", bound=0.31, **changed):
    fields = {
        "claimed": claimed,
        "lower_bound": bound,
        "error_rate": 0.001,
        "draws": 100_000,
        "neighbours": "one record more in the fullest cell",
        "event": "the first count is at least 1",
        "shares": (0.58, 0.42),
        "spread": spread(),
    }
    return Attack(**(fields | changed))


def kind(name="counts/mass", *, exact=1 / 3, violation=False, **changed):
    verdict = "Every answer is as likely on either side as claimed, within the claimed factor."
    return KindResult(
        kind=name, attack=attack(**changed), exact=exact, searched=12, violation=violation, verdict=verdict
    )


def curve(name="counts/mass", *, exact=(0.25, 0.5, 1.0, 2.0), proven=(None, None, 0.96, None)):
    return LossCurve(kind=name, epsilons=("1/4", "1/2", "1", "2"), exact=exact, proven=proven)


def control(name="forgotten_d", *, caught=True, truth="3", claimed="1", bound=2.8, **changed):
    return ControlResult(
        name=name,
        fault="The sensitivity forgets that a record is in every feature's bins.",
        truth=truth,
        attack=attack(claimed, bound, **changed),
        caught=caught,
    )


def check(*, passed=True):
    return Check(
        name="calibration",
        question="Is the installed noise discrete Laplace of the scale that is asked for?",
        finding="1,000,000 draws, statistic 0.4 of the threshold.",
        false_alarm=1e-9,
        power="A scale wrong by 3 % is noticed with probability 0.999999.",
        passed=passed,
    )


def study(name="differencing", epsilon="1", gain=0.2, *, holds=True, reaches=True, target="ExPriL"):
    e = math.inf if epsilon == "none" else math.exp(float(epsilon))
    return StudyAttack(
        attack=name,
        target=target,
        epsilon=epsilon,
        trials=400,
        gain=gain,
        interval=(max(-1.0, gain - 0.08), min(1.0, gain + 0.08)),
        bound=1.0 if math.isinf(e) else (e - 1) / (e + 1),
        holds=holds,
        expected=None if target != "ExPriL" else gain,
        reaches=reaches,
        verdict="Gains less than the bound allows.",
    )


def blog():
    epsilons = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    above = tuple((0.5 * math.exp(-e / 2), 1 - 0.5 * math.exp(-e / 2)) for e in epsilons)
    places = tuple(n / 1000 for n in range(-100, 111, 2))
    law = {
        "without_noise": Spread("mean", (0.0, 0.01), (1.0, 0.0), (0.0, 1.0), (0.005, 1.0)),
        "too_little": Spread(
            "mean",
            places,
            *(tuple(math.exp(-abs(x - m) / 0.0033) * 0.3 for x in places) for m in (0, 0.01)),
            (0.005, 1.0),
        ),
        "enough": Spread(
            "mean",
            places,
            *(tuple(math.exp(-abs(x - m) / 0.03) * 0.03 for x in places) for m in (0, 0.01)),
            (0.005, 1.0),
        ),
    }
    return BlogGame(
        epsilons=epsilons,
        rounds=1000,
        gaps=(-2.0, 1.4, 1.2, 0.9, 1.02, 1.0, 1.0),
        above=above,
        expected_above=above,
        lower_bounds=tuple(0.5 * e for e in epsilons),
        spreads=law,
    )


def audit(**changed):
    paper = attack(
        "1/30", 0.54, neighbours="1 record, an error, against none", event="the ratio is 0", shares=(0.5, 0.27)
    )
    fields = {
        "kinds": tuple(kind(name) for name in ("counts/mass", "counts/signed_error", "counts/error_pair")),
        "curves": tuple(curve(name) for name in ("counts/mass", "counts/signed_error")),
        "controls": (
            control(),
            control("noise_reused_on_a_retry", truth="infinite", bound=9.2),
            ControlResult(
                name="paper_ratio_1",
                fault="The noisy count is divided by the exact number of records.",
                truth="0.7098",
                attack=paper,
                caught=True,
            ),
        ),
        "checks": (check(),),
        "studies": (
            *(
                study(name, e, gain)
                for name, gain in (("differencing", 0.04), ("averaging", 0.02))
                for e in ("0.1", "1", "10")
            ),
            study("differencing", "none", 1.0, target="suppressed counts"),
        ),
        "colluders": tuple(
            ColluderLoss(sites=50, assumed=1, colluders=colluders, unknown=unknown, claimed="1/30", loss=loss)
            for colluders, unknown, loss in ((1, "1", 1 / 30), (49, "1/49", 3.909))
        ),
        "blog": blog(),
        "seconds": 99.0,
        "versions": {"expril": "0.3.0", "opendp": "0.14.1"},
    }
    return AuditResult(**(fields | changed))


def full_audit(**changed):
    """An audit of all that a package has to show: every kind and every control of this version."""
    fields = {
        "kinds": tuple(kind(name) for name in kinds_to_audit()),
        "controls": tuple(control(name) for name in (*CONTROLS, *PATH_CONTROLS)),
    }
    return audit(**(fields | changed))


def package_facts(**changed):
    """The facts of a package that nobody made."""
    fields = {
        "curators": 4,
        "learners": 2,
        "epsilon": "3/2",
        "answers": 31,
        "ledgers": 3,
        "entries": 1234,
        "snapshots": 5,
        "simulated": False,
        "kinds": 25,
        "controls": 17,
    }
    return PackageFacts(**(fields | changed))
