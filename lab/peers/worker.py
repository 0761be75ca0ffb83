"""The process that trains peers in their own environment: one JSON line and one .npz file in, the same back.

Stdin carries one request a line, ``{"family": ..., "task": {...}, "arrays": path, "answer": path}``, the same with a
"release" in place of the "task", or ``{"versions": true}``, of one "family" or all; stdout one reply a line. Nothing is
pickled. A reply to a failure has the kind of error and its place in the code, never its text, which may quote a record.
The process ends with its stdin.
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

Models = Mapping[str, Callable[..., Any]]
"""Name of a peer -> what makes one array of a task, such as probabilities of class 1, or several. Of a release: what
makes `draws` rows of (records, setting, draws)."""


def _load(module: str, models: str) -> tuple[Models, dict[str, str]]:
    """The libraries of a family load when it is asked for."""
    family = import_module(f"lab.peers.{module}")
    return getattr(family, models), {name: version(name) for name in family.LIBRARIES}


FAMILIES: dict[str, Callable[[], tuple[Models, dict[str, str]]]] = {
    "diffprivlib": partial(_load, "diffprivlib_models", "MODELS"),
    "opacus": partial(_load, "opacus_models", "MODELS"),
    "marginals": partial(_load, "marginals", "MODELS"),
    "generators": partial(_load, "marginals", "GENERATORS"),
    "gans": partial(_load, "opacus_models", "GANS"),
    "diffprivlib-releases": partial(_load, "diffprivlib_releases", "RELEASES"),
    "opacus-releases": partial(_load, "opacus_releases", "RELEASES"),
    "opendp-releases": partial(_load, "opendp_releases", "RELEASES"),
    "flower-releases": partial(_load, "flower_releases", "RELEASES"),
    "nvflare-releases": partial(_load, "nvflare_releases", "RELEASES"),
    "vantage6-releases": partial(_load, "vantage6_releases", "RELEASES"),
    "smartnoise-releases": partial(_load, "smartnoise_releases", "RELEASES"),
}
"""Family of peers -> loads its models, by name of the peer, and the versions of its libraries, by theirs."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request; never raises."""
    try:
        if "versions" in request:
            return {"versions": _versions(request.get("family"))}
        models, _ = FAMILIES[request["family"]]()
        with np.load(request["arrays"], allow_pickle=False) as arrays:
            inputs = dict(arrays)
        start = time.perf_counter()
        if "release" in request:
            release = request["release"]
            output = models[release["name"]](inputs["records"], release["setting"], release["draws"])
        else:
            scalars = request["task"] | {"columns": tuple(request["task"]["columns"])}
            task = PeerTask(**scalars, **{name: inputs[name] for name in ARRAYS})
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


def _versions(family: str | None = None) -> dict[str, str]:
    """Of the libraries of one family, or of all."""
    versions = {"python": sys.version.split()[0]}
    for load in FAMILIES.values() if family is None else (FAMILIES[family],):
        try:
            versions |= load()[1]
        except ImportError:
            continue
    return versions


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
