"""The page of a run that is stored, or of several epsilons: written anew from their numbers alone."""

from pathlib import Path

import msgspec

from protocol.errors import ConfigurationError
from protocol.run_index import PAGE, REPORT
from simulations.epsilon_runs import EPSILONS, epsilon_runs
from simulations.report.epsilons.model import EpsilonRun
from simulations.report.epsilons.page import write_epsilon_page
from simulations.report.model import load_report
from simulations.report.page import write_page


def rewrite_page(folder: Path) -> Path:
    """Write the page of a run, or of a folder of several epsilons, anew from the stored numbers; its path.

    Raises:
        ConfigurationError: the folder holds no readable run.
    """
    if (folder / EPSILONS).exists():
        write_epsilon_page(read_runs(folder), folder / PAGE)
        return folder / PAGE
    try:
        report = load_report(folder / REPORT)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{folder} is not the folder of a run ({type(error).__name__})") from None
    write_page(report, folder / PAGE)
    return folder / PAGE


def read_runs(folder: Path) -> tuple[EpsilonRun, ...]:
    """The runs of a folder of epsilons, from the smallest epsilon on.

    Raises:
        ConfigurationError: one of them is absent, or cannot be read.
    """
    found = []
    for epsilon, run in epsilon_runs(folder).items():
        try:
            found.append(EpsilonRun(epsilon, run.name, load_report(run / REPORT)))
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigurationError(f"{run} holds no readable run ({type(error).__name__})") from None
    return tuple(found)
