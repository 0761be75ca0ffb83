"""Errors of a user's TOML name the key and suggest the right one."""

from typing import Annotated

import msgspec
import pytest

from protocol.errors import ConfigurationError
from protocol.schema import Attribute
from protocol.strict_toml import convert, read_toml, suggest


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cap: int
    name: str = ""


class Circle(msgspec.Struct, frozen=True, tag="circle", tag_field="shape", forbid_unknown_fields=True):
    radius: float


class Square(msgspec.Struct, frozen=True, tag="square", tag_field="shape", forbid_unknown_fields=True):
    side: float


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    inner: Inner = Inner(0)
    perhaps: Inner | None = None
    inners: tuple[Inner, ...] = ()
    bounded: Annotated[list[Inner], msgspec.Meta(max_length=3)] = []
    shapes: Annotated[tuple[Circle | Square, ...], msgspec.Meta(max_length=3)] = ()
    best: Circle | Square | None = None
    table: dict[str, Inner] = {}
    by_shape: dict[str, Circle | Square] = {}
    attributes: tuple[Attribute, ...] = ()


def complaint(text):
    with pytest.raises(ConfigurationError) as caught:
        read_toml("title = 'x'\n" + text, Outer, where="file.toml")
    assert str(caught.value).startswith("file.toml")
    return str(caught.value)


def test_good_toml_is_read():
    text = "title = 'x'\ninners = [{cap = 1}]\nbest = {shape = 'square', side = 2}\ntable.a.cap = 3"
    assert read_toml(text, Outer, where="file") == Outer(
        "x", inners=(Inner(1),), best=Square(2.0), table={"a": Inner(3)}
    )


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
