"""SVG in pixels and plain colours, for programs that draw or write and know less than a browser.

A page's pictures fill any width and follow the reader's theme: their places are percentages, their colours variables
of a style sheet. Programs of an office know neither. `plain_svg` resolves both: every place becomes a number of
pixels, every style a class with values, every group its shapes. What is left is paths, texts, rectangles and images.

The style sheets are our own. Selectors of elements and classes, beside and within each other, are understood; a rule
with another selector, or in a block with "@", is left out.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import NamedTuple
from xml.etree import ElementTree as ET

SVG = "http://www.w3.org/2000/svg"
FONTS = 'Arial, "Helvetica Neue", "Liberation Sans", "DejaVu Sans", "Noto Sans", sans-serif'
"""Fonts of a file: its reader's program may know none by the name sans-serif."""
WHITE = "#ffffff"

_INHERITED = (
    *("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin"),
    *("font-size", "font-weight", "text-anchor", "paint-order", "--c"),
)
_SINGLE = ("opacity", "vector-effect", "transform")
_PAINTS = ("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity")
_INITIAL = {"fill": "#000", "stroke": "none", "stroke-width": "1", "font-size": "16", "opacity": "1"}
_UNSEEN = frozenset({"title", "desc", "style", "defs", "symbol", "script"})
_TOKEN = re.compile(r"[A-Za-z]|[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold; a text may."""
_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}

Style = dict[str, str]


class Part(NamedTuple):
    """One step of a selector: an element's name ("" for any) and classes, and whether it is a child of the last."""

    tag: str
    classes: frozenset[str]
    child: bool

    def fits(self, tag: str, classes: frozenset[str]) -> bool:
        """Whether an element has the name and the classes."""
        return self.tag in {"", tag} and self.classes <= classes


class Rule(NamedTuple):
    """Declarations for what a selector fits; of two rules the one with the larger `weight` holds, then the later."""

    parts: tuple[Part, ...]
    weight: tuple[int, int]
    style: Style

    def fits(self, path: tuple[tuple[str, frozenset[str]], ...]) -> bool:
        """Whether it fits the last element of a path from the root, whose elements are (name, classes)."""
        return _fits(self.parts, path)


def _fits(parts: tuple[Part, ...], path: tuple[tuple[str, frozenset[str]], ...]) -> bool:
    if not path or not parts[-1].fits(*path[-1]):
        return False
    if len(parts) == 1:
        return True
    ends = [len(path) - 1] if parts[-1].child else range(len(path) - 1, 0, -1)
    return any(_fits(parts[:-1], path[:end]) for end in ends)


@dataclass(frozen=True)
class Sheet:
    """The rules of a style sheet for a light page, and its variables."""

    rules: tuple[Rule, ...]
    variables: Mapping[str, str]

    @classmethod
    def of(cls, text: str, **variables: str) -> "Sheet":
        """Read a style sheet; `variables` (with _ for -) replace its own."""
        text = re.sub(r"/\*.*?\*/|@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", text, flags=re.DOTALL)
        text = re.sub(r"light-dark\(([^,()]+),[^()]+\)", r"\1", text)
        rules: list[Rule] = []
        values: Style = {}
        for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text):
            style = _declarations(body)
            for selector in selectors.split(","):
                if selector.strip() == ":root":
                    values |= style
                elif parts := _parts(selector):
                    weight = sum(len(part.classes) for part in parts), sum(bool(part.tag) for part in parts)
                    rules.append(Rule(parts, weight, style))
        values |= {f"--{name.replace('_', '-')}": value for name, value in variables.items()}
        return cls(tuple(sorted(rules, key=lambda rule: rule.weight)), values)

    def style(self, path: tuple[tuple[str, frozenset[str]], ...], element: ET.Element, above: Style) -> Style:
        """The style of an element, its last in the path, below one of a style."""
        style = {name: value for name, value in above.items() if name in _INHERITED}
        style |= {name: element.attrib[name] for name in (*_INHERITED, *_SINGLE) if name in element.attrib}
        for rule in self.rules:
            if rule.fits(path):
                style |= rule.style
        variables = {**self.variables, **style}
        return {name: re.sub(r"var\((--[\w-]+)\)", lambda match: variables[match[1]], style[name]) for name in style}


def _declarations(body: str) -> Style:
    """The declarations of a rule that matter here; a font becomes its size and weight."""
    style: Style = {}
    for declaration in body.split(";"):
        name, _, value = (text.strip() for text in declaration.partition(":"))
        if name == "font" and (font := re.match(r"(?:(\d+)\s+)?([\d.]+)px", value)):
            style |= {"font-weight": font[1] or "400", "font-size": font[2]}
        elif name.startswith("--") or name in _INHERITED or name in _SINGLE:
            style[name] = value.removesuffix("px") if name in {"font-size", "stroke-width"} else value
    return style


def _parts(selector: str) -> tuple[Part, ...]:
    """The steps of a selector; none if it is not understood."""
    parts = []
    child = False
    for step in selector.replace(">", " > ").split():
        if step == ">":
            child = True
        elif match := re.fullmatch(r"([a-z]*)((?:\.[\w-]+)*)", step):
            parts.append(Part(match[1], frozenset(filter(None, match[2].split("."))), child))
            child = False
        else:
            return ()
    return tuple(parts)


@dataclass(frozen=True)
class Frame:
    """Where an element stands: the size that its percentages are of, and its scale and shift to the file's pixels."""

    width: float
    height: float
    sx: float = 1.0
    sy: float = 1.0
    dx: float = 0.0
    dy: float = 0.0

    def x(self, value: float) -> float:
        """A place from the left of the file."""
        return self.dx + self.sx * value

    def y(self, value: float) -> float:
        """A place from the top of the file."""
        return self.dy + self.sy * value

    def moved(self, dx: float, dy: float, sx: float = 1.0, sy: float = 1.0) -> "Frame":
        """The frame of what is shifted, and then scaled, within this one."""
        return replace(self, dx=self.x(dx), dy=self.y(dy), sx=self.sx * sx, sy=self.sy * sy)

    def transformed(self, text: str) -> "Frame":
        """The frame of what has a `transform` of shifts and scales."""
        frame = self
        for name, words in re.findall(r"(\w+)\(([^)]*)\)", text):
            values = [float(word.removesuffix("px")) for word in re.split(r"[\s,]+", words.strip())]
            if name == "translate":
                frame = frame.moved(values[0], values[1] if len(values) > 1 else 0.0)
            elif name in {"scale", "scaleX", "scaleY"}:
                frame = frame.moved(0, 0, *_scales(name, values))
        return frame

    def within(self, element: ET.Element) -> "Frame":
        """The frame of what is in an inner `svg` element."""
        width, height = self.across(element, "width", "100%"), self.down(element, "height", "100%")
        frame = replace(self.moved(self.across(element, "x"), self.down(element, "y")), width=width, height=height)
        if not (box := element.get("viewBox")):
            return frame
        left, top, wide, tall = map(float, box.split())
        sx, sy = width / wide, height / tall
        if element.get("preserveAspectRatio") != "none":
            scale = min(sx, sy)
            frame = frame.moved((width - scale * wide) / 2, (height - scale * tall) / 2)
            sx = sy = scale
        return replace(frame.moved(-left * sx, -top * sy, sx, sy), width=wide, height=tall)

    def across(self, element: ET.Element, name: str, default: str = "0") -> float:
        """A horizontal attribute as a number."""
        return _length(element.get(name, default), self.width)

    def down(self, element: ET.Element, name: str, default: str = "0") -> float:
        """A vertical attribute as a number."""
        return _length(element.get(name, default), self.height)


def _scales(name: str, values: list[float]) -> tuple[float, float]:
    if name == "scale":
        return values[0], values[-1]
    return (values[0], 1.0) if name == "scaleX" else (1.0, values[0])


def _length(text: str, of: float) -> float:
    return float(text[:-1]) / 100 * of if text.endswith("%") else float(text.removesuffix("px"))


def _number(value: float) -> str:
    text = f"{value:.1f}".rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def moved_path(path: str, frame: Frame) -> str:
    """Return the data of a path with its places in the file's pixels, all absolute or relative as before."""
    tokens = _TOKEN.findall(path)
    written: list[str] = []
    at = 0
    command = ""
    while at < len(tokens):
        if tokens[at].isalpha():
            command = tokens[at]
            at += 1
        count = _ARGUMENTS[command.upper()]
        values = [float(token) for token in tokens[at : at + count]]
        at += count
        written.append(command + " ".join(map(_number, _moved(command, values, frame))))
    return "".join(written)


def _moved(command: str, values: list[float], frame: Frame) -> Iterator[float]:
    dx, dy = (0.0, 0.0) if command.islower() else (frame.dx, frame.dy)
    kind = command.upper()
    if kind == "A":
        # Radii are rounded down: one too small for its ends is enlarged, one too large makes a bulge of a circle.
        radii = (
            math.floor(10 * abs(scale) * radius + 1e-6) / 10
            for scale, radius in zip((frame.sx, frame.sy), values, strict=False)
        )
        flags = values[2:5]
        yield from (*radii, *flags, dx + frame.sx * values[5], dy + frame.sy * values[6])
        return
    for n, value in enumerate(values):
        upright = kind == "V" or (kind != "H" and n % 2 == 1)
        yield dy + frame.sy * value if upright else dx + frame.sx * value


class _Writer:
    """Writes an SVG tree's shapes one after the other, and collects their styles."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.classes: dict[str, str] = {}

    def walk(
        self, element: ET.Element, frame: Frame, above: Style, path: tuple[tuple[str, frozenset[str]], ...]
    ) -> Iterator[ET.Element]:
        """Yield the shapes of an element, from the back to the front."""
        tag = element.tag.rpartition("}")[2]
        if tag in _UNSEEN:
            return
        path = (*path, (tag, frozenset(element.get("class", "").split())))
        style = self.sheet.style(path, element, above)
        frame = frame.transformed(style.pop("transform", ""))
        if tag == "svg" and len(path) > 1:
            frame = frame.within(element)
        shape = self.shape(tag, element, frame)
        if shape is not None:
            if (
                tag == "text" and "paint-order" in style
            ):  # few programs know the order, so the edge is a text of its own
                edge = ET.Element(
                    "text", {**shape.attrib, "aria-hidden": "true", "class": self.name("edge", style, frame)}
                )
                edge.text = shape.text
                yield edge
            if name := self.name(tag, style, frame):
                shape.set("class", name)
            yield shape
            return
        for inner in element:
            yield from self.walk(inner, frame, style, path)

    def shape(self, tag: str, element: ET.Element, frame: Frame) -> ET.Element | None:
        """The shape of an element in the file's pixels; None for a group."""
        x, y = (frame.x(frame.across(element, "x")), frame.y(frame.down(element, "y")))
        match tag:
            case "line":
                first = frame.x(frame.across(element, "x1")), frame.y(frame.down(element, "y1"))
                last = frame.x(frame.across(element, "x2")), frame.y(frame.down(element, "y2"))
                return ET.Element("path", d="M{} {}L{} {}".format(*map(_number, (*first, *last))))
            case "path":
                return ET.Element("path", d=moved_path(element.get("d", ""), frame))
            case "rect" | "image":
                size = frame.across(element, "width") * frame.sx, frame.down(element, "height") * frame.sy
                places = dict(zip(("x", "y", "width", "height"), map(_number, (x, y, *size)), strict=True))
                kept = {
                    name: element.attrib[name]
                    for name in ("rx", "href", "preserveAspectRatio")
                    if name in element.attrib
                }
                return ET.Element(tag, places | kept)
            case "text":
                shape = ET.Element("text", x=_number(x), y=_number(y))
                shape.text = (element.text or "") + "".join(inner.tail or "" for inner in element)
                return shape
        return None

    def name(self, tag: str, style: Style, frame: Frame) -> str:
        """The class of a shape's style; "" if it needs none."""
        if tag == "image":
            return ""
        rules = {name: style[name] for name in _PAINTS if style.get(name, _INITIAL.get(name)) != _INITIAL.get(name)}
        if tag in {"text", "edge"}:
            letters = {"font-size": f"{style.get('font-size', '16')}px"}
            letters |= {name: style[name] for name in ("font-weight", "text-anchor") if name in style}
            letters = {name: value for name, value in letters.items() if value not in {"400", "start"}}
            edge = ("stroke", "stroke-width", "stroke-linejoin")
            rules = {name: style[name] for name in (edge if tag == "edge" else ("fill",)) if name in style} | letters
        elif "stroke" in rules:
            scale = 1.0 if style.get("vector-effect") == "non-scaling-stroke" else math.sqrt(abs(frame.sx * frame.sy))
            width = float(style.get("stroke-width", "1")) * scale
            rules |= {"stroke-width": _number(width)}
            if "stroke-dasharray" in rules and rules["stroke-dasharray"] != "none":
                dashes = (float(dash) * scale for dash in re.split(r"[\s,]+", rules["stroke-dasharray"]))
                rules["stroke-dasharray"] = " ".join(map(_number, dashes))
        else:
            rules = {name: value for name, value in rules.items() if not name.startswith("stroke")}
        text = ";".join(f"{name}:{value}" for name, value in rules.items())
        return self.classes.setdefault(text, _letters(len(self.classes))) if text else ""


def _letters(number: int) -> str:
    """The class of a number: a to z, then aa and so on."""
    first, last = divmod(number, len(ascii_lowercase))
    return (_letters(first - 1) if first else "") + ascii_lowercase[last]


def _joined(shapes: Iterable[ET.Element]) -> Iterator[ET.Element]:
    """Yield the shapes; straight lines of one style that follow each other become one path."""
    last = None
    for shape in shapes:
        straight = shape.tag == "path" and re.fullmatch(r"M[^A-Z]*L[^A-Z]*", shape.get("d", ""))
        if straight and last is not None and last.get("class") == shape.get("class"):
            last.set("d", last.get("d", "") + shape.get("d", ""))
        else:
            last = shape if straight else None
            yield shape


def parsed(text: str) -> ET.Element:
    """Read our own XML, whose texts may hold characters that XML does not allow."""
    return ET.fromstring(_NO_CHARACTER.sub("\ufffd", text))  # noqa: S314 - our own, and no entities


def plain_svg(text: str, sheet: Sheet) -> str:
    """Return an SVG file with the same picture in pixels, on white.

    Args:
        text: an SVG file of known width and height, with XML's rules.
        sheet: the style of its classes.
    """
    source = parsed(text)
    width, height = float(source.get("width", "0")), float(source.get("height", "0"))
    writer = _Writer(sheet)
    shapes = list(writer.walk(source, Frame(width, height), {}, ()))
    box = f"0 0 {_number(width)} {_number(height)}"
    root = ET.Element("svg", xmlns=SVG, width=_number(width), height=_number(height), viewBox=box, role="img")
    root.set("font-family", FONTS)
    ET.SubElement(root, "title").text = source.findtext(f"{{{SVG}}}title")
    ET.SubElement(root, "style").text = "".join(f".{name}{{{rules}}}" for rules, name in writer.classes.items())
    root.extend(_joined(shapes))
    for element in root:
        element.tail = "\n"
    return ET.tostring(root, encoding="unicode").replace(" />", "/>") + "\n"
