"""The process that trains peers in their own environment: one JSON line and one .npz file in, the same back.

Stdin carries one request a line, ``{"task": {...}, "arrays": path, "answer": path}`` or ``{"versions": true}``; stdout
one reply a line. Nothing is pickled. A reply to a failure has the kind of error and its place in the code, never its
text, which may quote a record. The process ends with its stdin.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lab.peers.task import ARRAYS, PeerTask

Models = Mapping[str, Callable[[PeerTask], Any]]
"""Name of a peer -> what makes one array of a task, such as probabilities of class 1, or several."""


def _load(module: str, models: str) -> tuple[Models, dict[str, str]]:
    """The libraries of a family load when it is asked for."""
    family = import_module(f"lab.peers.{module}")
    return getattr(family, models), {name: version(name) for name in family.LIBRARIES}


FAMILIES: dict[str, Callable[[], tuple[Models, dict[str, str]]]] = {
    "diffprivlib": partial(_load, "diffprivlib_models", "MODELS"),
    "opacus": partial(_load, "opacus_models", "MODELS"),
    "marginals": partial(_load, "marginals", "MODELS"),
    "generators": partial(_load, "marginals", "GENERATORS"),
    "games": partial(_load, "diffprivlib_models", "GAMES"),
    "gans": partial(_load, "opacus_models", "GANS"),
}
"""Family of peers -> loads its models, by name of the peer, and the versions of its libraries, by theirs."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request; never raises."""
    try:
        if "versions" in request:
            return {"versions": _versions()}
        models, _ = FAMILIES[request["family"]]()
        with np.load(request["arrays"], allow_pickle=False) as arrays:
            task = PeerTask(
                **(request["task"] | {"columns": tuple(request["task"]["columns"])}),
                **{name: arrays[name] for name in ARRAYS},
            )
        start = time.perf_counter()
        output = models[task.peer](task)
        seconds = time.perf_counter() - start
        outputs = output if isinstance(output, tuple) else (output,)
        np.savez(Path(request["answer"]), *(np.asarray(array, np.float64) for array in outputs))
    except ImportError as error:
        return {"missing": str(error.name)}
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the peer's failure, not the worker's
        return {"error": type(error).__name__, "place": _place(error)}
    return {"seconds": seconds}


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer line by line until there is no more."""
    for line in requests:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


def main() -> None:
    """Serve stdin and stdout; what libraries print goes to stderr."""
    replies, sys.stdout = sys.stdout, sys.stderr
    serve(sys.stdin, replies)


def _versions() -> dict[str, str]:
    versions = {"python": sys.version.split()[0]}
    for load in FAMILIES.values():
        try:
            versions |= load()[1]
        except ImportError:
            continue
    return versions


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
