"""`expril new`: a generated package says what to fill in, and passes its tests and answers once that is done."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import strategies as st

from command_line import run
from expril.audit.contract.duties import judge
from expril.audit.contract.kinds import DUTIES, KindSubject
from expril.audit.contract.new_packages import SORTS, write_package
from expril.audit.contract.partitions import PARTITION_DUTIES, PartitionSubject
from expril.audit.contract.strategies import STRATEGY_DUTIES, StrategySubject
from plug_in_wheels import installed
from protocol.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
FILLED = {
    "kind": ("ten-more", "kind.py", "    return values > threshold\n"),
    "partition": ("ten-bins", "__init__.py", "    return np.clip(values // 10, 0, count - 1).astype(np.intp)\n"),
    "strategy": (
        "ten-shares",
        "__init__.py",
        "    ones, zeros = positive.clip(0) + 1, negative.clip(0) + 1\n    return ones / (ones + zeros)\n",
    ),
}
"""Name of a package, the file with its one function, and what an author writes there."""
MOST_FILES = {"kind": 11, "partition": 4, "strategy": 4}
ASKING = """
import sys

import numpy as np
import polars as pl
import pytest

from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from expril.packages import installed_packages
from learner_node.kinds import READERS
from learner_node.plug_ins import with_package
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.limits import Limits
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import NumericAttribute
from simulations.carriers.direct import direct_federation

learner = SigningKey.generate()
packages = installed_packages()
ages = np.linspace(1, 100, 400)
frame = pl.DataFrame({"age": ages, "sick": np.where(ages > 60, "yes", "no")})
schema = SchemaFile(
    label="sick", classes=("no", "yes"), attributes=(NumericAttribute("age", 0, 120),), round_size=400
)
rules = Policy(
    name="ward",
    cap="100",
    learners=(LearnerPolicy(name="ann", key=learner.public.hex(), cap="100"),),
    limits=Limits(kinds={"counts": {}, "ten-more": {}}),
    plug_ins=tuple(packages[f"expril-{name}"].plug_in for name in ("ten-more", "ten-bins")),
)
curators = {"ward": temporary_site(frame, schema, rules)}


def answer(package, planned, body):
    readers = with_package(READERS, packages[package])
    study = Study(direct_federation(curators, learner, readers=readers))
    study.read_cards()
    study.propose(Plan.of([planned]), "a test", ["ward"])
    study.ask({"ward": body})
    (answer,) = study.pooled(["ward"])
    study.close()
    assert study.spent("ward") == 1
    return answer


from expril_ten_bins import TenBins
from expril_ten_more.kind import PlannedTenMore, TenMoreBody

# Each check fails with a chance of e^-20 at most, by the law of the noise.
planned = PlannedTenMore(thresholds=2, scale=Rational(2, 1))
counts = answer("expril-ten-more", planned, TenMoreBody("age", (60.0, 200.0)))
assert abs(counts[0] - 161) < 50 and abs(counts[1]) < 50, counts
planned = PlannedCounts(release="mass", partitions=1, scale=Rational(1, 1))
cells = answer("expril-ten-bins", planned, CountsBody((TenBins("age", 12),), None))
assert abs(np.asarray(cells.values).ravel()[1] - 40) < 30, cells
source = pl.DataFrame({"age": np.linspace(0, 120, 50)})
learned = learn(direct_federation(curators, learner), source, Budget(1), strategy="ten-shares")
chances = learned.model().probability(encode_frame(pl.DataFrame({"age": [10.0, 95.0]}), learned.schema))
assert chances[0] < 0.5 < chances[1], chances
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", *sys.argv[1:]]))
"""
"""Asks all three in studies, and then runs their own tests."""


def fill_in(folder, sort):
    name, file, code = FILLED[sort]
    path = module(folder, name) / file
    text = path.read_text()
    start = text.index("    raise NotImplementedError(")
    path.write_text(text[:start] + code + text[text.index("\n", start) + 1 :])


def module(folder, name):
    return folder / f"expril_{name.replace('-', '_')}"


def install(folder, name, site):
    """As pip would from its wheel."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    inside = module(folder, name)
    modules = {f"{inside.name}/{path.name}": path.read_text() for path in inside.iterdir()}
    return installed(site, project["name"], project["version"], modules, project["entry-points"])


@pytest.mark.slow
def test_generated_packages_pass_their_tests_and_answer_once_their_function_is_filled_in(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    for sort, (name, *_) in FILLED.items():
        files = write_package(sort, name, tmp_path / name)
        assert len(files) == MOST_FILES[sort]
        fill_in(tmp_path / name, sort)
        install(tmp_path / name, name, site)
    asking = tmp_path / "asking.py"
    asking.write_text(ASKING)
    done = subprocess.run(
        [sys.executable, "-P", asking, *(tmp_path / name / "tests" for name, *_ in FILLED.values())],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT)))},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(DUTIES) + len(PARTITION_DUTIES) + len(STRATEGY_DUTIES)} passed" in done.stdout


def test_until_its_function_is_filled_in_a_package_says_which(tmp_path, monkeypatch):
    for sort, name in (("kind", "bare-kind"), ("partition", "bare-cells"), ("strategy", "bare-shares")):
        write_package(sort, name, tmp_path / name)
        monkeypatch.syspath_prepend(tmp_path / name)
    kind, partition, strategy = map(
        importlib.import_module, ("expril_bare_kind", "expril_bare_cells", "expril_bare_shares")
    )
    answerer, audit = (importlib.import_module(f"{kind.__name__}.{half}") for half in ("answerer", "audit"))
    draws = lambda schema: st.just(partition.BareCells(schema.attributes[0].name, 3))  # noqa: E731
    for duties, duty, subject, function in (
        (DUTIES, "sensitivity", KindSubject(audit.BARE_KIND_AUDIT, answerer.BARE_KIND_ANSWERER), "`counted`"),
        (PARTITION_DUTIES, "oracle", PartitionSubject(partition.BareCells, draws, lambda *_: 0), "`places`"),
        (STRATEGY_DUTIES, "model", StrategySubject(strategy.BareSharesStrategy), "`chances`"),
    ):
        (verdict,) = (judge(each, subject, {}) for each in duties if each.name == duty)
        assert not verdict.kept
        assert f"fill in {function} in expril_bare_" in verdict.text, verdict.line


def test_a_package_is_not_written_over_another_and_its_name_is_checked(tmp_path):
    run("new", "strategy", "ten", "--out", tmp_path / "ten")
    for arguments, told in [
        (("strategy", "ten"), "never overwritten"),
        (("strategy", "cells"), "already"),
        (("strategy", "Ten"), "lower-case"),
        (("strategies", "ten"), "none of them"),
    ]:
        with pytest.raises(ConfigurationError, match=told):
            write_package(*arguments, tmp_path / "ten")


@pytest.mark.parametrize("sort", SORTS)
def test_templates_are_code_of_our_style(sort, tmp_path):
    write_package(sort, "ten-more", tmp_path)
    for file in tmp_path.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
        assert max(map(len, file.read_text().splitlines())) <= 120, file
    assert "newname" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file()).lower()
