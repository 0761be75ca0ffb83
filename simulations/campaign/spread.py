"""Shares a campaign's tasks out over a Ray cluster: same cells, same bytes, whoever computes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import Path

from expril.report.provenance import versions
from protocol.errors import ConfigurationError
from simulations.campaign.cluster import Job, LostProcessError, cluster
from simulations.campaign.workers import AHEAD, LISTEN_SECONDS, Found, Task

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab")
"""Of whose source a digest is compared; the last one where there is a checkout."""
LOST = "the process that computed it was killed"


@dataclass
class RayWorkers:
    """Workers of a Ray cluster.

    Attributes:
        address: "ray://host:port", or "" for a cluster of this machine.
        most: tasks at the same time; None: one for each processor of the cluster.
        jobs: processors that were used; 0 before the first task.
    """

    address: str = ""
    most: int | None = None
    jobs: int = field(default=0, init=False)

    def __str__(self) -> str:
        """For people."""
        return "on a Ray cluster"

    def computed_by(
        self,
        compute: Callable[[Task], Found],
        tasks: Sequence[Task],
        *,
        wanted: Callable[[Task], bool] | None,
        lost: Callable[[Task, str], Found],
    ) -> Iterator[tuple[Task, Found]]:
        """See `simulations.campaign.workers.computed_by`.

        Raises:
            ConfigurationError: no cluster, or one where other versions are installed.
        """
        left = (task for task in tasks if wanted is None or wanted(task))
        with cluster(self.address, cpus=self.most) as ray:
            _check_alike(ray.result(ray.submit(installed)))
            pending: dict[Job, Task] = {}
            while True:
                self.jobs = min(self.most or ray.cpus, ray.cpus)
                # A cluster begins all that it is given; so with a limit, no more than that is handed out.
                room = (self.most if self.address and self.most else AHEAD * self.jobs) - len(pending)
                pending |= {ray.submit(compute, task): task for task in islice(left, max(0, room))}
                if not pending:
                    return
                for job in ray.finished(list(pending), LISTEN_SECONDS):
                    task = pending.pop(job)
                    try:
                        yield task, ray.result(job)
                    except LostProcessError:
                        yield task, lost(task, LOST)


@lru_cache
def installed() -> dict[str, str]:
    """What decides the numbers, here: versions, and a digest of ExPriL's source."""
    digest = sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
    return versions({"ExPriL's source": digest.hexdigest()[:16]})


def _check_alike(there: dict[str, str]) -> None:
    here = installed()
    if other := sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name)):
        told = ", ".join(
            f"{name} ({there.get(name, 'absent')} there, {here.get(name, 'absent')} here)" for name in other
        )
        raise ConfigurationError(f"the cluster's cells would not be those of this machine; install the same {told}")
