"""`python -m simulations.carriers.launch FOLDER` serves a simulation's curator as `expril curator serve` does.

It adds what no real curator takes: noise from a seed, and faults.
"""

import sys
from pathlib import Path

from curator_node.daemon.process import serve
from curator_node.daemon.settings import read_settings
from protocol.errors import ExprilError
from simulations.carriers.sites import open_simulated

if __name__ == "__main__":
    site = Path(sys.argv[1])
    try:
        serve(site, read_settings(site), opener=open_simulated)
    except ExprilError as error:
        sys.exit(str(error))
