"""The page of a run that is stored: written anew from its numbers alone."""

from pathlib import Path

import msgspec

from protocol.errors import ConfigurationError
from simulations.report.model import load_report
from simulations.report.page import write_page
from simulations.run_index import PAGE, REPORT


def rewrite_page(folder: Path) -> Path:
    """Write the page anew from the stored numbers; its path.

    Raises:
        ConfigurationError: the folder holds no readable run.
    """
    try:
        report = load_report(folder / REPORT)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{folder} is not the folder of a run ({type(error).__name__})") from None
    write_page(report, folder / PAGE)
    return folder / PAGE
