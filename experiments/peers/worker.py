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
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import numpy as np

from experiments.peers.task import ARRAYS, PeerTask, Vector

Models = Mapping[str, Callable[[PeerTask], Vector]]


def _diffprivlib() -> tuple[Models, dict[str, str]]:
    from experiments.peers import diffprivlib_models  # noqa: PLC0415 - a family's libraries load when it is asked for

    return diffprivlib_models.MODELS, diffprivlib_models.LIBRARIES


def _opacus() -> tuple[Models, dict[str, str]]:
    from experiments.peers import opacus_models  # noqa: PLC0415 - as above

    return opacus_models.MODELS, opacus_models.LIBRARIES


def _marginals() -> tuple[Models, dict[str, str]]:
    from experiments.peers import marginals  # noqa: PLC0415 - as above

    return {name: partial(_synthesise_and_train, marginals) for name in marginals.ALGORITHMS}, marginals.versions()


def _synthesise_and_train(marginals: ModuleType, task: PeerTask) -> Vector:
    probability: Vector = marginals.predict(
        task.peer,
        task.train,
        task.labels,
        task.test,
        marginals.attributes_of(task.columns, task.lower, task.upper),
        epsilon=task.private_epsilon(),
        delta=task.delta,
        seed=task.entropy(),
    )
    return probability


FAMILIES: dict[str, Callable[[], tuple[Models, dict[str, str]]]] = {
    "diffprivlib": _diffprivlib,
    "opacus": _opacus,
    "marginals": _marginals,
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
        probability = models[task.peer](task)
        seconds = time.perf_counter() - start
        np.savez(Path(request["answer"]), probability=np.asarray(probability, dtype=np.float64))
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
    found = {"python": sys.version.split()[0]}
    for load in FAMILIES.values():
        try:
            found |= load()[1]
        except ImportError:
            continue
    return found


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
