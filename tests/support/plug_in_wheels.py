"""Wheels of packages with entry points, written by hand, so that nothing is built or downloaded."""

import base64
import hashlib
import zipfile
from pathlib import Path

from protocol.plug_ins import Group

TOY = Path(__file__).parent / "toy"
TOY_MODULES = ("__init__", "kind", "answerer", "reader", "audit", "partition", "strategy")
TOY_OFFERS = {
    Group.KINDS: {"toy": "toy.kind:TOY"},
    Group.ANSWERERS: {"toy": "toy.answerer:TOY_ANSWERER"},
    Group.READERS: {"toy": "toy.reader:TOY_READER"},
    Group.AUDITS: {"toy": "toy.audit:TOY_AUDIT"},
    Group.PARTITIONS: {"toy_decades": "toy.partition:ToyDecades"},
    Group.STRATEGIES: {"toy-decades": "toy.strategy:DecadesStrategy"},
}


def entry_points(offers):
    """The text of entry_points.txt."""
    groups = (
        [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())] for group, names in offers.items()
    )
    return "".join(f"{line}\n" for group in groups for line in group)


def record_line(name, content):
    """A file's line of RECORD."""
    hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={hashed},{len(content)}\n"


def files_of(name, version, modules, offers):
    """Path -> content of an installed package's files, RECORD among them."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {path: text.encode() for path, text in modules.items()}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = entry_points(offers).encode()
    record = "".join(record_line(*item) for item in files.items()) + f"{info}/RECORD,,\n"
    return files | {f"{info}/RECORD": record.encode()}


def installed(site, name, version, modules, offers):
    """Install a package into a folder that is, or will be, on the path."""
    for path, content in files_of(name, version, modules, offers).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
    return site


def toy_wheel(folder, version="1.0", more=""):
    """The wheel of the toy package; `more` is added to its first module."""
    modules = {f"toy/{name}.py": (TOY / f"{name}.py").read_text() for name in TOY_MODULES}
    modules["toy/__init__.py"] += more
    wheel = folder / f"expril_toy-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files_of("expril-toy", version, modules, TOY_OFFERS).items():
            archive.writestr(path, content)
    return wheel
