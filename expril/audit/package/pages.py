"""The checklist as a page, and the few lines that a stranger reads first."""

from functools import cache
from itertools import groupby

from expril.audit.package.checklist import BLOCKS, OUTSIDE, ROWS
from expril.report.numbers import count
from expril.report.templates import Template, page_template, style

PACKAGE = "expril.audit.package"

README = """\
What this is: a claim of differential privacy with all that proves it. To check it takes no data and no network,
and the check says what still rests on somebody's word.

Check it on any machine with ExPriL and its extras "simulations" and "audit":

    expril audit check-package THIS_FOLDER --key KEY

KEY is the packager's public key, from elsewhere than this folder: {key}

deployment.yaml    the entry for a registry of deployments: who, what, epsilon
checklist.html     what an evaluator asks (NIST SP 800-226), and where each answer is proven
audit.html         the attack on every release, for people; audit.json for machines
exact.json         losses of the releases, by enumeration
false-alarms.json  how often the attack accuses correct software, measured
ledger.json        what each curator spent, recomputed; claim.json the claim itself
facts.json         what only people know, in their words
evidence/          signed messages and ledger exports, from which ledger.json is recomputed
manifest.json      hashes of all files; manifest.sig its signature
"""


@cache
def _template() -> Template:
    return page_template(PACKAGE)


def checklist_page() -> str:
    """The checklist as one HTML document that runs nothing and loads nothing."""
    rows = sorted(ROWS, key=lambda row: -BLOCKS.index(row.block))
    outside = sum(row.proof == OUTSIDE for row in ROWS)
    return _template().render(
        headline="What an evaluator asks, and where it is proven",
        summary=(
            f"{count(len(ROWS), 'question')} along the pyramid of NIST SP 800-226, from its top down.",
            f"{len(ROWS) - outside} lead to a test or a proof, {outside} are outside of what software can answer.",
        ),
        blocks=[(block, list(group)) for block, group in groupby(rows, key=lambda row: row.block)],
        outside=OUTSIDE,
        style=style(PACKAGE),
    )


def readme(key: str) -> str:
    """`README.txt` of a package.

    Args:
        key: the packager's public key, hexadecimal.
    """
    return README.format(key=key)
