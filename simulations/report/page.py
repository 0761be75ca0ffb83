"""The page: the numbers of a run as one HTML file that needs nothing else.

The text of a report (names, notes, configuration) is untrusted. It reaches the page through one door, a Jinja template
with autoescape; no other module here writes markup. The page's content security policy allows its own script by
digest and no request at all, so a slip in the template would still load and run nothing.
"""

import base64
import hashlib
from functools import cache
from pathlib import Path

from markupsafe import Markup

from curator_node.new_files import replace_text
from expril.report.chart import Key
from expril.report.templates import Template, asset, page_template, style
from protocol.rationals import written
from simulations.report import plots, rows
from simulations.report.clinical_plots import calibration_figure, roc_figure
from simulations.report.folding import FEW, fold_notes
from simulations.report.lead import led
from simulations.report.model import RunReport
from simulations.report.parts import panels
from simulations.report.validated import validation_figures
from simulations.report.words import WORDS, answered, headline, plain, private_records, runs, summary, told, verdict

PACKAGE = "simulations.report"


@cache
def _template() -> Template:
    return page_template(
        PACKAGE,
        {
            "answered": answered,
            "asides": rows.asides,
            "told": lambda expected, score: told(expected, score, short=True),
            "plain": plain,
            "written": written,
            "runs": runs,
            "share_rows": rows.share_rows,
            "strip": plots.strip,
            "verdict": verdict,
        },
    )


def build_page(report: RunReport) -> str:
    """Return the page of a run as one HTML document that loads nothing.

    The same report gives the same text. Every string of the report is treated as untrusted and is shown as text.
    """
    words = WORDS[report.lead]
    shown = led(report)
    axis = plots.accuracy_axis(score for x in shown.learners for score in (x.pooled, *x.sites))
    budget_axis = plots.budget_axis(report.curators)
    indices = rows.indices(report)
    groups = rows.site_groups(report)
    crowded = len(groups) > FEW
    script = asset("expril.report", "page.js")
    return _template().render(
        report=report,
        shown=shown,
        words=words,
        words_of=WORDS,
        asides=rows.aside_names(report),
        roc=roc_figure(report.learners),
        calibration=calibration_figure(report.learners, report.prevalence),
        clinical_keys=_clinical_keys(report),
        counts=rows.record_counts(report),
        headline=headline(report),
        summary=summary(report),
        alarms=rows.budget_alarms(report),
        notes=fold_notes(report.notes, (curator.name for curator in report.curators)),
        axis=axis,
        single=len(report.learners) == 1,
        groups={} if crowded else groups,
        crowds=rows.crowds(report, axis) if crowded else (),
        sites=len(groups),
        private_records=private_records(report),
        curve=plots.curve_plot(shown.learners, words),
        curve_keys=[
            Key(n, False, learner.learner, text=plain(learner.curve[-1]))
            for n, learner in enumerate(shown.learners)
            if learner.curve
        ],
        parts=[found for n, x in enumerate(report.learners) if (found := panels(n, x.learner, x.parts))],
        validations=[
            drawn for n, x in enumerate(report.learners) if (drawn := validation_figures(n, x.learner, x.validation))
        ],
        budget_axis=budget_axis,
        budgets=rows.budget_rows(report, indices, budget_axis),
        spenders=[Key(index, False, name) for name, index in sorted(indices.items(), key=lambda item: item[1])],
        answers=rows.answers(report),
        style=style(PACKAGE),
        script=Markup(script),  # noqa: S704 - our own file, not the report's text
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _clinical_keys(report: RunReport) -> list[Key]:
    """Of the ROC and calibration curves."""
    scored = [(n, one.learner, one.pooled) for n, one in enumerate(report.learners) if one.pooled.auc is not None]
    keys = [Key(n, False, name, text=f"AUC {score.auc:.3f}") for n, name, score in scored]
    best = next((score.auc_ceiling for _, _, score in scored if score.auc_ceiling is not None), None)
    if best is not None:
        keys.append(Key(len(report.learners), True, "in-site ceiling", text=f"AUC {best:.3f}"))
    return keys


def write_page(report: RunReport, path: Path) -> None:
    """Write the page of a run to a file (UTF-8)."""
    replace_text(path, build_page(report))
