"""The schema of records: attributes, levels, bounds and label. The curator's steward writes it, and it is public."""

import math
from functools import cached_property
from typing import Annotated

import msgspec

from protocol.mistakes import first_repeated

MOST_MAGNITUDE = 1e15
"""Largest magnitude of bounds, offsets and factors, so that no later product overflows."""

MOST_CLASSES = 256
"""Most classes: a class index fits one byte."""

MISSING_TEXTS = ("", "?", "NA", "NaN", "nan", "null")
"""Texts that mean a missing value."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Description = Annotated[str, msgspec.Meta(max_length=2000)]


class NumericAttribute(msgspec.Struct, frozen=True, tag="numeric", tag_field="kind", forbid_unknown_fields=True):
    """A number with public bounds. Values outside them are moved to the nearer bound before anything else."""

    name: Name
    lower: float
    upper: float
    description: Description = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "lower", float(self.lower))
        msgspec.structs.force_setattr(self, "upper", float(self.upper))
        finite = math.isfinite(self.lower) and math.isfinite(self.upper)
        if not finite or max(abs(self.lower), abs(self.upper)) > MOST_MAGNITUDE or self.lower >= self.upper:
            raise ValueError(f"attribute {self.name!r} needs lower < upper, both within +-{MOST_MAGNITUDE:g}")


class CategoricalAttribute(
    msgspec.Struct, frozen=True, tag="categorical", tag_field="kind", forbid_unknown_fields=True
):
    """One of a few declared levels; any other value counts as "other"."""

    name: Name
    levels: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=1000)]
    description: Description = ""

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError(
                f"attribute {self.name!r} declares the level {first_repeated(self.levels)!r} twice; write it once"
            )
        _check_texts(self.levels, f"attribute {self.name!r}: level")


Attribute = NumericAttribute | CategoricalAttribute


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The attributes of a record and its label: a class, or a number."""

    # in order; names are unique and differ from the label's
    attributes: Annotated[tuple[Attribute, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    label: Name  # name of the label column
    # 2 to 256 class names, class 0 first; of two, the second is the positive one. Empty for a number.
    classes: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_CLASSES)] = ()
    # (lower, upper) of a label that is a number; labels outside move to the nearer bound. None for classes.
    label_bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) != len(names):
            raise ValueError(
                f"two attributes have the same name, {first_repeated(names)!r}; each column is declared once"
            )
        if self.label in names:
            raise ValueError(f"the label {self.label!r} is also listed as an attribute; take it out of the attributes")
        if bool(self.classes) == (self.label_bounds is not None):
            raise ValueError("a label needs either classes or label_bounds, one of the two")
        if self.label_bounds is not None:
            # As a numeric attribute's: finite, rising, within what no later product overflows.
            bounds = NumericAttribute(self.label, *self.label_bounds)
            msgspec.structs.force_setattr(self, "label_bounds", (bounds.lower, bounds.upper))
        elif len(self.classes) < 2:
            raise ValueError("classes must name at least two")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"two classes have the same name, {first_repeated(self.classes)!r}; write it once")
        _check_texts(self.classes, "class")

    def find(self, name: str) -> Attribute | None:
        """The attribute of that name, or None."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def level_codes(self) -> dict[str, dict[str, int]]:
        """The code of each declared level of each categorical attribute. The table is made once."""
        return {
            attribute.name: {level: code for code, level in enumerate(attribute.levels)}
            for attribute in self.attributes
            if isinstance(attribute, CategoricalAttribute)
        }

    def differences(self, other: "Schema") -> list[str]:
        """Names whose meaning differs between the two schemas, descriptions aside; empty if none does."""
        mine, theirs = (
            {a.name: msgspec.structs.replace(a, description="") for a in s.attributes} for s in (self, other)
        )
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if (self.label, self.classes, self.label_bounds) != (other.label, other.classes, other.label_bounds):
            names.append(self.label)
        return names


def _check_texts(texts: tuple[str, ...], field: str) -> None:
    """Raise ValueError for a text that no record can match: records' texts are trimmed, and some mean missing."""
    for text in texts:
        if text != text.strip() or text in MISSING_TEXTS:
            raise ValueError(f"{field} {text!r} can never occur: it has outer spaces, or means a missing value")
