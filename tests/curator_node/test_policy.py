"""The steward's two files: every slip is named, with the word that was meant."""

from fractions import Fraction

import pytest

from curator_fakes import key, open_curator, policy
from curator_node.policy import LearnerPolicy, Policy, read_policy, settled_limits
from curator_node.records.schema_file import read_schema_file
from limits_told import limits_with
from protocol.codec import decode, encode
from protocol.envelopes import NOT_PRIVATE_LABEL
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsLimits
from protocol.limits import Limits
from simulations.kinds import SIMULATED_ANSWERERS

ANN = key("ann").public.hex()
BOB = key("bob").public.hex()
GOOD = f"""
name = "basel"
cap = 2

[limits]
message_bytes = 65536

[limits.kinds.counts]
cells = 500

[[learners]]
name = "ann"
key = "{ANN}"
cap = "1/3"

[[learners]]
name = "bob"
key = "{BOB}"
cap = 0.3
"""

SCHEMA = """
label = "sick"
classes = ["no", "yes"]
unit = "patient"
most_records_per_unit = 3
round_size = 500

[[attributes]]
kind = "numeric"
name = "age"
lower = 0
upper = 120

[[attributes]]
kind = "categorical"
name = "sex"
levels = ["f", "m"]
"""
BAD_KEY = "learner 'ann': key must be a public key, 64 hexadecimal digits"


def test_good_policy_is_read_exactly():
    policy = read_policy(GOOD)
    assert policy.total_cap == 2
    assert policy.cap_of(key("ann").public) == Fraction(1, 3)
    assert policy.cap_of(key("bob").public) == Fraction(3, 10)
    assert policy.least == Fraction(1, 1000)
    assert QUERY_KINDS.limits(policy.limits, "counts") == CountsLimits(cells=500)
    assert policy.limits.message_bytes == 65536
    assert policy.limits.multiply_adds == Limits().multiply_adds
    assert policy.learner(key("bob").public).name == "bob"
    assert not policy.simulation


def test_stranger_has_no_entry_and_no_cap():
    policy = read_policy(GOOD)
    assert policy.learner(key("eve").public) is None
    assert policy.learner(b"") is None
    assert policy.cap_of(key("eve").public) == 0


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("cap = 2", "cup = 2", r"unknown key 'cup'; did you mean 'cap'\?"),
        ("cells", "cels", r"limits\.kinds\.counts: unknown key 'cels'; did you mean 'cells'\?"),
        ("message_bytes", "message_byte", r"limits: unknown key 'message_byte'; did you mean 'message_bytes'\?"),
        ("message_bytes", "cells", r"limits: unknown key 'cells'"),
        ('name = "bob"', 'nam = "bob"', r"learner number 2: unknown key 'nam'; did you mean 'name'\?"),
        ("cap = 2", "cap = 2\nzzz = 1", "unknown key 'zzz'; known: .*simulation"),
        ("[limits.kinds.counts]", "[limits.kinds.count]", "unknown query kind 'count'; did you mean 'counts'"),
        ("[limits.kinds.counts]", "[limits.kind.counts]", r"limits: unknown key 'kind'; did you mean 'kinds'\?"),
        ("cells = 500", "release_kinds = ['masses']", "unknown release kind 'masses'; did you mean 'mass'"),
        ("cells = 500", "release_kinds = ['paper_ratio']", "unknown release kind 'paper_ratio'"),
        ("cells = 500", "release_kinds = 'mass'", "release_kinds"),
        *[("cap = 2", f"cap = {cap}", "cap") for cap in ("true", "[1]", "2020-01-01")],
        *[(ANN, bad, BAD_KEY) for bad in ("", "ab", ANN[:-1], ANN + "0", ANN.upper(), "g" * 64, f"0x{ANN[2:]}")],
        (ANN, f" {ANN[1:]}", BAD_KEY),
        (BOB, ANN, "two learners have the same key"),
        ('"bob"', '"ann"', "two learners have the same name, '"),
        ('"basel"', "''", "name"),
        ("cap = 2", "cap = 2\nopen_studies = 0", "open_studies"),
        ("cap = 2", "cap = 2\nopen_studies = 2.5", "open_studies"),
        ("cap = 2", "cap = 2\nreservation_seconds = 0", "reservation_seconds"),
        ("cap = 2", "cap = 2\nmessage_seconds = -1", "message_seconds"),
        ("cap = 2", "cap = 2\ncache_bytes = -1", "cache_bytes"),
        ("cap = 2", "cap = 2\nsimulation = 1", "simulation"),
        ("cap = 2", "cap = 2\nsimulation = 'true'", "simulation"),
        *[("cells = 500", f"{limit} = 0", limit) for limit in ("cells", "partitions", "parameters")],
        *[("message_bytes = 65536", f"{limit} = 0", limit) for limit in ("multiply_adds", "message_bytes")],
    ],
)
def test_a_slip_in_a_policy_is_named_with_what_was_meant(old, new, match):
    with pytest.raises(ConfigurationError, match=match):
        read_policy(GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    "cap", ["0", "-1", '"0"', '"-1/3"', '"1/0"', '"0/5"', "inf", "nan", '"one"', '"1e9"', '""', '"1/3/3"']
)
@pytest.mark.parametrize("where", ["cap = 2", 'cap = "1/3"', 'name = "basel"'])
def test_cap_that_is_no_positive_rational_is_refused(cap, where):
    new = f"{where}\nleast_cost = {cap}" if where.startswith("name") else f"cap = {cap}"
    with pytest.raises(ConfigurationError, match="positive"):
        read_policy(GOOD.replace(where, new, 1))


def test_a_policy_may_allow_no_kind_and_name_the_allowed_ones_alone():
    text = 'name = "basel"\ncap = 1\n'
    assert settled_limits(read_policy(text), QUERY_KINDS).kinds.keys() == {"counts"}
    assert settled_limits(read_policy(f"{text}[limits]\nkinds = {{}}"), QUERY_KINDS).kinds == {}
    settled = settled_limits(read_policy(f"{text}[limits.kinds.counts]\ncells = 7"), QUERY_KINDS)
    for limits, of_kind in (
        (settled, CountsLimits(cells=7)),
        (settled_limits(read_policy(text), QUERY_KINDS), CountsLimits()),
    ):
        assert decode(encode(limits), Limits) == limits, "as it comes over the wire"
        assert limits.kinds == {"counts": decode(encode(of_kind), dict)}


def test_what_is_said_of_kinds_may_be_left_unread():
    """A ledger is shown beside a policy file whose kinds are not installed here."""
    text = GOOD.replace("[limits.kinds.counts]", "[limits.kinds.sums]")
    assert read_policy(text, kinds=None).total_cap == 2
    with pytest.raises(ConfigurationError, match=r"policy basel\.toml: unknown query kind 'sums'"):
        read_policy(text, where="policy basel.toml")


def test_missing_key_and_broken_toml_are_told():
    with pytest.raises(ConfigurationError, match="the key cap is missing; write cap = "):
        read_policy('name = "basel"')
    with pytest.raises(ConfigurationError, match=r"policy basel\.toml is not valid TOML"):
        read_policy("cap = ", where="policy basel.toml")


def test_policy_made_in_code_obeys_the_same_rules():
    with pytest.raises(ValueError, match="positive"):
        Policy(name="basel", cap=0)
    with pytest.raises(ValueError, match="positive"):
        Policy(name="basel", cap=1, learners=(LearnerPolicy(name="ann", key=ANN, cap="-1"),))
    faults = {
        "unknown release kind 'masses'": limits_with(release_kinds=["masses"]),
        "unknown query kind 'count'; did you mean 'counts'": limits_with(query_kinds=["count"]),
        "cells": limits_with(cells=0),
        "'cels'; did you mean 'cells'": Limits(kinds={"counts": {"cels": 5}}),
    }
    for match, limits in faults.items():
        with pytest.raises(ConfigurationError, match=match):
            open_curator(rules=policy(limits=limits))
    printed = limits_with(release_kinds=["paper_ratio"])
    with pytest.raises(ConfigurationError, match="needs simulation = true"):
        open_curator(rules=policy(limits=printed), answerers=SIMULATED_ANSWERERS)
    simulated = open_curator(rules=policy(limits=printed, simulation=True), answerers=SIMULATED_ANSWERERS)
    assert simulated.label == NOT_PRIVATE_LABEL


def test_good_schema_file_is_read():
    steward = read_schema_file(SCHEMA)
    assert [a.name for a in steward.schema.attributes] == ["age", "sex"]
    assert (steward.most_records_per_unit, steward.round_size) == (3, 500)


def test_a_label_may_have_up_to_256_classes_or_be_a_number():
    many = tuple(f"class {n}" for n in range(256))
    assert read_schema_file(SCHEMA.replace('["no", "yes"]', str(list(many)))).schema.classes == many
    schema = read_schema_file(SCHEMA.replace('classes = ["no", "yes"]', "label_bounds = [-1, 200]")).schema
    assert (schema.classes, schema.label_bounds) == ((), (-1.0, 200.0))
    assert schema.differences(read_schema_file(SCHEMA).schema) == ["sick"]
    wider = read_schema_file(SCHEMA.replace('classes = ["no", "yes"]', "label_bounds = [-1, 201]")).schema
    assert schema.differences(wider) == ["sick"]
    assert schema.differences(schema) == []


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("round_size", "round_sise", r"unknown key 'round_sise'; did you mean 'round_size'\?"),
        ("lower", "lowest", r"attribute 'age': unknown key 'lowest'; did you mean 'lower'\?"),
        ("levels", "level", r"attribute 'sex': unknown key 'level'; did you mean 'levels'\?"),
        ("upper = 120", "upper = 0", "'age' needs lower < upper"),
        ("upper = 120", "upper = inf", "'age' needs lower < upper"),
        ("upper = 120", "upper = nan", "'age' needs lower < upper"),
        ('["f", "m"]', '["f", "f"]', "'sex' declares the level 'f' twice"),
        ('name = "sex"', 'name = "age"', "two attributes have the same name, 'age'"),
        ('name = "sex"', 'name = "sick"', "the label 'sick' is also listed as an attribute"),
        ('name = "sex"', 'name = "patient"', "unit column 'patient' is also the label or an attribute"),
        ('["no", "yes"]', '["no", "no"]', "two classes have the same name, 'no'"),
        ('["no", "yes"]', '["no"]', "classes"),
        ('["no", "yes"]', "[]", "either classes or label_bounds"),
        ('["no", "yes"]', str([f"c{n}" for n in range(257)]), "classes"),
        ('classes = ["no", "yes"]', "label_bounds = [1, 0]", "'sick' needs lower < upper"),
        ('classes = ["no", "yes"]', "label_bounds = [0, inf]", "'sick' needs lower < upper"),
        ('classes = ["no", "yes"]', "label_bounds = [0]", "label_bounds"),
        ('classes = ["no", "yes"]', "", "either classes or label_bounds"),
        ('classes = ["no", "yes"]', 'classes = ["no", "yes"]\nlabel_bounds = [0, 1]', "one of the two"),
        ('unit = "patient"\n', "", "needs a unit column"),
        ("most_records_per_unit = 3", "most_records_per_unit = 0", "most_records_per_unit"),
        ("round_size = 500", "round_size = 0", "round_size"),
        ('kind = "numeric"', 'kind = "number"', "number"),
    ],
)
def test_slip_in_a_schema_file_is_named(old, new, match):
    with pytest.raises(ConfigurationError, match=match):
        read_schema_file(SCHEMA.replace(old, new, 1))
