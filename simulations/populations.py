"""Of whom a simulation speaks: sites that are too small, records beyond the bound, units at several sites."""

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from protocol.errors import ConfigurationError
from simulations.scenario_data import Sites

NAMED = 8
"""Sites that a sentence names; of more it says how many."""
SMALL_REMEDY = 'say small = "leave out" or small = "merge" under [data.sites], or give it more records'


def keep_large(frames: Mapping[str, pl.DataFrame], told: Sites, unit: str | None) -> dict[str, pl.DataFrame]:
    """The sites after small ones were left out or merged, as the scenario says.

    Args:
        frames: site -> its records.
        told: `least_units`, and what becomes of a site with fewer.
        unit: column of the privacy unit; None: each record is one.

    Raises:
        ConfigurationError: a small site, and the scenario does not say what becomes of it; names it. Or no site is
            left, or the merged one is itself small or has another's name.
    """
    small = small_sites(frames, told.least_units, unit)
    if not small:
        return dict(frames)
    name, units = next(iter(small.items()))
    if told.small == "refuse":
        raise ConfigurationError(
            f"site {name} has {units} {unit or 'record'}{'s' if units != 1 else ''}, and {told.least_units} are the "
            f"least for private, source and test records; {SMALL_REMEDY}"
        )
    kept = {site: frame for site, frame in frames.items() if site not in small}
    if told.small == "merge":
        if told.merged in kept:
            raise ConfigurationError(
                f"a site is called {told.merged!r}; give the merged ones another name: merged = ..."
            )
        together = pl.concat([frames[site] for site in small])
        if _units(together, unit) < told.least_units:
            raise ConfigurationError(
                f"the small sites together ({', '.join(small)}) have fewer than {told.least_units} units; "
                'leave them out: small = "leave out"'
            )
        kept[told.merged] = together
    if not kept:
        raise ConfigurationError(f"every site has fewer than {told.least_units} units; lower least_units")
    return kept


def small_sites(frames: Mapping[str, pl.DataFrame], least: int, unit: str | None) -> dict[str, int]:
    """Site -> its number of units, where they are fewer than `least`."""
    return {site: units for site, frame in frames.items() if (units := _units(frame, unit)) < least}


def _units(frame: pl.DataFrame, unit: str | None) -> int:
    return frame.height if unit is None else frame[unit].n_unique()


def small_site_notes(frames: Mapping[str, pl.DataFrame], told: Sites, unit: str | None) -> list[str]:
    """Which sites were left out or merged, as the scenario says, in a sentence; none where all are large enough."""
    small = list(small_sites(frames, told.least_units, unit))
    if not small:
        return []
    rule = f"fewer than {told.least_units} {unit or 'record'}s"
    done = "were left out" if told.small == "leave out" else f"were merged into {told.merged}"
    return [f"Sites with {rule} {done}: {_listed(small)}."]


def bound_notes(all_records: Mapping[str, tuple[int, int]], unit: str | None, most: int) -> list[str]:
    """How many records the contribution bound leaves out, in two sentences; none where it leaves out none.

    Args:
        all_records: part ("private", "test") -> how many records there are, and how many count.
        unit: of privacy.
        most: the bound.
    """
    left = [f"{there - count:,} of {there:,} {part}" for part, (there, count) in all_records.items() if there > count]
    if not left:
        return []
    bound = f"At most {most:,} record{'s' if most > 1 else ''} of each {unit} count{'s' if most == 1 else ''}"
    spoken_of = "Scores, majority, ceiling and the learners' own estimates speak of those that count"
    known = "a learner knows the bound from the card, and not how many it leaves out"
    return [f"{bound}, which leaves out {' and '.join(left)} records. {spoken_of}; {known}."]


def moving_notes(private: Mapping[str, pl.DataFrame], unit: str | None) -> list[str]:
    """How many units have private records at several sites, and what that costs them; none where no unit has.

    Args:
        private: site -> its private records.
        unit: column of the privacy unit.
    """
    if unit is None:
        return []
    places = pl.concat([frame.select(unit).unique() for frame in private.values()]).group_by(unit).len()["len"]
    several = Counter(places.filter(places > 1).to_list())
    if not several:
        return []
    counts = ", ".join(f"{units:,} at {sites}" for sites, units in sorted(several.items()))
    held = f"{several.total():,} of {len(places):,} {unit}s have private records at several sites ({counts})"
    cost = f"for such a {unit} the epsilons of its sites add up, here to at most {max(several)} times what one charges"
    return [f"{held}. Each curator protects its own part; {cost}."]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
