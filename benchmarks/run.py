"""Runs the benchmarks by name, all of them by default, and writes `results/<name>.json`.

The exit status is the number of targets missed.
"""

import importlib
import sys
from pathlib import Path

NAMES = (
    "startup",
    "counting",
    "partitions",
    "query_overhead",
    "work",
    "study",
    "carriers",
    "curators_1000",
    "ledger",
    "audit_ledger",
    "audit_histories",
    "daemon",
    "throughput",
    "deployment",
    "timing",
    "noise_shares",
    "sample",
    "statistic",
    "secure_sum",
    "holdout",
    "seam",
    "models",
    "solvers",
    "holdout_experiment",
    "label_model",
    "networks",
    "reproduction",
    "audit_all",
    "audit_game",
    "audit_mechanism",
    "audit_studies",
)


def main(names: list[str]) -> int:
    """Run some benchmarks; the number of targets missed."""
    from benchmarks.common import write_results

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


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.exit(main(sys.argv[1:]))
