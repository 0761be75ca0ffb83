"""Hospitals with real records as site folders, and a learner's folder with its STUDY.toml, as a deployment has them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from curator_node.key_files import read_key, write_key
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SCHEMA
from curator_node.site import KEY, POLICY, open_site
from curator_node.steward.new_site import init_site
from deployed import ROOT, set_daemon, toml
from protocol.limits import Limits
from simulations.carriers.superlink import free_port
from simulations.records import load_records, split_records
from simulations.scenario import load_scenario


@dataclass
class Hospitals:
    """The sites of a built-in scenario as folders.

    Attributes:
        folders: by name.
        source: unlabelled records, of all of them.
        test: labelled records that no curator holds.
    """

    folders: dict[str, Path]
    source: pl.DataFrame
    test: pl.DataFrame
    label: str
    keys: dict[str, bytes] = field(default_factory=dict)

    def ledger(self, name):
        """Of a site that no process serves, checked."""
        with open_site(self.folders[name]) as site:
            return site.export()


def make_hospitals(base, learners, *, scenario="wdbc", link=None, only=None, secure=False, **policy):
    """Make the sites' folders; learners (name -> public key) may ask all of them.

    Args:
        base: folder to make them in.
        learners: name -> public key.
        scenario: a built-in one.
        link: a SuperLink that lets their nodes in.
        only: how many of the sites; None: all.
        secure: whether their policies list each other as members of secure sums.
        policy: of the `Policy`.
    """
    told, _, folder = load_scenario(scenario)
    parts = split_records(told, load_records(told, folder), 0)
    parts = dict(list(parts.items())[:only])
    rules = {"cap": 5, **policy}
    found = Hospitals(
        {name: base / name for name in parts},
        pl.concat([part.source for part in parts.values()]),
        pl.concat([part.test for part in parts.values()]),
        next(iter(parts.values())).steward.label,
    )
    known = tuple(LearnerPolicy(name=name, key=key.hex(), cap=rules["cap"]) for name, key in learners.items())
    for name, part in parts.items():
        site = base / name
        init_site(site, name, **({} if link is None else {"superlink": link.address, "ca": link.ca}))
        (site / POLICY).write_text(toml(Policy(name=name, learners=known, **rules)))
        (site / SCHEMA).write_text(toml(part.steward))
        part.private.write_parquet(site / "records.parquet")
        if link is not None:
            set_daemon(site, health_port=free_port())
            link.register(site / "node.pub")
        found.keys[name] = read_key(site / KEY).public
    if secure:
        members = [key.hex() for key in found.keys.values()]
        limits = Limits(kinds={"counts": {}, "secure_counts": {"members": members}})
        for name, site in found.folders.items():
            (site / POLICY).write_text(toml(Policy(name=name, learners=known, limits=limits, **rules)))
    return found


class LearnerFolder:
    """A learner's folder, and its command as a process."""

    def __init__(self, base, name="ada"):
        self.path = base / name
        self.name = name
        self.public = bytes.fromhex(write_key(self.path / "learner.pem"))

    def write(self, hospitals, link=None, *, folder=None, **more):
        """STUDY.toml and the source."""
        hospitals.source.drop(hospitals.label).write_csv(self.path / "source.csv")
        lines = ['title = "Who is ill"', 'purpose = "to test"', 'source = "source.csv"', f'learner = "{self.name}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in {"epsilon": 1, **more}.items()]
        if folder is not None:
            lines.append(f'folder = "{folder}"')
        lines += ["[curators]", *(f'{name} = "{key.hex()}"' for name, key in hospitals.keys.items())]
        if link is not None:
            lines += ["[superlink]", f'address = "{link.address}"', f'ca = "{link.ca}"', f'secret = "{link.secret}"']
        (self.path / "STUDY.toml").write_text("\n".join(lines))
        return self

    @property
    def result(self):
        return self.path / "result"

    def start(self, *options, processor=None):
        """The command as a process of its own; `processor` is environment that changes its floats."""
        command = [sys.executable, "-m", "expril", "learner", "run", str(self.path / "STUDY.toml"), "--json", *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0", **(processor or {})}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env, text=True
        )

    def run(self, *options, status=0, seconds=300):
        """Run it to its end; what it printed for machines."""
        with self.start(*options) as process:
            out, said = process.communicate(timeout=seconds)
        assert process.returncode == status, (process.returncode, out, said)
        return json.loads(out)


def expril(*arguments, status=0):
    """Run another command; its standard output."""
    command = [sys.executable, "-m", "expril", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0", "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout
