"""A folder: requests and replies as files, each curator a process that answers what it finds there."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from learner_node.carriers.folder import FolderCarrier
from learner_node.study.federation import UnfinishedError
from learner_node.study.study import Carrier
from protocol.carriage import envelope_file
from protocol.envelopes import digest
from simulations.carriers.launch import LOST, READY
from simulations.carriers.processes import Processes

TIMEOUT_SECONDS = 60.0
"""For replies; a curator that misses it is left out."""
WAIT_SECONDS = 1.0
"""Between two looks whether a curator is silent on purpose."""


def serve(folders: Mapping[bytes, Path], work: Callable[[Carrier], None]) -> None:
    """See `simulations.carriers.Serve`."""
    with TemporaryDirectory(prefix="expril-exchange-") as exchange, Processes(Path(exchange)) as processes:
        for key, folder in folders.items():
            processes.start(key.hex()[:8], "simulations.carriers.launch", "answer", str(folder), exchange)
        processes.wait(lambda: all((folder / READY).exists() for folder in folders.values()), "to open the curators")
        work(_Exchange(Path(exchange), folders))


class _Exchange:
    """`FolderCarrier`, for a study that goes on without those that do not reply in time."""

    def __init__(self, exchange: Path, folders: Mapping[bytes, Path]) -> None:
        self._exchange = exchange
        self._folders = dict(folders)
        self._names = {key: folder.name for key, folder in folders.items()}

    def exchange(self, requests: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """See `learner_node.study.study.Carrier`."""
        lost = {key: self._folders[key] / LOST / envelope_file(digest(data)) for key, data in requests.items()}
        for marker in lost.values():
            marker.unlink(missing_ok=True)
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            out = {key for key in requests if lost[key].exists()} if time.monotonic() < end else requests.keys()
            try:
                return FolderCarrier(self._exchange, self._names, wait=WAIT_SECONDS, without=out).exchange(requests)
            except UnfinishedError:
                continue
