"""The folders of runs below a path.

Everything below it that looks like a run is looked at. `epsilons.json` lists the runs of a folder of several epsilons,
and nobody signs it. So it decides nothing: it is only compared with the folders that are there.
"""

import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from protocol.errors import ConfigurationError, printable
from protocol.run_index import COST, LEDGERS, PROGRESS, REPORT, SCENARIO, TRANSCRIPTS
from simulations.run_folder import EPSILONS, epsilon_runs

MARKS = frozenset({REPORT, SCENARIO, COST, TRANSCRIPTS, LEDGERS})
"""Names in a folder by which it looks like a run."""
_MOST_NAMED = 5


@dataclass
class RunFolders:
    """What was found below a path."""

    runs: list[Path] = field(default_factory=list)  # in the order of their paths; the path itself where there is none
    complaints: list[str] = field(default_factory=list)  # what lists of epsilons say otherwise
    remarks: list[str] = field(default_factory=list)  # files that belong to no run


def find_runs(path: Path) -> RunFolders:
    """Find all folders of runs below a path, the path itself among them. Links are not followed."""
    run_folders, strange, lists, folders_of_runs = RunFolders(), list[str](), list[Path](), set[Path]()
    for place, folders, files in os.walk(path):
        folder = Path(place)
        prefix = "" if folder == path else f"{folder.relative_to(path).as_posix()}/"
        apart = sorted(name for name in folders if name == PROGRESS or (folder / name).is_symlink())
        folders[:] = sorted(set(folders) - {PROGRESS})
        if EPSILONS in files:
            lists.append(folder)
        if MARKS & {*folders, *files}:
            run_folders.runs.append(folder)
            folders_of_runs.add(folder)
        elif folders_of_runs.isdisjoint(folder.parents):
            unseen = [*(f"{name}/" for name in apart), *sorted(name for name in files if name != EPSILONS)]
            strange += [f"{prefix}{name}" for name in unseen]
    for folder in lists:
        run_folders.complaints += _compare_list(folder, folders_of_runs)
    if run_folders.runs and strange:
        more = f" and {len(strange) - _MOST_NAMED} more" if len(strange) > _MOST_NAMED else ""
        names = ", ".join(printable(name, 100) for name in strange[:_MOST_NAMED])
        run_folders.remarks.append(f"in no run's list, and not looked at: {names}{more}")
    run_folders.runs = run_folders.runs or [path]
    return run_folders


def _compare_list(folder: Path, runs: AbstractSet[Path]) -> list[str]:
    """Return where a list of epsilons differs from the runs in its folder."""
    where = folder / EPSILONS
    if folder in runs:
        return [f"{folder} looks like a run, and {EPSILONS} in it says that it holds runs at several epsilons"]
    try:
        named = epsilon_runs(folder)
    except ConfigurationError as error:
        return [str(error)]
    complaints = [
        f"{where} names epsilon {printable(epsilon, 40)}, and {printable(run.name, 80)} is no run's folder"
        for epsilon, run in named.items()
        if run not in runs
    ]
    there = set(named.values())
    here = sorted(run for run in runs if run.parent == folder and run not in there)
    return [*complaints, *(f"{run} is the folder of a run that {EPSILONS} beside it does not name" for run in here)]
