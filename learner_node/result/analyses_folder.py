"""Writes the learner's folder of a deployed study of analyses: results, tables, raw answers, cost, transcripts, page.

The learner signs a list of all files except the page and `local`, as of every study (`folder`). The page can be written
anew from the files alone: `read_analyses_folder`.
"""

from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from expril.files import read_plain, write_private
from expril.report.document import Document
from expril.report.page import as_page
from expril.report.page_files import without_formula
from learner_node.analyses.asking import AnalysisStudy
from learner_node.analyses.results import Analyses, WrittenAnalyses, read_analyses, written_analyses
from learner_node.result.analyses_document import analyses_document
from learner_node.result.folder import DeployedStudy, cost_of, moment_of, pretty, sign_result
from protocol.errors import ConfigurationError
from protocol.run_index import ANALYSES, COST, PAGE, RESULTS, STUDY, file_name
from protocol.strict_json import MOST_BYTES, UNREADABLE, decode_json

TABLES = "tables"
_MOST_STEM = 200
"""Most bytes of a file's name before its ending and number; file systems allow 255 in all."""
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
    """CSV files of the parts' tables, by name; a number tells names apart that a file system may take for one.

    Names and levels come from others: none is a formula to a spreadsheet. A number that is not finite is left empty.
    """
    files: dict[str, bytes] = {}
    names: set[str] = set()
    for name, frame in analyses.to_frames().items():
        stem = file_name(name)[:100].encode()[:_MOST_STEM].decode(errors="ignore")
        stems = (f"{stem}{suffix}" for suffix in chain([""], (f"-{number}" for number in count(2))))
        stem = next(stem for stem in stems if stem.casefold() not in names)
        names.add(stem.casefold())
        files[f"{stem}.csv"] = _csv(frame)
    return files


def _csv(frame: pl.DataFrame) -> bytes:
    texts = pl.col(pl.String).map_elements(without_formula, pl.String)
    numbers = pl.col(pl.Float64)
    safe = frame.with_columns(texts, pl.when(numbers.is_finite()).then(numbers))
    return safe.rename(without_formula).write_csv().encode()


def read_analyses_folder(folder: Path) -> Document:
    """The document of a result's folder, from its files.

    Raises ConfigurationError: the folder holds no readable analyses.
    """
    try:
        facts = decode_json(read_plain(folder / RESULTS, most=MOST_BYTES), where=RESULTS)
        return analyses_document(facts, read_folder(folder))
    except ConfigurationError:
        raise
    except (OSError, *UNREADABLE) as error:
        raise _unreadable(folder, error) from None


def read_folder(folder: Path) -> Analyses:
    """The analyses of a result's folder, from its raw answers. Raises ConfigurationError: it holds none."""
    try:
        data = read_plain(folder / ANALYSES, most=MOST_BYTES)
    except OSError as error:
        raise _unreadable(folder, error) from None
    return read_analyses(decode_json(data, WrittenAnalyses, where=str(folder / ANALYSES)), where=ANALYSES)


def _unreadable(folder: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{folder} holds no readable analyses ({type(error).__name__})")
