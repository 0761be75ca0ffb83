"""The parts of a claim package: the signed list, the registry's entry, the checklist, what people know."""

import os
import re
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from audit_results import package_facts
from expril.audit.package.checklist import as_objects, checklist_document, readme
from expril.audit.package.contents import numbers_told
from expril.audit.package.deployment import as_yaml, build_entry, check_entry, read_entry, round_up, total_epsilon
from expril.audit.package.evidence import CuratorSpent
from expril.audit.package.facts import NEEDED, TEMPLATE, Facts, read_facts
from expril.audit.package.manifest import MANIFEST, SIGNATURE, check_folder, seal_folder
from expril.audit.package.requirements import (
    HEALTH_DATA,
    MET,
    NOT_MET,
    OUTSIDE,
    PART,
    PYRAMID,
    health_data_rows,
    pyramid_rows,
)
from expril.commands.app import app
from expril.report.page import as_page
from page_outline import Outline
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
KEY = SigningKey.from_seed(bytes(32))
FACTS = Facts(
    name="Model of three wards",
    intended_use="To plan beds; not to judge anybody.",
    records="One stay of an adult.",
    region="EU",
    publication_date="2026-11-30",
    authors=("A. Steward",),
    looked_before="nothing",
    sector="Healthcare",
)
SPENT = (
    CuratorSpent(
        "north", Fraction(1, 3), Fraction(1, 3), {"ada": Fraction(1, 3)}, "each record", "A unit is one record."
    ),
    CuratorSpent("east", Fraction(1), Fraction(1, 2), {"ada": Fraction(1, 2)}, "each record", "A unit is one record."),
)


# The signed list


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "one.json").write_text("{}\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "deep" / "er" / "two.msgpack").write_bytes(bytes(range(64)))
    seal_folder(tmp_path, KEY, expril="0.3.0", created="2026-11-22T15:00:00+00:00")
    return tmp_path


def test_a_sealed_folder_is_whole(folder):
    manifest, wrong = check_folder(folder, key=KEY.public.hex())
    assert wrong == []
    assert set(manifest.files) == {"one.json", "empty", "deep/er/two.msgpack"}


def test_every_flipped_byte_of_every_file_is_found_and_the_file_is_named(folder):
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        for place in range(len(whole)):
            bit = 0x20 if place % 2 else 0x01  # a hexadecimal letter may become a capital
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            assert any(path.name in text for text in check_folder(folder)[1]), (path.name, place)
        path.write_bytes(whole)
    assert check_folder(folder)[1] == []


def test_what_is_missing_added_or_linked_is_named(folder):
    (folder / "empty").unlink()
    (folder / "more").write_text("x")
    (folder / "one.json").unlink()
    (folder / "one.json").symlink_to(folder / "more")
    (folder / "deep" / "manifest.json").write_text("{}")
    wrong = check_folder(folder)[1]
    assert wrong == [
        "empty is missing",
        "one.json is no plain file",
        "deep/manifest.json is not in the signed list",
        "more is not in the signed list",
    ]


def test_whose_key_it_is_can_be_demanded(folder):
    other = SigningKey.from_seed(bytes([1] * 32))
    assert any("not by the key" in text for text in check_folder(folder, key=other.public.hex())[1])
    seal_folder(folder, other, expril="0.3.0", created="later")  # anybody can sign anew, under another key
    assert check_folder(folder)[1] == []
    assert any("not by the key" in text for text in check_folder(folder, key=KEY.public.hex())[1])


def test_a_list_without_its_signature_proves_nothing(folder):
    (folder / SIGNATURE).unlink()
    assert any(SIGNATURE in text for text in check_folder(folder)[1])
    (folder / MANIFEST).write_bytes(b"[]")
    assert check_folder(folder)[0] is None
    (folder / MANIFEST).unlink()
    with pytest.raises(ConfigurationError, match="no claim package"):
        check_folder(folder)


def test_a_folder_with_a_link_is_not_sealed(tmp_path):
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigurationError, match="no plain file"):
        seal_folder(tmp_path, KEY, expril="", created="")


# What people know


def test_a_template_names_every_key_and_asks_for_what_is_needed(tmp_path):
    assert set(re.findall(r"^(?:# )?([a-z_]+) = ", TEMPLATE, re.MULTILINE)) == set(Facts.__struct_fields__)
    (tmp_path / "facts.toml").write_text(TEMPLATE)
    with pytest.raises(ConfigurationError, match=f"fill in {', '.join(NEEDED)};"):
        read_facts(tmp_path / "facts.toml")


def test_facts_are_read(tmp_path):
    path = tmp_path / "facts.toml"
    text = TEMPLATE.replace('""', '"nothing"').replace("authors = []", 'authors = ["A"]').replace("# sector", "sector")
    path.write_text(text.replace('publication_date = "nothing"', 'publication_date = "2026-11-30"'))
    assert read_facts(path).sector == "Healthcare"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="publication_date is 'nothing'; write it as"):
        read_facts(path)
    path.write_text(text.replace("region", "regoin"))
    with pytest.raises(ConfigurationError, match="did you mean 'region'"):
        read_facts(path)
    with pytest.raises(ConfigurationError, match="--template"):
        read_facts(tmp_path / "nowhere.toml")


def test_a_slug_is_part_of_a_url():
    assert FACTS.slug == "model_of_three_wards"
    assert Facts(name="ÄÖ").slug == "deployment"


# The registry's entry


@pytest.fixture(scope="module")
def schema():
    data = os.environ.get("EXPRIL_DATA_DIR", "")
    place = os.environ.get("EXPRIL_REGISTRY_DIR") or str(Path(data).parent / "reference" / "registry")
    path = Path(place) / "deployments-schema.yaml"
    if not data and "EXPRIL_REGISTRY_DIR" not in os.environ:
        pytest.skip("EXPRIL_REGISTRY_DIR is not set: the registry's schema is a third party's file")
    if not path.is_file():
        pytest.skip(f"no deployments-schema.yaml in {place}: the registry's schema is a third party's file")
    return path


def entry(**changed):
    return build_entry(FACTS, SPENT, versions={"opendp": "0.14.1"}, **changed)


def test_the_entry_fits_the_registry_s_schema(schema):
    check_entry(entry(), schema)
    assert read_entry(as_yaml(entry())) == entry()


def test_every_field_of_the_third_tier_is_filled(schema):
    import yaml

    rules = yaml.safe_load(schema.read_text(encoding="utf-8"))["properties"]["deployment"]["properties"]
    told = entry()["deployment"]
    optional = {("privacy_loss", "rho"), ("administrative", "sources"), ("administrative", "notes")}
    missing = {
        (part, field)
        for part, rule in rules.items()
        for field in rule["properties"]
        if not told[part].get(field) and (part, field) not in optional
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["deployment"]["basic"].update(data_product_sector="Healthcar"), "basic.data_product_sector"),
        (lambda one: one["deployment"]["basic"].update(publication_date="soon"), "basic.publication_date"),
        (lambda one: one["deployment"]["basic"].pop("intended_use"), "intended_use"),
        (lambda one: one["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="1/3"), "epsilon"),
        (lambda one: one.update(extra=1), "the entry"),
    ],
)
def test_a_field_that_does_not_fit_is_named(schema, change, said):
    told = entry()
    change(told)
    with pytest.raises(ConfigurationError, match=said):
        check_entry(told, schema)


@pytest.mark.parametrize("text", ["- 1: [", "7", "type: 7", "\t"])
def test_a_schema_that_is_none_is_told(text, tmp_path):
    (tmp_path / "schema.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match="is no JSON Schema"):
        check_entry({}, tmp_path / "schema.yaml")


def test_epsilon_is_the_sum_unless_everybody_is_at_one_curator():
    assert total_epsilon(SPENT, one_curator_each=False) == Fraction(5, 6)
    assert total_epsilon(SPENT, one_curator_each=True) == Fraction(1, 2)
    told = entry()["deployment"]["privacy_loss"]
    assert "5/6, their sum" in told["privacy_parameters_details"]
    assert told["privacy_parameters"] == {"epsilon": round_up(Fraction(5, 6)), "delta": 0}


@given(st.fractions(min_value=0, max_value=10**6))
def test_an_epsilon_is_never_rounded_down(value):
    assert Fraction(round_up(value)) >= value
    assert round_up(value) <= float(value) * (1 + 2**-52)


@pytest.mark.parametrize("text", ["[", "7", "- a"])
def test_what_is_no_entry_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"deployment\.yaml"):
        read_entry(text)


# The checklist

LISTS = {"pyramid": (pyramid_rows, PYRAMID), "health data": (health_data_rows, HEALTH_DATA)}
SHOWN = [(row.identifier or row.question, row) for rows, _ in LISTS.values() for row in rows(package_facts())]


def sections(page):
    titles = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}


def command_exists(words):
    """Whether words such as "expril audit run --receipt" name a command, with options that it has."""
    command, *names = typer.main.get_command(app), *words.split()[1:]
    for name in names:
        if name.startswith("--"):
            if not any(name in option.opts for option in command.params):
                return False
        elif name in getattr(command, "commands", {}):
            command = command.commands[name]
        elif name != "all" or getattr(command, "commands", {}):
            return False
    return not getattr(command, "commands", {})


@pytest.mark.parametrize(("name", "row"), SHOWN, ids=[name for name, _ in SHOWN])
def test_each_row_is_shown_by_a_command_or_a_section_that_there_is(name, row):
    assert row.status in (MET, PART, NOT_MET, OUTSIDE)
    assert (row.proof == "") == (row.status == OUTSIDE)
    if row.proof.startswith("docs/"):
        page, _, section = row.proof.partition("#")
        assert (ROOT / page).is_file()
        assert not section or section in sections(page)
    elif row.proof:
        assert all(command_exists(words) for words in row.proof.split("; ")), row.proof
    assert "tests/" not in row.proof


@pytest.mark.parametrize("name", LISTS)
def test_every_block_of_a_list_is_asked_about_once(name):
    rows, blocks = LISTS[name]
    found = rows(package_facts())
    assert [block for block, _ in groupby(row.block for row in found)] == list(blocks)
    assert len({row.question for row in found}) == len(found)


def test_the_requirements_on_software_are_answered_by_identifier():
    found = [row.identifier for row in health_data_rows(package_facts())]
    due = [*(f"FCR-{number}" for number in range(1, 10)), *(f"EHDSR-{number}" for number in range(6, 14)), "OPR-20"]
    assert set(due) <= set(found)
    assert len(set(found)) == len(found)


def test_answers_are_made_from_the_evidence():
    """Whatever a package proves otherwise is answered otherwise."""
    before = package_facts()
    texts = {row.question: row.answer for rows, _ in LISTS.values() for row in rows(before)}
    changes = {
        "learners": 7,
        "epsilon": "8/3",
        "answers": 77,
        "entries": 99,
        "snapshots": 13,
        "kinds": 3,
        "controls": 55,
    }
    for name, value in changes.items():
        after = {row.question: row.answer for rows, _ in LISTS.values() for row in rows(package_facts(**{name: value}))}
        changed = [question for question, text in after.items() if text != texts[question]]
        assert changed, name
        assert all(str(value) in after[question] for question in changed)


def test_without_a_ledger_no_log_is_claimed():
    rows = {row.identifier: row for row in health_data_rows(package_facts(ledgers=0, entries=0, snapshots=0))}
    assert rows["EHDSR-6"].status == PART
    assert "no ledger is in this package" in rows["EHDSR-6"].answer.lower()


def test_the_checklist_is_a_page_that_runs_our_own_script_alone():
    outline = Outline(as_page(checklist_document(package_facts())))
    assert not {"img", "link"} & {tag for tag, _ in outline.elements}
    assert outline.count("script") == 1
    assert "No certification is claimed" in outline.text
    for _, row in SHOWN:
        assert row.question in outline.text
        assert row.proof in outline.text
    objects = as_objects(package_facts())
    assert len(objects) == len(SHOWN)
    assert objects[0].keys() == {"source", "block", "question", "status", "answer", "proof", "identifier"}
    assert "cd" * 32 in readme("cd" * 32)


WORDINGS = st.text(st.sampled_from("0123456789 ,./-abé"), max_size=40)


@given(WORDINGS, st.sampled_from([", ", "; ", " – "]))
def test_a_comma_changes_no_number_and_a_number_does(text, comma):
    told = numbers_told(f"epsilon is 3/2{comma}delta is 0. {text}")
    assert told == numbers_told(f"delta is 0 and epsilon is 3/2 {text}")
    assert told != numbers_told(f"epsilon is 1/2{comma}delta is 0. {text}")
