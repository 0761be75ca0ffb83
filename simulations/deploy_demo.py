"""A deployment on this machine, shown from end to end: `make deploy-demo`.

A SuperLink with TLS and node authentication, three hospitals with a daemon each, and two learners who run their studies
at the same time. All of them are separate processes, and every step is the command that a person would type. In the end
the demonstration, which owns all records, scores the learners' models. The records come with scikit-learn, so no data
file and no network is needed.
"""

import argparse
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from curator_node.daemon.settings import NODE_PUBLIC
from curator_node.records.schema_file import SCHEMA
from curator_node.site import POLICY
from expril.report.table import text_table
from expril.report.terminal import rich_table
from learner_node.models.files import load_model
from protocol.errors import ConfigurationError, ExprilError
from simulations.carriers.processes import Processes, environment, guarded
from simulations.carriers.sites import as_toml
from simulations.carriers.superlink import SuperLink
from simulations.records import SiteRecords, load_records, split_records
from simulations.references import Answers, labelled, references
from simulations.run_folder import claim_folder, stamped
from simulations.scenario import load_scenario
from simulations.scoring import score

SCENARIO, HOSPITALS, NEWCOMER = "wdbc-faults", ("north", "east", "south"), "west"
"""Scenario whose record split is used, and the names of its hospitals."""
CAP, TEMPLATE_CAP = "cap = 2\n", "cap = 1\n"
STUDY_SECONDS = 900.0
"""Seconds allowed for both studies, which take a minute on an idle machine."""
JOINING = "joining"
JOIN_SECONDS = 6 * 3600.0
"""Seconds allowed for a fourth hospital to join."""
PURPOSE = "Tell malignant from benign aspirates."


@dataclass(frozen=True)
class Learner:
    """A learner of the demonstration, and its study."""

    name: str
    epsilon: Fraction  # of the study
    more: str = ""  # further lines of the study's file


LEARNERS = (
    Learner("ada", Fraction(1)),
    Learner("grace", Fraction(1, 2), 'validate = "1/4"\n'),
)
KIM = Learner("kim", Fraction(1))
"""The learner that asks the joining hospital."""
STUDY = """title = "{name}'s study"
purpose = "{purpose}"
learner = "{name}"
source = "source.csv"
epsilon = "{epsilon}"
{more}
[curators]
{curators}
[superlink]
address = "{address}"
ca = "{ca}"
secret = "{secret}"
"""


class Demo:
    """The demonstration in a folder.

    Args:
        folder: for everything that it leaves; empty.
        say: called with each line.
        join: whether it then waits for a fourth hospital, which a person sets up.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], *, join: bool = False) -> None:
        self._folder = folder
        self._say = say
        self._join = join
        self._began = time.monotonic()
        scenario, _, base = load_scenario(SCENARIO)
        parts = split_records(scenario, load_records(scenario, base), 0)
        self._sites: dict[str, SiteRecords] = {name: parts[name] for name in HOSPITALS}
        self._newcomer = parts[NEWCOMER]

    def run(self) -> None:
        """Run all steps; every process that was started is stopped, whatever happens.

        Raises ConfigurationError: a step failed; the text is its error.
        """
        self._head(f"A SuperLink with TLS and node authentication; everything is in {self._folder}")
        with SuperLink(self._folder / "superlink") as link, Processes(self._folder) as daemons:
            self._say(f"it answers at {link.address}, certified by superlink/ca.crt")
            self._head("Three hospitals: each steward makes a folder, writes a policy and puts the records there")
            nodes = {self._prepare_site(name, link) for name in HOSPITALS}
            self._head("Two learners: each makes a key, and sends its card; stewards compare fingerprints by telephone")
            for learner in LEARNERS:
                fingerprint = self._prepare_learner(learner, link, {name: f"../../{name}.card" for name in HOSPITALS})
                for name in HOSPITALS:
                    how = ("--cap", "1", "--fingerprint", fingerprint)
                    self._expril("curator", "enrol", f"curators/{name}", f"{learner.name}.card", *how)
                self._say(f"{learner.name}: enrolled by all three")
            self._head("Three daemons start, and connect to the SuperLink")
            for name in HOSPITALS:
                self._show("curator", "serve", f"curators/{name}")
                daemons.start(f"curator-{name}", "expril", "curator", "serve", str(self._folder / "curators" / name))
            daemons.wait(lambda: link.online() >= nodes, "to start the daemons")
            self._say("all of them are connected; what they log is in curator-*.log")
            self._head("Both studies at once; this is all that the learners can know")
            self._study(daemons, LEARNERS)
            self._head("What stewards see: who may ask, what is spent and left")
            self._say(self._expril("curator", "learners", f"curators/{HOSPITALS[0]}"))
            if self._join:
                self._let_join(link, daemons)
        self._head("The SuperLink and the daemons are stopped. What each learner holds proves what it cost")
        for learner in LEARNERS:
            output = self._expril("audit", "run", f"learners/{learner.name}/result")
            self._say(next((line.strip() for line in output.splitlines() if "transcripts:" in line), output))
        self._head("What no learner can know: the models on records that were held out, by this harness")
        self._score()
        self._head(f"Done; remove it all by: rm -r {self._folder}")

    def _prepare_site(self, name: str, link: SuperLink) -> int:
        """Make a hospital's folder; return Flower's number of its node."""
        folder, site = self._folder / "curators" / name, self._sites[name]
        schema = self._folder / f"{name}.schema.toml"
        schema.write_text(as_toml(site.steward), encoding="utf-8")
        where = ("--superlink", link.address, "--ca", "superlink/ca.crt", "--schema", schema.name)
        self._expril("curator", "init", f"curators/{name}", "--name", name, *where)
        schema.unlink()
        policy = folder / POLICY
        policy.write_text(policy.read_text(encoding="utf-8").replace(TEMPLATE_CAP, CAP, 1), encoding="utf-8")
        site.private.write_parquet(folder / "records.parquet")
        self._expril("curator", "card", f"curators/{name}", "--out", f"{name}.card")
        node = link.register(folder / NODE_PUBLIC)
        self._say(f"{name}: {POLICY} ({CAP.strip()}), {SCHEMA}, records.parquet; the SuperLink lets its node in")
        return node

    def _prepare_learner(self, learner: Learner, link: SuperLink, cards: Mapping[str, str]) -> str:
        """Make a learner's folder; return the fingerprint of its key."""
        folder = self._folder / "learners" / learner.name
        self._expril("learner", "init", f"learners/{learner.name}")
        card = ("--name", learner.name, "--out", f"{learner.name}.card")
        output = self._expril("learner", "card", f"learners/{learner.name}/learner.pem", *card)
        fingerprint = output.split("fingerprint", 1)[1].split("\n\n")[0].strip()
        label = self._sites[HOSPITALS[0]].steward.label
        source = pl.concat([site.source for site in self._sites.values()]).drop(label)
        source.write_csv(folder / "source.csv")
        (folder / "STUDY.toml").write_text(
            STUDY.format(
                name=learner.name,
                purpose=PURPOSE,
                epsilon=learner.epsilon,
                more=learner.more,
                curators="".join(f'{name} = "{card}"\n' for name, card in cards.items()),
                address=link.address,
                ca="../../superlink/ca.crt",
                secret=f"../../superlink/{link.secret.name}",
            ),
            encoding="utf-8",
        )
        self._say(f"{learner.name}: key, card, {source.height} unlabelled records, STUDY.toml")
        return fingerprint

    def _let_join(self, link: SuperLink, daemons: Processes) -> None:
        """Wait for a fourth hospital's files, admit its node, and have a learner ask it."""
        folder = self._folder / JOINING
        folder.mkdir()
        public, card = folder / "node.pub", folder / "curator.card"
        self._head(f"A fourth hospital may join, as docs/administrator/administration.md tells; see {folder}")
        (folder / "schema.toml").write_text(as_toml(self._newcomer.steward), encoding="utf-8")
        self._newcomer.private.write_csv(folder / "records.csv")
        (folder / link.ca.name).write_bytes(link.ca.read_bytes())
        fingerprint = self._prepare_learner(KIM, link, {NEWCOMER: f"../../{JOINING}/{card.name}"})
        (folder / f"{KIM.name}.card").write_bytes((self._folder / f"{KIM.name}.card").read_bytes())
        self._say(
            f"the SuperLink is {link.address}; {KIM.name}, who wants to ask, reads {fingerprint} to its steward\n"
            f"it finds schema.toml, records.csv, {link.ca.name} and {KIM.name}.card there; it puts {public.name} and "
            f"{card.name} there, and serves; Ctrl-C ends this"
        )
        join = partial(daemons.wait, purpose="to join", seconds=JOIN_SECONDS, interval=0.5)
        join(public.is_file)
        node = link.register(public)
        self._say(f"{public.name} is there: the SuperLink lets the node in")
        join(card.is_file)
        join(lambda: node in link.online())
        self._say(f"{card.name} is there, and the daemon is connected")
        self._study(daemons, (KIM,))

    def _study(self, daemons: Processes, learners: Sequence[Learner]) -> None:
        """Run the learners' processes, and relay their lines."""
        running = {learner.name: self._start_learner(learner) for learner in learners}
        try:
            end = time.monotonic() + STUDY_SECONDS
            while any(process.poll() is None for process in running.values()):
                daemons.check()
                if time.monotonic() > end:
                    raise ConfigurationError(f"a study took longer than {STUDY_SECONDS:.0f} s")
                time.sleep(0.1)
        finally:
            for process in running.values():
                process.terminate()
                process.wait()
        for name, process in running.items():
            if process.returncode:
                raise ConfigurationError(f"{name}'s study ended with status {process.returncode}")

    def _start_learner(self, learner: Learner) -> subprocess.Popen[str]:
        arguments = ("learner", "run", f"learners/{learner.name}/STUDY.toml")
        self._show(*arguments)
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            guarded(sys.executable, "-m", "expril", *arguments),
            cwd=self._folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._relay, args=(learner.name, process), daemon=True).start()
        return process

    def _relay(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            self._say(f"{name:<6}| {line.rstrip()}")

    def _score(self) -> None:
        by_site, pooled = references(self._sites)
        rows = []
        for learner in LEARNERS:
            answers = self._answers(self._folder / "learners" / learner.name / "result" / "models")
            rows.append((f"{learner.name}, epsilon {learner.epsilon}", *_scores(answers, answers)))
        for kind in ("majority", "regression"):
            answers, site_answers = (
                {name: getattr(reference, kind) for name, reference in group.items()} for group in (pooled, by_site)
            )
            rows.append((kind, *_scores(answers, site_answers)))
        note = "accuracy; regression: logistic, no privacy, of all records or a hospital's own"
        table = text_table("", ("", "all three", *HOSPITALS), rows, numbers=True, note=note)
        console = Console(width=100)
        with console.capture() as capture:
            console.print(rich_table(table))
        self._say(capture.get().rstrip())

    def _answers(self, models: Path) -> dict[str, Answers]:
        (path,) = models.iterdir()
        model = load_model(path)
        answers = {}
        for name, site in self._sites.items():
            test = labelled(site.test, site)
            chances = model.predict_proba(site.test.drop(site.steward.label))
            answers[name] = Answers(test.labels, np.argmax(chances, axis=1).astype(test.labels.dtype), chances)
        return answers

    def _expril(self, *arguments: str) -> str:
        """Run a command to its end; return its output."""
        self._show(*arguments)
        process = subprocess.run(  # noqa: S603 - our own arguments
            guarded(sys.executable, "-m", "expril", *arguments),
            cwd=self._folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            raise ConfigurationError(f"expril {shlex.join(arguments)}: {process.stderr.strip()}")
        return process.stdout + process.stderr

    def _show(self, *arguments: str) -> None:
        self._say(f"$ expril {shlex.join(arguments)}")

    def _head(self, text: str) -> None:
        self._say(f"\n[{time.monotonic() - self._began:5.0f} s] {text}")


def _scores(pooled: Mapping[str, Answers], by_site: Mapping[str, Answers]) -> list[str]:
    values = [score(pooled), *(score({name: by_site[name]}) for name in HOSPITALS)]
    return ["-" if value is None else f"{value:.3f}" for value in values]


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m simulations.deploy_demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where its folder is made")
    parser.add_argument("--join", action="store_true", help="then wait for a fourth hospital, which you set up")
    options = parser.parse_args(arguments)
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    try:
        Demo(claim_folder(options.out.resolve(), "{}", stamped("deploy-demo")), say, join=options.join).run()
    except ExprilError as error:
        say(f"error {error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted; what was started is stopped")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
