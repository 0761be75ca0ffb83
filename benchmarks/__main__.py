"""`python -m benchmarks [NAME ...]` runs benchmarks, all of them by default, and writes `results/<name>.json`.

The exit status is the number of targets missed.
"""

import importlib
import sys

from benchmarks.common import write_results

NAMES = (
    "startup",
    "work",
    "carriers",
    "audit_ledger",
    "audit_histories",
    "deployment",
    "timing",
    "noise_shares",
    "sample",
    "statistic",
    "secure_sum",
    "holdout",
    "seam",
    "label_model",
    "audit_game",
    "audit_mechanism",
    "audit_studies",
    "published",
    "analyses",
)


def main(names: list[str]) -> int:
    """Run some benchmarks; the number of targets missed."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    missed = 0
    for name in names or NAMES:
        results = importlib.import_module(f"benchmarks.{name}").run()
        write_results(name, results)
        missed += sum(result.met is False for result in results)
    return missed


sys.exit(main(sys.argv[1:]))
