"""Packages of others: found by metadata, loaded where a policy names them, by version and RECORD, and nowhere else."""

import importlib
import itertools
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from command_line import run
from curator_fakes import ROWS, Clock, Learner, dataset, frame_of, key, ledger_over, policy, steward_file, toml
from curator_node.daemon.service import PolicyFiles
from curator_node.ledger.checks import check
from curator_node.ledger.places import read_store
from curator_node.plug_ins import plugged
from curator_node.policy import read_policy
from curator_node.records.workloads import encode_workload
from curator_node.site import LEDGER, POLICY, assemble_site, create_site, open_site, policy_of, temporary_site
from curator_node.steward.check import check_site
from expril.packages import installed_packages
from plug_in_wheels import installed
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.ledger.entries import EntryKind
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plug_ins import Group, PlugIn, are_plug_ins, written_plug_ins
from protocol.transcript import replay
from toy.partition import ToyDecades

NUMBERS = itertools.count()
KIND = "from toy.kind import TOY\nfrom toy.answerer import TOY_ANSWERER\n"
KIND_OFFERS = {Group.KINDS: {"toy": "{}:TOY"}, Group.ANSWERERS: {"toy": "{}:TOY_ANSWERER"}}
PARTITION = "from toy.partition import ToyDecades\n"
PARTITION_OFFERS = {Group.PARTITIONS: {"toy_decades": "{}:ToyDecades"}}


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Installs packages, each with a module of its own name, since what was imported stays in this process."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def install(text, offers, *, name="expril-toy", version="1.0", module="", **more):
        module = module or f"toy_plug_in_{next(NUMBERS)}"
        modules = {f"{module}/__init__.py": text, **{f"{module}/{path}.py": code for path, code in more.items()}}
        named = {group: {key: to.format(module) for key, to in names.items()} for group, names in offers.items()}
        installed(site, name, version, modules, named)
        importlib.invalidate_caches()
        return site / module

    return install


def plug_in(name="expril-toy"):
    return installed_packages()[name].plug_in


def rules(*plug_ins, kinds=("counts",), **more):
    limits = Limits(kinds={name: {} for name in kinds})
    return policy(plug_ins=plug_ins, limits=limits, **more)


def refused(*plug_ins, **more):
    """Why no curator can be made with these."""
    with pytest.raises(ConfigurationError) as caught:
        plugged(rules(*plug_ins, **more))
    return str(caught.value)


def site_of(*plug_ins, store=None, **more):
    return assemble_site(
        dataset(), rules(*plug_ins, **more), key=key("basel"), ledger=ledger_over(store), clock=Clock()
    )


def decades_body(partition=ToyDecades("age", 12)):  # noqa: B008 - frozen
    return encode(CountsBody(partitions=(partition,), hypothesis=None))


# what is found, and what is loaded


def test_discovery_reads_metadata_and_imports_nothing(put):
    put("raise RuntimeError('imported')", KIND_OFFERS | PARTITION_OFFERS)
    package = installed_packages()["expril-toy"]
    assert package.names(Group.KINDS) == ("toy",)
    assert package.summary == "query kind toy; answerer toy; partition toy_decades"
    assert plugged(policy()) is plugged(policy())  # the shipped table, untouched
    assert "cannot be loaded" in refused(plug_in())
    printed = run("curator", "plug-ins", "Expril_Toy").output
    assert plug_in().lines in printed
    assert run("curator", "plug-ins", "expril-toi", code=2).output.count("expril-toy") == 1


def test_a_policy_names_package_version_and_record(put):
    put(PARTITION, PARTITION_OFFERS)
    named = plug_in()
    text = f'name = "basel"\ncap = 1\n{named.lines}'
    assert read_policy(text).plug_ins == (named,)
    assert "not installed; did you mean 'expril-toy'" in refused(msgspec.structs.replace(named, package="expril-tog"))
    assert "version 1.0 is installed" in refused(msgspec.structs.replace(named, version="0.9"))
    assert "RECORD" in refused(msgspec.structs.replace(named, record="0" * 64))
    assert "twice" in refused(named, named)
    for wrong in ('package = "Expril_Toy"', 'record = "abc"', 'version = "1 0"'):
        name = wrong.partition(" ")[0]
        with pytest.raises(ConfigurationError, match=name):
            read_policy("\n".join(wrong if line.startswith(name) else line for line in text.splitlines()))


@pytest.mark.parametrize("how", ["changed", "missing", "data"])
def test_a_file_that_is_not_as_record_says_stops_the_curator(put, how):
    path = put(PARTITION, PARTITION_OFFERS, more="X = 1\n")
    named = plug_in()
    file = path / "more.py"
    if how == "missing":
        file.unlink()
    else:
        file.write_text("X = 2\n")
    assert "was changed after" in refused(named) or how == "missing"
    assert "more.py" in refused(named)


def test_later_imports_come_from_the_compared_bytes_and_what_record_lacks_is_not_found(put):
    path = put(
        "import importlib\nfrom toy.partition import ToyDecades\ndef later(name):\n"
        "    return importlib.import_module(f'{__name__}.{name}')\n",
        PARTITION_OFFERS,
        late="VALUE = 'as it was installed'\n",
    )
    plugged(rules(plug_in()))
    (path / "late.py").write_text("VALUE = 'changed'\n")
    (path / "strange.py").write_text("")
    module = sys.modules[path.name]
    assert module.later("late").VALUE == "as it was installed"
    with pytest.raises(ModuleNotFoundError, match="RECORD"):
        module.later("strange")


def test_code_that_was_imported_before_it_was_compared_is_refused(put):
    path = put(PARTITION, PARTITION_OFFERS)
    importlib.import_module(path.name)
    assert "imported before" in refused(plug_in())
    assert ToyDecades in plugged(rules(plug_in(), simulation=True))["counts"].kind.partition.__args__


def test_an_editable_package_is_for_simulations_alone(put, tmp_path):
    path = put(PARTITION, PARTITION_OFFERS)
    record = next((tmp_path / "site").glob("*.dist-info/RECORD"))
    named = plug_in()
    record.with_name("direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    assert "editable" in refused(named)
    site = temporary_site(frame_of(ROWS), steward_file(), rules(named, simulation=True))
    assert any("editable" in warning for warning in site.warnings)
    assert "# editable" in run("curator", "plug-ins").output
    assert path.name in sys.modules


@pytest.mark.parametrize(
    ("offers", "text", "why"),
    [
        ({Group.KINDS: {"counts": "{}:TOY"}}, KIND, "one of that name already"),
        ({Group.PARTITIONS: {"feature_bins": "{}:ToyDecades"}}, PARTITION, "one of that name already"),
        ({Group.PARTITIONS: {"Toy Decades": "{}:ToyDecades"}}, PARTITION, "lower-case"),
        ({Group.PARTITIONS: {"other": "{}:ToyDecades"}}, PARTITION, "tag='other'"),
        ({Group.PARTITIONS: {"toy_decades": "{}:absent"}}, PARTITION, "cannot be loaded"),
        ({Group.PARTITIONS: {"toy_decades": "{}.absent:x"}}, PARTITION, "holds no module"),
        (
            {Group.PARTITIONS: {"toy_decades": "{}:QUERY_KINDS"}},
            "from protocol.kinds import *",
            "must be a msgspec.Struct",
        ),
        ({Group.PARTITIONS: {"toy_decades": "{} ToyDecades"}}, PARTITION, "entry point 'toy_decades' is no"),
        ({Group.KINDS: {"other": "{}:TOY"}}, KIND, "whose name is 'other'"),
        ({Group.ANSWERERS: {"toy": "{}:TOY_ANSWERER"}}, KIND, "offers in expril.kinds"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(put, offers, text, why):
    put(text, offers)
    assert why in refused(plug_in())


@pytest.mark.parametrize("module", ["protocol", "json"])
def test_no_package_takes_the_place_of_a_module_that_is_there(put, module):
    put(PARTITION, PARTITION_OFFERS, module=module)
    assert "would take the place" in refused(plug_in())


def test_two_packages_with_one_name_are_refused(put):
    put(PARTITION, PARTITION_OFFERS)
    put(PARTITION, PARTITION_OFFERS, name="other-toy")
    assert "one of that name already" in refused(plug_in(), plug_in("other-toy"))


# curators


def test_each_curator_reads_what_its_own_policy_names(put):
    put(PARTITION, PARTITION_OFFERS)
    named, plain = site_of(plug_in()), site_of()
    for site, expected in ((named, Release), (plain, Refusal)):
        learner = Learner(site, kinds=named.curator.kinds)
        learner.card()
        learner.propose()
        answer = learner.query(decades_body())
        assert isinstance(answer, expected)
        replayed = replay(learner.session.transcript.envelopes, key("basel").public, key("ann").public)
        assert ("not installed: unproven" in replayed.unproven) == isinstance(answer, Release)
    assert answer.code == "malformed"
    assert QUERY_KINDS["counts"].partition is plain.curator.kinds["counts"].partition


def test_records_beyond_attributes_and_cells_beyond_the_last_stay_out():
    class Strange(ToyDecades, frozen=True, tag="strange"):
        def cells(self, records):
            assert not records.further
            return np.arange(len(records)) * 1000 - 1000

    records = dataset().records.with_further({"sick": np.zeros(len(ROWS), np.int64)})
    (codes,) = encode_workload((Strange("age", 3),), records).groups
    assert (codes // 2).tolist() == [0, 0, 3, 3, 3]


def test_plug_ins_are_entries_of_the_ledger_and_the_ledger_opens_without_them(put, tmp_path):
    put(KIND, KIND_OFFERS)
    folder, first = tmp_path / "ward", plug_in()
    text = toml(rules(first, kinds=("counts", "toy")))
    create_site(folder, policy=text, schema=toml(steward_file()), records=frame_of(ROWS))
    for _ in range(2):
        with open_site(folder) as site:
            assert "toy" in site.curator.kinds
            with pytest.raises(ConfigurationError, match="when the curator starts"):
                site.adopt(rules(kinds=("counts",)))
    told = [finding.text for finding in check_site(folder).findings]
    assert "plug-in expril-toy 1.0, as the policy names it: query kind toy; answerer toy" in told
    put(KIND, KIND_OFFERS, version="2.0")
    for old in (tmp_path / "site").glob("expril_toy-1.0.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    importlib.invalidate_caches()
    with pytest.raises(ConfigurationError, match=r"version 2\.0 is installed"):
        open_site(folder)
    second = plug_in()
    (folder / POLICY).write_text(toml(rules(second, kinds=("counts", "toy"))))
    open_site(folder).close()
    (folder / POLICY).write_text(toml(rules()))
    open_site(folder).close()
    for path in sorted((tmp_path / "site").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    importlib.invalidate_caches()
    assert policy_of(folder).plug_ins == ()
    with read_store(folder / LEDGER) as store:
        checked = check(store)
    assert checked.findings == ()
    notes = [entry.note for entry in checked.entries if entry.kind is EntryKind.PLUG_INS]
    assert notes == [written_plug_ins([first]), written_plug_ins([second]), ""]


def test_a_curator_that_serves_imports_nothing_that_its_policy_newly_names(put, tmp_path):
    path, folder = put("raise RuntimeError('imported')", PARTITION_OFFERS), tmp_path / "ward"
    create_site(folder, policy=toml(rules()), schema=toml(steward_file()), records=frame_of(ROWS))
    files = PolicyFiles(folder)
    with open_site(folder) as site:
        (folder / POLICY).write_text(toml(rules(plug_in())))
        with pytest.raises(ConfigurationError, match="when the curator starts"):
            site.adopt(files.read())
    assert path.name not in sys.modules


def test_what_a_ledger_says_of_plug_ins_has_one_form():
    one, two = PlugIn("a", "1", "0" * 64), PlugIn("b", "1", "0" * 64)
    note = written_plug_ins([two, one])
    assert note == written_plug_ins([one, two])
    assert are_plug_ins(note)
    assert are_plug_ins("")
    for bad in (f"{two}\n{one}", f"{one}\n{one}", f"{one}\n", "a 1", str(Path())):
        assert not are_plug_ins(bad)
