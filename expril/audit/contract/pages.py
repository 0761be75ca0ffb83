"""The fixed form of a query kind's page: headings in their order, each with words below it.

It stands apart from the contract, since a page is written by people who run no kind. Ours are in docs/kinds.
"""

import re

HEADINGS = (
    "What is told",
    "From whom to whom",
    "Neighbours",
    "Cost",
    "Law of the noise",
    "Proof",
    "What it does not hide",
    "Known attacks and what they gain",
    "How it is audited",
)
LEAST_SENTENCE = 20
"""Characters of the shortest text below a heading, beside tables, code and headings within it."""
WORKED = "Cost"
"""The heading below which a fenced block shows a cost that can be computed again."""


def faults_of_page(text: str) -> list[str]:
    """Return what a page lacks of the fixed form, in words; nothing if it has it."""
    lines = _without_fences(text)
    faults = [] if lines[:1] and lines[0].startswith("# `") else ["begin with the line: # `name`: what it is"]
    headings = [line.removeprefix("## ").strip() for line in lines if line.startswith("## ")]
    faults += [f'the heading "{heading}" is missing' for heading in HEADINGS if heading not in headings]
    faults += [f'the heading "{heading}" is none of the form' for heading in headings if heading not in HEADINGS]
    if not faults and headings != list(HEADINGS):
        faults.append(f"put each heading there once, in this order: {', '.join(HEADINGS)}")
    faults += [f'below "{heading}" is no sentence' for heading in headings if not _has_sentence(lines, heading)]
    below = re.search(rf"^## {WORKED}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if below is not None and "```" not in below[1]:
        faults.append(f'below "{WORKED}" is no worked example in a fenced block')
    return faults


def _without_fences(text: str) -> list[str]:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()


def _has_sentence(lines: list[str], heading: str) -> bool:
    start = lines.index(f"## {heading}") + 1
    below = lines[start : next((at for at in range(start, len(lines)) if lines[at].startswith("## ")), len(lines))]
    words = " ".join(line for line in below if line and line[0] not in "|#>")
    return len(words.strip()) >= LEAST_SENTENCE and "TODO" not in words
