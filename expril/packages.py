"""Packages of others that add query kinds, partitions or strategies: found by their metadata, imported when named.

An installed package says in its metadata what it offers, as entry points in the groups of `Group`. To find it, metadata
alone is read. Its code is imported when a policy, a study or a command names it, and then from what its RECORD file
covers: every file is compared with its hash there, and modules are made from the very bytes that were compared, also
those that are imported later. RECORD is the list of an installation's files (packaging.python.org, "Recording
installed projects"). What a package depends on is not compared.
"""

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.metadata import Distribution, EntryPoint, PackagePath, distributions
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.partitions import PARTITION_KINDS, FeatureBins, Partition
from protocol.plans import Planned
from protocol.plug_ins import NAME, WORDS, Group, PlugIn
from protocol.query_kind import QueryKind
from protocol.strict_toml import suggest

LIST_COMMAND = "expril curator plug-ins"


class _OfAKind(Protocol):
    """Anything that is made for one query kind."""

    @property
    def kind(self) -> QueryKind:
        """The kind."""


Half = TypeVar("Half", bound=_OfAKind)
_ROOMS = frozenset({"benchmarks", "curator_node", "expril", "lab", "learner_node", "protocol", "simulations"})


@dataclass(frozen=True)
class Package:
    """An installed package that offers something. Nothing of it is imported yet."""

    distribution: Distribution = field(repr=False)
    offers: tuple[EntryPoint, ...]  # in the groups of `Group`

    @property
    def name(self) -> str:
        """Its normalised name."""
        return normalised(self.distribution.name)

    @property
    def version(self) -> str:
        """Its version."""
        return self.distribution.version

    @property
    def title(self) -> str:
        """Name and version, for people."""
        return f"{self.name} {self.version}"

    def names(self, group: Group) -> tuple[str, ...]:
        """Names of what it offers in a group."""
        return tuple(entry.name for entry in self.offers if entry.group == group)

    @property
    def summary(self) -> str:
        """What it offers, in words."""
        parts = [(word, self.names(group)) for group, word in WORDS.items()]
        return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)

    @property
    def editable(self) -> bool:
        """Whether its RECORD covers no code, since the code lies where it is written (`pip install --editable`)."""
        return self._record is None or any(path.suffix == ".pth" for path in self._files) or self._by_url

    @property
    def _by_url(self) -> bool:
        try:
            origin = json.loads(self.distribution.read_text("direct_url.json") or "{}")
            return bool(origin.get("dir_info", {}).get("editable"))
        except (ValueError, AttributeError):
            return False

    @property
    def _files(self) -> Sequence[PackagePath]:
        return self.distribution.files or ()

    @property
    def _record(self) -> Path | None:
        paths = [path for path in self._files if path.name == "RECORD" and path.parent.name.endswith(".dist-info")]
        where = Path(str(paths[0].locate())) if paths else None
        return where if where is not None and where.is_file() else None

    @property
    def plug_in(self) -> PlugIn:
        """What a policy writes to name this package as it is installed.

        Raises ConfigurationError: its RECORD does not cover its code, or its version cannot be written.
        """
        where = self._record
        if self.editable or where is None:
            raise ConfigurationError(
                f"{self.title} is installed in editable form, or without a RECORD file, so nothing says what its code "
                f"is; install it from a wheel: pip install {self.name}"
            )
        try:
            identity = PlugIn(self.name, self.version, hashlib.sha256(where.read_bytes()).hexdigest())
            return msgspec.convert(msgspec.to_builtins(identity), PlugIn)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{self.title}: {error}") from None

    @property
    def reference(self) -> PlugIn:
        """`plug_in`, for a simulation: one in editable form has a digest of zeros, which is not compared."""
        return PlugIn(self.name, self.version, "0" * 64) if self.editable else self.plug_in

    def secure_unless_editable(self) -> None:
        """`secure` for learners, auditors and simulations, which take one in editable form as well, unchecked."""
        if not self.editable:
            self.secure(fresh=False)

    def secure(self, *, fresh: bool) -> None:
        """Compare every file with RECORD, and let its modules be made of the compared bytes alone.

        `fresh` refuses a package of which a module was imported before, by others, and so from other bytes.

        Raises ConfigurationError: a file is missing, changed or not covered; RECORD covers no code; or a module of it
        would take the place of another's.
        """
        identity = self.plug_in
        modules = self._modules()
        _FINDER.answer_for(identity, modules, fresh=fresh)

    def _modules(self) -> dict[str, "_Source"]:
        """Its modules by name, after every file was compared with its hash."""
        modules: dict[str, _Source] = {}
        for path in self._files:
            if path.name == "RECORD" and path.parent.name.endswith(".dist-info"):
                continue
            if path.suffix == ".pyc":
                continue  # none is read: modules are made of their source
            content = self._compared(path)
            dotted, module = ".".join(path.parts[:-1]), path.name.removesuffix(".py")
            suffix = next((suffix for suffix in EXTENSION_SUFFIXES if path.name.endswith(suffix)), "")
            if path.parts[0] == ".." or (path.suffix != ".py" and not suffix):
                continue
            name = dotted if module == "__init__" else ".".join(filter(None, (dotted, module.removesuffix(suffix))))
            where = Path(str(path.locate()))
            modules[name] = _Source(where, None if suffix else content, module == "__init__")
        if entry := next((entry for entry in self.offers if not EntryPoint.pattern.match(entry.value)), None):
            raise ConfigurationError(
                f'{self.title}: entry point {entry.name!r} is no "module:name"; build its wheel anew'
            )
        missing = [entry.module for entry in self.offers if entry.module not in modules]
        if missing:
            raise ConfigurationError(
                f"{self.title}: its RECORD holds no module {missing[0]}, which it offers; build its wheel anew"
            )
        return modules

    def _compared(self, path: PackagePath) -> bytes:
        expected = path.hash
        if expected is None or expected.mode not in ("sha256", "sha384", "sha512"):
            raise ConfigurationError(f"{self.title}: its RECORD holds no hash of {path}; install it anew")
        try:
            content = Path(str(path.locate())).read_bytes()
        except OSError:
            raise ConfigurationError(f"{self.title}: {path} of its RECORD is not there; install it anew") from None
        digest = base64.urlsafe_b64encode(hashlib.new(expected.mode, content).digest()).rstrip(b"=").decode()
        if digest != expected.value:
            raise ConfigurationError(
                f"{self.title}: {path} was changed after it was installed: its RECORD has another hash; find out who "
                "changed it, then install it anew"
            )
        return content

    def load(self, group: Group, others: Mapping[str, Any]) -> dict[str, Any]:
        """What it offers in a group, by name; its modules are imported.

        `others` has the names that are in use already.

        Raises ConfigurationError: a name is taken or none, or the module cannot be imported, or lacks the object.
        """
        objects: dict[str, Any] = {}
        for entry in self.offers:
            if entry.group != group:
                continue
            self._check_name(entry, {**others, **objects})
            try:
                objects[entry.name] = entry.load()
            except ConfigurationError:
                raise
            except Exception as error:
                raise ConfigurationError(
                    f"{self.title}: its {WORDS[group]} {entry.name!r} cannot be loaded from {entry.value}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return objects

    def _check_name(self, entry: EntryPoint, others: Mapping[str, Any]) -> None:
        word = WORDS[Group(entry.group)]
        if not NAME.fullmatch(entry.name):
            raise ConfigurationError(
                f"{self.title}: {word} {entry.name[:80]!r}: names have lower-case letters, digits, _ and -, and begin "
                "with a letter"
            )
        if entry.name in others:
            raise ConfigurationError(
                f"{self.title} offers the {word} {entry.name!r}, and there is one of that name already; its author "
                "must choose another name, or the other package must go"
            )


def normalised(name: str) -> str:
    """A package's name as indexes compare it: my_Kind and my.kind are my-kind."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_packages() -> dict[str, Package]:
    """All installed packages that offer something, by name. Their metadata alone is read, and nothing is imported."""
    groups = frozenset(Group)
    packages: dict[str, Package] = {}
    for distribution in distributions():
        offers = tuple(entry for entry in distribution.entry_points if entry.group in groups)
        if offers and distribution.name:
            package = Package(distribution, offers)
            packages.setdefault(package.name, package)  # as import finds it: the first on the path
    return packages


def named_packages(plug_ins: Sequence[PlugIn], *, simulation: bool) -> list[Package]:
    """The packages that a policy names, checked before any of their code is imported.

    A simulation takes one in editable form as well, unchecked.

    Raises ConfigurationError: a package is named twice or not installed, has another version or RECORD than the policy
    says, or `Package.secure` raises it.
    """
    installed = installed_packages() if plug_ins else {}
    packages = []
    for plug_in in plug_ins:
        package = installed.get(plug_in.package)
        if package is None:
            raise ConfigurationError(
                f"the policy names the plug-in {plug_in.package} {plug_in.version}, which is not installed"
                f"{suggest(plug_in.package, list(installed))}; install it, or take it out of plug_ins"
            )
        if package in packages:
            raise ConfigurationError(f"the policy names the plug-in {plug_in.package} twice; name it once")
        packages.append(package)
        if simulation and package.editable:
            continue
        present = package.plug_in
        if present != plug_in:
            what = f"version {present.version}" if present.version != plug_in.version else f"RECORD {present.record}"
            raise ConfigurationError(
                f"the policy names {plug_in.package} {plug_in.version} with RECORD {plug_in.record}, and {what} is "
                f"installed: if that is wanted and reviewed, write what {LIST_COMMAND} prints into the policy; else "
                "install the other one"
            )
        package.secure(fresh=not simulation)
    return packages


def package_of(name: str, group: Group) -> Package | None:
    """The installed package that offers something of this name; None where none does.

    Raises ConfigurationError: several do.
    """
    offering = [package for package in installed_packages().values() if name in package.names(group)]
    if len(offering) > 1:
        titles = " and ".join(package.title for package in offering)
        raise ConfigurationError(f"{titles} both offer a {WORDS[group]} {name!r}; uninstall one of them")
    return offering[0] if offering else None


def offering(names: Iterable[str], group: Group) -> tuple[PlugIn, ...]:
    """How a simulation's policies name the packages that offer something of these names; raises as `package_of`."""
    packages = {package.name: package for name in names if (package := package_of(name, group)) is not None}
    return tuple(package.reference for package in packages.values())


def loaded_kinds(package: Package, others: Mapping[str, Any] = QUERY_KINDS) -> dict[str, QueryKind]:
    """The query kinds that a package offers. Raises ConfigurationError: `Package.load` does, or one is no kind."""
    kinds = package.load(Group.KINDS, others)
    for name, kind in kinds.items():
        where = f"{package.title}: query kind {name!r}"
        if not isinstance(kind, QueryKind) or kind.name != name:
            raise ConfigurationError(f"{where} must be an instance of QueryKind whose name is {name!r}")
        planned = getattr(kind, "planned", None)
        if not (isinstance(planned, type) and issubclass(planned, Planned)) or planned.__struct_config__.tag != name:
            raise ConfigurationError(f"{where}: planned must be a subclass of Planned with tag={name!r}")
        try:
            msgspec.msgpack.Decoder(planned)
            kind.limits()
        except (TypeError, AttributeError, ValueError) as error:
            raise ConfigurationError(f"{where}: its planned query or its limits cannot be used: {error}") from None
    return kinds


def loaded_halves(
    package: Package,
    group: Group,
    form: type[Half],
    others: Mapping[str, Any],
    kinds_in_use: Mapping[str, Any] = QUERY_KINDS,
) -> dict[str, Half]:
    """One side's halves of the query kinds that a package offers: answerers, readers or auditor's halves.

    Args:
        package: whose.
        group: in which it offers them.
        form: what each must be.
        others: names in use among such halves.
        kinds_in_use: names in use among query kinds.

    Raises:
        ConfigurationError: `Package.load` or `loaded_kinds` does, or one has another form, or no kind of the package.
    """
    kinds = loaded_kinds(package, kinds_in_use)
    halves = package.load(group, others)
    for name, half in halves.items():
        if not isinstance(half, form) or half.kind is not kinds.get(name):
            article = "an" if form.__name__[0] in "AEIOU" else "a"
            raise ConfigurationError(
                f"{package.title}: {WORDS[group]} {name!r} must be {article} {form.__name__} of the query kind "
                f"{name!r} that the package offers in {Group.KINDS}"
            )
    return halves


def loaded_partitions(package: Package, others: Mapping[str, Any] = PARTITION_KINDS) -> dict[str, type[Any]]:
    """The types of partitions that a package offers. Raises ConfigurationError: `Package.load` does, or one is none."""
    partitions = package.load(Group.PARTITIONS, others)
    for name, partition in partitions.items():
        where = f"{package.title}: partition {name!r}"
        if not (isinstance(partition, type) and issubclass(partition, msgspec.Struct)):
            raise ConfigurationError(f"{where} must be a msgspec.Struct")
        config, ours = partition.__struct_config__, FeatureBins.__struct_config__
        strict = config.frozen and config.forbid_unknown_fields and not config.array_like
        if not strict or (config.tag, config.tag_field) != (name, ours.tag_field):
            raise ConfigurationError(f"{where} must be declared with frozen, forbid_unknown_fields, and tag={name!r}")
        lacking = [method for method in _METHODS if not callable(getattr(partition, method, None))]
        if lacking:
            raise ConfigurationError(f"{where} lacks {', '.join(lacking)}; see protocol.partitions.AnyPartition")
        try:
            msgspec.msgpack.Decoder(Partition | partition)
        except TypeError as error:
            raise ConfigurationError(f"{where}: its fields cannot be read: {error}") from None
    return partitions


_METHODS = ("check", "cell_count", "multiply_adds", "multiply_adds_once", "cells")


@dataclass(frozen=True)
class _Source:
    """A module as RECORD covers it."""

    path: Path
    content: bytes | None  # of a Python module; None for an extension, which the system loads from its file
    is_package: bool


class _Loader(SourceFileLoader):
    """Makes a module of the bytes that were compared with RECORD; neither the file nor a cached .pyc is read."""

    def __init__(self, name: str, source: _Source) -> None:
        super().__init__(name, str(source.path))
        self.content = source.content or b""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The module's code."""
        code: CodeType = self.source_to_code(self.content, self.path)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules of secured packages, before any other finder; what RECORD lacks is not found."""

    def __init__(self) -> None:
        self.owners: dict[str, tuple[PlugIn, dict[str, _Source]]] = {}  # by the first part of a module's name

    def answer_for(self, identity: PlugIn, modules: dict[str, _Source], *, fresh: bool) -> None:
        """Answer for a package's modules from now on. Raises ConfigurationError as `Package.secure` says."""
        tops = {name.partition(".")[0] for name in modules}
        for top in sorted(tops):
            owner = self.owners.get(top, (None, {}))[0]
            if owner == identity:
                continue
            ours = owner is not None and owner.package == identity.package
            if ours and _imported(top):
                raise ConfigurationError(
                    f"{identity.package} was changed while this process had it loaded; start the process anew"
                )
            if top in _ROOMS or top in sys.stdlib_module_names or (owner is not None and not ours):
                raise ConfigurationError(
                    f"{identity.package} {identity.version} brings a module {top!r}, which would take the place of "
                    "another's; its author must rename it"
                )
            if top not in modules:
                raise ConfigurationError(
                    f"{identity.package} {identity.version}: its package {top!r} has no __init__.py; add one"
                )
            if fresh and _imported(top):
                raise ConfigurationError(
                    f"{top!r} of {identity.package} was imported before its files were compared; start the process "
                    "anew, with nothing that imports it first"
                )
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        self.owners |= {top: (identity, modules) for top in tops if not _imported(top) or top in self.owners}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec of a secured package's module. Raises ModuleNotFoundError: RECORD lacks it."""
        owner = self.owners.get(fullname.partition(".")[0])
        if owner is None:
            return None
        source = owner[1].get(fullname)
        if source is None:
            raise ModuleNotFoundError(f"the RECORD of {owner[0].package} has no module {fullname!r}", name=fullname)
        if source.content is None:
            return spec_from_file_location(fullname, source.path)
        inside = [str(source.path.parent)] if source.is_package else None
        loader = _Loader(fullname, source)
        return spec_from_file_location(fullname, source.path, loader=loader, submodule_search_locations=inside)


_FINDER = _Finder()


def _imported(top: str) -> bool:
    return top in sys.modules
