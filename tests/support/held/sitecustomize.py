"""Randomness and a clock that repeat themselves, in every process that finds this folder on PYTHONPATH.

Python imports a module of this name as it starts. Nothing of the project is imported, so any commit of it runs so.
"""

import hashlib
import itertools
import os
import sys
import time

NOW = 1_767_225_600
"""Seconds since 1970: the start of 2026."""
KEYS = {"cryptography.hazmat.primitives.asymmetric.ed25519": "Ed25519PrivateKey",
        "cryptography.hazmat.primitives.asymmetric.x25519": "X25519PrivateKey"}  # fmt: skip
WRITERS = ("expril/files.py", "curator_node/new_files.py", "learner_node/private_files.py")
"""Modules that write files whole, in this tree and before; the names of their drafts are drawn apart."""
_numbers, _drafts = itertools.count(), itertools.count()


def drawn(size):
    """The next bytes of a stream that each process begins anew; those of a draft's name are of another stream.

    How often a file is written decides nothing, and must not move what keys and noise are drawn from.
    """
    frame, names = sys._getframe(1), []
    while frame is not None and len(names) < 4:
        names.append(frame.f_code.co_filename)
        frame = frame.f_back
    of_draft = names[-1].endswith(WRITERS)
    place = next(_drafts if of_draft else _numbers)
    return hashlib.shake_256((b"draft" if of_draft else b"held") + place.to_bytes(8, "big")).digest(size)


class AfterKeys:
    """Keys, too, are made of `drawn`: their library draws by itself."""

    def find_spec(self, name, path=None, target=None):
        if name not in KEYS:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            kind = getattr(module, KEYS[name])
            kind.generate = classmethod(lambda cls: kind.from_private_bytes(drawn(32)))

        spec.loader.exec_module = exec_module
        return spec


def in_turn():
    """A pool that does at once what it is given: threads would draw in another order each time."""
    from concurrent import futures
    from concurrent.futures import thread

    class InTurn(thread.ThreadPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            future = futures.Future()
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - a future holds whatever was raised
                future.set_exception(error)
            return future

    futures.ThreadPoolExecutor = thread.ThreadPoolExecutor = InTurn


def standing_still():
    """Clocks that say `NOW`; `datetime` is written in C, so what it looks up is changed where C keeps it."""
    import ctypes
    import datetime as dt
    import gc

    time.time, time.time_ns = (lambda: float(NOW)), (lambda: NOW * 10**9)
    kind = dt.datetime
    gc.get_referents(kind.__dict__)[0]["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(NOW, tz))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


if os.environ.get("EXPRIL_HELD"):
    os.urandom = drawn
    standing_still()
    sys.meta_path.insert(0, AfterKeys())
    in_turn()
