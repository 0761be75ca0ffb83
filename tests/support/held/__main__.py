"""Compare what two commits' commands print and write, on this machine: `make held BASE=commit` (HEAD by default).

A tool for a change that must change nothing: floats are compared to the last digit, so it speaks of this machine alone.
Randomness, keys and clock repeat themselves (sitecustomize.py), and nothing of the project is imported: what is held is
commands, bytes and files, and it survives any renaming within. Exit status 1 where anything differs.
"""

import argparse
import difflib
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NOISE = "noise_seed = 7\nrepeats = 1\n"
REAL = ("ctg", "ctg-astv", "ctg3", "heart", "wdbc-faults", "wdbc-shift", "heart-validated")
"""Built-in scenarios beside wdbc; most need EXPRIL_DATA_DIR."""
KINDS = ("counts", "model", "statistic")
"""Query kinds that strategies ask."""
BESIDE = ROOT.parent / "shared" / "data"
"""Real records, where the variable does not say otherwise."""
LINES = 40
"""Of a difference that are shown."""
CHANGING = (
    (re.compile(r'("?(?:seconds|took|duration)"?\s*[:=]\s*)[\d.]+'), r"\1<seconds>"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|seconds|minutes)\b"), "<seconds>"),
)
"""What no two runs share."""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A tree of that commit, for a while."""
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


class Tree:
    """A commit's commands, run in a folder of their own."""

    def __init__(self, tree: Path, out: Path) -> None:
        self.tree, self.out = tree, out
        out.mkdir()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        wide = {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONHASHSEED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
        path = {"PYTHONPATH": os.pathsep.join([str(HERE), str(tree)]), "EXPRIL_HELD": "1"}
        data = {"EXPRIL_DATA_DIR": str(BESIDE)} if BESIDE.is_dir() else {}
        self.environment = data | os.environ | threads | wide | path

    def run(self, name: str, *command: str) -> str:
        """Keep what a command prints, and return it."""
        sys.stdout.write(f"  {name}\n")
        sys.stdout.flush()
        done = subprocess.run(
            [sys.executable, *command], cwd=self.out, env=self.environment, text=True, capture_output=True, check=False
        )
        told = f"{done.stdout}{done.stderr}exit {done.returncode}\n".replace(str(self.out), "<folder>")
        (self.out / f"{name}.txt").write_text(told, encoding="utf-8")
        return done.stdout

    def expril(self, name: str, *command: str) -> str:
        """Likewise for `expril`."""
        return self.run(name, "-m", "expril", *command)

    def everything(self) -> None:
        """Commands, studies, published documents and bytes of the wire."""
        self.expril("help", "--help")
        self.expril("scenarios", "scenarios")
        wdbc = self.expril("scenarios wdbc", "scenarios", "wdbc")
        self.scenario("wdbc", wdbc)
        limits = "".join(f"[curators.limits.kinds.{kind}]\n" for kind in KINDS)
        open_to_all = re.sub(r"(?<=\n)(round_size = \d+\n)", rf"\1{limits}", wdbc)
        for name in self.strategies(wdbc):
            self.scenario(name, open_to_all.replace('strategy = "cells"', f'strategy = "{name}"'))
        self.scenario("secure", wdbc.replace('strategy = "cells"\n', 'strategy = "cells"\npooling = "secure"\n'))
        for name in REAL:
            self.scenario(name, self.expril(f"scenarios {name}", "scenarios", name))
        shutil.copytree(self.tree / "docs" / "tour", self.out / "tour")
        self.scenario("own", (self.out / "tour" / "own.toml").read_text(encoding="utf-8"), base="tour")
        self.expril("quote", "quote", "wdbc", "--json")
        self.published()
        self.wire()

    def strategies(self, text: str) -> list[str]:
        """All but `cells`, as the refusal of an unknown one lists them."""
        (self.out / "none.toml").write_text(text.replace('strategy = "cells"', 'strategy = "none"'), encoding="utf-8")
        refusal = self.expril("strategies", "simulate", "none.toml", "--json")
        listed = re.search(r"known: ([\w, -]+)", refusal)
        return [name for name in listed[1].split(", ") if name != "cells"] if listed else []

    def scenario(self, name: str, text: str, base: str = ".") -> None:
        """Run it once with noise that repeats itself, and read what it left."""
        text = re.sub(r"^(repeats|noise_seed) = .*\n", "", text, flags=re.MULTILINE)
        (self.out / f"{name}.toml").write_text(NOISE + text, encoding="utf-8")
        self.expril(f"simulate {name}", "simulate", f"{name}.toml", "--json", "--out", f"runs/{name}", "--base", base)
        for run in sorted((self.out / "runs" / name).glob("*/")):
            self.expril(f"audit {name}", "audit", "run", str(run.relative_to(self.out)), "--json")
            for ledger in sorted(run.glob("ledgers/*.ledger"))[:1]:
                self.expril(f"ledger {name}", "ledger", "show", str(ledger.relative_to(self.out)))

    def published(self) -> None:
        """Documents that a command writes anew from cells that are kept in the tree, and computes none.

        A tree without a laboratory has a command of its own for them; the files are compared in any case.
        """
        docs = "docs/results" if (self.tree / "docs" / "results").is_dir() else "docs"  # as commits before had it
        name = f"{docs}/reproduction"
        shutil.copytree(self.tree / name, self.out / name)
        if (self.tree / "lab").is_dir():
            self.run("docs reproduction", "-m", "lab", "study", "reproduction", "--rewrite", "--out", docs)
        else:
            self.expril("docs reproduction", "reproduce", "table2", "--out", name)

    def wire(self) -> None:
        """Vectors, as this commit's generator writes them."""
        shutil.copytree(self.tree / "tests" / "protocol" / "vectors", self.out / "vectors")
        self.run("wire", "vectors/generate.py", "vectors")


def told(path: Path) -> list[str]:
    """A file as lines that may be compared: text without what always changes, other bytes by their digest."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return [f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"]
    for pattern, placeholder in CHANGING:
        text = pattern.sub(placeholder, text)
    return text.splitlines()


def files(folder: Path) -> dict[str, Path]:
    """Every file, by its place without stamps."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = str(path.relative_to(folder))
            for pattern, placeholder in CHANGING:
                name = pattern.sub(placeholder, name)
            found[name] = path
    return found


def differences(base: Path, here: Path) -> int:
    """How many files differ; each is shown."""
    then, now = files(base), files(here)
    count = 0
    for name in sorted(then.keys() | now.keys()):
        if name not in then or name not in now:
            sys.stdout.write(f"\n{name}: only {'here' if name in now else 'at the base'}\n")
        elif (one := told(then[name])) != (other := told(now[name])):
            lines = list(difflib.unified_diff(one, other, "base", "here", lineterm="", n=1))
            more = [f"... {len(lines) - LINES} lines more"] if len(lines) > LINES else []
            sys.stdout.write("\n".join([f"\n{name}:", *(line[:200] for line in lines[:LINES]), *more, ""]))
        else:
            continue
        count += 1
    sys.stdout.write(f"\n{count} of {len(then.keys() | now.keys())} files differ\n")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--base", default="HEAD", help="the commit to compare with; HEAD by default")
    parser.add_argument("--keep", type=Path, help="a folder that keeps what both printed and wrote")
    options = parser.parse_args()
    with checked_out(options.base) as tree, tempfile.TemporaryDirectory(prefix="held-") as scratch:
        out = options.keep or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        for name, each in {"base": tree, "here": ROOT}.items():
            sys.stdout.write(f"{name}\n")
            Tree(each, out / name).everything()
        return bool(differences(out / "base", out / "here"))


if __name__ == "__main__":
    sys.exit(main())
