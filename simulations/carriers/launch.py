"""A curator of a simulation as a process of its own, with the noise from a seed and the faults that no real one takes.

python -m simulations.carriers.launch serve FOLDER            as `expril curator serve` does
python -m simulations.carriers.launch answer FOLDER EXCHANGE  as `expril curator answer`, again and again
"""

import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from curator_node.daemon.folder import answer_folder
from curator_node.daemon.process import serve
from curator_node.daemon.settings import read_settings
from curator_node.site import Site
from protocol.carriage import REQUESTS, envelope_file
from protocol.envelopes import digest
from protocol.errors import ExprilError
from simulations.carriers.faults import NoReplyError
from simulations.carriers.sites import open_simulated, with_handle

LOOK_SECONDS = 0.02
READY = "ready"
"""In a site's folder: it answers."""
LOST = "lost"
"""In a site's folder: requests that got no reply on purpose; whoever sends one again removes it there."""
TICK_NANOSECONDS = 100_000_000


def main(what: str, folder: str, *rest: str) -> None:
    """See the module."""
    place = Path(folder)
    try:
        if what == "serve":
            serve(place, read_settings(place), opener=open_simulated)
        else:
            with open_simulated(place) as site:
                _answer(site, place, Path(*rest))
    except ExprilError as error:
        sys.exit(str(error))


def _answer(site: Site, folder: Path, exchange: Path) -> None:
    """Answer what comes into the exchange until SIGTERM."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    requests = exchange / site.identity.hex() / REQUESTS
    requests.mkdir(parents=True, exist_ok=True)
    (folder / LOST).mkdir()

    def handle(data: bytes) -> bytes:
        try:
            return site.handle(data)
        except NoReplyError:
            name = envelope_file(digest(data))
            (requests / name).rename(folder / LOST / name)
            raise

    answering = with_handle(site, handle)
    (folder / READY).touch()
    seen = -1
    while not told:
        changed = requests.stat().st_mtime_ns
        if changed != seen:
            with suppress(NoReplyError):
                for _ in answer_folder(exchange, answering):
                    if told:
                        return
                # What came within a clock's tick of this look may not have changed the time.
                seen = changed if time.time_ns() - changed > TICK_NANOSECONDS else -1
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
