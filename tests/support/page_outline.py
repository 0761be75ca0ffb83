"""Pages as a browser would see them."""

import re
from html.parser import HTMLParser


class Outline(HTMLParser):
    """Elements, table rows and visible words of a page; checks that tags are balanced.

    What is in a `template` is no part of the page.
    """

    VOID = frozenset({"meta", "img", "br", "link", "input", "hr", "wbr"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.words, self.rows = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if "template" not in self.open:
            self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append((dict(attrs).get("class", ""), []))
        elif tag in ("th", "td"):
            self.rows[-1][1].append("")

    def handle_startendtag(self, tag, attrs):
        if "template" not in self.open:
            self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"style", "script", "template"} & set(self.open):
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][1][-1] += data

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)
