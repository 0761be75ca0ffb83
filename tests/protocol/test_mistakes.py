"""Mistakes in a user's file are told in words: the place, the key and the right one, and what is wanted."""

import datetime as dt
import tomllib
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_node.policy import EnrolledLearner, Policy
from curator_node.records.schema_file import SchemaFile
from learner_node.study_file import StudyFile
from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated, where_is
from protocol.schema import Attribute
from protocol.strict_toml import convert, read_toml, suggest
from simulations.scenario import Scenario


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    name: str = ""

    def __post_init__(self):
        if self.size == 7:
            raise ValueError("seven is too many")


class Round(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="round", tag_field="kind"):
    name: str
    radius: Annotated[float, msgspec.Meta(gt=0)]


class Square(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="square", tag_field="kind"):
    name: str
    side: float


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=3)]
    number: float = 0.0
    whole: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    odd: Annotated[int, msgspec.Meta(multiple_of=3)] = 3
    some: int | None = None
    amount: int | float | str = 0
    yes: bool = False
    word: Literal["one", "two"] = "one"
    words: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=2)] = ("a",)
    pair: tuple[float, float] = (0.0, 1.0)
    shares: dict[Annotated[str, msgspec.Meta(max_length=3)], Annotated[float, msgspec.Meta(gt=0)]] = {}
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    classes: tuple[Part, ...] = ()
    named: dict[str, Part] = {}
    shapes: tuple[Round | Square, ...] = ()
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")] | None = None
    code: Annotated[str, msgspec.Meta(pattern="^a+$")] = "a"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({}, 'the key title is missing; write title = "..."'),
        ({"title": ""}, "title must not be empty"),
        ({"title": "long"}, "title must have at most 3 characters"),
        ({"title": 1}, "title must be text, not a whole number; put it in quotes"),
        ({"title": "a", "number": "0"}, "number must be a number, not text; write it without quotes"),
        ({"title": "a", "number": dt.date(2026, 1, 2)}, "number must be a number, not a date"),
        ({"title": "a", "whole": 0}, "whole must be a whole number, at least 1"),
        ({"title": "a", "whole": 9}, "whole must be a whole number, at most 5"),
        ({"title": "a", "whole": 1.5}, "whole must be a whole number, not one with decimals"),
        ({"title": "a", "odd": 4}, "odd must be a whole number that's a multiple of 3"),
        ({"title": "a", "some": "1"}, "some must be a whole number, not text; write it without quotes"),
        ({"title": "a", "amount": True}, "amount must be a number or text, not true or false"),
        ({"title": "a", "yes": "true"}, "yes must be true or false, not text; write it without quotes"),
        ({"title": "a", "word": "tow"}, "word must be 'one' or 'two', not 'tow'; did you mean 'two'?"),
        ({"title": "a", "words": "a, b"}, 'words must be a list, not text; put it in brackets, as in ["..."]'),
        ({"title": "a", "words": []}, "words must have at least 1 entry"),
        ({"title": "a", "words": ["a", "b", "c"]}, "words must have at most 2 entries"),
        ({"title": "a", "words": ["a", 2]}, "words: item 2 must be text, not a whole number; put it in quotes"),
        ({"title": "a", "pair": [1]}, "pair must be a list of 2, not of 1"),
        ({"title": "a", "pair": [1, "2"]}, "pair: item 2 must be a number, not text; write it without quotes"),
        ({"title": "a", "shares": {"a": 1, "b": 0}}, "shares: b must be a number, above 0"),
        ({"title": "a", "shares": {"long": 1}}, "shares: a name in it must have at most 3 characters"),
        ({"title": "a", "part": 3}, "part must be a table, not a whole number; write [part] on a line of its own"),
        ({"title": "a", "part": {}}, "part: the key size is missing; write size = ..., a number"),
        ({"title": "a", "parts": {"size": 1}}, "parts must be a list, not a table; write [[parts]], in two pairs"),
        ({"title": "a", "parts": [{"size": 1}, {"size": "1"}]}, "part number 2: size must be a whole number, not text"),
        ({"title": "a", "parts": [{"name": "ann", "size": 7}]}, "part 'ann': seven is too many"),
        ({"title": "a", "classes": [{"name": "ann"}]}, "class 'ann': the key size is missing"),
        ({"title": "a", "named": {"x": {"size": 1}, "y": {"size": 7}}}, "named.y: seven is too many"),
        (
            {"title": "a", "shapes": [{"name": "b"}]},
            'shape \'b\': the key kind is missing; write kind = "round" or "square"',
        ),
        (
            {"title": "a", "shapes": [{"name": "b", "kind": "round", "radius": 0}]},
            "shape 'b': radius must be a number, above",
        ),
        ({"title": "a", "key": "zz"}, "key must be a public key, 64 hexadecimal digits in small letters"),
        ({"title": "a", "code": "b"}, "code must be of the form '^a+$'"),
        (3, "it must be a table, not a whole number"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_to_write(told, text):
    with pytest.raises(ConfigurationError) as caught:
        convert(told, File, where="file.toml")
    assert str(caught.value).startswith(f"file.toml: {text}")


@pytest.mark.parametrize(
    ("kind", "told", "text"),
    [
        (Scenario, {"title": "x"}, "the table [data] is missing; write it with the key sites"),
        (Scenario, {"title": "x", "data": {}}, "the table [data.sites] is missing; write it with the key how"),
        (
            Scenario,
            {"title": "x", "data": {"name": "wdbc", "sites": {"how": "site"}}},
            "the table [[learners]] is missing; write at least one with the key name",
        ),
        (
            SchemaFile,
            {"label": "x"},
            "the table [[attributes]] is missing; write at least one with the keys kind and name",
        ),
        (StudyFile, {"title": "x", "source": "a", "epsilon": 1}, "the table [curators] is missing; write it"),
        (
            EnrolledLearner,
            {"name": "ann", "cap": 1},
            "the table [[keys]] is missing; write at least one with the key key",
        ),
    ],
)
def test_a_missing_table_is_told_as_it_is_written(kind, told, text):
    with pytest.raises(ConfigurationError) as caught:
        convert(told, kind, where="file")
    assert str(caught.value) == f"file: {text}"


def test_a_place_is_told_in_the_words_of_the_file():
    data = {"learners": [{"name": "ada", "options": {"a": 1}}, {}], "data": {"sites": {"names": ["x"]}}}
    assert where_is((), data) == ""
    assert where_is(("learners", 0, "options", "a"), data) == "learner 'ada', options.a"
    assert where_is(("learners", 1), data) == "learner number 2"
    assert where_is(("data", "sites", "names", 0), data) == "data.sites, names, item 1"


def test_the_first_name_that_comes_again_is_found():
    assert first_repeated(["a", "b", "c", "b", "a"]) == "b"
    assert first_repeated(["a", "b"]) == first_repeated([]) == ""


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.dates()
KEYS = (
    "title",
    "data",
    "learners",
    "curators",
    "name",
    "sites",
    "label",
    "attributes",
    "kind",
    "cap",
    "limits",
    "keys",
)


@given(
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    st.sampled_from([Scenario, SchemaFile, Policy, StudyFile, EnrolledLearner, File]),
)
def test_whatever_is_written_no_word_of_msgspec_reaches_its_reader(told, kind):
    said = ""
    try:
        convert(told, kind, where="file")
    except ConfigurationError as error:
        said = str(error)
    assert not any(sign in said for sign in ("`", "$.", "Expected", "Object "))


def test_a_file_of_toml_is_told_in_the_same_words():
    text = 'label = "x"\n[[attributes]]\nname = "age"\nkind = "numeric"\nlower = "0"\nupper = 1\n'
    with pytest.raises(ConfigurationError, match="attribute 'age': lower must be a number, not text"):
        convert(tomllib.loads(text), SchemaFile, where="schema.toml")


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cap: int
    name: str = ""


class Circle(msgspec.Struct, frozen=True, tag="circle", tag_field="shape", forbid_unknown_fields=True):
    radius: float


class Tile(msgspec.Struct, frozen=True, tag="square", tag_field="shape", forbid_unknown_fields=True):
    side: float


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    inner: Inner = Inner(0)
    perhaps: Inner | None = None
    inners: tuple[Inner, ...] = ()
    bounded: Annotated[list[Inner], msgspec.Meta(max_length=3)] = []
    shapes: Annotated[tuple[Circle | Tile, ...], msgspec.Meta(max_length=3)] = ()
    best: Circle | Tile | None = None
    table: dict[str, Inner] = {}
    by_shape: dict[str, Circle | Tile] = {}
    attributes: tuple[Attribute, ...] = ()


def complaint(text):
    with pytest.raises(ConfigurationError) as caught:
        read_toml("title = 'x'\n" + text, Outer, where="file.toml")
    assert str(caught.value).startswith("file.toml")
    return str(caught.value)


def test_good_toml_is_read():
    text = "title = 'x'\ninners = [{cap = 1}]\nbest = {shape = 'square', side = 2}\ntable.a.cap = 3"
    assert read_toml(text, Outer, where="file") == Outer("x", inners=(Inner(1),), best=Tile(2.0), table={"a": Inner(3)})


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("inne = 1", "inne", "inner"),
        ("[inner]\ncapp = 1", "capp", "cap"),
        ("[perhaps]\ncapp = 1", "capp", "cap"),
        ("[[inners]]\ncap = 1\n[[inners]]\nnam = 'a'", "nam", "name"),
        ("[[bounded]]\ncapp = 1", "capp", "cap"),
        ("[[shapes]]\nshape = 'circle'\nradios = 1", "radios", "radius"),
        ("[[shapes]]\nshape = 'square'\nsid = 1", "sid", "side"),
        ("[[shapes]]\nshap = 'square'\nside = 1", "shap", "shape"),
        ("[best]\nshape = 'square'\nsid = 1", "sid", "side"),
        ("[table.a]\ncapp = 1", "capp", "cap"),
        ("[by_shape.a]\nshape = 'circle'\nradios = 1", "radios", "radius"),
        ("[[attributes]]\nkind = 'numeric'\nname = 'x'\nlowr = 0\nupper = 1", "lowr", "lower"),
    ],
)
def test_a_misspelt_key_is_named_with_the_right_one(text, wrong, right):
    message = complaint(text)
    assert f"unknown key {wrong!r}" in message
    assert f"did you mean {right!r}?" in message


def test_the_place_of_a_misspelt_key_is_given():
    assert "file.toml: inner number 2:" in complaint("[[inners]]\ncap = 1\n[[inners]]\nnam = 'a'")
    assert "file.toml: table.a:" in complaint("[table.a]\ncapp = 1")
    assert "file.toml: inner:" in complaint("[inner]\ncapp = 1")


def test_the_key_of_another_variant_is_unknown_and_its_own_are_listed():
    message = complaint("[[shapes]]\nshape = 'circle'\nside = 1")
    assert "unknown key 'side'" in message
    assert "radius" in message


def test_an_unknown_variant_is_named_with_the_right_one():
    assert "shape = 'circel'; did you mean 'circle'?" in complaint("[[shapes]]\nshape = 'circel'\nradius = 1")
    assert "kind = 'number'" in complaint("[[attributes]]\nkind = 'number'\nname = 'x'\nlower = 0\nupper = 1")


@pytest.mark.parametrize("text", ["[[shapes]]\nradius = 1", "[[shapes]]\nshape = 1\nradius = 1"])
def test_a_missing_or_ill_typed_variant_is_an_error_that_names_it(text):
    assert "shape" in complaint(text)


def test_a_word_near_nothing_lists_what_is_known():
    assert suggest("zzz", ["beta", "alpha"]) == "; known: alpha, beta"
    assert suggest("alpa", ["beta", "alpha"]) == "; did you mean 'alpha'?"
    assert "known: " in complaint("qqqqqq = 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[inner]\nname = 'a'", "cap"),
        ("[inner]\ncap = 'one'", "cap"),
        ("[inner]\ncap = 1.5", "cap"),
        ("inner = 3", "inner"),
        ("inners = {cap = 1}", "inners"),
        ("table = [1]", "table"),
        ("bounded = [{cap=1},{cap=1},{cap=1},{cap=1}]", "bounded"),
        ("[[attributes]]\nkind = 'numeric'\nname = 'x'\nlower = 2\nupper = 1", "lower < upper"),
    ],
)
def test_a_missing_key_or_wrong_value_is_named(text, expected):
    assert expected in complaint(text)


def test_a_missing_top_key_is_named():
    with pytest.raises(ConfigurationError, match="title"):
        read_toml("", Outer, where="file.toml")


@pytest.mark.parametrize(
    "text",
    ["a = ", "= 1", "[", "a = 1\na = 2", "\x00", "a = 'x", "a = " + "1" * 5000, "a = " + "[" * 50_000],
    ids=range(8),
)
def test_invalid_toml_is_an_error_that_says_so(text):
    assert "is not valid TOML" in complaint(text)


def test_data_that_is_parsed_already_is_checked_the_same_way():
    assert convert({"title": "x"}, Outer, where="here") == Outer("x")
    with pytest.raises(ConfigurationError, match="did you mean 'title'"):
        convert({"titel": "x"}, Outer, where="here")
    with pytest.raises(ConfigurationError, match="here"):
        convert(3, Outer, where="here")
