"""One page of each kind that ExPriL writes.

`written_pages` makes them in moments from reports that nobody ran; `run_pages` runs small scenarios on invented
patients, so that what a page shows of a real run, also what is new, is among them. Whoever adds a kind of page, or a
section that no page here has, adds it.
"""

import numpy as np
import test_analyses_page
import test_clinical_report
import test_report
import test_result_page

import audit_results
from expril.audit.document import audit_document
from expril.audit.package.checklist import checklist_document
from expril.report.page import as_page
from learner_node.result.document import study_document
from run_forger import make_run_of
from simulations.report.document import run_document
from simulations.report.epsilons import epsilon_document
from simulations.run_page import rewrite_page
from trees import ROOT

PUBLISHED = tuple(sorted((ROOT / "docs").rglob("report.html")))


def written_pages():
    """Name -> page of `written_documents`."""
    return {name: as_page(document) for name, document in written_documents().items()}


def written_documents():
    """Name -> document, made from fixed reports."""
    clinical = test_clinical_report
    validated = {"validation_text": "As told.", "population": "all three hospitals together"}
    errors = {"r2": [0.4, -0.2, 0.7], "mean_absolute_error": [3.25, 2.5, 4.0], "mean_squared_error": [16.0, 9.0, 25.0]}
    regression = test_report.make_learner(
        pooled=test_report.Score(value=-0.2, value_se=0.03, constant=0.0, regression=0.5, further=14, absolute=9.5)
    )
    failing = {
        "kinds": (audit_results.kind(), audit_results.kind("counts/new", violation=True, bound=0.5)),
        "controls": (audit_results.control(caught=False, bound=0.2),),
        "checks": (audit_results.check(passed=False),),
    }
    return {
        "several learners": run_document(test_report.three_learners()),
        "rare outcome": run_document(clinical.report()),
        "number": run_document(test_report.make_report(regression, measure="R²", further="RMSE")),
        "many curators": run_document(test_report.hundred_curators()),
        "failed": run_document(test_report.all_refused()),
        "hostile": run_document(test_report.hostile()),
        "several epsilons": epsilon_document(clinical.runs(("0.3", 0.5), ("1", 0.64), ("3", 0.68))),
        "study": study_document(test_result_page.told(**validated)),
        "study of a number": study_document(test_result_page.told(expected=None, expected_errors=errors)),
        "analyses": test_analyses_page.document(),
        "audit": audit_document(audit_results.full_audit(), command="expril audit all"),
        "audit that fails": audit_document(audit_results.audit(**failing)),
        "checklist": checklist_document(audit_results.package_facts()),
    }


PATIENTS = 900
RECORDS = """\
description = "Invented patients."
label = "{label}"
{kind}
unit = "patient"
[[attributes]]
name = "age"
kind = "numeric"
lower = 18
upper = 100
[[attributes]]
name = "pressure"
kind = "numeric"
lower = 40
upper = 220
[[attributes]]
name = "creatinine"
kind = "numeric"
lower = 0
upper = 10
[[attributes]]
name = "ward"
kind = "categorical"
levels = ["internal medicine", "surgery", "intensive care"]
"""
LABELS = {
    "died": 'classes = ["no", "yes"]',
    "readmitted": 'classes = ["no", "yes"]',
    "went": 'classes = ["home", "rehabilitation", "another hospital", "died"]',
    "days": "label_bounds = [0, 60]",
}
SCENARIO = """\
title = "{title}"
description = "Invented patients of three hospitals."
repeats = 2
seed = 1
{noise}
[data]
path = "patients.csv"
schema = "{label}.toml"
[data.sites]
how = "random"
fractions = {{ "Hospital of the Holy Spirit, Department of Internal Medicine" = 0.4, north = 0.35, south = 0.25 }}
[[curators]]
name = "*"
cap = 2
round_size = 130
{learners}
"""
ADA = '[[learners]]\nname = "ada"\npurpose = "To plan beds."\n'
GRACE = '[[learners]]\nname = "grace"\nepsilon = "1/2"\nstrategy = "paper-c"\noptions = { epochs = 1, hidden = [2] }\n'
FAULT = '[[faults]]\ncurator = "{}"\nkind = "{}"\nround = {}\n'
FAULTS = FAULT.format("north", "vanish", 2) + FAULT.format("south", "late", 1)
ANALYSES = """
[[learners.analyses]]
kind = "effects"
name = "Death in intensive care"
exposure = "ward"
exposed = "intensive care"
outcome = "died"
event = "yes"
[[learners.analyses]]
kind = "regression"
name = "What goes with death"
model = "logistic"
outcome = "died"
covariates = [{ variable = "ward" }, { variable = "age", edges = [50, 70] }]
[[learners.analyses]]
kind = "table_one"
name = "Who they are"
group = "died"
attributes = ["age", "ward"]
edges = { age = [40, 50, 60, 70, 80] }
[[learners.analyses]]
kind = "counts"
name = "Age and ward"
by = ["age", "ward"]
edges = { age = [50, 70] }
"""
RUNS = {
    "two classes": ("died", f"{ADA}epsilon = 1\n"),
    "rare outcome": ("readmitted", f"{ADA}epsilon = 1\n"),
    "several classes": ("went", f"{ADA}epsilon = 1\n"),
    "number": ("days", f"{ADA}epsilon = 1\n"),
    "additive": ("died", f'{ADA}epsilon = 1\nstrategy = "additive"\n'),
    "validated": ("died", f'{ADA}epsilon = "1/2"\nvalidate = "1/2"\nrecalibrate = true\n'),
    "secure": ("died", f'{ADA}epsilon = "1/2"\npooling = "secure"\n'),
    "run of analyses": ("died", f"{ADA}epsilon = 1\n{ANALYSES}"),
    "failed in part": ("died", f"{ADA}epsilon = 1\n{GRACE}{FAULTS}"),
}
"""Name of a run's page -> the label that is learnt, and the learners."""


def write_patients(folder):
    """Write invented patients and a schema for each of their labels."""
    rng = np.random.default_rng(7)
    age, pressure = rng.uniform(20, 95, PATIENTS), rng.normal(120, 25, PATIENTS)
    creatinine, ward = rng.gamma(2, 0.6, PATIENTS), rng.integers(3, size=PATIENTS)
    risk = (age - 60) / 15 + creatinine - 1.5 + 0.8 * (ward == 2) + rng.normal(0, 0.8, PATIENTS)
    went = np.digitize(risk, np.quantile(risk, [0.5, 0.75, 0.88]))
    columns = {
        "patient": np.arange(PATIENTS).astype(str),
        "age": age.round(1),
        "pressure": pressure.round(),
        "creatinine": creatinine.round(2),
        "ward": np.array(["internal medicine", "surgery", "intensive care"])[ward],
        "died": np.where(risk > np.quantile(risk, 0.7), "yes", "no"),
        "readmitted": np.where(risk > np.quantile(risk, 0.93), "yes", "no"),
        "went": np.array(["home", "rehabilitation", "another hospital", "died"])[went],
        "days": np.clip(8 + 5 * risk + rng.normal(0, 3, PATIENTS), 0, 60).round(1),
    }
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / "patients.csv").write_text("\n".join(lines) + "\n")
    for label, kind in LABELS.items():
        (folder / f"{label}.toml").write_text(RECORDS.format(label=label, kind=kind))


def run_page(base, name):
    """The path of the page of a small run of `RUNS`."""
    folder = base / name.replace(" ", "-")
    folder.mkdir(parents=True)
    write_patients(folder)
    label, learners = RUNS[name]
    text = SCENARIO.format(title=name, label=label, noise="", learners=learners)
    return rewrite_page(make_run_of(text, folder)[0])
