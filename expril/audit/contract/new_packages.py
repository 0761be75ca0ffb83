"""Writes the package of a new extension: all that it needs but one function, and tests that call the contract.

A template is a file of `templates` with the name "newname" in its places. Every one ends in .txt, so that no tool takes
it for code of ours.
"""

import json
import keyword
from pathlib import Path

from curator_node.kinds import ANSWERERS
from expril.files import write_new
from learner_node.strategies import STRATEGIES
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.partitions import PARTITION_KINDS
from protocol.plug_ins import NAME

TEMPLATES = Path(__file__).parent / "templates"
SORTS = {"kind": tuple(ANSWERERS), "partition": tuple(PARTITION_KINDS), "strategy": tuple(STRATEGIES)}
"""What can be made -> names that are in use."""
RULE = "a package is never overwritten; choose another name or another folder"


def write_package(sort: str, name: str, folder: Path) -> list[Path]:
    """Write the package of a new query kind, partition or strategy into a folder; return its files.

    Raises:
        ConfigurationError: the name is none, or is in use; or a file is there already.
    """
    if sort not in SORTS:
        raise ConfigurationError(f"a new package holds a {', a '.join(SORTS)}; {sort!r} is none of them")
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigurationError(f"{name!r}: a name has lower-case letters, digits, _ and -, and begins with a letter")
    if name in SORTS[sort]:
        raise ConfigurationError(f"ExPriL has a {sort} {name!r} already; choose another name")
    files = []
    for template in sorted((TEMPLATES / sort).rglob("*.txt")):
        path = folder / _named(str(template.relative_to(TEMPLATES / sort)).removesuffix(".txt"), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, _named(template.read_text(encoding="utf-8"), name).encode(), rule=RULE, public=True)
        files.append(path)
    if sort == "kind":
        files.append(folder / _named("expril_newname/vectors.json", name))
        write_new(files[-1], _vectors(name).encode(), rule=RULE, public=True)
    return files


def _named(text: str, name: str) -> str:
    """The text with the name in its places: as it is, in modules and distributions, in classes and in constants."""
    plain = name.replace("-", "_")
    words = {
        "expril_newname": f"expril_{plain}",
        "expril-newname": f"expril-{name.replace('_', '-')}",
        "NEWNAME": plain.upper(),
        "NewName": "".join(word.capitalize() for word in plain.split("_")),
        "newname": name,
    }
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    return text


def _vectors(name: str) -> str:
    """The pinned bytes of the template's example, as `expril.audit.contract.vectors` writes them."""
    vector = {
        "about": "one threshold",
        "schema": {
            "attributes": [{"kind": "numeric", "name": "age", "lower": 0.0, "upper": 120.0}],
            "label": "sick",
            "classes": ["no", "yes"],
        },
        "most_records_per_unit": 3,
        "planned": encode({"kind": name, "thresholds": 1, "scale": [3, 1]}).hex(),
        "bodies": [encode({"attribute": "age", "thresholds": [50.0]}).hex()],
        "releases": [encode({"counts": [1]}).hex()],
        "cost": "1",
    }
    return json.dumps([vector], indent=1) + "\n"
