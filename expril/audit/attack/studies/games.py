"""Membership games: the attacked curators, what the adversary's guesses gained, and whether epsilon allows so much.

The curators are real ones with real noise. Their records are an invented table, or a public data set. An attribute
with many distinct values, such as a laboratory value or a length of stay to the minute, tells patients apart. In the
order of that attribute the table is cut into stretches. The last record of each stretch is a *victim*, whose value no
other record has. The rest of the stretch are the victim's neighbours; the adversary knows only their range.

A fair coin decides whether somebody's record is among a curator's, and the adversary guesses. Its *gain* is the true
positive rate less the false positive rate. Under pure epsilon-differential privacy no adversary gains more than
(e^epsilon - 1) / (e^epsilon + 1) = tanh(epsilon / 2): the two error rates a and b obey a + e^epsilon b >= 1 and
b + e^epsilon a >= 1 (Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh and Viswanath 2015, Theorem 2.1), and their
sum is least where both are equal.
"""

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from curator_node.policy import read_policy
from curator_node.records.schema_file import SchemaFile, read_schema_file
from curator_node.site import Site, create_site, open_site, temporary_site
from expril.audit.results import StudyAttack
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.partitions import FeatureBins
from protocol.rationals import written
from protocol.schema import NumericAttribute
from simulations.datasets import DATASETS, load_dataset

INVENTED = "invented"
PATIENT = "name of the patient"
NEIGHBOURS = 3
"""Neighbours of each victim in the invented table."""
_SCHEMA = """
label = "ill"
classes = ["no", "yes"]
round_size = {size}

[[attributes]]
name = "ferritin"
kind = "numeric"
lower = 0
upper = {upper}
"""


@dataclass(frozen=True)
class Table:
    """All records that may be in, and how to ask for each victim."""

    frame: pl.DataFrame  # n rows
    schema: str  # the steward's file, TOML
    attribute: str  # numeric; tells the victims apart
    victims: NDArray[np.intp]  # (m,) rows of `frame`, rising in the attribute
    starts: NDArray[np.float64]  # (m,) [starts, ends) of the attribute holds the victim and no other record
    ends: NDArray[np.float64]

    @property
    def steward(self) -> SchemaFile:
        """The schema file, read."""
        return read_schema_file(self.schema)

    def isolating_bins(self) -> FeatureBins:
        """Bins: 2 j + 1 holds victim j alone, and 2 j the neighbours of its stretch."""
        return FeatureBins(self.attribute, tuple(np.column_stack([self.starts, self.ends]).ravel().tolist()))

    def stretch_bins(self) -> FeatureBins:
        """Bins: j holds victim j and the neighbours of its stretch."""
        return FeatureBins(self.attribute, tuple(self.ends.tolist()))

    def patients(self, present: NDArray[np.bool_], records: int, bound: int) -> tuple[pl.DataFrame, str]:
        """Records and schema file if each row is a patient, the privacy unit, and each victim has several records.

        `present`: (n,) whether each row is in; `records`: number of equal records of each victim; `bound`: most records
        of a patient that the curator counts.
        """
        repeats = present.astype(np.int64)
        repeats[self.victims] *= records
        rows = np.repeat(np.arange(self.frame.height), repeats)
        names = pl.Series(PATIENT, [f"{row}" for row in rows])
        schema = f'unit = "{PATIENT}"\nmost_records_per_unit = {bound}\n{self.schema}'
        return self.frame[rows].with_columns(names), schema

    def first(self, victims: int) -> "Table":
        """The table with at most so many victims; the others become ordinary records."""
        chosen = slice(0, victims)
        return Table(
            self.frame, self.schema, self.attribute, self.victims[chosen], self.starts[chosen], self.ends[chosen]
        )


def table_of(records: str, victims: int) -> Table:
    """Return the records of that name.

    `records`: "invented", or a data set of `simulations.datasets`; `victims`: number of victims; a real table may have
    fewer.

    Raises:
        ConfigurationError: there are no such records, or no attribute tells some of them apart.
        DataUnavailableError: the data set's files are neither here nor can they be fetched.
    """
    return _invented(victims) if records == INVENTED else _real(records).first(victims)


def _invented(victims: int) -> Table:
    """A table of whole numbers: 0, 1, 2 are the neighbours and 3 the victim of the first stretch, and so on."""
    stretch = NEIGHBOURS + 1
    values = np.arange(victims * stretch, dtype=np.float64)
    rows = np.arange(stretch - 1, len(values), stretch)
    frame = pl.DataFrame({"ferritin": values, "ill": np.where(np.arange(len(values)) % 2, "yes", "no")})
    schema = _SCHEMA.format(size=len(values), upper=len(values))
    return Table(frame, schema, "ferritin", rows, values[rows], values[rows] + 1)


@lru_cache(maxsize=4)
def _real(name: str) -> Table:
    frame, schema = real_records(name)
    numeric = [item for item in read_schema_file(schema).attributes if isinstance(item, NumericAttribute)]
    candidates = [_told_apart(frame, item) for item in numeric]
    if not candidates or max(len(rows) for _, rows, _, _ in candidates) < 2:
        raise ConfigurationError(f"no two records of {name} can be told apart by one attribute; attack other records")
    return Table(frame, schema, *max(candidates, key=lambda item: len(item[1])))


def real_records(name: str) -> tuple[pl.DataFrame, str]:
    """The records of a data set, each its own privacy unit, and its schema file without the unit.

    Raises:
        ConfigurationError: no data set has that name.
        DataUnavailableError: its files are neither here nor can they be fetched.
    """
    if name not in DATASETS:
        raise ConfigurationError(f"no records are called {name!r}; there are {', '.join((INVENTED, *DATASETS))}")
    dataset = load_dataset(name).without_unit()
    unit = ("unit =", "most_records_per_unit =")
    schema = "\n".join(line for line in dataset.schema_text.splitlines() if not line.startswith(unit))
    return dataset.frame.select(*dataset.attributes, dataset.label), schema


def _told_apart(
    frame: pl.DataFrame, attribute: NumericAttribute
) -> tuple[str, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Name of the attribute, and rows and ranges of records with unique values, no two of them next to each other."""
    values = frame[attribute.name].clip(attribute.lower, attribute.upper).to_numpy()
    distinct, first, counts = np.unique(values[~np.isnan(values)], return_index=True, return_counts=True)
    places = np.flatnonzero(~np.isnan(values))[first]
    chosen: list[int] = []
    for place in np.flatnonzero(counts[:-1] == 1):
        if place and (not chosen or place > chosen[-1] + 1):
            chosen.append(int(place))
    return attribute.name, places[chosen].astype(np.intp), distinct[chosen], distinct[np.array(chosen, int) + 1]


OPEN_STUDIES = 1_000
"""Most open studies of a learner: more than any attack opens, so that only the cap stops an adversary."""


class Attacked(Protocol):
    """The adversary's view of a curator."""

    @property
    def identity(self) -> bytes:
        """Public key."""

    def handle(self, data: bytes) -> bytes:
        """Answer one envelope with one envelope."""

    def restart(self) -> None:
        """Stop the process and start it again: its memory is lost, its files are not."""


Opening = Callable[[pl.DataFrame, str, str], AbstractContextManager[Attacked]]
"""Opens a curator of (records, schema file, policy file)."""


def policy_text(learners: Mapping[str, SigningKey], cap: Fraction) -> str:
    """A policy file with this cap for each learner, and for all learners together."""
    least = min(cap / 100, Fraction(1, 10_000))
    lines = ['name = "attacked"', f'cap = "{cap}"', f'least_cost = "{least}"', f'least_query_cost = "{least}"']
    lines.append(f"open_studies = {OPEN_STUDIES}")
    for name, key in learners.items():
        lines += ["[[learners]]", f"name = {json.dumps(name)}", f'key = "{key.public.hex()}"', f'cap = "{cap}"']
    return "\n".join(lines)


class _InMemory:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.identity, self.handle = site.identity, site.handle

    def restart(self) -> None:
        raise ConfigurationError("a curator in memory keeps nothing over a restart; open it on disk")


@contextmanager
def in_memory(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """Open a curator with its ledger in memory; it cannot be restarted."""
    with temporary_site(records, read_schema_file(schema), read_policy(policy)) as site:
        yield _InMemory(site)


class _OnDisk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site = open_site(folder)
        self.identity = self._site.identity

    def handle(self, data: bytes) -> bytes:
        return self._site.handle(data)

    def restart(self) -> None:
        self.close()
        self._site = open_site(self._folder)

    def close(self) -> None:
        self._site.close()


@contextmanager
def on_disk(records: pl.DataFrame, schema: str, policy: str) -> Iterator[Attacked]:
    """Open a curator as it is deployed: a folder with policy, schema, records, key, ledger and mark."""
    with tempfile.TemporaryDirectory(prefix="expril-audit-") as name:
        folder = Path(name)
        create_site(folder, policy=policy, schema=schema, records=records)
        opened = _OnDisk(folder)
        try:
            yield opened
        finally:
            opened.close()


DISPLAYED = 0.95
"""Confidence of the interval that tables show; it decides nothing."""


def bound_of(epsilon: Fraction) -> float:
    """The greatest gain of any adversary against a record that this pure epsilon protects."""
    return math.tanh(float(epsilon) / 2)


def half_in(size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(size,) whether each record is in: a random half of them is.

    Raises:
        ConfigurationError: fewer than two.
    """
    if size < 2:
        raise ConfigurationError(f"{size} game is too few to play: at least 2 are needed, one with the record")
    return rng.permutation(size) < size // 2


@dataclass(frozen=True)
class Terms:
    """The terms under which an attack is played once."""

    epsilon: Fraction  # most that the curator charges to all learners together
    games: int  # games in which the adversary guesses
    records: str  # as `table_of` takes it
    opening: Opening | None  # opens a curator; None takes the attack's own
    error_rate: float  # greatest probability that any result finds a correct curator wrong
    rng: np.random.Generator  # of the coins, never of noise


@dataclass(frozen=True)
class Guesses:
    """Guesses in independent games."""

    hits: int  # true positives, of `present` games with the record
    present: int
    alarms: int  # false positives, of `absent` games without the record
    absent: int

    @classmethod
    def of(cls, guessed: NDArray[np.bool_], truth: NDArray[np.bool_]) -> "Guesses":
        """Count guesses (n,) against the coins (n,)."""
        hits, alarms = np.count_nonzero(guessed & truth), np.count_nonzero(guessed & ~truth)
        return cls(int(hits), int(np.count_nonzero(truth)), int(alarms), int(np.count_nonzero(~truth)))

    @property
    def games(self) -> int:
        """Number of games."""
        return self.present + self.absent

    @property
    def gain(self) -> float:
        """True positive rate less false positive rate, -1 to 1."""
        return self.hits / self.present - self.alarms / self.absent

    def interval(self) -> tuple[float, float]:
        """Newcombe's interval of the gain at 95 %, from Wilson's of either rate (Newcombe 1998, method 10)."""
        first = binomtest(self.hits, self.present).proportion_ci(DISPLAYED, method="wilson")
        second = binomtest(self.alarms, self.absent).proportion_ci(DISPLAYED, method="wilson")
        high, low = self.hits / self.present, self.alarms / self.absent
        below = math.hypot(high - first.low, second.high - low)
        above = math.hypot(first.high - high, low - second.low)
        return max(-1.0, self.gain - below), min(1.0, self.gain + above)

    def limits(self, error_rate: float) -> tuple[float, float]:
        """Limits that miss the true gain with a probability of at most `error_rate`, however few the games.

        They come from four one-sided limits of Clopper and Pearson (1934), each at `error_rate` / 4.
        """
        sure = 1.0 - error_rate / 4
        highs = [(self.hits, self.present), (self.alarms, self.absent)]
        above = [binomtest(k, n, alternative="less").proportion_ci(sure).high for k, n in highs]
        below = [binomtest(k, n, alternative="greater").proportion_ci(sure).low for k, n in highs]
        return float(below[0] - above[1]), float(above[0] - below[1])


def judged(
    attack: str,
    target: str,
    guesses: Guesses,
    *,
    epsilon: Fraction | None,
    error_rate: float,
    expected: float | None = None,
    remark: str = "",
) -> StudyAttack:
    """The result of an attack, with its verdict.

    Args:
        attack: its name.
        target: as in `StudyAttack`.
        guesses: of games in which nothing was tuned.
        epsilon: that protects a record over the whole attack; None if nothing protects it.
        error_rate: probability that a correct curator under a working attack is judged otherwise; half for either
            verdict.
        expected: gain of the attack in theory; None if there is no theory.
        remark: a further clause without a full stop.
    """
    bound = 1.0 if epsilon is None else bound_of(epsilon)
    low, high = guesses.limits(error_rate)
    holds, reaches = low <= bound, expected is None or high >= expected
    allowed = "none" if epsilon is None else written(epsilon)
    gain, sure = f"{guesses.gain:.4f}", f"{1 - error_rate:.6g}"
    if not holds:
        verdict = (
            f"It gains at least {low:.4f} (certainty {sure}), but epsilon {allowed} allows {bound:.4f} at most: more "
            "gets out than is charged for"
        )
    elif not reaches:
        verdict = (
            f"It gains at most {high:.4f} (certainty {sure}), but theory gives it {expected:.4f}: the attack does not "
            "work, so it proves nothing"
        )
    elif epsilon is None:
        verdict = f"It gains {gain}, and nothing bounds it: who is among the records is no secret"
    elif expected is not None:
        verdict = f"It gains {gain}, which fits theory ({expected:.4f}); epsilon {allowed} allows {bound:.4f}"
    else:
        verdict = f"It gains {gain}, which is no proof of more than the {bound:.4f} that epsilon {allowed} allows"
    return StudyAttack(
        attack=attack,
        target=target,
        epsilon=allowed,
        trials=guesses.games,
        gain=guesses.gain,
        interval=guesses.interval(),
        bound=bound,
        holds=holds,
        expected=expected,
        reaches=reaches,
        verdict=f"{verdict}{f'; {remark}' if remark else ''}.",
    )
