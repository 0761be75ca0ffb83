"""How right the stated risks are: their mean, its interval, and their spread, over populations that are known exactly.

`python -m lab.risks --seeds 7000:7200 --out FILE` adds the runs that FILE lacks, one JSON line each; with
`--makers regression,cells-smooth` those of what is compared; `--show` prints FILE's tables, those of docs/risks.md.
The settings are a design in which each pair of levels of any two of seven factors meets. A population is 20,000
records whose class probabilities are known, so that means, slopes and scores are expectations over labels, not chance.
Private records are drawn from it, with replacement; no curator is involved: exact counts and seeded noise, in the form
that curators answer, go to the strategy.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.risks.design import design
from lab.risks.runs import CELLS, MAKERS, SMOOTH, RiskRun, compute
from lab.risks.tables import show
from simulations.campaign.names import parse_names, parse_seeds
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m lab.risks", description=__doc__)
    parser.add_argument("--seeds", default="7000:7200", help="first:end")
    parser.add_argument("--makers", default=CELLS, help=f"of {', '.join(MAKERS)}")
    parser.add_argument("--out", type=Path, required=True, help="the file of runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        show(chosen.out)
        return
    seeds, makers = parse_seeds(chosen.seeds), parse_names(chosen.makers, MAKERS, "maker")
    tasks = [
        Task(name, maker, setting.epsilon, seed)
        for seed in seeds
        for name, setting in design().items()
        for maker in makers
        if maker != SMOOTH or setting.classes == 2
    ]
    command = " ".join(["python -m lab.risks", *arguments])
    campaign = Campaign("risks", chosen.out.parent, seeds.start, chosen.jobs, command, noise="seeded, not private")
    campaign.run_file(chosen.out, tasks, compute, RiskRun)


if __name__ == "__main__":
    main(sys.argv[1:])
