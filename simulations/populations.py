"""Of whom a simulation speaks: sites that are too small, records beyond the bound, units at several sites."""

from collections.abc import Mapping

import polars as pl

from protocol.errors import ConfigurationError
from simulations.scenario_data import Sites

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
