"""What every worker process of a pool begins with."""

import os
import signal
import threading
from multiprocessing import parent_process


def begin_worker() -> None:
    """Leave interrupts to the parent, and end with it however it ends: nobody would hear of the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
