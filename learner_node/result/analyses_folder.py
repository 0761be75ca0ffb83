"""Writes the learner's folder of a deployed study of analyses: results, tables, raw answers, cost, transcripts, page.

The learner signs a list of all files except the page and `local`, as of every study (`folder`). The page can be written
anew from the files alone: `read_analyses_folder`.
"""

from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

from expril.files import write_private
from expril.report.document import Document
from expril.report.page import as_page
from learner_node.analyses.asking import AnalysisStudy
from learner_node.analyses.results import Analyses, WrittenAnalyses, read_analyses, written_analyses
from learner_node.result.analyses_document import analyses_document
from learner_node.result.folder import DeployedStudy, cost_of, moment_of, pretty, sign_result
from protocol.errors import ConfigurationError
from protocol.run_index import ANALYSES, COST, PAGE, STUDY, file_name

RESULTS, TABLES = "results.json", "tables"
Object = dict[str, Any]


def save_analyses(deployed: DeployedStudy, study: AnalysisStudy, folder: Path) -> Object:
    """Write all files of a result, replacing an earlier one; return the JSON object for programs.

    Raises OSError: a file cannot be written.
    """
    (folder / TABLES).mkdir(exist_ok=True)
    write_private(folder / STUDY, deployed.text)
    facts = analyses_object(deployed, study)
    write_private(folder / COST, pretty(facts["cost"]))
    write_private(folder / RESULTS, pretty(facts))
    write_private(folder / ANALYSES, pretty(msgspec.to_builtins(written_analyses(study))))
    for name, content in table_files(study).items():
        write_private(folder / TABLES / name, content)
    sign_result(deployed, [study.study], folder)
    write_private(folder / PAGE, as_page(analyses_document(facts, study)).encode())
    return facts


def analyses_object(deployed: DeployedStudy, study: AnalysisStudy) -> Object:
    """The results as one JSON object."""
    file = deployed.study
    return {
        "title": file.title,
        "purpose": file.purpose,
        "learner": file.learner,
        "expril": deployed.version,
        "finished": moment_of(deployed),
        **study.to_builtins(),
        "answered_late": {name: times for name, times in study.study.asked_again.items() if times},
        "not_private": [name for name, session in study.study.sessions.items() if session.not_private],
        "cards": {
            name: {"unit": card.unit, "records": card.most_records_per_unit, "cap": card.cap}
            for name, card in study.study.cards.items()
        },
        "cost": cost_of(deployed, [("analyses", study.study, study.epsilon_claimed)]),
    }


def table_files(analyses: Analyses) -> dict[str, bytes]:
    """CSV files of the parts' tables, by name; a number tells names apart that are one as a file's."""
    files: dict[str, bytes] = {}
    for name, frame in analyses.to_frames().items():
        stem = file_name(name)[:100]
        names = (f"{stem}{suffix}.csv" for suffix in chain([""], (f"-{number}" for number in count(2))))
        files[next(name for name in names if name not in files)] = frame.write_csv().encode()
    return files


def read_analyses_folder(folder: Path) -> Document:
    """The document of a result's folder, from its files.

    Raises ConfigurationError: the folder holds no readable analyses.
    """
    try:
        facts = msgspec.json.decode((folder / RESULTS).read_bytes())
        return analyses_document(facts, read_folder(folder))
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise _unreadable(folder, error) from None


def read_folder(folder: Path) -> Analyses:
    """The analyses of a result's folder, from its raw answers. Raises ConfigurationError: it holds none."""
    try:
        content = msgspec.json.decode((folder / ANALYSES).read_bytes(), type=WrittenAnalyses)
    except (OSError, msgspec.DecodeError) as error:
        raise _unreadable(folder, error) from None
    return read_analyses(content, where=ANALYSES)


def _unreadable(folder: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{folder} holds no readable analyses ({type(error).__name__})")
