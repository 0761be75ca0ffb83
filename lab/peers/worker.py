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
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from lab.peers.task import ARRAYS, GENERATED, OUTCOMES, POINTS, PROBABILITY, PeerTask

Arrays = Mapping[str, NDArray[np.generic]]
Models = Mapping[str, Callable[[PeerTask], NDArray[np.generic] | Arrays]]
"""A task -> probabilities of class 1, or arrays by name."""


def _diffprivlib() -> tuple[Models, dict[str, str]]:
    from lab.peers import diffprivlib_models  # noqa: PLC0415 - a family's libraries load when it is asked for

    return diffprivlib_models.MODELS, diffprivlib_models.LIBRARIES


def _opacus() -> tuple[Models, dict[str, str]]:
    from lab.peers import opacus_models  # noqa: PLC0415 - as above

    return opacus_models.MODELS, opacus_models.LIBRARIES


def _marginals() -> tuple[Models, dict[str, str]]:
    from lab.peers import marginals  # noqa: PLC0415 - as above

    return dict.fromkeys(marginals.ALGORITHMS, marginals.predict), marginals.versions()


def _generators() -> tuple[Models, dict[str, str]]:
    from lab.peers import marginals  # noqa: PLC0415 - as above

    def generate(task: PeerTask) -> Arrays:
        return dict(zip(GENERATED, marginals.generate(task), strict=True))

    return dict.fromkeys(marginals.ALGORITHMS, generate), marginals.versions()


def _gans() -> tuple[Models, dict[str, str]]:
    from lab.peers import gan_models  # noqa: PLC0415 - as above

    def points(task: PeerTask) -> Arrays:
        return {POINTS: gan_models.MODELS[task.peer](task)}

    return dict.fromkeys(gan_models.MODELS, points), gan_models.LIBRARIES


def _games() -> tuple[Models, dict[str, str]]:
    from lab.peers import diffprivlib_models  # noqa: PLC0415 - as above

    def play(task: PeerTask) -> Arrays:
        return {OUTCOMES: diffprivlib_models.GAMES[task.peer](task)}

    return dict.fromkeys(diffprivlib_models.GAMES, play), {}


FAMILIES: dict[str, Callable[[], tuple[Models, dict[str, str]]]] = {
    "diffprivlib": _diffprivlib,
    "opacus": _opacus,
    "marginals": _marginals,
    "generators": _generators,
    "games": _games,
    "gans": _gans,
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
        found = models[task.peer](task)
        seconds = time.perf_counter() - start
        named: Arrays = found if isinstance(found, Mapping) else {PROBABILITY: found}
        as_floats: dict[str, Any] = {name: np.asarray(each, np.float64) for name, each in named.items()}
        np.savez(Path(request["answer"]), **as_floats)
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
