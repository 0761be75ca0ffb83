"""Lies that an author of a claim package can sign: each is found by who checks it."""

import shutil
from fractions import Fraction

import pytest

from run_forger import Forger, make_run
from simulations.audit.package.evidence import collect, replay
from simulations.audit.package.worlds import spent_by_curators

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A run of one repeat, and who can sign for it."""
    folder, run = make_run(tmp_path_factory.mktemp("run"), repeats=1)
    return folder, run.evidence.signers


def part_of(honest, target, who):
    """What one learner of a run hands over: its own transcripts, and no ledger."""
    folder, signers = honest
    forger = Forger(folder, target)
    forger.remove([line for line in forger.index["transcripts"] if line["learner"] != who])
    for line in forger.index["ledgers"]:
        (forger.folder / "ledgers" / line["file"]).unlink()
    forger.index["ledgers"] = []
    forger.index["participants"] = [
        line for line in forger.index["participants"] if line["role"] == "curator" or line["name"] == who
    ]
    for name in [name for name in forger.index["files"] if name in ("report.json", "scenario.toml")]:
        (forger.folder / name).unlink()
        del forger.index["files"][name]
    forger.relist({who: signers[who]})
    return forger.folder


def spent(paths, folder, *, one_curator_each):
    folder.mkdir()
    collect(paths, folder, receipts=(), witnessed=())
    curators = spent_by_curators(replay(folder), one_curator_each=one_curator_each)
    return {one.name: one.spent for one in curators}


def test_what_one_curator_spent_in_several_runs_adds_up(honest, tmp_path):
    parts = [part_of(honest, tmp_path / who, who) for who in sorted(honest[1])]
    assert len(parts) == 2
    one, other = (spent([part], tmp_path / f"of-{part.name}", one_curator_each=True) for part in parts)
    both = spent(parts, tmp_path / "both", one_curator_each=True)
    assert both == {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in one | other}
    assert max(both.values()) > max(*one.values(), *other.values())


def test_a_run_that_is_given_twice_with_its_ledgers_counts_what_they_say(honest, tmp_path):
    again = shutil.copytree(honest[0], tmp_path / "again")
    once = spent([honest[0]], tmp_path / "once", one_curator_each=False)
    assert spent([honest[0], again], tmp_path / "twice", one_curator_each=False) == once
