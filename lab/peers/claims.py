"""What other projects ship and say about it, each as one game: a setting, two neighbouring inputs, a claim, a verdict.

A claim is quoted from the project's own documents. Where a library computes the epsilon itself, it is asked for it. A
fault stands here if it is public; docs/results/peers-audited.md and docs/results/in-site-learning.md name the place.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lab.peers.environment import AUDITED_ENVIRONMENT, PEERS_ENVIRONMENT, Environment
from lab.peers.preparation import gaussian_epsilon
from lab.peers.task import Setting

Rows = tuple[tuple[float, ...], ...]
INFINITE = math.inf


@dataclass(frozen=True)
class Library:
    """One project's package in its environment."""

    title: str
    package: str  # whose version is shown
    family: str  # key of `worker.FAMILIES`
    environment: Environment


FLOWER = Library("Flower", "flwr", "flower-releases", AUDITED_ENVIRONMENT)
NVFLARE = Library("NVFlare", "nvflare", "nvflare-releases", AUDITED_ENVIRONMENT)
VANTAGE6 = Library("vantage6 Kaplan-Meier", "v6-kaplan-meier-py", "vantage6-releases", AUDITED_ENVIRONMENT)
SMARTNOISE = Library("SmartNoise SQL", "smartnoise-sql", "smartnoise-releases", AUDITED_ENVIRONMENT)
DIFFPRIVLIB = Library("diffprivlib", "diffprivlib", "diffprivlib-releases", PEERS_ENVIRONMENT)
OPACUS = Library("Opacus", "opacus", "opacus-releases", PEERS_ENVIRONMENT)
OPENDP = Library("OpenDP", "opendp", "opendp-releases", PEERS_ENVIRONMENT)

PAGE, MODELS_PAGE = "peers-audited.md", "in-site-learning.md"


@dataclass(frozen=True)
class LibraryClaim:
    """A release that gives the epsilon that the library itself states."""

    release: str
    setting: Setting = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PeerClaim:
    """One setting of one library, and two inputs that its claim is about."""

    library: Library
    release: str  # key of its family's table
    setting: Setting = field(default_factory=dict)
    wording: str  # the setting, in words
    first: Rows  # records, a row each
    second: Rows
    neighbours: str  # the two, in words
    unit: str  # what is protected, and by which relation
    steps: int = 1  # releases that the claim covers
    epsilon: str | LibraryClaim | None  # claimed; None: no epsilon is claimed
    delta: str = "0"
    exact: float | None  # loss between the two at `delta`, from the law that is documented; None: no simple law
    holds: bool | None  # whether the claim is true of these two; None where there is none
    verdict: str
    draws: int = 20_000  # from either input; 0: no game is played, as the law is exact
    page: str = PAGE  # of docs, where it is shown
    size: int | None = None  # number of an outcome whose absolute value is looked at, too


_CLIENT = "all data of one client; its update is any of norm at most 1"
_ZEROED = "one client's update is present or zero"
_RECORD = "one record more or less"
_PERSON = "one person's event time is another one"
_TIMES = tuple((float(days),) for days in range(100, 320, 20))
_LATE, _EARLY = (*_TIMES, (1000.0,)), (*_TIMES, (10.0,))
_ONE, _NONE = ((1.0,), *((0.0,),) * 49), ((0.0,),) * 50
_OTHERS = ((1e-6, 1.0),) * 3
_SVT = 1e-5


def _local(sensitivity: float) -> Setting:
    return {"clip": 1.0, "sensitivity": sensitivity, "epsilon": 1.0, "delta": 1e-5}


def _deviation(sensitivity: float, epsilon: float, delta: float) -> float:
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


CLAIMS: Mapping[str, PeerClaim] = MappingProxyType(
    {
        "flower-local-twice-the-norm": PeerClaim(
            library=FLOWER,
            release="local",
            setting=_local(2.0),
            wording="LocalDpMod(clipping_norm=1, sensitivity=2, epsilon=1, delta=1e-5)",
            first=((1.0, 1.0),),
            second=((-1.0, 1.0),),
            neighbours="two updates of norm 1 in opposite directions",
            unit=_CLIENT,
            epsilon="1",
            delta="1e-5",
            exact=gaussian_epsilon(2 / _deviation(2.0, 1.0, 1e-5), 1e-5),
            holds=True,
            verdict="holds: two updates within the norm are at most twice the norm apart",
        ),
        "flower-local-hundredth-of-the-norm": PeerClaim(
            library=FLOWER,
            release="local",
            setting=_local(0.01),
            wording="LocalDpMod(clipping_norm=1, sensitivity=0.01, epsilon=1, delta=1e-5)",
            first=((1.0, 1.0),),
            second=((-1.0, 1.0),),
            neighbours="two updates of norm 1 in opposite directions",
            unit=_CLIENT,
            epsilon="1",
            delta="1e-5",
            exact=gaussian_epsilon(2 / _deviation(0.01, 1.0, 1e-5), 1e-5),
            holds=False,
            verdict="does not hold: the user chooses the sensitivity, and nothing ties it to the norm",
        ),
        "flower-central-equal-weights": PeerClaim(
            library=FLOWER,
            release="central",
            setting={"clip": 1.0, "noise_multiplier": 1.0},
            wording="DifferentialPrivacyServerSideFixedClipping(FedAvg, 1.0, 1.0, 4), equal numbers of examples",
            first=((1.0, 1.0), *_OTHERS),
            second=((1e-6, 1.0), *_OTHERS),
            neighbours="4 clients, of which one sends an update of norm 1 or (almost) none",
            unit=_ZEROED,
            epsilon=LibraryClaim("accountant", {"clients": 4, "delta": 1e-5, "noise_multiplier": 1.0, "rounds": 1}),
            delta="1e-5",
            exact=gaussian_epsilon(1.0, 1e-5),
            holds=True,
            verdict="holds: its RDP accountant is above the exact loss",
            draws=4_000,
        ),
        "flower-central-by-examples": PeerClaim(
            library=FLOWER,
            release="central",
            setting={"clip": 1.0, "noise_multiplier": 1.0},
            wording="the same without an accountant; the client has 1,000 examples and each other one has 1",
            first=((1.0, 1000.0), *_OTHERS),
            second=((1e-6, 1000.0), *_OTHERS),
            neighbours="4 clients, of which one sends an update of norm 1 or (almost) none",
            unit=_ZEROED,
            epsilon=None,
            delta="1e-5",
            exact=gaussian_epsilon(4 * 1000 / 1003, 1e-5),
            holds=None,
            verdict="claims no epsilon: noise is for an unweighted mean; with an accountant these weights are an error",
            draws=4_000,
        ),
        "nvflare-svt": PeerClaim(
            library=NVFLARE,
            release="svt",
            wording="SVTPrivacy() on 20 parameters",
            first=((_SVT,) * 20,),
            second=((-_SVT,) * 20,),
            neighbours="an update of which each number is at the clip, and the opposite one",
            unit="one update of the weights; each of its numbers is any within the clip",
            epsilon=LibraryClaim("svt-accountant", {"parameters": 20}),
            exact=0.2,
            holds=True,
            verdict="holds: its accountant's sum is above the loss of what is released",
        ),
        "nvflare-svt-large": PeerClaim(
            library=NVFLARE,
            release="svt",
            wording="SVTPrivacy() on 7,000,000 parameters",
            first=((_SVT,),),
            second=((-_SVT,),),
            neighbours="as above",
            unit="as above",
            epsilon=LibraryClaim("svt-accountant", {"parameters": 7_000_000}),
            exact=70_000.0,
            holds=True,
            verdict="holds, and says itself how large it is: the parameter epsilon=0.1 is that of the selection alone",
            draws=0,
        ),
        "nvflare-svt-scalar": PeerClaim(
            library=NVFLARE,
            release="svt",
            setting={"scalars": 1},
            wording="SVTPrivacy() on 4 parameters and one without a dimension",
            first=((0.0, 0.0, 0.0, 0.0, 3.0),),
            second=((0.0, 0.0, 0.0, 0.0, 2.0),),
            neighbours="the parameter without a dimension is 3 or 2",
            unit="as above",
            epsilon=None,
            exact=INFINITE,
            holds=None,
            verdict="claims nothing for it: it passes unchanged, and the filter's metadata say so",
            draws=4_000,
        ),
        "nvflare-percentile": PeerClaim(
            library=NVFLARE,
            release="percentile",
            wording="PercentilePrivacy()",
            first=((0.001, 0.002, 0.003),),
            second=((0.001, 0.002, 0.004),),
            neighbours="an update of which the third number is 0.003 or 0.004",
            unit="one update of the weights",
            epsilon=None,
            exact=INFINITE,
            holds=None,
            verdict="claims no epsilon, and has none: it is a rule without noise",
            draws=4_000,
        ),
        "vantage6-times-as-it-comes": PeerClaim(
            library=VANTAGE6,
            release="event-times",
            setting={"seed": "unset"},
            wording="Poisson noise, no seed set by the node",
            first=_EARLY,
            second=_LATE,
            neighbours="12 persons, of whom one has an event on day 10 or on day 1,000",
            unit=_PERSON,
            epsilon=None,
            exact=INFINITE,
            holds=None,
            verdict="claims no epsilon: the seed is 0, so that everybody can make the noise again; they warn of it",
            draws=2_000,
        ),
        "vantage6-times-secret-seed": PeerClaim(
            library=VANTAGE6,
            release="event-times",
            setting={"seed": "fresh", "asks": 2},
            wording="Poisson noise, a secret seed of each node; asked twice",
            first=_EARLY,
            second=_LATE,
            neighbours="12 persons, of whom one has an event on day 10 or on day 1,000",
            unit=_PERSON,
            epsilon=None,
            exact=INFINITE,
            holds=None,
            verdict="claims no epsilon: asking again tells nothing new, but noise of 3 or 32 days does not hide 990",
            draws=2_000,
        ),
        "diffprivlib-laplace": PeerClaim(
            library=DIFFPRIVLIB,
            release="noise",
            setting={"mechanism": "laplace", "epsilon": 1.0},
            wording="mechanisms.Laplace(epsilon=1, sensitivity=1)",
            first=((0.0, 0.0),),
            second=((1.0, 0.0),),
            neighbours="a sum of 0 and one of 1",
            unit="two values at most the sensitivity apart",
            epsilon="1",
            exact=INFINITE,
            holds=False,
            verdict="does not hold on floats: last bits below 2^-53 come from 0 and never from 1",
        ),
        "diffprivlib-geometric": PeerClaim(
            library=DIFFPRIVLIB,
            release="noise",
            setting={"mechanism": "geometric", "epsilon": 1.0},
            wording="mechanisms.Geometric(epsilon=1, sensitivity=1)",
            first=((0.0, 0.0),),
            second=((1.0, 0.0),),
            neighbours="a count of 0 and one of 1",
            unit="two values at most the sensitivity apart",
            epsilon="1",
            exact=1.0,
            holds=True,
            verdict="holds",
        ),
        "diffprivlib-gaussian": PeerClaim(
            library=DIFFPRIVLIB,
            release="noise",
            setting={"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5},
            wording="mechanisms.GaussianAnalytic(epsilon=1, delta=1e-5, sensitivity=1)",
            first=((0.0, 0.0),),
            second=((1.0, 0.0),),
            neighbours="a sum of 0 and one of 1",
            unit="two values at most the sensitivity apart",
            epsilon="1",
            delta="1e-5",
            exact=INFINITE,
            holds=False,
            verdict="does not hold on floats: last bits below 2^-53 come from 0 and never from 1",
        ),
        "diffprivlib-slope-range-from-zero": PeerClaim(
            library=DIFFPRIVLIB,
            release="slope",
            setting={"epsilon": 1.0, "least": 0.0, "most": 100.0},
            wording="LinearRegression(epsilon=1, bounds_X=(0, 100), bounds_y=(0, 1), fit_intercept=False)",
            first=((1.0, 0.0),),
            second=((1.0, 0.0), (100.0, 0.0)),
            neighbours="one record, and one record more, at the upper end of the range",
            unit=_RECORD,
            epsilon="1",
            exact=None,
            holds=False,
            verdict="does not hold: squares are taken to be 0 at most, as the upper end of the range is not looked at",
            draws=10_000,
        ),
        "diffprivlib-slope-symmetric-range": PeerClaim(
            library=DIFFPRIVLIB,
            release="slope",
            setting={"epsilon": 1.0, "least": -100.0, "most": 100.0},
            wording="the same with bounds_X=(-100, 100)",
            first=((1.0, 0.0),),
            second=((1.0, 0.0), (100.0, 0.0)),
            neighbours="one record, and one record more, at the upper end of the range",
            unit=_RECORD,
            epsilon="1",
            exact=None,
            holds=True,
            verdict="holds in this game: both ends of the range have one square",
            draws=10_000,
        ),
        "opacus-poisson": PeerClaim(
            library=OPACUS,
            release="epoch",
            setting={"noise_multiplier": 1.0, "sampling": "poisson"},
            wording="PrivacyEngine().make_private(noise_multiplier=1, max_grad_norm=1), 50 records in batches of 1",
            first=_ONE,
            second=_NONE,
            neighbours="50 records, of which one has a gradient of 1 or of 0, which counts as absent",
            unit=_RECORD,
            steps=50,
            epsilon=LibraryClaim("accountant", {"noise_multiplier": 1.0, "sampling": "poisson", "delta": 1e-5}),
            delta="1e-5",
            exact=None,
            holds=True,
            verdict="holds in this game",
            draws=1_000,
        ),
        "opacus-fixed-order": PeerClaim(
            library=OPACUS,
            release="epoch",
            setting={"noise_multiplier": 1.0, "sampling": "fixed"},
            wording="the same with poisson_sampling=False and a loader of fixed order",
            first=_ONE,
            second=_NONE,
            neighbours="50 records, of which one has a gradient of 1 or of 0, which counts as absent",
            unit=_RECORD,
            steps=50,
            epsilon=LibraryClaim("accountant", {"noise_multiplier": 1.0, "sampling": "fixed", "delta": 1e-5}),
            delta="1e-5",
            exact=gaussian_epsilon(1.0, 1e-5),
            holds=False,
            verdict="does not hold: the accountant counts on sampling that this loader does not do, as they say",
            draws=1_000,
        ),
        "opendp-laplace": PeerClaim(
            library=OPENDP,
            release="laplace",
            setting={"scale": 1.0},
            wording="make_laplace(floats, scale=1)",
            first=((0.0,),),
            second=((1.0,),),
            neighbours="a sum of 0 and one of 1",
            unit="two sums at most 1 apart",
            epsilon="1",
            exact=1.0,
            holds=True,
            verdict="holds, and its floating point tells nothing",
        ),
        "opendp-integer-laplace": PeerClaim(
            library=OPENDP,
            release="integer-laplace",
            setting={"scale": 1.0},
            wording="make_laplace(integers, scale=1)",
            first=((0.0,),),
            second=((1.0,),),
            neighbours="a count of 0 and one of 1",
            unit="two counts at most 1 apart",
            epsilon="1",
            exact=1.0,
            holds=True,
            verdict="holds",
        ),
        "opendp-gaussian": PeerClaim(
            library=OPENDP,
            release="gaussian",
            setting={"scale": 4.0},
            wording="make_gaussian(floats, scale=4), make_zCDP_to_approxDP",
            first=((0.0,),),
            second=((1.0,),),
            neighbours="a sum of 0 and one of 1",
            unit="two sums at most 1 apart",
            epsilon=LibraryClaim("gaussian-claim", {"scale": 4.0, "delta": 1e-6}),
            delta="1e-6",
            exact=gaussian_epsilon(1 / 4, 1e-6),
            holds=True,
            verdict="holds: what it states by zCDP is above the exact loss",
        ),
        "smartnoise-count": PeerClaim(
            library=SMARTNOISE,
            release="query",
            setting={"query": "count", "lower": 0.0, "upper": 100.0, "epsilon": 1.0, "delta": 1e-5},
            wording="Privacy(epsilon=1, delta=1e-5), SELECT COUNT(*)",
            first=((0.0,),) * 3,
            second=(*((0.0,),) * 3, (100.0,)),
            neighbours="3 rows, and one row more",
            unit="one row more or less (row_privacy)",
            epsilon=LibraryClaim(
                "cost", {"query": "count", "lower": 0.0, "upper": 100.0, "epsilon": 1.0, "delta": 1e-5}
            ),
            exact=1.0,
            holds=True,
            verdict="holds",
            draws=4_000,
        ),
        "smartnoise-count-and-sum": PeerClaim(
            library=SMARTNOISE,
            release="query",
            setting={"query": "count-and-sum", "lower": 0.0, "upper": 100.0, "epsilon": 1.0, "delta": 1e-5},
            wording="the same, SELECT COUNT(*), SUM(value), values in [0, 100]",
            first=((0.0,),) * 3,
            second=(*((0.0,),) * 3, (100.0,)),
            neighbours="3 rows of 0, and one row of 100 more",
            unit="one row more or less (row_privacy)",
            epsilon=LibraryClaim(
                "cost", {"query": "count-and-sum", "lower": 0.0, "upper": 100.0, "epsilon": 1.0, "delta": 1e-5}
            ),
            exact=2.0,
            holds=True,
            verdict="holds: epsilon is that of one column, and it says that the query costs 2",
            draws=4_000,
        ),
        "naive-bayes-counts": PeerClaim(
            library=DIFFPRIVLIB,
            release="class-counts",
            setting={"epsilon": 1.0, "most": 1.0},
            wording="GaussianNB(epsilon=1): its class counts",
            first=((0.2, 0.0), (0.4, 0.0), (0.6, 1.0), (0.8, 1.0)),
            second=((0.2, 0.0), (0.4, 0.0), (0.6, 1.0), (0.8, 1.0), (0.8, 1.0)),
            neighbours="4 records, and one record more",
            unit=_RECORD,
            epsilon="1",
            exact=INFINITE,
            holds=False,
            verdict="The noisy class counts are moved until they add up to the exact number of records.",
            draws=2_000,
            page=MODELS_PAGE,
            size=1,
        ),
        "logistic-one-class": PeerClaim(
            library=DIFFPRIVLIB,
            release="weight",
            setting={"epsilon": 1.0, "most": 1.0},
            wording="LogisticRegression(epsilon=1): whether it fits",
            first=((0.0, 0.0), (0.0, 0.0)),
            second=((0.0, 0.0), (0.0, 0.0), (0.0, 1.0)),
            neighbours="2 records of one class, and one more of another class",
            unit=_RECORD,
            epsilon="1",
            exact=INFINITE,
            holds=False,
            verdict="A data set of one class raises an error, which tells it without noise.",
            draws=2_000,
            page=MODELS_PAGE,
            size=1,
        ),
        "logistic-norm": PeerClaim(
            library=DIFFPRIVLIB,
            release="weight",
            setting={"epsilon": 1.0, "most": 1000.0},
            wording="LogisticRegression(epsilon=1, data_norm=1000): its weight",
            first=((0.0, 0.0), (0.0, 1.0)),
            second=((0.0, 0.0), (0.0, 1.0), (1000.0, 1.0)),
            neighbours="2 records of norm 0, and one more of the norm that the model is told, 1,000",
            unit=_RECORD,
            epsilon="1",
            exact=None,
            holds=False,
            verdict="The curvature of a record of norm R is taken for R / 4; it is R^2 / 4. The loss is about 5.5.",
            draws=2_000,
            page=MODELS_PAGE,
            size=1,
        ),
        "logistic-n": PeerClaim(
            library=DIFFPRIVLIB,
            release="weight",
            setting={"epsilon": 1.0, "most": 1.0},
            wording="LogisticRegression(epsilon=1): its weight where only n differs",
            first=((0.0, 0.0), (0.0, 1.0)),
            second=((0.0, 0.0), (0.0, 1.0), (0.0, 1.0)),
            neighbours="2 records of norm 0, and 3: only their number differs",
            unit=_RECORD,
            epsilon="1",
            exact=0.0,
            holds=True,
            verdict="The regulariser 1 / (C n), the noise and the mean loss have the same 1 / n, which cancels.",
            draws=2_000,
            page=MODELS_PAGE,
            size=1,
        ),
    }
)
"""By name, in the order of the pages."""
