"""Writes the learner's folder of a study of one question: what was said, cost, transcripts and page.

The learner signs a list of all files except the page and `local`, as of every study (`folder`).
"""

import json
from pathlib import Path
from typing import Any

from expril.files import write_private
from expril.report.document import PAPER, Code, Document, Section, Text
from expril.report.page import as_page
from learner_node.questions.plain_question import PlainAnswers, presented
from learner_node.result.document import cost_section, left_out_section, receipts_section
from learner_node.result.folder import DeployedStudy, cost_of, moment_of, pretty, sign_result
from protocol.run_index import COST, PAGE, RESULTS, STUDY

Object = dict[str, Any]


def save_question(deployed: DeployedStudy, answered: PlainAnswers, folder: Path) -> Object:
    """Write all files of a result, replacing an earlier one; return the JSON object for programs.

    Raises OSError: a file cannot be written.
    """
    write_private(folder / STUDY, deployed.text)
    facts = question_object(deployed, answered)
    write_private(folder / COST, pretty(facts["cost"]))
    write_private(folder / RESULTS, pretty(facts))
    sign_result(deployed, [answered.study], folder)
    write_private(folder / PAGE, as_page(question_document(facts)).encode())
    return facts


def question_object(deployed: DeployedStudy, answered: PlainAnswers) -> Object:
    """The result as one JSON object."""
    file, study = deployed.study, answered.study
    reader = study.readers[answered.question.kind]
    show = reader.show or presented
    return {
        "title": file.title,
        "purpose": file.purpose,
        "learner": file.learner,
        "expril": deployed.version,
        "finished": moment_of(deployed),
        "question": presented(answered.question),
        "pooled": [show(answer) for answer in answered.pooled],
        "answers": {name: [show(answer) for answer in turns] for name, turns in answered.answers.items()},
        "pooling": file.pooling,
        "left_out": dict(study.left_out),
        "answered_late": {name: times for name, times in study.asked_again.items() if times},
        "not_private": [name for name, session in study.sessions.items() if session.not_private],
        "cards": {
            name: {"unit": card.unit, "records": card.most_records_per_unit, "cap": card.cap}
            for name, card in study.cards.items()
        },
        "cost": cost_of(deployed, [("fit", study, answered.epsilon_claimed)]),
    }


def question_document(facts: Object) -> Document:
    """The document made from `question_object`."""
    signed = (
        f"These curators signed their answers as not private, as simulations do: {', '.join(facts['not_private'])}."
    )
    answers = {"all together": facts["pooled"], **facts["answers"]}
    return Document(
        kind="ExPriL question",
        subject=facts["learner"],
        headline=facts["title"],
        created=facts["finished"],
        banner=("Not private.", signed) if facts["not_private"] else None,
        sections=[
            Section("What was asked", [Code(json.dumps(facts["question"], indent=2))], PAPER),
            *(
                Section(f"What was said: {name}", [Code(json.dumps(turns, indent=2))])
                for name, turns in answers.items()
            ),
            cost_section(facts),
            left_out_section(facts, "Who is not counted"),
            receipts_section(facts["cost"]["curators"]),
            Section("Where this comes from", [Text(f"ExPriL {facts['expril']}."), Code("expril audit run FOLDER")]),
        ],
    )
