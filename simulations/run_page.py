"""The document and page of a stored run, or of runs at several epsilons, made from their reports alone.

This module is apart from `run`, which loads all that runs a scenario, so that `expril report` is fast.
"""

from pathlib import Path

from expril.files import replace_text
from expril.report.document import Document
from expril.report.page import as_page
from protocol.errors import ConfigurationError
from protocol.run_index import ANALYSES, PAGE, REPORT
from simulations.report.document import run_document
from simulations.report.epsilons import EpsilonRun, epsilon_document
from simulations.report.model import RunReport, load_report
from simulations.run_folder import EPSILONS, epsilon_runs


def rewrite_page(folder: Path) -> Path:
    """Rewrite the page of a run, of several epsilons, or of a learner's analyses; return its path.

    Raises ConfigurationError: the folder holds no readable run.
    """
    replace_text(folder / PAGE, as_page(read_document(folder)))
    return folder / PAGE


def read_document(folder: Path) -> Document:
    """The document of a run, of a folder of several epsilons, or of a learner's analyses.

    Raises ConfigurationError: the folder holds no readable run.
    """
    if (folder / EPSILONS).exists():
        return epsilon_document(read_runs(folder))
    if (folder / ANALYSES).exists():
        from learner_node.result.analyses_folder import read_analyses_folder  # noqa: PLC0415 - it loads what asks

        return read_analyses_folder(folder)
    return run_document(_report(folder, f"{folder} is not the folder of a run"))


def read_runs(folder: Path) -> tuple[EpsilonRun, ...]:
    """The runs of a folder of epsilons, from the smallest epsilon on.

    Raises ConfigurationError: one of them is absent, or cannot be read.
    """
    runs = epsilon_runs(folder).items()
    return tuple(EpsilonRun(at, run.name, _report(run, f"{run} holds no readable run")) for at, run in runs)


def _report(folder: Path, wrong: str) -> RunReport:
    try:
        return load_report(folder / REPORT)
    except OSError as error:
        raise ConfigurationError(f"{wrong} ({type(error).__name__})") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{wrong}: {error}") from None
