"""Options that commands of a researcher share, and the words that they take."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulations.campaign.workers import Jobs as Computing


class Kept(StrEnum):
    """Of which repeats models are kept; the words of `simulations.run_cells`."""

    first = "first"
    all = "all"
    none = "none"


Jobs = Annotated[int | None, typer.Option(min=1, help="Processes, or tasks of a cluster at a time. [one per core]")]


class By(StrEnum):
    """By which envelopes travel; the words of `simulations.carriers`."""

    process = "process"
    ray = "ray"
    folder = "folder"
    deploy = "deploy"


Workers = Annotated[
    str, typer.Option(help="ray for a Ray cluster of this machine, ray://host:port for another. [processes]")
]
Out = Annotated[Path, typer.Option(help="Folder of results; go on where an earlier run stopped.")]


def who_computes(workers: str, jobs: int | None) -> "Computing":
    """Processes of this machine, or a Ray cluster."""
    from expril.report.provenance import cores
    from simulations.campaign.workers import ray_address

    if not workers:
        return jobs or cores()
    address = ray_address(workers)
    from simulations.campaign.spread import RayWorkers

    return RayWorkers(address, jobs)
