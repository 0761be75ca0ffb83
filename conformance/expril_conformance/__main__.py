"""`expril-conformance --learner COMMAND --curator COMMAND [-- WORDS FOR PYTEST]`; see README.md."""

import argparse
import sys
from pathlib import Path

import pytest

from expril_conformance import VECTORS

SUITE = Path(__file__).parent / "suite"


def main(arguments: list[str] | None = None) -> int:
    """Run the suite against one program or two; the exit status is pytest's."""
    parser = argparse.ArgumentParser(prog="expril-conformance", description="Tests implementations of the protocol.")
    parser.add_argument("--learner", metavar="COMMAND", help="a learner under test")
    parser.add_argument("--curator", metavar="COMMAND", help="a curator under test")
    parser.add_argument("--vectors", action="store_true", help="print the folder of the vectors, and end")
    parser.add_argument("more", nargs="*", metavar="-- WORDS", help="words for pytest")
    options = parser.parse_args(arguments)
    if options.vectors:
        sys.stdout.write(f"{VECTORS}\n")
        return 0
    if not options.learner and not options.curator:
        parser.error("name a program: --learner COMMAND, --curator COMMAND")
    words = [f"--{side}={command}" for side in ("learner", "curator") if (command := getattr(options, side))]
    files = [SUITE / "test_curator.py"] if options.curator else []
    if options.learner:
        files += [SUITE / "test_vectors.py", SUITE / "test_learner.py"]
    quiet = ["-q", "-p", "no:cacheprovider", f"--rootdir={SUITE}", "-c", str(SUITE / "pytest.ini")]
    return int(pytest.main([*quiet, *words, *options.more, *map(str, files)]))


if __name__ == "__main__":
    raise SystemExit(main())
