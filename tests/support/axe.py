"""axe-core, which finds what keeps a page from readers with a screen reader, a keyboard or weak eyes.

No part of this project: `python tests/support/axe.py` installs it by npm into a cache folder. `EXPRIL_AXE` names a
copy's `axe.min.js` in place of it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "4.14.1"
DIGEST = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""SHA-256 of `axe.min.js` of this version."""
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "expril" / f"axe-core-{VERSION}"
INSTALLED = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def read_axe():
    """The script, or None where it is not installed. Another version's bytes are an error."""
    path = Path(os.environ.get("EXPRIL_AXE") or INSTALLED)
    if not path.exists():
        return None
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != DIGEST:
        raise ValueError(f"{path} is not axe-core {VERSION}")
    return data.decode()


def findings(tab, script):
    """What axe finds on a tab's page, a line each: impact, rule, how often, and the first element."""
    tab.run(f"{script}; 0")
    found = tab.run(f"axe.run(document, {{runOnly: {TAGS}, resultTypes: ['violations']}})")["violations"]
    return [f"{one['impact']} {one['id']} x{len(one['nodes'])}: {one['nodes'][0]['html'][:200]}" for one in found]


if __name__ == "__main__":
    if INSTALLED.exists():
        sys.exit()
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("axe-core is not installed: no npm on PATH; the tests of pages go on without it")
    command = [npm, "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.exit(subprocess.run([*command, f"--prefix={FOLDER}", f"axe-core@{VERSION}"], check=False).returncode)
